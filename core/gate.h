/*
 * A gate: so many pieces of work at once that hold memory of their own, however many are asked for.
 * The others wait without a thread, the highest lane first, then the first to come. Any thread.
 *
 * Some room is spared for the lanes that somebody waits in, so that they never stand behind work
 * that takes long and nobody needs now.
 */
#ifndef TM_CORE_GATE_H
#define TM_CORE_GATE_H

#include <pthread.h>

#include "core/pool.h"

/* Embedded in the work. JOB runs on the gate's pool once it is let in. */
typedef struct tm_pass {
    tm_job job;
    /* The gate's own: */
    struct tm_pass *prev, *next;
    bool waiting;
} tm_pass;

typedef struct tm_gate {
    tm_pool *pool;
    pthread_mutex_t lock; /* guards what follows; before the pool's */
    unsigned limit, spared, inside;
    tm_pass lanes[TM_LANE_COUNT]; /* list heads */
} tm_gate;

/* At most LIMIT at once, of which SPARED (fewer) are for VISIBLE and the lanes above it. */
void tm_gate_init(tm_gate *gate, tm_pool *pool, unsigned limit, unsigned spared);
void tm_gate_done(tm_gate *gate); /* nobody waits or is inside */

void tm_gate_enter(tm_gate *gate, tm_pass *pass);
/* True where PASS was still waiting: its job will not run, and it is not inside. */
bool tm_gate_withdraw(tm_gate *gate, tm_pass *pass);
/* PASS, where its job does not run yet, is wanted in LANE, if that is a higher one. */
void tm_gate_hurry(tm_gate *gate, tm_pass *pass, tm_lane lane);
/* Work that was let in has ended. */
void tm_gate_leave(tm_gate *gate);

#endif
