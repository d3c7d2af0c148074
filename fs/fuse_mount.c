#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fs/fuse_backing.h"
#include "fs/fuse_ops.h"
#include "fs/mount.h"
#include "fs/mounts.h"

#define SUBTYPE "tmorph"

enum {
    THREADS_MIN = 4,
    THREADS_MAX = 16
};

struct tm_mount {
    tm_fuse fuse;
    unsigned threads;
    bool mounted, handles_signals;
};

bool tm_mount_is_built(void)
{
    return true;
}

/* Commas and backslashes would end the option. */
static void escape_option(const char *value, char *ret, size_t size)
{
    size_t at = 0;
    for (; *value && at + 3 < size; value++) {
        if (*value == ',' || *value == '\\')
            ret[at++] = '\\';
        ret[at++] = *value;
    }
    ret[at] = '\0';
}

static struct fuse_session *new_session(tm_mount *mount, const tm_mount_params *params)
{
    char fsname[1024], options[1200];
    escape_option(params->fsname, fsname, sizeof(fsname));
    snprintf(options, sizeof(options), "default_permissions,subtype=" SUBTYPE ",fsname=%s%s%s",
             fsname, params->allow_other ? ",allow_other" : "", params->noexec ? ",noexec" : "");
    char *argv[] = {(char *)"tmorph", (char *)"-o", options, NULL};
    struct fuse_args args = FUSE_ARGS_INIT(3, argv);
    struct fuse_session *session =
        fuse_session_new(&args, &tm_fuse_ops, sizeof(tm_fuse_ops), &mount->fuse);
    fuse_opt_free_args(&args);
    return session;
}

static unsigned default_threads(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores < THREADS_MIN ? THREADS_MIN : cores > THREADS_MAX ? THREADS_MAX : (unsigned)cores;
}

static int mount_it(tm_mount *mount, const tm_mount_params *params, tm_req *req)
{
    mount->fuse.session = new_session(mount, params);
    if (!mount->fuse.session)
        return tm_fail(req, EIO, "%s: libfuse refuses the mount's options", params->mountpoint);
    if (fuse_set_signal_handlers(mount->fuse.session) < 0)
        return tm_fail(req, EIO, "cannot set signal handlers");
    mount->handles_signals = true;
    errno = 0;
    if (fuse_session_mount(mount->fuse.session, params->mountpoint) < 0)
        return tm_fail(req, errno ? errno : EIO, "%s: cannot be mounted%s%s", params->mountpoint,
                       errno ? ": " : "", errno ? strerror(errno) : "");
    mount->mounted = true;
    return 0;
}

int tm_mount_new(const tm_mount_params *params, tm_req *req, tm_mount **ret)
{
    tm_mount *mount = TM_NEW(tm_mount);
    if (!mount)
        return tm_fail(req, ENOMEM, "out of memory");
    tm_fuse *fuse = &mount->fuse;
    fuse->tree = params->tree;
    fuse->timeout_ns = params->timeout_ns;
    fuse->uid = getuid();
    fuse->gid = getgid();
    mount->threads = params->threads ? params->threads : default_threads();
    pthread_mutex_init(&fuse->lock, NULL);
    tm_reads_init(&fuse->reads);
    int way = atomic_load(&params->tree->raw_way);
    if (way == TM_RAW_PASSTHROUGH && (!TM_FUSE_HAS_PASSTHROUGH || geteuid() != 0)) {
        tm_mount_free(mount);
        return tm_fail(req, EOPNOTSUPP, "raw=passthrough needs libfuse 3.17 and root");
    }
    int rc = way == TM_RAW_PREAD ? 0 : tm_mapped_new(&fuse->mapped);
    if (rc == 0)
        rc = mount_it(mount, params, req);
    if (rc < 0) {
        tm_mount_free(mount);
        return rc;
    }
    *ret = mount;
    return 0;
}

int tm_mount_serve(tm_mount *mount, tm_req *req)
{
    struct fuse_loop_config *config = fuse_loop_cfg_create();
    if (!config)
        return tm_fail(req, ENOMEM, "out of memory");
    fuse_loop_cfg_set_max_threads(config, mount->threads);
    fuse_loop_cfg_set_idle_threads(config, mount->threads);
    int rc = fuse_session_loop_mt(mount->fuse.session, config);
    fuse_loop_cfg_destroy(config);
    return rc < 0 ? tm_fail(req, -rc, "the mount ended: %s", strerror(-rc)) : 0;
}

void tm_mount_free(tm_mount *mount)
{
    if (!mount)
        return;
    if (mount->handles_signals)
        fuse_remove_signal_handlers(mount->fuse.session);
    tm_reads_cancel(&mount->fuse.reads); /* unmounting closes what replies are written to */
    if (mount->mounted)
        fuse_session_unmount(mount->fuse.session);
    tm_reads_finish(&mount->fuse.reads);
    tm_backing_free_all(&mount->fuse);
    if (mount->fuse.session)
        fuse_session_destroy(mount->fuse.session);
    tm_mapped_free(mount->fuse.mapped);
    tm_reads_done(&mount->fuse.reads);
    pthread_mutex_destroy(&mount->fuse.lock);
    free(mount);
}

/* ---- Unmounting ---- */

static int run_fusermount(const char *const argv[])
{
    pid_t pid = fork();
    if (pid == 0) {
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return -errno;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

static int unmount_once(const char *mountpoint, bool lazy)
{
    if (umount2(mountpoint, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0)
        return 0;
    if (errno != EPERM)
        return -errno;
    const char *const argv[] = {"fusermount3", lazy ? "-uz" : "-u", "--", mountpoint, NULL};
    return run_fusermount(argv);
}

/* MOUNTPOINT as the kernel's table has it, and the type of what is mounted there, NULL: nothing. */
static int look_up(const char *mountpoint, tm_req *req, char **ret_path, char **ret_type)
{
    TM_TRY(tm_mounts_resolve(mountpoint, req, ret_path));
    return tm_mounts_type(TM_MOUNTS_TABLE, *ret_path, req, ret_type);
}

static bool is_ours(const char *type)
{
    return type && strcmp(type, "fuse." SUBTYPE) == 0;
}

bool tm_mount_clear_stale(const char *mountpoint)
{
    TM_AUTO_FREE char *path = NULL;
    TM_AUTO_FREE char *type = NULL;
    if (look_up(mountpoint, NULL, &path, &type) < 0 || !is_ours(type))
        return false;
    /* Not stat(): the kernel may answer that from what it keeps. */
    TM_AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 && errno == ENOTCONN && unmount_once(path, true) == 0;
}

int tm_mount_check_free(const char *mountpoint, tm_req *req)
{
    TM_AUTO_FREE char *path = NULL;
    TM_AUTO_FREE char *type = NULL;
    /* Where this cannot be told, mounting says what is wrong. */
    if (look_up(mountpoint, NULL, &path, &type) < 0 || !is_ours(type))
        return 0;
    return tm_fail(req, EBUSY,
                   "%s: a tensormorph mount already: unmount it (tmorph umount %s), or add to it "
                   "(a line 'add NAME=/SOURCE' to %s/.tmorph/ctl)",
                   mountpoint, mountpoint, mountpoint);
}

int tm_mount_unmount(const char *mountpoint, tm_req *req)
{
    TM_AUTO_FREE char *path = NULL;
    TM_AUTO_FREE char *type = NULL;
    TM_TRY(look_up(mountpoint, req, &path, &type));
    if (!type && access(path, F_OK) < 0)
        return tm_fail(req, errno, "%s: %s", mountpoint, strerror(errno));
    if (type && !is_ours(type))
        return tm_fail(req, EINVAL,
                       "%s: mounted here is a filesystem of type %s, not a tensormorph mount",
                       mountpoint, type);
    int rc = type ? unmount_once(path, false) : -EINVAL;
    if (rc == -EBUSY)
        return tm_fail(req, EBUSY, "%s: in use (see: fuser -vm %s)", mountpoint, mountpoint);
    if (rc == -EINVAL)
        return tm_fail(req, EINVAL, "%s: not a mount point", mountpoint);
    return rc < 0 ? tm_fail(req, -rc, "%s: cannot be unmounted: %s", mountpoint, strerror(-rc)) : 0;
}
