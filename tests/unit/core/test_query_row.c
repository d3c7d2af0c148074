/* What a query compares, for tensors that have it and tensors that do not: fields of headers, and
 * statistics that are known or not. */
#include "core/query_row.h"

#include <math.h>
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

/* ---- All fields of a query ---- */

/* No two fields are the same. */
static tm_stats_record full_record(void)
{
    return (tm_stats_record){
        .summary =
            {
                .n = 1,
                .zero = 2,
                .neg_zero = 3,
                .nan = 4,
                .pos_inf = 5,
                .neg_inf = 6,
                .subnormal = 7,
                .min = -8.5,
                .max = 9.5,
                .absmax = 10.5,
                .absmax_index = 11,
                .moments = {.mean = -12.5, .var = 13.5, .std = 14.5, .l1 = 15.5, .l2 = 16.5},
                .sparsity = 17.5,
                .entropy = 18.5,
                .distinct = 19,
                .has_distinct = true,
                .quantile = {22.5, 23.5, 24.5, 25.5, 26.5, 27.5, 28.5, 29.5, 30.5},
            },
        .zero_rows = 20,
        .zero_cols = 21,
    };
}

/* What full_record() says, by the names that queries use. */
static const struct {
    const char *name;
    tm_query_kind kind;
    double value;
} statistics[] = {
    {"n", TM_QUERY_INTEGER, 1},
    {"zero_count", TM_QUERY_INTEGER, 2},
    {"neg_zero_count", TM_QUERY_INTEGER, 3},
    {"nan_count", TM_QUERY_INTEGER, 4},
    {"pos_inf_count", TM_QUERY_INTEGER, 5},
    {"neg_inf_count", TM_QUERY_INTEGER, 6},
    {"inf_count", TM_QUERY_INTEGER, 11},
    {"subnormal_count", TM_QUERY_INTEGER, 7},
    {"min", TM_QUERY_REAL, -8.5},
    {"max", TM_QUERY_REAL, 9.5},
    {"absmax", TM_QUERY_REAL, 10.5},
    {"absmax_index", TM_QUERY_INTEGER, 11},
    {"mean", TM_QUERY_REAL, -12.5},
    {"var", TM_QUERY_REAL, 13.5},
    {"std", TM_QUERY_REAL, 14.5},
    {"l1", TM_QUERY_REAL, 15.5},
    {"l2", TM_QUERY_REAL, 16.5},
    {"sparsity", TM_QUERY_REAL, 17.5},
    {"entropy", TM_QUERY_REAL, 18.5},
    {"distinct", TM_QUERY_INTEGER, 19},
    {"zero_rows", TM_QUERY_INTEGER, 20},
    {"zero_cols", TM_QUERY_INTEGER, 21},
    {"q0.001", TM_QUERY_REAL, 22.5},
    {"q0.01", TM_QUERY_REAL, 23.5},
    {"q0.05", TM_QUERY_REAL, 24.5},
    {"q0.25", TM_QUERY_REAL, 25.5},
    {"q0.5", TM_QUERY_REAL, 26.5},
    {"q0.75", TM_QUERY_REAL, 27.5},
    {"q0.95", TM_QUERY_REAL, 28.5},
    {"q0.99", TM_QUERY_REAL, 29.5},
    {"q0.999", TM_QUERY_REAL, 30.5},
};
static_assert(TM_ARRAY_LEN(statistics) == TM_FIELD_COUNT - TM_FIELD_INF_COUNT, "all of them");

static tm_field field_called(const char *name)
{
    tm_field field;
    assert_true(tm_field_find(name, strlen(name), &field));
    return field;
}

static bool same_value(const tm_query_value *a, const tm_query_value *b)
{
    if (a->kind != b->kind || a->negative != b->negative)
        return false;
    if (a->kind == TM_QUERY_TEXT)
        return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
    if (a->kind == TM_QUERY_REAL)
        return a->real == b->real || (isnan(a->real) && isnan(b->real));
    return a->kind != TM_QUERY_INTEGER || a->magnitude == b->magnitude;
}

/* A query that uses COUNT of all fields, the last one first. */
static tm_query *query_of_last(size_t count)
{
    tm_query *query = tm_query_new(1, 0);
    assert_non_null(query);
    for (size_t i = 0; i < count; i++)
        tm_query_use(query, (tm_field)(TM_FIELD_COUNT - 1 - i));
    assert_int_equal(query->field_count, count);
    return query;
}

/* The value of one field. */
static tm_query_value value_of(const char *name, const tm_stats_record *record)
{
    TM_AUTO(tm_model_unrefp) tm_model *model = model_new();
    TM_AUTO(tm_query_freep) tm_query *query = tm_query_new(1, 0);
    tm_query_value value;
    assert_non_null(query);
    tm_query_use(query, field_called(name));
    tm_query_values(query, model, SCALAR, record, &value);
    return value;
}

static void values_stand_in_the_order_of_the_query(void **state)
{
    (void)state;
    TM_AUTO(tm_model_unrefp) tm_model *model = model_new();
    TM_AUTO(tm_query_freep) tm_query *query = query_of_last(TM_FIELD_COUNT);
    tm_stats_record record = full_record();
    tm_query_value values[TM_FIELD_COUNT];
    for (uint32_t row = 0; row < TENSOR_COUNT; row++) {
        tm_query_values(query, model, row, &record, values);
        for (size_t i = 0; i < TM_ARRAY_LEN(statistics); i++) {
            tm_field field = field_called(statistics[i].name);
            const tm_query_value *v = &values[TM_FIELD_COUNT - 1 - field];
            assert_int_equal(v->kind, statistics[i].kind);
            assert_false(v->negative);
            assert_true((v->kind == TM_QUERY_REAL ? v->real : (double)v->magnitude) ==
                        statistics[i].value);
        }
        for (int i = 0; i < TM_FIELD_INF_COUNT; i++) {
            tm_query_value header = tm_query_header(model, row, (tm_field)i);
            assert_true(same_value(&values[TM_FIELD_COUNT - 1 - i], &header));
        }
    }
}

static void without_a_record_statistics_are_unknown_and_headers_are_not(void **state)
{
    (void)state;
    TM_AUTO(tm_model_unrefp) tm_model *model = model_new();
    TM_AUTO(tm_query_freep) tm_query *query = query_of_last(TM_FIELD_COUNT);
    tm_query_value values[TM_FIELD_COUNT];
    for (uint32_t row = 0; row < TENSOR_COUNT; row++) {
        tm_query_values(query, model, row, NULL, values);
        for (int i = 0; i < TM_FIELD_COUNT; i++) {
            const tm_query_value *v = &values[TM_FIELD_COUNT - 1 - i];
            bool is_statistic = tm_field_get((tm_field)i).is_statistic;
            assert_int_equal(v->kind == TM_QUERY_UNKNOWN, is_statistic);
            if (!is_statistic) {
                tm_query_value header = tm_query_header(model, row, (tm_field)i);
                assert_true(same_value(v, &header));
            }
        }
    }
}

static void only_the_fields_of_the_query_are_filled(void **state)
{
    (void)state;
    TM_AUTO(tm_model_unrefp) tm_model *model = model_new();
    tm_stats_record record = full_record();
    for (size_t count = 0; count <= TM_FIELD_COUNT; count++) {
        TM_AUTO(tm_query_freep) tm_query *query = query_of_last(count);
        tm_query_value values[TM_FIELD_COUNT + 1], untouched;
        memset(values, 0x5a, sizeof(values));
        memset(&untouched, 0x5a, sizeof(untouched));
        tm_query_values(query, model, NORM, &record, values);
        for (size_t i = count; i <= TM_FIELD_COUNT; i++)
            assert_memory_equal(&values[i], &untouched, sizeof(untouched));
    }
}

static void infinities_of_both_signs_are_counted_together(void **state)
{
    (void)state;
    static const struct {
        uint64_t pos, neg, sum;
    } rows[] = {{0, 0, 0},
                {3, 0, 3},
                {0, 4, 4},
                {3, 4, 7},
                {UINT64_C(1) << 60, (UINT64_C(1) << 60) + 1, (UINT64_C(1) << 61) + 1}};
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        tm_stats_record record = full_record();
        record.summary.pos_inf = rows[i].pos;
        record.summary.neg_inf = rows[i].neg;
        tm_query_value v = value_of("inf_count", &record);
        assert_int_equal(v.kind, TM_QUERY_INTEGER);
        assert_true(v.magnitude == rows[i].sum);
    }
    assert_int_equal(value_of("inf_count", NULL).kind, TM_QUERY_UNKNOWN);
}

/* Known not to be there, which is not the same as unknown. */
static void what_a_tensor_has_not_is_absent_or_nan(void **state)
{
    (void)state;
    tm_stats_record record = full_record();
    record.summary.has_distinct = false;
    record.summary.absmax = record.summary.min = record.summary.moments.mean = NAN;
    record.summary.quantile[4] = NAN;
    assert_int_equal(value_of("distinct", &record).kind, TM_QUERY_ABSENT);
    assert_int_equal(value_of("absmax_index", &record).kind, TM_QUERY_ABSENT);
    static const char *const without[] = {"absmax", "min", "mean", "q0.5"};
    for (size_t i = 0; i < TM_ARRAY_LEN(without); i++) {
        tm_query_value v = value_of(without[i], &record);
        assert_int_equal(v.kind, TM_QUERY_REAL);
        assert_true(isnan(v.real));
    }
    assert_int_equal(value_of("distinct", NULL).kind, TM_QUERY_UNKNOWN);
    assert_int_equal(value_of("layer", &record).kind, TM_QUERY_ABSENT);
    assert_int_equal(value_of("rows", NULL).kind, TM_QUERY_ABSENT);
}

static void counts_keep_all_their_bits(void **state)
{
    (void)state;
    tm_stats_record record = full_record();
    record.summary.n = (UINT64_C(1) << 53) + 1;
    record.zero_rows = UINT64_MAX;
    assert_true(value_of("n", &record).magnitude == (UINT64_C(1) << 53) + 1);
    assert_true(value_of("zero_rows", &record).magnitude == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_those_of_the_tables),
        cmocka_unit_test(numbers_are_absent_where_there_are_none),
        cmocka_unit_test(every_field_but_statistics_has_a_value_of_its_kind),
        cmocka_unit_test(values_stand_in_the_order_of_the_query),
        cmocka_unit_test(without_a_record_statistics_are_unknown_and_headers_are_not),
        cmocka_unit_test(only_the_fields_of_the_query_are_filled),
        cmocka_unit_test(infinities_of_both_signs_are_counted_together),
        cmocka_unit_test(what_a_tensor_has_not_is_absent_or_nan),
        cmocka_unit_test(counts_keep_all_their_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
