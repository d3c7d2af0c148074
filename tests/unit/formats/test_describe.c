/* model.json, metadata.json, error and what `tmorph info` prints, to the byte. */
#include "formats/describe.h"

#include <stdio.h>

#include "formats/quant.h"
#include "tests/unit/formats/model_builder.h"

static const char fingerprint[] =
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/* A text that a renderer wrote, against what is expected; frees it. */
static void assert_text(tm_text *t, const char *expected)
{
    assert_int_equal(tm_text_error(t), 0);
    assert_string_equal(t->bytes ? t->bytes : "", expected);
    tm_text_done(t);
}

static void quantise(tm_model *model, const char *text)
{
    tm_config config;
    tm_config_init(&config);
    assert_int_equal(tm_config_parse(text, strlen(text), "config.json", &model->diag, &config), 0);
    assert_int_equal(tm_quant_find(model, &config, NULL), 0);
    model->tied = config.tied;
    model->architecture = TM_STEAL(config.architecture);
    tm_config_done(&config);
}

/* A small Llama with a tied head. */
static tm_model *llama(void)
{
    tm_model *model = builder_model("model.embed_tokens.weight BF16 1000,64\n"
                                    "model.layers.0.mlp.up_proj.weight BF16 128,64 1\n"
                                    "model.layers.0.input_layernorm.weight F32 64\n"
                                    "model.layers.1.mlp.up_proj.weight BF16 128,64 1\n"
                                    "model.norm.weight F32 64 1\n");
    quantise(model, "{\"architectures\": [\"LlamaForCausalLM\"]}");
    model->source = strdup("/data/llama");
    return model;
}

static void a_good_model_is_described_key_by_key(void **state)
{
    (void)state;
    tm_model *model = llama();
    tm_described d = {"llama", model, fingerprint};
    tm_text t;
    tm_text_init(&t);
    tm_describe_model(&t, &d);
    assert_text(&t, "{\n"
                    "  \"name\": \"llama\",\n"
                    "  \"source\": \"/data/llama\",\n"
                    "  \"format\": \"safetensors\",\n"
                    "  \"state\": \"ready\",\n"
                    "  \"error\": null,\n"
                    "  \"architecture\": \"LlamaForCausalLM\",\n"
                    "  \"layers\": 2,\n"
                    "  \"experts\": 0,\n"
                    "  \"tensors\": 5,\n"
                    "  \"parameters\": 80512,\n"
                    "  \"parameters_stored\": 80512,\n"
                    "  \"bytes\": 161280,\n"
                    "  \"dtypes\": {\"BF16\": 160768, \"F32\": 512},\n"
                    "  \"tied\": [[\"lm_head.weight\", \"model.embed_tokens.weight\"]],\n"
                    "  \"fingerprint\": "
                    "\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\",\n"
                    "  \"files\": [\n"
                    "    {\"name\": \"a.safetensors\", \"bytes\": 1000, \"state\": \"ready\", "
                    "\"error\": null},\n"
                    "    {\"name\": \"b.safetensors\", \"bytes\": 1000, \"state\": \"ready\", "
                    "\"error\": null}\n"
                    "  ],\n"
                    "  \"unused\": [],\n"
                    "  \"warnings\": []\n"
                    "}\n");
    tm_model_unref(model);
}

static void a_damaged_model_says_where_and_why(void **state)
{
    (void)state;
    tm_model *model = builder_model("a.weight F32 2,2\n");
    model->unused = tm_new_array(2, sizeof(char *));
    model->unused[model->unused_count++] = strdup("old.bin");
    model->unused[model->unused_count++] = strdup("x\"\xff.bin");
    model->files[0].damaged = true;
    model->files[1].damaged = true;
    model->files[1].blob = tm_blob_unref(model->files[1].blob);
    tm_diag_add(&model->diag, TM_WARNING, "a.safetensors: unusual");
    tm_diag_add(&model->diag, TM_DAMAGE, "a.safetensors2: another file");
    tm_diag_add(&model->diag, TM_DAMAGE, "a.safetensors: a \"hole\"");
    tm_described d = {"m", model, NULL};
    tm_text t;
    tm_text_init(&t);
    tm_describe_model(&t, &d);
    assert_text(&t,
                "{\n"
                "  \"name\": \"m\",\n"
                "  \"source\": null,\n"
                "  \"format\": \"safetensors\",\n"
                "  \"state\": \"damaged\",\n"
                "  \"error\": \"a.safetensors2: another file\\na.safetensors: a \\\"hole\\\"\",\n"
                "  \"architecture\": null,\n"
                "  \"layers\": 0,\n"
                "  \"experts\": 0,\n"
                "  \"tensors\": 1,\n"
                "  \"parameters\": 4,\n"
                "  \"parameters_stored\": 4,\n"
                "  \"bytes\": 16,\n"
                "  \"dtypes\": {\"F32\": 16},\n"
                "  \"tied\": [],\n"
                "  \"fingerprint\": null,\n"
                "  \"files\": [\n"
                "    {\"name\": \"a.safetensors\", \"bytes\": 1000, \"state\": \"damaged\", "
                "\"error\": \"a.safetensors: a \\\"hole\\\"\"},\n"
                "    {\"name\": \"b.safetensors\", \"bytes\": null, \"state\": \"missing\", "
                "\"error\": \"missing\"}\n"
                "  ],\n"
                "  \"unused\": [\"old.bin\", \"x\\\"\xef\xbf\xbd.bin\"],\n"
                "  \"warnings\": [\n"
                "    \"a.safetensors: unusual\"\n"
                "  ]\n"
                "}\n");
    tm_describe_error(&t, model);
    assert_text(&t, "a.safetensors: unusual\n"
                    "a.safetensors2: another file\n"
                    "a.safetensors: a \"hole\"\n");
    tm_model_unref(model);
}

static void a_model_of_nothing_is_described_too(void **state)
{
    (void)state;
    tm_model *model;
    assert_int_equal(tm_model_new(&model), 0);
    tm_described d = {"", model, NULL};
    tm_text t;
    tm_text_init(&t);
    tm_describe_model(&t, &d);
    assert_text(&t, "{\n  \"name\": \"\",\n  \"source\": null,\n  \"format\": \"safetensors\",\n"
                    "  \"state\": \"ready\",\n  \"error\": null,\n  \"architecture\": null,\n"
                    "  \"layers\": 0,\n  \"experts\": 0,\n  \"tensors\": 0,\n  \"parameters\": 0,\n"
                    "  \"parameters_stored\": 0,\n  \"bytes\": 0,\n  \"dtypes\": {},\n"
                    "  \"tied\": [],\n  \"fingerprint\": null,\n  \"files\": [],\n"
                    "  \"unused\": [],\n  \"warnings\": []\n}\n");
    tm_describe_error(&t, model);
    assert_text(&t, "");
    tm_describe_metadata(&t, model);
    assert_text(&t, "{}\n");
    tm_model_unref(model);
}

/* The value of KEY, up to the end of its line. */
static void assert_line(const tm_text *t, const char *line)
{
    const char *at = strstr(t->bytes, line);
    assert_non_null(at);
    assert_true(at[-1] == '\n' && (at[strlen(line)] == ',' || at[strlen(line)] == '\n'));
}

static void parameters_leave_out_scales_and_unpack_codes(void **state)
{
    (void)state;
    tm_model *model =
        builder_model("a.qweight I32 8,32\na.qzeros I32 2,4\na.scales F16 2,32\na.g_idx I32 64\n");
    quantise(model, "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4}}");
    tm_described d = {"q", model, NULL};
    tm_text t;
    tm_text_init(&t);
    tm_describe_model(&t, &d);
    assert_line(&t, "  \"parameters\": 2048");
    assert_line(&t, "  \"parameters_stored\": 392");
    assert_line(&t, "  \"dtypes\": {\"I32\": 1312, \"F16\": 128}");
    tm_text_done(&t);
    tm_model_unref(model);
}

static void dropped_lines_are_counted_where_they_belong(void **state)
{
    (void)state;
    tm_model *model = builder_model("");
    model->diag.dropped = 7;
    tm_described d = {"m", model, NULL};
    tm_text t;
    tm_text_init(&t);
    tm_describe_model(&t, &d);
    assert_line(&t, "  \"error\": null");
    assert_line(&t, "    \"and 7 more lines that were not kept\"");
    tm_text_clear(&t);
    /* Damage may be among them: then it is the error. */
    model->diag.damaged = true;
    tm_describe_model(&t, &d);
    assert_line(&t, "  \"error\": \"and 7 more lines that were not kept\"");
    assert_line(&t, "  \"warnings\": []");
    tm_text_clear(&t);
    tm_describe_error(&t, model);
    assert_text(&t, "and 7 more lines that were not kept\n");
    tm_model_unref(model);
}

static void metadata_is_one_object_in_the_order_of_the_file(void **state)
{
    (void)state;
    tm_model *model = builder_model("");
    assert_int_equal(tm_metadata_add(&model->metadata, "format", 6, "pt", 2), 0);
    assert_int_equal(tm_metadata_add(&model->metadata, "a\0b", 3, "\xff\n\"", 3), 0);
    assert_int_equal(tm_metadata_add(&model->metadata, "", 0, "", 0), 0);
    tm_text t;
    tm_text_init(&t);
    tm_describe_metadata(&t, model);
    assert_text(&t, "{\n"
                    "  \"format\": \"pt\",\n"
                    "  \"a\\u0000b\": \"\xef\xbf\xbd\\n\\\"\",\n"
                    "  \"\": \"\"\n"
                    "}\n");
    tm_model_unref(model);
}

static void one_model_is_shown_as_a_card(void **state)
{
    (void)state;
    tm_model *model = llama();
    tm_diag_add(&model->diag, TM_WARNING, "a.safetensors: unusual");
    tm_described d = {"llama", model, NULL};
    tm_text t;
    tm_text_init(&t);
    tm_describe_info(&t, &d, 1);
    assert_text(&t, "name          llama\n"
                    "source        /data/llama\n"
                    "format        safetensors, 2 files\n"
                    "architecture  LlamaForCausalLM\n"
                    "tensors       5\n"
                    "parameters    80.5K\n"
                    "bytes         161 kB\n"
                    "dtypes        BF16 161 kB, F32 512 B\n"
                    "quantised     -\n"
                    "layers        2\n"
                    "experts       -\n"
                    "tied          lm_head.weight = model.embed_tokens.weight\n"
                    "state         ready\n"
                    "warning: a.safetensors: unusual\n");
    tm_model_unref(model);
}

static void several_models_are_shown_as_a_table(void **state)
{
    (void)state;
    tm_model *first = llama();
    tm_model *second = builder_model("layers.0.mlp.experts.3.w1.weight F8_E4M3 64,64\n"
                                     "layers.0.mlp.experts.3.w1.weight_scale F32 -\n");
    quantise(second, "{\"quantization_config\": {\"quant_method\": \"fp8\"}}");
    second->source = strdup("hf://x");
    tm_diag_add(&second->diag, TM_DAMAGE, "b.safetensors: cut short");
    second->diag.dropped = 2;
    tm_described d[] = {{"llama", first, NULL}, {"m\xc3\xb6l\n", second, NULL}};
    tm_text t;
    tm_text_init(&t);
    tm_describe_info(&t, d, 2);
    assert_text(
        &t,
        "NAME    FORMAT       ARCHITECTURE      TENSORS  PARAMETERS   BYTES  DTYPES       LAYERS  "
        "EXPERTS  STATE\n"
        "llama   safetensors  LlamaForCausalLM        5       80.5K  161 kB  BF16 F32          2  "
        "      -  ready\n"
        "m\xc3\xb6l%0A  safetensors  -                       2        4.1K  4.1 kB  F8_E4M3 F32   "
        "    1        4  damaged\n"
        "m\xc3\xb6l%0A: damage: b.safetensors: cut short\n"
        "m\xc3\xb6l%0A: and 2 more lines that were not kept\n");
    tm_model_unref(first);
    tm_model_unref(second);
}

static void no_models_are_shown_as_the_head_of_a_table(void **state)
{
    (void)state;
    tm_text t;
    tm_text_init(&t);
    tm_describe_info(&t, NULL, 0);
    assert_text(&t, "NAME  FORMAT  ARCHITECTURE  TENSORS  PARAMETERS  BYTES  DTYPES  LAYERS  "
                    "EXPERTS  STATE\n");
}

static const struct {
    const char *tensors, *parameters, *bytes;
} sizes[] = {
    {"", "0", "0 B"},
    {"a U8 999\n", "999", "999 B"},
    {"a U8 1000\n", "1.0K", "1.0 kB"},
    {"a U8 99949\n", "99.9K", "99.9 kB"},
    {"a U8 99950\n", "100K", "100 kB"},
    {"a U8 999499\n", "999K", "999 kB"},
    {"a U8 999500\n", "1.0M", "1.0 MB"},
    {"a BF16 7615616512\n", "7.6B", "15.2 GB"},
    {"a BF16 1000000000000\n", "1.0T", "2.0 TB"},
    {"a U8 18446744073709551615\n", "18447Q", "18.4 EB"},
};

static void sizes_are_rounded_to_what_people_say(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(sizes); i++) {
        /* The largest has more bits than 64 bits can count, so its bytes are set by hand. */
        bool largest = i + 1 == TM_ARRAY_LEN(sizes);
        tm_model *model = builder_model(largest ? "a U8 1\n" : sizes[i].tensors);
        if (largest) {
            model->table.dims[0] = UINT64_MAX;
            model->table.rows[0].bytes = UINT64_MAX;
        }
        tm_described d = {"m", model, NULL};
        tm_text t;
        char line[64];
        tm_text_init(&t);
        tm_describe_info(&t, &d, 1);
        snprintf(line, sizeof(line), "\nparameters    %s\nbytes         %s\n", sizes[i].parameters,
                 sizes[i].bytes);
        assert_non_null(strstr(t.bytes, line));
        tm_text_done(&t);
        tm_model_unref(model);
    }
}

static void sums_that_overflow_stay_at_the_most(void **state)
{
    (void)state;
    tm_model *model = builder_model("a U8 1\nb U8 1\n");
    for (uint32_t i = 0; i < 2; i++) {
        model->table.dims[i] = UINT64_MAX;
        model->table.rows[i].bytes = UINT64_MAX;
    }
    tm_described d = {"m", model, NULL};
    tm_text t;
    tm_text_init(&t);
    tm_describe_model(&t, &d);
    assert_line(&t, "  \"parameters\": 18446744073709551615");
    assert_line(&t, "  \"parameters_stored\": 18446744073709551615");
    assert_line(&t, "  \"bytes\": 18446744073709551615");
    tm_text_done(&t);
    tm_model_unref(model);
}

static void schemes_are_counted_on_the_card(void **state)
{
    (void)state;
    tm_model *model = builder_model("a.weight F8_E4M3 6,8\na.weight_scale F32 -\n"
                                    "b.weight F8_E4M3 6,8\nb.weight_scale F32 -\n"
                                    "c.weight U8 6,4\nc.weight_scale F8_E4M3 6,1\n"
                                    "c.weight_scale_2 F32 -\n");
    quantise(model, "{\"quantization_config\": {\"quant_method\": \"modelopt\"}}");
    tm_described d = {"m", model, NULL};
    tm_text t;
    tm_text_init(&t);
    tm_describe_info(&t, &d, 1);
    assert_non_null(
        strstr(t.bytes, "\nquantised     fp8-tensor 2, modelopt-nvfp4 1 (stored bytes only)\n"));
    tm_text_done(&t);
    tm_model_unref(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_model_is_described_key_by_key),
        cmocka_unit_test(a_damaged_model_says_where_and_why),
        cmocka_unit_test(a_model_of_nothing_is_described_too),
        cmocka_unit_test(parameters_leave_out_scales_and_unpack_codes),
        cmocka_unit_test(dropped_lines_are_counted_where_they_belong),
        cmocka_unit_test(metadata_is_one_object_in_the_order_of_the_file),
        cmocka_unit_test(one_model_is_shown_as_a_card),
        cmocka_unit_test(several_models_are_shown_as_a_table),
        cmocka_unit_test(no_models_are_shown_as_the_head_of_a_table),
        cmocka_unit_test(sizes_are_rounded_to_what_people_say),
        cmocka_unit_test(sums_that_overflow_stay_at_the_most),
        cmocka_unit_test(schemes_are_counted_on_the_card),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
