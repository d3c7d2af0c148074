/*
 * What is mounted where, by the kernel's table. Nothing here asks a mount anything, so that one
 * whose daemon is dead or stuck, or lets only another user in, is found like any other.
 */
#ifndef TM_FS_MOUNTS_H
#define TM_FS_MOUNTS_H

#include "core/req.h"

#define TM_MOUNTS_TABLE "/proc/self/mounts"

/* PATH from the root and without links, as the table has it, malloc'ed; its last component need not
 * exist. -ENOENT, -ELOOP and the like with words. */
TM_MUST_CHECK int tm_mounts_resolve(const char *path, tm_req *req, char **ret);

/* The type ("tmpfs", "fuse.tmorph") of what is mounted at POINT, a path as above, and not covered
 * by another mount there; malloc'ed, NULL where nothing is. TABLE is a file like TM_MOUNTS_TABLE.
 */
TM_MUST_CHECK int tm_mounts_type(const char *table, const char *point, tm_req *req, char **ret);

#endif
