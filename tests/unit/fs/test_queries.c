/* Queries that are kept: their names and texts, what they come to, and query/ as the tree has it.
 */
#include "fs/queries.h"

#include "fs/indexes.h"
#include "fs/indexing.h"
#include "tests/unit/fs/models.h"
#include "tests/unit/fs/tree_walk.h"

static int begin(void **state)
{
    if (files_new(state) < 0)
        return -1;
    setenv("XDG_CACHE_HOME", at("cache"), 1);
    write_llama("llama", 3);
    write_fused("fused");
    write_run("run");
    if (session_begin(&(tm_session_params){
            .threads = 2, .descriptors = 16, .index_folder = at("indexes")}) < 0)
        return -1;
    static const char *const names[] = {"llama", "fused", "run"};
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++)
        mount_source(NULL, at("%s", names[i]));
    return 0;
}

/* ---- Names and numbers ---- */

static tm_queries *none_yet(void)
{
    tm_queries *queries;
    assert_int_equal(tm_queries_new(&queries), 0);
    return queries;
}

static tm_kept_query *made(tm_queries *queries, const char *model, const char *name)
{
    tm_kept_query *q;
    tm_req req = blocking_request();
    assert_int_equal(tm_queries_create(queries, model, name, &req, &q), 0);
    assert_string_equal(q->model, model);
    assert_string_equal(q->name, name);
    return q;
}

static void expect_found(tm_queries *queries, const char *model, const char *name,
                         const tm_kept_query *expected)
{
    TM_AUTO(tm_kept_query_unrefp) tm_kept_query *q = tm_queries_find(queries, model, name);
    assert_ptr_equal(q, expected);
}

static void a_query_is_found_by_model_and_name_and_by_its_number(void **state)
{
    (void)state;
    tm_queries *queries = none_yet();
    static const char *const names[][2] = {
        {"a", "one"}, {"a", "two"}, {"b", "one"}, {"a/b", "one"}, {"a", ""}};
    tm_kept_query *all[TM_ARRAY_LEN(names)];
    expect_found(queries, "a", "one", NULL);
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++) {
        all[i] = made(queries, names[i][0], names[i][1]);
        assert_int_equal(all[i]->number, i);
        assert_int_equal(tm_kept_query_size(all[i]), 0);
    }
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++) {
        expect_found(queries, names[i][0], names[i][1], all[i]);
        TM_AUTO(tm_kept_query_unrefp)
        tm_kept_query *q = tm_queries_by_number(queries, (uint32_t)i);
        assert_ptr_equal(q, all[i]);
        tm_kept_query_unref(all[i]);
    }
    expect_found(queries, "c", "one", NULL);
    expect_found(queries, "a", "one.q", NULL);
    assert_null(tm_queries_by_number(queries, TM_ARRAY_LEN(names)));
    assert_null(tm_queries_by_number(queries, UINT32_MAX));
    tm_queries_free(queries);
    tm_queries_free(NULL);
}

static void the_second_creation_gives_the_one_that_is_there(void **state)
{
    (void)state;
    tm_queries *queries = none_yet();
    tm_req req = blocking_request();
    tm_kept_query *first = made(queries, "a", "one");
    assert_int_equal(tm_kept_query_write(first, &(tm_chunk){"rank == 2", 9, 0}, &req), 0);
    tm_kept_query *second = made(queries, "a", "one");
    assert_ptr_equal(first, second);
    assert_int_equal(tm_kept_query_size(second), 9);
    tm_kept_query_unref(first);
    tm_kept_query_unref(second);
    tm_queries_free(queries);
}

static void what_was_removed_lives_with_its_holder_and_its_number_is_not_used_again(void **state)
{
    (void)state;
    tm_queries *queries = none_yet();
    tm_req req = blocking_request();
    tm_kept_query *q = made(queries, "a", "one");
    assert_int_equal(tm_queries_remove(queries, "b", "one"), -ENOENT);
    assert_int_equal(tm_queries_remove(queries, "a", "two"), -ENOENT);
    assert_int_equal(tm_queries_remove(queries, "a", "one"), 0);
    assert_int_equal(tm_queries_remove(queries, "a", "one"), -ENOENT);
    expect_found(queries, "a", "one", NULL);
    assert_null(tm_queries_by_number(queries, 0));
    assert_int_equal(tm_kept_query_write(q, &(tm_chunk){"x", 1, 0}, &req), 0);
    assert_int_equal(tm_kept_query_size(q), 1);
    tm_kept_query *again = made(queries, "a", "one");
    assert_int_equal(again->number, 1);
    assert_int_equal(tm_kept_query_size(again), 0);
    tm_kept_query_unref(again);
    tm_kept_query_unref(q);
    tm_queries_free(queries);
}

static void those_of_a_model_are_gone_through_by_number(void **state)
{
    (void)state;
    tm_queries *queries = none_yet();
    enum {
        COUNT = 60
    };
    for (int i = 0; i < COUNT; i++) {
        char name[16];
        snprintf(name, sizeof(name), "q%d", i);
        tm_kept_query_unref(made(queries, i % 3 ? "a" : "b", name));
    }
    assert_int_equal(tm_queries_remove(queries, "b", "q0"), 0);
    assert_int_equal(tm_queries_remove(queries, "b", "q57"), 0);
    unsigned found = 0;
    for (uint32_t number = 0;; found++) {
        TM_AUTO(tm_kept_query_unrefp) tm_kept_query *q = tm_queries_from(queries, "b", number);
        if (!q)
            break;
        assert_int_equal(q->number, 3 * (found + 1));
        number = q->number + 1;
    }
    assert_int_equal(found, COUNT / 3 - 2);
    assert_null(tm_queries_from(queries, "c", 0));
    assert_null(tm_queries_from(queries, "a", UINT32_MAX));
    tm_queries_free(queries);
}

enum {
    MAKERS = 8,
    NAMES = 50
};

typedef struct maker {
    tm_queries *queries;
    pthread_barrier_t *start;
    uint32_t numbers[NAMES];
} maker;

static void *make_all(void *arg)
{
    maker *m = arg;
    pthread_barrier_wait(m->start);
    for (int i = 0; i < NAMES; i++) {
        char name[16];
        tm_kept_query *q;
        tm_req req = blocking_request();
        snprintf(name, sizeof(name), "q%d", i);
        if (tm_queries_create(m->queries, "m", name, &req, &q) < 0)
            return NULL;
        m->numbers[i] = q->number;
        tm_ignore(tm_kept_query_write(q, &(tm_chunk){"rank == 2", 9, 0}, &req));
        tm_kept_query_unref(q);
    }
    return NULL;
}

static void who_creates_one_name_at_once_gets_one_query(void **state)
{
    (void)state;
    tm_queries *queries = none_yet();
    maker makers[MAKERS];
    pthread_t threads[MAKERS];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, MAKERS);
    for (int i = 0; i < MAKERS; i++) {
        makers[i] = (maker){.queries = queries, .start = &start};
        assert_int_equal(pthread_create(&threads[i], NULL, make_all, &makers[i]), 0);
    }
    for (int i = 0; i < MAKERS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
    for (int i = 0; i < NAMES; i++) {
        TM_AUTO(tm_kept_query_unrefp)
        tm_kept_query *q = tm_queries_by_number(queries, makers[0].numbers[i]);
        assert_int_equal(tm_kept_query_size(q), 9);
        for (int k = 1; k < MAKERS; k++)
            assert_int_equal(makers[k].numbers[i], makers[0].numbers[i]);
    }
    assert_null(tm_queries_by_number(queries, NAMES));
    tm_queries_free(queries);
}

/* ---- Texts ---- */

static void expect_text(tm_kept_query *q, const char *expected, size_t len)
{
    char *text;
    size_t got;
    tm_req req = blocking_request();
    assert_int_equal(tm_kept_query_text(q, &req, &text, &got), 0);
    assert_int_equal(got, len);
    assert_memory_equal(text, expected, len);
    assert_int_equal(tm_kept_query_size(q), len);
    free(text);
}

static int put(tm_kept_query *q, const char *text, uint64_t off)
{
    tm_req req = blocking_request();
    return tm_kept_query_write(q, &(tm_chunk){text, strlen(text), off}, &req);
}

static void chunks_go_where_they_are_written(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t off;
        const char *whole;
    } rows[] = {
        {"rank == 2", 0, "rank == 2"},
        {"1", 8, "rank == 1"},
        {" or rank == 3\n", 9, "rank == 1 or rank == 3\n"},
        {"b", 25, "rank == 1 or rank == 3\n  b"}, /* beyond the end: blanks between */
        {"", 3, "rank == 1 or rank == 3\n  b"},
        {"RANK", 0, "RANK == 1 or rank == 3\n  b"},
        {"xyz", 25, "RANK == 1 or rank == 3\n  xyz"},
    };
    tm_queries *queries = none_yet();
    tm_kept_query *q = made(queries, "m", "one");
    expect_text(q, "", 0);
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        assert_int_equal(put(q, rows[i].text, rows[i].off), 0);
        expect_text(q, rows[i].whole, strlen(rows[i].whole));
    }
    tm_kept_query_unref(q);
    tm_queries_free(queries);
}

static void any_bytes_are_kept(void **state)
{
    (void)state;
    tm_queries *queries = none_yet();
    tm_kept_query *q = made(queries, "m", "one");
    tm_req req = blocking_request();
    static const char bytes[] = "\0\xff\n\0\x80";
    assert_int_equal(tm_kept_query_write(q, &(tm_chunk){bytes, sizeof(bytes), 0}, &req), 0);
    expect_text(q, bytes, sizeof(bytes));
    tm_kept_query_unref(q);
    tm_queries_free(queries);
}

static void a_text_is_cut_or_filled_with_blanks(void **state)
{
    (void)state;
    tm_queries *queries = none_yet();
    tm_kept_query *q = made(queries, "m", "one");
    tm_req req = blocking_request();
    assert_int_equal(tm_kept_query_truncate(q, 0, &req), 0);
    assert_int_equal(tm_kept_query_truncate(q, 3, &req), 0);
    expect_text(q, "   ", 3);
    assert_int_equal(put(q, "rank == 2", 0), 0);
    assert_int_equal(tm_kept_query_truncate(q, 4, &req), 0);
    expect_text(q, "rank", 4);
    assert_int_equal(tm_kept_query_truncate(q, 7, &req), 0);
    expect_text(q, "rank   ", 7); /* not what was there before */
    assert_int_equal(tm_kept_query_truncate(q, 0, &req), 0);
    expect_text(q, "", 0);
    assert_int_equal(put(q, "x", 2), 0);
    expect_text(q, "  x", 3);
    tm_kept_query_unref(q);
    tm_queries_free(queries);
}

enum {
    MOST = 65536 /* bytes of a query */
};

static void expect_too_large(int rc, const tm_req *req)
{
    assert_int_equal(rc, -EFBIG);
    assert_string_equal(tm_req_words(req), "a query has at most 65536 bytes");
}

static void a_query_has_65536_bytes_and_not_one_more(void **state)
{
    (void)state;
    static char blanks[MOST + 1];
    static const struct {
        size_t len;
        uint64_t off;
    } beyond[] = {{1, MOST},
                  {2, MOST - 1},
                  {MOST + 1, 0},
                  {MOST, 1},
                  {1, UINT64_MAX},
                  {1, UINT64_MAX - 1},
                  {MOST, UINT64_MAX - MOST + 1},
                  {1, (uint64_t)1 << 32}};
    tm_queries *queries = none_yet();
    tm_kept_query *q = made(queries, "m", "one");
    memset(blanks, ' ', sizeof(blanks));
    for (int full = 0; full < 2; full++) {
        for (size_t i = 0; i < TM_ARRAY_LEN(beyond); i++) {
            tm_req req = blocking_request();
            tm_chunk chunk = {blanks, beyond[i].len, beyond[i].off};
            expect_too_large(tm_kept_query_write(q, &chunk, &req), &req);
        }
        tm_req req = blocking_request();
        expect_too_large(tm_kept_query_truncate(q, MOST + 1, &req), &req);
        req = blocking_request();
        expect_too_large(tm_kept_query_truncate(q, UINT64_MAX, &req), &req);
        assert_int_equal(tm_kept_query_size(q), full ? MOST : 0);
        req = blocking_request();
        assert_int_equal(tm_kept_query_write(q, &(tm_chunk){blanks, MOST, 0}, &req), 0);
        assert_int_equal(put(q, "x", MOST - 1), 0);
        assert_int_equal(tm_kept_query_truncate(q, MOST, &req), 0);
        assert_int_equal(tm_kept_query_size(q), MOST);
    }
    tm_kept_query_unref(q);
    tm_queries_free(queries);
}

/* ---- What it comes to ---- */

static tm_mounted *mounted(const char *name)
{
    tm_mounted *m;
    tm_req req = blocking_request();
    if (tm_session_get(session, name, &req, &m) < 0)
        fail_msg("%s", tm_req_words(&req));
    return m;
}

static tm_query_result *asked(tm_kept_query *q, const char *model)
{
    TM_AUTO(tm_mounted_unrefp) tm_mounted *m = mounted(model);
    tm_query_result *result;
    tm_req req = blocking_request();
    if (tm_kept_query_ask(q, session, m, &req, &result) < 0)
        fail_msg("%s", tm_req_words(&req));
    return result;
}

static void expect_counts(tm_kept_query *q, const char *model, unsigned matches, unsigned unknown)
{
    TM_AUTO(tm_query_result_unrefp) tm_query_result *result = asked(q, model);
    if (result->error)
        fail_msg("%s", result->error);
    assert_int_equal(result->answers.match_count, matches);
    assert_int_equal(result->answers.unknown_count, unknown);
}

/* Replaces the text of Q. */
static void say(tm_kept_query *q, const char *text)
{
    tm_req req = blocking_request();
    assert_int_equal(tm_kept_query_truncate(q, 0, &req), 0);
    assert_int_equal(put(q, text, 0), 0);
}

static void index_model(const char *name)
{
    TM_AUTO(tm_mounted_unrefp) tm_mounted *m = mounted(name);
    tm_indexing_params params = {.session = session, .mounted = m, .lane = TM_LANE_ANALYSIS};
    tm_indexing_report report;
    tm_req req = blocking_request();
    if (tm_indexing_run(&params, &req, &report) < 0)
        fail_msg("%s", tm_req_words(&req));
}

/* The llama has 11 tensors: an embedding, three layers of three, a norm. */
static void headers_decide_without_an_index(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned matches, unknown;
    } rows[] = {
        {"rank == 2", 7, 0},
        {"name == \"*q_proj*\"\n", 3, 0},
        {"layer == none", 2, 0},
        {"not layer < 1", 8, 0},
        {"role == 'norm' and n > 0", 0, 4},
        {"role == 'norm' or nan_count > 0", 4, 7},
        {"rank == 9 and absmax > 1", 0, 0},
        {"min < 1", 0, 11},
    };
    tm_queries *queries = none_yet();
    tm_kept_query *q = made(queries, "llama", "one");
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        say(q, rows[i].text);
        expect_counts(q, "llama", rows[i].matches, rows[i].unknown);
    }
    tm_kept_query_unref(q);
    tm_queries_free(queries);
}

static void a_result_stays_with_its_holder_when_the_text_changes(void **state)
{
    (void)state;
    tm_queries *queries = none_yet();
    tm_kept_query *q = made(queries, "llama", "one");
    tm_req req = blocking_request();
    say(q, "rank == 2");
    tm_query_result *first = asked(q, "llama");
    assert_int_equal(put(q, "1", 8), 0);
    tm_query_result *second = asked(q, "llama");
    assert_ptr_not_equal(first, second);
    assert_int_equal(second->answers.match_count, 4);
    assert_int_equal(tm_kept_query_truncate(q, 0, &req), 0);
    tm_query_result *third = asked(q, "llama");
    assert_non_null(third->error);
    assert_null(third->query);
    assert_int_equal(tm_queries_remove(queries, "llama", "one"), 0);
    tm_kept_query_unref(q);
    assert_int_equal(first->answers.match_count, 7);
    assert_string_equal(first->header, "name\trank\n");
    tm_query_result_unref(first);
    tm_query_result_unref(second);
    tm_query_result_unref(third);
    tm_queries_free(queries);
}

static void a_result_is_kept_until_the_text_changes(void **state)
{
    (void)state;
    tm_queries *queries = none_yet();
    tm_kept_query *q = made(queries, "llama", "one");
    say(q, "rank == 2 and not min < 0");
    tm_query_result *first = asked(q, "llama");
    tm_query_result *second = asked(q, "llama");
    assert_ptr_equal(first, second);
    tm_query_result_unref(first);
    tm_query_result_unref(second);
    tm_kept_query_unref(q);
    tm_queries_free(queries);
}

/* Indexes are looked after once a second: where they are as they were, so is the result. */
static void a_result_is_kept_when_indexes_were_looked_after_and_have_not_changed(void **state)
{
    (void)state;
    tm_mounted *m = mounted("llama");
    tm_queries *queries = none_yet();
    tm_kept_query *q = made(queries, "llama", "one");
    say(q, "rank == 2 and not min < 0");
    tm_query_result *first = asked(q, "llama");
    tm_indexes_forget(m);
    tm_query_result *second = asked(q, "llama");
    bool same = first == second;
    tm_query_result_unref(first);
    tm_query_result_unref(second);
    tm_kept_query_unref(q);
    tm_queries_free(queries);
    tm_mounted_unref(m);
    assert_true(same);
}

static void a_result_is_renewed_when_an_index_is_made(void **state)
{
    (void)state;
    tm_queries *queries = none_yet();
    tm_kept_query *q = made(queries, "fused", "one");
    say(q, "n > 0 and rank == 3");
    expect_counts(q, "fused", 0, 4);
    index_model("fused");
    expect_counts(q, "fused", 4, 0);
    remove_all(at("indexes/model.safetensors.tmidx"));
    TM_AUTO(tm_mounted_unrefp) tm_mounted *m = mounted("fused");
    tm_indexes_forget(m); /* as a second later */
    expect_counts(q, "fused", 0, 4);
    tm_kept_query_unref(q);
    tm_queries_free(queries);
}

/* Whatever else is known of the values, in one second or the next. */
static void two_queries_of_one_text_agree(void **state)
{
    (void)state;
    unsigned matches[2];
    size_t len;
    write_one(at("agree/model.safetensors"), "a");
    mount_source(NULL, at("agree"));
    tm_queries *queries = none_yet();
    tm_kept_query *both[] = {made(queries, "agree", "one"), made(queries, "agree", "two")};
    for (int i = 0; i < 2; i++)
        say(both[i], "n > 0");
    expect_counts(both[0], "agree", 0, 1);
    free(content_of_path("models/agree/tensors/a/stats.json", &len));
    for (int i = 0; i < 2; i++) {
        tm_query_result *result = asked(both[i], "agree");
        matches[i] = result->answers.match_count;
        tm_query_result_unref(result);
        tm_kept_query_unref(both[i]);
    }
    tm_queries_free(queries);
    unmount("agree");
    assert_int_equal(matches[0], matches[1]);
}

static void a_result_is_of_the_model_that_is_asked(void **state)
{
    (void)state;
    tm_queries *queries = none_yet();
    tm_kept_query *q = made(queries, "llama", "one");
    say(q, "rank == 2");
    for (int i = 0; i < 3; i++) {
        expect_counts(q, "llama", 7, 0);
        expect_counts(q, "fused", 4, 0);
    }
    tm_req req = blocking_request();
    assert_int_equal(tm_session_reload(session, "llama", &req), 0);
    expect_counts(q, "llama", 7, 0);
    tm_kept_query_unref(q);
    tm_queries_free(queries);
}

static void who_may_not_wait_asks_nothing(void **state)
{
    (void)state;
    TM_AUTO(tm_mounted_unrefp) tm_mounted *m = mounted("llama");
    tm_queries *queries = none_yet();
    tm_kept_query *q = made(queries, "llama", "one");
    tm_query_result *result;
    tm_req req;
    tm_req_init(&req, TM_LANE_QUERY);
    say(q, "rank == 2");
    assert_int_equal(tm_kept_query_ask(q, session, m, &req, &result), -EINPROGRESS);
    tm_kept_query_unref(q);
    tm_queries_free(queries);
}

static void who_does_not_wait_any_more_is_told_so_and_nothing_is_kept(void **state)
{
    (void)state;
    TM_AUTO(tm_mounted_unrefp) tm_mounted *m = mounted("llama");
    tm_queries *queries = none_yet();
    tm_kept_query *q = made(queries, "llama", "one");
    tm_query_result *result;
    tm_req req = blocking_request();
    say(q, "rank == 2");
    atomic_store(&req.cancelled, true);
    assert_int_equal(tm_kept_query_ask(q, session, m, &req, &result), -EINTR);
    expect_counts(q, "llama", 7, 0);
    tm_kept_query_unref(q);
    tm_queries_free(queries);
}

static void a_text_that_is_no_query_says_where_and_why(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"tensor.nan_count = 0", "1:18: \"=\" is no operator: write == to compare\n"
                                 "tensor.nan_count = 0\n"
                                 "                 ^\n"},
        {"rank == 2\nand rnk == 3", "2:5: unknown field \"rnk\"; there is tensor.rank\n"
                                    "and rnk == 3\n"
                                    "    ^\n"},
    };
    tm_queries *queries = none_yet();
    tm_kept_query *q = made(queries, "llama", "one");
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        say(q, rows[i].text);
        TM_AUTO(tm_query_result_unrefp) tm_query_result *result = asked(q, "llama");
        assert_string_equal(result->error, rows[i].error);
        assert_null(result->query);
        assert_int_equal(result->answers.match_count + result->answers.unknown_count, 0);
    }
    tm_kept_query_unref(q);
    tm_queries_free(queries);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_query_is_found_by_model_and_name_and_by_its_number),
        cmocka_unit_test(the_second_creation_gives_the_one_that_is_there),
        cmocka_unit_test(what_was_removed_lives_with_its_holder_and_its_number_is_not_used_again),
        cmocka_unit_test(those_of_a_model_are_gone_through_by_number),
        cmocka_unit_test(who_creates_one_name_at_once_gets_one_query),
        cmocka_unit_test(chunks_go_where_they_are_written),
        cmocka_unit_test(any_bytes_are_kept),
        cmocka_unit_test(a_text_is_cut_or_filled_with_blanks),
        cmocka_unit_test(a_query_has_65536_bytes_and_not_one_more),
        cmocka_unit_test(headers_decide_without_an_index),
        cmocka_unit_test(a_result_stays_with_its_holder_when_the_text_changes),
        cmocka_unit_test(a_result_is_kept_until_the_text_changes),
        cmocka_unit_test(a_result_is_kept_when_indexes_were_looked_after_and_have_not_changed),
        cmocka_unit_test(a_result_is_renewed_when_an_index_is_made),
        cmocka_unit_test(two_queries_of_one_text_agree),
        cmocka_unit_test(a_result_is_of_the_model_that_is_asked),
        cmocka_unit_test(who_may_not_wait_asks_nothing),
        cmocka_unit_test(who_does_not_wait_any_more_is_told_so_and_nothing_is_kept),
        cmocka_unit_test(a_text_that_is_no_query_says_where_and_why),
    };
    return cmocka_run_group_tests_name("queries", tests, begin, tree_end);
}
