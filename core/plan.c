#include "core/plan.h"

#include "core/buffer.h"

/* Chunks over the built-in one come from the buffer pool, so that a megabyte of scratch is warm. */
struct tm_plan_chunk {
    tm_plan_chunk *older;
    size_t bytes;
    _Alignas(64) char data[];
};

enum {
    CHUNK_MIN = 16 << 10
};

void tm_plan_init(tm_plan *plan, tm_read *read, tm_req *req)
{
    plan->read = read;
    plan->req = req;
    plan->chunks = NULL;
    plan->kept = NULL;
    tm_plan_reset(plan);
}

void tm_kept_release(tm_kept *kept)
{
    for (; kept; kept = kept->next)
        kept->release(kept->object);
}

tm_kept *tm_plan_again(tm_plan *plan)
{
    plan->fetches = NULL;
    plan->fetch_tail = &plan->fetches;
    plan->runs = NULL;
    plan->run_tail = &plan->runs;
    plan->waits = NULL;
    return TM_STEAL(plan->kept);
}

void tm_plan_reset(tm_plan *plan)
{
    tm_kept_release(tm_plan_again(plan));
    while (plan->chunks) {
        tm_plan_chunk *chunk = plan->chunks;
        plan->chunks = chunk->older;
        tm_buffer_put(chunk, chunk->bytes);
    }
    plan->chunk_used = 0;
    plan->chunk_size = sizeof(plan->first);
}

static char *chunk_data(tm_plan *plan)
{
    return plan->chunks ? plan->chunks->data : plan->first;
}

void *tm_plan_scratch(tm_plan *plan, size_t bytes)
{
    size_t need = (bytes + 63) & ~(size_t)63;
    if (need < bytes)
        return NULL;
    if (plan->chunk_size - plan->chunk_used < need) {
        size_t total = tm_max_u64(need, CHUNK_MIN) + sizeof(tm_plan_chunk);
        if (total < need)
            return NULL;
        tm_plan_chunk *chunk = tm_buffer_get(total);
        if (!chunk)
            return NULL;
        chunk->bytes = total;
        chunk->older = plan->chunks;
        plan->chunks = chunk;
        plan->chunk_used = 0;
        plan->chunk_size = total - sizeof(tm_plan_chunk);
    }
    void *p = chunk_data(plan) + plan->chunk_used;
    plan->chunk_used += need;
    return p;
}

int tm_plan_fetch(tm_plan *plan, tm_blob *leaf, uint64_t off, size_t len, void *dst)
{
    assert(plan->read && len > 0);
    assert(leaf->ops->fetch_now && tm_range_ok(off, len, leaf->size));
    tm_fetch *fetch = tm_plan_scratch(plan, sizeof(*fetch));
    if (!fetch)
        return tm_fail(plan->req, ENOMEM, "out of memory");
    memset(fetch, 0, sizeof(*fetch));
    fetch->blob = leaf;
    fetch->off = off;
    fetch->len = len;
    fetch->dst = dst;
    fetch->read = plan->read;
    *plan->fetch_tail = fetch;
    plan->fetch_tail = &fetch->next;
    return 0;
}

int tm_plan_run(tm_plan *plan, tm_run_fn *fn, const void *args, size_t args_bytes)
{
    assert(fn);
    tm_run *run = tm_plan_scratch(plan, sizeof(*run));
    void *copy = tm_plan_scratch(plan, args_bytes);
    if (!run || !copy)
        return tm_fail(plan->req, ENOMEM, "out of memory");
    memcpy(copy, args, args_bytes);
    run->fn = fn;
    run->args = copy;
    run->next = NULL;
    *plan->run_tail = run;
    plan->run_tail = &run->next;
    return 0;
}

int tm_plan_wait(tm_plan *plan, tm_shared *shared)
{
    assert(shared);
    tm_wait *wait = tm_plan_scratch(plan, sizeof(*wait));
    if (!wait)
        return tm_fail(plan->req, ENOMEM, "out of memory");
    memset(wait, 0, sizeof(*wait));
    wait->shared = shared;
    wait->read = plan->read;
    wait->next = plan->waits;
    plan->waits = wait;
    return 0;
}

int tm_plan_keep(tm_plan *plan, void *object, void (*release)(void *object))
{
    tm_kept *kept = tm_plan_scratch(plan, sizeof(*kept));
    if (!kept) {
        release(object);
        return tm_fail(plan->req, ENOMEM, "out of memory");
    }
    *kept = (tm_kept){object, release, plan->kept};
    plan->kept = kept;
    return 0;
}

tm_req *tm_plan_req(tm_plan *plan)
{
    return plan->req;
}
