/*
 * Sources that change while they are mounted, as the session's watcher notices them. Each change is
 * one rename or one system call, so that it is seen whole or not at all.
 */
#include <time.h>

#include "tests/unit/fs/models.h"
#include "tests/unit/fs/tree_walk.h"

enum {
    WAIT_LIMIT_S = 30 /* what was not told by then never is */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char told[64]; /* "PARENT/NAME" of the last change */
static unsigned tellings;

static void note_change(void *ctx, const tm_mounted *parent, const char *name,
                        const tm_mounted *was)
{
    (void)ctx, (void)was;
    pthread_mutex_lock(&lock);
    tellings++;
    snprintf(told, sizeof(told), "%s%s%s", parent ? parent->name : "", parent ? "/" : "", name);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Waits until COUNT changes were told in all; the last is of NAME. */
static void expect_told(unsigned count, const char *name)
{
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += WAIT_LIMIT_S;
    pthread_mutex_lock(&lock);
    int rc = 0;
    while (tellings < count && rc == 0)
        rc = pthread_cond_timedwait(&changed, &lock, &limit);
    unsigned seen = tellings;
    char last[64];
    snprintf(last, sizeof(last), "%s", told);
    tellings = 0;
    pthread_mutex_unlock(&lock);
    assert_int_equal(seen, count);
    assert_string_equal(last, name);
}

static int begin(void **state)
{
    if (files_new(state) < 0)
        return -1;
    write_run("run");
    write_one(at("still/model.safetensors"), "a");
    write_one(at("top/model.safetensors"), "a");
    return session_begin(&(tm_session_params){.threads = 2, .descriptors = 16, .watch = true});
}

static int end(void **state)
{
    tm_session_stop(session);
    return tree_end(state);
}

static void expect_number_is_stale(uint64_t ino)
{
    tm_attr attr;
    tm_req req = blocking_request();
    assert_int_equal(tree->ops->getattr(tree, ino, &req, &attr), -ESTALE);
}

static void changes_of_sources_are_noticed_and_told(void **state)
{
    (void)state;
    mount_source(NULL, at("still"));
    mount_source(NULL, at("top"));
    mount_source(NULL, at("run"));
    uint64_t still = find("models/still/tensors/a").ino;
    uint64_t top = find("models/top/tensors/a").ino;
    tm_session_on_change(session, note_change, NULL);

    /* A file is replaced. */
    write_one(at("fresh"), "b");
    assert_int_equal(rename(at("fresh"), at("top/model.safetensors")), 0);
    expect_told(1, "top");
    expect_number_is_stale(top);
    expect_error("models/top/tensors/a", -ENOENT);
    expect_text_at("models/top/tensors/b/dtype", "F32\n");

    /* The source goes away: its name stays, empty. */
    assert_int_equal(rename(at("top"), at("away")), 0);
    expect_told(1, "top");
    expect_names("load/top", "");
    expect_names("models", "run\nstill\n");
    expect_error("models/top", -ENOENT);

    /* It comes back. */
    assert_int_equal(rename(at("away"), at("top")), 0);
    expect_told(1, "top");
    expect_text_at("models/top/tensors/b/dtype", "F32\n");

    /* A file of one member changes, nothing else of its collection. */
    uint64_t member = find("models/run/checkpoint-500/tensors").ino;
    uint64_t sister = find("models/run/checkpoint-1000/tensors").ino;
    uint64_t nested = find("models/run/pipeline/unet/tensors").ino;
    set_time(at("run/checkpoint-500/config.json"), 1000, 0);
    expect_told(1, "run/checkpoint-500");
    expect_number_is_stale(member);
    assert_int_not_equal(find("models/run/checkpoint-500/tensors").ino, member);
    set_time(at("run/pipeline/unet/model.safetensors"), 1000, 0);
    expect_told(1, "run/pipeline/unet");
    expect_number_is_stale(nested);
    assert_int_equal(find("models/run/checkpoint-1000/tensors").ino, sister);

    /* A checkpoint is added to the run. */
    write_llama("fresh-2000", 1);
    assert_int_equal(rename(at("fresh-2000"), at("run/checkpoint-2000")), 0);
    expect_told(1, "run");
    expect_names("models/run", "checkpoint-1000\ncheckpoint-2000\ncheckpoint-500\npipeline\n");
    expect_number_is_stale(sister);

    assert_int_equal(find("models/still/tensors/a").ino, still);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_of_sources_are_noticed_and_told),
    };
    return cmocka_run_group_tests_name("watch", tests, begin, end);
}
