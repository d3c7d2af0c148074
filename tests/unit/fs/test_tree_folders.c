/* Which folders a model has: layers, experts of their own and fused ones, stacks, collections. */
#include "tests/unit/fs/models.h"
#include "tests/unit/fs/tree_walk.h"

static int begin(void **state)
{
    if (tree_begin(state) < 0)
        return -1;
    write_llama("llama", 12);
    write_experts("experts");
    write_fused("fused");
    write_stacks("stacks");
    write_sparse_layers("sparse");
    write_run("run");
    static const char *const names[] = {"llama", "experts", "fused", "stacks", "sparse", "run"};
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++)
        mount_source(NULL, at("%s", names[i]));
    return 0;
}

/* ---- The model's own folder ---- */

static void a_model_has_these_entries(void **state)
{
    (void)state;
    expect_names("", "README\nload\nmodels\n.tmorph\n");
    expect_names("models/llama", "files\nstate\nerror\nmodel.json\nmetadata.json\ntensors.tsv\n"
                                 "stats.tsv\nlayers.tsv\nindex\nquery\n"
                                 "tensors\ntree\nlayers\nexperts\n");
    expect_link("models/llama", "files", "../../load/llama");
    assert_int_equal(find("models/llama/files").ino, find("load/llama").ino);
    expect_text_at("models/llama/metadata.json", "{\n  \"format\": \"pt\"\n}\n");
    expect_names("load/llama", "config.json\nmodel-00001-of-00002.safetensors\n"
                               "model-00002-of-00002.safetensors\nmodel.safetensors.index.json\n"
                               "tokenizer\n");
}

static void an_absent_head_is_a_link_by_name_to_the_embedding(void **state)
{
    (void)state;
    expect_link("models/llama/tensors", "lm_head.weight", "model.embed_tokens.weight");
    assert_int_equal(find("models/llama/tensors/lm_head.weight").ino,
                     find("models/llama/tensors/model.embed_tokens.weight").ino);
    list l = list_of(find("models/llama/tensors").ino);
    assert_int_equal(l.count, 38);
    for (size_t i = 0; i < l.count; i++)
        assert_string_not_equal(l.entries[i].name, "lm_head.weight");
    list_done(&l);
    expect_error("models/experts/tensors/lm_head.weight", -ENOENT);
    expect_error("models/llama/tree/lm_head", -ENOENT);
}

static void model_json_has_the_fingerprint_and_is_as_large_as_it_says(void **state)
{
    (void)state;
    char fingerprint[65], expected[100];
    size_t len;
    tm_req req = blocking_request();
    tm_mounted *m = tm_session_find(session, "llama");
    assert_non_null(m);
    assert_int_equal(tm_session_fingerprint(session, m, &req, fingerprint), 0);
    tm_mounted_unref(m);
    snprintf(expected, sizeof(expected), "\"fingerprint\": \"%s\"", fingerprint);
    char *text = content_of_path("models/llama/model.json", &len);
    assert_non_null(strstr(text, expected));
    assert_int_equal(text[len - 1], '\n');
    free(text);
}

/* A model whose weights cannot be read any more has no fingerprint: it is not made up. */
static void a_fingerprint_that_cannot_be_computed_is_null(void **state)
{
    (void)state;
    size_t len;
    write_one(at("changing/model.safetensors"), "a");
    mount_source(NULL, at("changing"));
    set_time(at("changing/model.safetensors"), 1000, 0);
    uint64_t size = find("models/changing/model.json").size;
    char *text = content_of_path("models/changing/model.json", &len);
    assert_int_equal(len, size);
    assert_non_null(strstr(text, "\"fingerprint\": null"));
    assert_int_equal(text[len - 1], '\n');
    assert_int_equal(text[strspn(text, "{")], '\n');
    free(text);
    unmount("changing");
}

/* ---- layers/ ---- */

static void layers_are_padded_and_resolve_unpadded_too(void **state)
{
    (void)state;
    expect_names("models/llama/layers",
                 "000\n001\n002\n003\n004\n005\n006\n007\n008\n009\n010\n011\n");
    expect_names("models/llama/layers/003", "model.layers.3.input_layernorm.weight\n"
                                            "model.layers.3.mlp.up_proj.weight\n"
                                            "model.layers.3.self_attn.q_proj.weight\nstats.json\n");
    expect_link("models/llama/layers/003", "model.layers.3.mlp.up_proj.weight",
                "../../tensors/model.layers.3.mlp.up_proj.weight");
    expect_link("models/llama/layers", "3", "003");
    expect_link("models/llama/layers", "0", "000");
    expect_link("models/llama/layers", "11", "011");
    static const char *const others[] = {"03", "0003", "012",        "12",
                                         "-1", "+3",   " 3",         "3 ",
                                         "3a", "00",   "4294967299", "18446744073709551619"};
    tm_attr attr;
    for (size_t i = 0; i < TM_ARRAY_LEN(others); i++)
        assert_int_equal(try_look_up(find("models/llama/layers").ino, others[i], &attr), -ENOENT);
    assert_int_equal(try_look_up(find("models/llama/layers").ino, "", &attr), -ENOENT);
    assert_int_equal(try_look_up(find("models/llama/layers/003").ino,
                                 "model.layers.4.mlp.up_proj.weight", &attr),
                     -ENOENT);
    expect_names("models/llama/experts", "");
}

static void layers_of_any_number_are_found(void **state)
{
    (void)state;
    expect_names("models/sparse/layers", "0000000000\n0000000007\n0000001000\n0999999999\n"
                                         "1234567890\n2147483646\n");
    expect_link("models/sparse/layers", "7", "0000000007");
    expect_link("models/sparse/layers", "999999999", "0999999999");
    expect_names("models/sparse/layers/2147483646",
                 "model.layers.2147483646.mlp.up_proj.weight\nstats.json\n");
    expect_names("models/sparse/layers/1234567890",
                 "model.layers.1234567890.mlp.up_proj.weight\nstats.json\n");
    expect_error("models/sparse/layers/2147483647", -ENOENT);
    expect_error("models/sparse/layers/9999999999", -ENOENT);
}

/* ---- experts/ ---- */

static void experts_of_their_own_are_links_by_role(void **state)
{
    (void)state;
    expect_names("models/experts/experts", "001\n012\n");
    expect_error("models/experts/experts/000", -ENOENT);
    expect_error("models/experts/experts/0", -ENOENT);
    expect_link("models/experts/experts", "1", "001");
    expect_names("models/experts/experts/012",
                 "000\n001\n002\n003\n004\n005\n006\n007\n008\n009\n010\n011\n");
    expect_link("models/experts/experts/012", "4", "004");
    expect_error("models/experts/experts/012/012", -ENOENT);
    expect_error("models/experts/experts/012/12", -ENOENT);
    expect_names("models/experts/experts/012/011", "w1.weight\nw2.weight\n");
    expect_names("models/experts/experts/012/003", "");
    expect_link("models/experts/experts/012/011", "w2.weight",
                "../../../tensors/model.layers.12.block_sparse_moe.experts.11.w2.weight");
    expect_error("models/experts/experts/012/011/w3.weight", -ENOENT);
    expect_error("models/experts/experts/012/003/w1.weight", -ENOENT);
}

static void fused_experts_are_folders_of_their_slices(void **state)
{
    (void)state;
    const file_tensor down = {
        .name = "model.layers.1.mlp.experts.down_proj", .dtype = "I32", .shape = "5,3,4"};
    uint8_t *bytes = file_tensor_content(&down);
    int32_t *v = (int32_t *)(void *)bytes;
    char text[64];
    expect_names("models/fused/experts/001", "000\n001\n002\n003\n004\n");
    expect_names("models/fused/experts/001/004", "down_proj\ngate_up_proj\ngate_up_proj_bias\n");
    expect_text_at("models/fused/experts/001/004/down_proj/name",
                   "model.layers.1.mlp.experts.down_proj\n");
    expect_text_at("models/fused/experts/001/004/down_proj/shape", "[3, 4]\n");
    expect_text_at("models/fused/experts/001/004/gate_up_proj_bias/shape", "[6]\n");
    expect_text_at("models/fused/experts/001/004/gate_up_proj_bias/dtype", "BF16\n");
    for (int expert = 0; expert < 5; expert++) {
        char folder[128], path[256];
        snprintf(folder, sizeof(folder), "models/fused/experts/1/%d/down_proj", expert);
        snprintf(path, sizeof(path), "%s/raw", folder);
        expect_bytes_at(path, v + 12 * expert, 48);
        snprintf(path, sizeof(path), "%s/data.npy", folder);
        expect_npy_at(path, v + 12 * expert, 48);
        snprintf(path, sizeof(path), "%s/rows/2.npy", folder);
        expect_npy_at(path, v + 12 * expert + 8, 16);
        snprintf(path, sizeof(path), "%s/at/2,-1", folder);
        snprintf(text, sizeof(text), "%24d\n", v[12 * expert + 11]);
        expect_text_at(path, text);
        snprintf(path, sizeof(path), "%s/at/0,0,0", folder);
        expect_error(path, -ENOENT);
    }
    free(bytes);
}

/* Two codes a byte: an expert may end in the middle of one. */
static void fused_experts_of_half_bytes_have_values_and_bytes_where_they_are_whole(void **state)
{
    (void)state;
    static const uint8_t codes[] = {0x21, 0x43, 0x65};
    static const float values[] = {0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f};
    static const file_tensor tensors[] = {{.name = "m.layers.0.mlp.experts.down_proj",
                                           .dtype = "F4",
                                           .shape = "3,1,2",
                                           .bytes = codes},
                                          {.name = "m.layers.0.mlp.experts.gate_up_proj",
                                           .dtype = "F4",
                                           .shape = "2,3,1",
                                           .bytes = codes}};
    write_safetensors(at("half/model.safetensors"), tensors, 2);
    mount_source(NULL, at("half"));
    expect_bytes_at("models/half/experts/000/001/down_proj/raw", codes + 1, 1);
    expect_npy_at("models/half/experts/000/001/down_proj/data.npy", values + 2, 8);
    expect_error("models/half/experts/000/001/gate_up_proj/raw", -EOPNOTSUPP);
    expect_npy_at("models/half/experts/000/001/gate_up_proj/data.npy", values + 3, 12);
    expect_text_at("models/half/experts/000/001/gate_up_proj/at/2,0", "                       4\n");
    unmount("half");
}

static void where_one_number_names_two_layers_names_are_whole(void **state)
{
    (void)state;
    expect_names("models/stacks/layers", "000\n001\n");
    expect_names("models/stacks/layers/001",
                 "model.decoder.layers.1.layer_norm.weight\n"
                 "model.encoder.layers.1.layer_norm.weight\n"
                 "model.decoder.layers.1.mlp.experts.0.w1.weight\n"
                 "model.encoder.layers.1.mlp.experts.0.w1.weight\nstats.json\n");
    expect_names("models/stacks/experts/001/000",
                 "model.decoder.layers.1.mlp.experts.0.w1.weight\n"
                 "model.encoder.layers.1.mlp.experts.0.w1.weight\n");
}

/* Experts in two places of one layer: roles alone would be the same name twice. */
static void experts_of_two_kinds_in_a_layer_have_names_of_their_own(void **state)
{
    (void)state;
    static const file_tensor tensors[] = {
        {.name = "model.layers.0.mlp.experts.0.w1.weight", .dtype = "U8", .shape = "2"},
        {.name = "model.layers.0.moe.experts.0.w1.weight", .dtype = "U8", .shape = "3"},
        {.name = "model.layers.0.mlp.experts.w1.weight", .dtype = "U8", .shape = "2,1,2"},
        {.name = "model.layers.0.moe.experts.w1.weight", .dtype = "U8", .shape = "1,1,2"},
    };
    write_safetensors(at("two/model.safetensors"), tensors, TM_ARRAY_LEN(tensors));
    mount_source(NULL, at("two"));
    expect_names("models/two/experts/000/000",
                 "model.layers.0.mlp.experts.w1.weight\nmodel.layers.0.moe.experts.w1.weight\n"
                 "w1.weight\nmodel.layers.0.moe.experts.0.w1.weight\n");
    expect_link("models/two/experts/000/000", "w1.weight",
                "../../../tensors/model.layers.0.mlp.experts.0.w1.weight");
    expect_names("models/two/experts/000/001", "model.layers.0.mlp.experts.w1.weight\n");
    assert_int_equal(
        find("models/two/experts/000/000/model.layers.0.moe.experts.w1.weight/raw").size, 2);
    unmount("two");
}

static void an_expert_number_beyond_all_folders_does_no_harm(void **state)
{
    (void)state;
    write_one(at("beyond/model.safetensors"), "model.layers.0.mlp.experts.2147483645.w1.weight");
    mount_source(NULL, at("beyond"));
    list l = list_of(find("models/beyond/experts/000").ino);
    assert_int_equal(l.count, TM_EXPERTS_MAX);
    assert_string_equal(l.entries[l.count - 1].name, "0000016382");
    list_done(&l);
    expect_error("models/beyond/experts/000/2147483645", -ENOENT);
    unmount("beyond");
}

/* ---- Collections ---- */

static void a_folder_of_checkpoints_is_a_folder_of_models(void **state)
{
    (void)state;
    expect_names("models/run", "checkpoint-1000\ncheckpoint-500\npipeline\n");
    expect_names("models/run/pipeline", "unet\nvae\n");
    expect_names("load/run", "checkpoint-1000\ncheckpoint-500\npipeline\nruns\ntrainer.log\n");
    expect_names("load/run/pipeline", "model_index.json\nunet\nvae\n");
    expect_names("load/run/runs", "events\n");
    expect_names("load/run/runs/events", "log.txt\n");
    expect_error("models/run/runs", -ENOENT);
    expect_error("models/run/trainer.log", -ENOENT);
    expect_error("models/run/state", -ENOENT);
    expect_link("models/run/checkpoint-500", "files", "../../../load/run/checkpoint-500");
    expect_link("models/run/pipeline/unet", "files", "../../../../load/run/pipeline/unet");
    assert_int_equal(find("models/run/pipeline/unet/files").ino,
                     find("load/run/pipeline/unet").ino);
    expect_text_at("models/run/checkpoint-500/tensors/model.norm.weight/shape", "[8]\n");
    char *text;
    size_t len;
    text = content_of_path("models/run/pipeline/vae/model.json", &len);
    assert_non_null(strstr(text, "\"name\": \"run/pipeline/vae\""));
    free(text);
}

/* ---- .tmorph/ ---- */

static int write_ctl(const char *command, tm_req *req)
{
    *req = blocking_request();
    tm_chunk chunk = {command, strlen(command), 0};
    int rc = tree->ops->write(tree, find(".tmorph/ctl").ino, &chunk, req);
    assert_in_range(rc + 4096, 0, 4096 + 1); /* an errno, or 1: names may have changed */
    return rc < 0 ? rc : 0;
}

static void ctl_adds_reloads_and_removes(void **state)
{
    (void)state;
    tm_req req;
    char command[FILES_PATH_MAX];
    write_one(at("by ctl/model.safetensors"), "a");
    snprintf(command, sizeof(command), "add by-ctl=%s\n", at("by ctl"));
    assert_int_equal(write_ctl(command, &req), 0);
    uint64_t was = find("models/by-ctl").ino;
    assert_int_equal(write_ctl("reload by-ctl", &req), 0);
    assert_int_not_equal(find("models/by-ctl").ino, was);
    assert_int_equal(write_ctl("remove by-ctl\n", &req), 0);
    expect_error("models/by-ctl", -ENOENT);
    expect_bytes_at(".tmorph/ctl", "", 0);
}

static void blanks_around_the_argument_are_no_part_of_it(void **state)
{
    (void)state;
    tm_req req;
    char command[FILES_PATH_MAX];
    write_one(at("by ctl/ a  b/model.safetensors"), "a");
    static const struct {
        const char *before, *after;
    } rows[] = {
        {"add  w=", ""},       {"add \t w=", "\n"}, {"add\tw=", ""},
        {"add w=", "  \t \n"}, {"add   w=", " "},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        snprintf(command, sizeof(command), "%s%s%s", rows[i].before, at("by ctl/ a  b"),
                 rows[i].after);
        assert_int_equal(write_ctl(command, &req), 0);
        expect_text_at("models/w/state", "ready\n");
        assert_int_equal(write_ctl("remove  w \t\n", &req), 0);
        expect_error("models/w", -ENOENT);
    }
}

static void what_is_no_command_is_refused_with_words(void **state)
{
    (void)state;
    static const struct {
        const char *command, *words;
    } rows[] = {
        {"", "ctl: '': a command and its argument"},
        {"\n", "ctl: '': a command and its argument"},
        {"remove", "ctl: 'remove': a command and its argument"},
        {"remove ", "ctl: 'remove': a command and its argument"},
        {"add \t \n", "ctl: 'add': a command and its argument"},
        {"   ", "ctl: '': a command and its argument"},
        {"remove a\nremove b", "ctl: one command a write"},
        {" add x=/tmp",
         "ctl: no command ''; there are add, remove, reload, budget, drop, index, cancel"},
        {"frob x",
         "ctl: no command 'frob'; there are add, remove, reload, budget, drop, index, cancel"},
        {"add x", "ctl: add takes NAME=SOURCE"},
        {"add x=relative", "ctl: add x: give the source's absolute path"},
        {"add a/b=/tmp", "'a/b' cannot be a name in the mount"},
        {"add x= /tmp", "ctl: add x: give the source's absolute path"},
        {"add =/tmp", "'' cannot be a name in the mount"},
        {"remove nothing", "'nothing' is not mounted"},
        {"reload nothing", "'nothing' is not mounted"},
        {"remove run/pipeline", "'run/pipeline' is not mounted"},
        {"drop nothing", "'nothing' is not mounted"},
        {"budget", "ctl: 'budget': a command and its argument"},
        {"budget 0", "ctl: budget 0: a size such as 512M or 8G is needed"},
        {"budget much", "ctl: budget much: a size such as 512M or 8G is needed"},
    };
    tm_req req;
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        assert_int_equal(write_ctl(rows[i].command, &req), -EINVAL);
        assert_string_equal(tm_req_words(&req), rows[i].words);
    }
    char longest[9000];
    memset(longest, 'x', sizeof(longest));
    const struct {
        const char *bytes;
        size_t len;
    } unfit[] = {{longest, sizeof(longest)}, {"remove llama\0x", 14}};
    for (size_t i = 0; i < TM_ARRAY_LEN(unfit); i++) {
        req = blocking_request();
        assert_int_equal(tree->ops->write(tree, find(".tmorph/ctl").ino,
                                          &(tm_chunk){unfit[i].bytes, unfit[i].len, 0}, &req),
                         -EINVAL);
        assert_string_equal(tm_req_words(&req), "ctl: not a command");
    }
}

static void transport_has_a_row_for_each_file_of_load(void **state)
{
    (void)state;
    size_t len;
    write_one(at("tab\there/model.safetensors"), "a");
    mount_source("tab\there", at("tab\there"));
    char *text = content_of_path(".tmorph/transport.tsv", &len);
    assert_int_equal(strncmp(text, "path\tway\n", 9), 0);
    assert_non_null(strstr(text, "\nload/llama/tokenizer/vocab.txt\tpread\n"));
    assert_non_null(strstr(text, "\nload/tab%09here/model.safetensors\tpread\n"));
    assert_null(strstr(text, "\nload/llama/tokenizer\t"));
    free(text);
    unmount("tab\there");
}

/* How often PART stands in transport.tsv. */
static unsigned count_in_transport(const char *part)
{
    size_t len;
    unsigned count = 0;
    char *text = content_of_path(".tmorph/transport.tsv", &len);
    for (const char *p = text; (p = strstr(p, part)); p++)
        count++;
    free(text);
    return count;
}

static void transport_has_the_files_of_members_that_were_looked_up(void **state)
{
    (void)state;
    write_run("seen");
    mount_source(NULL, at("seen"));
    assert_int_equal(count_in_transport("\nload/seen/"), 1);
    assert_int_equal(count_in_transport("\nload/seen/trainer.log\tpread\n"), 1);
    find("models/seen/checkpoint-500");
    find("load/seen/runs");
    assert_int_equal(count_in_transport("\nload/seen/checkpoint-500/config.json\tpread\n"), 1);
    assert_int_equal(count_in_transport("\nload/seen/runs/events/log.txt\tpread\n"), 1);
    assert_int_equal(count_in_transport("\nload/seen/checkpoint-1000/"), 0);
    find("load/seen/pipeline");
    assert_int_equal(count_in_transport("\nload/seen/pipeline/"), 1);
    find("load/seen/pipeline/vae");
    assert_int_equal(count_in_transport("\nload/seen/pipeline/vae/model.safetensors\tpread\n"), 1);
    assert_int_equal(count_in_transport("\nload/seen/pipeline/unet/"), 0);
    unmount("seen");
    assert_int_equal(count_in_transport("\nload/seen/"), 0);
}

static void failures_are_lines_of_the_log(void **state)
{
    (void)state;
    size_t len;
    tree->ops->failed(tree, TM_INO_ROOT, -EBADMSG, "words about a read");
    char *text = content_of_path(".tmorph/log", &len);
    assert_non_null(strstr(text, "words about a read (EBADMSG)"));
    free(text);
    assert_true(find(".tmorph/log").live);
    expect_names(".tmorph",
                 "version\nlog\nctl\ntransport.tsv\nlanes.tsv\nresidency.tsv\nresidency\n");
    expect_names(".tmorph/residency", "budget\nused\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_has_these_entries),
        cmocka_unit_test(an_absent_head_is_a_link_by_name_to_the_embedding),
        cmocka_unit_test(model_json_has_the_fingerprint_and_is_as_large_as_it_says),
        cmocka_unit_test(a_fingerprint_that_cannot_be_computed_is_null),
        cmocka_unit_test(layers_are_padded_and_resolve_unpadded_too),
        cmocka_unit_test(layers_of_any_number_are_found),
        cmocka_unit_test(experts_of_their_own_are_links_by_role),
        cmocka_unit_test(fused_experts_are_folders_of_their_slices),
        cmocka_unit_test(fused_experts_of_half_bytes_have_values_and_bytes_where_they_are_whole),
        cmocka_unit_test(where_one_number_names_two_layers_names_are_whole),
        cmocka_unit_test(experts_of_two_kinds_in_a_layer_have_names_of_their_own),
        cmocka_unit_test(an_expert_number_beyond_all_folders_does_no_harm),
        cmocka_unit_test(a_folder_of_checkpoints_is_a_folder_of_models),
        cmocka_unit_test(ctl_adds_reloads_and_removes),
        cmocka_unit_test(blanks_around_the_argument_are_no_part_of_it),
        cmocka_unit_test(what_is_no_command_is_refused_with_words),
        cmocka_unit_test(transport_has_a_row_for_each_file_of_load),
        cmocka_unit_test(transport_has_the_files_of_members_that_were_looked_up),
        cmocka_unit_test(failures_are_lines_of_the_log),
    };
    return cmocka_run_group_tests_name("tree_folders", tests, begin, tree_end);
}
