#include "core/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

/* Lanes that are limited alike: SCALAR, SELECTION, VISIBLE, and those that nobody waits in now. */
enum {
    CLASSES = TM_LANE_VISIBLE + 2
};

typedef struct key_use key_use;

/* A key of which jobs run. Those that may not run beside them wait here, not in the lanes: who
 * looks for work does not meet them. */
struct key_use {
    uint64_t key; /* 0: unused */
    unsigned running[CLASSES];
    tm_job held[TM_LANE_COUNT]; /* list heads */
    unsigned held_count;
};

struct tm_pool {
    pthread_mutex_t lock;        /* guards all below; nothing else is locked while it is held */
    pthread_cond_t work, rest;   /* rest: nothing is queued or runs */
    tm_job lanes[TM_LANE_COUNT]; /* list heads */
    tm_pool_lane_counts counts[TM_LANE_COUNT];
    unsigned running[CLASSES];
    key_use *keys; /* key_max of them */
    unsigned key_max;
    tm_pool_params params;
    pthread_t *threads;
    unsigned started, idle, queued; /* queued: in the lanes */
    bool draining, stopping;
    char name[16];
};

/* ---- Lists ---- */

static void list_init(tm_job *head)
{
    head->prev = head->next = head;
}

static void list_insert(tm_job *before, tm_job *job)
{
    job->prev = before->prev;
    job->next = before;
    before->prev->next = job;
    before->prev = job;
}

static void list_remove(tm_job *job)
{
    job->prev->next = job->next;
    job->next->prev = job->prev;
}

/* ---- Limits ---- */

static unsigned class_of(tm_lane lane)
{
    return lane < CLASSES - 1 ? lane : CLASSES - 1;
}

/* Of LIMIT threads those that a class may not have: one is left to it. */
static unsigned spared_from(const tm_pool *pool, unsigned class, unsigned limit)
{
    unsigned reserved = pool->params.reserved;
    const unsigned spared[CLASSES] = {0, reserved / 2, reserved, reserved + reserved / 2};
    return (unsigned)tm_min_u64(spared[class], limit - 1);
}

/* Whether one more job of LANE may run: each class leaves the last threads to those above it, and
 * what the classes below it hold counts as its own. */
static bool has_room(const tm_pool *pool, tm_lane lane)
{
    unsigned held = 0, threads = pool->params.threads;
    for (unsigned class = CLASSES; class -- > 0;) {
        held += pool->running[class];
        if (class <= class_of(lane) && held + spared_from(pool, class, threads) >= threads)
            return false;
    }
    return true;
}

/* The same for one key: here what higher lanes hold counts too, or each would get a share of its
 * own of a disk that hangs. */
static bool key_has_room(const tm_pool *pool, const key_use *use, tm_lane lane)
{
    unsigned running = 0, most = pool->params.per_key;
    for (unsigned i = 0; i < CLASSES; i++)
        running += use->running[i];
    return running + spared_from(pool, class_of(lane), most) < most;
}

/* The use of KEY, NULL where none of its jobs runs. */
static key_use *find_use(tm_pool *pool, uint64_t key)
{
    for (unsigned i = 0; key && i < pool->key_max; i++)
        if (pool->keys[i].key == key)
            return &pool->keys[i];
    return NULL;
}

static bool is_unused(const key_use *use)
{
    unsigned running = 0;
    for (int i = 0; i < CLASSES; i++)
        running += use->running[i];
    return running + use->held_count == 0;
}

/* Counts a job of KEY that begins. More keys than there is room for are not limited: NULL. */
static key_use *begin_use(tm_pool *pool, uint64_t key, tm_lane lane)
{
    key_use *use = find_use(pool, key);
    for (unsigned i = 0; !use && key && i < pool->key_max; i++)
        if (pool->keys[i].key == 0)
            use = &pool->keys[i];
    if (use) {
        use->key = key;
        use->running[class_of(lane)]++;
    }
    return use;
}

static void put_in_lane(tm_pool *pool, tm_job *job, bool first)
{
    tm_job *head = &pool->lanes[job->lane];
    list_insert(first ? head->next : head, job);
    job->held_by = NULL;
    pool->queued++;
    pthread_cond_signal(&pool->work);
}

static void hold(key_use *use, tm_job *job)
{
    list_insert(&use->held[job->lane], job);
    job->held_by = use;
    use->held_count++;
}

/* One of those held may run now, the highest: whoever takes it, its end lets the next one go. */
static void let_go_one(tm_pool *pool, key_use *use)
{
    for (int lane = 0; lane < TM_LANE_COUNT; lane++) {
        tm_job *job = use->held[lane].next;
        if (job == &use->held[lane])
            continue;
        if (key_has_room(pool, use, job->lane)) {
            list_remove(job);
            use->held_count--;
            put_in_lane(pool, job, true);
        }
        break;
    }
    if (is_unused(use))
        use->key = 0;
}

static void end_use(tm_pool *pool, key_use *use, tm_lane lane)
{
    assert(use->running[class_of(lane)] > 0);
    use->running[class_of(lane)]--;
    let_go_one(pool, use);
}

/* ---- Jobs ---- */

static void unlink_job(tm_pool *pool, tm_job *job)
{
    list_remove(job);
    pool->queued--;
}

/* The first job that may run now, unlinked; NULL where there is none. */
static tm_job *take_job(tm_pool *pool)
{
    for (int lane = 0; lane < TM_LANE_COUNT; lane++) {
        tm_job *head = &pool->lanes[lane];
        while (head->next != head) {
            tm_job *job = head->next;
            if (!has_room(pool, job->lane))
                return NULL; /* nor may one of a lower lane */
            unlink_job(pool, job);
            key_use *use = find_use(pool, job->key);
            if (!use || key_has_room(pool, use, job->lane))
                return job;
            hold(use, job);
        }
    }
    return NULL;
}

/* How many jobs are queued or run. */
static uint64_t count_busy(const tm_pool *pool)
{
    uint64_t n = 0;
    for (int lane = 0; lane < TM_LANE_COUNT; lane++)
        n += pool->counts[lane].queued + pool->counts[lane].running;
    return n;
}

/* A job has ended, or will not be. */
static void note_rest(tm_pool *pool)
{
    if (pool->draining && count_busy(pool) == 0)
        pthread_cond_broadcast(&pool->rest);
}

static void run_job(tm_pool *pool, tm_job *job)
{
    tm_lane lane = job->lane;
    job->queued = false;
    pool->counts[lane].queued--;
    pool->counts[lane].running++;
    pool->running[class_of(lane)]++;
    key_use *use = begin_use(pool, job->key, lane);
    pthread_mutex_unlock(&pool->lock);
    job->run(job);
    pthread_mutex_lock(&pool->lock);
    if (use)
        end_use(pool, use, lane);
    pool->running[class_of(lane)]--;
    pool->counts[lane].running--;
    pool->counts[lane].done++;
    note_rest(pool);
}

static void *thread_main(void *arg)
{
    tm_pool *pool = arg;
    pthread_setname_np(pthread_self(), pool->name);
    if (pool->params.background)
        pthread_setschedparam(pthread_self(), SCHED_IDLE, &(struct sched_param){0});
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
    /* Those of which jobs run, and as many again of which some are about to. */
    pool->key_max = params->per_key ? 2 * params->threads : 0;
    pool->keys = tm_new_array(pool->key_max, sizeof(*pool->keys));
    if (!pool->threads || !pool->keys) {
        free(pool->threads);
        free(pool->keys);
        free(pool);
        return -ENOMEM;
    }
    snprintf(pool->name, sizeof(pool->name), "%s", params->name);
    for (int lane = 0; lane < TM_LANE_COUNT; lane++)
        list_init(&pool->lanes[lane]);
    for (unsigned i = 0; i < pool->key_max; i++)
        for (int lane = 0; lane < TM_LANE_COUNT; lane++)
            list_init(&pool->keys[i].held[lane]);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->rest, NULL);
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

uint64_t tm_pool_drain(tm_pool *pool)
{
    uint64_t done = 0;
    pthread_mutex_lock(&pool->lock);
    pool->draining = true;
    while (count_busy(pool) > 0)
        pthread_cond_wait(&pool->rest, &pool->lock);
    for (int lane = 0; lane < TM_LANE_COUNT; lane++)
        done += pool->counts[lane].done;
    pthread_mutex_unlock(&pool->lock);
    return done;
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
    pthread_cond_destroy(&pool->rest);
    pthread_mutex_destroy(&pool->lock);
    free(pool->threads);
    free(pool->keys);
    free(pool);
}

void tm_pool_submit(tm_pool *pool, tm_job *job)
{
    pthread_mutex_lock(&pool->lock);
    assert(!job->queued);
    job->queued = true;
    pool->counts[job->lane].queued++;
    put_in_lane(pool, job, false);
    /* An idle thread may have been woken for another job already. */
    if (pool->queued > pool->idle && pool->started < pool->params.threads && !pool->stopping)
        tm_ignore(start_thread(pool)); /* where it fails, those that run will come to it */
    pthread_mutex_unlock(&pool->lock);
}

bool tm_pool_withdraw(tm_pool *pool, tm_job *job)
{
    pthread_mutex_lock(&pool->lock);
    bool queued = job->queued;
    if (queued) {
        key_use *use = job->held_by ? job->held_by : find_use(pool, job->key);
        if (job->held_by) {
            list_remove(job);
            use->held_count--;
        } else {
            unlink_job(pool, job);
        }
        if (use)
            let_go_one(pool, use); /* it may have been the one that was let go */
        job->queued = false;
        pool->counts[job->lane].queued--;
        note_rest(pool);
    }
    pthread_mutex_unlock(&pool->lock);
    return queued;
}

void tm_pool_counts(tm_pool *pool, tm_pool_lane_counts ret[TM_LANE_COUNT])
{
    pthread_mutex_lock(&pool->lock);
    memcpy(ret, pool->counts, sizeof(pool->counts));
    pthread_mutex_unlock(&pool->lock);
}
