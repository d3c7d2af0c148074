/*
 * Indexing in the background, whose scans a test holds up: what is under way stays so until they
 * are let go. Each test has a session and an index folder of its own.
 */
#ifndef TM_TESTS_UNIT_FS_HELD_INDEXING_H
#define TM_TESTS_UNIT_FS_HELD_INDEXING_H

#include <time.h>

#include "fs/background.h"
#include "fs/indexes.h"
#include "tests/unit/core/engine.h"
#include "tests/unit/fs/models.h"
#include "tests/unit/fs/tree_walk.h"

enum {
    THREADS = 2,
    LOOK_MS = 2
};

static tm_background *background; /* the session's own: only what it is asked for */

/* What a test has mounted is referenced until it ends, also where it fails. */
enum {
    REFS_MAX = 64
};
static tm_mounted *refs[REFS_MAX];
static size_t ref_count;

static inline tm_mounted *keep(tm_mounted *m)
{
    assert_true(ref_count < REFS_MAX);
    return refs[ref_count++] = m;
}

static inline tm_mounted *mounted(const char *name)
{
    tm_mounted *m;
    tm_req req = blocking_request();
    if (tm_session_get(session, name, &req, &m) < 0)
        fail_msg("%s", tm_req_words(&req));
    return keep(m);
}

static inline tm_mounted *mounted_member(const char *collection, const char *name)
{
    tm_mounted *m;
    tm_req req = blocking_request();
    assert_int_equal(tm_session_member(session, mounted(collection), name, &req, &m), 0);
    return keep(m);
}

static inline int begin(void **state)
{
    if (files_new(state) < 0)
        return -1;
    setenv("XDG_CACHE_HOME", at("cache"), 1);
    if (session_begin(&(tm_session_params){
            .threads = THREADS, .descriptors = 32, .index_folder = at("indexes")}) < 0)
        return -1;
    background = tm_session_background(session);
    return 0;
}

/* ---- Waiting ---- */

typedef bool condition(const void *arg);

static inline void wait_until(condition *holds, const void *arg, const char *what)
{
    uint64_t limit = tm_now_ns() + WAIT_LIMIT_S * UINT64_C(1000000000);
    while (!holds(arg)) {
        if (tm_now_ns() > limit)
            fail_msg("still waiting: %s", what);
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000}, NULL);
    }
}

static inline bool is_idle(const void *m)
{
    uint64_t done;
    return !tm_background_has(background, m, &done);
}

/* Not only asked for: bytes of it are being done. */
static inline bool is_under_way(const void *m)
{
    uint64_t done;
    return tm_background_has(background, m, &done) && done > 0;
}

static inline bool scans_wait(const void *none)
{
    (void)none;
    tm_pool_lane_counts counts[TM_LANE_COUNT];
    tm_pool_counts(tm_sched_workers(tm_session_sched(session), TM_LANE_INDEX), counts);
    return counts[TM_LANE_INDEX].queued > 0;
}

/* ---- Holding up the threads that scan ---- */

/* Jobs that take all of them until they are let go. */
static struct {
    tm_job jobs[THREADS];
    bool holds;           /* whether they are to be let go yet */
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    unsigned reached, ended;
    bool go;
} holding = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static inline void run_hold(tm_job *job)
{
    (void)job;
    pthread_mutex_lock(&holding.lock);
    holding.reached++;
    pthread_cond_broadcast(&holding.changed);
    while (!holding.go)
        wait_changed(&holding.changed, &holding.lock, "for the test to let the scans go on");
    holding.ended++;
    pthread_cond_broadcast(&holding.changed);
    pthread_mutex_unlock(&holding.lock);
}

static inline void hold_scans(void)
{
    tm_pool *pool = tm_sched_workers(tm_session_sched(session), TM_LANE_INDEX);
    pthread_mutex_lock(&holding.lock);
    holding.reached = holding.ended = 0;
    holding.go = false;
    pthread_mutex_unlock(&holding.lock);
    holding.holds = true;
    for (int i = 0; i < THREADS; i++) {
        holding.jobs[i] = (tm_job){.run = run_hold, .lane = TM_LANE_INDEX};
        tm_pool_submit(pool, &holding.jobs[i]);
    }
    pthread_mutex_lock(&holding.lock);
    while (holding.reached < THREADS)
        wait_changed(&holding.changed, &holding.lock, "for the threads to be held up");
    pthread_mutex_unlock(&holding.lock);
}

static inline void let_scans_go(void)
{
    pthread_mutex_lock(&holding.lock);
    holding.go = true;
    pthread_cond_broadcast(&holding.changed);
    while (holding.ended < THREADS)
        wait_changed(&holding.changed, &holding.lock, "for the threads to go on");
    pthread_mutex_unlock(&holding.lock);
    holding.holds = false;
}

/* Asks for M, and waits until it is under way and cannot get on. */
static inline void begin_and_hold(tm_background *b, tm_mounted *m)
{
    tm_req req = blocking_request();
    hold_scans();
    assert_int_equal(tm_background_index(b, m, false, &req), 0);
    wait_until(scans_wait, NULL, "for a scan to begin");
}

/* ---- What was done ---- */

/* How many lines of the log hold WORDS. */
static inline unsigned lines_with(const char *words)
{
    size_t len;
    unsigned count = 0;
    char *text = tm_log_text(tm_session_log(session), &len);
    for (const char *p = text; (p = strstr(p, words)); p += strlen(words))
        count++;
    free(text);
    return count;
}

static inline bool is_indexed(tm_mounted *m)
{
    tm_indexes *indexes;
    tm_req req = blocking_request();
    tm_indexes_forget(m);
    assert_int_equal(tm_indexes_get(session, m, &req, &indexes), 0);
    tm_index_report report = tm_indexes_report(indexes, &req);
    tm_indexes_unref(indexes);
    return report.state == TM_INDEX_FRESH;
}

static inline bool is_indexed_now(const void *m)
{
    return is_indexed((tm_mounted *)(uintptr_t)m);
}

static inline bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static unsigned unfinished;

static inline int count_unfinished(const char *path, const struct stat *st, int type,
                                   struct FTW *ftw)
{
    (void)st, (void)ftw;
    const char *dot = strrchr(path, '.');
    unfinished += type == FTW_F && dot && strcmp(dot, ".tmp") == 0;
    return 0;
}

/* No index that is half written stands where indexes lie. */
static inline void expect_no_half_index(void)
{
    unfinished = 0;
    assert_int_equal(nftw(files_root, count_unfinished, 16, FTW_PHYS), 0);
    assert_int_equal(unfinished, 0);
}

/* All of them, as if that were long ago. */
static inline void remove_indexes(void)
{
    if (exists(at("indexes")))
        remove_all(at("indexes"));
    for (size_t i = 0; i < ref_count; i++)
        tm_indexes_forget(refs[i]);
}

static inline void ask(tm_mounted *m)
{
    tm_req req = blocking_request();
    assert_int_equal(tm_background_index(background, m, false, &req), 0);
}

static inline void ask_and_wait(tm_mounted *m)
{
    ask(m);
    wait_until(is_idle, m, "for an index to be made");
}

/* Also after a test that failed in its midst. */
static inline int end(void **state)
{
    if (holding.holds)
        let_scans_go();
    tm_session_stop(session);
    while (ref_count > 0)
        tm_mounted_unref(refs[--ref_count]);
    return tree_end(state);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

#endif
