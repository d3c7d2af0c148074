/* Results that many reads share: one flight, failures, and cancels that meet new readers. */
#include "core/shared.h"
#include "tests/unit/core/worked.h"

/* A blob whose bytes are there when its result is; it counts what is asked of the work. */
typedef struct result {
    tm_blob blob;
    tm_shared shared;
    atomic_uint starts, cancels;
    atomic_bool in_start, cancelled_in_start;
    void (*in_starts)(struct result *self);  /* called in start; may be NULL */
    void (*in_cancels)(struct result *self); /* called in cancel; may be NULL */
    void *user;
} result;

static result *as_result(tm_shared *shared)
{
    return TM_CONTAINER(shared, result, shared);
}

static void result_start(tm_shared *shared)
{
    result *self = as_result(shared);
    atomic_store(&self->in_start, true);
    atomic_fetch_add(&self->starts, 1);
    if (self->in_starts)
        self->in_starts(self);
    atomic_store(&self->in_start, false);
}

static void result_cancel(tm_shared *shared)
{
    result *self = as_result(shared);
    if (atomic_load(&self->in_start))
        atomic_store(&self->cancelled_in_start, true);
    atomic_fetch_add(&self->cancels, 1);
    if (self->in_cancels)
        self->in_cancels(self);
}

static const tm_shared_ops shared_ops = {.start = result_start, .cancel = result_cancel};
static const tm_shared_ops stubborn_ops = {.start = result_start};

static int result_plan(tm_blob *blob, tm_plan *plan, uint64_t off, size_t len, uint8_t *dst)
{
    result *self = TM_CONTAINER(blob, result, blob);
    if (tm_shared_poll(&self->shared) < 0)
        return tm_plan_wait(plan, &self->shared);
    leaf_fill(off, len, dst);
    return 0;
}

static void result_free(tm_blob *blob)
{
    result *self = TM_CONTAINER(blob, result, blob);
    tm_shared_done(&self->shared);
    free(self);
}

static const tm_blob_ops result_ops = {.kind = "result", .plan = result_plan, .free = result_free};

static result *result_new(const tm_shared_ops *ops)
{
    result *self = TM_NEW(result);
    assert_non_null(self);
    tm_blob_init(&self->blob, &result_ops, 1000);
    tm_shared_init(&self->shared, ops);
    return self;
}

static const char gone[] = "its reader is gone";

static void a_result_is_computed_once_for_all_who_wait(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(2, 1);
    result *r = result_new(&shared_ops);
    ending e[20], after;
    for (uint64_t i = 0; i < 20; i++)
        ending_go(&e[i], sched, &r->blob, i, 100);
    assert_int_equal(atomic_load(&r->starts), 1);
    assert_false(ending_came(&e[0]));
    tm_shared_finish(&r->shared, 0, NULL);
    for (uint64_t i = 0; i < 20; i++)
        expect_bytes(&e[i], i);
    ending_go(&after, sched, &r->blob, 5, 7);
    assert_int_equal(after.calls, 1);
    expect_bytes(&after, 5);
    assert_int_equal(atomic_load(&r->starts), 1);
    assert_int_equal(atomic_load(&r->cancels), 0);
    tm_sched_free(sched);
    tm_blob_unref(&r->blob);
}

static void a_failure_is_told_to_those_who_wait_and_not_remembered(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(2, 1);
    result *r = result_new(&shared_ops);
    ending e[5];
    for (int i = 0; i < 5; i++)
        ending_go(&e[i], sched, &r->blob, 0, 100);
    tm_shared_finish(&r->shared, -EDQUOT, "the limit is used up");
    for (int i = 0; i < 5; i++)
        expect_ended(&e[i], -EDQUOT, "the limit is used up");
    assert_int_equal(tm_shared_poll(&r->shared), -EAGAIN);
    ending_go(&e[0], sched, &r->blob, 0, 100);
    assert_int_equal(atomic_load(&r->starts), 2);
    tm_shared_finish(&r->shared, -EAGAIN, NULL);
    expect_ended(&e[0], -EAGAIN, strerror(EAGAIN));
    ending_go(&e[0], sched, &r->blob, 0, 100);
    assert_int_equal(atomic_load(&r->starts), 3);
    tm_shared_finish(&r->shared, 0, NULL);
    expect_bytes(&e[0], 0);
    tm_sched_free(sched);
    tm_blob_unref(&r->blob);
}

static void the_work_is_cancelled_when_the_last_one_leaves(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(2, 1);
    result *r = result_new(&shared_ops);
    ending e[3];
    for (int i = 0; i < 3; i++)
        ending_go(&e[i], sched, &r->blob, 0, 100);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(atomic_load(&r->cancels), 0);
        tm_read_cancel(e[i].read, EINTR, gone);
        expect_ended(&e[i], -EINTR, gone);
    }
    assert_int_equal(atomic_load(&r->cancels), 1);
    tm_shared_finish(&r->shared, -EINTR, "interrupted");
    ending_go(&e[0], sched, &r->blob, 0, 100);
    assert_int_equal(atomic_load(&r->starts), 2);
    tm_shared_finish(&r->shared, 0, NULL);
    expect_bytes(&e[0], 0);
    tm_sched_free(sched);
    tm_blob_unref(&r->blob);
}

static void leave_one(ending *e, tm_sched *sched, result *r)
{
    ending_go(e, sched, &r->blob, 0, 100);
    tm_read_cancel(e->read, EINTR, gone);
    expect_ended(e, -EINTR, gone);
}

static void who_joins_work_that_is_being_cancelled_gets_it_done_anew(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(2, 1);
    result *r = result_new(&shared_ops);
    ending left, joined[3];
    leave_one(&left, sched, r);
    assert_int_equal(atomic_load(&r->cancels), 1);
    for (uint64_t i = 0; i < 3; i++)
        ending_go(&joined[i], sched, &r->blob, i, 100);
    assert_int_equal(atomic_load(&r->starts), 1); /* not before the old work has ended */
    tm_shared_finish(&r->shared, -EINTR, "interrupted");
    assert_int_equal(atomic_load(&r->starts), 2);
    for (int i = 0; i < 3; i++)
        assert_false(ending_came(&joined[i]));
    tm_shared_finish(&r->shared, 0, NULL);
    for (uint64_t i = 0; i < 3; i++)
        expect_bytes(&joined[i], i);
    assert_int_equal(atomic_load(&r->cancels), 1);
    tm_sched_free(sched);
    tm_blob_unref(&r->blob);
}

static void work_that_ends_well_despite_a_cancel_serves_who_joined(void **state)
{
    (void)state;
    static const tm_shared_ops *const kinds[] = {&shared_ops, &stubborn_ops};
    for (size_t i = 0; i < TM_ARRAY_LEN(kinds); i++) {
        tm_sched *sched = sched_new(2, 1);
        result *r = result_new(kinds[i]);
        ending left, joined;
        leave_one(&left, sched, r);
        assert_int_equal(atomic_load(&r->cancels), kinds[i]->cancel ? 1 : 0);
        ending_go(&joined, sched, &r->blob, 3, 100);
        tm_shared_finish(&r->shared, 0, NULL);
        expect_bytes(&joined, 3);
        assert_int_equal(atomic_load(&r->starts), 1);
        tm_sched_free(sched);
        tm_blob_unref(&r->blob);
    }
}

static void who_joins_and_leaves_work_that_is_being_cancelled_changes_nothing(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(2, 1);
    result *r = result_new(&shared_ops);
    ending e;
    leave_one(&e, sched, r);
    leave_one(&e, sched, r);
    assert_int_equal(atomic_load(&r->cancels), 1);
    tm_shared_finish(&r->shared, -EINTR, "interrupted");
    assert_int_equal(atomic_load(&r->starts), 1);
    tm_sched_free(sched);
    tm_blob_unref(&r->blob);
}

/* ---- Work that ends within start ---- */

static void finish_in_start(result *self)
{
    int rc = *(int *)self->user;
    tm_shared_finish(&self->shared, rc, "at once");
}

static void work_may_end_while_it_is_being_started(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    result *r = result_new(&shared_ops);
    int rc = -EIO;
    r->user = &rc;
    r->in_starts = finish_in_start;
    ending e;
    ending_go(&e, sched, &r->blob, 0, 100);
    expect_ended(&e, -EIO, "at once");
    rc = 0;
    ending_go(&e, sched, &r->blob, 2, 100);
    expect_bytes(&e, 2);
    assert_int_equal(atomic_load(&r->starts), 2);
    tm_sched_free(sched);
    tm_blob_unref(&r->blob);
}

/* ---- A cancel that is still on its way ---- */

typedef struct meeting {
    tm_sched *sched;
    ending e;
    unsigned starts_in_cancel;
} meeting;

/* The work ends by itself, and a new reader comes, before the cancel of the old one returns. */
static void meet_in_cancel(result *self)
{
    meeting *m = self->user;
    self->in_cancels = NULL;
    tm_shared_finish(&self->shared, -EIO, "by itself");
    ending_go(&m->e, m->sched, &self->blob, 0, 100);
    m->starts_in_cancel = atomic_load(&self->starts);
}

static void a_cancel_never_meets_the_work_of_the_next_reader(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    result *r = result_new(&shared_ops);
    meeting m = {.sched = sched};
    r->user = &m;
    r->in_cancels = meet_in_cancel;
    ending left;
    leave_one(&left, sched, r);
    assert_int_equal(m.starts_in_cancel, 1);
    assert_int_equal(atomic_load(&r->starts), 2);
    assert_int_equal(atomic_load(&r->cancels), 1);
    tm_shared_finish(&r->shared, 0, NULL);
    expect_bytes(&m.e, 0);
    tm_sched_free(sched);
    tm_blob_unref(&r->blob);
}

/* The reader for whom the work is started anew leaves while start is still at it. */
static void leave_in_second_start(result *self)
{
    meeting *m = self->user;
    if (atomic_load(&self->starts) < 2)
        return;
    tm_read_cancel(m->e.read, EINTR, gone);
    ending_wait(&m->e);
}

static void work_is_cancelled_after_it_was_started_never_before(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(2, 1);
    result *r = result_new(&shared_ops);
    meeting m = {.sched = sched};
    r->user = &m;
    r->in_starts = leave_in_second_start;
    ending left;
    leave_one(&left, sched, r);
    ending_go(&m.e, sched, &r->blob, 0, 100);
    tm_shared_finish(&r->shared, -EINTR, "interrupted");
    expect_ended(&m.e, -EINTR, gone);
    assert_int_equal(atomic_load(&r->starts), 2);
    assert_int_equal(atomic_load(&r->cancels), 2);
    assert_false(atomic_load(&r->cancelled_in_start));
    tm_shared_finish(&r->shared, -EINTR, "interrupted");
    tm_sched_free(sched);
    tm_blob_unref(&r->blob);
}

/* ---- Results among other things that a read needs ---- */

static void a_read_waits_for_all_its_results_before_it_fetches(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    result *r[2] = {result_new(&shared_ops), result_new(&shared_ops)};
    leaf *l = leaf_new(100);
    worked *w = worked_new(&r[1]->blob, 0);
    tm_blob *parts[] = {&l->blob, &r[0]->blob, &w->blob, &r[0]->blob}, *whole;
    assert_int_equal(tm_blob_concat_new(parts, 4, &whole), 0);
    ending e;
    ending_go(&e, sched, whole, 0, 3100);
    assert_int_equal(atomic_load(&r[0]->starts), 1);
    assert_int_equal(atomic_load(&r[1]->starts), 1);
    tm_shared_finish(&r[1]->shared, 0, NULL);
    tm_shared_finish(&r[0]->shared, 0, NULL);
    leaf_wait_started(l, 1);
    assert_int_equal(atomic_load(&w->runs), 0);
    assert_true(leaf_end(l, false, 0, NULL));
    ending_wait(&e);
    for (int i = 0; i < 3100; i++) {
        uint8_t expected = i < 100    ? leaf_byte((uint64_t)i)
                           : i < 1100 ? leaf_byte((uint64_t)i - 100)
                           : i < 2100 ? worked_byte((uint64_t)i - 1100)
                                      : leaf_byte((uint64_t)i - 2100);
        assert_int_equal(e.read->bytes[i], expected);
    }
    expect_ended(&e, 0, "");
    tm_sched_free(sched);
    tm_blob_unref(whole);
    tm_blob_unref(&w->blob);
    tm_blob_unref(&l->blob);
    tm_blob_unref(&r[0]->blob);
    tm_blob_unref(&r[1]->blob);
}

static void a_read_that_waits_for_several_results_leaves_all_of_them(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    result *r[2] = {result_new(&shared_ops), result_new(&shared_ops)};
    tm_blob *parts[] = {&r[0]->blob, &r[1]->blob, &r[0]->blob}, *whole;
    assert_int_equal(tm_blob_concat_new(parts, 3, &whole), 0);
    ending e, stays;
    ending_go(&stays, sched, &r[1]->blob, 0, 10);
    ending_go(&e, sched, whole, 0, 3000);
    tm_read_cancel(e.read, EINTR, gone);
    expect_ended(&e, -EINTR, gone);
    assert_int_equal(atomic_load(&r[0]->cancels), 1);
    assert_int_equal(atomic_load(&r[1]->cancels), 0); /* another waits for it */
    tm_shared_finish(&r[0]->shared, -EINTR, "interrupted");
    tm_shared_finish(&r[1]->shared, 0, NULL);
    expect_bytes(&stays, 0);
    tm_sched_free(sched);
    tm_blob_unref(whole);
    tm_blob_unref(&r[0]->blob);
    tm_blob_unref(&r[1]->blob);
}

static void a_read_that_waits_for_a_result_ends_at_its_deadline(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    result *r = result_new(&shared_ops);
    ending e = ENDING_INIT;
    tm_read_params params = {.sched = sched,
                             .blob = &r->blob,
                             .len = 100,
                             /* Not before it has joined: then there were nothing to cancel. */
                             .deadline_ns = tm_now_ns() + 300000000,
                             .done = ending_note,
                             .user = &e};
    assert_int_equal(tm_read_new(&params, &e.read), 0);
    tm_read_go(e.read);
    expect_ended(&e, -ETIMEDOUT, "no answer within the time limit");
    assert_int_equal(atomic_load(&r->cancels), 1);
    tm_shared_finish(&r->shared, -EINTR, "interrupted");
    tm_sched_free(sched);
    tm_blob_unref(&r->blob);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_is_computed_once_for_all_who_wait),
        cmocka_unit_test(a_failure_is_told_to_those_who_wait_and_not_remembered),
        cmocka_unit_test(the_work_is_cancelled_when_the_last_one_leaves),
        cmocka_unit_test(who_joins_work_that_is_being_cancelled_gets_it_done_anew),
        cmocka_unit_test(work_that_ends_well_despite_a_cancel_serves_who_joined),
        cmocka_unit_test(who_joins_and_leaves_work_that_is_being_cancelled_changes_nothing),
        cmocka_unit_test(work_may_end_while_it_is_being_started),
        cmocka_unit_test(a_cancel_never_meets_the_work_of_the_next_reader),
        cmocka_unit_test(work_is_cancelled_after_it_was_started_never_before),
        cmocka_unit_test(a_read_waits_for_all_its_results_before_it_fetches),
        cmocka_unit_test(a_read_that_waits_for_several_results_leaves_all_of_them),
        cmocka_unit_test(a_read_that_waits_for_a_result_ends_at_its_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
