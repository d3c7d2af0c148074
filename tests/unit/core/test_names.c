/* What a name says of its expert, and what must not be read into a name. */
#include "tests/unit/core/names_rows.h"

#include "core/names_words.h"

static void what_is_not_known_is_other_and_has_no_layer(void **state)
{
    static const struct row rows[] = {
        {"", OTHER},
        {".", OTHER},
        {"...", OTHER},
        {"weight", OTHER},
        {"0", OTHER},
        {"layers", OTHER},
        {"layers.", OTHER},
        {"layers.3", OTHER},
        {"layers..3.x", OTHER},
        {"model.layers.3", OTHER},
        {"layers.x.weight", OTHER},
        {"layers.3x.mlp.weight", MLP},
        {"layers.-1.mlp.weight", MLP},
        {"layers.+1.mlp.weight", MLP},
        {"layers.03.mlp.weight", MLP},
        {"layers.00.mlp.weight", MLP},
        {"layers.0x1.mlp.weight", MLP},
        {"layers.2147483647.mlp.weight", MLP},
        {"layers.99999999999999999999.mlp.weight", MLP},
        {"layers.18446744073709551619.mlp.weight", MLP}, /* 3 modulo 2^64 */
        {"layers.03.blocks.1.mlp.weight", MLP},
        {"Layers.3.mlp.weight", MLP},
        {"mylayers.3.mlp.weight", MLP},
        {"layer1.0.conv1.weight", OTHER},
        {"encoder/layers/0/mlp", OTHER},
        {"mm_projector.layers.0.weight", OTHER},
        {"mm_projector.layers.0.bias", OTHER},
        {"mm_projector.layers.0.lora_A.weight", OTHER},
        {"mask_embed.layers.0.0.weight", OTHER},
        {"model.diffusion_model.input_blocks.0.0.weight", OTHER},
        {"decoders.3.layer.1.mlp.wi.weight", MLP},
        {"network.0.blocks.1.mlp.weight", MLP},
        {"mlp.layers.0.linear.weight", MLP},
        {"embeddings.layers.0.conv.weight", EMBED},
        {"lm_head.layers.0.dense.weight", HEAD},
        {"conv_layers.0.conv.weight", OTHER},
        {"resampler.query", OTHER},
        {"abnormal.weight", OTHER},
        {"normal.weight", OTHER},
        {"normal_map.weight", OTHER},
        {"normalization.weight", NORM},
        {"ln.weight", NORM},
        {"ln0.weight", NORM},
        {"ln9.weight", NORM},
        {"lnx.weight", OTHER},
        {"embed_ln.weight", NORM},
        {"a_word_of_28_bytes_in_length.weight", OTHER},
        {"embedders.0.towers.3.layers.2.mlp.weight", MLP},
        {"fc1.weight", OTHER},
        {"w1.weight", OTHER},
        {"gate.weight", OTHER},
        {"visual.output.weight", OTHER},
        {"output.dense.weight", OTHER},
        {"shared.0.weight", OTHER},
        {"output", HEAD},
        {"embed", EMBED},
        {"lora_unet_mid_block_attentions_0_transformer_blocks_0_attn1_to_q.lora_down.weight",
         OTHER},
        {"lora_unet_mid_block_attentions_0_transformer_blocks_0_norm1.lora_up.weight", OTHER},
    };
    CHECK(rows, "no stack");
}

static void what_stands_in_a_block_is_told_from_the_block(void **state)
{
    static const struct row rows[] = {
        {"blocks.3.attn.norm.weight", NORM},
        {"blocks.3.attn.norm.scale_of_it", NORM},
        {"blocks.3.attn.norm.linear.weight", OTHER},
        {"blocks.3.attn.norm.emb.linear.weight", OTHER},
        {"blocks.3.attn.norm.emb.norm.weight", NORM},
        {"blocks.3.norm.mlp.weight", OTHER},
        {"blocks.3.attention_pool.proj.weight", ATTN},
        {"blocks.3.attentions.0.proj.weight", OTHER},
        {"blocks.3.mlp.attn.proj.weight", ATTN},
        {"blocks.3.attn.mlp.proj.weight", MLP},
        {"blocks.3.mlp.encoder_attn.gate.weight", ATTN},
        {"blocks.3.mlp.up_proj.weight.quant_norm", MLP},
        {"blocks.3.experts.5", MLP},
        {"norm.blocks.3.mlp.weight", MLP},
        {"mixer.blocks.3.gate.weight", OTHER},
    };
    CHECK(rows, "blocks", "norm.blocks", "mixer.blocks");
}

static void experts_are_found_by_index_or_fused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t rank;
        int layer, expert;
        const char *leaf;
        int role;
    } rows[] = {
        {"model.layers.1.block_sparse_moe.experts.7.w1.weight", 2, 1, 7, "w1.weight", MLP},
        {"model.layers.1.block_sparse_moe.experts.0.w2.weight", 2, 1, 0, "w2.weight", MLP},
        {"model.layers.60.mlp.experts.255.gate_proj.weight", 2, 60, 255, "gate_proj.weight", MLP},
        {"model.layers.60.mlp.experts.255.down_proj.weight_scale_inv", 2, 60, 255,
         "down_proj.weight_scale_inv", MLP},
        {"model.layers.2.mlp.experts.3.up_proj.lora_A.weight", 2, 2, 3, "up_proj.lora_A.weight",
         MLP},
        {"model.layers.2.feed_forward.experts.3.up_proj.weight", 2, 2, 3, "up_proj.weight", MLP},
        {"layers.2.ffn.experts.3.w3.weight", 2, 2, 3, "w3.weight", MLP},
        {"model.layers.2.mlp.experts.3.gate.weight", 2, 2, 3, "gate.weight", MLP},
        {"model.layers.2.mlp.experts.3.norm.weight", 1, 2, 3, "norm.weight", NORM},
        {"model.layers.2.mlp.experts.3.weight", 2, 2, 3, "weight", MLP},
        {"encoder.block.1.layer.1.mlp.experts.expert_3.wi.weight", 2, 1, 3, "wi.weight", MLP},
        {"decoder.block.11.layer.2.mlp.experts.expert_127.wo.weight", 2, 11, 127, "wo.weight", MLP},
        {"model.decoder.layers.3.ffn.experts.expert_0.fc1.bias", 1, 3, 0, "fc1.bias", MLP},
        {"decoder.layers.3.mlp.experts.local_experts.5.linear_fc1.weight", 2, 3, 5,
         "linear_fc1.weight", MLP},
        {"backbone.layers.1.mixer.experts.9.up_proj.weight", 2, 1, 9, "up_proj.weight", MLP},
        {"blocks.1.experts.9.proj.weight", 2, 1, 9, "proj.weight", MLP},
        {"model.layers.0.mlp.experts.gate_up_proj", 3, 0, FUSED, "gate_up_proj", MLP},
        {"model.layers.0.mlp.experts.gate_up_proj_bias", 2, 0, FUSED, "gate_up_proj_bias", MLP},
        {"model.layers.0.mlp.experts.gate_up_proj_blocks", 4, 0, FUSED, "gate_up_proj_blocks", MLP},
        {"model.layers.0.mlp.experts.gate_up_proj_scales", 3, 0, FUSED, "gate_up_proj_scales", MLP},
        {"model.layers.0.mlp.experts.down_proj", 3, 0, FUSED, "down_proj", MLP},
        {"model.layers.0.mlp.experts.down_proj_bias", 2, 0, FUSED, "down_proj_bias", MLP},
        {"language_model.model.layers.9.feed_forward.experts.down_proj", 3, 9, FUSED, "down_proj",
         MLP},
        {"model.language_model.layers.9.mlp.experts.gate_up_proj", 3, 9, FUSED, "gate_up_proj",
         MLP},
        {"model.layers.0.mlp.switch_mlp.up_proj.weight", 3, 0, FUSED, "up_proj.weight", MLP},
        {"model.layers.0.block_sparse_moe.input_linear.weight", 3, 0, FUSED, "input_linear.weight",
         MLP},
        {"blk.4.ffn_gate_exps.weight", 3, 4, FUSED, "ffn_gate_exps.weight", MLP},
        {"blk.4.ffn_down_exps.bias", 2, 4, FUSED, "ffn_down_exps.bias", MLP},
        {"model.layers.0.self_attention.experts.input_linear.weight", 3, 0, FUSED,
         "input_linear.weight", ATTN},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        tm_place got = place(rows[i].name, rows[i].rank);
        if (got.layer != rows[i].layer || got.expert != rows[i].expert ||
            strcmp(rows[i].name + got.leaf_off, rows[i].leaf) != 0 ||
            got.role != (tm_role)rows[i].role)
            fail_msg("%s: layer %d, expert %d, '%s', %s", rows[i].name, got.layer, got.expert,
                     rows[i].name + got.leaf_off, tm_role_name(got.role));
    }
}

static void what_is_no_expert_is_not_taken_for_one(void **state)
{
    static const struct row rows[] = {
        {"layers.0.mlp.experts.gate_up_proj", MLP}, /* of rank 2 */
        {"layers.0.mlp.experts.gate_up_proj_scale", MLP},
        {"layers.0.mlp.experts.3", MLP},
        {"layers.0.mlp.experts.03.up_proj.weight", MLP},
        {"layers.0.mlp.experts.2147483647.up_proj.weight", MLP},
        {"layers.0.mlp.experts.expert_.wi.weight", MLP},
        {"layers.0.mlp.experts.expert_03.wi.weight", MLP},
        {"layers.0.mlp.experts.Expert_3.wi.weight", MLP},
        {"layers.0.mlp.experts", MLP},
        {"layers.0.mlp.shared_experts.0.up_proj.weight", MLP},
        {"layers.0.mlp.expert.3.up_proj.weight", MLP},
        {"layers.0.ffn.experts.mlp.w1", MLP},
        {"experts.3.up_proj.weight", MLP},
        {"moe.experts.gate_up_proj", MLP},
        {"layers.0.block_sparse_moe.input_linear.weight", MLP},
    };
    CHECK(rows, "layers");
    static const char *const of_rank_3[] = {
        "layers.0.mlp.experts.03.up_proj.weight",
        "layers.0.mlp.experts.3",
        "layers.0.mlp.shared_experts.up_proj.weight",
        "layers.0.mlp.up_proj.weight",
        "layers.0.conv.weight",
        "experts.gate_up_proj",
        "input_linear.weight",
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(of_rank_3); i++)
        assert_int_equal(place(of_rank_3[i], 3).expert, NONE);
}

static void only_biases_are_fused_at_rank_two(void **state)
{
    (void)state;
    static const int fused[][2] = {{0, 0}, {0, 0}, {0, 1}, {1, 1}, {1, 1}};
    for (size_t rank = 0; rank < TM_ARRAY_LEN(fused); rank++) {
        tm_place weight = place("layers.0.mlp.experts.down_proj", rank);
        tm_place bias = place("layers.0.mlp.experts.down_proj_bias", rank);
        assert_int_equal(weight.expert, fused[rank][0] ? FUSED : NONE);
        assert_int_equal(bias.expert, fused[rank][1] ? FUSED : NONE);
        assert_int_equal(weight.leaf_off,
                         strlen(fused[rank][0] ? "layers.0.mlp.experts." : "layers.0."));
    }
}

static void the_largest_index_leaves_room_for_a_count(void **state)
{
    (void)state;
    tm_place got = place("layers.2147483646.mlp.experts.2147483646.w1.weight", 2);
    assert_int_equal(got.layer, INT32_MAX - 1);
    assert_int_equal(got.expert, INT32_MAX - 1);
}

static void a_name_may_hold_any_byte(void **state)
{
    (void)state;
    static const char nul[] = "layers.3.ml\0p.norm\0.weight";
    tm_place got = tm_place_of(nul, sizeof(nul) - 1, 2);
    assert_int_equal(got.layer, 3);
    assert_int_equal(got.role, NORM);
    assert_int_equal(tm_place_of("mlp\0", 4, 2).role, OTHER);
    assert_int_equal(tm_place_of("lm_head.weight", 7, 2).role, HEAD);
    assert_int_equal(tm_place_of("lm_head.weight", 6, 2).role, OTHER);
    assert_int_equal(tm_place_of(NULL, 0, 0).layer, TM_NO_LAYER);
}

static void roles_have_the_names_of_the_tables(void **state)
{
    (void)state;
    static const char *const names[] = {"other",  "embedding", "attention", "mlp",
                                        "router", "norm",      "head"};
    assert_int_equal(TM_ARRAY_LEN(names), TM_ROLE_COUNT);
    for (size_t i = 0; i < TM_ROLE_COUNT; i++)
        assert_string_equal(tm_role_name((tm_role)i), names[i]);
}

static void every_word_stands_once_in_the_table_of_its_length(void **state)
{
    (void)state;
    size_t count = 0;
    for (size_t len = 0; len < TM_ARRAY_LEN(words_of_len); len++) {
        const struct bucket *bucket = &words_of_len[len];
        count += bucket->count;
        for (size_t i = 0; i < bucket->count; i++) {
            assert_int_equal(strlen(bucket->words[i].text), len);
            if (i > 0)
                assert_true(strcmp(bucket->words[i - 1].text, bucket->words[i].text) < 0);
        }
    }
    assert_true(count > 200);
}

/* splitmix64, see test_escape.c. */
static uint64_t next_random(uint64_t *seed)
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static size_t random_name(uint64_t *seed, char ret[256])
{
    static const char *const parts[] = {
        "layers", "h",        "layers.3", "h.17",      "experts.5",  "experts", "mlp", "gate",
        "norm",   "0",        "31",       "007",       "weight",     "bias",    "",    "x",
        "attn",   "expert_2", "output",   "embedders", "base_layer", "ln",      "n"};
    size_t len = 0, count = next_random(seed) % 9;
    for (size_t i = 0; i < count; i++)
        len += (size_t)snprintf(ret + len, 256 - len, "%s%s", i ? "." : "",
                                parts[next_random(seed) % TM_ARRAY_LEN(parts)]);
    if (len > 0 && next_random(seed) % 8 == 0)
        ret[next_random(seed) % len] = (char)next_random(seed);
    return len;
}

/* Copied to its exact size, so that a sanitizer sees a read beyond it. */
static void random_names_give_consistent_places(void **state)
{
    (void)state;
    uint64_t seed = 3;
    size_t layers = 0, experts = 0;
    for (size_t i = 0; i < 100000; i++) {
        char text[256], start[32];
        size_t len = random_name(&seed, text);
        char *name = malloc(len ? len : 1);
        assert_non_null(name);
        memcpy(name, text, len);
        tm_place got = tm_place_of(name, len, i % 5);
        assert_true(got.leaf_off < len || (got.leaf_off == 0 && len == 0) || got.leaf_off == len);
        assert_true(got.layer >= TM_NO_LAYER && got.expert >= TM_FUSED_EXPERTS);
        assert_true(got.role >= 0 && got.role < TM_ROLE_COUNT);
        if (got.layer == TM_NO_LAYER) {
            assert_true(got.stack_len == 0 && got.leaf_off == 0 && got.expert == NONE);
        } else {
            int n = snprintf(start, sizeof(start), ".%d.", got.layer);
            assert_memory_equal(name + got.stack_len, start, n);
            assert_true(got.expert == NONE ? got.leaf_off == got.stack_len + (size_t)n
                                           : got.leaf_off > got.stack_len + (size_t)n);
            assert_int_equal(name[got.leaf_off - 1], '.');
        }
        layers += got.layer != TM_NO_LAYER;
        experts += got.expert != NONE;
        free(name);
    }
    assert_true(layers > 10000 && experts > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_known_is_other_and_has_no_layer),
        cmocka_unit_test(what_stands_in_a_block_is_told_from_the_block),
        cmocka_unit_test(experts_are_found_by_index_or_fused),
        cmocka_unit_test(what_is_no_expert_is_not_taken_for_one),
        cmocka_unit_test(only_biases_are_fused_at_rank_two),
        cmocka_unit_test(the_largest_index_leaves_room_for_a_count),
        cmocka_unit_test(a_name_may_hold_any_byte),
        cmocka_unit_test(roles_have_the_names_of_the_tables),
        cmocka_unit_test(every_word_stands_once_in_the_table_of_its_length),
        cmocka_unit_test(random_names_give_consistent_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
