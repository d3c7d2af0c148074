#include "core/pool.h"

#include <pthread.h>
#include <stdio.h>

struct tm_pool {
    pthread_mutex_t lock; /* guards all below; nothing else is locked while it is held */
    pthread_cond_t work;
    tm_job lanes[TM_LANE_COUNT]; /* list heads */
    tm_pool_lane_counts counts[TM_LANE_COUNT];
    tm_pool_params params;
    pthread_t *threads;
    unsigned started, idle, queued;
    bool stopping;
    char name[16];
};

/* How many threads may run jobs of LANE and those below it: the last ones are for higher lanes. */
static unsigned thread_limit(const tm_pool *pool, int lane)
{
    unsigned spared = lane == TM_LANE_SCALAR      ? 0
                      : lane == TM_LANE_SELECTION ? pool->params.reserved / 2
                                                  : pool->params.reserved;
    return pool->params.threads - spared;
}

/* Jobs that run under the same limit, or a tighter one. */
static unsigned running_beside(const tm_pool *pool, int lane)
{
    unsigned running = 0;
    for (lane = lane < TM_LANE_VISIBLE ? lane : TM_LANE_VISIBLE; lane < TM_LANE_COUNT; lane++)
        running += (unsigned)pool->counts[lane].running;
    return running;
}

static void unlink_job(tm_pool *pool, tm_job *job)
{
    job->prev->next = job->next;
    job->next->prev = job->prev;
    job->queued = false;
    pool->counts[job->lane].queued--;
    pool->queued--;
}

/* The first job that may run now, unlinked; NULL where there is none. */
static tm_job *take_job(tm_pool *pool)
{
    for (int lane = 0; lane < TM_LANE_COUNT; lane++) {
        tm_job *head = &pool->lanes[lane];
        if (head->next == head)
            continue;
        if (running_beside(pool, lane) >= thread_limit(pool, lane))
            return NULL;
        tm_job *job = head->next;
        unlink_job(pool, job);
        return job;
    }
    return NULL;
}

static void run_job(tm_pool *pool, tm_job *job)
{
    tm_lane lane = job->lane;
    pool->counts[lane].running++;
    pthread_mutex_unlock(&pool->lock);
    job->run(job);
    pthread_mutex_lock(&pool->lock);
    pool->counts[lane].running--;
    pool->counts[lane].done++;
}

static void *thread_main(void *arg)
{
    tm_pool *pool = arg;
    pthread_setname_np(pthread_self(), pool->name);
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        tm_job *job = take_job(pool);
        if (job) {
            run_job(pool, job);
            continue;
        }
        if (pool->stopping)
            break;
        pool->idle++;
        pthread_cond_wait(&pool->work, &pool->lock);
        pool->idle--;
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static int start_thread(tm_pool *pool)
{
    int rc = pthread_create(&pool->threads[pool->started], NULL, thread_main, pool);
    if (rc == 0)
        pool->started++;
    return -rc;
}

int tm_pool_new(const tm_pool_params *params, tm_pool **ret)
{
    assert(params->threads > params->reserved);
    tm_pool *pool = TM_NEW(tm_pool);
    if (!pool)
        return -ENOMEM;
    pool->params = *params;
    pool->threads = tm_new_array(params->threads, sizeof(*pool->threads));
    if (!pool->threads) {
        free(pool);
        return -ENOMEM;
    }
    snprintf(pool->name, sizeof(pool->name), "%s", params->name);
    for (int lane = 0; lane < TM_LANE_COUNT; lane++)
        pool->lanes[lane].prev = pool->lanes[lane].next = &pool->lanes[lane];
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_mutex_lock(&pool->lock);
    int rc = start_thread(pool); /* later ones may fail to start; one is enough to make progress */
    pthread_mutex_unlock(&pool->lock);
    if (rc < 0) {
        tm_pool_free(pool);
        return rc;
    }
    *ret = pool;
    return 0;
}

void tm_pool_free(tm_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->work);
    unsigned started = pool->started;
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < started; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    free(pool->threads);
    free(pool);
}

void tm_pool_submit(tm_pool *pool, tm_job *job)
{
    pthread_mutex_lock(&pool->lock);
    assert(!job->queued);
    tm_job *head = &pool->lanes[job->lane];
    job->prev = head->prev;
    job->next = head;
    head->prev->next = job;
    head->prev = job;
    job->queued = true;
    pool->counts[job->lane].queued++;
    pool->queued++;
    /* An idle thread may have been woken for another job already. */
    if (pool->queued > pool->idle && pool->started < pool->params.threads && !pool->stopping)
        tm_ignore(start_thread(pool)); /* where it fails, those that run will come to it */
    pthread_cond_signal(&pool->work);
    pthread_mutex_unlock(&pool->lock);
}

bool tm_pool_withdraw(tm_pool *pool, tm_job *job)
{
    pthread_mutex_lock(&pool->lock);
    bool queued = job->queued;
    if (queued)
        unlink_job(pool, job);
    pthread_mutex_unlock(&pool->lock);
    return queued;
}

void tm_pool_counts(tm_pool *pool, tm_pool_lane_counts ret[TM_LANE_COUNT])
{
    pthread_mutex_lock(&pool->lock);
    memcpy(ret, pool->counts, sizeof(pool->counts));
    pthread_mutex_unlock(&pool->lock);
}
