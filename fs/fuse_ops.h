/* The requests of the kernel, answered from a tree. */
#ifndef TM_FS_FUSE_OPS_H
#define TM_FS_FUSE_OPS_H

#include "fs/fuse_handle.h"

struct tm_fuse {
    tm_tree *tree;
    struct fuse_session *session;
    tm_mapped *mapped; /* NULL: not that way */
    tm_reads reads;
    uint64_t timeout_ns;
    uid_t uid; /* the owner of everything */
    gid_t gid;
    atomic_bool passthrough; /* the kernel offers it, and has not refused it yet */

    bool demanded; /* raw=passthrough: no other way will do */

    pthread_mutex_t lock; /* guards backings */
    struct tm_backing *backings;
};

extern const struct fuse_lowlevel_ops tm_fuse_ops;

#endif
