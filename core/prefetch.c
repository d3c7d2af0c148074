#include "core/prefetch.h"

enum {
    ASKS_MAX = 192,
    OWNER_MAX = TM_FORETOLD_MAX, /* asks of one owner */
};

/* The references: the read's, until its done(), and the job's. */
typedef struct ask {
    tm_prefetch *prefetch;
    const void *owner;
    tm_read *read;
    tm_job job; /* begins the read */
    atomic_uint refs;
    bool given_up;
    struct ask *prev, *next;
} ask;

struct tm_prefetch {
    pthread_mutex_t lock; /* guards all below; before those of reads and pools */
    pthread_cond_t none;
    ask asks; /* list head, oldest first: what has not ended */
    bool stopping;
};

int tm_prefetch_new(tm_prefetch **ret)
{
    tm_prefetch *self = TM_NEW(tm_prefetch);
    if (!self)
        return -ENOMEM;
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->none, NULL);
    self->asks.prev = self->asks.next = &self->asks;
    *ret = self;
    return 0;
}

static bool is_empty(const tm_prefetch *self)
{
    return self->asks.next == &self->asks;
}

static void unref(ask *a)
{
    if (atomic_fetch_sub(&a->refs, 1) != 1)
        return;
    tm_read_unref(a->read);
    free(a);
}

static tm_pool *pool_of(const ask *a)
{
    return tm_sched_workers(a->read->params.sched, a->job.lane);
}

/* One that has not begun never will: workers may be busy in higher lanes for long, and what it
 * holds must not wait for them. */
static void give_up(ask *a, const char *words)
{
    a->given_up = true;
    if (tm_pool_withdraw(pool_of(a), &a->job))
        unref(a);
    tm_read_cancel(a->read, EINTR, words);
}

/* All of OWNER, of everybody where that is NULL. The lock is held. */
static void give_up_all(tm_prefetch *self, const void *owner)
{
    for (ask *a = self->asks.next; a != &self->asks; a = a->next)
        if (!owner || a->owner == owner)
            give_up(a, "nobody wants it any more");
}

void tm_prefetch_stop(tm_prefetch *self)
{
    pthread_mutex_lock(&self->lock);
    self->stopping = true;
    give_up_all(self, NULL);
    while (!is_empty(self))
        pthread_cond_wait(&self->none, &self->lock);
    pthread_mutex_unlock(&self->lock);
}

void tm_prefetch_free(tm_prefetch *self)
{
    if (!self)
        return;
    assert(is_empty(self));
    pthread_cond_destroy(&self->none);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

void tm_prefetch_cancel(tm_sched *sched, const void *owner)
{
    tm_prefetch *self = sched->prefetch;
    pthread_mutex_lock(&self->lock);
    give_up_all(self, owner);
    pthread_mutex_unlock(&self->lock);
}

static void ask_done(tm_read *read, int rc)
{
    (void)rc;
    ask *a = read->params.user;
    tm_prefetch *self = a->prefetch;
    pthread_mutex_lock(&self->lock);
    a->prev->next = a->next;
    a->next->prev = a->prev;
    if (is_empty(self))
        pthread_cond_broadcast(&self->none);
    pthread_mutex_unlock(&self->lock);
    unref(a);
}

static void begin(tm_job *job)
{
    ask *a = TM_CONTAINER(job, ask, job);
    tm_read_go(a->read);
    unref(a);
}

/* Room for one more of OWNER in LANE: its own oldest goes, or the oldest of those in lower lanes.
 * The lock is held. */
static bool make_room(tm_prefetch *self, const void *owner, tm_lane lane)
{
    unsigned all = 0, own = 0;
    ask *own_oldest = NULL, *lower_oldest = NULL;
    for (ask *a = self->asks.next; a != &self->asks; a = a->next) {
        if (a->given_up)
            continue;
        all++;
        if (a->owner == owner && own++ == 0)
            own_oldest = a;
        if (a->job.lane > lane && !lower_oldest)
            lower_oldest = a;
    }
    ask *goes = own >= OWNER_MAX ? own_oldest : all >= ASKS_MAX ? lower_oldest : NULL;
    if (goes)
        give_up(goes, "others are wanted sooner");
    return !self->stopping && (goes || all < ASKS_MAX);
}

/* The lock is held. */
static int add(tm_prefetch *self, tm_read_params *params, const void *owner)
{
    ask *a = TM_NEW(ask);
    if (!a)
        return -ENOMEM;
    params->user = a;
    int rc = tm_read_new(params, &a->read);
    if (rc < 0) {
        free(a);
        return rc;
    }
    a->prefetch = self;
    a->owner = owner;
    a->job = (tm_job){.run = begin, .lane = params->lane};
    atomic_init(&a->refs, 2);
    a->prev = self->asks.prev;
    a->next = &self->asks;
    a->prev->next = a->next->prev = a;
    tm_pool_submit(pool_of(a), &a->job);
    return 0;
}

void tm_prefetch_ask(tm_sched *sched, const void *owner, tm_lane lane, tm_blob *blob, uint64_t off,
                     size_t len)
{
    assert(owner);
    tm_prefetch *self = sched->prefetch;
    tm_read_params params = {
        .sched = sched,
        .blob = blob,
        .off = off,
        .len = len,
        .near = true,
        .lane = lane > TM_LANE_PREFETCH ? lane : TM_LANE_PREFETCH,
        .done = ask_done,
    };
    pthread_mutex_lock(&self->lock);
    if (make_room(self, owner, params.lane))
        tm_ignore(add(self, &params, owner)); /* without memory there is none to spare for it */
    pthread_mutex_unlock(&self->lock);
}

void tm_prefetch_told(tm_sched *sched, const void *owner, tm_lane lane, tm_blob *blob,
                      const tm_foretold *told)
{
    for (unsigned i = 0; i < told->count; i++)
        tm_prefetch_ask(sched, owner, lane, blob, told->pieces[i].off, told->pieces[i].len);
}
