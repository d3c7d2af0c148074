/* The tile store: one flight a key, room by budget, and who goes first. */
#include "core/store.h"
#include "tests/unit/core/worked.h"

/* A tile whose content is its index, made by the test when it likes. */
typedef struct number_tile {
    tm_tile tile;
    atomic_uint *alive;
    atomic_uint starts;
} number_tile;

static void number_start(tm_shared *shared)
{
    number_tile *self = TM_CONTAINER(TM_CONTAINER(shared, tm_tile, shared), number_tile, tile);
    atomic_fetch_add(&self->starts, 1);
}

static const tm_shared_ops number_ops = {.start = number_start};

static void number_free(tm_tile *tile)
{
    number_tile *self = TM_CONTAINER(tile, number_tile, tile);
    atomic_fetch_sub(self->alive, 1);
    tm_tile_done(tile);
    free(self);
}

static int number_new(const void *ctx, tm_tile **ret)
{
    number_tile *self = TM_NEW(number_tile);
    assert_non_null(self);
    tm_tile_init(&self->tile, &number_ops, number_free);
    self->alive = *(atomic_uint *const *)ctx;
    atomic_fetch_add(self->alive, 1);
    *ret = &self->tile;
    return 0;
}

static int no_memory(const void *ctx, tm_tile **ret)
{
    (void)ctx, (void)ret;
    return -ENOMEM;
}

typedef struct shelf {
    tm_store *store;
    atomic_uint alive;
} shelf;

static void shelf_init(shelf *s, uint64_t budget)
{
    atomic_init(&s->alive, 0);
    assert_int_equal(tm_store_new(budget, &s->store), 0);
}

static tm_tile *get(shelf *s, uint32_t group, uint64_t index, tm_lane lane)
{
    tm_tile_key key = {.group = group, .item = 1, .kind = 2, .part = 3, .index = index};
    atomic_uint *alive = &s->alive;
    tm_tile *tile;
    assert_int_equal(tm_store_get(s->store, &key, lane, number_new, &alive, &tile), 0);
    return tile;
}

static bool is_there(shelf *s, uint32_t group, uint64_t index)
{
    tm_tile *tile = get(s, group, index, TM_LANE_INDEX);
    bool resident = tile->resident;
    tm_tile_unref(tile);
    return resident;
}

/* A tile of BYTES that nobody uses any more. */
static void put(shelf *s, uint64_t index, tm_lane lane, size_t bytes, bool delivered)
{
    tm_tile *tile = get(s, 7, index, lane);
    assert_false(tile->resident);
    tm_tile_made(tile, bytes);
    if (delivered)
        tm_tile_delivered(tile);
    tm_tile_unref(tile);
}

static void a_key_is_one_tile(void **state)
{
    (void)state;
    shelf s;
    shelf_init(&s, 100);
    tm_tile *a = get(&s, 7, 1, TM_LANE_VISIBLE), *b = get(&s, 7, 1, TM_LANE_SCALAR);
    assert_ptr_equal(a, b);
    assert_int_equal(a->lane, TM_LANE_SCALAR);
    tm_tile *others[] = {get(&s, 8, 1, TM_LANE_VISIBLE), get(&s, 7, 2, TM_LANE_VISIBLE)};
    for (int i = 0; i < 2; i++) {
        assert_ptr_not_equal(others[i], a);
        tm_tile_unref(others[i]);
    }
    tm_tile_unref(a);
    assert_int_equal(atomic_load(&s.alive), 1);
    tm_tile_unref(b); /* not made: forgotten */
    assert_int_equal(atomic_load(&s.alive), 0);
    tm_tile_key key = {.group = 1};
    assert_int_equal(tm_store_get(s.store, &key, TM_LANE_VISIBLE, no_memory, NULL, &a), -ENOMEM);
    tm_store_free(s.store);
}

/* Who looks ahead at a tile that was looked at does not make it go before others. */
static void a_lower_lane_takes_a_tile_from_nobody(void **state)
{
    (void)state;
    shelf s;
    shelf_init(&s, 100);
    put(&s, 1, TM_LANE_PREFETCH, 40, false);
    put(&s, 2, TM_LANE_VISIBLE, 40, false);
    tm_tile_unref(get(&s, 7, 2, TM_LANE_PREFETCH));
    tm_store_set_budget(s.store, 40);
    assert_true(is_there(&s, 7, 2));
    tm_store_set_budget(s.store, 100);
    put(&s, 3, TM_LANE_PREFETCH, 40, false);
    tm_tile_unref(get(&s, 7, 3, TM_LANE_SELECTION)); /* a higher one does make it stay */
    tm_store_set_budget(s.store, 40);
    assert_true(is_there(&s, 7, 3));
    tm_store_free(s.store);
}

static void what_was_made_stays_while_there_is_room(void **state)
{
    (void)state;
    shelf s;
    shelf_init(&s, 100);
    put(&s, 1, TM_LANE_VISIBLE, 60, false);
    put(&s, 2, TM_LANE_VISIBLE, 40, false);
    assert_int_equal(tm_store_used(s.store), 100);
    assert_true(is_there(&s, 7, 1) && is_there(&s, 7, 2));
    put(&s, 3, TM_LANE_VISIBLE, 1, false); /* 1 was used before 2 */
    assert_false(is_there(&s, 7, 1));
    assert_true(is_there(&s, 7, 2) && is_there(&s, 7, 3));
    assert_int_equal(tm_store_used(s.store), 41);
    tm_store_set_budget(s.store, 40);
    assert_int_equal(tm_store_used(s.store), 1);
    tm_store_free(s.store);
    assert_int_equal(atomic_load(&s.alive), 0);
}

static void the_delivered_go_first_then_the_lowest_lane_then_the_oldest(void **state)
{
    (void)state;
    static const struct {
        uint64_t index;
        tm_lane lane;
        bool delivered;
    } rows[] = {
        {10, TM_LANE_SCALAR, false},   {11, TM_LANE_VISIBLE, false}, {12, TM_LANE_VISIBLE, true},
        {13, TM_LANE_ANALYSIS, false}, {14, TM_LANE_VISIBLE, false}, {15, TM_LANE_SCALAR, true},
    };
    static const uint64_t order[] = {12, 15, 13, 11, 14, 10};
    shelf s;
    shelf_init(&s, 6);
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++)
        put(&s, rows[i].index, rows[i].lane, 1, rows[i].delivered);
    for (size_t gone = 0; gone < TM_ARRAY_LEN(order); gone++) {
        tm_store_set_budget(s.store, 5 - gone);
        assert_int_equal(tm_store_used(s.store), 5 - gone);
        assert_int_equal(atomic_load(&s.alive), 5 - gone);
        assert_false(is_there(&s, 7, order[gone]));
    }
    tm_store_free(s.store);
}

static void tiles_in_use_stay_over_the_budget_and_go_with_their_last_user(void **state)
{
    (void)state;
    shelf s;
    shelf_init(&s, 10);
    tm_tile *a = get(&s, 7, 1, TM_LANE_VISIBLE);
    tm_tile_made(a, 50);
    tm_tile *again = tm_tile_ref(a);
    put(&s, 2, TM_LANE_SCALAR, 1, false);
    assert_false(is_there(&s, 7, 2));
    assert_int_equal(tm_store_used(s.store), 50);
    tm_tile_unref(a);
    assert_true(is_there(&s, 7, 1));
    tm_tile_unref(again);
    assert_int_equal(tm_store_used(s.store), 0);
    tm_store_free(s.store);
}

static void a_dropped_group_is_forgotten_and_made_anew(void **state)
{
    (void)state;
    shelf s;
    shelf_init(&s, 100);
    put(&s, 1, TM_LANE_VISIBLE, 1, false);
    tm_tile *used = get(&s, 7, 2, TM_LANE_VISIBLE), *other = get(&s, 8, 1, TM_LANE_VISIBLE);
    tm_tile_made(used, 1);
    tm_tile_made(other, 1);
    tm_tile_unref(other);
    tm_store_drop(s.store, 7);
    assert_false(is_there(&s, 7, 1));
    assert_true(is_there(&s, 8, 1));
    tm_tile *fresh = get(&s, 7, 2, TM_LANE_VISIBLE);
    assert_ptr_not_equal(fresh, used);
    tm_tile_made(fresh, 1);
    tm_tile_unref(used);
    assert_int_equal(tm_store_used(s.store), 2);
    tm_tile_unref(fresh);
    assert_true(is_there(&s, 7, 2));
    tm_store_free(s.store);
    assert_int_equal(atomic_load(&s.alive), 0);
}

static void count_bytes(void *ctx, const tm_tile *tile)
{
    *(size_t *)ctx += tile->bytes * tile->key.index;
}

static void thousands_are_found_and_visited(void **state)
{
    (void)state;
    shelf s;
    shelf_init(&s, 1 << 20);
    size_t expected = 0, got = 0;
    for (uint64_t i = 0; i < 5000; i++) {
        put(&s, i, TM_LANE_VISIBLE, 3, false);
        expected += 3 * i;
    }
    for (uint64_t i = 0; i < 5000; i++)
        assert_true(is_there(&s, 7, i));
    tm_store_each(s.store, count_bytes, &got);
    assert_int_equal(got, expected);
    assert_int_equal(tm_store_budget(s.store), 1 << 20);
    tm_store_free(s.store);
}

/* ---- With reads ---- */

enum {
    TILES = 40,
    READERS = 6,
    READS = 300
};

/* A blob of TILES bytes; byte I is that of tile I, made on a worker. */
typedef struct tiles_blob {
    tm_blob blob;
    tm_store *store;
    tm_sched *sched;
    atomic_uint made;
} tiles_blob;

typedef struct byte_tile {
    tm_tile tile;
    tiles_blob *owner;
    tm_job job;
    uint8_t byte;
} byte_tile;

static byte_tile *as_byte(tm_tile *tile)
{
    return TM_CONTAINER(tile, byte_tile, tile);
}

static void byte_run(tm_job *job)
{
    byte_tile *self = TM_CONTAINER(job, byte_tile, job);
    self->byte = (uint8_t)(self->tile.key.index * 7);
    bool fails = atomic_fetch_add(&self->owner->made, 1) % 10 == 9;
    if (!fails)
        tm_tile_made(&self->tile, 100);
    tm_shared_finish(&self->tile.shared, fails ? -EIO : 0, "the tenth");
    tm_tile_unref(&self->tile);
}

static void byte_start(tm_shared *shared)
{
    byte_tile *self = as_byte(TM_CONTAINER(shared, tm_tile, shared));
    tm_tile_ref(&self->tile);
    self->job = (tm_job){.run = byte_run, .lane = TM_LANE_VISIBLE};
    tm_pool_submit(self->owner->sched->workers, &self->job);
}

static const tm_shared_ops byte_ops = {.start = byte_start};

static void byte_free(tm_tile *tile)
{
    tm_tile_done(tile);
    free(as_byte(tile));
}

static int byte_new(const void *ctx, tm_tile **ret)
{
    byte_tile *self = TM_NEW(byte_tile);
    assert_non_null(self);
    tm_tile_init(&self->tile, &byte_ops, byte_free);
    self->owner = *(tiles_blob *const *)ctx;
    *ret = &self->tile;
    return 0;
}

static int tiles_plan(tm_blob *blob, tm_plan *plan, uint64_t off, size_t len, uint8_t *dst)
{
    tiles_blob *self = TM_CONTAINER(blob, tiles_blob, blob);
    for (size_t i = 0; i < len; i++) {
        tm_tile_key key = {.group = 1, .index = off + i};
        tm_tile *tile;
        TM_TRY(tm_store_get(self->store, &key, TM_LANE_VISIBLE, byte_new, &self, &tile));
        TM_TRY(tm_plan_tile(plan, tile));
        if (tm_shared_poll(&tile->shared) < 0)
            TM_TRY(tm_plan_wait(plan, &tile->shared));
        else
            dst[i] = as_byte(tile)->byte;
    }
    return 0;
}

static void tiles_free(tm_blob *blob)
{
    (void)blob; /* the test's own */
}

static const tm_blob_ops tiles_ops = {.kind = "tiles", .plan = tiles_plan, .free = tiles_free};

typedef struct reader {
    tiles_blob *blob;
    uint64_t seed;
    unsigned failed;
} reader;

static void *read_tiles(void *arg)
{
    reader *r = arg;
    for (int i = 0; i < READS; i++) {
        uint64_t off = next_random(&r->seed) % TILES;
        size_t len = 1 + next_random(&r->seed) % (TILES - off);
        uint8_t bytes[TILES];
        tm_req req;
        tm_req_init(&req, TM_LANE_VISIBLE);
        req.may_block = true;
        int rc = tm_read_wait(r->blob->sched, &r->blob->blob, off, len, bytes, &req);
        r->failed += rc < 0;
        assert_true(rc == 0 || rc == -EIO);
        for (size_t k = 0; rc == 0 && k < len; k++)
            assert_int_equal(bytes[k], (uint8_t)((off + k) * 7));
    }
    return NULL;
}

static void readers_share_tiles_in_little_room(void **state)
{
    (void)state;
    tiles_blob blob = {.sched = sched_new(3, 1)};
    reader readers[READERS];
    pthread_t threads[READERS];
    assert_int_equal(tm_store_new(700, &blob.store), 0);
    tm_blob_init(&blob.blob, &tiles_ops, TILES);
    for (int i = 0; i < READERS; i++) {
        readers[i] = (reader){&blob, (uint64_t)i + 1, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, read_tiles, &readers[i]), 0);
    }
    unsigned failed = 0;
    for (int i = 0; i < READERS; i++) {
        pthread_join(threads[i], NULL);
        failed += readers[i].failed;
    }
    tm_sched_free(blob.sched);
    assert_in_range(failed, 1, READERS * READS - 1);
    assert_in_range(tm_store_used(blob.store), 0, 700);
    tm_store_free(blob.store);
}

/* Tiles that there is no room for go with the last who uses them: those that a read has waited for
 * must be there when it plans again. */
static void a_read_makes_each_tile_once_where_none_has_room(void **state)
{
    (void)state;
    tiles_blob blob = {.sched = sched_new(2, 1)};
    assert_int_equal(tm_store_new(0, &blob.store), 0);
    tm_blob_init(&blob.blob, &tiles_ops, TILES);
    for (unsigned len = 1; len <= 9; len += 4) {
        /* Others each time: who made a tile may still hold it when its reader is done. */
        unsigned off = len * 3;
        uint8_t bytes[TILES];
        tm_req req;
        tm_req_init(&req, TM_LANE_VISIBLE);
        req.may_block = true;
        atomic_store(&blob.made, 0);
        assert_int_equal(tm_read_wait(blob.sched, &blob.blob, off, len, bytes, &req), 0);
        assert_int_equal(atomic_load(&blob.made), len);
        for (unsigned i = 0; i < len; i++)
            assert_int_equal(bytes[i], (uint8_t)((off + i) * 7));
    }
    tm_sched_free(blob.sched);
    assert_int_equal(tm_store_used(blob.store), 0);
    tm_store_free(blob.store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_one_tile),
        cmocka_unit_test(a_lower_lane_takes_a_tile_from_nobody),
        cmocka_unit_test(what_was_made_stays_while_there_is_room),
        cmocka_unit_test(the_delivered_go_first_then_the_lowest_lane_then_the_oldest),
        cmocka_unit_test(tiles_in_use_stay_over_the_budget_and_go_with_their_last_user),
        cmocka_unit_test(a_dropped_group_is_forgotten_and_made_anew),
        cmocka_unit_test(thousands_are_found_and_visited),
        cmocka_unit_test(readers_share_tiles_in_little_room),
        cmocka_unit_test(a_read_makes_each_tile_once_where_none_has_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
