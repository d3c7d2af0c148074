/* A plan as data: its memory, and what is added to it, in order. */
#include "core/shared.h"
#include "tests/unit/core/engine.h"

typedef struct planning {
    tm_read *read; /* never looked into */
    tm_req req;
    tm_plan plan;
} planning;

static planning *planning_new(void)
{
    planning *p = aligned_alloc(64, (sizeof(*p) + 63) / 64 * 64);
    assert_non_null(p);
    tm_req_init(&p->req, TM_LANE_VISIBLE);
    p->read = (tm_read *)(void *)p;
    tm_plan_init(&p->plan, p->read, &p->req);
    assert_ptr_equal(tm_plan_req(&p->plan), &p->req);
    return p;
}

static void planning_free(planning *p)
{
    tm_plan_reset(&p->plan);
    free(p);
}

static void scratch_is_aligned_and_apart(void **state)
{
    (void)state;
    planning *p = planning_new();
    static const size_t sizes[] = {1,   0,     63,    64,     65,        500,           400,
                                   300, 16000, 16320, 100000, 1 << 20,   (1 << 20) + 1, 16385,
                                   1,   7,     65536, 65472,  (1 << 16), 2 << 20};
    uint8_t *parts[TM_ARRAY_LEN(sizes)];
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < TM_ARRAY_LEN(sizes); i++) {
            parts[i] = tm_plan_scratch(&p->plan, sizes[i]);
            assert_non_null(parts[i]);
            assert_int_equal((uintptr_t)parts[i] % 64, 0);
            memset(parts[i], (int)i, sizes[i]);
        }
        for (size_t i = 0; i < TM_ARRAY_LEN(sizes); i++)
            for (size_t j = 0; j < sizes[i]; j++)
                assert_int_equal(parts[i][j], i);
        tm_plan_reset(&p->plan);
    }
    planning_free(p);
}

static void a_small_plan_needs_no_memory_of_its_own(void **state)
{
    (void)state;
    planning *p = planning_new();
    for (int i = 0; i < 16; i++) {
        char *part = tm_plan_scratch(&p->plan, 64);
        assert_ptr_equal(part, p->plan.first + 64 * i);
    }
    assert_null(p->plan.chunks);
    assert_non_null(tm_plan_scratch(&p->plan, 1));
    assert_non_null(p->plan.chunks);
    planning_free(p);
}

static void scratch_of_impossible_size_is_none(void **state)
{
    (void)state;
    /* All of them wrap around when they are rounded up or a header is added. */
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 62, SIZE_MAX - 63, SIZE_MAX - 126};
    planning *p = planning_new();
    for (size_t i = 0; i < TM_ARRAY_LEN(sizes); i++)
        assert_null(tm_plan_scratch(&p->plan, sizes[i]));
    assert_ptr_equal(tm_plan_scratch(&p->plan, 1), p->plan.first);
    planning_free(p);
}

static int run_nothing(void *args, tm_req *req)
{
    (void)args;
    (void)req;
    return 0;
}

static void fetches_and_runs_stand_in_the_order_they_were_added(void **state)
{
    (void)state;
    planning *p = planning_new();
    leaf *l = leaf_new(1000);
    uint8_t dst[1000];
    for (int i = 0; i < 40; i++) {
        uint64_t args = 100 + (uint64_t)i;
        assert_int_equal(tm_blob_plan(&l->blob, &p->plan, (uint64_t)i * 10, 10, dst + i * 10), 0);
        assert_int_equal(tm_plan_run(&p->plan, run_nothing, &args, sizeof(args)), 0);
    }
    assert_int_equal(tm_blob_plan(&l->blob, &p->plan, 1000, 0, dst), 0); /* nothing to add */
    uint64_t n = 0;
    for (tm_fetch *f = p->plan.fetches; f; f = f->next, n++) {
        assert_ptr_equal(f->blob, &l->blob);
        assert_int_equal(f->off, n * 10);
        assert_int_equal(f->len, 10);
        assert_ptr_equal(f->read, p->read);
        assert_ptr_equal(f->dst, dst + n * 10);
        assert_false(f->finished || f->withdrawn);
    }
    assert_int_equal(n, 40);
    n = 0;
    for (tm_run *r = p->plan.runs; r; r = r->next, n++) {
        assert_int_equal(*(uint64_t *)r->args, 100 + n);
        assert_true(r->fn == run_nothing);
    }
    assert_int_equal(n, 40);
    tm_plan_reset(&p->plan);
    assert_null(p->plan.fetches);
    assert_null(p->plan.runs);
    assert_null(p->plan.waits);
    planning_free(p);
    tm_blob_unref(&l->blob);
}

static void start_nothing(tm_shared *shared)
{
    (void)shared;
}

static void a_plan_knows_what_it_waits_for(void **state)
{
    (void)state;
    static const tm_shared_ops ops = {.start = start_nothing};
    planning *p = planning_new();
    tm_shared shared[2];
    for (int i = 0; i < 2; i++) {
        tm_shared_init(&shared[i], &ops);
        assert_int_equal(tm_shared_poll(&shared[i]), -EAGAIN);
        assert_int_equal(tm_plan_wait(&p->plan, &shared[i]), 0);
    }
    tm_wait *w = p->plan.waits;
    assert_ptr_equal(w->shared, &shared[1]);
    assert_ptr_equal(w->next->shared, &shared[0]);
    assert_null(w->next->next);
    planning_free(p);
    tm_shared_done(&shared[0]);
    tm_shared_done(&shared[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scratch_is_aligned_and_apart),
        cmocka_unit_test(a_small_plan_needs_no_memory_of_its_own),
        cmocka_unit_test(scratch_of_impossible_size_is_none),
        cmocka_unit_test(fetches_and_runs_stand_in_the_order_they_were_added),
        cmocka_unit_test(a_plan_knows_what_it_waits_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
