/* Conversions: exact values of the specification, every level equal to it, and text. */
#include "core/convert.h"

#include <math.h>
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#include "tests/unit/core/convert_sources.h"

enum {
    TAIL_MAX = 70
};

static uint8_t source[SOURCE_BYTES_MAX + 8];
static float want[SOURCE_ELEMS_MAX + 8], got[SOURCE_ELEMS_MAX + 8];

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static void check_same(tm_cpu_level level, tm_dtype dtype, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bits_of(want[i]) != bits_of(got[i]))
            fail_msg("%s %s[%zu] is 0x%08x, not 0x%08x", tm_cpu_level_name(level),
                     tm_dtype_get(dtype)->name, i, bits_of(got[i]), bits_of(want[i]));
}

/* Calls CHECK for every slot of every level but the scalar one that this machine has. */
static void each_slot(void (*check)(tm_cpu_level level, tm_dtype dtype, tm_decode_f32_fn *fn))
{
    for (int l = TM_CPU_SCALAR + 1; l < TM_CPU_LEVEL_COUNT; l++) {
        tm_cpu_level level = (tm_cpu_level)l;
        if (!tm_cpu_has(level))
            continue;
        for (int d = 0; d < TM_DTYPE_COUNT; d++) {
            tm_decode_f32_fn *fn = tm_convert_get(level)->decode_f32[d];
            if (fn)
                check(level, (tm_dtype)d, fn);
        }
    }
}

static void only_f6_and_c64_have_no_values(void **state)
{
    (void)state;
    for (int l = TM_CPU_SCALAR; l < TM_CPU_LEVEL_COUNT; l++) {
        if (!tm_cpu_has((tm_cpu_level)l))
            continue;
        for (int d = 0; d < TM_DTYPE_COUNT; d++) {
            bool has_values = d != TM_F6_E2M3 && d != TM_F6_E3M2 && d != TM_C64;
            assert_int_equal(tm_convert_get((tm_cpu_level)l)->decode_f32[d] != NULL, has_values);
        }
    }
}

/* At every place within a vector: the codes are moved by one element after the other. */
static void check_codes(tm_cpu_level level, tm_dtype dtype, tm_decode_f32_fn *fn)
{
    size_t n = fill_source(dtype, source);
    size_t width = tm_dtype_get(dtype)->bits / 8;
    size_t moves = n == SOURCE_ELEMS_MAX ? 1 : 32;
    for (size_t move = 0; move < moves; move++) {
        size_t rest = dtype == TM_F4 ? n - 2 * move : n - move;
        const uint8_t *from = source + (dtype == TM_F4 ? move : move * width);
        tm_convert_get(TM_CPU_SCALAR)->decode_f32[dtype](from, want, rest);
        fn(from, got, rest);
        check_same(level, dtype, rest);
    }
}

static void every_level_equals_the_scalar_one_on_all_codes_and_rounding_cases(void **state)
{
    (void)state;
    each_slot(check_codes);
}

/* Also that nothing is written before or after. */
static void check_tails(tm_cpu_level level, tm_dtype dtype, tm_decode_f32_fn *fn)
{
    const float guard = 12345.0f;
    fill_source(dtype, source);
    for (size_t misalign = 0; misalign < 8; misalign++) {
        for (size_t n = 0; n <= TAIL_MAX; n++) {
            for (size_t i = 0; i < n + 8; i++)
                got[i] = guard;
            tm_convert_get(TM_CPU_SCALAR)->decode_f32[dtype](source + misalign, want, n);
            fn(source + misalign, got + 1, n);
            assert_true(got[0] == guard && got[n + 1] == guard);
            memmove(got, got + 1, n * sizeof(*got));
            check_same(level, dtype, n);
        }
    }
}

static void every_tail_length_and_alignment_gives_the_same(void **state)
{
    (void)state;
    each_slot(check_tails);
}

/* The source is exactly as long as its elements: a checker of addresses sees a read past it. */
static void check_bounds(tm_cpu_level level, tm_dtype dtype, tm_decode_f32_fn *fn)
{
    (void)level;
    for (size_t n = 1; n <= TAIL_MAX; n++) {
        size_t bytes = (n * tm_dtype_get(dtype)->bits + 7) / 8;
        uint8_t *from = calloc(1, bytes);
        float *to = calloc(n, sizeof(*to));
        assert_non_null(from);
        assert_non_null(to);
        fn(from, to, n);
        float zero = dtype == TM_F8_E8M0 ? 0x1p-127f : 0.0f;
        for (size_t i = 0; i < n; i++)
            assert_int_equal(bits_of(to[i]), bits_of(zero));
        free(from);
        free(to);
    }
}

static void no_level_reads_or_writes_past_its_elements(void **state)
{
    (void)state;
    each_slot(check_bounds);
}

static void narrow_codes_have_the_values_of_their_specifications(void **state)
{
    (void)state;
    static const struct {
        tm_dtype dtype;
        uint16_t code;
        uint32_t bits; /* of the float */
    } cases[] = {
        {TM_BOOL, 0, 0},
        {TM_BOOL, 1, 0x3f800000},
        {TM_BOOL, 0x80, 0x3f800000},
        {TM_F4, 0x1, 0x3f000000}, /* 0.5, its only subnormal */
        {TM_F4, 0x7, 0x40c00000}, /* 6 */
        {TM_F4, 0x8, 0x80000000},
        {TM_F4, 0xf, 0xc0c00000},
        {TM_F8_E4M3, 0x01, 0x3b000000}, /* 2^-9 */
        {TM_F8_E4M3, 0x07, 0x3c600000}, /* 7 * 2^-9 */
        {TM_F8_E4M3, 0x08, 0x3c800000}, /* 2^-6 */
        {TM_F8_E4M3, 0x7e, 0x43e00000}, /* 448 */
        {TM_F8_E4M3, 0x7f, 0x7ff00000}, /* NaN */
        {TM_F8_E4M3, 0xff, 0xfff00000},
        {TM_F8_E4M3, 0x80, 0x80000000},
        {TM_F8_E5M2, 0x01, 0x37800000}, /* 2^-16 */
        {TM_F8_E5M2, 0x7b, 0x47600000}, /* 57344 */
        {TM_F8_E5M2, 0x7c, 0x7f800000},
        {TM_F8_E5M2, 0xfc, 0xff800000},
        {TM_F8_E5M2, 0x7d, 0x7fe00000}, /* a signalling NaN, made quiet */
        {TM_F8_E5M2, 0xfe, 0xffc00000},
        {TM_F8_E8M0, 0x00, 0x00400000}, /* 2^-127 */
        {TM_F8_E8M0, 0x01, 0x00800000},
        {TM_F8_E8M0, 0x7f, 0x3f800000},
        {TM_F8_E8M0, 0xfe, 0x7f000000},
        {TM_F8_E8M0, 0xff, 0x7fc00000},
        {TM_F8_E4M3FNUZ, 0x01, 0x3a800000}, /* 2^-10 */
        {TM_F8_E4M3FNUZ, 0x7f, 0x43700000}, /* 240 */
        {TM_F8_E4M3FNUZ, 0xff, 0xc3700000},
        {TM_F8_E4M3FNUZ, 0x80, 0xffc00000},
        {TM_F8_E5M2FNUZ, 0x01, 0x37000000}, /* 2^-17 */
        {TM_F8_E5M2FNUZ, 0x04, 0x38000000}, /* 2^-15 */
        {TM_F8_E5M2FNUZ, 0x7f, 0x47600000}, /* 57344 */
        {TM_F8_E5M2FNUZ, 0x80, 0xffc00000},
        {TM_F16, 0x0001, 0x33800000}, /* 2^-24 */
        {TM_F16, 0x7bff, 0x477fe000}, /* 65504 */
        {TM_F16, 0xfc00, 0xff800000},
        {TM_F16, 0x7c01, 0x7fc02000},
        {TM_F16, 0xfe00, 0xffc00000},
        {TM_BF16, 0x3dcd, 0x3dcd0000}, /* 0.1 */
        {TM_BF16, 0x0001, 0x00010000},
        {TM_BF16, 0xff80, 0xff800000},
        {TM_BF16, 0x7f81, 0x7fc10000},
        {TM_BF16, 0xff81, 0xffc10000},
        {TM_U8, 255, 0x437f0000},
        {TM_I8, 0x80, 0xc3000000},
        {TM_U16, 0xffff, 0x477fff00},
        {TM_I16, 0x8000, 0xc7000000},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(cases); i++) {
        float value;
        tm_convert_get(TM_CPU_SCALAR)->decode_f32[cases[i].dtype](&cases[i].code, &value, 1);
        if (bits_of(value) != cases[i].bits)
            fail_msg("%s 0x%x is 0x%08x, not 0x%08x", tm_dtype_get(cases[i].dtype)->name,
                     cases[i].code, bits_of(value), cases[i].bits);
    }
}

static void the_low_nibble_is_the_first_element(void **state)
{
    (void)state;
    const uint8_t packed[] = {0x21, 0x43};
    float values[3];
    tm_convert_get(TM_CPU_SCALAR)->decode_f32[TM_F4](packed, values, 3);
    assert_true(values[0] == 0.5f && values[1] == 1.0f && values[2] == 1.5f);
}

static void wide_types_round_once_to_nearest_even(void **state)
{
    (void)state;
    static const struct {
        tm_dtype dtype;
        uint64_t raw;
        float value;
    } cases[] = {
        {TM_U32, 16777217, 16777216.0f},
        {TM_U32, 16777219, 16777220.0f},
        {TM_U32, 0xffffffff, 4294967296.0f},
        {TM_U32, 0x80000080, 0x1p31f},
        {TM_U32, 0x80000081, 0x1.000002p31f},
        {TM_I32, 0x80000000, -2147483648.0f},
        {TM_I32, 0xfeffffff, -16777216.0f},
        {TM_I64, 0x4000004000000001, 0x1.000002p62f}, /* by way of a double: 2^62 */
        {TM_I64, 0xbfffffbfffffffff, -0x1.000002p62f},
        {TM_I64, 0x4000004000000000, 0x1p62f},
        {TM_I64, 0x8000000000000000, -0x1p63f},
        {TM_U64, 0xffffffffffffffff, 0x1p64f},
        {TM_U64, 0x8000008000000001, 0x1.000002p63f},
        {TM_U64, 0x8000008000000000, 0x1p63f},
        {TM_F64, 0x3ff0000010000000, 1.0f}, /* half-way, to even */
        {TM_F64, 0x3ff0000010000001, 0x1.000002p0f},
        {TM_F64, 0x3ff0000030000000, 0x1.000004p0f},
        {TM_F64, 0x47efffffefffffff, 0x1.fffffep127f},
        {TM_F64, 0x47effffff0000000, INFINITY},
        {TM_F64, 0xc7f0000000000000, -INFINITY},
        {TM_F64, 0x3690000000000000, 0.0f}, /* 2^-150, half the smallest */
        {TM_F64, 0x3690000000000001, 0x1p-149f},
        {TM_F64, 0x36a8000000000000, 0x1p-148f}, /* one and a half of it */
        {TM_F64, 0x8000000000000001, -0.0f},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(cases); i++) {
        float value;
        tm_convert_get(TM_CPU_SCALAR)->decode_f32[cases[i].dtype](&cases[i].raw, &value, 1);
        if (bits_of(value) != bits_of(cases[i].value))
            fail_msg("%s case %zu is %a, not %a", tm_dtype_get(cases[i].dtype)->name, i,
                     (double)value, (double)cases[i].value);
    }
}

static void a_nan_keeps_sign_and_payload_and_is_quiet(void **state)
{
    (void)state;
    static const struct {
        tm_dtype dtype;
        uint64_t raw;
        uint32_t bits;
    } cases[] = {
        {TM_F32, 0x7f800001, 0x7fc00001},         {TM_F32, 0xffa00000, 0xffe00000},
        {TM_F32, 0x7f800000, 0x7f800000},         {TM_F32, 0xffc12345, 0xffc12345},
        {TM_F64, 0x7ff0000020000000, 0x7fc00001}, {TM_F64, 0x7ff0000000000001, 0x7fc00000},
        {TM_F64, 0xfff8000000000000, 0xffc00000},
    };
    for (int l = TM_CPU_SCALAR; l < TM_CPU_LEVEL_COUNT; l++) {
        for (size_t i = 0; tm_cpu_has((tm_cpu_level)l) && i < TM_ARRAY_LEN(cases); i++) {
            enum {
                BLOCK = 32
            }; /* long enough for every level's vectors */
            uint8_t raw[BLOCK * sizeof(uint64_t)];
            float values[BLOCK];
            size_t width = tm_dtype_get(cases[i].dtype)->bits / 8;
            for (size_t k = 0; k < BLOCK; k++)
                memcpy(raw + k * width, &cases[i].raw, width);
            tm_convert_get((tm_cpu_level)l)->decode_f32[cases[i].dtype](raw, values, BLOCK);
            for (size_t k = 0; k < BLOCK; k++)
                assert_int_equal(bits_of(values[k]), cases[i].bits);
        }
    }
}

static void the_environment_lowers_the_level_and_never_raises_it(void **state)
{
    (void)state;
    assert_int_equal(setenv("TMORPH_CPU", "scalar", 1), 0);
    assert_int_equal(tm_cpu_best(), TM_CPU_SCALAR);
    for (int l = TM_CPU_SCALAR; l < TM_CPU_LEVEL_COUNT; l++) {
        assert_int_equal(setenv("TMORPH_CPU", tm_cpu_level_name((tm_cpu_level)l), 1), 0);
        tm_cpu_level best = tm_cpu_best();
        assert_true(tm_cpu_has(best) && (int)best <= l);
        if (tm_cpu_has((tm_cpu_level)l))
            assert_int_equal(best, l);
    }
    assert_int_equal(unsetenv("TMORPH_CPU"), 0);
    for (int l = TM_CPU_SCALAR; l < TM_CPU_LEVEL_COUNT; l++)
        assert_true(!tm_cpu_has((tm_cpu_level)l) || (int)tm_cpu_best() >= l);
}

static void a_double_prints_as_its_shortest_decimal(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0.0, "0"},
        {-0.0, "-0"},
        {1.0, "1"},
        {-1.5, "-1.5"},
        {0.1, "0.1"},
        {0.10009765625, "0.10009765625"},
        {0.1f, "0.10000000149011612"},
        {100000.0, "100000"},
        {1e15, "1000000000000000"},
        {9999999999999998.0, "9999999999999998"},
        {1e16, "1e+16"},
        {1e20, "1e+20"},
        {-1.25e+100, "-1.25e+100"},
        {123456789012345678.0, "1.2345678901234568e+17"},
        {0.0001, "0.0001"},
        {0.00001, "1e-05"},
        {0.000123, "0.000123"},
        {1.0 / 3, "0.3333333333333333"},
        {0x1p-44, "5.684341886080802e-14"}, /* the nearest of 16 digits, …801, reads as another */
        {0x1.d90e01cec26e0p+43, "16254036243987.438"}, /* ends in …4375: half-way, to even */
        {0x1.520b08fa50c04p+47, "185841162725472.12"}, /* ends in ….125 */
        {0x1p-1074, "5e-324"},
        {0x1p-1022, "2.2250738585072014e-308"},
        {0x1.fffffffffffffp1023, "1.7976931348623157e+308"},
        {-0x1.fffffffffffffp1023, "-1.7976931348623157e+308"},
        {NAN, "nan"},
        {-NAN, "nan"},
        {INFINITY, "inf"},
        {-INFINITY, "-inf"},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(cases); i++) {
        char text[TM_VALUE_TEXT_MAX];
        int len = tm_double_text(cases[i].value, text);
        assert_string_equal(text, cases[i].text);
        assert_int_equal(len, strlen(text));
    }
}

static void an_element_prints_by_its_type(void **state)
{
    (void)state;
    static const struct {
        tm_dtype dtype;
        uint64_t index;
        const char *src;
        const char *text;
    } cases[] = {
        {TM_BOOL, 2, "\x01\x01\x00", "0"},
        {TM_BOOL, 0, "\x02", "1"},
        {TM_F4, 0, "\x21", "0.5"},
        {TM_F4, 1, "\x21", "1"},
        {TM_F4, 3, "\x21\xa1", "-1"},
        {TM_U8, 1, "\x01\xff", "255"},
        {TM_I8, 1, "\x01\xff", "-1"},
        {TM_F8_E4M3, 0, "\x7e", "448"},
        {TM_F8_E4M3, 0, "\xff", "nan"},
        {TM_F8_E5M2, 0, "\xfc", "-inf"},
        {TM_F8_E8M0, 0, "\x00", "5.877471754111438e-39"},
        {TM_F8_E4M3FNUZ, 0, "\x01", "0.0009765625"},
        {TM_F8_E5M2FNUZ, 0, "\x80", "nan"},
        {TM_I16, 1, "\x01\x00\xfe\xff", "-2"},
        {TM_U16, 1, "\x01\x00\xfe\xff", "65534"},
        {TM_F16, 0, "\x01\x00", "5.960464477539063e-08"},
        {TM_BF16, 1, "\x80\x3f\xcd\x3d", "0.10009765625"},
        {TM_BF16, 0, "\x00\x80", "-0"},
        {TM_I32, 0, "\x00\x00\x00\x80", "-2147483648"},
        {TM_U32, 0, "\xff\xff\xff\xff", "4294967295"},
        {TM_F32, 1, "\x00\x00\x80\x3f\xcd\xcc\xcc\x3d", "0.10000000149011612"},
        {TM_F64, 0, "\x9a\x99\x99\x99\x99\x99\xb9\x3f", "0.1"},
        {TM_I64, 0, "\x00\x00\x00\x00\x00\x00\x00\x80", "-9223372036854775808"},
        {TM_U64, 0, "\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615"},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(cases); i++) {
        char text[TM_VALUE_TEXT_MAX];
        int len = tm_value_text(cases[i].dtype, cases[i].src, cases[i].index, text);
        assert_string_equal(text, cases[i].text);
        assert_int_equal(len, strlen(text));
    }
}

static void an_element_without_a_value_is_not_supported(void **state)
{
    (void)state;
    static const tm_dtype dtypes[] = {TM_F6_E2M3, TM_F6_E3M2, TM_C64};
    char text[TM_VALUE_TEXT_MAX];
    for (size_t i = 0; i < TM_ARRAY_LEN(dtypes); i++)
        assert_int_equal(tm_value_text(dtypes[i], source, 0, text), -EOPNOTSUPP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_f6_and_c64_have_no_values),
        cmocka_unit_test(every_level_equals_the_scalar_one_on_all_codes_and_rounding_cases),
        cmocka_unit_test(every_tail_length_and_alignment_gives_the_same),
        cmocka_unit_test(no_level_reads_or_writes_past_its_elements),
        cmocka_unit_test(narrow_codes_have_the_values_of_their_specifications),
        cmocka_unit_test(the_low_nibble_is_the_first_element),
        cmocka_unit_test(wide_types_round_once_to_nearest_even),
        cmocka_unit_test(a_nan_keeps_sign_and_payload_and_is_quiet),
        cmocka_unit_test(the_environment_lowers_the_level_and_never_raises_it),
        cmocka_unit_test(a_double_prints_as_its_shortest_decimal),
        cmocka_unit_test(an_element_prints_by_its_type),
        cmocka_unit_test(an_element_without_a_value_is_not_supported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
