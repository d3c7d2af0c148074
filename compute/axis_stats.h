/*
 * Statistics of each row and each column: what rows.tsv and cols.tsv show.
 *
 * Fed with the elements in row-major order, in runs cut anywhere. Sums of squares are f64 in an
 * order that the shape alone decides: a row adds column c to lane c % 8, and lanes as in
 * compute/lod.h; a column adds its rows downwards.
 */
#ifndef TM_COMPUTE_AXIS_STATS_H
#define TM_COMPUTE_AXIS_STATS_H

#include "core/cpu.h"
#include "core/dtype.h"

typedef struct tm_axis_entry {
    uint64_t n, nan, inf, zero;
    double absmax; /* of finite values; 0 for none */
    double sumsq;  /* of finite values */
} tm_axis_entry;

/* The root of the mean square of the finite values; NaN for none. */
double tm_axis_rms(const tm_axis_entry *entry);

typedef struct tm_axis_stats tm_axis_stats;

/* Either array may be NULL; both are borrowed and cleared. NULL: no memory. */
typedef struct tm_axis_shape {
    uint64_t rows, cols;
    tm_axis_entry *of_row; /* [rows] */
    tm_axis_entry *of_col; /* [cols] */
} tm_axis_shape;
tm_axis_stats *tm_axis_stats_new(tm_cpu_level level, tm_dtype dtype, const tm_axis_shape *shape);
void tm_axis_stats_free(tm_axis_stats *axis);

/*
 * The next N elements in row-major order: element FIRST of the packed ones at SRC and those that
 * follow. Together no more than rows x cols.
 */
void tm_axis_stats_add(tm_axis_stats *axis, const void *src, uint64_t first, uint64_t n);

#endif
