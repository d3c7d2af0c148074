/* The pass: a block is cut into tiles, a tile into pieces of 16 rows, a piece into strips. */
#include "compute/scan.h"

#include <math.h>

#include "compute/scan_stage.h"
#include "compute/tally.h"

enum {
    FEW_ELEMENTS = 1 << 14, /* fewer do not pay for emptying the replicas, about 50 us */
    CELLS = TM_TILE_CELLS,
    TILES_AT_ONCE = 16,
    LINE = 64 /* bytes that the processor fetches at a time */
};

/* What a tile is so far. */
typedef struct tile_state {
    tm_tile_record tile;
    double absmax;                                   /* -1 for none */
    double sum[CELLS * CELLS], sumsq[CELLS * CELLS]; /* of cells; added up by quadrants */
} tile_state;

struct tm_scan {
    tm_tally tally;
    tm_stage stage;
    tm_strip strip;
    uint16_t nonzero[TM_SCAN_CELL]; /* bits of the rows of the piece, all strips together */
    tile_state tiles[TILES_AT_ONCE];
    tm_lod_cell fine[2][TM_TILE_SIDE / 2 * 4];
};

/* The piece at hand: 16 rows of a tile. */
typedef struct piece {
    const tm_scan_block *block;
    const tm_scan_out *out;
    tile_state *state;
    size_t col, cols; /* of the block */
    size_t row, rows;
} piece;

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

static void mark_columns(const piece *job, const tm_strip *strip, size_t at)
{
    uint64_t columns = 0;
    for (size_t r = 0; r < TM_STRIP_SIDE; r++)
        columns |= strip->nonzero[r];
    size_t col = job->col + at;
    if (job->out->col_bits)
        job->out->col_bits[col / 64] |= columns << col % 64;
}

static void mark_rows(const piece *job, const uint16_t nonzero[TM_STRIP_SIDE])
{
    uint64_t *bits = job->out->row_bits;
    for (size_t r = 0; bits && r < job->rows; r++) {
        size_t row = job->row + r;
        bits[row / 64] |= (uint64_t)(nonzero[r] != 0) << row % 64;
    }
}

/* Adds the counts of a strip of COLS columns to those of its tile and of wide statistics. */
static void count_strip(tm_scan *scan, piece *job, const tm_strip *strip, size_t cols)
{
    unsigned n = (unsigned)(job->rows * cols);
    unsigned zero = strip->zero_count, finite = strip->finite_count;
    job->state->tile.zero += zero;
    job->state->tile.finite += finite;
    if (finite < n) {
        unsigned infinite = count_bits(strip->infinite);
        unsigned neg_inf = count_both(strip->infinite, strip->negative, false);
        job->state->tile.neg_inf += neg_inf;
        job->state->tile.pos_inf += infinite - neg_inf;
        job->state->tile.nan += n - finite - infinite;
    }
    tm_stats_wide *wide = scan->tally.stats->wide;
    if (wide && zero > 0) {
        wide->zero += zero;
        wide->neg_zero += count_both(strip->negative, strip->nonzero, true);
    }
}

static void finish_cell(const piece *job, const tm_strip *strip, size_t at, size_t cols)
{
    size_t row_cells = (job->block->cols + TM_SCAN_CELL - 1) / TM_SCAN_CELL;
    size_t index = job->row / TM_SCAN_CELL * row_cells + (job->col + at) / TM_SCAN_CELL;
    uint64_t n = job->rows * cols, finite = strip->finite_count;
    job->out->cells[index] = (tm_lod_cell){.sum = strip->sum,
                                           .finite = finite,
                                           .nonfinite = n - finite,
                                           .min = (float)strip->min + 0.0f,
                                           .max = (float)strip->max + 0.0f};
}

static double strip_absmax(const tm_strip *strip)
{
    return -strip->min > strip->max ? -strip->min : strip->max;
}

/* Returns the greatest magnitude of the strip, -inf for none. */
static double add_strip(tm_scan *scan, piece *job, size_t at)
{
    size_t cols = tm_min_u64(TM_SCAN_CELL, job->cols - at);
    tm_strip *strip = &scan->strip;
    tm_stage_strip(&scan->stage, at, job->rows, strip);
    strip->min += 0.0; /* -0 becomes +0 */
    strip->max += 0.0;
    cut_columns(strip, cols);
    count_strip(scan, job, strip, cols);
    mark_columns(job, strip, at);
    for (size_t r = 0; r < TM_SCAN_CELL; r++)
        scan->nonzero[r] |= strip->nonzero[r];
    if (job->out->cells)
        finish_cell(job, strip, at, cols);
    size_t cell = job->row / TM_SCAN_CELL * CELLS + at / TM_SCAN_CELL;
    job->state->sum[cell] = strip->sum;
    job->state->sumsq[cell] = strip->sumsq;
    job->state->tile.min = strip->min < job->state->tile.min ? strip->min : job->state->tile.min;
    job->state->tile.max = strip->max > job->state->tile.max ? strip->max : job->state->tile.max;
    return strip_absmax(strip);
}

/* --- a tile --- */

/* Finds the first element of the piece of the magnitude ABSMAX; its strips of it are in HAS. */
static void find_absmax(tm_scan *scan, piece *job, double absmax, unsigned has)
{
    for (size_t r = 0; r < job->rows; r++) {
        for (size_t at = 0; at < job->cols; at += TM_SCAN_CELL) {
            double values[TM_SCAN_CELL];
            if (!(has >> at / TM_SCAN_CELL & 1))
                continue;
            tm_stage_values(&scan->stage, r, at, values);
            for (size_t c = 0; c < TM_SCAN_CELL; c++) {
                if (fabs(values[c]) != absmax)
                    continue;
                job->state->tile.absmax_at = (uint32_t)((job->row + r) * TM_TILE_SIDE + at + c);
                return;
            }
        }
    }
}

static void count_row(tm_scan *scan, const piece *job, size_t r, bool few)
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

static void add_piece(tm_scan *scan, piece *job)
{
    bool few = job->block->rows * job->block->cols < FEW_ELEMENTS;
    for (size_t r = 0; r < job->rows; r++)
        count_row(scan, job, r, few);
    double absmax[CELLS], most = -1;
    memset(scan->nonzero, 0, sizeof(scan->nonzero));
    if (job->rows < TM_SCAN_CELL)
        memset(&scan->strip, 0, sizeof(scan->strip));
    for (size_t at = 0; at < job->cols; at += TM_SCAN_CELL) {
        size_t i = at / TM_SCAN_CELL;
        absmax[i] = add_strip(scan, job, at);
        most = absmax[i] > most ? absmax[i] : most;
    }
    mark_rows(job, scan->nonzero);
    if (most <= job->state->absmax)
        return;
    job->state->absmax = most;
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

static void begin_tile(tile_state *state)
{
    memset(state, 0, sizeof(*state));
    state->tile.min = INFINITY;
    state->tile.max = -INFINITY;
    state->absmax = -1;
}

static void finish_tile(tm_scan *scan, const piece *job)
{
    tm_tile_record *tile = &job->state->tile;
    tile->sum = fold_quadrants(job->state->sum);
    tile->sumsq = fold_quadrants(job->state->sumsq);
    if (job->out->tiles)
        job->out->tiles[job->col / TM_TILE_SIDE] = *tile;
    if (tile->finite == 0)
        return;
    tm_stats_wide *wide = scan->tally.stats->wide;
    if (wide) {
        wide->min = tile->min < wide->min ? tile->min : wide->min;
        wide->max = tile->max > wide->max ? tile->max : wide->max;
    }
    uint64_t row = tile->absmax_at / TM_TILE_SIDE, col = tile->absmax_at % TM_TILE_SIDE;
    uint64_t index = job->block->index + row * job->block->row_elems + job->col + col;
    tm_stats_offer_absmax(scan->tally.stats, job->state->absmax, index);
}

static piece piece_at(tm_scan *scan, const tm_scan_block *block, size_t row, size_t col)
{
    return (piece){.block = block,
                   .state = &scan->tiles[col / TM_TILE_SIDE % TILES_AT_ONCE],
                   .col = col,
                   .cols = tm_min_u64(TM_TILE_SIDE, block->cols - col),
                   .row = row,
                   .rows = tm_min_u64(TM_SCAN_CELL, block->rows - row)};
}

/* Rows of a block lie so far apart that the processor does not foresee the next piece: it is told,
 * while it counts the one before. */
static void foretell(const tm_scan *scan, const tm_scan_block *block, size_t row, size_t col)
{
    unsigned bits = tm_dtype_get(scan->stage.dtype)->bits;
    size_t rows = tm_min_u64(TM_SCAN_CELL, block->rows - row);
    size_t bytes = tm_min_u64(TM_TILE_SIDE, block->cols - col) * bits / 8;
    for (size_t r = 0; r < rows; r++) {
        const char *at =
            (const char *)block->src + (block->first + (row + r) * block->stride + col) * bits / 8;
        for (size_t i = 0; i < bytes; i += LINE)
            __builtin_prefetch(at + i);
    }
}

/* The tiles from column FIRST to END. Row by row: memory is read in order. */
static void add_tiles(tm_scan *scan, const tm_scan_block *block, const tm_scan_out *out,
                      size_t first, size_t end)
{
    for (size_t i = 0; i < TILES_AT_ONCE; i++)
        begin_tile(&scan->tiles[i]);
    for (size_t row = 0; row < block->rows; row += TM_SCAN_CELL)
        for (size_t col = first; col < end; col += TM_TILE_SIDE) {
            piece job = piece_at(scan, block, row, col);
            job.out = out;
            if (col + TM_TILE_SIDE < end)
                foretell(scan, block, row, col + TM_TILE_SIDE);
            else if (row + TM_SCAN_CELL < block->rows)
                foretell(scan, block, row + TM_SCAN_CELL, first);
            add_piece(scan, &job);
        }
    for (size_t col = first; col < end; col += TM_TILE_SIDE) {
        piece job = piece_at(scan, block, 0, col);
        job.out = out;
        finish_tile(scan, &job);
    }
}

void tm_scan_add(tm_scan *scan, const tm_scan_block *block, const tm_scan_out *out)
{
    assert(block->rows > 0 && block->rows <= TM_TILE_SIDE && block->cols > 0);
    const size_t step = (size_t)TILES_AT_ONCE * TM_TILE_SIDE;
    tm_stage_begin(&scan->stage, scan->tally.stats->dtype);
    for (size_t col = 0; col < block->cols; col += step)
        add_tiles(scan, block, out, col, tm_min_u64(col + step, block->cols));
}

/* --- levels 1 to 3 --- */

static tm_lod_cell cell_of(double value)
{
    tm_lod_cell cell = {.min = INFINITY, .max = -INFINITY};
    float rounded = (float)value + 0.0f; /* to -0 too, which + 0 ends */
    if (isfinite(value))
        cell = (tm_lod_cell){value + 0.0, 1, 0, rounded, rounded};
    else
        cell.nonfinite = 1;
    return cell;
}

/* Two staged rows (one at the edge) become a row of cells of level 1. */
static void first_level(const tm_scan *scan, size_t r, size_t rows, size_t cols, tm_lod_cell *ret)
{
    double values[2][TM_SCAN_CELL];
    for (size_t c = 0; c < cols; c += 2) {
        size_t at = c % TM_SCAN_CELL, n = tm_min_u64(2, cols - c);
        for (size_t i = 0; at == 0 && i < rows; i++)
            tm_stage_values(&scan->stage, r + i, c, values[i]);
        tm_lod_cell four[4];
        for (size_t i = 0; i < rows * n; i++)
            four[i] = cell_of(values[i / n][at + i % n]);
        tm_lod_halve(four, rows, n, ret++);
    }
}

/* ROWS (at most 2^LEVEL) staged rows become one row of cells. */
static void fine_row(tm_scan *scan, size_t rows, size_t cols, unsigned level, tm_lod_cell *ret)
{
    size_t wide = (cols + 1) / 2, high = (rows + 1) / 2;
    for (size_t r = 0; r < rows; r += 2)
        first_level(scan, r, tm_min_u64(2, rows - r), cols, scan->fine[0] + r / 2 * wide);
    for (unsigned at = 1; at < level; at++) {
        tm_lod_halve(scan->fine[1 - at % 2], high, wide, scan->fine[at % 2]);
        high = (high + 1) / 2;
        wide = (wide + 1) / 2;
    }
    memcpy(ret, scan->fine[1 - level % 2], wide * sizeof(*ret));
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
