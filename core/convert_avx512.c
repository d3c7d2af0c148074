/*
 * AVX-512 conversions: only of the integers for which it has an instruction that AVX2 lacks.
 * The other types are bound by memory with AVX2 already.
 */
#include "core/convert_tables.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))

static inline AVX512 void block_u32(const uint8_t *src, float *dst)
{
    _mm512_storeu_ps(dst, _mm512_cvtepu32_ps(_mm512_loadu_si512((const void *)src)));
}

static inline AVX512 void block_i64(const uint8_t *src, float *dst)
{
    _mm256_storeu_ps(dst, _mm512_cvtepi64_ps(_mm512_loadu_si512((const void *)src)));
}

static inline AVX512 void block_u64(const uint8_t *src, float *dst)
{
    _mm256_storeu_ps(dst, _mm512_cvtepu64_ps(_mm512_loadu_si512((const void *)src)));
}

TM_DECODE_BLOCKS(static AVX512, avx512, u32, 16, 64)
TM_DECODE_BLOCKS(static AVX512, avx512, i64, 8, 64)
TM_DECODE_BLOCKS(static AVX512, avx512, u64, 8, 64)

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
            [TM_U32] = tm_avx512_u32,
            [TM_F32] = tm_avx2_f32,
            [TM_F64] = tm_avx2_f64,
            [TM_I64] = tm_avx512_i64,
            [TM_U64] = tm_avx512_u64,
        },
};

const tm_convert *tm_convert_avx512(void)
{
    return &table;
}

#else

const tm_convert *tm_convert_avx512(void)
{
    return NULL;
}

#endif
