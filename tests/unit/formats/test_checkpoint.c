/* A folder as one model: which files count, and what is said about those that do not fit. */
#include "formats/checkpoint.h"

#include "core/read.h"
#include "formats/view_npy.h"
#include "tests/unit/fs/checkpoint_files.h"

static tm_sched *sched;
static tm_file_set *file_set;

static int begin(void **state)
{
    if (files_new(state) < 0 || tm_file_set_new(8, &file_set) < 0)
        return -1;
    return tm_sched_new(&(tm_sched_params){.workers = 2, .io = 2}, &sched);
}

static int end(void **state)
{
    tm_sched_free(sched);
    tm_file_set_free(file_set);
    return files_free(state);
}

/* ---- Opening, and what came of it as text ---- */

static tm_req blocking_request(void)
{
    tm_req req;
    tm_req_init(&req, TM_LANE_VISIBLE);
    req.may_block = true;
    return req;
}

static tm_listing list_source(const char *path)
{
    tm_listing listing;
    tm_req req = blocking_request();
    assert_int_equal(tm_listing_read(path, TM_LISTING_DEPTH_MAX, &req, &listing), 0);
    return listing;
}

/* Takes LISTING. */
static int open_listing(tm_listing *listing, tm_req *req, tm_model **ret)
{
    tm_checkpoint_params params = {sched, file_set, listing, "SOURCE"};
    int rc = tm_checkpoint_open(&params, req, ret);
    tm_listing_done(listing);
    return rc;
}

static tm_model *open_model(const char *path)
{
    tm_model *model;
    tm_req req = blocking_request();
    tm_listing listing = list_source(path);
    assert_int_equal(open_listing(&listing, &req, &model), 0);
    assert_string_equal(tm_req_words(&req), "");
    return model;
}

static void expect_text(tm_text *text, const char *expected)
{
    assert_int_equal(tm_text_error(text), 0);
    assert_string_equal(text->bytes ? text->bytes : "", expected);
    tm_text_done(text);
}

/* "NAME FILE" of each row, with '!' behind it where it is refused. */
static void expect_rows(const tm_model *model, const char *expected)
{
    tm_text text;
    tm_text_init(&text);
    for (uint32_t i = 0; i < model->table.count; i++) {
        const tm_tensor_row *row = &model->table.rows[i];
        tm_text_append(&text, tm_row_name(&model->table, row), row->name_len);
        tm_text_printf(&text, " %s%s\n", model->files[row->file].name,
                       row->flags & TM_ROW_REFUSED ? " !" : "");
    }
    expect_text(&text, expected);
}

/* Each line of the diagnosis behind "D " (damage) or "W " (warning). */
static void expect_diagnosis(const tm_model *model, const char *expected)
{
    tm_text text;
    tm_text_init(&text);
    for (size_t i = 0; i < model->diag.count; i++)
        tm_text_printf(&text, "%s %s\n", model->diag.lines[i].severity == TM_DAMAGE ? "D" : "W",
                       model->diag.lines[i].words);
    expect_text(&text, expected);
}

/* "NAME" of each file, with "-" behind a missing and "!" behind a damaged one. */
static void expect_files(const tm_model *model, const char *expected)
{
    tm_text text;
    tm_text_init(&text);
    for (uint32_t i = 0; i < model->file_count; i++)
        tm_text_printf(&text, "%s%s%s\n", model->files[i].name, model->files[i].blob ? "" : " -",
                       model->files[i].damaged ? " !" : "");
    expect_text(&text, expected);
}

static void expect_unused(const tm_model *model, const char *expected)
{
    tm_text text;
    tm_text_init(&text);
    for (uint32_t i = 0; i < model->unused_count; i++)
        tm_text_printf(&text, "%s\n", model->unused[i]);
    expect_text(&text, expected);
}

static uint32_t row_of(const tm_model *model, const char *name)
{
    uint32_t row = 0;
    assert_true(tm_tensor_table_find(&model->table, name, strlen(name), &row));
    return row;
}

/* The stored bytes of tensor T are those that were written. */
static void expect_content(const tm_model *model, const file_tensor *t)
{
    tm_blob *blob;
    tm_req req = blocking_request();
    uint8_t *expected = file_tensor_content(t), *got;
    assert_int_equal(tm_model_raw(model, row_of(model, t->name), &req, &blob), 0);
    assert_int_equal(blob->size, file_tensor_bytes(t));
    got = malloc(blob->size + 1);
    assert_non_null(got);
    assert_int_equal(tm_read_wait(sched, blob, 0, blob->size, got, &req), 0);
    assert_memory_equal(got, expected, blob->size);
    tm_blob_unref(blob);
    free(got);
    free(expected);
}

/* Neither bytes nor values of NAME are given, and the words say why. */
static void expect_refused(const tm_model *model, const char *name, const char *words)
{
    tm_blob *blob;
    tm_tensor *values;
    tm_req raw = blocking_request(), req = blocking_request();
    assert_int_equal(tm_model_raw(model, row_of(model, name), &raw, &blob), -EBADMSG);
    assert_string_equal(tm_req_words(&raw), words);
    assert_int_equal(tm_model_values(model, row_of(model, name), &req, &values), -EBADMSG);
    assert_string_equal(tm_req_words(&req), words);
}

/* ---- Which weights count ---- */

static void the_index_decides_and_other_weights_are_named_unused(void **state)
{
    (void)state;
    static const index_entry index[] = {{"b", "two.safetensors"}, {"a", "sub/one.safetensors"}};
    write_one(at("chosen/sub/one.safetensors"), "a");
    write_one(at("chosen/two.safetensors"), "b");
    write_one(at("chosen/model.safetensors"), "c");
    write_one(at("chosen/sub/three.safetensors"), "d");
    write_text(at("chosen/pytorch_model.bin"), "");
    write_text(at("chosen/training_args.bin"), "");
    write_text(at("chosen/onnx/model.onnx"), "");
    write_text(at("chosen/tokenizer.json"), "{}");
    write_index(at("chosen/model.safetensors.index.json"), index, 2);
    tm_model *model = open_model(at("chosen"));
    expect_files(model, "two.safetensors\nsub/one.safetensors\n");
    expect_rows(model, "a sub/one.safetensors\nb two.safetensors\n");
    expect_unused(model, "model.safetensors\nonnx/model.onnx\npytorch_model.bin\n"
                         "sub/three.safetensors\n");
    expect_diagnosis(model, "");
    tm_model_unref(model);
}

static void without_an_index_a_well_known_name_counts_alone(void **state)
{
    (void)state;
    write_one(at("named/adapter_model.safetensors"), "a");
    write_one(at("named/other.safetensors"), "b");
    tm_model *model = open_model(at("named"));
    expect_rows(model, "a adapter_model.safetensors\n");
    expect_unused(model, "other.safetensors\n");
    assert_string_equal(model->source, "SOURCE");
    assert_string_equal(model->format, "safetensors");
    tm_model_unref(model);
}

static void else_every_safetensors_of_the_folder_counts(void **state)
{
    (void)state;
    write_one(at("all/x.safetensors"), "b");
    write_one(at("all/y.safetensors"), "a");
    write_one(at("all/sub/z.safetensors"), "c");
    tm_model *model = open_model(at("all"));
    expect_files(model, "x.safetensors\ny.safetensors\n");
    expect_rows(model, "a y.safetensors\nb x.safetensors\n");
    expect_unused(model, "sub/z.safetensors\n");
    tm_model_unref(model);
}

static void a_folder_without_weights_is_no_checkpoint(void **state)
{
    (void)state;
    static const char *const files[] = {"config.json", "pytorch_model.bin",
                                        "sub/model.safetensors"};
    for (size_t i = 0; i < TM_ARRAY_LEN(files); i++)
        write_text(at("none/%s", files[i]), "");
    tm_listing listing = list_source(at("none"));
    assert_false(tm_checkpoint_has_weights(&listing));
    tm_model *model;
    tm_req req = blocking_request();
    assert_int_equal(open_listing(&listing, &req, &model), -ENOENT);
    assert_string_equal(tm_req_words(&req), "SOURCE: no weights that can be read");
}

static void a_file_is_a_checkpoint_by_itself(void **state)
{
    (void)state;
    write_one(at("single/x.safetensors"), "a");
    write_one(at("single/model.safetensors"), "b");
    write_text(at("single/config.json"), "{\"architectures\": [\"X\"]}");
    tm_model *model = open_model(at("single/x.safetensors"));
    expect_rows(model, "a x.safetensors\n");
    expect_unused(model, "");
    assert_null(model->architecture);
    tm_model_unref(model);
}

static void a_file_that_is_something_else_says_what(void **state)
{
    (void)state;
    write_text(at("else/readme.txt"), "<!DOCTYPE html><html><body>404</body></html>");
    tm_model *model = open_model(at("else/readme.txt"));
    expect_rows(model, "");
    expect_files(model, "readme.txt !\n");
    assert_true(model->diag.damaged);
    assert_int_equal(model->diag.count, 1);
    assert_non_null(strstr(model->diag.lines[0].words, "readme.txt: "));
    assert_non_null(strstr(model->diag.lines[0].words, "HTML"));
    tm_model_unref(model);
}

static void the_cache_layout_is_read_through_its_links(void **state)
{
    (void)state;
    static const file_tensor tensor = {.name = "a", .dtype = "F32", .shape = "2,3"};
    write_safetensors(at("models--o--n/blobs/0123"), &tensor, 1);
    write_text(at("models--o--n/refs/main"), "4567");
    make_link("../../blobs/0123", at("models--o--n/snapshots/4567/model.safetensors"));
    tm_model *model = open_model(at("models--o--n"));
    expect_rows(model, "a model.safetensors\n");
    expect_content(model, &tensor);
    tm_model_unref(model);
}

/* ---- Indexes that do not fit ---- */

static void a_missing_shard_leaves_the_others_readable(void **state)
{
    (void)state;
    static const file_tensor there = {.name = "a", .dtype = "F32", .shape = "2,3"};
    static const index_entry index[] = {
        {"a", "1.safetensors"}, {"b", "2.safetensors"}, {"c", "2.safetensors"}};
    write_safetensors(at("missing/1.safetensors"), &there, 1);
    write_index(at("missing/model.safetensors.index.json"), index, 3);
    tm_model *model = open_model(at("missing"));
    expect_files(model, "1.safetensors\n2.safetensors - !\n");
    expect_rows(model, "a 1.safetensors\n");
    expect_diagnosis(model, "D 2.safetensors: missing; the 2 tensors that the index maps to it "
                            "cannot be shown\n");
    expect_content(model, &there);
    assert_true(model->diag.damaged);
    tm_model_unref(model);
}

static void a_folder_under_a_shards_name_is_no_shard(void **state)
{
    (void)state;
    static const index_entry index[] = {{"a", "1.safetensors"}, {"b", "2.safetensors"}};
    char expected[FILES_PATH_MAX + 100];
    write_one(at("folder/1.safetensors"), "a");
    make_folder(at("folder/2.safetensors"));
    write_index(at("folder/model.safetensors.index.json"), index, 2);
    tm_model *model = open_model(at("folder"));
    snprintf(expected, sizeof(expected), "D 2.safetensors: %s: not a regular file\n",
             at("folder/2.safetensors"));
    expect_diagnosis(model, expected);
    expect_rows(model, "a 1.safetensors\n");
    tm_model_unref(model);
}

/* Two shards that both have "twice", the second with other bytes. */
static void write_twice(const char *folder)
{
    static const float other[] = {1, 2, 3};
    const file_tensor first[] = {{.name = "a", .dtype = "F32", .shape = "3"},
                                 {.name = "twice", .dtype = "F32", .shape = "3"}};
    const file_tensor second[] = {{.name = "b", .dtype = "F32", .shape = "3"},
                                  {.name = "twice", .dtype = "F32", .shape = "3", .bytes = other}};
    write_safetensors(at("%s/1.safetensors", folder), first, 2);
    write_safetensors(at("%s/2.safetensors", folder), second, 2);
}

static void a_tensor_in_two_shards_is_the_one_that_the_index_names(void **state)
{
    (void)state;
    static const float other[] = {1, 2, 3};
    const file_tensor twice = {.name = "twice", .dtype = "F32", .shape = "3", .bytes = other};
    static const index_entry index[] = {
        {"a", "1.safetensors"}, {"b", "2.safetensors"}, {"twice", "2.safetensors"}};
    write_twice("twice");
    write_index(at("twice/model.safetensors.index.json"), index, 3);
    tm_model *model = open_model(at("twice"));
    expect_rows(model, "a 1.safetensors\nb 2.safetensors\ntwice 2.safetensors\n");
    expect_diagnosis(model, "W 1.safetensors: tensor 'twice' stands here too; the index maps it to "
                            "2.safetensors\n");
    expect_content(model, &twice);
    assert_false(model->diag.damaged);
    tm_model_unref(model);
}

static void a_tensor_in_two_shards_without_an_index_is_refused(void **state)
{
    (void)state;
    static const file_tensor a = {.name = "a", .dtype = "F32", .shape = "3"};
    write_twice("unclear");
    tm_model *model = open_model(at("unclear"));
    expect_rows(model, "a 1.safetensors\nb 2.safetensors\ntwice 1.safetensors !\n");
    expect_diagnosis(model, "D 2.safetensors: tensor 'twice' stands in 1.safetensors too, and no "
                            "index says which counts\n");
    expect_refused(model, "twice", "1.safetensors: damaged, so tensor 'twice' cannot be read");
    expect_content(model, &a);
    tm_model_unref(model);
}

static void a_tensor_in_three_shards_gets_a_line_for_each_that_does_not_count(void **state)
{
    (void)state;
    static const index_entry index[] = {
        {"x", "2.safetensors"}, {"p", "1.safetensors"}, {"q", "3.safetensors"}};
    for (int i = 1; i <= 3; i++)
        write_one(at("thrice/%d.safetensors", i), "x");
    write_index(at("thrice/model.safetensors.index.json"), index, 3);
    tm_model *model = open_model(at("thrice"));
    expect_rows(model, "x 2.safetensors\n");
    expect_diagnosis(model,
                     "W 1.safetensors: tensor 'x' stands here too; the index maps it to "
                     "2.safetensors\n"
                     "W 3.safetensors: tensor 'x' stands here too; the index maps it to "
                     "2.safetensors\n"
                     "W the index maps 2 tensors to shards that do not have them, such as 'p'\n");
    tm_model_unref(model);
}

static void a_stale_index_is_a_warning_that_names_one_tensor(void **state)
{
    (void)state;
    static const index_entry index[] = {{"a", "1.safetensors"},
                                        {"gone.weight", "1.safetensors"},
                                        {"zz.the.last.of.the.names", "1.safetensors"}};
    write_one(at("stale/1.safetensors"), "a");
    write_index(at("stale/model.safetensors.index.json"), index, 2);
    tm_model *model = open_model(at("stale"));
    expect_rows(model, "a 1.safetensors\n");
    expect_diagnosis(model, "W the index maps 1 tensors to shards that do not have them, such as "
                            "'gone.weight'\n");
    tm_model_unref(model);
    write_index(at("stale/model.safetensors.index.json"), index, 3);
    model = open_model(at("stale"));
    expect_diagnosis(model, "W the index maps 2 tensors to shards that do not have them, such as "
                            "'gone.weight'\n");
    tm_model_unref(model);
}

static void a_stale_name_of_any_length_and_bytes_is_shown_as_a_name(void **state)
{
    (void)state;
    char name[1001], expected[1200];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    name[3] = '\n';
    const index_entry index[] = {{"a", "1.safetensors"}, {name, "1.safetensors"}};
    char words[TM_WORDS_NAME_MAX];
    write_one(at("long/1.safetensors"), "a");
    write_index(at("long/model.safetensors.index.json"), index, 2);
    tm_model *model = open_model(at("long"));
    snprintf(expected, sizeof(expected),
             "W the index maps 1 tensors to shards that do not have them, such as '%s'\n",
             tm_words_name(name, strlen(name), words));
    expect_diagnosis(model, expected);
    tm_model_unref(model);
}

static void an_incomplete_index_is_a_warning_and_headers_win(void **state)
{
    (void)state;
    static const file_tensor tensors[] = {{.name = "a", .dtype = "U8", .shape = "3"},
                                          {.name = "b", .dtype = "U8", .shape = "3"},
                                          {.name = "c", .dtype = "U8", .shape = "3"}};
    static const index_entry index[] = {{"b", "1.safetensors"}};
    write_safetensors(at("incomplete/1.safetensors"), tensors, 3);
    write_index(at("incomplete/model.safetensors.index.json"), index, 1);
    tm_model *model = open_model(at("incomplete"));
    expect_rows(model, "a 1.safetensors\nb 1.safetensors\nc 1.safetensors\n");
    expect_diagnosis(model, "W 2 tensors stand in the shards, but not in the index\n");
    for (size_t i = 0; i < 3; i++)
        expect_content(model, &tensors[i]);
    tm_model_unref(model);
}

static void an_index_that_maps_a_tensor_to_the_wrong_shard_does_not_hide_it(void **state)
{
    (void)state;
    static const index_entry index[] = {
        {"a", "2.safetensors"}, {"b", "2.safetensors"}, {"c", "1.safetensors"}};
    write_one(at("wrong/1.safetensors"), "a");
    write_one(at("wrong/2.safetensors"), "b");
    write_index(at("wrong/model.safetensors.index.json"), index, 3);
    tm_model *model = open_model(at("wrong"));
    expect_rows(model, "a 1.safetensors\nb 2.safetensors\n");
    expect_diagnosis(model, "W the index maps 2 tensors to shards that do not have them, such as "
                            "'a'\n");
    tm_model_unref(model);
}

/* What an index says that is not followed, and the words about it. */
static void an_index_that_cannot_be_followed_is_damage_and_names_decide(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"{\"weight_map\":{\"a\":\"../1.safetensors\"}}",
         "file name '../1.safetensors' has an empty, '.' or '..' component"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "file name '/etc/passwd' is absolute"},
        {"{\"weight_map\":{\"a\":\"sub/../../x\"}}",
         "file name 'sub/../../x' has an empty, '.' or '..' component"},
        {"{\"weight_map\":{}", NULL},
        {"", NULL},
        {"{}", "it has no weight_map"},
        {"{\"weight_map\":{\"a\":\"x\",\"a\":\"x\"}}", "tensor 'a' stands twice"},
    };
    write_one(at("outside/folder/1.safetensors"), "a");
    write_one(at("outside/1.safetensors"), "secret");
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        char expected[512];
        write_text(at("outside/folder/model.safetensors.index.json"), rows[i].text);
        tm_model *model = open_model(at("outside/folder"));
        expect_rows(model, "a 1.safetensors\n");
        assert_int_equal(model->diag.count, 1);
        assert_true(model->diag.damaged);
        snprintf(expected, sizeof(expected), "model.safetensors.index.json: %s",
                 rows[i].words ? rows[i].words : "");
        if (strncmp(model->diag.lines[0].words, expected,
                    strlen(expected) + (rows[i].words != NULL)) != 0)
            fail_msg("%s", model->diag.lines[0].words);
        tm_model_unref(model);
    }
}

static void an_index_without_any_shard_is_damage(void **state)
{
    (void)state;
    static const index_entry index[] = {{"a", "1.safetensors"}};
    write_index(at("alone/model.safetensors.index.json"), index, 1);
    tm_model *model = open_model(at("alone"));
    expect_rows(model, "");
    expect_files(model, "1.safetensors - !\n");
    expect_diagnosis(model, "D 1.safetensors: missing; the 1 tensors that the index maps to it "
                            "cannot be shown\n");
    tm_model_unref(model);
}

static void an_empty_map_gives_a_model_without_tensors(void **state)
{
    (void)state;
    write_text(at("void/model.safetensors.index.json"), "{\"weight_map\":{}}");
    write_one(at("void/other.safetensors"), "a");
    tm_model *model = open_model(at("void"));
    expect_rows(model, "");
    expect_files(model, "");
    expect_unused(model, "other.safetensors\n");
    tm_model_unref(model);
}

/* ---- Damaged shards ---- */

static void a_shard_cut_short_refuses_only_what_lies_beyond_its_end(void **state)
{
    (void)state;
    static const file_tensor tensors[] = {{.name = "whole", .dtype = "U8", .shape = "100"},
                                          {.name = "cut", .dtype = "U8", .shape = "100"},
                                          {.name = "gone", .dtype = "U8", .shape = "100"}};
    static const file_tensor good = {.name = "good", .dtype = "F32", .shape = "2,3"};
    struct stat st;
    write_safetensors(at("cut/1.safetensors"), tensors, 3);
    write_safetensors(at("cut/2.safetensors"), &good, 1);
    assert_int_equal(stat(at("cut/1.safetensors"), &st), 0);
    assert_int_equal(truncate(at("cut/1.safetensors"), st.st_size - 150), 0);
    tm_model *model = open_model(at("cut"));
    expect_files(model, "1.safetensors !\n2.safetensors\n");
    expect_rows(model, "cut 1.safetensors !\ngone 1.safetensors !\ngood 2.safetensors\n"
                       "whole 1.safetensors\n");
    expect_content(model, &tensors[0]);
    expect_content(model, &good);
    expect_refused(model, "cut", "1.safetensors: damaged, so tensor 'cut' cannot be read");
    expect_refused(model, "gone", "1.safetensors: damaged, so tensor 'gone' cannot be read");
    assert_true(model->diag.damaged);
    tm_model_unref(model);
}

static void a_shard_without_a_header_leaves_the_others_and_is_not_called_stale(void **state)
{
    (void)state;
    static const file_tensor good = {.name = "b", .dtype = "F32", .shape = "2,3"};
    static const index_entry index[] = {{"a", "1.safetensors"}, {"b", "2.safetensors"}};
    static const char *const contents[] = {
        "", "12345", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
        "\x02\0\0\0\0\0\0\0[]"};
    write_safetensors(at("headless/2.safetensors"), &good, 1);
    write_index(at("headless/model.safetensors.index.json"), index, 2);
    for (size_t i = 0; i < TM_ARRAY_LEN(contents); i++) {
        write_text(at("headless/1.safetensors"), contents[i]);
        tm_model *model = open_model(at("headless"));
        expect_files(model, "1.safetensors !\n2.safetensors\n");
        expect_rows(model, "b 2.safetensors\n");
        expect_content(model, &good);
        assert_int_equal(model->diag.count, 1);
        assert_int_equal(model->diag.lines[0].severity, TM_DAMAGE);
        assert_int_equal(strncmp(model->diag.lines[0].words, "1.safetensors: ", 15), 0);
        tm_model_unref(model);
    }
}

static void a_shard_that_vanished_since_the_listing_is_damage(void **state)
{
    (void)state;
    char expected[FILES_PATH_MAX + 100];
    write_one(at("vanished/1.safetensors"), "a");
    write_one(at("vanished/2.safetensors"), "b");
    tm_listing listing = list_source(at("vanished"));
    assert_int_equal(unlink(at("vanished/1.safetensors")), 0);
    tm_model *model;
    tm_req req = blocking_request();
    assert_int_equal(open_listing(&listing, &req, &model), 0);
    expect_rows(model, "b 2.safetensors\n");
    expect_files(model, "1.safetensors - !\n2.safetensors\n");
    snprintf(expected, sizeof(expected), "D 1.safetensors: %s: No such file or directory\n",
             at("vanished/1.safetensors"));
    expect_diagnosis(model, expected);
    tm_model_unref(model);
}

static void a_cancelled_open_is_no_model(void **state)
{
    (void)state;
    write_one(at("cancelled/model.safetensors"), "a");
    tm_listing listing = list_source(at("cancelled"));
    tm_model *model;
    tm_req req = blocking_request();
    atomic_store(&req.cancelled, true);
    assert_int_equal(open_listing(&listing, &req, &model), -EINTR);
}

/* ---- What stands beside the weights ---- */

static void the_config_gives_architecture_and_tied_head(void **state)
{
    (void)state;
    const char *alias;
    uint32_t row;
    write_one(at("tied/model.safetensors"), "model.embed_tokens.weight");
    write_text(at("tied/config.json"), "{\"architectures\": [\"LlamaForCausalLM\"]}");
    tm_model *model = open_model(at("tied"));
    assert_string_equal(model->architecture, "LlamaForCausalLM");
    assert_true(tm_model_tied(model, &alias, &row));
    assert_string_equal(alias, "lm_head.weight");
    assert_int_equal(row, 0);
    tm_model_unref(model);
    assert_int_equal(unlink(at("tied/config.json")), 0);
    model = open_model(at("tied"));
    assert_null(model->architecture);
    assert_false(tm_model_tied(model, &alias, &row));
    tm_model_unref(model);
}

static void a_config_that_cannot_be_used_is_a_warning(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "{", "[]x", "hello", "\xff\xfe"};
    write_one(at("badconfig/model.safetensors"), "a");
    for (size_t i = 0; i < TM_ARRAY_LEN(texts); i++) {
        write_text(at("badconfig/config.json"), texts[i]);
        tm_model *model = open_model(at("badconfig"));
        expect_rows(model, "a model.safetensors\n");
        assert_int_equal(model->diag.count, 1);
        assert_int_equal(model->diag.lines[0].severity, TM_WARNING);
        if (strncmp(model->diag.lines[0].words, "config.json:", 12) != 0)
            fail_msg("%s", model->diag.lines[0].words);
        assert_false(model->diag.damaged);
        tm_model_unref(model);
    }
}

static void a_config_of_any_size_or_kind_does_no_harm(void **state)
{
    (void)state;
    write_one(at("hugeconfig/model.safetensors"), "a");
    write_text(at("hugeconfig/config.json"), "{}");
    assert_int_equal(truncate(at("hugeconfig/config.json"), (16 << 20) + 1), 0);
    tm_model *model = open_model(at("hugeconfig"));
    assert_int_equal(model->diag.count, 1);
    assert_int_equal(model->diag.lines[0].severity, TM_WARNING);
    tm_model_unref(model);
    assert_int_equal(unlink(at("hugeconfig/config.json")), 0);
    write_text(at("hugeconfig/config.json/inside"), "{}");
    model = open_model(at("hugeconfig"));
    expect_diagnosis(model, "");
    tm_model_unref(model);
}

static void a_config_that_vanished_since_the_listing_is_a_warning(void **state)
{
    (void)state;
    char expected[FILES_PATH_MAX + 100];
    write_one(at("noconfig/model.safetensors"), "a");
    write_text(at("noconfig/config.json"), "{}");
    tm_listing listing = list_source(at("noconfig"));
    assert_int_equal(unlink(at("noconfig/config.json")), 0);
    tm_model *model;
    tm_req req = blocking_request();
    assert_int_equal(open_listing(&listing, &req, &model), 0);
    snprintf(expected, sizeof(expected), "W config.json: %s: No such file or directory\n",
             at("noconfig/config.json"));
    expect_diagnosis(model, expected);
    tm_model_unref(model);
}

static void metadata_that_every_shard_repeats_stands_once(void **state)
{
    (void)state;
    static const file_tensor a = {.name = "a", .dtype = "U8", .shape = "1"};
    static const file_tensor b = {.name = "b", .dtype = "U8", .shape = "1"};
    write_safetensors_with(at("meta/1.safetensors"), &a, 1,
                           "{\"format\":\"pt\",\"one\":\"1\",\"differs\":\"x\"}");
    write_safetensors_with(at("meta/2.safetensors"), &b, 1,
                           "{\"format\":\"pt\",\"two\":\"2\",\"differs\":\"y\"}");
    tm_model *model = open_model(at("meta"));
    tm_text text;
    tm_text_init(&text);
    for (size_t i = 0; i < model->metadata.count; i++)
        tm_text_printf(&text, "%s=%s\n", model->metadata.pairs[i].key,
                       model->metadata.pairs[i].value);
    expect_text(&text, "format=pt\none=1\ndiffers=x\ntwo=2\n");
    tm_model_unref(model);
}

/* ---- Scaled values through the whole stack ---- */

static float e4m3(uint8_t code)
{
    int exponent = code >> 3 & 15, mantissa = code & 7;
    float size = exponent ? (float)(8 + mantissa) / 8.0f : (float)mantissa / 8.0f;
    for (int e = exponent ? exponent - 7 : -6; e != 0; e += e < 0 ? 1 : -1)
        size = e < 0 ? size / 2 : size * 2;
    return code & 128 ? -size : size;
}

enum {
    ROWS = 5,
    COLS = 7,
    BLOCK_ROWS = 2,
    BLOCK_COLS = 3,
    GRID_COLS = (COLS + BLOCK_COLS - 1) / BLOCK_COLS,
};

/* The f32 values of NAME, malloc'ed. */
static float *values_of(const tm_model *model, const char *name, uint64_t count)
{
    tm_tensor *values;
    tm_blob *npy;
    tm_req req = blocking_request();
    float *ret = tm_new_array(count, sizeof(*ret));
    assert_non_null(ret);
    assert_int_equal(tm_model_values(model, row_of(model, name), &req, &values), 0);
    assert_int_equal(tm_model_values_dtype(model, row_of(model, name)), TM_F32);
    assert_int_equal(tm_view_npy_new(values, &npy), 0);
    assert_true(npy->size > 4 * count);
    assert_int_equal(tm_read_wait(sched, npy, npy->size - 4 * count, 4 * count, ret, &req), 0);
    tm_blob_unref(npy);
    tm_tensor_unref(values);
    return ret;
}

static void scales_of_another_shard_multiply_blocks_of_codes(void **state)
{
    (void)state;
    static const float scales[] = {0.5f, 3.0f, 0.1f, 1e-5f, 7.25f, 1000.0f, 0.3f, 0.7f, 1.5f};
    uint8_t codes[ROWS * COLS];
    for (int i = 0; i < ROWS * COLS; i++)
        codes[i] = (uint8_t)(i * 53 % 127 + (i % 2 ? 128 : 0));
    const file_tensor weight = {
        .name = "model.w.weight", .dtype = "F8_E4M3", .shape = "5,7", .bytes = codes};
    const file_tensor scale = {
        .name = "model.w.weight_scale_inv", .dtype = "F32", .shape = "3,3", .bytes = scales};
    write_safetensors(at("fp8/1.safetensors"), &weight, 1);
    write_safetensors(at("fp8/2.safetensors"), &scale, 1);
    write_text(at("fp8/config.json"), "{\"quantization_config\": {\"quant_method\": \"fp8\", "
                                      "\"weight_block_size\": [2, 3]}}");
    tm_model *model = open_model(at("fp8"));
    float *values = values_of(model, "model.w.weight", ROWS * COLS);
    for (int row = 0; row < ROWS; row++)
        for (int col = 0; col < COLS; col++) {
            float factor = scales[row / BLOCK_ROWS * GRID_COLS + col / BLOCK_COLS];
            float expected = e4m3(codes[row * COLS + col]) * factor;
            assert_memory_equal(&values[row * COLS + col], &expected, sizeof(expected));
        }
    free(values);
    expect_content(model, &weight);
    expect_content(model, &scale);
    tm_model_unref(model);
}

static void codes_whose_scale_is_refused_are_refused_too(void **state)
{
    (void)state;
    static const float scale[] = {0.5f};
    const file_tensor weight = {.name = "m.weight", .dtype = "F8_E4M3", .shape = "4,4"};
    const file_tensor scales = {
        .name = "m.weight_scale", .dtype = "F32", .shape = "1", .bytes = scale};
    tm_tensor *values;
    struct stat st;
    write_safetensors(at("fp8cut/1.safetensors"), &weight, 1);
    write_safetensors(at("fp8cut/2.safetensors"), &scales, 1);
    assert_int_equal(stat(at("fp8cut/2.safetensors"), &st), 0);
    assert_int_equal(truncate(at("fp8cut/2.safetensors"), st.st_size - 1), 0);
    tm_model *model = open_model(at("fp8cut"));
    tm_req req = blocking_request();
    expect_rows(model, "m.weight 1.safetensors\nm.weight_scale 2.safetensors !\n");
    assert_int_equal(tm_model_values(model, row_of(model, "m.weight"), &req, &values), -EBADMSG);
    assert_string_equal(tm_req_words(&req),
                        "2.safetensors: damaged, so tensor 'm.weight_scale' cannot be read");
    expect_content(model, &weight);
    tm_model_unref(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_index_decides_and_other_weights_are_named_unused),
        cmocka_unit_test(without_an_index_a_well_known_name_counts_alone),
        cmocka_unit_test(else_every_safetensors_of_the_folder_counts),
        cmocka_unit_test(a_folder_without_weights_is_no_checkpoint),
        cmocka_unit_test(a_file_is_a_checkpoint_by_itself),
        cmocka_unit_test(a_file_that_is_something_else_says_what),
        cmocka_unit_test(the_cache_layout_is_read_through_its_links),
        cmocka_unit_test(a_missing_shard_leaves_the_others_readable),
        cmocka_unit_test(a_folder_under_a_shards_name_is_no_shard),
        cmocka_unit_test(a_tensor_in_two_shards_is_the_one_that_the_index_names),
        cmocka_unit_test(a_tensor_in_two_shards_without_an_index_is_refused),
        cmocka_unit_test(a_tensor_in_three_shards_gets_a_line_for_each_that_does_not_count),
        cmocka_unit_test(a_stale_index_is_a_warning_that_names_one_tensor),
        cmocka_unit_test(a_stale_name_of_any_length_and_bytes_is_shown_as_a_name),
        cmocka_unit_test(an_incomplete_index_is_a_warning_and_headers_win),
        cmocka_unit_test(an_index_that_maps_a_tensor_to_the_wrong_shard_does_not_hide_it),
        cmocka_unit_test(an_index_that_cannot_be_followed_is_damage_and_names_decide),
        cmocka_unit_test(an_index_without_any_shard_is_damage),
        cmocka_unit_test(an_empty_map_gives_a_model_without_tensors),
        cmocka_unit_test(a_shard_cut_short_refuses_only_what_lies_beyond_its_end),
        cmocka_unit_test(a_shard_without_a_header_leaves_the_others_and_is_not_called_stale),
        cmocka_unit_test(a_shard_that_vanished_since_the_listing_is_damage),
        cmocka_unit_test(a_cancelled_open_is_no_model),
        cmocka_unit_test(the_config_gives_architecture_and_tied_head),
        cmocka_unit_test(a_config_that_cannot_be_used_is_a_warning),
        cmocka_unit_test(a_config_of_any_size_or_kind_does_no_harm),
        cmocka_unit_test(a_config_that_vanished_since_the_listing_is_a_warning),
        cmocka_unit_test(metadata_that_every_shard_repeats_stands_once),
        cmocka_unit_test(scales_of_another_shard_multiply_blocks_of_codes),
        cmocka_unit_test(codes_whose_scale_is_refused_are_refused_too),
    };
    return cmocka_run_group_tests_name("checkpoint", tests, begin, end);
}
