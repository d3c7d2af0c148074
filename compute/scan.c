/* The pass: a block is cut into pieces of 16 rows and 256 columns, a piece into strips. */
#include "compute/scan.h"

#include <math.h>
#include <pthread.h>

#include "compute/scan_stage.h"
#include "compute/tally.h"

enum {
    FEW_ELEMENTS = 1 << 14, /* fewer do not pay for emptying the replicas, about 50 us */
    KEPT_MAX = 16,
    STRIPS = TM_STRIP_STRIDE / TM_STRIP_SIDE, /* of a piece */
    LINE = 64                                 /* bytes that the processor fetches at a time */
};

struct tm_scan {
    tm_tally tally;
    tm_stage stage;
    tm_strip strip;
    uint16_t nonzero[TM_SCAN_CELL]; /* bits of the rows of the piece, all strips together */
    tm_lod_cell fine[2][TM_TILE_SIDE / 2 * 4];
};

typedef struct piece {
    const tm_scan_block *block;
    const tm_scan_out *out;
    size_t col, cols; /* of the block */
    size_t row, rows;
} piece;

/* Those that have ended: a mebibyte of zeros costs as much as scanning as much. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows; innermost */
static tm_scan *kept[KEPT_MAX];
static unsigned kept_count;

static tm_scan *take_kept(void)
{
    pthread_mutex_lock(&lock);
    tm_scan *scan = kept_count ? kept[--kept_count] : NULL;
    pthread_mutex_unlock(&lock);
    return scan;
}

static bool keep(tm_scan *scan)
{
    if (!tm_tally_is_fresh(&scan->tally))
        return false;
    pthread_mutex_lock(&lock);
    bool has_room = kept_count < KEPT_MAX;
    if (has_room)
        kept[kept_count++] = scan;
    pthread_mutex_unlock(&lock);
    return has_room;
}

tm_scan *tm_scan_new(tm_cpu_level level, uint64_t elems)
{
    bool few = elems < FEW_ELEMENTS;
    TM_AUTO(tm_scan_freep) tm_scan *scan = few ? NULL : take_kept();
    if (!scan && (!(scan = TM_NEW(tm_scan)) || tm_tally_init(&scan->tally, few) < 0))
        return NULL;
    tm_stage_init(&scan->stage, level);
    return TM_STEAL(scan);
}

void tm_scan_free(tm_scan *scan)
{
    if (!scan || keep(scan))
        return;
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

static unsigned count_negative_zeros(const tm_strip *strip)
{
    unsigned n = 0;
    for (size_t r = 0; r < TM_STRIP_SIDE; r++)
        n += (unsigned)__builtin_popcount(strip->negative[r] & ~strip->nonzero[r] & 0xffff);
    return n;
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

/* What the histogram of a wide type does not tell. */
static void count_wide(tm_stats_wide *wide, const tm_strip *strip)
{
    if (strip->zero_count > 0) {
        wide->zero += strip->zero_count;
        wide->neg_zero += count_negative_zeros(strip);
    }
    wide->min = strip->min < wide->min ? strip->min : wide->min;
    wide->max = strip->max > wide->max ? strip->max : wide->max;
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
static double add_strip(tm_scan *scan, const piece *job, size_t at)
{
    size_t cols = tm_min_u64(TM_SCAN_CELL, job->cols - at);
    tm_strip *strip = &scan->strip;
    tm_stage_strip(&scan->stage, at, job->rows, strip);
    strip->min += 0.0; /* -0 becomes +0 */
    strip->max += 0.0;
    cut_columns(strip, cols);
    if (scan->tally.stats->wide)
        count_wide(scan->tally.stats->wide, strip);
    mark_columns(job, strip, at);
    for (size_t r = 0; r < TM_SCAN_CELL; r++)
        scan->nonzero[r] |= strip->nonzero[r];
    if (job->out->cells)
        finish_cell(job, strip, at, cols);
    return strip_absmax(strip);
}

/* --- a piece --- */

static uint64_t index_of(const piece *job, size_t r, size_t c)
{
    const tm_scan_block *block = job->block;
    return block->index + (job->row + r) * block->row_elems + job->col + c;
}

/* Offers the first element of the piece of the magnitude ABSMAX; its strips of it are in HAS. */
static void find_absmax(tm_scan *scan, const piece *job, double absmax, unsigned has)
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
                tm_stats_offer_absmax(scan->tally.stats, absmax, index_of(job, r, at + c));
                return;
            }
        }
    }
}

/* ABSMAX: of each strip. */
static void offer_absmax(tm_scan *scan, const piece *job, const double absmax[STRIPS])
{
    const tm_stats *stats = scan->tally.stats;
    double most = -1;
    unsigned has = 0;
    for (size_t i = 0; i * TM_SCAN_CELL < job->cols; i++)
        most = absmax[i] > most ? absmax[i] : most;
    bool is_late = most == stats->absmax && index_of(job, 0, 0) > stats->absmax_index;
    if (most < 0 || most < stats->absmax || is_late)
        return;
    for (size_t i = 0; i * TM_SCAN_CELL < job->cols; i++)
        has |= (unsigned)(absmax[i] == most) << i;
    find_absmax(scan, job, most, has);
}

static void count_row(tm_scan *scan, const piece *job, size_t r)
{
    const tm_scan_block *block = job->block;
    tm_tally_run run = {.src = block->src,
                        .first = block->first + (job->row + r) * block->stride + job->col,
                        .n = job->cols,
                        .values = scan->stage.f32[r]};
    tm_stage_row(&scan->stage, r, run.src, run.first, run.n);
    tm_tally_add(&scan->tally, &run);
}

static void add_piece(tm_scan *scan, const piece *job)
{
    double absmax[STRIPS];
    for (size_t r = 0; r < job->rows; r++)
        count_row(scan, job, r);
    memset(scan->nonzero, 0, sizeof(scan->nonzero));
    if (job->rows < TM_SCAN_CELL)
        memset(&scan->strip, 0, sizeof(scan->strip));
    for (size_t at = 0; at < job->cols; at += TM_SCAN_CELL)
        absmax[at / TM_SCAN_CELL] = add_strip(scan, job, at);
    mark_rows(job, scan->nonzero);
    offer_absmax(scan, job, absmax);
}

static piece piece_at(const tm_scan_block *block, const tm_scan_out *out, size_t row, size_t col)
{
    return (piece){.block = block,
                   .out = out,
                   .col = col,
                   .cols = tm_min_u64(TM_STRIP_STRIDE, block->cols - col),
                   .row = row,
                   .rows = tm_min_u64(TM_SCAN_CELL, block->rows - row)};
}

/* Rows of a block lie so far apart that the processor does not foresee the next piece: it is told,
 * while it counts the one before. */
static void foretell(const tm_scan *scan, const piece *next)
{
    const tm_scan_block *block = next->block;
    unsigned bits = tm_dtype_get(scan->stage.dtype)->bits;
    size_t bytes = next->cols * bits / 8;
    for (size_t r = 0; r < next->rows; r++) {
        uint64_t first = block->first + (next->row + r) * block->stride + next->col;
        const char *at = (const char *)block->src + first * bits / 8;
        for (size_t i = 0; i < bytes; i += LINE)
            __builtin_prefetch(at + i);
    }
}

/* Goes on to the next piece of the block; false behind the last one. */
static bool go_on(piece *job)
{
    const tm_scan_block *block = job->block;
    size_t row = job->row, col = job->col + TM_STRIP_STRIDE;
    if (col >= block->cols) {
        col = 0;
        row += TM_SCAN_CELL;
    }
    if (row >= block->rows)
        return false;
    *job = piece_at(block, job->out, row, col);
    return true;
}

void tm_scan_add(tm_scan *scan, const tm_scan_block *block, const tm_scan_out *out)
{
    assert(block->rows > 0 && block->rows <= TM_TILE_SIDE && block->cols > 0);
    tm_stage_begin(&scan->stage, scan->tally.stats->dtype);
    piece job, next = piece_at(block, out, 0, 0);
    bool more;
    do {
        job = next;
        more = go_on(&next);
        if (more)
            foretell(scan, &next);
        add_piece(scan, &job);
    } while (more);
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
