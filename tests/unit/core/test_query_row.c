/* Fields of headers, for tensors that have them and tensors that do not. */
#include "core/query_row.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

/* In order of their names. */
static const struct {
    const char *name;
    tm_dtype dtype;
    uint64_t dims[3];
    size_t rank;
    uint64_t bytes;
} tensors[] = {
    {"model.layers.3.mlp.experts.7.up_proj.weight", TM_BF16, {6, 4}, 2, 48},
    {"model.layers.3.mlp.experts.down_proj", TM_F8_E4M3, {8, 4, 2}, 3, 64},
    {"model.norm.weight", TM_F32, {5}, 1, 20},
    {"scale", TM_F64, {0}, 0, 8},
};

enum {
    EXPERT,
    FUSED,
    NORM,
    SCALAR,
    TENSOR_COUNT
};
static_assert(TENSOR_COUNT == TM_ARRAY_LEN(tensors), "one word for each");

static tm_model *model_new(void)
{
    tm_model *model;
    assert_int_equal(tm_model_new(&model), 0);
    for (size_t i = 0; i < TENSOR_COUNT; i++) {
        tm_tensor_new added = {.name = tensors[i].name,
                               .name_len = strlen(tensors[i].name),
                               .dtype = tensors[i].dtype,
                               .dims = tensors[i].dims,
                               .rank = tensors[i].rank,
                               .bytes = tensors[i].bytes};
        assert_int_equal(tm_tensor_table_add(&model->table, &added, NULL), 0);
    }
    assert_int_equal(tm_tensor_table_seal(&model->table), 0);
    model->files = tm_new_array(1, sizeof(*model->files));
    assert_non_null(model->files);
    model->file_count = 1;
    model->files[0].name = strdup("model.safetensors");
    assert_non_null(model->files[0].name);
    return model;
}

static void texts_are_those_of_the_tables(void **state)
{
    (void)state;
    static const struct {
        uint32_t row;
        tm_field field;
        const char *text;
    } rows[] = {
        {EXPERT, TM_FIELD_NAME, "model.layers.3.mlp.experts.7.up_proj.weight"},
        {SCALAR, TM_FIELD_NAME, "scale"},
        {EXPERT, TM_FIELD_DTYPE, "BF16"},
        {FUSED, TM_FIELD_DTYPE, "F8_E4M3"},
        {EXPERT, TM_FIELD_ROLE, "mlp"},
        {NORM, TM_FIELD_ROLE, "norm"},
        {SCALAR, TM_FIELD_ROLE, "other"},
        {NORM, TM_FIELD_FILE, "model.safetensors"},
    };
    TM_AUTO(tm_model_unrefp) tm_model *model = model_new();
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        tm_query_value v = tm_query_header(model, rows[i].row, rows[i].field);
        assert_int_equal(v.kind, TM_QUERY_TEXT);
        assert_int_equal(v.len, strlen(rows[i].text));
        assert_memory_equal(v.text, rows[i].text, v.len);
    }
}

enum {
    NOTHING = -1
};

static void numbers_are_absent_where_there_are_none(void **state)
{
    (void)state;
    static const struct {
        tm_field field;
        int64_t expected[TENSOR_COUNT];
    } rows[] = {
        {TM_FIELD_RANK, {2, 3, 1, 0}},
        {TM_FIELD_ROWS, {6, 8, 5, NOTHING}},
        {TM_FIELD_COLS, {4, 2, 5, NOTHING}},
        {TM_FIELD_PARAMS, {24, 64, 5, 1}},
        {TM_FIELD_BYTES, {48, 64, 20, 8}},
        {TM_FIELD_LAYER, {3, 3, NOTHING, NOTHING}},
        {TM_FIELD_EXPERT, {7, NOTHING, NOTHING, NOTHING}},
    };
    TM_AUTO(tm_model_unrefp) tm_model *model = model_new();
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        for (uint32_t row = 0; row < TENSOR_COUNT; row++) {
            tm_query_value v = tm_query_header(model, row, rows[i].field);
            int64_t expected = rows[i].expected[row];
            assert_int_equal(v.kind, expected == NOTHING ? TM_QUERY_ABSENT : TM_QUERY_INTEGER);
            assert_false(v.negative);
            if (expected != NOTHING)
                assert_int_equal(v.magnitude, expected);
        }
    }
}

static void every_field_but_statistics_has_a_value_of_its_kind(void **state)
{
    (void)state;
    TM_AUTO(tm_model_unrefp) tm_model *model = model_new();
    for (int i = 0; i < TM_FIELD_INF_COUNT; i++) {
        tm_query_value v = tm_query_header(model, EXPERT, (tm_field)i);
        bool is_text = tm_field_get((tm_field)i).is_text;
        assert_int_equal(v.kind, is_text ? TM_QUERY_TEXT : TM_QUERY_INTEGER);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_those_of_the_tables),
        cmocka_unit_test(numbers_are_absent_where_there_are_none),
        cmocka_unit_test(every_field_but_statistics_has_a_value_of_its_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
