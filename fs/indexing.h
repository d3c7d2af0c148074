/*
 * Making the index files of a checkpoint: every counted tensor of its shards is scanned once, and
 * what is found goes to the shard's index (docs/index-format.md). What an earlier run has done is
 * kept, also one that was interrupted.
 */
#ifndef TM_FS_INDEXING_H
#define TM_FS_INDEXING_H

#include "fs/session.h"

typedef struct tm_indexing_report {
    uint32_t shards, made;   /* that have tensors, of this part; and those whose index is new */
    uint32_t tensors;        /* counted, of this part */
    uint64_t bytes, scanned; /* of these; and of those that were scanned now */
    uint32_t damaged;        /* shards that are damaged or missing */
} tm_indexing_report;

/* One of several parts of all that is indexed, checkpoint after checkpoint: each shard goes to the
 * part that has least by then. */
typedef struct tm_indexing_parts {
    unsigned part, parts; /* PART of PARTS, from 1 */
    uint64_t *loads;      /* [parts] bytes; 0 at first */
} tm_indexing_parts;

typedef struct tm_indexing_params {
    tm_session *session;
    tm_mounted *mounted;      /* a checkpoint */
    bool pyramids;            /* levels of detail too */
    tm_indexing_parts *parts; /* NULL: all of it */
    tm_lane lane;
    /* Now and then, from this thread: how many of the bytes are done. NULL: not wanted. */
    void (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
} tm_indexing_params;

/* Waits until all is done. -EINTR soon after REQ was cancelled: what is done is kept. The first
 * failure of a shard is REQ's, after the others were tried. */
TM_MUST_CHECK int tm_indexing_run(const tm_indexing_params *params, tm_req *req,
                                  tm_indexing_report *ret);

#endif
