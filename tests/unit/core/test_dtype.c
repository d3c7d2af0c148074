/* Element types: the table, the spellings, the sizes. */
#include "core/dtype.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

/* From safetensors' documentation and NumPy's, not from our table. */
static const struct {
    tm_dtype dtype;
    const char *name;
    unsigned bits;
    const char *npy;
    const char *descr;
} rows[] = {
    {TM_BOOL, "BOOL", 8, "BOOL", "|b1"},
    {TM_F4, "F4", 4, "F32", NULL},
    {TM_F6_E2M3, "F6_E2M3", 6, "F32", NULL},
    {TM_F6_E3M2, "F6_E3M2", 6, "F32", NULL},
    {TM_U8, "U8", 8, "U8", "|u1"},
    {TM_I8, "I8", 8, "I8", "|i1"},
    {TM_F8_E5M2, "F8_E5M2", 8, "F32", NULL},
    {TM_F8_E4M3, "F8_E4M3", 8, "F32", NULL},
    {TM_F8_E8M0, "F8_E8M0", 8, "F32", NULL},
    {TM_F8_E4M3FNUZ, "F8_E4M3FNUZ", 8, "F32", NULL},
    {TM_F8_E5M2FNUZ, "F8_E5M2FNUZ", 8, "F32", NULL},
    {TM_I16, "I16", 16, "I16", "<i2"},
    {TM_U16, "U16", 16, "U16", "<u2"},
    {TM_F16, "F16", 16, "F32", "<f2"},
    {TM_BF16, "BF16", 16, "F32", NULL},
    {TM_I32, "I32", 32, "I32", "<i4"},
    {TM_U32, "U32", 32, "U32", "<u4"},
    {TM_F32, "F32", 32, "F32", "<f4"},
    {TM_C64, "C64", 64, "C64", "<c8"},
    {TM_F64, "F64", 64, "F64", "<f8"},
    {TM_I64, "I64", 64, "I64", "<i8"},
    {TM_U64, "U64", 64, "U64", "<u8"},
};

static void every_type_has_its_name_width_and_numpy_type(void **state)
{
    (void)state;
    assert_int_equal(TM_ARRAY_LEN(rows), TM_DTYPE_COUNT);
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        const tm_dtype_info *info = tm_dtype_get(rows[i].dtype);
        assert_int_equal(rows[i].dtype, i);
        assert_string_equal(info->name, rows[i].name);
        assert_int_equal(info->bits, rows[i].bits);
        assert_string_equal(tm_dtype_get(info->npy)->name, rows[i].npy);
        assert_int_equal(info->descr == NULL, rows[i].descr == NULL);
        if (info->descr)
            assert_string_equal(info->descr, rows[i].descr);
        assert_int_equal(info->is_float, rows[i].name[0] == 'F' || rows[i].name[1] == 'F');
        assert_int_equal(info->is_opaque, strncmp(rows[i].name, "F6_", 3) == 0);
    }
}

static void an_exact_spelling_is_found_and_no_other(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        tm_dtype found = TM_DTYPE_COUNT;
        assert_true(tm_dtype_parse_exact(rows[i].name, strlen(rows[i].name), &found));
        assert_int_equal(found, rows[i].dtype);
    }
    static const struct {
        const char *name;
        size_t len;
    } others[] = {
        {"bf16", 4},
        {"BF1", 3},
        {"BF16 ", 5},
        {" BF16", 5},
        {"BF16\0", 5},
        {"F8_E4M3FN", 9},
        {"F8_E4M3FNUZX", 12},
        {"", 0},
        {"F8", 2},
        {"torch.bfloat16", 14},
        {"C128", 4},
        {"I4", 2},
        {"float32", 7},
        {"Bool", 4},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(others); i++) {
        tm_dtype found = TM_C64;
        assert_false(tm_dtype_parse_exact(others[i].name, others[i].len, &found));
        assert_int_equal(found, TM_C64);
    }
}

static void only_the_given_length_of_a_name_is_read(void **state)
{
    (void)state;
    tm_dtype found = TM_DTYPE_COUNT;
    assert_true(tm_dtype_parse_exact("F16\",", 3, &found));
    assert_int_equal(found, TM_F16);
    assert_true(tm_dtype_parse("bfloat16]", 8, &found));
    assert_int_equal(found, TM_BF16);
}

static void usual_spellings_are_understood(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        tm_dtype dtype;
    } spelled[] = {
        {"BF16", TM_BF16},
        {"bf16", TM_BF16},
        {"bfloat16", TM_BF16},
        {"torch.bfloat16", TM_BF16},
        {"BFloat16", TM_BF16},
        {"float16", TM_F16},
        {"torch.half", TM_F16},
        {"fp16", TM_F16},
        {"f16", TM_F16},
        {"float32", TM_F32},
        {"torch.float", TM_F32},
        {"fp32", TM_F32},
        {"float64", TM_F64},
        {"torch.double", TM_F64},
        {"complex64", TM_C64},
        {"bool", TM_BOOL},
        {"torch.bool", TM_BOOL},
        {"uint8", TM_U8},
        {"torch.int8", TM_I8},
        {"int16", TM_I16},
        {"torch.short", TM_I16},
        {"uint16", TM_U16},
        {"int32", TM_I32},
        {"torch.int", TM_I32},
        {"uint32", TM_U32},
        {"int64", TM_I64},
        {"torch.long", TM_I64},
        {"uint64", TM_U64},
        {"f4", TM_F4},
        {"float4_e2m1fn_x2", TM_F4},
        {"torch.float8_e4m3fn", TM_F8_E4M3},
        {"fp8_e4m3", TM_F8_E4M3},
        {"f8_e4m3", TM_F8_E4M3},
        {"torch.float8_e5m2", TM_F8_E5M2},
        {"torch.float8_e8m0fnu", TM_F8_E8M0},
        {"torch.float8_e4m3fnuz", TM_F8_E4M3FNUZ},
        {"torch.float8_e5m2fnuz", TM_F8_E5M2FNUZ},
        {"fp6_e2m3", TM_F6_E2M3},
        {"fp6_e3m2", TM_F6_E3M2},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(spelled); i++) {
        tm_dtype found = TM_DTYPE_COUNT;
        if (!tm_dtype_parse(spelled[i].name, strlen(spelled[i].name), &found))
            fail_msg("%s is not understood", spelled[i].name);
        assert_int_equal(found, spelled[i].dtype);
    }
}

static void an_unknown_or_ambiguous_spelling_is_refused(void **state)
{
    (void)state;
    static const char *const unknown[] = {
        "",
        "torch.",
        "torch.torch.int8",
        "float8_e4m3",
        "float128",
        "complex128",
        "int4",
        "bf16 ",
        "<f4",
        "auto",
        "bf",
        "float8",
        "q4_0",
        "torch",
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(unknown); i++) {
        tm_dtype found = TM_C64;
        if (tm_dtype_parse(unknown[i], strlen(unknown[i]), &found))
            fail_msg("%s is understood", unknown[i]);
        assert_int_equal(found, TM_C64);
    }
}

static void sizes_are_whole_bytes_that_fit(void **state)
{
    (void)state;
    static const struct {
        tm_dtype dtype;
        uint64_t n;
        bool ok;
        uint64_t bytes;
    } cases[] = {
        {TM_BOOL, 0, true, 0},
        {TM_F64, 0, true, 0},
        {TM_BF16, 3, true, 6},
        {TM_F64, 3, true, 24},
        {TM_F4, 2, true, 1},
        {TM_F4, 3, false, 0},
        {TM_F6_E2M3, 4, true, 3},
        {TM_F6_E3M2, 2, false, 0},
        {TM_F64, (1ull << 58) - 1, true, ((1ull << 58) - 1) * 8},
        {TM_F64, 1ull << 58, false, 0}, /* 2^64 bits, as upstream counts */
        {TM_F4, 1ull << 62, false, 0},
        {TM_F4, (1ull << 62) - 2, true, (1ull << 61) - 1},
        {TM_U8, UINT64_MAX, false, 0},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(cases); i++) {
        uint64_t bytes = 77;
        assert_int_equal(tm_dtype_bytes(cases[i].dtype, cases[i].n, &bytes), cases[i].ok);
        assert_true(bytes == (cases[i].ok ? cases[i].bytes : 77));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_has_its_name_width_and_numpy_type),
        cmocka_unit_test(an_exact_spelling_is_found_and_no_other),
        cmocka_unit_test(only_the_given_length_of_a_name_is_read),
        cmocka_unit_test(usual_spellings_are_understood),
        cmocka_unit_test(an_unknown_or_ambiguous_spelling_is_refused),
        cmocka_unit_test(sizes_are_whole_bytes_that_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
