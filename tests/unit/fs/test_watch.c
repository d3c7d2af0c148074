/*
 * Sources that change while they are mounted, as the session's watcher notices them. Each change is
 * one rename or one system call, so that it is seen whole or not at all.
 */
#include <time.h>

#include "tests/unit/fs/models.h"
#include "tests/unit/fs/tree_walk.h"

enum {
    WAIT_LIMIT_S = 30, /* what was not noticed by then never is */
    LOOK_MS = 5
};

/* Waits until what has the number INO is there no more. */
static void wait_stale(uint64_t ino)
{
    uint64_t limit = tm_now_ns() + WAIT_LIMIT_S * UINT64_C(1000000000);
    int rc;
    do {
        tm_attr attr;
        tm_req req = blocking_request();
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000}, NULL);
        rc = tree->ops->getattr(tree, ino, &req, &attr);
    } while (rc == 0 && tm_now_ns() < limit);
    assert_int_equal(rc, -ESTALE);
}

/* Waits until PATH has these names. A member and the collection that lists it are looked after each
 * on their own. */
static void wait_names(const char *path, const char *expected)
{
    uint64_t limit = tm_now_ns() + WAIT_LIMIT_S * UINT64_C(1000000000);
    bool same;
    do {
        char *names = names_at(path);
        same = strcmp(names, expected) == 0;
        free(names);
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000}, NULL);
    } while (!same && tm_now_ns() < limit);
    expect_names(path, expected);
}

static int begin(void **state)
{
    if (files_new(state) < 0)
        return -1;
    write_one(at("still/model.safetensors"), "a");
    write_one(at("top/model.safetensors"), "a");
    return session_begin(&(tm_session_params){.threads = 2, .descriptors = 16, .watch = true});
}

static int end(void **state)
{
    tm_session_stop(session);
    return tree_end(state);
}

static uint64_t number(const char *path)
{
    return find(path).ino;
}

static void a_source_that_changes_is_opened_anew(void **state)
{
    (void)state;
    mount_source(NULL, at("still"));
    mount_source(NULL, at("top"));
    uint64_t still = number("models/still/tensors/a"), top = number("models/top/tensors/a");

    /* A file is replaced. */
    write_one(at("fresh"), "b");
    assert_int_equal(rename(at("fresh"), at("top/model.safetensors")), 0);
    wait_stale(top);
    expect_error("models/top/tensors/a", -ENOENT);
    expect_text_at("models/top/tensors/b/dtype", "F32\n");

    /* The source goes away: its name stays, empty. */
    top = number("load/top");
    assert_int_equal(rename(at("top"), at("away")), 0);
    wait_stale(top);
    expect_names("load/top", "");
    expect_error("models/top", -ENOENT);

    /* It comes back. */
    top = number("load/top");
    assert_int_equal(rename(at("away"), at("top")), 0);
    wait_stale(top);
    expect_text_at("models/top/tensors/b/dtype", "F32\n");

    assert_int_equal(number("models/still/tensors/a"), still);
    unmount("still");
    unmount("top");
}

static void what_stands_beside_weights_may_change_without_them(void **state)
{
    (void)state;
    write_one(at("logged/model.safetensors"), "a");
    write_text(at("logged/logs/train.log"), "1");
    write_text(at("logged/notes.txt"), "n");
    mount_source(NULL, at("logged"));
    uint64_t weights = number("load/logged/model.safetensors");
    uint64_t folder = number("load/logged/logs"), notes = number("load/logged/notes.txt");
    uint64_t tensor = number("models/logged/tensors/a/data.npy");
    uint64_t json = number("models/logged/model.json");
    char text[16];
    for (int i = 2; i < 5; i++) {
        uint64_t log = number("load/logged/logs/train.log");
        snprintf(text, sizeof(text), "%d-", i);
        text[i] = '\0';
        write_text(at("logged/logs/train.log"), text);
        set_time(at("logged/logs/train.log"), 1000 + i, 0);
        wait_stale(log);
        expect_text_at("load/logged/logs/train.log", text);
    }
    write_text(at("logged/a new one"), "x");
    assert_int_equal(unlink(at("logged/notes.txt")), 0);
    wait_stale(notes);
    expect_names("load/logged", "a new one\nlogs\nmodel.safetensors\n");
    assert_int_equal(number("load/logged/model.safetensors"), weights);
    assert_int_equal(number("load/logged/logs"), folder);
    assert_int_equal(number("models/logged/tensors/a/data.npy"), tensor);
    assert_int_equal(number("models/logged/model.json"), json);
    /* What is read for the model makes it another one. */
    write_text(at("logged/config.json"), "{\"tie_word_embeddings\": true}");
    wait_stale(tensor);
    assert_int_not_equal(number("load/logged/model.safetensors"), weights);
    unmount("logged");
}

static void a_folder_without_weights_is_listed_anew_until_it_has_some(void **state)
{
    (void)state;
    write_text(at("plain/a.txt"), "a");
    mount_source(NULL, at("plain"));
    uint64_t a = number("load/plain/a.txt");
    write_text(at("plain/sub/b.txt"), "b");
    write_text(at("plain/a.txt"), "longer");
    wait_stale(a);
    expect_names("load/plain", "a.txt\nsub\n");
    expect_text_at("load/plain/sub/b.txt", "b");
    expect_error("models/plain", -ENOENT);
    uint64_t folder = number("load/plain");
    write_one(at("fresh"), "w");
    assert_int_equal(rename(at("fresh"), at("plain/model.safetensors")), 0);
    wait_stale(folder);
    expect_text_at("models/plain/tensors/w/dtype", "F32\n");
    unmount("plain");
}

static void a_collection_keeps_the_members_that_have_not_changed(void **state)
{
    (void)state;
    write_run("run");
    mount_source(NULL, at("run"));
    uint64_t member = number("models/run/checkpoint-500/tensors");
    uint64_t sister = number("models/run/checkpoint-1000/tensors");
    uint64_t nested = number("models/run/pipeline/unet/tensors");
    uint64_t log = number("load/run/trainer.log");
    set_time(at("run/checkpoint-500/config.json"), 1000, 0);
    wait_stale(member);
    assert_int_not_equal(number("models/run/checkpoint-500/tensors"), member);
    member = number("models/run/checkpoint-500/tensors");
    set_time(at("run/pipeline/unet/model.safetensors"), 1000, 0);
    wait_stale(nested);
    nested = number("models/run/pipeline/unet/tensors");

    /* A log grows, a checkpoint joins. */
    write_llama("fresh-2000", 1);
    write_text(at("run/trainer.log"), "step 2000, and more");
    assert_int_equal(rename(at("fresh-2000"), at("run/checkpoint-2000")), 0);
    wait_stale(log);
    wait_names("models/run", "checkpoint-1000\ncheckpoint-2000\ncheckpoint-500\npipeline\n");
    expect_text_at("models/run/checkpoint-2000/state", "ready\n");
    assert_int_equal(number("models/run/checkpoint-1000/tensors"), sister);
    assert_int_equal(number("models/run/checkpoint-500/tensors"), member);
    assert_int_equal(number("models/run/pipeline/unet/tensors"), nested);

    /* One leaves. */
    assert_int_equal(rename(at("run/checkpoint-500"), at("left")), 0);
    wait_stale(member);
    wait_names("models/run", "checkpoint-1000\ncheckpoint-2000\npipeline\n");
    assert_int_equal(number("models/run/checkpoint-1000/tensors"), sister);
    unmount("run");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_source_that_changes_is_opened_anew),
        cmocka_unit_test(what_stands_beside_weights_may_change_without_them),
        cmocka_unit_test(a_folder_without_weights_is_listed_anew_until_it_has_some),
        cmocka_unit_test(a_collection_keeps_the_members_that_have_not_changed),
    };
    return cmocka_run_group_tests_name("watch", tests, begin, end);
}
