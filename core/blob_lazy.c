#include "core/blob_lazy.h"

#include "core/sched.h"
#include "core/shared.h"

typedef struct lazy_blob {
    tm_blob blob;
    tm_lazy_params params;
    tm_shared made; /* guards bytes: written before it is done, constant after */
    tm_job job;
    tm_req req; /* of the last start */
    void *bytes;
} lazy_blob;

static lazy_blob *as_lazy(tm_blob *blob)
{
    return TM_CONTAINER(blob, lazy_blob, blob);
}

static void make_job(tm_job *job)
{
    lazy_blob *self = TM_CONTAINER(job, lazy_blob, job);
    int rc = self->params.make(self->params.ctx, &self->req, &self->bytes);
    tm_shared_finish(&self->made, rc, tm_req_words(&self->req));
    tm_blob_unref(&self->blob);
}

static void start(tm_shared *shared)
{
    lazy_blob *self = TM_CONTAINER(shared, lazy_blob, made);
    tm_blob_ref(&self->blob); /* the job's, which outlives readers that give up */
    tm_req_init(&self->req, TM_LANE_SELECTION);
    self->req.may_block = true;
    self->job = (tm_job){.run = make_job, .lane = TM_LANE_SELECTION, .key = self->params.key};
    tm_pool_submit(self->params.sched->openers, &self->job);
}

static void cancel(tm_shared *shared)
{
    lazy_blob *self = TM_CONTAINER(shared, lazy_blob, made);
    if (tm_pool_withdraw(self->params.sched->openers, &self->job)) {
        tm_shared_finish(shared, -EINTR, "interrupted");
        tm_blob_unref(&self->blob); /* the caller has another one */
        return;
    }
    tm_fail(&self->req, EINTR, "interrupted");
    atomic_store(&self->req.cancelled, true);
}

static const tm_shared_ops made_ops = {.start = start, .cancel = cancel};

static int lazy_plan(tm_blob *blob, tm_plan *plan, uint64_t off, size_t len, uint8_t *dst)
{
    lazy_blob *self = as_lazy(blob);
    if (tm_shared_poll(&self->made) < 0)
        return tm_plan_wait(plan, &self->made);
    memcpy(dst, (const char *)self->bytes + off, len);
    return 0;
}

static void lazy_free(tm_blob *blob)
{
    lazy_blob *self = as_lazy(blob);
    tm_shared_done(&self->made);
    if (self->params.free_ctx)
        self->params.free_ctx(self->params.ctx);
    free(self->bytes);
    free(self);
}

static const tm_blob_ops lazy_ops = {.kind = "lazy", .plan = lazy_plan, .free = lazy_free};

int tm_blob_lazy_new(const tm_lazy_params *params, tm_blob **ret)
{
    lazy_blob *self = TM_NEW(lazy_blob);
    if (!self) {
        if (params->free_ctx)
            params->free_ctx(params->ctx);
        return -ENOMEM;
    }
    tm_blob_init(&self->blob, &lazy_ops, params->size);
    self->params = *params;
    tm_shared_init(&self->made, &made_ops);
    *ret = &self->blob;
    return 0;
}
