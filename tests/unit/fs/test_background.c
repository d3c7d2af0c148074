/* Indexes made in the background: each checkpoint once, until somebody says that it is enough. */
#include "fs/background.h"

#include "tests/unit/fs/held_indexing.h"

/* ---- One checkpoint ---- */

static void what_is_asked_for_is_indexed(void **state)
{
    (void)state;
    write_llama("llama", 3);
    mount_source(NULL, at("llama"));
    tm_mounted *m = mounted("llama");
    assert_false(is_indexed(m));
    assert_true(is_idle(m));
    ask_and_wait(m);
    assert_true(is_indexed(m));
    assert_true(exists(at("indexes/model-00001-of-00002.safetensors.tmidx")));
    assert_true(exists(at("indexes/model-00002-of-00002.safetensors.tmidx")));
    assert_false(exists(at("indexes/model-00001-of-00002.safetensors.tmidx.part")));
    assert_false(exists(at("llama/model-00001-of-00002.safetensors.tmidx")));
    assert_int_equal(lines_with("llama: indexed: 11 tensors in 2 files"), 1);
    expect_no_half_index();
}

static void without_an_index_folder_it_lies_beside_the_weights(void **state)
{
    (void)state;
    session_end(); /* begun anew */
    assert_int_equal(session_begin(&(tm_session_params){.threads = THREADS, .descriptors = 32}), 0);
    background = tm_session_background(session);
    write_fused("fused");
    mount_source(NULL, at("fused"));
    tm_mounted *m = mounted("fused");
    ask_and_wait(m);
    assert_true(is_indexed(m));
    assert_true(exists(at("fused/model.safetensors.tmidx")));
    assert_false(exists(at("cache")));
}

static void what_is_asked_for_twice_is_indexed_once(void **state)
{
    (void)state;
    write_llama("llama", 3);
    mount_source(NULL, at("llama"));
    tm_mounted *m = mounted("llama");
    begin_and_hold(background, m);
    for (int i = 0; i < 5; i++)
        ask(m);
    let_scans_go();
    wait_until(is_idle, m, "for an index to be made");
    assert_true(is_indexed(m));
    assert_int_equal(lines_with("llama: indexed"), 1);
    /* Nor is what has an index indexed again. */
    for (int i = 0; i < 3; i++)
        ask_and_wait(m);
    assert_int_equal(lines_with("llama: indexed"), 1);
}

static void those_that_wait_are_said_to_and_come_in_turn(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "c"};
    tm_mounted *all[TM_ARRAY_LEN(names)];
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++) {
        write_one(at("%s/%s.safetensors", names[i], names[i]), "x");
        mount_source(NULL, at("%s", names[i]));
        all[i] = mounted(names[i]);
    }
    begin_and_hold(background, all[0]);
    ask(all[1]);
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++)
        assert_int_equal(is_idle(all[i]), i == 2);
    ask(all[2]);
    let_scans_go();
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++) {
        wait_until(is_idle, all[i], "for an index to be made");
        assert_true(is_indexed(all[i]));
    }
    size_t len;
    char *text = tm_log_text(tm_session_log(session), &len);
    assert_true(strstr(text, "a: indexed") < strstr(text, "b: indexed"));
    assert_true(strstr(text, "b: indexed") < strstr(text, "c: indexed"));
    free(text);
}

static void how_much_is_done_is_told_while_it_is_under_way(void **state)
{
    (void)state;
    uint64_t done = 1;
    write_llama("llama", 3);
    mount_source(NULL, at("llama"));
    tm_mounted *m = mounted("llama");
    assert_false(tm_background_has(background, m, &done));
    assert_int_equal(done, 0);
    begin_and_hold(background, m);
    assert_true(tm_background_has(background, m, &done));
    assert_true(done < 2000); /* of 1,696 bytes of tensors some are being scanned */
    let_scans_go();
    wait_until(is_idle, m, "for an index to be made");
    done = 1;
    assert_false(tm_background_has(background, m, &done));
    assert_int_equal(done, 0);
}

static void what_cannot_be_indexed_is_told_and_tried_again_when_asked_for(void **state)
{
    (void)state;
    write_llama("llama", 1);
    write_text(at("indexes"), "a file where the folder should be");
    mount_source(NULL, at("llama"));
    tm_mounted *m = mounted("llama");
    ask_and_wait(m);
    assert_false(is_indexed(m));
    assert_int_equal(lines_with("llama: not indexed: "), 1);
    assert_int_equal(unlink(at("indexes")), 0);
    ask_and_wait(m);
    assert_true(is_indexed(m));
}

static void of_a_damaged_checkpoint_what_can_be_read_is_indexed(void **state)
{
    (void)state;
    write_damaged("damaged");
    mount_source(NULL, at("damaged"));
    tm_mounted *m = mounted("damaged");
    ask_and_wait(m);
    assert_true(exists(at("indexes/1.safetensors.tmidx")));
    assert_true(exists(at("indexes/2.safetensors.tmidx"))); /* one of its two tensors is whole */
    assert_false(exists(at("indexes/3.safetensors.tmidx")));
    assert_int_equal(lines_with("damaged: indexed: 2 tensors"), 1);
}

/* Indexes are looked after once a second, but who asks for one means now. */
static void an_index_that_was_just_removed_is_made_again(void **state)
{
    (void)state;
    write_fused("fused");
    mount_source(NULL, at("fused"));
    tm_mounted *m = mounted("fused");
    ask_and_wait(m);
    assert_true(is_indexed(m));
    remove_all(at("indexes/model.safetensors.tmidx"));
    ask_and_wait(m);
    assert_true(exists(at("indexes/model.safetensors.tmidx")));
}

static void a_source_that_is_removed_meanwhile_does_no_harm(void **state)
{
    (void)state;
    write_llama("llama", 3);
    write_fused("fused");
    mount_source(NULL, at("llama"));
    mount_source(NULL, at("fused"));
    tm_mounted *m = mounted("llama"), *other = mounted("fused");
    begin_and_hold(background, m);
    ask(other);
    unmount("llama");
    unmount("fused");
    let_scans_go();
    wait_until(is_idle, other, "for an index to be made");
    assert_true(is_idle(m));
    expect_no_half_index();
}

/* ---- Cancelling ---- */

static void a_cancel_stops_it_and_what_is_done_is_kept(void **state)
{
    (void)state;
    write_llama("llama", 3);
    mount_source(NULL, at("llama"));
    tm_mounted *m = mounted("llama");
    begin_and_hold(background, m);
    tm_background_cancel(background, m);
    let_scans_go();
    wait_until(is_idle, m, "for the indexing to stop");
    assert_false(is_indexed(m));
    assert_int_equal(lines_with("llama: indexing was stopped; it goes on where it was"), 1);
    assert_int_equal(lines_with("llama: indexed"), 0);
    assert_false(exists(at("indexes/model-00001-of-00002.safetensors.tmidx")));
    /* What was being scanned by then. */
    assert_true(exists(at("indexes/model-00001-of-00002.safetensors.tmidx.part")));
    ask_and_wait(m);
    assert_true(is_indexed(m));
    assert_false(exists(at("indexes/model-00001-of-00002.safetensors.tmidx.part")));
}

static void what_waits_is_cancelled_without_being_begun(void **state)
{
    (void)state;
    write_llama("llama", 3);
    write_fused("fused");
    write_stacks("stacks");
    mount_source(NULL, at("llama"));
    mount_source(NULL, at("fused"));
    mount_source(NULL, at("stacks"));
    tm_mounted *first = mounted("llama"), *waits = mounted("fused"), *last = mounted("stacks");
    begin_and_hold(background, first);
    ask(waits);
    ask(last);
    tm_background_cancel(background, waits);
    assert_true(is_idle(waits));
    assert_false(is_idle(first) || is_idle(last));
    let_scans_go();
    wait_until(is_idle, last, "for an index to be made");
    assert_true(is_indexed(first) && is_indexed(last));
    assert_false(is_indexed(waits));
    assert_int_equal(lines_with("fused"), 0);
}

/* The list of those that wait is sound after the first, the last, one in the midst are taken out.
 */
static void those_that_wait_are_cancelled_in_any_order(void **state)
{
    (void)state;
    enum {
        COUNT = 5
    };
    tm_mounted *all[COUNT];
    for (int i = 0; i < COUNT; i++) {
        write_one(at("m%d/%d.safetensors", i, i), "x");
        mount_source(NULL, at("m%d", i));
        all[i] = mounted(strrchr(at("m%d", i), '/') + 1);
    }
    write_llama("llama", 3);
    mount_source(NULL, at("llama"));
    tm_mounted *first = mounted("llama");
    for (int gone = 0; gone < COUNT; gone++) {
        begin_and_hold(background, first);
        for (int i = 0; i < COUNT; i++)
            ask(all[i]);
        tm_background_cancel(background, all[gone]);
        tm_background_cancel(background, all[(gone + 1) % COUNT]);
        ask(all[gone]); /* to the end of the list */
        let_scans_go();
        for (int i = 0; i < COUNT; i++)
            wait_until(is_idle, all[i], "for an index to be made");
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(is_indexed(all[i]), i != (gone + 1) % COUNT);
        wait_until(is_idle, first, "for an index to be made");
        remove_indexes();
    }
}

static void a_cancel_of_what_is_not_asked_for_does_nothing(void **state)
{
    (void)state;
    write_llama("llama", 3);
    write_fused("fused");
    mount_source(NULL, at("llama"));
    mount_source(NULL, at("fused"));
    tm_mounted *m = mounted("llama"), *other = mounted("fused");
    tm_background_cancel(background, m);
    begin_and_hold(background, m);
    tm_background_cancel(background, other);
    let_scans_go();
    wait_until(is_idle, m, "for an index to be made");
    assert_true(is_indexed(m));
}

/* "llama" is not within "ll", nor "llama-2" within "llama". */
static void a_cancel_is_for_the_whole_name(void **state)
{
    (void)state;
    write_llama("llama-2", 1);
    write_fused("llama");
    mount_source(NULL, at("llama-2"));
    mount_source(NULL, at("llama"));
    tm_mounted *m = mounted("llama-2"), *other = mounted("llama");
    begin_and_hold(background, m);
    tm_background_cancel(background, other);
    let_scans_go();
    wait_until(is_idle, m, "for an index to be made");
    assert_true(is_indexed(m));
}

/* So many tensors that none of the cancels below comes too late. */
static void write_many(const char *folder)
{
    static made_model many;
    model_clear(&many);
    for (int i = 0; i < MODEL_TENSORS_MAX; i++)
        model_add(&many, "U8", "4", "t%d", i);
    model_write(&many, folder);
}

/* From the moment that it is asked for: also when nobody has begun, or somebody begins just now. */
static void a_cancel_is_never_too_early(void **state)
{
    (void)state;
    enum {
        ROUNDS = 500,
        STEP_NS = 1000
    };
    unsigned missed = 0;
    write_many("many");
    mount_source(NULL, at("many"));
    tm_mounted *m = mounted("many");
    for (uint64_t i = 0; i < ROUNDS; i++) {
        ask(m);
        for (uint64_t end = tm_now_ns() + i * STEP_NS; tm_now_ns() < end;)
            ;
        tm_background_cancel(background, m);
        wait_until(is_idle, m, "for the indexing to stop");
        missed += is_indexed(m);
        remove_indexes();
    }
    if (missed)
        fail_msg("%u of %d cancels were not heard", missed, ROUNDS);
}

/* ---- Its end ---- */

static void *let_go_soon(void *none)
{
    (void)none;
    let_scans_go();
    return NULL;
}

static void it_may_end_in_the_midst(void **state)
{
    (void)state;
    enum {
        ROUNDS = 6
    };
    write_llama("llama", 3);
    write_fused("fused");
    write_run("run");
    mount_source(NULL, at("llama"));
    mount_source(NULL, at("fused"));
    mount_source(NULL, at("run"));
    tm_mounted *all[] = {mounted("llama"), mounted("fused"), mounted("run")};
    for (int i = 0; i < ROUNDS; i++) {
        tm_background *b;
        pthread_t thread;
        tm_req req = blocking_request();
        assert_int_equal(tm_background_new(session, false, &b), 0);
        begin_and_hold(b, all[0]);
        assert_int_equal(tm_background_index(b, all[1], false, &req), 0);
        assert_int_equal(tm_background_index(b, all[2], false, &req), 0);
        assert_int_equal(pthread_create(&thread, NULL, let_go_soon, NULL), 0);
        tm_background_free(b);
        pthread_join(thread, NULL);
        expect_no_half_index();
        assert_int_equal(lines_with("not indexed"), 0);
        if (i + 1 < ROUNDS)
            remove_indexes();
    }
    /* What was left is taken up. */
    for (size_t i = 0; i < TM_ARRAY_LEN(all); i++)
        ask_and_wait(all[i]);
    assert_true(is_indexed(all[0]) && is_indexed(all[1]));
}

static void one_that_was_asked_for_nothing_ends(void **state)
{
    (void)state;
    tm_background *b;
    assert_int_equal(tm_background_new(session, false, &b), 0);
    tm_background_free(b);
    assert_int_equal(tm_background_new(session, true, &b), 0);
    tm_background_free(b);
    tm_background_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_asked_for_is_indexed),
        TEST(without_an_index_folder_it_lies_beside_the_weights),
        TEST(what_is_asked_for_twice_is_indexed_once),
        TEST(those_that_wait_are_said_to_and_come_in_turn),
        TEST(how_much_is_done_is_told_while_it_is_under_way),
        TEST(what_cannot_be_indexed_is_told_and_tried_again_when_asked_for),
        TEST(of_a_damaged_checkpoint_what_can_be_read_is_indexed),
        TEST(an_index_that_was_just_removed_is_made_again),
        TEST(a_source_that_is_removed_meanwhile_does_no_harm),
        TEST(a_cancel_stops_it_and_what_is_done_is_kept),
        TEST(what_waits_is_cancelled_without_being_begun),
        TEST(those_that_wait_are_cancelled_in_any_order),
        TEST(a_cancel_of_what_is_not_asked_for_does_nothing),
        TEST(a_cancel_is_for_the_whole_name),
        TEST(a_cancel_is_never_too_early),
        TEST(it_may_end_in_the_midst),
        TEST(one_that_was_asked_for_nothing_ends),
    };
    return cmocka_run_group_tests_name("background", tests, NULL, NULL);
}
