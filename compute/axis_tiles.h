/*
 * Statistics of the rows and the columns of a tensor's planes, as tiles of the store: of a window
 * of rows, or of a window of columns, made by one walk over their elements in row-major order, so
 * that sums depend on the tensor alone.
 */
#ifndef TM_COMPUTE_AXIS_TILES_H
#define TM_COMPUTE_AXIS_TILES_H

#include "compute/axis_stats.h"
#include "compute/tiles.h"

typedef enum tm_axis {
    TM_AXIS_ROWS,
    TM_AXIS_COLS
} tm_axis;

/* How many lines an axis has: the rows, or columns, of all planes, one plane after the other. */
uint64_t tm_axis_lines(const tm_planes *planes, tm_axis axis);

/* The tile that has line LINE, one reference. */
TM_MUST_CHECK int tm_tile_axis_get(const tm_tile_source *source, tm_axis axis, uint64_t line,
                                   tm_lane lane, tm_tile **ret);
/* Which lines a tile has, there or not. */
void tm_tile_axis_range(const tm_tile *tile, uint64_t *ret_first, uint64_t *ret_count);
/* The lines of one that is there. */
const tm_axis_entry *tm_tile_axis(const tm_tile *tile);

#endif
