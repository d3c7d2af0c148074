/* The gate: so many at once, higher lanes first, and those who give up never enter. */
#include "core/gate.h"
#include "tests/unit/core/engine.h"

enum {
    PASSES = 200,
    LIMIT = 3
};

typedef struct work {
    tm_pass pass;
    tm_gate *gate;
    atomic_uint *inside, *most, *ran;
    event *begun, *hold; /* may be NULL */
    char letter, **order;
} work;

static void run_work(tm_job *job)
{
    work *w = TM_CONTAINER(TM_CONTAINER(job, tm_pass, job), work, pass);
    unsigned now = atomic_fetch_add(w->inside, 1) + 1, most = atomic_load(w->most);
    while (now > most && !atomic_compare_exchange_weak(w->most, &most, now))
        continue;
    if (w->begun)
        event_set(w->begun);
    if (w->hold)
        event_wait(w->hold, "for work to be let go");
    if (w->order)
        *(*w->order)++ = w->letter;
    atomic_fetch_add(w->ran, 1);
    atomic_fetch_sub(w->inside, 1);
    tm_gate_leave(w->gate);
}

static tm_pool *pool_new(unsigned threads)
{
    tm_pool *pool;
    assert_int_equal(tm_pool_new(&(tm_pool_params){.name = "gate", .threads = threads}, &pool), 0);
    return pool;
}

static void no_more_than_the_limit_are_inside(void **state)
{
    (void)state;
    static work works[PASSES];
    tm_pool *pool = pool_new(8);
    tm_gate gate;
    atomic_uint inside = 0, most = 0, ran = 0;
    uint64_t seed = 5;
    unsigned gave_up = 0;
    tm_gate_init(&gate, pool, LIMIT, 0);
    for (unsigned i = 0; i < PASSES; i++) {
        tm_lane lane = (tm_lane)(next_random(&seed) % TM_LANE_COUNT);
        works[i] = (work){.pass = {.job = {.run = run_work, .lane = lane}},
                          .gate = &gate,
                          .inside = &inside,
                          .most = &most,
                          .ran = &ran};
        tm_gate_enter(&gate, &works[i].pass);
        if (i % 3 == 0)
            gave_up += tm_gate_withdraw(&gate, &works[next_random(&seed) % (i + 1)].pass);
    }
    tm_pool_free(pool); /* runs what is let in, and what that lets in */
    assert_int_equal(atomic_load(&ran), PASSES - gave_up);
    assert_in_range(atomic_load(&most), 1, LIMIT);
    tm_gate_done(&gate);
}

static void those_who_wait_go_by_lane_and_then_in_order(void **state)
{
    (void)state;
    tm_pool *pool = pool_new(4);
    tm_gate gate;
    char order[16] = "", *at = order;
    atomic_uint inside = 0, most = 0, ran = 0;
    event begun = EVENT_INIT, hold = EVENT_INIT;
    static const struct {
        char letter;
        tm_lane lane;
    } rows[] = {{'-', TM_LANE_INDEX},  {'d', TM_LANE_QUERY},  {'b', TM_LANE_VISIBLE},
                {'x', TM_LANE_SCALAR}, {'a', TM_LANE_SCALAR}, {'c', TM_LANE_VISIBLE},
                {'e', TM_LANE_INDEX}};
    work works[TM_ARRAY_LEN(rows)];
    tm_gate_init(&gate, pool, 1, 0);
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        works[i] = (work){.pass = {.job = {.run = run_work, .lane = rows[i].lane}},
                          .gate = &gate,
                          .inside = &inside,
                          .most = &most,
                          .ran = &ran,
                          .begun = i ? NULL : &begun,
                          .hold = i ? NULL : &hold,
                          .letter = rows[i].letter,
                          .order = &at};
        tm_gate_enter(&gate, &works[i].pass);
        if (i == 0)
            event_wait(&begun, "for the first");
    }
    assert_true(tm_gate_withdraw(&gate, &works[3].pass));
    assert_false(tm_gate_withdraw(&gate, &works[3].pass));
    assert_false(tm_gate_withdraw(&gate, &works[0].pass)); /* it is inside */
    event_set(&hold);
    tm_pool_free(pool);
    assert_string_equal(order, "-abcde");
    tm_gate_done(&gate);
}

/* Of what nobody waits for, so much that it would fill the gate; then one that somebody does. */
static void those_who_wait_find_room_that_was_spared(void **state)
{
    (void)state;
    tm_pool *pool = pool_new(8);
    tm_gate gate;
    atomic_uint inside = 0, most = 0, ran = 0;
    event hold = EVENT_INIT, begun = EVENT_INIT;
    work works[6];
    tm_gate_init(&gate, pool, 4, 2);
    for (int i = 0; i < 6; i++) {
        works[i] = (work){.pass = {.job = {.run = run_work, .lane = TM_LANE_ANALYSIS}},
                          .gate = &gate,
                          .inside = &inside,
                          .most = &most,
                          .ran = &ran,
                          .hold = &hold,
                          .letter = (char)('a' + i)};
        if (i == 5)
            works[i].begun = &begun;
    }
    for (int i = 0; i < 5; i++)
        tm_gate_enter(&gate, &works[i].pass);
    works[5].pass.job.lane = TM_LANE_VISIBLE;
    tm_gate_enter(&gate, &works[5].pass);
    event_wait(&begun, "for who is waited for");
    assert_in_range(atomic_load(&most), 1, 3);
    event_set(&hold);
    tm_pool_free(pool);
    assert_int_equal(atomic_load(&ran), 6);
    tm_gate_done(&gate);
}

static void who_is_wanted_sooner_overtakes(void **state)
{
    (void)state;
    tm_pool *pool = pool_new(1);
    tm_gate gate;
    char order[16] = "", *at = order;
    atomic_uint inside = 0, most = 0, ran = 0;
    event begun = EVENT_INIT, hold = EVENT_INIT;
    work works[5];
    tm_gate_init(&gate, pool, 1, 0);
    for (int i = 0; i < 5; i++) {
        works[i] = (work){.pass = {.job = {.run = run_work, .lane = TM_LANE_PREFETCH}},
                          .gate = &gate,
                          .inside = &inside,
                          .most = &most,
                          .ran = &ran,
                          .begun = i ? NULL : &begun,
                          .hold = i ? NULL : &hold,
                          .letter = (char)('a' + i),
                          .order = &at};
        tm_gate_enter(&gate, &works[i].pass);
        if (i == 0)
            event_wait(&begun, "for the first");
    }
    tm_gate_hurry(&gate, &works[3].pass, TM_LANE_VISIBLE);
    tm_gate_hurry(&gate, &works[4].pass, TM_LANE_INDEX);   /* no higher one */
    tm_gate_hurry(&gate, &works[0].pass, TM_LANE_VISIBLE); /* it is inside */
    event_set(&hold);
    tm_pool_free(pool);
    assert_string_equal(order, "adbce");
    tm_gate_done(&gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_more_than_the_limit_are_inside),
        cmocka_unit_test(those_who_wait_go_by_lane_and_then_in_order),
        cmocka_unit_test(those_who_wait_find_room_that_was_spared),
        cmocka_unit_test(who_is_wanted_sooner_overtakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
