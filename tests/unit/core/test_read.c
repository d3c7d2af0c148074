/* Reads that end by themselves: at once, over fetches, in windows, and with every kind of error. */
#include <sched.h>

#include "tests/unit/core/worked.h"

/* ---- Without waiting ---- */

static void what_is_at_hand_is_answered_once_on_the_thread_that_asks(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    leaf *l = leaf_new(5000);
    l->at_hand = true;
    worked *w = worked_new(&l->blob, 0);
    tm_blob *parts[] = {&l->blob, &w->blob}, *both;
    assert_int_equal(tm_blob_concat_new(parts, 2, &both), 0);
    ending plain, computed, joined, nothing;
    ending_go(&plain, sched, &l->blob, 1, 4000);
    assert_int_equal(plain.calls, 1); /* before go returned */
    assert_true(pthread_equal(plain.thread, pthread_self()));
    expect_bytes(&plain, 1);
    ending_go(&computed, sched, &w->blob, 4999, 1);
    assert_int_equal(computed.calls, 1);
    assert_true(pthread_equal(w->thread, pthread_self()));
    expect_worked(&computed, 4999);
    ending_go(&joined, sched, both, 4999, 2);
    assert_int_equal(joined.calls, 1);
    assert_int_equal(joined.read->bytes[0], leaf_byte(4999));
    assert_int_equal(joined.read->bytes[1], worked_byte(0));
    expect_ended(&joined, 0, "");
    ending_go(&nothing, sched, &l->blob, 5000, 0);
    assert_int_equal(nothing.calls, 1);
    expect_ended(&nothing, 0, "");
    assert_int_equal(leaf_started(l), 0);
    tm_sched_free(sched);
    tm_blob_unref(both);
    tm_blob_unref(&w->blob);
    tm_blob_unref(&l->blob);
}

static void a_read_may_go_into_memory_of_the_caller(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    leaf *l = leaf_new(100);
    l->at_hand = true;
    uint8_t dst[102];
    memset(dst, 0xee, sizeof(dst));
    ending e = ENDING_INIT;
    tm_read_params params = {.sched = sched,
                             .blob = &l->blob,
                             .len = 100,
                             .dst = dst + 1,
                             .done = ending_note,
                             .user = &e};
    assert_int_equal(tm_read_new(&params, &e.read), 0);
    assert_ptr_equal(e.read->bytes, dst + 1);
    tm_read_go(e.read);
    expect_bytes(&e, 0);
    assert_int_equal(dst[0], 0xee);
    assert_int_equal(dst[101], 0xee);
    tm_sched_free(sched);
    tm_blob_unref(&l->blob);
}

/* ---- Over fetches ---- */

static void *end_oldest(void *l)
{
    assert(leaf_end(l, false, 0, NULL));
    return NULL;
}

static void bytes_that_need_no_work_leave_from_the_thread_that_brought_them(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    leaf *l = leaf_new(5000);
    ending e;
    ending_go(&e, sched, &l->blob, 7, 300);
    assert_false(ending_came(&e));
    assert_int_equal(leaf_started(l), 1);
    assert_int_equal(l->asked, 1);
    pthread_t fetcher;
    assert_int_equal(pthread_create(&fetcher, NULL, end_oldest, l), 0);
    ending_wait(&e);
    assert_true(pthread_equal(e.thread, fetcher));
    expect_bytes(&e, 7);
    pthread_join(fetcher, NULL);
    tm_sched_free(sched);
    tm_blob_unref(&l->blob);
}

static void bytes_that_need_work_are_given_to_a_worker(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    leaf *l = leaf_new(5000);
    worked *w = worked_new(&l->blob, 0);
    ending e;
    ending_go(&e, sched, &w->blob, 7, 300);
    assert_int_equal(atomic_load(&w->runs), 0);
    assert_true(leaf_end(l, false, 0, NULL));
    ending_wait(&e);
    assert_false(pthread_equal(e.thread, pthread_self()));
    assert_true(pthread_equal(e.thread, w->thread));
    expect_worked(&e, 7);
    assert_int_equal(atomic_load(&w->runs), WORKED_RUNS);
    assert_int_equal(w->plans, 1);
    tm_sched_free(sched);
    tm_blob_unref(&w->blob);
    tm_blob_unref(&l->blob);
}

static void several_fetches_are_under_way_at_once_and_end_in_any_order(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    for (int newest = 0; newest < 2; newest++) {
        leaf *there = leaf_new(10), *l = leaf_new(100);
        there->at_hand = true;
        worked *w = worked_new(&l->blob, 0);
        tm_blob *parts[] = {&l->blob, &there->blob, &w->blob, &l->blob}, *whole;
        assert_int_equal(tm_blob_concat_new(parts, 4, &whole), 0);
        ending e;
        ending_go(&e, sched, whole, 0, 310);
        assert_int_equal(leaf_started(l), 3);
        assert_int_equal(leaf_started(there), 0);
        for (int i = 0; i < 3; i++) {
            assert_false(ending_came(&e));
            assert_int_equal(atomic_load(&w->runs), 0);
            assert_true(leaf_end(l, newest, 0, NULL));
        }
        ending_wait(&e);
        for (int i = 0; i < 310; i++) {
            uint8_t expected = i < 100   ? leaf_byte((uint64_t)i)
                               : i < 110 ? leaf_byte((uint64_t)i - 100)
                               : i < 210 ? worked_byte((uint64_t)i - 110)
                                         : leaf_byte((uint64_t)i - 210);
            assert_int_equal(e.read->bytes[i], expected);
        }
        expect_ended(&e, 0, "");
        assert_int_equal(l->asked, 3); /* what came is not asked for again */
        tm_blob_unref(whole);
        tm_blob_unref(&w->blob);
        tm_blob_unref(&l->blob);
        tm_blob_unref(&there->blob);
    }
    tm_sched_free(sched);
}

/* ---- Windows ---- */

static void a_long_read_goes_window_by_window(void **state)
{
    (void)state;
    static const struct {
        size_t window;
        uint64_t off;
        size_t len;
        unsigned plans;
    } rows[] = {{0, 3, 90, 1},  {100, 3, 90, 1}, {90, 3, 90, 1}, {89, 3, 90, 2},
                {45, 0, 90, 2}, {40, 5, 90, 3},  {1, 7, 20, 20}};
    for (int at_hand = 0; at_hand < 2; at_hand++) {
        tm_sched *sched = sched_new(2, 1);
        for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
            leaf *l = leaf_new(100);
            l->at_hand = at_hand;
            worked *w = worked_new(&l->blob, rows[i].window);
            ending e;
            ending_go(&e, sched, &w->blob, rows[i].off, rows[i].len);
            for (unsigned n = 0; !at_hand && n < rows[i].plans; n++) {
                leaf_wait_started(l, n + 1);
                assert_int_equal(leaf_started(l), n + 1); /* one window at a time */
                assert_true(leaf_end(l, false, 0, NULL));
            }
            expect_worked(&e, rows[i].off);
            assert_int_equal(w->plans, rows[i].plans);
            uint64_t at = rows[i].off;
            for (unsigned n = 0; n < w->plans; n++) {
                assert_int_equal(w->notes[n].off, at);
                at += w->notes[n].len;
                assert_true(rows[i].window == 0 || w->notes[n].len <= rows[i].window);
            }
            assert_int_equal(at, rows[i].off + rows[i].len);
            assert_int_equal(atomic_load(&w->runs), WORKED_RUNS * rows[i].plans);
            tm_blob_unref(&w->blob);
            tm_blob_unref(&l->blob);
        }
        tm_sched_free(sched);
    }
}

static void windows_of_a_leaf_are_fetched_one_after_the_other(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    leaf *l = leaf_new(100);
    l->blob.window = 30;
    ending e;
    ending_go(&e, sched, &l->blob, 0, 100);
    assert_true(leaf_end(l, false, 0, NULL));
    leaf_wait_started(l, 2);
    l->at_hand = true; /* what follows the second window is there meanwhile */
    assert_true(leaf_end(l, false, 0, NULL));
    expect_bytes(&e, 0);
    assert_int_equal(leaf_started(l), 2);
    assert_int_equal(l->asked, 4);
    tm_sched_free(sched);
    tm_blob_unref(&l->blob);
}

/* ---- Errors ---- */

typedef struct failing {
    int now_rc, plan_rc, fetch_rc, run_rc;
    unsigned plan_at, run_at;
    const char *fetch_words;
    int rc;
    const char *words;
    unsigned runs; /* that begin */
} failing;

static const failing failures[] = {
    {.plan_rc = -EOPNOTSUPP, .rc = -EOPNOTSUPP, .words = "plan 0 failed"},
    {.plan_rc = -ENOMEM, .plan_at = 1, .rc = -ENOMEM, .words = "plan 1 failed", .runs = 3},
    {.now_rc = -ESTALE, .rc = -ESTALE, .words = "the leaf fails at once"},
    {.fetch_rc = -EIO, .fetch_words = "disk gone", .rc = -EIO, .words = "disk gone"},
    {.fetch_rc = -EACCES, .rc = -EACCES, .words = "Permission denied"},
    {.fetch_rc = -EACCES, .fetch_words = "", .rc = -EACCES, .words = "Permission denied"},
    {.run_rc = -EBADMSG, .rc = -EBADMSG, .words = "run 0 failed", .runs = 1},
    {.run_rc = -EBADMSG, .run_at = 2, .rc = -EBADMSG, .words = "run 2 failed", .runs = 3},
    {.run_rc = -EIO, .run_at = 4, .rc = -EIO, .words = "run 4 failed", .runs = 5},
    /* An error like any other, not a wish to be asked again. */
    {.plan_rc = -EAGAIN, .rc = -EAGAIN, .words = "plan 0 failed"},
    {.fetch_rc = -EAGAIN,
     .fetch_words = "come back later",
     .rc = -EAGAIN,
     .words = "come back later"},
    {.run_rc = -EAGAIN, .run_at = 1, .rc = -EAGAIN, .words = "run 1 failed", .runs = 2},
};

static void check_failure(tm_sched *sched, const failing *f, bool at_hand)
{
    leaf *l = leaf_new(100);
    l->at_hand = at_hand;
    l->now_rc = f->now_rc;
    worked *w = worked_new(&l->blob, 50);
    w->plan_rc = f->plan_rc;
    w->plan_at = f->plan_at;
    w->run_rc = f->run_rc;
    w->run_at = f->run_at;
    ending e;
    ending_go(&e, sched, &w->blob, 0, 100);
    while (!ending_came(&e))
        if (!leaf_end(l, false, f->fetch_rc, f->fetch_words))
            sched_yield();
    expect_ended(&e, f->rc, f->words);
    assert_int_equal(atomic_load(&w->runs), f->runs);
    assert_null(l->first);
    tm_blob_unref(&w->blob);
    tm_blob_unref(&l->blob);
}

static void an_error_of_any_phase_ends_the_read_with_its_words(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    for (size_t i = 0; i < TM_ARRAY_LEN(failures); i++) {
        check_failure(sched, &failures[i], false);
        if (failures[i].fetch_rc == 0)
            check_failure(sched, &failures[i], true);
    }
    tm_sched_free(sched);
}

static void of_several_errors_the_first_is_told_when_all_fetches_ended(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    leaf *l = leaf_new(100);
    tm_blob *parts[] = {&l->blob, &l->blob, &l->blob}, *whole;
    assert_int_equal(tm_blob_concat_new(parts, 3, &whole), 0);
    ending e;
    ending_go(&e, sched, whole, 0, 300);
    assert_true(leaf_end(l, true, -EIO, "the last part"));
    assert_false(ending_came(&e));
    assert_true(leaf_end(l, false, -ESTALE, "the first part"));
    assert_false(ending_came(&e)); /* the third still writes to the buffer */
    assert_true(leaf_end(l, false, 0, NULL));
    expect_ended(&e, -EIO, "the last part");
    tm_blob_unref(whole);
    tm_sched_free(sched);
    tm_blob_unref(&l->blob);
}

static void an_error_at_once_starts_no_fetch(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    leaf *l = leaf_new(100), *broken = leaf_new(100);
    broken->now_rc = -ESTALE;
    tm_blob *parts[] = {&l->blob, &broken->blob}, *whole;
    assert_int_equal(tm_blob_concat_new(parts, 2, &whole), 0);
    ending e;
    ending_go(&e, sched, whole, 0, 200);
    assert_int_equal(e.calls, 1);
    expect_ended(&e, -ESTALE, "the leaf fails at once");
    assert_int_equal(leaf_started(l), 0);
    tm_blob_unref(whole);
    tm_sched_free(sched);
    tm_blob_unref(&l->blob);
    tm_blob_unref(&broken->blob);
}

/* ---- Reads that a thread waits for ---- */

static tm_req blocking(tm_lane lane)
{
    tm_req req;
    tm_req_init(&req, lane);
    req.may_block = true;
    return req;
}

typedef struct ender {
    leaf *leaf;
    unsigned count;
    int rc;
    const char *words;
} ender;

static void *end_some(void *arg)
{
    ender *self = arg;
    for (unsigned i = 0; i < self->count; i++) {
        leaf_wait_started(self->leaf, i + 1);
        assert(leaf_end(self->leaf, false, self->rc, self->words));
    }
    return NULL;
}

static void a_thread_may_wait_for_a_read(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    leaf *l = leaf_new(100);
    l->blob.window = 40;
    uint8_t bytes[100];
    tm_req req = blocking(TM_LANE_VISIBLE);
    pthread_t thread;
    ender all = {l, 3, 0, NULL};
    assert_int_equal(pthread_create(&thread, NULL, end_some, &all), 0);
    assert_int_equal(tm_read_wait(sched, &l->blob, 0, 100, bytes, &req), 0);
    pthread_join(thread, NULL);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(bytes[i], leaf_byte(i));
    assert_string_equal(tm_req_words(&req), "");
    tm_sched_free(sched);
    tm_blob_unref(&l->blob);
}

static void who_waits_gets_the_words_of_the_failure(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    leaf *l = leaf_new(100);
    uint8_t bytes[100];
    tm_req req = blocking(TM_LANE_VISIBLE);
    pthread_t thread;
    ender failure = {l, 1, -EIO, "sector 7"};
    assert_int_equal(pthread_create(&thread, NULL, end_some, &failure), 0);
    assert_int_equal(tm_read_wait(sched, &l->blob, 0, 100, bytes, &req), -EIO);
    pthread_join(thread, NULL);
    assert_string_equal(tm_req_words(&req), "sector 7");

    tm_req timed = blocking(TM_LANE_VISIBLE);
    timed.deadline_ns = tm_now_ns();
    assert_int_equal(tm_read_wait(sched, &l->blob, 0, 100, bytes, &timed), -ETIMEDOUT);
    assert_string_equal(tm_req_words(&timed), "no answer within the time limit");
    tm_sched_free(sched);
    tm_blob_unref(&l->blob);
}

static void nobody_waits_on_behalf_of_a_cancelled_request(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    leaf *l = leaf_new(100);
    uint8_t bytes[100];
    tm_req req = blocking(TM_LANE_VISIBLE);
    atomic_store(&req.cancelled, true);
    assert_int_equal(tm_read_wait(sched, &l->blob, 0, 100, bytes, &req), -EINTR);
    assert_int_equal(l->asked, 0);
    tm_sched_free(sched);
    tm_blob_unref(&l->blob);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_at_hand_is_answered_once_on_the_thread_that_asks),
        cmocka_unit_test(a_read_may_go_into_memory_of_the_caller),
        cmocka_unit_test(bytes_that_need_no_work_leave_from_the_thread_that_brought_them),
        cmocka_unit_test(bytes_that_need_work_are_given_to_a_worker),
        cmocka_unit_test(several_fetches_are_under_way_at_once_and_end_in_any_order),
        cmocka_unit_test(a_long_read_goes_window_by_window),
        cmocka_unit_test(windows_of_a_leaf_are_fetched_one_after_the_other),
        cmocka_unit_test(an_error_of_any_phase_ends_the_read_with_its_words),
        cmocka_unit_test(of_several_errors_the_first_is_told_when_all_fetches_ended),
        cmocka_unit_test(an_error_at_once_starts_no_fetch),
        cmocka_unit_test(a_thread_may_wait_for_a_read),
        cmocka_unit_test(who_waits_gets_the_words_of_the_failure),
        cmocka_unit_test(nobody_waits_on_behalf_of_a_cancelled_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
