#include "core/sched.h"

#include <time.h>
#include <unistd.h>

#include "core/read.h"

enum {
    IO_THREADS = 24,
    IO_RESERVED = 4, /* a single value is read even while a slow disk holds all others */
    OPENERS = 8,
    CLOCK_TICK_MS = 100, /* how late a deadline may be noticed */
};

static struct timespec after_tick(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += CLOCK_TICK_MS * 1000000L;
    if (at.tv_nsec >= 1000000000L) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000L;
    }
    return at;
}

static void *clock_main(void *arg)
{
    tm_sched *sched = arg;
    pthread_setname_np(pthread_self(), "tm-clock");
    pthread_mutex_lock(&sched->lock);
    while (!sched->stopping) {
        if (!sched->timed) {
            pthread_cond_wait(&sched->wake, &sched->lock);
            continue;
        }
        uint64_t now = tm_now_ns();
        for (tm_read *read = sched->timed; read; read = read->timed_next)
            if (read->req.deadline_ns <= now)
                tm_read_cancel(read, ETIMEDOUT, "no answer within the time limit");
        struct timespec at = after_tick();
        pthread_cond_timedwait(&sched->wake, &sched->lock, &at);
    }
    pthread_mutex_unlock(&sched->lock);
    return NULL;
}

static int start_clock(tm_sched *sched)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&sched->wake, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&sched->lock, NULL);
    return -pthread_create(&sched->clock, NULL, clock_main, sched);
}

int tm_sched_new(const tm_sched_params *params, tm_sched **ret)
{
    tm_sched *sched = TM_NEW(tm_sched);
    if (!sched)
        return -ENOMEM;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned workers = params->workers ? params->workers : cores > 0 ? (unsigned)cores : 1;
    unsigned io = params->io ? params->io : IO_THREADS;
    int rc = tm_pool_new(&(tm_pool_params){"tm-worker", workers, 0}, &sched->workers);
    if (rc == 0)
        rc = tm_pool_new(&(tm_pool_params){"tm-io", io, io > IO_RESERVED ? IO_RESERVED : 0},
                         &sched->io);
    if (rc == 0)
        rc = tm_pool_new(&(tm_pool_params){"tm-opener", OPENERS, 0}, &sched->openers);
    if (rc == 0)
        rc = start_clock(sched);
    if (rc < 0) {
        tm_pool_free(sched->openers);
        tm_pool_free(sched->io);
        tm_pool_free(sched->workers);
        free(sched);
        return rc;
    }
    *ret = sched;
    return 0;
}

void tm_sched_free(tm_sched *sched)
{
    if (!sched)
        return;
    /* Those who wait first, then those they wait for. */
    tm_pool_free(sched->openers);
    tm_pool_free(sched->io);
    tm_pool_free(sched->workers);
    pthread_mutex_lock(&sched->lock);
    assert(!sched->timed);
    sched->stopping = true;
    pthread_cond_signal(&sched->wake);
    pthread_mutex_unlock(&sched->lock);
    pthread_join(sched->clock, NULL);
    pthread_cond_destroy(&sched->wake);
    pthread_mutex_destroy(&sched->lock);
    free(sched);
}

void tm_sched_watch(tm_sched *sched, tm_read *read)
{
    pthread_mutex_lock(&sched->lock);
    read->timed_prev = NULL;
    read->timed_next = sched->timed;
    if (sched->timed)
        sched->timed->timed_prev = read;
    else
        pthread_cond_signal(&sched->wake);
    sched->timed = read;
    pthread_mutex_unlock(&sched->lock);
}

void tm_sched_unwatch(tm_sched *sched, tm_read *read)
{
    pthread_mutex_lock(&sched->lock);
    if (read->timed_prev)
        read->timed_prev->timed_next = read->timed_next;
    else
        sched->timed = read->timed_next;
    if (read->timed_next)
        read->timed_next->timed_prev = read->timed_prev;
    pthread_mutex_unlock(&sched->lock);
}
