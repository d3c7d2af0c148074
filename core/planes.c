/* Planes of a shape, and how many levels of detail a plane has. */
#include "core/planes.h"

enum {
    PICTURE_SIDE_MIN = 32 /* two last dimensions of at least this are a matrix, not a kernel */
};

static uint64_t product(const uint64_t *dims, size_t rank)
{
    uint64_t n = 1;
    for (size_t i = 0; i < rank; i++)
        n *= dims[i];
    return n;
}

static bool has_elements(const uint64_t *dims, size_t rank)
{
    for (size_t i = 0; i < rank; i++)
        if (dims[i] == 0)
            return false;
    return true;
}

tm_planes tm_planes_of(const uint64_t *dims, size_t rank)
{
    if (rank == 0)
        return (tm_planes){1, 1, 1};
    if (rank == 1)
        return (tm_planes){1, 1, dims[0]};
    if (rank == 2)
        return (tm_planes){1, dims[0], dims[1]};
    if (!has_elements(dims, rank))
        return (tm_planes){1, 0, 0};
    uint64_t rows = dims[rank - 2], cols = dims[rank - 1];
    if (rows >= PICTURE_SIDE_MIN && cols >= PICTURE_SIDE_MIN)
        return (tm_planes){product(dims, rank - 2), rows, cols};
    return (tm_planes){1, dims[0], product(dims + 1, rank - 1)};
}

unsigned tm_planes_levels(const tm_planes *planes)
{
    uint64_t side = tm_max_u64(planes->rows, planes->cols);
    return side <= 1 ? 0 : 64 - (unsigned)__builtin_clzll(side - 1);
}

uint64_t tm_planes_level_dim(uint64_t dim, unsigned level)
{
    if (level >= 64)
        return dim > 0;
    return (dim >> level) + ((dim & ((1ull << level) - 1)) != 0);
}
