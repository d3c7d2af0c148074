/* Whole tensors, block by block: nothing is missed or counted twice, in any order. */
#include "compute/tensor_scan.h"
#include "tests/unit/core/engine.h"

#include <math.h>
#include <unistd.h>

/* ---- A scan and what came of it ---- */

typedef struct outcome {
    event ended;
    int rc;
    char words[256];
    tm_scan_total total; /* its statistics are a copy */
    pthread_mutex_t lock;
    const tm_blocks *blocks;
    unsigned level;
    tm_lod_cell *grid; /* of all planes at the level */
    unsigned given;    /* blocks whose cells came */
    unsigned fail_at;  /* 0: never */
} outcome;

static uint64_t level_dim(uint64_t dim, unsigned level)
{
    return tm_planes_level_dim(dim, level);
}

static int take_cells(void *ctx, uint64_t i, const tm_lod_cell *cells)
{
    outcome *o = ctx;
    const tm_planes *planes = &o->blocks->planes;
    tm_block block = tm_blocks_at(o->blocks, i);
    uint64_t rows = tm_block_cell_rows(&block, o->level);
    uint64_t cols = tm_block_cell_cols(&block, o->level);
    uint64_t width = level_dim(planes->cols, o->level);
    uint64_t at = block.plane * level_dim(planes->rows, o->level) + (block.row >> o->level);
    pthread_mutex_lock(&o->lock);
    for (uint64_t r = 0; r < rows; r++)
        memcpy(o->grid + (at + r) * width + (block.col >> o->level), cells + r * cols,
               cols * sizeof(*cells));
    bool fails = ++o->given == o->fail_at;
    pthread_mutex_unlock(&o->lock);
    return fails ? -ENOSPC : 0;
}

static void take_total(void *ctx, int rc, const char *words, tm_scan_total *total)
{
    outcome *o = ctx;
    o->rc = rc;
    snprintf(o->words, sizeof(o->words), "%s", words);
    if (total) {
        o->total = *total;
        assert_int_equal(tm_stats_init(&o->total.stats, total->stats.dtype), 0);
        tm_stats_merge(&o->total.stats, &total->stats);
    }
    event_set(&o->ended);
}

typedef struct setting {
    unsigned workers, parallel, level, fail_at;
} setting;

static outcome run(tm_tensor *tensor, setting how)
{
    tm_blocks blocks = tm_blocks_of(tensor->dims, tensor->rank, tm_dtype_get(tensor->dtype)->bits);
    outcome o = {.ended = EVENT_INIT,
                 .lock = PTHREAD_MUTEX_INITIALIZER,
                 .blocks = &blocks,
                 .level = how.level,
                 .fail_at = how.fail_at};
    uint64_t cells = blocks.planes.planes * level_dim(blocks.planes.rows, how.level) *
                     level_dim(blocks.planes.cols, how.level);
    o.grid = how.level ? tm_new_array(cells, sizeof(*o.grid)) : NULL;
    tm_sched *sched = sched_new(how.workers, 1);
    tm_tensor_scan_params params = {
        .sched = sched,
        .tensor = tensor,
        .lane = TM_LANE_ANALYSIS,
        .count = blocks.count,
        .parallel = how.parallel,
        .level = how.level,
        .cells = how.level ? take_cells : NULL,
        .done = take_total,
        .ctx = &o,
    };
    tm_tensor_scan *scan;
    assert_int_equal(tm_tensor_scan_new(&params, &scan), 0);
    tm_tensor_scan_start(scan);
    event_wait(&o.ended, "for a scan");
    tm_tensor_scan_unref(scan);
    tm_sched_free(sched);
    return o;
}

static void outcome_done(outcome *o)
{
    tm_stats_done(&o->total.stats);
    free(o->grid);
}

/* ---- Tensors ---- */

/* Floats of which one in SPARSE is not zero (0: all), with the odd NaN and infinity. */
static tm_tensor *floats(const uint64_t *dims, size_t rank, unsigned sparse, float **ret)
{
    uint64_t n = 1, seed = 9;
    for (size_t i = 0; i < rank; i++)
        n *= dims[i];
    float *values = tm_new_array(n, sizeof(*values));
    assert_non_null(values);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t random = next_random(&seed);
        bool zero = sparse && random % sparse != 0;
        values[i] = zero ? 0.0f : (float)((double)random / 1e9 - 1.0);
        if (random % 9973 == 5)
            values[i] = random % 2 ? NAN : INFINITY;
    }
    tm_blob *blob;
    tm_tensor *tensor;
    assert_int_equal(tm_blob_mem_new(values, n * sizeof(*values), &blob), 0);
    assert_int_equal(tm_tensor_blob_new(blob, TM_F32, dims, rank, &tensor), 0);
    tm_blob_unref(blob);
    *ret = values;
    return tensor;
}

typedef struct shape {
    size_t rank;
    uint64_t dims[4];
    unsigned sparse;
} shape;

static const shape shapes[] = {
    {0, {0}, 0},
    {1, {1}, 0},
    {1, {3000001}, 3}, /* several blocks of one row */
    {2, {1, 5}, 2},
    {2, {300, 1}, 2},
    {2, {70000, 3}, 5}, /* many bands a block, several blocks */
    {2, {513, 9001}, 0},
    {2, {517, 13001}, 4000}, /* rows are cut; some rows and columns are empty */
    {3, {5, 40, 33}, 60},
    {3, {2, 300, 4500}, 3000},
    {4, {64, 3, 5, 5}, 100},
    {2, {0, 7}, 0},
};

/* ---- Against plain loops ---- */

static void expect_empty_lines(const outcome *o, const float *values)
{
    const tm_planes *p = &o->blocks->planes;
    uint64_t rows = 0, cols = 0;
    for (uint64_t plane = 0; plane < p->planes; plane++, values += p->rows * p->cols) {
        for (uint64_t r = 0; r < p->rows; r++) {
            bool any = false;
            for (uint64_t c = 0; c < p->cols; c++)
                any |= values[r * p->cols + c] != 0;
            rows += !any;
        }
        for (uint64_t c = 0; c < p->cols; c++) {
            bool any = false;
            for (uint64_t r = 0; r < p->rows; r++)
                any |= values[r * p->cols + c] != 0;
            cols += !any && p->rows; /* without elements it is no column */
        }
    }
    assert_int_equal(o->total.zero_rows, rows);
    assert_int_equal(o->total.zero_cols, cols);
}

static void expect_counts(const outcome *o, const float *values, uint64_t n)
{
    tm_stats_summary got;
    uint64_t nan = 0, inf = 0, zero = 0, absmax_index = 0;
    double absmax = -1;
    for (uint64_t i = 0; i < n; i++) {
        nan += isnan(values[i]);
        inf += isinf(values[i]);
        zero += values[i] == 0;
        if (isfinite(values[i]) && fabs((double)values[i]) > absmax) {
            absmax = fabs((double)values[i]);
            absmax_index = i;
        }
    }
    tm_sums sums;
    tm_stats_sums(&o->total.stats, &sums);
    tm_stats_summarize(&o->total.stats, &sums, &got);
    assert_int_equal(got.n, n);
    assert_int_equal(got.nan, nan);
    assert_int_equal(got.pos_inf + got.neg_inf, inf);
    assert_int_equal(got.zero, zero);
    if (absmax >= 0)
        assert_true(got.absmax == absmax && got.absmax_index == absmax_index);
}

static void every_element_is_counted_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(shapes); i++) {
        float *values;
        tm_tensor *tensor = floats(shapes[i].dims, shapes[i].rank, shapes[i].sparse, &values);
        tm_blocks blocks = tm_blocks_of(tensor->dims, tensor->rank, 32);
        outcome o = run(tensor, (setting){2, 0, 0, 0});
        o.blocks = &blocks;
        assert_int_equal(o.rc, 0);
        expect_counts(&o, values, tensor->elems);
        expect_empty_lines(&o, values);
        outcome_done(&o);
        tm_tensor_unref(tensor);
        free(values);
    }
}

static void expect_cell(const tm_lod_cell *cell, const float *values, const tm_planes *p,
                        const tm_block *at)
{
    uint64_t finite = 0, nonfinite = 0;
    double sum = 0, scale = 0;
    float min = INFINITY, max = -INFINITY;
    for (uint64_t r = at->row; r < tm_min_u64(at->row + at->rows, p->rows); r++) {
        for (uint64_t c = at->col; c < tm_min_u64(at->col + at->cols, p->cols); c++) {
            float v = values[(at->plane * p->rows + r) * p->cols + c];
            if (!isfinite(v)) {
                nonfinite++;
                continue;
            }
            finite++;
            sum += (double)v;
            scale += fabs((double)v);
            min = v < min ? v : min;
            max = v > max ? v : max;
        }
    }
    assert_int_equal(cell->finite, finite);
    assert_int_equal(cell->nonfinite, nonfinite);
    assert_true(fabs(cell->sum - sum) <= scale * 1e-14);
    assert_true(cell->min == min && cell->max == max);
}

static void cells_of_each_level_summarize_their_elements(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(shapes); i++) {
        float *values;
        tm_tensor *tensor = floats(shapes[i].dims, shapes[i].rank, shapes[i].sparse, &values);
        tm_blocks blocks = tm_blocks_of(tensor->dims, tensor->rank, 32);
        const tm_planes *p = &blocks.planes;
        for (unsigned level = 1; level <= TM_BLOCK_LEVEL; level++) {
            outcome o = run(tensor, (setting){2, 3, level, 0});
            assert_int_equal(o.rc, 0);
            assert_int_equal(o.given, blocks.count);
            uint64_t rows = level_dim(p->rows, level), cols = level_dim(p->cols, level);
            uint64_t n = p->planes * rows * cols;
            for (uint64_t k = 0; k < n; k += 1 + n / 500) {
                tm_block at = {k / (rows * cols), (k / cols % rows) << level, (k % cols) << level,
                               UINT64_C(1) << level, UINT64_C(1) << level};
                expect_cell(&o.grid[k], values, p, &at);
            }
            outcome_done(&o);
        }
        tm_tensor_unref(tensor);
        free(values);
    }
}

static void threads_and_order_change_no_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(shapes); i++) {
        float *values;
        tm_tensor *tensor = floats(shapes[i].dims, shapes[i].rank, shapes[i].sparse, &values);
        outcome first = run(tensor, (setting){1, 1, 5, 0});
        tm_blocks blocks = tm_blocks_of(tensor->dims, tensor->rank, 32);
        uint64_t cells = blocks.planes.planes * level_dim(blocks.planes.rows, 5) *
                         level_dim(blocks.planes.cols, 5);
        for (unsigned k = 0; k < 2; k++) {
            outcome again = run(tensor, (setting){k ? 7 : 2, k ? 7 : 2, 5, 0});
            const tm_stats *a = &first.total.stats, *b = &again.total.stats;
            assert_memory_equal(a->hist, b->hist, a->bins * sizeof(*a->hist));
            assert_memory_equal(a->wide, b->wide, sizeof(*a->wide));
            assert_memory_equal(first.grid, again.grid, cells * sizeof(*first.grid));
            outcome_done(&again);
        }
        outcome_done(&first);
        tm_tensor_unref(tensor);
        free(values);
    }
}

/* ---- Half bytes, failures, cancels ---- */

static void half_bytes_are_scanned_from_within_a_byte(void **state)
{
    (void)state;
    enum {
        PLANES = 3,
        PLANE_ROWS = 4097,
        COLS = 257, /* so that every other plane starts within a byte; one is several stripes */
        ROWS = PLANES * PLANE_ROWS
    };
    size_t bytes = ((size_t)ROWS * COLS + 1) / 2;
    uint8_t *codes = malloc(bytes);
    uint64_t seed = 3, counts[16] = {0};
    for (size_t i = 0; i < bytes; i++)
        codes[i] = (uint8_t)next_random(&seed);
    for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
        counts[codes[i / 2] >> (i % 2 * 4) & 15]++;
    tm_blob *blob;
    tm_tensor *tensor;
    assert_int_equal(tm_blob_mem_take(codes, bytes, &blob), 0);
    const uint64_t dims[] = {PLANES, PLANE_ROWS, COLS};
    assert_int_equal(tm_tensor_blob_new(blob, TM_F4, dims, 3, &tensor), 0);
    outcome o = run(tensor, (setting){2, 2, 0, 0});
    assert_int_equal(o.rc, 0);
    assert_memory_equal(o.total.stats.hist, counts, sizeof(counts));
    outcome_done(&o);
    tm_tensor_unref(tensor);
    tm_blob_unref(blob);
}

static void a_failure_ends_it_once_with_words(void **state)
{
    (void)state;
    float *values;
    tm_tensor *tensor = floats((uint64_t[]){3000, 3000}, 2, 0, &values);
    outcome o = run(tensor, (setting){3, 3, 4, 2});
    assert_int_equal(o.rc, -ENOSPC);
    assert_string_equal(o.words, "No space left on device");
    outcome_done(&o);
    tm_tensor_unref(tensor);
    free(values);
}

/* A scan of all blocks of a tensor of BF16 that stands in a leaf of the test's. */
typedef struct scanning {
    tm_sched *sched;
    tm_blob *source;
    tm_tensor *tensor;
    tm_tensor_scan *scan;
    outcome o;
} scanning;

/* SOURCE becomes its own. */
static void scanning_init(scanning *s, tm_sched *sched, tm_blob *source, const uint64_t dims[2])
{
    *s = (scanning){.sched = sched, .source = source, .o = {.ended = EVENT_INIT}};
    assert_int_equal(tm_tensor_blob_new(source, TM_BF16, dims, 2, &s->tensor), 0);
    tm_tensor_scan_params params = {.sched = sched,
                                    .tensor = s->tensor,
                                    .count = tm_blocks_of(dims, 2, 16).count,
                                    .done = take_total,
                                    .ctx = &s->o};
    assert_int_equal(tm_tensor_scan_new(&params, &s->scan), 0);
}

static void scanning_cancel(scanning *s)
{
    tm_tensor_scan_cancel(s->scan);
    event_wait(&s->o.ended, "for a scan that was cancelled");
    assert_int_equal(s->o.rc, -EINTR);
}

/* Its scheduler was freed. */
static void scanning_done(scanning *s)
{
    tm_tensor_scan_unref(s->scan);
    tm_tensor_unref(s->tensor);
    tm_blob_unref(s->source);
}

static void a_read_that_fails_is_told_with_its_words(void **state)
{
    (void)state;
    scanning s;
    leaf *l = leaf_new(16 << 20);
    scanning_init(&s, sched_new(2, 1), &l->blob, (uint64_t[]){2048, 4096});
    tm_tensor_scan_start(s.scan);
    leaf_wait_started(l, 2);
    leaf_end(l, false, -EIO, "the disk is gone");
    leaf_end(l, false, 0, NULL);
    event_wait(&s.o.ended, "for a scan");
    assert_int_equal(s.o.rc, -EIO);
    assert_string_equal(s.o.words, "the disk is gone");
    tm_sched_free(s.sched);
    scanning_done(&s);
}

static void a_scan_that_is_cancelled_ends_soon(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        scanning s;
        leaf *l = leaf_new(16 << 20); /* whose fetches never end by themselves */
        scanning_init(&s, sched_new(3, 1), &l->blob, (uint64_t[]){2048, 4096});
        tm_tensor_scan_start(s.scan);
        scanning_cancel(&s);
        tm_tensor_scan_cancel(s.scan); /* late, and in vain */
        tm_sched_free(s.sched);
        scanning_done(&s);
    }
}

/* Whatever has been scanned of a block, it is not whole. */
static void what_is_cancelled_within_a_block_has_no_total(void **state)
{
    (void)state;
    for (unsigned served = 0; served < 16; served++) {
        scanning s;
        leaf *l = leaf_new(4 << 20);
        scanning_init(&s, sched_new(2, 1), &l->blob, (uint64_t[]){256, 8192});
        tm_tensor_scan_start(s.scan);
        for (unsigned i = 0; i < served; i++) {
            leaf_wait_started(l, i + 1);
            assert_true(leaf_end(l, false, 0, NULL));
        }
        scanning_cancel(&s);
        tm_sched_free(s.sched);
        scanning_done(&s);
    }
}

/* While workers go from stripe to stripe without waiting. */
static void a_scan_may_be_cancelled_at_any_moment(void **state)
{
    (void)state;
    float *values;
    tm_tensor *tensor = floats((uint64_t[]){3000, 1024}, 2, 0, &values);
    tm_sched *sched = sched_new(3, 1);
    uint64_t seed = 5;
    unsigned ended = 0, cut = 0;
    for (int round = 0; round < 100; round++) {
        outcome o = {.ended = EVENT_INIT};
        tm_tensor_scan_params params = {.sched = sched,
                                        .tensor = tensor,
                                        .count = 3,
                                        .parallel = 2,
                                        .done = take_total,
                                        .ctx = &o};
        tm_tensor_scan *scan;
        assert_int_equal(tm_tensor_scan_new(&params, &scan), 0);
        tm_tensor_scan_start(scan);
        if (round % 10 == 0)
            event_wait(&o.ended, "for a scan");
        else
            usleep((useconds_t)(next_random(&seed) % 300 * (unsigned)(round % 10 - 1)));
        tm_tensor_scan_cancel(scan);
        event_wait(&o.ended, "for a scan that was cancelled");
        if (o.rc == 0) {
            expect_counts(&o, values, tensor->elems);
            tm_stats_done(&o.total.stats);
        } else {
            assert_int_equal(o.rc, -EINTR);
        }
        *(o.rc == 0 ? &ended : &cut) += 1;
        tm_tensor_scan_unref(scan);
    }
    assert_true(ended > 0 && cut > 0);
    tm_sched_free(sched);
    tm_tensor_unref(tensor);
    free(values);
}

typedef struct scan_job {
    tm_job job;
    tm_tensor_scan *scan;
} scan_job;

static void run_scan(tm_job *job)
{
    tm_tensor_scan_start(TM_CONTAINER(job, scan_job, job)->scan);
}

/* A mount ends while a worker hands a read on for a scan that nobody waits for any more. */
static void threads_stay_until_what_was_cancelled_has_ended(void **state)
{
    (void)state;
    scanning s;
    disk *slow = disk_new(256 << 10); /* one stripe: nothing is read ahead */
    slow->delay_us = 20000;
    scanning_init(&s, sched_new(1, 1), &slow->blob, (uint64_t[]){32, 4096});
    scan_job begin = {.job = {.run = run_scan}, .scan = s.scan};
    tm_pool_submit(s.sched->workers, &begin.job);
    event_wait(&slow->asked, "for the first fetch");
    tm_tensor_scan_cancel(s.scan);
    tm_sched_free(s.sched);
    assert_true(s.o.ended.happened);
    assert_int_equal(s.o.rc, -EINTR);
    scanning_done(&s);
}

/* ---- Blocks ---- */

static void blocks_cover_each_element_once(void **state)
{
    (void)state;
    static const unsigned widths[] = {4, 8, 16, 32, 64};
    for (size_t i = 0; i < TM_ARRAY_LEN(shapes); i++) {
        for (size_t w = 0; w < TM_ARRAY_LEN(widths); w++) {
            tm_blocks b = tm_blocks_of(shapes[i].dims, shapes[i].rank, widths[w]);
            uint64_t n = 0, elems = b.planes.planes * b.planes.rows * b.planes.cols;
            for (uint64_t k = 0; k < b.count; k++) {
                tm_block block = tm_blocks_at(&b, k);
                assert_in_range(block.row + block.rows, 1, b.planes.rows);
                assert_in_range(block.col + block.cols, 1, b.planes.cols);
                assert_true(block.row % 256 == 0 && block.col % 4096 == 0);
                assert_true(k == 0 || block.plane || block.row || block.col);
                n += block.rows * block.cols;
                assert_in_range((block.rows * block.cols * widths[w] + 7) / 8, 0,
                                tm_blocks_bytes(&b, widths[w]));
            }
            assert_int_equal(n, elems);
            if (widths[w] >= 8)
                assert_in_range(tm_blocks_bytes(&b, widths[w]), 0, 2 * TM_BLOCK_BYTES + 1);
        }
    }
}

static void a_block_of_any_shape_is_a_few_mebibytes(void **state)
{
    (void)state;
    static const uint64_t dims[][2] = {{1, UINT64_C(1) << 40},
                                       {UINT64_C(1) << 40, 1},
                                       {3, UINT64_C(1) << 38},
                                       {UINT64_C(1) << 20, UINT64_C(1) << 20},
                                       {8192, 28672},
                                       {151936, 1024},
                                       {255, 8193},
                                       {1000000, 7}};
    for (size_t i = 0; i < TM_ARRAY_LEN(dims); i++) {
        tm_blocks b = tm_blocks_of(dims[i], 2, 16);
        assert_in_range(tm_blocks_bytes(&b, 16), 1, TM_BLOCK_BYTES + 1);
        assert_true(b.down * b.across == b.count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_cover_each_element_once),
        cmocka_unit_test(a_block_of_any_shape_is_a_few_mebibytes),
        cmocka_unit_test(every_element_is_counted_once),
        cmocka_unit_test(cells_of_each_level_summarize_their_elements),
        cmocka_unit_test(threads_and_order_change_no_bit),
        cmocka_unit_test(half_bytes_are_scanned_from_within_a_byte),
        cmocka_unit_test(a_failure_ends_it_once_with_words),
        cmocka_unit_test(a_read_that_fails_is_told_with_its_words),
        cmocka_unit_test(a_scan_that_is_cancelled_ends_soon),
        cmocka_unit_test(what_is_cancelled_within_a_block_has_no_total),
        cmocka_unit_test(a_scan_may_be_cancelled_at_any_moment),
        cmocka_unit_test(threads_stay_until_what_was_cancelled_has_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
