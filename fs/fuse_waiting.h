/*
 * Requests that are answered at once where nothing must be waited for, else once more by a thread
 * that may wait (an opener). There an interrupt or the time limit answers for it: whoever is first
 * to claim the request replies.
 */
#ifndef TM_FS_FUSE_WAITING_H
#define TM_FS_FUSE_WAITING_H

#include "fs/fuse_ops.h"

typedef struct tm_op tm_op;

struct tm_op {
    /* Claims the request and replies, or returns an error: of tm_op_claim() too. -EINPROGRESS where
     * it would have to wait and REQ may not. Uses FUSE_REQ in no other way than to reply: when it
     * cannot be claimed it is gone. */
    int (*run)(const tm_op *op, tm_req *req);
    tm_fuse *fuse;
    fuse_req_t fuse_req;
    fuse_ino_t ino;
    const char *bytes; /* a name, or what is written; copied where it is needed later */
    size_t len;
    uint64_t off;  /* where it is written; or a size */
    bool has_size; /* that is to be set */
    struct fuse_file_info fi;
    struct tm_waiting *waiting; /* set where it runs on an opener's thread */
};

void tm_op_start(const tm_op *op);

/* 0 where the caller is to reply, and nobody else will; else -EINTR: undo what the reply would have
 * told. */
TM_MUST_CHECK int tm_op_claim(const tm_op *op);
void tm_op_fail(const tm_op *op, int rc, const tm_req *req);

/* For the mount's end: nobody waits for the requests that are under way any more. */
void tm_waiting_cancel_all(struct tm_waiting *first);

#endif
