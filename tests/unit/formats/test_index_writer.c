/* An index in the making: the same bytes whatever happens on the way, and never half a file. */
#include "formats/index_writer.h"

#include <signal.h>
#include <sys/resource.h>

#include "tests/unit/formats/index_cases.h"

static char *expected; /* the index of all cases */
static size_t expected_len;

static int begin(void **state)
{
    signal(SIGXFSZ, SIG_IGN);
    if (files_new(state) < 0)
        return -1;
    expected = index_of_cases(&expected_len);
    return 0;
}

static int end(void **state)
{
    free(expected);
    return files_free(state);
}

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static void check_file(const char *path)
{
    size_t len;
    char *bytes = read_bytes_of(path, &len);
    assert_int_equal(len, expected_len);
    assert_memory_equal(bytes, expected, len);
    free(bytes);
}

static bool has_case(tm_index_writer *writer, size_t i)
{
    const index_case *c = &index_cases[i];
    return tm_index_writer_has(writer, c->name, c->name_len, c->context);
}

/* Adds what is not done yet, and finishes. */
static void complete(const char *path)
{
    tm_index_writer *writer = open_writer(path);
    for (size_t i = 0; i < INDEX_CASES; i++)
        if (!has_case(writer, i))
            add_case(writer, &index_cases[i]);
    finish_writer(writer);
    check_file(path);
}

/* ---- The same bytes ---- */

static void a_finished_index_leaves_nothing_beside_it(void **state)
{
    (void)state;
    check_file(at("cases.tmidx"));
    assert_false(exists(at("cases.tmidx.part")));
    assert_false(exists(at("cases.tmidx.tmp")));
}

static void the_order_of_adding_does_not_count(void **state)
{
    (void)state;
    for (size_t first = 0; first < INDEX_CASES; first++) {
        tm_index_writer *writer = open_writer(at("order.tmidx"));
        for (size_t i = 0; i < INDEX_CASES; i++)
            add_case(writer, &index_cases[(first + 3 * i) % INDEX_CASES]);
        finish_writer(writer);
        check_file(at("order.tmidx"));
    }
}

static void a_tensor_replaces_one_of_the_same_name(void **state)
{
    (void)state;
    tm_index_writer *writer = open_writer(at("twice.tmidx"));
    for (size_t i = 0; i < INDEX_CASES; i++) {
        index_case other = index_cases[i];
        other.n = 9 + i % 2;
        other.dtype = TM_U8;
        other.context = 99;
        add_case(writer, &other);
    }
    for (size_t i = 0; i < INDEX_CASES; i++) {
        assert_false(has_case(writer, i));
        add_case(writer, &index_cases[i]);
        assert_true(has_case(writer, i));
    }
    finish_writer(writer);
    check_file(at("twice.tmidx"));
}

static void what_a_resumed_writer_is_not_asked_for_is_left_out(void **state)
{
    (void)state;
    tm_index_writer *writer = open_writer(at("extra.tmidx"));
    add_case(writer, &(index_case){INDEX_NAME("extra"), TM_U8, 5, false, 0});
    add_case(writer, &index_cases[2]);
    tm_index_writer_close(writer);
    complete(at("extra.tmidx"));
}

static void an_index_of_no_tensors_is_one(void **state)
{
    (void)state;
    opened_index o;
    size_t len;
    finish_writer(open_writer(at("none.tmidx")));
    char *bytes = read_bytes_of(at("none.tmidx"), &len);
    assert_int_equal(open_bytes(&o, bytes, len), 0);
    assert_int_equal(tm_index_check(o.index, &o.req), 0);
    assert_int_equal(tm_index_count(o.index), 0);
    tm_index_close(o.index);
    free(bytes);
}

/* ---- Resuming ---- */

typedef struct log_bytes {
    char *bytes;
    size_t len;
    size_t ends[INDEX_CASES]; /* of the entry of each case */
} log_bytes;

/* What PATH.part holds when all is added and nothing finished. */
static log_bytes full_log(const char *path)
{
    log_bytes log;
    char part[FILES_PATH_MAX];
    struct stat st;
    snprintf(part, sizeof(part), "%s.part", path);
    tm_index_writer *writer = open_writer(path);
    for (size_t i = 0; i < INDEX_CASES; i++) {
        add_case(writer, &index_cases[i]);
        assert_int_equal(stat(part, &st), 0);
        log.ends[i] = (size_t)st.st_size;
    }
    tm_index_writer_close(writer);
    log.bytes = read_bytes_of(part, &log.len);
    assert_int_equal(log.len, log.ends[INDEX_CASES - 1]);
    return log;
}

/* Never cut to nothing on the way, which some filesystems take for a reason to sync. */
static void put_log(const char *part, const log_bytes *log, size_t len)
{
    int fd = open(part, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, log->bytes, log->len, 0), log->len);
    assert_int_equal(ftruncate(fd, (off_t)len), 0);
    close(fd);
}

static void check_prefix(const char *path, const log_bytes *log, size_t whole)
{
    tm_index_writer *writer = open_writer(path);
    for (size_t i = 0; i < INDEX_CASES; i++)
        assert_int_equal(has_case(writer, i), log->ends[i] <= whole);
    tm_index_writer_close(writer);
}

static void a_log_cut_anywhere_is_kept_up_to_its_last_whole_tensor(void **state)
{
    (void)state;
    log_bytes log = full_log(at("cut.tmidx"));
    for (size_t cut = 0; cut <= log.len; cut++) {
        put_log(at("cut.tmidx.part"), &log, cut);
        check_prefix(at("cut.tmidx"), &log, cut);
        if (cut % 509 == 0 || cut == log.len)
            complete(at("cut.tmidx"));
    }
    free(log.bytes);
}

static void a_log_damaged_anywhere_is_kept_up_to_there(void **state)
{
    (void)state;
    log_bytes log = full_log(at("bad.tmidx"));
    for (size_t off = 0; off < log.len; off++) {
        size_t whole = 0;
        log.bytes[off] ^= 0x10;
        put_log(at("bad.tmidx.part"), &log, log.len);
        log.bytes[off] ^= 0x10;
        for (size_t i = 0; i < INDEX_CASES; i++)
            whole = log.ends[i] <= off ? log.ends[i] : whole;
        check_prefix(at("bad.tmidx"), &log, off < TM_SECTION_HEADER_BYTES ? 0 : whole);
        if (off % 701 == 0)
            complete(at("bad.tmidx"));
    }
    free(log.bytes);
}

static void a_log_of_another_shard_is_begun_anew(void **state)
{
    (void)state;
    uint8_t other[TM_FINGERPRINT_BYTES] = {42};
    tm_req req;
    tm_index_writer *writer;
    tm_req_init(&req, TM_LANE_INDEX);
    log_bytes log = full_log(at("other.tmidx"));
    assert_int_equal(tm_index_writer_open(at("other.tmidx"), other, &req, &writer), 0);
    for (size_t i = 0; i < INDEX_CASES; i++)
        assert_false(has_case(writer, i));
    tm_index_writer_close(writer);
    assert_false(exists(at("other.tmidx.part")));
    free(log.bytes);
}

/* ---- In the way ---- */

static int open_fails(const char *path, tm_req *req)
{
    tm_index_writer *writer = NULL;
    tm_req_init(req, TM_LANE_INDEX);
    int rc = tm_index_writer_open(path, index_fingerprint, req, &writer);
    assert_null(writer);
    return rc;
}

static void of_two_writers_the_second_is_told(void **state)
{
    (void)state;
    tm_req req;
    char words[FILES_PATH_MAX];
    tm_index_writer *writer = open_writer(at("two.tmidx"));
    add_case(writer, &index_cases[0]);
    assert_int_equal(open_fails(at("two.tmidx"), &req), -EBUSY);
    snprintf(words, sizeof(words), "%s: another process is at work on it", at("two.tmidx.part"));
    assert_string_equal(tm_req_words(&req), words);
    tm_index_writer_close(writer);
    writer = open_writer(at("two.tmidx"));
    assert_true(has_case(writer, 0));
    tm_index_writer_close(writer);
    complete(at("two.tmidx"));
}

static void what_cannot_be_written_to_is_named(void **state)
{
    (void)state;
    tm_req req;
    char words[FILES_PATH_MAX];
    assert_int_equal(open_fails(at("absent/x.tmidx"), &req), -ENOENT);
    snprintf(words, sizeof(words), "%s: cannot be opened: No such file or directory",
             at("absent/x.tmidx.part"));
    assert_string_equal(tm_req_words(&req), words);

    write_text(at("precious"), "mine");
    make_link(at("precious"), at("link.tmidx.part"));
    assert_int_equal(open_fails(at("link.tmidx"), &req), -ELOOP);
    make_folder(at("folder.tmidx.part"));
    assert_int_equal(open_fails(at("folder.tmidx"), &req), -EISDIR);
    assert_int_equal(mkfifo(at("pipe.tmidx.part"), 0600), 0);
    assert_int_equal(open_fails(at("pipe.tmidx"), &req), -EINVAL);

    tm_index_writer *writer = open_writer(at("tmp.tmidx"));
    add_case(writer, &index_cases[0]);
    make_link(at("precious"), at("tmp.tmidx.tmp"));
    tm_req_init(&req, TM_LANE_INDEX);
    assert_int_equal(tm_index_writer_finish(writer, &req), -ELOOP);
    tm_index_writer_close(writer);
    assert_true(exists(at("tmp.tmidx.part")));
    assert_false(exists(at("tmp.tmidx")));
    size_t len;
    char *kept = read_bytes_of(at("precious"), &len);
    assert_int_equal(len, 4);
    free(kept);
}

/* Everything, with files of at most LIMIT bytes. What does not fit fails with words. */
static int try_all(const char *path, rlim_t limit)
{
    tm_req req;
    tm_index_writer *writer = NULL;
    struct rlimit old, low;
    tm_req_init(&req, TM_LANE_INDEX);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    low = (struct rlimit){limit, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    int rc = tm_index_writer_open(path, index_fingerprint, &req, &writer);
    for (size_t i = 0; rc == 0 && i < INDEX_CASES; i++) {
        const index_case *c = &index_cases[i];
        tm_stats stats;
        tm_sums sums;
        tm_stats_record record;
        if (has_case(writer, i))
            continue;
        make_stats(c, &stats, &sums, &record);
        tm_index_item item = {c->name,    c->name_len, c->scaled, stored_bytes_of(c),
                              c->context, &stats,      &sums,     &record};
        rc = tm_index_writer_add(writer, &item, &req);
        assert_int_equal(has_case(writer, i), rc == 0);
        tm_stats_done(&stats);
    }
    rc = rc == 0 ? tm_index_writer_finish(writer, &req) : rc;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(rc < 0, tm_req_words(&req)[0] != '\0');
    tm_index_writer_close(writer);
    return rc;
}

static void no_room_at_any_byte_is_told_and_leaves_no_half_file(void **state)
{
    (void)state;
    int rc = -EFBIG;
    for (rlim_t limit = 0; rc < 0; limit += 97) {
        rc = try_all(at("room.tmidx"), limit);
        assert_true(rc == 0 || rc == -EFBIG);
        assert_int_equal(exists(at("room.tmidx")), rc == 0);
        assert_false(exists(at("room.tmidx.tmp")));
        if (rc < 0 && limit % 5 == 0) {
            complete(at("room.tmidx"));
            assert_int_equal(unlink(at("room.tmidx")), 0);
        }
    }
    check_file(at("room.tmidx"));
}

static void a_failed_finish_does_not_touch_the_index_before(void **state)
{
    (void)state;
    complete(at("before.tmidx"));
    assert_int_equal(try_all(at("before.tmidx"), expected_len - 1), -EFBIG);
    check_file(at("before.tmidx"));
    complete(at("before.tmidx"));
}

/* ---- Coarse histograms ---- */

static void a_histogram_that_is_too_long_is_kept_in_coarser_bins(void **state)
{
    (void)state;
    const index_case c = {INDEX_NAME("wide"), TM_BF16, 60000, false, 0};
    tm_index_tensor tensor;
    opened_index o;
    size_t len;
    tm_index_writer *writer = open_writer(at("coarse.tmidx"));
    add_case(writer, &c);
    finish_writer(writer);
    char *bytes = read_bytes_of(at("coarse.tmidx"), &len);
    assert_int_equal(open_bytes(&o, bytes, len), 0);
    assert_int_equal(tm_index_find(o.index, c.name, c.name_len, &o.req, &tensor), 0);
    assert_true(tensor.hist_shift > 0);
    assert_true(tensor.hist_ref.len <= tm_index_hist_room(stored_bytes_of(&c)));
    assert_true(gives_case(&o, &c));
    tm_index_close(o.index);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_finished_index_leaves_nothing_beside_it),
        cmocka_unit_test(the_order_of_adding_does_not_count),
        cmocka_unit_test(a_tensor_replaces_one_of_the_same_name),
        cmocka_unit_test(what_a_resumed_writer_is_not_asked_for_is_left_out),
        cmocka_unit_test(an_index_of_no_tensors_is_one),
        cmocka_unit_test(a_log_cut_anywhere_is_kept_up_to_its_last_whole_tensor),
        cmocka_unit_test(a_log_damaged_anywhere_is_kept_up_to_there),
        cmocka_unit_test(a_log_of_another_shard_is_begun_anew),
        cmocka_unit_test(of_two_writers_the_second_is_told),
        cmocka_unit_test(what_cannot_be_written_to_is_named),
        cmocka_unit_test(no_room_at_any_byte_is_told_and_leaves_no_half_file),
        cmocka_unit_test(a_failed_finish_does_not_touch_the_index_before),
        cmocka_unit_test(a_histogram_that_is_too_long_is_kept_in_coarser_bins),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
