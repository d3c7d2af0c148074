/*
 * AVX2 conversions. Narrow floats go through f16, which F16C widens eight at a time, or through
 * bf16, whose bits are the top half of f32's; both hold every value of the types sent there.
 */
#include "core/convert_tables.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,fma,f16c")))

/* f16's sign bit where an 8-bit code was sign-extended to 16, and the code's magnitude. */
#define WORD_FNUZ_NAN ((short)0xff80)
#define F16_QUIET_NAN 0x7e00

static inline AVX2 __m128i load_8(const void *p)
{
    return _mm_loadl_epi64(p);
}

static inline AVX2 __m128i load_16(const void *p)
{
    return _mm_loadu_si128(p);
}

static inline AVX2 __m256i load_32(const void *p)
{
    return _mm256_loadu_si256(p);
}

static inline AVX2 void store_bits(float *dst, __m256i bits)
{
    _mm256_storeu_si256((void *)dst, bits);
}

/* 16 f16 in order; SCALE is a power of two that keeps every value exact. */
static inline AVX2 void store_f16_scaled(float *dst, __m256i halves, float scale)
{
    __m256 factor = _mm256_set1_ps(scale);
    __m256 low = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
    __m256 high = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
    _mm256_storeu_ps(dst, _mm256_mul_ps(low, factor));
    _mm256_storeu_ps(dst + 8, _mm256_mul_ps(high, factor));
}

static inline AVX2 void store_f16(float *dst, __m256i halves)
{
    _mm256_storeu_ps(dst, _mm256_cvtph_ps(_mm256_castsi256_si128(halves)));
    _mm256_storeu_ps(dst + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)));
}

/* 16 bf16 in order: unpacking works within 128-bit halves, so the middle quarters change places. */
static inline AVX2 void store_bf16(float *dst, __m256i words)
{
    __m256i zero = _mm256_setzero_si256();
    __m256i spread = _mm256_permute4x64_epi64(words, 0xd8);
    store_bits(dst, _mm256_unpacklo_epi16(zero, spread));
    store_bits(dst + 8, _mm256_unpackhi_epi16(zero, spread));
}

static inline AVX2 void store_integers(float *dst, __m256i integers)
{
    _mm256_storeu_ps(dst, _mm256_cvtepi32_ps(integers));
}

static inline AVX2 void block_bool(const uint8_t *src, float *dst)
{
    __m256i is_zero = _mm256_cmpeq_epi32(_mm256_cvtepu8_epi32(load_8(src)), _mm256_setzero_si256());
    _mm256_storeu_ps(dst, _mm256_andnot_ps(_mm256_castsi256_ps(is_zero), _mm256_set1_ps(1.0f)));
}

static inline AVX2 void block_u8(const uint8_t *src, float *dst)
{
    store_integers(dst, _mm256_cvtepu8_epi32(load_8(src)));
}

static inline AVX2 void block_i8(const uint8_t *src, float *dst)
{
    store_integers(dst, _mm256_cvtepi8_epi32(load_8(src)));
}

static inline AVX2 void block_u16(const uint8_t *src, float *dst)
{
    store_integers(dst, _mm256_cvtepu16_epi32(load_16(src)));
}

static inline AVX2 void block_i16(const uint8_t *src, float *dst)
{
    store_integers(dst, _mm256_cvtepi16_epi32(load_16(src)));
}

static inline AVX2 void block_i32(const uint8_t *src, float *dst)
{
    store_integers(dst, load_32(src));
}

/* Both halves are exact in f32, and so is the high one times 2^16: the sum alone rounds. */
static inline AVX2 void block_u32(const uint8_t *src, float *dst)
{
    __m256i v = load_32(src);
    __m256 low = _mm256_cvtepi32_ps(_mm256_and_si256(v, _mm256_set1_epi32(0xffff)));
    __m256 high = _mm256_cvtepi32_ps(_mm256_srli_epi32(v, 16));
    _mm256_storeu_ps(dst, _mm256_add_ps(_mm256_mul_ps(high, _mm256_set1_ps(65536.0f)), low));
}

/* Every F4 value has an f16 whose low byte is 0: look up the high byte. */
static inline AVX2 void block_f4(const uint8_t *src, float *dst)
{
    const __m128i high_bytes =
        _mm_setr_epi8(0x00, 0x38, 0x3c, 0x3e, 0x40, 0x42, 0x44, 0x46, (char)0x80, (char)0xb8,
                      (char)0xbc, (char)0xbe, (char)0xc0, (char)0xc2, (char)0xc4, (char)0xc6);
    const __m128i nibble = _mm_set1_epi8(15);
    __m128i v = load_16(src);
    __m128i even = _mm_shuffle_epi8(high_bytes, _mm_and_si128(v, nibble));
    __m128i odd = _mm_shuffle_epi8(high_bytes, _mm_and_si128(_mm_srli_epi16(v, 4), nibble));
    __m128i first = _mm_unpacklo_epi8(even, odd);
    __m128i last = _mm_unpackhi_epi8(even, odd);
    __m128i zero = _mm_setzero_si128();
    _mm256_storeu_ps(dst, _mm256_cvtph_ps(_mm_unpacklo_epi8(zero, first)));
    _mm256_storeu_ps(dst + 8, _mm256_cvtph_ps(_mm_unpackhi_epi8(zero, first)));
    _mm256_storeu_ps(dst + 16, _mm256_cvtph_ps(_mm_unpacklo_epi8(zero, last)));
    _mm256_storeu_ps(dst + 24, _mm256_cvtph_ps(_mm_unpackhi_epi8(zero, last)));
}

/* E5M2 is the high byte of f16. */
static inline AVX2 void block_e5m2(const uint8_t *src, float *dst)
{
    __m128i v = load_16(src);
    __m128i zero = _mm_setzero_si128();
    _mm256_storeu_ps(dst, _mm256_cvtph_ps(_mm_unpacklo_epi8(zero, v)));
    _mm256_storeu_ps(dst + 8, _mm256_cvtph_ps(_mm_unpackhi_epi8(zero, v)));
}

/* The 8-bit codes of a 4-bit exponent as f16: sign to bit 15, magnitude to the bits 7 to 13. */
static inline AVX2 __m256i halves_of_e4m3(__m256i extended)
{
    return _mm256_and_si256(_mm256_slli_epi16(extended, 7), _mm256_set1_epi16((short)0xbfff));
}

/*
 * As f16, an E4M3 is 2^8 too small (bias 15, not 7), subnormals too. Only NaN, magnitude 0x7f,
 * carries into bit 14 when a unit is added; with that bit set its exponent is f16's of a NaN.
 */
static inline AVX2 void block_e4m3(const uint8_t *src, float *dst)
{
    __m256i halves = halves_of_e4m3(_mm256_cvtepi8_epi16(load_16(src)));
    __m256i carry = _mm256_and_si256(_mm256_add_epi16(halves, _mm256_set1_epi16(0x80)),
                                     _mm256_set1_epi16(0x4000));
    store_f16_scaled(dst, _mm256_or_si256(halves, carry), 256.0f);
}

/* f16's quiet NaN where a sign-extended FNUZ code is 0x80, else 0. */
static inline AVX2 __m256i fnuz_nan(__m256i extended)
{
    return _mm256_and_si256(_mm256_cmpeq_epi16(extended, _mm256_set1_epi16(WORD_FNUZ_NAN)),
                            _mm256_set1_epi16(F16_QUIET_NAN));
}

static inline AVX2 void block_e4m3fnuz(const uint8_t *src, float *dst)
{
    __m256i v = _mm256_cvtepi8_epi16(load_16(src));
    store_f16_scaled(dst, _mm256_or_si256(halves_of_e4m3(v), fnuz_nan(v)), 128.0f);
}

/*
 * E5M2FNUZ has bias 16, so its f16 is one exponent lower: the magnitude less 4, shifted by 8. Below
 * 8 that is a subnormal of f16, in units of 2^-17: the magnitude shifted by 7. The greater of the
 * two is the right one on both sides.
 */
static inline AVX2 void block_e5m2fnuz(const uint8_t *src, float *dst)
{
    __m256i v = _mm256_cvtepi8_epi16(load_16(src));
    __m256i magnitude = _mm256_and_si256(v, _mm256_set1_epi16(0x7f));
    __m256i subnormal = _mm256_slli_epi16(magnitude, 7);
    __m256i normal = _mm256_sub_epi16(_mm256_slli_epi16(magnitude, 8), _mm256_set1_epi16(4 << 8));
    __m256i sign = _mm256_and_si256(v, _mm256_set1_epi16((short)0x8000));
    __m256i halves = _mm256_or_si256(_mm256_max_epi16(subnormal, normal), sign);
    store_f16(dst, _mm256_or_si256(halves, fnuz_nan(v)));
}

/* As bf16: the code is the exponent. 0 and 255 alone, 1 and 256 when increased, have bit 6 too. */
static inline AVX2 void block_e8m0(const uint8_t *src, float *dst)
{
    __m256i v = _mm256_cvtepu8_epi16(load_16(src));
    __m256i middle =
        _mm256_and_si256(_mm256_add_epi16(v, _mm256_set1_epi16(1)), _mm256_set1_epi16(0xfe));
    __m256i is_edge = _mm256_cmpeq_epi16(middle, _mm256_setzero_si256());
    __m256i edge = _mm256_and_si256(is_edge, _mm256_set1_epi16(0x40));
    store_bf16(dst, _mm256_or_si256(_mm256_slli_epi16(v, 7), edge));
}

static inline AVX2 void block_f16(const uint8_t *src, float *dst)
{
    _mm256_storeu_ps(dst, _mm256_cvtph_ps(load_16(src)));
}

static inline AVX2 void block_bf16(const uint8_t *src, float *dst)
{
    __m256i v = load_32(src);
    __m256i magnitude = _mm256_and_si256(v, _mm256_set1_epi16(0x7fff));
    __m256i is_nan = _mm256_cmpgt_epi16(magnitude, _mm256_set1_epi16(0x7f80));
    __m256i quiet = _mm256_and_si256(is_nan, _mm256_set1_epi16(0x40));
    store_bf16(dst, _mm256_or_si256(v, quiet));
}

static inline AVX2 void block_f32(const uint8_t *src, float *dst)
{
    __m256i v = load_32(src);
    __m256i magnitude = _mm256_and_si256(v, _mm256_set1_epi32(0x7fffffff));
    __m256i is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
    __m256i quiet = _mm256_and_si256(is_nan, _mm256_set1_epi32(0x00400000));
    store_bits(dst, _mm256_or_si256(v, quiet));
}

static inline AVX2 void block_f64(const uint8_t *src, float *dst)
{
    __m256d first = _mm256_castsi256_pd(load_32(src));
    __m256d last = _mm256_castsi256_pd(load_32(src + 32));
    _mm_storeu_ps(dst, _mm256_cvtpd_ps(first));
    _mm_storeu_ps(dst + 4, _mm256_cvtpd_ps(last));
}

TM_DECODE_BLOCKS(AVX2, avx2, bool, 8, 8)
TM_DECODE_BLOCKS(AVX2, avx2, u8, 8, 8)
TM_DECODE_BLOCKS(AVX2, avx2, i8, 8, 8)
TM_DECODE_BLOCKS(AVX2, avx2, u16, 8, 16)
TM_DECODE_BLOCKS(AVX2, avx2, i16, 8, 16)
TM_DECODE_BLOCKS(static AVX2, avx2, u32, 8, 32)
TM_DECODE_BLOCKS(AVX2, avx2, i32, 8, 32)
TM_DECODE_BLOCKS(AVX2, avx2, f4, 32, 16)
TM_DECODE_BLOCKS(AVX2, avx2, e5m2, 16, 16)
TM_DECODE_BLOCKS(AVX2, avx2, e4m3, 16, 16)
TM_DECODE_BLOCKS(AVX2, avx2, e8m0, 16, 16)
TM_DECODE_BLOCKS(AVX2, avx2, e4m3fnuz, 16, 16)
TM_DECODE_BLOCKS(AVX2, avx2, e5m2fnuz, 16, 16)
TM_DECODE_BLOCKS(AVX2, avx2, f16, 8, 16)
TM_DECODE_BLOCKS(AVX2, avx2, bf16, 16, 32)
TM_DECODE_BLOCKS(AVX2, avx2, f32, 8, 32)
TM_DECODE_BLOCKS(AVX2, avx2, f64, 8, 64)

/* AVX2 has no conversion of 64-bit integers that rounds once; the scalar one is. */
static const tm_convert table = {
    .decode_f32 =
        {
            [TM_BOOL] = tm_avx2_bool,
            [TM_F4] = tm_avx2_f4,
            [TM_U8] = tm_avx2_u8,
            [TM_I8] = tm_avx2_i8,
            [TM_F8_E5M2] = tm_avx2_e5m2,
            [TM_F8_E4M3] = tm_avx2_e4m3,
            [TM_F8_E8M0] = tm_avx2_e8m0,
            [TM_F8_E4M3FNUZ] = tm_avx2_e4m3fnuz,
            [TM_F8_E5M2FNUZ] = tm_avx2_e5m2fnuz,
            [TM_I16] = tm_avx2_i16,
            [TM_U16] = tm_avx2_u16,
            [TM_F16] = tm_avx2_f16,
            [TM_BF16] = tm_avx2_bf16,
            [TM_I32] = tm_avx2_i32,
            [TM_U32] = tm_avx2_u32,
            [TM_F32] = tm_avx2_f32,
            [TM_F64] = tm_avx2_f64,
            [TM_I64] = tm_scalar_i64,
            [TM_U64] = tm_scalar_u64,
        },
};

const tm_convert *tm_convert_avx2(void)
{
    return &table;
}

#else

const tm_convert *tm_convert_avx2(void)
{
    return NULL;
}

#endif
