#include "core/shared.h"

#include "core/read.h"

void tm_shared_init(tm_shared *shared, const tm_shared_ops *ops)
{
    assert(ops->start);
    memset(shared, 0, sizeof(*shared));
    shared->ops = ops;
    pthread_mutex_init(&shared->lock, NULL);
    shared->line.line_prev = shared->line.line_next = &shared->line;
}

void tm_shared_done(tm_shared *shared)
{
    assert(shared->line.line_next == &shared->line);
    pthread_mutex_destroy(&shared->lock);
}

int tm_shared_poll(tm_shared *shared)
{
    pthread_mutex_lock(&shared->lock);
    bool done = shared->state == TM_SHARED_DONE;
    pthread_mutex_unlock(&shared->lock);
    return done ? 0 : -EAGAIN;
}

static bool line_is_empty(const tm_shared *shared)
{
    return shared->line.line_next == &shared->line;
}

static void line_remove(tm_wait *wait)
{
    wait->line_prev->line_next = wait->line_next;
    wait->line_next->line_prev = wait->line_prev;
    wait->line_prev = wait->line_next = NULL;
}

typedef void shared_call(tm_shared *shared);

/* What state and line ask for, with state set accordingly; NULL where they agree. */
static shared_call *next_call(tm_shared *shared)
{
    bool wanted = !line_is_empty(shared);
    if (shared->state == TM_SHARED_IDLE && wanted) {
        shared->state = TM_SHARED_RUNNING;
        return shared->ops->start;
    }
    if (shared->state == TM_SHARED_RUNNING && !wanted) {
        shared->state = TM_SHARED_CANCELLING;
        return shared->ops->cancel;
    }
    return NULL;
}

/* Calls start and cancel as they are needed, the lock held before and after. One thread does so at
 * a time, until all is done: a cancel on its way must not meet the work of the next reader. */
static void settle(tm_shared *shared)
{
    if (shared->calling)
        return;
    shared->calling = true;
    shared_call *call;
    while ((call = next_call(shared))) {
        pthread_mutex_unlock(&shared->lock);
        call(shared);
        pthread_mutex_lock(&shared->lock);
    }
    shared->calling = false;
}

void tm_shared_finish(tm_shared *shared, int rc, const char *words)
{
    pthread_mutex_lock(&shared->lock);
    assert(shared->state == TM_SHARED_RUNNING || shared->state == TM_SHARED_CANCELLING);
    /* Who joined after the last one left wants the work done after all. */
    bool again = rc < 0 && shared->state == TM_SHARED_CANCELLING && !line_is_empty(shared);
    shared->state = rc == 0 ? TM_SHARED_DONE : TM_SHARED_IDLE;
    while (!again && !line_is_empty(shared)) {
        tm_wait *wait = shared->line.line_next;
        line_remove(wait);
        tm_read_arrived(wait->read, rc, words);
    }
    settle(shared);
    pthread_mutex_unlock(&shared->lock);
}

bool tm_shared_join(tm_shared *shared, tm_wait *wait)
{
    pthread_mutex_lock(&shared->lock);
    bool done = shared->state == TM_SHARED_DONE;
    if (!done) {
        wait->line_prev = shared->line.line_prev;
        wait->line_next = &shared->line;
        shared->line.line_prev->line_next = wait;
        shared->line.line_prev = wait;
        settle(shared);
    }
    pthread_mutex_unlock(&shared->lock);
    if (!done && shared->ops->hurry)
        shared->ops->hurry(shared, wait->read->params.lane);
    return !done;
}

bool tm_shared_leave(tm_shared *shared, tm_wait *wait)
{
    pthread_mutex_lock(&shared->lock);
    bool was_in_line = wait->line_prev != NULL;
    if (was_in_line)
        line_remove(wait);
    settle(shared);
    pthread_mutex_unlock(&shared->lock);
    return was_in_line;
}
