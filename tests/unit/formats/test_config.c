/* config.json: real spellings of every key that is read, and texts that are none. */
#include "formats/config.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static tm_config read_config(const char *text)
{
    tm_config config;
    tm_diag diag;
    tm_config_init(&config);
    tm_diag_init(&diag);
    assert_int_equal(tm_config_parse(text, strlen(text), "config.json", &diag, &config), 0);
    assert_int_equal(diag.count, 0);
    tm_diag_done(&diag);
    return config;
}

static void assert_same(const char *a, const char *b)
{
    if (b)
        assert_non_null(a);
    else
        assert_null(a);
    if (b)
        assert_string_equal(a, b);
}

static const struct {
    const char *text, *architecture;
} architectures[] = {
    {"{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\"}", "LlamaForCausalLM"},
    {"{\"architectures\": null, \"model_type\": \"llama\"}", "llama"},
    {"{\"architectures\": [], \"model_type\": \"bert\"}", "bert"},
    {"{\"architectures\": [\"\"], \"model_type\": \"bert\"}", "bert"},
    {"{\"architectures\": [7], \"model_type\": 8}", NULL},
    {"{\"_class_name\": \"UNet2DConditionModel\", \"sample_size\": 64}", "UNet2DConditionModel"},
    {"{}", NULL},
};

static void the_architecture_is_the_first_name_there_is(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(architectures); i++) {
        tm_config config = read_config(architectures[i].text);
        assert_same(config.architecture, architectures[i].architecture);
        tm_config_done(&config);
    }
}

static const struct {
    const char *text;
    bool tied;
} ties[] = {
    {"{\"tie_word_embeddings\": true}", true},
    {"{\"tie_word_embeddings\": false}", false},
    {"{\"model_type\": \"gemma2\"}", true},
    {"{\"text_config\": {\"tie_word_embeddings\": false}}", false},
    {"{\"tie_word_embeddings\": false, \"text_config\": {\"tie_word_embeddings\": true}}", true},
    {"{\"tie_word_embeddings\": true, \"text_config\": {\"tie_word_embeddings\": false}}", false},
    {"{\"tie_word_embeddings\": false, \"text_config\": {}}", false},
    {"{\"tie_word_embeddings\": \"no\"}", true},
};

static void the_head_is_tied_unless_the_language_model_says_no(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(ties); i++) {
        tm_config config = read_config(ties[i].text);
        assert_int_equal(config.tied, ties[i].tied);
        tm_config_done(&config);
    }
}

static const struct {
    const char *text;
    bool known;
    tm_dtype dtype;
} dtypes[] = {
    {"{\"torch_dtype\": \"bfloat16\"}", true, TM_BF16},
    {"{\"dtype\": \"float16\", \"torch_dtype\": \"float32\"}", true, TM_F16},
    {"{\"torch_dtype\": \"torch.float32\"}", true, TM_F32},
    {"{\"text_config\": {\"dtype\": \"bfloat16\"}}", true, TM_BF16},
    {"{\"torch_dtype\": \"auto\"}", false, TM_BOOL},
    {"{\"torch_dtype\": null}", false, TM_BOOL},
    {"{}", false, TM_BOOL},
};

static void the_dtype_is_known_by_either_key(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(dtypes); i++) {
        tm_config config = read_config(dtypes[i].text);
        assert_int_equal(config.dtype_known, dtypes[i].known);
        if (dtypes[i].known)
            assert_int_equal(config.dtype, dtypes[i].dtype);
        tm_config_done(&config);
    }
}

static const struct {
    const char *text;
    const char *method, *format, *checkpoint_format;
    unsigned bits;
    uint64_t rows, cols;
} quants[] = {
    {"{}", NULL, NULL, NULL, 0, 0, 0},
    {"{\"quantization_config\": null}", NULL, NULL, NULL, 0, 0, 0},
    {"{\"quantization_config\": {}}", "unknown", NULL, NULL, 0, 0, 0},
    /* DeepSeek-V3 */
    {"{\"quantization_config\": {\"activation_scheme\": \"dynamic\", \"fmt\": \"e4m3\","
     " \"quant_method\": \"fp8\", \"weight_block_size\": [128, 64]}}",
     "fp8", "e4m3", NULL, 0, 128, 64},
    {"{\"quantization_config\": {\"quant_method\": \"fp8\", \"weight_block_size\": null}}", "fp8",
     NULL, NULL, 0, 0, 0},
    /* Multimodal: in the language model's part */
    {"{\"text_config\": {\"quantization_config\": {\"quant_method\": \"fp8\"}}}", "fp8", NULL, NULL,
     0, 0, 0},
    {"{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 128,"
     " \"checkpoint_format\": \"gptq_v2\"}}",
     "gptq", NULL, "gptq_v2", 4, 0, 0},
    {"{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": \"4\"}}", "gptq", NULL, NULL,
     0, 0, 0},
    {"{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4294967300}}", "gptq", NULL,
     NULL, 0, 0, 0},
    /* compressed-tensors */
    {"{\"quantization_config\": {\"quant_method\": \"compressed-tensors\","
     " \"format\": \"pack-quantized\", \"config_groups\": {\"group_0\": {\"weights\":"
     " {\"num_bits\": 4, \"type\": \"int\", \"strategy\": \"group\", \"group_size\": 32}}}}}",
     "compressed-tensors", "pack-quantized", NULL, 4, 1, 32},
    {"{\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"config_groups\": {"
     "\"a\": {\"weights\": {\"num_bits\": 8, \"strategy\": \"block\","
     " \"block_structure\": [128, 128]}},"
     "\"b\": {\"weights\": {\"num_bits\": 8, \"strategy\": \"channel\", \"group_size\": null}}}}}",
     "compressed-tensors", NULL, NULL, 8, 128, 128},
    /* Groups that differ: neither number holds everywhere. */
    {"{\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"config_groups\": {"
     "\"a\": {\"weights\": {\"num_bits\": 4, \"strategy\": \"group\", \"group_size\": 128}},"
     "\"b\": {\"weights\": {\"num_bits\": 8, \"strategy\": \"group\", \"group_size\": 64}}}}}",
     "compressed-tensors", NULL, NULL, 0, 0, 0},
    {"{\"compression_config\": {\"format\": \"int-quantized\", \"config_groups\": {\"a\":"
     " {\"weights\": {\"num_bits\": 8, \"strategy\": \"channel\"}}}}}",
     "compressed-tensors", "int-quantized", NULL, 8, 0, 0},
    /* ModelOpt: by its own name, and as hf_quant_config.json writes it */
    {"{\"quantization_config\": {\"quant_method\": \"modelopt\", \"quant_algo\": \"NVFP4\"}}",
     "modelopt", "NVFP4", NULL, 0, 0, 0},
    {"{\"quantization_config\": {\"producer\": {\"name\": \"modelopt\"}, \"quantization\":"
     " {\"quant_algo\": \"FP8\", \"kv_cache_quant_algo\": null}}}",
     "modelopt", "FP8", NULL, 0, 0, 0},
    {"{\"quantization_config\": {\"load_in_4bit\": true}}", "bitsandbytes", NULL, NULL, 0, 0, 0},
    {"{\"quantization\": {\"group_size\": 64, \"bits\": 6}}", "mlx", NULL, NULL, 6, 0, 0},
};

static void the_quantisation_is_read_as_its_makers_write_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(quants); i++) {
        tm_config config = read_config(quants[i].text);
        assert_same(config.quant.method, quants[i].method);
        assert_same(config.quant.format, quants[i].format);
        assert_same(config.quant.checkpoint_format, quants[i].checkpoint_format);
        assert_int_equal(config.quant.bits, quants[i].bits);
        assert_int_equal(config.quant.block_rows, quants[i].rows);
        assert_int_equal(config.quant.block_cols, quants[i].cols);
        tm_config_done(&config);
    }
}

static void pythons_floats_are_read_over(void **state)
{
    (void)state;
    tm_config config = read_config("{\"time_step_limit\": [0.0, Infinity, -Infinity, NaN],"
                                   " \"model_type\": \"NaN \\\" Infinity \\\\\"}");
    assert_string_equal(config.architecture, "NaN \" Infinity \\");
    tm_config_done(&config);
}

static const struct {
    const char *text, *words;
} bad[] = {
    {"", "config.json:1:1: unexpected token near end of file; the file is left out"},
    {"{\"model_type\": \"llama\"",
     "config.json:1:22: '}' expected near end of file; the file is left out"},
    {"[]", "config.json: a list where an object belongs; the file is left out"},
    {"version https://git-lfs.github.com/spec/v1\n",
     "config.json:1:7: invalid token near 'version'; the file is left out"},
    {"{\"a\": 1, \"a\": 1}",
     "config.json:1:12: duplicate object key near '\"a\"'; the file is left out"},
    {"{\"quantization_config\": {\"quant_method\": \"fp8\", \"weight_block_size\": [128]}}",
     "config.json: weight_block_size is not two positive numbers"},
    {"{\"quantization_config\": {\"quant_method\": \"fp8\", \"weight_block_size\": [0, 128]}}",
     "config.json: weight_block_size is not two positive numbers"},
};

static void a_malformed_config_is_one_warning(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(bad); i++) {
        tm_config config;
        tm_diag diag;
        tm_config_init(&config);
        tm_diag_init(&diag);
        size_t len = strlen(bad[i].text);
        assert_int_equal(tm_config_parse(bad[i].text, len, "config.json", &diag, &config), 0);
        assert_int_equal(diag.count, 1);
        assert_int_equal(diag.lines[0].severity, TM_WARNING);
        assert_string_equal(diag.lines[0].words, bad[i].words);
        assert_null(config.architecture);
        assert_int_equal(config.quant.block_rows, 0);
        tm_diag_done(&diag);
        tm_config_done(&config);
    }
}

static void a_config_over_the_limit_is_left_out(void **state)
{
    (void)state;
    tm_config config;
    tm_diag diag;
    tm_config_init(&config);
    tm_diag_init(&diag);
    size_t len = TM_CONFIG_BYTES_MAX + 1;
    char *text = malloc(len);
    assert_non_null(text);
    memset(text, ' ', len);
    memcpy(text, "{}", 2);
    assert_int_equal(tm_config_parse(text, len, "config.json", &diag, &config), 0);
    assert_string_equal(diag.lines[0].words,
                        "config.json: more than 16777216 bytes; the file is left out");
    assert_false(config.tied);
    /* One byte less is read. */
    assert_int_equal(tm_config_parse(text, len - 1, "config.json", &diag, &config), 0);
    assert_int_equal(diag.count, 1);
    assert_true(config.tied);
    free(text);
    tm_diag_done(&diag);
    tm_config_done(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_architecture_is_the_first_name_there_is),
        cmocka_unit_test(the_head_is_tied_unless_the_language_model_says_no),
        cmocka_unit_test(the_dtype_is_known_by_either_key),
        cmocka_unit_test(the_quantisation_is_read_as_its_makers_write_it),
        cmocka_unit_test(pythons_floats_are_read_over),
        cmocka_unit_test(a_malformed_config_is_one_warning),
        cmocka_unit_test(a_config_over_the_limit_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
