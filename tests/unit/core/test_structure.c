/* Layers and experts of models, from the names of a few families. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>

#include "core/structure.h"

enum {
    ROWS_MAX = 24,
    TEXT_MAX = 4096
};

typedef struct row {
    const char *name;
    uint64_t dims[3];
    size_t rank;
} row;

#define MATRIX(name)                                                                               \
    {                                                                                              \
        name, {4, 4}, 2                                                                            \
    }
#define VECTOR(name)                                                                               \
    {                                                                                              \
        name, {4}, 1                                                                               \
    }
#define FUSED(name, n)                                                                             \
    {                                                                                              \
        name, {n, 4, 4}, 3                                                                         \
    }
#define FUSED_VECTOR(name, n)                                                                      \
    {                                                                                              \
        name, {n, 4}, 2                                                                            \
    }

typedef struct model_names {
    row rows[ROWS_MAX]; /* in any order; a row without a name is the end */
    /* "LAYER/EXPERTS: NAME[EXPERT] …", then "experts N", and "stacks" where there are several */
    const char *structure;
} model_names;

static const model_names models[] = {
    {{{0}}, "experts 0\n"},
    {{VECTOR("weight"), MATRIX("embed.weight"), MATRIX("lm_head.weight")}, "experts 0\n"},
    /* Llama: ten comes after two. */
    {{MATRIX("model.layers.10.self_attn.q_proj.weight"),
      MATRIX("model.layers.2.self_attn.q_proj.weight"), MATRIX("model.layers.2.mlp.up_proj.weight"),
      VECTOR("model.layers.0.input_layernorm.weight"), MATRIX("model.embed_tokens.weight"),
      VECTOR("model.norm.weight"), MATRIX("lm_head.weight")},
     "0/0: model.layers.0.input_layernorm.weight\n"
     "2/0: model.layers.2.mlp.up_proj.weight model.layers.2.self_attn.q_proj.weight\n"
     "10/0: model.layers.10.self_attn.q_proj.weight\n"
     "experts 0\n"},
    /* GPT-2 */
    {{MATRIX("transformer.h.1.attn.c_attn.weight"), VECTOR("transformer.h.0.ln_1.weight"),
      MATRIX("transformer.wte.weight")},
     "0/0: transformer.h.0.ln_1.weight\n"
     "1/0: transformer.h.1.attn.c_attn.weight\n"
     "experts 0\n"},
    /* Mixtral: without an expert first, then expert by expert; a layer may have fewer. */
    {{MATRIX("model.layers.0.block_sparse_moe.experts.10.w1.weight"),
      MATRIX("model.layers.0.block_sparse_moe.experts.2.w3.weight"),
      MATRIX("model.layers.0.block_sparse_moe.experts.2.w1.weight"),
      MATRIX("model.layers.0.block_sparse_moe.gate.weight"),
      MATRIX("model.layers.0.self_attn.q_proj.weight"),
      MATRIX("model.layers.1.block_sparse_moe.experts.0.w1.weight"),
      MATRIX("model.layers.2.mlp.up_proj.weight")},
     "0/11: model.layers.0.block_sparse_moe.gate.weight model.layers.0.self_attn.q_proj.weight "
     "model.layers.0.block_sparse_moe.experts.2.w1.weight[2] "
     "model.layers.0.block_sparse_moe.experts.2.w3.weight[2] "
     "model.layers.0.block_sparse_moe.experts.10.w1.weight[10]\n"
     "1/1: model.layers.1.block_sparse_moe.experts.0.w1.weight[0]\n"
     "2/0: model.layers.2.mlp.up_proj.weight\n"
     "experts 11\n"},
    /* Fused experts: as many as the first dimension; a router counts none. */
    {{FUSED("model.layers.0.mlp.experts.gate_up_proj", 32),
      FUSED_VECTOR("model.layers.0.mlp.experts.gate_up_proj_bias", 32),
      MATRIX("model.layers.0.mlp.router.weight"),
      FUSED("model.layers.1.mlp.experts.down_proj", 16)},
     "0/32: model.layers.0.mlp.experts.gate_up_proj[fused 32] "
     "model.layers.0.mlp.experts.gate_up_proj_bias[fused 32] model.layers.0.mlp.router.weight\n"
     "1/16: model.layers.1.mlp.experts.down_proj[fused 16]\n"
     "experts 32\n"},
    /* T5: one index names a layer of the encoder and one of the decoder. */
    {{MATRIX("encoder.block.0.layer.0.SelfAttention.q.weight"),
      MATRIX("decoder.block.0.layer.0.SelfAttention.q.weight"),
      MATRIX("decoder.block.1.layer.1.EncDecAttention.q.weight"), MATRIX("shared.weight")},
     "0/0: decoder.block.0.layer.0.SelfAttention.q.weight "
     "encoder.block.0.layer.0.SelfAttention.q.weight\n"
     "1/0: decoder.block.1.layer.1.EncDecAttention.q.weight\n"
     "experts 0\nstacks\n"},
    /* Names that ask for more than there can be. */
    {{FUSED("model.layers.0.mlp.experts.down_proj", 100000),
      FUSED("model.layers.1.mlp.experts.down_proj", (uint64_t)1 << 40)},
     "0/16383: model.layers.0.mlp.experts.down_proj[fused 16383]\n"
     "1/16383: model.layers.1.mlp.experts.down_proj[fused 16383]\n"
     "experts 16383\n"},
    {{MATRIX("model.layers.2147483646.mlp.experts.2147483646.w1.weight"),
      MATRIX("model.layers.2147483647.mlp.experts.0.w1.weight")},
     "2147483646/2147483647: model.layers.2147483646.mlp.experts.2147483646.w1.weight[2147483646]\n"
     "experts 2147483647\n"},
};

static void table_of(tm_tensor_table *t, const row *rows)
{
    tm_tensor_table_init(t);
    for (; rows->name; rows++) {
        tm_tensor_new tensor = {.name = rows->name,
                                .name_len = strlen(rows->name),
                                .dtype = TM_F32,
                                .dims = rows->dims,
                                .rank = rows->rank};
        assert_int_equal(tm_tensor_table_add(t, &tensor, NULL), 0);
    }
    assert_int_equal(tm_tensor_table_seal(t), 0);
}

static size_t add_row(char *text, size_t n, const tm_tensor_table *t, uint32_t at)
{
    tm_place place = tm_row_place(t, at);
    int32_t fused = tm_row_fused_experts(t, at);
    n += (size_t)snprintf(text + n, TEXT_MAX - n, " %.*s", (int)t->rows[at].name_len,
                          tm_row_name(t, &t->rows[at]));
    if (place.expert >= 0)
        n += (size_t)snprintf(text + n, TEXT_MAX - n, "[%d]", place.expert);
    if (place.expert == TM_FUSED_EXPERTS)
        n += (size_t)snprintf(text + n, TEXT_MAX - n, "[fused %d]", fused);
    else
        assert_int_equal(fused, 0);
    return n;
}

static void structure_text(const tm_structure *s, const tm_tensor_table *t, char text[TEXT_MAX])
{
    size_t n = 0;
    uint32_t rows = 0;
    for (uint32_t i = 0; i < s->layer_count; i++) {
        const tm_layer *layer = &s->layers[i];
        assert_int_equal(layer->first, rows);
        n += (size_t)snprintf(text + n, TEXT_MAX - n, "%d/%d:", layer->layer, layer->experts);
        for (uint32_t j = 0; j < layer->count; j++)
            n = add_row(text, n, t, s->order[layer->first + j]);
        n += (size_t)snprintf(text + n, TEXT_MAX - n, "\n");
        rows += layer->count;
    }
    assert_int_equal(rows, s->order_count);
    snprintf(text + n, TEXT_MAX - n, "experts %d\n%s", s->experts,
             s->several_stacks ? "stacks\n" : "");
}

static void models_are_ordered_by_layer_and_expert(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(models); i++) {
        tm_tensor_table t;
        tm_structure s;
        char text[TEXT_MAX];
        table_of(&t, models[i].rows);
        tm_structure_init(&s);
        assert_int_equal(tm_structure_build(&s, &t), 0);
        structure_text(&s, &t, text);
        assert_string_equal(text, models[i].structure);
        tm_structure_done(&s);
        assert_int_equal(s.layer_count, 0);
        assert_null(s.order);
        tm_tensor_table_done(&t);
    }
}

static void a_layer_is_found_by_its_index(void **state)
{
    (void)state;
    tm_tensor_table t;
    tm_structure s;
    table_of(&t, models[2].rows);
    tm_structure_init(&s);
    assert_null(tm_structure_layer(&s, 0));
    assert_int_equal(tm_structure_build(&s, &t), 0);
    static const int32_t there[] = {0, 2, 10}, absent[] = {-1, 1, 3, 9, 11, INT32_MAX};
    for (uint32_t i = 0; i < 3; i++)
        assert_ptr_equal(tm_structure_layer(&s, there[i]), &s.layers[i]);
    for (size_t i = 0; i < TM_ARRAY_LEN(absent); i++)
        assert_null(tm_structure_layer(&s, absent[i]));
    tm_structure_done(&s);
    tm_tensor_table_done(&t);
}

static void ten_thousand_layers_are_ordered_too(void **state)
{
    (void)state;
    enum {
        LAYERS = 10000
    };
    tm_tensor_table t;
    tm_structure s;
    char name[64];
    tm_tensor_table_init(&t);
    for (int i = 0; i < LAYERS; i++) {
        tm_tensor_new tensor = {.name = name, .dims = models[1].rows[0].dims, .rank = 1};
        tensor.name_len = (size_t)snprintf(name, sizeof(name), "layers.%d.mlp.weight", i);
        assert_int_equal(tm_tensor_table_add(&t, &tensor, NULL), 0);
    }
    assert_int_equal(tm_tensor_table_seal(&t), 0);
    tm_structure_init(&s);
    assert_int_equal(tm_structure_build(&s, &t), 0);
    assert_int_equal(s.layer_count, LAYERS);
    assert_false(s.several_stacks);
    for (int32_t i = 0; i < LAYERS; i++) {
        assert_int_equal(s.layers[i].layer, i);
        assert_int_equal(tm_row_place(&t, s.order[i]).layer, i);
    }
    tm_structure_done(&s);
    tm_tensor_table_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_are_ordered_by_layer_and_expert),
        cmocka_unit_test(a_layer_is_found_by_its_index),
        cmocka_unit_test(ten_thousand_layers_are_ordered_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
