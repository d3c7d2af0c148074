/*
 * What the levels of core/convert.c share: the functions that a level may take from the one below,
 * the bits of a float, and the loop around a block of elements. Internal to core/convert*.c.
 */
#ifndef TM_CORE_CONVERT_TABLES_H
#define TM_CORE_CONVERT_TABLES_H

#include "core/convert.h"

/* The specification, for every type that has values: also the tail of every SIMD loop. */
tm_decode_f32_fn tm_scalar_bool, tm_scalar_u8, tm_scalar_i8, tm_scalar_i16, tm_scalar_u16;
tm_decode_f32_fn tm_scalar_i32, tm_scalar_u32, tm_scalar_i64, tm_scalar_u64;
tm_decode_f32_fn tm_scalar_f4, tm_scalar_e5m2, tm_scalar_e4m3, tm_scalar_e8m0;
tm_decode_f32_fn tm_scalar_e4m3fnuz, tm_scalar_e5m2fnuz;
tm_decode_f32_fn tm_scalar_f16, tm_scalar_bf16, tm_scalar_f32, tm_scalar_f64;

/* x86-64 only: AVX-512 has no better way for most types. */
tm_decode_f32_fn tm_avx2_bool, tm_avx2_u8, tm_avx2_i8, tm_avx2_i16, tm_avx2_u16, tm_avx2_i32;
tm_decode_f32_fn tm_avx2_f4, tm_avx2_e5m2, tm_avx2_e4m3, tm_avx2_e8m0;
tm_decode_f32_fn tm_avx2_e4m3fnuz, tm_avx2_e5m2fnuz;
tm_decode_f32_fn tm_avx2_f16, tm_avx2_bf16, tm_avx2_f32, tm_avx2_f64;

/* The whole table of a level; NULL where the build is for another architecture. */
const tm_convert *tm_convert_avx2(void);
const tm_convert *tm_convert_avx512(void);
const tm_convert *tm_convert_neon(void);

/*
 * Defines tm_LEVEL_TYPE: whole blocks of ELEMS elements (SRC_BYTES of source each) by the static
 * function block_TYPE(src, dst), the rest by the scalar function.
 */
#define TM_DECODE_BLOCKS(attributes, level, type, elems, src_bytes)                                \
    attributes void tm_##level##_##type(const void *src, float *dst, size_t n)                     \
    {                                                                                              \
        const uint8_t *from = src;                                                                 \
        for (; n >= (elems); n -= (elems)) {                                                       \
            block_##type(from, dst);                                                               \
            from += (src_bytes);                                                                   \
            dst += (elems);                                                                        \
        }                                                                                          \
        tm_scalar_##type(from, dst, n);                                                            \
    }

#endif
