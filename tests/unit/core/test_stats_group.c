/* Tensors counted together: what a group says is what one tensor with all their values would say.
 */
#include "core/stats_group.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#include "core/codes.h"

/* ---- Tensors made of values ---- */

/* What is known of a tensor. */
typedef struct member {
    tm_stats_record record;
    tm_sums sums;
} member;

static void count_wide(tm_stats *stats, double value)
{
    tm_stats_wide *wide = stats->wide;
    stats->hist[tm_code_of_f64(value)]++;
    if (!isfinite(value))
        return;
    wide->zero += value == 0;
    wide->neg_zero += value == 0 && signbit(value);
    wide->subnormal += value != 0 && fabs(value) < DBL_MIN;
    wide->min = value < wide->min ? value : wide->min;
    wide->max = value > wide->max ? value : wide->max;
    tm_sums_add(&wide->sums, value, 1);
}

/* The code of VALUE, which the type has. */
static size_t code_of(tm_dtype dtype, double value)
{
    size_t code = 0;
    float wanted = (float)value;
    for (;; code++) {
        float got = tm_code_value(dtype, code);
        if (isnan(wanted) ? isnan(got) : got == wanted && !signbit(got) == !signbit(wanted))
            return code;
        assert_true(code < tm_codes_count(dtype));
    }
}

/* A tensor of VALUES, all of which DTYPE has. Its empty rows and columns are ZERO_ROWS and twice
 * as many. */
static member member_of(tm_dtype dtype, const double *values, size_t count, uint64_t zero_rows)
{
    tm_stats stats;
    member m = {.record = {.zero_rows = zero_rows, .zero_cols = 2 * zero_rows}};
    assert_int_equal(tm_stats_init(&stats, dtype), 0);
    for (size_t i = 0; i < count; i++) {
        if (stats.wide)
            count_wide(&stats, values[i]);
        else
            stats.hist[code_of(dtype, values[i])]++;
        if (isfinite(values[i]))
            tm_stats_offer_absmax(&stats, fabs(values[i]), i);
    }
    tm_stats_sums(&stats, &m.sums);
    tm_stats_summarize(&stats, &m.sums, &m.record.summary);
    tm_stats_done(&stats);
    return m;
}

#define MEMBER(dtype, zero_rows, ...)                                                              \
    member_of(dtype, (const double[]){__VA_ARGS__},                                                \
              sizeof((const double[]){__VA_ARGS__}) / sizeof(double), zero_rows)

static tm_stats_record together(const member *members, size_t count)
{
    tm_stats_group group;
    tm_stats_record ret;
    tm_stats_group_init(&group);
    for (size_t i = 0; i < count; i++)
        tm_stats_group_add(&group, &members[i].record, &members[i].sums);
    assert_int_equal(group.known, count);
    tm_stats_group_record(&group, &ret);
    return ret;
}

static bool same_real(double a, double b)
{
    return memcmp(&a, &b, sizeof(a)) == 0 || (isnan(a) && isnan(b));
}

/* Equal in every field that a group has, to the last bit. */
static void expect_same(const tm_stats_record *got, const tm_stats_record *expected)
{
    for (size_t i = 0; i < TM_STATS_FIELDS; i++) {
        tm_value a = tm_stats_field(got, i), b = tm_stats_field(expected, i);
        if (!tm_stats_group_has(i))
            continue;
        assert_int_equal(a.kind, b.kind);
        if (a.kind == TM_VALUE_INTEGER ? a.integer != b.integer : !same_real(a.real, b.real))
            fail_msg("%s: %llu %.17g, not %llu %.17g", tm_stats_field_name(i),
                     (unsigned long long)a.integer, a.real, (unsigned long long)b.integer, b.real);
    }
}

/* ---- What a group has ---- */

static void a_group_has_the_fields_that_merge(void **state)
{
    (void)state;
    static const char *const names[] = {
        "n",   "zero_count", "neg_zero_count", "nan_count", "pos_inf_count", "neg_inf_count",
        "min", "max",        "absmax",         "mean",      "var",           "std",
        "l1",  "l2",         "sparsity",       "zero_rows", "zero_cols",     "subnormal_count"};
    size_t count = 0, field;
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++) {
        assert_true(tm_stats_field_find(names[i], strlen(names[i]), &field));
        assert_true(tm_stats_group_has(field));
    }
    for (size_t i = 0; i < TM_STATS_FIELDS; i++)
        count += tm_stats_group_has(i);
    assert_int_equal(count, TM_ARRAY_LEN(names));
}

static void a_group_of_nothing_has_counts_of_zero_and_no_numbers(void **state)
{
    (void)state;
    static const size_t none[] = {TM_STAT_MIN, TM_STAT_MAX, TM_STAT_ABSMAX,  TM_STAT_MEAN,
                                  TM_STAT_VAR, TM_STAT_STD, TM_STAT_SPARSITY};
    static const size_t zero[] = {TM_STAT_L1, TM_STAT_L2};
    tm_stats_group group;
    tm_stats_record record;
    tm_stats_group_init(&group);
    assert_int_equal(group.tensors + group.counted + group.known + group.elems, 0);
    tm_stats_group_record(&group, &record);
    for (size_t i = 0; i < TM_STATS_FIELDS; i++) {
        tm_value value = tm_stats_field(&record, i);
        if (tm_stats_group_has(i) && value.kind == TM_VALUE_INTEGER)
            assert_int_equal(value.integer, 0);
    }
    for (size_t i = 0; i < TM_ARRAY_LEN(none); i++)
        assert_true(isnan(tm_stats_field(&record, none[i]).real));
    for (size_t i = 0; i < TM_ARRAY_LEN(zero); i++)
        assert_true(same_real(tm_stats_field(&record, zero[i]).real, 0));
}

static void only_what_was_added_is_known(void **state)
{
    (void)state;
    member m = MEMBER(TM_F64, 0, 1, 2);
    tm_stats_group group;
    tm_stats_group_init(&group);
    group.tensors = 7;
    group.counted = 5;
    group.elems = 1000;
    tm_stats_group_add(&group, &m.record, &m.sums);
    tm_stats_group_add(&group, &m.record, &m.sums);
    assert_int_equal(group.known, 2);
    assert_int_equal(group.tensors, 7);
    assert_int_equal(group.counted, 5);
    assert_int_equal(group.elems, 1000);
    assert_int_equal(group.summary.n, 4);
}

/* ---- Merging ---- */

static void counts_add_up(void **state)
{
    (void)state;
    const member members[] = {
        MEMBER(TM_F64, 3, 0, -0.0, 0, NAN, INFINITY, 5),
        MEMBER(TM_F64, 0, -INFINITY, -INFINITY, NAN, NAN, NAN, 0x1p-1050, -0x1p-1074),
        MEMBER(TM_BF16, 4, -0.0, 0x1p-130, 1, INFINITY),
    };
    static const struct {
        size_t field;
        uint64_t count;
    } rows[] = {
        {TM_STAT_N, 17},        {TM_STAT_ZERO, 4},      {TM_STAT_NEG_ZERO, 2},
        {TM_STAT_NAN, 4},       {TM_STAT_POS_INF, 2},   {TM_STAT_NEG_INF, 2},
        {TM_STAT_SUBNORMAL, 3}, {TM_STAT_ZERO_ROWS, 7}, {TM_STAT_ZERO_COLS, 14},
    };
    tm_stats_record record = together(members, TM_ARRAY_LEN(members));
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++)
        assert_int_equal(tm_stats_field(&record, rows[i].field).integer, rows[i].count);
    assert_true(record.summary.sparsity == 4.0 / 17.0);
}

static void counts_keep_all_their_bits(void **state)
{
    (void)state;
    member m = MEMBER(TM_F64, 1, 1);
    m.record.summary.n = (UINT64_C(1) << 61) + 1;
    m.record.summary.nan = UINT64_C(1) << 61;
    m.record.zero_rows = (UINT64_C(1) << 53) + 1;
    const member members[] = {m, m, m};
    tm_stats_record record = together(members, 3);
    assert_true(record.summary.n == 3 * ((UINT64_C(1) << 61) + 1));
    assert_true(record.zero_rows == 3 * ((UINT64_C(1) << 53) + 1));
    assert_true(record.summary.moments.mean == 1); /* of three finite values */
}

typedef struct extremes {
    double min, max, absmax;
} extremes;

static void expect_extremes(const member *members, size_t count, extremes expected)
{
    tm_stats_record record = together(members, count);
    const tm_stats_summary *s = &record.summary;
    assert_true(same_real(s->min, expected.min));
    assert_true(same_real(s->max, expected.max));
    assert_true(same_real(s->absmax, expected.absmax));
}

static void a_tensor_without_finite_values_has_no_part_in_the_extremes(void **state)
{
    (void)state;
    const member some = MEMBER(TM_F64, 0, -3, 2), less = MEMBER(TM_F64, 0, -1, 4.5),
                 empty = member_of(TM_F64, NULL, 0, 0), nan = MEMBER(TM_F16, 0, NAN, NAN),
                 inf = MEMBER(TM_F64, 0, INFINITY, -INFINITY, NAN), zero = MEMBER(TM_F64, 0, -0.0);
    static const extremes none = {NAN, NAN, NAN};
    expect_extremes((const member[]){nan}, 1, none);
    expect_extremes((const member[]){nan, inf, empty}, 3, none);
    expect_extremes((const member[]){some}, 1, (extremes){-3, 2, 3});
    expect_extremes((const member[]){nan, some}, 2, (extremes){-3, 2, 3});
    expect_extremes((const member[]){some, nan}, 2, (extremes){-3, 2, 3});
    expect_extremes((const member[]){inf, some, empty, less, nan}, 5, (extremes){-3, 4.5, 4.5});
    expect_extremes((const member[]){zero}, 1, (extremes){0, 0, 0});
    expect_extremes((const member[]){nan, zero, inf}, 3, (extremes){0, 0, 0});
    expect_extremes((const member[]){zero, less}, 2, (extremes){-1, 4.5, 4.5});
}

static void sums_are_not_rounded_on_the_way(void **state)
{
    (void)state;
    const member cancels[] = {MEMBER(TM_F64, 0, 1e300), MEMBER(TM_F64, 0, 1),
                              MEMBER(TM_F64, 0, -1e300)};
    tm_moments m = together(cancels, 3).summary.moments;
    assert_true(m.mean == 1.0 / 3.0);
    assert_true(m.l1 == 2e300);
    const member beyond[] = {MEMBER(TM_F64, 0, DBL_MAX), MEMBER(TM_F64, 0, DBL_MAX)};
    m = together(beyond, 2).summary.moments;
    assert_true(m.mean == DBL_MAX && m.var == 0 && m.std == 0);
    assert_true(m.l1 == INFINITY);
    const member tiny[] = {MEMBER(TM_F64, 0, 1), MEMBER(TM_F64, 0, 0x1p-1074),
                           MEMBER(TM_F64, 0, -1)};
    m = together(tiny, 3).summary.moments;
    assert_true(m.mean == 0); /* a third of the least */
    assert_true(m.l1 == 2 && m.l2 == sqrt(2.0));
    const member far[] = {MEMBER(TM_BF16, 0, 0x1p100, 1), MEMBER(TM_F16, 0, -3),
                          MEMBER(TM_F64, 0, -0x1p100)};
    m = together(far, TM_ARRAY_LEN(far)).summary.moments;
    assert_true(m.mean == -0.5); /* -2 of four values */
    assert_true(m.l1 == 0x1p101);
}

/* 31 bits; the same numbers in each run. */
static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* Of any magnitude at all, now and then none. */
static double random_value(uint64_t *seed)
{
    static const double specials[] = {0, -0.0, NAN, INFINITY, -INFINITY, 0x1p-1074, DBL_MAX};
    uint64_t key = next_random(seed);
    if (key % 5 == 0)
        return specials[next_random(seed) % TM_ARRAY_LEN(specials)];
    double value = ldexp((double)next_random(seed), (int)(key % 1900) - 1000);
    return next_random(seed) % 2 ? value : -value;
}

enum {
    VALUES = 240,
    MEMBERS = 4
};

/* Cuts VALUES at random into MEMBERS tensors, some of them empty. */
static void cut(const double *values, uint64_t *seed, member *ret)
{
    size_t from = 0;
    for (size_t i = 0; i < MEMBERS; i++) {
        size_t left = VALUES - from;
        size_t count = i + 1 < MEMBERS ? next_random(seed) % (left + 1) : left;
        ret[i] = member_of(TM_F64, values + from, count, 0);
        from += count;
    }
}

static void a_group_says_what_one_tensor_of_all_values_says(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int round = 0; round < 60; round++) {
        double values[VALUES];
        member members[MEMBERS];
        for (size_t i = 0; i < VALUES; i++)
            values[i] = random_value(&seed);
        cut(values, &seed, members);
        tm_stats_record got = together(members, MEMBERS);
        member whole = member_of(TM_F64, values, VALUES, 0);
        expect_same(&got, &whole.record);
    }
}

/* Of a narrow type, whose sums come from a histogram of its own, and of a wide one. */
static void the_types_of_the_tensors_do_not_matter(void **state)
{
    (void)state;
    const member mixed[] = {MEMBER(TM_BF16, 1, 1.5, -0.25, NAN), MEMBER(TM_F8_E4M3, 2, -448, 2),
                            MEMBER(TM_F16, 0, INFINITY, 0x1p-14, -0.0), MEMBER(TM_F32, 0, 1e10)};
    member one = MEMBER(TM_F64, 3, 1.5, -0.25, NAN, -448, 2, INFINITY, 0x1p-14, -0.0, 1e10);
    tm_stats_record got = together(mixed, TM_ARRAY_LEN(mixed));
    expect_same(&got, &one.record);
}

/* ---- Order ---- */

static void swap(member *a, member *b)
{
    member was = *a;
    *a = *b;
    *b = was;
}

/* Every order of the members from FIRST on. */
static void each_order(member *members, size_t first, const tm_stats_record *expected,
                       size_t *ret_count)
{
    if (first == MEMBERS) {
        tm_stats_record got = together(members, MEMBERS);
        expect_same(&got, expected);
        ++*ret_count;
    }
    for (size_t i = first; i < MEMBERS; i++) {
        swap(&members[first], &members[i]);
        each_order(members, first + 1, expected, ret_count);
        swap(&members[first], &members[i]);
    }
}

static void the_order_of_the_tensors_does_not_matter(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (int round = 0; round < 8; round++) {
        double values[VALUES];
        member members[MEMBERS];
        size_t orders = 0;
        for (size_t i = 0; i < VALUES; i++)
            values[i] = random_value(&seed);
        cut(values, &seed, members);
        if (round == 0)
            members[1] = MEMBER(TM_F64, 2, NAN, INFINITY); /* nothing finite */
        tm_stats_record first = together(members, MEMBERS);
        each_order(members, 0, &first, &orders);
        assert_int_equal(orders, 24);
    }
}

/* Who asks in the midst gets what was added so far, and disturbs nothing. */
static void a_group_may_be_asked_while_it_grows(void **state)
{
    (void)state;
    const member members[] = {MEMBER(TM_F64, 0, 1, 2), MEMBER(TM_F64, 0, -7), MEMBER(TM_F64, 0, 4)};
    tm_stats_group group;
    tm_stats_group_init(&group);
    for (size_t i = 0; i < TM_ARRAY_LEN(members); i++) {
        tm_stats_record got, expected = together(members, i + 1);
        tm_stats_group_add(&group, &members[i].record, &members[i].sums);
        for (int k = 0; k < 2; k++) {
            tm_stats_group_record(&group, &got);
            expect_same(&got, &expected);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_has_the_fields_that_merge),
        cmocka_unit_test(a_group_of_nothing_has_counts_of_zero_and_no_numbers),
        cmocka_unit_test(only_what_was_added_is_known),
        cmocka_unit_test(counts_add_up),
        cmocka_unit_test(counts_keep_all_their_bits),
        cmocka_unit_test(a_tensor_without_finite_values_has_no_part_in_the_extremes),
        cmocka_unit_test(sums_are_not_rounded_on_the_way),
        cmocka_unit_test(a_group_says_what_one_tensor_of_all_values_says),
        cmocka_unit_test(the_types_of_the_tensors_do_not_matter),
        cmocka_unit_test(the_order_of_the_tensors_does_not_matter),
        cmocka_unit_test(a_group_may_be_asked_while_it_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
