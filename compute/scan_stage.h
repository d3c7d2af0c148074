/*
 * The buffer of a scan: up to 16 rows of up to 256 elements, decoded once. BF16 and F16
 * stay as they are, for the strips decode them; other types of 16 bits or fewer and F32 become f32,
 * exactly; wider ones f64, whole numbers rounded to nearest even.
 * Internal to the scan.
 */
#ifndef TM_COMPUTE_SCAN_STAGE_H
#define TM_COMPUTE_SCAN_STAGE_H

#include "compute/scan_kernels.h"

typedef struct tm_stage {
    const tm_convert *convert;
    const tm_scan_kernels *kernels;
    tm_dtype dtype;
    bool is_half, is_f64; /* else f32 */
    /* What lies right of a row's last element is NaN, up to the next multiple of 16. */
    union {
        uint16_t half[TM_STRIP_SIDE][TM_STRIP_STRIDE];
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

/* Elements AT ... AT + 15 of row R as doubles. */
void tm_stage_values(const tm_stage *stage, size_t r, size_t at, double ret[TM_STRIP_SIDE]);

#endif
