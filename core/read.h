/*
 * A read under way: plan, fetch, run, reply.
 *
 *     tm_read_go()     on the thread that asks: plans, copies what is in memory, runs what follows
 *                      and calls done(); where something must be waited for it hands the read to
 *                      the fetchers and returns, and done() comes from whichever thread finishes it
 *     tm_read_cancel() from any thread: done() follows soon with the code, even while a fetch that
 *                      cannot be taken back still runs (its buffer lives until it ends)
 *
 * done() is called exactly once. A long read of a blob with a window goes window by window.
 *
 * A read that is only near brings nothing: what its plan waits for is made, what it fetches is had
 * at hand (blob.h), and nothing is run.
 */
#ifndef TM_CORE_READ_H
#define TM_CORE_READ_H

#include <pthread.h>

#include "core/plan.h"
#include "core/sched.h"

typedef struct tm_read_params {
    tm_sched *sched;
    tm_blob *blob; /* the read keeps a reference */
    uint64_t off;  /* [off, off + len) within the blob */
    size_t len;
    void *dst; /* NULL: a buffer of the read's own; else cancelling waits until dst is free */
    bool near; /* its bytes are not wanted yet */
    tm_lane lane;
    uint64_t deadline_ns;                /* 0: none */
    void (*done)(tm_read *read, int rc); /* on success the bytes are in read->bytes */
    void *user;
} tm_read_params;

struct tm_read {
    tm_read_params params;
    tm_req req; /* its words, after a failure */
    uint8_t *bytes;

    /* The machine's own: */
    atomic_uint refs;
    pthread_mutex_t lock; /* guards plan and waiting between the machine and a cancel */
    bool waiting, watched;
    uint64_t pos;        /* bytes done */
    size_t window;       /* bytes that the plan covers */
    atomic_uint pending; /* arrivals to come, and one while they are being started */
    atomic_int arrived;  /* first error of an arrival */
    atomic_bool replied, cancel_sent;
    tm_job resume_job, cancel_job;
    tm_timer timer;
    tm_plan plan;
};

/* One reference, the caller's. */
TM_MUST_CHECK int tm_read_new(const tm_read_params *params, tm_read **ret);
tm_read *tm_read_ref(tm_read *read);
tm_read *tm_read_unref(tm_read *read); /* accepts NULL; returns NULL */

void tm_read_go(tm_read *read);
/* CODE is a positive errno. Never calls done() itself: that comes from a worker. */
void tm_read_cancel(tm_read *read, int code, const char *words);

/* Reads now, waiting as needed: for threads of which nobody waits (req->may_block). Ends soon after
 * REQ, or a request that it is a part of, is cancelled, or its deadline has passed. Words in REQ.
 */
TM_MUST_CHECK int tm_read_wait(tm_sched *sched, tm_blob *blob, uint64_t off, size_t len, void *dst,
                               tm_req *req);

/* For leaves: FETCH has ended. Not from within fetch_start. */
void tm_fetch_done(tm_fetch *fetch, int rc, const char *words);
/* For core/shared.c. */
void tm_read_arrived(tm_read *read, int rc, const char *words);

#endif
