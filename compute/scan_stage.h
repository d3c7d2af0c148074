/*
 * The buffer of a scan: up to 16 rows of up to 256 elements, decoded once. Types of 16 bits or
 * fewer and F32 decode to f32, exactly; wider ones to f64, whole numbers rounded to nearest even.
 * Internal to the scan.
 */
#ifndef TM_COMPUTE_SCAN_STAGE_H
#define TM_COMPUTE_SCAN_STAGE_H

#include "compute/scan_kernels.h"

typedef struct tm_stage {
    const tm_convert *convert;
    const tm_scan_kernels *kernels;
    tm_dtype dtype;
    bool is_f64;
    /* What lies right of a row's last element is NaN, up to the next multiple of 16. */
    union {
        float f32[TM_STRIP_SIDE][TM_STRIP_STRIDE];
        double f64[TM_STRIP_SIDE][TM_STRIP_STRIDE];
    };
} tm_stage;

void tm_stage_init(tm_stage *stage, tm_cpu_level level);

/* Whether a type has values. */
bool tm_stage_has(tm_dtype dtype);

void tm_stage_begin(tm_stage *stage, tm_dtype dtype);

/* Row R becomes the N (1 ... 256) elements of SRC from FIRST on. */
void tm_stage_row(tm_stage *stage, size_t r, const void *src, uint64_t first, size_t n);

/* The strip of ROWS rows whose first column is AT. */
void tm_stage_strip(const tm_stage *stage, size_t at, size_t rows, tm_strip *ret);

static inline double tm_stage_value(const tm_stage *stage, size_t r, size_t c)
{
    return stage->is_f64 ? stage->f64[r][c] : (double)stage->f32[r][c];
}

#endif
