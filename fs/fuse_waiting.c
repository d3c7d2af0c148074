#include "fs/fuse_waiting.h"

#include "fs/fuse_caller.h"

typedef struct tm_waiting tm_waiting;

/* The references: one of the run's, one while an answer before its end is on its way. */
struct tm_waiting {
    tm_op op;
    tm_req req;
    pid_t pid; /* of the thread that asked */
    atomic_uint refs;
    atomic_bool claimed, given_up;
    tm_job run_job, give_up_job;
    tm_timer timer;
    tm_waiting *prev, *next; /* in the mount's list */
    char bytes[];
};

static void unref(tm_waiting *w)
{
    if (atomic_fetch_sub(&w->refs, 1) == 1)
        free(w);
}

int tm_op_claim(const tm_op *op)
{
    tm_waiting *w = op->waiting;
    if (!w)
        return 0;
    if (atomic_exchange(&w->claimed, true))
        return -EINTR;
    /* Returns only when no interrupt is using W; from here on none will. */
    fuse_req_interrupt_func(op->fuse_req, NULL, NULL);
    return 0;
}

void tm_op_fail(const tm_op *op, int rc, const tm_req *req)
{
    tm_tree *tree = op->fuse->tree;
    if (rc != -ENOENT && rc != -EINTR && tm_req_words(req)[0] && tree->ops->failed)
        tree->ops->failed(tree, op->ino, rc, tm_req_words(req));
    tm_ignore(fuse_reply_err(op->fuse_req, -rc));
}

/* ---- Those that wait ---- */

static void link_waiting(tm_waiting *w)
{
    tm_reads *reads = &w->op.fuse->reads;
    tm_reads_begin(reads);
    pthread_mutex_lock(&reads->lock);
    w->next = reads->waiting;
    if (w->next)
        w->next->prev = w;
    reads->waiting = w;
    pthread_mutex_unlock(&reads->lock);
}

/* W's run has ended: nothing finds it any more. */
static void finish(tm_waiting *w)
{
    tm_fuse *fuse = w->op.fuse;
    if (w->timer.deadline_ns)
        tm_sched_unwatch(fuse->tree->sched, &w->timer);
    pthread_mutex_lock(&fuse->reads.lock);
    *(w->prev ? &w->prev->next : &fuse->reads.waiting) = w->next;
    if (w->next)
        w->next->prev = w->prev;
    pthread_mutex_unlock(&fuse->reads.lock);
    unref(w);
    tm_reads_end(&fuse->reads);
}

static void run(tm_job *job)
{
    tm_waiting *w = TM_CONTAINER(job, tm_waiting, run_job);
    int rc = tm_req_check(&w->req);
    if (rc == 0)
        rc = w->op.run(&w->op, &w->req);
    if (rc < 0 && tm_op_claim(&w->op) == 0)
        tm_op_fail(&w->op, rc, &w->req);
    finish(w);
}

/* ---- Answers before the end ---- */

static void give_up(tm_job *job)
{
    tm_waiting *w = TM_CONTAINER(job, tm_waiting, give_up_job);
    tm_sched *sched = w->op.fuse->tree->sched;
    bool withdrawn = tm_pool_withdraw(sched->openers, &w->run_job);
    bool in_time = w->timer.deadline_ns == 0 || tm_now_ns() < w->timer.deadline_ns;
    tm_req req; /* W's own is the run's */
    tm_req_init(&req, TM_LANE_SCALAR);
    int rc = tm_fail(&req, in_time ? EINTR : ETIMEDOUT, "no answer within the time limit");
    if (tm_op_claim(&w->op) == 0)
        tm_op_fail(&w->op, rc, &req);
    tm_reads *reads = &w->op.fuse->reads;
    if (withdrawn)
        finish(w);
    unref(w);
    tm_reads_end(reads);
}

/* Only what it waits for is to be ended with it: an opening that takes long is of use to the next
 * request, and goes on when the time of this one is up. */
static void answer_now(tm_waiting *w, bool cancel)
{
    if (cancel) {
        tm_fail(&w->req, EINTR, "interrupted");
        atomic_store(&w->req.cancelled, true);
    }
    if (atomic_exchange(&w->given_up, true))
        return;
    atomic_fetch_add(&w->refs, 1);
    tm_reads_begin(&w->op.fuse->reads); /* the mount does not end before the answer */
    w->give_up_job = (tm_job){.run = give_up, .lane = TM_LANE_SCALAR};
    tm_pool_submit(w->op.fuse->tree->sched->workers, &w->give_up_job);
}

static void expire(tm_timer *timer)
{
    answer_now(TM_CONTAINER(timer, tm_waiting, timer), false);
}

/* Called with the request's lock held, so it must not reply. */
static void on_interrupt(fuse_req_t fuse_req, void *data)
{
    (void)fuse_req;
    tm_waiting *w = data;
    if (tm_caller_wants_away(w->pid))
        answer_now(w, true);
}

void tm_waiting_cancel_all(tm_waiting *first)
{
    for (tm_waiting *w = first; w; w = w->next)
        answer_now(w, true);
}

/* ---- Starting ---- */

static tm_waiting *waiting_new(const tm_op *op)
{
    tm_waiting *w = calloc(1, sizeof(*w) + op->len + 1);
    if (!w)
        return NULL;
    w->op = *op;
    w->op.waiting = w;
    if (op->bytes) {
        memcpy(w->bytes, op->bytes, op->len);
        w->op.bytes = w->bytes;
    }
    tm_req_init(&w->req, TM_LANE_SELECTION);
    w->req.may_block = true;
    w->pid = fuse_req_ctx(op->fuse_req)->pid;
    atomic_init(&w->refs, 1);
    tm_tree *tree = op->fuse->tree;
    w->run_job = (tm_job){
        .run = run,
        .lane = TM_LANE_SELECTION,
        .key = tree->ops->key ? tree->ops->key(tree, op->ino) : 0,
    };
    return w;
}

static void start_waiting(const tm_op *op)
{
    tm_waiting *w = waiting_new(op);
    tm_fuse *fuse = op->fuse;
    if (!w) {
        tm_ignore(fuse_reply_err(op->fuse_req, ENOMEM));
        return;
    }
    if (fuse->timeout_ns)
        w->timer = (tm_timer){.deadline_ns = tm_now_ns() + fuse->timeout_ns, .expire = expire};
    link_waiting(w);
    fuse_req_interrupt_func(op->fuse_req, on_interrupt, w);
    /* From here on the request may be answered, and gone, at any time. */
    if (fuse->timeout_ns)
        tm_sched_watch(fuse->tree->sched, &w->timer);
    tm_pool_submit(fuse->tree->sched->openers, &w->run_job);
}

void tm_op_start(const tm_op *op)
{
    tm_req req;
    tm_req_init(&req, TM_LANE_SCALAR);
    if (tm_caller_is_us(fuse_req_ctx(op->fuse_req)->pid)) {
        tm_ignore(fuse_reply_err(op->fuse_req, ELOOP));
        return;
    }
    int rc = op->run(op, &req);
    if (rc == -EINPROGRESS)
        start_waiting(op);
    else if (rc < 0)
        tm_op_fail(op, rc, &req);
}
