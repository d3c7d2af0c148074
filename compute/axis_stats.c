/* Rows and columns by one walk over runs of decoded elements, each within one row. */
#include "compute/axis_stats.h"

#include <math.h>

#include "compute/scan_stage.h"

enum {
    LANES = 8,
    RUN = TM_STRIP_STRIDE
};

struct tm_axis_stats {
    tm_axis_shape shape;
    uint64_t row, col;  /* of the next element */
    double lane[LANES]; /* of the sum of squares of the row at hand */
    tm_stage stage;
};

double tm_axis_rms(const tm_axis_entry *entry)
{
    uint64_t finite = entry->n - entry->nan - entry->inf;
    return finite ? sqrt(entry->sumsq / (double)finite) : NAN;
}

tm_axis_stats *tm_axis_stats_new(tm_cpu_level level, tm_dtype dtype, const tm_axis_shape *shape)
{
    assert(tm_stage_has(dtype));
    tm_axis_stats *axis = TM_NEW(tm_axis_stats);
    if (!axis)
        return NULL;
    axis->shape = *shape;
    tm_stage_init(&axis->stage, level);
    tm_stage_begin(&axis->stage, dtype);
    if (shape->of_row)
        memset(shape->of_row, 0, shape->rows * sizeof(*shape->of_row));
    if (shape->of_col)
        memset(shape->of_col, 0, shape->cols * sizeof(*shape->of_col));
    return axis;
}

void tm_axis_stats_free(tm_axis_stats *axis)
{
    free(axis);
}

/* Counts VALUE; returns its square, 0 where it is not finite. */
static double count_value(tm_axis_entry *entry, double value)
{
    double size = fabs(value);
    entry->n++;
    if (isnan(value)) {
        entry->nan++;
        return 0;
    }
    if (isinf(value)) {
        entry->inf++;
        return 0;
    }
    entry->zero += size == 0;
    entry->absmax = size > entry->absmax ? size : entry->absmax;
    return value * value;
}

static void finish_row(tm_axis_stats *axis)
{
    double *lane = axis->lane;
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            lane[i] += lane[i + half];
    axis->shape.of_row[axis->row].sumsq = lane[0];
    memset(lane, 0, sizeof(axis->lane));
}

/* N staged elements of the row at hand. */
static void add_run(tm_axis_stats *axis, size_t n)
{
    tm_axis_entry *row = axis->shape.of_row ? &axis->shape.of_row[axis->row] : NULL;
    tm_axis_entry *col = axis->shape.of_col ? &axis->shape.of_col[axis->col] : NULL;
    double values[TM_STRIP_SIDE];
    for (size_t i = 0; i < n; i++) {
        size_t at = i % TM_STRIP_SIDE;
        if (at == 0)
            tm_stage_values(&axis->stage, 0, i, values);
        if (row)
            axis->lane[(axis->col + i) % LANES] += count_value(row, values[at]);
        if (col)
            col[i].sumsq += count_value(&col[i], values[at]);
    }
    axis->col += n;
    if (axis->col < axis->shape.cols)
        return;
    if (row)
        finish_row(axis);
    axis->col = 0;
    axis->row++;
}

void tm_axis_stats_add(tm_axis_stats *axis, const void *src, uint64_t first, uint64_t n)
{
    while (n > 0) {
        assert(axis->row < axis->shape.rows);
        uint64_t left = axis->shape.cols - axis->col;
        size_t run = tm_min_u64(tm_min_u64(n, RUN), left);
        tm_stage_row(&axis->stage, 0, src, first, run);
        add_run(axis, run);
        first += run;
        n -= run;
    }
}
