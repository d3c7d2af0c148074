#include <stdio.h>

#include "fs/mount.h"
#include "tools/cmd.h"

static int run(const tm_cmd *cmd, int argc, char **argv)
{
    if (argc != 2 || argv[1][0] == '-')
        return tm_usage_error(cmd, "one mount point is needed");
    tm_req req;
    tm_req_init(&req, TM_LANE_SCALAR);
    int rc = tm_mount_unmount(argv[1], &req);
    /* Only then is the mount asked anything: its daemon may be stuck. */
    if (rc < 0 && tm_mount_clear_stale(argv[1])) {
        fprintf(stderr, "tmorph: %s: its daemon was gone; cleared\n", argv[1]);
        rc = 0;
    }
    return rc < 0 ? tm_complain("%s", tm_req_words(&req)) : TM_EXIT_GOOD;
}

const tm_cmd tm_cmd_umount = {
    .name = "umount",
    .usage = "MNT",
    .words = "unmount what tmorph mounted at MNT",
    .run = run,
};
