/* Strips with AVX-512: 16 columns are one vector of values, and masks cost nothing. */
#include "compute/scan_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,popcnt")))

static inline AVX512 double fold(__m512d low, __m512d high)
{
    __m512d eight = _mm512_add_pd(low, high);
    __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

static inline AVX512 __m512 load_f32(const float *src)
{
    return _mm512_loadu_ps(src);
}

static inline AVX512 __m512 load_bf16(const uint16_t *src)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)src));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

static inline AVX512 __m512 load_f16(const uint16_t *src)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)src));
}

/* Defines the strip of elements of type T that LOAD widens to f32. */
#define STRIP(name, T, load)                                                                       \
    static AVX512 void name(const T *src, size_t rows, tm_strip *ret)                              \
    {                                                                                              \
        const __m512 zero = _mm512_setzero_ps(), inf = _mm512_set1_ps(INFINITY);                   \
        __m512d sum_low = _mm512_setzero_pd(), sum_high = sum_low;                                 \
        unsigned finite_count = 0, nonzero_count = 0;                                              \
        __m512 min = inf, max = _mm512_set1_ps(-INFINITY);                                         \
        for (size_t r = 0; r < rows; r++, src += TM_STRIP_STRIDE) {                                \
            __m512 v = load(src);                                                                  \
            __m512 size = _mm512_abs_ps(v);                                                        \
            __mmask16 finite = _mm512_cmp_ps_mask(size, inf, _CMP_LT_OQ);                          \
            __mmask16 nonzero = _mm512_cmp_ps_mask(v, zero, _CMP_NEQ_UQ);                          \
            ret->nonzero[r] = nonzero;                                                             \
            nonzero_count += (unsigned)__builtin_popcount(nonzero);                                \
            finite_count += (unsigned)__builtin_popcount(finite);                                  \
            ret->negative[r] = _mm512_movepi32_mask(_mm512_castps_si512(v));                       \
            min = _mm512_mask_min_ps(min, finite, min, v);                                         \
            max = _mm512_mask_max_ps(max, finite, max, v);                                         \
            v = _mm512_maskz_mov_ps(finite, v);                                                    \
            __m256 low = _mm512_castps512_ps256(v), high = _mm512_extractf32x8_ps(v, 1);           \
            sum_low = _mm512_add_pd(sum_low, _mm512_cvtps_pd(low));                                \
            sum_high = _mm512_add_pd(sum_high, _mm512_cvtps_pd(high));                             \
        }                                                                                          \
        ret->finite_count = finite_count;                                                          \
        ret->zero_count = (unsigned)rows * TM_STRIP_SIDE - nonzero_count;                          \
        ret->sum = fold(sum_low, sum_high);                                                        \
        ret->min = (double)_mm512_reduce_min_ps(min);                                              \
        ret->max = (double)_mm512_reduce_max_ps(max);                                              \
    }

STRIP(strip_bf16, uint16_t, load_bf16)
STRIP(strip_f16, uint16_t, load_f16)
STRIP(strip_f32, float, load_f32)

static const tm_scan_kernels table = {
    .strip_bf16 = strip_bf16,
    .strip_f16 = strip_f16,
    .strip_f32 = strip_f32,
    .strip_f64 = tm_strip_f64_scalar,
};

const tm_scan_kernels *tm_scan_kernels_avx512(void)
{
    return &table;
}

#else

const tm_scan_kernels *tm_scan_kernels_avx512(void)
{
    return NULL;
}

#endif
