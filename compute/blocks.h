/*
 * How a tensor is cut into blocks of work: whole rows, 256 of them or a multiple, where a few
 * mebibytes hold them; else columns of 256 rows. What a block covers depends on shape and dtype
 * alone, so results that are made block by block are the same on any machine.
 *
 * Rows start at multiples of 256 and columns at multiples of 4096, so that the cells of levels 1 to
 * 8 of a block are cells of its plane.
 */
#ifndef TM_COMPUTE_BLOCKS_H
#define TM_COMPUTE_BLOCKS_H

#include "core/planes.h"

enum {
    TM_BLOCK_BYTES = 4 << 20, /* about the most that one is */
    TM_BLOCK_LEVEL = 8,       /* the coarsest whose cells lie in one block */
};

typedef struct tm_blocks {
    tm_planes planes;
    uint64_t rows, cols;   /* of a block that is not cut at an edge */
    uint64_t down, across; /* blocks of a plane, along its rows and columns */
    uint64_t count;        /* of all planes; plane by plane, row by row */
} tm_blocks;

/* Where a block lies in its plane. */
typedef struct tm_block {
    uint64_t plane, row, col, rows, cols;
} tm_block;

tm_blocks tm_blocks_of(const uint64_t *dims, size_t rank, unsigned bits);
tm_block tm_blocks_at(const tm_blocks *blocks, uint64_t i);

/* The most bytes that a block has. */
uint64_t tm_blocks_bytes(const tm_blocks *blocks, unsigned bits);

#endif
