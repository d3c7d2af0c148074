/* The 22 element types as one table, and the spellings by which people and libraries name them. */
#include "core/dtype.h"

#include <strings.h>

/* clang-format off */
static const tm_dtype_info infos[TM_DTYPE_COUNT] = {
    /*                   name           bits float  opaque npy       descr */
    [TM_BOOL]        = {"BOOL",         8,   false, false, TM_BOOL, "|b1"},
    [TM_F4]          = {"F4",           4,   true,  false, TM_F32,  NULL},
    [TM_F6_E2M3]     = {"F6_E2M3",      6,   true,  true,  TM_F32,  NULL},
    [TM_F6_E3M2]     = {"F6_E3M2",      6,   true,  true,  TM_F32,  NULL},
    [TM_U8]          = {"U8",           8,   false, false, TM_U8,   "|u1"},
    [TM_I8]          = {"I8",           8,   false, false, TM_I8,   "|i1"},
    [TM_F8_E5M2]     = {"F8_E5M2",      8,   true,  false, TM_F32,  NULL},
    [TM_F8_E4M3]     = {"F8_E4M3",      8,   true,  false, TM_F32,  NULL},
    [TM_F8_E8M0]     = {"F8_E8M0",      8,   true,  false, TM_F32,  NULL},
    [TM_F8_E4M3FNUZ] = {"F8_E4M3FNUZ",  8,   true,  false, TM_F32,  NULL},
    [TM_F8_E5M2FNUZ] = {"F8_E5M2FNUZ",  8,   true,  false, TM_F32,  NULL},
    [TM_I16]         = {"I16",          16,  false, false, TM_I16,  "<i2"},
    [TM_U16]         = {"U16",          16,  false, false, TM_U16,  "<u2"},
    [TM_F16]         = {"F16",          16,  true,  false, TM_F32,  "<f2"},
    [TM_BF16]        = {"BF16",         16,  true,  false, TM_F32,  NULL},
    [TM_I32]         = {"I32",          32,  false, false, TM_I32,  "<i4"},
    [TM_U32]         = {"U32",          32,  false, false, TM_U32,  "<u4"},
    [TM_F32]         = {"F32",          32,  true,  false, TM_F32,  "<f4"},
    [TM_C64]         = {"C64",          64,  false, false, TM_C64,  "<c8"},
    [TM_F64]         = {"F64",          64,  true,  false, TM_F64,  "<f8"},
    [TM_I64]         = {"I64",          64,  false, false, TM_I64,  "<i8"},
    [TM_U64]         = {"U64",          64,  false, false, TM_U64,  "<u8"},
};
/* clang-format on */

typedef struct spelling {
    const char *name; /* lower case, without "torch." */
    tm_dtype dtype;
} spelling;

/*
 * What PyTorch, NumPy, ml_dtypes and the Hub's config files write. Not here, as it names another
 * type elsewhere: float8_e4m3 (ml_dtypes' has infinities). f4 and f8_… are safetensors' own.
 */
static const spelling spellings[] = {
    {"boolean", TM_BOOL},
    {"float4", TM_F4},
    {"float4_e2m1", TM_F4},
    {"float4_e2m1fn", TM_F4},
    {"float4_e2m1fn_x2", TM_F4},
    {"fp4", TM_F4},
    {"fp4_e2m1", TM_F4},
    {"float6_e2m3fn", TM_F6_E2M3},
    {"fp6_e2m3", TM_F6_E2M3},
    {"float6_e3m2fn", TM_F6_E3M2},
    {"fp6_e3m2", TM_F6_E3M2},
    {"uint8", TM_U8},
    {"int8", TM_I8},
    {"float8_e5m2", TM_F8_E5M2},
    {"fp8_e5m2", TM_F8_E5M2},
    {"fp8", TM_F8_E4M3},
    {"float8_e4m3fn", TM_F8_E4M3},
    {"fp8_e4m3", TM_F8_E4M3},
    {"fp8_e4m3fn", TM_F8_E4M3},
    {"f8_e4m3fn", TM_F8_E4M3},
    {"float8_e8m0fnu", TM_F8_E8M0},
    {"fp8_e8m0", TM_F8_E8M0},
    {"float8_e4m3fnuz", TM_F8_E4M3FNUZ},
    {"fp8_e4m3fnuz", TM_F8_E4M3FNUZ},
    {"float8_e5m2fnuz", TM_F8_E5M2FNUZ},
    {"fp8_e5m2fnuz", TM_F8_E5M2FNUZ},
    {"int16", TM_I16},
    {"short", TM_I16},
    {"uint16", TM_U16},
    {"float16", TM_F16},
    {"fp16", TM_F16},
    {"half", TM_F16},
    {"bfloat16", TM_BF16},
    {"int32", TM_I32},
    {"int", TM_I32},
    {"uint32", TM_U32},
    {"float32", TM_F32},
    {"fp32", TM_F32},
    {"float", TM_F32},
    {"complex64", TM_C64},
    {"cfloat", TM_C64},
    {"float64", TM_F64},
    {"fp64", TM_F64},
    {"double", TM_F64},
    {"int64", TM_I64},
    {"long", TM_I64},
    {"uint64", TM_U64},
};

static bool same(const char *name, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(word, name, len) == 0;
}

static bool same_any_case(const char *name, size_t len, const char *word)
{
    return strlen(word) == len && strncasecmp(word, name, len) == 0;
}

const tm_dtype_info *tm_dtype_get(tm_dtype dtype)
{
    assert(dtype < TM_DTYPE_COUNT);
    return &infos[dtype];
}

bool tm_dtype_parse_exact(const char *name, size_t len, tm_dtype *ret)
{
    for (int i = 0; i < TM_DTYPE_COUNT; i++) {
        if (same(name, len, infos[i].name)) {
            *ret = (tm_dtype)i;
            return true;
        }
    }
    return false;
}

static bool parse_spelling(const char *name, size_t len, tm_dtype *ret)
{
    for (size_t i = 0; i < TM_ARRAY_LEN(spellings); i++) {
        if (same_any_case(name, len, spellings[i].name)) {
            *ret = spellings[i].dtype;
            return true;
        }
    }
    return false;
}

bool tm_dtype_parse(const char *name, size_t len, tm_dtype *ret)
{
    static const char prefix[] = "torch.";
    size_t prefix_len = sizeof(prefix) - 1;
    if (len > prefix_len && memcmp(name, prefix, prefix_len) == 0) {
        name += prefix_len;
        len -= prefix_len;
    }
    for (int i = 0; i < TM_DTYPE_COUNT; i++) {
        if (same_any_case(name, len, infos[i].name)) {
            *ret = (tm_dtype)i;
            return true;
        }
    }
    return parse_spelling(name, len, ret);
}

bool tm_dtype_bytes(tm_dtype dtype, uint64_t n, uint64_t *ret_bytes)
{
    uint64_t bits;
    if (tm_mul_overflow(n, tm_dtype_get(dtype)->bits, &bits) || bits % 8 != 0)
        return false;
    *ret_bytes = bits / 8;
    return true;
}
