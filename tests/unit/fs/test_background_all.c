/* Indexes made in the background: collections, and all that is mounted. */
#include "fs/background.h"

#include "tests/unit/fs/held_indexing.h"

/* ---- Collections ---- */

static const char *const members[] = {"checkpoint-1000", "checkpoint-500", "pipeline/unet",
                                      "pipeline/vae"};

/* A member of the run, also of the collection in it. */
static tm_mounted *member_of_run(size_t i)
{
    const char *slash = strchr(members[i], '/');
    if (!slash)
        return mounted_member("run", members[i]);
    mounted_member("run", "pipeline");
    return mounted_member("run/pipeline", slash + 1);
}

static bool member_is_indexed(size_t i)
{
    return is_indexed(member_of_run(i));
}

static void expect_none_of_the_run_is_indexed(void)
{
    for (size_t i = 0; i < TM_ARRAY_LEN(members); i++)
        assert_false(member_is_indexed(i));
}

static void of_a_collection_every_checkpoint_is_indexed(void **state)
{
    (void)state;
    write_run("run");
    mount_source(NULL, at("run"));
    tm_mounted *run = mounted("run");
    ask_and_wait(run);
    for (size_t i = 0; i < TM_ARRAY_LEN(members); i++) {
        char words[64];
        snprintf(words, sizeof(words), "run/%s: indexed", members[i]);
        assert_int_equal(lines_with(words), 1);
        assert_true(member_is_indexed(i));
    }
    assert_true(exists(at("indexes/checkpoint-500/model-00001-of-00002.safetensors.tmidx")));
    assert_true(exists(at("indexes/pipeline/unet/model.safetensors.tmidx")));
    assert_false(exists(at("indexes/runs")));
}

static void a_member_is_indexed_alone_and_once(void **state)
{
    (void)state;
    write_run("run");
    mount_source(NULL, at("run"));
    tm_mounted *run = mounted("run"), *one = member_of_run(1);
    ask_and_wait(one);
    for (size_t i = 0; i < TM_ARRAY_LEN(members); i++)
        assert_int_equal(member_is_indexed(i), i == 1);
    ask(run);
    ask(one);
    wait_until(is_idle, run, "for an index to be made");
    wait_until(is_idle, one, "for an index to be made");
    assert_int_equal(lines_with("run/checkpoint-500: indexed"), 1);
    for (size_t i = 0; i < TM_ARRAY_LEN(members); i++)
        assert_true(member_is_indexed(i));
}

/* Mounts the run, asks for it, and waits until its first member is under way. */
static tm_mounted *begin_and_hold_run(void)
{
    write_run("run");
    mount_source(NULL, at("run"));
    tm_mounted *run = mounted("run");
    for (size_t i = 0; i < TM_ARRAY_LEN(members); i++)
        member_of_run(i); /* they need not be opened any more */
    begin_and_hold(background, run);
    wait_until(is_under_way, member_of_run(0), "for the first member to be begun");
    return run;
}

static void a_cancelled_collection_goes_no_further(void **state)
{
    (void)state;
    tm_mounted *run = begin_and_hold_run();
    tm_background_cancel(background, run);
    let_scans_go();
    wait_until(is_idle, run, "for the indexing to stop");
    expect_none_of_the_run_is_indexed();
    ask_and_wait(run);
    for (size_t i = 0; i < TM_ARRAY_LEN(members); i++)
        assert_true(member_is_indexed(i));
}

/* So that its next read waits for a disk, where the file system can. */
static void drop_pages(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fsync(fd), 0);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    close(fd);
}

/* Then none of its members is under way yet. */
static void a_collection_is_cancelled_while_a_member_is_opened(void **state)
{
    (void)state;
    write_run("run");
    for (int i = 1; i < 3; i++)
        drop_pages(at("run/checkpoint-1000/model-%05d-of-00002.safetensors", i));
    mount_source(NULL, at("run"));
    tm_mounted *run = mounted("run");
    begin_and_hold(background, run);
    tm_background_cancel(background, run);
    let_scans_go();
    wait_until(is_idle, run, "for the indexing to stop");
    expect_none_of_the_run_is_indexed();
}

static void a_cancel_of_a_collection_takes_out_members_that_wait(void **state)
{
    (void)state;
    write_llama("llama", 3);
    write_run("run");
    mount_source(NULL, at("llama"));
    mount_source(NULL, at("run"));
    tm_mounted *first = mounted("llama"), *run = mounted("run"), *one = member_of_run(0);
    begin_and_hold(background, first);
    ask(one);
    tm_background_cancel(background, run);
    assert_true(is_idle(one));
    let_scans_go();
    wait_until(is_idle, first, "for an index to be made");
    assert_false(is_indexed(one));
}

/* The first member is under way when the one of number GONE is cancelled. */
static void cancel_one_member(size_t gone)
{
    tm_mounted *run = begin_and_hold_run();
    bool indexed[TM_ARRAY_LEN(members)];
    tm_background_cancel(background, member_of_run(gone));
    let_scans_go();
    wait_until(is_idle, run, "for the collection to be gone through");
    for (size_t i = 0; i < TM_ARRAY_LEN(members); i++)
        indexed[i] = member_is_indexed(i);
    for (size_t i = 0; i < TM_ARRAY_LEN(members); i++)
        if (indexed[i] == (i == gone))
            fail_msg("%s is %sindexed", members[i], indexed[i] ? "" : "not ");
}

static void a_cancelled_member_that_is_under_way_leaves_the_others_to_be_indexed(void **state)
{
    (void)state;
    cancel_one_member(0);
}

static void a_cancelled_member_whose_turn_has_not_come_is_passed_over(void **state)
{
    (void)state;
    cancel_one_member(1);
}

/* ---- All that is mounted ---- */

static void all_that_is_mounted_is_indexed_and_what_comes_later_too(void **state)
{
    (void)state;
    tm_background *all;
    write_llama("llama", 2);
    write_run("run");
    write_text(at("plain/readme.txt"), "no weights here\n");
    mount_source(NULL, at("llama"));
    mount_source(NULL, at("run"));
    mount_source(NULL, at("plain"));
    tm_mounted *llama = mounted("llama");
    assert_int_equal(tm_background_new(session, true, &all), 0);
    wait_until(is_indexed_now, llama, "for all to be indexed");
    for (size_t i = 0; i < TM_ARRAY_LEN(members); i++)
        wait_until(is_indexed_now, member_of_run(i), "for all to be indexed");
    write_fused("late");
    mount_source(NULL, at("late"));
    tm_mounted *late = mounted("late");
    wait_until(is_indexed_now, late, "for what came later to be indexed");
    tm_background_free(all);
    assert_int_equal(lines_with("llama: indexed"), 1);
    assert_int_equal(lines_with("late: indexed"), 1);
    assert_int_equal(lines_with("indexed"), 2 + TM_ARRAY_LEN(members));
}

static void a_source_that_was_opened_anew_is_indexed_anew(void **state)
{
    (void)state;
    tm_background *all;
    tm_req req = blocking_request();
    write_one(at("m/model.safetensors"), "a");
    mount_source(NULL, at("m"));
    tm_mounted *m = mounted("m");
    assert_int_equal(tm_background_new(session, true, &all), 0);
    wait_until(is_indexed_now, m, "for all to be indexed");
    write_one(at("new"), "b");
    assert_int_equal(rename(at("new"), at("m/model.safetensors")), 0);
    assert_int_equal(tm_session_reload(session, "m", &req), 0);
    m = mounted("m");
    wait_until(is_indexed_now, m, "for the new one to be indexed");
    tm_background_free(all);
}

static void what_was_cancelled_is_not_begun_again_by_itself(void **state)
{
    (void)state;
    tm_background *all, *own = background;
    write_llama("llama", 3);
    mount_source(NULL, at("llama"));
    tm_mounted *m = mounted("llama");
    hold_scans();
    assert_int_equal(tm_background_new(session, true, &all), 0);
    background = all;
    wait_until(scans_wait, NULL, "for a scan to begin");
    tm_background_cancel(all, m);
    let_scans_go();
    wait_until(is_idle, m, "for the indexing to stop");
    /* When something that came later was indexed all were looked at once more. */
    for (int i = 0; i < 2; i++) {
        char name[8];
        snprintf(name, sizeof(name), "z%d", i);
        write_one(at("%s/%s.safetensors", name, name), "a");
        mount_source(NULL, at("%s", name));
        tm_mounted *late = mounted(name);
        wait_until(is_indexed_now, late, "for what came later to be indexed");
    }
    assert_false(is_indexed(m));
    ask_and_wait(m);
    assert_true(is_indexed(m));
    background = own;
    tm_background_free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(of_a_collection_every_checkpoint_is_indexed),
        TEST(a_member_is_indexed_alone_and_once),
        TEST(a_cancelled_collection_goes_no_further),
        TEST(a_collection_is_cancelled_while_a_member_is_opened),
        TEST(a_cancel_of_a_collection_takes_out_members_that_wait),
        TEST(a_cancelled_member_that_is_under_way_leaves_the_others_to_be_indexed),
        TEST(a_cancelled_member_whose_turn_has_not_come_is_passed_over),
        TEST(all_that_is_mounted_is_indexed_and_what_comes_later_too),
        TEST(a_source_that_was_opened_anew_is_indexed_anew),
        TEST(what_was_cancelled_is_not_begun_again_by_itself),
    };
    return cmocka_run_group_tests_name("background_all", tests, NULL, NULL);
}
