/* Statistics as text: sizes that hold whatever the numbers are, and what stands for no number. */
#include "formats/stats_text.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "formats/json.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

enum {
    LONGEST_REAL = 24 /* of LOWEST */
};
#define LOWEST (-2.2250738585072014e-308)

/* ---- Records ---- */

/* Every field has the longest text that it can have. */
static tm_stats_record longest_record(void)
{
    tm_stats_record r = {
        .summary =
            {
                .n = UINT64_MAX,
                .zero = UINT64_MAX,
                .neg_zero = UINT64_MAX,
                .nan = UINT64_MAX,
                .pos_inf = UINT64_MAX,
                .neg_inf = UINT64_MAX,
                .subnormal = UINT64_MAX,
                .min = LOWEST,
                .max = LOWEST,
                .absmax = LOWEST,
                .absmax_index = UINT64_MAX,
                .moments = {LOWEST, LOWEST, LOWEST, LOWEST, LOWEST},
                .sparsity = LOWEST,
                .entropy = LOWEST,
                .distinct = UINT64_MAX,
                .has_distinct = true,
            },
        .zero_rows = UINT64_MAX,
        .zero_cols = UINT64_MAX,
    };
    for (size_t i = 0; i < TM_STATS_QUANTILES; i++)
        r.summary.quantile[i] = LOWEST;
    return r;
}

/* Every real is VALUE, every count 0. */
static tm_stats_record even_record(double value)
{
    tm_stats_record r = {.summary = {.min = value,
                                     .max = value,
                                     .absmax = value,
                                     .moments = {value, value, value, value, value},
                                     .sparsity = value,
                                     .entropy = value}};
    for (size_t i = 0; i < TM_STATS_QUANTILES; i++)
        r.summary.quantile[i] = value;
    return r;
}

/* ---- Subjects ---- */

#define NAME(text) .name = (text), .name_len = sizeof(text) - 1

static const uint64_t vast[] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
                                UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
static const uint64_t square[] = {4096, 4096};
static char long_name[5000]; /* of 'x' and, where JSON needs more bytes, of control bytes */

static const tm_stats_subject subjects[] = {
    {NAME("model.norm.weight"), .dtype = "BF16", .dims = square, .rank = 2, .elems = 1 << 24},
    {NAME(""), .dtype = "U8", .dims = NULL, .rank = 0, .elems = 1},
    {NAME("s"), .dtype = "F8_E4M3FNUZ", .dims = vast, .rank = 8, .elems = 0, .scaled = true},
    {NAME("a\"b\\c/d\te\nf\x01g\x7f"), .dtype = "F4", .dims = square, .rank = 1, .elems = 4096},
    {NAME("\xc3\xbc\xf0\x9f\x98\x80\xe2\x80\xa8"), .dtype = "I64", .dims = vast, .rank = 1},
    {NAME("\xff\xc3 cut"), .dtype = "C64", .dims = square, .rank = 2, .elems = UINT64_MAX},
    {.name = long_name, .name_len = sizeof(long_name), .dtype = "F64", .dims = vast, .rank = 3},
};

static int make_long_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(long_name); i++)
        long_name[i] = i % 3 ? 'x' : (char)(i % 31 + 1);
    return 0;
}

/* ---- stats.json ---- */

static void expect_json_size(const tm_stats_subject *subject, size_t before)
{
    tm_text text;
    tm_text_init(&text);
    tm_text_pad(&text, before);
    tm_stats_json(&text, subject);
    assert_int_equal(tm_text_error(&text), 0);
    assert_int_equal(text.len, before + tm_stats_json_size(subject));
    assert_int_equal(text.bytes[text.len - 1], '\n');
    tm_text_done(&text);
}

static void sizes_are_exact_whatever_the_numbers_are(void **state)
{
    (void)state;
    tm_stats_record records[] = {longest_record(),       even_record(0),   even_record(NAN),
                                 even_record(-INFINITY), even_record(0.1), even_record(DBL_MAX)};
    for (size_t i = 0; i < TM_ARRAY_LEN(subjects); i++) {
        tm_stats_subject s = subjects[i];
        uint64_t size = tm_stats_json_size(&s);
        for (size_t k = 0; k <= TM_ARRAY_LEN(records); k++) {
            s.record = k < TM_ARRAY_LEN(records) ? &records[k] : NULL;
            assert_int_equal(tm_stats_json_size(&s), size);
            expect_json_size(&s, k * 7);
        }
    }
}

static char *json_of(const tm_stats_subject *subject)
{
    tm_text text;
    char *bytes;
    size_t len;
    tm_text_init(&text);
    tm_stats_json(&text, subject);
    assert_int_equal(tm_text_steal(&text, &bytes, &len), 0);
    return bytes;
}

static tm_json *parsed(const tm_stats_subject *subject)
{
    char *bytes = json_of(subject);
    tm_json_error error;
    tm_json *document;
    if (tm_json_parse(bytes, strlen(bytes), &error, &document) < 0)
        fail_msg("%d:%d: %s", error.line, error.column, error.words);
    free(bytes);
    return document;
}

static void numbers_at_their_longest_fill_the_room(void **state)
{
    (void)state;
    tm_stats_record record = longest_record();
    tm_stats_subject s = subjects[0];
    s.record = &record;
    char *bytes = json_of(&s);
    size_t spaces = 0, len = strlen(bytes), counts = 0;
    while (bytes[len - 2 - spaces] == ' ')
        spaces++;
    for (size_t i = 0; i < TM_STATS_FIELDS; i++)
        counts += tm_stats_field(&record, i).kind == TM_VALUE_INTEGER;
    /* What is left is what the longest count lacks to the longest real. */
    assert_int_equal(counts, 11);
    assert_int_equal(spaces, counts * (LONGEST_REAL - strlen("18446744073709551615")));
    assert_non_null(strstr(bytes, "\"n\": 18446744073709551615,"));
    assert_non_null(strstr(bytes, "\"0.999\": -2.2250738585072014e-308\n"));
    free(bytes);
}

static void a_tensor_reads_like_this(void **state)
{
    (void)state;
    static const char expected[] = "{\n"
                                   "  \"tensor\": \"a\\\"b\",\n"
                                   "  \"dtype\": \"F32\",\n"
                                   "  \"shape\": [2, 3],\n"
                                   "  \"scaled\": true,\n"
                                   "  \"n\": 6,\n"
                                   "  \"zero_count\": 1,\n"
                                   "  \"neg_zero_count\": 0,\n"
                                   "  \"nan_count\": 2,\n"
                                   "  \"pos_inf_count\": 0,\n"
                                   "  \"neg_inf_count\": 0,\n"
                                   "  \"subnormal_count\": 0,\n"
                                   "  \"min\": -0.1,\n"
                                   "  \"max\": 3,\n"
                                   "  \"absmax\": 3,\n"
                                   "  \"absmax_index\": 4,\n"
                                   "  \"mean\": null,\n"
                                   "  \"var\": null,\n"
                                   "  \"std\": 0.5,\n"
                                   "  \"l1\": null,\n"
                                   "  \"l2\": 1e+100,\n"
                                   "  \"sparsity\": 0,\n"
                                   "  \"entropy\": 0,\n"
                                   "  \"distinct\": null,\n"
                                   "  \"zero_rows\": 0,\n"
                                   "  \"zero_cols\": 1,\n"
                                   "  \"quantiles\": {\n"
                                   "    \"0.001\": -0.1,\n"
                                   "    \"0.01\": 0,\n"
                                   "    \"0.05\": 0,\n"
                                   "    \"0.25\": 0,\n"
                                   "    \"0.5\": 0,\n"
                                   "    \"0.75\": 0,\n"
                                   "    \"0.95\": 0,\n"
                                   "    \"0.99\": 0,\n"
                                   "    \"0.999\": 3\n"
                                   "  }\n"
                                   "}";
    tm_stats_record record = {
        .summary = {.n = 6,
                    .zero = 1,
                    .nan = 2,
                    .min = -0.1,
                    .max = 3,
                    .absmax = 3,
                    .absmax_index = 4,
                    .moments = {NAN, INFINITY, 0.5, -INFINITY, 1e100},
                    .distinct = 5,
                    .quantile = {-0.1, 0, 0, 0, 0, 0, 0, 0, 3}},
        .zero_cols = 1,
    };
    tm_stats_subject s = {NAME("a\"b"),     .dtype = "F32", .dims = (const uint64_t[]){2, 3},
                          .rank = 2,        .elems = 6,     .scaled = true,
                          .record = &record};
    char *bytes = json_of(&s);
    assert_memory_equal(bytes, expected, strlen(expected));
    assert_int_equal(strspn(bytes + strlen(expected), " ") + 1, strlen(bytes + strlen(expected)));
    free(bytes);
}

static void expect_names_and_shapes(const tm_json *document, const tm_stats_subject *s)
{
    const tm_json *shape = tm_json_get(document, "shape");
    bool scaled;
    assert_int_equal(tm_json_len(shape), s->rank);
    assert_string_equal(tm_json_str(tm_json_get(document, "dtype")), s->dtype);
    assert_true(tm_json_bool(tm_json_get(document, "scaled"), &scaled) && scaled == s->scaled);
}

static void what_is_unknown_is_null_and_n_is_known(void **state)
{
    (void)state;
    /* Dimensions and n that JSON readers can hold. */
    static const uint64_t dims[] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (size_t i = 0; i < TM_ARRAY_LEN(subjects); i++) {
        tm_stats_subject s = subjects[i];
        s.dims = dims;
        s.elems = 40320;
        tm_json *document = parsed(&s);
        int64_t n;
        expect_names_and_shapes(document, &s);
        assert_true(tm_json_int(tm_json_get(document, "n"), &n) && n == 40320);
        for (size_t k = 1; k < TM_STATS_PLAIN_FIELDS; k++)
            assert_true(tm_json_is_null(tm_json_get(document, tm_stats_field_name(k))));
        const tm_json *quantiles = tm_json_get(document, "quantiles");
        assert_int_equal(tm_json_len(quantiles), TM_STATS_QUANTILES);
        for (size_t k = TM_STATS_PLAIN_FIELDS; k < TM_STATS_FIELDS; k++)
            assert_true(tm_json_is_null(tm_json_get(quantiles, tm_stats_field_name(k) + 1)));
        assert_int_equal(tm_json_len(document), 4 + TM_STATS_PLAIN_FIELDS + 1);
        tm_json_free(document);
    }
}

static void nan_and_infinities_are_null(void **state)
{
    (void)state;
    static const double values[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < TM_ARRAY_LEN(values); i++) {
        tm_stats_record record = even_record(values[i]);
        tm_stats_subject s = subjects[0];
        s.record = &record;
        tm_json *document = parsed(&s);
        for (size_t k = 0; k < TM_STATS_PLAIN_FIELDS; k++) {
            tm_value value = tm_stats_field(&record, k);
            const tm_json *told = tm_json_get(document, tm_stats_field_name(k));
            assert_int_equal(tm_json_is_null(told), value.kind != TM_VALUE_INTEGER);
        }
        assert_true(tm_json_is_null(tm_json_get(tm_json_get(document, "quantiles"), "0.5")));
        tm_json_free(document);
    }
}

/* ---- stats.json of layers and modules ---- */

#define GROUP_NAME(text) .key = "module", .name = (text), .name_len = sizeof(text) - 1

static const tm_group_subject group_subjects[] = {
    {.key = "layer", .number = 0},
    {.key = "layer", .number = 12},
    {.key = "layer", .number = INT64_MAX},
    {.key = "layer", .number = INT64_MIN},
    {GROUP_NAME("")},
    {GROUP_NAME("model.layers.0.self_attn")},
    {GROUP_NAME("a\"b\\c/d\te\nf\x01g\x7f")},
    {GROUP_NAME("\xc3\xbc\xf0\x9f\x98\x80\xe2\x80\xa8")},
    {GROUP_NAME("\xff\xc3 cut")},
    {.key = "module", .name = long_name, .name_len = sizeof(long_name)},
};

/* Every count and extreme has the longest text that it can have. So have the moments, but for a
 * spread of 0: they are those of one finite value. */
static tm_stats_group longest_group(void)
{
    tm_stats_group g;
    tm_stats_group_init(&g);
    g.tensors = g.counted = g.known = g.elems = UINT64_MAX;
    g.summary.n = UINT64_MAX;
    g.summary.nan = UINT64_MAX - 1;
    g.summary.zero = g.summary.neg_zero = g.summary.subnormal = UINT64_MAX;
    g.summary.min = g.summary.max = g.summary.absmax = LOWEST;
    g.zero_rows = g.zero_cols = UINT64_MAX;
    tm_sums_add(&g.sums, LOWEST, 1);
    return g;
}

/* One tensor of VALUE and its opposite. */
static tm_stats_group group_of(double value)
{
    tm_stats_group g;
    tm_sums sums = {0};
    tm_stats_record record = {.summary = {.n = 2, .min = -value, .max = value, .absmax = value}};
    tm_stats_group_init(&g);
    tm_sums_add(&sums, value, 1);
    tm_sums_add(&sums, -value, 1);
    tm_stats_group_add(&g, &record, &sums);
    g.tensors = g.counted = 1;
    g.elems = 2;
    return g;
}

static void expect_group_size(const tm_group_subject *subject, size_t before)
{
    tm_text text;
    tm_text_init(&text);
    tm_text_pad(&text, before);
    tm_group_json(&text, subject);
    assert_int_equal(tm_text_error(&text), 0);
    assert_int_equal(text.len, before + tm_group_json_size(subject));
    assert_int_equal(text.bytes[text.len - 1], '\n');
    tm_text_done(&text);
}

static void sizes_of_groups_are_exact_whatever_the_numbers_are(void **state)
{
    (void)state;
    tm_stats_group groups[] = {longest_group(),    group_of(0),      group_of(0.1),
                               group_of(DBL_MAX),  group_of(1e-320), group_of(DBL_MAX),
                               group_of(0x1p-1074)};
    tm_stats_group_add(&groups[5], &(tm_stats_record){.summary = {.min = NAN, .max = NAN}},
                       &groups[5].sums);
    groups[6].counted = UINT64_MAX; /* of which one is known */
    for (size_t i = 0; i < TM_ARRAY_LEN(group_subjects); i++) {
        tm_group_subject s = group_subjects[i];
        uint64_t size = tm_group_json_size(&s);
        for (size_t k = 0; k < TM_ARRAY_LEN(groups); k++) {
            s.group = &groups[k];
            assert_int_equal(tm_group_json_size(&s), size);
            expect_group_size(&s, k * 7);
        }
    }
}

static char *group_json_of(const tm_group_subject *subject)
{
    tm_text text;
    char *bytes;
    size_t len;
    tm_text_init(&text);
    tm_group_json(&text, subject);
    assert_int_equal(tm_text_steal(&text, &bytes, &len), 0);
    return bytes;
}

static tm_json *parsed_group(const tm_group_subject *subject)
{
    char *bytes = group_json_of(subject);
    tm_json_error error;
    tm_json *document;
    if (tm_json_parse(bytes, strlen(bytes), &error, &document) < 0)
        fail_msg("%d:%d: %s", error.line, error.column, error.words);
    free(bytes);
    return document;
}

static void numbers_of_a_group_at_their_longest_leave_little_room(void **state)
{
    (void)state;
    tm_stats_group group = longest_group();
    tm_group_subject s = {.key = "layer", .number = 7, .group = &group};
    TM_AUTO_FREE char *bytes = group_json_of(&s);
    assert_non_null(strstr(bytes, "\"tensors\": 18446744073709551615,"));
    assert_non_null(strstr(bytes, "\"n\": 18446744073709551615,"));
    assert_non_null(strstr(bytes, "\"nan_count\": 18446744073709551614,"));
    assert_non_null(strstr(bytes, "\"max\": -2.2250738585072014e-308,"));
    assert_non_null(strstr(bytes, "\"mean\": -2.2250738585072014e-308,"));
    assert_non_null(strstr(bytes, "\"zero_cols\": 18446744073709551615\n"));
}

static void a_layer_reads_like_this(void **state)
{
    (void)state;
    static const char expected[] = "{\n"
                                   "  \"layer\": 3,\n"
                                   "  \"tensors\": 4,\n"
                                   "  \"counted\": 2,\n"
                                   "  \"known\": 2,\n"
                                   "  \"n\": 6,\n"
                                   "  \"zero_count\": 3,\n"
                                   "  \"neg_zero_count\": 0,\n"
                                   "  \"nan_count\": 1,\n"
                                   "  \"pos_inf_count\": 0,\n"
                                   "  \"neg_inf_count\": 1,\n"
                                   "  \"subnormal_count\": 2,\n"
                                   "  \"min\": -1,\n"
                                   "  \"max\": 7,\n"
                                   "  \"absmax\": 7,\n"
                                   "  \"mean\": 4,\n"
                                   "  \"var\": 9,\n"
                                   "  \"std\": 3,\n"
                                   "  \"l1\": 18,\n"
                                   "  \"l2\": 10,\n"
                                   "  \"sparsity\": 0.5,\n"
                                   "  \"zero_rows\": 9,\n"
                                   "  \"zero_cols\": 1\n"
                                   "}";
    /* 7 -1 NaN -inf, and 5 5; that there are zeros and subnormals is made up. */
    tm_stats_record first = {.summary = {.n = 4,
                                         .zero = 3,
                                         .nan = 1,
                                         .neg_inf = 1,
                                         .min = -1,
                                         .max = 7,
                                         .absmax = 7},
                             .zero_rows = 9},
                    second = {.summary = {.n = 2, .subnormal = 2, .min = 5, .max = 5, .absmax = 5},
                              .zero_cols = 1};
    tm_sums first_sums = {0}, second_sums = {0};
    tm_stats_group group;
    tm_sums_add(&first_sums, 7, 1);
    tm_sums_add(&first_sums, -1, 1);
    tm_sums_add(&second_sums, 5, 2);
    tm_stats_group_init(&group);
    tm_stats_group_add(&group, &first, &first_sums);
    tm_stats_group_add(&group, &second, &second_sums);
    group.tensors = 4;
    group.counted = 2;
    group.elems = 6;
    tm_group_subject s = {.key = "layer", .number = 3, .group = &group};
    TM_AUTO_FREE char *bytes = group_json_of(&s);
    assert_memory_equal(bytes, expected, strlen(expected));
    assert_int_equal(strspn(bytes + strlen(expected), " ") + 1, strlen(bytes + strlen(expected)));
}

/* All but N, which headers tell. */
static void expect_numbers(const tm_json *document, bool there)
{
    for (size_t i = 0; i < TM_STATS_FIELDS; i++) {
        const tm_json *value = tm_json_get(document, tm_stats_field_name(i));
        assert_int_equal(value != NULL, tm_stats_group_has(i));
        if (value && i != TM_STAT_N)
            assert_int_equal(tm_json_is_null(value), !there);
    }
}

static void unless_all_is_known_nothing_is_but_how_much_there_is(void **state)
{
    (void)state;
    static const struct {
        uint64_t tensors, counted;
        bool there;
    } rows[] = {{1, 1, true}, {5, 1, true}, {2, 2, false}, {1000, 999, false}};
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        tm_stats_group group = group_of(3);
        group.tensors = rows[i].tensors;
        group.counted = rows[i].counted;
        group.elems = 123456;
        tm_group_subject s = {.key = "layer", .number = 1, .group = &group};
        tm_json *document = parsed_group(&s);
        int64_t n;
        assert_true(tm_json_int(tm_json_get(document, "n"), &n) && n == 123456);
        assert_true(tm_json_int(tm_json_get(document, "tensors"), &n) &&
                    n == (int64_t)rows[i].tensors);
        assert_true(tm_json_int(tm_json_get(document, "counted"), &n) &&
                    n == (int64_t)rows[i].counted);
        assert_true(tm_json_int(tm_json_get(document, "known"), &n) && n == 1);
        expect_numbers(document, rows[i].there);
        tm_json_free(document);
    }
}

/* Of nothing that is counted all is known: counts of 0, and no extremes. */
static void a_group_without_counted_tensors_is_known(void **state)
{
    (void)state;
    tm_stats_group group;
    tm_stats_group_init(&group);
    group.tensors = 3;
    tm_group_subject s = {GROUP_NAME("packed"), .group = &group};
    tm_json *document = parsed_group(&s);
    static const char *const null[] = {"min", "max", "absmax", "mean", "var", "std", "sparsity"};
    static const char *const zero[] = {"n", "zero_count", "nan_count", "l1", "l2", "zero_rows"};
    for (size_t i = 0; i < TM_ARRAY_LEN(null); i++)
        assert_true(tm_json_is_null(tm_json_get(document, null[i])));
    for (size_t i = 0; i < TM_ARRAY_LEN(zero); i++) {
        int64_t n;
        assert_true(tm_json_int(tm_json_get(document, zero[i]), &n) && n == 0);
    }
    tm_json_free(document);
}

static void a_group_beyond_float64_has_null_for_it(void **state)
{
    (void)state;
    tm_stats_group group = group_of(DBL_MAX);
    tm_group_subject s = {.key = "layer", .number = 1, .group = &group};
    TM_AUTO_FREE char *bytes = group_json_of(&s);
    assert_non_null(strstr(bytes, "\"max\": 1.7976931348623157e+308,"));
    assert_non_null(strstr(bytes, "\"mean\": 0,"));
    assert_non_null(strstr(bytes, "\"var\": null,"));
    assert_non_null(strstr(bytes, "\"l1\": null,"));
    assert_non_null(strstr(bytes, "\"l2\": null,"));
}

static void modules_of_any_name_stay_json(void **state)
{
    (void)state;
    tm_stats_group group = group_of(1);
    for (size_t i = 0; i < TM_ARRAY_LEN(group_subjects); i++) {
        tm_group_subject s = group_subjects[i];
        s.group = &group;
        tm_json *document = parsed_group(&s);
        const tm_json *value = tm_json_get(document, s.key);
        int64_t n;
        size_t keys = 4;
        for (size_t k = 0; k < TM_STATS_FIELDS; k++)
            keys += tm_stats_group_has(k);
        assert_int_equal(tm_json_len(document), keys);
        if (!s.name)
            assert_true(tm_json_int(value, &n) && n == s.number);
        else if (s.name_len < 30 && strlen(s.name) == s.name_len && s.name[0] != '\xff')
            assert_string_equal(tm_json_str(value), s.name);
        tm_json_free(document);
    }
}

/* ---- stats/KEY ---- */

static void a_value_is_24_columns_and_an_lf(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } rows[] = {
        {0, "                       0\n"},         {0.1, "                     0.1\n"},
        {NAN, "                     nan\n"},       {INFINITY, "                     inf\n"},
        {-INFINITY, "                    -inf\n"}, {LOWEST, "-2.2250738585072014e-308\n"},
        {1e22, "                   1e+22\n"},      {-3, "                      -3\n"},
    };
    char text[TM_STATS_VALUE_BYTES + 1];
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        tm_stats_record record = even_record(rows[i].value);
        for (size_t k = 0; k < TM_STATS_FIELDS; k++) {
            if (tm_stats_field(&record, k).kind != TM_VALUE_REAL)
                continue;
            tm_stats_value_text(&record, k, text);
            assert_string_equal(text, rows[i].text);
        }
    }
}

static void a_count_is_whole_and_none_is_a_dash(void **state)
{
    (void)state;
    tm_stats_record record = longest_record();
    char text[TM_STATS_VALUE_BYTES + 1];
    size_t distinct;
    tm_stats_value_text(&record, 0, text);
    assert_string_equal(text, "    18446744073709551615\n");
    assert_true(tm_stats_field_find("distinct", 8, &distinct));
    record.summary.has_distinct = false;
    tm_stats_value_text(&record, distinct, text);
    assert_string_equal(text, "                       -\n");
}

/* ---- hist.tsv ---- */

enum {
    HIST_HEAD = 12, /* bytes of the header line */
    HIST_LINE = 75
};

static char *hist_of(const tm_hist_row *rows, size_t count)
{
    tm_text text;
    char *bytes;
    size_t len;
    tm_text_init(&text);
    tm_hist_tsv(&text, rows, count);
    assert_int_equal(tm_text_steal(&text, &bytes, &len), 0);
    assert_int_equal(len, TM_HIST_TSV_BYTES);
    return bytes;
}

static void a_histogram_has_every_row_and_counts_those_that_are_given(void **state)
{
    (void)state;
    static const tm_hist_row given[] = {
        {0, 7}, {1, 1}, {1031, 12}, {2047, 5}, {2048, UINT64_MAX}, {3064, 3}, {4095, 9}};
    for (size_t count = 0; count <= TM_ARRAY_LEN(given); count++) {
        char *bytes = hist_of(given, count);
        assert_memory_equal(bytes, "lo\thi\tcount\n", HIST_HEAD);
        const char *line = bytes + HIST_HEAD;
        size_t next = 0;
        for (uint32_t row = 0; row < TM_STATS_ROWS; row++, line += HIST_LINE) {
            bool counted = next < count && given[next].row == row;
            char expected[32];
            snprintf(expected, sizeof(expected), "%24" PRIu64 "\n",
                     counted ? given[next++].count : 0);
            assert_memory_equal(line + 50, expected, 25);
            assert_true(line[24] == '\t' && line[49] == '\t');
        }
        assert_int_equal(next, count);
        free(bytes);
    }
}

static void bounds_are_in_order_of_value(void **state)
{
    (void)state;
    static const struct {
        uint32_t row;
        const char *lo, *hi;
    } rows[] = {
        {0, "nan", "nan"},
        {6, "nan", "nan"},
        {7, "-inf", "-inf"},
        {8, "-3.402823669209385e+38", "-3.190147189883798e+38"}, /* 2^128, 1.875 * 2^127 */
        {1031, "-1.125", "-1"},
        {2047, "-1.4693679385278594e-39", "-0"}, /* 2^-129; this row has -0 */
        {2048, "0", "1.4693679385278594e-39"},
        {3064, "1", "1.125"},
        {4088, "inf", "inf"},
        {4089, "nan", "nan"},
        {4095, "nan", "nan"},
    };
    char *bytes = hist_of(NULL, 0);
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        char expected[HIST_LINE + 1];
        snprintf(expected, sizeof(expected), "%24s\t%24s\t%24d\n", rows[i].lo, rows[i].hi, 0);
        assert_memory_equal(bytes + HIST_HEAD + rows[i].row * HIST_LINE, expected, HIST_LINE);
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_exact_whatever_the_numbers_are),
        cmocka_unit_test(numbers_at_their_longest_fill_the_room),
        cmocka_unit_test(a_tensor_reads_like_this),
        cmocka_unit_test(what_is_unknown_is_null_and_n_is_known),
        cmocka_unit_test(nan_and_infinities_are_null),
        cmocka_unit_test(sizes_of_groups_are_exact_whatever_the_numbers_are),
        cmocka_unit_test(numbers_of_a_group_at_their_longest_leave_little_room),
        cmocka_unit_test(a_layer_reads_like_this),
        cmocka_unit_test(unless_all_is_known_nothing_is_but_how_much_there_is),
        cmocka_unit_test(a_group_without_counted_tensors_is_known),
        cmocka_unit_test(a_group_beyond_float64_has_null_for_it),
        cmocka_unit_test(modules_of_any_name_stay_json),
        cmocka_unit_test(a_value_is_24_columns_and_an_lf),
        cmocka_unit_test(a_count_is_whole_and_none_is_a_dash),
        cmocka_unit_test(a_histogram_has_every_row_and_counts_those_that_are_given),
        cmocka_unit_test(bounds_are_in_order_of_value),
    };
    return cmocka_run_group_tests(tests, make_long_name, NULL);
}
