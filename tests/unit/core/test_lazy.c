/* Bytes that are made when first read: once, by an opener, who may read in turn. */
#include "core/blob_lazy.h"
#include "tests/unit/core/engine.h"

enum {
    LAZY_BYTES = 500
};

typedef struct making {
    tm_sched *sched;
    int rc;            /* what make fails with, 0: nothing */
    const char *words; /* NULL: it fails without words */
    tm_blob *source;   /* what it reads; NULL: nothing */
    event *begun, *hold;
    atomic_uint makes, frees;
    pthread_t thread;
} making;

static int make(void *ctx, tm_req *req, void **ret)
{
    making *m = ctx;
    atomic_fetch_add(&m->makes, 1);
    m->thread = pthread_self();
    if (m->begun)
        event_set(m->begun);
    if (m->hold)
        event_wait(m->hold, "for the making to be let go");
    if (m->rc < 0)
        return m->words ? tm_fail(req, -m->rc, "%s", m->words) : m->rc;
    uint8_t *bytes = malloc(LAZY_BYTES);
    if (!bytes)
        return -ENOMEM;
    if (!m->source) {
        leaf_fill(0, LAZY_BYTES, bytes);
    } else {
        int rc = tm_read_wait(m->sched, m->source, 0, LAZY_BYTES, bytes, req);
        if (rc < 0) {
            free(bytes);
            return rc;
        }
    }
    *ret = bytes;
    return 0;
}

static void count_free(void *ctx)
{
    atomic_fetch_add(&((making *)ctx)->frees, 1);
}

static tm_blob *lazy_new(tm_sched *sched, making *m)
{
    tm_lazy_params params = {
        .sched = sched, .size = LAZY_BYTES, .make = make, .ctx = m, .free_ctx = count_free};
    tm_blob *blob;
    assert_int_equal(tm_blob_lazy_new(&params, &blob), 0);
    assert_int_equal(blob->size, LAZY_BYTES);
    return blob;
}

static void bytes_are_made_once_when_first_read(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(2, 1);
    event begun = EVENT_INIT, hold = EVENT_INIT;
    making m = {.begun = &begun, .hold = &hold};
    tm_blob *blob = lazy_new(sched, &m);
    assert_int_equal(atomic_load(&m.makes), 0);
    ending e[10], after;
    for (uint64_t i = 0; i < 10; i++)
        ending_go(&e[i], sched, blob, i * 7, 100);
    event_wait(&begun, "for the making");
    assert_false(ending_came(&e[0]));
    event_set(&hold);
    for (uint64_t i = 0; i < 10; i++)
        expect_bytes(&e[i], i * 7);
    assert_false(pthread_equal(m.thread, pthread_self()));
    ending_go(&after, sched, blob, 0, LAZY_BYTES);
    assert_int_equal(after.calls, 1);
    expect_bytes(&after, 0);
    assert_int_equal(atomic_load(&m.makes), 1);
    tm_sched_free(sched);
    assert_int_equal(atomic_load(&m.frees), 0);
    tm_blob_unref(blob);
    assert_int_equal(atomic_load(&m.frees), 1);
}

static void what_is_never_read_is_never_made(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    making m = {0};
    tm_blob_unref(lazy_new(sched, &m));
    tm_sched_free(sched);
    assert_int_equal(atomic_load(&m.makes), 0);
    assert_int_equal(atomic_load(&m.frees), 1);
}

static void a_failure_is_told_and_tried_again_by_the_next(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    making m = {.rc = -EBADMSG, .words = "a.safetensors: no header"};
    tm_blob *blob = lazy_new(sched, &m);
    ending e;
    ending_go(&e, sched, blob, 0, 100);
    expect_ended(&e, -EBADMSG, "a.safetensors: no header");
    m.words = NULL;
    ending_go(&e, sched, blob, 0, 100);
    expect_ended(&e, -EBADMSG, strerror(EBADMSG));
    m.rc = 0;
    ending_go(&e, sched, blob, 1, 100);
    expect_bytes(&e, 1);
    assert_int_equal(atomic_load(&m.makes), 3);
    tm_sched_free(sched);
    tm_blob_unref(blob);
}

static void a_reader_that_gives_up_leaves_the_making_to_the_next(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    event begun = EVENT_INIT, hold = EVENT_INIT;
    making m = {.begun = &begun, .hold = &hold};
    tm_blob *blob = lazy_new(sched, &m);
    ending e, next;
    ending_go(&e, sched, blob, 0, 100);
    event_wait(&begun, "for the making");
    tm_read_cancel(e.read, EINTR, "gone");
    expect_ended(&e, -EINTR, "gone");
    ending_go(&next, sched, blob, 3, 100);
    event_set(&hold);
    expect_bytes(&next, 3);
    assert_int_equal(atomic_load(&m.makes), 1);
    tm_sched_free(sched);
    tm_blob_unref(blob);
}

static void the_making_outlives_blob_and_readers_that_gave_up(void **state)
{
    (void)state;
    static const int ends[] = {0, -EIO};
    for (size_t i = 0; i < TM_ARRAY_LEN(ends); i++) {
        tm_sched *sched = sched_new(1, 1);
        event begun = EVENT_INIT, hold = EVENT_INIT;
        making m = {.begun = &begun, .hold = &hold, .rc = ends[i], .words = "nobody hears this"};
        tm_blob *blob = lazy_new(sched, &m);
        ending e;
        ending_go(&e, sched, blob, 0, 100);
        event_wait(&begun, "for the making");
        tm_read_cancel(e.read, EINTR, "gone");
        expect_ended(&e, -EINTR, "gone");
        tm_blob_unref(blob);
        assert_int_equal(atomic_load(&m.frees), 0);
        event_set(&hold);
        tm_sched_free(sched);
        assert_int_equal(atomic_load(&m.frees), 1);
    }
}

/* ---- Makers that read through the I/O threads ---- */

static void makers_that_wait_for_the_disk_do_not_wait_for_each_other(void **state)
{
    (void)state;
    enum {
        MAKERS = 60 /* more than there are threads of any kind */
    };
    static making m[MAKERS];
    static ending e[MAKERS];
    tm_blob *blobs[MAKERS];
    for (unsigned io = 0; io < 2; io++) {
        tm_sched *sched = sched_new(1, io);
        disk *source = disk_new(LAZY_BYTES);
        for (int i = 0; i < MAKERS; i++) {
            m[i] = (making){.sched = sched, .source = &source->blob};
            blobs[i] = lazy_new(sched, &m[i]);
            ending_go(&e[i], sched, blobs[i], 0, LAZY_BYTES);
        }
        for (int i = 0; i < MAKERS; i++) {
            expect_bytes(&e[i], 0);
            tm_blob_unref(blobs[i]);
        }
        tm_sched_free(sched);
        tm_blob_unref(&source->blob);
    }
}

static void a_scheduler_that_goes_lets_makers_read_to_their_end(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        tm_sched *sched = sched_new(1, 1);
        disk *source = disk_new(LAZY_BYTES);
        making m = {.sched = sched, .source = &source->blob};
        tm_blob *blob = lazy_new(sched, &m);
        ending e;
        ending_go(&e, sched, blob, 0, LAZY_BYTES);
        tm_read_cancel(e.read, EINTR, "the mount ends");
        ending_wait(&e);
        tm_sched_free(sched);
        assert_int_equal(e.calls, 1);
        tm_read_unref(e.read);
        tm_blob_unref(blob);
        tm_blob_unref(&source->blob);
        assert_int_equal(atomic_load(&m.frees), 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_made_once_when_first_read),
        cmocka_unit_test(what_is_never_read_is_never_made),
        cmocka_unit_test(a_failure_is_told_and_tried_again_by_the_next),
        cmocka_unit_test(a_reader_that_gives_up_leaves_the_making_to_the_next),
        cmocka_unit_test(the_making_outlives_blob_and_readers_that_gave_up),
        cmocka_unit_test(makers_that_wait_for_the_disk_do_not_wait_for_each_other),
        cmocka_unit_test(a_scheduler_that_goes_lets_makers_read_to_their_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
