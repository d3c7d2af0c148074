/* Rows and columns: the same whatever the runs are, and at every level. */
#include "compute/axis_stats.h"

#include <math.h>
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

enum {
    ROWS = 7,
    COLS = 613
};

typedef struct axes {
    tm_axis_entry rows[ROWS], cols[COLS];
} axes;

static uint16_t values[ROWS * COLS]; /* bf16 */

static void fill(void)
{
    uint32_t state = 1;
    for (size_t i = 0; i < ROWS * COLS; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = (uint16_t)(state >> 16);
    }
}

static void add_in_runs(tm_cpu_level level, uint64_t run, axes *ret)
{
    tm_axis_shape shape = {ROWS, COLS, ret->rows, ret->cols};
    tm_axis_stats *axis = tm_axis_stats_new(level, TM_BF16, &shape);
    assert_non_null(axis);
    for (uint64_t at = 0; at < ROWS * COLS; at += run)
        tm_axis_stats_add(axis, values, at, tm_min_u64(run, ROWS * COLS - at));
    tm_axis_stats_free(axis);
}

static void neither_runs_nor_levels_change_a_bit(void **state)
{
    (void)state;
    static const uint64_t runs[] = {1, 3, 255, 256, 257, 1000, ROWS * COLS};
    static axes want, got;
    fill();
    add_in_runs(TM_CPU_SCALAR, 613, &want);
    for (int l = 0; l < TM_CPU_LEVEL_COUNT; l++)
        for (size_t i = 0; tm_cpu_has((tm_cpu_level)l) && i < TM_ARRAY_LEN(runs); i++) {
            add_in_runs((tm_cpu_level)l, runs[i], &got);
            assert_memory_equal(&got, &want, sizeof(want));
        }
}

static void either_axis_may_be_left_out(void **state)
{
    (void)state;
    static axes want, got;
    fill();
    add_in_runs(TM_CPU_SCALAR, 100, &want);
    for (int left_out = 0; left_out < 2; left_out++) {
        tm_axis_shape shape = {ROWS, COLS, left_out ? NULL : got.rows, left_out ? got.cols : NULL};
        tm_axis_stats *axis = tm_axis_stats_new(TM_CPU_SCALAR, TM_BF16, &shape);
        assert_non_null(axis);
        tm_axis_stats_add(axis, values, 0, ROWS * COLS);
        tm_axis_stats_free(axis);
    }
    assert_memory_equal(&got, &want, sizeof(want));
}

static void an_axis_counts_what_is_not_finite_apart(void **state)
{
    (void)state;
    const float plane[2][3] = {{3, NAN, -4}, {INFINITY, -INFINITY, 0}};
    tm_axis_entry rows[2], cols[3];
    tm_axis_shape shape = {2, 3, rows, cols};
    tm_axis_stats *axis = tm_axis_stats_new(tm_cpu_best(), TM_F32, &shape);
    assert_non_null(axis);
    tm_axis_stats_add(axis, plane, 0, 6);
    tm_axis_stats_free(axis);
    assert_true(rows[0].absmax == 4 && rows[0].sumsq == 25 && rows[0].nan == 1);
    assert_true(tm_axis_rms(&rows[0]) == sqrt(12.5));
    assert_true(rows[1].inf == 2 && rows[1].zero == 1 && tm_axis_rms(&rows[1]) == 0);
    assert_true(cols[1].n == 2 && isnan(tm_axis_rms(&cols[1])) && cols[1].absmax == 0);
    assert_true(cols[2].sumsq == 16 && cols[2].zero == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neither_runs_nor_levels_change_a_bit),
        cmocka_unit_test(either_axis_may_be_left_out),
        cmocka_unit_test(an_axis_counts_what_is_not_finite_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
