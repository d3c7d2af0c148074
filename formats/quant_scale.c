/*
 * How scales lie over codes, told from shapes. The size of a block comes from config.json alone:
 * edge blocks are partial, so that the ratio of two shapes does not give it.
 */
#include "core/tensor.h"
#include "formats/quant_rules.h"

/* A shape as planes of rows and columns: the last two axes, and what stands before them. */
typedef struct planes {
    const uint64_t *dims; /* of all but the last two axes */
    size_t count;
    uint64_t rows, cols;
} planes;

static planes planes_of(const uint64_t *dims, size_t rank)
{
    return (planes){
        .dims = dims,
        .count = rank > 2 ? rank - 2 : 0,
        .rows = rank >= 2 ? dims[rank - 2] : 1,
        .cols = rank >= 1 ? dims[rank - 1] : 1,
    };
}

static bool same_dims(const uint64_t *a, size_t a_rank, const uint64_t *b, size_t b_rank)
{
    return a_rank == b_rank && (a_rank == 0 || memcmp(a, b, a_rank * sizeof(*a)) == 0);
}

static uint64_t div_up(uint64_t n, uint64_t d)
{
    return n / d + (n % d != 0);
}

typedef struct fitting {
    planes codes;
    const uint64_t *dims; /* of the scales */
    size_t rank;
    uint64_t elems;
    size_t codes_rank;
    uint64_t block_rows, block_cols; /* of config.json, both 0 where it names none */
} fitting;

static tm_scale_fit found(tm_scale_fit fit, uint64_t rows, uint64_t cols, uint64_t ret[2])
{
    ret[0] = rows;
    ret[1] = cols;
    return fit;
}

/* One scale for one matrix (that there is only one is checked by the count). A [1, 1] in a model of
 * blocks must be the one block there is. */
static bool is_one(const fitting *f)
{
    return f->elems == 1 && (f->rank <= 1 || !f->block_rows);
}

static bool is_blocks(const fitting *f)
{
    return f->block_rows && f->rank == f->codes_rank && f->rank >= 2 &&
           same_dims(f->dims, f->rank - 2, f->codes.dims, f->codes.count) &&
           f->dims[f->rank - 2] == div_up(f->codes.rows, f->block_rows) &&
           f->dims[f->rank - 1] == div_up(f->codes.cols, f->block_cols);
}

/* The shape of the codes with axes of 1: [o, 1], [1, i], and with planes before. */
static tm_scale_fit fit_broadcast(const fitting *f, uint64_t ret[2])
{
    if (f->rank != f->codes_rank || f->rank < 2 ||
        !same_dims(f->dims, f->rank - 2, f->codes.dims, f->codes.count))
        return TM_FIT_NONE;
    uint64_t rows = f->dims[f->rank - 2], cols = f->dims[f->rank - 1];
    if (rows == 1 && cols == 1)
        return f->block_rows ? TM_FIT_NONE
                             : found(TM_FIT_TENSOR, f->codes.rows, f->codes.cols, ret);
    if (rows == f->codes.rows && cols == 1)
        return found(TM_FIT_CHANNEL, 1, f->codes.cols, ret);
    if (cols == f->codes.cols && rows == 1)
        return found(TM_FIT_CHANNEL, f->codes.rows, 1, ret);
    return TM_FIT_NONE;
}

/* Without the axes of 1: [o] of a matrix; [e, o] and [e] of stacked ones. */
static tm_scale_fit fit_short(const fitting *f, uint64_t ret[2])
{
    size_t stacked = f->codes.count;
    if (f->codes_rank >= 2 && f->rank == stacked + 1 &&
        same_dims(f->dims, stacked, f->codes.dims, stacked) && f->dims[stacked] == f->codes.rows)
        return found(TM_FIT_CHANNEL, 1, f->codes.cols, ret);
    if (stacked && same_dims(f->dims, f->rank, f->codes.dims, stacked))
        return found(TM_FIT_TENSOR, f->codes.rows, f->codes.cols, ret);
    return TM_FIT_NONE;
}

static tm_scale_fit fit(const fitting *f, uint64_t ret[2])
{
    if (is_one(f))
        return found(TM_FIT_TENSOR, f->codes.rows, f->codes.cols, ret);
    if (is_blocks(f))
        return found(TM_FIT_BLOCK, f->block_rows, f->block_cols, ret);
    tm_scale_fit broadcast = fit_broadcast(f, ret);
    return broadcast != TM_FIT_NONE ? broadcast : fit_short(f, ret);
}

tm_scale_fit tm_quant_fit_scale(const tm_tensor_table *table, const tm_quant_config *quant,
                                uint32_t row, uint32_t scale_row, uint64_t ret_block[2])
{
    const tm_tensor_row *code = &table->rows[row], *scale = &table->rows[scale_row];
    const uint64_t *dims = tm_row_dims(table, code);
    fitting f = {
        .codes = planes_of(dims, code->rank),
        .dims = tm_row_dims(table, scale),
        .rank = scale->rank,
        .elems = tm_row_elems(table, scale),
        .codes_rank = code->rank,
        .block_rows = quant->block_rows,
        .block_cols = quant->block_cols,
    };
    tm_scale_fit how = fit(&f, ret_block);
    if (how == TM_FIT_NONE ||
        tm_scaling_count(dims, code->rank, ret_block[0], ret_block[1]) != f.elems)
        return TM_FIT_NONE;
    return how;
}
