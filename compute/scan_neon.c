/* Strips with NEON: 16 columns are four vectors of values and eight of sums. */
#include "compute/scan_kernels.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <math.h>

enum {
    QUADS = 4 /* vectors of four columns */
};

typedef struct quads {
    uint32x4_t of[QUADS];
} quads;

/* A bit for each lane whose word in M is all ones. */
static inline unsigned mask_of(const quads *m)
{
    static const uint32_t weights[TM_STRIP_SIDE] = {1,   2,   4,    8,    16,   32,   64,    128,
                                                    256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
    uint32x4_t bits = vandq_u32(m->of[0], vld1q_u32(weights));
    for (int q = 1; q < QUADS; q++)
        bits = vorrq_u32(bits, vandq_u32(m->of[q], vld1q_u32(weights + 4 * q)));
    return vaddvq_u32(bits);
}

static inline double fold(const float64x2_t sum[2 * QUADS])
{
    float64x2_t a = vaddq_f64(vaddq_f64(sum[0], sum[4]), vaddq_f64(sum[2], sum[6]));
    float64x2_t b = vaddq_f64(vaddq_f64(sum[1], sum[5]), vaddq_f64(sum[3], sum[7]));
    float64x2_t two = vaddq_f64(a, b);
    return vgetq_lane_f64(two, 0) + vgetq_lane_f64(two, 1);
}

static inline void add_lanes(float64x2_t sum[2], float32x4_t v)
{
    sum[0] = vaddq_f64(sum[0], vcvt_f64_f32(vget_low_f32(v)));
    sum[1] = vaddq_f64(sum[1], vcvt_high_f64_f32(v));
}

/* The masks of row R; that of the finite lanes is also left in OK as words. */
static inline void put_masks(const float32x4_t v[QUADS], size_t r, tm_strip *ret, quads *ok)
{
    const float32x4_t inf = vdupq_n_f32(INFINITY);
    quads zero, negative;
    for (int q = 0; q < QUADS; q++) {
        zero.of[q] = vceqzq_f32(v[q]);
        negative.of[q] = vcltzq_s32(vreinterpretq_s32_f32(v[q]));
        ok->of[q] = vcaltq_f32(v[q], inf);
    }
    unsigned zeros = mask_of(&zero);
    ret->nonzero[r] = (uint16_t)~zeros;
    ret->zero_count += (unsigned)__builtin_popcount(zeros);
    ret->finite_count += (unsigned)__builtin_popcount(mask_of(ok));
    ret->negative[r] = (uint16_t)mask_of(&negative);
}

static inline void load_f32(const float *src, float32x4_t v[QUADS])
{
    for (int q = 0; q < QUADS; q++)
        v[q] = vld1q_f32(src + 4 * q);
}

static inline void load_bf16(const uint16_t *src, float32x4_t v[QUADS])
{
    for (int q = 0; q < QUADS; q++)
        v[q] = vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(src + 4 * q), 16));
}

static inline void load_f16(const uint16_t *src, float32x4_t v[QUADS])
{
    for (int q = 0; q < QUADS; q++)
        v[q] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(src + 4 * q)));
}

/* Defines the strip of elements of type T that LOAD widens to f32. */
#define STRIP(name, T, load)                                                                       \
    static void name(const T *src, size_t rows, tm_strip *ret)                                     \
    {                                                                                              \
        const float32x4_t inf = vdupq_n_f32(INFINITY), neg_inf = vdupq_n_f32(-INFINITY);           \
        float64x2_t sum[2 * QUADS];                                                                \
        for (int i = 0; i < 2 * QUADS; i++)                                                        \
            sum[i] = vdupq_n_f64(0);                                                               \
        ret->finite_count = ret->zero_count = 0;                                                   \
        float32x4_t min = inf, max = neg_inf;                                                      \
        for (size_t r = 0; r < rows; r++, src += TM_STRIP_STRIDE) {                                \
            float32x4_t v[QUADS];                                                                  \
            quads ok;                                                                              \
            load(src, v);                                                                          \
            put_masks(v, r, ret, &ok);                                                             \
            for (int q = 0; q < QUADS; q++) {                                                      \
                min = vminq_f32(min, vbslq_f32(ok.of[q], v[q], inf));                              \
                max = vmaxq_f32(max, vbslq_f32(ok.of[q], v[q], neg_inf));                          \
                add_lanes(sum + 2 * q, vbslq_f32(ok.of[q], v[q], vdupq_n_f32(0)));                 \
            }                                                                                      \
        }                                                                                          \
        ret->sum = fold(sum);                                                                      \
        ret->min = (double)vminvq_f32(min);                                                        \
        ret->max = (double)vmaxvq_f32(max);                                                        \
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

const tm_scan_kernels *tm_scan_kernels_neon(void)
{
    return &table;
}

#else

const tm_scan_kernels *tm_scan_kernels_neon(void)
{
    return NULL;
}

#endif
