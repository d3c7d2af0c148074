/* Codes times scales, by block, channel and tensor, against a loop over single elements. */
#include "tests/unit/core/held.h"
#include "tests/unit/core/naive.h"

typedef struct scaled_case {
    naive codes, scales;
    uint64_t block_rows, block_cols;
} scaled_case;

/* The scale of element AT, by walking to it: the plane, then the block within. */
static uint64_t scale_of(const scaled_case *c, uint64_t at)
{
    const naive *n = &c->codes;
    uint64_t cols = n->rank > 0 ? n->dims[n->rank - 1] : 1;
    uint64_t rows = n->rank > 1 ? n->dims[n->rank - 2] : 1;
    uint64_t grid_cols = cols / c->block_cols + (cols % c->block_cols != 0);
    uint64_t grid_rows = rows / c->block_rows + (rows % c->block_rows != 0);
    uint64_t plane = at / (rows * cols), row = at / cols % rows, col = at % cols;
    return plane * grid_rows * grid_cols + row / c->block_rows * grid_cols + col / c->block_cols;
}

static naive scaled_values(const scaled_case *c)
{
    naive ret = naive_new(TM_F32, c->codes.dims, c->codes.rank);
    for (uint64_t i = 0; i < ret.elems; i++) {
        float value = naive_f32_at(&c->codes, i) * naive_f32_at(&c->scales, scale_of(c, i));
        memcpy(ret.bytes + i * 4, &value, 4);
    }
    return ret;
}

static void check_case(tm_sched *sched, const scaled_case *c, uint64_t *seed)
{
    naive expected = scaled_values(c);
    tm_tensor *codes = naive_tensor(&c->codes), *scales = naive_tensor(&c->scales), *tensor;
    tm_scaling scaling = {codes, scales, c->block_rows, c->block_cols};
    assert_int_equal(tm_tensor_scaled_new(&scaling, &tensor), 0);
    tm_tensor_unref(codes);
    tm_tensor_unref(scales);
    assert_null(tm_tensor_bytes(tensor));
    expect_shape(tensor, &expected);
    for (int i = 0; i < 8; i++) {
        uint64_t first = i ? next_random(seed) % (expected.elems + 1) : 0;
        uint64_t count = i ? next_random(seed) % (expected.elems - first + 1) : expected.elems;
        elements_read r = {sched, tensor, first, count, i % 2 ? 1 + next_random(seed) % 20 : 0,
                           true};
        expect_elements(&r, &expected);
    }
    tm_tensor_unref(tensor);
    naive_free(&expected);
}

static uint64_t random_block(uint64_t dim, uint64_t *seed)
{
    switch (next_random(seed) % 4) {
    case 0:
        return 1;
    case 1:
        return dim ? dim : 1; /* all of it */
    case 2:
        return UINT64_MAX; /* and more than that */
    default:
        return 1 + next_random(seed) % (dim + 2);
    }
}

static void values_are_codes_times_the_scale_of_their_block(void **state)
{
    (void)state;
    static const tm_dtype code_types[] = {TM_F8_E4M3,     TM_F8_E5M2,     TM_I8,   TM_U8,  TM_F4,
                                          TM_F8_E4M3FNUZ, TM_F8_E5M2FNUZ, TM_BF16, TM_F32, TM_I64};
    static const tm_dtype scale_types[] = {TM_F32, TM_BF16, TM_F16, TM_F64, TM_F8_E8M0, TM_F4};
    tm_sched *sched = sched_new(1, 1);
    uint64_t seed = 1;
    for (int round = 0; round < 600; round++) {
        size_t rank = next_random(&seed) % (NAIVE_RANK_MAX + 1);
        scaled_case c = {0};
        c.codes =
            naive_random(code_types[next_random(&seed) % TM_ARRAY_LEN(code_types)], rank, 9, &seed);
        rank = c.codes.rank;
        const uint64_t *dims = c.codes.dims;
        c.block_cols = random_block(rank > 0 ? dims[rank - 1] : 1, &seed);
        c.block_rows = random_block(rank > 1 ? dims[rank - 2] : 1, &seed);
        uint64_t count = tm_scaling_count(dims, rank, c.block_rows, c.block_cols);
        tm_dtype type = scale_types[next_random(&seed) % TM_ARRAY_LEN(scale_types)];
        c.scales = naive_new(type == TM_F4 && count % 2 ? TM_BF16 : type, &count, 1);
        for (uint64_t i = 0; i < naive_bytes(c.scales.dtype, count); i++)
            c.scales.bytes[i] = (uint8_t)next_random(&seed);
        check_case(sched, &c, &seed);
        naive_free(&c.codes);
        naive_free(&c.scales);
    }
    tm_sched_free(sched);
}

static void a_product_is_rounded_once_from_f32_factors(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    scaled_case c = {.block_rows = 1, .block_cols = 1};
    c.codes = naive_new(TM_I32, (uint64_t[]){4}, 1);
    c.scales = naive_new(TM_F64, (uint64_t[]){4}, 1);
    /* 2^24 + 1 and 1/3 are rounded to f32 before they are multiplied. */
    int32_t codes[] = {16777217, 3, 0, -1};
    double scales[] = {1.0, 1.0 / 3, -1.0, 1e300};
    float expected[] = {16777216.0f, 3 * (float)(1.0 / 3), -0.0f, -__builtin_inff()};
    memcpy(c.codes.bytes, codes, sizeof(codes));
    memcpy(c.scales.bytes, scales, sizeof(scales));
    tm_tensor *code = naive_tensor(&c.codes), *scale = naive_tensor(&c.scales), *tensor;
    assert_int_equal(tm_tensor_scaled_new(&(tm_scaling){code, scale, 1, 1}, &tensor), 0);
    float got[4];
    read_elements(&(elements_read){sched, tensor, 0, 4, 0, false}, got);
    assert_memory_equal(got, expected, sizeof(expected));
    tm_tensor_unref(tensor);
    tm_tensor_unref(code);
    tm_tensor_unref(scale);
    naive_free(&c.codes);
    naive_free(&c.scales);
    tm_sched_free(sched);
}

static void blocks_are_counted_with_partial_ones_at_the_edges(void **state)
{
    (void)state;
    static const struct {
        size_t rank;
        uint64_t dims[4], rows, cols, count;
    } rows[] = {
        {0, {0}, 1, 1, 1},
        {0, {0}, 128, 128, 1},
        {1, {100}, 1, 32, 4},
        {1, {96}, 7, 32, 3},
        {2, {256, 512}, 128, 128, 8},
        {2, {257, 513}, 128, 128, 15},
        {2, {256, 512}, 256, 512, 1},
        {2, {256, 512}, 1, 512, 256},
        {2, {256, 512}, 1, UINT64_MAX, 256},
        {2, {256, 512}, UINT64_MAX, UINT64_MAX, 1},
        {3, {5, 256, 512}, 128, 128, 40},
        {4, {2, 5, 256, 512}, 128, 128, 80},
        {2, {0, 512}, 128, 128, 0},
        {3, {5, 0, 512}, 128, 128, 0},
        {3, {UINT64_MAX, 4, 4}, 2, 4, 0}, /* too many to count */
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++)
        assert_int_equal(tm_scaling_count(rows[i].dims, rows[i].rank, rows[i].rows, rows[i].cols),
                         rows[i].count);
}

static void a_plan_covers_what_the_codes_allow(void **state)
{
    (void)state;
    static const struct {
        uint64_t codes, scaled;
    } rows[] = {{0, 256 << 10}, {1 << 20, 256 << 10}, {1000, 1000}};
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        uint64_t dims[] = {8, 8}, one[] = {1};
        naive n = naive_new(TM_I8, dims, 2), s = naive_new(TM_F32, one, 1);
        tm_tensor *codes = naive_tensor(&n), *scales = naive_tensor(&s), *tensor;
        codes->window = rows[i].codes;
        assert_int_equal(tm_tensor_scaled_new(&(tm_scaling){codes, scales, 8, 8}, &tensor), 0);
        assert_int_equal(tensor->window, rows[i].scaled);
        tm_tensor_unref(tensor);
        tm_tensor_unref(codes);
        tm_tensor_unref(scales);
        naive_free(&n);
        naive_free(&s);
    }
}

/* The rest of a fused tensor: one expert of scaled codes, a box of it. */
static void views_of_scaled_tensors_have_their_elements(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    uint64_t seed = 3;
    scaled_case c = {.block_rows = 4, .block_cols = 3};
    c.codes = naive_new(TM_F8_E4M3, (uint64_t[]){5, 10, 11}, 3);
    c.scales = naive_new(TM_F32, (uint64_t[]){5, 3, 4}, 3);
    for (uint64_t i = 0; i < c.codes.elems; i++)
        c.codes.bytes[i] = (uint8_t)next_random(&seed);
    for (uint64_t i = 0; i < c.scales.elems; i++) {
        float scale = (float)next_random(&seed) / 1e9f;
        memcpy(c.scales.bytes + i * 4, &scale, 4);
    }
    naive values = scaled_values(&c), expert = naive_take(&values, 0, 3);
    tm_range ranges[] = {{2, 7}, {1, 9}};
    naive cut = naive_box(&expert, ranges);
    tm_tensor *codes = naive_tensor(&c.codes), *scales = naive_tensor(&c.scales), *all, *one, *box;
    assert_int_equal(tm_tensor_scaled_new(&(tm_scaling){codes, scales, 4, 3}, &all), 0);
    assert_int_equal(tm_tensor_take_new(all, 0, 3, &one), 0);
    assert_int_equal(tm_tensor_box_new(one, ranges, &box), 0);
    expect_tensor(sched, one, &expert, &seed);
    expect_tensor(sched, box, &cut, &seed);
    tm_tensor *tensors[] = {codes, scales, all, one, box};
    for (size_t i = 0; i < TM_ARRAY_LEN(tensors); i++)
        tm_tensor_unref(tensors[i]);
    naive *naives[] = {&c.codes, &c.scales, &values, &expert, &cut};
    for (size_t i = 0; i < TM_ARRAY_LEN(naives); i++)
        naive_free(naives[i]);
    tm_sched_free(sched);
}

static void codes_and_scales_are_both_held_or_neither(void **state)
{
    (void)state;
    static const uint64_t dims[] = {4, 6}, grid[] = {2, 2};
    static const tm_range ranges[] = {{1, 2}, {0, 6}};
    held_blob *bytes[2];
    tm_tensor *codes = held_tensor(TM_F8_E4M3, dims, 2, &bytes[0]);
    tm_tensor *scales = held_tensor(TM_BF16, grid, 2, &bytes[1]);
    tm_tensor *values, *box, *row;
    assert_int_equal(tm_tensor_scaled_new(&(tm_scaling){codes, scales, 2, 3}, &values), 0);
    assert_int_equal(tm_tensor_box_new(values, ranges, &box), 0);
    assert_int_equal(tm_tensor_take_new(box, 0, 1, &row), 0);
    expect_holds(&(holder){.tensor = values}, bytes, 2);
    expect_holds(&(holder){.tensor = row}, bytes, 2);
    tm_tensor *const all[] = {codes, scales, values, box, row};
    for (size_t i = 0; i < TM_ARRAY_LEN(all); i++)
        tm_tensor_unref(all[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_codes_times_the_scale_of_their_block),
        cmocka_unit_test(a_product_is_rounded_once_from_f32_factors),
        cmocka_unit_test(blocks_are_counted_with_partial_ones_at_the_edges),
        cmocka_unit_test(a_plan_covers_what_the_codes_allow),
        cmocka_unit_test(views_of_scaled_tensors_have_their_elements),
        cmocka_unit_test(codes_and_scales_are_both_held_or_neither),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
