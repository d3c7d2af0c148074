/* Tensors in bytes, as f32, and boxes of them, against loops over single elements. */
#include "tests/unit/core/held.h"
#include "tests/unit/core/naive.h"

static bool is_stored(int dtype)
{
    return !tm_dtype_get((tm_dtype)dtype)->is_opaque;
}

static void elements_stand_in_their_bytes_whatever_their_type(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    uint64_t seed = 1;
    for (int dtype = 0; dtype < TM_DTYPE_COUNT; dtype++) {
        for (size_t rank = 0; is_stored(dtype) && rank <= NAIVE_RANK_MAX; rank++) {
            naive n = naive_random((tm_dtype)dtype, rank, 6, &seed);
            tm_tensor *tensor = naive_tensor(&n);
            assert_non_null(tm_tensor_bytes(tensor));
            expect_tensor(sched, tensor, &n, &seed);
            tm_tensor_unref(tensor);
            naive_free(&n);
        }
    }
    tm_sched_free(sched);
}

/* F6 has bytes, no values; so its plan is that of its bytes. */
static void elements_of_six_bits_are_read_as_bytes(void **state)
{
    (void)state;
    uint64_t dims[] = {4, 8};
    naive n = naive_new(TM_F6_E2M3, dims, 2);
    tm_tensor *tensor = naive_tensor(&n);
    assert_int_equal(tm_tensor_bytes(tensor)->size, 24);
    assert_int_equal(tensor->elems, 32);
    tm_tensor_unref(tensor);
    naive_free(&n);
}

static void any_run_of_nibbles_is_decoded_from_any_start(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    uint64_t seed = 2, dims[] = {40};
    naive n = naive_new(TM_F4, dims, 1);
    for (int i = 0; i < 20; i++)
        n.bytes[i] = (uint8_t)next_random(&seed);
    tm_tensor *tensor = naive_tensor(&n);
    for (uint64_t first = 0; first <= 40; first++)
        for (uint64_t count = 0; count <= 40 - first; count++)
            expect_elements(&(elements_read){sched, tensor, first, count, 7, true}, &n);
    tm_tensor_unref(tensor);
    naive_free(&n);
    tm_sched_free(sched);
}

static void f32_of_a_tensor_is_a_tensor(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    uint64_t seed = 3;
    for (int dtype = 0; dtype < TM_DTYPE_COUNT; dtype++) {
        if (!tm_convert_get(TM_CPU_SCALAR)->decode_f32[dtype])
            continue;
        naive n = naive_random((tm_dtype)dtype, 3, 7, &seed), wide = naive_f32(&n);
        tm_tensor *tensor = naive_tensor(&n), *f32;
        tensor->window = 5;
        assert_int_equal(tm_tensor_f32_new(tensor, &f32), 0);
        assert_int_equal(f32->window, 5);
        if (dtype == TM_F32)
            assert_ptr_equal(f32, tensor); /* it is one already */
        else
            assert_null(tm_tensor_bytes(f32));
        tm_tensor_unref(tensor);
        expect_tensor(sched, f32, &wide, &seed);
        tm_tensor_unref(f32);
        naive_free(&wide);
        naive_free(&n);
    }
    tm_sched_free(sched);
}

static void a_product_of_dimensions_may_pass_2_64_on_its_way_to_zero(void **state)
{
    (void)state;
    uint64_t dims[] = {UINT64_MAX, UINT64_MAX, 0, 7};
    tm_blob *empty;
    tm_tensor *tensor;
    assert_int_equal(tm_blob_mem_new("", 0, &empty), 0);
    assert_int_equal(tm_tensor_blob_new(empty, TM_F32, dims, 4, &tensor), 0);
    assert_int_equal(tensor->elems, 0);
    assert_int_equal(tensor->dims[0], UINT64_MAX);
    tm_tensor_unref(tensor);
    tm_blob_unref(empty);
}

/* ---- Boxes ---- */

static void any_box_of_any_tensor_has_its_elements(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    uint64_t seed = 4;
    for (int round = 0; round < 20; round++) {
        for (int dtype = 0; dtype < TM_DTYPE_COUNT; dtype++) {
            if (!is_stored(dtype))
                continue;
            size_t rank = next_random(&seed) % (NAIVE_RANK_MAX + 1);
            naive n = naive_random((tm_dtype)dtype, rank, round % 2 ? 5 : 12, &seed);
            tm_range ranges[NAIVE_RANK_MAX];
            for (size_t i = 0; i < n.rank; i++)
                ranges[i] = random_range(n.dims[i], &seed);
            naive cut = naive_box(&n, ranges);
            tm_tensor *tensor = naive_tensor(&n), *box;
            assert_int_equal(tm_tensor_box_new(tensor, ranges, &box), 0);
            tm_tensor_unref(tensor);
            assert_null(tm_tensor_bytes(box));
            expect_tensor(sched, box, &cut, &seed);
            tm_tensor_unref(box);
            naive_free(&cut);
            naive_free(&n);
        }
    }
    tm_sched_free(sched);
}

static void any_index_of_any_axis_is_taken(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    uint64_t seed = 5;
    static const tm_dtype dtypes[] = {TM_U8, TM_BF16, TM_F32, TM_F64, TM_F4, TM_C64};
    for (size_t d = 0; d < TM_ARRAY_LEN(dtypes); d++) {
        for (size_t rank = 1; rank <= NAIVE_RANK_MAX; rank++) {
            naive n = naive_random(dtypes[d], rank, 5, &seed);
            tm_tensor *tensor = naive_tensor(&n);
            for (size_t axis = 0; axis < rank; axis++) {
                for (uint64_t index = 0; index < n.dims[axis]; index++) {
                    naive cut = naive_take(&n, axis, index);
                    tm_tensor *taken;
                    assert_int_equal(tm_tensor_take_new(tensor, axis, index, &taken), 0);
                    expect_tensor(sched, taken, &cut, &seed);
                    tm_tensor_unref(taken);
                    naive_free(&cut);
                }
            }
            tm_tensor_unref(tensor);
            naive_free(&n);
        }
    }
    tm_sched_free(sched);
}

/* One more random view of *TENSOR, which it gives back, and of *N. */
static void view_further(tm_tensor **tensor, naive *n, uint64_t *seed)
{
    tm_range ranges[NAIVE_RANK_MAX];
    tm_tensor *next;
    naive cut;
    bool decodes = tm_convert_get(TM_CPU_SCALAR)->decode_f32[n->dtype];
    unsigned way = (unsigned)(next_random(seed) % 3);
    if (way == 0 && n->rank > 0 && n->elems > 0) {
        size_t axis = next_random(seed) % n->rank;
        uint64_t index = next_random(seed) % n->dims[axis];
        cut = naive_take(n, axis, index);
        assert_int_equal(tm_tensor_take_new(*tensor, axis, index, &next), 0);
    } else if (way == 1 && decodes) {
        cut = naive_f32(n);
        assert_int_equal(tm_tensor_f32_new(*tensor, &next), 0);
    } else {
        for (size_t i = 0; i < n->rank; i++)
            ranges[i] = random_range(n->dims[i], seed);
        cut = naive_box(n, ranges);
        assert_int_equal(tm_tensor_box_new(*tensor, ranges, &next), 0);
    }
    tm_tensor_unref(*tensor);
    naive_free(n);
    *tensor = next;
    *n = cut;
}

static void views_of_views_have_their_elements(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    uint64_t seed = 6;
    for (int round = 0; round < 15; round++) {
        for (int dtype = 0; dtype < TM_DTYPE_COUNT; dtype++) {
            if (!is_stored(dtype))
                continue;
            naive n = naive_random((tm_dtype)dtype, next_random(&seed) % 6, 7, &seed);
            tm_tensor *tensor = naive_tensor(&n);
            for (int depth = 0; depth < 3; depth++)
                view_further(&tensor, &n, &seed);
            expect_tensor(sched, tensor, &n, &seed);
            tm_tensor_unref(tensor);
            naive_free(&n);
        }
    }
    tm_sched_free(sched);
}

/* ---- Boxes too wide to gather, and what they ask of their bytes ---- */

enum {
    ROWS = 1500,
    COLS = 700
};

typedef struct wide {
    tm_sched *sched;
    leaf *leaf;
    tm_tensor *tensor;
} wide;

static wide wide_new(void)
{
    wide w = {.sched = sched_new(1, 1), .leaf = leaf_new((uint64_t)ROWS * COLS * 4)};
    w.leaf->at_hand = true;
    assert_int_equal(
        tm_tensor_blob_new(&w.leaf->blob, TM_F32, (uint64_t[]){ROWS, COLS}, 2, &w.tensor), 0);
    return w;
}

static void wide_free(wide *w)
{
    tm_tensor_unref(w->tensor);
    tm_blob_unref(&w->leaf->blob);
    tm_sched_free(w->sched);
}

static void expect_wide_box(wide *w, tm_range rows, tm_range cols, unsigned fetches)
{
    tm_tensor *box;
    assert_int_equal(tm_tensor_box_new(w->tensor, (tm_range[]){rows, cols}, &box), 0);
    uint32_t *got = tm_new_array(box->elems, sizeof(*got));
    assert_non_null(got);
    w->leaf->asked = 0;
    read_elements(&(elements_read){w->sched, box, 0, box->elems, 0, false}, got);
    assert_int_equal(w->leaf->asked, fetches);
    for (uint64_t i = 0; i < box->elems; i++) {
        uint64_t at = (rows.start + i / cols.count) * COLS + cols.start + i % cols.count;
        uint8_t expected[4];
        leaf_fill(at * 4, 4, expected);
        assert_memory_equal(&got[i], expected, 4);
    }
    free(got);
    tm_tensor_unref(box);
}

static void runs_close_together_are_gathered_others_are_read_one_by_one(void **state)
{
    (void)state;
    wide w = wide_new();
    expect_wide_box(&w, (tm_range){0, ROWS}, (tm_range){3, 1}, ROWS); /* 4 MB apart in all */
    expect_wide_box(&w, (tm_range){7, 300}, (tm_range){699, 1}, 1);   /* 0.8 MB */
    expect_wide_box(&w, (tm_range){7, 7}, (tm_range){699, 1}, 7);     /* too few */
    expect_wide_box(&w, (tm_range){7, 8}, (tm_range){699, 1}, 1);
    expect_wide_box(&w, (tm_range){7, 375}, (tm_range){0, 1}, 1); /* just below a megabyte */
    expect_wide_box(&w, (tm_range){7, 376}, (tm_range){0, 1}, 376);
    expect_wide_box(&w, (tm_range){5, 5}, (tm_range){0, COLS}, 1); /* one run */
    expect_wide_box(&w, (tm_range){100, 374}, (tm_range){10, 690}, 1);
    w.tensor->window = 7000; /* so its elements are computed, those in gaps too */
    expect_wide_box(&w, (tm_range){7, 10}, (tm_range){699, 1}, 1);
    expect_wide_box(&w, (tm_range){7, 11}, (tm_range){699, 1}, 11);
    wide_free(&w);
}

/* A plan covers at most a megabyte, and at most 4096 runs. */
static void a_box_is_read_in_bounded_plans(void **state)
{
    (void)state;
    static const struct {
        uint64_t dims[2];
        tm_range ranges[2];
        tm_dtype dtype;
        uint64_t window;
    } rows[] = {
        {{100000, 3}, {{0, 100000}, {1, 1}}, TM_F32, 4096},
        {{100000, 30}, {{0, 100000}, {1, 20}}, TM_F32, 4096 * 20},
        {{100000, 3000}, {{0, 100000}, {0, 2000}}, TM_F32, (1 << 20) / 4},
        {{100000, 3000}, {{0, 100000}, {0, 2000}}, TM_F64, (1 << 20) / 8},
        {{1, (uint64_t)1 << 60}, {{0, 1}, {0, ((uint64_t)1 << 60) - 1}}, TM_U8, 1 << 20},
        {{1, (uint64_t)1 << 53}, {{0, 1}, {0, (uint64_t)1 << 52}}, TM_U8, 1 << 20},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        uint64_t size = rows[i].dims[0] * rows[i].dims[1] * tm_dtype_get(rows[i].dtype)->bits / 8;
        leaf *l = leaf_new(size);
        tm_tensor *tensor, *box;
        assert_int_equal(tm_tensor_blob_new(&l->blob, rows[i].dtype, rows[i].dims, 2, &tensor), 0);
        assert_int_equal(tm_tensor_box_new(tensor, rows[i].ranges, &box), 0);
        assert_int_equal(box->window, rows[i].window);
        tm_tensor_unref(box);
        tensor->window = 1000;
        assert_int_equal(tm_tensor_box_new(tensor, rows[i].ranges, &box), 0);
        assert_int_equal(box->window, 1000);
        tm_tensor_unref(box);
        tm_tensor_unref(tensor);
        tm_blob_unref(&l->blob);
    }
}

static void the_window_of_a_blob_counts_elements_in_its_tensor(void **state)
{
    (void)state;
    static const struct {
        size_t blob;
        tm_dtype dtype;
        uint64_t tensor;
    } rows[] = {{0, TM_F32, 0},
                {4096, TM_F32, 1024},
                {4096, TM_U8, 4096},
                {4096, TM_F4, 8192},
                {4095, TM_F64, 511}};
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        leaf *l = leaf_new(8192);
        tm_tensor *tensor;
        l->blob.window = rows[i].blob;
        uint64_t dims[] = {8192 * 8 / tm_dtype_get(rows[i].dtype)->bits};
        assert_int_equal(tm_tensor_blob_new(&l->blob, rows[i].dtype, dims, 1, &tensor), 0);
        assert_int_equal(tensor->window, rows[i].tensor);
        tm_tensor_unref(tensor);
        tm_blob_unref(&l->blob);
    }
}

/* ---- What stays open ---- */

static void every_view_holds_the_bytes_that_it_reads(void **state)
{
    (void)state;
    static const tm_dtype dtypes[] = {TM_F4, TM_F8_E4M3, TM_BF16, TM_F32, TM_I64};
    static const uint64_t dims[] = {4, 6};
    static const tm_range ranges[] = {{1, 2}, {3, 2}};
    for (size_t i = 0; i < TM_ARRAY_LEN(dtypes); i++) {
        held_blob *bytes;
        tm_tensor *views[5];
        views[0] = held_tensor(dtypes[i], dims, 2, &bytes);
        assert_int_equal(tm_tensor_f32_new(views[0], &views[1]), 0);
        assert_int_equal(tm_tensor_take_new(views[0], 1, 5, &views[2]), 0);
        assert_int_equal(tm_tensor_box_new(views[1], ranges, &views[3]), 0);
        assert_int_equal(tm_tensor_f32_new(views[2], &views[4]), 0);
        for (size_t k = 0; k < TM_ARRAY_LEN(views); k++)
            expect_holds(&(holder){.tensor = views[k]}, &bytes, 1);
        for (size_t k = 0; k < TM_ARRAY_LEN(views); k++)
            tm_tensor_unref(views[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_stand_in_their_bytes_whatever_their_type),
        cmocka_unit_test(elements_of_six_bits_are_read_as_bytes),
        cmocka_unit_test(any_run_of_nibbles_is_decoded_from_any_start),
        cmocka_unit_test(f32_of_a_tensor_is_a_tensor),
        cmocka_unit_test(a_product_of_dimensions_may_pass_2_64_on_its_way_to_zero),
        cmocka_unit_test(any_box_of_any_tensor_has_its_elements),
        cmocka_unit_test(any_index_of_any_axis_is_taken),
        cmocka_unit_test(views_of_views_have_their_elements),
        cmocka_unit_test(runs_close_together_are_gathered_others_are_read_one_by_one),
        cmocka_unit_test(a_box_is_read_in_bounded_plans),
        cmocka_unit_test(the_window_of_a_blob_counts_elements_in_its_tensor),
        cmocka_unit_test(every_view_holds_the_bytes_that_it_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
