/*
 * The kernels of a scan: a strip is 16 columns of up to 16 rows of decoded values, the elements of
 * one cell of level 4. Internal to compute/scan*.c.
 */
#ifndef TM_COMPUTE_SCAN_KERNELS_H
#define TM_COMPUTE_SCAN_KERNELS_H

#include "core/convert.h"

enum {
    TM_STRIP_SIDE = 16,
    TM_STRIP_STRIDE = 256 /* elements from one row of the buffer to the next */
};

/*
 * In the masks, bit c of word r is of column c of row r. Words of missing rows are left alone.
 */
typedef struct tm_strip {
    uint16_t nonzero[TM_STRIP_SIDE];   /* not equal to 0; NaN is not */
    uint16_t negative[TM_STRIP_SIDE];  /* the sign bit; of f32 and f64 only */
    unsigned finite_count, zero_count; /* of the elements of the rows */
    double sum;                        /* of finite values, in the order of compute/lod.h */
    double min, max; /* of finite values; inf, -inf for none; the sign of a zero is any */
} tm_strip;

/* Halves are bf16 or f16. */
typedef void tm_strip_half_fn(const uint16_t *src, size_t rows, tm_strip *ret);
typedef void tm_strip_f32_fn(const float *src, size_t rows, tm_strip *ret);
typedef void tm_strip_f64_fn(const double *src, size_t rows, tm_strip *ret);

typedef struct tm_scan_kernels {
    tm_strip_half_fn *strip_bf16, *strip_f16;
    tm_strip_f32_fn *strip_f32;
    tm_strip_f64_fn *strip_f64;
} tm_scan_kernels;

/* The table for LEVEL, which tm_cpu_has(). */
const tm_scan_kernels *tm_scan_kernels_get(tm_cpu_level level);

/* The specification: slots that a level does not override. */
tm_strip_half_fn tm_strip_bf16_scalar, tm_strip_f16_scalar;
tm_strip_f32_fn tm_strip_f32_scalar;
tm_strip_f64_fn tm_strip_f64_scalar;

/* The whole table of a level; NULL where the build is for another architecture. */
const tm_scan_kernels *tm_scan_kernels_avx2(void);
const tm_scan_kernels *tm_scan_kernels_avx512(void);
const tm_scan_kernels *tm_scan_kernels_neon(void);

#endif
