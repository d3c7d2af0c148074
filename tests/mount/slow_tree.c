#include "tests/mount/slow_tree.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "core/read.h"
#include "core/shared.h"

#define DELAY_NS ((uint64_t)30 * 1000 * 1000)

enum {
    REDUCE_STEP = 256 << 10,
    REDUCE_WINDOW = 8,
    TEXT_BYTES = 25
};

/* ---- A fetcher that is a timer: fetches stand in a list by the time they end ---- */

typedef struct timer {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    tm_fetch head; /* list head; leaf_word is the time, UINT64_MAX: never */
    unsigned count;
    bool stopping;
} timer;

typedef struct timer_blob {
    tm_blob blob;
    timer *timer;
    bool never;
} timer_blob;

static void fill(tm_fetch *f)
{
    for (size_t i = 0, n; i < f->len; i += n) {
        uint64_t at = f->off + i;
        n = tm_min_u64(f->len - i, 4096 - at % 4096);
        memset(f->dst + i, (int)(at / 4096 % 251), n);
    }
}

static void unlink_fetch(timer *t, tm_fetch *f)
{
    f->leaf_prev->leaf_next = f->leaf_next;
    f->leaf_next->leaf_prev = f->leaf_prev;
    f->leaf_prev = f->leaf_next = NULL;
    t->count--;
}

static void *timer_main(void *arg)
{
    timer *t = arg;
    pthread_mutex_lock(&t->lock);
    while (!t->stopping) {
        tm_fetch *first = t->head.leaf_next;
        bool waits = first == &t->head || first->leaf_word == UINT64_MAX;
        if (waits) {
            pthread_cond_wait(&t->wake, &t->lock);
            continue;
        }
        if (first->leaf_word > tm_now_ns()) {
            struct timespec at = {(time_t)(first->leaf_word / 1000000000),
                                  (long)(first->leaf_word % 1000000000)};
            pthread_cond_timedwait(&t->wake, &t->lock, &at);
            continue;
        }
        unlink_fetch(t, first);
        pthread_mutex_unlock(&t->lock);
        if (first->dst)
            fill(first);
        tm_fetch_done(first, 0, NULL);
        pthread_mutex_lock(&t->lock);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static int timer_fetch_now(tm_blob *blob, uint64_t off, size_t len, void *dst, tm_req *req)
{
    (void)blob, (void)off, (void)len, (void)dst, (void)req;
    return -EAGAIN;
}

/* All delays are equal, so that what never ends stands last and the rest in order of arrival. */
static void timer_fetch_start(tm_blob *blob, tm_fetch *f)
{
    timer_blob *self = TM_CONTAINER(blob, timer_blob, blob);
    timer *t = self->timer;
    f->leaf_word = self->never ? UINT64_MAX : tm_now_ns() + DELAY_NS;
    pthread_mutex_lock(&t->lock);
    tm_fetch *after = t->head.leaf_prev;
    while (!self->never && after != &t->head && after->leaf_word == UINT64_MAX)
        after = after->leaf_prev;
    f->leaf_prev = after;
    f->leaf_next = after->leaf_next;
    after->leaf_next->leaf_prev = f;
    after->leaf_next = f;
    t->count++;
    pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(&t->lock);
}

static bool timer_fetch_cancel(tm_blob *blob, tm_fetch *f)
{
    timer *t = TM_CONTAINER(blob, timer_blob, blob)->timer;
    pthread_mutex_lock(&t->lock);
    bool waiting = f->leaf_prev != NULL;
    if (waiting)
        unlink_fetch(t, f);
    pthread_mutex_unlock(&t->lock);
    return waiting;
}

static void timer_free(tm_blob *blob)
{
    free(TM_CONTAINER(blob, timer_blob, blob));
}

static const tm_blob_ops timer_ops = {
    .kind = "timer",
    .fetch_now = timer_fetch_now,
    .fetch_start = timer_fetch_start,
    .fetch_cancel = timer_fetch_cancel,
    .free = timer_free,
};

static tm_blob *timer_blob_new(timer *t, uint64_t size, bool never)
{
    timer_blob *self = TM_NEW(timer_blob);
    if (!self)
        abort();
    tm_blob_init(&self->blob, &timer_ops, size);
    self->timer = t;
    self->never = never;
    return &self->blob;
}

/* ---- A reduction over a whole blob: steps in flight, each end starts the next ---- */

typedef struct sum_blob {
    tm_blob blob;
    tm_shared shared;
    tm_sched *sched;
    tm_blob *source;
    pthread_mutex_t lock; /* guards what follows */
    uint64_t next, sum;
    unsigned running;
    tm_read *reads[REDUCE_WINDOW];
    int rc;
    bool cancelled;
    atomic_uint computed;
} sum_blob;

static bool step(sum_blob *self, unsigned slot);

/* Gives back one of the running steps; the last one ends the work. */
static void release(sum_blob *self)
{
    pthread_mutex_lock(&self->lock);
    bool ended = --self->running == 0;
    int rc = self->rc;
    pthread_mutex_unlock(&self->lock);
    if (!ended)
        return;
    if (rc == 0)
        atomic_fetch_add(&self->computed, 1);
    tm_shared_finish(&self->shared, rc, "the reduction failed");
    tm_blob_unref(&self->blob);
}

static void step_done(tm_read *read, int rc)
{
    sum_blob *self = read->params.user;
    uint64_t sum = 0;
    for (size_t i = 0; rc == 0 && i < read->params.len; i++)
        sum += read->bytes[i];
    pthread_mutex_lock(&self->lock);
    self->sum += sum;
    if (rc < 0 && self->rc == 0)
        self->rc = rc;
    unsigned slot = 0;
    while (self->reads[slot] != read)
        slot++;
    self->reads[slot] = NULL;
    pthread_mutex_unlock(&self->lock);
    tm_read_unref(read);
    if (!step(self, slot))
        release(self);
}

/* The next read, in SLOT; false where there is none to start. */
static bool step(sum_blob *self, unsigned slot)
{
    tm_read *read = NULL;
    pthread_mutex_lock(&self->lock);
    if (self->next < self->source->size && self->rc == 0 && !self->cancelled) {
        tm_read_params params = {
            .sched = self->sched,
            .blob = self->source,
            .off = self->next,
            .len = REDUCE_STEP,
            .lane = TM_LANE_ANALYSIS,
            .done = step_done,
            .user = self,
        };
        if (tm_read_new(&params, &read) < 0)
            abort();
        self->next += REDUCE_STEP;
        self->reads[slot] = tm_read_ref(read);
    } else if (self->cancelled && self->rc == 0) {
        self->rc = -EINTR;
    }
    pthread_mutex_unlock(&self->lock);
    if (!read)
        return false;
    tm_read_go(read);
    tm_read_unref(read);
    return true;
}

static void sum_start(tm_shared *shared)
{
    sum_blob *self = TM_CONTAINER(shared, sum_blob, shared);
    tm_blob_ref(&self->blob); /* the work's */
    pthread_mutex_lock(&self->lock);
    self->next = self->sum = 0;
    self->rc = 0;
    self->cancelled = false;
    self->running = REDUCE_WINDOW;
    pthread_mutex_unlock(&self->lock);
    for (unsigned slot = 0; slot < REDUCE_WINDOW; slot++)
        if (!step(self, slot))
            release(self);
}

static void sum_cancel(tm_shared *shared)
{
    sum_blob *self = TM_CONTAINER(shared, sum_blob, shared);
    pthread_mutex_lock(&self->lock);
    self->cancelled = true;
    for (unsigned slot = 0; slot < REDUCE_WINDOW; slot++)
        if (self->reads[slot])
            tm_read_cancel(self->reads[slot], EINTR, "nobody waits");
    pthread_mutex_unlock(&self->lock);
}

static const tm_shared_ops sum_shared_ops = {.start = sum_start, .cancel = sum_cancel};

typedef struct print_args {
    sum_blob *self;
    uint64_t off;
    size_t len;
    uint8_t *dst;
} print_args;

static int run_print(void *args, tm_req *req)
{
    (void)req;
    print_args *a = args;
    char text[TEXT_BYTES + 1];
    pthread_mutex_lock(&a->self->lock);
    snprintf(text, sizeof(text), "%24llu\n", (unsigned long long)a->self->sum);
    pthread_mutex_unlock(&a->self->lock);
    memcpy(a->dst, text + a->off, a->len);
    return 0;
}

static int sum_plan(tm_blob *blob, tm_plan *plan, uint64_t off, size_t len, uint8_t *dst)
{
    sum_blob *self = TM_CONTAINER(blob, sum_blob, blob);
    if (tm_shared_poll(&self->shared) < 0)
        return tm_plan_wait(plan, &self->shared);
    print_args a = {self, off, len, dst};
    return tm_plan_run(plan, run_print, &a, sizeof(a));
}

static void sum_free(tm_blob *blob)
{
    sum_blob *self = TM_CONTAINER(blob, sum_blob, blob);
    tm_shared_done(&self->shared);
    tm_blob_unref(self->source);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

static const tm_blob_ops sum_ops = {.kind = "sum", .plan = sum_plan, .free = sum_free};

static sum_blob *sum_blob_new(tm_sched *sched, tm_blob *source)
{
    sum_blob *self = TM_NEW(sum_blob);
    if (!self)
        abort();
    tm_blob_init(&self->blob, &sum_ops, TEXT_BYTES);
    tm_shared_init(&self->shared, &sum_shared_ops);
    pthread_mutex_init(&self->lock, NULL);
    self->sched = sched;
    self->source = tm_blob_ref(source);
    return self;
}

/* ---- The tree ---- */

enum {
    FETCHES = 4,
    REDUCTIONS = 5,
    FILES = 6
};

struct tm_slow_tree {
    tm_tree tree;
    timer timer;
    sum_blob *sum;
    struct {
        const char *name;
        tm_blob *blob; /* NULL: a counter */
        tm_lane lane;
    } files[FILES];
};

static tm_attr attr_of(tm_slow_tree *self, uint64_t ino)
{
    if (ino == TM_INO_ROOT)
        return (tm_attr){.ino = ino, .mode = S_IFDIR | 0555};
    const tm_blob *blob = self->files[ino - 2].blob;
    return (tm_attr){
        .ino = ino, .mode = S_IFREG | 0444, .size = blob ? blob->size : TEXT_BYTES, .live = !blob};
}

static unsigned counter(tm_slow_tree *self, uint64_t file)
{
    if (file == REDUCTIONS)
        return atomic_load(&self->sum->computed);
    pthread_mutex_lock(&self->timer.lock);
    unsigned count = self->timer.count;
    pthread_mutex_unlock(&self->timer.lock);
    return count;
}

static int slow_lookup(tm_tree *tree, uint64_t parent, const char *name, tm_req *req, tm_attr *ret)
{
    (void)req;
    tm_slow_tree *self = TM_CONTAINER(tree, tm_slow_tree, tree);
    for (uint64_t i = 0; parent == TM_INO_ROOT && i < TM_ARRAY_LEN(self->files); i++) {
        if (strcmp(name, self->files[i].name) != 0)
            continue;
        *ret = attr_of(self, i + 2);
        return 0;
    }
    return -ENOENT;
}

static int slow_getattr(tm_tree *tree, uint64_t ino, tm_req *req, tm_attr *ret)
{
    (void)req;
    *ret = attr_of(TM_CONTAINER(tree, tm_slow_tree, tree), ino);
    return 0;
}

static int slow_list(tm_tree *tree, uint64_t ino, uint64_t at, tm_emit_fn *emit, void *ctx,
                     tm_req *req)
{
    (void)ino, (void)req;
    tm_slow_tree *self = TM_CONTAINER(tree, tm_slow_tree, tree);
    for (uint64_t i = at; i < TM_ARRAY_LEN(self->files); i++) {
        tm_attr attr = attr_of(self, i + 2);
        if (!emit(ctx, self->files[i].name, &attr, i + 1))
            break;
    }
    return 0;
}

static int slow_open(tm_tree *tree, uint64_t ino, tm_req *req, tm_open_file *ret)
{
    (void)req;
    tm_slow_tree *self = TM_CONTAINER(tree, tm_slow_tree, tree);
    uint64_t i = ino - 2;
    ret->lane = self->files[i].lane;
    ret->live = !self->files[i].blob;
    if (!ret->live) {
        ret->blob = tm_blob_ref(self->files[i].blob);
        return 0;
    }
    char text[TEXT_BYTES + 1];
    snprintf(text, sizeof(text), "%24u\n", counter(self, i));
    return tm_blob_mem_new(text, TEXT_BYTES, &ret->blob);
}

static const tm_tree_ops slow_ops = {
    .lookup = slow_lookup,
    .getattr = slow_getattr,
    .list = slow_list,
    .open = slow_open,
};

static void start_timer(timer *t)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&t->wake, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&t->lock, NULL);
    t->head.leaf_prev = t->head.leaf_next = &t->head;
    if (pthread_create(&t->thread, NULL, timer_main, t) != 0)
        abort();
}

int tm_slow_tree_new(tm_sched *sched, tm_slow_tree **ret)
{
    static const char text[] = "                0.123456\n";
    static_assert(sizeof(text) == TEXT_BYTES + 1, "a value is 25 bytes");
    tm_slow_tree *self = TM_NEW(tm_slow_tree);
    if (!self)
        return -ENOMEM;
    start_timer(&self->timer);
    self->tree.ops = &slow_ops;
    self->tree.sched = sched;
    atomic_init(&self->tree.raw_way, TM_RAW_PREAD);
    tm_blob *slow = timer_blob_new(&self->timer, TM_SLOW_BYTES, false);
    tm_blob *at;
    TM_TRY(tm_blob_mem_new(text, TEXT_BYTES, &at));
    self->sum = sum_blob_new(sched, slow);
    self->files[0].name = "slow";
    self->files[0].blob = slow;
    self->files[0].lane = TM_LANE_VISIBLE;
    self->files[1].name = "stuck";
    self->files[1].blob = timer_blob_new(&self->timer, TM_STUCK_BYTES, true);
    self->files[1].lane = TM_LANE_VISIBLE;
    self->files[2].name = "sum";
    self->files[2].blob = &self->sum->blob;
    self->files[2].lane = TM_LANE_ANALYSIS;
    self->files[3].name = "at";
    self->files[3].blob = at;
    self->files[3].lane = TM_LANE_SCALAR;
    self->files[FETCHES].name = "fetches";
    self->files[REDUCTIONS].name = "reductions";
    *ret = self;
    return 0;
}

tm_tree *tm_slow_tree_of(tm_slow_tree *self)
{
    return &self->tree;
}

void tm_slow_tree_free(tm_slow_tree *self)
{
    for (size_t i = 0; i < FILES; i++)
        tm_blob_unref(self->files[i].blob);
    pthread_mutex_lock(&self->timer.lock);
    self->timer.stopping = true;
    pthread_cond_signal(&self->timer.wake);
    pthread_mutex_unlock(&self->timer.lock);
    pthread_join(self->timer.thread, NULL);
    pthread_cond_destroy(&self->timer.wake);
    pthread_mutex_destroy(&self->timer.lock);
    free(self);
}
