/* A request's words and codes, the buffers of reads, and what the base offers to all. */
#include <pthread.h>
#include <sched.h>

#include "core/buffer.h"
#include "tests/unit/core/engine.h"

static void the_first_failure_of_a_request_keeps_its_words(void **state)
{
    (void)state;
    tm_req req;
    memset(&req, 0xff, sizeof(req));
    tm_req_init(&req, TM_LANE_QUERY);
    assert_int_equal(req.lane, TM_LANE_QUERY);
    assert_false(req.may_block);
    assert_int_equal(req.deadline_ns, 0);
    assert_string_equal(tm_req_words(&req), "");
    assert_int_equal(tm_req_check(&req), 0);
    assert_int_equal(atomic_load(&req.error), 0);
    assert_int_equal(tm_fail(&req, EBADMSG, "%s: %d bytes", "a.safetensors", 7), -EBADMSG);
    assert_int_equal(tm_fail(&req, EIO, "later"), -EIO);
    assert_int_equal(atomic_load(&req.error), -EBADMSG);
    assert_string_equal(tm_req_words(&req), "a.safetensors: 7 bytes");
}

static void a_failure_without_a_request_is_its_code_alone(void **state)
{
    (void)state;
    assert_int_equal(tm_fail(NULL, ENOENT, "%d", 1), -ENOENT);
}

static void words_too_long_are_cut(void **state)
{
    (void)state;
    char longer[2 * TM_WORDS_MAX];
    memset(longer, 'x', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    tm_req req;
    tm_req_init(&req, TM_LANE_SCALAR);
    assert_int_equal(tm_fail(&req, EIO, "%s", longer), -EIO);
    assert_int_equal(strlen(tm_req_words(&req)), TM_WORDS_MAX - 1);
}

static void a_cancelled_request_fails_its_checks_with_the_code_it_has(void **state)
{
    (void)state;
    tm_req req;
    tm_req_init(&req, TM_LANE_SCALAR);
    atomic_store(&req.cancelled, true);
    assert_int_equal(tm_req_check(&req), -EINTR);
    assert_string_equal(tm_req_words(&req), "interrupted");

    tm_req_init(&req, TM_LANE_SCALAR);
    assert_int_equal(tm_fail(&req, ETIMEDOUT, "too late"), -ETIMEDOUT);
    assert_int_equal(tm_req_check(&req), 0);
    atomic_store(&req.cancelled, true);
    assert_int_equal(tm_req_check(&req), -ETIMEDOUT);
    assert_string_equal(tm_req_words(&req), "too late");
}

/* Two threads fail one request at once, again and again. */
enum {
    FAILURES = 20000
};

typedef struct contest {
    pthread_barrier_t start;
    tm_req req;
    atomic_uint ended, torn;
} contest;

static void check_words(contest *c)
{
    const char *words = tm_req_words(&c->req);
    size_t len = strnlen(words, TM_WORDS_MAX);
    bool whole = len == 200;
    for (size_t i = 0; i < len; i++)
        whole = whole && words[i] == words[0];
    atomic_fetch_add(&c->torn, !whole);
}

static void contend(contest *c, char letter)
{
    char text[201];
    memset(text, letter, 200);
    text[200] = '\0';
    for (int i = 0; i < FAILURES; i++) {
        pthread_barrier_wait(&c->start);
        tm_ignore(tm_fail(&c->req, EIO, "%s", text)); /* the words are what is tested */
        check_words(c);
        pthread_barrier_wait(&c->start);
        if (letter == 'a')
            tm_req_init(&c->req, TM_LANE_SCALAR);
    }
}

static void *contend_b(void *c)
{
    contend(c, 'b');
    return NULL;
}

static void a_part_ends_with_the_request_it_belongs_to(void **state)
{
    (void)state;
    tm_req whole, part, piece;
    tm_req_init(&whole, TM_LANE_QUERY);
    whole.may_block = true;
    whole.deadline_ns = 5;
    tm_req_init_part(&part, &whole);
    tm_req_init_part(&piece, &part);
    assert_int_equal(piece.lane, TM_LANE_QUERY);
    assert_true(piece.may_block);
    assert_int_equal(piece.deadline_ns, 5);
    tm_fail(&piece, EIO, "a piece alone");
    assert_int_equal(tm_req_check(&part), 0);
    tm_fail(&whole, ESTALE, "all of it");
    atomic_store(&whole.cancelled, true);
    assert_int_equal(tm_req_check(&part), -ESTALE);
    assert_string_equal(tm_req_words(&part), "all of it");
    assert_int_equal(tm_req_check(&piece), -ESTALE);
    assert_string_equal(tm_req_words(&piece), "a piece alone");
}

static void a_deadline_counts_only_where_it_would_be_waited(void **state)
{
    (void)state;
    tm_req req;
    tm_req_init(&req, TM_LANE_SCALAR);
    assert_int_equal(tm_req_check_wait(&req), 0);
    req.deadline_ns = tm_now_ns() + UINT64_C(3600000000000);
    assert_int_equal(tm_req_check_wait(&req), 0);
    req.deadline_ns = 1;
    assert_int_equal(tm_req_check(&req), 0);
    assert_int_equal(tm_req_check_wait(&req), -ETIMEDOUT);
    assert_string_equal(tm_req_words(&req), "no answer within the time limit");
}

static void who_has_failed_a_request_finds_whole_words_in_it(void **state)
{
    (void)state;
    contest c = {0};
    pthread_t thread;
    pthread_barrier_init(&c.start, NULL, 2);
    tm_req_init(&c.req, TM_LANE_SCALAR);
    assert_int_equal(pthread_create(&thread, NULL, contend_b, &c), 0);
    contend(&c, 'a');
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&c.start);
    assert_int_equal(atomic_load(&c.torn), 0);
}

static void buffers_are_aligned_and_as_large_as_was_asked(void **state)
{
    (void)state;
    static const size_t sizes[] = {0,       1,       64,      4096,          65535,  65536,
                                   1 << 20, 1048577, 1114112, 1114112 + 100, 4 << 20};
    for (size_t i = 0; i < TM_ARRAY_LEN(sizes); i++) {
        char *buffer = tm_buffer_get(sizes[i]);
        assert_non_null(buffer);
        assert_int_equal((uintptr_t)buffer % 64, 0);
        memset(buffer, 0xa5, sizes[i]);
        tm_buffer_put(buffer, sizes[i]);
    }
    assert_null(tm_buffer_get(SIZE_MAX));
    tm_buffer_put(NULL, 100000);
    tm_buffer_trim();
}

static void a_used_buffer_serves_any_size_of_its_kind(void **state)
{
    (void)state;
    tm_buffer_trim();
    char *first = tm_buffer_get(64 << 10);
    tm_buffer_put(first, 64 << 10);
    char *second = tm_buffer_get((1 << 20) + (64 << 10));
    assert_ptr_equal(second, first);
    memset(second, 1, (1 << 20) + (64 << 10));
    tm_buffer_put(second, (1 << 20) + (64 << 10));
    tm_buffer_trim();
}

static void more_buffers_than_are_kept_are_given_back(void **state)
{
    (void)state;
    void *buffers[40];
    for (size_t i = 0; i < TM_ARRAY_LEN(buffers); i++) {
        buffers[i] = tm_buffer_get(1 << 20);
        assert_non_null(buffers[i]);
        for (size_t j = 0; j < i; j++)
            assert_ptr_not_equal(buffers[i], buffers[j]);
    }
    for (size_t i = 0; i < TM_ARRAY_LEN(buffers); i++)
        tm_buffer_put(buffers[i], 1 << 20);
    tm_buffer_trim();
}

static void ranges_are_checked_without_overflow(void **state)
{
    (void)state;
    static const struct {
        uint64_t off, len, size;
        bool ok;
    } rows[] = {
        {0, 0, 0, true},           {0, 1, 0, false},
        {1, 0, 0, false},          {0, 10, 10, true},
        {10, 0, 10, true},         {9, 1, 10, true},
        {9, 2, 10, false},         {UINT64_MAX, 1, UINT64_MAX, false},
        {1, UINT64_MAX, 2, false}, {UINT64_MAX, UINT64_MAX, UINT64_MAX, false},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++)
        assert_int_equal(tm_range_ok(rows[i].off, rows[i].len, rows[i].size), rows[i].ok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_failure_of_a_request_keeps_its_words),
        cmocka_unit_test(a_failure_without_a_request_is_its_code_alone),
        cmocka_unit_test(words_too_long_are_cut),
        cmocka_unit_test(a_cancelled_request_fails_its_checks_with_the_code_it_has),
        cmocka_unit_test(a_part_ends_with_the_request_it_belongs_to),
        cmocka_unit_test(a_deadline_counts_only_where_it_would_be_waited),
        cmocka_unit_test(who_has_failed_a_request_finds_whole_words_in_it),
        cmocka_unit_test(buffers_are_aligned_and_as_large_as_was_asked),
        cmocka_unit_test(a_used_buffer_serves_any_size_of_its_kind),
        cmocka_unit_test(more_buffers_than_are_kept_are_given_back),
        cmocka_unit_test(ranges_are_checked_without_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
