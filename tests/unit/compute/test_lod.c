/* Halving of cells: truncated edges, means from sums, what is not finite apart. */
#include "compute/lod.h"

#include <math.h>
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static tm_lod_cell cell(double value)
{
    float f = (float)value;
    return (tm_lod_cell){.sum = value, .finite = 1, .min = f, .max = f};
}

static void an_edge_is_averaged_over_what_is_there(void **state)
{
    (void)state;
    tm_lod_cell cells[9], half[4], one[1];
    for (size_t i = 0; i < 9; i++)
        cells[i] = cell((double)(i + 1)); /* 1 2 3 / 4 5 6 / 7 8 9 */
    tm_lod_halve(cells, 3, 3, half);
    static const float means[] = {3, 4.5f, 7.5f, 9}, mins[] = {1, 3, 7, 9}, maxs[] = {5, 6, 8, 9};
    for (size_t i = 0; i < 4; i++) {
        assert_true(tm_lod_mean(&half[i]) == means[i]);
        assert_true(tm_lod_min(&half[i]) == mins[i] && tm_lod_max(&half[i]) == maxs[i]);
    }
    tm_lod_halve(half, 2, 2, one);
    assert_true(tm_lod_mean(one) == 5 && one->finite == 9); /* not the mean of the means: 6 */
}

static void rows_and_columns_alone_are_halved_along_themselves(void **state)
{
    (void)state;
    tm_lod_cell cells[5], row[3], column[3];
    for (size_t i = 0; i < 5; i++)
        cells[i] = cell((double)i);
    tm_lod_halve(cells, 1, 5, row);
    tm_lod_halve(cells, 5, 1, column);
    assert_memory_equal(row, column, sizeof(row));
    assert_true(tm_lod_mean(&row[0]) == 0.5f && tm_lod_mean(&row[2]) == 4);
}

static void quadrants_add_in_their_order(void **state)
{
    (void)state;
    tm_lod_cell cells[4] = {cell(0x1p60), cell(1), cell(-0x1p60), cell(1)}, one;
    tm_lod_halve(cells, 2, 2, &one);
    assert_true(one.sum == 2); /* by rows it would be 1 or 0 */
}

static void cells_without_finite_values_are_nan_and_counted(void **state)
{
    (void)state;
    tm_lod_cell none = {.nonfinite = 3, .min = INFINITY, .max = -INFINITY};
    tm_lod_cell cells[4] = {none, none, none, none}, one;
    tm_lod_halve(cells, 2, 2, &one);
    assert_int_equal(one.nonfinite, 12);
    assert_true(isnan(tm_lod_mean(&one)) && isnan(tm_lod_min(&one)) && isnan(tm_lod_max(&one)));
    cells[3] = cell(7);
    tm_lod_halve(cells, 2, 2, &one);
    assert_int_equal(one.nonfinite, 9);
    assert_true(tm_lod_mean(&one) == 7 && tm_lod_min(&one) == 7 && tm_lod_max(&one) == 7);
}

static void no_cell_is_zero_below_zero(void **state)
{
    (void)state;
    tm_lod_cell tiny = {.sum = -1e-300, .finite = 1};
    assert_true(tm_lod_mean(&tiny) == 0 && !signbit(tm_lod_mean(&tiny)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_edge_is_averaged_over_what_is_there),
        cmocka_unit_test(rows_and_columns_alone_are_halved_along_themselves),
        cmocka_unit_test(quadrants_add_in_their_order),
        cmocka_unit_test(cells_without_finite_values_are_nan_and_counted),
        cmocka_unit_test(no_cell_is_zero_below_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
