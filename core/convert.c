/*
 * The scalar conversions: the specification that every SIMD level must equal bit for bit.
 *
 * One rule for every NaN: the sign of the code, its mantissa at the top of f32's, and the quiet
 * bit. That is what F16C, AVX and NEON do when they convert f16 and f64. (A code without a sign or
 * a mantissa contributes zeros: E8M0's NaN is 0x7fc00000, FNUZ's 0x80 is 0xffc00000.)
 */
#include "core/convert.h"

#include "core/convert_tables.h"

enum {
    F32_MANTISSA_BITS = 23,
    F32_BIAS = 127
};
#define F32_EXPONENT_MASK 0x7f800000u
#define F32_QUIET         0x00400000u

static float f32_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* By integers: a float that passes through a register as a float need not keep a signalling NaN. */
static uint32_t quiet_bits(uint32_t bits)
{
    return (bits & 0x7fffffffu) > F32_EXPONENT_MASK ? bits | F32_QUIET : bits;
}

/* What the codes at the top of a narrow float's range mean. */
typedef enum specials {
    SPECIALS_NONE, /* every code is a number */
    SPECIALS_IEEE, /* exponent all ones: infinity, NaN */
    SPECIALS_FN,   /* all ones is NaN; no infinity */
    SPECIALS_FNUZ, /* only -0's code is NaN; no infinity */
} specials;

/* A float of at most 16 bits: sign, exponent, mantissa; every value is exact in f32. */
typedef struct narrow_float {
    unsigned exponent_bits, mantissa_bits;
    int bias;
    specials specials;
} narrow_float;

static const narrow_float float_f4 = {2, 1, 1, SPECIALS_NONE};
static const narrow_float float_e5m2 = {5, 2, 15, SPECIALS_IEEE};
static const narrow_float float_e4m3 = {4, 3, 7, SPECIALS_FN};
static const narrow_float float_e5m2fnuz = {5, 2, 16, SPECIALS_FNUZ};
static const narrow_float float_e4m3fnuz = {4, 3, 8, SPECIALS_FNUZ};
static const narrow_float float_f16 = {5, 10, 15, SPECIALS_IEEE};

static bool is_special(const narrow_float *type, uint32_t sign, uint32_t magnitude)
{
    uint32_t all_ones = (1u << (type->exponent_bits + type->mantissa_bits)) - 1;
    switch (type->specials) {
    case SPECIALS_NONE:
        return false;
    case SPECIALS_IEEE:
        return magnitude >> type->mantissa_bits == all_ones >> type->mantissa_bits;
    case SPECIALS_FN:
        return magnitude == all_ones;
    case SPECIALS_FNUZ:
        return sign == 1 && magnitude == 0;
    }
    return false;
}

static inline uint32_t narrow_bits(const narrow_float *type, uint32_t code)
{
    unsigned magnitude_bits = type->exponent_bits + type->mantissa_bits;
    uint32_t sign = code >> magnitude_bits;
    uint32_t magnitude = code & ((1u << magnitude_bits) - 1);
    uint32_t exponent = magnitude >> type->mantissa_bits;
    uint32_t mantissa = magnitude & ((1u << type->mantissa_bits) - 1);
    uint32_t top = mantissa << (F32_MANTISSA_BITS - type->mantissa_bits);

    if (is_special(type, sign, magnitude)) {
        bool is_infinity = type->specials == SPECIALS_IEEE && mantissa == 0;
        return sign << 31 | F32_EXPONENT_MASK | top | (is_infinity ? 0 : F32_QUIET);
    }
    if (exponent > 0)
        return sign << 31 | (exponent + (uint32_t)(F32_BIAS - type->bias)) << F32_MANTISSA_BITS |
               top;
    /* Subnormal: mantissa * 2^(1 - bias - mantissa_bits), both factors and the product exact. */
    uint32_t unit = (uint32_t)(F32_BIAS + 1 - type->bias - (int)type->mantissa_bits);
    float value = (float)mantissa * f32_of_bits(unit << F32_MANTISSA_BITS);
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return sign << 31 | bits;
}

/* 2^(code - 127); code 0 is a subnormal of f32. */
static uint32_t e8m0_bits(uint32_t code)
{
    if (code == 0)
        return 1u << (F32_MANTISSA_BITS - 1);
    return code == 255 ? F32_EXPONENT_MASK | F32_QUIET : code << F32_MANTISSA_BITS;
}

static void put_bits(float *dst, uint32_t bits)
{
    memcpy(dst, &bits, sizeof(bits));
}

/* Defines tm_scalar_NAME: STATEMENT stores element v of stored type T to dst[i]. */
#define DECODE_EACH(name, T, statement)                                                            \
    void tm_scalar_##name(const void *src, float *dst, size_t n)                                   \
    {                                                                                              \
        const uint8_t *from = src;                                                                 \
        for (size_t i = 0; i < n; i++) {                                                           \
            T v;                                                                                   \
            memcpy(&v, from + i * sizeof(v), sizeof(v));                                           \
            statement;                                                                             \
        }                                                                                          \
    }

DECODE_EACH(bool, uint8_t, dst[i] = v != 0 ? 1.0f : 0.0f)
DECODE_EACH(u8, uint8_t, dst[i] = (float)v)
DECODE_EACH(i8, int8_t, dst[i] = (float)v)
DECODE_EACH(u16, uint16_t, dst[i] = (float)v)
DECODE_EACH(i16, int16_t, dst[i] = (float)v)
DECODE_EACH(u32, uint32_t, dst[i] = (float)v)
DECODE_EACH(i32, int32_t, dst[i] = (float)v)
DECODE_EACH(u64, uint64_t, dst[i] = (float)v)
DECODE_EACH(i64, int64_t, dst[i] = (float)v)
DECODE_EACH(f64, double, dst[i] = (float)v)
DECODE_EACH(f32, uint32_t, put_bits(&dst[i], quiet_bits(v)))
DECODE_EACH(bf16, uint16_t, put_bits(&dst[i], quiet_bits((uint32_t)v << 16)))
DECODE_EACH(f16, uint16_t, put_bits(&dst[i], narrow_bits(&float_f16, v)))
DECODE_EACH(e5m2, uint8_t, put_bits(&dst[i], narrow_bits(&float_e5m2, v)))
DECODE_EACH(e4m3, uint8_t, put_bits(&dst[i], narrow_bits(&float_e4m3, v)))
DECODE_EACH(e5m2fnuz, uint8_t, put_bits(&dst[i], narrow_bits(&float_e5m2fnuz, v)))
DECODE_EACH(e4m3fnuz, uint8_t, put_bits(&dst[i], narrow_bits(&float_e4m3fnuz, v)))
DECODE_EACH(e8m0, uint8_t, put_bits(&dst[i], e8m0_bits(v)))

void tm_scalar_f4(const void *src, float *dst, size_t n)
{
    const uint8_t *from = src;
    for (size_t i = 0; i < n; i++) {
        unsigned low_first = i % 2 == 0 ? from[i / 2] & 15u : from[i / 2] >> 4;
        put_bits(&dst[i], narrow_bits(&float_f4, low_first));
    }
}

static const tm_convert scalar_table = {
    .decode_f32 =
        {
            [TM_BOOL] = tm_scalar_bool,
            [TM_F4] = tm_scalar_f4,
            [TM_U8] = tm_scalar_u8,
            [TM_I8] = tm_scalar_i8,
            [TM_F8_E5M2] = tm_scalar_e5m2,
            [TM_F8_E4M3] = tm_scalar_e4m3,
            [TM_F8_E8M0] = tm_scalar_e8m0,
            [TM_F8_E4M3FNUZ] = tm_scalar_e4m3fnuz,
            [TM_F8_E5M2FNUZ] = tm_scalar_e5m2fnuz,
            [TM_I16] = tm_scalar_i16,
            [TM_U16] = tm_scalar_u16,
            [TM_F16] = tm_scalar_f16,
            [TM_BF16] = tm_scalar_bf16,
            [TM_I32] = tm_scalar_i32,
            [TM_U32] = tm_scalar_u32,
            [TM_F32] = tm_scalar_f32,
            [TM_F64] = tm_scalar_f64,
            [TM_I64] = tm_scalar_i64,
            [TM_U64] = tm_scalar_u64,
        },
};

const tm_convert *tm_convert_get(tm_cpu_level level)
{
    assert(tm_cpu_has(level));
    const tm_convert *table = NULL;
    if (level == TM_CPU_AVX2)
        table = tm_convert_avx2();
    else if (level == TM_CPU_AVX512)
        table = tm_convert_avx512();
    else if (level == TM_CPU_NEON)
        table = tm_convert_neon();
    return table ? table : &scalar_table;
}
