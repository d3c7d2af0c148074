/* The pool: lanes overtake, reserved threads, withdrawal, and that no job is left lying. */
#include <sched.h>

#include "core/pool.h"
#include "tests/unit/core/engine.h"

enum {
    JOBS_MAX = 32
};

/* Jobs that note the order in which they run; one of them may hold its thread. */
typedef struct note {
    pthread_mutex_t lock;
    char order[JOBS_MAX + 1];
    size_t count;
} note;

typedef struct lettered_job {
    tm_job job;
    note *note;
    char letter;
    event *begun, *hold; /* may be NULL */
} lettered_job;

static void run_lettered(tm_job *job)
{
    lettered_job *self = TM_CONTAINER(job, lettered_job, job);
    if (self->begun)
        event_set(self->begun);
    if (self->hold)
        event_wait(self->hold, "for a job to be let go");
    pthread_mutex_lock(&self->note->lock);
    assert(self->note->count < JOBS_MAX);
    self->note->order[self->note->count++] = self->letter;
    pthread_mutex_unlock(&self->note->lock);
}

static lettered_job lettered(note *n, char letter, tm_lane lane)
{
    return (lettered_job){.job = {.run = run_lettered, .lane = lane}, .note = n, .letter = letter};
}

static tm_pool *pool_new(unsigned threads, unsigned reserved)
{
    tm_pool *pool;
    tm_pool_params params = {
        .name = "a-name-longer-than-15", .threads = threads, .reserved = reserved};
    assert_int_equal(tm_pool_new(&params, &pool), 0);
    return pool;
}

static uint64_t done_in_all(tm_pool *pool)
{
    tm_pool_lane_counts counts[TM_LANE_COUNT];
    uint64_t done = 0;
    tm_pool_counts(pool, counts);
    for (int lane = 0; lane < TM_LANE_COUNT; lane++)
        done += counts[lane].done;
    return done;
}

/* A thread that has counted its last job and found no other is idle. */
static void wait_done(tm_pool *pool, uint64_t count)
{
    while (done_in_all(pool) < count)
        sched_yield();
}

static void jobs_go_by_lane_then_in_the_order_they_came(void **state)
{
    (void)state;
    note n = {.lock = PTHREAD_MUTEX_INITIALIZER};
    event begun = EVENT_INIT, hold = EVENT_INIT;
    tm_pool *pool = pool_new(1, 0);
    lettered_job first = lettered(&n, '-', TM_LANE_INDEX);
    first.begun = &begun;
    first.hold = &hold;
    tm_pool_submit(pool, &first.job);
    event_wait(&begun, "for the first job");
    static const struct {
        char letter;
        tm_lane lane;
    } rows[] = {
        {'l', TM_LANE_INDEX},     {'g', TM_LANE_PREFETCH}, {'c', TM_LANE_SELECTION},
        {'j', TM_LANE_QUERY},     {'a', TM_LANE_SCALAR},   {'h', TM_LANE_ANALYSIS},
        {'e', TM_LANE_VISIBLE},   {'m', TM_LANE_INDEX},    {'b', TM_LANE_SCALAR},
        {'d', TM_LANE_SELECTION}, {'i', TM_LANE_ANALYSIS}, {'f', TM_LANE_VISIBLE},
        {'k', TM_LANE_QUERY},
    };
    lettered_job jobs[TM_ARRAY_LEN(rows)];
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        jobs[i] = lettered(&n, rows[i].letter, rows[i].lane);
        tm_pool_submit(pool, &jobs[i].job);
    }
    event_set(&hold);
    tm_pool_free(pool); /* runs what is queued */
    assert_string_equal(n.order, "-abcdefghijklm");
}

static void counts_tell_what_is_queued_running_and_done(void **state)
{
    (void)state;
    note n = {.lock = PTHREAD_MUTEX_INITIALIZER};
    event begun = EVENT_INIT, hold = EVENT_INIT;
    tm_pool *pool = pool_new(1, 0);
    tm_pool_lane_counts counts[TM_LANE_COUNT];
    lettered_job running = lettered(&n, 'r', TM_LANE_QUERY);
    lettered_job queued = lettered(&n, 'q', TM_LANE_QUERY);
    lettered_job other = lettered(&n, 'o', TM_LANE_VISIBLE);
    running.begun = &begun;
    running.hold = &hold;
    tm_pool_submit(pool, &running.job);
    event_wait(&begun, "for a job to run");
    tm_pool_submit(pool, &queued.job);
    tm_pool_submit(pool, &other.job);
    tm_pool_counts(pool, counts);
    assert_int_equal(counts[TM_LANE_QUERY].queued, 1);
    assert_int_equal(counts[TM_LANE_QUERY].running, 1);
    assert_int_equal(counts[TM_LANE_QUERY].done, 0);
    assert_int_equal(counts[TM_LANE_VISIBLE].queued, 1);
    event_set(&hold);
    wait_done(pool, 3);
    tm_pool_counts(pool, counts);
    assert_int_equal(counts[TM_LANE_QUERY].queued, 0);
    assert_int_equal(counts[TM_LANE_QUERY].running, 0);
    assert_int_equal(counts[TM_LANE_QUERY].done, 2);
    assert_int_equal(counts[TM_LANE_VISIBLE].done, 1);
    assert_int_equal(counts[TM_LANE_SCALAR].done, 0);
    tm_pool_free(pool);
}

static void a_withdrawn_job_does_not_run_and_may_be_submitted_again(void **state)
{
    (void)state;
    note n = {.lock = PTHREAD_MUTEX_INITIALIZER};
    event begun = EVENT_INIT, hold = EVENT_INIT;
    tm_pool *pool = pool_new(1, 0);
    lettered_job first = lettered(&n, '1', TM_LANE_VISIBLE);
    first.begun = &begun;
    first.hold = &hold;
    lettered_job jobs[3];
    tm_pool_submit(pool, &first.job);
    event_wait(&begun, "for the first job");
    for (int i = 0; i < 3; i++) {
        jobs[i] = lettered(&n, (char)('a' + i), TM_LANE_VISIBLE);
        tm_pool_submit(pool, &jobs[i].job);
    }
    assert_true(tm_pool_withdraw(pool, &jobs[1].job));
    assert_false(tm_pool_withdraw(pool, &jobs[1].job));
    assert_false(tm_pool_withdraw(pool, &first.job)); /* it runs */
    assert_true(tm_pool_withdraw(pool, &jobs[0].job));
    tm_pool_submit(pool, &jobs[0].job); /* behind the others now */
    event_set(&hold);
    tm_pool_free(pool);
    assert_string_equal(n.order, "1ca");
}

static void reserved_threads_are_for_the_highest_lanes_alone(void **state)
{
    (void)state;
    note n = {.lock = PTHREAD_MUTEX_INITIALIZER};
    tm_pool *pool = pool_new(4, 3);
    event begun[3] = {EVENT_INIT, EVENT_INIT, EVENT_INIT}, hold = EVENT_INIT;
    lettered_job waits = lettered(&n, '2', TM_LANE_PREFETCH);
    lettered_job passes = lettered(&n, 'p', TM_LANE_SELECTION);
    lettered_job held[3] = {lettered(&n, '1', TM_LANE_VISIBLE), lettered(&n, 's', TM_LANE_SCALAR),
                            lettered(&n, 'S', TM_LANE_SELECTION)};
    for (int i = 0; i < 3; i++) {
        held[i].begun = &begun[i];
        held[i].hold = &hold;
        tm_pool_submit(pool, &held[i].job);
        event_wait(&begun[i], "for a job beside those that are held");
        if (i == 0)
            tm_pool_submit(pool, &waits.job);
    }
    tm_pool_submit(pool, &passes.job);
    wait_done(pool, 1); /* by the fourth thread, which could have taken the other low job next */
    tm_pool_lane_counts counts[TM_LANE_COUNT];
    tm_pool_counts(pool, counts);
    assert_int_equal(counts[TM_LANE_VISIBLE].running, 1);
    assert_int_equal(counts[TM_LANE_PREFETCH].queued, 1);
    event_set(&hold);
    tm_pool_free(pool);
    assert_int_equal(n.count, 5);
}

static tm_pool *pool_of_keys(unsigned threads, unsigned reserved, unsigned per_key)
{
    tm_pool *pool;
    tm_pool_params params = {
        .name = "keys", .threads = threads, .reserved = reserved, .per_key = per_key};
    assert_int_equal(tm_pool_new(&params, &pool), 0);
    return pool;
}

static lettered_job keyed(note *n, char letter, tm_lane lane, uint64_t key)
{
    lettered_job job = lettered(n, letter, lane);
    job.job.key = key;
    return job;
}

/* How many jobs run, once that is at least COUNT and has not changed for a while. */
static unsigned wait_running(tm_pool *pool, unsigned count)
{
    unsigned running = 0, before = 0, same = 0;
    while (same < 20) {
        tm_pool_lane_counts counts[TM_LANE_COUNT];
        tm_pool_counts(pool, counts);
        before = running;
        running = 0;
        for (int lane = 0; lane < TM_LANE_COUNT; lane++)
            running += (unsigned)counts[lane].running;
        same = running == before && running >= count ? same + 1 : 0;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return running;
}

/* What nobody waits in fills what it may; each lane above it still finds threads, and the lowest
 * never takes those that are kept for the highest. */
static void each_lane_leaves_threads_to_those_above_it(void **state)
{
    (void)state;
    static const tm_lane lanes[] = {TM_LANE_INDEX, TM_LANE_VISIBLE, TM_LANE_SELECTION,
                                    TM_LANE_SCALAR};
    static const unsigned most[] = {8 - 6, 8 - 4, 8 - 2, 8}; /* together with those below */
    for (int keyed_too = 0; keyed_too < 2; keyed_too++) {
        note n = {.lock = PTHREAD_MUTEX_INITIALIZER};
        event hold = EVENT_INIT;
        tm_pool *pool = keyed_too ? pool_of_keys(40, 4, 8) : pool_new(8, 4);
        lettered_job jobs[4][8];
        unsigned submitted = 0;
        for (unsigned lane = 0; lane < 4; lane++) {
            for (unsigned i = 0; i < 8; i++, submitted++) {
                jobs[lane][i] = keyed(&n, 'j', lanes[lane], keyed_too ? 7 : 0);
                jobs[lane][i].hold = &hold;
                tm_pool_submit(pool, &jobs[lane][i].job);
            }
            assert_int_equal(wait_running(pool, most[lane]), most[lane]);
        }
        event_set(&hold);
        tm_pool_free(pool);
        assert_int_equal(n.count, submitted);
    }
}

/* The higher ones came first, and hold what they may: the lowest gets nothing of what is kept. */
static void what_is_kept_for_the_highest_is_not_given_to_the_lowest(void **state)
{
    (void)state;
    note n = {.lock = PTHREAD_MUTEX_INITIALIZER};
    event hold = EVENT_INIT;
    tm_pool *pool = pool_new(16, 4);
    lettered_job high[16], low[4], scalar = lettered(&n, 's', TM_LANE_SCALAR);
    for (int i = 0; i < 16; i++) {
        high[i] = lettered(&n, 'v', TM_LANE_VISIBLE);
        high[i].hold = &hold;
        tm_pool_submit(pool, &high[i].job);
    }
    assert_int_equal(wait_running(pool, 12), 12);
    for (int i = 0; i < 4; i++) {
        low[i] = lettered(&n, 'i', TM_LANE_INDEX);
        low[i].hold = &hold;
        tm_pool_submit(pool, &low[i].job);
    }
    tm_pool_submit(pool, &scalar.job);
    wait_done(pool, 1);
    assert_int_equal(wait_running(pool, 12), 12);
    event_set(&hold);
    tm_pool_free(pool);
    assert_int_equal(n.count, 21);
}

/* A low job that waits for a thread of its own gets it as soon as one of its kind ends, although
 * a reserved thread went to sleep before. */
static void a_low_job_follows_the_one_that_kept_it_waiting(void **state)
{
    (void)state;
    note n = {.lock = PTHREAD_MUTEX_INITIALIZER};
    for (int round = 0; round < 200; round++) {
        n.count = 0;
        tm_pool *pool = pool_new(2, 1);
        event begun = EVENT_INIT, hold = EVENT_INIT, second = EVENT_INIT;
        lettered_job jobs[3] = {lettered(&n, '1', TM_LANE_VISIBLE),
                                lettered(&n, '2', TM_LANE_VISIBLE),
                                lettered(&n, 's', TM_LANE_SCALAR)};
        jobs[0].begun = &begun;
        jobs[0].hold = &hold;
        jobs[1].begun = &second;
        tm_pool_submit(pool, &jobs[0].job);
        event_wait(&begun, "for the first low job");
        tm_pool_submit(pool, &jobs[1].job);
        tm_pool_submit(pool, &jobs[2].job);
        event_set(&hold);
        event_wait(&second, "for the second low job");
        tm_pool_free(pool);
        assert_int_equal(n.count, 3);
    }
}

/* ---- Keys: jobs of one disk ---- */

static void a_key_that_hangs_leaves_threads_to_the_others(void **state)
{
    (void)state;
    note n = {.lock = PTHREAD_MUTEX_INITIALIZER};
    event begun[2] = {EVENT_INIT, EVENT_INIT}, hold = EVENT_INIT;
    tm_pool *pool = pool_of_keys(3, 0, 2);
    lettered_job stuck[8], others[3];
    for (int i = 0; i < 8; i++) {
        stuck[i] = keyed(&n, (char)('a' + i), TM_LANE_VISIBLE, 7);
        stuck[i].hold = &hold;
        stuck[i].begun = i < 2 ? &begun[i] : NULL;
        tm_pool_submit(pool, &stuck[i].job);
    }
    event_wait(&begun[0], "for the first of its key");
    event_wait(&begun[1], "for the second of its key");
    for (int i = 0; i < 3; i++) {
        others[i] = keyed(&n, (char)('x' + i), TM_LANE_INDEX, i == 2 ? 0 : 8);
        tm_pool_submit(pool, &others[i].job);
    }
    wait_done(pool, 3);
    tm_pool_lane_counts counts[TM_LANE_COUNT];
    tm_pool_counts(pool, counts);
    assert_int_equal(counts[TM_LANE_VISIBLE].running, 2);
    assert_int_equal(counts[TM_LANE_VISIBLE].queued, 6);
    assert_memory_equal(n.order, "xyz", 3);
    event_set(&hold);
    tm_pool_free(pool);
    assert_int_equal(n.count, 11);
}

static void the_highest_of_those_held_goes_next_and_may_use_what_is_spared(void **state)
{
    (void)state;
    note n = {.lock = PTHREAD_MUTEX_INITIALIZER};
    event begun = EVENT_INIT, hold = EVENT_INIT, scalar_begun = EVENT_INIT;
    tm_pool *pool = pool_of_keys(8, 1, 2);
    lettered_job first = keyed(&n, '1', TM_LANE_VISIBLE, 7);
    lettered_job low = keyed(&n, 'l', TM_LANE_INDEX, 7);
    lettered_job mid = keyed(&n, 'm', TM_LANE_VISIBLE, 7);
    lettered_job scalar = keyed(&n, 's', TM_LANE_SCALAR, 7);
    first.begun = &begun;
    first.hold = &hold;
    scalar.begun = &scalar_begun;
    tm_pool_submit(pool, &first.job);
    event_wait(&begun, "for the first of its key");
    tm_pool_submit(pool, &low.job);
    tm_pool_submit(pool, &mid.job);
    tm_pool_submit(pool, &scalar.job);
    event_wait(&scalar_begun, "for a value beside a slow read of its disk");
    wait_done(pool, 1);
    event_set(&hold);
    wait_done(pool, 4);
    assert_memory_equal(n.order, "s1ml", 4);
    tm_pool_free(pool);
}

static void a_key_has_no_more_than_its_share_in_all_lanes_together(void **state)
{
    (void)state;
    enum {
        SHARE = 6,
        JOBS = 30
    };
    static const tm_lane lanes[] = {TM_LANE_SCALAR, TM_LANE_SELECTION, TM_LANE_VISIBLE};
    for (unsigned from = 0; from < 3; from++) {
        note n = {.lock = PTHREAD_MUTEX_INITIALIZER};
        event hold = EVENT_INIT;
        tm_pool *pool = pool_of_keys(40, 2, SHARE);
        lettered_job jobs[JOBS], other = keyed(&n, 'o', TM_LANE_INDEX, 8);
        for (unsigned i = 0; i < JOBS; i++) {
            jobs[i] = keyed(&n, 'j', lanes[(i / 10 + from) % 3], 7);
            jobs[i].hold = &hold;
            tm_pool_submit(pool, &jobs[i].job);
        }
        tm_pool_submit(pool, &other.job);
        wait_done(pool, 1);
        uint64_t running = 0;
        tm_pool_lane_counts counts[TM_LANE_COUNT];
        tm_pool_counts(pool, counts);
        for (int lane = 0; lane < TM_LANE_COUNT; lane++)
            running += counts[lane].running;
        assert_in_range(running, 1, SHARE);
        event_set(&hold);
        wait_done(pool, JOBS + 1);
        tm_pool_free(pool);
        assert_int_equal(n.count, JOBS + 1);
    }
}

static void those_held_go_on_where_one_of_them_is_withdrawn(void **state)
{
    (void)state;
    for (int round = 0; round < 100; round++) {
        note n = {.lock = PTHREAD_MUTEX_INITIALIZER};
        event begun = EVENT_INIT, hold = EVENT_INIT;
        tm_pool *pool = pool_of_keys(2, 0, 1);
        lettered_job jobs[4];
        for (int i = 0; i < 4; i++) {
            jobs[i] = keyed(&n, (char)('a' + i), TM_LANE_VISIBLE, 7);
            jobs[i].hold = i == 0 ? &hold : NULL;
            jobs[i].begun = i == 0 ? &begun : NULL;
            tm_pool_submit(pool, &jobs[i].job);
        }
        event_wait(&begun, "for the first of its key");
        event_set(&hold);
        size_t expected = 4 - tm_pool_withdraw(pool, &jobs[1 + round % 3].job);
        tm_pool_free(pool);
        assert_int_equal(n.count, expected);
    }
}

/* Jobs that wait for each other: each needs a thread of its own. */
enum {
    PARTY = 6
};

typedef struct party {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned present;
} party;

typedef struct party_job {
    tm_job job;
    party *party;
} party_job;

static void run_party(tm_job *job)
{
    party *p = TM_CONTAINER(job, party_job, job)->party;
    pthread_mutex_lock(&p->lock);
    p->present++;
    pthread_cond_broadcast(&p->changed);
    while (p->present < PARTY)
        wait_changed(&p->changed, &p->lock, "for jobs that have threads left to run on");
    pthread_mutex_unlock(&p->lock);
}

static void run_nothing(tm_job *job)
{
    (void)job;
}

static void jobs_that_come_at_once_do_not_wait_for_one_thread(void **state)
{
    (void)state;
    for (int round = 0; round < 100; round++) {
        tm_pool *pool = pool_new(PARTY, 0);
        party p = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
        tm_job warm = {.run = run_nothing};
        party_job jobs[PARTY];
        tm_pool_submit(pool, &warm);
        wait_done(pool, 1); /* one thread is idle now, the others are yet to be started */
        for (int i = 0; i < PARTY; i++) {
            jobs[i] = (party_job){.job = {.run = run_party}, .party = &p};
            tm_pool_submit(pool, &jobs[i].job);
        }
        tm_pool_free(pool);
        assert_int_equal(p.present, PARTY);
    }
}

/* A job that submits the next one, also while the pool is being freed. */
typedef struct chain_job {
    tm_job job;
    tm_pool *pool;
    struct chain_job *next;
    event *hold;
    atomic_uint *ran;
} chain_job;

static void run_chain(tm_job *job)
{
    chain_job *self = TM_CONTAINER(job, chain_job, job);
    if (self->hold)
        event_wait(self->hold, "for the pool to be freed");
    atomic_fetch_add(self->ran, 1);
    if (self->next)
        tm_pool_submit(self->pool, &self->next->job);
}

static void *free_pool(void *pool)
{
    tm_pool_free(pool);
    return NULL;
}

static void a_pool_that_is_freed_runs_what_its_jobs_still_submit(void **state)
{
    (void)state;
    for (int round = 0; round < 100; round++) {
        atomic_uint ran = 0;
        event hold = EVENT_INIT;
        tm_pool *pool = pool_new(2, round % 2);
        chain_job jobs[8];
        for (int i = 0; i < 8; i++)
            jobs[i] = (chain_job){.job = {.run = run_chain, .lane = TM_LANE_VISIBLE},
                                  .pool = pool,
                                  .next = i < 7 ? &jobs[i + 1] : NULL,
                                  .ran = &ran};
        jobs[0].hold = &hold;
        tm_pool_submit(pool, &jobs[0].job);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, free_pool, pool), 0);
        for (int i = 0; i < round % 10; i++)
            sched_yield();
        event_set(&hold);
        pthread_join(thread, NULL);
        assert_int_equal(atomic_load(&ran), 8);
    }
}

/* ---- Many threads submit and withdraw ---- */

enum {
    STORM_THREADS = 3,
    STORM_JOBS = 4000
};

typedef struct storm_job {
    tm_job job;
    atomic_uint runs;
    unsigned expected;
} storm_job;

typedef struct storm {
    tm_pool *pool;
    uint64_t seed;
    storm_job *jobs;
} storm;

static void run_storm(tm_job *job)
{
    atomic_fetch_add(&TM_CONTAINER(job, storm_job, job)->runs, 1);
}

static void *make_storm(void *arg)
{
    storm *s = arg;
    for (int i = 0; i < STORM_JOBS; i++) {
        storm_job *job = &s->jobs[i];
        job->job = (tm_job){.run = run_storm,
                            .lane = (tm_lane)(next_random(&s->seed) % TM_LANE_COUNT),
                            .key = next_random(&s->seed) % 20};
        job->expected = 1;
        tm_pool_submit(s->pool, &job->job);
        storm_job *victim = &s->jobs[next_random(&s->seed) % (unsigned)(i + 1)];
        if (next_random(&s->seed) % 2 && tm_pool_withdraw(s->pool, &victim->job))
            victim->expected = 0;
    }
    return NULL;
}

static void drained_is_what_has_neither_queue_nor_work(void **state)
{
    (void)state;
    tm_pool *pool = pool_new(2, 0);
    note n = {.lock = PTHREAD_MUTEX_INITIALIZER};
    lettered_job jobs[20];
    for (unsigned round = 1; round <= 50; round++) {
        n.count = 0;
        for (size_t i = 0; i < TM_ARRAY_LEN(jobs); i++) {
            jobs[i] = lettered(&n, 'a', i % 2 ? TM_LANE_SCALAR : TM_LANE_QUERY);
            tm_pool_submit(pool, &jobs[i].job);
        }
        assert_int_equal(tm_pool_drain(pool), round * TM_ARRAY_LEN(jobs));
        assert_int_equal(n.count, TM_ARRAY_LEN(jobs)); /* nobody else is at it any more */
    }
    tm_pool_free(pool);
}

static void a_job_runs_once_or_was_withdrawn(void **state)
{
    (void)state;
    static storm_job jobs[STORM_THREADS][STORM_JOBS];
    storm storms[STORM_THREADS];
    pthread_t threads[STORM_THREADS];
    tm_pool *pool = pool_of_keys(4, 1, 2);
    for (int i = 0; i < STORM_THREADS; i++) {
        storms[i] = (storm){pool, (uint64_t)i + 1, jobs[i]};
        assert_int_equal(pthread_create(&threads[i], NULL, make_storm, &storms[i]), 0);
    }
    for (int i = 0; i < STORM_THREADS; i++)
        pthread_join(threads[i], NULL);
    tm_pool_free(pool);
    unsigned ran = 0;
    for (int i = 0; i < STORM_THREADS; i++) {
        for (int j = 0; j < STORM_JOBS; j++) {
            assert_int_equal(atomic_load(&jobs[i][j].runs), jobs[i][j].expected);
            ran += jobs[i][j].expected;
        }
    }
    assert_in_range(ran, 1, STORM_THREADS * STORM_JOBS);
}

static void freeing_no_pool_is_nothing(void **state)
{
    (void)state;
    tm_pool_free(NULL);
    tm_pool_free(pool_new(2, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_go_by_lane_then_in_the_order_they_came),
        cmocka_unit_test(counts_tell_what_is_queued_running_and_done),
        cmocka_unit_test(a_withdrawn_job_does_not_run_and_may_be_submitted_again),
        cmocka_unit_test(reserved_threads_are_for_the_highest_lanes_alone),
        cmocka_unit_test(each_lane_leaves_threads_to_those_above_it),
        cmocka_unit_test(what_is_kept_for_the_highest_is_not_given_to_the_lowest),
        cmocka_unit_test(a_low_job_follows_the_one_that_kept_it_waiting),
        cmocka_unit_test(a_key_that_hangs_leaves_threads_to_the_others),
        cmocka_unit_test(the_highest_of_those_held_goes_next_and_may_use_what_is_spared),
        cmocka_unit_test(a_key_has_no_more_than_its_share_in_all_lanes_together),
        cmocka_unit_test(those_held_go_on_where_one_of_them_is_withdrawn),
        cmocka_unit_test(jobs_that_come_at_once_do_not_wait_for_one_thread),
        cmocka_unit_test(a_pool_that_is_freed_runs_what_its_jobs_still_submit),
        cmocka_unit_test(drained_is_what_has_neither_queue_nor_work),
        cmocka_unit_test(a_job_runs_once_or_was_withdrawn),
        cmocka_unit_test(freeing_no_pool_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
