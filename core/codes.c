/* Codes as the rows of one table: how many bits, and how their order follows from the bits. */
#include "core/codes.h"

#include "core/convert.h"

typedef enum code_order {
    ORDER_UNSIGNED,
    ORDER_COMPLEMENT, /* two's complement */
    ORDER_SIGN        /* sign and magnitude */
} code_order;

typedef struct code_info {
    unsigned bits; /* 0: no values */
    code_order order;
    double smallest_normal;
} code_info;

/* clang-format off */
static const code_info infos[TM_DTYPE_COUNT] = {
    [TM_BOOL]        = {1,  ORDER_UNSIGNED,   0},
    [TM_F4]          = {4,  ORDER_SIGN,       1},
    [TM_U8]          = {8,  ORDER_UNSIGNED,   0},
    [TM_I8]          = {8,  ORDER_COMPLEMENT, 0},
    [TM_F8_E5M2]     = {8,  ORDER_SIGN,       0x1p-14},
    [TM_F8_E4M3]     = {8,  ORDER_SIGN,       0x1p-6},
    [TM_F8_E8M0]     = {8,  ORDER_UNSIGNED,   0},
    [TM_F8_E4M3FNUZ] = {8,  ORDER_SIGN,       0x1p-7},
    [TM_F8_E5M2FNUZ] = {8,  ORDER_SIGN,       0x1p-15},
    [TM_I16]         = {16, ORDER_COMPLEMENT, 0},
    [TM_U16]         = {16, ORDER_UNSIGNED,   0},
    [TM_F16]         = {16, ORDER_SIGN,       0x1p-14},
    [TM_BF16]        = {16, ORDER_SIGN,       0x1p-126},
    [TM_I32]         = {16, ORDER_SIGN,       0},
    [TM_U32]         = {16, ORDER_SIGN,       0},
    [TM_F32]         = {16, ORDER_SIGN,       0x1p-126},
    [TM_F64]         = {16, ORDER_SIGN,       0x1p-1022},
    [TM_I64]         = {16, ORDER_SIGN,       0},
    [TM_U64]         = {16, ORDER_SIGN,       0},
};
/* clang-format on */

size_t tm_codes_count(tm_dtype dtype)
{
    return infos[dtype].bits ? (size_t)1 << infos[dtype].bits : 0;
}

bool tm_codes_are_bins(tm_dtype dtype)
{
    return infos[dtype].bits > 0 && tm_dtype_get(dtype)->bits > 16;
}

void tm_codes_run(tm_dtype dtype, int half, size_t *ret_first, int *ret_step)
{
    size_t middle = tm_codes_count(dtype) / 2;
    *ret_step = 1;
    switch (infos[dtype].order) {
    case ORDER_UNSIGNED:
        *ret_first = half ? middle : 0;
        break;
    case ORDER_COMPLEMENT:
        *ret_first = half ? 0 : middle;
        break;
    case ORDER_SIGN:
        *ret_first = half ? 0 : 2 * middle - 1;
        *ret_step = half ? 1 : -1;
        break;
    }
}

float tm_code_value(tm_dtype dtype, size_t code)
{
    uint16_t stored = (uint16_t)code;
    float value;
    tm_dtype type = tm_codes_are_bins(dtype) ? TM_BF16 : dtype;
    tm_convert_get(TM_CPU_SCALAR)->decode_f32[type](&stored, &value, 1);
    return value;
}

double tm_codes_smallest_normal(tm_dtype dtype)
{
    return infos[dtype].smallest_normal;
}

unsigned tm_code_of_f64(double value)
{
    enum {
        BIAS_DIFFERENCE = 1023 - 127
    };
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    unsigned sign = (unsigned)(bits >> 63) << 15;
    int exponent = (int)(bits >> 52 & 0x7ff) - BIAS_DIFFERENCE;
    unsigned mantissa = (unsigned)(bits >> 45) & 0x7f;
    if (exponent == 0x7ff - BIAS_DIFFERENCE) /* what core/convert.h makes of a NaN */
        return sign | TM_CODE_INF | mantissa | (bits << 12 ? 0x40 : 0);
    if (exponent > 254)
        return sign | (TM_CODE_INF - 1);
    if (exponent > 0)
        return sign | (unsigned)exponent << 7 | mantissa;
    return exponent <= -7 ? sign : sign | (0x80 | mantissa) >> (1 - exponent);
}

unsigned tm_code_of_integer(bool negative, uint64_t magnitude)
{
    if (magnitude == 0)
        return 0;
    unsigned shift = (unsigned)__builtin_clzll(magnitude);
    unsigned mantissa = (unsigned)((magnitude << shift) >> 56) & 0x7f;
    return (unsigned)negative << 15 | (127 + 63 - shift) << 7 | mantissa;
}

static bool are_empty(const uint64_t counts[8])
{
    uint64_t any = 0;
    for (size_t i = 0; i < 8; i++)
        any |= counts[i];
    return any == 0;
}

size_t tm_codes_first(const uint64_t *counts, size_t from, size_t end)
{
    while (from < end && counts[from] == 0)
        from += from % 8 == 0 && end - from >= 8 && are_empty(counts + from) ? 8 : 1;
    return from;
}

size_t tm_codes_last(const uint64_t *counts, size_t from, size_t end)
{
    while (end > from && counts[end - 1] == 0)
        end -= end % 8 == 0 && end - from >= 8 && are_empty(counts + end - 8) ? 8 : 1;
    return end - 1;
}
