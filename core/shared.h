/*
 * A shared result: computed once, however many reads need it, and without a thread that waits.
 *
 * A plan asks tm_shared_poll(); where the answer is not there yet it adds tm_plan_wait() and the
 * read joins the line. The first in line starts the work; when the last one leaves, the work is
 * cancelled. A failure is told to those in line and not remembered: the next one starts anew.
 * Any thread. The owner outlives every reader and every call of finish; it calls init and done.
 */
#ifndef TM_CORE_SHARED_H
#define TM_CORE_SHARED_H

#include <pthread.h>

#include "core/plan.h"

/* Called one at a time, with no lock of ours but maybe those of reads that wait for the result. */
typedef struct tm_shared_ops {
    /* Begins the work, which ends in one tm_shared_finish(), from any thread. Required. */
    void (*start)(tm_shared *shared);
    /* Nobody waits any more: finish soon, with -EINTR. What has been started may have finished by
     * itself meanwhile; it has not been started again. Optional. */
    void (*cancel)(tm_shared *shared);
    /* One who reads in LANE joins those who wait. It may have finished meanwhile. Optional. */
    void (*hurry)(tm_shared *shared, tm_lane lane);
} tm_shared_ops;

typedef enum tm_shared_state {
    TM_SHARED_IDLE,
    TM_SHARED_RUNNING,
    TM_SHARED_CANCELLING,
    TM_SHARED_DONE,
} tm_shared_state;

struct tm_shared {
    const tm_shared_ops *ops;
    pthread_mutex_t lock; /* guards what follows; taken after a read's lock */
    tm_shared_state state;
    bool calling; /* a thread is in start or cancel, and will look at state and line again */
    tm_wait line; /* list head */
};

void tm_shared_init(tm_shared *shared, const tm_shared_ops *ops);
void tm_shared_done(tm_shared *shared);

/* 0 where the result is there, -EAGAIN where it must be waited for. */
TM_MUST_CHECK int tm_shared_poll(tm_shared *shared);
/* The end of the work: 0, or a negative errno with words. */
void tm_shared_finish(tm_shared *shared, int rc, const char *words);

/* ---- For core/read.c ---- */

/* False where the result is there already: WAIT is not in line. */
bool tm_shared_join(tm_shared *shared, tm_wait *wait);
/* True where WAIT was still in line. */
bool tm_shared_leave(tm_shared *shared, tm_wait *wait);

#endif
