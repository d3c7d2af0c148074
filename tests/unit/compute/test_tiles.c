/* Tiles of a tensor against plain loops over it; and how they come and go while reads wait. */
#include "compute/tiles.h"

#include <math.h>

#include "compute/scan.h"
#include "tests/unit/core/engine.h"

/* ---- A blob that waits for a tile: its bytes are what the tile counts ---- */

typedef struct asker {
    tm_blob blob;
    tm_tile_source source;
    tm_tile_kind kind;
    unsigned level;
    uint64_t index;
} asker;

static int asker_get(const asker *a, tm_tile **ret)
{
    if (a->kind == TM_TILE_STATS)
        return tm_tile_stats_get(&a->source, TM_LANE_ANALYSIS, ret);
    if (a->kind == TM_TILE_COARSE)
        return tm_tile_coarse_get(&a->source, a->index, TM_LANE_VISIBLE, ret);
    if (a->kind == TM_TILE_PLANE)
        return tm_tile_plane_get(&a->source, a->level, a->index, TM_LANE_VISIBLE, ret);
    return tm_tile_level_get(&a->source, a->level, a->index, TM_LANE_VISIBLE, ret);
}

static int asker_plan(tm_blob *blob, tm_plan *plan, uint64_t off, size_t len, uint8_t *dst)
{
    asker *a = TM_CONTAINER(blob, asker, blob);
    tm_tile *tile;
    TM_TRY(asker_get(a, &tile));
    TM_TRY(tm_plan_tile(plan, tile));
    if (tm_shared_poll(&tile->shared) < 0)
        return tm_plan_wait(plan, &tile->shared);
    uint64_t n = a->kind == TM_TILE_STATS ? tm_tile_stats(tile)->record.summary.n : 0;
    assert(off == 0 && len == sizeof(n));
    memcpy(dst, &n, len);
    return 0;
}

static void asker_free(tm_blob *blob)
{
    asker *a = TM_CONTAINER(blob, asker, blob);
    tm_tensor_unref(a->source.tensor);
    free(a);
}

static const tm_blob_ops asker_ops = {.kind = "asker", .plan = asker_plan, .free = asker_free};

/* Starts a read of what A asks for; its blob lives as long as the read. */
static void ask_in(tm_lane lane, const asker *a, ending *e)
{
    asker *own = TM_NEW(asker);
    assert_non_null(own);
    *own = *a;
    tm_tensor_ref(own->source.tensor);
    tm_blob_init(&own->blob, &asker_ops, sizeof(uint64_t));
    ending_prepare(e, a->source.sched, &own->blob, 0, sizeof(uint64_t));
    e->read->params.lane = lane;
    tm_read_go(e->read);
    tm_blob_unref(&own->blob);
}

static void ask(const asker *a, ending *e)
{
    ask_in(TM_LANE_VISIBLE, a, e);
}

/* E has ended well, with N. */
static void expect_n(ending *e, uint64_t n)
{
    uint64_t got = UINT64_MAX;
    ending_wait(e);
    if (e->rc == 0)
        memcpy(&got, e->read->bytes, sizeof(got));
    expect_ended(e, 0, "");
    assert_int_equal(got, n);
}

/* The tile that A asks for, made, with a reference. */
static tm_tile *made(const asker *a)
{
    ending e;
    tm_tile *tile;
    ask(a, &e);
    expect_ended(&e, 0, "");
    assert_int_equal(asker_get(a, &tile), 0);
    assert_int_equal(tm_shared_poll(&tile->shared), 0);
    return tile;
}

/* ---- A place to work in ---- */

typedef struct place {
    tm_sched *sched;
    tm_store *store;
} place;

static place place_new(uint64_t budget)
{
    place p = {.sched = sched_new(2, 1)};
    assert_int_equal(tm_store_new(budget, &p.store), 0);
    return p;
}

static tm_tile_source source_of(const place *p, tm_tensor *tensor, uint32_t item)
{
    return (tm_tile_source){
        .store = p->store, .sched = p->sched, .tensor = tensor, .group = 3, .item = item};
}

/* Ends the threads, after which nobody uses a tile; returns what is resident then. */
static uint64_t place_done(place *p)
{
    tm_sched_free(p->sched);
    uint64_t used = tm_store_used(p->store);
    tm_store_free(p->store);
    return used;
}

/* ---- Tensors in memory ---- */

typedef struct shape {
    size_t rank;
    uint64_t dims[4];
    unsigned sparse;
} shape;

static const shape shapes[] = {
    {0, {0}, 0},
    {1, {1}, 0},
    {1, {1400001}, 3}, /* several blocks of one row */
    {2, {1, 5}, 2},
    {2, {300, 1}, 2},
    {2, {70000, 3}, 5},     /* many bands a block */
    {2, {300, 9001}, 4000}, /* rows are cut; some rows and columns are empty */
    {3, {2, 257, 4099}, 900},
    {4, {64, 3, 5, 5}, 100},
};

/* Floats of which one in SPARSE is not zero (0: all), with the odd NaN and infinity. */
static tm_tensor *floats(const shape *s, float **ret)
{
    uint64_t n = 1, seed = 9;
    for (size_t i = 0; i < s->rank; i++)
        n *= s->dims[i];
    float *values = tm_new_array(n, sizeof(*values));
    assert_non_null(values);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t random = next_random(&seed);
        bool zero = s->sparse && random % s->sparse != 0;
        values[i] = zero ? 0.0f : (float)((double)random / 1e9 - 1.0);
        if (random % 9973 == 5)
            values[i] = random % 2 ? NAN : INFINITY;
    }
    tm_blob *blob;
    tm_tensor *tensor;
    assert_int_equal(tm_blob_mem_new(values, n * sizeof(*values), &blob), 0);
    assert_int_equal(tm_tensor_blob_new(blob, TM_F32, s->dims, s->rank, &tensor), 0);
    tm_blob_unref(blob);
    *ret = values;
    return tensor;
}

/* ---- Statistics ---- */

/* Of all values as they lie, a row of 256 after the other. */
static void scan_directly(const float *values, uint64_t n, tm_stats *ret)
{
    tm_scan *scan = tm_scan_new(TM_CPU_SCALAR, UINT64_MAX);
    assert_non_null(scan);
    assert_int_equal(tm_stats_init(ret, TM_F32), 0);
    tm_scan_begin(scan, ret);
    for (uint64_t at = 0; at < n; at += 256) {
        size_t cols = tm_min_u64(256, n - at);
        tm_scan_block row = {.src = values,
                             .first = at,
                             .stride = cols,
                             .rows = 1,
                             .cols = cols,
                             .index = at,
                             .row_elems = cols};
        tm_scan_add(scan, &row, &(tm_scan_out){0});
    }
    tm_scan_end(scan);
    tm_scan_free(scan);
}

static void count_empty_lines(const float *values, const tm_planes *p, tm_stats_record *record)
{
    for (uint64_t plane = 0; plane < p->planes; plane++, values += p->rows * p->cols) {
        for (uint64_t r = 0; r < p->rows; r++) {
            uint64_t c = 0;
            while (c < p->cols && values[r * p->cols + c] == 0)
                c++;
            record->zero_rows += c == p->cols;
        }
        for (uint64_t c = 0; c < p->cols; c++) {
            uint64_t r = 0;
            while (r < p->rows && values[r * p->cols + c] == 0)
                r++;
            record->zero_cols += r == p->rows;
        }
    }
}

static void expect_record(const tm_stats_record *got, const tm_stats_record *want)
{
    for (size_t i = 0; i < TM_STATS_FIELDS; i++) {
        tm_value a = tm_stats_field(got, i), b = tm_stats_field(want, i);
        assert_int_equal(a.kind, b.kind);
        assert_int_equal(a.integer, b.integer);
        assert_true(a.real == b.real || (isnan(a.real) && isnan(b.real)));
    }
}

static void expect_hist(const tm_tensor_stats *got, const tm_stats *stats)
{
    tm_stats_row rows[TM_STATS_ROWS];
    uint32_t at = 0;
    tm_stats_rows(stats, rows);
    for (uint32_t row = 0; row < TM_STATS_ROWS; row++) {
        if (rows[row].count == 0)
            continue;
        assert_in_range(at, 0, got->hist_count - 1);
        assert_int_equal(got->hist[at].row, row);
        assert_int_equal(got->hist[at].count, rows[row].count);
        at++;
    }
    assert_int_equal(at, got->hist_count);
}

static void statistics_are_those_of_a_direct_scan(void **state)
{
    (void)state;
    place p = place_new(1 << 30);
    for (uint32_t i = 0; i < TM_ARRAY_LEN(shapes); i++) {
        float *values;
        tm_tensor *tensor = floats(&shapes[i], &values);
        tm_planes planes = tm_planes_of(tensor->dims, tensor->rank);
        asker a = {.source = source_of(&p, tensor, i), .kind = TM_TILE_STATS};
        tm_tile *tile = made(&a);
        tm_stats stats;
        tm_stats_record want = {.zero_rows = 0};
        scan_directly(values, tensor->elems, &stats);
        tm_sums sums;
        tm_stats_sums(&stats, &sums);
        tm_stats_summarize(&stats, &sums, &want.summary);
        count_empty_lines(values, &planes, &want);
        expect_record(&tm_tile_stats(tile)->record, &want);
        expect_hist(tm_tile_stats(tile), &stats);
        tm_tile_unref(tile);
        tm_stats_done(&stats);
        tm_tensor_unref(tensor); /* the tile has one of its own */
        free(values);
    }
    assert_in_range(place_done(&p), TM_ARRAY_LEN(shapes), 1 << 20);
}

static void a_tensor_without_elements_has_statistics(void **state)
{
    (void)state;
    static const shape empty[] = {{1, {0}, 0}, {2, {0, 7}, 0}, {3, {4, 0, 40}, 0}};
    place p = place_new(1 << 20);
    for (uint32_t i = 0; i < TM_ARRAY_LEN(empty); i++) {
        float *values;
        tm_tensor *tensor = floats(&empty[i], &values);
        asker a = {.source = source_of(&p, tensor, i), .kind = TM_TILE_STATS};
        tm_tile *tile = made(&a);
        const tm_tensor_stats *stats = tm_tile_stats(tile);
        assert_int_equal(stats->record.summary.n, 0);
        assert_int_equal(stats->record.zero_rows + stats->record.zero_cols, 0);
        assert_int_equal(stats->hist_count, 0);
        assert_true(isnan(stats->record.summary.min));
        tm_tile_unref(tile);
        tm_tensor_unref(tensor);
        free(values);
    }
    place_done(&p);
}

static void parts_of_a_tensor_have_tiles_of_their_own(void **state)
{
    (void)state;
    float *values[2];
    tm_tensor *tensors[] = {floats(&shapes[3], &values[0]), floats(&shapes[4], &values[1])};
    place p = place_new(1 << 20);
    for (int round = 0; round < 2; round++) {
        for (uint16_t part = 0; part < 2; part++) {
            asker a = {.source = source_of(&p, tensors[part], 0), .kind = TM_TILE_STATS};
            a.source.part = part;
            ending e;
            ask(&a, &e);
            expect_n(&e, tensors[part]->elems);
        }
    }
    place_done(&p);
    for (int i = 0; i < 2; i++) {
        tm_tensor_unref(tensors[i]);
        free(values[i]);
    }
}

/* ---- Levels ---- */

typedef struct naive_cell {
    uint64_t finite, nonfinite;
    double sum, scale;
    float min, max;
} naive_cell;

/* Of the elements of AT, which may reach beyond the plane. */
static naive_cell cell_of(const float *values, const tm_planes *p, const tm_block *at)
{
    naive_cell cell = {.min = INFINITY, .max = -INFINITY};
    for (uint64_t r = at->row; r < tm_min_u64(at->row + at->rows, p->rows); r++) {
        for (uint64_t c = at->col; c < tm_min_u64(at->col + at->cols, p->cols); c++) {
            float v = values[(at->plane * p->rows + r) * p->cols + c];
            if (!isfinite(v)) {
                cell.nonfinite++;
                continue;
            }
            cell.finite++;
            cell.sum += (double)v;
            cell.scale += fabs((double)v);
            cell.min = v < cell.min ? v : cell.min;
            cell.max = v > cell.max ? v : cell.max;
        }
    }
    return cell;
}

static void expect_cell(const tm_level_cells *got, uint64_t i, const naive_cell *want)
{
    float mean = got->of[TM_REDUCE_MEAN][i];
    assert_true(got->of[TM_REDUCE_NONFINITE][i] == (float)want->nonfinite);
    if (want->finite == 0) {
        assert_true(isnan(mean) && isnan(got->of[TM_REDUCE_MIN][i]) &&
                    isnan(got->of[TM_REDUCE_MAX][i]));
        return;
    }
    double n = (double)want->finite;
    double near = want->scale / n * 1e-13 + fabs(want->sum / n) * 0x1p-23;
    assert_true(fabs((double)mean - want->sum / n) <= near);
    assert_true(got->of[TM_REDUCE_MIN][i] == want->min);
    assert_true(got->of[TM_REDUCE_MAX][i] == want->max);
}

typedef struct area {
    const float *values;
    const tm_planes *planes;
    tm_block block; /* of the plane: what the cells cover */
} area;

static void expect_cells(const tm_level_cells *got, unsigned level, const area *of)
{
    assert_int_equal(got->rows, tm_planes_level_dim(of->block.rows, level));
    assert_int_equal(got->cols, tm_planes_level_dim(of->block.cols, level));
    uint64_t n = got->rows * got->cols, side = UINT64_C(1) << level;
    for (uint64_t i = 0; i < n; i += 1 + n / 700) {
        tm_block at = {of->block.plane, of->block.row + i / got->cols * side,
                       of->block.col + i % got->cols * side, side, side};
        naive_cell want = cell_of(of->values, of->planes, &at);
        expect_cell(got, i, &want);
    }
    if (n > 1) { /* the last one is cut at both edges */
        tm_block at = {of->block.plane, of->block.row + (got->rows - 1) * side,
                       of->block.col + (got->cols - 1) * side, side, side};
        naive_cell want = cell_of(of->values, of->planes, &at);
        expect_cell(got, n - 1, &want);
    }
}

static void levels_of_each_block_are_those_of_its_elements(void **state)
{
    (void)state;
    place p = place_new(1 << 30);
    for (uint32_t i = 0; i < TM_ARRAY_LEN(shapes); i++) {
        float *values;
        tm_tensor *tensor = floats(&shapes[i], &values);
        tm_blocks blocks = tm_blocks_of(tensor->dims, tensor->rank, 32);
        for (unsigned level = 1; level <= TM_BLOCK_LEVEL; level++) {
            for (uint64_t block = 0; block < blocks.count; block++) {
                asker a = {.source = source_of(&p, tensor, i),
                           .kind = TM_TILE_LEVEL,
                           .level = level,
                           .index = block};
                tm_tile *tile = made(&a);
                tm_level_cells cells = tm_tile_cells(tile, level);
                area of = {values, &blocks.planes, tm_blocks_at(&blocks, block)};
                expect_cells(&cells, level, &of);
                tm_tile_unref(tile);
            }
        }
        tm_tensor_unref(tensor);
        free(values);
    }
    assert_in_range(place_done(&p), 1, 1 << 30);
}

/* LEVEL of PLANE, from the tile that has it. */
static void expect_plane(const asker *a, unsigned level, const area *of)
{
    tm_tile *tile = made(a);
    tm_level_cells cells = tm_tile_cells(tile, level);
    expect_cells(&cells, level, of);
    tm_tile_unref(tile);
}

static void levels_of_each_plane_are_those_of_its_elements(void **state)
{
    (void)state;
    place p = place_new(1 << 30);
    for (uint32_t i = 0; i < TM_ARRAY_LEN(shapes); i++) {
        float *values;
        tm_tensor *tensor = floats(&shapes[i], &values);
        tm_planes planes = tm_planes_of(tensor->dims, tensor->rank);
        unsigned levels = tm_planes_levels(&planes);
        for (uint64_t plane = 0; plane < planes.planes; plane++) {
            area of = {values, &planes, {plane, 0, 0, planes.rows, planes.cols}};
            for (unsigned level = 5; level <= levels; level++) {
                bool coarse = level > TM_BLOCK_LEVEL;
                asker a = {.source = source_of(&p, tensor, i),
                           .kind = coarse ? TM_TILE_COARSE : TM_TILE_PLANE,
                           .level = coarse ? 0 : level,
                           .index = plane};
                expect_plane(&a, level, &of);
            }
        }
        tm_tensor_unref(tensor);
        free(values);
    }
    place_done(&p);
}

/* ---- Reads that wait: a tensor whose bytes come when the test likes ---- */

enum {
    BLOCKS = 4, /* a plane each, which is read at once */
    PLANE_ROWS = 32,
    ROWS = BLOCKS * PLANE_ROWS,
    COLS = 4096
};

typedef struct slow {
    place place;
    leaf *leaf;
    tm_tensor *tensor;
    asker asker; /* of its statistics */
} slow;

static void slow_init(slow *s, uint64_t budget)
{
    *s = (slow){.place = place_new(budget), .leaf = leaf_new((uint64_t)ROWS * COLS * 2)};
    const uint64_t dims[] = {BLOCKS, PLANE_ROWS, COLS};
    assert_int_equal(tm_tensor_blob_new(&s->leaf->blob, TM_BF16, dims, 3, &s->tensor), 0);
    s->asker = (asker){.source = source_of(&s->place, s->tensor, 0), .kind = TM_TILE_STATS};
}

static uint64_t slow_done(slow *s)
{
    uint64_t used = place_done(&s->place);
    tm_tensor_unref(s->tensor);
    tm_blob_unref(&s->leaf->blob);
    return used;
}

/* Ends COUNT fetches well, the first of which is the FIRST that was started. */
static void serve(slow *s, unsigned first, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        leaf_wait_started(s->leaf, first + i + 1);
        assert_true(leaf_end(s->leaf, false, 0, NULL));
    }
}

static void readers_at_once_share_one_pass(void **state)
{
    (void)state;
    enum {
        READERS = 7
    };
    slow s;
    slow_init(&s, 1 << 20);
    ending e[READERS];
    for (int i = 0; i < READERS; i++) {
        if (i == READERS - 1)
            serve(&s, 0, 1); /* who comes in the midst of it joins too */
        ask(&s.asker, &e[i]);
    }
    serve(&s, 1, BLOCKS - 1);
    for (int i = 0; i < READERS; i++)
        expect_n(&e[i], (uint64_t)ROWS * COLS);
    ask(&s.asker, &e[0]); /* who comes later finds it */
    expect_n(&e[0], (uint64_t)ROWS * COLS);
    assert_int_equal(leaf_started(s.leaf), BLOCKS);
    assert_in_range(slow_done(&s), 1, 1 << 20);
}

static void a_failure_is_told_to_all_and_not_remembered(void **state)
{
    (void)state;
    slow s;
    slow_init(&s, 1 << 20);
    ending e[3];
    for (int i = 0; i < 3; i++)
        ask(&s.asker, &e[i]);
    leaf_wait_started(s.leaf, 2);
    assert_true(leaf_end(s.leaf, false, -EIO, "the disk is gone"));
    assert_true(leaf_end(s.leaf, false, 0, NULL));
    for (int i = 0; i < 3; i++)
        expect_ended(&e[i], -EIO, "the disk is gone");
    assert_int_equal(tm_store_used(s.place.store), 0);
    assert_int_equal(leaf_started(s.leaf), 2);
    ask(&s.asker, &e[0]);
    serve(&s, 2, BLOCKS);
    expect_n(&e[0], (uint64_t)ROWS * COLS);
    slow_done(&s);
}

static void who_leaves_last_ends_the_pass(void **state)
{
    (void)state;
    slow s;
    slow_init(&s, 1 << 20);
    ending e[2];
    for (int i = 0; i < 2; i++)
        ask(&s.asker, &e[i]);
    leaf_wait_started(s.leaf, 2);
    for (int i = 0; i < 2; i++) {
        tm_read_cancel(e[i].read, EINTR, "interrupted");
        expect_ended(&e[i], -EINTR, "interrupted");
    }
    leaf_wait_withdrawn(s.leaf, 2);
    assert_int_equal(leaf_started(s.leaf), 2);
    ask(&s.asker, &e[0]);
    serve(&s, 2, BLOCKS);
    expect_n(&e[0], (uint64_t)ROWS * COLS);
    assert_in_range(slow_done(&s), 1, 1 << 20);
}

static void who_leaves_others_behind_ends_nothing(void **state)
{
    (void)state;
    slow s;
    slow_init(&s, 1 << 20);
    ending gone, stays;
    ask(&s.asker, &gone);
    ask(&s.asker, &stays);
    leaf_wait_started(s.leaf, 2);
    tm_read_cancel(gone.read, EINTR, "interrupted");
    expect_ended(&gone, -EINTR, "interrupted");
    serve(&s, 0, BLOCKS);
    expect_n(&stays, (uint64_t)ROWS * COLS);
    assert_int_equal(leaf_started(s.leaf), BLOCKS);
    slow_done(&s);
}

static tm_lane newest_lane(slow *s)
{
    pthread_mutex_lock(&s->leaf->lock);
    tm_lane lane = s->leaf->last->read->params.lane;
    pthread_mutex_unlock(&s->leaf->lock);
    return lane;
}

static void who_waits_in_a_higher_lane_takes_the_pass_along(void **state)
{
    (void)state;
    slow s;
    slow_init(&s, 1 << 20);
    ending first, second;
    ask_in(TM_LANE_ANALYSIS, &s.asker, &first);
    leaf_wait_started(s.leaf, 2);
    assert_int_equal(newest_lane(&s), TM_LANE_ANALYSIS);
    ask_in(TM_LANE_QUERY, &s.asker, &second); /* a lower one changes nothing */
    assert_true(leaf_end(s.leaf, false, 0, NULL));
    leaf_wait_started(s.leaf, 3);
    assert_int_equal(newest_lane(&s), TM_LANE_ANALYSIS);
    ending third;
    ask_in(TM_LANE_SELECTION, &s.asker, &third);
    assert_true(leaf_end(s.leaf, false, 0, NULL));
    leaf_wait_started(s.leaf, 4);
    assert_int_equal(newest_lane(&s), TM_LANE_SELECTION);
    assert_true(leaf_end(s.leaf, false, 0, NULL));
    assert_true(leaf_end(s.leaf, false, 0, NULL));
    expect_n(&first, (uint64_t)ROWS * COLS);
    expect_n(&second, (uint64_t)ROWS * COLS);
    expect_n(&third, (uint64_t)ROWS * COLS);
    slow_done(&s);
}

/* Blocks that have been read, but wait for a worker. */
static void what_waits_for_a_worker_is_taken_along_too(void **state)
{
    (void)state;
    slow s;
    slow_init(&s, 1 << 20);
    ending first, second;
    busy_worker busy[2];
    ask_in(TM_LANE_ANALYSIS, &s.asker, &first);
    leaf_wait_started(s.leaf, 2);
    leaf_wait_near(s.leaf, 2); /* the blocks after those, which workers look for */
    hold_workers(s.place.sched, busy, 2);
    assert_true(leaf_end(s.leaf, false, 0, NULL));
    assert_int_equal(jobs_queued(s.place.sched, TM_LANE_ANALYSIS), 1);
    ask_in(TM_LANE_SELECTION, &s.asker, &second);
    assert_int_equal(jobs_queued(s.place.sched, TM_LANE_ANALYSIS), 0);
    assert_int_equal(jobs_queued(s.place.sched, TM_LANE_SELECTION), 1);
    let_workers_go(busy, 2);
    serve(&s, 1, BLOCKS - 1);
    expect_n(&first, (uint64_t)ROWS * COLS);
    expect_n(&second, (uint64_t)ROWS * COLS);
    slow_done(&s);
}

static void a_pass_that_is_cancelled_at_any_moment_leaves_nothing(void **state)
{
    (void)state;
    for (unsigned served = 0; served < BLOCKS; served++) {
        slow s;
        slow_init(&s, 1 << 20);
        ending e;
        ask(&s.asker, &e);
        serve(&s, 0, served);
        tm_read_cancel(e.read, EINTR, "interrupted");
        expect_ended(&e, -EINTR, "interrupted");
        assert_int_equal(slow_done(&s), 0);
    }
}

/* Small tensors of N elements each come and go while the slow one is waited for. */
static void crowd(const place *p, uint32_t count)
{
    for (uint32_t i = 1; i <= count; i++) {
        float *values;
        shape one = {1, {i}, 0};
        tm_tensor *tensor = floats(&one, &values);
        asker a = {.source = source_of(p, tensor, i), .kind = TM_TILE_STATS};
        ending e;
        ask(&a, &e);
        expect_n(&e, i);
        tm_tensor_unref(tensor);
        free(values);
    }
}

static void what_is_waited_for_is_not_given_up(void **state)
{
    (void)state;
    slow s;
    slow_init(&s, 1); /* no tile has room */
    ending e[2];
    ask(&s.asker, &e[0]);
    leaf_wait_started(s.leaf, 2);
    crowd(&s.place, 20);
    ask(&s.asker, &e[1]);
    serve(&s, 0, BLOCKS);
    for (int i = 0; i < 2; i++)
        expect_n(&e[i], (uint64_t)ROWS * COLS);
    assert_int_equal(leaf_started(s.leaf), BLOCKS);
    assert_int_equal(slow_done(&s), 0);
}

static void what_is_dropped_while_reads_wait_still_answers_them(void **state)
{
    (void)state;
    slow s;
    slow_init(&s, 1 << 20);
    ending before, after;
    ask(&s.asker, &before);
    leaf_wait_started(s.leaf, 2);
    tm_store_drop(s.place.store, s.asker.source.group);
    ask(&s.asker, &after); /* a pass of its own */
    leaf_wait_started(s.leaf, 4);
    serve(&s, 0, 2 * BLOCKS);
    expect_n(&before, (uint64_t)ROWS * COLS);
    expect_n(&after, (uint64_t)ROWS * COLS);
    assert_int_equal(leaf_started(s.leaf), 2 * BLOCKS);
    uint64_t one = slow_done(&s);
    assert_in_range(one, 1, 1 << 16); /* the second alone */
}

static void what_was_given_up_is_made_again(void **state)
{
    (void)state;
    slow s;
    slow_init(&s, 4096); /* room for some small ones */
    ending e;
    for (unsigned round = 0; round < 3; round++) {
        ask(&s.asker, &e);
        serve(&s, round * BLOCKS, BLOCKS);
        expect_n(&e, (uint64_t)ROWS * COLS);
        crowd(&s.place, 20);
        assert_int_equal(leaf_started(s.leaf), (round + 1) * BLOCKS);
    }
    assert_in_range(slow_done(&s), 1, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_are_those_of_a_direct_scan),
        cmocka_unit_test(a_tensor_without_elements_has_statistics),
        cmocka_unit_test(parts_of_a_tensor_have_tiles_of_their_own),
        cmocka_unit_test(levels_of_each_block_are_those_of_its_elements),
        cmocka_unit_test(levels_of_each_plane_are_those_of_its_elements),
        cmocka_unit_test(readers_at_once_share_one_pass),
        cmocka_unit_test(a_failure_is_told_to_all_and_not_remembered),
        cmocka_unit_test(who_leaves_last_ends_the_pass),
        cmocka_unit_test(who_leaves_others_behind_ends_nothing),
        cmocka_unit_test(who_waits_in_a_higher_lane_takes_the_pass_along),
        cmocka_unit_test(what_waits_for_a_worker_is_taken_along_too),
        cmocka_unit_test(a_pass_that_is_cancelled_at_any_moment_leaves_nothing),
        cmocka_unit_test(what_is_waited_for_is_not_given_up),
        cmocka_unit_test(what_is_dropped_while_reads_wait_still_answers_them),
        cmocka_unit_test(what_was_given_up_is_made_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
