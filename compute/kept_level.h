/*
 * A level of detail as a tensor (compute/level_tensor.h) from cells that were kept: the same
 * dimensions and the same values, without a look at the tensor's own.
 *
 * Means are kept of each level. Extremes may be kept of a finer level only, of which they are the
 * extremes. Of a tensor whose values are all finite no cell counts others.
 */
#ifndef TM_COMPUTE_KEPT_LEVEL_H
#define TM_COMPUTE_KEPT_LEVEL_H

#include "compute/level_tensor.h"
#include "core/planes.h"

typedef struct tm_kept_level {
    tm_planes planes;               /* of the whole tensor */
    unsigned level, extremes_level; /* the latter at most the former */
    tm_tensor *means;               /* of LEVEL, F32: all cells, plane by plane, row by row */
    tm_tensor *extremes[2];         /* of EXTREMES_LEVEL, least and greatest, F32 or BF16 */
} tm_kept_level;

/* Keeps references. RANK dimensions: of the whole tensor, whose values are all finite. */
TM_MUST_CHECK int tm_kept_level_new(const tm_kept_level *kept, const uint64_t *dims, size_t rank,
                                    tm_reducer reducer, tm_tensor **ret);

#endif
