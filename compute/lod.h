/*
 * Levels of detail: cells that summarize 2^L x 2^L elements of a plane; edges are truncated.
 *
 * A cell carries sums and counts, so coarser means come from sums, never from rounded means.
 * Non-finite values are counted and else left out: of mean, min and max. Orders of addition:
 *
 *     level 4            by tm_scan_add: lane c of 16 adds its column downwards, from +0.0 on;
 *                        then lane i += lane i+8, += i+4, += i+2, += i+1
 *     every other level  from the level below (level 1: the elements), by quadrants
 *                            a b        (a + c) + (b + d), what lies outside being +0.0
 *                            c d
 */
#ifndef TM_COMPUTE_LOD_H
#define TM_COMPUTE_LOD_H

#include "core/base.h"

typedef struct tm_lod_cell {
    double sum; /* of the finite values */
    uint64_t finite, nonfinite;
    float min, max; /* of the finite values, rounded to f32; inf, -inf for none. 0 is +0 */
} tm_lod_cell;

/* Halves both axes of ROWS x COLS row-major cells (not none) to ceil(ROWS/2) x ceil(COLS/2). */
void tm_lod_halve(const tm_lod_cell *cells, size_t rows, size_t cols, tm_lod_cell *ret);

/* What lod/L.{mean,min,max,nonfinite}.npy have for a cell; NaN where no value is finite, never
 * -0. */
float tm_lod_mean(const tm_lod_cell *cell);
float tm_lod_min(const tm_lod_cell *cell);
float tm_lod_max(const tm_lod_cell *cell);

#endif
