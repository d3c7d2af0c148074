/*
 * Prints as text all that the kernels say of one plane, for stats_expected.py to check.
 *
 *     stats_dump LEVEL DTYPE ROWS COLS FILE      LEVEL: scalar, avx2, ... or best
 *
 * The plane is scanned as an index would: in blocks, in no good order, by two scans that share
 * nothing, whose statistics are merged. A line is a key and values; floats are in hexadecimal.
 */
#include <inttypes.h>
#include <stdio.h>

#include "compute/axis_stats.h"
#include "core/planes.h"
#include "compute/scan.h"

typedef struct plane {
    tm_cpu_level level;
    tm_dtype dtype;
    uint64_t rows, cols;
    uint8_t *src;
    tm_scan *scan[2];
    tm_stats stats[2];
    tm_lod_cell *cells[2]; /* grids of cells, two to halve one into the other */
    uint64_t *row_bits, *col_bits;
} plane;

static void die(const char *what)
{
    fprintf(stderr, "stats_dump: %s\n", what);
    exit(2);
}

static void *must(void *p)
{
    if (!p)
        die("no memory");
    return p;
}

static void read_file(plane *p, const char *path)
{
    size_t bytes = (size_t)((p->rows * p->cols * tm_dtype_get(p->dtype)->bits + 7) / 8);
    p->src = must(malloc(bytes + 1));
    FILE *file = fopen(path, "rb");
    if (!file || fread(p->src, 1, bytes, file) != bytes || fclose(file) != 0)
        die("cannot read");
}

static tm_scan_block block_at(const plane *p, uint64_t row, uint64_t col, uint64_t cols_max)
{
    return (tm_scan_block){.src = p->src,
                           .first = row * p->cols + col,
                           .stride = p->cols,
                           .rows = tm_min_u64(TM_TILE_SIDE, p->rows - row),
                           .cols = tm_min_u64(cols_max, p->cols - col),
                           .index = row * p->cols + col,
                           .row_elems = p->cols};
}

enum {
    BLOCK_COLS = 2 * TM_TILE_SIDE
};

/* Scans a block with one of the two scans and puts its cells into the grid of level 4. */
static void scan_block(plane *p, uint64_t row, uint64_t col, size_t which)
{
    tm_scan_block block = block_at(p, row, col, BLOCK_COLS);
    tm_lod_cell cells[TM_TILE_SIDE / TM_SCAN_CELL * BLOCK_COLS / TM_SCAN_CELL];
    uint64_t row_bits[4] = {0};
    tm_scan_out out = {cells, row_bits, p->col_bits + col / 64};
    tm_scan_add(p->scan[which], &block, &out);
    for (size_t i = 0; i < TM_ARRAY_LEN(row_bits) && row / 64 + i <= p->rows / 64; i++)
        p->row_bits[row / 64 + i] |= row_bits[i];
    size_t wide = tm_planes_level_dim(block.cols, TM_SCAN_LEVEL);
    size_t high = tm_planes_level_dim(block.rows, TM_SCAN_LEVEL);
    size_t all_wide = tm_planes_level_dim(p->cols, TM_SCAN_LEVEL);
    for (size_t r = 0; r < high; r++)
        memcpy(p->cells[0] + (row / TM_SCAN_CELL + r) * all_wide + col / TM_SCAN_CELL,
               cells + r * wide, wide * sizeof(*cells));
}

/* Odd blocks from the last to the first, then even ones from the first to the last. */
static void scan_all(plane *p)
{
    uint64_t wide = (p->cols + BLOCK_COLS - 1) / BLOCK_COLS;
    uint64_t n = (p->rows + TM_TILE_SIDE - 1) / TM_TILE_SIDE * wide;
    for (int i = 0; i < 2; i++)
        tm_scan_begin(p->scan[i], &p->stats[i]);
    for (uint64_t i = n; i-- > 0;)
        if (i % 2 == 1)
            scan_block(p, i / wide * TM_TILE_SIDE, i % wide * BLOCK_COLS, 1);
    for (uint64_t i = 0; i < n; i += 2)
        scan_block(p, i / wide * TM_TILE_SIDE, i % wide * BLOCK_COLS, 0);
    for (int i = 0; i < 2; i++)
        tm_scan_end(p->scan[i]);
    tm_stats_merge(&p->stats[0], &p->stats[1]);
}

static void print_summary(const plane *p)
{
    tm_stats_summary s;
    tm_sums sums;
    tm_stats_sums(&p->stats[0], &sums);
    tm_stats_summarize(&p->stats[0], &sums, &s);
    printf("n %" PRIu64 "\nnan %" PRIu64 "\npos_inf %" PRIu64 "\nneg_inf %" PRIu64 "\n", s.n, s.nan,
           s.pos_inf, s.neg_inf);
    printf("zero %" PRIu64 "\nneg_zero %" PRIu64 "\nsubnormal %" PRIu64 "\n", s.zero, s.neg_zero,
           s.subnormal);
    printf("min %a\nmax %a\nabsmax %a\nabsmax_index %" PRIu64 "\n", s.min, s.max, s.absmax,
           s.absmax_index);
    printf("mean %a\nvar %a\nstd %a\nl1 %a\nl2 %a\n", s.moments.mean, s.moments.var, s.moments.std,
           s.moments.l1, s.moments.l2);
    printf("sparsity %a\nentropy %a\n", s.sparsity, s.entropy);
    printf("distinct %" PRId64 "\n", s.has_distinct ? (int64_t)s.distinct : -1);
    for (size_t i = 0; i < TM_STATS_QUANTILES; i++)
        printf("q%u %a\n", tm_stats_quantile_permille[i], s.quantile[i]);
}

static void print_histogram(const plane *p)
{
    static tm_stats_row rows[TM_STATS_ROWS];
    tm_stats_rows(&p->stats[0], rows);
    for (size_t i = 0; i < TM_STATS_ROWS; i++)
        if (rows[i].count > 0)
            printf("hist %a %a %" PRIu64 "\n", rows[i].lo, rows[i].hi, rows[i].count);
}

static void print_bits(const char *key, const uint64_t *bits, uint64_t n)
{
    uint64_t empty = 0;
    for (uint64_t i = 0; i < n; i++)
        empty += !(bits[i / 64] >> i % 64 & 1);
    printf("%s %" PRIu64 "\n", key, empty);
}

static void print_cell(unsigned level, uint64_t r, uint64_t c, const tm_lod_cell *cell)
{
    printf("lod %u %" PRIu64 " %" PRIu64 " %a %a %a %" PRIu64 "\n", level, r, c,
           (double)tm_lod_mean(cell), (double)tm_lod_min(cell), (double)tm_lod_max(cell),
           cell->nonfinite);
}

static void print_grid(unsigned level, const tm_lod_cell *cells, uint64_t high, uint64_t wide)
{
    for (uint64_t i = 0; i < high * wide; i++)
        print_cell(level, i / wide, i % wide, &cells[i]);
}

static void print_fine(const plane *p, unsigned level)
{
    tm_lod_cell *cells = must(tm_new_array(TM_TILE_SIDE * TM_TILE_SIDE / 4, sizeof(*cells)));
    for (uint64_t row = 0; row < p->rows; row += TM_TILE_SIDE)
        for (uint64_t col = 0; col < p->cols; col += TM_TILE_SIDE) {
            tm_scan_block block = block_at(p, row, col, TM_TILE_SIDE);
            if (tm_scan_fine(p->scan[0], p->dtype, &block, level, cells) < 0)
                die("tm_scan_fine");
            uint64_t wide = tm_planes_level_dim(block.cols, level);
            uint64_t high = tm_planes_level_dim(block.rows, level);
            for (uint64_t i = 0; i < high * wide; i++)
                print_cell(level, (row >> level) + i / wide, (col >> level) + i % wide, &cells[i]);
        }
    free(cells);
}

static void print_levels(plane *p)
{
    tm_planes planes = {1, p->rows, p->cols};
    unsigned levels = tm_planes_levels(&planes);
    printf("levels %u\n", levels);
    for (unsigned level = 1; level < TM_SCAN_LEVEL && level <= levels; level++)
        print_fine(p, level);
    uint64_t high = tm_planes_level_dim(p->rows, TM_SCAN_LEVEL);
    uint64_t wide = tm_planes_level_dim(p->cols, TM_SCAN_LEVEL);
    for (unsigned level = TM_SCAN_LEVEL; level <= levels; level++) {
        print_grid(level, p->cells[level % 2], high, wide);
        tm_lod_halve(p->cells[level % 2], high, wide, p->cells[1 - level % 2]);
        high = (high + 1) / 2;
        wide = (wide + 1) / 2;
    }
}

static void print_axis(const char *key, const tm_axis_entry *entries, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        printf("%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %a %a\n", key, i,
               entries[i].n, entries[i].nan, entries[i].inf, entries[i].zero, entries[i].absmax,
               tm_axis_rms(&entries[i]));
}

static void print_axes(const plane *p)
{
    tm_axis_shape shape = {p->rows, p->cols, must(tm_new_array(p->rows + 1, sizeof(tm_axis_entry))),
                           must(tm_new_array(p->cols + 1, sizeof(tm_axis_entry)))};
    tm_axis_stats *axis = must(tm_axis_stats_new(p->level, p->dtype, &shape));
    uint64_t n = p->rows * p->cols;
    for (uint64_t at = 0, run = 1; at < n; at += run, run = tm_min_u64(n - at, 2 * run + 1))
        tm_axis_stats_add(axis, p->src, at, run);
    print_axis("row", shape.of_row, p->rows);
    print_axis("col", shape.of_col, p->cols);
    tm_axis_stats_free(axis);
    free(shape.of_row);
    free(shape.of_col);
}

static tm_cpu_level level_of(const char *name)
{
    for (int l = 0; l < TM_CPU_LEVEL_COUNT; l++)
        if (strcmp(name, tm_cpu_level_name((tm_cpu_level)l)) == 0)
            return tm_cpu_has((tm_cpu_level)l) ? (tm_cpu_level)l : tm_cpu_best();
    return tm_cpu_best();
}

static void init(plane *p, char **argv)
{
    p->level = level_of(argv[1]);
    if (!tm_dtype_parse(argv[2], strlen(argv[2]), &p->dtype))
        die("unknown dtype");
    p->rows = strtoull(argv[3], NULL, 10);
    p->cols = strtoull(argv[4], NULL, 10);
    read_file(p, argv[5]);
    uint64_t cells = (p->rows / TM_SCAN_CELL + 1) * (p->cols / TM_SCAN_CELL + 1);
    for (int i = 0; i < 2; i++) {
        p->scan[i] = must(tm_scan_new(p->level, UINT64_MAX));
        p->cells[i] = must(tm_new_array(cells, sizeof(*p->cells[i])));
        if (tm_stats_init(&p->stats[i], p->dtype) < 0)
            die("tm_stats_init");
    }
    p->row_bits = must(tm_new_array(p->rows / 64 + 1, sizeof(*p->row_bits)));
    p->col_bits = must(tm_new_array(p->cols / 64 + 1, sizeof(*p->col_bits)));
}

static void done(plane *p)
{
    for (int i = 0; i < 2; i++) {
        tm_scan_free(p->scan[i]);
        free(p->cells[i]);
        tm_stats_done(&p->stats[i]);
    }
    free(p->row_bits);
    free(p->col_bits);
    free(p->src);
}

int main(int argc, char **argv)
{
    plane p = {0};
    if (argc != 6)
        die("usage: stats_dump LEVEL DTYPE ROWS COLS FILE");
    init(&p, argv);
    if (p.cols > 0)
        scan_all(&p);
    print_summary(&p);
    print_histogram(&p);
    print_bits("zero_rows", p.row_bits, p.rows);
    print_bits("zero_cols", p.col_bits, p.cols);
    if (p.rows * p.cols > 0)
        print_levels(&p);
    print_axes(&p);
    done(&p);
    return fflush(stdout) == 0 ? 0 : 2;
}
