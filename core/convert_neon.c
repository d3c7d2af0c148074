/* NEON conversions, by the same ways as the AVX2 ones: narrow floats through f16 or bf16. */
#include "core/convert_tables.h"

#if defined(__aarch64__)

#include <arm_neon.h>

#define WORD_FNUZ_NAN ((int16_t)0xff80)
#define F16_QUIET_NAN 0x7e00

static inline uint16x8_t load_u16(const uint8_t *p)
{
    return vreinterpretq_u16_u8(vld1q_u8(p));
}

static inline uint32x4_t load_u32(const uint8_t *p)
{
    return vreinterpretq_u32_u8(vld1q_u8(p));
}

static inline void store_bits(float *dst, uint32x4_t bits)
{
    vst1q_f32(dst, vreinterpretq_f32_u32(bits));
}

static inline void store_u16(float *dst, uint16x8_t v)
{
    vst1q_f32(dst, vcvtq_f32_u32(vmovl_u16(vget_low_u16(v))));
    vst1q_f32(dst + 4, vcvtq_f32_u32(vmovl_high_u16(v)));
}

static inline void store_i16(float *dst, int16x8_t v)
{
    vst1q_f32(dst, vcvtq_f32_s32(vmovl_s16(vget_low_s16(v))));
    vst1q_f32(dst + 4, vcvtq_f32_s32(vmovl_high_s16(v)));
}

static inline void store_f16(float *dst, uint16x8_t halves)
{
    float16x8_t v = vreinterpretq_f16_u16(halves);
    vst1q_f32(dst, vcvt_f32_f16(vget_low_f16(v)));
    vst1q_f32(dst + 4, vcvt_high_f32_f16(v));
}

/* SCALE is a power of two that keeps every value exact. */
static inline void store_f16_scaled(float *dst, uint16x8_t halves, float scale)
{
    float16x8_t v = vreinterpretq_f16_u16(halves);
    vst1q_f32(dst, vmulq_n_f32(vcvt_f32_f16(vget_low_f16(v)), scale));
    vst1q_f32(dst + 4, vmulq_n_f32(vcvt_high_f32_f16(v), scale));
}

static inline void store_bf16(float *dst, uint16x8_t words)
{
    store_bits(dst, vshll_n_u16(vget_low_u16(words), 16));
    store_bits(dst + 4, vshll_high_n_u16(words, 16));
}

static inline void block_bool(const uint8_t *src, float *dst)
{
    uint8x16_t v = vld1q_u8(src);
    uint8x16_t ones = vandq_u8(vtstq_u8(v, v), vdupq_n_u8(1));
    store_u16(dst, vmovl_u8(vget_low_u8(ones)));
    store_u16(dst + 8, vmovl_high_u8(ones));
}

static inline void block_u8(const uint8_t *src, float *dst)
{
    uint8x16_t v = vld1q_u8(src);
    store_u16(dst, vmovl_u8(vget_low_u8(v)));
    store_u16(dst + 8, vmovl_high_u8(v));
}

static inline void block_i8(const uint8_t *src, float *dst)
{
    int8x16_t v = vreinterpretq_s8_u8(vld1q_u8(src));
    store_i16(dst, vmovl_s8(vget_low_s8(v)));
    store_i16(dst + 8, vmovl_high_s8(v));
}

static inline void block_u16(const uint8_t *src, float *dst)
{
    store_u16(dst, load_u16(src));
}

static inline void block_i16(const uint8_t *src, float *dst)
{
    store_i16(dst, vreinterpretq_s16_u16(load_u16(src)));
}

static inline void block_u32(const uint8_t *src, float *dst)
{
    vst1q_f32(dst, vcvtq_f32_u32(load_u32(src)));
}

static inline void block_i32(const uint8_t *src, float *dst)
{
    vst1q_f32(dst, vcvtq_f32_s32(vreinterpretq_s32_u32(load_u32(src))));
}

/* E5M2 is the high byte of f16. */
static inline void store_high_bytes(float *dst, uint8x16_t v)
{
    store_f16(dst, vshll_n_u8(vget_low_u8(v), 8));
    store_f16(dst + 8, vshll_high_n_u8(v, 8));
}

static inline void block_e5m2(const uint8_t *src, float *dst)
{
    store_high_bytes(dst, vld1q_u8(src));
}

/* Every F4 value has an f16 whose low byte is 0: look up the high byte. */
static inline void block_f4(const uint8_t *src, float *dst)
{
    static const uint8_t high_bytes[16] = {0x00, 0x38, 0x3c, 0x3e, 0x40, 0x42, 0x44, 0x46,
                                           0x80, 0xb8, 0xbc, 0xbe, 0xc0, 0xc2, 0xc4, 0xc6};
    uint8x16_t lookup = vld1q_u8(high_bytes);
    uint8x16_t v = vld1q_u8(src);
    uint8x16_t even = vqtbl1q_u8(lookup, vandq_u8(v, vdupq_n_u8(15)));
    uint8x16_t odd = vqtbl1q_u8(lookup, vshrq_n_u8(v, 4));
    store_high_bytes(dst, vzip1q_u8(even, odd));
    store_high_bytes(dst + 16, vzip2q_u8(even, odd));
}

/* The 8-bit codes of a 4-bit exponent as f16: sign to bit 15, magnitude to the bits 7 to 13. */
static inline uint16x8_t halves_of_e4m3(int16x8_t extended)
{
    return vandq_u16(vreinterpretq_u16_s16(vshlq_n_s16(extended, 7)), vdupq_n_u16(0xbfff));
}

/* See AVX2's: 2^8 too small as f16, and NaN alone carries into bit 14. */
static inline void store_e4m3(float *dst, int8x8_t codes)
{
    uint16x8_t halves = halves_of_e4m3(vmovl_s8(codes));
    uint16x8_t carry = vandq_u16(vaddq_u16(halves, vdupq_n_u16(0x80)), vdupq_n_u16(0x4000));
    store_f16_scaled(dst, vorrq_u16(halves, carry), 256.0f);
}

/* f16's quiet NaN where a sign-extended FNUZ code is 0x80, else 0. */
static inline uint16x8_t fnuz_nan(int16x8_t extended)
{
    return vandq_u16(vceqq_s16(extended, vdupq_n_s16(WORD_FNUZ_NAN)), vdupq_n_u16(F16_QUIET_NAN));
}

static inline void store_e4m3fnuz(float *dst, int8x8_t codes)
{
    int16x8_t v = vmovl_s8(codes);
    store_f16_scaled(dst, vorrq_u16(halves_of_e4m3(v), fnuz_nan(v)), 128.0f);
}

/* See AVX2's: bias 16 is one exponent lower in f16, or a subnormal of it. */
static inline void store_e5m2fnuz(float *dst, int8x8_t codes)
{
    int16x8_t v = vmovl_s8(codes);
    int16x8_t magnitude = vandq_s16(v, vdupq_n_s16(0x7f));
    int16x8_t subnormal = vshlq_n_s16(magnitude, 7);
    int16x8_t normal = vsubq_s16(vshlq_n_s16(magnitude, 8), vdupq_n_s16(4 << 8));
    uint16x8_t sign = vandq_u16(vreinterpretq_u16_s16(v), vdupq_n_u16(0x8000));
    uint16x8_t halves = vorrq_u16(vreinterpretq_u16_s16(vmaxq_s16(subnormal, normal)), sign);
    store_f16(dst, vorrq_u16(halves, fnuz_nan(v)));
}

static inline void block_e4m3(const uint8_t *src, float *dst)
{
    int8x16_t v = vreinterpretq_s8_u8(vld1q_u8(src));
    store_e4m3(dst, vget_low_s8(v));
    store_e4m3(dst + 8, vget_high_s8(v));
}

static inline void block_e4m3fnuz(const uint8_t *src, float *dst)
{
    int8x16_t v = vreinterpretq_s8_u8(vld1q_u8(src));
    store_e4m3fnuz(dst, vget_low_s8(v));
    store_e4m3fnuz(dst + 8, vget_high_s8(v));
}

static inline void block_e5m2fnuz(const uint8_t *src, float *dst)
{
    int8x16_t v = vreinterpretq_s8_u8(vld1q_u8(src));
    store_e5m2fnuz(dst, vget_low_s8(v));
    store_e5m2fnuz(dst + 8, vget_high_s8(v));
}

/* As bf16: the code is the exponent; 0 and 255 alone have bit 6 too. */
static inline void store_e8m0(float *dst, uint8x8_t codes)
{
    uint8x8_t is_edge = vcle_u8(vadd_u8(codes, vdup_n_u8(1)), vdup_n_u8(1));
    uint16x8_t edge = vmovl_u8(vand_u8(is_edge, vdup_n_u8(0x40)));
    store_bf16(dst, vorrq_u16(vshll_n_u8(codes, 7), edge));
}

static inline void block_e8m0(const uint8_t *src, float *dst)
{
    uint8x16_t v = vld1q_u8(src);
    store_e8m0(dst, vget_low_u8(v));
    store_e8m0(dst + 8, vget_high_u8(v));
}

static inline void block_f16(const uint8_t *src, float *dst)
{
    store_f16(dst, load_u16(src));
}

static inline void block_bf16(const uint8_t *src, float *dst)
{
    uint16x8_t v = load_u16(src);
    uint16x8_t magnitude = vandq_u16(v, vdupq_n_u16(0x7fff));
    uint16x8_t is_nan = vcgtq_u16(magnitude, vdupq_n_u16(0x7f80));
    store_bf16(dst, vorrq_u16(v, vandq_u16(is_nan, vdupq_n_u16(0x40))));
}

static inline void block_f32(const uint8_t *src, float *dst)
{
    uint32x4_t v = load_u32(src);
    uint32x4_t magnitude = vandq_u32(v, vdupq_n_u32(0x7fffffff));
    uint32x4_t is_nan = vcgtq_u32(magnitude, vdupq_n_u32(0x7f800000));
    store_bits(dst, vorrq_u32(v, vandq_u32(is_nan, vdupq_n_u32(0x00400000))));
}

static inline void block_f64(const uint8_t *src, float *dst)
{
    float64x2_t first = vreinterpretq_f64_u8(vld1q_u8(src));
    float64x2_t last = vreinterpretq_f64_u8(vld1q_u8(src + 16));
    vst1q_f32(dst, vcvt_high_f32_f64(vcvt_f32_f64(first), last));
}

TM_DECODE_BLOCKS(static, neon, bool, 16, 16)
TM_DECODE_BLOCKS(static, neon, u8, 16, 16)
TM_DECODE_BLOCKS(static, neon, i8, 16, 16)
TM_DECODE_BLOCKS(static, neon, u16, 8, 16)
TM_DECODE_BLOCKS(static, neon, i16, 8, 16)
TM_DECODE_BLOCKS(static, neon, u32, 4, 16)
TM_DECODE_BLOCKS(static, neon, i32, 4, 16)
TM_DECODE_BLOCKS(static, neon, f4, 32, 16)
TM_DECODE_BLOCKS(static, neon, e5m2, 16, 16)
TM_DECODE_BLOCKS(static, neon, e4m3, 16, 16)
TM_DECODE_BLOCKS(static, neon, e8m0, 16, 16)
TM_DECODE_BLOCKS(static, neon, e4m3fnuz, 16, 16)
TM_DECODE_BLOCKS(static, neon, e5m2fnuz, 16, 16)
TM_DECODE_BLOCKS(static, neon, f16, 8, 16)
TM_DECODE_BLOCKS(static, neon, bf16, 8, 16)
TM_DECODE_BLOCKS(static, neon, f32, 4, 16)
TM_DECODE_BLOCKS(static, neon, f64, 4, 32)

/* NEON converts 64-bit integers only to f64, and that rounds twice; the scalar way rounds once. */
static const tm_convert table = {
    .decode_f32 =
        {
            [TM_BOOL] = tm_neon_bool,
            [TM_F4] = tm_neon_f4,
            [TM_U8] = tm_neon_u8,
            [TM_I8] = tm_neon_i8,
            [TM_F8_E5M2] = tm_neon_e5m2,
            [TM_F8_E4M3] = tm_neon_e4m3,
            [TM_F8_E8M0] = tm_neon_e8m0,
            [TM_F8_E4M3FNUZ] = tm_neon_e4m3fnuz,
            [TM_F8_E5M2FNUZ] = tm_neon_e5m2fnuz,
            [TM_I16] = tm_neon_i16,
            [TM_U16] = tm_neon_u16,
            [TM_F16] = tm_neon_f16,
            [TM_BF16] = tm_neon_bf16,
            [TM_I32] = tm_neon_i32,
            [TM_U32] = tm_neon_u32,
            [TM_F32] = tm_neon_f32,
            [TM_F64] = tm_neon_f64,
            [TM_I64] = tm_scalar_i64,
            [TM_U64] = tm_scalar_u64,
        },
};

const tm_convert *tm_convert_neon(void)
{
    return &table;
}

#else

const tm_convert *tm_convert_neon(void)
{
    return NULL;
}

#endif
