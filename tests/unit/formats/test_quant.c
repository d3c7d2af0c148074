/* Quantisation schemes: which tensors are parts, with the names and shapes that real ones have. */
#include "formats/quant.h"

#include "core/text.h"
#include "tests/unit/formats/model_builder.h"

#define BLOCKS_128                                                                                 \
    "{\"quantization_config\": {\"quant_method\": \"fp8\", \"weight_block_size\": [128, 128]}}"
#define INT8                                                                                       \
    "{\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"format\": "            \
    "\"int-quantized\", \"config_groups\": {\"group_0\": {\"weights\": {\"num_bits\": 8, "         \
    "\"type\": \"int\", \"strategy\": \"channel\"}}}}}"
#define CT(bits, strategy, size)                                                                   \
    "{\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"config_groups\": "     \
    "{\"group_0\": {\"weights\": {\"num_bits\": " bits ", \"strategy\": \"" strategy               \
    "\", \"group_size\": " size "}}}}}"
#define METHOD(name) "{\"quantization_config\": {\"quant_method\": \"" name "\"}}"
#define BITS(name, bits)                                                                           \
    "{\"quantization_config\": {\"quant_method\": \"" name "\", \"bits\": " bits "}}"

/* Opens a model of TENSORS with CONFIG (NULL: none) and finds its parts. */
static tm_model *found(const char *tensors, const char *text)
{
    tm_model *model = builder_model(tensors);
    tm_config config;
    tm_config_init(&config);
    if (text) {
        assert_int_equal(tm_config_parse(text, strlen(text), "config.json", &model->diag, &config),
                         0);
        assert_int_equal(model->diag.count, 0);
    }
    assert_int_equal(tm_quant_find(model, &config, NULL), 0);
    tm_config_done(&config);
    return model;
}

static void put_row_name(tm_text *t, const tm_model *model, uint32_t row)
{
    const tm_tensor_row *r = &model->table.rows[row];
    tm_text_append(t, tm_row_name(&model->table, r), r->name_len);
}

/* One line a part: "NAME SCHEME", and of scaled ones " SCALES ROWSxCOLS". */
static void put_parts(tm_text *t, const tm_model *model)
{
    for (uint32_t i = 0; i < model->part_count; i++) {
        const tm_part *part = &model->parts[i];
        assert_true(i == 0 || model->parts[i - 1].row < part->row);
        put_row_name(t, model, part->row);
        tm_text_printf(t, " %s", part->scheme);
        if (part->kind == TM_PART_SCALED) {
            tm_text_puts(t, " ");
            put_row_name(t, model, part->scale_row);
            tm_text_printf(t, " %llux%llu", (unsigned long long)part->block_rows,
                           (unsigned long long)part->block_cols);
        }
        tm_text_puts(t, "\n");
    }
}

typedef struct scheme_case {
    const char *config, *tensors, *parts;
    uint64_t parameters;
    const char *warning; /* NULL: none */
} scheme_case;

static void check(const scheme_case *c)
{
    tm_model *model = found(c->tensors, c->config);
    tm_text parts;
    tm_text_init(&parts);
    put_parts(&parts, model);
    tm_text_puts(&parts, "");
    assert_string_equal(parts.len ? parts.bytes : "", c->parts);
    assert_int_equal(tm_quant_parameters(model), c->parameters);
    assert_int_equal(model->diag.count, c->warning ? 1 : 0);
    assert_false(model->diag.damaged);
    if (c->warning)
        assert_string_equal(model->diag.lines[0].words, c->warning);
    tm_text_done(&parts);
    tm_model_unref(model);
}

static void check_all(const scheme_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++)
        check(&cases[i]);
}

static const scheme_case scaled[] = {
    /* DeepSeek-V3: partial blocks at both edges; the scales in another shard; norms beside. */
    {BLOCKS_128,
     "l.0.kv_a.weight F8_E4M3 576,7168 0\nl.0.kv_a.weight_scale_inv F32 5,56 1\n"
     "l.0.norm.weight BF16 7168\nl.0.q.weight F8_E4M3 130,200\n"
     "l.0.q.weight_scale_inv F32 2,2\n",
     "l.0.kv_a.weight fp8-block l.0.kv_a.weight_scale_inv 128x128\n"
     "l.0.q.weight fp8-block l.0.q.weight_scale_inv 128x128\n",
     576 * 7168 + 7168 + 130 * 200, NULL},
    /* Stacked experts, the scales as powers of two. */
    {BLOCKS_128, "e.gate_up_proj F8_E4M3 4,256,300\ne.gate_up_proj_scale_inv F8_E8M0 4,2,3\n",
     "e.gate_up_proj fp8-block e.gate_up_proj_scale_inv 128x128\n", 4 * 256 * 300, NULL},
    /* DeepSeek's own layout. */
    {BLOCKS_128, "w1.scale F8_E8M0 2,2\nw1.weight F8_E4M3 256,256\n",
     "w1.weight fp8-block w1.scale 128x128\n", 65536, NULL},
    /* A matrix within one block. */
    {BLOCKS_128, "a.weight F8_E4M3 64,64\na.weight_scale_inv F32 1,1\n",
     "a.weight fp8-block a.weight_scale_inv 128x128\n", 4096, NULL},
    /* A scalar is one scale, and [o, 1] one a row, whatever blocks the rest has. */
    {BLOCKS_128,
     "a.weight F8_E4M3 256,256\na.weight_scale F32 -\n"
     "b.weight F8_E4M3 256,256\nb.weight_scale F32 256,1\n",
     "a.weight fp8-tensor a.weight_scale 256x256\nb.weight fp8-channel b.weight_scale 1x256\n",
     131072, NULL},
    /* compressed-tensors by block and by group */
    {"{\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"config_groups\": "
     "{\"group_0\": {\"weights\": {\"num_bits\": 8, \"strategy\": \"block\", "
     "\"block_structure\": [128, 64]}}}}}",
     "a.weight F8_E4M3 256,256\na.weight_scale BF16 2,4\n",
     "a.weight fp8-block a.weight_scale 128x64\n", 65536, NULL},
    {CT("8", "group", "32"), "a.weight F8_E4M3 4,100\na.weight_scale F16 4,4\n",
     "a.weight fp8-block a.weight_scale 1x32\n", 400, NULL},
    /* By tensor: scalar, [1], [1, 1]; the scales of activations are no part of it. */
    {METHOD("modelopt"),
     "a.input_scale F32 -\na.weight F8_E4M3 6,8\na.weight_scale F32 -\n"
     "b.weight F8_E4M3 6,8\nb.weight_scale F32 1\n"
     "c.weight F8_E5M2 6,8\nc.weight_scale F32 1,1\n",
     "a.weight fp8-tensor a.weight_scale 6x8\nb.weight fp8-tensor b.weight_scale 6x8\n"
     "c.weight fp8-tensor c.weight_scale 6x8\n",
     144, NULL},
    /* By row: [o] and [o, 1]; of a square matrix [o] too. */
    {METHOD("fbgemm_fp8"),
     "a.weight F8_E4M3 6,8\na.weight_scale F32 6,1\nb.weight F8_E4M3FNUZ 6,8\n"
     "b.weight_scale BF16 6\nc.weight F8_E5M2FNUZ 8,8\nc.weight_scale F64 8\n",
     "a.weight fp8-channel a.weight_scale 1x8\nb.weight fp8-channel b.weight_scale 1x8\n"
     "c.weight fp8-channel c.weight_scale 1x8\n",
     160, NULL},
    /* Stacked experts: by column (Llama 4), by row, by expert. */
    {METHOD("fbgemm_fp8"),
     "e.down_proj F8_E4M3 3,6,8\ne.down_proj_scale F32 3,1,8\n"
     "f.down_proj F8_E4M3 3,6,8\nf.down_proj_scale F32 3,6,1\n"
     "g.down_proj F8_E4M3 3,6,8\ng.down_proj_scale F32 3,6\n"
     "h.down_proj F8_E4M3 3,6,8\nh.down_proj_scale F32 3\n"
     "i.down_proj F8_E4M3 3,6,8\ni.down_proj_weight_scale F32 3,1,1\n",
     "e.down_proj fp8-channel e.down_proj_scale 6x1\n"
     "f.down_proj fp8-channel f.down_proj_scale 1x8\n"
     "g.down_proj fp8-channel g.down_proj_scale 1x8\n"
     "h.down_proj fp8-tensor h.down_proj_scale 6x8\n"
     "i.down_proj fp8-tensor i.down_proj_weight_scale 6x8\n",
     720, NULL},
    /* ComfyUI, both generations, and Mistral's own layout: no config.json. */
    {NULL,
     "a.scale_input F32 -\na.scale_weight F32 -\na.weight F8_E4M3 6,8\nb.comfy_quant U8 20\n"
     "b.weight F8_E4M3 6,8\nb.weight_scale F32 -\nc.qscale_act F32 -\nc.qscale_weight F32 -\n"
     "c.weight F8_E4M3 6,8\n",
     "a.weight fp8-tensor a.scale_weight 6x8\nb.weight fp8-tensor b.weight_scale 6x8\n"
     "c.weight fp8-tensor c.qscale_weight 6x8\n",
     144, NULL},
    /* A stack of one. */
    {METHOD("fp8"), "e.w F8_E4M3 1,6,8\ne.w_scale F32 -\n", "e.w fp8-tensor e.w_scale 6x8\n", 48,
     NULL},
    /* A vector has one row. */
    {METHOD("fp8"), "a.bias F8_E4M3 8\na.bias_scale F32 -\n",
     "a.bias fp8-tensor a.bias_scale 1x8\n", 8, NULL},
    /* Without elements there is nothing to scale. */
    {METHOD("fp8"), "a.weight F8_E4M3 0,8\na.weight_scale F32 0,1\n", "", 0, NULL},
    /* int8 of compressed-tensors */
    {INT8, "a.weight I8 6,8\na.weight_scale BF16 6,1\n",
     "a.weight int8-channel a.weight_scale 1x8\n", 48, NULL},
    {CT("8", "group", "4"), "a.weight I8 6,8\na.weight_scale F32 6,2\n",
     "a.weight int8-block a.weight_scale 1x4\n", 48, NULL},
};

static void codes_that_scales_multiply_become_values(void **state)
{
    (void)state;
    check_all(scaled, TM_ARRAY_LEN(scaled));
}

static const scheme_case packed[] = {
    /* GPTQ, in 4 and 3 bits; the second straddles words. */
    {BITS("gptq", "4"),
     "a.g_idx I32 64\na.qweight I32 8,32\na.qzeros I32 2,4\na.scales F16 2,32\na.bias F16 32\n",
     "a.qweight gptq-4bit\na.qzeros gptq-4bit\n", 64 * 32 + 32, NULL},
    {BITS("gptq", "3"), "a.g_idx I32 64\na.qweight I32 6,32\na.qzeros I32 2,3\na.scales F16 2,32\n",
     "a.qweight gptq-3bit\na.qzeros gptq-3bit\n", 64 * 32, NULL},
    {NULL, "a.g_idx I32 64\na.qweight I32 8,32\na.qzeros I32 2,4\na.scales F16 2,32\n",
     "a.qweight gptq\na.qzeros gptq\n", 256, NULL},
    {BITS("awq", "4"), "a.qweight I32 64,4\na.qzeros I32 2,4\na.scales F16 2,32\n",
     "a.qweight awq-4bit\na.qzeros awq-4bit\n", 64 * 32, NULL},
    {NULL, "a.qweight I32 64,4\na.qzeros I32 2,4\na.scales F16 2,32\n",
     "a.qweight gptq-or-awq\na.qzeros gptq-or-awq\n", 256, NULL},
    /* compressed-tensors: 3 bits leave two of a word unused, so ten codes a word. */
    {CT("4", "group", "32"),
     "a.weight_g_idx I32 64\na.weight_packed I32 32,8\na.weight_scale BF16 32,2\n"
     "a.weight_shape I64 2\na.weight_zero_point I32 4,2\n",
     "a.weight_packed compressed-tensors-4bit\na.weight_zero_point compressed-tensors-4bit\n",
     64 * 32, NULL},
    {CT("3", "channel", "null"),
     "a.weight_packed I32 32,8\na.weight_scale BF16 32,1\na.weight_shape I64 2\n",
     "a.weight_packed compressed-tensors-3bit\n", 32 * 80, NULL},
    {CT("4", "tensor_group", "16"),
     "a.input_global_scale F32 1\na.weight_global_scale F32 1\na.weight_packed U8 32,32\n"
     "a.weight_scale F8_E4M3 32,4\n",
     "a.weight_packed compressed-tensors-nvfp4\n", 2048, NULL},
    {CT("4", "group", "32"), "a.weight_packed U8 32,32\na.weight_scale U8 32,2\n",
     "a.weight_packed compressed-tensors-mxfp4\n", 2048, NULL},
    {CT("4", "group", "32"), "e.down_proj_packed I32 3,32,8\ne.down_proj_scale BF16 3,32,2\n",
     "e.down_proj_packed compressed-tensors-4bit\n", 3 * 64 * 32, NULL},
    /* With zero points a scale is not all. */
    {INT8, "a.weight I8 6,8\na.weight_scale BF16 6,1\na.weight_zero_point I8 6,1\n",
     "a.weight int8\n", 48, NULL},
    {INT8, "a.weight I8 6,8\na.weight_g_idx I32 8\na.weight_scale BF16 6,1\n", "a.weight int8\n",
     48, NULL},
    /* int8 of others: what their scales do is not known to be a product. */
    {METHOD("other"), "a.weight I8 6,8\na.weight_scale BF16 6,1\n", "a.weight int8\n", 48, NULL},
    /* NVFP4 of ModelOpt: linear layers, and the stacked experts of Llama 4 */
    {METHOD("modelopt"),
     "a.input_scale F32 -\na.weight U8 32,32\na.weight_scale F8_E4M3 32,4\na.weight_scale_2 F32 -\n"
     "e.down_proj U8 3,32,32\ne.down_proj_weight_scale F8_E4M3 3,4,32\n"
     "e.down_proj_weight_scale_2 F32 -\n",
     "a.weight modelopt-nvfp4\ne.down_proj modelopt-nvfp4\n", 8192, NULL},
    /* gpt-oss: as transformers has it, and as first released */
    {METHOD("mxfp4"),
     "e.down_proj_bias BF16 3,8\ne.down_proj_blocks U8 3,8,2,16\ne.down_proj_scales U8 3,8,2\n",
     "e.down_proj_blocks mxfp4\n", 3 * 8 * 64 + 24, NULL},
    {NULL, "mlp1_weight.blocks U8 3,8,2,16\nmlp1_weight.scales U8 3,8,2\n",
     "mlp1_weight.blocks mxfp4\n", 3 * 8 * 64, NULL},
    /* bitsandbytes: plain, nested, in another storage dtype, int8 */
    {METHOD("bitsandbytes"),
     "a.weight U8 1024,1\na.weight.absmax F32 32\na.weight.quant_map F32 16\n"
     "a.weight.quant_state.bitsandbytes__nf4 U8 80\n",
     "a.weight bitsandbytes-nf4\n", 2048, NULL},
    {NULL,
     "a.weight U8 1024,1\na.weight.absmax U8 32\na.weight.nested_absmax F32 1\n"
     "a.weight.nested_quant_map F32 256\na.weight.quant_map F32 16\n"
     "a.weight.quant_state.bitsandbytes__fp4 U8 80\n",
     "a.weight bitsandbytes-fp4\na.weight.absmax bitsandbytes-nested\n", 2048, NULL},
    {METHOD("bitsandbytes"),
     "a.weight BF16 512,1\na.weight.absmax F32 32\na.weight.quant_map F32 16\n"
     "a.weight.quant_state.bitsandbytes__nf4 U8 80\nnorm.weight BF16 8\n",
     "a.weight bitsandbytes-nf4\n", 2056, NULL},
    {METHOD("bitsandbytes"), "a.SCB F32 6\na.weight I8 6,8\na.weight_format U8 -\n",
     "a.weight bitsandbytes-int8\n", 48, NULL},
    /* The rest */
    {METHOD("eetq"), "a.weight I8 8,6\na.weight_scales F16 6\n", "a.weight eetq\n", 48, NULL},
    {METHOD("hqq"), "a.W_q U8 24,8\na.scale F16 6,1\na.zero F16 6,1\n", "a.W_q hqq\n", 192, NULL},
    {METHOD("aqlm"), "a.codebooks F16 1,65536,1,8\na.codes I16 6,8,1\na.scales F16 6,1,1,1\n",
     "a.codes aqlm\n", 48, NULL},
    {METHOD("quanto"), "a.weight._data I8 6,8\na.weight._scale F32 6,1\n",
     "a.weight._data quanto\n", 48, NULL},
    {METHOD("quanto"),
     "a.weight._data._data U8 3,8\na.weight._scale F32 6,1\na.weight._shift F32 6,1\n",
     "a.weight._data._data quanto\n", 24, NULL},
    {METHOD("quanto"), "a.weight._data F8_E4M3 6,8\na.weight._scale F32 6,1\n",
     "a.weight._data quanto\n", 48, NULL},
    {"{\"quantization\": {\"group_size\": 64, \"bits\": 4}}",
     "a.biases F16 6,2\na.scales F16 6,2\na.weight U32 6,16\n", "a.weight mlx-4bit\n", 6 * 128,
     NULL},
    {"{\"quantization\": {\"group_size\": 64, \"bits\": 6}}",
     "a.biases F16 6,2\na.scales F16 6,2\na.weight U32 6,24\n", "a.weight mlx-6bit\n", 6 * 128,
     NULL},
    {METHOD("exl2"), "a.q_scale I32 2,4\na.q_scale_max F16 2\na.q_weight I32 8,32\n",
     "a.q_scale exl2\na.q_weight exl2\n", 256, NULL},
    {METHOD("exl3"), "a.suh F16 8\na.svh F16 6\na.trellis I16 1,1,48\n", "a.trellis exl3\n", 48,
     NULL},
    {METHOD("svdquant"), "a.qweight I8 6,4\na.wscales BF16 1,6\n", "a.qweight nunchaku\n", 48,
     NULL},
    {METHOD("vptq"), "a.centroids.weight F16 1,512\na.indices I16 1,6,8\n", "a.indices vptq\n", 48,
     NULL},
    {NULL, "a.Qidxs I64 6,8\n", "a.Qidxs quip\n", 48, NULL},
    {METHOD("torchao"), "a._weight_qdata F8_E4M3 6,8\na.x_qdata I8 6,8\n",
     "a._weight_qdata torchao\na.x_qdata torchao\n", 96, NULL},
    {METHOD("quark"), "a.weight U8 6,32\na.weight_scale U8 6,2\n", "a.weight mxfp4\n", 6 * 64,
     NULL},
    {METHOD("bitnet"), "a.weight U8 2,8\na.weight_scale BF16 1\n", "a.weight bitnet\n", 64, NULL},
    /* FP4 in bytes beside FP8 */
    {BLOCKS_128,
     "a.scale F8_E8M0 2,2\na.weight F8_E4M3 256,256\ne.scale F8_E8M0 8,2\ne.weight I8 8,32\n",
     "a.weight fp8-block a.scale 128x128\ne.weight fp4\n", 65536 + 512, NULL},
    {METHOD("modelopt"), "a.weight F4 8,32\na.weight_scale F8_E4M3 8,2\n", "a.weight fp4\n", 256,
     NULL},
    /* What no rule knows: integers in a place of weights, in a model that says that it is quantised
     */
    {METHOD("tomorrow"), "a.weight I32 6,8\na.norm.weight BF16 8\n", "a.weight packed\n", 56, NULL},
    {NULL, "a.weight U8 6,8\na.weight_scale F32 6\n", "a.weight packed\n", 48, NULL},
    {NULL, "a.weight I16 6,8\na.weight_scale_inv F32 6\n", "a.weight packed\n", 48, NULL},
    {NULL, "a.scale F32 6\na.weight U8 6,8\nb.scale F32 6\nb.weight I8 6,8\n",
     "a.weight packed\nb.weight int8\n", 96, NULL},
    {NULL, "a.weight I8 6,8\na.weight_scales F32 6\n", "a.weight int8\n", 48, NULL},
    {NULL, "a.scale F32 6\na.weight F4 6,8\nb.weight F4 6,8\nb.weight_scale_inv F32 6\n",
     "a.weight fp4\nb.weight fp4\n", 96, NULL},
    {METHOD("hqq"), "a.W_q BF16 6,8\n", "a.W_q hqq\n", 48, NULL},
    {METHOD("bitsandbytes"), "a.weight U8 24,1\na.weight.absmax F32 1\n",
     "a.weight bitsandbytes-4bit\n", 48, NULL},
};

static void codes_of_other_schemes_are_named_and_not_shown(void **state)
{
    (void)state;
    check_all(packed, TM_ARRAY_LEN(packed));
}

static const scheme_case plain[] = {
    {NULL, "", "", 0, NULL},
    {NULL, "a.weight BF16 6,8\na.bias F32 6\n", "", 54, NULL},
    /* Integers in a model that is not quantised; names like scales without codes. */
    {NULL, "bn.num_batches_tracked I64 -\npos.ids I64 1,512\na.weight I32 2,2\n", "", 517, NULL},
    {NULL, "logit_scale F32 -\nlayer.scale F32 8\nx.scales F16 4\n", "", 13, NULL},
    /* In a quantised model, what serves no part is a weight. */
    {METHOD("gptq"), "norm.scale F32 8\nlogit_scale F32 -\na.weight F16 2,2\n", "", 13, NULL},
};

static void ordinary_tensors_are_no_parts(void **state)
{
    (void)state;
    check_all(plain, TM_ARRAY_LEN(plain));
}

static const scheme_case trouble[] = {
    /* Cast to one byte by somebody: values as they are, with a word about it. */
    {NULL, "a.weight F8_E4M3 6,8\nb.weight F8_E5M2 6,8\nc.weight BF16 8\n", "", 104,
     "a.safetensors: tensor 'a.weight' (and 1 more) is F8_E4M3 without scales: shown as stored"},
    {"{\"model_type\": \"llama\"}", "a.weight F8_E4M3 6,8 1\n", "", 48,
     "b.safetensors: tensor 'a.weight' is F8_E4M3 without scales: shown as stored"},
    /* A quantised model whose scales are missing, by its config or by its other tensors. */
    {METHOD("fp8"), "a.weight F8_E4M3 6,8\n", "a.weight fp8\n", 48,
     "a.safetensors: tensor 'a.weight' is F8_E4M3 and its scales are missing: its values are not "
     "shown"},
    {NULL, "a.weight F8_E4M3 6,8\na.weight_scale F32 -\nb.weight F8_E4M3 6,8\n",
     "a.weight fp8-tensor a.weight_scale 6x8\nb.weight fp8\n", 96,
     "a.safetensors: tensor 'b.weight' is F8_E4M3 and its scales are missing: its values are not "
     "shown"},
    /* Blocks without a size: the ratio of shapes would say 116x128, and be wrong. */
    {METHOD("fp8"), "a.weight F8_E4M3 576,7168\na.weight_scale_inv F32 5,56\n", "a.weight fp8\n",
     576 * 7168,
     "a.safetensors: tensor 'a.weight' has shape [576, 7168], which scales 'a.weight_scale_inv' of "
     "shape [5, 56] do not fit by tensor, channel or block (config.json names no block size): its "
     "values are not shown"},
    /* As many scales as blocks, but not in their shape. */
    {BLOCKS_128, "a.weight F8_E4M3 256,384\na.weight_scale_inv F32 3,2\n", "a.weight fp8\n",
     256 * 384,
     "a.safetensors: tensor 'a.weight' has shape [256, 384], which scales 'a.weight_scale_inv' of "
     "shape [3, 2] do not fit by tensor, channel or the block of config.json: its values are not "
     "shown"},
    /* One scale where the config asks for four. */
    {BLOCKS_128, "a.weight F8_E4M3 256,256\na.weight_scale_inv F32 1,1\n", "a.weight fp8\n", 65536,
     "a.safetensors: tensor 'a.weight' has shape [256, 256], which scales 'a.weight_scale_inv' of "
     "shape [1, 1] do not fit by tensor, channel or the block of config.json: its values are not "
     "shown"},
    /* One scale for several matrices, one a column without saying so, of another stack. */
    {METHOD("fp8"), "e.w F8_E4M3 3,6,8\ne.w_scale F32 -\n", "e.w fp8\n", 144,
     "a.safetensors: tensor 'e.w' has shape [3, 6, 8], which scales 'e.w_scale' of shape [] do not "
     "fit by tensor, channel or block (config.json names no block size): its values are not shown"},
    {METHOD("fp8"), "a.w F8_E4M3 6,8\na.w_scale F32 8\n", "a.w fp8\n", 48,
     "a.safetensors: tensor 'a.w' has shape [6, 8], which scales 'a.w_scale' of shape [8] do not "
     "fit by tensor, channel or block (config.json names no block size): its values are not shown"},
    {METHOD("fp8"), "e.w F8_E4M3 3,6,8\ne.w_scale F32 2,6,1\n", "e.w fp8\n", 144,
     "a.safetensors: tensor 'e.w' has shape [3, 6, 8], which scales 'e.w_scale' of shape [2, 6, 1] "
     "do not fit by tensor, channel or block (config.json names no block size): its values are not "
     "shown"},
    /* mxfp8: exponents stored as integers, and scales that have scales of their own. */
    {METHOD("modelopt"), "a.weight F8_E4M3 4,64\na.weight_scale U8 4,2\n", "a.weight fp8\n", 256,
     "a.safetensors: tensor 'a.weight' has scales 'a.weight_scale' of type U8, of no known scheme: "
     "its values are not shown"},
    {METHOD("modelopt"), "a.weight F8_E4M3 4,64\na.weight_scale F8_E4M3 4,1\n", "a.weight fp8\n",
     256,
     "a.safetensors: tensor 'a.weight' has scales 'a.weight_scale' of type F8_E4M3, of no known "
     "scheme: its values are not shown"},
    {INT8, "a.weight I8 6,8\na.weight_scale BF16 5,1\n", "a.weight int8\n", 48,
     "a.safetensors: tensor 'a.weight' has shape [6, 8], which scales 'a.weight_scale' of shape "
     "[5, 1] do not fit by tensor, channel or block (config.json names no block size): its values "
     "are not shown"},
};

static void codes_whose_scales_are_in_doubt_are_never_shown_unscaled(void **state)
{
    (void)state;
    check_all(trouble, TM_ARRAY_LEN(trouble));
}

static void trouble_of_each_kind_is_one_line_however_many_tensors_have_it(void **state)
{
    (void)state;
    tm_model *model = found("a.w F8_E4M3 6,8\na.w_scale F32 8\nb.w F8_E4M3 6,8\nb.w_scale F32 8\n"
                            "c.w F8_E4M3 6,8\nd.w F8_E4M3 6,8\ne.w F8_E4M3 6,8\n",
                            METHOD("fp8"));
    assert_int_equal(model->diag.count, 2);
    assert_int_equal(model->part_count, 5);
    assert_non_null(strstr(model->diag.lines[0].words, "'c.w' (and 2 more)"));
    assert_non_null(strstr(model->diag.lines[1].words, "'a.w' (and 1 more)"));
    tm_model_unref(model);
}

static void side_tensors_are_those_that_serve_a_part(void **state)
{
    (void)state;
    static const char *const sides[] = {"a.g_idx", "a.qzeros", "a.scales"};
    tm_model *model = found("a.bias F16 32\na.g_idx I32 64\na.qweight I32 8,32\na.qzeros I32 2,4\n"
                            "a.scales F16 2,32\nb.scales F16 2,2\n",
                            METHOD("gptq"));
    size_t n = 0;
    for (uint32_t row = 0; row < model->table.count; row++) {
        if (!tm_quant_is_side(model, row))
            continue;
        const tm_tensor_row *r = &model->table.rows[row];
        assert_true(n < TM_ARRAY_LEN(sides));
        assert_int_equal(r->name_len, strlen(sides[n]));
        assert_memory_equal(tm_row_name(&model->table, r), sides[n], r->name_len);
        n++;
    }
    assert_int_equal(n, TM_ARRAY_LEN(sides));
    tm_model_unref(model);
}

static void relatives_are_found_across_any_distance(void **state)
{
    (void)state;
    /* Scales far behind their codes, and far before: names that sort between them in plenty. */
    for (unsigned between = 0; between < 40; between++) {
        tm_text t;
        tm_text_init(&t);
        tm_text_puts(&t, "a.weight F8_E4M3 6,8\na.weight_scale F32 -\n"
                         "b.scale F32 -\nb.weight F8_E4M3 6,8\n");
        for (unsigned i = 0; i < between; i++)
            tm_text_printf(&t, "a.weight.%03u BF16 1\nb.sx.%03u BF16 1\n", i, i);
        tm_model *model = found(t.bytes, METHOD("fp8"));
        assert_int_equal(model->part_count, 2);
        for (int i = 0; i < 2; i++) {
            static const char *const scales[] = {"a.weight_scale", "b.scale"};
            const tm_tensor_row *row = &model->table.rows[model->parts[i].scale_row];
            assert_int_equal(model->parts[i].kind, TM_PART_SCALED);
            assert_memory_equal(tm_row_name(&model->table, row), scales[i], row->name_len);
        }
        tm_model_unref(model);
        tm_text_done(&t);
    }
}

static void a_cancelled_search_leaves_no_parts(void **state)
{
    (void)state;
    tm_model *model = builder_model("a.qweight I32 8,32\na.scales F16 2,32\n");
    tm_config config;
    tm_req req;
    tm_config_init(&config);
    tm_req_init(&req, TM_LANE_VISIBLE);
    atomic_store(&req.cancelled, true);
    assert_int_equal(tm_quant_find(model, &config, &req), -EINTR);
    assert_int_equal(model->part_count, 0);
    assert_null(model->parts);
    tm_model_unref(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_that_scales_multiply_become_values),
        cmocka_unit_test(codes_of_other_schemes_are_named_and_not_shown),
        cmocka_unit_test(ordinary_tensors_are_no_parts),
        cmocka_unit_test(codes_whose_scales_are_in_doubt_are_never_shown_unscaled),
        cmocka_unit_test(trouble_of_each_kind_is_one_line_however_many_tensors_have_it),
        cmocka_unit_test(side_tensors_are_those_that_serve_a_part),
        cmocka_unit_test(relatives_are_found_across_any_distance),
        cmocka_unit_test(a_cancelled_search_leaves_no_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
