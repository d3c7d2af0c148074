#include "core/sched.h"

#include <time.h>
#include <unistd.h>

#include "core/prefetch.h"

enum {
    SCANS_SPARE = 2, /* beyond one a worker: for who waits, and because disks are waited for too */
    IO_THREADS = 32,
    IO_PER_DISK = 12, /* so that a disk that hangs leaves threads to the others */
    IO_RESERVED = 4,  /* a single value is read even while a slow disk holds all others */
    OPENERS = 64,     /* started as they are needed */
    OPENERS_PER_DISK = 8,
    OPENERS_RESERVED = 4, /* what people ask for goes beside the looks after changes */
    NEAR_THREADS = 8,
    NEAR_PER_DISK = 4,
    CLOCK_TICK_MS = 100, /* how late a deadline may be noticed */
};

static void *clock_main(void *arg)
{
    tm_sched *sched = arg;
    pthread_setname_np(pthread_self(), "tm-clock");
    pthread_mutex_lock(&sched->lock);
    while (!sched->stopping) {
        if (!sched->timers) {
            pthread_cond_wait(&sched->wake, &sched->lock);
            continue;
        }
        uint64_t now = tm_now_ns();
        for (tm_timer *timer = sched->timers; timer; timer = timer->next)
            if (timer->deadline_ns <= now)
                timer->expire(timer);
        struct timespec at = tm_after_ms(CLOCK_TICK_MS);
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

/* Waits until no thread has anything to do or to hand on: jobs submit others to other pools, so
 * they must all have been idle with nothing done in between. */
static void drain_pools(tm_sched *sched)
{
    tm_pool *const pools[] = {sched->openers, sched->near, sched->io, sched->idlers,
                              sched->workers};
    uint64_t before, done = UINT64_MAX;
    do {
        before = done;
        done = 0;
        for (size_t i = 0; i < TM_ARRAY_LEN(pools); i++)
            done += tm_pool_drain(pools[i]);
    } while (done != before);
}

static void free_pools(tm_sched *sched)
{
    tm_pool_free(sched->openers);
    tm_pool_free(sched->near);
    tm_pool_free(sched->io);
    tm_pool_free(sched->idlers);
    tm_pool_free(sched->workers);
}

int tm_sched_new(const tm_sched_params *params, tm_sched **ret)
{
    tm_sched *sched = TM_NEW(tm_sched);
    if (!sched)
        return -ENOMEM;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned workers = params->workers ? params->workers : cores > 0 ? (unsigned)cores : 1;
    unsigned io = params->io ? params->io : IO_THREADS;
    sched->worker_count = workers;
    tm_pool_params pools[] = {
        {.name = "tm-worker", .threads = workers},
        {.name = "tm-io",
         .threads = io,
         .reserved = io > IO_PER_DISK ? IO_RESERVED : 0,
         .per_key = io > IO_PER_DISK ? IO_PER_DISK : 0},
        {.name = "tm-opener",
         .threads = OPENERS,
         .reserved = OPENERS_RESERVED,
         .per_key = OPENERS_PER_DISK},
        {.name = "tm-idler", .threads = workers, .background = true},
        {.name = "tm-near", .threads = NEAR_THREADS, .per_key = NEAR_PER_DISK},
    };
    tm_pool **const to[] = {&sched->workers, &sched->io, &sched->openers, &sched->idlers,
                            &sched->near};
    static_assert(TM_ARRAY_LEN(to) == TM_ARRAY_LEN(pools), "each pool has its place");
    int rc = tm_prefetch_new(&sched->prefetch);
    for (size_t i = 0; rc == 0 && i < TM_ARRAY_LEN(pools); i++)
        rc = tm_pool_new(&pools[i], to[i]);
    if (rc == 0)
        tm_gate_init(&sched->scans, sched->workers, workers + SCANS_SPARE, SCANS_SPARE);
    if (rc == 0)
        rc = start_clock(sched);
    if (rc < 0) {
        free_pools(sched);
        tm_prefetch_free(sched->prefetch);
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
    tm_prefetch_stop(sched->prefetch);
    drain_pools(sched); /* what was cancelled ends in its own time */
    free_pools(sched);
    tm_prefetch_free(sched->prefetch);
    tm_gate_done(&sched->scans);
    pthread_mutex_lock(&sched->lock);
    assert(!sched->timers);
    sched->stopping = true;
    pthread_cond_signal(&sched->wake);
    pthread_mutex_unlock(&sched->lock);
    pthread_join(sched->clock, NULL);
    pthread_cond_destroy(&sched->wake);
    pthread_mutex_destroy(&sched->lock);
    free(sched);
}

tm_pool *tm_sched_workers(tm_sched *sched, tm_lane lane)
{
    return lane == TM_LANE_INDEX ? sched->idlers : sched->workers;
}

void tm_sched_count(tm_sched *sched, tm_lane lane, uint64_t bytes)
{
    atomic_fetch_add_explicit(&sched->bytes[lane], bytes, memory_order_relaxed);
}

void tm_sched_report(tm_sched *sched, tm_lane_report ret[TM_LANE_COUNT])
{
    tm_pool *const pools[] = {sched->workers, sched->io, sched->openers, sched->idlers,
                              sched->near};
    for (int lane = 0; lane < TM_LANE_COUNT; lane++)
        ret[lane] = (tm_lane_report){
            .bytes = atomic_load_explicit(&sched->bytes[lane], memory_order_relaxed)};
    for (size_t i = 0; i < TM_ARRAY_LEN(pools); i++) {
        tm_pool_lane_counts counts[TM_LANE_COUNT];
        tm_pool_counts(pools[i], counts);
        for (int lane = 0; lane < TM_LANE_COUNT; lane++) {
            ret[lane].jobs.queued += counts[lane].queued;
            ret[lane].jobs.running += counts[lane].running;
            ret[lane].jobs.done += counts[lane].done;
        }
    }
}

void tm_sched_watch(tm_sched *sched, tm_timer *timer)
{
    pthread_mutex_lock(&sched->lock);
    timer->prev = NULL;
    timer->next = sched->timers;
    if (timer->next)
        timer->next->prev = timer;
    else
        pthread_cond_signal(&sched->wake);
    sched->timers = timer;
    pthread_mutex_unlock(&sched->lock);
}

void tm_sched_unwatch(tm_sched *sched, tm_timer *timer)
{
    pthread_mutex_lock(&sched->lock);
    *(timer->prev ? &timer->prev->next : &sched->timers) = timer->next;
    if (timer->next)
        timer->next->prev = timer->prev;
    pthread_mutex_unlock(&sched->lock);
}
