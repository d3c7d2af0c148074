/* Strips with AVX2: 16 columns are two vectors of values and four of sums. */
#include "compute/scan_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>

#define AVX2 __attribute__((target("avx2,fma,f16c,popcnt")))
/* Always: totals live in registers only where no call takes their address. */
#define AVX2_INLINE static inline AVX2 __attribute__((always_inline))

enum {
    ALL_LANES = 0xffff
};

AVX2_INLINE __m256i load_row(const uint16_t *src)
{
    return _mm256_loadu_si256((const void *)src);
}

AVX2_INLINE unsigned mask_of(__m256 low, __m256 high)
{
    return (unsigned)_mm256_movemask_ps(low) | (unsigned)_mm256_movemask_ps(high) << 8;
}

/* Lanes 0 to 7 in SUM[0] and SUM[1], 8 to 15 in SUM[2] and SUM[3]. */
AVX2_INLINE double fold(const __m256d sum[4])
{
    __m256d quarter = _mm256_add_pd(_mm256_add_pd(sum[0], sum[2]), _mm256_add_pd(sum[1], sum[3]));
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(quarter), _mm256_extractf128_pd(quarter, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

AVX2_INLINE double lowest(__m256 v)
{
    __m128 four = _mm_min_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    __m128 two = _mm_min_ps(four, _mm_movehl_ps(four, four));
    return (double)_mm_cvtss_f32(_mm_min_ss(two, _mm_movehdup_ps(two)));
}

AVX2_INLINE double highest(__m256 v)
{
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return (double)_mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

AVX2_INLINE void add_lanes(__m256d sum[2], __m256 v)
{
    sum[0] = _mm256_add_pd(sum[0], _mm256_cvtps_pd(_mm256_castps256_ps128(v)));
    sum[1] = _mm256_add_pd(sum[1], _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)));
}

/* What a strip adds up to so far. */
typedef struct totals {
    __m256d sum[4];
    __m256 min, max;
} totals;

AVX2_INLINE totals no_totals(void)
{
    return (totals){.min = _mm256_set1_ps(INFINITY), .max = _mm256_set1_ps(-INFINITY)};
}

/* Columns 0 to 7 and 8 to 15 of a row, as floats. */
typedef struct row {
    __m256 a, b;
} row;

/* Adds a row whose values are all finite. */
AVX2_INLINE void add_row(totals *all, row v)
{
    all->min = _mm256_min_ps(all->min, _mm256_min_ps(v.a, v.b));
    all->max = _mm256_max_ps(all->max, _mm256_max_ps(v.a, v.b));
    add_lanes(all->sum, v.a);
    add_lanes(all->sum + 2, v.b);
}

/* Adds a row, whatever its values. */
AVX2_INLINE void add_marred_row(totals *all, row v, tm_strip *ret)
{
    const __m256 inf = _mm256_set1_ps(INFINITY), neg_inf = _mm256_set1_ps(-INFINITY);
    const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    row size = {_mm256_and_ps(v.a, magnitude), _mm256_and_ps(v.b, magnitude)};
    row ok = {_mm256_cmp_ps(size.a, inf, _CMP_LT_OQ), _mm256_cmp_ps(size.b, inf, _CMP_LT_OQ)};
    row low = {_mm256_blendv_ps(inf, v.a, ok.a), _mm256_blendv_ps(inf, v.b, ok.b)};
    row high = {_mm256_blendv_ps(neg_inf, v.a, ok.a), _mm256_blendv_ps(neg_inf, v.b, ok.b)};
    all->min = _mm256_min_ps(all->min, _mm256_min_ps(low.a, low.b));
    all->max = _mm256_max_ps(all->max, _mm256_max_ps(high.a, high.b));
    add_lanes(all->sum, _mm256_and_ps(v.a, ok.a));
    add_lanes(all->sum + 2, _mm256_and_ps(v.b, ok.b));
    ret->finite_count += (unsigned)__builtin_popcount(mask_of(ok.a, ok.b));
}

AVX2_INLINE void finish(const totals *all, tm_strip *ret)
{
    ret->sum = fold(all->sum);
    ret->min = lowest(all->min);
    ret->max = highest(all->max);
}

/* The masks of row R; returns the finite lanes above the nonzero ones. */
AVX2_INLINE unsigned masks_f32(const float *src, size_t r, tm_strip *ret)
{
    const __m256 zero = _mm256_setzero_ps(), inf = _mm256_set1_ps(INFINITY);
    const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    __m256 a = _mm256_loadu_ps(src), b = _mm256_loadu_ps(src + 8);
    unsigned finite = mask_of(_mm256_cmp_ps(_mm256_and_ps(a, magnitude), inf, _CMP_LT_OQ),
                              _mm256_cmp_ps(_mm256_and_ps(b, magnitude), inf, _CMP_LT_OQ));
    unsigned nonzero =
        mask_of(_mm256_cmp_ps(a, zero, _CMP_NEQ_UQ), _mm256_cmp_ps(b, zero, _CMP_NEQ_UQ));
    ret->negative[r] = (uint16_t)mask_of(a, b);
    return finite << TM_STRIP_SIDE | nonzero;
}

/* By whole numbers of 16 bits: one move gives both masks. */
AVX2_INLINE unsigned masks_half(const uint16_t *src, short inf_bits)
{
    const __m256i zero = _mm256_setzero_si256(), inf = _mm256_set1_epi16(inf_bits);
    __m256i size = _mm256_and_si256(load_row(src), _mm256_set1_epi16(0x7fff));
    __m256i both =
        _mm256_packs_epi16(_mm256_cmpgt_epi16(size, zero), _mm256_cmpgt_epi16(inf, size));
    return (unsigned)_mm256_movemask_epi8(_mm256_permute4x64_epi64(both, 0xd8));
}

AVX2_INLINE unsigned masks_bf16(const uint16_t *src, size_t r, tm_strip *ret)
{
    (void)r;
    (void)ret;
    return masks_half(src, 0x7f80);
}

AVX2_INLINE unsigned masks_f16(const uint16_t *src, size_t r, tm_strip *ret)
{
    (void)r;
    (void)ret;
    return masks_half(src, 0x7c00);
}

AVX2_INLINE row widen_f32(const float *src)
{
    return (row){_mm256_loadu_ps(src), _mm256_loadu_ps(src + 8)};
}

AVX2_INLINE row widen_bf16(const uint16_t *src)
{
    __m256i zero = _mm256_setzero_si256();
    __m256i spread = _mm256_permute4x64_epi64(load_row(src), 0xd8);
    return (row){_mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, spread)),
                 _mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, spread))};
}

AVX2_INLINE row widen_f16(const uint16_t *src)
{
    __m256i words = load_row(src);
    return (row){_mm256_cvtph_ps(_mm256_castsi256_si128(words)),
                 _mm256_cvtph_ps(_mm256_extracti128_si256(words, 1))};
}

/*
 * Defines the strip of a type T: first the masks, then by what they say the sums, so that either
 * loop has registers enough and neither branches by what it sees.
 */
#define STRIP(type, T)                                                                             \
    static AVX2 void marred_##type(const T *src, size_t rows, tm_strip *ret)                       \
    {                                                                                              \
        totals all = no_totals();                                                                  \
        ret->finite_count = 0;                                                                     \
        for (size_t r = 0; r < rows; r++, src += TM_STRIP_STRIDE)                                  \
            add_marred_row(&all, widen_##type(src), ret);                                          \
        finish(&all, ret);                                                                         \
    }                                                                                              \
                                                                                                   \
    static AVX2 void strip_##type(const T *src, size_t rows, tm_strip *ret)                        \
    {                                                                                              \
        unsigned every = ~0u, nonzero = 0;                                                         \
        for (size_t r = 0; r < rows; r++) {                                                        \
            unsigned masks = masks_##type(src + r * TM_STRIP_STRIDE, r, ret);                      \
            ret->nonzero[r] = (uint16_t)masks;                                                     \
            nonzero += (unsigned)__builtin_popcount(masks & ALL_LANES);                            \
            every &= masks;                                                                        \
        }                                                                                          \
        ret->zero_count = (unsigned)rows * TM_STRIP_SIDE - nonzero;                                \
        if (every >> TM_STRIP_SIDE != ALL_LANES) {                                                 \
            marred_##type(src, rows, ret);                                                         \
            return;                                                                                \
        }                                                                                          \
        totals all = no_totals();                                                                  \
        ret->finite_count = (unsigned)rows * TM_STRIP_SIDE;                                        \
        for (size_t r = 0; r < rows; r++, src += TM_STRIP_STRIDE)                                  \
            add_row(&all, widen_##type(src));                                                      \
        finish(&all, ret);                                                                         \
    }

STRIP(f32, float)
STRIP(bf16, uint16_t)
STRIP(f16, uint16_t)

/* Wide types are bound by their exact sums; a faster strip would not show. */
static const tm_scan_kernels table = {
    .strip_bf16 = strip_bf16,
    .strip_f16 = strip_f16,
    .strip_f32 = strip_f32,
    .strip_f64 = tm_strip_f64_scalar,
};

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
