/* The scan: every level equals the scalar one, any cut and order gives the same statistics. */
#include "compute/scan.h"

#include <math.h>
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#include "core/planes.h"

enum {
    ROWS_MAX = 256,
    COLS_MAX = 600,
    PAD = 80 /* elements before and after */
};

/* All that a block gives. */
typedef struct results {
    tm_lod_cell cells[16 * ((COLS_MAX + 15) / 16)];
    uint64_t row_bits[4], col_bits[(COLS_MAX + 63) / 64];
    tm_stats stats;
} results;

static uint8_t source[8 * (ROWS_MAX * (COLS_MAX + PAD) + 2 * PAD)];
static results want, got;
static uint64_t seed = 7;

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static bool has_values(tm_dtype dtype)
{
    return dtype != TM_F6_E2M3 && dtype != TM_F6_E3M2 && dtype != TM_C64;
}

/* Random bits; in ZEROS of 8 bytes, zeros. */
static void fill_source(unsigned zeros)
{
    for (size_t i = 0; i < sizeof(source); i += 8) {
        uint64_t r = next_random();
        r = next_random() % 8 < zeros ? 0 : r;
        memcpy(source + i, &r, 8);
    }
}

static void scan_into(results *to, tm_cpu_level level, tm_dtype dtype, const tm_scan_block *block)
{
    memset(to, 0, sizeof(*to));
    /* Few elements are counted in another way, with the same results. */
    uint64_t elems = to == &got ? block->rows * block->cols : UINT64_MAX;
    tm_scan *scan = tm_scan_new(level, elems);
    assert_non_null(scan);
    assert_int_equal(tm_stats_init(&to->stats, dtype), 0);
    const tm_scan_out out = {to->cells, to->row_bits, to->col_bits};
    tm_scan_begin(scan, &to->stats);
    tm_scan_add(scan, block, &out);
    tm_scan_end(scan);
    tm_scan_free(scan);
}

static void check_same_stats(const tm_stats *a, const tm_stats *b)
{
    assert_memory_equal(a->hist, b->hist, a->bins * sizeof(*a->hist));
    if (a->wide)
        assert_memory_equal(a->wide, b->wide, sizeof(*a->wide));
    assert_true(a->absmax == b->absmax);
    assert_int_equal(a->absmax_index, b->absmax_index);
}

static void check_same(const results *a, const results *b)
{
    assert_memory_equal(a->cells, b->cells, sizeof(a->cells));
    assert_memory_equal(a->row_bits, b->row_bits, sizeof(a->row_bits));
    assert_memory_equal(a->col_bits, b->col_bits, sizeof(a->col_bits));
    check_same_stats(&a->stats, &b->stats);
}

static const struct {
    size_t rows, cols;
} shapes[] = {{1, 1},    {1, 600},   {256, 1}, {2, 15},  {16, 16},  {17, 17},  {255, 257},
              {31, 511}, {256, 256}, {3, 255}, {40, 33}, {64, 512}, {100, 64}, {256, 600}};

static tm_scan_block block_of(size_t shape, size_t shift)
{
    return (tm_scan_block){.src = source,
                           .first = shift,
                           .stride = shapes[shape].cols + shift % PAD,
                           .rows = shapes[shape].rows,
                           .cols = shapes[shape].cols,
                           .index = 1000,
                           .row_elems = 777};
}

static void every_level_equals_the_scalar_one_in_every_shape(void **state)
{
    (void)state;
    for (int l = TM_CPU_SCALAR + 1; l < TM_CPU_LEVEL_COUNT; l++) {
        for (int d = 0; d < TM_DTYPE_COUNT; d++) {
            if (!tm_cpu_has((tm_cpu_level)l) || !has_values((tm_dtype)d))
                continue;
            for (size_t s = 0; s < TM_ARRAY_LEN(shapes); s++) {
                fill_source((unsigned)s % 8);
                tm_scan_block block = block_of(s, s * 5 % PAD);
                block.src = source + s % 3; /* any alignment */
                scan_into(&want, TM_CPU_SCALAR, (tm_dtype)d, &block);
                scan_into(&got, (tm_cpu_level)l, (tm_dtype)d, &block);
                check_same(&want, &got);
                tm_stats_done(&want.stats);
                tm_stats_done(&got.stats);
            }
        }
    }
}

/* What the rows and columns of a block are is all that counts: neither where they lie in memory,
 * nor what lies between them. */
static void the_same_values_elsewhere_give_the_same(void **state)
{
    (void)state;
    static uint8_t packed[8 * ROWS_MAX * COLS_MAX];
    for (int d = 0; d < TM_DTYPE_COUNT; d++) {
        size_t width = tm_dtype_get((tm_dtype)d)->bits / 8;
        if (!has_values((tm_dtype)d) || width == 0)
            continue;
        fill_source(2);
        tm_scan_block block = block_of(6, 13), tight = block;
        tight.src = packed;
        tight.first = 0;
        tight.stride = block.cols;
        for (size_t r = 0; r < block.rows; r++)
            memcpy(packed + r * block.cols * width,
                   source + (block.first + r * block.stride) * width, block.cols * width);
        scan_into(&want, tm_cpu_best(), (tm_dtype)d, &block);
        scan_into(&got, tm_cpu_best(), (tm_dtype)d, &tight);
        check_same(&want, &got);
        tm_stats_done(&want.stats);
        tm_stats_done(&got.stats);
    }
}

static void a_four_bit_row_may_start_within_a_byte(void **state)
{
    (void)state;
    static uint8_t moved[sizeof(source)];
    fill_source(1);
    for (size_t i = 0; i + 1 < sizeof(source); i++)
        moved[i] = (uint8_t)(source[i] << 4 | (i > 0 ? source[i - 1] >> 4 : 0));
    tm_scan_block block = block_of(7, 0), odd = block;
    odd.src = moved;
    odd.first = 1;
    scan_into(&want, TM_CPU_SCALAR, TM_F4, &block);
    scan_into(&got, tm_cpu_best(), TM_F4, &odd);
    check_same(&want, &got);
    tm_stats_done(&want.stats);
    tm_stats_done(&got.stats);
}

/* The source is exactly as long as its elements: a checker of addresses sees a read past it. */
static void no_level_reads_past_the_block(void **state)
{
    (void)state;
    for (int l = 0; l < TM_CPU_LEVEL_COUNT; l++) {
        for (int d = 0; d < TM_DTYPE_COUNT; d++) {
            if (!tm_cpu_has((tm_cpu_level)l) || !has_values((tm_dtype)d))
                continue;
            for (size_t cols = 1; cols < 70; cols += 3) {
                size_t rows = cols % 19 + 1;
                size_t bytes = (rows * cols * tm_dtype_get((tm_dtype)d)->bits + 7) / 8;
                uint8_t *exact = calloc(1, bytes);
                assert_non_null(exact);
                tm_scan_block block = {exact, 0, cols, rows, cols, 0, cols};
                scan_into(&got, (tm_cpu_level)l, (tm_dtype)d, &block);
                assert_int_equal(got.cells[0].finite, tm_min_u64(rows, 16) * tm_min_u64(cols, 16));
                tm_stats_done(&got.stats);
                free(exact);
            }
        }
    }
}

enum {
    TENSOR_ROWS = 300,
    TENSOR_COLS = 500,
    PARTS = 5
};

/* Scans the tensor cut by STEP rows and columns, blocks dealt to PARTS statistics at random. */
static void scan_cut(tm_dtype dtype, size_t rows, size_t cols, tm_stats *ret)
{
    tm_stats parts[PARTS];
    tm_scan *scan = tm_scan_new(tm_cpu_best(), UINT64_MAX);
    assert_non_null(scan);
    for (size_t i = 0; i < PARTS; i++)
        assert_int_equal(tm_stats_init(&parts[i], dtype), 0);
    for (size_t part = 0; part < PARTS; part++) {
        tm_scan_begin(scan, &parts[part]);
        for (size_t r = 0; r < TENSOR_ROWS; r += rows)
            for (size_t c = 0; c < TENSOR_COLS; c += cols) {
                if ((r / rows * 7 + c / cols) % PARTS != part)
                    continue;
                uint64_t at = r * TENSOR_COLS + c;
                tm_scan_block block = {.src = source, .first = at, .stride = TENSOR_COLS};
                block.rows = tm_min_u64(rows, TENSOR_ROWS - r);
                block.cols = tm_min_u64(cols, TENSOR_COLS - c);
                block.index = at;
                block.row_elems = TENSOR_COLS;
                tm_scan_add(scan, &block, &(tm_scan_out){0});
            }
        tm_scan_end(scan);
    }
    size_t first = next_random() % PARTS; /* merged in one of several orders */
    assert_int_equal(tm_stats_init(ret, dtype), 0);
    for (size_t i = 0; i < PARTS; i++) {
        tm_stats_merge(ret, &parts[(first + 2 * i) % PARTS]);
        tm_stats_done(&parts[(first + 2 * i) % PARTS]);
    }
    tm_scan_free(scan);
}

static void any_cut_and_any_order_of_merging_gives_the_same_statistics(void **state)
{
    (void)state;
    static const struct {
        size_t rows, cols;
    } cuts[] = {{1, 500}, {300, 7}, {256, 256}, {31, 63}, {2, 400}};
    for (int d = 0; d < TM_DTYPE_COUNT; d++) {
        if (!has_values((tm_dtype)d))
            continue;
        fill_source(3);
        tm_stats first, other;
        scan_cut((tm_dtype)d, 256, 512, &first);
        for (size_t i = 0; i < TM_ARRAY_LEN(cuts); i++) {
            scan_cut((tm_dtype)d, tm_min_u64(cuts[i].rows, 256), cuts[i].cols, &other);
            check_same_stats(&first, &other);
            tm_stats_done(&other);
        }
        tm_stats_done(&first);
    }
}

static void the_first_of_equal_magnitudes_is_the_one_that_counts(void **state)
{
    (void)state;
    static float plane[TENSOR_ROWS * TENSOR_COLS];
    static const size_t places[] = {299 * TENSOR_COLS + 3, 40 * TENSOR_COLS + 499, 41 * TENSOR_COLS,
                                    40 * TENSOR_COLS + 257};
    memset(plane, 0, sizeof(plane));
    plane[5] = INFINITY;
    plane[6] = NAN;
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < TM_ARRAY_LEN(places); i++) {
        plane[places[i]] = i % 2 ? -3.0f : 3.0f;
        least = places[i] < least ? places[i] : least;
        memcpy(source, plane, sizeof(plane));
        tm_stats stats;
        scan_cut(TM_F32, 256, 512, &stats);
        assert_true(stats.absmax == 3);
        assert_int_equal(stats.absmax_index, least);
        tm_stats_done(&stats);
    }
}

static void a_scan_of_nothing_finite_has_no_bounds(void **state)
{
    (void)state;
    float values[40];
    for (size_t i = 0; i < TM_ARRAY_LEN(values); i++)
        values[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -INFINITY;
    tm_scan_block block = {values, 0, 20, 2, 20, 0, 20};
    scan_into(&got, tm_cpu_best(), TM_F32, &block);
    assert_int_equal(got.stats.hist[0x7fc0], 14);
    assert_int_equal(got.stats.hist[0x7f80], 13);
    assert_int_equal(got.stats.hist[0xff80], 13);
    assert_true(got.stats.wide->min == INFINITY && got.stats.wide->max == -INFINITY);
    assert_true(got.cells[0].sum == 0 && got.cells[1].sum == 0);
    assert_true(isnan(tm_lod_mean(&got.cells[0])) && isnan(tm_lod_min(&got.cells[1])));
    assert_int_equal(got.cells[0].nonfinite, 32);
    assert_int_equal(got.cells[1].nonfinite, 8);
    assert_true(got.stats.absmax == -1);
    tm_stats_done(&got.stats);
}

static void a_row_of_zeros_of_either_sign_is_empty_and_one_of_nan_is_not(void **state)
{
    (void)state;
    float values[4][3] = {{0, -0.0f, 0}, {0, NAN, 0}, {-0.0f, 0, 0}, {0, 0, 0x1p-149f}};
    tm_scan_block block = {values, 0, 3, 4, 3, 0, 3};
    scan_into(&got, tm_cpu_best(), TM_F32, &block);
    assert_int_equal(got.row_bits[0], 0xa);
    assert_int_equal(got.col_bits[0], 0x6);
    assert_int_equal(got.stats.wide->zero, 10);
    assert_int_equal(got.stats.wide->neg_zero, 2);
    assert_false(signbit(got.stats.wide->min));
    tm_stats_done(&got.stats);
}

/* Fractions of all ones, so often that what counts them must be emptied between. */
static void sums_of_many_are_exact(void **state)
{
    (void)state;
    enum {
        COLS = 4096,
        ROWS = 256
    };
    static float values[ROWS * COLS];
    const float value = 0x1.fffffep0f;
    for (size_t i = 0; i < TM_ARRAY_LEN(values); i++)
        values[i] = value;
    tm_stats stats;
    tm_scan *scan = tm_scan_new(tm_cpu_best(), UINT64_MAX);
    assert_non_null(scan);
    assert_int_equal(tm_stats_init(&stats, TM_F32), 0);
    tm_scan_begin(scan, &stats);
    tm_scan_block block = {values, 0, COLS, ROWS, COLS, 0, COLS};
    for (int i = 0; i < 3; i++)
        tm_scan_add(scan, &block, &(tm_scan_out){0});
    tm_scan_end(scan);
    tm_sums sums = {{{0}}, {{0}}, {{0}}};
    tm_sums_add(&sums, (double)value, 3 * TM_ARRAY_LEN(values));
    assert_memory_equal(&stats.wide->sums, &sums, sizeof(sums));
    assert_int_equal(stats.hist[0x3fff], 3 * TM_ARRAY_LEN(values));
    tm_stats_done(&stats);
    tm_scan_free(scan);
}

/* The order of compute/lod.h, by its words: values whose sum depends on it. */
static double lanes_sum(const double *values, size_t stride, size_t rows, size_t cols)
{
    double lane[16] = {0};
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            lane[c] += values[r * stride + c];
    for (size_t half = 8; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            lane[i] = lane[i] + lane[i + half];
    return lane[0];
}

static void sums_of_cells_have_the_documented_order(void **state)
{
    (void)state;
    enum {
        ROWS = 40,
        COLS = 70,
        WIDE = 5
    };
    static double values[ROWS * COLS];
    for (size_t i = 0; i < TM_ARRAY_LEN(values); i++)
        values[i] = ldexp((double)(int64_t)next_random(), (int)(next_random() % 120) - 60);
    tm_scan_block block = {values, 0, COLS, ROWS, COLS, 0, COLS};
    scan_into(&got, tm_cpu_best(), TM_F64, &block);
    for (size_t r = 0; r < 3; r++)
        for (size_t c = 0; c < WIDE; c++) {
            double sum = lanes_sum(values + r * 16 * COLS + c * 16, COLS,
                                   tm_min_u64(16, ROWS - 16 * r), tm_min_u64(16, COLS - 16 * c));
            assert_true(got.cells[r * WIDE + c].sum == sum);
        }
    tm_stats_done(&got.stats);
}

static void finer_levels_add_up_to_the_same_as_level_4(void **state)
{
    (void)state;
    static tm_lod_cell fine[128 * 128], grids[2][128 * 128];
    static float values[255 * 256];
    tm_scan *scan = tm_scan_new(tm_cpu_best(), UINT64_MAX);
    assert_non_null(scan);
    for (size_t i = 0; i < TM_ARRAY_LEN(values); i++) /* whole numbers: any order is exact */
        values[i] = next_random() % 9 == 0 ? NAN : (float)(next_random() % 1000) - 500;
    tm_scan_block block = {values, 0, 256, 255, 250, 0, 256};
    scan_into(&got, tm_cpu_best(), TM_F32, &block);
    for (unsigned level = 1; level < TM_SCAN_LEVEL; level++) {
        assert_int_equal(tm_scan_fine(scan, TM_F32, &block, level, fine), 0);
        memcpy(grids[level % 2], fine, sizeof(fine));
        for (unsigned at = level; at < TM_SCAN_LEVEL; at++)
            tm_lod_halve(grids[at % 2], tm_planes_level_dim(255, at), tm_planes_level_dim(250, at),
                         grids[1 - at % 2]);
        assert_memory_equal(grids[0], got.cells, 16 * 16 * sizeof(*fine));
    }
    assert_int_equal(tm_scan_fine(scan, TM_C64, &block, 1, fine), -EOPNOTSUPP);
    assert_int_equal(tm_scan_fine(scan, TM_F6_E2M3, &block, 1, fine), -EOPNOTSUPP);
    tm_scan_free(scan);
    tm_stats_done(&got.stats);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_equals_the_scalar_one_in_every_shape),
        cmocka_unit_test(the_same_values_elsewhere_give_the_same),
        cmocka_unit_test(a_four_bit_row_may_start_within_a_byte),
        cmocka_unit_test(no_level_reads_past_the_block),
        cmocka_unit_test(any_cut_and_any_order_of_merging_gives_the_same_statistics),
        cmocka_unit_test(the_first_of_equal_magnitudes_is_the_one_that_counts),
        cmocka_unit_test(a_scan_of_nothing_finite_has_no_bounds),
        cmocka_unit_test(a_row_of_zeros_of_either_sign_is_empty_and_one_of_nan_is_not),
        cmocka_unit_test(sums_of_many_are_exact),
        cmocka_unit_test(sums_of_cells_have_the_documented_order),
        cmocka_unit_test(finer_levels_add_up_to_the_same_as_level_4),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
