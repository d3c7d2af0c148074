/*
 * The tile store: what was computed once and stays while there is room for it.
 *
 * A tile is found by its key and made when a read first waits for it: its shared result
 * (core/shared.h) gives single flight, cancelling, and failures that are not remembered. Once made
 * it is resident: it stays, used or not, until others need its room. Then the tiles that nobody
 * uses go: first what has gone to the kernel's page cache, then the lowest lane, then the longest
 * unused.
 *
 * Any thread.
 */
#ifndef TM_CORE_STORE_H
#define TM_CORE_STORE_H

#include "core/shared.h"

typedef struct tm_store tm_store;
typedef struct tm_tile tm_tile;

/* What a tile is of. GROUP and ITEM are what tiles are dropped and counted by. */
typedef struct tm_tile_key {
    uint32_t group; /* a mounted source */
    uint32_t item;  /* a tensor of it */
    uint32_t kind;  /* what is computed of it */
    uint32_t part;  /* of what is computed: a level, a plane */
    uint64_t index; /* and where in it */
} tm_tile_key;

/* Embedded in what its maker keeps of it. */
struct tm_tile {
    tm_shared shared; /* plans poll it and wait for it */
    tm_tile_key key;
    /* The store's: */
    tm_store *store;
    void (*free)(tm_tile *tile);
    unsigned refs;
    bool resident, listed, delivered;
    tm_lane lane; /* the highest that has used it since it was made; before, the last to ask */
    size_t bytes;
    tm_tile *chain;         /* others of the same hash */
    tm_tile *older, *newer; /* while resident and unused */
};

TM_MUST_CHECK int tm_store_new(uint64_t budget, tm_store **ret);
/* No tile may be in use. */
void tm_store_free(tm_store *store);

/* Makes a tile that is not there: -ENOMEM, or *RET of tm_tile_init(). Called with the store's lock
 * held, so it only allocates. */
typedef int tm_tile_new_fn(const void *ctx, tm_tile **ret);

/* The tile of KEY, one reference; of a new one NEW_TILE (with CTX) makes the object, not its
 * content. LANE: who asks. */
TM_MUST_CHECK int tm_store_get(tm_store *store, const tm_tile_key *key, tm_lane lane,
                               tm_tile_new_fn *new_tile, const void *ctx, tm_tile **ret);
/* The tile of KEY if it is resident, referenced; NULL where it is not. It is no use of it. */
tm_tile *tm_store_peek(tm_store *store, const tm_tile_key *key);
tm_tile *tm_tile_ref(tm_tile *tile);
tm_tile *tm_tile_unref(tm_tile *tile); /* accepts NULL; returns NULL */

/* For makers. FREE frees TILE and what it holds, after tm_tile_done(). */
void tm_tile_init(tm_tile *tile, const tm_shared_ops *ops, void (*free)(tm_tile *tile));
void tm_tile_done(tm_tile *tile);
/* TILE's content is there, BYTES of it: before tm_shared_finish(…, 0, …). The maker holds a
 * reference meanwhile. */
void tm_tile_made(tm_tile *tile, size_t bytes);

/* What it was for is in the page cache now. */
void tm_tile_delivered(tm_tile *tile);

/* PLAN keeps the reference of TILE until it is carried out, or made anew. Takes it, on failure too.
 */
TM_MUST_CHECK int tm_plan_tile(tm_plan *plan, tm_tile *tile);

uint64_t tm_store_budget(tm_store *store);
void tm_store_set_budget(tm_store *store, uint64_t bytes);
/* Bytes resident. Above the budget only while tiles are in use. */
uint64_t tm_store_used(tm_store *store);
/* Forgets the tiles of GROUP; those in use go with their last user. */
void tm_store_drop(tm_store *store, uint32_t group);

/* Calls FN for each resident tile, in no order, with the store's lock held. */
typedef void tm_store_visit_fn(void *ctx, const tm_tile *tile);
void tm_store_each(tm_store *store, tm_store_visit_fn *fn, void *ctx);

#endif
