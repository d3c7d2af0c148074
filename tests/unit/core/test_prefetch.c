/* What is asked for ahead: brought near in its lane, given up when others are wanted, and no
 * trouble to anybody. */
#include "core/prefetch.h"
#include "tests/unit/core/engine.h"

#define KIB UINT64_C(1024)

static leaf *slow_leaf(uint64_t size)
{
    leaf *l = leaf_new(size);
    l->takes_near = true;
    return l;
}

static void a_near_read_copies_nothing_and_runs_nothing(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    leaf *l = slow_leaf(64 * KIB);
    tm_blob *slice;
    assert_int_equal(tm_blob_slice_new(&l->blob, 4096, 8192, &slice), 0);
    ending e = ENDING_INIT;
    tm_read_params params = {.sched = sched,
                             .blob = slice,
                             .off = 100,
                             .len = 1000,
                             .near = true,
                             .lane = TM_LANE_PREFETCH,
                             .done = ending_note,
                             .user = &e};
    assert_int_equal(tm_read_new(&params, &e.read), 0);
    tm_read_go(e.read);
    leaf_wait_started(l, 1);
    assert_null(l->first->dst);
    assert_int_equal(l->first->off, 4196);
    assert_int_equal(l->first->len, 1000);
    assert_true(leaf_end(l, false, 0, NULL));
    expect_ended(&e, 0, "");
    tm_lane_report lanes[TM_LANE_COUNT];
    tm_sched_report(sched, lanes);
    assert_int_equal(lanes[TM_LANE_PREFETCH].bytes, 0); /* nobody was answered any */
    tm_blob_unref(slice);
    tm_blob_unref(&l->blob);
    tm_sched_free(sched);
}

static void an_owners_oldest_ask_makes_room_for_its_newest(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    leaf *l = slow_leaf(1024 * KIB);
    int a, b;
    tm_prefetch_ask(sched, &b, TM_LANE_PREFETCH, &l->blob, 0, 1);
    for (unsigned i = 0; i < TM_FORETOLD_MAX; i++)
        tm_prefetch_ask(sched, &a, TM_LANE_PREFETCH, &l->blob, i * KIB, KIB);
    leaf_wait_started(l, TM_FORETOLD_MAX + 1);
    assert_int_equal(l->withdrawn, 0);
    tm_prefetch_ask(sched, &a, TM_LANE_PREFETCH, &l->blob, 500 * KIB, KIB);
    leaf_wait_started(l, TM_FORETOLD_MAX + 2);
    leaf_wait_withdrawn(l, 1);
    pthread_mutex_lock(&l->lock);
    assert_int_equal(l->first->len, 1); /* another's is older, and stays */
    assert_int_equal(l->first->leaf_next->off, KIB);
    assert_int_equal(l->last->off, 500 * KIB);
    pthread_mutex_unlock(&l->lock);
    tm_prefetch_cancel(sched, &a);
    leaf_wait_withdrawn(l, TM_FORETOLD_MAX + 1);
    assert_int_equal(l->first->len, 1);
    assert_ptr_equal(l->first, l->last);
    tm_sched_free(sched); /* gives up the other */
    assert_null(l->first);
    tm_blob_unref(&l->blob);
}

/* Workers may be busy in higher lanes for long: what waits for them meanwhile is bounded too. */
static void no_more_than_some_asks_wait(void **state)
{
    (void)state;
    enum {
        SOME = 192 /* of all owners */
    };
    tm_sched *sched = sched_new(1, 1);
    leaf *l = slow_leaf(1024 * KIB);
    static int owners[1000];
    busy_worker busy;
    hold_workers(sched, &busy, 1);
    for (unsigned i = 0; i < 1000; i++)
        tm_prefetch_ask(sched, &owners[0], TM_LANE_PREFETCH, &l->blob, i * KIB, KIB);
    assert_int_equal(jobs_queued(sched, TM_LANE_PREFETCH), TM_FORETOLD_MAX);
    for (int i = 1; i < 1000; i++)
        tm_prefetch_ask(sched, &owners[i], TM_LANE_PREFETCH, &l->blob, 0, KIB);
    assert_int_equal(jobs_queued(sched, TM_LANE_PREFETCH), SOME);
    tm_prefetch_cancel(sched, &owners[0]);
    assert_int_equal(jobs_queued(sched, TM_LANE_PREFETCH), SOME - TM_FORETOLD_MAX);
    let_workers_go(&busy, 1);
    leaf_wait_started(l, SOME - TM_FORETOLD_MAX);
    tm_sched_free(sched);
    assert_int_equal(leaf_started(l), SOME - TM_FORETOLD_MAX);
    assert_null(l->first);
    tm_blob_unref(&l->blob);
}

/* The table is full of what scans have asked for; then somebody reads. */
static void what_is_wanted_sooner_takes_the_place_of_lower_lanes(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    leaf *scanned = slow_leaf(1024 * KIB), *looked_at = slow_leaf(1024 * KIB);
    static int scans[1000], reader;
    for (int i = 0; i < 1000; i++)
        tm_prefetch_ask(sched, &scans[i], TM_LANE_ANALYSIS, &scanned->blob, 0, KIB);
    tm_prefetch_ask(sched, &reader, TM_LANE_QUERY, &looked_at->blob, 0, KIB); /* not sooner */
    tm_prefetch_ask(sched, &reader, TM_LANE_VISIBLE, &looked_at->blob, KIB, KIB);
    leaf_wait_started(looked_at, 1);
    assert_int_equal(looked_at->first->off, KIB);
    assert_int_equal(looked_at->first->read->params.lane, TM_LANE_PREFETCH); /* never above it */
    tm_sched_free(sched);
    assert_int_equal(leaf_started(looked_at), 1);
    tm_blob_unref(&scanned->blob);
    tm_blob_unref(&looked_at->blob);
}

/* Pieces with no more than their own length between them are asked for as one. */
static void near_pieces_are_had_together(void **state)
{
    (void)state;
    static const struct {
        uint64_t off, len;
    } pieces[] = {{0, 4 * KIB},        {6 * KIB, 4 * KIB},  {14 * KIB, 4 * KIB}, /* one */
                  {23 * KIB, 4 * KIB}, {27 * KIB, 1 * KIB},                      /* another */
                  {20 * KIB, 1 * KIB}};                                          /* before it */
    tm_sched *sched = sched_new(1, 1);
    leaf *l = slow_leaf(64 * KIB);
    tm_blob *parts[TM_ARRAY_LEN(pieces)], *whole;
    int owner;
    for (size_t i = 0; i < TM_ARRAY_LEN(pieces); i++)
        assert_int_equal(tm_blob_slice_new(&l->blob, pieces[i].off, pieces[i].len, &parts[i]), 0);
    assert_int_equal(tm_blob_concat_new(parts, TM_ARRAY_LEN(pieces), &whole), 0);
    tm_prefetch_ask(sched, &owner, TM_LANE_PREFETCH, whole, 0, whole->size);
    leaf_wait_started(l, 3);
    static const uint64_t wanted[][2] = {{0, 18}, {23, 5}, {20, 1}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(l->first->off, wanted[i][0] * KIB);
        assert_int_equal(l->first->len, wanted[i][1] * KIB);
        assert_true(leaf_end(l, false, 0, NULL));
    }
    tm_sched_free(sched);
    assert_int_equal(leaf_started(l), 3);
    for (size_t i = 0; i < TM_ARRAY_LEN(pieces); i++)
        tm_blob_unref(parts[i]);
    tm_blob_unref(whole);
    tm_blob_unref(&l->blob);
}

static void failures_and_lasting_fetches_hold_nobody(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(2, 1);
    leaf *l = slow_leaf(1024 * KIB), *broken = slow_leaf(1024 * KIB);
    int owner;
    broken->now_rc = -EIO;
    tm_prefetch_ask(sched, &owner, TM_LANE_PREFETCH, &broken->blob, 0, KIB); /* said to nobody */
    tm_prefetch_ask(sched, &owner, TM_LANE_PREFETCH, &l->blob, 0, KIB);
    leaf_wait_started(l, 1);
    assert_true(leaf_end(l, false, -EIO, "the disk is gone"));
    l->keeps = true; /* what cannot be taken back */
    tm_prefetch_ask(sched, &owner, TM_LANE_PREFETCH, &l->blob, 0, KIB);
    leaf_wait_started(l, 2);
    tm_prefetch_stop(sched->prefetch);
    tm_prefetch_ask(sched, &owner, TM_LANE_PREFETCH, &l->blob, 0, KIB);
    assert_int_equal(leaf_started(l), 2);
    assert_true(leaf_end(l, false, 0, NULL));
    tm_sched_free(sched);
    assert_int_equal(leaf_started(broken), 0);
    tm_blob_unref(&broken->blob);
    tm_blob_unref(&l->blob);
}

/* Asks, cancels and ends from several threads: for the thread sanitizer. */
typedef struct storm {
    tm_sched *sched;
    leaf *leaf;
    atomic_bool over;
} storm;

static void *ask_away(void *arg)
{
    storm *s = arg;
    uint64_t seed = (uint64_t)(uintptr_t)&seed;
    for (int i = 0; i < 3000; i++) {
        tm_prefetch_ask(s->sched, &seed, TM_LANE_PREFETCH, &s->leaf->blob,
                        next_random(&seed) % 1000 * KIB, KIB);
        if (next_random(&seed) % 16 == 0)
            tm_prefetch_cancel(s->sched, &seed);
    }
    tm_prefetch_cancel(s->sched, &seed);
    return NULL;
}

static void *end_away(void *arg)
{
    storm *s = arg;
    while (!atomic_load(&s->over))
        leaf_end(s->leaf, true, 0, NULL);
    return NULL;
}

static void threads_may_ask_and_cancel_at_once(void **state)
{
    (void)state;
    storm s = {.sched = sched_new(2, 1), .leaf = slow_leaf(1024 * KIB)};
    pthread_t askers[3], ender;
    pthread_create(&ender, NULL, end_away, &s);
    for (int i = 0; i < 3; i++)
        pthread_create(&askers[i], NULL, ask_away, &s);
    for (int i = 0; i < 3; i++)
        pthread_join(askers[i], NULL);
    tm_prefetch_stop(s.sched->prefetch);
    atomic_store(&s.over, true);
    pthread_join(ender, NULL);
    tm_sched_free(s.sched);
    tm_blob_unref(&s.leaf->blob);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_near_read_copies_nothing_and_runs_nothing),
        cmocka_unit_test(an_owners_oldest_ask_makes_room_for_its_newest),
        cmocka_unit_test(no_more_than_some_asks_wait),
        cmocka_unit_test(what_is_wanted_sooner_takes_the_place_of_lower_lanes),
        cmocka_unit_test(near_pieces_are_had_together),
        cmocka_unit_test(failures_and_lasting_fetches_hold_nobody),
        cmocka_unit_test(threads_may_ask_and_cancel_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
