/* query/ as the tree has it: files that are made, written to, cut and removed, and what they show.
 */
#include "fs/queries.h"

#include "tests/unit/fs/models.h"
#include "tests/unit/fs/tree_walk.h"

enum {
    MOST = 65536 /* bytes of a query */
};

static int begin(void **state)
{
    if (files_new(state) < 0)
        return -1;
    setenv("XDG_CACHE_HOME", at("cache"), 1);
    write_llama("llama", 3);
    write_fused("fused");
    write_run("run");
    if (session_begin(&(tm_session_params){.threads = 2, .descriptors = 16}) < 0)
        return -1;
    static const char *const names[] = {"llama", "fused", "run"};
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++)
        mount_source(NULL, at("%s", names[i]));
    return 0;
}

/* ---- Making and taking away ---- */

/* After each test: none is left. */
static int forget_all(void **state)
{
    (void)state;
    static const char *const models[] = {"llama", "anew", "run/checkpoint-500"};
    for (size_t i = 0; i < TM_ARRAY_LEN(models); i++) {
        tm_kept_query *q;
        while ((q = tm_queries_from(fs->queries, models[i], 0))) {
            int rc = tm_queries_remove(fs->queries, models[i], q->name);
            tm_kept_query_unref(q);
            if (rc < 0)
                return rc;
        }
    }
    return 0;
}

static int try_create(const char *folder, const char *name, tm_attr *ret, tm_req *req)
{
    *req = blocking_request();
    return tree->ops->create(tree, find(folder).ino, name, req, ret);
}

/* Makes query/NAME of MODEL with TEXT; returns its attributes when it was made. */
static tm_attr create(const char *model, const char *name, const char *text)
{
    char folder[256];
    tm_attr attr;
    tm_req req;
    snprintf(folder, sizeof(folder), "models/%s/query", model);
    if (try_create(folder, name, &attr, &req) < 0)
        fail_msg("%s: %s", name, tm_req_words(&req));
    tm_chunk chunk = {text, strlen(text), 0};
    assert_int_equal(tree->ops->write(tree, attr.ino, &chunk, &req), 0);
    return attr;
}

static int try_remove(const char *folder, const char *name)
{
    tm_req req = blocking_request();
    return tree->ops->remove(tree, find(folder).ino, name, &req);
}

/* Of the llama. */
static void take_away(const char *name)
{
    assert_int_equal(try_remove("models/llama/query", name), 0);
}

static void a_file_that_is_made_is_empty_and_shows_a_folder(void **state)
{
    (void)state;
    tm_attr made_attr, again, looked;
    tm_req req;
    expect_names("models/llama/query", "");
    assert_int_equal(try_create("models/llama/query", "loud.q", &made_attr, &req), 0);
    assert_int_equal(made_attr.mode, S_IFREG | 0644);
    assert_int_equal(made_attr.size, 0);
    assert_true(made_attr.live && made_attr.name_live);
    looked = find_in("models/llama/query", "loud.q");
    assert_int_equal(looked.ino, made_attr.ino);
    expect_names("models/llama/query", "loud.q\nloud\n");
    expect_names("models/llama/query/loud", "matches.tsv\nunknown.tsv\nerror\n");
    assert_int_equal(find("models/llama/query").mode, S_IFDIR | 0755);
    assert_int_equal(find("models/llama/query/loud").mode, S_IFDIR | 0555);
    assert_int_equal(find("models/llama/query/loud/error").mode, S_IFREG | 0444);
    tm_chunk chunk = {"rank == 1", 9, 0};
    assert_int_equal(tree->ops->write(tree, made_attr.ino, &chunk, &req), 0);
    assert_int_equal(try_create("models/llama/query", "loud.q", &again, &req), 0);
    assert_int_equal(again.ino, made_attr.ino);
    assert_int_equal(again.size, 9);
    expect_text_at("models/llama/query/loud.q", "rank == 1");
    take_away("loud.q");
    expect_names("models/llama/query", "");
}

static void the_folder_shows_what_the_text_comes_to(void **state)
{
    (void)state;
    tm_attr attr =
        create("llama", "x.q", "rank == 1 and layer != 1 or name == '*embed*' and min < 1");
    tm_req req = blocking_request();
    expect_text_at("models/llama/query/x/matches.tsv",
                   "name\trank\tlayer\tmin\n"
                   "model.layers.0.input_layernorm.weight\t                       1\t"
                   "                       0\t                       -\n"
                   "model.layers.2.input_layernorm.weight\t                       1\t"
                   "                       2\t                       -\n"
                   "model.norm.weight\t                       1\t                       -\t"
                   "                       -\n");
    expect_text_at("models/llama/query/x/unknown.tsv",
                   "name\treason\nmodel.embed_tokens.weight\tnot indexed\n");
    expect_text_at("models/llama/query/x/error", "");
    assert_int_equal(tree->ops->truncate(tree, attr.ino, 8, &req), 0);
    expect_text_at("models/llama/query/x.q", "rank == ");
    expect_text_at("models/llama/query/x/matches.tsv", "");
    expect_text_at("models/llama/query/x/unknown.tsv", "");
    expect_text_at("models/llama/query/x/error",
                   "1:8: expected a field, a number or a text, but the query ends\n"
                   "rank == \n"
                   "       ^\n");
    tm_chunk chunk = {"9", 1, 8};
    assert_int_equal(tree->ops->write(tree, attr.ino, &chunk, &req), 0);
    expect_text_at("models/llama/query/x/matches.tsv", "name\trank\n");
    expect_text_at("models/llama/query/x/unknown.tsv", "name\treason\n");
    expect_text_at("models/llama/query/x/error", "");
}

/* The listing of a folder has no name twice, and each name is found again as what is listed. */
static void expect_a_sound_list(const char *path)
{
    list l = list_of(find(path).ino);
    for (size_t i = 0; i < l.count; i++) {
        const listed *e = &l.entries[i];
        for (size_t k = 0; k < i; k++)
            if (strcmp(e->name, l.entries[k].name) == 0)
                fail_msg("%s: %s is listed twice", path, e->name);
        if (strcmp(e->name, ".") == 0 || strcmp(e->name, "..") == 0 || !*e->name)
            fail_msg("%s: '%s' is listed", path, e->name);
        if (find_in(path, e->name).ino != e->attr.ino)
            fail_msg("%s: %s is another one than is listed", path, e->name);
    }
    list_done(&l);
}

static void a_list_of_queries_goes_on_where_it_stopped(void **state)
{
    (void)state;
    static const char *const names[] = {"b.q", "a.q", "c.q", "d.q"};
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++)
        create("llama", names[i], "rank == 1");
    take_away("a.q");
    expect_names("models/llama/query", "b.q\nb\nc.q\nc\nd.q\nd\n");
    expect_names("models/fused/query", "");
    uint64_t ino = find("models/llama/query").ino;
    list whole = list_of(ino);
    for (size_t room = 1; room < 4; room++) {
        list pieces = {0};
        size_t had;
        do {
            had = pieces.count;
            list_from(&pieces, ino, had ? pieces.entries[had - 1].next : 0, room);
        } while (pieces.count > had);
        assert_int_equal(pieces.count, whole.count);
        for (size_t i = 0; i < whole.count; i++)
            assert_string_equal(pieces.entries[i].name, whole.entries[i].name);
        list_done(&pieces);
    }
    list_done(&whole);
    list none = {0};
    list_from(&none, ino, UINT64_MAX, SIZE_MAX);
    assert_int_equal(none.count, 0);
    list_done(&none);
    expect_a_sound_list("models/llama/query");
}

static void the_name_of_a_query_ends_in_q(void **state)
{
    (void)state;
    static const char *const names[] = {"loud", "loud.Q", "loud.q.txt", "q",
                                        ".q",   "loudq",  "loud.q~",    ".loud.q.swp"};
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++) {
        char words[256];
        tm_attr attr;
        tm_req req;
        snprintf(words, sizeof(words), "query/%s: the name of a query ends in .q", names[i]);
        assert_int_equal(try_create("models/llama/query", names[i], &attr, &req), -EINVAL);
        assert_string_equal(tm_req_words(&req), words);
    }
    expect_names("models/llama/query", "");
}

static void names_of_any_other_bytes_are_kept(void **state)
{
    (void)state;
    char longest[256];
    memset(longest, 'x', 253);
    memcpy(longest + 253, ".q", 3);
    const char *const names[] = {"a b.q", "-n.q", "line\nfeed.q", "\xff\xfe.q", "%2F.q", longest};
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++) {
        char stem[256], path[512];
        tm_attr attr = create("llama", names[i], "rank == 1");
        assert_int_equal(find_in("models/llama/query", names[i]).ino, attr.ino);
        snprintf(stem, sizeof(stem), "%.*s", (int)strlen(names[i]) - 2, names[i]);
        snprintf(path, sizeof(path), "models/llama/query/%s/error", stem);
        expect_text_at(path, "");
        expect_a_sound_list("models/llama/query");
        take_away(names[i]);
    }
}

/* Their folders would be "." and "..", which no list may have. */
static void a_query_whose_folder_no_list_could_have_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"..q", "...q"};
    int results[TM_ARRAY_LEN(names)];
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++) {
        tm_attr attr;
        tm_req req;
        results[i] = try_create("models/llama/query", names[i], &attr, &req);
    }
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++)
        assert_int_equal(results[i], -EINVAL);
}

/* "a" has the file a.q and the folder a; "a.q" would have the file a.q.q and the folder a.q. */
static void two_queries_share_no_name(void **state)
{
    (void)state;
    tm_attr attr;
    tm_req req;
    create("llama", "a.q", "rank == 1");
    int rc = try_create("models/llama/query", "a.q.q", &attr, &req);
    list l = list_of(find("models/llama/query").ino);
    unsigned twice = 0;
    for (size_t i = 0; i < l.count; i++)
        twice += strcmp(l.entries[i].name, "a.q") == 0;
    list_done(&l);
    if (twice != 1)
        fail_msg("a.q is listed %u times (a.q.q: %d)", twice, rc);
}

static void nothing_else_is_made_or_taken_away(void **state)
{
    (void)state;
    static const struct {
        const char *folder, *there; /* NULL: no name to be taken away */
    } rows[] = {
        {"", "README"},
        {"load", "llama"},
        {"load/llama", "config.json"},
        {"load/llama/tokenizer", "vocab.txt"},
        {"models", "llama"},
        {"models/llama", "state"},
        {"models/llama/tensors", "model.norm.weight"},
        {"models/llama/tensors/model.norm.weight", "name"},
        {"models/llama/tree/model", "norm"},
        {"models/llama/layers", "000"},
        {"models/llama/index", "state"},
        {"models/llama/query/one", "matches.tsv"},
        {"models/run", "pipeline"},
        {".tmorph", "ctl"},
    };
    create("llama", "one.q", "rank == 1");
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        tm_attr attr;
        tm_req req;
        assert_int_equal(try_create(rows[i].folder, "new.q", &attr, &req), -EROFS);
        assert_int_equal(try_create(rows[i].folder, rows[i].there, &attr, &req), -EROFS);
        assert_int_equal(try_remove(rows[i].folder, rows[i].there), -EROFS);
        assert_int_equal(try_remove(rows[i].folder, "nothing.q"), -EROFS);
        assert_int_not_equal(find_in(rows[i].folder, rows[i].there).ino, 0);
    }
    assert_int_equal(try_remove("models/llama/query", "one"), -EROFS);
    assert_int_equal(try_remove("models/llama/query", "nothing.q"), -ENOENT);
    expect_names("models/llama/query", "one.q\none\n");
}

static void only_the_text_of_a_query_is_written_to_or_cut(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "README",
        "load/llama/config.json",
        "models/llama/state",
        "models/llama/tensors/model.norm.weight/raw",
        "models/llama/query",
        "models/llama/query/one",
        "models/llama/query/one/matches.tsv",
        "models/llama/query/one/unknown.tsv",
        "models/llama/query/one/error",
        ".tmorph/log",
    };
    create("llama", "one.q", "rank == 1");
    for (size_t i = 0; i < TM_ARRAY_LEN(paths); i++) {
        uint64_t ino = find(paths[i]).ino;
        tm_req req = blocking_request();
        assert_int_equal(tree->ops->truncate(tree, ino, 0, &req), -EROFS);
        assert_int_equal(tree->ops->write(tree, ino, &(tm_chunk){"x", 1, 0}, &req), -EROFS);
    }
    /* What takes commands has no size; `>` sets it all the same. */
    tm_req req = blocking_request();
    assert_int_equal(tree->ops->truncate(tree, find(".tmorph/ctl").ino, 0, &req), 0);
    expect_text_at("models/llama/query/one.q", "rank == 1");
}

static void sizes_beyond_a_query_are_refused_by_the_tree_too(void **state)
{
    (void)state;
    tm_attr attr = create("llama", "one.q", "rank == 1");
    tm_req req = blocking_request();
    assert_int_equal(tree->ops->truncate(tree, attr.ino, MOST + 1, &req), -EFBIG);
    req = blocking_request();
    assert_int_equal(tree->ops->write(tree, attr.ino, &(tm_chunk){"x", 1, MOST}, &req), -EFBIG);
    assert_string_equal(tm_req_words(&req), "a query has at most 65536 bytes");
    expect_text_at("models/llama/query/one.q", "rank == 1");
    assert_int_equal(tree->ops->truncate(tree, attr.ino, MOST, &req), 0);
    assert_int_equal(find("models/llama/query/one.q").size, MOST);
    expect_text_at("models/llama/query/one/error", "");
}

/* ---- What was removed ---- */

static int attr_of(uint64_t ino)
{
    tm_attr attr;
    tm_req req = blocking_request();
    return tree->ops->getattr(tree, ino, &req, &attr);
}

static void the_text_of_a_removed_query_is_stale(void **state)
{
    (void)state;
    uint64_t ino = create("llama", "gone.q", "rank == 1").ino;
    tm_blob *held = open_file(ino);
    tm_open_file file;
    take_away("gone.q");
    tm_req req = blocking_request();
    assert_int_equal(attr_of(ino), -ESTALE);
    assert_int_equal(tree->ops->open(tree, ino, &req, &file), -ESTALE);
    assert_string_equal(tm_req_words(&req), "the query was removed");
    req = blocking_request();
    assert_int_equal(tree->ops->write(tree, ino, &(tm_chunk){"x", 1, 0}, &req), -ESTALE);
    req = blocking_request();
    assert_int_equal(tree->ops->truncate(tree, ino, 0, &req), -ESTALE);
    expect_error("models/llama/query/gone.q", -ENOENT);
    expect_error("models/llama/query/gone", -ENOENT);
    char *bytes = content_of_blob(held); /* who has it open reads it to the end */
    assert_string_equal(bytes, "rank == 1");
    free(bytes);
    close_file(held);
    /* Another one of the same name is another file. */
    uint64_t again = create("llama", "gone.q", "").ino;
    assert_int_not_equal(again, ino);
    assert_int_equal(attr_of(ino), -ESTALE);
}

static void what_a_removed_query_came_to_is_stale(void **state)
{
    (void)state;
    create("llama", "gone.q", "rank == 1");
    static const char *const names[] = {"matches.tsv", "unknown.tsv", "error"};
    uint64_t inos[TM_ARRAY_LEN(names)];
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++)
        inos[i] = find_in("models/llama/query/gone", names[i]).ino;
    tm_blob *held = open_file(inos[0]);
    take_away("gone.q");
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++) {
        tm_open_file file;
        tm_req req = blocking_request();
        assert_int_equal(attr_of(inos[i]), -ESTALE);
        assert_int_equal(tree->ops->open(tree, inos[i], &req, &file), -ESTALE);
    }
    char *bytes = content_of_blob(held);
    assert_memory_equal(bytes, "name\trank\n", 10);
    free(bytes);
    close_file(held);
}

static void the_folder_of_a_removed_query_is_stale(void **state)
{
    (void)state;
    create("llama", "gone.q", "rank == 1");
    uint64_t ino = find("models/llama/query/gone").ino;
    take_away("gone.q");
    list l = {.room = SIZE_MAX};
    tm_req req = blocking_request();
    int listed_rc = tree->ops->list(tree, ino, 0, list_emit, &l, &req);
    list_done(&l);
    assert_int_equal(attr_of(ino), -ESTALE);
    assert_int_equal(listed_rc, -ESTALE);
}

/* ---- Sources that change ---- */

static void queries_stay_when_their_source_is_opened_anew(void **state)
{
    (void)state;
    tm_req req = blocking_request();
    write_one(at("anew/model.safetensors"), "a");
    mount_source(NULL, at("anew"));
    uint64_t before = create("anew", "one.q", "name == '*'").ino;
    expect_text_at("models/anew/query/one/matches.tsv", "name\na\n");
    write_one(at("fresh/new"), "b");
    assert_int_equal(rename(at("fresh/new"), at("anew/model.safetensors")), 0);
    assert_int_equal(tm_session_reload(session, "anew", &req), 0);
    assert_int_equal(attr_of(before), -ESTALE);
    expect_text_at("models/anew/query/one.q", "name == '*'");
    expect_text_at("models/anew/query/one/matches.tsv", "name\nb\n");
    unmount("anew");
}

static void members_of_a_collection_have_queries_of_their_own(void **state)
{
    (void)state;
    create("run/checkpoint-500", "one.q", "rank == 1");
    expect_names("models/run/checkpoint-500/query", "one.q\none\n");
    expect_names("models/run/checkpoint-1000/query", "");
    expect_error("models/run/query", -ENOENT);
    expect_text_at("models/run/checkpoint-500/query/one/matches.tsv",
                   "name\trank\n"
                   "model.layers.0.input_layernorm.weight\t                       1\n"
                   "model.layers.1.input_layernorm.weight\t                       1\n"
                   "model.norm.weight\t                       1\n");
}

/* Only what a query comes to may have to be waited for. */
static void who_may_not_wait_sees_texts_but_no_answers(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        int rc;
    } rows[] = {
        {"models/llama/query", 0},
        {"models/llama/query/one.q", 0},
        {"models/llama/query/one", 0},
        {"models/llama/query/one/matches.tsv", -EINPROGRESS},
        {"models/llama/query/one/unknown.tsv", -EINPROGRESS},
        {"models/llama/query/one/error", -EINPROGRESS},
    };
    create("llama", "one.q", "rank == 1");
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        uint64_t ino = find(rows[i].path).ino;
        tm_attr attr;
        tm_req req;
        tm_req_init(&req, TM_LANE_VISIBLE);
        assert_int_equal(tree->ops->getattr(tree, ino, &req, &attr), rows[i].rc);
        assert_true(attr.live || rows[i].rc < 0 || S_ISDIR(attr.mode));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_file_that_is_made_is_empty_and_shows_a_folder, forget_all),
        cmocka_unit_test_teardown(the_folder_shows_what_the_text_comes_to, forget_all),
        cmocka_unit_test_teardown(a_list_of_queries_goes_on_where_it_stopped, forget_all),
        cmocka_unit_test_teardown(the_name_of_a_query_ends_in_q, forget_all),
        cmocka_unit_test_teardown(names_of_any_other_bytes_are_kept, forget_all),
        cmocka_unit_test_teardown(a_query_whose_folder_no_list_could_have_is_refused, forget_all),
        cmocka_unit_test_teardown(two_queries_share_no_name, forget_all),
        cmocka_unit_test_teardown(nothing_else_is_made_or_taken_away, forget_all),
        cmocka_unit_test_teardown(only_the_text_of_a_query_is_written_to_or_cut, forget_all),
        cmocka_unit_test_teardown(sizes_beyond_a_query_are_refused_by_the_tree_too, forget_all),
        cmocka_unit_test_teardown(the_text_of_a_removed_query_is_stale, forget_all),
        cmocka_unit_test_teardown(what_a_removed_query_came_to_is_stale, forget_all),
        cmocka_unit_test_teardown(the_folder_of_a_removed_query_is_stale, forget_all),
        cmocka_unit_test_teardown(queries_stay_when_their_source_is_opened_anew, forget_all),
        cmocka_unit_test_teardown(members_of_a_collection_have_queries_of_their_own, forget_all),
        cmocka_unit_test_teardown(who_may_not_wait_sees_texts_but_no_answers, forget_all),
    };
    return cmocka_run_group_tests_name("tree_queries", tests, begin, tree_end);
}
