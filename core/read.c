#include "core/read.h"

#include <time.h>

#include "core/buffer.h"
#include "core/shared.h"

/* The references: one of the caller's, one while the machine works on the read (from go to
 * finish), one while a cancel is on its way. */

static void resume(tm_job *job);
static void cancel(tm_job *job);

enum {
    NEAR_MAX = 16 << 20 /* bytes that are had near as one */
};

/* Bytes that are not wanted are hardly ever written: a used buffer, which is warm, is not for them.
 */
static uint8_t *get_bytes(const tm_read_params *params)
{
    if (params->dst)
        return params->dst;
    return params->near ? malloc(params->len ? params->len : 1) : tm_buffer_get(params->len);
}

static void put_bytes(tm_read *read)
{
    if (read->params.near)
        free(read->bytes);
    else if (!read->params.dst)
        tm_buffer_put(read->bytes, read->params.len);
}

int tm_read_new(const tm_read_params *params, tm_read **ret)
{
    assert(tm_range_ok(params->off, params->len, params->blob->size));
    assert(!params->near || !params->dst);
    tm_read *read = aligned_alloc(64, (sizeof(*read) + 63) & ~(size_t)63);
    if (!read)
        return -ENOMEM;
    memset(read, 0, offsetof(tm_read, plan));
    read->params = *params;
    tm_req_init(&read->req, params->lane);
    read->req.deadline_ns = params->deadline_ns;
    read->bytes = get_bytes(params);
    if (!read->bytes) {
        free(read);
        return -ENOMEM;
    }
    tm_blob_ref(params->blob);
    atomic_init(&read->refs, 1);
    pthread_mutex_init(&read->lock, NULL);
    read->resume_job = (tm_job){.run = resume, .lane = params->lane};
    read->cancel_job = (tm_job){.run = cancel, .lane = TM_LANE_SCALAR};
    tm_plan_init(&read->plan, read, &read->req);
    *ret = read;
    return 0;
}

tm_read *tm_read_ref(tm_read *read)
{
    atomic_fetch_add_explicit(&read->refs, 1, memory_order_relaxed);
    return read;
}

tm_read *tm_read_unref(tm_read *read)
{
    if (!read || atomic_fetch_sub_explicit(&read->refs, 1, memory_order_acq_rel) != 1)
        return NULL;
    tm_plan_reset(&read->plan);
    put_bytes(read);
    tm_blob_unref(read->params.blob);
    pthread_mutex_destroy(&read->lock);
    free(read);
    return NULL;
}

static int plan_window(tm_read *read)
{
    tm_blob *blob = read->params.blob;
    size_t left = read->params.len - read->pos;
    read->window = blob->window ? tm_min_u64(left, blob->window) : left;
    tm_kept *kept = NULL;
    if (read->plan.waits)
        kept = tm_plan_again(&read->plan);
    else
        tm_plan_reset(&read->plan);
    int rc = tm_blob_plan(blob, &read->plan, read->params.off + read->pos, read->window,
                          read->bytes + read->pos);
    tm_kept_release(kept);
    return rc;
}

/* What the steps below return, besides 0 and errors (of which -EAGAIN may be one). */
enum {
    MUST_WAIT = 1
};

/* Makes fetches of what is only to be near: those with no more than their own length between them
 * are one, for it is asked for piece by piece (the columns of a block, row by row). */
static void make_near(tm_plan *plan)
{
    for (tm_fetch *f = plan->fetches; f; f = f->next) {
        f->dst = NULL;
        for (tm_fetch *n = f->next; n && n->blob == f->blob; n = n->next) {
            uint64_t end = f->off + f->len;
            if (n->off < end || n->off - end > n->len || n->off + n->len - f->off > NEAR_MAX)
                break;
            f->len = n->off + n->len - f->off;
            f->next = n->next;
        }
    }
}

/* Copies what is at hand: 0 where that is all, else MUST_WAIT. */
static int fetch_now(tm_read *read)
{
    int rc = 0;
    if (read->params.near)
        make_near(&read->plan);
    for (tm_fetch *f = read->plan.fetches; f; f = f->next) {
        int one = f->blob->ops->fetch_now(f->blob, f->off, f->len, f->dst, &read->req);
        f->finished = one == 0;
        if (one == -EAGAIN)
            rc = MUST_WAIT;
        else if (one < 0)
            return one;
    }
    return rc;
}

static int run_all(tm_read *read)
{
    for (tm_run *run = read->params.near ? NULL : read->plan.runs; run; run = run->next) {
        TM_TRY(tm_req_check(&read->req));
        TM_TRY(run->fn(run->args, &read->req));
    }
    read->pos += read->window;
    return 0;
}

/* Goes as far as it can without waiting: 0 at the end, MUST_WAIT where the plan does. */
static int advance(tm_read *read)
{
    while (read->pos < read->params.len) {
        TM_TRY(tm_req_check(&read->req));
        TM_TRY(plan_window(read));
        if (read->plan.waits)
            return MUST_WAIT;
        int rc = fetch_now(read);
        if (rc != 0)
            return rc;
        TM_TRY(run_all(read));
    }
    return 0;
}

static void reply(tm_read *read, int rc)
{
    if (atomic_exchange(&read->replied, true))
        return;
    if (rc == 0 && !read->params.near)
        tm_sched_count(read->params.sched, read->params.lane, read->params.len);
    read->params.done(read, rc);
}

static void finish(tm_read *read, int rc)
{
    if (rc < 0) { /* the first error of all is told, with its words, and no other follows it */
        tm_ignore(tm_fail(&read->req, -rc, "%s", strerror(-rc)));
        rc = atomic_load(&read->req.error);
    }
    if (read->watched)
        tm_sched_unwatch(read->params.sched, &read->timer);
    reply(read, rc);
    tm_read_unref(read);
}

static void expire(tm_timer *timer)
{
    tm_read_cancel(TM_CONTAINER(timer, tm_read, timer), ETIMEDOUT,
                   "no answer within the time limit");
}

static void submit_resume(tm_read *read)
{
    tm_pool_submit(tm_sched_workers(read->params.sched, read->params.lane), &read->resume_job);
}

/* Starts what the plan still needs; false where the read was cancelled. READ may be gone when this
 * returns true. */
static bool start_pending(tm_read *read)
{
    if (read->params.deadline_ns && !read->watched) {
        read->watched = true;
        read->timer = (tm_timer){.deadline_ns = read->params.deadline_ns, .expire = expire};
        tm_sched_watch(read->params.sched, &read->timer);
    }
    pthread_mutex_lock(&read->lock);
    if (atomic_load(&read->req.cancelled)) {
        pthread_mutex_unlock(&read->lock);
        return false;
    }
    atomic_store(&read->pending, 1);
    read->waiting = true;
    for (tm_wait *w = read->plan.waits; w; w = w->next) {
        atomic_fetch_add(&read->pending, 1);
        if (!tm_shared_join(w->shared, w))
            atomic_fetch_sub(&read->pending, 1);
    }
    for (tm_fetch *f = read->plan.waits ? NULL : read->plan.fetches; f; f = f->next) {
        if (f->finished)
            continue;
        atomic_fetch_add(&read->pending, 1);
        f->blob->ops->fetch_start(f->blob, f);
    }
    pthread_mutex_unlock(&read->lock);
    if (atomic_fetch_sub(&read->pending, 1) == 1)
        submit_resume(read);
    return true;
}

/* Replies, or sees to it that somebody will. */
static void go_on(tm_read *read, int rc)
{
    if (rc == 0)
        rc = advance(read);
    if (rc == MUST_WAIT && start_pending(read))
        return;
    if (rc == MUST_WAIT)
        rc = atomic_load(&read->req.error);
    finish(read, rc);
}

void tm_read_go(tm_read *read)
{
    tm_read_ref(read);
    go_on(read, 0);
}

/* Everything that the plan waited for has arrived. */
static void all_arrived(tm_read *read)
{
    pthread_mutex_lock(&read->lock);
    read->waiting = false; /* from here on no cancel touches the plan */
    pthread_mutex_unlock(&read->lock);
    int rc = atomic_load(&read->arrived);
    if (rc == 0 && !read->plan.waits)
        rc = run_all(read);
    go_on(read, rc);
}

static void resume(tm_job *job)
{
    all_arrived(TM_CONTAINER(job, tm_read, resume_job));
}

/* Counts one arrival; true for the last. Before the last one the plan may be in use elsewhere. */
static bool arrive(tm_read *read, int rc, const char *words)
{
    int none = 0;
    if (rc < 0 && atomic_compare_exchange_strong(&read->arrived, &none, rc))
        tm_fail(&read->req, -rc, "%s", words && *words ? words : strerror(-rc));
    return atomic_fetch_sub(&read->pending, 1) == 1;
}

void tm_read_arrived(tm_read *read, int rc, const char *words)
{
    if (arrive(read, rc, words))
        submit_resume(read);
}

void tm_fetch_done(tm_fetch *fetch, int rc, const char *words)
{
    tm_read *read = fetch->read;
    if (!arrive(read, rc, words))
        return;
    /* Bytes that need no more work leave from the thread that brought them. */
    if (!read->plan.runs && read->pos + read->window == read->params.len)
        all_arrived(read);
    else
        submit_resume(read);
}

/* Takes back what can be taken back; returns how many arrivals will not come by themselves. */
static unsigned withdraw(tm_read *read)
{
    unsigned n = 0;
    for (tm_wait *w = read->plan.waits; w; w = w->next)
        n += tm_shared_leave(w->shared, w);
    if (read->plan.waits)
        return n;
    for (tm_fetch *f = read->plan.fetches; f; f = f->next) {
        if (f->finished || f->withdrawn)
            continue;
        f->withdrawn = f->blob->ops->fetch_cancel(f->blob, f);
        n += f->withdrawn;
    }
    return n;
}

static void cancel(tm_job *job)
{
    tm_read *read = TM_CONTAINER(job, tm_read, cancel_job);
    pthread_mutex_lock(&read->lock);
    unsigned n = read->waiting ? withdraw(read) : 0;
    pthread_mutex_unlock(&read->lock);
    int rc = atomic_load(&read->req.error);
    assert(rc < 0);
    if (!read->params.dst)
        reply(read, rc); /* a fetch that cannot be taken back keeps the buffer, not the reader */
    while (n-- > 0)
        tm_read_arrived(read, rc, tm_req_words(&read->req));
    tm_read_unref(read);
}

void tm_read_cancel(tm_read *read, int code, const char *words)
{
    if (atomic_exchange(&read->cancel_sent, true))
        return;
    tm_fail(&read->req, code, "%s", words);
    atomic_store(&read->req.cancelled, true);
    tm_read_ref(read);
    tm_pool_submit(read->params.sched->workers, &read->cancel_job);
}

/* ---- Reads that a thread waits for ---- */

enum {
    CHECK_MS = 100, /* how late a cancel of the request may be noticed */
};

typedef struct sync_wait {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool ended;
    int rc;
} sync_wait;

static void sync_done(tm_read *read, int rc)
{
    sync_wait *w = read->params.user;
    pthread_mutex_lock(&w->lock);
    w->ended = true;
    w->rc = rc;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->lock);
}

/* The read's result; where REQ ends first the read is cancelled. */
static int wait_end(sync_wait *w, tm_read *read, tm_req *req)
{
    pthread_mutex_lock(&w->lock);
    while (!w->ended) {
        struct timespec at = tm_after_ms(CHECK_MS);
        if (pthread_cond_clockwait(&w->cond, &w->lock, CLOCK_MONOTONIC, &at) == 0 || w->ended)
            continue;
        int rc = tm_req_check(req);
        if (rc < 0)
            tm_read_cancel(read, -rc, tm_req_words(req));
    }
    pthread_mutex_unlock(&w->lock);
    return w->rc;
}

int tm_read_wait(tm_sched *sched, tm_blob *blob, uint64_t off, size_t len, void *dst, tm_req *req)
{
    assert(req->may_block);
    TM_TRY(tm_req_check(req));
    sync_wait w = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0};
    tm_read_params params = {
        .sched = sched,
        .blob = blob,
        .off = off,
        .len = len,
        .dst = NULL, /* not DST: a disk that hangs would hold it, and with it the caller */
        .lane = req->lane,
        .deadline_ns = req->deadline_ns,
        .done = sync_done,
        .user = &w,
    };
    tm_read *read;
    int rc = tm_read_new(&params, &read);
    if (rc < 0)
        return tm_fail(req, -rc, "out of memory");
    tm_read_go(read);
    rc = wait_end(&w, read, req);
    if (rc < 0)
        tm_fail(req, -rc, "%s", tm_req_words(&read->req));
    else
        memcpy(dst, read->bytes, len);
    tm_read_unref(read);
    return rc;
}
