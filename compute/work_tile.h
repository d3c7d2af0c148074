/*
 * A tile that is made by work over a tensor: let in by the scans' gate, so that however many are
 * asked for only some hold memory at once, and cancelled when nobody waits any more, let in or not.
 * What the work is stands in OPS.
 */
#ifndef TM_COMPUTE_WORK_TILE_H
#define TM_COMPUTE_WORK_TILE_H

#include "core/sched.h"
#include "core/store.h"
#include "core/tensor.h"

/* Which tensor: GROUP, ITEM and PART as in keys. Any dtype but F6 and C64. */
typedef struct tm_tile_source {
    tm_store *store;
    tm_sched *sched;
    tm_tensor *tensor; /* a tile that is made keeps a reference */
    uint32_t group, item;
    uint16_t part; /* of fused experts: which, plus one */
} tm_tile_source;

typedef struct tm_work_tile tm_work_tile;

typedef struct tm_work_ops {
    /* Allocates what the work needs. The tile's lock is held. */
    int (*prepare)(tm_work_tile *work);
    /* Begins it; tm_work_tile_end() follows, from any thread, maybe before this returns. */
    void (*go)(tm_work_tile *work);
    /* Has it end soon, with -EINTR. The lock is held; it has been prepared. */
    void (*stop)(tm_work_tile *work);
    /* Its lane is a higher one now. Likewise; it may have ended. Optional. */
    void (*hurry)(tm_work_tile *work);
    /* Gives up what it has made, or half made. */
    void (*forget)(tm_work_tile *work);
    /* Frees WORK; what the base holds is done by then. */
    void (*free)(tm_work_tile *work);
} tm_work_ops;

/* Embedded. LIKE: SOURCE, LANE and OPS are set. */
struct tm_work_tile {
    tm_tile tile;
    tm_tile_source source; /* its tensor referenced */
    const tm_work_ops *ops;
    tm_pass pass;
    pthread_mutex_t lock; /* guards what follows, and what ops say */
    tm_lane lane;         /* of the work: the highest of those who have asked */
    bool cancelled, prepared;
};

/* The tile as WORK. */
tm_work_tile *tm_work_of(const tm_tile *tile);

/* Makes a copy, whose source, lane and ops are set already, a tile. */
void tm_work_tile_init(tm_work_tile *work);

/* The work has ended: 0 with BYTES that the tile takes, or an error with words. */
void tm_work_tile_end(tm_work_tile *work, int rc, const char *words, size_t bytes);

#endif
