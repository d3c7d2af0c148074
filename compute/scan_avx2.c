/* The f32 strip with AVX2: 16 columns are two vectors of values and four of sums. */
#include "compute/scan_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>

#define AVX2 __attribute__((target("avx2,fma,f16c")))

enum {
    ALL_LANES = 0xffff
};

static inline AVX2 unsigned mask_of(__m256 low, __m256 high)
{
    return (unsigned)_mm256_movemask_ps(low) | (unsigned)_mm256_movemask_ps(high) << 8;
}

/* Lanes 0 to 7 in SUM[0] and SUM[1], 8 to 15 in SUM[2] and SUM[3]. */
static inline AVX2 double fold(const __m256d sum[4])
{
    __m256d quarter = _mm256_add_pd(_mm256_add_pd(sum[0], sum[2]), _mm256_add_pd(sum[1], sum[3]));
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(quarter), _mm256_extractf128_pd(quarter, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

static inline AVX2 double lowest(__m256 v)
{
    __m128 four = _mm_min_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    __m128 two = _mm_min_ps(four, _mm_movehl_ps(four, four));
    return (double)_mm_cvtss_f32(_mm_min_ss(two, _mm_movehdup_ps(two)));
}

static inline AVX2 double highest(__m256 v)
{
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return (double)_mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

static inline AVX2 void add_lanes(__m256d sum[2], __m256d sumsq[2], __m256 v)
{
    __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
    __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
    sum[0] = _mm256_add_pd(sum[0], low);
    sum[1] = _mm256_add_pd(sum[1], high);
    sumsq[0] = _mm256_add_pd(sumsq[0], _mm256_mul_pd(low, low));
    sumsq[1] = _mm256_add_pd(sumsq[1], _mm256_mul_pd(high, high));
}

static AVX2 void strip_f32(const float *src, size_t rows, tm_strip *ret)
{
    const __m256 zero = _mm256_setzero_ps();
    const __m256 inf = _mm256_set1_ps(INFINITY), neg_inf = _mm256_set1_ps(-INFINITY);
    const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    __m256d sum[4] = {0}, sumsq[4] = {0};
    __m256 min = inf, max = neg_inf;
    for (size_t r = 0; r < rows; r++, src += TM_STRIP_STRIDE) {
        __m256 a = _mm256_loadu_ps(src), b = _mm256_loadu_ps(src + 8);
        __m256 low_a = a, low_b = b, high_a = a, high_b = b;
        __m256 size_a = _mm256_and_ps(a, magnitude), size_b = _mm256_and_ps(b, magnitude);
        __m256 ok_a = _mm256_cmp_ps(size_a, inf, _CMP_LT_OQ);
        __m256 ok_b = _mm256_cmp_ps(size_b, inf, _CMP_LT_OQ);
        unsigned finite = mask_of(ok_a, ok_b), infinite = 0;
        ret->nonzero[r] = (uint16_t)mask_of(_mm256_cmp_ps(a, zero, _CMP_NEQ_UQ),
                                            _mm256_cmp_ps(b, zero, _CMP_NEQ_UQ));
        ret->negative[r] = (uint16_t)mask_of(a, b);
        if (finite != ALL_LANES) {
            infinite = mask_of(_mm256_cmp_ps(size_a, inf, _CMP_EQ_OQ),
                               _mm256_cmp_ps(size_b, inf, _CMP_EQ_OQ));
            low_a = _mm256_blendv_ps(inf, a, ok_a);
            low_b = _mm256_blendv_ps(inf, b, ok_b);
            high_a = _mm256_blendv_ps(neg_inf, a, ok_a);
            high_b = _mm256_blendv_ps(neg_inf, b, ok_b);
            a = _mm256_and_ps(a, ok_a);
            b = _mm256_and_ps(b, ok_b);
        }
        ret->finite[r] = (uint16_t)finite;
        ret->infinite[r] = (uint16_t)infinite;
        min = _mm256_min_ps(min, _mm256_min_ps(low_a, low_b));
        max = _mm256_max_ps(max, _mm256_max_ps(high_a, high_b));
        add_lanes(sum, sumsq, a);
        add_lanes(sum + 2, sumsq + 2, b);
    }
    ret->sum = fold(sum);
    ret->sumsq = fold(sumsq);
    ret->min = lowest(min);
    ret->max = highest(max);
}

/* Wide types are bound by their exact sums; a faster strip would not show. */
static const tm_scan_kernels table = {strip_f32, tm_strip_f64_scalar};

const tm_scan_kernels *tm_scan_kernels_avx2(void)
{
    return &table;
}

#else

const tm_scan_kernels *tm_scan_kernels_avx2(void)
{
    return NULL;
}

#endif
