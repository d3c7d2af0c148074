/*
 * An open file of the mount: its blob, how its bytes go, and the reads that are under way on it.
 *
 * The kernel does not tell of a killed reader whose pages were read ahead: only that its handle was
 * flushed. Then reads whose asking thread is gone are cancelled; a page that another reader waits
 * for is asked for anew by the kernel, so nobody is hurt.
 */
#ifndef TM_FS_FUSE_HANDLE_H
#define TM_FS_FUSE_HANDLE_H

#include "fs/fuse_mapped.h"
#include "fs/tree.h"

typedef struct tm_fuse tm_fuse;
typedef struct tm_handle tm_handle;

/* What is open and under way in the whole mount: it ends only when that has. */
typedef struct tm_reads {
    pthread_mutex_t lock; /* before a handle's */
    pthread_cond_t none;
    atomic_uint count;          /* requests under way */
    tm_handle *handles;         /* list of all */
    struct tm_waiting *waiting; /* list: see fs/fuse_waiting.h */
} tm_reads;

typedef struct tm_handle_params {
    tm_tree *tree;
    uint64_t ino;
    tm_mapped *mapped; /* NULL: not that way */
    tm_reads *reads;
    uint64_t timeout_ns;
    tm_open_file file; /* its reference is taken, on failure too; held (tm_blob_hold) */
} tm_handle_params;

TM_MUST_CHECK int tm_handle_new(const tm_handle_params *params, tm_handle **ret);
void tm_handle_free(tm_handle *handle);

/* Replies to REQ, now or later, with all bytes of the range that are within the file. */
void tm_handle_read(tm_handle *handle, fuse_req_t req, size_t size, off_t off);
/* Cancels what the thread PID, or a thread that is gone, has asked for. */
void tm_handle_flush(tm_handle *handle, pid_t pid);

/* The local file that the handle's bytes are, as they are; -1 where there is none. */
int tm_handle_fd(tm_handle *handle);
const tm_open_file *tm_handle_file(const tm_handle *handle);
int tm_handle_backing(const tm_handle *handle);
void tm_handle_set_backing(tm_handle *handle, int backing_id);

void tm_reads_init(tm_reads *reads);
void tm_reads_done(tm_reads *reads);
void tm_reads_begin(tm_reads *reads);
void tm_reads_end(tm_reads *reads);
/* Cancels what is under way, and returns when all of it has been answered: nothing writes to the
 * kernel any more. Threads that a source holds may still be at it. Nothing may begin any more. */
void tm_reads_cancel(tm_reads *reads);
/* Then waits for those too, and frees handles that the kernel never released. */
void tm_reads_finish(tm_reads *reads);

#endif
