#include "formats/pyramid.h"

enum {
    ALIGN = 8 /* of each array */
};
#define COARSE_CELLS_MAX                                                                           \
    (UINT64_C(1) << 20) /* of level TM_PYRAMID_COARSE, which a writer holds                        \
                         */

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

uint64_t tm_pyramid_cells(const tm_pyramid *p, unsigned level)
{
    return p->planes.planes * tm_planes_level_dim(p->planes.rows, level) *
           tm_planes_level_dim(p->planes.cols, level);
}

static uint64_t means_bytes(const tm_pyramid *p, unsigned level)
{
    return aligned(tm_pyramid_cells(p, level) * sizeof(float));
}

static uint64_t extremes_bytes(const tm_pyramid *p, unsigned level)
{
    return aligned(tm_pyramid_cells(p, level) * (p->narrow ? 2 : sizeof(float)));
}

bool tm_pyramid_has_extremes(const tm_pyramid *p, unsigned level)
{
    return level == p->finest || level >= TM_PYRAMID_COARSE;
}

static uint64_t level_bytes(const tm_pyramid *p, unsigned level)
{
    return means_bytes(p, level) +
           (tm_pyramid_has_extremes(p, level) ? 2 * extremes_bytes(p, level) : 0);
}

/* Coarser levels stand before finer ones. */
uint64_t tm_pyramid_means_at(const tm_pyramid *p, unsigned level)
{
    uint64_t at = 0;
    for (unsigned above = p->top; above > level; above--)
        at += level_bytes(p, above);
    return at;
}

uint64_t tm_pyramid_extremes_at(const tm_pyramid *p, unsigned level, bool greatest)
{
    assert(tm_pyramid_has_extremes(p, level));
    return tm_pyramid_means_at(p, level) + means_bytes(p, level) +
           (greatest ? extremes_bytes(p, level) : 0);
}

/* Types of 8 bits or fewer have at most 8 significant bits, as BF16 has. */
static bool is_narrow(tm_dtype dtype)
{
    return dtype == TM_BF16 || tm_dtype_get(dtype)->bits <= 8;
}

tm_pyramid tm_pyramid_of(const uint64_t *dims, size_t rank, tm_dtype dtype, uint64_t stored_bytes)
{
    tm_pyramid p = {.planes = tm_planes_of(dims, rank), .narrow = is_narrow(dtype)};
    p.top = tm_planes_levels(&p.planes);
    if (p.planes.planes == 0 || tm_pyramid_cells(&p, TM_PYRAMID_COARSE) > COARSE_CELLS_MAX)
        return p;
    for (unsigned level = TM_PYRAMID_FINEST; level <= TM_PYRAMID_COARSE && level <= p.top;
         level++) {
        p.finest = level;
        p.bytes = tm_pyramid_means_at(&p, level) + level_bytes(&p, level);
        if (p.bytes <= stored_bytes / TM_PYRAMID_SHARE)
            return p;
    }
    p.finest = 0;
    p.bytes = 0;
    return p;
}
