/* A build without libfuse: everything but the mount. */
#include "fs/mount.h"

bool tm_mount_is_built(void)
{
    return false;
}

static int not_built(tm_req *req)
{
    return tm_fail(req, EOPNOTSUPP, "this tmorph was built without libfuse3 and cannot mount");
}

int tm_mount_new(const tm_mount_params *params, tm_req *req, tm_mount **ret)
{
    (void)params, (void)ret;
    return not_built(req);
}

int tm_mount_serve(tm_mount *mount, tm_req *req)
{
    (void)mount;
    return not_built(req);
}

void tm_mount_free(tm_mount *mount)
{
    (void)mount;
}

bool tm_mount_clear_stale(const char *mountpoint)
{
    (void)mountpoint;
    return false;
}

int tm_mount_check_free(const char *mountpoint, tm_req *req)
{
    (void)mountpoint, (void)req;
    return 0;
}

int tm_mount_unmount(const char *mountpoint, tm_req *req)
{
    (void)mountpoint;
    return not_built(req);
}
