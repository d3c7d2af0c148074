/*
 * Raw bytes handed to the kernel from the mapped file: no copy of ours. Only what the page cache
 * holds goes this way, so that no thread waits for a disk; the rest is read as any blob is.
 *
 * A few windows of files are mapped at a time, so that page tables do not grow with the model, and
 * what nobody reads for some seconds is unmapped: a mapping keeps a deleted file's space. The
 * daemon never touches the mapped bytes itself: a file cut short under it makes the reply fail in
 * the kernel (EFAULT, the reader sees EIO) and is no SIGBUS. Any thread.
 */
#ifndef TM_FS_FUSE_MAPPED_H
#define TM_FS_FUSE_MAPPED_H

#include "core/file.h"
#include "fs/fuse_compat.h"

typedef struct tm_mapped tm_mapped;

TM_MUST_CHECK int tm_mapped_new(tm_mapped **ret);
void tm_mapped_free(tm_mapped *mapped);

/*
 * Replies to REQ with bytes [off, off + len) of FILE, which is open as FD, and returns true; false
 * where it may not be mapped (tm_file_may_map),
 * where they are not all in memory or FILE has changed: nothing was replied.
 */
bool tm_mapped_reply(tm_mapped *mapped, fuse_req_t req, tm_file *file, int fd, uint64_t off,
                     size_t len);

#endif
