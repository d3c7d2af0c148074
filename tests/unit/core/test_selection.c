/* Selections: every answer that NumPy gives, and the spellings that are none. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "core/selection.h"
#include "tests/unit/core/selection_rows.h"

static void ranges_are_cut_as_numpy_cuts_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(range_rows); i++) {
        const struct range_row *row = &range_rows[i];
        tm_range got;
        int rc = tm_selection_ranges(row->text, strlen(row->text), &row->dim, 1, &got);
        /* Where a range is empty NumPy has no start; ours must lie within the dimension. */
        bool same = got.count == row->count && (got.count == 0 || got.start == row->start);
        if (rc != 0 || !same || got.start > row->dim)
            fail_msg("'%s' of %d: %d, %d + %d", row->text, (int)row->dim, rc, (int)got.start,
                     (int)got.count);
    }
}

static void axes_omitted_at_the_end_are_taken_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(ranges_rows); i++) {
        const struct ranges_row *row = &ranges_rows[i];
        tm_range got[5];
        assert_int_equal(
            tm_selection_ranges(row->text, strlen(row->text), row->dims, row->rank, got), 0);
        for (size_t axis = 0; axis < row->rank; axis++) {
            assert_int_equal(got[axis].count, row->ranges[axis].count);
            if (got[axis].count)
                assert_int_equal(got[axis].start, row->ranges[axis].start);
        }
    }
}

static void elements_are_found_as_numpy_finds_them(void **state)
{
    (void)state;
    unsigned found = 0;
    for (size_t i = 0; i < TM_ARRAY_LEN(element_rows); i++) {
        const struct element_row *row = &element_rows[i];
        uint64_t got = 12345;
        int rc = tm_selection_element(row->text, strlen(row->text), row->dims, row->rank, &got);
        uint64_t expected = row->index < 0 ? 12345 : (uint64_t)row->index;
        if (rc != (row->index < 0 ? -ENOENT : 0) || got != expected)
            fail_msg("'%s' of rank %zu: %d, %d", row->text, row->rank, rc, (int)got);
        found += row->index >= 0;
    }
    assert_in_range(found, 20, TM_ARRAY_LEN(element_rows) - 10);
}

static void what_is_no_index_names_no_element(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "-",
        "+1",
        "01",
        "-0",
        "-01",
        "1 ",
        " 1",
        "1,",
        ",1",
        "1,2",
        "1.0",
        "1e0",
        "0x1",
        "--1",
        "1-",
        "a",
        ":",
        "1:",
        "0:1",
        "\xc2\xb2",
        "99999999999999999999",
        "-99999999999999999999",
        "18446744073709551616",
        "18446744073709551617",
        "-18446744073709551617",
    };
    static const uint64_t dim = 3;
    for (size_t i = 0; i < TM_ARRAY_LEN(texts); i++) {
        uint64_t got = 12345;
        size_t len = strlen(texts[i]);
        assert_int_equal(tm_selection_element(texts[i], len, &dim, 1, &got), -ENOENT);
        assert_int_equal(tm_selection_index(texts[i], len, dim, &got), -ENOENT);
        assert_int_equal(got, 12345);
    }
}

static void an_element_has_one_index_an_axis(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t rank;
        int rc;
        uint64_t index;
    } rows[] = {
        {"0", 0, 0, 0},          {"1", 0, -ENOENT, 0},     {"-1", 0, -ENOENT, 0},
        {"", 0, -ENOENT, 0},     {"00", 0, -ENOENT, 0},    {"0,0", 0, -ENOENT, 0},
        {"2", 1, 0, 2},          {"2,0", 1, -ENOENT, 0},   {"1", 2, -ENOENT, 0},
        {"1,2", 2, 0, 5},        {"1,2,0", 2, -ENOENT, 0}, {"1,2,", 2, -ENOENT, 0},
        {",1,2", 2, -ENOENT, 0}, {"1,,2", 2, -ENOENT, 0},  {"-1,-1,-1", 3, 0, 26},
    };
    static const uint64_t dims[] = {3, 3, 3};
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        uint64_t got = 12345;
        size_t len = strlen(rows[i].text);
        assert_int_equal(tm_selection_element(rows[i].text, len, dims, rows[i].rank, &got),
                         rows[i].rc);
        assert_int_equal(got, rows[i].rc ? 12345 : rows[i].index);
    }
}

static void what_is_no_range_names_no_slice(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",   "1",  "0",   "1:2:1", "::",  ":,",  ",:",   ":,:,:", "a:",   ":b",  "1 :2",
        "-:", ":-", "+1:", "01:",   ":-0", "-0:", "1.0:", ":1,2",  "2,:1", "...", ":,...",
    };
    static const uint64_t dims[] = {3, 4};
    for (size_t i = 0; i < TM_ARRAY_LEN(texts); i++) {
        tm_range got[2];
        int rc = tm_selection_ranges(texts[i], strlen(texts[i]), dims, 2, got);
        if (rc != -ENOENT)
            fail_msg("'%s': %d", texts[i], rc);
    }
}

static void the_slice_of_a_single_value_has_no_text(void **state)
{
    (void)state;
    assert_int_equal(tm_selection_ranges("", 0, NULL, 0, NULL), 0);
    assert_int_equal(tm_selection_ranges(":", 1, NULL, 0, NULL), -ENOENT);
    assert_int_equal(tm_selection_ranges("0", 1, NULL, 0, NULL), -ENOENT);
}

/* Dimensions beyond any NumPy array. */
static void the_largest_dimensions_have_their_indices(void **state)
{
    (void)state;
    uint64_t dim = UINT64_MAX, got;
    tm_range range;
    assert_int_equal(tm_selection_index("18446744073709551614", 20, dim, &got), 0);
    assert_int_equal(got, UINT64_MAX - 1);
    assert_int_equal(tm_selection_index("18446744073709551615", 20, dim, &got), -ENOENT);
    assert_int_equal(tm_selection_index("-18446744073709551614", 21, dim, &got), 0);
    assert_int_equal(got, 1);
    assert_int_equal(tm_selection_ranges("18446744073709551610:-2", 23, &dim, 1, &range), 0);
    assert_int_equal(range.start, UINT64_MAX - 5);
    assert_int_equal(range.count, 3);
}

/* Text need not end where the selection does. */
static void only_the_given_length_is_read(void **state)
{
    (void)state;
    static const uint64_t dims[] = {30, 4};
    uint64_t got;
    tm_range ranges[2];
    assert_int_equal(tm_selection_index("12.npy", 2, 30, &got), 0);
    assert_int_equal(got, 12);
    assert_int_equal(tm_selection_element("1,2,3", 3, dims, 2, &got), 0);
    assert_int_equal(got, 6);
    assert_int_equal(tm_selection_ranges("1:2,:3x", 6, dims, 2, ranges), 0);
    assert_int_equal(ranges[1].count, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_cut_as_numpy_cuts_them),
        cmocka_unit_test(axes_omitted_at_the_end_are_taken_whole),
        cmocka_unit_test(elements_are_found_as_numpy_finds_them),
        cmocka_unit_test(what_is_no_index_names_no_element),
        cmocka_unit_test(an_element_has_one_index_an_axis),
        cmocka_unit_test(what_is_no_range_names_no_slice),
        cmocka_unit_test(the_slice_of_a_single_value_has_no_text),
        cmocka_unit_test(the_largest_dimensions_have_their_indices),
        cmocka_unit_test(only_the_given_length_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
