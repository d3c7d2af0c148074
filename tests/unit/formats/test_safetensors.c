/* The safetensors reader: what it accepts, what it says of the rest, and what it leaves behind. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>

#include "formats/safetensors.h"
#include "tests/unit/formats/memory_source.h"
#include "tests/unit/formats/safetensors_cases.h"

/* One file in memory and all that reading it gives. */
typedef struct fixture {
    char *bytes;
    size_t len; /* of what may be read: the header, and not a byte of data */
    uint64_t size;
    memory_file file;
    tm_tensor_table table;
    tm_metadata meta;
    tm_diag diag;
    tm_req req;
    tm_safetensors result;
} fixture;

static void begin(fixture *f)
{
    memset(f, 0, sizeof(*f));
    tm_tensor_table_init(&f->table);
    tm_metadata_init(&f->meta);
    tm_diag_init(&f->diag);
    tm_req_init(&f->req, TM_LANE_VISIBLE);
}

static void end(fixture *f)
{
    tm_tensor_table_done(&f->table);
    tm_metadata_done(&f->meta);
    tm_diag_done(&f->diag);
    free(f->bytes);
}

/* JSON with ' for " and ` for ', behind its length. */
static void write_header(fixture *f, const char *json, size_t len, uint64_t data_bytes)
{
    free(f->bytes);
    f->len = 8 + len;
    f->size = f->len + data_bytes;
    f->bytes = calloc(1, f->size);
    assert_non_null(f->bytes);
    uint64_t n = len;
    memcpy(f->bytes, &n, 8);
    for (size_t i = 0; i < len; i++)
        f->bytes[8 + i] = json[i] == '\'' ? '"' : json[i] == '`' ? '\'' : json[i];
}

static int read_file(fixture *f, uint32_t file)
{
    f->file = (memory_file){.bytes = f->bytes, .len = f->len};
    tm_byte_source src = memory_source(&f->file, "f", f->size);
    tm_safetensors_sink sink = {&f->table, &f->meta, &f->diag, file};
    return tm_safetensors_read(&src, &sink, &f->req, &f->result);
}

static int read_json(fixture *f, const char *json, uint64_t data_bytes)
{
    write_header(f, json, strlen(json), data_bytes);
    return read_file(f, 0);
}

static const char *last_words(const fixture *f)
{
    return f->diag.count ? f->diag.lines[f->diag.count - 1].words : "";
}

static void expect_words(const fixture *f, const char *words)
{
    char expected[TM_WORDS_MAX];
    snprintf(expected, sizeof(expected), "%s%s", words ? "f: " : "", words ? words : "");
    assert_string_equal(last_words(f), expected);
}

typedef struct verdict {
    int rc;
    bool rows_valid, damaged;
} verdict;

static void check_case(const header_case *c, verdict expected)
{
    fixture f;
    begin(&f);
    write_header(&f, c->json, c->len, c->data_bytes);
    if (!expected.rows_valid)
        f.len = f.size; /* a file that is something else is looked at */
    int rc = read_file(&f, 0);
    if (rc != expected.rc || f.result.rows_valid != expected.rows_valid ||
        f.diag.damaged != expected.damaged)
        fail_msg("%s: result %d, rows %s, words: %s", c->name, rc,
                 f.result.rows_valid ? "kept" : "not kept", last_words(&f));
    expect_words(&f, c->words);
    if (!expected.rows_valid && (f.table.count || f.meta.count))
        fail_msg("%s: rows or metadata stayed", c->name);
    for (uint32_t i = 0; i < f.table.count; i++)
        assert_int_equal(f.table.rows[i].flags, expected.damaged ? TM_ROW_REFUSED : 0);
    end(&f);
}

#define CHECK_CASES(cases, ...)                                                                    \
    for (size_t i = 0; i < TM_ARRAY_LEN(cases); i++)                                               \
    check_case(&(cases)[i], (verdict){__VA_ARGS__})

static void test_good_headers_are_accepted_without_a_word(void **state)
{
    (void)state;
    CHECK_CASES(accepted_cases, .rc = 0, .rows_valid = true);
}

static void test_unusual_headers_are_accepted_with_a_warning(void **state)
{
    (void)state;
    CHECK_CASES(warned_cases, .rc = 0, .rows_valid = true);
}

static void test_malformed_headers_are_refused_and_leave_no_rows(void **state)
{
    (void)state;
    CHECK_CASES(refused_cases, .rc = -EBADMSG, .damaged = true);
}

static void test_contradictory_files_keep_their_rows_refused(void **state)
{
    (void)state;
    CHECK_CASES(contradicted_cases, .rc = -EBADMSG, .rows_valid = true, .damaged = true);
}

static void test_a_row_holds_what_its_entry_says(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    const char *json =
        "{" E("b", "'BF16'", "[2,3,1]", "[0,12]") "," E("a", "'I8'", "[]", "[12,13]") "}";
    assert_int_equal(read_json(&f, json, 13), 0);
    assert_int_equal(f.result.header_bytes, 8 + strlen(json));
    assert_int_equal(tm_tensor_table_seal(&f.table), 0);
    assert_int_equal(f.table.count, 2);
    const tm_tensor_row *a = &f.table.rows[0], *b = &f.table.rows[1];
    assert_memory_equal(tm_row_name(&f.table, a), "a", 1);
    assert_int_equal(a->dtype, TM_I8);
    assert_int_equal(a->rank, 0);
    assert_int_equal(a->begin, f.result.header_bytes + 12);
    assert_int_equal(a->bytes, 1);
    assert_memory_equal(tm_row_name(&f.table, b), "b", 1);
    assert_int_equal(b->dtype, TM_BF16);
    assert_int_equal(b->rank, 3);
    const uint64_t dims[] = {2, 3, 1};
    assert_memory_equal(tm_row_dims(&f.table, b), dims, sizeof(dims));
    assert_int_equal(b->begin, f.result.header_bytes);
    assert_int_equal(b->bytes, 12);
    end(&f);
}

static void test_every_dtype_has_its_size(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        tm_dtype dtype;
        unsigned bits;
    } rows[] = {
        {"BOOL", TM_BOOL, 8},
        {"F4", TM_F4, 4},
        {"F6_E2M3", TM_F6_E2M3, 6},
        {"F6_E3M2", TM_F6_E3M2, 6},
        {"U8", TM_U8, 8},
        {"I8", TM_I8, 8},
        {"F8_E5M2", TM_F8_E5M2, 8},
        {"F8_E4M3", TM_F8_E4M3, 8},
        {"F8_E8M0", TM_F8_E8M0, 8},
        {"F8_E4M3FNUZ", TM_F8_E4M3FNUZ, 8},
        {"F8_E5M2FNUZ", TM_F8_E5M2FNUZ, 8},
        {"I16", TM_I16, 16},
        {"U16", TM_U16, 16},
        {"F16", TM_F16, 16},
        {"BF16", TM_BF16, 16},
        {"I32", TM_I32, 32},
        {"U32", TM_U32, 32},
        {"F32", TM_F32, 32},
        {"C64", TM_C64, 64},
        {"F64", TM_F64, 64},
        {"I64", TM_I64, 64},
        {"U64", TM_U64, 64},
    };
    assert_int_equal(TM_ARRAY_LEN(rows), TM_DTYPE_COUNT);
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        fixture f;
        char json[256];
        unsigned bytes = rows[i].bits; /* of eight elements */
        begin(&f);
        snprintf(json, sizeof(json), "{" E("a", "'%s'", "[8]", "[0,%u]") "}", rows[i].name, bytes);
        assert_int_equal(read_json(&f, json, bytes), 0);
        assert_int_equal(f.table.rows[0].dtype, rows[i].dtype);
        assert_int_equal(f.table.rows[0].bytes, bytes);
        end(&f);
    }
}

/* -- The file around the header. */

static void test_a_file_too_short_or_too_strange_for_a_header_says_so(void **state)
{
    (void)state;
    static const struct {
        uint64_t n, size;
        const char *words;
    } rows[] = {
        {0, 8, "begins with 8 zero bytes: its space was reserved, but its content never written"},
        {100000001, 200000000,
         "not a safetensors file: a header of 100000001 bytes, more than the limit of 100000000"},
        {UINT64_MAX, 16,
         "not a safetensors file: a header of 18446744073709551615 bytes, more than the limit of "
         "100000000"},
        {100000000, 16, "cut short: a header of 100000000 bytes in a file of 16 bytes"},
        {9, 16, "cut short: a header of 9 bytes in a file of 16 bytes"},
        {1, 8, "cut short: a header of 1 bytes in a file of 8 bytes"},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        fixture f;
        begin(&f);
        write_header(&f, "{'a':{}}", 8, 0);
        memcpy(f.bytes, &rows[i].n, 8);
        f.bytes = realloc(f.bytes, 2000);
        assert_non_null(f.bytes);
        memset(f.bytes + 16, 1, 2000 - 16);
        f.len = 2000;
        f.size = rows[i].size;
        assert_int_equal(read_file(&f, 0), -EBADMSG);
        expect_words(&f, rows[i].words);
        assert_false(f.result.rows_valid);
        end(&f);
    }
}

static void test_a_file_of_seven_bytes_or_fewer_is_cut_short(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    write_header(&f, "", 0, 0);
    memset(f.bytes, 1, 8);
    for (f.size = 7; f.size > 0; f.size--) {
        char words[100];
        snprintf(words, sizeof(words),
                 "cut short: a file of %d bytes, where the header's length alone has 8",
                 (int)f.size);
        assert_int_equal(read_file(&f, 0), -EBADMSG);
        expect_words(&f, words);
    }
    assert_int_equal(read_file(&f, 0), -EBADMSG);
    expect_words(&f, "is empty");
    end(&f);
}

static void test_a_file_of_another_kind_is_named(void **state)
{
    (void)state;
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\n"
                                  "oid sha256:0123456789abcdef\nsize 4900000000\n";
    fixture f;
    begin(&f);
    f.bytes = strdup(pointer);
    f.len = f.size = strlen(pointer);
    assert_int_equal(read_file(&f, 0), -EBADMSG);
    expect_words(&f, "is a Git LFS pointer (oid sha256:0123456789abcdef, 4.9 GB): the weights were "
                     "not downloaded; run 'git lfs pull'");
    /* The first eight bytes of a gzip file are a plausible length. */
    write_header(&f, "\003\377\377\377", 4, 0);
    memcpy(f.bytes, "\x1f\x8b\x08\0\0\0\0\0", 8);
    assert_int_equal(read_file(&f, 0), -EBADMSG);
    expect_words(&f, "is compressed (gzip)");
    /* A header of as many bytes is still a header. */
    write_header(&f, "{'a'", 4, 0);
    memcpy(f.bytes, "\x1f\x8b\x08\0\0\0\0\0", 8);
    assert_int_equal(read_file(&f, 0), -EBADMSG);
    expect_words(&f, "cut short: a header of 559903 bytes in a file of 12 bytes");
    end(&f);
}

static int read_spaces(void *ctx, uint64_t off, void *dst, size_t len, tm_req *req)
{
    (void)ctx;
    (void)req;
    memset(dst, ' ', len);
    uint64_t n = TM_SAFETENSORS_HEADER_MAX;
    if (off == 0)
        memcpy(dst, &n, len < 8 ? len : 8);
    if (off == 8)
        memcpy(dst, "{}", 2);
    return 0;
}

static void test_a_header_of_exactly_the_limit_is_read(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    tm_byte_source src = {.name = "f", .size = 8u + TM_SAFETENSORS_HEADER_MAX, .read = read_spaces};
    tm_safetensors_sink sink = {&f.table, &f.meta, &f.diag, 0};
    assert_int_equal(tm_safetensors_read(&src, &sink, &f.req, &f.result), 0);
    assert_int_equal(f.result.header_bytes, 100000008);
    assert_int_equal(f.diag.count, 0);
    end(&f);
}

static void test_a_file_cut_short_refuses_only_what_it_lacks(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    const char *json = "{" E("c", "'U8'", "[4]", "[0,4]") "," E("a", "'U8'", "[4]", "[4,8]") "," E(
        "b", "'U8'", "[4]", "[8,12]") "}";
    assert_int_equal(read_json(&f, json, 8), -EBADMSG);
    assert_int_equal(f.table.rows[0].flags, 0);
    assert_int_equal(f.table.rows[1].flags, TM_ROW_REFUSED);
    assert_int_equal(f.table.rows[2].flags, 0);
    end(&f);
    begin(&f);
    assert_int_equal(read_json(&f, json, 7), -EBADMSG);
    assert_true(f.result.rows_valid);
    assert_true(f.diag.damaged);
    assert_int_equal(f.table.count, 3);
    assert_int_equal(tm_tensor_table_seal(&f.table), 0);
    assert_int_equal(f.table.rows[0].flags, TM_ROW_REFUSED);
    assert_int_equal(f.table.rows[1].flags, TM_ROW_REFUSED);
    assert_int_equal(f.table.rows[2].flags, 0);
    assert_int_equal(f.diag.count, 2);
    assert_string_equal(f.diag.lines[0].words, "f: tensor 'a': data ends at byte 174, but the file "
                                               "has 173 bytes: cut short (expected 178)");
    assert_string_equal(f.diag.lines[1].words, "f: tensor 'b': data ends at byte 178, but the file "
                                               "has 173 bytes: cut short (expected 178)");
    end(&f);
}

/* -- Large headers. */

/* A header of N tensors of two bytes each, "t0" first. */
static char *many_tensors(uint32_t n)
{
    char *json = tm_new_array(n + 1, 80), *at = json;
    assert_non_null(json);
    for (uint32_t i = 0; i < n; i++) {
        int len = snprintf(at, 81, "%c" E("t%u", "'U8'", "[2]", "[%u,%u]"), i ? ',' : '{', i, 2 * i,
                           2 * i + 2);
        at += len;
    }
    memcpy(at, "}", 2);
    return json;
}

static void test_a_header_of_many_chunks_loses_nothing(void **state)
{
    (void)state;
    enum {
        N = 20000
    };
    fixture f;
    begin(&f);
    char *json = many_tensors(N);
    assert_true(strlen(json) > 10 * TM_BYTE_SOURCE_CHUNK);
    assert_int_equal(read_json(&f, json, 2 * N), 0);
    assert_int_equal(f.table.count, N);
    assert_int_equal(tm_tensor_table_seal(&f.table), 0);
    for (uint32_t i = 0; i < N; i++) {
        char name[16];
        int len = snprintf(name, sizeof(name), "t%u", i);
        uint32_t row;
        assert_true(tm_tensor_table_find(&f.table, name, (size_t)len, &row));
        assert_int_equal(f.table.rows[row].begin, f.result.header_bytes + 2 * i);
    }
    free(json);
    end(&f);
}

static void test_a_damage_of_many_tensors_takes_few_lines(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    char *json = many_tensors(100);
    assert_int_equal(read_json(&f, json, 0), -EBADMSG);
    assert_int_equal(f.diag.count, 9);
    expect_words(&f, "lines like these left out: 92");
    free(json);
    end(&f);
}

/* A tensor of RANK dimensions of 1. */
static int read_rank(fixture *f, size_t rank)
{
    char *json = tm_new_array(rank + 50, 2);
    assert_non_null(json);
    char *at = json + snprintf(json, 40, "{'a':{'dtype':'U8','shape':[1");
    for (size_t i = 1; i < rank; i++) {
        memcpy(at, ",1", 2);
        at += 2;
    }
    snprintf(at, 40, "],'data_offsets':[0,1]}}");
    int rc = read_json(f, json, 1);
    free(json);
    return rc;
}

static void test_ranks_up_to_65535_are_read(void **state)
{
    (void)state;
    static const uint16_t ranks[] = {1000, TM_RANK_MAX};
    fixture f;
    for (size_t i = 0; i < TM_ARRAY_LEN(ranks); i++) {
        begin(&f);
        assert_int_equal(read_rank(&f, ranks[i]), 0);
        assert_int_equal(f.table.rows[0].rank, ranks[i]);
        assert_int_equal(tm_row_elems(&f.table, f.table.rows), 1);
        end(&f);
    }
    begin(&f);
    assert_int_equal(read_rank(&f, TM_RANK_MAX + 1), -EBADMSG);
    expect_words(&f, "tensor 'a': more than 65535 dimensions are not supported");
    end(&f);
}

static int read_name_of(fixture *f, size_t len)
{
    static const char rest[] = "':{'dtype':'U8','shape':[1],'data_offsets':[0,1]}}";
    char *json = malloc(len + sizeof(rest) + 2);
    assert_non_null(json);
    memcpy(json, "{'", 2);
    memset(json + 2, 'n', len);
    memcpy(json + 2 + len, rest, sizeof(rest));
    int rc = read_json(f, json, 1);
    free(json);
    return rc;
}

static void test_names_up_to_a_mebibyte_are_read(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    assert_int_equal(read_name_of(&f, TM_NAME_MAX), 0);
    assert_int_equal(f.table.rows[0].name_len, TM_NAME_MAX);
    end(&f);
    begin(&f);
    assert_int_equal(read_name_of(&f, TM_NAME_MAX + 1), -EBADMSG);
    expect_words(&f, "a name of 1048577 bytes; at most 1048576 are supported");
    end(&f);
}

/* An extra field whose value opens LEVELS lists, within the two objects around it. */
static int read_nested(fixture *f, int levels)
{
    char json[1024] = "{'a':{'dtype':'U8','shape':[1],'data_offsets':[0,1],'x':";
    size_t len = strlen(json), n = (size_t)levels;
    memset(json + len, '[', n);
    memset(json + len + n, ']', n);
    memcpy(json + len + 2 * n, "}}", 3);
    return read_json(f, json, 1);
}

static void test_nesting_is_refused_where_upstream_refuses_it(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    assert_int_equal(read_nested(&f, 125), 0);
    end(&f);
    begin(&f);
    assert_int_equal(read_nested(&f, 126), -EBADMSG);
    expect_words(&f, "byte 181 of the header: nested deeper than 127 levels");
    end(&f);
    begin(&f);
    assert_int_equal(read_nested(&f, 400), -EBADMSG);
    end(&f);
}

/* -- Metadata, words, and what was there before. */

static void test_metadata_keeps_its_order_and_its_bytes(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    assert_int_equal(read_json(&f, "{'__metadata__':{'z':'1','a':'x\\u0000y','':''}}", 0), 0);
    assert_int_equal(f.meta.count, 3);
    assert_string_equal(f.meta.pairs[0].key, "z");
    assert_string_equal(f.meta.pairs[0].value, "1");
    assert_string_equal(f.meta.pairs[1].key, "a");
    assert_int_equal(f.meta.pairs[1].value_len, 3);
    assert_memory_equal(f.meta.pairs[1].value, "x\0y", 3);
    assert_int_equal(f.meta.pairs[2].key_len, 0);
    end(&f);
}

static int read_pairs(fixture *f, unsigned n)
{
    char *json = tm_new_array(n + 3, 16), *at = json;
    assert_non_null(json);
    at += snprintf(at, 32, "{'__metadata__':{");
    for (unsigned i = 0; i < n; i++)
        at += snprintf(at, 17, "%s'%u':''", i ? "," : "", i);
    snprintf(at, 3, "}}");
    int rc = read_json(f, json, 0);
    free(json);
    return rc;
}

static void test_metadata_of_too_many_keys_is_refused(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    assert_int_equal(read_pairs(&f, 100000), 0);
    assert_int_equal(f.meta.count, 100000);
    end(&f);
    begin(&f);
    assert_int_equal(read_pairs(&f, 100001), -EBADMSG);
    expect_words(&f, "__metadata__ has more than 100000 keys");
    assert_int_equal(f.meta.count, 0);
    end(&f);
}

static void test_names_in_words_are_escaped_and_shortened(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    assert_int_equal(read_json(&f, "{'a\\u0000\\n\\u00e9':1}", 0), -EBADMSG);
    expect_words(&f, "tensor 'a%00%0A\303\251': a value where the format has an object");
    end(&f);
    begin(&f);
    assert_int_equal(read_name_of(&f, 4000), 0);
    f.size--;
    assert_int_equal(read_file(&f, 0), -EBADMSG);
    assert_true(strlen(last_words(&f)) < 400);
    end(&f);
}

static void test_earlier_files_are_left_alone(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    assert_int_equal(read_json(&f, "{'__metadata__':{'k':'1'}," A "}", 8), 0);
    uint64_t names_len = f.table.names_len, dims_len = f.table.dims_len;
    write_header(&f, "{'__metadata__':{'k':'2'}," A ",'b':1}",
                 strlen("{'__metadata__':{'k':'2'}," A ",'b':1}"), 8);
    assert_int_equal(read_file(&f, 1), -EBADMSG);
    assert_int_equal(f.table.count, 1);
    assert_int_equal(f.table.names_len, names_len);
    assert_int_equal(f.table.dims_len, dims_len);
    assert_int_equal(f.meta.count, 1);
    /* A second file that contradicts itself refuses its own rows only. */
    write_header(&f, "{" A "," A "}", strlen("{" A "," A "}"), 8);
    assert_int_equal(read_file(&f, 2), -EBADMSG);
    assert_int_equal(f.table.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(f.table.rows[i].file, i ? 2 : 0);
        assert_int_equal(f.table.rows[i].flags, i ? TM_ROW_REFUSED : 0);
    }
    end(&f);
}

static void test_a_failed_read_is_no_verdict_on_the_file(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    write_header(&f, "{" A "}", strlen("{" A "}"), 8);
    f.len -= 1; /* the header's last byte cannot be read */
    assert_int_equal(read_file(&f, 0), -EIO);
    assert_string_equal(tm_req_words(&f.req), "a read beyond what the test provides");
    assert_int_equal(f.diag.count, 0);
    assert_int_equal(f.table.count, 0);
    end(&f);
}

static void test_a_cancelled_request_stops_the_reading(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    write_header(&f, "{" A "}", strlen("{" A "}"), 8);
    atomic_store(&f.req.cancelled, true);
    assert_int_equal(read_file(&f, 0), -EINTR);
    assert_int_equal(f.diag.count, 0);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_headers_are_accepted_without_a_word),
        cmocka_unit_test(test_unusual_headers_are_accepted_with_a_warning),
        cmocka_unit_test(test_malformed_headers_are_refused_and_leave_no_rows),
        cmocka_unit_test(test_contradictory_files_keep_their_rows_refused),
        cmocka_unit_test(test_a_row_holds_what_its_entry_says),
        cmocka_unit_test(test_every_dtype_has_its_size),
        cmocka_unit_test(test_a_file_too_short_or_too_strange_for_a_header_says_so),
        cmocka_unit_test(test_a_file_of_seven_bytes_or_fewer_is_cut_short),
        cmocka_unit_test(test_a_file_of_another_kind_is_named),
        cmocka_unit_test(test_a_header_of_exactly_the_limit_is_read),
        cmocka_unit_test(test_a_file_cut_short_refuses_only_what_it_lacks),
        cmocka_unit_test(test_a_header_of_many_chunks_loses_nothing),
        cmocka_unit_test(test_a_damage_of_many_tensors_takes_few_lines),
        cmocka_unit_test(test_ranks_up_to_65535_are_read),
        cmocka_unit_test(test_names_up_to_a_mebibyte_are_read),
        cmocka_unit_test(test_nesting_is_refused_where_upstream_refuses_it),
        cmocka_unit_test(test_metadata_keeps_its_order_and_its_bytes),
        cmocka_unit_test(test_metadata_of_too_many_keys_is_refused),
        cmocka_unit_test(test_names_in_words_are_escaped_and_shortened),
        cmocka_unit_test(test_earlier_files_are_left_alone),
        cmocka_unit_test(test_a_failed_read_is_no_verdict_on_the_file),
        cmocka_unit_test(test_a_cancelled_request_stops_the_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
