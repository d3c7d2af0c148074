/* The gate: so many at once, higher lanes first, and those who give up never enter. */
#include "core/gate.h"
#include "tests/unit/core/engine.h"

enum {
    PASSES = 200,
    LIMIT = 3
};

/* A gate with its pool, and what went through it. */
typedef struct place {
    tm_pool *pool;
    tm_gate gate;
    atomic_uint inside, most, ran;
    char order[16], *at; /* letters of those that ran, where they have one */
} place;

typedef struct work {
    tm_pass pass;
    place *place;
    event *begun, *hold; /* may be NULL */
    char letter;         /* 0: none */
} work;

static void run_work(tm_job *job)
{
    work *w = TM_CONTAINER(TM_CONTAINER(job, tm_pass, job), work, pass);
    place *p = w->place;
    unsigned now = atomic_fetch_add(&p->inside, 1) + 1, most = atomic_load(&p->most);
    while (now > most && !atomic_compare_exchange_weak(&p->most, &most, now))
        continue;
    if (w->begun)
        event_set(w->begun);
    if (w->hold)
        event_wait(w->hold, "for work to be let go");
    if (w->letter)
        *p->at++ = w->letter; /* in tests of one at a time */
    atomic_fetch_add(&p->ran, 1);
    atomic_fetch_sub(&p->inside, 1);
    tm_gate_leave(&p->gate);
}

static void place_init(place *p, unsigned threads, unsigned limit, unsigned spared)
{
    *p = (place){.at = p->order};
    tm_pool_params params = {.name = "gate", .threads = threads};
    assert_int_equal(tm_pool_new(&params, &p->pool), 0);
    tm_gate_init(&p->gate, p->pool, limit, spared);
}

/* Runs what is let in, and what that lets in. */
static void place_done(place *p)
{
    tm_pool_free(p->pool);
    tm_gate_done(&p->gate);
}

static work work_in(place *p, tm_lane lane, char letter)
{
    return (work){.pass = {.job = {.run = run_work, .lane = lane}}, .place = p, .letter = letter};
}

static void no_more_than_the_limit_are_inside(void **state)
{
    (void)state;
    static work works[PASSES];
    place p;
    uint64_t seed = 5;
    unsigned gave_up = 0;
    place_init(&p, 8, LIMIT, 0);
    for (unsigned i = 0; i < PASSES; i++) {
        works[i] = work_in(&p, (tm_lane)(next_random(&seed) % TM_LANE_COUNT), 0);
        tm_gate_enter(&p.gate, &works[i].pass);
        if (i % 3 == 0)
            gave_up += tm_gate_withdraw(&p.gate, &works[next_random(&seed) % (i + 1)].pass);
    }
    place_done(&p);
    assert_int_equal(atomic_load(&p.ran), PASSES - gave_up);
    assert_in_range(atomic_load(&p.most), 1, LIMIT);
}

/* The first of COUNT works runs and holds; the others wait behind it. */
static void enter_behind_one(place *p, work *works, size_t count, event *begun, event *hold)
{
    works[0].begun = begun;
    works[0].hold = hold;
    for (size_t i = 0; i < count; i++) {
        tm_gate_enter(&p->gate, &works[i].pass);
        if (i == 0)
            event_wait(begun, "for the first");
    }
}

static void those_who_wait_go_by_lane_and_then_in_order(void **state)
{
    (void)state;
    place p;
    event begun = EVENT_INIT, hold = EVENT_INIT;
    place_init(&p, 4, 1, 0);
    work works[] = {work_in(&p, TM_LANE_INDEX, '-'),   work_in(&p, TM_LANE_QUERY, 'd'),
                    work_in(&p, TM_LANE_VISIBLE, 'b'), work_in(&p, TM_LANE_SCALAR, 'x'),
                    work_in(&p, TM_LANE_SCALAR, 'a'),  work_in(&p, TM_LANE_VISIBLE, 'c'),
                    work_in(&p, TM_LANE_INDEX, 'e')};
    enter_behind_one(&p, works, TM_ARRAY_LEN(works), &begun, &hold);
    assert_true(tm_gate_withdraw(&p.gate, &works[3].pass));
    assert_false(tm_gate_withdraw(&p.gate, &works[3].pass));
    assert_false(tm_gate_withdraw(&p.gate, &works[0].pass)); /* it is inside */
    event_set(&hold);
    place_done(&p);
    assert_string_equal(p.order, "-abcde");
}

/* Of what nobody waits for, so much that it would fill the gate; then one that somebody does. */
static void those_who_wait_find_room_that_was_spared(void **state)
{
    (void)state;
    place p;
    event hold = EVENT_INIT, begun = EVENT_INIT;
    work works[6];
    place_init(&p, 8, 4, 2);
    for (int i = 0; i < 6; i++) {
        works[i] = work_in(&p, i < 5 ? TM_LANE_ANALYSIS : TM_LANE_VISIBLE, 0);
        works[i].hold = &hold;
        works[i].begun = i < 5 ? NULL : &begun;
        tm_gate_enter(&p.gate, &works[i].pass);
    }
    event_wait(&begun, "for who is waited for");
    assert_in_range(atomic_load(&p.most), 1, 3);
    event_set(&hold);
    place_done(&p);
    assert_int_equal(atomic_load(&p.ran), 6);
}

static void who_is_wanted_sooner_overtakes(void **state)
{
    (void)state;
    place p;
    event begun = EVENT_INIT, hold = EVENT_INIT;
    place_init(&p, 1, 1, 0);
    work works[5];
    for (int i = 0; i < 5; i++)
        works[i] = work_in(&p, TM_LANE_PREFETCH, (char)('a' + i));
    enter_behind_one(&p, works, 5, &begun, &hold);
    tm_gate_hurry(&p.gate, &works[3].pass, TM_LANE_VISIBLE);
    tm_gate_hurry(&p.gate, &works[4].pass, TM_LANE_INDEX);   /* no higher one */
    tm_gate_hurry(&p.gate, &works[0].pass, TM_LANE_VISIBLE); /* it is inside */
    event_set(&hold);
    place_done(&p);
    assert_string_equal(p.order, "adbce");
}

/* Let in, but behind what else the threads have to do. */
static void who_was_let_in_overtakes_too(void **state)
{
    (void)state;
    place p;
    event begun = EVENT_INIT, hold = EVENT_INIT;
    place_init(&p, 1, 4, 0);
    work works[4];
    for (int i = 0; i < 4; i++)
        works[i] = work_in(&p, TM_LANE_PREFETCH, (char)('a' + i));
    enter_behind_one(&p, works, 4, &begun, &hold);
    tm_gate_hurry(&p.gate, &works[2].pass, TM_LANE_VISIBLE);
    event_set(&hold);
    place_done(&p);
    assert_string_equal(p.order, "acbd");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_more_than_the_limit_are_inside),
        cmocka_unit_test(those_who_wait_go_by_lane_and_then_in_order),
        cmocka_unit_test(those_who_wait_find_room_that_was_spared),
        cmocka_unit_test(who_is_wanted_sooner_overtakes),
        cmocka_unit_test(who_was_let_in_overtakes_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
