#include "compute/blocks.h"

enum {
    BAND = 256,    /* rows that a tile has */
    CHUNK = 4096,  /* columns go by */
    BANDS_MAX = 64 /* of a block, so that thousands of short rows are still several jobs */
};

static uint64_t bytes_of(uint64_t rows, uint64_t cols, unsigned bits)
{
    return rows * (cols / 8 * bits) + (rows * (cols % 8 * bits) + 7) / 8;
}

static uint64_t ceil_div(uint64_t n, uint64_t by)
{
    return n / by + (n % by != 0);
}

/* Columns of BAND rows that fill a block. */
static uint64_t chunk_cols(const tm_planes *planes, unsigned bits)
{
    uint64_t rows = tm_min_u64(planes->rows, BAND);
    uint64_t cols = (uint64_t)TM_BLOCK_BYTES * 8 / bits / rows / CHUNK * CHUNK;
    cols = tm_max_u64(cols, CHUNK);
    /* Rows of half bytes that start within a byte cannot be cut into columns. */
    bool whole = cols >= planes->cols || (bits < 8 && planes->rows > 1);
    return whole ? planes->cols : cols;
}

tm_blocks tm_blocks_of(const uint64_t *dims, size_t rank, unsigned bits)
{
    tm_blocks b = {.planes = tm_planes_of(dims, rank)};
    if (b.planes.rows == 0 || b.planes.cols == 0)
        return b;
    b.cols = chunk_cols(&b.planes, bits);
    uint64_t band = tm_max_u64(bytes_of(BAND, b.cols, bits), 1);
    uint64_t bands = tm_min_u64(tm_max_u64(TM_BLOCK_BYTES / band, 1), BANDS_MAX);
    b.rows = tm_min_u64(b.cols == b.planes.cols ? bands * BAND : BAND, b.planes.rows);
    b.down = ceil_div(b.planes.rows, b.rows);
    b.across = ceil_div(b.planes.cols, b.cols);
    b.count = b.planes.planes * b.down * b.across;
    return b;
}

tm_block tm_blocks_at(const tm_blocks *b, uint64_t i)
{
    assert(i < b->count);
    tm_block block = {
        .plane = i / (b->down * b->across),
        .row = i / b->across % b->down * b->rows,
        .col = i % b->across * b->cols,
    };
    block.rows = tm_min_u64(b->rows, b->planes.rows - block.row);
    block.cols = tm_min_u64(b->cols, b->planes.cols - block.col);
    return block;
}

uint64_t tm_blocks_bytes(const tm_blocks *b, unsigned bits)
{
    return bytes_of(b->rows, b->cols, bits) +
           1; /* one that starts within a byte touches one more */
}
