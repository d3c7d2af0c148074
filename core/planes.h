/*
 * A tensor of any rank as planes of rows and columns, and the levels of detail of a plane.
 *
 *     rank 0, 1       one plane, 1 x n (a scalar is 1 x 1)
 *     rank 2          one plane, as it is
 *     rank 3 and up   where the last two dimensions are both 32 or more: a plane for each leading
 *                     index (experts are never averaged); else one plane, dim 0 x the rest
 *                     (convolution kernels). Without elements: one plane of 0 x 0.
 *
 * Planes lie one after another, each row-major: element (p, r, c) has the flat index
 * (p * rows + r) * cols + c.
 */
#ifndef TM_CORE_PLANES_H
#define TM_CORE_PLANES_H

#include "core/base.h"

typedef struct tm_planes {
    uint64_t planes, rows, cols;
} tm_planes;

/* The product of the RANK dimensions must fit 64 bits, as that of every tensor of a model does. */
tm_planes tm_planes_of(const uint64_t *dims, size_t rank);

/* Levels above the plane itself: 1 ... this one, which is 1 x 1. 0 for planes of at most 1 x 1. */
unsigned tm_planes_levels(const tm_planes *planes);

/* Cells of an axis of DIM elements at LEVEL (0: the elements): ceil(DIM / 2^LEVEL). */
uint64_t tm_planes_level_dim(uint64_t dim, unsigned level);

#endif
