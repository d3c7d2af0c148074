/*
 * Want of memory: the n-th allocation of a whole read fails, for every n. Nothing leaks, nothing
 * stays behind, and the answer is ENOMEM or, where the allocation was dispensable, success.
 *
 * Linked with -Wl,--wrap= for each function of WRAPPED below, so that only allocations of the code
 * under test are counted, not cmocka's.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "formats/index_file.h"
#include "formats/index_writer.h"
#include "formats/query_parse.h"
#include "formats/safetensors.h"
#include "formats/shard_index.h"
#include "tests/unit/formats/memory_source.h"
#include "tests/unit/fs/checkpoint_files.h"

/* WRAPPED: malloc calloc realloc reallocarray strdup strndup free */
void *__real_malloc(size_t n);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_reallocarray(void *p, size_t count, size_t n);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t max);
void __wrap_free(void *p);

static uint64_t allocations; /* so far */
static uint64_t failing;     /* which of them fails, from 1; 0: none */
static int64_t living;       /* blocks not yet freed */

static bool may_allocate(void)
{
    return ++allocations != failing;
}

void *__wrap_malloc(size_t n)
{
    void *p = may_allocate() ? __real_malloc(n) : NULL;
    living += p != NULL;
    return p;
}

void *__wrap_realloc(void *p, size_t n)
{
    if (!p)
        return __wrap_malloc(n);
    return may_allocate() ? __real_realloc(p, n) : NULL;
}

void *__wrap_calloc(size_t count, size_t n)
{
    void *p = __wrap_malloc(count * n);
    if (p)
        memset(p, 0, count * n);
    return p;
}

void *__wrap_reallocarray(void *p, size_t count, size_t n)
{
    return __wrap_realloc(p, count * n);
}

char *__wrap_strndup(const char *s, size_t max)
{
    size_t len = strnlen(s, max);
    char *p = __wrap_malloc(len + 1);
    if (!p)
        return NULL;
    memcpy(p, s, len);
    p[len] = '\0';
    return p;
}

char *__wrap_strdup(const char *s)
{
    return __wrap_strndup(s, strlen(s));
}

void __wrap_free(void *p)
{
    living -= p != NULL;
    __real_free(p);
}

static tm_byte_source source(memory_file *file, const char *text, size_t len)
{
    *file = (memory_file){.bytes = text, .len = len};
    return memory_source(file, "f", len);
}

/* A header with all that allocates: unsorted names, escapes, many dimensions, metadata, warnings.
 */
static const char header[] =
    "\x82\1\0\0\0\0\0\0"
    "{\"__metadata__\":{\"b\":\"\\u00e9\",\"a\":\"2\"},"
    "\"z\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
    "\"y\\n\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1,1],\"data_offsets\":[3,4]},"
    "\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3],\"extra\":[1]},"
    "\"w1\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]},"
    "\"w2\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]},"
    "\"w3\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]}}"
    "1234";

static const char cut_header[] =
    "\x37\0\0\0\0\0\0\0"
    "{\"z\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}  1";

static const char shards[] = "{\"metadata\":{},\"weight_map\":{\"b\":\"two\",\"a\\u00e9\":\"one\","
                             "\"d\":\"two\",\"c\":\"three\"}}";

/* Reads TEXT with the FAIL-th allocation failing; true where the read used fewer than that. */
static bool read_header(const char *text, size_t len, uint64_t fail, int good)
{
    tm_tensor_table table;
    tm_metadata meta;
    tm_diag diag;
    tm_req req;
    tm_safetensors result;
    memory_file file;
    tm_byte_source src = source(&file, text, len);
    tm_tensor_table_init(&table);
    tm_metadata_init(&meta);
    tm_diag_init(&diag);
    tm_req_init(&req, TM_LANE_VISIBLE);
    allocations = 0;
    failing = fail;
    tm_safetensors_sink sink = {&table, &meta, &diag, 0};
    int rc = tm_safetensors_read(&src, &sink, &req, &result);
    if (rc == good)
        rc = tm_tensor_table_seal(&table) ? -ENOMEM : good;
    bool through = allocations < fail;
    failing = 0;
    assert_true(rc == good || rc == -ENOMEM);
    assert_true(rc == good || !through);
    if (rc == -ENOMEM && !result.rows_valid) {
        assert_int_equal(table.count, 0);
        assert_int_equal(meta.count, 0);
        assert_int_equal(atomic_load(&req.error), -ENOMEM);
    }
    if (rc == -EBADMSG)
        assert_true(diag.damaged);
    tm_tensor_table_done(&table);
    tm_metadata_done(&meta);
    tm_diag_done(&diag);
    assert_int_equal(living, 0);
    return through;
}

static void check_header(const char *text, size_t len, int good, uint64_t at_least)
{
    uint64_t n = 1;
    while (!read_header(text, len, n, good))
        n++;
    assert_true(n > at_least); /* the failures did happen */
}

static void test_a_header_survives_every_failed_allocation(void **state)
{
    (void)state;
    check_header(header, sizeof(header) - 1, 0, 15);
}

static void test_a_damaged_header_survives_every_failed_allocation(void **state)
{
    (void)state;
    check_header(cut_header, sizeof(cut_header) - 1, -EBADMSG, 6);
}

static bool read_index(uint64_t fail)
{
    tm_shard_index index;
    tm_req req;
    memory_file file;
    tm_byte_source src = source(&file, shards, sizeof(shards) - 1);
    tm_shard_index_init(&index);
    tm_req_init(&req, TM_LANE_VISIBLE);
    allocations = 0;
    failing = fail;
    int rc = tm_shard_index_read(&src, &req, &index);
    bool through = allocations < fail;
    failing = 0;
    assert_true(rc == 0 || rc == -ENOMEM);
    assert_true(rc == 0 || !through);
    if (rc < 0) {
        assert_int_equal(atomic_load(&req.error), -ENOMEM);
        assert_int_equal(index.entry_count + index.file_count, 0);
        assert_int_equal(living, 0);
    } else {
        assert_int_equal(index.entry_count, 4);
    }
    tm_shard_index_done(&index);
    assert_int_equal(living, 0);
    return through;
}

static void test_an_index_survives_every_failed_allocation(void **state)
{
    (void)state;
    uint64_t n = 1;
    while (!read_index(n))
        n++;
    assert_true(n > 10);
}

static int parse_query(const char *text, uint64_t fail, tm_query_error *error)
{
    tm_query *query = NULL;
    allocations = 0;
    failing = fail;
    int rc = tm_query_parse(text, strlen(text), error, &query);
    failing = 0;
    assert_true(!query == (rc < 0));
    tm_query_free(query);
    assert_int_equal(living, 0);
    return rc;
}

static void test_a_query_is_one_allocation_that_may_fail(void **state)
{
    (void)state;
    tm_query_error error;
    static const char good[] = "tensor.dtype == 'bf*' and (not layer > 3 or mean != none)";
    assert_int_equal(parse_query(good, 0, &error), 0);
    assert_int_equal(allocations, 1);
    assert_int_equal(parse_query(good, 1, &error), -ENOMEM);
    assert_string_equal(error.words, "out of memory");
    assert_int_equal(parse_query("tensor.dtype == 'x*'", 0, &error), -EINVAL);
    assert_int_equal(parse_query("tensor.nan_cout > 0", 0, &error), -EINVAL);
    assert_int_equal(allocations, 1);
}

static int index_two(const tm_index_item *items, const char *path, tm_req *req)
{
    static const uint8_t fingerprint[TM_FINGERPRINT_BYTES] = {1};
    TM_AUTO(tm_index_writer_closep) tm_index_writer *writer = NULL;
    TM_TRY(tm_index_writer_open(path, fingerprint, req, &writer));
    for (int i = 0; i < 2; i++)
        if (!tm_index_writer_has(writer, items[i].name, items[i].name_len, 0))
            TM_TRY(tm_index_writer_add(writer, &items[i], req));
    return tm_index_writer_finish(writer, req);
}

static int read_two(const char *bytes, size_t len, tm_req *req)
{
    static const uint8_t fingerprint[TM_FINGERPRINT_BYTES] = {1};
    TM_AUTO(tm_index_closep) tm_index *index = NULL;
    memory_file file;
    tm_byte_source src = source(&file, bytes, len);
    tm_index_tensor tensor;
    TM_TRY(tm_index_open(&src, fingerprint, req, &index));
    TM_TRY(tm_index_check(index, req));
    return tm_index_find(index, "b", 1, req, &tensor);
}

typedef struct two {
    const tm_index_item *items;
    const char *path;
    char *bytes;
    size_t len;
} two;

static int write_it(const two *t, tm_req *req)
{
    return index_two(t->items, t->path, req);
}

static int read_it(const two *t, tm_req *req)
{
    return read_two(t->bytes, t->len, req);
}

/* Does it until no allocation failed; returns how many there were, and one more. */
static uint64_t fail_each(int (*doing)(const two *t, tm_req *req), const two *t)
{
    int64_t before = living;
    for (uint64_t n = 1;; n++) {
        tm_req req;
        tm_req_init(&req, TM_LANE_INDEX);
        allocations = 0;
        failing = n;
        int rc = doing(t, &req);
        bool through = allocations < n;
        failing = 0;
        assert_true(rc == 0 || (rc == -ENOMEM && !through && tm_req_words(&req)[0]));
        assert_int_equal(living, before);
        if (through)
            return n;
    }
}

static void test_an_index_file_survives_every_failed_allocation(void **state)
{
    tm_stats stats;
    tm_stats_record record = {0};
    assert_int_equal(files_new(state), 0);
    assert_int_equal(tm_stats_init(&stats, TM_U8), 0);
    stats.hist[3] = 9;
    tm_stats_offer_absmax(&stats, 3, 0);
    tm_sums sums;
    tm_stats_sums(&stats, &sums);
    tm_stats_summarize(&stats, &sums, &record.summary);
    const tm_index_item items[] = {{"a", 1, false, 9, 0, &stats, &sums, &record},
                                   {"b", 1, false, 9, 0, &stats, &sums, &record}};
    two t = {.items = items, .path = at("two.tmidx")};
    assert_true(fail_each(write_it, &t) > 8);
    t.bytes = read_bytes_of(t.path, &t.len);
    assert_true(fail_each(read_it, &t) > 8);
    free(t.bytes);
    tm_stats_done(&stats);
    assert_int_equal(files_free(state), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_header_survives_every_failed_allocation),
        cmocka_unit_test(test_a_damaged_header_survives_every_failed_allocation),
        cmocka_unit_test(test_an_index_survives_every_failed_allocation),
        cmocka_unit_test(test_an_index_file_survives_every_failed_allocation),
        cmocka_unit_test(test_a_query_is_one_allocation_that_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
