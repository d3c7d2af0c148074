/* Local files as blobs: bytes from the page cache or an I/O thread, and never others. */
#include "core/blob_file.h"

#include "core/file.h"
#include "tests/unit/core/engine.h"
#include "tests/unit/core/folder.h"

enum {
    BIG = (3 << 20) + 4321
};

typedef struct place {
    tm_sched *sched;
    tm_file_set *set;
} place;

static place place_new(unsigned io, unsigned descriptors)
{
    place p = {.sched = sched_new(1, io)};
    assert_int_equal(tm_file_set_new(descriptors, &p.set), 0);
    return p;
}

static void place_free(place *p)
{
    tm_sched_free(p->sched);
    tm_file_set_free(p->set);
    folder_clear();
}

static tm_blob *open_path(place *p, const char *path)
{
    tm_req req;
    tm_file *file;
    tm_blob *blob;
    tm_req_init(&req, TM_LANE_VISIBLE);
    assert_int_equal(tm_file_new(p->set, path, &req, &file), 0);
    assert_int_equal(tm_blob_file_new(p->sched, file, &blob), 0);
    tm_file_unref(file); /* the blob's */
    return blob;
}

static tm_blob *open_blob(place *p, const char *name)
{
    char path[FOLDER_PATH_MAX];
    return open_path(p, path_in(path, name));
}

static void expect_file_bytes(ending *e, unsigned key, uint64_t first)
{
    ending_wait(e);
    for (size_t i = 0; e->rc == 0 && i < e->read->params.len; i++)
        if (e->read->bytes[i] != file_byte(key, first + i))
            fail_msg("byte %zu is %u", i, e->read->bytes[i]);
    expect_ended(e, 0, "");
}

/* Reads BLOB without further notice of how. */
static void read_file_bytes(place *p, tm_blob *blob, unsigned key, uint64_t off, size_t len)
{
    ending e;
    ending_go(&e, p->sched, blob, off, len);
    expect_file_bytes(&e, key, off);
}

static void expect_stale(place *p, tm_blob *blob, const char *words)
{
    char all[FOLDER_PATH_MAX + 100];
    ending e;
    ending_go(&e, p->sched, blob, 0, blob->size);
    snprintf(all, sizeof(all), "%s/a: %s", folder, words);
    expect_ended(&e, -ESTALE, all);
}

static void any_range_of_a_file_is_read(void **state)
{
    (void)state;
    static const struct {
        uint64_t off;
        size_t len;
    } rows[] = {{0, BIG},      {0, 1},   {BIG - 1, 1},       {1, BIG - 2},
                {4095, 2},     {BIG, 0}, {1 << 20, 1 << 20}, {(1 << 20) - 1, (1 << 20) + 3},
                {12345, 67890}};
    place p = place_new(2, 4);
    write_file("a", 1, BIG);
    tm_blob *blob = open_blob(&p, "a");
    assert_int_equal(blob->size, BIG);
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++)
        read_file_bytes(&p, blob, 1, rows[i].off, rows[i].len);
    tm_blob_unref(blob);
    place_free(&p);
}

static void an_empty_file_is_an_empty_blob(void **state)
{
    (void)state;
    place p = place_new(1, 4);
    write_file("a", 1, 0);
    tm_blob *blob = open_blob(&p, "a");
    assert_int_equal(blob->size, 0);
    read_file_bytes(&p, blob, 1, 0, 0);
    tm_blob_unref(blob);
    place_free(&p);
}

static void fifty_files_are_read_through_two_descriptors(void **state)
{
    (void)state;
    enum {
        FILES = 50
    };
    place p = place_new(2, 2);
    tm_blob *blobs[FILES], *whole;
    for (unsigned i = 0; i < FILES; i++) {
        char name[16];
        snprintf(name, sizeof(name), "f%u", i);
        write_file(name, i, 1000);
        blobs[i] = open_blob(&p, name);
    }
    assert_int_equal(tm_blob_concat_new(blobs, FILES, &whole), 0);
    for (int round = 0; round < 3; round++) {
        ending e;
        ending_go(&e, p.sched, whole, 0, whole->size);
        ending_wait(&e);
        for (size_t i = 0; e.rc == 0 && i < whole->size; i++)
            assert_int_equal(e.read->bytes[i], file_byte((unsigned)(i / 1000), i % 1000));
        expect_ended(&e, 0, "");
        assert_in_range(tm_file_set_open_count(p.set), 1, 2);
    }
    tm_blob_unref(whole);
    for (unsigned i = 0; i < FILES; i++)
        tm_blob_unref(blobs[i]);
    place_free(&p);
}

/* ---- Changes ---- */

static void a_file_that_is_replaced_before_it_is_opened_is_stale(void **state)
{
    (void)state;
    place p = place_new(1, 4);
    write_file("a", 1, 1000);
    tm_blob *blob = open_blob(&p, "a");
    replace_file("a", 1, 1000);
    expect_stale(&p, blob, "the file changed while it was mounted");
    tm_blob_unref(blob);
    place_free(&p);
}

static void a_file_written_to_is_stale_wherever_its_bytes_are(void **state)
{
    (void)state;
    static const struct {
        unsigned key;
        size_t len;
    } rows[] = {{2, 1000}, {1, 1001}, {1, 999}, {1, 0}, {3, 5000}};
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        for (int was_open = 0; was_open < 2; was_open++) {
            place p = place_new(1, 4);
            write_file("a", 1, 1000);
            tm_blob *blob = open_blob(&p, "a");
            if (was_open)
                read_file_bytes(&p, blob, 1, 0, 1000);
            write_file("a", rows[i].key, rows[i].len);
            expect_stale(&p, blob,
                         was_open ? "the file was changed while it was mounted"
                                  : "the file changed while it was mounted");
            tm_blob_unref(blob);
            place_free(&p);
        }
    }
}

static void a_held_file_keeps_its_bytes_when_another_takes_its_name(void **state)
{
    (void)state;
    place p = place_new(1, 1);
    write_file("a", 1, 1000);
    write_file("b", 2, 1000);
    tm_blob *blob = open_blob(&p, "a"), *other = open_blob(&p, "b"), *slice;
    assert_int_equal(tm_blob_slice_new(blob, 100, 800, &slice), 0);
    tm_req req;
    tm_req_init(&req, TM_LANE_VISIBLE);
    req.may_block = true;
    assert_int_equal(tm_blob_hold(slice, &req), 0);
    replace_file("a", 7, 1000);
    read_file_bytes(&p, other, 2, 0, 1000); /* the limit of one descriptor does not reach it */
    read_file_bytes(&p, blob, 1, 0, 1000);
    ending e;
    ending_go(&e, p.sched, slice, 5, 700);
    expect_file_bytes(&e, 1, 105);
    assert_int_equal(tm_blob_hold(slice, &req), 0); /* a second handle on what is open */
    tm_blob_unhold(slice);
    read_file_bytes(&p, blob, 1, 0, 1000);
    tm_blob_unhold(slice);
    read_file_bytes(&p, other, 2, 0, 1000); /* closes the other */
    expect_stale(&p, blob, "the file changed while it was mounted");
    assert_int_equal(tm_blob_hold(blob, &req), -ESTALE);
    tm_blob *fresh = open_blob(&p, "a");
    read_file_bytes(&p, fresh, 7, 0, 1000);
    tm_blob_unref(fresh);
    tm_blob_unref(slice);
    tm_blob_unref(blob);
    tm_blob_unref(other);
    place_free(&p);
}

static void a_held_file_that_is_written_to_is_stale(void **state)
{
    (void)state;
    place p = place_new(1, 1);
    write_file("a", 1, 1000);
    tm_blob *blob = open_blob(&p, "a");
    tm_req req;
    tm_req_init(&req, TM_LANE_VISIBLE);
    req.may_block = true;
    assert_int_equal(tm_blob_hold(blob, &req), 0);
    write_file("a", 2, 1000);
    expect_stale(&p, blob, "the file was changed while it was mounted");
    tm_blob_unhold(blob);
    tm_blob_unref(blob);
    place_free(&p);
}

static void a_thread_that_may_not_wait_opens_nothing(void **state)
{
    (void)state;
    place p = place_new(1, 4);
    write_file("a", 1, 1000);
    tm_blob *blob = open_blob(&p, "a");
    tm_req req;
    tm_req_init(&req, TM_LANE_VISIBLE);
    assert_int_equal(tm_blob_hold(blob, &req), -EINPROGRESS);
    assert_int_equal(tm_file_set_open_count(p.set), 0);
    req.may_block = true;
    assert_int_equal(tm_blob_hold(blob, &req), 0);
    req.may_block = false;
    assert_int_equal(tm_blob_hold(blob, &req), 0); /* it is open now */
    tm_blob_unhold(blob);
    tm_blob_unhold(blob);
    assert_string_equal(tm_req_words(&req), "");
    tm_blob_unref(blob);
    place_free(&p);
}

static void a_file_blob_stands_in_its_file(void **state)
{
    (void)state;
    place p = place_new(1, 4);
    char path[FOLDER_PATH_MAX];
    write_file("a", 1, 1000);
    tm_blob *blob = open_blob(&p, "a"), *slice;
    assert_int_equal(tm_blob_slice_new(blob, 100, 800, &slice), 0);
    tm_extent extent;
    assert_true(tm_blob_locate(slice, 10, 700, &extent));
    assert_int_equal(extent.off, 110);
    assert_string_equal(tm_file_path(extent.file), path_in(path, "a"));
    tm_blob_unref(slice);
    tm_blob_unref(blob);
    place_free(&p);
}

/* The kernel's own files say 4096 bytes and have fewer. */
static void a_file_that_ends_early_is_an_error_and_no_short_read(void **state)
{
    (void)state;
    static const char path[] = "/sys/devices/system/cpu/online";
    struct stat st;
    if (stat(path, &st) < 0 || st.st_size < 1000)
        skip();
    place p = place_new(1, 4);
    tm_blob *blob = open_path(&p, path);
    ending e;
    ending_go(&e, p.sched, blob, 0, blob->size);
    ending_wait(&e);
    assert_int_equal(strncmp(e.words, path, strlen(path)), 0);
    assert_non_null(strstr(e.words, ": ends at byte "));
    expect_ended(&e, -EIO, e.words);
    tm_blob_unref(blob);
    place_free(&p);
}

/* ---- I/O threads ---- */

typedef struct blocker {
    tm_job job;
    event begun, hold;
} blocker;

static void run_blocker(tm_job *job)
{
    blocker *self = TM_CONTAINER(job, blocker, job);
    event_set(&self->begun);
    event_wait(&self->hold, "for the I/O thread to be let go");
}

static void a_read_that_waits_for_an_io_thread_can_be_cancelled(void **state)
{
    (void)state;
    place p = place_new(1, 4);
    write_file("a", 1, 1000);
    tm_blob *blob = open_blob(&p, "a");
    blocker b = {.job = {.run = run_blocker}, .begun = EVENT_INIT, .hold = EVENT_INIT};
    tm_pool_submit(p.sched->io, &b.job);
    event_wait(&b.begun, "for the only I/O thread");
    ending e, stays;
    ending_go(&e, p.sched, blob, 0, 1000);
    ending_go(&stays, p.sched, blob, 0, 1000);
    tm_read_cancel(e.read, EINTR, "gone");
    expect_ended(&e, -EINTR, "gone");
    assert_false(ending_came(&stays));
    tm_pool_lane_counts counts[TM_LANE_COUNT];
    tm_pool_counts(p.sched->io, counts);
    assert_int_equal(counts[TM_LANE_VISIBLE].queued, 1);
    event_set(&b.hold);
    expect_file_bytes(&stays, 1, 0);
    tm_blob_unref(blob);
    place_free(&p);
}

enum {
    THREADS = 3,
    READS = 1500,
    SOME = 8
};

typedef struct reader {
    tm_sched *sched;
    tm_blob **blobs;
    uint64_t seed;
    pthread_t thread;
    unsigned faults;
} reader;

static void *read_at_random(void *arg)
{
    reader *self = arg;
    for (int i = 0; i < READS; i++) {
        unsigned n = (unsigned)(next_random(&self->seed) % SOME);
        uint64_t off = next_random(&self->seed) % 20000;
        size_t len = next_random(&self->seed) % (20000 - off);
        tm_req req;
        tm_req_init(&req, (tm_lane)(next_random(&self->seed) % TM_LANE_COUNT));
        req.may_block = true;
        uint8_t bytes[20000];
        bool right = tm_read_wait(self->sched, self->blobs[n], off, len, bytes, &req) == 0;
        for (size_t j = 0; right && j < len; j++)
            right = bytes[j] == file_byte(n, off + j);
        self->faults += !right;
    }
    return NULL;
}

static void many_threads_read_many_files_through_few_descriptors(void **state)
{
    (void)state;
    place p = place_new(3, 2);
    tm_blob *blobs[SOME];
    reader readers[THREADS];
    for (unsigned i = 0; i < SOME; i++) {
        char name[16];
        snprintf(name, sizeof(name), "f%u", i);
        write_file(name, i, 20000);
        blobs[i] = open_blob(&p, name);
    }
    for (uint64_t i = 0; i < THREADS; i++) {
        readers[i] = (reader){.sched = p.sched, .blobs = blobs, .seed = i};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_at_random, &readers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(readers[i].thread, NULL);
        assert_int_equal(readers[i].faults, 0);
    }
    for (unsigned i = 0; i < SOME; i++)
        tm_blob_unref(blobs[i]);
    place_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_range_of_a_file_is_read),
        cmocka_unit_test(an_empty_file_is_an_empty_blob),
        cmocka_unit_test(fifty_files_are_read_through_two_descriptors),
        cmocka_unit_test(a_file_that_is_replaced_before_it_is_opened_is_stale),
        cmocka_unit_test(a_file_written_to_is_stale_wherever_its_bytes_are),
        cmocka_unit_test(a_held_file_keeps_its_bytes_when_another_takes_its_name),
        cmocka_unit_test(a_held_file_that_is_written_to_is_stale),
        cmocka_unit_test(a_thread_that_may_not_wait_opens_nothing),
        cmocka_unit_test(a_file_blob_stands_in_its_file),
        cmocka_unit_test(a_file_that_ends_early_is_an_error_and_no_short_read),
        cmocka_unit_test(a_read_that_waits_for_an_io_thread_can_be_cancelled),
        cmocka_unit_test(many_threads_read_many_files_through_few_descriptors),
    };
    return cmocka_run_group_tests(tests, folder_new, folder_free);
}
