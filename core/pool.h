/*
 * A pool of threads that takes jobs by lane: a job of a higher lane always goes first, jobs of one
 * lane in the order they came. The CPU workers and the threads that wait for disks are two of them.
 *
 * Any thread may call anything here. A job is embedded in what it works on; the pool allocates
 * nothing per job.
 */
#ifndef TM_CORE_POOL_H
#define TM_CORE_POOL_H

#include "core/req.h"

typedef struct tm_pool tm_pool;
typedef struct tm_job tm_job;

struct tm_job {
    void (*run)(tm_job *job); /* may free the job */
    tm_lane lane;
    uint64_t key; /* what it may have to wait for: a disk, a source; 0: nothing of that kind */
    /* The pool's own: */
    tm_job *prev, *next;
    struct key_use *held_by; /* NULL: in a lane */
    bool queued;
};

typedef struct tm_pool_params {
    const char *name;  /* of its threads, at most 15 bytes */
    unsigned threads;  /* at most; they are started as work comes */
    unsigned reserved; /* of them, those for lanes above VISIBLE; half of these for SCALAR alone,
                          and half as many again for VISIBLE and the lanes above it */
    unsigned per_key; /* the most that jobs of one key hold at once, of which RESERVED are spared in
                         the same way: one that hangs must not stop the others; 0: any */
    bool background;  /* they run only when nothing else on the machine would (SCHED_IDLE) */
} tm_pool_params;

typedef struct tm_pool_lane_counts {
    uint64_t queued, running, done;
} tm_pool_lane_counts;

TM_MUST_CHECK int tm_pool_new(const tm_pool_params *params, tm_pool **ret);
/* Waits until nothing is queued or runs; returns how many jobs have run so far. */
uint64_t tm_pool_drain(tm_pool *pool);
/* Runs what is queued and what that submits (nobody else does any more), joins the threads. */
void tm_pool_free(tm_pool *pool);

void tm_pool_submit(tm_pool *pool, tm_job *job);
/* True where JOB was still queued: it will not run. */
bool tm_pool_withdraw(tm_pool *pool, tm_job *job);

void tm_pool_counts(tm_pool *pool, tm_pool_lane_counts ret[TM_LANE_COUNT]);

#endif
