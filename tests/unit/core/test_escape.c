/* Tensor names as file names and table fields, there and back. */
#include "core/escape.h"

#include <stdarg.h>
#include <stdio.h>
#include <setjmp.h>
#include <cmocka.h>

#include "core/hash.h"

#define TEXT(s) (s), sizeof(s) - 1

enum {
    PREFIX_MAX = 238, /* 255 without '~' and 16 digits */
    LONG_NAME = 4000,
};

/* splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014). */
static uint64_t next_random(uint64_t *seed)
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static void assert_file(const char *name, size_t len, const char *file)
{
    char got[TM_FILE_NAME_MAX + 1];
    assert_int_equal(tm_name_to_file(name, len, got), strlen(file));
    assert_string_equal(got, file);
    assert_int_equal(tm_name_to_file_len(name, len), strlen(file));
}

static void assert_decodes(const char *file, size_t file_len, const char *name, size_t len)
{
    char got[TM_FILE_NAME_MAX];
    size_t got_len = SIZE_MAX;
    assert_int_equal(tm_file_to_name(file, file_len, got, &got_len), TM_FILE_NAME_WHOLE);
    assert_int_equal(got_len, len);
    assert_memory_equal(got, name, len);
}

static void names_become_files_and_files_names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t len;
        const char *file;
    } rows[] = {
        {TEXT("model.layers.0.self_attn.q_proj.weight"), "model.layers.0.self_attn.q_proj.weight"},
        {TEXT(""), "%"},
        {TEXT("."), "%2E"},
        {TEXT(".."), "%2E%2E"},
        {TEXT("..."), "..."},
        {TEXT(".a"), ".a"},
        {TEXT(".sharded"), ".sharded"},
        {TEXT("a."), "a."},
        {TEXT("./."), ".%2F."},
        {TEXT("/"), "%2F"},
        {TEXT("//"), "%2F%2F"},
        {TEXT("bert/encoder/layer_0/kernel:0"), "bert%2Fencoder%2Flayer_0%2Fkernel:0"},
        {TEXT("%"), "%25"},
        {TEXT("%2F"), "%252F"},
        {TEXT("100%"), "100%25"},
        {TEXT("a\0b"), "a%00b"},
        {TEXT("\x01\x09\x0a\x0d\x1f\x7f"), "%01%09%0A%0D%1F%7F"},
        {TEXT(" a b "), " a b "},
        {TEXT("a\\b*?\"<>|"), "a\\b*?\"<>|"},
        {TEXT("~"), "~"},
        {TEXT("a~0123456789abcdef"), "a~0123456789abcdef"},
        {TEXT("gewicht.\xc3\xbc"), "gewicht.\xc3\xbc"},
        {TEXT("\xff\xfe\x80"), "\xff\xfe\x80"},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        assert_file(rows[i].name, rows[i].len, rows[i].file);
        assert_decodes(rows[i].file, strlen(rows[i].file), rows[i].name, rows[i].len);
    }
}

static void no_other_spelling_is_a_file(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        size_t len;
    } rows[] = {
        {TEXT("")},     {TEXT(".")},    {TEXT("..")},    {TEXT("/")},      {TEXT("a/b")},
        {TEXT("a\0b")}, {TEXT("a\nb")}, {TEXT("\x7f")},  {TEXT("a%")},     {TEXT("a%2")},
        {TEXT("%%")},   {TEXT("%2")},   {TEXT("%2f")},   {TEXT("a%2fb")},  {TEXT("%0a")},
        {TEXT("%7f")},  {TEXT("%41")},  {TEXT("%20")},   {TEXT("%2E.")},   {TEXT(".%2E")},
        {TEXT("%2Ea")}, {TEXT("a%2E")}, {TEXT("%2e")},   {TEXT("%2E%2e")}, {TEXT("%2E%2E%2E")},
        {TEXT("%GG")},  {TEXT("% 1")},  {TEXT("%+1")},   {TEXT("%80")},    {TEXT("%C3%BC")},
        {TEXT("%0")},   {TEXT("%25%")}, {TEXT("a%2F%")}, {TEXT("%2\xc3")}, {TEXT("%:0")},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        char name[TM_FILE_NAME_MAX];
        size_t len;
        if (tm_file_to_name(rows[i].file, rows[i].len, name, &len) != TM_FILE_NAME_INVALID)
            fail_msg("row %zu, '%s', passed", i, rows[i].file);
    }
    char name[TM_FILE_NAME_MAX + 1], file[TM_FILE_NAME_MAX + 1];
    size_t len;
    memset(file, 'a', sizeof(file));
    assert_int_equal(tm_file_to_name(file, 256, name, &len), TM_FILE_NAME_INVALID);
    assert_int_equal(tm_file_to_name(file, 255, name, &len), TM_FILE_NAME_WHOLE);
}

/* A name of N copies of UNIT, after LEAD. */
static size_t repeat(const char *lead, const char *unit, size_t n, char ret[LONG_NAME])
{
    size_t len = strlen(lead), step = strlen(unit);
    assert_true(len + n * step <= LONG_NAME);
    memcpy(ret, lead, len);
    for (size_t i = 0; i < n; i++, len += step)
        memcpy(ret + len, unit, step);
    return len;
}

static void a_long_name_is_cut_between_characters_and_ends_in_its_hash(void **state)
{
    (void)state;
    static const struct {
        const char *lead, *unit;
        size_t n;
        size_t prefix; /* of the file */
    } rows[] = {
        {"", "a", 256, 238},
        {"", "\xc3\xbc", 128, 238},
        {"x", "\xc3\xbc", 128, 237},
        {"", "\xe2\x82\xac", 86, 237},
        {"x", "\xe2\x82\xac", 86, 238},
        {"xx", "\xe2\x82\xac", 86, 236},
        {"", "\xf0\x9f\xa6\x99", 64, 236},
        {"x", "\xf0\x9f\xa6\x99", 64, 237},
        {"xx", "\xf0\x9f\xa6\x99", 64, 238},
        {"xxx", "\xf0\x9f\xa6\x99", 64, 235},
        {"", "/", 86, 237},
        {"x", "/", 86, 238},
        {"xx", "/", 86, 236},
        {"", "\xff", 256, 238},            /* no UTF-8: any byte is an end */
        {"x", "\xc3", 256, 238},           /* a sequence that never ends */
        {"", "\xed\xa0\x80", 86, 238},     /* a surrogate */
        {"", "\xc0\xaf", 128, 238},        /* overlong, two bytes */
        {"x", "\xc1\xbf", 128, 238},       /* overlong, two bytes */
        {"", "\xe0\x80\xaf", 86, 238},     /* overlong, three bytes */
        {"", "\xf0\x80\x80\xaf", 64, 238}, /* overlong, four bytes */
        {"", "\xf4\x90\x80\x80", 64, 238}, /* beyond U+10FFFF */
        {"", "\xf5\x80\x80\x80", 64, 238}, /* beyond U+10FFFF */
        {"x", "\xc2\x80", 128, 237},       /* the first of two bytes */
        {"xx", "\xe0\xa0\x80", 86, 236},   /* the first of three bytes */
        {"", "\xe0\xa0\x80", 86, 237},     /* the first of three bytes */
        {"", "\xed\x9f\xbf", 86, 237},     /* the last before the surrogates */
        {"", "\xf0\x90\x80\x80", 64, 236}, /* the first of four bytes */
        {"", "\xf4\x8f\xbf\xbf", 64, 236}, /* the last of all */
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        char name[LONG_NAME], file[TM_FILE_NAME_MAX + 1], prefix[TM_FILE_NAME_MAX];
        size_t len = repeat(rows[i].lead, rows[i].unit, rows[i].n, name), prefix_len;
        size_t file_len = tm_name_to_file(name, len, file);
        assert_int_equal(file_len, rows[i].prefix + 17);
        assert_int_equal(tm_name_to_file_len(name, len), file_len);
        assert_int_equal(strlen(file), file_len);
        char tail[18];
        snprintf(tail, sizeof(tail), "~%016llx", (unsigned long long)tm_hash64(name, len));
        assert_string_equal(file + rows[i].prefix, tail);
        assert_int_equal(tm_file_to_name(file, file_len, prefix, &prefix_len), TM_FILE_NAME_HASHED);
        assert_true(prefix_len <= rows[i].prefix);
        assert_memory_equal(prefix, name, prefix_len);
        assert_true(tm_name_matches_file(name, len, file, file_len));
        assert_false(tm_name_matches_file(name, len - 1, file, file_len));
    }
}

static void the_hash_in_a_file_name_never_changes(void **state)
{
    (void)state;
    char name[LONG_NAME], file[TM_FILE_NAME_MAX + 1];
    tm_name_to_file(name, repeat("", "a", 256, name), file);
    assert_string_equal(file + PREFIX_MAX, "~3fdb4ff1846c90f3");
}

static void the_longest_whole_name_has_255_escaped_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *unit;
        size_t n;
    } rows[] = {{"a", 255}, {"/", 85}, {"\x01", 85}, {"\xe2\x82\xac", 85}};
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        char name[LONG_NAME], file[TM_FILE_NAME_MAX + 1];
        size_t len = repeat("", rows[i].unit, rows[i].n, name);
        assert_int_equal(tm_name_to_file(name, len, file), 255);
        assert_decodes(file, 255, name, len);
    }
}

/* A name of LEN bytes that ends in what looks like a hash. */
static void fill_look_alike(char *name, size_t len, const char *tail)
{
    memset(name, 'b', len);
    memcpy(name + len - strlen(tail), tail, strlen(tail));
}

static void a_name_that_looks_cut_is_cut_so_that_the_shape_tells(void **state)
{
    (void)state;
    static const struct {
        size_t len;
        const char *tail;
        bool cut;
    } rows[] = {
        {251, "~0123456789abcdef", false},  {252, "~0123456789abcdef", true},
        {253, "~0123456789abcdef", true},   {255, "~0123456789abcdef", true},
        {255, "~0123456789abcdeF", false},  {255, "~0123456789abcdeg", false},
        {255, "-0123456789abcdef", false},  {255, "~123456789abcdef", false},
        {255, "~00123456789abcdef", false}, {255, "~~0123456789abcdef", true},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        char name[TM_FILE_NAME_MAX], file[TM_FILE_NAME_MAX + 1], back[TM_FILE_NAME_MAX];
        fill_look_alike(name, rows[i].len, rows[i].tail);
        size_t file_len = tm_name_to_file(name, rows[i].len, file), back_len;
        assert_int_equal(tm_name_to_file_len(name, rows[i].len), file_len);
        tm_file_name_kind kind = tm_file_to_name(file, file_len, back, &back_len);
        assert_int_equal(kind, rows[i].cut ? TM_FILE_NAME_HASHED : TM_FILE_NAME_WHOLE);
        assert_int_equal(file_len == rows[i].len && memcmp(file, name, file_len) == 0,
                         !rows[i].cut);
        assert_memory_equal(back, name, back_len);
        assert_int_equal(back_len, rows[i].cut ? PREFIX_MAX : rows[i].len);
        assert_true(tm_name_matches_file(name, rows[i].len, file, file_len));
    }
}

static void a_tensor_named_like_the_file_of_a_long_one_has_another_file(void **state)
{
    (void)state;
    char name[LONG_NAME], file[TM_FILE_NAME_MAX + 1], other[TM_FILE_NAME_MAX + 1];
    size_t len = repeat("", "layer.", 100, name);
    size_t file_len = tm_name_to_file(name, len, file);
    size_t other_len = tm_name_to_file(file, file_len, other);
    assert_false(other_len == file_len && memcmp(file, other, file_len) == 0);
    assert_true(tm_name_matches_file(file, file_len, other, other_len));
    assert_false(tm_name_matches_file(file, file_len, file, file_len));
    assert_false(tm_name_matches_file(name, len, other, other_len));
}

static void a_cut_file_with_a_useless_escape_is_invalid(void **state)
{
    (void)state;
    char file[TM_FILE_NAME_MAX + 1], back[TM_FILE_NAME_MAX];
    size_t back_len;
    fill_look_alike(file, 255, "~0123456789abcdef");
    assert_int_equal(tm_file_to_name(file, 255, back, &back_len), TM_FILE_NAME_HASHED);
    static const char *const bad[] = {"%41", "%2f", "a/b", "a\nb"};
    for (size_t i = 0; i < TM_ARRAY_LEN(bad); i++) {
        memcpy(file + 100, bad[i], 3);
        assert_int_equal(tm_file_to_name(file, 255, back, &back_len), TM_FILE_NAME_INVALID);
    }
    fill_look_alike(file, 255, "%~0123456789abcdef");
    assert_int_equal(tm_file_to_name(file, 255, back, &back_len), TM_FILE_NAME_INVALID);
}

/* Random bytes, many of them from a few that matter. */
static size_t random_name(uint64_t *seed, char ret[LONG_NAME])
{
    static const char special[] = "/%.~\0\x7f\x01\xc3\xbc\xe2\x82\xac\xf0\x9f"
                                  "2EF25af0";
    uint64_t shape = next_random(seed);
    size_t len = shape % 8 == 0 ? 230 + (shape >> 8) % 60 : (shape >> 8) % 40;
    for (size_t i = 0; i < len; i++) {
        uint64_t r = next_random(seed);
        ret[i] = r & 1 ? (char)(r >> 8) : special[(r >> 8) % (sizeof(special) - 1)];
    }
    return len;
}

static void assert_valid_file(const char *file, size_t len)
{
    assert_true(len >= 1 && len <= TM_FILE_NAME_MAX);
    assert_int_equal(strlen(file), len);
    assert_null(strchr(file, '/'));
    assert_string_not_equal(file, ".");
    assert_string_not_equal(file, "..");
}

static void every_random_name_has_a_valid_file_that_leads_back_to_it(void **state)
{
    (void)state;
    uint64_t seed = 1;
    size_t whole = 0, hashed = 0;
    for (size_t i = 0; i < 60000; i++) {
        char name[LONG_NAME], file[TM_FILE_NAME_MAX + 1], back[TM_FILE_NAME_MAX];
        size_t len = random_name(&seed, name), back_len;
        size_t file_len = tm_name_to_file(name, len, file);
        assert_valid_file(file, file_len);
        assert_int_equal(tm_name_to_file_len(name, len), file_len);
        tm_file_name_kind kind = tm_file_to_name(file, file_len, back, &back_len);
        assert_int_not_equal(kind, TM_FILE_NAME_INVALID);
        assert_true(kind == TM_FILE_NAME_HASHED ? back_len < len : back_len == len);
        assert_memory_equal(back, name, back_len);
        whole += kind == TM_FILE_NAME_WHOLE;
        hashed += kind == TM_FILE_NAME_HASHED;
    }
    assert_true(whole > 40000 && hashed > 4000);
}

/* In and out are of the exact size, so that a sanitizer sees a byte too many. */
static tm_file_name_kind decode_exactly(const char *file, size_t len, char *ret, size_t *ret_len)
{
    char *in = malloc(len), *out = malloc(len);
    assert_true(in && out);
    memcpy(in, file, len);
    tm_file_name_kind kind = tm_file_to_name(in, len, out, ret_len);
    if (kind != TM_FILE_NAME_INVALID)
        memcpy(ret, out, *ret_len);
    free(in);
    free(out);
    return kind;
}

static void every_random_file_is_invalid_or_canonical(void **state)
{
    (void)state;
    uint64_t seed = 2;
    size_t canonical = 0, invalid = 0;
    for (size_t i = 0; i < 60000; i++) {
        char file[LONG_NAME], name[TM_FILE_NAME_MAX], again[TM_FILE_NAME_MAX + 1];
        size_t len = random_name(&seed, file), name_len;
        if (len == 0 || len > TM_FILE_NAME_MAX)
            continue;
        tm_file_name_kind kind = decode_exactly(file, len, name, &name_len);
        invalid += kind == TM_FILE_NAME_INVALID;
        if (kind != TM_FILE_NAME_WHOLE)
            continue;
        canonical++;
        assert_int_equal(tm_name_to_file(name, name_len, again), len);
        assert_memory_equal(again, file, len);
    }
    assert_true(canonical > 1000 && invalid > 10000);
}

static int compare_files(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Long ones that differ in their last bytes only, short ones, and the files of both as names. */
static size_t distinct_name(size_t i, char ret[LONG_NAME])
{
    size_t len = 0;
    if (i % 4 != 0)
        len = repeat("model.", "\xc3\xa4.b/", 30 + i % 4 * 20, ret);
    size_t digits = (size_t)snprintf(ret + len, 32, "%zu", i);
    if (i % 8 < 4)
        return len + digits;
    char file[TM_FILE_NAME_MAX + 1];
    len = tm_name_to_file(ret, len + digits, file);
    memcpy(ret, file, len);
    return len;
}

static void distinct_names_have_distinct_files(void **state)
{
    (void)state;
    enum {
        COUNT = 40000,
        ROOM = TM_FILE_NAME_MAX + 1
    };
    char *files = calloc(COUNT, ROOM);
    assert_non_null(files);
    for (size_t i = 0; i < COUNT; i++) {
        char name[LONG_NAME];
        size_t len = distinct_name(i, name);
        tm_name_to_file(name, len, files + i * ROOM);
    }
    qsort(files, COUNT, ROOM, compare_files);
    for (size_t i = 1; i < COUNT; i++)
        assert_string_not_equal(files + (i - 1) * ROOM, files + i * ROOM);
    free(files);
}

static void fields_escape_only_what_would_break_a_table(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t len;
        const char *field;
    } rows[] = {
        {TEXT("model.norm.weight"), "model.norm.weight"},
        {TEXT("a/b"), "a/b"},
        {TEXT("."), "."},
        {TEXT(".."), ".."},
        {TEXT(""), "%"},
        {TEXT("%"), "%25"},
        {TEXT("a\tb\nc\r"), "a%09b%0Ac%0D"},
        {TEXT("a\0b\x7f"), "a%00b%7F"},
        {TEXT("\xc3\xbc\xff"), "\xc3\xbc\xff"},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        size_t want = strlen(rows[i].field);
        for (size_t cap = 0; cap <= want + 1; cap++) {
            char got[64];
            memset(got, '#', sizeof(got));
            assert_int_equal(tm_field_escape(rows[i].name, rows[i].len, got, cap), want);
            assert_memory_equal(got, rows[i].field, cap < want ? cap : want);
            assert_int_equal(got[cap < want ? cap : want], '#');
        }
    }
    assert_int_equal(tm_field_escape(TEXT("a%b"), NULL, 0), 5);
}

static void a_field_of_a_long_name_is_whole(void **state)
{
    (void)state;
    char name[LONG_NAME], field[LONG_NAME];
    size_t len = repeat("", "a/", LONG_NAME / 2, name);
    assert_int_equal(tm_field_escape(name, len, field, sizeof(field)), LONG_NAME);
    assert_memory_equal(field, name, LONG_NAME);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_become_files_and_files_names),
        cmocka_unit_test(no_other_spelling_is_a_file),
        cmocka_unit_test(a_long_name_is_cut_between_characters_and_ends_in_its_hash),
        cmocka_unit_test(the_hash_in_a_file_name_never_changes),
        cmocka_unit_test(the_longest_whole_name_has_255_escaped_bytes),
        cmocka_unit_test(a_name_that_looks_cut_is_cut_so_that_the_shape_tells),
        cmocka_unit_test(a_tensor_named_like_the_file_of_a_long_one_has_another_file),
        cmocka_unit_test(a_cut_file_with_a_useless_escape_is_invalid),
        cmocka_unit_test(every_random_name_has_a_valid_file_that_leads_back_to_it),
        cmocka_unit_test(every_random_file_is_invalid_or_canonical),
        cmocka_unit_test(distinct_names_have_distinct_files),
        cmocka_unit_test(fields_escape_only_what_would_break_a_table),
        cmocka_unit_test(a_field_of_a_long_name_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
