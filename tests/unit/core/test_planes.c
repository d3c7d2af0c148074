/* Planes of shapes of every rank, and the sizes of their levels. */
#include "core/planes.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static void a_shape_becomes_planes_by_rank_and_size(void **state)
{
    (void)state;
    static const struct {
        size_t rank;
        uint64_t dims[5];
        tm_planes planes;
    } cases[] = {
        {0, {0}, {1, 1, 1}},
        {1, {7}, {1, 1, 7}},
        {1, {0}, {1, 1, 0}},
        {2, {5, 3}, {1, 5, 3}},
        {2, {0, 3}, {1, 0, 3}},
        {3, {8, 32, 32}, {8, 32, 32}},
        {3, {8, 31, 32}, {1, 8, 31 * 32}},
        {3, {8, 32, 31}, {1, 8, 32 * 31}},
        {4, {64, 3, 7, 7}, {1, 64, 147}},
        {5, {2, 3, 4, 40, 50}, {24, 40, 50}},
        {3, {4, 0, 64}, {1, 0, 0}},
        {3, {0, 1ull << 40, 1ull << 40}, {1, 0, 0}},
        {2, {1ull << 62, 3}, {1, 1ull << 62, 3}},
        {3, {1ull << 31, 32, 1ull << 27}, {1ull << 31, 32, 1ull << 27}},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(cases); i++) {
        tm_planes planes = tm_planes_of(cases[i].dims, cases[i].rank);
        assert_int_equal(planes.planes, cases[i].planes.planes);
        assert_int_equal(planes.rows, cases[i].planes.rows);
        assert_int_equal(planes.cols, cases[i].planes.cols);
    }
}

static void levels_go_down_to_one_cell(void **state)
{
    (void)state;
    static const struct {
        uint64_t rows, cols;
        unsigned levels;
    } cases[] = {{0, 0, 0},           {1, 1, 0},           {1, 2, 1}, {2, 2, 1},
                 {3, 1, 2},           {4, 4, 2},           {5, 4, 3}, {256, 255, 8},
                 {256, 257, 9},       {1, 1ull << 63, 63}, {1, 0, 0}, {3, 65, 7},
                 {1, UINT64_MAX, 64}, {1, 1ull << 32, 32}};
    for (size_t i = 0; i < TM_ARRAY_LEN(cases); i++) {
        tm_planes planes = {1, cases[i].rows, cases[i].cols};
        unsigned levels = tm_planes_levels(&planes);
        assert_int_equal(levels, cases[i].levels);
        assert_true(tm_planes_level_dim(cases[i].rows, levels) <= 1);
        assert_true(tm_planes_level_dim(cases[i].cols, levels) <= 1);
    }
}

static void a_level_has_the_cells_of_truncated_edges(void **state)
{
    (void)state;
    static const struct {
        uint64_t dim;
        unsigned level;
        uint64_t cells;
    } cases[] = {{0, 3, 0},  {1, 0, 1},  {1, 5, 1},           {16, 4, 1},
                 {17, 4, 2}, {33, 4, 3}, {UINT64_MAX, 64, 1}, {UINT64_MAX, 1, 1ull << 63}};
    for (size_t i = 0; i < TM_ARRAY_LEN(cases); i++)
        assert_int_equal(tm_planes_level_dim(cases[i].dim, cases[i].level), cases[i].cells);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shape_becomes_planes_by_rank_and_size),
        cmocka_unit_test(levels_go_down_to_one_cell),
        cmocka_unit_test(a_level_has_the_cells_of_truncated_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
