/*
 * Speed of the scan beside a plain loop over the same bytes in memory, for six distributions.
 *
 *     scan [MIB [DTYPE ...]]      default 64 (beyond the caches), BF16 F16 F32 F8_E4M3
 *
 * One thread; GB/s of CPU time, of twenty rounds the best. "full" is the whole scan with rows
 * and columns and levels 4 to 8; the pieces after it are parts of it alone. A last line a type
 * says what must hold: full against plain, and the worst distribution against the Gaussian one.
 */
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "compute/scan.h"
#include "compute/scan_stage.h"
#include "compute/tally.h"

enum {
    ROUNDS = 20,
    COLS = 4096,
    PATTERN = 1 << 20 /* elements that are made; the rest repeats them in another order */
};

typedef enum kind {
    GAUSSIAN,
    NORM_LIKE,
    PRUNED,
    UNIFORM_BITS,
    CONSTANT,
    DENORMAL,
    KIND_COUNT
} kind;

static const char *const kind_names[KIND_COUNT] = {"gaussian", "norm-like", "95% zero",
                                                   "any bits", "constant",  "denormal"};

typedef struct bench {
    tm_dtype dtype;
    const uint8_t *src;
    size_t rows, width; /* bytes of an element */
    tm_scan *scan;
    tm_stage stage;
    tm_tally tally;
    tm_stats stats;
    tm_lod_cell cells[2][TM_TILE_SIDE / TM_SCAN_CELL * COLS / TM_SCAN_CELL];
    uint64_t row_bits[4], col_bits[COLS / 64];
    uint64_t sink;
} bench;

static uint64_t next_random(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static double uniform(void)
{
    return ((double)(next_random() >> 11) + 0.5) * 0x1p-53;
}

static double gaussian(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

static uint32_t bits_of(double value)
{
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof(bits));
    return bits;
}

/* The bits of an f32; bf16 takes their upper half. */
static uint32_t element(kind what)
{
    switch (what) {
    case GAUSSIAN:
        return bits_of(0.02 * gaussian());
    case NORM_LIKE:
        return bits_of(1 + 1e-4 * gaussian());
    case PRUNED:
        return uniform() < 0.95 ? 0 : bits_of(gaussian());
    case UNIFORM_BITS:
        return (uint32_t)(next_random() >> 32);
    case CONSTANT:
        return 0x3f800000;
    case DENORMAL:
        return (uint32_t)(next_random() >> 32) & 0x807fffff;
    case KIND_COUNT:
        break;
    }
    return 0;
}

static void fill(uint8_t *src, size_t n, size_t width, kind what)
{
    for (size_t i = 0; i < n; i++) {
        if (i < PATTERN) {
            uint32_t bits = element(what);
            memcpy(src + i * width, (const uint8_t *)&bits + 4 - width, width);
        } else {
            size_t from = i * 2654435761u % PATTERN;
            memcpy(src + i * width, src + from * width, width);
        }
    }
}

/* --- what is measured --- */

static void plain(bench *b)
{
    uint64_t sum[4] = {0};
    size_t words = b->rows * COLS * b->width / 8;
    for (size_t i = 0; i + 4 <= words; i += 4)
        for (size_t k = 0; k < 4; k++)
            sum[k] += tm_le64(b->src + 8 * (i + k));
    b->sink += sum[0] + sum[1] + sum[2] + sum[3];
}

static void full(bench *b)
{
    const tm_scan_out out = {b->cells[0], b->row_bits, b->col_bits};
    tm_scan_begin(b->scan, &b->stats);
    for (size_t row = 0; row < b->rows; row += TM_TILE_SIDE) {
        tm_scan_block block = {.src = b->src,
                               .first = row * COLS,
                               .stride = COLS,
                               .rows = tm_min_u64(TM_TILE_SIDE, b->rows - row),
                               .cols = COLS,
                               .index = row * COLS,
                               .row_elems = COLS};
        tm_scan_add(b->scan, &block, &out);
        size_t high = (block.rows + TM_SCAN_CELL - 1) / TM_SCAN_CELL, wide = COLS / TM_SCAN_CELL;
        for (int level = TM_SCAN_LEVEL; level < 8; level++) {
            tm_lod_halve(b->cells[level % 2], high, wide, b->cells[1 - level % 2]);
            high = (high + 1) / 2;
            wide = (wide + 1) / 2;
        }
    }
    tm_scan_end(b->scan);
}

static void each_row(bench *b, bool stages, bool tallies, bool strips)
{
    tm_stage_begin(&b->stage, b->dtype);
    tm_tally_begin(&b->tally, &b->stats);
    for (size_t i = 0; i < b->rows * COLS; i += TM_TILE_SIDE) {
        size_t r = i / TM_TILE_SIDE % TM_STRIP_SIDE;
        tm_tally_run run = {b->src, i, TM_TILE_SIDE, b->stage.f32[r]};
        if (stages)
            tm_stage_row(&b->stage, r, b->src, i, TM_TILE_SIDE);
        if (tallies)
            tm_tally_add(&b->tally, &run);
        for (size_t at = 0; strips && r == 0 && at < TM_TILE_SIDE; at += TM_STRIP_SIDE) {
            tm_strip strip;
            tm_stage_strip(&b->stage, at, TM_STRIP_SIDE, &strip);
            b->sink += strip.nonzero[0];
        }
    }
    tm_tally_end(&b->tally);
}

static void decode_only(bench *b)
{
    each_row(b, true, false, false);
}

static void count_only(bench *b)
{
    each_row(b, b->dtype == TM_F32, true, false);
}

static void strips_only(bench *b)
{
    each_row(b, false, false, true);
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double gb_per_second(bench *b, void (*what)(bench *b))
{
    double best = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double begin = cpu_seconds();
        what(b);
        double speed = (double)(b->rows * COLS * b->width) * 1e-9 / (cpu_seconds() - begin);
        best = speed > best ? speed : best;
    }
    return best;
}

static int bench_dtype(bench *b, tm_cpu_level level, uint8_t *src, size_t bytes)
{
    double first = 0, least_full = INFINITY, least_share = INFINITY;
    b->width = tm_dtype_get(b->dtype)->bits / 8;
    b->rows = bytes / b->width / COLS;
    TM_TRY(tm_stats_init(&b->stats, b->dtype));
    printf("%s, %s\n%-10s %7s %7s %6s %8s | %7s %7s %7s\n", tm_dtype_get(b->dtype)->name,
           tm_cpu_level_name(level), "GB/s", "plain", "full", "ratio", "of gauss", "decode",
           "count", "strips");
    for (int k = 0; k < KIND_COUNT; k++) {
        fill(src, b->rows * COLS, b->width, (kind)k);
        double read = gb_per_second(b, plain), all = gb_per_second(b, full);
        first = k == 0 ? all : first;
        least_full = all < least_full ? all : least_full;
        least_share = all / read < least_share ? all / read : least_share;
        printf("%-10s %7.2f %7.2f %5.1f%% %8.2f | %7.2f %7.2f %7.2f\n", kind_names[k], read, all,
               100 * all / read, all / first, gb_per_second(b, decode_only),
               gb_per_second(b, count_only), gb_per_second(b, strips_only));
    }
    printf("least: %.1f%% of plain, %.2f of gaussian\n\n", 100 * least_share, least_full / first);
    tm_stats_done(&b->stats);
    return 0;
}

static int bench_all(bench *b, tm_cpu_level level, uint8_t *src, size_t bytes, char **names)
{
    static const char *const usual[] = {"BF16", "F16", "F32", "F8_E4M3", NULL};
    const char *const *name = names[0] ? (const char *const *)names : usual;
    for (; *name; name++)
        if (!tm_dtype_parse(*name, strlen(*name), &b->dtype) ||
            bench_dtype(b, level, src, bytes) < 0)
            return -EINVAL;
    return 0;
}

int main(int argc, char **argv)
{
    size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 64;
    tm_cpu_level level = tm_cpu_best();
    TM_AUTO_FREE uint8_t *src = mib > 0 && mib < 1 << 16 ? tm_new_array(mib, 1 << 20) : NULL;
    TM_AUTO_FREE bench *b = TM_NEW(bench);
    if (!src || !b || tm_tally_init(&b->tally, false) < 0 ||
        !(b->scan = tm_scan_new(level, UINT64_MAX))) {
        fprintf(stderr, "scan: cannot run with %zu MiB\n", mib);
        return 2;
    }
    b->src = src;
    tm_stage_init(&b->stage, level);
    int rc = bench_all(b, level, src, mib << 20, argv + (argc > 1 ? 2 : 1));
    tm_tally_done(&b->tally);
    tm_scan_free(b->scan);
    return rc < 0 ? 2 : 0;
}
