/* The shard index: what it maps, and what it must not name. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>

#include "formats/shard_index.h"
#include "tests/unit/formats/memory_source.h"

typedef struct fixture {
    char *bytes;
    tm_shard_index index;
    tm_req req;
} fixture;

static void begin(fixture *f)
{
    memset(f, 0, sizeof(*f));
    tm_shard_index_init(&f->index);
}

static void end(fixture *f)
{
    tm_shard_index_done(&f->index);
    free(f->bytes);
}

/* Reads LEN bytes of JSON with ' for ". */
static int read_bytes(fixture *f, const char *json, size_t len)
{
    free(f->bytes);
    f->bytes = malloc(len ? len : 1);
    assert_non_null(f->bytes);
    for (size_t i = 0; i < len; i++)
        f->bytes[i] = json[i] == '\'' ? '"' : json[i];
    memory_file file = {.bytes = f->bytes, .len = len};
    tm_byte_source src = memory_source(&file, "i", len);
    tm_req_init(&f->req, TM_LANE_VISIBLE);
    tm_shard_index_done(&f->index);
    return tm_shard_index_read(&src, &f->req, &f->index);
}

static int read_json(fixture *f, const char *json)
{
    return read_bytes(f, json, strlen(json));
}

static void expect_empty(const fixture *f)
{
    assert_null(f->index.files);
    assert_null(f->index.entries);
    assert_null(f->index.names);
    assert_int_equal(f->index.file_count, 0);
    assert_int_equal(f->index.entry_count, 0);
}

static void expect_file(const fixture *f, const char *tensor, const char *file)
{
    uint32_t at = 99;
    assert_true(tm_shard_index_find(&f->index, tensor, strlen(tensor), &at));
    assert_string_equal(f->index.files[at], file);
}

static void test_tensors_are_mapped_to_files(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    assert_int_equal(read_json(&f, "{'metadata':{'total_size':5,'x':[1,{}]},'weight_map':{"
                                   "'c':'two.safetensors','b':'one.safetensors',"
                                   "'d':'two.safetensors','a':'sub/three.safetensors'}}"),
                     0);
    assert_int_equal(f.index.entry_count, 4);
    assert_int_equal(f.index.file_count, 3);
    assert_string_equal(f.index.files[0], "two.safetensors");
    assert_string_equal(f.index.files[1], "one.safetensors");
    assert_string_equal(f.index.files[2], "sub/three.safetensors");
    expect_file(&f, "a", "sub/three.safetensors");
    expect_file(&f, "b", "one.safetensors");
    expect_file(&f, "c", "two.safetensors");
    expect_file(&f, "d", "two.safetensors");
    uint32_t at;
    assert_false(tm_shard_index_find(&f.index, "e", 1, &at));
    assert_false(tm_shard_index_find(&f.index, "", 0, &at));
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(f.index.entries[i].name_len, 1);
        assert_int_equal(f.index.names[f.index.entries[i].name_off], 'a' + (int)i);
    }
    end(&f);
}

static void test_harmless_indexes_are_accepted(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        uint32_t entries;
    } rows[] = {
        {"{'weight_map':{}}", 0},
        {" {\n'weight_map' : { } } \n", 0},
        {"{'weight_map':{'':'f'}}", 1},
        {"{'weight_map':{'a':'f'},'metadata':null}", 1},
        {"{'metadata':{'weight_map':{'a':'f'}},'weight_map':{'b':'g'}}", 1},
        {"{'x':[1],'weight_map':{'a':'f'}}", 1},
        {"{'x':1,'y':'s','z':[],'x':{},'weight_map':{'a':'f'}}", 1},
        {"{'weight_map':{'a\\u0000':'f','a':'f','/etc/passwd':'f'}}", 3},
        {"{'weight\\u005fmap':{'a':'f'}}", 1},
        {"{'weight_map':{'a':'..f','b':'f..','c':'.f','d':'a/..b/c','e':'...'}}", 5},
        {"{'weight_map':{'a':'\xc3\xa9 \\u00e9.safetensors'}}", 1},
        {"{'weight_map':{'__metadata__':'f'}}", 1},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        fixture f;
        begin(&f);
        if (read_json(&f, rows[i].json) != 0)
            fail_msg("%s: %s", rows[i].json, tm_req_words(&f.req));
        assert_int_equal(f.index.entry_count, rows[i].entries);
        end(&f);
    }
}

static void test_malformed_indexes_are_refused_with_words(void **state)
{
    (void)state;
    static const struct {
        const char *json, *words;
    } rows[] = {
        {"", "i: is empty"},
        {"{", "i: byte 1: the text ends too early"},
        {"{}", "i: it has no weight_map"},
        {"{'metadata':{}}", "i: it has no weight_map"},
        {"[]", "i: the index is not an object"},
        {"null", "i: the index is not an object"},
        {"{'weight_map':[]}", "i: weight_map is not an object"},
        {"{'weight_map':null}", "i: weight_map is not an object"},
        {"{'weight_map':'f'}", "i: weight_map is not an object"},
        {"{'weight_map':{},'weight_map':{}}", "i: weight_map stands twice"},
        {"{'weight_map':{},'weight\\u005fmap':{}}", "i: weight_map stands twice"},
        {"{'weight_map':{'a':1}}", "i: tensor 'a': its file is not a string"},
        {"{'weight_map':{'a':null}}", "i: tensor 'a': its file is not a string"},
        {"{'weight_map':{'a':['f']}}", "i: tensor 'a': its file is not a string"},
        {"{'weight_map':{'a':{}}}", "i: tensor 'a': its file is not a string"},
        {"{'weight_map':{'a':'f','b':'f','a':'f'}}", "i: tensor 'a' stands twice"},
        {"{'weight_map':{'a':'f','\\u0061':'g'}}", "i: tensor 'a' stands twice"},
        {"{'weight_map':{'a':'f'}}x", "i: byte 24: more text after the end of the value"},
        {"{'weight_map':{'a':'f',}}", "i: byte 23: a key is expected"},
        {"{'weight_map':{'a\xff':'f'}}", "i: byte 17: invalid UTF-8"},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 30\n",
         "i: is a Git LFS pointer (oid sha256:ab, 30 bytes): the weights were not downloaded; run "
         "'git lfs pull'"},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        fixture f;
        begin(&f);
        int rc = read_json(&f, rows[i].json);
        if (rc != -EBADMSG)
            fail_msg("%s: %d", rows[i].json, rc);
        assert_string_equal(tm_req_words(&f.req), rows[i].words);
        expect_empty(&f);
        end(&f);
    }
}

static void test_file_names_stay_within_the_folder(void **state)
{
    (void)state;
    static const struct {
        const char *name, *why; /* in JSON */
    } rows[] = {
        {"", "'' is empty"},
        {"/etc/passwd", "'/etc/passwd' is absolute"},
        {"//x", "'//x' is absolute"},
        {"..", "'..' has an empty, '.' or '..' component"},
        {"../x", "'../x' has an empty, '.' or '..' component"},
        {"a/../x", "'a/../x' has an empty, '.' or '..' component"},
        {"a/..", "'a/..' has an empty, '.' or '..' component"},
        {".", "'.' has an empty, '.' or '..' component"},
        {"./x", "'./x' has an empty, '.' or '..' component"},
        {"a/./x", "'a/./x' has an empty, '.' or '..' component"},
        {"a//x", "'a//x' has an empty, '.' or '..' component"},
        {"a/", "'a/' has an empty, '.' or '..' component"},
        {"a\\\\x", "'a\\x' has a backslash"},
        {"..\\\\x", "'..\\x' has a backslash"},
        {"C:x", "'C:x' begins with a drive"},
        {"a\\u0000", "'a%00' has a control byte"},
        {"a\\n", "'a%0A' has a control byte"},
        {"a\x7f", "'a%7F' has a control byte"},
        {"\\u002e\\u002e\\u002fx", "'../x' has an empty, '.' or '..' component"},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        fixture f;
        char json[128], words[128];
        begin(&f);
        snprintf(json, sizeof(json), "{'weight_map':{'a':'ok','b':'%s'}}", rows[i].name);
        snprintf(words, sizeof(words), "i: file name %s", rows[i].why);
        assert_int_equal(read_json(&f, json), -EBADMSG);
        assert_string_equal(tm_req_words(&f.req), words);
        expect_empty(&f);
        end(&f);
    }
}

/* A map of one tensor to a name of LEN bytes. */
static int read_file_name_of(fixture *f, size_t len)
{
    char *json = malloc(len + 40);
    assert_non_null(json);
    size_t at = (size_t)snprintf(json, 40, "{'weight_map':{'a':'");
    memset(json + at, 'n', len);
    memcpy(json + at + len, "'}}", 3);
    int rc = read_bytes(f, json, at + len + 3);
    free(json);
    return rc;
}

static void test_a_file_name_may_be_as_long_as_linux_opens(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    assert_int_equal(read_file_name_of(&f, 4095), 0);
    assert_int_equal(read_file_name_of(&f, 4096), -EBADMSG);
    assert_non_null(strstr(tm_req_words(&f.req), "is too long"));
    end(&f);
}

/* N tensors, each in a file of its own, in an order that is neither rising nor falling. */
static int read_files(fixture *f, unsigned n)
{
    char *json = tm_new_array(n + 2, 32), *at = json;
    assert_non_null(json);
    at += snprintf(at, 32, "{'weight_map':{");
    for (unsigned i = 0; i < n; i++) {
        unsigned k = i * 7919u % n;
        at += snprintf(at, 32, "%s't%u':'f%u'", i ? "," : "", k, k);
    }
    memcpy(at, "}}", 2);
    int rc = read_bytes(f, json, (size_t)(at - json) + 2);
    free(json);
    return rc;
}

static void test_a_hundred_thousand_files_are_the_limit(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    assert_int_equal(read_files(&f, TM_SHARD_FILES_MAX), 0);
    assert_int_equal(f.index.file_count, TM_SHARD_FILES_MAX);
    assert_int_equal(f.index.entry_count, TM_SHARD_FILES_MAX);
    for (unsigned i = 0; i < TM_SHARD_FILES_MAX; i += 997) {
        char name[16], file[16];
        snprintf(name, sizeof(name), "t%u", i);
        snprintf(file, sizeof(file), "f%u", i);
        expect_file(&f, name, file);
    }
    assert_int_equal(read_files(&f, TM_SHARD_FILES_MAX + 1), -EFBIG);
    assert_string_equal(tm_req_words(&f.req), "i: more than 100000 files");
    expect_empty(&f);
    end(&f);
}

static int read_nothing(void *ctx, uint64_t off, void *dst, size_t len, tm_req *req)
{
    (void)ctx;
    (void)off;
    (void)dst;
    (void)len;
    return tm_fail(req, EIO, "no disk");
}

static void test_an_index_over_a_gibibyte_is_not_read(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    tm_byte_source src = {.name = "i\n", .size = (1u << 30) + 1u, .read = read_nothing};
    tm_req_init(&f.req, TM_LANE_VISIBLE);
    assert_int_equal(tm_shard_index_read(&src, &f.req, &f.index), -EFBIG);
    assert_string_equal(tm_req_words(&f.req),
                        "i%0A: 1073741825 bytes, more than the limit of 1073741824");
    src.size--;
    tm_req_init(&f.req, TM_LANE_VISIBLE);
    assert_int_equal(tm_shard_index_read(&src, &f.req, &f.index), -EIO);
    assert_string_equal(tm_req_words(&f.req), "no disk");
    expect_empty(&f);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors_are_mapped_to_files),
        cmocka_unit_test(test_harmless_indexes_are_accepted),
        cmocka_unit_test(test_malformed_indexes_are_refused_with_words),
        cmocka_unit_test(test_file_names_stay_within_the_folder),
        cmocka_unit_test(test_a_file_name_may_be_as_long_as_linux_opens),
        cmocka_unit_test(test_a_hundred_thousand_files_are_the_limit),
        cmocka_unit_test(test_an_index_over_a_gibibyte_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
