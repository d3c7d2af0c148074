/* The table of tensors: adding, limits, truncating, sorting, finding. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>

#include "core/tensor_table.h"

static const uint64_t two_dims[] = {2, 3};

static int add(tm_tensor_table *t, const char *name, size_t len, uint32_t file)
{
    tm_tensor_new tensor = {
        .name = name,
        .name_len = len,
        .dtype = TM_F32,
        .dims = two_dims,
        .rank = 2,
        .file = file,
        .begin = 100 + t->count,
        .bytes = 24,
    };
    return tm_tensor_table_add(t, &tensor, NULL);
}

static int add_str(tm_tensor_table *t, const char *name, uint32_t file)
{
    return add(t, name, strlen(name), file);
}

/* The names in order, each followed by its file. */
static void expect_names(const tm_tensor_table *t, const char *expected)
{
    char names[256];
    size_t len = 0;
    for (uint32_t i = 0; i < t->count; i++)
        len +=
            (size_t)snprintf(names + len, sizeof(names) - len, "%.*s%u ", (int)t->rows[i].name_len,
                             tm_row_name(t, &t->rows[i]), t->rows[i].file);
    names[len] = '\0';
    assert_string_equal(names, expected);
}

static void test_a_row_keeps_what_was_added(void **state)
{
    (void)state;
    tm_tensor_table t;
    tm_tensor_table_init(&t);
    const uint64_t dims[] = {0, UINT64_MAX};
    tm_tensor_new tensor = {
        .name = "a\0b",
        .name_len = 3,
        .dtype = TM_U64,
        .dims = dims,
        .rank = 2,
        .file = 7,
        .begin = UINT64_MAX - 1,
        .bytes = 5,
        .flags = TM_ROW_REFUSED,
    };
    assert_int_equal(tm_tensor_table_add(&t, &tensor, NULL), 0);
    const tm_tensor_row *row = &t.rows[0];
    assert_int_equal(row->name_len, 3);
    assert_memory_equal(tm_row_name(&t, row), "a\0b", 3);
    assert_memory_equal(tm_row_dims(&t, row), dims, sizeof(dims));
    assert_int_equal(row->dtype, TM_U64);
    assert_int_equal(row->rank, 2);
    assert_int_equal(row->file, 7);
    assert_int_equal(row->begin, UINT64_MAX - 1);
    assert_int_equal(row->bytes, 5);
    assert_int_equal(row->flags, TM_ROW_REFUSED);
    tm_tensor_table_done(&t);
    assert_int_equal(t.count, 0);
    tm_tensor_table_done(&t);
}

static void test_a_tensor_without_name_and_dimensions_is_one_element(void **state)
{
    (void)state;
    tm_tensor_table t;
    tm_tensor_table_init(&t);
    assert_int_equal(tm_tensor_table_add(&t, &(tm_tensor_new){.dtype = TM_U8, .bytes = 1}, NULL),
                     0);
    assert_int_equal(tm_tensor_table_seal(&t), 0);
    uint32_t row = 9;
    assert_true(tm_tensor_table_find(&t, "", 0, &row));
    assert_int_equal(row, 0);
    assert_int_equal(tm_row_elems(&t, &t.rows[0]), 1);
    tm_tensor_table_done(&t);
}

static void test_elements_are_counted_without_overflow(void **state)
{
    (void)state;
    static const struct {
        uint64_t dims[4];
        size_t rank;
        bool fits;
        uint64_t elems;
    } rows[] = {
        {{0}, 0, true, 1},
        {{7}, 1, true, 7},
        {{0}, 1, true, 0},
        {{UINT64_MAX}, 1, true, UINT64_MAX},
        {{UINT64_MAX, 1, 1}, 3, true, UINT64_MAX},
        {{UINT64_MAX, 2}, 2, false, 0},
        {{UINT64_C(1) << 32, UINT64_C(1) << 32}, 2, false, 0},
        {{UINT64_C(1) << 32, UINT64_C(1) << 31}, 2, true, UINT64_C(1) << 63},
        {{0, UINT64_MAX, UINT64_MAX}, 3, true, 0},
        {{UINT64_MAX, UINT64_MAX, 0}, 3, true, 0},
        {{UINT64_MAX, 0, UINT64_MAX}, 3, true, 0},
        {{UINT64_C(1) << 32, UINT64_C(1) << 32, 3}, 3, false, 0},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        uint64_t elems = 99;
        assert_int_equal(tm_dims_elems(rows[i].dims, rows[i].rank, &elems), rows[i].fits);
        if (rows[i].fits)
            assert_int_equal(elems, rows[i].elems);
    }
}

static void test_what_is_over_a_limit_leaves_the_table_as_it_was(void **state)
{
    (void)state;
    tm_tensor_table t;
    tm_tensor_table_init(&t);
    assert_int_equal(add_str(&t, "a", 0), 0);
    uint64_t *dims = tm_new_array(TM_RANK_MAX + 1, sizeof(*dims));
    char *name = calloc(1, TM_NAME_MAX + 1);
    assert_non_null(dims);
    assert_non_null(name);
    const uint64_t huge[] = {UINT64_MAX, 2};
    const tm_tensor_new over[] = {
        {.name = name, .name_len = TM_NAME_MAX + 1},
        {.name = "b", .name_len = 1, .dims = dims, .rank = TM_RANK_MAX + 1},
        {.name = "b", .name_len = 1, .dims = huge, .rank = 2},
    };
    static const char *const words[] = {
        "a tensor name of more than 1048576 bytes",
        "a tensor of more than 65535 dimensions",
        "a tensor of 2^64 elements or more",
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(over); i++) {
        tm_req req;
        tm_req_init(&req, TM_LANE_VISIBLE);
        assert_int_equal(tm_tensor_table_add(&t, &over[i], &req), -EFBIG);
        assert_string_equal(tm_req_words(&req), words[i]);
    }
    expect_names(&t, "a0 ");
    assert_int_equal(t.names_len, 1);
    assert_int_equal(t.dims_len, 2);
    /* The limits themselves are within. */
    assert_int_equal(add(&t, name, TM_NAME_MAX, 0), 0);
    assert_int_equal(
        tm_tensor_table_add(&t, &(tm_tensor_new){.dims = dims, .rank = TM_RANK_MAX}, NULL), 0);
    assert_int_equal(t.rows[2].rank, TM_RANK_MAX);
    free(dims);
    free(name);
    tm_tensor_table_done(&t);
}

static void test_counts_at_their_limit_refuse_one_more(void **state)
{
    (void)state;
    tm_tensor_table t;
    tm_tensor_table_init(&t);
    const tm_tensor_new tensor = {.name = "a", .name_len = 1, .dims = two_dims, .rank = 2};
    t.count = TM_TENSORS_MAX;
    assert_int_equal(tm_tensor_table_add(&t, &tensor, NULL), -EFBIG);
    t.count = 0;
    t.names_len = TM_NAME_POOL_MAX;
    assert_int_equal(tm_tensor_table_add(&t, &tensor, NULL), -EFBIG);
    t.names_len = 0;
    t.dims_len = TM_DIM_POOL_MAX - 1;
    assert_int_equal(tm_tensor_table_add(&t, &tensor, NULL), -EFBIG);
}

static void test_sealing_sorts_by_name_bytewise_and_then_by_file(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t file;
    } added[] = {{"b", 1}, {"a", 2}, {"ab", 0}, {"\xc3\xa9", 0}, {"", 0},
                 {"a", 0}, {"B", 0}, {"a", 1},  {"a.10", 0},     {"a.9", 0}};
    tm_tensor_table t;
    tm_tensor_table_init(&t);
    for (size_t i = 0; i < TM_ARRAY_LEN(added); i++)
        assert_int_equal(add_str(&t, added[i].name, added[i].file), 0);
    assert_int_equal(tm_tensor_table_seal(&t), 0);
    expect_names(&t, "0 B0 a0 a1 a2 a.100 a.90 ab0 b1 \xc3\xa9"
                     "0 ");
    assert_int_equal(t.rows_cap, t.count);
    assert_int_equal(t.names_cap, t.names_len);
    assert_int_equal(t.dims_cap, t.dims_len);
    tm_tensor_table_done(&t);
}

static void test_an_empty_table_seals_and_finds_nothing(void **state)
{
    (void)state;
    tm_tensor_table t;
    tm_tensor_table_init(&t);
    uint32_t row;
    assert_int_equal(tm_tensor_table_seal(&t), 0);
    assert_false(tm_tensor_table_find(&t, "a", 1, &row));
    assert_int_equal(tm_tensor_table_lower_bound(&t, "a", 1), 0);
    tm_tensor_table_done(&t);
}

static void test_names_are_found_among_many(void **state)
{
    (void)state;
    enum {
        N = 5000
    };
    tm_tensor_table t;
    char name[16];
    uint32_t row = 0;
    tm_tensor_table_init(&t);
    for (uint32_t i = 0; i < N; i++) {
        int len = snprintf(name, sizeof(name), "t%u", i * 7919u % N);
        assert_int_equal(add(&t, name, (size_t)len, 0), 0);
    }
    assert_int_equal(tm_tensor_table_seal(&t), 0);
    for (uint32_t i = 0; i < N; i++) {
        int len = snprintf(name, sizeof(name), "t%u", i);
        assert_true(tm_tensor_table_find(&t, name, (size_t)len, &row));
        assert_memory_equal(tm_row_name(&t, &t.rows[row]), name, (size_t)len);
    }
    assert_false(tm_tensor_table_find(&t, "t", 1, &row));
    assert_false(tm_tensor_table_find(&t, "t5000", 5, &row));
    assert_false(tm_tensor_table_find(&t, "", 0, &row));
    tm_tensor_table_done(&t);
}

static void test_the_lower_bound_is_the_first_row_not_less(void **state)
{
    (void)state;
    tm_tensor_table t;
    tm_tensor_table_init(&t);
    for (uint32_t file = 0; file < 3; file++)
        assert_int_equal(add_str(&t, "b", file), 0);
    assert_int_equal(add_str(&t, "d", 0), 0);
    assert_int_equal(tm_tensor_table_seal(&t), 0);
    assert_int_equal(tm_tensor_table_lower_bound(&t, "a", 1), 0);
    assert_int_equal(tm_tensor_table_lower_bound(&t, "b", 1), 0);
    assert_int_equal(tm_tensor_table_lower_bound(&t, "b\0", 2), 3);
    assert_int_equal(tm_tensor_table_lower_bound(&t, "c", 1), 3);
    assert_int_equal(tm_tensor_table_lower_bound(&t, "d", 1), 3);
    assert_int_equal(tm_tensor_table_lower_bound(&t, "e", 1), 4);
    tm_tensor_table_done(&t);
}

static void test_truncating_gives_back_names_and_dimensions(void **state)
{
    (void)state;
    tm_tensor_table t;
    tm_tensor_table_init(&t);
    assert_int_equal(add_str(&t, "keep", 0), 0);
    uint64_t names_len = t.names_len, dims_len = t.dims_len;
    assert_int_equal(add_str(&t, "z", 1), 0);
    assert_int_equal(add_str(&t, "y", 1), 0);
    assert_int_equal(tm_tensor_table_sort_tail(&t, 1), 0);
    expect_names(&t, "keep0 y1 z1 ");
    tm_tensor_table_truncate(&t, 9);
    assert_int_equal(t.count, 3);
    tm_tensor_table_truncate(&t, 1);
    expect_names(&t, "keep0 ");
    assert_int_equal(t.names_len, names_len);
    assert_int_equal(t.dims_len, dims_len);
    assert_int_equal(add_str(&t, "new", 2), 0);
    expect_names(&t, "keep0 new2 ");
    tm_tensor_table_truncate(&t, 0);
    assert_int_equal(t.names_len, 0);
    tm_tensor_table_done(&t);
}

static void test_sorting_the_tail_leaves_the_head(void **state)
{
    (void)state;
    static const char *const names[] = {"z", "y", "c", "b", "a"};
    tm_tensor_table t;
    tm_tensor_table_init(&t);
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++)
        assert_int_equal(add_str(&t, names[i], 0), 0);
    assert_int_equal(tm_tensor_table_sort_tail(&t, 2), 0);
    expect_names(&t, "z0 y0 a0 b0 c0 ");
    assert_int_equal(tm_tensor_table_sort_tail(&t, 5), 0);
    assert_int_equal(tm_tensor_table_sort_tail(&t, 6), 0);
    expect_names(&t, "z0 y0 a0 b0 c0 ");
    tm_tensor_table_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_row_keeps_what_was_added),
        cmocka_unit_test(test_a_tensor_without_name_and_dimensions_is_one_element),
        cmocka_unit_test(test_elements_are_counted_without_overflow),
        cmocka_unit_test(test_what_is_over_a_limit_leaves_the_table_as_it_was),
        cmocka_unit_test(test_counts_at_their_limit_refuse_one_more),
        cmocka_unit_test(test_sealing_sorts_by_name_bytewise_and_then_by_file),
        cmocka_unit_test(test_an_empty_table_seals_and_finds_nothing),
        cmocka_unit_test(test_names_are_found_among_many),
        cmocka_unit_test(test_the_lower_bound_is_the_first_row_not_less),
        cmocka_unit_test(test_truncating_gives_back_names_and_dimensions),
        cmocka_unit_test(test_sorting_the_tail_leaves_the_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
