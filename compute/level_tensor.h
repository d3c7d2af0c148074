/*
 * A level of detail as a tensor: f32 cells, made tile by tile as they are read.
 *
 * Its dimensions are those of the level's plane, before them the number of planes where there are
 * several, and before that, where all reducers are asked for at once, their number.
 */
#ifndef TM_COMPUTE_LEVEL_TENSOR_H
#define TM_COMPUTE_LEVEL_TENSOR_H

#include "compute/tiles.h"

enum {
    TM_LEVEL_RANK_MAX = 4
};

/* The dimensions of LEVEL (1 or more) of a tensor of these; REDUCER TM_REDUCE_COUNT: all of them.
 * Returns the rank. */
size_t tm_level_dims(const uint64_t *dims, size_t rank, unsigned level, tm_reducer reducer,
                     uint64_t ret[TM_LEVEL_RANK_MAX]);

/* SOURCE is copied; the level keeps its tensor, which has elements. Computed in the reader's lane.
 */
TM_MUST_CHECK int tm_level_tensor_new(const tm_tile_source *source, unsigned level,
                                      tm_reducer reducer, tm_tensor **ret);

#endif
