/* What tests of reads share: a leaf whose fetches the test ends, and notes of how reads ended. */
#ifndef TM_TESTS_UNIT_CORE_ENGINE_H
#define TM_TESTS_UNIT_CORE_ENGINE_H

#include "core/read.h"

#include <stdarg.h>
#include <stdio.h>
#include <setjmp.h>
#include <cmocka.h>
#include <time.h>

enum {
    WAIT_LIMIT_S = 60 /* what has not come by then never does */
};

/* 31 bits; the same numbers in each run. */
static inline uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* Waits for CHANGED, any thread. */
static inline void wait_changed(pthread_cond_t *changed, pthread_mutex_t *lock, const char *what)
{
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += WAIT_LIMIT_S;
    if (pthread_cond_timedwait(changed, lock, &limit) != ETIMEDOUT)
        return;
    fprintf(stderr, "still waiting: %s\n", what);
    abort();
}

/* ---- Something that happens once ---- */

typedef struct event {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool happened;
} event;

#define EVENT_INIT                                                                                 \
    (event)                                                                                        \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false                                 \
    }

static inline void event_set(event *e)
{
    pthread_mutex_lock(&e->lock);
    e->happened = true;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

static inline void event_wait(event *e, const char *what)
{
    pthread_mutex_lock(&e->lock);
    while (!e->happened)
        wait_changed(&e->changed, &e->lock, what);
    pthread_mutex_unlock(&e->lock);
}

/* ---- The leaf ---- */

typedef struct leaf {
    tm_blob blob;
    bool at_hand;         /* fetch_now has the bytes */
    bool takes_near;      /* what is only to be near is started too, else it is at hand */
    bool keeps;           /* what is under way cannot be taken back */
    int now_rc;           /* what fetch_now answers besides */
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    tm_fetch *first, *last; /* under way, oldest first */
    unsigned asked, near, started, withdrawn;
} leaf;

static inline leaf *as_leaf(tm_blob *blob)
{
    return TM_CONTAINER(blob, leaf, blob);
}

static inline uint8_t leaf_byte(uint64_t off)
{
    return (uint8_t)(off * 31 + (off >> 8) * 7 + 5);
}

static inline void leaf_fill(uint64_t off, size_t len, uint8_t *dst)
{
    for (size_t i = 0; i < len; i++)
        dst[i] = leaf_byte(off + i);
}

static inline int leaf_fetch_now(tm_blob *blob, uint64_t off, size_t len, void *dst, tm_req *req)
{
    leaf *self = as_leaf(blob);
    pthread_mutex_lock(&self->lock);
    ++*(dst ? &self->asked : &self->near);
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
    if (self->now_rc < 0)
        return tm_fail(req, -self->now_rc, "the leaf fails at once");
    if (!dst)
        return self->takes_near ? -EAGAIN : 0;
    if (!self->at_hand)
        return -EAGAIN;
    leaf_fill(off, len, dst);
    return 0;
}

static inline void leaf_fetch_start(tm_blob *blob, tm_fetch *fetch)
{
    leaf *self = as_leaf(blob);
    pthread_mutex_lock(&self->lock);
    fetch->leaf_word = true; /* it is in the list */
    fetch->leaf_prev = self->last;
    fetch->leaf_next = NULL;
    *(self->last ? &self->last->leaf_next : &self->first) = fetch;
    self->last = fetch;
    self->started++;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
}

static inline void leaf_unlink(leaf *self, tm_fetch *fetch)
{
    *(fetch->leaf_prev ? &fetch->leaf_prev->leaf_next : &self->first) = fetch->leaf_next;
    *(fetch->leaf_next ? &fetch->leaf_next->leaf_prev : &self->last) = fetch->leaf_prev;
    fetch->leaf_word = false;
}

static inline bool leaf_fetch_cancel(tm_blob *blob, tm_fetch *fetch)
{
    leaf *self = as_leaf(blob);
    pthread_mutex_lock(&self->lock);
    bool taken = fetch->leaf_word && !self->keeps;
    if (taken) {
        leaf_unlink(self, fetch);
        self->withdrawn++;
        pthread_cond_broadcast(&self->changed);
    }
    pthread_mutex_unlock(&self->lock);
    return taken;
}

static inline void leaf_free(tm_blob *blob)
{
    leaf *self = as_leaf(blob);
    pthread_mutex_destroy(&self->lock);
    pthread_cond_destroy(&self->changed);
    free(self);
}

static const tm_blob_ops leaf_ops = {
    .kind = "test leaf",
    .fetch_now = leaf_fetch_now,
    .fetch_start = leaf_fetch_start,
    .fetch_cancel = leaf_fetch_cancel,
    .free = leaf_free,
};

static inline leaf *leaf_new(uint64_t size)
{
    leaf *self = TM_NEW(leaf);
    assert_non_null(self);
    tm_blob_init(&self->blob, &leaf_ops, size);
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->changed, NULL);
    return self;
}

/* Waits until COUNT fetches have been started in all. */
static inline void leaf_wait_started(leaf *self, unsigned count)
{
    pthread_mutex_lock(&self->lock);
    while (self->started < count)
        wait_changed(&self->changed, &self->lock, "for fetches to start");
    pthread_mutex_unlock(&self->lock);
}

/* Waits until COUNT fetches of what is only to be near have been asked for. */
static inline void leaf_wait_near(leaf *self, unsigned count)
{
    pthread_mutex_lock(&self->lock);
    while (self->near < count)
        wait_changed(&self->changed, &self->lock, "for what is to be near");
    pthread_mutex_unlock(&self->lock);
}

static inline void leaf_wait_withdrawn(leaf *self, unsigned count)
{
    pthread_mutex_lock(&self->lock);
    while (self->withdrawn < count)
        wait_changed(&self->changed, &self->lock, "for fetches to be withdrawn");
    pthread_mutex_unlock(&self->lock);
}

/* Ends the oldest fetch (the newest where NEWEST); false where none is under way. */
static inline bool leaf_end(leaf *self, bool newest, int rc, const char *words)
{
    pthread_mutex_lock(&self->lock);
    tm_fetch *fetch = newest ? self->last : self->first;
    if (fetch)
        leaf_unlink(self, fetch);
    pthread_mutex_unlock(&self->lock);
    if (!fetch)
        return false;
    if (rc == 0 && fetch->dst)
        leaf_fill(fetch->off, fetch->len, fetch->dst);
    tm_fetch_done(fetch, rc, words);
    return true;
}

static inline unsigned leaf_started(leaf *self)
{
    pthread_mutex_lock(&self->lock);
    unsigned n = self->started;
    pthread_mutex_unlock(&self->lock);
    return n;
}

/* ---- A leaf that the I/O threads read ---- */

typedef struct disk {
    tm_blob blob;
    event asked;
    unsigned delay_us; /* how long who asks is held up, as on a busy machine */
} disk;

static inline int disk_fetch_now(tm_blob *blob, uint64_t off, size_t len, void *dst, tm_req *req)
{
    (void)blob;
    (void)off;
    (void)len;
    (void)dst;
    (void)req;
    return -EAGAIN;
}

static inline void disk_read(tm_job *job)
{
    tm_fetch *fetch = TM_CONTAINER(job, tm_fetch, job);
    if (fetch->dst)
        leaf_fill(fetch->off, fetch->len, fetch->dst);
    tm_fetch_done(fetch, 0, NULL);
}

static inline void disk_fetch_start(tm_blob *blob, tm_fetch *fetch)
{
    disk *self = TM_CONTAINER(blob, disk, blob);
    fetch->job = (tm_job){.run = disk_read, .lane = fetch->read->params.lane};
    event_set(&self->asked);
    nanosleep(&(struct timespec){.tv_nsec = 1000 * (long)self->delay_us}, NULL);
    tm_pool_submit(fetch->read->params.sched->io, &fetch->job);
}

static inline bool disk_fetch_cancel(tm_blob *blob, tm_fetch *fetch)
{
    (void)blob;
    return tm_pool_withdraw(fetch->read->params.sched->io, &fetch->job);
}

static inline void disk_free(tm_blob *blob)
{
    free(TM_CONTAINER(blob, disk, blob));
}

static const tm_blob_ops disk_ops = {
    .kind = "test disk",
    .fetch_now = disk_fetch_now,
    .fetch_start = disk_fetch_start,
    .fetch_cancel = disk_fetch_cancel,
    .free = disk_free,
};

static inline disk *disk_new(uint64_t size)
{
    disk *self = TM_NEW(disk);
    assert_non_null(self);
    tm_blob_init(&self->blob, &disk_ops, size);
    self->asked = EVENT_INIT;
    return self;
}

/* ---- How a read ended ---- */

typedef struct ending {
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    unsigned calls;
    int rc;
    pthread_t thread;
    char words[TM_WORDS_MAX];
    tm_read *read; /* the test's reference */
} ending;

#define ENDING_INIT                                                                                \
    (ending)                                                                                       \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER                     \
    }

static inline void ending_note(tm_read *read, int rc)
{
    ending *e = read->params.user;
    pthread_mutex_lock(&e->lock);
    e->calls++;
    e->rc = rc;
    e->thread = pthread_self();
    snprintf(e->words, sizeof(e->words), "%s", rc < 0 ? tm_req_words(&read->req) : "");
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

static inline void ending_wait(ending *e)
{
    pthread_mutex_lock(&e->lock);
    while (e->calls == 0)
        wait_changed(&e->changed, &e->lock, "for a read to end");
    pthread_mutex_unlock(&e->lock);
}

static inline bool ending_came(ending *e)
{
    pthread_mutex_lock(&e->lock);
    bool came = e->calls > 0;
    pthread_mutex_unlock(&e->lock);
    return came;
}

/* Makes a read of [off, off + len) that notes its end in E. */
static inline void ending_prepare(ending *e, tm_sched *sched, tm_blob *blob, uint64_t off,
                                  size_t len)
{
    *e = ENDING_INIT;
    tm_read_params params = {
        .sched = sched,
        .blob = blob,
        .off = off,
        .len = len,
        .lane = TM_LANE_VISIBLE,
        .done = ending_note,
        .user = e,
    };
    assert_int_equal(tm_read_new(&params, &e->read), 0);
}

static inline void ending_go(ending *e, tm_sched *sched, tm_blob *blob, uint64_t off, size_t len)
{
    ending_prepare(e, sched, blob, off, len);
    tm_read_go(e->read);
}

/* E has ended once, with RC and WORDS ("" where all is well). Gives back the read. */
static inline void expect_ended(ending *e, int rc, const char *words)
{
    ending_wait(e);
    pthread_mutex_lock(&e->lock);
    assert_int_equal(e->calls, 1);
    assert_int_equal(e->rc, rc);
    assert_string_equal(e->words, words);
    pthread_mutex_unlock(&e->lock);
    e->read = tm_read_unref(e->read);
}

/* As expect_ended, with the bytes of a leaf from FIRST on. */
static inline void expect_bytes(ending *e, uint64_t first)
{
    ending_wait(e);
    for (size_t i = 0; e->rc == 0 && i < e->read->params.len; i++)
        if (e->read->bytes[i] != leaf_byte(first + i))
            fail_msg("byte %zu is %u", i, e->read->bytes[i]);
    expect_ended(e, 0, "");
}

static inline tm_sched *sched_new(unsigned workers, unsigned io)
{
    tm_sched *sched;
    assert_int_equal(tm_sched_new(&(tm_sched_params){.workers = workers, .io = io}, &sched), 0);
    return sched;
}

/* A worker that is kept busy, in the highest lane. */
typedef struct busy_worker {
    tm_job job;
    event begun, let_go;
} busy_worker;

static inline void run_busy(tm_job *job)
{
    busy_worker *h = TM_CONTAINER(job, busy_worker, job);
    event_set(&h->begun);
    event_wait(&h->let_go, "for a worker to be let go");
}

/* BUSY lives until SCHED is freed. */
static inline void hold_workers(tm_sched *sched, busy_worker *busy, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        busy[i] =
            (busy_worker){.job = {.run = run_busy}, .begun = EVENT_INIT, .let_go = EVENT_INIT};
        tm_pool_submit(sched->workers, &busy[i].job);
        event_wait(&busy[i].begun, "for a worker");
    }
}

static inline void let_workers_go(busy_worker *busy, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        event_set(&busy[i].let_go);
}

static inline uint64_t jobs_queued(tm_sched *sched, tm_lane lane)
{
    tm_lane_report lanes[TM_LANE_COUNT];
    tm_sched_report(sched, lanes);
    return lanes[lane].jobs.queued;
}

#endif
