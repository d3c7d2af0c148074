/* Statistics as values: merging, what a summary says of small cases, bins and quantiles. */
#include "core/stats.h"

#include <math.h>
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#include "core/codes.h"
#include "compute/scan.h"

/* Statistics of N packed elements, as one row. */
static tm_stats stats_of(tm_dtype dtype, const void *src, size_t n)
{
    tm_stats stats;
    assert_int_equal(tm_stats_init(&stats, dtype), 0);
    tm_scan *scan = tm_scan_new(TM_CPU_SCALAR, UINT64_MAX);
    assert_non_null(scan);
    tm_scan_begin(scan, &stats);
    tm_scan_block block = {src, 0, n, 1, n, 0, n};
    if (n > 0)
        tm_scan_add(scan, &block, &(tm_scan_out){0});
    tm_scan_end(scan);
    tm_scan_free(scan);
    return stats;
}

static tm_stats_summary summary_of(tm_dtype dtype, const void *src, size_t n)
{
    tm_stats stats = stats_of(dtype, src, n);
    tm_stats_summary summary;
    tm_sums sums;
    tm_stats_sums(&stats, &sums);
    tm_stats_summarize(&stats, &sums, &summary);
    tm_stats_done(&stats);
    return summary;
}

static void types_without_values_have_no_statistics(void **state)
{
    (void)state;
    tm_stats stats;
    assert_int_equal(tm_stats_init(&stats, TM_F6_E2M3), -EOPNOTSUPP);
    assert_int_equal(tm_stats_init(&stats, TM_F6_E3M2), -EOPNOTSUPP);
    assert_int_equal(tm_stats_init(&stats, TM_C64), -EOPNOTSUPP);
    tm_stats_done(&stats);
}

static void memory_is_by_type(void **state)
{
    (void)state;
    static const struct {
        tm_dtype dtype;
        size_t bins;
        bool wide;
    } cases[] = {{TM_BOOL, 2, false},     {TM_F4, 16, false},      {TM_I8, 256, false},
                 {TM_BF16, 65536, false}, {TM_U16, 65536, false},  {TM_F32, 65536, true},
                 {TM_I64, 65536, true},   {TM_F8_E8M0, 256, false}};
    for (size_t i = 0; i < TM_ARRAY_LEN(cases); i++) {
        tm_stats stats;
        assert_int_equal(tm_stats_init(&stats, cases[i].dtype), 0);
        assert_int_equal(stats.bins, cases[i].bins);
        assert_int_equal(stats.wide != NULL, cases[i].wide);
        tm_stats_done(&stats);
    }
}

static void nothing_has_no_moments_and_no_quantiles(void **state)
{
    (void)state;
    static const tm_dtype dtypes[] = {TM_BF16, TM_F32, TM_I8, TM_I64};
    for (size_t i = 0; i < TM_ARRAY_LEN(dtypes); i++) {
        tm_stats_summary s = summary_of(dtypes[i], "", 0);
        assert_int_equal(s.n, 0);
        assert_true(isnan(s.min) && isnan(s.max) && isnan(s.absmax) && isnan(s.moments.mean));
        assert_true(isnan(s.moments.var) && isnan(s.moments.std) && isnan(s.sparsity));
        assert_true(s.moments.l1 == 0 && s.moments.l2 == 0 && s.entropy == 0);
        for (size_t q = 0; q < TM_STATS_QUANTILES; q++)
            assert_true(isnan(s.quantile[q]));
    }
}

static void a_constant_has_no_spread_at_all(void **state)
{
    (void)state;
    float values[1000];
    for (size_t i = 0; i < TM_ARRAY_LEN(values); i++)
        values[i] = 0.1f;
    tm_stats_summary s = summary_of(TM_F32, values, TM_ARRAY_LEN(values));
    assert_true(s.moments.mean == (double)0.1f && s.moments.var == 0 && s.moments.std == 0);
    assert_true(s.entropy == 0 && s.min == s.max);
    for (size_t q = 0; q < TM_STATS_QUANTILES; q++)
        assert_true(s.quantile[q] == (double)0.1f); /* never outside min and max */
}

static void only_finite_values_have_moments(void **state)
{
    (void)state;
    const float values[] = {1, NAN, 2, INFINITY, 3, -INFINITY, -6};
    tm_stats_summary s = summary_of(TM_F32, values, TM_ARRAY_LEN(values));
    assert_int_equal(s.n, 7);
    assert_int_equal(s.nan, 1);
    assert_int_equal(s.pos_inf, 1);
    assert_int_equal(s.neg_inf, 1);
    assert_true(s.moments.mean == 0 && s.moments.var == 12.5 && s.moments.l1 == 12);
    assert_true(s.min == -6 && s.max == 3 && s.absmax == 6 && s.absmax_index == 6);
    assert_true(s.moments.l2 == sqrt(50.0) && s.moments.std == sqrt(12.5));
}

static void sums_do_not_cancel(void **state)
{
    (void)state;
    const double values[] = {1e300, 1, -1e300, 1};
    tm_stats_summary s = summary_of(TM_F64, values, TM_ARRAY_LEN(values));
    assert_true(s.moments.mean == 0.5 && s.moments.l2 == sqrt(2) * 1e300);
    assert_true(s.moments.var == INFINITY);
    assert_true(fabs(s.moments.std / (1e300 * sqrt(0.5)) - 1) < 4e-16);
    const int64_t wholes[] = {INT64_MAX, INT64_MIN, 1, 3};
    s = summary_of(TM_I64, wholes, TM_ARRAY_LEN(wholes));
    assert_true(s.moments.mean == 0.75 && s.min == -0x1p63 && s.max == 0x1p63);
    const uint64_t greatest[] = {UINT64_MAX, UINT64_MAX, UINT64_MAX - 2, UINT64_MAX - 2};
    s = summary_of(TM_U64, greatest, TM_ARRAY_LEN(greatest));
    assert_true(s.moments.var == 1 && s.moments.std == 1);
}

static void a_quantile_is_the_element_below_its_place(void **state)
{
    (void)state;
    int8_t values[101]; /* -50 ... 50: quantile q is element floor(100 q) */
    for (int i = 0; i < 101; i++)
        values[i] = (int8_t)(50 - i);
    static const double want[TM_STATS_QUANTILES] = {-50, -49, -45, -25, 0, 25, 45, 49, 49};
    tm_stats_summary s = summary_of(TM_I8, values, TM_ARRAY_LEN(values));
    for (size_t q = 0; q < TM_STATS_QUANTILES; q++)
        assert_true(s.quantile[q] == want[q]);
    assert_true(s.has_distinct && s.distinct == 101);
}

static void small_whole_numbers_and_zeros_of_wide_types_have_exact_quantiles(void **state)
{
    (void)state;
    int32_t wholes[201];
    for (int i = 0; i < 201; i++)
        wholes[i] = i - 100;
    tm_stats_summary s = summary_of(TM_I32, wholes, TM_ARRAY_LEN(wholes));
    assert_true(s.quantile[3] == -50 && s.quantile[4] == 0 && s.quantile[8] == 99);
    float values[100]; /* below 2^-133 all are in the bin of 0 */
    for (size_t i = 0; i < TM_ARRAY_LEN(values); i++)
        values[i] = i < 30 ? -0x1p-140f : i < 50 ? -0.0f : i < 70 ? 0.0f : 0x1p-140f;
    s = summary_of(TM_F32, values, TM_ARRAY_LEN(values));
    assert_true(s.quantile[3] == -0x1p-140 && s.quantile[4] == 0 && s.quantile[5] == 0x1p-140);
    assert_int_equal(s.subnormal, 60);
    assert_int_equal(s.neg_zero, 20);
    assert_false(signbit(s.quantile[4]));
}

static void entropy_is_of_bit_patterns(void **state)
{
    (void)state;
    const uint8_t four[] = {1, 2, 3, 4};
    assert_true(summary_of(TM_U8, four, 4).entropy == 2);
    const uint16_t zeros[] = {0, 0x8000}; /* bf16: 0, -0 */
    tm_stats_summary s = summary_of(TM_BF16, zeros, 2);
    assert_true(s.entropy == 1 && s.distinct == 2 && s.zero == 2 && s.neg_zero == 1);
    assert_true(!signbit(s.min) && !signbit(s.max) && !signbit(s.absmax));
}

static void wide_values_have_the_bin_of_what_they_are_cut_to(void **state)
{
    (void)state;
    static const struct {
        double value;
        unsigned code;
    } cases[] = {
        {0, 0},
        {-0.0, 0x8000},
        {1, 0x3f80},
        {-1, 0xbf80},
        {0x1.01fffffffffffp0, 0x3f80},
        {0x1.02p0, 0x3f81},
        {0x1.fffffffffffffp127, 0x7f7f},
        {0x1p128, 0x7f7f},
        {-1e300, 0xff7f},
        {INFINITY, 0x7f80},
        {-INFINITY, 0xff80},
        {0x1p-126, 0x0080},
        {0x1.ffp-127, 0x007f},
        {0x1p-133, 0x0001},
        {0x1.fffp-134, 0x0000},
        {-0x1p-1074, 0x8000},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(cases); i++)
        assert_int_equal(tm_code_of_f64(cases[i].value), cases[i].code);
    assert_true((tm_code_of_f64(NAN) & 0x7fff) > TM_CODE_INF);
    static const struct {
        bool negative;
        uint64_t magnitude;
        unsigned code;
    } wholes[] = {{false, 0, 0},
                  {false, 1, 0x3f80},
                  {true, 1, 0xbf80},
                  {false, 255, 0x437f},
                  {false, 257, 0x4380},
                  {false, UINT64_MAX, 0x5f7f},
                  {true, 1ull << 63, 0xdf00}};
    for (size_t i = 0; i < TM_ARRAY_LEN(wholes); i++)
        assert_int_equal(tm_code_of_integer(wholes[i].negative, wholes[i].magnitude),
                         wholes[i].code);
}

/* A NaN whose upper half is an infinity's must not be one. */
static void no_nan_is_counted_as_an_infinity(void **state)
{
    (void)state;
    const uint32_t singles[] = {0x7f800001, 0xff800001, 0x7f800000};
    tm_stats_summary s = summary_of(TM_F32, singles, 3);
    assert_true(s.nan == 2 && s.pos_inf == 1 && s.neg_inf == 0);
    const uint64_t doubles[] = {0x7ff0000000000001, 0xfff0000000000001, 0xfff0000000000000};
    s = summary_of(TM_F64, doubles, 3);
    assert_true(s.nan == 2 && s.pos_inf == 0 && s.neg_inf == 1);
}

static void the_codes_that_occur_are_found_from_anywhere(void **state)
{
    (void)state;
    enum {
        CODES = 64
    };
    static const uint64_t maps[] = {0,           1, 0x80, 0x8000000000000000, 0x0000010000000001,
                                    ~UINT64_C(0)};
    uint64_t counts[CODES];
    for (size_t m = 0; m < TM_ARRAY_LEN(maps); m++) {
        for (size_t i = 0; i < CODES; i++)
            counts[i] = maps[m] >> i & 1;
        for (size_t from = 0; from < CODES; from++)
            for (size_t end = from; end <= CODES; end++) {
                size_t first = from, last = end;
                while (first < end && counts[first] == 0)
                    first++;
                while (last > from && counts[last - 1] == 0)
                    last--;
                assert_int_equal(tm_codes_first(counts, from, end), first);
                assert_int_equal(tm_codes_last(counts, from, end), last - 1);
            }
    }
}

static void codes_are_ranked_by_value(void **state)
{
    (void)state;
    for (int d = 0; d < TM_DTYPE_COUNT; d++) {
        double before = -INFINITY;
        size_t codes = tm_codes_count((tm_dtype)d), seen = 0;
        for (size_t i = 0; i < codes; i++) {
            size_t first;
            int step;
            tm_codes_run((tm_dtype)d, i >= codes / 2, &first, &step);
            size_t code = first + (size_t)step * (i % (codes / 2));
            double value = (double)tm_code_value((tm_dtype)d, code);
            seen += code;
            if (isnan(value))
                continue;
            assert_true(value >= before);
            before = value;
        }
        assert_int_equal(seen, codes > 0 ? codes * (codes - 1) / 2 : 0); /* each code once */
    }
}

static void the_histogram_for_people_has_every_element(void **state)
{
    (void)state;
    static tm_stats_row rows[TM_STATS_ROWS];
    const float values[] = {1, 1.1f, 1.2f, -1, 0, -0.0f, NAN, INFINITY, 0x1.fp127f};
    tm_stats stats = stats_of(TM_F32, values, TM_ARRAY_LEN(values));
    tm_stats_rows(&stats, rows);
    uint64_t n = 0;
    for (size_t i = 0; i < TM_STATS_ROWS; i++) {
        n += rows[i].count;
        if (rows[i].lo == 1)
            assert_true(rows[i].hi == 1.125 && rows[i].count == 2);
        if (rows[i].lo == 0)
            assert_true(rows[i].hi == 0x1p-129 && rows[i].count == 1);
        if (rows[i].hi == 0x1p128)
            assert_true(rows[i].lo == 0x1.ep127 && rows[i].count == 1);
        if (rows[i].lo == INFINITY)
            assert_true(rows[i].hi == INFINITY && rows[i].count == 1);
        if (i > 0 && isfinite(rows[i - 1].lo) && isfinite(rows[i].lo))
            assert_true(rows[i].lo == rows[i - 1].hi);
    }
    assert_int_equal(n, TM_ARRAY_LEN(values));
    tm_stats_done(&stats);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_without_values_have_no_statistics),
        cmocka_unit_test(memory_is_by_type),
        cmocka_unit_test(nothing_has_no_moments_and_no_quantiles),
        cmocka_unit_test(a_constant_has_no_spread_at_all),
        cmocka_unit_test(only_finite_values_have_moments),
        cmocka_unit_test(sums_do_not_cancel),
        cmocka_unit_test(a_quantile_is_the_element_below_its_place),
        cmocka_unit_test(small_whole_numbers_and_zeros_of_wide_types_have_exact_quantiles),
        cmocka_unit_test(entropy_is_of_bit_patterns),
        cmocka_unit_test(wide_values_have_the_bin_of_what_they_are_cut_to),
        cmocka_unit_test(no_nan_is_counted_as_an_infinity),
        cmocka_unit_test(the_codes_that_occur_are_found_from_anywhere),
        cmocka_unit_test(codes_are_ranked_by_value),
        cmocka_unit_test(the_histogram_for_people_has_every_element),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
