/* The scalar strips: the specification that every SIMD level must equal bit for bit. */
#include "compute/scan_kernels.h"

#include <math.h>

typedef struct lanes {
    unsigned finite, zero;
    double sum[TM_STRIP_SIDE];
    double min, max;
} lanes;

/* Halves the lanes until one is left: lane i += lane i + 8, then + 4, + 2, + 1. */
static double fold(double lane[TM_STRIP_SIDE])
{
    for (size_t half = TM_STRIP_SIDE / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

static void add_value(lanes *all, size_t c, double value)
{
    all->finite++;
    all->zero += value == 0;
    all->sum[c] += value;
    all->min = value < all->min ? value : all->min;
    all->max = value > all->max ? value : all->max;
}

static void finish(lanes *all, tm_strip *ret)
{
    ret->finite_count = all->finite;
    ret->zero_count = all->zero;
    ret->sum = fold(all->sum);
    ret->min = all->min;
    ret->max = all->max;
}

/* Defines a strip of T; BITS is the unsigned type of its size. */
#define STRIP(name, T, BITS, exponent_mask)                                                        \
    void name(const T *src, size_t rows, tm_strip *ret)                                            \
    {                                                                                              \
        lanes all = {.min = INFINITY, .max = -INFINITY};                                           \
        for (size_t r = 0; r < rows; r++, src += TM_STRIP_STRIDE) {                                \
            unsigned nonzero = 0, negative = 0;                                                    \
            for (size_t c = 0; c < TM_STRIP_SIDE; c++) {                                           \
                BITS bits;                                                                         \
                memcpy(&bits, &src[c], sizeof(bits));                                              \
                BITS magnitude = bits & ~((BITS)1 << (8 * sizeof(BITS) - 1));                      \
                nonzero |= (unsigned)(magnitude != 0) << c;                                        \
                negative |= (unsigned)(bits != magnitude) << c;                                    \
                if (magnitude < (exponent_mask))                                                   \
                    add_value(&all, c, (double)src[c]);                                            \
            }                                                                                      \
            ret->nonzero[r] = (uint16_t)nonzero;                                                   \
            ret->negative[r] = (uint16_t)negative;                                                 \
        }                                                                                          \
        finish(&all, ret);                                                                         \
    }

STRIP(tm_strip_f32_scalar, float, uint32_t, 0x7f800000u)
STRIP(tm_strip_f64_scalar, double, uint64_t, 0x7ff0000000000000u)

static void strip_half(tm_dtype dtype, const uint16_t *src, size_t rows, tm_strip *ret)
{
    float values[TM_STRIP_SIDE * TM_STRIP_STRIDE];
    for (size_t r = 0; r < rows; r++)
        tm_convert_get(TM_CPU_SCALAR)
            ->decode_f32[dtype](src + r * TM_STRIP_STRIDE, values + r * TM_STRIP_STRIDE,
                                TM_STRIP_SIDE);
    tm_strip_f32_scalar(values, rows, ret);
}

void tm_strip_bf16_scalar(const uint16_t *src, size_t rows, tm_strip *ret)
{
    strip_half(TM_BF16, src, rows, ret);
}

void tm_strip_f16_scalar(const uint16_t *src, size_t rows, tm_strip *ret)
{
    strip_half(TM_F16, src, rows, ret);
}

static const tm_scan_kernels scalar_table = {
    .strip_bf16 = tm_strip_bf16_scalar,
    .strip_f16 = tm_strip_f16_scalar,
    .strip_f32 = tm_strip_f32_scalar,
    .strip_f64 = tm_strip_f64_scalar,
};

const tm_scan_kernels *tm_scan_kernels_get(tm_cpu_level level)
{
    assert(tm_cpu_has(level));
    const tm_scan_kernels *table = NULL;
    if (level == TM_CPU_AVX2)
        table = tm_scan_kernels_avx2();
    else if (level == TM_CPU_AVX512)
        table = tm_scan_kernels_avx512();
    else if (level == TM_CPU_NEON)
        table = tm_scan_kernels_neon();
    return table ? table : &scalar_table;
}
