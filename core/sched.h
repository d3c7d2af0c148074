/*
 * The threads of a process: workers that run kernels (and idlers, the same in the background), I/O
 * threads that wait for local disks, openers that may wait for a whole read (a header, a
 * fingerprint), and a clock that ends reads whose time is up. One per session.
 *
 * Who waits for whom: openers for I/O and workers, I/O threads for disks alone, workers for nobody.
 */
#ifndef TM_CORE_SCHED_H
#define TM_CORE_SCHED_H

#include <pthread.h>

#include "core/gate.h"

typedef struct tm_timer tm_timer;
typedef struct tm_prefetch tm_prefetch;

/* Embedded in what has a deadline. */
struct tm_timer {
    uint64_t deadline_ns;
    void (*expire)(tm_timer *timer); /* once or more, from the clock's thread; may not wait */
    tm_timer *prev, *next;           /* the clock's */
};

typedef struct tm_sched_params {
    unsigned workers; /* CPU threads; 0: as many as there are cores */
    unsigned io;      /* threads that may wait in a local read; 0: a default */
} tm_sched_params;

struct tm_sched {
    tm_pool *workers, *io, *openers;
    tm_pool *idlers; /* the workers of lane INDEX */
    tm_pool *near;   /* I/O threads of what is only to be near: they keep nobody from a disk */
    unsigned worker_count;
    tm_prefetch *prefetch;
    tm_gate scans;        /* what goes through whole tensors, with megabytes of its own */
    pthread_mutex_t lock; /* guards what follows; held while a timer expires */
    pthread_cond_t wake;
    pthread_t clock;
    tm_timer *timers; /* list */
    atomic_uint_fast64_t bytes[TM_LANE_COUNT];
    bool stopping;
};

TM_MUST_CHECK int tm_sched_new(const tm_sched_params *params, tm_sched **ret);
/* What each lane has had of all threads. */
typedef struct tm_lane_report {
    tm_pool_lane_counts jobs;
    uint64_t bytes; /* that its reads were answered */
} tm_lane_report;
void tm_sched_report(tm_sched *sched, tm_lane_report ret[TM_LANE_COUNT]);
/* BYTES went to a reader of LANE. */
void tm_sched_count(tm_sched *sched, tm_lane lane, uint64_t bytes);

/* The threads that compute for LANE: those of INDEX give way to everything else on the machine, so
 * that nobody waits for a block that one of them is in the midst of. */
tm_pool *tm_sched_workers(tm_sched *sched, tm_lane lane);

/* Every read must have ended. */
void tm_sched_free(tm_sched *sched);

/* Calls timer->expire() once its deadline has passed, until it is unwatched; when that returns, it
 * is not being called any more. */
void tm_sched_watch(tm_sched *sched, tm_timer *timer);
void tm_sched_unwatch(tm_sched *sched, tm_timer *timer);

#endif
