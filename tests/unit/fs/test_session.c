/* What is mounted under which name: added, removed, opened anew, members of collections. */
#include "tests/unit/fs/models.h"
#include "tests/unit/fs/tree_walk.h"

/* ---- Names ---- */

static int add(const char *name, const char *source, tm_req *req)
{
    *req = blocking_request();
    return tm_session_add(session, name, source, req);
}

static void a_source_is_named_by_its_last_component(void **state)
{
    (void)state;
    static const struct {
        const char *source, *name;
    } rows[] = {
        {"/a/llama", "llama"},
        {"/a/llama/", "llama"},
        {"llama", "llama"},
        {"a//b///", "b"},
        {"/", ""},
        {"", ""},
        {".", "."},
        {"a/..", ".."},
        {"/x.safetensors", "x.safetensors"},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        char *name = tm_source_name(rows[i].source);
        assert_string_equal(name, rows[i].name);
        free(name);
    }
}

static void names_that_are_no_file_names_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"", ".", "..", "a/b", "/"};
    char longest[257], words[512];
    tm_req req;
    write_one(at("m/model.safetensors"), "a");
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++) {
        assert_int_equal(add(names[i], at("m"), &req), -EINVAL);
        snprintf(words, sizeof(words), "'%s' cannot be a name in the mount", names[i]);
        assert_string_equal(tm_req_words(&req), words);
    }
    memset(longest, 'n', 256);
    longest[256] = '\0';
    assert_int_equal(add(longest, at("m"), &req), -EINVAL);
    longest[255] = '\0';
    assert_int_equal(add(longest, at("m"), &req), 0);
    assert_true(S_ISDIR(find_in("models", longest).mode));
    unmount(longest);
}

static void a_name_is_taken_once_and_the_words_name_the_remedy(void **state)
{
    (void)state;
    char words[FILES_PATH_MAX];
    tm_req req;
    write_one(at("one/same/model.safetensors"), "a");
    write_one(at("two/same/model.safetensors"), "b");
    mount_source(NULL, at("one/same"));
    assert_int_equal(add(NULL, at("two/same"), &req), -EEXIST);
    snprintf(words, sizeof(words), "'same' is mounted already (%s); name this one: NAME=%s",
             at("one/same"), at("two/same"));
    assert_string_equal(tm_req_words(&req), words);
    expect_text_at("models/same/tensors/a/dtype", "F32\n");
    mount_source("other", at("two/same"));
    expect_text_at("models/other/tensors/b/dtype", "F32\n");
    unmount("same");
    unmount("other");
}

static void a_source_that_is_not_there_is_an_error_and_no_name(void **state)
{
    (void)state;
    char words[FILES_PATH_MAX];
    tm_req req;
    assert_int_equal(add("missing", at("missing"), &req), -ENOENT);
    snprintf(words, sizeof(words), "%s: No such file or directory", at("missing"));
    assert_string_equal(tm_req_words(&req), words);
    assert_null(tm_session_find(session, "missing"));
    expect_error("load/missing", -ENOENT);
}

static void names_are_kept_in_order(void **state)
{
    (void)state;
    static const char *const names[] = {"m", "a", "zz", "B", "m.x", "aa"};
    static const char *const sorted[] = {"B", "a", "aa", "m", "m.x", "zz"};
    write_one(at("order/model.safetensors"), "a");
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++)
        mount_source(names[i], at("order"));
    for (size_t i = 0; i < TM_ARRAY_LEN(sorted); i++) {
        tm_mounted *m = tm_session_at(session, i), *found = tm_session_find(session, sorted[i]);
        tm_mounted *by_serial = tm_session_by_serial(session, m->serial);
        assert_string_equal(m->name, sorted[i]);
        assert_ptr_equal(found, m);
        assert_ptr_equal(by_serial, m);
        tm_mounted_unref(m);
        tm_mounted_unref(found);
        tm_mounted_unref(by_serial);
    }
    assert_null(tm_session_at(session, TM_ARRAY_LEN(sorted)));
    assert_null(tm_session_by_serial(session, 0));
    assert_null(tm_session_by_serial(session, UINT32_MAX));
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++)
        unmount(names[i]);
    assert_null(tm_session_at(session, 0));
}

static void a_relative_source_is_kept_from_the_root(void **state)
{
    (void)state;
    char *was = getcwd(NULL, 0);
    write_one(at("relative/m/model.safetensors"), "a");
    assert_int_equal(chdir(at("relative")), 0);
    mount_source(NULL, "m/");
    assert_int_equal(chdir(was), 0);
    free(was);
    tm_req req = blocking_request();
    assert_int_equal(tm_session_reload(session, "m", &req), 0);
    expect_text_at("models/m/tensors/a/dtype", "F32\n");
    unmount("m");
}

/* ---- Removed and opened anew ---- */

/* Whatever is asked of INO is refused, with words. */
static void expect_stale(uint64_t ino)
{
    tm_attr attr;
    tm_open_file file;
    char *target;
    list l = {0};
    for (int i = 0; i < 6; i++) {
        tm_req req = blocking_request();
        int rc = i == 0   ? tree->ops->getattr(tree, ino, &req, &attr)
                 : i == 1 ? tree->ops->lookup(tree, ino, "x", &req, &attr)
                 : i == 2 ? tree->ops->list(tree, ino, 0, list_emit, &l, &req)
                 : i == 3 ? tree->ops->open(tree, ino, &req, &file)
                 : i == 4 ? tree->ops->readlink(tree, ino, &req, &target)
                          : tree->ops->write(tree, ino, &(tm_chunk){"x", 1, 0}, &req);
        assert_int_equal(rc, -ESTALE);
        assert_string_equal(tm_req_words(&req), "what was mounted here was replaced or removed");
    }
    assert_int_equal(l.count, 0);
}

enum {
    HELD = 8
};

/* Numbers of every kind of entry under NAME, which has a tensor "a". */
static void numbers_of(const char *name, uint64_t ret[HELD])
{
    static const struct {
        const char *root, *rest;
    } paths[HELD] = {
        {"models", ""},
        {"load", ""},
        {"load", "/model.safetensors"},
        {"models", "/state"},
        {"models", "/tensors"},
        {"models", "/tensors/a"},
        {"models", "/tensors/a/data.npy"},
        {"models", "/tensors/a/at/0,0"},
    };
    for (int i = 0; i < HELD; i++) {
        char path[256];
        snprintf(path, sizeof(path), "%s/%s%s", paths[i].root, name, paths[i].rest);
        ret[i] = find(path).ino;
    }
}

static void what_was_removed_is_stale_and_open_files_go_on(void **state)
{
    (void)state;
    uint64_t inos[HELD];
    const file_tensor a = {.name = "a", .dtype = "F32", .shape = "2,3"};
    uint8_t *expected = file_tensor_content(&a);
    write_safetensors(at("removed/model.safetensors"), &a, 1);
    mount_source(NULL, at("removed"));
    numbers_of("removed", inos);
    tm_blob *raw = open_file(find("models/removed/tensors/a/raw").ino);
    tm_blob *file = open_file(find("load/removed/model.safetensors").ino);
    tm_blob *json = open_file(find("models/removed/model.json").ino);
    tm_blob *tsv = open_file(find("models/removed/tensors.tsv").ino);
    unmount("removed");
    for (int i = 0; i < HELD; i++)
        expect_stale(inos[i]);
    expect_error("models/removed", -ENOENT);
    expect_error("load/removed", -ENOENT);
    char *bytes = content_of_blob(raw);
    assert_memory_equal(bytes, expected, 24);
    free(bytes);
    free(content_of_blob(file));
    bytes = content_of_blob(json);
    assert_non_null(strstr(bytes, "\"name\": \"removed\""));
    free(bytes);
    bytes = content_of_blob(tsv);
    assert_non_null(strstr(bytes, "\na\tF32\t[2, 3]\t6\t24\t"));
    free(bytes);
    close_file(raw);
    close_file(file);
    close_file(json);
    close_file(tsv);
    free(expected);
}

static void what_is_opened_anew_has_other_numbers_and_other_bytes(void **state)
{
    (void)state;
    static const int32_t before[] = {1}, after[] = {2, 3};
    uint64_t was[HELD], now[HELD];
    const file_tensor old = {.name = "a", .dtype = "I32", .shape = "1,1", .bytes = before};
    const file_tensor fresh = {.name = "a", .dtype = "I32", .shape = "2,1", .bytes = after};
    tm_req req = blocking_request();
    write_safetensors(at("anew/model.safetensors"), &old, 1);
    mount_source(NULL, at("anew"));
    numbers_of("anew", was);
    tm_blob *raw = open_file(find("models/anew/tensors/a/raw").ino);
    write_safetensors(at("anew/new"), &fresh, 1);
    assert_int_equal(rename(at("anew/new"), at("anew/model.safetensors")), 0);
    assert_int_equal(tm_session_reload(session, "anew", &req), 0);
    numbers_of("anew", now);
    for (int i = 0; i < HELD; i++) {
        assert_int_not_equal(was[i], now[i]);
        expect_stale(was[i]);
    }
    expect_bytes_at("models/anew/tensors/a/raw", after, 8);
    char *bytes = content_of_blob(raw);
    assert_memory_equal(bytes, before, 4);
    free(bytes);
    close_file(raw);
    unmount("anew");
}

static void a_source_that_cannot_be_opened_anew_stays_as_it_is(void **state)
{
    (void)state;
    uint64_t inos[HELD];
    tm_attr attr;
    write_one(at("stays/model.safetensors"), "a");
    mount_source(NULL, at("stays"));
    numbers_of("stays", inos);
    assert_int_equal(rename(at("stays"), at("elsewhere")), 0);
    tm_req req = blocking_request();
    assert_int_equal(tm_session_reload(session, "stays", &req), -ENOENT);
    for (int i = 0; i < HELD; i++) {
        req = blocking_request();
        assert_int_equal(tree->ops->getattr(tree, inos[i], &req, &attr), 0);
    }
    unmount("stays");
}

static void names_that_are_not_mounted_are_neither_removed_nor_opened_anew(void **state)
{
    (void)state;
    tm_req req = blocking_request();
    assert_int_equal(tm_session_remove(session, "nothing", &req), -EINVAL);
    assert_string_equal(tm_req_words(&req), "'nothing' is not mounted");
    req = blocking_request();
    assert_int_equal(tm_session_reload(session, "nothing", &req), -EINVAL);
    assert_string_equal(tm_req_words(&req), "'nothing' is not mounted");
}

/* Numbers for sources are few; a source that is away for days is tried every second. */
static void opens_that_fail_use_up_no_numbers(void **state)
{
    (void)state;
    write_one(at("away/model.safetensors"), "a");
    mount_source(NULL, at("away"));
    tm_mounted *m = tm_session_find(session, "away");
    uint32_t serial = m->serial;
    tm_mounted_unref(m);
    assert_int_equal(rename(at("away"), at("gone-away")), 0);
    for (int i = 0; i < 100; i++) {
        tm_req req = blocking_request();
        assert_int_equal(tm_session_reload(session, "away", &req), -ENOENT);
    }
    mount_source("back", at("gone-away"));
    m = tm_session_find(session, "back");
    assert_int_equal(m->serial, serial + 1);
    tm_mounted_unref(m);
    unmount("away");
    unmount("back");
}

/* ---- A file that changed is noticed when it is opened ---- */

static void a_file_found_changed_at_open_is_shown_anew(void **state)
{
    (void)state;
    tm_open_file file;
    write_one(at("touched/model.safetensors"), "a");
    write_text(at("touched/notes.txt"), "old");
    mount_source(NULL, at("touched"));
    uint64_t was = find("load/touched/notes.txt").ino;
    write_text(at("touched/notes.txt"), "newer");
    tm_req req = blocking_request();
    assert_int_equal(tree->ops->open(tree, was, &req, &file), -ESTALE);
    assert_non_null(strstr(tm_req_words(&req), "notes.txt: the file changed while it was mounted"));
    expect_text_at("load/touched/notes.txt", "newer");
    expect_stale(was);
    unmount("touched");
}

static void a_file_of_a_member_found_changed_closes_that_member_alone(void **state)
{
    (void)state;
    tm_open_file file;
    write_run("edited");
    mount_source(NULL, at("edited"));
    uint64_t was = find("load/edited/pipeline/vae/model.safetensors").ino;
    uint64_t sister = find("load/edited/pipeline/unet/model.safetensors").ino;
    set_time(at("edited/pipeline/vae/model.safetensors"), 1000, 0);
    tm_req req = blocking_request();
    assert_int_equal(tree->ops->open(tree, was, &req, &file), -ESTALE);
    expect_stale(was);
    assert_int_not_equal(find("load/edited/pipeline/vae/model.safetensors").ino, was);
    close_file(open_file(find("load/edited/pipeline/vae/model.safetensors").ino));
    assert_int_equal(find("load/edited/pipeline/unet/model.safetensors").ino, sister);
    unmount("edited");
}

/* ---- Members of collections ---- */

static int member(const char *collection, const char *name, bool may_block, tm_mounted **ret)
{
    tm_mounted *m = tm_session_find(session, collection);
    tm_req req = blocking_request();
    req.may_block = may_block;
    int rc = tm_session_member(session, m, name, &req, ret);
    tm_mounted_unref(m);
    return rc;
}

static void a_member_is_opened_by_a_request_that_may_wait(void **state)
{
    (void)state;
    tm_mounted *m = NULL, *again = NULL;
    write_run("run");
    mount_source(NULL, at("run"));
    assert_int_equal(member("run", "nothing", true, &m), -ENOENT);
    assert_int_equal(member("run", "trainer.log", true, &m), -ENOENT);
    assert_int_equal(member("run", "checkpoint-500", false, &m), -EINPROGRESS);
    assert_int_equal(member("run", "checkpoint-500", true, &m), 0);
    assert_string_equal(m->name, "run/checkpoint-500");
    assert_string_equal(m->source, at("run/checkpoint-500"));
    assert_non_null(m->model);
    assert_int_equal(member("run", "checkpoint-500", false, &again), 0);
    assert_ptr_equal(m, again);
    tm_mounted_unref(m);
    tm_mounted_unref(again);
    assert_int_equal(member("run", "runs", true, &m), 0);
    assert_null(m->model);
    assert_false(m->is_collection);
    tm_mounted_unref(m);
    unmount("run");
}

static void members_go_with_their_collection(void **state)
{
    (void)state;
    tm_req req = blocking_request();
    write_run("family");
    mount_source(NULL, at("family"));
    uint64_t inos[] = {find("models/family/checkpoint-500/state").ino,
                       find("models/family/pipeline/unet/tensors").ino,
                       find("load/family/pipeline/vae/model.safetensors").ino,
                       find("models/family/pipeline").ino};
    assert_int_equal(tm_session_reload(session, "family", &req), 0);
    for (size_t i = 0; i < TM_ARRAY_LEN(inos); i++)
        expect_stale(inos[i]);
    assert_int_not_equal(find("models/family/pipeline").ino, inos[3]);
    inos[0] = find("models/family/checkpoint-500/state").ino;
    inos[1] = find("models/family/pipeline/unet/tensors").ino;
    inos[2] = find("load/family/pipeline/vae/model.safetensors").ino;
    inos[3] = find("models/family/pipeline").ino;
    unmount("family");
    for (size_t i = 0; i < TM_ARRAY_LEN(inos); i++)
        expect_stale(inos[i]);
}

static void a_member_of_a_collection_that_is_gone_is_for_its_holder_alone(void **state)
{
    (void)state;
    tm_mounted *m;
    tm_req req = blocking_request();
    write_run("orphan");
    mount_source(NULL, at("orphan"));
    tm_mounted *collection = tm_session_find(session, "orphan");
    unmount("orphan");
    assert_int_equal(tm_session_member(session, collection, "checkpoint-500", &req, &m), 0);
    assert_null(tm_session_by_serial(session, m->serial));
    assert_non_null(m->model);
    tm_mounted_unref(m);
    tm_mounted_unref(collection);
}

static void a_member_that_cannot_be_opened_is_tried_again(void **state)
{
    (void)state;
    tm_mounted *m;
    write_run("retry");
    mount_source(NULL, at("retry"));
    assert_int_equal(rename(at("retry/pipeline"), at("retry-pipeline")), 0);
    assert_int_equal(member("retry", "pipeline", true, &m), -ENOENT);
    assert_int_equal(member("retry", "pipeline", false, &m), -EINPROGRESS);
    assert_int_equal(rename(at("retry-pipeline"), at("retry/pipeline")), 0);
    assert_int_equal(member("retry", "pipeline", true, &m), 0);
    tm_mounted_unref(m);
    unmount("retry");
}

enum {
    FINDERS = 8,
    ROUNDS = 60
};

typedef struct finders {
    pthread_barrier_t start, end;
    uint64_t found[FINDERS];
} finders;

typedef struct finder {
    finders *all;
    unsigned number;
} finder;

static void *find_nested(void *arg)
{
    finder *f = arg;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&f->all->start);
        tm_attr attr = {0};
        tm_req req = blocking_request();
        int rc = tm_path_find(tree, "models/nest/a/b/c/state", &req, &attr);
        f->all->found[f->number] = rc < 0 ? 0 : attr.ino;
        pthread_barrier_wait(&f->all->end);
    }
    return NULL;
}

/* Threads that open the same members at once see one of each, whose numbers stay good. */
static void nested_members_are_opened_once_however_many_look_them_up(void **state)
{
    (void)state;
    finders all;
    finder each[FINDERS];
    pthread_t threads[FINDERS];
    write_one(at("nest/a/b/c/model.safetensors"), "x");
    mount_source(NULL, at("nest"));
    pthread_barrier_init(&all.start, NULL, FINDERS + 1);
    pthread_barrier_init(&all.end, NULL, FINDERS + 1);
    for (unsigned i = 0; i < FINDERS; i++) {
        each[i] = (finder){&all, i};
        assert_int_equal(pthread_create(&threads[i], NULL, find_nested, &each[i]), 0);
    }
    unsigned bad = 0;
    for (int round = 0; round < ROUNDS; round++) {
        tm_attr attr;
        tm_req req = blocking_request();
        pthread_barrier_wait(&all.start);
        pthread_barrier_wait(&all.end);
        for (int i = 0; i < FINDERS; i++)
            bad += all.found[i] == 0 || all.found[i] != all.found[0] ||
                   tree->ops->getattr(tree, all.found[i], &req, &attr) != 0;
        bad += tm_session_reload(session, "nest", &req) != 0;
    }
    for (int i = 0; i < FINDERS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&all.start);
    pthread_barrier_destroy(&all.end);
    assert_int_equal(bad, 0);
    unmount("nest");
}

/* ---- The fingerprint ---- */

static void a_fingerprint_is_computed_once(void **state)
{
    (void)state;
    char first[65], second[65], anew[65];
    tm_req req = blocking_request();
    write_one(at("print/model.safetensors"), "a");
    mount_source(NULL, at("print"));
    tm_mounted *m = tm_session_find(session, "print");
    assert_int_equal(tm_session_fingerprint(session, m, &req, first), 0);
    change_byte(at("print/model.safetensors"), 100);
    set_time(at("print/model.safetensors"), 1000, 0);
    assert_int_equal(tm_session_fingerprint(session, m, &req, second), 0);
    assert_string_equal(first, second);
    tm_mounted_unref(m);
    assert_int_equal(tm_session_reload(session, "print", &req), 0);
    m = tm_session_find(session, "print");
    assert_int_equal(tm_session_fingerprint(session, m, &req, anew), 0);
    assert_string_not_equal(first, anew);
    tm_mounted_unref(m);
    unmount("print");
}

static void a_fingerprint_that_fails_is_not_remembered(void **state)
{
    (void)state;
    char text[65];
    tm_req req = blocking_request();
    write_one(at("unread/model.safetensors"), "a");
    set_time(at("unread/model.safetensors"), 1000, 0);
    mount_source(NULL, at("unread"));
    tm_mounted *m = tm_session_find(session, "unread");
    set_time(at("unread/model.safetensors"), 2000, 0);
    assert_int_equal(tm_session_fingerprint(session, m, &req, text), -ESTALE);
    set_time(at("unread/model.safetensors"), 1000, 0);
    req = blocking_request();
    assert_int_equal(tm_session_fingerprint(session, m, &req, text), 0);
    tm_mounted_unref(m);
    unmount("unread");
}

/* ---- The session itself ---- */

static void a_session_that_cannot_write_its_log_does_not_start(void **state)
{
    (void)state;
    tm_session *other;
    char words[FILES_PATH_MAX];
    tm_req req = blocking_request();
    tm_session_params params = {.threads = 1, .log = at("no/such/folder/log")};
    assert_int_equal(tm_session_new(&params, &req, &other), -ENOENT);
    snprintf(words, sizeof(words), "log %s: No such file or directory", params.log);
    assert_string_equal(tm_req_words(&req), words);
    tm_session_stop(NULL);
    tm_session_free(NULL);
}

static void findings_of_a_source_are_lines_of_the_log(void **state)
{
    (void)state;
    size_t len;
    write_damaged("finding");
    make_folder(at("weightless"));
    mount_source(NULL, at("finding"));
    mount_source(NULL, at("weightless"));
    char *text = tm_log_text(tm_session_log(session), &len), words[FILES_PATH_MAX];
    assert_non_null(strstr(text, "finding: 3.safetensors: missing; "));
    snprintf(words, sizeof(words), "%s: no weights that can be read (*.safetensors)",
             at("weightless"));
    assert_non_null(strstr(text, words));
    free(text);
    unmount("finding");
    unmount("weightless");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_source_is_named_by_its_last_component),
        cmocka_unit_test(names_that_are_no_file_names_are_refused),
        cmocka_unit_test(a_name_is_taken_once_and_the_words_name_the_remedy),
        cmocka_unit_test(a_source_that_is_not_there_is_an_error_and_no_name),
        cmocka_unit_test(names_are_kept_in_order),
        cmocka_unit_test(a_relative_source_is_kept_from_the_root),
        cmocka_unit_test(what_was_removed_is_stale_and_open_files_go_on),
        cmocka_unit_test(what_is_opened_anew_has_other_numbers_and_other_bytes),
        cmocka_unit_test(a_source_that_cannot_be_opened_anew_stays_as_it_is),
        cmocka_unit_test(names_that_are_not_mounted_are_neither_removed_nor_opened_anew),
        cmocka_unit_test(opens_that_fail_use_up_no_numbers),
        cmocka_unit_test(a_file_found_changed_at_open_is_shown_anew),
        cmocka_unit_test(a_file_of_a_member_found_changed_closes_that_member_alone),
        cmocka_unit_test(a_member_is_opened_by_a_request_that_may_wait),
        cmocka_unit_test(members_go_with_their_collection),
        cmocka_unit_test(a_member_of_a_collection_that_is_gone_is_for_its_holder_alone),
        cmocka_unit_test(a_member_that_cannot_be_opened_is_tried_again),
        cmocka_unit_test(nested_members_are_opened_once_however_many_look_them_up),
        cmocka_unit_test(a_fingerprint_is_computed_once),
        cmocka_unit_test(a_fingerprint_that_fails_is_not_remembered),
        cmocka_unit_test(a_session_that_cannot_write_its_log_does_not_start),
        cmocka_unit_test(findings_of_a_source_are_lines_of_the_log),
    };
    return cmocka_run_group_tests_name("session", tests, tree_begin, tree_end);
}
