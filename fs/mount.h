/*
 * A tree as a mounted filesystem. Implemented over libfuse3 by fs/fuse_*.c, or by fs/mount_stub.c
 * where the build has no libfuse.
 */
#ifndef TM_FS_MOUNT_H
#define TM_FS_MOUNT_H

#include "fs/tree.h"

typedef struct tm_mount tm_mount;

typedef struct tm_mount_params {
    tm_tree *tree; /* outlives the mount */
    const char *mountpoint;
    const char *fsname; /* what `mount` and `df` show: no secrets */
    bool allow_other;
    bool noexec;         /* no mapping of a file may be executed */
    unsigned threads;    /* that take requests; 0: a default */
    uint64_t timeout_ns; /* a read's deadline; 0: none */
} tm_mount_params;

/* Mounts. From here on the kernel sends requests; they are answered once tm_mount_serve() runs. */
TM_MUST_CHECK int tm_mount_new(const tm_mount_params *params, tm_req *req, tm_mount **ret);
/* Answers requests until it is unmounted, or a signal (HUP, INT, TERM) ends it. */
TM_MUST_CHECK int tm_mount_serve(tm_mount *mount, tm_req *req);
/* Unmounts, if it still is mounted, and ends what is under way. */
void tm_mount_free(tm_mount *mount);

/* What follows touches mounts of ours alone. A mount point may be given by any path that leads to
 * it, links included. */

/* A mount whose daemon died ("Transport endpoint is not connected") is unmounted; true where that
 * was so. */
bool tm_mount_clear_stale(const char *mountpoint);
/* -EBUSY with words where a mount of ours stands: a second one would only cover it. */
TM_MUST_CHECK int tm_mount_check_free(const char *mountpoint, tm_req *req);
/* Unmounts, as root or through fusermount3, and waits for it; words in REQ. */
TM_MUST_CHECK int tm_mount_unmount(const char *mountpoint, tm_req *req);

/* Whether this build can mount, for words. */
bool tm_mount_is_built(void);

#endif
