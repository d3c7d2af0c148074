/*
 * A blob: lazily readable bytes whose size is known exactly before any read.
 *
 * A blob does not read: it plans (see core/plan.h). A leaf (a file, a URL) adds fetches of its own
 * bytes; what stands over others (a slice, a view) passes on or adds runs that compute from what
 * was fetched. Nothing here waits, so any thread may plan.
 *
 * Constant once built; shared by reference count; any thread may use it.
 */
#ifndef TM_CORE_BLOB_H
#define TM_CORE_BLOB_H

#include <stdatomic.h>

#include "core/base.h"

typedef struct tm_file tm_file;
typedef struct tm_fetch tm_fetch;

/* Where in a local file the bytes of a blob stand as they are. */
typedef struct tm_extent {
    tm_file *file; /* borrowed from the blob */
    uint64_t off;
} tm_extent;

typedef struct tm_blob_ops {
    const char *kind; /* required: for words and tables */

    /* Adds to PLAN what makes DST hold bytes [off, off + len), a range within size. DST stays valid
     * until the plan has been carried out. Required, but for a leaf. */
    int (*plan)(tm_blob *blob, tm_plan *plan, uint64_t off, size_t len, uint8_t *dst);

    /* Leaves only, all three. fetch_now: 0 where the bytes are at hand and were copied to DST;
     * -EAGAIN where that would mean to wait; else an error, with words in REQ. fetch_start: takes
     * FETCH and calls tm_fetch_done() once, later, from another thread. fetch_cancel: true where
     * FETCH was taken back: tm_fetch_done() will not be called. A DST of NULL asks for the bytes
     * to be at hand later: none are copied. */
    int (*fetch_now)(tm_blob *blob, uint64_t off, size_t len, void *dst, tm_req *req);
    void (*fetch_start)(tm_blob *blob, tm_fetch *fetch);
    bool (*fetch_cancel)(tm_blob *blob, tm_fetch *fetch);

    /* Optional: true where the range stands in a local file byte for byte. */
    bool (*locate)(tm_blob *blob, uint64_t off, uint64_t len, tm_extent *ret);

    /* Optional, both: keep open what the blob reads from, so that a source that is replaced
     * meanwhile still gives the old bytes. -EINPROGRESS where REQ may not block and it would. */
    int (*hold)(tm_blob *blob, tm_req *req);
    void (*unhold)(tm_blob *blob);

    void (*free)(tm_blob *blob); /* required */
} tm_blob_ops;

struct tm_blob {
    const tm_blob_ops *ops;
    atomic_uint refs;
    uint64_t size;
    size_t window; /* the most bytes one plan should cover; 0: any */
};

/* For implementations: sets the fields, one reference. */
void tm_blob_init(tm_blob *blob, const tm_blob_ops *ops, uint64_t size);

tm_blob *tm_blob_ref(tm_blob *blob);
tm_blob *tm_blob_unref(tm_blob *blob); /* accepts NULL; returns NULL */
void tm_blob_unrefp(tm_blob **blob);   /* for TM_AUTO */

TM_MUST_CHECK int tm_blob_plan(tm_blob *blob, tm_plan *plan, uint64_t off, size_t len, void *dst);
bool tm_blob_locate(tm_blob *blob, uint64_t off, uint64_t len, tm_extent *ret);
/* Each hold that succeeds is undone by one unhold; one that fails holds nothing. */
TM_MUST_CHECK int tm_blob_hold(tm_blob *blob, tm_req *req);
void tm_blob_unhold(tm_blob *blob);

/* A copy of BYTES. */
TM_MUST_CHECK int tm_blob_mem_new(const void *bytes, size_t len, tm_blob **ret);
/* BYTES are malloc'ed; the blob takes them, on failure too. */
TM_MUST_CHECK int tm_blob_mem_take(void *bytes, size_t len, tm_blob **ret);
/* Whether BLOB is one of these two: reading it never waits. */
bool tm_blob_in_memory(const tm_blob *blob);
/* Bytes [off, off + len) of BLOB. */
TM_MUST_CHECK int tm_blob_slice_new(tm_blob *blob, uint64_t off, uint64_t len, tm_blob **ret);
/* PARTS one after the other. */
TM_MUST_CHECK int tm_blob_concat_new(tm_blob *const *parts, size_t count, tm_blob **ret);

#endif
