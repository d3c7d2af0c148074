/* The pass: a block is cut into tiles, a tile into pieces of 16 rows, a piece into strips. */
#include "compute/scan.h"

#include <math.h>

#include "compute/scan_stage.h"
#include "compute/tally.h"

enum {
    FEW_ELEMENTS = 1 << 14, /* fewer do not pay for emptying the replicas, about 50 us */
    CELLS = TM_TILE_CELLS
};

/* What adds up to a tile's sums, in the order of quadrants. */
typedef struct tile_sums {
    double sum[CELLS * CELLS], sumsq[CELLS * CELLS];
} tile_sums;

struct tm_scan {
    tm_tally tally;
    tm_stage stage;
    tile_sums sums;
    double absmax; /* of the tile so far; -1 for none */
    tm_lod_cell fine[2][TM_TILE_SIDE / 2 * 4];
};

/* Of one tile: where it lies in its block, and its share of the results. */
typedef struct tile_job {
    const tm_scan_block *block;
    const tm_scan_out *out;
    size_t col, cols; /* of the block */
    size_t row, rows; /* of the piece at hand */
    tm_tile_record tile;
} tile_job;

tm_scan *tm_scan_new(tm_cpu_level level)
{
    tm_scan *scan = TM_NEW(tm_scan);
    if (!scan)
        return NULL;
    tm_stage_init(&scan->stage, level);
    if (tm_tally_init(&scan->tally) == 0)
        return scan;
    free(scan);
    return NULL;
}

void tm_scan_free(tm_scan *scan)
{
    if (scan)
        tm_tally_done(&scan->tally);
    free(scan);
}

void tm_scan_freep(tm_scan **scan)
{
    tm_scan_free(*scan);
}

void tm_scan_begin(tm_scan *scan, tm_stats *stats)
{
    tm_tally_begin(&scan->tally, stats);
}

void tm_scan_end(tm_scan *scan)
{
    tm_tally_end(&scan->tally);
}

/* --- a strip --- */

/* Bits set in the 16 words of a mask. */
static unsigned count_bits(const uint16_t mask[TM_STRIP_SIDE])
{
    uint64_t words[4];
    memcpy(words, mask, sizeof(words));
    unsigned n = 0;
    for (int i = 0; i < 4; i++)
        n += (unsigned)__builtin_popcountll(words[i]);
    return n;
}

/* A AND B, or A AND NOT B. */
static unsigned count_both(const uint16_t *a, const uint16_t *b, bool invert)
{
    uint16_t both[TM_STRIP_SIDE];
    uint16_t flip = invert ? 0xffff : 0;
    for (size_t r = 0; r < TM_STRIP_SIDE; r++)
        both[r] = (uint16_t)(a[r] & (b[r] ^ flip));
    return count_bits(both);
}

/* Columns that the edge cuts off are NaN in the buffer. */
static void cut_columns(tm_strip *strip, size_t cols)
{
    for (size_t r = 0; cols < TM_STRIP_SIDE && r < TM_STRIP_SIDE; r++)
        strip->nonzero[r] &= (uint16_t)((1u << cols) - 1);
}

static void mark_bits(const tile_job *job, const tm_strip *strip, size_t at)
{
    uint16_t columns = 0;
    for (size_t r = 0; r < job->rows; r++)
        columns |= strip->nonzero[r];
    uint64_t *cols = job->out->col_bits, *rows = job->out->row_bits;
    size_t col = job->col + at;
    if (cols)
        cols[col / 64] |= (uint64_t)columns << col % 64;
    for (size_t r = 0; rows && columns && r < job->rows; r++) {
        size_t row = job->row + r;
        rows[row / 64] |= (uint64_t)(strip->nonzero[r] != 0) << row % 64;
    }
}

/* Adds the counts of a strip of COLS columns to those of its tile and of wide statistics. */
static void count_strip(tm_scan *scan, tile_job *job, const tm_strip *strip, size_t cols)
{
    unsigned n = (unsigned)(job->rows * cols);
    unsigned zero = n - count_bits(strip->nonzero);
    unsigned finite = count_bits(strip->finite);
    job->tile.zero += zero;
    job->tile.finite += finite;
    if (finite < n) {
        unsigned infinite = count_bits(strip->infinite);
        unsigned neg_inf = count_both(strip->infinite, strip->negative, false);
        job->tile.neg_inf += neg_inf;
        job->tile.pos_inf += infinite - neg_inf;
        job->tile.nan += n - finite - infinite;
    }
    tm_stats_wide *wide = scan->tally.stats->wide;
    if (wide && zero > 0) {
        wide->zero += zero;
        wide->neg_zero += count_both(strip->negative, strip->nonzero, true);
    }
}

static void finish_cell(const tile_job *job, const tm_strip *strip, size_t at, size_t cols)
{
    size_t row_cells = (job->block->cols + TM_SCAN_CELL - 1) / TM_SCAN_CELL;
    size_t index = job->row / TM_SCAN_CELL * row_cells + (job->col + at) / TM_SCAN_CELL;
    uint64_t n = job->rows * cols, finite = count_bits(strip->finite);
    job->out->cells[index] = (tm_lod_cell){.sum = strip->sum,
                                           .finite = finite,
                                           .nonfinite = n - finite,
                                           .min = (float)strip->min,
                                           .max = (float)strip->max};
}

static double strip_absmax(const tm_strip *strip)
{
    return -strip->min > strip->max ? -strip->min : strip->max;
}

/* Returns the greatest magnitude of the strip, -inf for none. */
static double add_strip(tm_scan *scan, tile_job *job, size_t at)
{
    size_t cols = tm_min_u64(TM_SCAN_CELL, job->cols - at);
    tm_strip strip = {{0}, {0}, {0}, {0}, 0, 0, 0, 0};
    tm_stage_strip(&scan->stage, at, job->rows, &strip);
    strip.min += 0.0; /* -0 becomes +0 */
    strip.max += 0.0;
    cut_columns(&strip, cols);
    count_strip(scan, job, &strip, cols);
    mark_bits(job, &strip, at);
    if (job->out->cells)
        finish_cell(job, &strip, at, cols);
    size_t cell = job->row / TM_SCAN_CELL * CELLS + at / TM_SCAN_CELL;
    scan->sums.sum[cell] = strip.sum;
    scan->sums.sumsq[cell] = strip.sumsq;
    job->tile.min = strip.min < job->tile.min ? strip.min : job->tile.min;
    job->tile.max = strip.max > job->tile.max ? strip.max : job->tile.max;
    return strip_absmax(&strip);
}

/* --- a tile --- */

/* Finds the first element of the piece of the magnitude ABSMAX; its strips of it are in HAS. */
static void find_absmax(tm_scan *scan, tile_job *job, double absmax, unsigned has)
{
    for (size_t r = 0; r < job->rows; r++) {
        for (size_t at = 0; at < job->cols; at += TM_SCAN_CELL) {
            size_t end = tm_min_u64(at + TM_SCAN_CELL, job->cols);
            for (size_t c = at; has >> at / TM_SCAN_CELL & 1 && c < end; c++) {
                if (fabs(tm_stage_value(&scan->stage, r, c)) != absmax)
                    continue;
                job->tile.absmax_at = (uint32_t)((job->row + r) * TM_TILE_SIDE + c);
                return;
            }
        }
    }
}

static void count_row(tm_scan *scan, const tile_job *job, size_t r, bool few)
{
    const tm_scan_block *block = job->block;
    tm_tally_run run = {.src = block->src,
                        .first = block->first + (job->row + r) * block->stride + job->col,
                        .n = job->cols,
                        .values = scan->stage.f32[r],
                        .few = few};
    tm_stage_row(&scan->stage, r, run.src, run.first, run.n);
    tm_tally_add(&scan->tally, &run);
}

static void add_piece(tm_scan *scan, tile_job *job)
{
    bool few = job->block->rows * job->block->cols < FEW_ELEMENTS;
    for (size_t r = 0; r < job->rows; r++)
        count_row(scan, job, r, few);
    double absmax[CELLS], most = -1;
    for (size_t at = 0; at < job->cols; at += TM_SCAN_CELL) {
        size_t i = at / TM_SCAN_CELL;
        absmax[i] = add_strip(scan, job, at);
        most = absmax[i] > most ? absmax[i] : most;
    }
    if (most <= scan->absmax)
        return;
    scan->absmax = most;
    unsigned has = 0;
    for (size_t at = 0; at < job->cols; at += TM_SCAN_CELL)
        has |= (unsigned)(absmax[at / TM_SCAN_CELL] == most) << at / TM_SCAN_CELL;
    find_absmax(scan, job, most, has);
}

/* Adds up a grid of cells by quadrants, in place; cells that are not there are +0.0. */
static double fold_quadrants(double grid[CELLS * CELLS])
{
    for (size_t side = CELLS / 2; side > 0; side /= 2)
        for (size_t r = 0; r < side; r++)
            for (size_t c = 0; c < side; c++) {
                const double *from = grid + 2 * r * CELLS + 2 * c;
                grid[r * CELLS + c] = (from[0] + from[CELLS]) + (from[1] + from[CELLS + 1]);
            }
    return grid[0];
}

static void offer_absmax(tm_scan *scan, const tile_job *job)
{
    uint64_t row = job->tile.absmax_at / TM_TILE_SIDE, col = job->tile.absmax_at % TM_TILE_SIDE;
    uint64_t index = job->block->index + row * job->block->row_elems + job->col + col;
    tm_stats_offer_absmax(scan->tally.stats, scan->absmax, index);
}

static void add_tile(tm_scan *scan, tile_job *job)
{
    job->tile = (tm_tile_record){.min = INFINITY, .max = -INFINITY};
    memset(&scan->sums, 0, sizeof(scan->sums));
    scan->absmax = -1;
    for (job->row = 0; job->row < job->block->rows; job->row += TM_SCAN_CELL) {
        job->rows = tm_min_u64(TM_SCAN_CELL, job->block->rows - job->row);
        add_piece(scan, job);
    }
    job->tile.sum = fold_quadrants(scan->sums.sum);
    job->tile.sumsq = fold_quadrants(scan->sums.sumsq);
    tm_stats_wide *wide = scan->tally.stats->wide;
    if (wide) {
        wide->min = job->tile.min < wide->min ? job->tile.min : wide->min;
        wide->max = job->tile.max > wide->max ? job->tile.max : wide->max;
    }
    if (job->tile.finite > 0)
        offer_absmax(scan, job);
    if (job->out->tiles)
        job->out->tiles[job->col / TM_TILE_SIDE] = job->tile;
}

void tm_scan_add(tm_scan *scan, const tm_scan_block *block, const tm_scan_out *out)
{
    assert(block->rows > 0 && block->rows <= TM_TILE_SIDE && block->cols > 0);
    tm_stage_begin(&scan->stage, scan->tally.stats->dtype);
    for (size_t col = 0; col < block->cols; col += TM_TILE_SIDE) {
        size_t cols = tm_min_u64(TM_TILE_SIDE, block->cols - col);
        tile_job job = {.block = block, .out = out, .col = col, .cols = cols};
        add_tile(scan, &job);
    }
}

/* --- levels 1 to 3 --- */

static tm_lod_cell cell_of(double value)
{
    tm_lod_cell cell = {.min = INFINITY, .max = -INFINITY};
    if (isfinite(value))
        cell = (tm_lod_cell){value + 0.0, 1, 0, (float)(value + 0.0), (float)(value + 0.0)};
    else
        cell.nonfinite = 1;
    return cell;
}

/* ROWS (at most 2^LEVEL) staged rows become one row of cells. */
static void fine_row(tm_scan *scan, size_t rows, size_t cols, unsigned level, tm_lod_cell *ret)
{
    tm_lod_cell *from = scan->fine[0], *to = scan->fine[1];
    size_t wide = (cols + 1) / 2, high = (rows + 1) / 2;
    for (size_t r = 0; r < high; r++) {
        size_t n = tm_min_u64(2, rows - 2 * r);
        for (size_t c = 0; c < wide; c++) {
            tm_lod_cell four[4];
            size_t m = tm_min_u64(2, cols - 2 * c);
            for (size_t i = 0; i < n * m; i++)
                four[i] = cell_of(tm_stage_value(&scan->stage, 2 * r + i / m, 2 * c + i % m));
            tm_lod_halve(four, n, m, &from[r * wide + c]);
        }
    }
    for (unsigned at = 1; at < level; at++) {
        tm_lod_halve(from, high, wide, to);
        high = (high + 1) / 2;
        wide = (wide + 1) / 2;
        tm_lod_cell *swap = from;
        from = to;
        to = swap;
    }
    memcpy(ret, from, wide * sizeof(*ret));
}

int tm_scan_fine(tm_scan *scan, tm_dtype dtype, const tm_scan_block *block, unsigned level,
                 tm_lod_cell *ret)
{
    assert(level >= 1 && level < TM_SCAN_LEVEL && block->cols <= TM_TILE_SIDE);
    if (!tm_stage_has(dtype))
        return -EOPNOTSUPP;
    tm_stage_begin(&scan->stage, dtype);
    size_t side = (size_t)1 << level;
    for (size_t row = 0; row < block->rows; row += side) {
        size_t rows = tm_min_u64(side, block->rows - row);
        for (size_t r = 0; r < rows; r++)
            tm_stage_row(&scan->stage, r, block->src, block->first + (row + r) * block->stride,
                         block->cols);
        fine_row(scan, rows, block->cols, level, ret);
        ret += (block->cols + side - 1) >> level;
    }
    return 0;
}
