/*
 * The words that module paths are made of, and what each of them says: a table a length, since
 * the look-up in names.c compares only words of the right one. docs/names.md shows them by meaning.
 */
#ifndef TM_CORE_NAMES_WORDS_H
#define TM_CORE_NAMES_WORDS_H

#include "core/names.h"

typedef enum word_kind {
    WORD_PLAIN,   /* says nothing, and hides nothing */
    WORD_PARAM,   /* a parameter: the module path ends before it */
    WORD_STACK,   /* layers, where an index follows and a module follows that */
    WORD_LIST,    /* an index after it counts models, not layers: stacks below stay stacks */
    WORD_EXPERTS, /* the experts, by index or fused */
    WORD_FUSED,   /* an MLP whose rank says whether it holds all experts of its layer */
    WORD_ROUTER,  /* the router, whatever else is in the path */
    WORD_GATE,    /* the router, where it stands in an MLP that may have one */
    WORD_BOX,     /* a block: the last one decides the role */
    WORD_PART,    /* a part of a block: the first one decides where no block does */
} word_kind;

enum {
    ANYWHERE = 0,
    INSIDE = 1,        /* only within a layer */
    OUTSIDE = 2,       /* only outside of layers */
    LAST = 4,          /* only where no module stands below */
    GATED = 8,         /* a `gate` in it is a router */
    HEAD_IF_WHOLE = 16 /* where nothing else is in the path, it is the head of the model */
};

typedef struct word {
    char text[29]; /* the rest is zero */
    uint8_t kind;  /* word_kind */
    uint8_t role;  /* tm_role, of WORD_BOX and WORD_PART */
    uint8_t flags; /* of the enum above */
} word;

/* clang-format off */
#define WORD(text, kind, role, flags) {text, WORD_##kind, TM_ROLE_##role, (flags)}

static const word words_1[] = {
    WORD("h", STACK, OTHER, ANYWHERE),
};
static const word words_2[] = {
    WORD("ff", BOX, MLP, ANYWHERE),
    WORD("up", STACK, OTHER, ANYWHERE),
    WORD("w1", PART, MLP, INSIDE),
    WORD("w2", PART, MLP, INSIDE),
    WORD("w3", PART, MLP, INSIDE),
    WORD("wk", PART, ATTENTION, INSIDE),
    WORD("wq", PART, ATTENTION, INSIDE),
    WORD("wv", PART, ATTENTION, INSIDE),
};
static const word words_3[] = {
    WORD("att", BOX, ATTENTION, ANYWHERE),
    WORD("blk", STACK, OTHER, ANYWHERE),
    WORD("fc1", PART, MLP, INSIDE),
    WORD("fc2", PART, MLP, INSIDE),
    WORD("ffn", BOX, MLP, GATED),
    WORD("key", PART, ATTENTION, INSIDE),
    WORD("mlp", BOX, MLP, GATED),
    WORD("moe", BOX, MLP, GATED),
    WORD("mtp", STACK, OTHER, ANYWHERE),
    WORD("qkv", PART, ATTENTION, ANYWHERE),
    WORD("wpe", PART, EMBEDDING, ANYWHERE),
    WORD("wte", PART, EMBEDDING, ANYWHERE),
};
static const word words_4[] = {
    WORD("Wqkv", PART, ATTENTION, ANYWHERE),
    WORD("attn", BOX, ATTENTION, ANYWHERE),
    WORD("bias", PARAM, OTHER, ANYWHERE),
    WORD("down", STACK, OTHER, ANYWHERE),
    WORD("ffn1", BOX, MLP, ANYWHERE),
    WORD("ffn2", BOX, MLP, ANYWHERE),
    WORD("ffns", BOX, MLP, ANYWHERE),
    WORD("gate", GATE, ROUTER, ANYWHERE),
    WORD("head", PART, HEAD, OUTSIDE),
    WORD("lora", PARAM, OTHER, ANYWHERE),
    WORD("to_k", PART, ATTENTION, ANYWHERE),
    WORD("to_q", PART, ATTENTION, ANYWHERE),
    WORD("to_v", PART, ATTENTION, ANYWHERE),
    WORD("wqkv", PART, ATTENTION, ANYWHERE),
};
static const word words_5[] = {
    WORD("alpha", PARAM, OTHER, ANYWHERE),
    WORD("attn1", BOX, ATTENTION, ANYWHERE),
    WORD("attn2", BOX, ATTENTION, ANYWHERE),
    WORD("block", STACK, OTHER, ANYWHERE),
    WORD("embed", PART, EMBEDDING, LAST),
    WORD("fc_in", PART, MLP, ANYWHERE),
    WORD("g_idx", PARAM, OTHER, ANYWHERE),
    WORD("heads", PART, HEAD, OUTSIDE),
    WORD("k_lin", PART, ATTENTION, ANYWHERE),
    WORD("layer", STACK, OTHER, ANYWHERE),
    WORD("mixer", BOX, OTHER, GATED),
    WORD("q_lin", PART, ATTENTION, ANYWHERE),
    WORD("query", PART, ATTENTION, INSIDE),
    WORD("scale", PARAM, OTHER, ANYWHERE),
    WORD("score", PART, HEAD, OUTSIDE | LAST),
    WORD("v_lin", PART, ATTENTION, ANYWHERE),
    WORD("value", PART, ATTENTION, INSIDE),
};
static const word words_6[] = {
    WORD("W_pack", PART, ATTENTION, ANYWHERE),
    WORD("biases", PARAM, OTHER, ANYWHERE),
    WORD("blocks", STACK, OTHER, ANYWHERE),
    WORD("fc_out", PART, MLP, ANYWHERE),
    WORD("ffn_up", PART, MLP, INSIDE),
    WORD("k_proj", PART, ATTENTION, ANYWHERE),
    WORD("kernel", PARAM, OTHER, ANYWHERE),
    WORD("layers", STACK, OTHER, ANYWHERE),
    WORD("lora_A", PARAM, OTHER, ANYWHERE),
    WORD("lora_B", PARAM, OTHER, ANYWHERE),
    WORD("o_proj", PART, ATTENTION, ANYWHERE),
    WORD("output", PART, MLP, INSIDE | HEAD_IF_WHOLE),
    WORD("pos_ff", BOX, MLP, ANYWHERE),
    WORD("q_proj", PART, ATTENTION, ANYWHERE),
    WORD("qzeros", PARAM, OTHER, ANYWHERE),
    WORD("router", ROUTER, ROUTER, ANYWHERE),
    WORD("scales", PARAM, OTHER, ANYWHERE),
    WORD("shared", PART, EMBEDDING, OUTSIDE | LAST),
    WORD("stages", STACK, OTHER, ANYWHERE),
    WORD("to_out", PART, ATTENTION, ANYWHERE),
    WORD("to_qkv", PART, ATTENTION, ANYWHERE),
    WORD("v_head", BOX, HEAD, OUTSIDE),
    WORD("v_proj", PART, ATTENTION, ANYWHERE),
    WORD("weight", PARAM, OTHER, ANYWHERE),
};
static const word words_7[] = {
    WORD("default", PLAIN, OTHER, ANYWHERE),
    WORD("experts", EXPERTS, MLP, ANYWHERE),
    WORD("img_mlp", BOX, MLP, ANYWHERE),
    WORD("lm_head", BOX, HEAD, OUTSIDE),
    WORD("lm_loss", BOX, HEAD, OUTSIDE),
    WORD("lora_up", PARAM, OTHER, ANYWHERE),
    WORD("out_lin", PART, ATTENTION, ANYWHERE),
    WORD("pos_emb", PART, EMBEDDING, ANYWHERE),
    WORD("qweight", PARAM, OTHER, ANYWHERE),
    WORD("tok_emb", PART, EMBEDDING, ANYWHERE),
    WORD("txt_mlp", BOX, MLP, ANYWHERE),
    WORD("up_proj", PART, MLP, ANYWHERE),
};
static const word words_8[] = {
    WORD("embed_in", PART, EMBEDDING, ANYWHERE),
    WORD("ffn_down", PART, MLP, INSIDE),
    WORD("ffn_gate", PART, MLP, INSIDE),
    WORD("lm_heads", BOX, HEAD, OUTSIDE),
    WORD("proj_mlp", PART, MLP, ANYWHERE),
    WORD("proj_out", PART, OTHER, HEAD_IF_WHOLE),
    WORD("qkv_proj", PART, ATTENTION, ANYWHERE),
};
static const word words_9[] = {
    WORD("attention", BOX, ATTENTION, ANYWHERE),
    WORD("cls_token", PART, EMBEDDING, ANYWHERE),
    WORD("down_proj", PART, MLP, ANYWHERE),
    WORD("embed_out", BOX, HEAD, OUTSIDE),
    WORD("embedders", LIST, OTHER, ANYWHERE),
    WORD("embedding", PART, EMBEDDING, ANYWHERE),
    WORD("gate_proj", PART, MLP, ANYWHERE),
    WORD("lora_down", PARAM, OTHER, ANYWHERE),
    WORD("mlp_block", BOX, MLP, ANYWHERE),
    WORD("pos_embed", PART, EMBEDDING, ANYWHERE),
    WORD("resblocks", STACK, OTHER, ANYWHERE),
    WORD("self_attn", BOX, ATTENTION, ANYWHERE),
    WORD("up_blocks", STACK, OTHER, ANYWHERE),
};
static const word words_10[] = {
    WORD("base_layer", PLAIN, OTHER, ANYWHERE),
    WORD("classifier", BOX, HEAD, OUTSIDE),
    WORD("cross_attn", BOX, ATTENTION, ANYWHERE),
    WORD("embeddings", PART, EMBEDDING, ANYWHERE),
    WORD("ff_context", BOX, MLP, ANYWHERE),
    WORD("ffn_output", PART, MLP, INSIDE),
    WORD("linear_fc1", PART, MLP, ANYWHERE),
    WORD("linear_fc2", PART, MLP, ANYWHERE),
    WORD("linear_qkv", PART, ATTENTION, ANYWHERE),
    WORD("pred_layer", BOX, HEAD, OUTSIDE),
    WORD("qa_outputs", BOX, HEAD, OUTSIDE),
    WORD("shared_mlp", BOX, MLP, ANYWHERE),
    WORD("switch_mlp", EXPERTS, MLP, ANYWHERE),
    WORD("token_embd", PART, EMBEDDING, ANYWHERE),
};
static const word words_11[] = {
    WORD("class_token", PART, EMBEDDING, ANYWHERE),
    WORD("down_blocks", STACK, OTHER, ANYWHERE),
    WORD("exp_probs_b", ROUTER, ROUTER, ANYWHERE),
    WORD("expert_bias", ROUTER, ROUTER, ANYWHERE),
    WORD("feedforward", BOX, MLP, GATED),
    WORD("ffn_up_exps", FUSED, MLP, INSIDE),
    WORD("input_scale", PARAM, OTHER, ANYWHERE),
    WORD("linear_attn", BOX, ATTENTION, ANYWHERE),
    WORD("patch_embed", PART, EMBEDDING, ANYWHERE),
    WORD("predictions", BOX, HEAD, OUTSIDE),
    WORD("shared_head", PART, HEAD, ANYWHERE),
    WORD("token_types", PART, EMBEDDING, ANYWHERE),
    WORD("unembedding", BOX, HEAD, OUTSIDE),
};
static const word words_12[] = {
    WORD("embed_tokens", PART, EMBEDDING, ANYWHERE),
    WORD("feed_forward", BOX, MLP, GATED),
    WORD("ffn_gate_inp", ROUTER, ROUTER, ANYWHERE),
    WORD("ffn_up_shexp", PART, MLP, INSIDE),
    WORD("gate_up_proj", PART, MLP, ANYWHERE),
    WORD("input_blocks", STACK, OTHER, ANYWHERE),
    WORD("input_linear", FUSED, MLP, INSIDE),
    WORD("intermediate", PART, MLP, INSIDE),
    WORD("joint_blocks", STACK, OTHER, ANYWHERE),
    WORD("output_layer", BOX, HEAD, OUTSIDE),
    WORD("output_query", PART, MLP, INSIDE),
    WORD("residual_mlp", BOX, MLP, ANYWHERE),
    WORD("weight_scale", PARAM, OTHER, ANYWHERE),
    WORD("weight_shape", PARAM, OTHER, ANYWHERE),
};
static const word words_13[] = {
    WORD("dense_4h_to_h", PART, MLP, ANYWHERE),
    WORD("dense_h_to_4h", PART, MLP, ANYWHERE),
    WORD("double_blocks", STACK, OTHER, ANYWHERE),
    WORD("double_layers", STACK, OTHER, ANYWHERE),
    WORD("ffn_down_exps", FUSED, MLP, INSIDE),
    WORD("ffn_gate_exps", FUSED, MLP, INSIDE),
    WORD("layernorm_mlp", BOX, MLP, ANYWHERE),
    WORD("layernorm_qkv", PART, ATTENTION, ANYWHERE),
    WORD("local_experts", EXPERTS, MLP, ANYWHERE),
    WORD("noise_refiner", STACK, OTHER, ANYWHERE),
    WORD("output_blocks", STACK, OTHER, ANYWHERE),
    WORD("output_linear", FUSED, MLP, INSIDE),
    WORD("pos_embedding", PART, EMBEDDING, ANYWHERE),
    WORD("position_embd", PART, EMBEDDING, ANYWHERE),
    WORD("shared_expert", BOX, MLP, ANYWHERE),
    WORD("single_blocks", STACK, OTHER, ANYWHERE),
    WORD("single_layers", STACK, OTHER, ANYWHERE),
    WORD("weight_packed", PARAM, OTHER, ANYWHERE),
};
static const word words_14[] = {
    WORD("DenseReluDense", BOX, MLP, ANYWHERE),
    WORD("decoder_blocks", STACK, OTHER, ANYWHERE),
    WORD("decoder_layers", STACK, OTHER, ANYWHERE),
    WORD("encoder_blocks", STACK, OTHER, ANYWHERE),
    WORD("encoder_layers", STACK, OTHER, ANYWHERE),
    WORD("ffn_down_shexp", PART, MLP, INSIDE),
    WORD("ffn_gate_shexp", PART, MLP, INSIDE),
    WORD("norm_attn_norm", PLAIN, OTHER, ANYWHERE),
    WORD("refiner_blocks", STACK, OTHER, ANYWHERE),
    WORD("rel_embeddings", PART, EMBEDDING, ANYWHERE),
    WORD("routed_experts", EXPERTS, MLP, ANYWHERE),
    WORD("self_attention", BOX, ATTENTION, ANYWHERE),
    WORD("shared_experts", BOX, MLP, ANYWHERE),
    WORD("tok_embeddings", PART, EMBEDDING, ANYWHERE),
    WORD("word_embedding", PART, EMBEDDING, ANYWHERE),
};
static const word words_15[] = {
    WORD("class_embedding", PART, EMBEDDING, ANYWHERE),
    WORD("context_refiner", STACK, OTHER, ANYWHERE),
    WORD("cross_attention", BOX, ATTENTION, ANYWHERE),
    WORD("embed_positions", PART, EMBEDDING, ANYWHERE),
    WORD("embedding_table", PART, EMBEDDING, ANYWHERE),
    WORD("modules_to_save", PLAIN, OTHER, ANYWHERE),
    WORD("original_module", PLAIN, OTHER, ANYWHERE),
    WORD("patch_embedding", PART, EMBEDDING, ANYWHERE),
    WORD("query_key_value", PART, ATTENTION, ANYWHERE),
    WORD("token_embedding", PART, EMBEDDING, ANYWHERE),
    WORD("vocab_projector", BOX, HEAD, OUTSIDE),
    WORD("vocab_transform", BOX, HEAD, OUTSIDE),
    WORD("word_embeddings", PART, EMBEDDING, ANYWHERE),
};
static const word words_16[] = {
    WORD("block_sparse_moe", BOX, MLP, GATED),
    WORD("ffn_gate_up_exps", FUSED, MLP, INSIDE),
    WORD("patch_embeddings", PART, EMBEDDING, ANYWHERE),
    WORD("seq_relationship", BOX, HEAD, OUTSIDE),
    WORD("token_embeddings", PART, EMBEDDING, ANYWHERE),
    WORD("weight_scale_inv", PARAM, OTHER, ANYWHERE),
};
static const word words_17[] = {
    WORD("final_logits_bias", BOX, HEAD, OUTSIDE),
    WORD("generator_lm_head", BOX, HEAD, OUTSIDE),
    WORD("weight_zero_point", PARAM, OTHER, ANYWHERE),
};
static const word words_18[] = {
    WORD("ffn_gate_inp_shexp", ROUTER, ROUTER, ANYWHERE),
    WORD("intermediate_query", PART, MLP, INSIDE),
    WORD("position_embedding", PART, EMBEDDING, ANYWHERE),
    WORD("shared_expert_gate", ROUTER, ROUTER, ANYWHERE),
    WORD("transformer_blocks", STACK, OTHER, ANYWHERE),
    WORD("transformer_layers", STACK, OTHER, ANYWHERE),
};
static const word words_19[] = {
    WORD("cross_attn_mlp_gate", PART, MLP, INSIDE),
    WORD("position_embeddings", PART, EMBEDDING, ANYWHERE),
};
static const word words_20[] = {
    WORD("double_stream_blocks", STACK, OTHER, ANYWHERE),
    WORD("feed_forward_macaron", BOX, MLP, ANYWHERE),
    WORD("per_layer_token_embd", PART, EMBEDDING, ANYWHERE),
    WORD("positional_embedding", PART, EMBEDDING, ANYWHERE),
    WORD("single_stream_blocks", STACK, OTHER, ANYWHERE),
};
static const word words_21[] = {
    WORD("generator_predictions", BOX, HEAD, OUTSIDE),
    WORD("token_type_embeddings", PART, EMBEDDING, ANYWHERE),
};
static const word words_22[] = {
    WORD("embed_tokens_per_layer", PART, EMBEDDING, ANYWHERE),
};
static const word words_23[] = {
    WORD("e_score_correction_bias", ROUTER, ROUTER, ANYWHERE),
    WORD("text_transformer_blocks", STACK, OTHER, ANYWHERE),
};
static const word words_24[] = {
    WORD("joint_transformer_blocks", STACK, OTHER, ANYWHERE),
};
static const word words_25[] = {
    WORD("single_transformer_blocks", STACK, OTHER, ANYWHERE),
    WORD("visual_transformer_blocks", STACK, OTHER, ANYWHERE),
};
static const word words_27[] = {
    WORD("temporal_transformer_blocks", STACK, OTHER, ANYWHERE),
};

#define WORDS(len) [len] = {words_##len, TM_ARRAY_LEN(words_##len)}
static const struct bucket {
    const word *words;
    size_t count;
} words_of_len[] = {
    WORDS(1), WORDS(2), WORDS(3), WORDS(4), WORDS(5), WORDS(6),
    WORDS(7), WORDS(8), WORDS(9), WORDS(10), WORDS(11), WORDS(12),
    WORDS(13), WORDS(14), WORDS(15), WORDS(16), WORDS(17), WORDS(18),
    WORDS(19), WORDS(20), WORDS(21), WORDS(22), WORDS(23), WORDS(24),
    WORDS(25), WORDS(27),
};
/* clang-format on */

#undef WORDS
#undef WORD

#endif
