/* Small models of every kind. FOLDER is a name in the test's own folder. */
#ifndef TM_TESTS_UNIT_FS_MODELS_H
#define TM_TESTS_UNIT_FS_MODELS_H

#include "tests/unit/fs/checkpoint_files.h"

enum {
    MODEL_TENSORS_MAX = 400
};

/* Tensors with names of their own. */
typedef struct made_model {
    file_tensor tensors[MODEL_TENSORS_MAX];
    char names[MODEL_TENSORS_MAX][512];
    size_t count;
} made_model;

static inline void model_clear(made_model *m)
{
    m->count = 0;
}

static inline TM_PRINTF(4, 5) void model_add(made_model *m, const char *dtype, const char *shape,
                                             const char *fmt, ...)
{
    assert_true(m->count < MODEL_TENSORS_MAX);
    char *name = m->names[m->count];
    va_list args;
    va_start(args, fmt);
    vsnprintf(name, sizeof(m->names[0]), fmt, args);
    va_end(args);
    m->tensors[m->count++] = (file_tensor){.name = name, .dtype = dtype, .shape = shape};
}

static inline void model_write(const made_model *m, const char *folder)
{
    write_safetensors(at("%s/model.safetensors", folder), m->tensors, m->count);
}

/* A Llama of LAYERS in two shards with an index, a tied head, config and tokenizer. */
static inline void write_llama(const char *folder, int layers)
{
    static made_model m;
    static index_entry index[MODEL_TENSORS_MAX];
    model_clear(&m);
    model_add(&m, "BF16", "20,8", "model.embed_tokens.weight");
    for (int i = 0; i < layers; i++) {
        model_add(&m, "BF16", "8,8", "model.layers.%d.self_attn.q_proj.weight", i);
        model_add(&m, "BF16", "16,8", "model.layers.%d.mlp.up_proj.weight", i);
        model_add(&m, "F32", "8", "model.layers.%d.input_layernorm.weight", i);
    }
    model_add(&m, "BF16", "8", "model.norm.weight");
    size_t half = m.count / 2;
    for (size_t i = 0; i < m.count; i++)
        index[i] = (index_entry){m.names[i], i < half ? "model-00001-of-00002.safetensors"
                                                      : "model-00002-of-00002.safetensors"};
    write_safetensors(at("%s/%s", folder, index[0].file), m.tensors, half);
    write_safetensors(at("%s/%s", folder, index[half].file), m.tensors + half, m.count - half);
    write_index(at("%s/model.safetensors.index.json", folder), index, m.count);
    write_text(at("%s/config.json", folder), "{\"architectures\": [\"LlamaForCausalLM\"]}\n");
    write_text(at("%s/tokenizer/vocab.txt", folder), "a\nb\n");
}

/* Experts with tensors of their own in layers 1 and 12, as Mixtral has them; expert 3 is missing.
 */
static inline void write_experts(const char *folder)
{
    static made_model m;
    model_clear(&m);
    for (int layer = 0; layer < 13; layer++) {
        model_add(&m, "F16", "4", "model.layers.%d.input_layernorm.weight", layer);
        for (int expert = 0; expert < 12 && (layer == 1 || layer == 12); expert++) {
            if (expert == 3)
                continue;
            model_add(&m, "F16", "2,4", "model.layers.%d.block_sparse_moe.experts.%d.w1.weight",
                      layer, expert);
            model_add(&m, "F16", "4,2", "model.layers.%d.block_sparse_moe.experts.%d.w2.weight",
                      layer, expert);
        }
    }
    model_write(&m, folder);
}

/* Experts in one tensor a projection, as gpt-oss has them. */
static inline void write_fused(const char *folder)
{
    static made_model m;
    model_clear(&m);
    for (int layer = 0; layer < 2; layer++) {
        model_add(&m, "BF16", "6,4", "model.layers.%d.mlp.router.weight", layer);
        model_add(&m, "BF16", "5,4,6", "model.layers.%d.mlp.experts.gate_up_proj", layer);
        model_add(&m, "BF16", "5,6", "model.layers.%d.mlp.experts.gate_up_proj_bias", layer);
        model_add(&m, "I32", "5,3,4", "model.layers.%d.mlp.experts.down_proj", layer);
    }
    model_write(&m, folder);
}

/* An encoder and a decoder, whose layers have the same numbers; both with experts. */
static inline void write_stacks(const char *folder)
{
    static const char *const stacks[] = {"encoder", "decoder"};
    static made_model m;
    model_clear(&m);
    for (size_t s = 0; s < 2; s++) {
        for (int layer = 0; layer < 2; layer++) {
            model_add(&m, "F32", "4", "model.%s.layers.%d.layer_norm.weight", stacks[s], layer);
            model_add(&m, "F32", "4,2", "model.%s.layers.%d.mlp.experts.0.w1.weight", stacks[s],
                      layer);
        }
    }
    model_write(&m, folder);
}

/* Layers of any number. */
static inline void write_sparse_layers(const char *folder)
{
    static const long layers[] = {0, 7, 1000, 999999999, 1234567890, 2147483646};
    static made_model m;
    model_clear(&m);
    for (size_t i = 0; i < TM_ARRAY_LEN(layers); i++)
        model_add(&m, "U8", "2", "model.layers.%ld.mlp.up_proj.weight", layers[i]);
    model_write(&m, folder);
}

/* Every dtype at every rank to 4, and with a zero dimension. */
static inline void write_dtypes(const char *folder)
{
    static const char *const shapes[] = {"8", "4,2", "2,3,4", "2,3,2,4", "0,3", "4,0", "", "7"};
    static made_model m;
    model_clear(&m);
    for (int d = 0; d < TM_DTYPE_COUNT; d++) {
        const tm_dtype_info *info = tm_dtype_get((tm_dtype)d);
        size_t count = info->bits < 8 ? TM_ARRAY_LEN(shapes) - 2 : TM_ARRAY_LEN(shapes);
        for (size_t i = 0; i < count; i++)
            model_add(&m, info->name, shapes[i], "%s.of.%zu", info->name, i);
    }
    model_write(&m, folder);
}

/* FP8 with a scale for each block of 2 by 3, and a scale of its own for each row. */
static inline void write_fp8(const char *folder)
{
    static const float scales[] = {0.5f, 2.0f, 4.0f, 0.25f};
    static const file_tensor tensors[] = {
        {.name = "m.a.weight", .dtype = "F8_E4M3", .shape = "4,6"},
        {.name = "m.a.weight_scale_inv", .dtype = "F32", .shape = "2,2", .bytes = scales},
        {.name = "m.b.weight", .dtype = "F8_E4M3", .shape = "4,6"},
        {.name = "m.b.weight_scale_inv", .dtype = "F32", .shape = "4,1", .bytes = scales},
        {.name = "m.norm.weight", .dtype = "BF16", .shape = "6"},
    };
    write_safetensors(at("%s/model.safetensors", folder), tensors, TM_ARRAY_LEN(tensors));
    write_text(at("%s/config.json", folder),
               "{\"quantization_config\": {\"quant_method\": \"fp8\", "
               "\"weight_block_size\": [2, 3]}}");
}

/* One shard is missing, one is cut short, one is good. */
static inline void write_damaged(const char *folder)
{
    static const file_tensor good = {.name = "good.weight", .dtype = "F32", .shape = "2,3"};
    static const file_tensor cut[] = {{.name = "cut.a", .dtype = "U8", .shape = "10"},
                                      {.name = "cut.b", .dtype = "U8", .shape = "10"}};
    static const index_entry index[] = {{"good.weight", "1.safetensors"},
                                        {"cut.a", "2.safetensors"},
                                        {"cut.b", "2.safetensors"},
                                        {"gone.weight", "3.safetensors"}};
    struct stat st;
    write_index(at("%s/model.safetensors.index.json", folder), index, 4);
    write_safetensors(at("%s/1.safetensors", folder), &good, 1);
    write_safetensors(at("%s/2.safetensors", folder), cut, 2);
    assert_int_equal(stat(at("%s/2.safetensors", folder), &st), 0);
    assert_int_equal(truncate(at("%s/2.safetensors", folder), st.st_size - 5), 0);
}

/* "FOLDER/NAME", good for the next few calls. */
static inline const char *below(const char *folder, const char *name)
{
    return at("%s/%s", folder, name) + strlen(files_root) + 1;
}

/* A training run: checkpoints, a folder of a pipeline with parts, and folders without weights. */
static inline void write_run(const char *folder)
{
    write_llama(below(folder, "checkpoint-1000"), 1);
    write_llama(below(folder, "checkpoint-500"), 2);
    write_fused(below(folder, "pipeline/unet"));
    write_stacks(below(folder, "pipeline/vae"));
    write_text(at("%s/pipeline/model_index.json", folder), "{}");
    write_text(at("%s/runs/events/log.txt", folder), "no weights\n");
    write_text(at("%s/trainer.log", folder), "step 1\n");
}

#endif
