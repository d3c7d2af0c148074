/*
 * Passthrough: an open file whose reads the kernel answers from the source itself. The kernel wants
 * one backing id for all open files of an inode, so ids are shared while any of them is open.
 */
#ifndef TM_FS_FUSE_BACKING_H
#define TM_FS_FUSE_BACKING_H

#include "fs/fuse_ops.h"

/* Sets up FI where HANDLE's bytes are a local file and passthrough is to be had, and records in the
 * tree which way its raw bytes go. An error only where passthrough was asked for by name. */
TM_MUST_CHECK int tm_backing_open(tm_fuse *fuse, fuse_req_t req, fuse_ino_t ino, tm_handle *handle,
                                  struct fuse_file_info *fi);
void tm_backing_close(tm_fuse *fuse, fuse_ino_t ino, tm_handle *handle);
/* At the mount's end, when the kernel has given up its side of all. */
void tm_backing_free_all(tm_fuse *fuse);

#endif
