/* Reads that are cancelled in each phase, that run out of time, and many that are stuck. */
#include <sched.h>

#include "tests/unit/core/worked.h"

static const char gone[] = "its reader is gone";

static void a_read_cancelled_before_it_is_begun_ends_once_and_asks_nobody(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    leaf *l = leaf_new(100);
    ending early, late;
    ending_prepare(&early, sched, &l->blob, 0, 100);
    tm_read_cancel(early.read, EINTR, gone);
    ending_wait(&early); /* a worker says so */
    assert_false(pthread_equal(early.thread, pthread_self()));
    tm_read_go(early.read);
    ending_prepare(&late, sched, &l->blob, 0, 100);
    tm_read_cancel(late.read, ECANCELED, gone);
    tm_read_go(late.read);
    tm_sched_free(sched);
    expect_ended(&early, -EINTR, gone);
    expect_ended(&late, -ECANCELED, gone);
    assert_int_equal(l->asked, 0);
    tm_blob_unref(&l->blob);
}

static void a_cancelled_read_that_is_never_begun_ends_too(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    leaf *l = leaf_new(100);
    ending e;
    ending_prepare(&e, sched, &l->blob, 0, 100);
    tm_read_cancel(e.read, EINTR, gone);
    expect_ended(&e, -EINTR, gone);
    tm_sched_free(sched);
    assert_int_equal(e.calls, 1);
    tm_blob_unref(&l->blob);
}

static void a_cancelled_read_withdraws_what_it_waits_for(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    leaf *l = leaf_new(100), *there = leaf_new(100);
    there->at_hand = true;
    tm_blob *parts[] = {&l->blob, &there->blob, &l->blob}, *whole;
    assert_int_equal(tm_blob_concat_new(parts, 3, &whole), 0);
    ending e;
    ending_go(&e, sched, whole, 0, 300);
    assert_int_equal(leaf_started(l), 2);
    tm_read_cancel(e.read, EINTR, gone);
    tm_read_cancel(e.read, ETIMEDOUT, "too late to matter");
    expect_ended(&e, -EINTR, gone);
    leaf_wait_withdrawn(l, 2);
    assert_false(leaf_end(l, false, 0, NULL));
    tm_sched_free(sched);
    assert_int_equal(e.calls, 1);
    assert_int_equal(l->withdrawn, 2);
    tm_blob_unref(whole);
    tm_blob_unref(&l->blob);
    tm_blob_unref(&there->blob);
}

/* The reader goes at once; the buffer stays for the fetch, which ends in all ways later. */
static void a_fetch_that_cannot_be_taken_back_keeps_its_buffer_but_not_the_reader(void **state)
{
    (void)state;
    static const int ends[] = {0, -EIO, -EAGAIN};
    for (size_t i = 0; i < TM_ARRAY_LEN(ends); i++) {
        for (int computes = 0; computes < 2; computes++) {
            tm_sched *sched = sched_new(1, 1);
            leaf *l = leaf_new(100);
            l->keeps = true;
            worked *w = worked_new(&l->blob, 50);
            ending e;
            ending_go(&e, sched, computes ? &w->blob : &l->blob, 0, 100);
            leaf_wait_started(l, 1);
            tm_read_cancel(e.read, EINTR, gone);
            expect_ended(&e, -EINTR, gone); /* gives up the test's reference */
            assert_true(leaf_end(l, false, ends[i], "too late")); /* writes to the buffer */
            tm_sched_free(sched);
            assert_int_equal(e.calls, 1);
            assert_int_equal(l->started, 1);
            assert_int_equal(l->withdrawn, 0);
            assert_int_equal(atomic_load(&w->runs), 0);
            tm_blob_unref(&w->blob);
            tm_blob_unref(&l->blob);
        }
    }
}

static void memory_of_the_caller_is_given_back_only_when_no_fetch_writes_to_it(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    for (int keeps = 0; keeps < 2; keeps++) {
        leaf *l = leaf_new(100);
        l->keeps = keeps;
        uint8_t *dst = malloc(100);
        ending e = ENDING_INIT, other;
        tm_read_params params = {.sched = sched,
                                 .blob = &l->blob,
                                 .len = 100,
                                 .dst = dst,
                                 .done = ending_note,
                                 .user = &e};
        assert_int_equal(tm_read_new(&params, &e.read), 0);
        tm_read_go(e.read);
        tm_read_cancel(e.read, EINTR, gone);
        if (keeps) {
            /* The one worker has come by the first cancel when the second is through. */
            ending_go(&other, sched, &l->blob, 0, 100);
            tm_read_cancel(other.read, EINTR, gone);
            expect_ended(&other, -EINTR, gone);
            assert_false(ending_came(&e));
            assert_true(leaf_end(l, false, 0, NULL));
            assert_true(leaf_end(l, false, 0, NULL));
        }
        ending_wait(&e);
        free(dst);
        if (keeps) /* all of the bytes came before the read noticed: as good as not cancelled */
            assert_true(e.rc == 0 || e.rc == -EINTR);
        else
            assert_int_equal(e.rc, -EINTR);
        assert_int_equal(e.calls, 1);
        tm_read_unref(e.read);
        tm_blob_unref(&l->blob);
    }
    tm_sched_free(sched);
}

static void cancel_in_plan(worked *self, unsigned number)
{
    ending *e = self->user;
    (void)number;
    tm_read_cancel(e->read, EINTR, gone);
    ending_wait(e);
}

static void a_read_cancelled_while_it_is_planned_starts_no_fetch(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    leaf *l = leaf_new(100);
    worked *w = worked_new(&l->blob, 0);
    ending e;
    w->in_plan = cancel_in_plan;
    w->user = &e;
    ending_prepare(&e, sched, &w->blob, 0, 100);
    tm_read_go(e.read);
    tm_sched_free(sched);
    expect_ended(&e, -EINTR, gone);
    assert_int_equal(l->asked, 1);
    assert_int_equal(l->started, 0);
    tm_blob_unref(&w->blob);
    tm_blob_unref(&l->blob);
}

/* ---- While it computes ---- */

typedef struct interruption {
    ending *ending;
    int code;
    event begun, cancelled;
} interruption;

static void wait_in_run(worked *self, unsigned number)
{
    interruption *in = self->user;
    if (number != 1)
        return;
    event_set(&in->begun);
    event_wait(&in->cancelled, "for the cancel");
}

static void a_read_cancelled_while_it_computes_ends_before_its_next_run(void **state)
{
    (void)state;
    /* With one worker the cancel cannot run before the computing ends; with two it can. */
    for (unsigned workers = 1; workers <= 2; workers++) {
        for (int own = 0; own < 2; own++) {
            tm_sched *sched = sched_new(workers, 1);
            leaf *l = leaf_new(100);
            worked *w = worked_new(&l->blob, 0);
            uint8_t dst[100];
            interruption in = {.begun = EVENT_INIT, .cancelled = EVENT_INIT};
            w->in_run = wait_in_run;
            w->user = &in;
            ending e = ENDING_INIT;
            tm_read_params params = {.sched = sched,
                                     .blob = &w->blob,
                                     .len = 100,
                                     .dst = own ? NULL : dst,
                                     .done = ending_note,
                                     .user = &e};
            assert_int_equal(tm_read_new(&params, &e.read), 0);
            tm_read_go(e.read);
            assert_true(leaf_end(l, false, 0, NULL));
            event_wait(&in.begun, "for a run to begin");
            tm_read_cancel(e.read, ETIMEDOUT, "time is up");
            if (workers == 2 && own)
                ending_wait(&e); /* the reader need not wait for the run */
            assert_true(workers == 2 || !ending_came(&e));
            event_set(&in.cancelled);
            expect_ended(&e, -ETIMEDOUT, "time is up");
            tm_sched_free(sched);
            assert_int_equal(e.calls, 1);
            assert_int_equal(atomic_load(&w->runs), 2);
            tm_blob_unref(&w->blob);
            tm_blob_unref(&l->blob);
        }
    }
}

static void cancel_in_run(worked *self, unsigned number)
{
    interruption *in = self->user;
    if (number == WORKED_RUNS - 1)
        tm_read_cancel(in->ending->read, EINTR, gone);
}

static void a_read_cancelled_between_two_windows_begins_no_other(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    leaf *l = leaf_new(100);
    l->at_hand = true;
    worked *w = worked_new(&l->blob, 10);
    ending e;
    interruption in = {.ending = &e};
    w->in_run = cancel_in_run;
    w->user = &in;
    ending_prepare(&e, sched, &w->blob, 0, 100);
    tm_read_go(e.read);
    expect_ended(&e, -EINTR, gone);
    tm_sched_free(sched);
    assert_int_equal(e.calls, 1);
    assert_int_equal(w->plans, 1);
    assert_int_equal(l->asked, 1);
    tm_blob_unref(&w->blob);
    tm_blob_unref(&l->blob);
}

static void a_cancel_after_the_end_changes_nothing(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    leaf *l = leaf_new(100);
    ending good, bad;
    ending_go(&good, sched, &l->blob, 0, 100);
    ending_go(&bad, sched, &l->blob, 0, 100);
    assert_true(leaf_end(l, false, 0, NULL));
    assert_true(leaf_end(l, false, -EIO, "disk gone"));
    ending_wait(&good);
    ending_wait(&bad);
    tm_read_cancel(good.read, EINTR, gone);
    tm_read_cancel(bad.read, EINTR, gone);
    tm_sched_free(sched);
    assert_string_equal(tm_req_words(&bad.read->req), "disk gone");
    expect_bytes(&good, 0);
    expect_ended(&bad, -EIO, "disk gone");
    tm_blob_unref(&l->blob);
}

/* A failure and a cancel at the same moment: one of them is told, code and words of the same. */
static void code_and_words_are_always_of_the_same_failure(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(2, 1);
    leaf *l = leaf_new(100);
    ending e;
    for (int i = 0; i < 500; i++) {
        ending_go(&e, sched, &l->blob, 0, 100);
        tm_read_cancel(e.read, ETIMEDOUT, "time is up");
        tm_ignore(leaf_end(l, false, -EIO, "disk gone")); /* unless it is withdrawn already */
        ending_wait(&e);
        assert_true(e.rc == -ETIMEDOUT || e.rc == -EIO);
        expect_ended(&e, e.rc, e.rc == -EIO ? "disk gone" : "time is up");
    }
    tm_sched_free(sched);
    tm_blob_unref(&l->blob);
}

/* ---- Deadlines ---- */

static void timed_go(ending *e, tm_sched *sched, tm_blob *blob, uint64_t deadline_ns)
{
    *e = ENDING_INIT;
    tm_read_params params = {.sched = sched,
                             .blob = blob,
                             .len = blob->size,
                             .lane = TM_LANE_SELECTION,
                             .deadline_ns = deadline_ns,
                             .done = ending_note,
                             .user = e};
    assert_int_equal(tm_read_new(&params, &e->read), 0);
    tm_read_go(e->read);
}

static const char late[] = "no answer within the time limit";

static void a_read_ends_at_its_deadline_and_not_before(void **state)
{
    (void)state;
    enum {
        MS = 1000000
    };
    tm_sched *sched = sched_new(1, 1);
    leaf *l = leaf_new(100);
    l->keeps = true;
    uint64_t begun = tm_now_ns();
    ending soon, later, in_time, untimed;
    timed_go(&in_time, sched, &l->blob, begun + (uint64_t)3600 * 1000 * MS);
    timed_go(&untimed, sched, &l->blob, 0);
    timed_go(&later, sched, &l->blob, begun + 250 * MS);
    timed_go(&soon, sched, &l->blob, begun + 50 * MS);
    expect_ended(&soon, -ETIMEDOUT, late);
    assert_in_range(tm_now_ns() - begun, 50 * MS, UINT64_MAX);
    assert_false(ending_came(&in_time) || ending_came(&untimed));
    expect_ended(&later, -ETIMEDOUT, late);
    assert_in_range(tm_now_ns() - begun, 250 * MS, UINT64_MAX);
    for (int i = 0; i < 4; i++)
        assert_true(leaf_end(l, false, 0, NULL));
    expect_bytes(&in_time, 0);
    expect_bytes(&untimed, 0);
    tm_sched_free(sched);
    tm_blob_unref(&l->blob);
}

static void what_is_at_hand_is_never_too_late(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    leaf *l = leaf_new(100);
    l->at_hand = true;
    ending e;
    timed_go(&e, sched, &l->blob, 1);
    expect_bytes(&e, 0);
    tm_sched_free(sched);
    tm_blob_unref(&l->blob);
}

static void a_deadline_covers_all_windows_of_a_read(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    leaf *l = leaf_new(100);
    l->blob.window = 10;
    ending e;
    timed_go(&e, sched, &l->blob, tm_now_ns() + 150000000);
    /* All but the last of ten windows come, or as many as the machine is quick enough for. */
    for (unsigned n = 1; n < 10; n++) {
        while (leaf_started(l) < n && !ending_came(&e))
            sched_yield();
        leaf_end(l, false, 0, NULL);
    }
    expect_ended(&e, -ETIMEDOUT, late);
    tm_sched_free(sched);
    assert_in_range(l->started, 1, 10);
    tm_blob_unref(&l->blob);
}

/* ---- Many ---- */

static void a_thousand_stuck_reads_do_not_delay_a_prompt_one(void **state)
{
    (void)state;
    enum {
        STUCK = 1000
    };
    static ending stuck[STUCK];
    tm_sched *sched = sched_new(1, 1);
    leaf *dead = leaf_new(4096), *prompt = leaf_new(4096);
    dead->keeps = true;
    worked *w = worked_new(&prompt->blob, 0);
    for (int i = 0; i < STUCK; i++)
        timed_go(&stuck[i], sched, &dead->blob, tm_now_ns() + (uint64_t)3600 * 1000000000);
    assert_int_equal(leaf_started(dead), STUCK);
    ending e;
    ending_go(&e, sched, &w->blob, 0, 4096);
    assert_true(leaf_end(prompt, false, 0, NULL));
    expect_worked(&e, 0);
    for (int i = 0; i < STUCK; i++) {
        assert_false(ending_came(&stuck[i]));
        tm_read_cancel(stuck[i].read, EINTR, gone);
    }
    for (int i = 0; i < STUCK; i++)
        expect_ended(&stuck[i], -EINTR, gone);
    while (leaf_end(dead, false, 0, NULL))
        continue;
    tm_sched_free(sched);
    for (int i = 0; i < STUCK; i++)
        assert_int_equal(stuck[i].calls, 1);
    tm_blob_unref(&w->blob);
    tm_blob_unref(&prompt->blob);
    tm_blob_unref(&dead->blob);
}

static void the_scheduler_may_go_as_soon_as_a_cancelled_read_has_ended(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        tm_sched *sched = sched_new(2, 1);
        leaf *l = leaf_new(100);
        ending e;
        ending_go(&e, sched, &l->blob, 0, 100);
        tm_read_cancel(e.read, EINTR, gone);
        ending_wait(&e);
        tm_sched_free(sched);
        expect_ended(&e, -EINTR, gone);
        assert_int_equal(atomic_load(&l->blob.refs), 1);
        tm_blob_unref(&l->blob);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_read_cancelled_before_it_is_begun_ends_once_and_asks_nobody),
        cmocka_unit_test(a_cancelled_read_that_is_never_begun_ends_too),
        cmocka_unit_test(a_cancelled_read_withdraws_what_it_waits_for),
        cmocka_unit_test(a_fetch_that_cannot_be_taken_back_keeps_its_buffer_but_not_the_reader),
        cmocka_unit_test(memory_of_the_caller_is_given_back_only_when_no_fetch_writes_to_it),
        cmocka_unit_test(a_read_cancelled_while_it_is_planned_starts_no_fetch),
        cmocka_unit_test(a_read_cancelled_while_it_computes_ends_before_its_next_run),
        cmocka_unit_test(a_read_cancelled_between_two_windows_begins_no_other),
        cmocka_unit_test(a_cancel_after_the_end_changes_nothing),
        cmocka_unit_test(code_and_words_are_always_of_the_same_failure),
        cmocka_unit_test(a_read_ends_at_its_deadline_and_not_before),
        cmocka_unit_test(what_is_at_hand_is_never_too_late),
        cmocka_unit_test(a_deadline_covers_all_windows_of_a_read),
        cmocka_unit_test(a_thousand_stuck_reads_do_not_delay_a_prompt_one),
        cmocka_unit_test(the_scheduler_may_go_as_soon_as_a_cancelled_read_has_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
