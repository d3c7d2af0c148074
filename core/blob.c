#include "core/blob.h"

#include "core/plan.h"

void tm_blob_init(tm_blob *blob, const tm_blob_ops *ops, uint64_t size)
{
    assert(ops->free && (ops->plan || ops->fetch_now));
    assert(!ops->fetch_now == !ops->fetch_start && !ops->fetch_now == !ops->fetch_cancel);
    assert(!ops->hold == !ops->unhold);
    blob->ops = ops;
    blob->size = size;
    blob->window = 0;
    atomic_init(&blob->refs, 1);
}

tm_blob *tm_blob_ref(tm_blob *blob)
{
    atomic_fetch_add_explicit(&blob->refs, 1, memory_order_relaxed);
    return blob;
}

tm_blob *tm_blob_unref(tm_blob *blob)
{
    if (blob && atomic_fetch_sub_explicit(&blob->refs, 1, memory_order_acq_rel) == 1)
        blob->ops->free(blob);
    return NULL;
}

void tm_blob_unrefp(tm_blob **blob)
{
    tm_blob_unref(*blob);
}

int tm_blob_plan(tm_blob *blob, tm_plan *plan, uint64_t off, size_t len, void *dst)
{
    assert(tm_range_ok(off, len, blob->size));
    if (len == 0)
        return 0;
    if (blob->ops->fetch_now)
        return tm_plan_fetch(plan, blob, off, len, dst);
    return blob->ops->plan(blob, plan, off, len, dst);
}

bool tm_blob_locate(tm_blob *blob, uint64_t off, uint64_t len, tm_extent *ret)
{
    assert(tm_range_ok(off, len, blob->size));
    return blob->ops->locate && blob->ops->locate(blob, off, len, ret);
}

int tm_blob_hold(tm_blob *blob, tm_req *req)
{
    return blob->ops->hold ? blob->ops->hold(blob, req) : 0;
}

void tm_blob_unhold(tm_blob *blob)
{
    if (blob->ops->unhold)
        blob->ops->unhold(blob);
}
