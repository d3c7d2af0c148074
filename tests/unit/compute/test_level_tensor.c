/* Levels as tensors: each cell is that of a scan of the whole, from wherever a read begins. */
#include "compute/level_tensor.h"
#include "compute/lod.h"
#include "compute/tensor_scan.h"
#include "tests/unit/core/naive.h"

#include <math.h>

enum {
    LEVELS_MAX = 32
};

/* ---- Tensors ---- */

typedef struct shape {
    size_t rank;
    uint64_t dims[4];
    tm_dtype dtype;
} shape;

static const shape shapes[] = {
    {1, {2}, TM_F32},
    {1, {1050001}, TM_F32}, /* two blocks of one row */
    {2, {300, 1}, TM_F32},
    {2, {20000, 3}, TM_F32},  /* many bands a block */
    {2, {260, 8200}, TM_F32}, /* blocks are cut across and down */
    {2, {257, 4097}, TM_F64},
    {3, {5, 40, 33}, TM_F32},
    {3, {2, 260, 4200}, TM_F32}, /* planes of several blocks */
    {4, {64, 3, 5, 5}, TM_F32},
};

/* Values of every size, NaN and infinities among them, and many that are zero of either sign or
 * become so as f32. */
static void fill(naive *n)
{
    uint64_t seed = 9;
    for (uint64_t i = 0; i < n->elems; i++) {
        uint64_t random = next_random(&seed);
        double value = (double)random / 1e9 - 1.0;
        if (random % 11 == 3)
            value = random % 2 ? NAN : INFINITY;
        else if (random % 3 == 0)
            value = random % 2 ? -0.0 : -1e-300;
        float single = (float)value;
        if (n->dtype == TM_F64)
            memcpy(n->bytes + i * 8, &value, 8);
        else
            memcpy(n->bytes + i * 4, &single, 4);
    }
}

typedef struct fixture {
    tm_sched *sched;
    tm_store *store;
    naive values;
    tm_tensor *tensor;
    tm_planes planes;
    unsigned levels;
    tm_lod_cell *cells[LEVELS_MAX]; /* of level L, plane after plane */
} fixture;

static uint64_t level_cells(const fixture *f, unsigned level)
{
    return tm_planes_level_dim(f->planes.rows, level) * tm_planes_level_dim(f->planes.cols, level);
}

/* ---- What the cells are, by one scan a level ---- */

typedef struct gathering {
    const fixture *f;
    unsigned level;
    tm_blocks blocks;
    event ended;
    int rc;
} gathering;

static int gather(void *ctx, uint64_t i, const tm_lod_cell *cells)
{
    gathering *g = ctx;
    tm_block block = tm_blocks_at(&g->blocks, i);
    uint64_t rows = tm_block_cell_rows(&block, g->level);
    uint64_t cols = tm_block_cell_cols(&block, g->level);
    uint64_t width = tm_planes_level_dim(g->f->planes.cols, g->level);
    tm_lod_cell *to = g->f->cells[g->level] + block.plane * level_cells(g->f, g->level) +
                      (block.row >> g->level) * width + (block.col >> g->level);
    for (uint64_t r = 0; r < rows; r++)
        memcpy(to + r * width, cells + r * cols, cols * sizeof(*cells));
    return 0;
}

static void gathered(void *ctx, int rc, const char *words, tm_scan_total *total)
{
    gathering *g = ctx;
    (void)words, (void)total;
    g->rc = rc;
    event_set(&g->ended);
}

static void scan_level(const fixture *f, unsigned level)
{
    unsigned bits = tm_dtype_get(f->tensor->dtype)->bits;
    gathering g = {.f = f,
                   .level = level,
                   .blocks = tm_blocks_of(f->tensor->dims, f->tensor->rank, bits),
                   .ended = EVENT_INIT};
    tm_tensor_scan_params params = {
        .sched = f->sched,
        .tensor = f->tensor,
        .count = g.blocks.count,
        .level = level,
        .cells = gather,
        .done = gathered,
        .ctx = &g,
    };
    tm_tensor_scan *scan;
    assert_int_equal(tm_tensor_scan_new(&params, &scan), 0);
    tm_tensor_scan_start(scan);
    event_wait(&g.ended, "for a scan");
    assert_int_equal(g.rc, 0);
    tm_tensor_scan_unref(scan);
}

static void halve_level(const fixture *f, unsigned level)
{
    uint64_t rows = tm_planes_level_dim(f->planes.rows, level - 1);
    uint64_t cols = tm_planes_level_dim(f->planes.cols, level - 1);
    for (uint64_t p = 0; p < f->planes.planes; p++)
        tm_lod_halve(f->cells[level - 1] + p * rows * cols, rows, cols,
                     f->cells[level] + p * level_cells(f, level));
}

static fixture fixture_new(const shape *s, uint64_t budget)
{
    fixture f = {.sched = sched_new(3, 2), .values = naive_new(s->dtype, s->dims, s->rank)};
    assert_int_equal(tm_store_new(budget, &f.store), 0);
    fill(&f.values);
    f.tensor = naive_tensor(&f.values);
    f.planes = tm_planes_of(s->dims, s->rank);
    f.levels = tm_planes_levels(&f.planes);
    assert_in_range(f.levels, 1, LEVELS_MAX - 1);
    for (unsigned level = 1; level <= f.levels; level++) {
        f.cells[level] =
            tm_new_array(f.planes.planes * level_cells(&f, level), sizeof(tm_lod_cell));
        assert_non_null(f.cells[level]);
        if (level <= TM_BLOCK_LEVEL)
            scan_level(&f, level);
        else
            halve_level(&f, level);
    }
    return f;
}

static void fixture_free(fixture *f)
{
    tm_tensor_unref(f->tensor);
    tm_sched_free(f->sched);
    assert_in_range(tm_store_used(f->store), 0, tm_store_budget(f->store));
    tm_store_free(f->store);
    for (unsigned level = 1; level <= f->levels; level++)
        free(f->cells[level]);
    naive_free(&f->values);
}

static tm_tensor *level_of(const fixture *f, unsigned level, tm_reducer reducer)
{
    tm_tile_source source = {.store = f->store, .sched = f->sched, .tensor = f->tensor, .group = 1};
    tm_tensor *tensor;
    assert_int_equal(tm_level_tensor_new(&source, level, reducer, &tensor), 0);
    return tensor;
}

/* Element AT of a level's tensor. */
static float expected(const fixture *f, unsigned level, tm_reducer reducer, uint64_t at)
{
    uint64_t count = f->planes.planes * level_cells(f, level);
    const tm_lod_cell *cell = &f->cells[level][at % count];
    if (reducer == TM_REDUCE_COUNT)
        reducer = (tm_reducer)(at / count);
    switch (reducer) {
    case TM_REDUCE_MEAN:
        return tm_lod_mean(cell);
    case TM_REDUCE_MIN:
        return tm_lod_min(cell);
    case TM_REDUCE_MAX:
        return tm_lod_max(cell);
    default:
        return (float)cell->nonfinite;
    }
}

/* Elements [first, first + count) of TENSOR, which is LEVEL of F by REDUCER. */
static void expect_range(const fixture *f, tm_tensor *tensor, unsigned level, tm_reducer reducer,
                         tm_range range)
{
    float *got = tm_new_array(range.count + 1, sizeof(*got));
    assert_non_null(got);
    got[range.count] = -12345;
    read_elements(&(elements_read){f->sched, tensor, range.start, range.count, 0, false}, got);
    for (uint64_t i = 0; i < range.count; i++) {
        float want = expected(f, level, reducer, range.start + i);
        if (!same_f32(got[i], want) || (got[i] == 0 && signbit(got[i])))
            fail_msg("level %u, reducer %u: cell %llu of [%llu, +%llu) is %g, not %g", level,
                     reducer, (unsigned long long)i, (unsigned long long)range.start,
                     (unsigned long long)range.count, (double)got[i], (double)want);
    }
    assert_true(got[range.count] == -12345);
    free(got);
}

/* ---- Tests ---- */

static void a_level_has_the_cells_of_a_scan(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(shapes); i++) {
        fixture f = fixture_new(&shapes[i], 64 << 20);
        for (unsigned level = 1; level <= f.levels; level++) {
            for (int reducer = 0; reducer <= TM_REDUCE_COUNT; reducer++) {
                tm_tensor *tensor = level_of(&f, level, (tm_reducer)reducer);
                uint64_t dims[TM_LEVEL_RANK_MAX];
                size_t rank =
                    tm_level_dims(f.tensor->dims, f.tensor->rank, level, (tm_reducer)reducer, dims);
                assert_int_equal(tensor->dtype, TM_F32);
                assert_int_equal(tensor->rank, rank);
                assert_memory_equal(tensor->dims, dims, rank * sizeof(dims[0]));
                expect_range(&f, tensor, level, (tm_reducer)reducer, (tm_range){0, tensor->elems});
                tm_tensor_unref(tensor);
            }
        }
        fixture_free(&f);
    }
}

static void a_level_has_an_axis_of_planes_and_one_of_reducers(void **state)
{
    (void)state;
    static const struct {
        shape of;
        unsigned level;
        tm_reducer reducer;
        size_t rank;
        uint64_t dims[4];
    } rows[] = {
        {{0, {0}, TM_F32}, 1, TM_REDUCE_MEAN, 2, {1, 1}},
        {{1, {9}, TM_F32}, 2, TM_REDUCE_MEAN, 2, {1, 3}},
        {{2, {9, 17}, TM_F32}, 3, TM_REDUCE_NONFINITE, 2, {2, 3}},
        {{2, {9, 17}, TM_F32}, 3, TM_REDUCE_COUNT, 3, {4, 2, 3}},
        {{3, {3, 40, 33}, TM_F32}, 5, TM_REDUCE_MAX, 3, {3, 2, 2}},
        {{4, {2, 3, 40, 33}, TM_F32}, 5, TM_REDUCE_COUNT, 4, {4, 6, 2, 2}},
        {{3, {1, 40, 33}, TM_F32}, 1, TM_REDUCE_MIN, 2, {20, 17}},
        {{4, {64, 3, 5, 5}, TM_F32}, 4, TM_REDUCE_MIN, 2, {4, 5}},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        uint64_t dims[TM_LEVEL_RANK_MAX];
        assert_int_equal(
            tm_level_dims(rows[i].of.dims, rows[i].of.rank, rows[i].level, rows[i].reducer, dims),
            rows[i].rank);
        assert_memory_equal(dims, rows[i].dims, rows[i].rank * sizeof(dims[0]));
    }
}

static void a_read_may_begin_and_end_at_any_cell(void **state)
{
    (void)state;
    static const size_t chosen[] = {1, 4, 6, 7};
    for (size_t i = 0; i < TM_ARRAY_LEN(chosen); i++) {
        fixture f = fixture_new(&shapes[chosen[i]], 64 << 20);
        uint64_t seed = i + 1;
        for (unsigned n = 0; n < 100; n++) {
            unsigned level = 1 + (unsigned)(next_random(&seed) % f.levels);
            tm_reducer reducer = (tm_reducer)(next_random(&seed) % (TM_REDUCE_COUNT + 1));
            tm_tensor *tensor = level_of(&f, level, reducer);
            uint64_t first = next_random(&seed) % tensor->elems, left = tensor->elems - first;
            uint64_t count = 1 + next_random(&seed) % tm_min_u64(left, n % 2 ? 40 : 20000);
            expect_range(&f, tensor, level, reducer, (tm_range){first, count});
            tm_tensor_unref(tensor);
        }
        fixture_free(&f);
    }
}

static void no_room_for_tiles_changes_no_cell(void **state)
{
    (void)state;
    fixture f = fixture_new(&shapes[4], 0);
    for (unsigned level = 1; level <= f.levels; level += 4) {
        tm_tensor *tensor = level_of(&f, level, TM_REDUCE_COUNT);
        uint64_t count = tm_min_u64(tensor->elems, 30000);
        expect_range(&f, tensor, level, TM_REDUCE_COUNT, (tm_range){tensor->elems - count, count});
        tm_tensor_unref(tensor);
    }
    fixture_free(&f);
}

static void count_tile(void *ctx, const tm_tile *tile)
{
    (void)tile;
    ++*(unsigned *)ctx;
}

/* A box of a level makes the tiles of its blocks alone. */
static void only_the_blocks_that_are_asked_for_are_scanned(void **state)
{
    (void)state;
    static const struct {
        tm_range ranges[3]; /* of reducers, rows and columns of level 1: 130 x 4100 */
        unsigned tiles;
    } rows[] = {
        {{{0, 4}, {0, 128}, {0, 256}}, 1},    /* 256 rows, 4096 columns a block */
        {{{0, 1}, {100, 20}, {2000, 48}}, 1}, /* its end */
        {{{0, 1}, {100, 20}, {2000, 49}}, 2}, /* and the next one across */
        {{{3, 1}, {120, 9}, {2048, 10}}, 2},  /* and down */
        {{{0, 4}, {129, 1}, {4099, 1}}, 1},   /* the last */
        {{{1, 2}, {0, 130}, {2048, 2048}}, 2}, {{{0, 4}, {0, 130}, {0, 4100}}, 6},
    };
    fixture f = fixture_new(&shapes[4], 256 << 20);
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        tm_store_drop(f.store, 1);
        tm_tensor *tensor = level_of(&f, 1, TM_REDUCE_COUNT), *box;
        assert_int_equal(tm_tensor_box_new(tensor, rows[i].ranges, &box), 0);
        float *got = tm_new_array(box->elems, sizeof(*got));
        assert_non_null(got);
        read_elements(&(elements_read){f.sched, box, 0, box->elems, 0, false}, got);
        unsigned tiles = 0;
        tm_store_each(f.store, count_tile, &tiles);
        assert_int_equal(tiles, rows[i].tiles);
        uint64_t at = (rows[i].ranges[0].start * 130 + rows[i].ranges[1].start) * 4100 +
                      rows[i].ranges[2].start;
        assert_true(same_f32(got[0], expected(&f, 1, TM_REDUCE_COUNT, at)));
        free(got);
        tm_tensor_unref(box);
        tm_tensor_unref(tensor);
    }
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_level_has_the_cells_of_a_scan),
        cmocka_unit_test(a_level_has_an_axis_of_planes_and_one_of_reducers),
        cmocka_unit_test(a_read_may_begin_and_end_at_any_cell),
        cmocka_unit_test(no_room_for_tiles_changes_no_cell),
        cmocka_unit_test(only_the_blocks_that_are_asked_for_are_scanned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
