/* Cells into coarser cells, and into what pictures and arrays show. */
#include "compute/lod.h"

#include <math.h>

static tm_lod_cell pair(const tm_lod_cell *a, const tm_lod_cell *b)
{
    return (tm_lod_cell){.sum = a->sum + b->sum,
                         .finite = a->finite + b->finite,
                         .nonfinite = a->nonfinite + b->nonfinite,
                         .min = b->min < a->min ? b->min : a->min,
                         .max = b->max > a->max ? b->max : a->max};
}

void tm_lod_halve(const tm_lod_cell *cells, size_t rows, size_t cols, tm_lod_cell *ret)
{
    static const tm_lod_cell none = {.min = INFINITY, .max = -INFINITY};
    for (size_t r = 0; r < rows; r += 2) {
        const tm_lod_cell *upper = cells + r * cols;
        const tm_lod_cell *lower = r + 1 < rows ? upper + cols : NULL;
        for (size_t c = 0; c < cols; c += 2) {
            bool has_right = c + 1 < cols;
            tm_lod_cell left = pair(&upper[c], lower ? &lower[c] : &none);
            tm_lod_cell right =
                pair(has_right ? &upper[c + 1] : &none, has_right && lower ? &lower[c + 1] : &none);
            *ret++ = pair(&left, &right);
        }
    }
}

float tm_lod_mean(const tm_lod_cell *cell)
{
    return cell->finite ? (float)(cell->sum / (double)cell->finite) + 0.0f : NAN;
}

float tm_lod_min(const tm_lod_cell *cell)
{
    return cell->finite ? cell->min : NAN;
}

float tm_lod_max(const tm_lod_cell *cell)
{
    return cell->finite ? cell->max : NAN;
}
