/*
 * What one read needs, as data: which bytes to fetch, which kernels to run on them, in order, and
 * which shared results to wait for first.
 *
 *     plan    a blob adds fetches, runs and waits; pure, no I/O, on any thread
 *     fetch   all of them at once, wherever they come from
 *     run     in the order they were added, when every fetch has arrived
 *
 * Where something must be waited for (tm_plan_wait), the rest of the plan does not matter: the read
 * waits and plans anew. A plan is used by one thread at a time; its memory lasts as long as it.
 */
#ifndef TM_CORE_PLAN_H
#define TM_CORE_PLAN_H

#include "core/blob.h"
#include "core/pool.h"

typedef struct tm_shared tm_shared;

/* One range of one leaf on its way to DST. */
struct tm_fetch {
    tm_blob *blob; /* a leaf, kept alive by the read's blob */
    uint64_t off;
    size_t len;
    uint8_t *dst; /* NULL: only to be at hand */
    tm_read *read;
    tm_fetch *next;
    bool finished; /* by fetch_now: nothing to start */
    bool withdrawn;
    /* For the leaf's use while it has the fetch: */
    tm_job job;
    tm_fetch *leaf_prev, *leaf_next;
    uint64_t leaf_word;
};

/* Computes one step; ARGS is the plan's own copy of what was given. Words in REQ. */
typedef int tm_run_fn(void *args, tm_req *req);

/* Returns memory that lasts as long as the plan (aligned to 64 bytes), NULL for want of it. */
void *tm_plan_scratch(tm_plan *plan, size_t bytes);

TM_MUST_CHECK int tm_plan_fetch(tm_plan *plan, tm_blob *leaf, uint64_t off, size_t len, void *dst);
TM_MUST_CHECK int tm_plan_run(tm_plan *plan, tm_run_fn *fn, const void *args, size_t args_bytes);
/* SHARED is not done yet: the read waits for it and plans again. Borrowed: who plans keeps it. */
TM_MUST_CHECK int tm_plan_wait(tm_plan *plan, tm_shared *shared);

/* RELEASE is called with OBJECT when the plan is forgotten; on failure at once. */
TM_MUST_CHECK int tm_plan_keep(tm_plan *plan, void *object, void (*release)(void *object));

/* The request that this plan serves. */
tm_req *tm_plan_req(tm_plan *plan);

/* ---- For core/read.c alone ---- */

typedef struct tm_run {
    tm_run_fn *fn;
    void *args;
    struct tm_run *next;
} tm_run;

/* One read's place in the line of those that wait for a shared result. */
typedef struct tm_wait {
    tm_shared *shared;
    tm_read *read;
    struct tm_wait *next;                  /* in the plan */
    struct tm_wait *line_prev, *line_next; /* in the line */
} tm_wait;

typedef struct tm_kept {
    void *object;
    void (*release)(void *object);
    struct tm_kept *next;
} tm_kept;

typedef struct tm_plan_chunk tm_plan_chunk;

struct tm_plan {
    tm_read *read;
    tm_req *req;
    tm_fetch *fetches, **fetch_tail;
    tm_run *runs, **run_tail;
    tm_wait *waits;
    tm_kept *kept;
    tm_plan_chunk *chunks; /* newest first */
    size_t chunk_used, chunk_size;
    _Alignas(64) char first[1024]; /* what most plans need */
};

void tm_plan_init(tm_plan *plan, tm_read *read, tm_req *req);
void tm_plan_reset(tm_plan *plan); /* forgets everything, gives back memory */

/* Forgets the steps alone, for a plan of the same anew. What was kept stays until tm_kept_release()
 * of what this returns: where the read waited for it, the new plan must find it. */
tm_kept *tm_plan_again(tm_plan *plan);
void tm_kept_release(tm_kept *kept);

#endif
