/*
 * Local files as sources: who they are, and one descriptor each, opened on demand.
 *
 * A file is known by (device, inode, size, mtime), taken when it is first seen. Whatever is read is
 * checked against that: another file under the same name, or one that was written to, is ESTALE and
 * never other bytes. Descriptors that nobody holds are kept in a least-recently-used list, so that
 * a checkpoint of any number of shards stays within the process's limit. Any thread.
 */
#ifndef TM_CORE_FILE_H
#define TM_CORE_FILE_H

#include "core/req.h"

typedef struct tm_file tm_file;
typedef struct tm_file_set tm_file_set; /* files that share a descriptor limit */

typedef struct tm_file_identity {
    uint64_t dev, ino, size;
    int64_t mtime_ns;
} tm_file_identity;

struct stat;
/* Of a folder the size is 0: it says nothing. */
tm_file_identity tm_file_identity_from(const struct stat *st);
bool tm_file_identity_equal(const tm_file_identity *a, const tm_file_identity *b);

TM_MUST_CHECK int tm_file_set_new(unsigned max_descriptors, tm_file_set **ret);
void tm_file_set_free(tm_file_set *set); /* every file must be gone */

/* Looks at PATH (links followed), which must be a regular file that can be read. May block. */
TM_MUST_CHECK int tm_file_new(tm_file_set *set, const char *path, tm_req *req, tm_file **ret);
/* What RC of tm_file_new(), with words in PART, means where a regular file was known at PATH: that
 * it is gone, or another one (-ESTALE), else RC. Words in REQ. */
int tm_file_fail_known(const char *path, int rc, const tm_req *part, tm_req *req);
tm_file *tm_file_ref(tm_file *file);
tm_file *tm_file_unref(tm_file *file);

const char *tm_file_path(const tm_file *file);
const tm_file_identity *tm_file_identity_of(const tm_file *file);

/* A descriptor to read from until tm_file_release(). May block. -ESTALE where PATH is now another
 * file, or none. With NOWAIT: -EAGAIN where it would have to be opened. */
TM_MUST_CHECK int tm_file_acquire(tm_file *file, bool nowait, tm_req *req, int *ret_fd);
void tm_file_release(tm_file *file);

/* Of an acquired file: whether it lies on this machine, so that to look at it (fstat, mincore)
 * never waits, and whether the kernel tells us which of its pages it holds. Since Linux 5.2
 * mincore() tells owners and root; to others every page is resident. */
bool tm_file_may_map(const tm_file *file);

/* -ESTALE where the file behind FD (acquired) was written to since it was first seen. */
TM_MUST_CHECK int tm_file_check(tm_file *file, int fd, tm_req *req);
/* Whether PATH still names the same, unchanged file. May block. */
bool tm_file_is_current(const tm_file *file);

/* Of the whole set: descriptors open now. */
unsigned tm_file_set_open_count(tm_file_set *set);

#endif
