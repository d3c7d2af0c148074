/* Decoding into the buffer of a scan. */
#include "compute/scan_stage.h"

#include <math.h>

void tm_stage_init(tm_stage *stage, tm_cpu_level level)
{
    stage->convert = tm_convert_get(level);
    stage->kernels = tm_scan_kernels_get(level);
}

bool tm_stage_has(tm_dtype dtype)
{
    return tm_convert_get(TM_CPU_SCALAR)->decode_f32[dtype] != NULL;
}

void tm_stage_begin(tm_stage *stage, tm_dtype dtype)
{
    stage->dtype = dtype;
    stage->is_half = dtype == TM_BF16 || dtype == TM_F16;
    stage->is_f64 = tm_dtype_get(dtype)->bits > 16 && dtype != TM_F32;
}

/* A row of F4 that starts in the middle of a byte. */
static void odd_row(const tm_stage *stage, const uint8_t *src, size_t n, float *ret)
{
    float values[TM_STRIP_STRIDE + 1];
    stage->convert->decode_f32[TM_F4](src, values, n + 1);
    memcpy(ret, values + 1, n * sizeof(*ret));
}

static void row_f64(tm_dtype dtype, const uint8_t *src, size_t n, double *ret)
{
    size_t width = tm_dtype_get(dtype)->bits / 8;
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = 0;
        memcpy(&bits, src + i * width, width);
        if (dtype == TM_F64)
            memcpy(&ret[i], &bits, sizeof(bits));
        else if (dtype == TM_I32)
            ret[i] = (double)(int32_t)bits;
        else if (dtype == TM_I64)
            ret[i] = (double)(int64_t)bits;
        else
            ret[i] = (double)bits;
    }
}

/* NaN up to the next multiple of 16. */
static void fill_up(tm_stage *stage, size_t r, size_t n)
{
    const uint16_t nan_half = 0x7fff; /* of either type */
    for (size_t c = n; c % TM_STRIP_SIDE != 0; c++) {
        if (stage->is_half)
            stage->half[r][c] = nan_half;
        else if (stage->is_f64)
            stage->f64[r][c] = NAN;
        else
            stage->f32[r][c] = NAN;
    }
}

void tm_stage_row(tm_stage *stage, size_t r, const void *src, uint64_t first, size_t n)
{
    const uint8_t *from = (const uint8_t *)src + first * tm_dtype_get(stage->dtype)->bits / 8;
    if (stage->is_half)
        memcpy(stage->half[r], from, n * sizeof(uint16_t));
    else if (stage->is_f64)
        row_f64(stage->dtype, from, n, stage->f64[r]);
    else if (stage->dtype == TM_F4 && first % 2 != 0)
        odd_row(stage, from, n, stage->f32[r]);
    else
        stage->convert->decode_f32[stage->dtype](from, stage->f32[r], n);
    fill_up(stage, r, n);
}

void tm_stage_strip(const tm_stage *stage, size_t at, size_t rows, tm_strip *ret)
{
    if (stage->dtype == TM_BF16)
        stage->kernels->strip_bf16(stage->half[0] + at, rows, ret);
    else if (stage->dtype == TM_F16)
        stage->kernels->strip_f16(stage->half[0] + at, rows, ret);
    else if (stage->is_f64)
        stage->kernels->strip_f64(stage->f64[0] + at, rows, ret);
    else
        stage->kernels->strip_f32(stage->f32[0] + at, rows, ret);
}

void tm_stage_values(const tm_stage *stage, size_t r, size_t at, double ret[TM_STRIP_SIDE])
{
    float values[TM_STRIP_SIDE];
    const float *from = stage->f32[r] + at;
    if (stage->is_f64) {
        memcpy(ret, stage->f64[r] + at, TM_STRIP_SIDE * sizeof(*ret));
        return;
    }
    if (stage->is_half) {
        stage->convert->decode_f32[stage->dtype](stage->half[r] + at, values, TM_STRIP_SIDE);
        from = values;
    }
    for (size_t i = 0; i < TM_STRIP_SIDE; i++)
        ret[i] = (double)from[i];
}
