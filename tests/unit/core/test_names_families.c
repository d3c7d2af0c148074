/* What real tensor names say, family by family. */
#include "tests/unit/core/names_rows.h"

static void llama_and_its_kin(void **state)
{
    static const struct row rows[] = {
        {"model.embed_tokens.weight", EMBED},
        {"model.layers.0.input_layernorm.weight", NORM},
        {"model.layers.0.self_attn.q_proj.weight", ATTN},
        {"model.layers.7.self_attn.k_proj.bias", ATTN},
        {"model.layers.7.self_attn.v_proj.weight", ATTN},
        {"model.layers.31.self_attn.o_proj.weight", ATTN},
        {"model.layers.31.self_attn.q_norm.weight", NORM},
        {"model.layers.31.self_attn.rotary_emb.inv_freq", ATTN},
        {"model.layers.10.mlp.gate_proj.weight", MLP},
        {"model.layers.10.mlp.up_proj.weight", MLP},
        {"model.layers.10.mlp.down_proj.weight", MLP},
        {"model.layers.10.post_attention_layernorm.weight", NORM},
        {"model.layers.125.pre_feedforward_layernorm.weight", NORM},
        {"model.layers.125.post_feedforward_layernorm.weight", NORM},
        {"model.norm.weight", NORM},
        {"lm_head.weight", HEAD},
        {"score.weight", HEAD},
        {"layers.3.self_attn.q_proj.weight", ATTN},
        {"norm.weight", NORM},
        {"model.layers.0.self_attn.W_pack.weight", ATTN},
        {"model.layers.0.linear_attn.in_proj_qkvz.weight", ATTN},
        {"model.layers.0.linear_attn.A_log", ATTN},
        {"model.layers.0.linear_attn.norm.weight", NORM},
        {"mtp.layers.0.mlp.up_proj.weight", MLP},
        {"mtp.fc.weight", OTHER},
    };
    CHECK(rows, "model.layers", "layers", "mtp.layers");
}

static void the_layout_of_the_first_llama(void **state)
{
    static const struct row rows[] = {
        {"tok_embeddings.weight", EMBED},
        {"layers.0.attention.wq.weight", ATTN},
        {"layers.0.attention.wk.weight", ATTN},
        {"layers.0.attention.wv.weight", ATTN},
        {"layers.0.attention.wo.weight", ATTN},
        {"layers.79.attention_norm.weight", NORM},
        {"layers.79.feed_forward.w1.weight", MLP},
        {"layers.79.feed_forward.w2.weight", MLP},
        {"layers.79.feed_forward.w3.weight", MLP},
        {"layers.79.ffn_norm.weight", NORM},
        {"norm.weight", NORM},
        {"output.weight", HEAD},
        {"rope.freqs", OTHER},
        {"model.layers.2.attention.wqkv.weight", ATTN},
        {"model.tok_embeddings.weight", EMBED},
    };
    CHECK(rows, "layers", "model.layers");
}

static void phi(void **state)
{
    static const struct row rows[] = {
        {"model.embed_tokens.weight", EMBED},
        {"model.layers.4.self_attn.qkv_proj.weight", ATTN},
        {"model.layers.4.self_attn.o_proj.weight", ATTN},
        {"model.layers.4.self_attn.dense.weight", ATTN},
        {"model.layers.4.self_attn.dense.bias", ATTN},
        {"model.layers.4.self_attn.q_layernorm.weight", NORM},
        {"model.layers.4.mlp.gate_up_proj.weight", MLP},
        {"model.layers.4.mlp.down_proj.weight", MLP},
        {"model.layers.4.mlp.fc1.weight", MLP},
        {"model.layers.4.mlp.fc2.bias", MLP},
        {"model.layers.4.input_layernorm.weight", NORM},
        {"model.layers.4.post_attention_layernorm.weight", NORM},
        {"model.final_layernorm.bias", NORM},
        {"model.norm.weight", NORM},
        {"lm_head.bias", HEAD},
        {"model.vision_embed_tokens.img_processor.vision_model.encoder.layers.5.mlp.fc1.weight",
         MLP},
    };
    CHECK(rows, "model.layers",
          "model.vision_embed_tokens.img_processor.vision_model.encoder.layers");
}

static void gpt2(void **state)
{
    static const struct row rows[] = {
        {"wte.weight", EMBED},
        {"wpe.weight", EMBED},
        {"h.0.ln_1.weight", NORM},
        {"h.0.ln_1.bias", NORM},
        {"h.0.attn.c_attn.weight", ATTN},
        {"h.0.attn.c_proj.weight", ATTN},
        {"h.11.attn.bias", ATTN},
        {"h.11.attn.masked_bias", ATTN},
        {"h.11.ln_2.weight", NORM},
        {"h.11.mlp.c_fc.weight", MLP},
        {"h.11.mlp.c_proj.bias", MLP},
        {"ln_f.weight", NORM},
        {"transformer.wte.weight", EMBED},
        {"transformer.h.47.attn.c_attn.bias", ATTN},
        {"transformer.h.47.mlp.c_fc.bias", MLP},
        {"transformer.ln_f.bias", NORM},
        {"lm_head.weight", HEAD},
    };
    CHECK(rows, "h", "transformer.h");
}

static void gpt_neox(void **state)
{
    static const struct row rows[] = {
        {"gpt_neox.embed_in.weight", EMBED},
        {"gpt_neox.layers.0.attention.query_key_value.weight", ATTN},
        {"gpt_neox.layers.0.attention.query_key_value.bias", ATTN},
        {"gpt_neox.layers.0.attention.dense.weight", ATTN},
        {"gpt_neox.layers.0.attention.dense.bias", ATTN},
        {"gpt_neox.layers.0.attention.rotary_emb.inv_freq", ATTN},
        {"gpt_neox.layers.0.attention.masked_bias", ATTN},
        {"gpt_neox.layers.43.mlp.dense_h_to_4h.weight", MLP},
        {"gpt_neox.layers.43.mlp.dense_h_to_4h.bias", MLP},
        {"gpt_neox.layers.43.mlp.dense_4h_to_h.weight", MLP},
        {"gpt_neox.layers.43.input_layernorm.weight", NORM},
        {"gpt_neox.layers.43.post_attention_layernorm.bias", NORM},
        {"gpt_neox.final_layer_norm.weight", NORM},
        {"gpt_neox.final_layer_norm.bias", NORM},
        {"embed_out.weight", HEAD},
    };
    CHECK(rows, "gpt_neox.layers");
}

static void gpt_j(void **state)
{
    static const struct row rows[] = {
        {"transformer.wte.weight", EMBED},
        {"transformer.h.0.attn.bias", ATTN},
        {"transformer.h.0.attn.masked_bias", ATTN},
        {"transformer.h.0.attn.embed_positions", ATTN},
        {"transformer.h.0.attn.q_proj.weight", ATTN},
        {"transformer.h.0.attn.k_proj.weight", ATTN},
        {"transformer.h.0.attn.v_proj.weight", ATTN},
        {"transformer.h.27.attn.out_proj.weight", ATTN},
        {"transformer.h.27.mlp.fc_in.weight", MLP},
        {"transformer.h.27.mlp.fc_in.bias", MLP},
        {"transformer.h.27.mlp.fc_out.weight", MLP},
        {"transformer.h.27.mlp.fc_out.bias", MLP},
        {"transformer.h.27.ln_1.weight", NORM},
        {"transformer.h.27.ln_1.bias", NORM},
        {"transformer.ln_f.weight", NORM},
        {"lm_head.weight", HEAD},
        {"lm_head.bias", HEAD},
    };
    CHECK(rows, "transformer.h");
}

static void falcon_and_bloom(void **state)
{
    static const struct row rows[] = {
        {"transformer.word_embeddings.weight", EMBED},
        {"transformer.word_embeddings_layernorm.weight", NORM},
        {"transformer.h.2.self_attention.query_key_value.weight", ATTN},
        {"transformer.h.2.self_attention.query_key_value.bias", ATTN},
        {"transformer.h.2.self_attention.dense.weight", ATTN},
        {"transformer.h.2.mlp.dense_h_to_4h.weight", MLP},
        {"transformer.h.2.mlp.dense_4h_to_h.bias", MLP},
        {"transformer.h.2.input_layernorm.weight", NORM},
        {"transformer.h.2.post_attention_layernorm.weight", NORM},
        {"transformer.h.59.ln_attn.weight", NORM},
        {"transformer.h.59.ln_attn.bias", NORM},
        {"transformer.h.59.ln_mlp.weight", NORM},
        {"transformer.h.59.ln_mlp.bias", NORM},
        {"transformer.ln_f.weight", NORM},
        {"lm_head.weight", HEAD},
    };
    CHECK(rows, "transformer.h");
}

static void mpt_dbrx_and_chatglm(void **state)
{
    static const struct row rows[] = {
        {"transformer.wte.weight", EMBED},
        {"transformer.blocks.31.attn.Wqkv.weight", ATTN},
        {"transformer.blocks.31.attn.out_proj.weight", ATTN},
        {"transformer.blocks.31.attn.q_ln.weight", NORM},
        {"transformer.blocks.31.ffn.up_proj.weight", MLP},
        {"transformer.blocks.31.ffn.down_proj.weight", MLP},
        {"transformer.blocks.31.norm_1.weight", NORM},
        {"transformer.blocks.31.norm_2.weight", NORM},
        {"transformer.norm_f.weight", NORM},
        {"transformer.blocks.0.norm_attn_norm.attn.Wqkv.weight", ATTN},
        {"transformer.blocks.0.norm_attn_norm.attn.out_proj.weight", ATTN},
        {"transformer.blocks.0.norm_attn_norm.norm_1.weight", NORM},
        {"transformer.blocks.0.ffn.router.layer.weight", ROUTER},
        {"transformer.blocks.0.ffn.experts.mlp.w1", MLP},
        {"transformer.embedding.word_embeddings.weight", EMBED},
        {"transformer.encoder.layers.9.self_attention.query_key_value.bias", ATTN},
        {"transformer.encoder.layers.9.mlp.dense_h_to_4h.weight", MLP},
        {"transformer.encoder.final_layernorm.weight", NORM},
        {"transformer.output_layer.weight", HEAD},
        {"transformer.rotary_pos_emb.inv_freq", OTHER},
    };
    CHECK(rows, "transformer.blocks", "transformer.encoder.layers");
}

static void bert_and_its_kin(void **state)
{
    static const struct row rows[] = {
        {"bert.embeddings.word_embeddings.weight", EMBED},
        {"bert.embeddings.position_embeddings.weight", EMBED},
        {"bert.embeddings.token_type_embeddings.weight", EMBED},
        {"bert.embeddings.LayerNorm.weight", NORM},
        {"bert.encoder.layer.0.attention.self.query.weight", ATTN},
        {"bert.encoder.layer.0.attention.self.value.bias", ATTN},
        {"bert.encoder.layer.0.attention.output.dense.weight", ATTN},
        {"bert.encoder.layer.0.attention.output.LayerNorm.weight", NORM},
        {"bert.encoder.layer.11.intermediate.dense.weight", MLP},
        {"bert.encoder.layer.11.output.dense.bias", MLP},
        {"bert.encoder.layer.11.output.LayerNorm.bias", NORM},
        {"bert.encoder.layer.11.output.LayerNorm.gamma", NORM},
        {"bert.pooler.dense.weight", OTHER},
        {"cls.predictions.transform.dense.weight", HEAD},
        {"cls.predictions.transform.LayerNorm.weight", NORM},
        {"cls.predictions.decoder.weight", HEAD},
        {"cls.predictions.bias", HEAD},
        {"cls.seq_relationship.weight", HEAD},
        {"classifier.weight", HEAD},
        {"roberta.encoder.layer.3.attention.self.key.weight", ATTN},
        {"roberta.embeddings.position_ids", EMBED},
        {"lm_head.dense.weight", HEAD},
        {"lm_head.layer_norm.weight", NORM},
        {"classifier.out_proj.weight", HEAD},
        {"encoder.layer.5.attention.self.query.weight", ATTN},
        {"distilbert.transformer.layer.5.attention.q_lin.weight", ATTN},
        {"distilbert.transformer.layer.5.sa_layer_norm.weight", NORM},
        {"distilbert.transformer.layer.5.ffn.lin1.weight", MLP},
        {"distilbert.transformer.layer.5.output_layer_norm.weight", NORM},
        {"vocab_projector.weight", HEAD},
        {"deberta.encoder.layer.1.attention.self.query_proj.weight", ATTN},
        {"deberta.encoder.rel_embeddings.weight", EMBED},
    };
    CHECK(rows, "bert.encoder.layer", "roberta.encoder.layer", "encoder.layer",
          "distilbert.transformer.layer", "deberta.encoder.layer");
}

static void t5_counts_blocks_not_what_is_in_them(void **state)
{
    static const struct row rows[] = {
        {"shared.weight", EMBED},
        {"encoder.embed_tokens.weight", EMBED},
        {"encoder.block.0.layer.0.SelfAttention.q.weight", ATTN},
        {"encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", ATTN},
        {"encoder.block.0.layer.0.layer_norm.weight", NORM},
        {"encoder.block.5.layer.1.DenseReluDense.wi.weight", MLP},
        {"encoder.block.5.layer.1.DenseReluDense.wi_0.weight", MLP},
        {"encoder.block.5.layer.1.DenseReluDense.wo.weight", MLP},
        {"encoder.block.5.layer.1.layer_norm.weight", NORM},
        {"encoder.final_layer_norm.weight", NORM},
        {"decoder.block.23.layer.0.SelfAttention.o.weight", ATTN},
        {"decoder.block.23.layer.1.EncDecAttention.k.weight", ATTN},
        {"decoder.block.23.layer.1.layer_norm.weight", NORM},
        {"decoder.block.23.layer.2.DenseReluDense.wi_1.weight", MLP},
        {"decoder.final_layer_norm.weight", NORM},
        {"lm_head.weight", HEAD},
    };
    CHECK(rows, "encoder.block", "decoder.block");
}

static void mixtures_of_experts_beside_their_experts(void **state)
{
    static const struct row rows[] = {
        {"model.layers.0.block_sparse_moe.gate.weight", ROUTER},
        {"model.layers.0.block_sparse_moe.e_score_correction_bias", ROUTER},
        {"model.layers.0.block_sparse_moe.router.layer.weight", ROUTER},
        {"model.layers.0.mlp.gate.weight", ROUTER},
        {"model.layers.0.mlp.gate_proj.weight", MLP},
        {"model.layers.0.mlp.shared_expert.gate_proj.weight", MLP},
        {"model.layers.0.mlp.shared_expert.down_proj.weight", MLP},
        {"model.layers.0.mlp.shared_expert_gate.weight", ROUTER},
        {"model.layers.3.mlp.gate.e_score_correction_bias", ROUTER},
        {"model.layers.3.mlp.shared_experts.up_proj.weight", MLP},
        {"model.layers.3.mlp.gate.wg.weight", ROUTER},
        {"model.layers.3.mlp.router.weight", ROUTER},
        {"model.layers.3.mlp.router.bias", ROUTER},
        {"model.layers.3.mlp.router.gate.weight", ROUTER},
        {"model.layers.3.mlp.expert_bias", ROUTER},
        {"model.layers.3.feed_forward.router.weight", ROUTER},
        {"model.layers.3.feed_forward.shared_expert.up_proj.weight", MLP},
        {"model.layers.3.mlp.moe_statics.e_score_correction_bias", ROUTER},
        {"model.layers.3.shared_mlp.input_linear.weight", MLP},
        {"model.layers.3.self_attn.gate_proj.weight", ATTN},
        {"layers.3.ffn.gate.weight", ROUTER},
        {"layers.3.ffn.gate.bias", ROUTER},
        {"encoder.block.1.layer.1.mlp.router.classifier.weight", ROUTER},
        {"model.encoder.layers.3.ffn.router.classifier.weight", ROUTER},
        {"transformer.blocks.2.ffn.router.layer.weight", ROUTER},
        {"backbone.layers.2.mixer.gate.weight", ROUTER},
        {"backbone.layers.2.mixer.shared_experts.up_proj.weight", MLP},
        {"model.layers.0.self_attn.gate.weight", ATTN},
        {"model.layers.0.gate.weight", OTHER},
    };
    CHECK(rows, "model.layers", "layers", "encoder.block", "model.encoder.layers",
          "transformer.blocks", "backbone.layers");
}

static void deepseek(void **state)
{
    static const struct row rows[] = {
        {"model.embed_tokens.weight", EMBED},
        {"model.layers.0.self_attn.q_a_proj.weight", ATTN},
        {"model.layers.0.self_attn.q_a_layernorm.weight", NORM},
        {"model.layers.0.self_attn.q_b_proj.weight", ATTN},
        {"model.layers.0.self_attn.kv_a_proj_with_mqa.weight", ATTN},
        {"model.layers.0.self_attn.kv_a_layernorm.weight", NORM},
        {"model.layers.0.self_attn.kv_b_proj.weight_scale_inv", ATTN},
        {"model.layers.0.self_attn.indexer.wq_b.weight", ATTN},
        {"model.layers.0.self_attn.indexer.k_norm.weight", NORM},
        {"model.layers.60.mlp.shared_experts.gate_proj.weight_scale_inv", MLP},
        {"model.layers.61.embed_tokens.weight", EMBED},
        {"model.layers.61.enorm.weight", NORM},
        {"model.layers.61.hnorm.weight", NORM},
        {"model.layers.61.eh_proj.weight", OTHER},
        {"model.layers.61.shared_head.norm.weight", NORM},
        {"model.layers.61.shared_head.head.weight", HEAD},
        {"embed.weight", EMBED},
        {"head.weight", HEAD},
        {"layers.0.attn.wq_a.weight", ATTN},
        {"layers.0.attn.kv_norm.weight", NORM},
        {"mtp.0.attn.wkv.weight", ATTN},
    };
    CHECK(rows, "model.layers", "layers", "mtp");
}

static void vision_encoders(void **state)
{
    static const struct row rows[] = {
        {"vision_model.embeddings.class_embedding", EMBED},
        {"vision_model.embeddings.patch_embedding.weight", EMBED},
        {"vision_model.embeddings.position_embedding.weight", EMBED},
        {"vision_model.pre_layrnorm.weight", NORM},
        {"vision_model.encoder.layers.4.self_attn.out_proj.weight", ATTN},
        {"vision_model.encoder.layers.4.layer_norm1.weight", NORM},
        {"vision_model.encoder.layers.4.mlp.fc1.weight", MLP},
        {"vision_model.post_layernorm.weight", NORM},
        {"vision_model.head.attention.in_proj_weight", ATTN},
        {"vision_model.head.layernorm.weight", NORM},
        {"vision_model.head.mlp.fc1.weight", MLP},
        {"text_model.embeddings.token_embedding.weight", EMBED},
        {"text_model.encoder.layers.4.self_attn.q_proj.weight", ATTN},
        {"text_projection.weight", OTHER},
        {"logit_scale", OTHER},
        {"vit.embeddings.cls_token", EMBED},
        {"vit.embeddings.patch_embeddings.projection.weight", EMBED},
        {"vit.encoder.layer.11.attention.attention.query.weight", ATTN},
        {"vit.encoder.layer.11.layernorm_before.weight", NORM},
        {"vit.encoder.layer.11.output.dense.weight", MLP},
        {"encoder.layer.9.layer_scale1.lambda1", OTHER},
        {"cls_token", EMBED},
        {"pos_embed", EMBED},
        {"patch_embed.proj.weight", EMBED},
        {"patch_embed.norm.weight", NORM},
        {"blocks.7.attn.qkv.weight", ATTN},
        {"blocks.7.norm1.weight", NORM},
        {"blocks.7.gamma_1", OTHER},
        {"head.bias", HEAD},
        {"visual.transformer.resblocks.3.attn.in_proj_weight", ATTN},
        {"visual.transformer.resblocks.3.mlp.c_fc.weight", MLP},
        {"visual.transformer.resblocks.3.ln_2.weight", NORM},
        {"visual.class_embedding", EMBED},
        {"positional_embedding", EMBED},
        {"visual.conv1.weight", OTHER},
    };
    CHECK(rows, "vision_model.encoder.layers", "text_model.encoder.layers", "vit.encoder.layer",
          "encoder.layer", "blocks", "visual.transformer.resblocks");
}

static void models_of_several_stacks(void **state)
{
    static const struct row rows[] = {
        {"visual.patch_embed.proj.weight", EMBED},
        {"visual.blocks.31.attn.qkv.bias", ATTN},
        {"visual.blocks.31.attn.proj.weight", ATTN},
        {"visual.blocks.31.mlp.gate_proj.weight", MLP},
        {"visual.blocks.31.norm2.weight", NORM},
        {"visual.merger.ln_q.weight", NORM},
        {"visual.merger.mlp.0.weight", MLP},
        {"model.visual.blocks.0.mlp.linear_fc1.weight", MLP},
        {"model.visual.deepstack_merger_list.0.linear_fc1.weight", MLP},
        {"model.language_model.layers.3.mlp.up_proj.weight", MLP},
        {"language_model.model.embed_tokens.weight", EMBED},
        {"language_model.model.layers.3.self_attn.q_proj.weight", ATTN},
        {"language_model.model.norm.weight", NORM},
        {"language_model.lm_head.weight", HEAD},
        {"vision_tower.vision_model.encoder.layers.26.mlp.fc2.weight", MLP},
        {"vision_tower.transformer.layers.8.attention.q_proj.weight", ATTN},
        {"vision_tower.transformer.layers.8.feed_forward.gate_proj.weight", MLP},
        {"vision_tower.transformer.layers.8.ffn_norm.weight", NORM},
        {"vision_tower.patch_conv.weight", OTHER},
        {"multi_modal_projector.linear_1.weight", OTHER},
        {"multi_modal_projector.norm.weight", NORM},
        {"thinker.model.layers.1.self_attn.k_norm.weight", NORM},
        {"base_model.model.model.layers.5.mlp.up_proj.lora_A.weight", MLP},
        {"conditioner.embedders.0.transformer.text_model.encoder.layers.1.mlp.fc1.weight", MLP},
        {"conditioner.embedders.1.model.transformer.resblocks.2.ln_1.bias", NORM},
    };
    CHECK(rows, "visual.blocks", "model.visual.blocks", "model.language_model.layers",
          "language_model.model.layers", "vision_tower.vision_model.encoder.layers",
          "vision_tower.transformer.layers", "thinker.model.layers",
          "base_model.model.model.layers",
          "conditioner.embedders.0.transformer.text_model.encoder.layers",
          "conditioner.embedders.1.model.transformer.resblocks");
}

static void whisper_and_bart(void **state)
{
    static const struct row rows[] = {
        {"model.encoder.conv1.weight", OTHER},
        {"model.encoder.embed_positions.weight", EMBED},
        {"model.encoder.layers.2.self_attn.k_proj.weight", ATTN},
        {"model.encoder.layers.2.self_attn_layer_norm.weight", NORM},
        {"model.encoder.layers.2.fc1.weight", MLP},
        {"model.encoder.layers.2.fc2.bias", MLP},
        {"model.encoder.layers.2.final_layer_norm.weight", NORM},
        {"model.encoder.layer_norm.weight", NORM},
        {"model.decoder.embed_tokens.weight", EMBED},
        {"model.decoder.layers.31.encoder_attn.q_proj.weight", ATTN},
        {"model.decoder.layers.31.encoder_attn.out_proj.bias", ATTN},
        {"model.decoder.layers.31.encoder_attn_layer_norm.weight", NORM},
        {"model.decoder.layers.31.fc1.weight", MLP},
        {"proj_out.weight", HEAD},
        {"model.shared.weight", EMBED},
        {"model.decoder.layernorm_embedding.weight", NORM},
        {"final_logits_bias", HEAD},
    };
    CHECK(rows, "model.encoder.layers", "model.decoder.layers");
}

static void mamba_and_hybrids(void **state)
{
    static const struct row rows[] = {
        {"backbone.embeddings.weight", EMBED},
        {"backbone.embedding.weight", EMBED},
        {"backbone.layers.0.norm.weight", NORM},
        {"backbone.layers.0.mixer.A_log", OTHER},
        {"backbone.layers.0.mixer.D", OTHER},
        {"backbone.layers.0.mixer.conv1d.weight", OTHER},
        {"backbone.layers.0.mixer.in_proj.weight", OTHER},
        {"backbone.layers.0.mixer.x_proj.weight", OTHER},
        {"backbone.layers.0.mixer.dt_proj.bias", OTHER},
        {"backbone.layers.0.mixer.out_proj.weight", OTHER},
        {"backbone.layers.0.mixer.norm.weight", NORM},
        {"backbone.layers.7.mixer.q_proj.weight", ATTN},
        {"backbone.layers.8.mixer.up_proj.weight", MLP},
        {"backbone.norm_f.weight", NORM},
        {"model.layers.1.mamba.in_proj.weight", OTHER},
        {"model.layers.1.mamba.dt_layernorm.weight", NORM},
        {"model.layers.1.feed_forward.gate_proj.weight", MLP},
        {"rwkv.blocks.1.attention.receptance.weight", ATTN},
        {"rwkv.blocks.1.feed_forward.key.weight", MLP},
        {"rwkv.blocks.1.ln1.weight", NORM},
    };
    CHECK(rows, "backbone.layers", "model.layers", "rwkv.blocks");
}

static void diffusion_transformers(void **state)
{
    static const struct row rows[] = {
        {"transformer_blocks.18.attn.to_q.weight", ATTN},
        {"transformer_blocks.18.attn.to_out.0.weight", ATTN},
        {"transformer_blocks.18.attn.add_k_proj.weight", ATTN},
        {"transformer_blocks.18.attn.norm_added_q.weight", NORM},
        {"transformer_blocks.18.ff.net.0.proj.weight", MLP},
        {"transformer_blocks.18.ff_context.net.2.weight", MLP},
        {"transformer_blocks.18.norm1.linear.weight", OTHER},
        {"transformer_blocks.18.norm1_context.linear.bias", OTHER},
        {"transformer_blocks.3.scale_shift_table", OTHER},
        {"single_transformer_blocks.37.proj_mlp.weight", MLP},
        {"single_transformer_blocks.37.proj_out.weight", OTHER},
        {"single_transformer_blocks.37.norm.linear.weight", OTHER},
        {"single_transformer_blocks.37.attn.norm_k.weight", NORM},
        {"norm_out.linear.weight", OTHER},
        {"proj_out.weight", HEAD},
        {"pos_embed.proj.weight", EMBED},
        {"context_embedder.weight", OTHER},
        {"time_text_embed.timestep_embedder.linear_1.weight", OTHER},
        {"double_blocks.0.img_attn.qkv.weight", ATTN},
        {"double_blocks.0.img_attn.norm.key_norm.scale", NORM},
        {"double_blocks.0.img_mlp.0.weight", MLP},
        {"double_blocks.0.txt_mlp.2.bias", MLP},
        {"double_blocks.0.img_mod.lin.weight", OTHER},
        {"single_blocks.5.linear1.weight", OTHER},
        {"single_blocks.5.norm.query_norm.scale", NORM},
        {"final_layer.adaLN_modulation.1.weight", OTHER},
        {"model.diffusion_model.joint_blocks.7.context_block.attn.qkv.weight", ATTN},
        {"model.diffusion_model.joint_blocks.7.x_block.attn.ln_k.weight", NORM},
        {"model.diffusion_model.joint_blocks.7.x_block.mlp.fc1.weight", MLP},
        {"model.diffusion_model.joint_blocks.7.x_block.adaLN_modulation.1.weight", OTHER},
        {"blocks.29.cross_attn.q.weight", ATTN},
        {"blocks.29.ffn.0.weight", MLP},
        {"blocks.29.modulation", OTHER},
        {"noise_refiner.1.attention.qkv.weight", ATTN},
        {"transformer_blocks.0.norm1.emb.timestep_embedder.linear_1.weight", OTHER},
    };
    CHECK(rows, "transformer_blocks", "single_transformer_blocks", "double_blocks", "single_blocks",
          "model.diffusion_model.joint_blocks", "blocks", "noise_refiner");
}

static void unets_count_their_outermost_blocks(void **state)
{
    static const struct row rows[] = {
        {"conv_in.weight", OTHER},
        {"time_embedding.linear_1.weight", OTHER},
        {"down_blocks.2.attentions.1.transformer_blocks.9.attn1.to_q.weight", ATTN},
        {"down_blocks.2.attentions.1.transformer_blocks.9.attn2.to_out.0.bias", ATTN},
        {"down_blocks.2.attentions.1.transformer_blocks.9.ff.net.0.proj.weight", MLP},
        {"down_blocks.2.attentions.1.transformer_blocks.9.norm3.weight", NORM},
        {"down_blocks.2.attentions.1.norm.weight", NORM},
        {"down_blocks.2.attentions.1.proj_in.weight", OTHER},
        {"down_blocks.2.attentions.1.proj_out.weight", OTHER},
        {"down_blocks.0.resnets.1.conv1.weight", OTHER},
        {"down_blocks.0.resnets.1.norm1.weight", NORM},
        {"down_blocks.0.downsamplers.0.conv.weight", OTHER},
        {"mid_block.attentions.0.transformer_blocks.3.attn1.to_k.weight", ATTN},
        {"mid_block.attentions.0.transformer_blocks.3.ff.net.2.weight", MLP},
        {"mid_block.resnets.1.time_emb_proj.weight", OTHER},
        {"up_blocks.1.attentions.2.transformer_blocks.0.norm1.weight", NORM},
        {"up_blocks.3.upsamplers.0.conv.weight", OTHER},
        {"conv_norm_out.weight", NORM},
        {"conv_out.weight", OTHER},
        {"model.diffusion_model.input_blocks.4.1.transformer_blocks.0.attn1.to_q.weight", ATTN},
        {"model.diffusion_model.middle_block.1.transformer_blocks.0.attn2.to_v.weight", ATTN},
        {"model.diffusion_model.output_blocks.11.0.in_layers.2.weight", OTHER},
        {"first_stage_model.decoder.up.3.block.1.norm1.weight", NORM},
        {"first_stage_model.decoder.mid.attn_1.q.weight", OTHER},
        {"encoder.mid_block.attentions.0.to_q.weight", ATTN},
        {"encoder.mid_block.attentions.0.group_norm.weight", NORM},
    };
    CHECK(rows, "down_blocks", "up_blocks", "model.diffusion_model.input_blocks",
          "model.diffusion_model.output_blocks", "first_stage_model.decoder.up");
}

static void gguf_names(void **state)
{
    static const struct row rows[] = {
        {"token_embd.weight", EMBED},
        {"output_norm.weight", NORM},
        {"output.weight", HEAD},
        {"blk.0.attn_q.weight", ATTN},
        {"blk.0.attn_qkv.bias", ATTN},
        {"blk.0.attn_output.weight", ATTN},
        {"blk.0.attn_norm.weight", NORM},
        {"blk.0.attn_q_norm.weight", NORM},
        {"blk.31.ffn_gate.weight", MLP},
        {"blk.31.ffn_up.weight", MLP},
        {"blk.31.ffn_down.weight", MLP},
        {"blk.31.ffn_norm.weight", NORM},
        {"blk.31.ffn_gate_inp.weight", ROUTER},
        {"blk.31.ffn_up_shexp.weight", MLP},
        {"blk.31.exp_probs_b.bias", ROUTER},
    };
    CHECK(rows, "blk");
}

static void siblings_have_the_role_of_their_module(void **state)
{
    static const struct row rows[] = {
        {"model.layers.0.self_attn.q_proj.lora_A.weight", ATTN},
        {"model.layers.0.self_attn.q_proj.lora_B.default.weight", ATTN},
        {"model.layers.0.self_attn.q_proj.lora_magnitude_vector", ATTN},
        {"model.layers.0.mlp.down_proj.base_layer.weight", MLP},
        {"model.layers.0.input_layernorm.lora_A.weight", NORM},
        {"model.embed_tokens.lora_embedding_A", EMBED},
        {"lm_head.lora_B.weight", HEAD},
        {"lm_head.modules_to_save.weight", HEAD},
        {"score.original_module.weight", HEAD},
        {"transformer_blocks.0.attn.processor.to_q_lora.down.weight", ATTN},
        {"model.layers.0.mlp.gate.lora_A.weight", ROUTER},
        {"model.layers.0.self_attn.q_proj.weight_scale_inv", ATTN},
        {"model.layers.0.self_attn.k_proj.k_scale", ATTN},
        {"model.layers.0.self_attn.o_proj.input_scale", ATTN},
        {"model.layers.0.mlp.up_proj.qweight", MLP},
        {"model.layers.0.mlp.up_proj.qzeros", MLP},
        {"model.layers.0.mlp.up_proj.g_idx", MLP},
        {"model.layers.0.mlp.up_proj.weight_packed", MLP},
        {"model.layers.0.mlp.up_proj.weight.absmax", MLP},
        {"model.layers.0.mlp.up_proj.weight.quant_state.bitsandbytes__nf4", MLP},
        {"model.layers.0.mlp.gate.scales", ROUTER},
        {"model.embed_tokens.biases", EMBED},
        {"output.scales", HEAD},
        {"decoder.layers.0.self_attention.linear_qkv.layer_norm_weight", NORM},
        {"decoder.layers.0.self_attention.linear_qkv.weight", ATTN},
    };
    CHECK(rows, "model.layers", "transformer_blocks", "decoder.layers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_and_its_kin),
        cmocka_unit_test(the_layout_of_the_first_llama),
        cmocka_unit_test(phi),
        cmocka_unit_test(gpt2),
        cmocka_unit_test(gpt_neox),
        cmocka_unit_test(gpt_j),
        cmocka_unit_test(falcon_and_bloom),
        cmocka_unit_test(mpt_dbrx_and_chatglm),
        cmocka_unit_test(bert_and_its_kin),
        cmocka_unit_test(t5_counts_blocks_not_what_is_in_them),
        cmocka_unit_test(mixtures_of_experts_beside_their_experts),
        cmocka_unit_test(deepseek),
        cmocka_unit_test(vision_encoders),
        cmocka_unit_test(models_of_several_stacks),
        cmocka_unit_test(whisper_and_bart),
        cmocka_unit_test(mamba_and_hybrids),
        cmocka_unit_test(diffusion_transformers),
        cmocka_unit_test(unets_count_their_outermost_blocks),
        cmocka_unit_test(gguf_names),
        cmocka_unit_test(siblings_have_the_role_of_their_module),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
