/*
 * Bytes of a known size that are made once, when first read, by a function that may wait for I/O.
 *
 * It runs on an opener thread, once however many readers there are; a failure is told to those who
 * wait and tried again by the next.
 */
#ifndef TM_CORE_BLOB_LAZY_H
#define TM_CORE_BLOB_LAZY_H

#include "core/blob.h"

typedef struct tm_lazy_params {
    tm_sched *sched;
    uint64_t key; /* what MAKE may have to wait for: tm_job.key */
    uint64_t size;
    /* Makes exactly SIZE bytes, malloc'ed. Words in REQ, which is cancelled when nobody waits. */
    int (*make)(void *ctx, tm_req *req, void **ret);
    void *ctx;
    void (*free_ctx)(void *ctx); /* may be NULL */
} tm_lazy_params;

/* Takes CTX, on failure too. */
TM_MUST_CHECK int tm_blob_lazy_new(const tm_lazy_params *params, tm_blob **ret);

#endif
