/* A model's rows as bytes and values: plain, scaled, packed, damaged; tied heads. */
#include "core/model.h"
#include "tests/unit/core/naive.h"

enum {
    FILE_BYTES = 1000
};

/* What row is where; in the order of names, so that a row's index is its place here. */
enum {
    CODES,
    CODES_SCALE,
    LONG_NAME,
    MISSING,
    OPAQUE,
    PACKED,
    PAST_END,
    PLAIN,
    REFUSED,
    REFUSED_SCALE,
    SCALE_OF_REFUSED,
    WEIRD_NAME,
    ROW_COUNT
};

#define LONG_NAME_TEXT                                                                             \
    "long-0123456789-0123456789-0123456789-0123456789-0123456789-0123456789-0123456789-"           \
    "0123456789-0123456789-0123456789-0123456789-0123456789"

static const struct {
    const char *name;
    tm_dtype dtype;
    uint64_t dims[2];
    size_t rank;
    uint32_t file;
    uint64_t begin, bytes;
    uint8_t flags;
} rows[ROW_COUNT] = {
    [CODES] = {"codes", TM_F8_E4M3, {4, 6}, 2, 0, 100, 24, 0},
    [CODES_SCALE] = {"codes_scale", TM_F32, {2, 2}, 2, 1, 200, 16, 0},
    [LONG_NAME] = {LONG_NAME_TEXT, TM_F32, {2}, 1, 2, 0, 8, 0},
    [MISSING] = {"missing", TM_F32, {2}, 1, 2, 0, 8, 0},
    [OPAQUE] = {"opaque", TM_F6_E3M2, {8}, 1, 0, 10, 6, 0},
    [PACKED] = {"packed", TM_I32, {3}, 1, 0, 20, 12, 0},
    [PAST_END] = {"past_end", TM_U8, {2}, 1, 0, FILE_BYTES - 1, 2, 0},
    [PLAIN] = {"plain", TM_I16, {2, 5}, 2, 1, FILE_BYTES - 20, 20, 0},
    [REFUSED] = {"refused", TM_F32, {2}, 1, 0, 0, 8, TM_ROW_REFUSED},
    [REFUSED_SCALE] = {"refused_scale", TM_F32, {1}, 1, 0, 0, 4, TM_ROW_REFUSED},
    [SCALE_OF_REFUSED] = {"scale_of_refused", TM_I8, {4}, 1, 0, 0, 4, 0},
    [WEIRD_NAME] = {"we\x01ird\n\x7f\xc3\xa9", TM_F32, {2}, 1, 2, 0, 8, 0},
};

static const tm_part parts[] = {
    {.row = CODES,
     .kind = TM_PART_SCALED,
     .scheme = "fp8-block",
     .scale_row = CODES_SCALE,
     .block_rows = 2,
     .block_cols = 4},
    {.row = PACKED, .kind = TM_PART_PACKED, .scheme = "gptq"},
    {.row = SCALE_OF_REFUSED,
     .kind = TM_PART_SCALED,
     .scheme = "int8",
     .scale_row = REFUSED_SCALE,
     .block_rows = 1,
     .block_cols = 4},
};

static void add_files(tm_model *model)
{
    static const char *const names[] = {"a.safetensors", "b.safetensors", "c.safetensors"};
    model->files = tm_new_array(3, sizeof(*model->files));
    assert_non_null(model->files);
    model->file_count = 3;
    for (int i = 0; i < 3; i++) {
        uint8_t bytes[FILE_BYTES];
        for (int j = 0; j < FILE_BYTES; j++)
            bytes[j] = leaf_byte((uint64_t)(j + i * 31));
        model->files[i].name = strdup(names[i]);
        if (i < 2) /* the third is missing */
            assert_int_equal(tm_blob_mem_new(bytes, FILE_BYTES, &model->files[i].blob), 0);
    }
    /* Scales that give numbers one can read. */
    float scales[] = {0.5f, 2.0f, -1.0f, 0.0f};
    uint8_t bytes[FILE_BYTES];
    for (int j = 0; j < FILE_BYTES; j++)
        bytes[j] = leaf_byte((uint64_t)j + 31);
    memcpy(bytes + 200, scales, sizeof(scales));
    tm_blob_unref(model->files[1].blob);
    assert_int_equal(tm_blob_mem_new(bytes, FILE_BYTES, &model->files[1].blob), 0);
}

static tm_model *model_new(void)
{
    tm_model *model;
    assert_int_equal(tm_model_new(&model), 0);
    add_files(model);
    for (int i = 0; i < ROW_COUNT; i++) {
        tm_tensor_new tensor = {.name = rows[i].name,
                                .name_len = strlen(rows[i].name),
                                .dtype = rows[i].dtype,
                                .dims = rows[i].dims,
                                .rank = rows[i].rank,
                                .file = rows[i].file,
                                .begin = rows[i].begin,
                                .bytes = rows[i].bytes,
                                .flags = rows[i].flags};
        assert_int_equal(tm_tensor_table_add(&model->table, &tensor, NULL), 0);
    }
    assert_int_equal(tm_tensor_table_seal(&model->table), 0);
    for (uint32_t i = 0; i < ROW_COUNT; i++)
        assert_memory_equal(tm_row_name(&model->table, &model->table.rows[i]), rows[i].name,
                            strlen(rows[i].name));
    model->parts = tm_new_array(TM_ARRAY_LEN(parts), sizeof(*model->parts));
    assert_non_null(model->parts);
    memcpy(model->parts, parts, sizeof(parts));
    model->part_count = TM_ARRAY_LEN(parts);
    return model;
}

static void a_part_is_found_by_its_row(void **state)
{
    (void)state;
    tm_model *model = model_new();
    for (uint32_t row = 0; row < ROW_COUNT; row++) {
        const tm_part *part = tm_model_part(model, row);
        bool is_part = row == CODES || row == PACKED || row == SCALE_OF_REFUSED;
        assert_int_equal(part != NULL, is_part);
        assert_true(!part || part->row == row);
    }
    assert_null(tm_model_part(model, UINT32_MAX));
    assert_int_equal(tm_model_values_dtype(model, CODES), TM_F32);
    assert_int_equal(tm_model_values_dtype(model, PACKED), TM_I32);
    assert_int_equal(tm_model_values_dtype(model, PLAIN), TM_I16);
    model->part_count = 0;
    assert_null(tm_model_part(model, CODES));
    tm_model_unref(model);
}

static void stored_bytes_are_those_of_the_row(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    tm_model *model = model_new();
    static const uint32_t good[] = {CODES, CODES_SCALE, OPAQUE, PACKED, PLAIN, SCALE_OF_REFUSED};
    for (size_t i = 0; i < TM_ARRAY_LEN(good); i++) {
        tm_req req;
        tm_req_init(&req, TM_LANE_SELECTION);
        req.may_block = true;
        uint32_t row = good[i], file = rows[row].file;
        uint8_t got[32], expected[32];
        tm_blob *blob;
        assert_int_equal(tm_model_raw(model, row, &req, &blob), 0);
        assert_int_equal(blob->size, rows[row].bytes);
        assert_int_equal(tm_read_wait(sched, blob, 0, blob->size, got, &req), 0);
        assert_int_equal(tm_read_wait(sched, model->files[file].blob, rows[row].begin,
                                      rows[row].bytes, expected, &req),
                         0);
        assert_memory_equal(got, expected, rows[row].bytes);
        tm_blob_unref(blob);
    }
    tm_model_unref(model);
    tm_sched_free(sched);
}

static void values_outlive_their_model(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    tm_model *model = model_new();
    tm_req req;
    tm_req_init(&req, TM_LANE_SELECTION);
    tm_tensor *scaled, *plain;
    assert_int_equal(tm_model_values(model, CODES, &req, &scaled), 0);
    assert_int_equal(tm_model_values(model, PLAIN, &req, &plain), 0);
    assert_null(tm_model_unref(model));
    naive codes = naive_new(TM_F8_E4M3, rows[CODES].dims, 2),
          shorts = naive_new(TM_I16, rows[PLAIN].dims, 2);
    leaf_fill(100, 24, codes.bytes);
    leaf_fill(FILE_BYTES - 20 + 31, 20, shorts.bytes);
    static const float scales[] = {0.5f, 2.0f, -1.0f, 0.0f};
    naive expected = naive_new(TM_F32, rows[CODES].dims, 2);
    for (uint64_t i = 0; i < 24; i++) {
        float value = naive_f32_at(&codes, i) * scales[i / 12 * 2 + i % 6 / 4];
        memcpy(expected.bytes + i * 4, &value, 4);
    }
    uint64_t seed = 1;
    expect_tensor(sched, scaled, &expected, &seed);
    expect_tensor(sched, plain, &shorts, &seed);
    tm_tensor_unref(scaled);
    tm_tensor_unref(plain);
    naive_free(&codes);
    naive_free(&shorts);
    naive_free(&expected);
    tm_sched_free(sched);
}

static void what_cannot_be_read_says_why(void **state)
{
    (void)state;
    static const struct {
        uint32_t row;
        int raw, values;
        const char *words;
    } cases[] = {
        {MISSING, -EBADMSG, -EBADMSG, "c.safetensors: missing, so tensor 'missing' cannot be read"},
        {REFUSED, -EBADMSG, -EBADMSG, "a.safetensors: damaged, so tensor 'refused' cannot be read"},
        {PAST_END, -EBADMSG, -EBADMSG,
         "a.safetensors: damaged, so tensor 'past_end' cannot be read"},
        {SCALE_OF_REFUSED, 0, -EBADMSG,
         "a.safetensors: damaged, so tensor 'refused_scale' cannot be read"},
        {OPAQUE, 0, -EOPNOTSUPP, "a.safetensors: tensor 'opaque' is F6_E3M2"},
        {PACKED, 0, -EOPNOTSUPP, "a.safetensors: tensor 'packed' holds codes of a gptq weight"},
        {WEIRD_NAME, -EBADMSG, -EBADMSG,
         "c.safetensors: missing, so tensor 'we?ird??\xc3\xa9' cannot be read"},
    };
    tm_model *model = model_new();
    for (size_t i = 0; i < TM_ARRAY_LEN(cases); i++) {
        tm_blob *blob = NULL;
        tm_tensor *tensor = NULL;
        tm_req raw, values, check;
        tm_req_init(&raw, TM_LANE_SELECTION);
        tm_req_init(&values, TM_LANE_SELECTION);
        tm_req_init(&check, TM_LANE_SELECTION);
        assert_int_equal(tm_model_raw(model, cases[i].row, &raw, &blob), cases[i].raw);
        assert_int_equal(tm_model_values(model, cases[i].row, &values, &tensor), cases[i].values);
        assert_int_equal(tm_model_check_values(model, cases[i].row, &check), cases[i].values);
        assert_int_equal(tm_model_check_values(model, cases[i].row, NULL), cases[i].values);
        assert_null(tensor);
        assert_int_equal(blob != NULL, cases[i].raw == 0);
        assert_non_null(strstr(tm_req_words(&values), cases[i].words));
        assert_string_equal(tm_req_words(&check), tm_req_words(&values));
        if (cases[i].raw < 0)
            assert_string_equal(tm_req_words(&raw), cases[i].words);
        tm_blob_unref(blob);
    }
    tm_model_unref(model);
}

static void a_name_too_long_for_words_is_cut(void **state)
{
    (void)state;
    tm_model *model = model_new();
    tm_req req;
    tm_blob *blob;
    tm_req_init(&req, TM_LANE_SELECTION);
    assert_int_equal(tm_model_raw(model, LONG_NAME, &req, &blob), -EBADMSG);
    assert_non_null(strstr(tm_req_words(&req), "'long-0123456789-"));
    assert_non_null(strstr(tm_req_words(&req), "\xe2\x80\xa6' cannot be read"));
    assert_null(strstr(tm_req_words(&req), LONG_NAME_TEXT));
    tm_req_init(&req, TM_LANE_SELECTION);
    assert_int_equal(tm_model_fail(model, PLAIN, &req, EFBIG, "is too large"), -EFBIG);
    assert_string_equal(tm_req_words(&req), "b.safetensors: tensor 'plain' is too large");
    tm_model_unref(model);
}

/* ---- Tied heads ---- */

static void an_absent_head_stands_for_the_embedding(void **state)
{
    (void)state;
    static const struct {
        const char *names[3];
        bool tied;
        const char *target; /* NULL: none */
    } cases[] = {
        {{"model.embed_tokens.weight", "model.norm.weight"}, true, "model.embed_tokens.weight"},
        {{"model.embed_tokens.weight", "model.norm.weight"}, false, NULL},
        {{"lm_head.weight", "model.embed_tokens.weight"}, true, NULL},
        {{"transformer.wte.weight", "transformer.h.0.ln_1.weight"}, true, "transformer.wte.weight"},
        {{"model.embed_tokens.weight", "wte.weight"}, true, "model.embed_tokens.weight"},
        {{"shared.weight"}, true, "shared.weight"},
        {{"model.norm.weight"}, true, NULL},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(cases); i++) {
        tm_model *model;
        assert_int_equal(tm_model_new(&model), 0);
        for (int j = 0; cases[i].names[j]; j++) {
            tm_tensor_new tensor = {.name = cases[i].names[j],
                                    .name_len = strlen(cases[i].names[j])};
            assert_int_equal(tm_tensor_table_add(&model->table, &tensor, NULL), 0);
        }
        assert_int_equal(tm_tensor_table_seal(&model->table), 0);
        model->tied = cases[i].tied;
        const char *alias = NULL;
        uint32_t row = UINT32_MAX;
        assert_int_equal(tm_model_tied(model, &alias, &row), cases[i].target != NULL);
        if (cases[i].target) {
            const tm_tensor_row *r = &model->table.rows[row];
            assert_string_equal(alias, "lm_head.weight");
            assert_int_equal(r->name_len, strlen(cases[i].target));
            assert_memory_equal(tm_row_name(&model->table, r), cases[i].target, r->name_len);
        } else {
            assert_null(alias);
        }
        tm_model_unref(model);
    }
}

static void a_model_lives_as_long_as_a_reference(void **state)
{
    (void)state;
    tm_model *model = model_new();
    assert_string_equal(model->format, "safetensors");
    assert_ptr_equal(tm_model_ref(model), model);
    tm_model_unrefp(&model);
    assert_int_equal(model->table.count, ROW_COUNT);
    model->unused = tm_new_array(1, sizeof(*model->unused));
    model->unused[0] = strdup("other.safetensors");
    model->unused_count = 1;
    model->source = strdup("/models/x");
    model->architecture = strdup("LlamaForCausalLM");
    assert_null(tm_model_unref(model)); /* and all that it owns */
    assert_null(tm_model_unref(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_is_found_by_its_row),
        cmocka_unit_test(stored_bytes_are_those_of_the_row),
        cmocka_unit_test(values_outlive_their_model),
        cmocka_unit_test(what_cannot_be_read_says_why),
        cmocka_unit_test(a_name_too_long_for_words_is_cut),
        cmocka_unit_test(an_absent_head_stands_for_the_embedding),
        cmocka_unit_test(a_model_lives_as_long_as_a_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
