#include "core/prefetch.h"

enum {
    ASKS_MAX = 192,
    OWNER_MAX = TM_FORETOLD_MAX, /* asks of one owner */
};

typedef struct ask {
    tm_prefetch *prefetch;
    const void *owner;
    tm_read *read;
    bool given_up;
    struct ask *prev, *next;
} ask;

struct tm_prefetch {
    pthread_mutex_t lock; /* guards all below; before those of reads */
    pthread_cond_t none;
    ask asks; /* list head, oldest first */
    unsigned count;
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

static void give_up(ask *a, const char *words)
{
    a->given_up = true;
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
    while (self->count > 0)
        pthread_cond_wait(&self->none, &self->lock);
    pthread_mutex_unlock(&self->lock);
}

void tm_prefetch_free(tm_prefetch *self)
{
    if (!self)
        return;
    assert(self->count == 0);
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
    if (--self->count == 0)
        pthread_cond_broadcast(&self->none);
    pthread_mutex_unlock(&self->lock);
    free(a);
    tm_read_unref(read);
}

/* Room for one more of OWNER: the oldest of its own goes. The lock is held. */
static bool make_room(tm_prefetch *self, const void *owner)
{
    unsigned own = 0;
    ask *oldest = NULL;
    for (ask *a = self->asks.next; a != &self->asks; a = a->next) {
        if (a->owner != owner || a->given_up)
            continue;
        oldest = oldest ? oldest : a;
        own++;
    }
    if (own >= OWNER_MAX)
        give_up(oldest, "others are wanted sooner");
    return self->count < ASKS_MAX && !self->stopping;
}

/* The lock is held. */
static int add(tm_prefetch *self, const tm_read_params *params, const void *owner, tm_read **ret)
{
    ask *a = TM_NEW(ask);
    if (!a)
        return -ENOMEM;
    *a = (ask){.prefetch = self, .owner = owner, .prev = self->asks.prev, .next = &self->asks};
    tm_read_params own = *params;
    own.user = a;
    int rc = tm_read_new(&own, &a->read);
    if (rc < 0) {
        free(a);
        return rc;
    }
    a->prev->next = a->next->prev = a;
    self->count++;
    *ret = tm_read_ref(a->read); /* it may end before it is begun */
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
        .lane = lane,
        .done = ask_done,
    };
    tm_read *read = NULL;
    pthread_mutex_lock(&self->lock);
    int rc = make_room(self, owner) ? add(self, &params, owner, &read) : -EAGAIN;
    pthread_mutex_unlock(&self->lock);
    if (rc < 0)
        return;
    tm_read_go(read);
    tm_read_unref(read);
}

void tm_prefetch_told(tm_sched *sched, const void *owner, tm_lane lane, tm_blob *blob,
                      const tm_foretold *told)
{
    for (unsigned i = 0; i < told->count; i++)
        tm_prefetch_ask(sched, owner, lane, blob, told->pieces[i].off, told->pieces[i].len);
}
