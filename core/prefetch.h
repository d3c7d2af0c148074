/*
 * Bytes that somebody will probably want soon, brought near by reads that nobody waits for
 * (tm_read_params.near). They are hints: what fails, or is too much, is not done, and they cost who
 * asks nothing: a worker begins them. Any thread.
 */
#ifndef TM_CORE_PREFETCH_H
#define TM_CORE_PREFETCH_H

#include "core/follow.h"
#include "core/read.h"

typedef struct tm_prefetch tm_prefetch;

/* Bytes [off, off + len) of BLOB, in LANE but not above PREFETCH. OWNER is who foretells them, any
 * address: of its own asks the oldest are given up for the newest; where others have asked for too
 * much, one of a lower lane is. */
void tm_prefetch_ask(tm_sched *sched, const void *owner, tm_lane lane, tm_blob *blob, uint64_t off,
                     size_t len);
/* All of TOLD. */
void tm_prefetch_told(tm_sched *sched, const void *owner, tm_lane lane, tm_blob *blob,
                      const tm_foretold *told);
/* OWNER foretells no more. */
void tm_prefetch_cancel(tm_sched *sched, const void *owner);

/* ---- For core/sched.c ---- */

TM_MUST_CHECK int tm_prefetch_new(tm_prefetch **ret);
/* Gives up all asks, and waits for their ends; nothing that is asked from now on is done. */
void tm_prefetch_stop(tm_prefetch *prefetch);
/* Accepts NULL. It was stopped, if anything was asked. */
void tm_prefetch_free(tm_prefetch *prefetch);

#endif
