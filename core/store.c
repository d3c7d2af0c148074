#include "core/store.h"

#include "core/hash.h"

enum {
    CHAINS_MIN = 256
};

/* Tiles that nobody uses, in the order in which they were used last. */
typedef struct idle_list {
    tm_tile *oldest, *newest;
} idle_list;

struct tm_store {
    pthread_mutex_t lock; /* guards all, tiles too; innermost */
    tm_tile **chains;     /* by hash; a power of two of them */
    size_t chain_count, tile_count;
    idle_list idle[2][TM_LANE_COUNT]; /* [0]: delivered to the page cache */
    uint64_t budget, used;
};

int tm_store_new(uint64_t budget, tm_store **ret)
{
    tm_store *store = TM_NEW(tm_store);
    if (!store)
        return -ENOMEM;
    store->chain_count = CHAINS_MIN;
    store->chains = tm_new_array(store->chain_count, sizeof(*store->chains));
    if (!store->chains) {
        free(store);
        return -ENOMEM;
    }
    store->budget = budget;
    pthread_mutex_init(&store->lock, NULL);
    *ret = store;
    return 0;
}

/* ---- Finding ---- */

static bool same_key(const tm_tile_key *a, const tm_tile_key *b)
{
    return a->group == b->group && a->item == b->item && a->kind == b->kind && a->part == b->part &&
           a->index == b->index;
}

static tm_tile **chain_of(const tm_store *store, const tm_tile_key *key)
{
    static_assert(sizeof(*key) == 24, "no padding, which would be hashed");
    return &store->chains[tm_hash64(key, sizeof(*key)) & (store->chain_count - 1)];
}

static tm_tile *find(const tm_store *store, const tm_tile_key *key)
{
    tm_tile *tile = *chain_of(store, key);
    while (tile && !same_key(&tile->key, key))
        tile = tile->chain;
    return tile;
}

/* As many chains as tiles, where memory allows; else longer chains. */
static void grow(tm_store *store)
{
    size_t count = store->chain_count * 2, old_count = store->chain_count;
    tm_tile **old = store->chains, **fresh = tm_new_array(count, sizeof(*fresh));
    if (!fresh)
        return;
    store->chains = fresh;
    store->chain_count = count;
    for (size_t i = 0; i < old_count; i++) {
        for (tm_tile *tile = old[i], *next; tile; tile = next) {
            next = tile->chain;
            tm_tile **chain = chain_of(store, &tile->key);
            tile->chain = *chain;
            *chain = tile;
        }
    }
    free(old);
}

static void list(tm_store *store, tm_tile *tile)
{
    if (store->tile_count >= store->chain_count)
        grow(store);
    tm_tile **chain = chain_of(store, &tile->key);
    tile->chain = *chain;
    *chain = tile;
    tile->listed = true;
    store->tile_count++;
}

static void unlist(tm_store *store, tm_tile *tile)
{
    if (!tile->listed)
        return;
    tm_tile **link = chain_of(store, &tile->key);
    while (*link != tile)
        link = &(*link)->chain;
    *link = tile->chain;
    tile->listed = false;
    store->tile_count--;
}

/* ---- Idle tiles ---- */

static idle_list *idle_list_of(tm_store *store, const tm_tile *tile)
{
    return &store->idle[!tile->delivered][tile->lane];
}

static void idle_add(tm_store *store, tm_tile *tile)
{
    idle_list *l = idle_list_of(store, tile);
    tile->older = l->newest;
    tile->newer = NULL;
    *(l->newest ? &l->newest->newer : &l->oldest) = tile;
    l->newest = tile;
}

static void idle_remove(tm_store *store, tm_tile *tile)
{
    idle_list *l = idle_list_of(store, tile);
    *(tile->older ? &tile->older->newer : &l->oldest) = tile->newer;
    *(tile->newer ? &tile->newer->older : &l->newest) = tile->older;
    tile->older = tile->newer = NULL;
}

/* ---- Giving up ---- */

/* TILE, which nobody uses and no list has, joins those to be freed without the lock. */
static void give_up(tm_store *store, tm_tile *tile, tm_tile **freed)
{
    assert(tile->refs == 0);
    unlist(store, tile);
    if (tile->resident)
        store->used -= tile->bytes;
    tile->chain = *freed;
    *freed = tile;
}

static tm_tile *first_to_go(const tm_store *store)
{
    for (int i = 0; i < 2; i++)
        for (int lane = TM_LANE_COUNT - 1; lane >= 0; lane--)
            if (store->idle[i][lane].oldest)
                return store->idle[i][lane].oldest;
    return NULL;
}

static void make_room(tm_store *store, tm_tile **freed)
{
    tm_tile *tile;
    while (store->used > store->budget && (tile = first_to_go(store))) {
        idle_remove(store, tile);
        give_up(store, tile, freed);
    }
}

static void unlock_and_free(tm_store *store, tm_tile *freed)
{
    pthread_mutex_unlock(&store->lock);
    while (freed) {
        tm_tile *next = freed->chain;
        freed->free(freed);
        freed = next;
    }
}

void tm_store_free(tm_store *store)
{
    if (!store)
        return;
    tm_store_set_budget(store, 0);
    assert(store->tile_count == 0 && store->used == 0);
    pthread_mutex_destroy(&store->lock);
    free(store->chains);
    free(store);
}

/* ---- Tiles ---- */

void tm_tile_init(tm_tile *tile, const tm_shared_ops *ops, void (*free)(tm_tile *tile))
{
    memset(tile, 0, sizeof(*tile));
    tm_shared_init(&tile->shared, ops);
    tile->free = free;
}

void tm_tile_done(tm_tile *tile)
{
    tm_shared_done(&tile->shared);
}

int tm_store_get(tm_store *store, const tm_tile_key *key, tm_lane lane, tm_tile_new_fn *new_tile,
                 const void *ctx, tm_tile **ret)
{
    pthread_mutex_lock(&store->lock);
    tm_tile *tile = find(store, key);
    int rc = tile ? 0 : new_tile(ctx, &tile);
    if (rc == 0 && !tile->listed) {
        tile->key = *key;
        tile->store = store;
        list(store, tile);
    }
    if (rc == 0) {
        if (tile->refs++ == 0 && tile->resident)
            idle_remove(store, tile);
        if (!tile->resident || lane < tile->lane) /* who looks ahead takes it from nobody */
            tile->lane = lane;
        *ret = tile;
    }
    pthread_mutex_unlock(&store->lock);
    return rc;
}

tm_tile *tm_store_peek(tm_store *store, const tm_tile_key *key)
{
    pthread_mutex_lock(&store->lock);
    tm_tile *tile = find(store, key);
    if (tile && !tile->resident)
        tile = NULL;
    if (tile && tile->refs++ == 0)
        idle_remove(store, tile);
    pthread_mutex_unlock(&store->lock);
    return tile;
}

tm_tile *tm_tile_ref(tm_tile *tile)
{
    pthread_mutex_lock(&tile->store->lock);
    assert(tile->refs > 0);
    tile->refs++;
    pthread_mutex_unlock(&tile->store->lock);
    return tile;
}

tm_tile *tm_tile_unref(tm_tile *tile)
{
    if (!tile)
        return NULL;
    tm_store *store = tile->store;
    tm_tile *freed = NULL;
    pthread_mutex_lock(&store->lock);
    assert(tile->refs > 0);
    if (--tile->refs == 0) {
        if (tile->resident && tile->listed)
            idle_add(store, tile);
        else
            give_up(store, tile, &freed);
        make_room(store, &freed);
    }
    unlock_and_free(store, freed);
    return NULL;
}

void tm_tile_made(tm_tile *tile, size_t bytes)
{
    tm_store *store = tile->store;
    tm_tile *freed = NULL;
    pthread_mutex_lock(&store->lock);
    assert(tile->refs > 0 && !tile->resident);
    tile->resident = true;
    tile->bytes = bytes;
    store->used += bytes;
    make_room(store, &freed);
    unlock_and_free(store, freed);
}

void tm_tile_delivered(tm_tile *tile)
{
    pthread_mutex_lock(&tile->store->lock);
    assert(tile->refs > 0); /* so it is in no list that goes by this */
    tile->delivered = true;
    pthread_mutex_unlock(&tile->store->lock);
}

static void release(void *tile)
{
    tm_tile_unref(tile);
}

int tm_plan_tile(tm_plan *plan, tm_tile *tile)
{
    return tm_plan_keep(plan, tile, release);
}

/* ---- The whole store ---- */

uint64_t tm_store_budget(tm_store *store)
{
    pthread_mutex_lock(&store->lock);
    uint64_t budget = store->budget;
    pthread_mutex_unlock(&store->lock);
    return budget;
}

void tm_store_set_budget(tm_store *store, uint64_t bytes)
{
    tm_tile *freed = NULL;
    pthread_mutex_lock(&store->lock);
    store->budget = bytes;
    make_room(store, &freed);
    unlock_and_free(store, freed);
}

uint64_t tm_store_used(tm_store *store)
{
    pthread_mutex_lock(&store->lock);
    uint64_t used = store->used;
    pthread_mutex_unlock(&store->lock);
    return used;
}

void tm_store_drop(tm_store *store, uint32_t group)
{
    tm_tile *freed = NULL;
    pthread_mutex_lock(&store->lock);
    for (size_t i = 0; i < store->chain_count; i++) {
        for (tm_tile *tile = store->chains[i], *next; tile; tile = next) {
            next = tile->chain;
            if (tile->key.group != group)
                continue;
            bool idle = tile->refs == 0;
            if (idle)
                idle_remove(store, tile);
            unlist(store, tile);
            if (idle)
                give_up(store, tile, &freed);
        }
    }
    unlock_and_free(store, freed);
}

void tm_store_each(tm_store *store, tm_store_visit_fn *fn, void *ctx)
{
    pthread_mutex_lock(&store->lock);
    for (size_t i = 0; i < store->chain_count; i++)
        for (tm_tile *tile = store->chains[i]; tile; tile = tile->chain)
            if (tile->resident)
                fn(ctx, tile);
    pthread_mutex_unlock(&store->lock);
}
