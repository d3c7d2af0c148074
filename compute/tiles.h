/*
 * What is computed of a tensor, as tiles of the store: its statistics, and cells of its levels of
 * detail. Each is made by a scan of the blocks it covers when a read first waits for it.
 *
 * Cells of levels 1 to 8 are a tile for each block of the tensor; coarser ones, which are few, are
 * one tile for each plane.
 */
#ifndef TM_COMPUTE_TILES_H
#define TM_COMPUTE_TILES_H

#include "compute/blocks.h"
#include "compute/work_tile.h"
#include "core/stats_record.h"

typedef enum tm_tile_kind {
    TM_TILE_STATS,
    TM_TILE_LEVEL,
    TM_TILE_PLANE,
    TM_TILE_COARSE,
    TM_TILE_ROWS, /* compute/axis_tiles.h */
    TM_TILE_COLS,
} tm_tile_kind;

/* ---- Statistics ---- */

typedef struct tm_tensor_stats {
    tm_stats_record record;
    uint32_t hist_count;
    tm_hist_row hist[]; /* those that are not empty */
} tm_tensor_stats;

/* What STATS (NULL: no histogram is wanted) and RECORD say; -ENOMEM. */
TM_MUST_CHECK int tm_tensor_stats_new(const tm_stats *stats, const tm_stats_record *record,
                                      tm_tensor_stats **ret);
void tm_tensor_stats_free(tm_tensor_stats *stats); /* accepts NULL */

/* The tile, one reference; its content is there once its shared result is done. */
TM_MUST_CHECK int tm_tile_stats_get(const tm_tile_source *source, tm_lane lane, tm_tile **ret);
const tm_tensor_stats *tm_tile_stats(const tm_tile *tile);
/* What is known of a tensor without computing anything; false where that is nothing. */
bool tm_tile_stats_known(tm_store *store, uint32_t group, uint32_t item, tm_stats_record *ret);

/* ---- Levels of detail ---- */

typedef enum tm_reducer {
    TM_REDUCE_MEAN,
    TM_REDUCE_MIN,
    TM_REDUCE_MAX,
    TM_REDUCE_NONFINITE,
    TM_REDUCE_COUNT
} tm_reducer;

/* ROWS x COLS cells, for each reducer, row by row. */
typedef struct tm_level_cells {
    uint64_t rows, cols;
    const float *of[TM_REDUCE_COUNT];
} tm_level_cells;

/* Of block BLOCK, LEVEL 1 … TM_BLOCK_LEVEL. */
TM_MUST_CHECK int tm_tile_level_get(const tm_tile_source *source, unsigned level, uint64_t block,
                                    tm_lane lane, tm_tile **ret);
/* Of a whole plane, LEVEL 1 … TM_BLOCK_LEVEL: for pictures, whose cells are few. */
TM_MUST_CHECK int tm_tile_plane_get(const tm_tile_source *source, unsigned level, uint64_t plane,
                                    tm_lane lane, tm_tile **ret);
/* Of a whole plane: all levels above TM_BLOCK_LEVEL. */
TM_MUST_CHECK int tm_tile_coarse_get(const tm_tile_source *source, uint64_t plane, tm_lane lane,
                                     tm_tile **ret);
/* The cells of a tile that is there; LEVEL counts for those of a plane. */
tm_level_cells tm_tile_cells(const tm_tile *tile, unsigned level);

#endif
