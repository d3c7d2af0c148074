/*
 * What an index keeps of a tensor's levels of detail, and where (docs/index-format.md): a pure
 * function of its shape, its dtype and its bytes.
 *
 * Kept are the means of every level from the finest kept one on, and the extremes of that one and
 * of all from TM_PYRAMID_COARSE on; those between follow from the finest.
 */
#ifndef TM_FORMATS_PYRAMID_H
#define TM_FORMATS_PYRAMID_H

#include "core/dtype.h"
#include "core/planes.h"

enum {
    TM_PYRAMID_FINEST = 4, /* that may be kept */
    TM_PYRAMID_COARSE = 8, /* from here on extremes are kept of each level */
    TM_PYRAMID_SHARE = 50, /* the least of these bytes of a tensor to one of its pyramid */
};

typedef struct tm_pyramid {
    tm_planes planes;
    unsigned finest, top; /* levels that are kept; finest 0: none are */
    bool narrow;          /* extremes are BF16, which holds every value of the dtype; else F32 */
    uint64_t bytes;
} tm_pyramid;

/* Of values of DTYPE with these dimensions, that take STORED_BYTES. */
tm_pyramid tm_pyramid_of(const uint64_t *dims, size_t rank, tm_dtype dtype, uint64_t stored_bytes);

/* Cells of LEVEL in all planes. */
uint64_t tm_pyramid_cells(const tm_pyramid *pyramid, unsigned level);
/* Where in the pyramid the means of LEVEL stand, F32, plane by plane, row by row. */
uint64_t tm_pyramid_means_at(const tm_pyramid *pyramid, unsigned level);
/* Whether the extremes of LEVEL are kept; where the least ones stand, and behind them, at the same
 * distance from their beginning, the greatest. */
bool tm_pyramid_has_extremes(const tm_pyramid *pyramid, unsigned level);
uint64_t tm_pyramid_extremes_at(const tm_pyramid *pyramid, unsigned level, bool greatest);

#endif
