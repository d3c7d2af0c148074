#include "formats/table.h"

#include <pthread.h>

#include "core/plan.h"
#include "core/read.h"

enum {
    STEP = 256
};

struct tm_table {
    atomic_uint refs;
    tm_table_params params;
    size_t header_len;
    uint64_t size;
    uint64_t starts[]; /* byte offset of rows 0, STEP, 2 STEP, … */
};

int tm_table_new(const tm_table_params *params, tm_table **ret)
{
    uint64_t steps = params->rows / STEP + 1;
    assert(params->row_text && params->header);
    tm_table *table = calloc(1, sizeof(*table) + steps * sizeof(table->starts[0]));
    if (!table)
        return -ENOMEM;
    atomic_init(&table->refs, 1);
    table->params = *params;
    table->header_len = strlen(params->header);
    uint64_t at = table->header_len;
    for (uint64_t row = 0; row < params->rows; row++) {
        if (row % STEP == 0)
            table->starts[row / STEP] = at;
        at += params->row_text(params->ctx, row, NULL, 0);
    }
    if (params->rows % STEP == 0)
        table->starts[params->rows / STEP] = at;
    table->size = at;
    assert(table->size >= table->header_len);
    *ret = table;
    return 0;
}

tm_table *tm_table_ref(tm_table *table)
{
    atomic_fetch_add_explicit(&table->refs, 1, memory_order_relaxed);
    return table;
}

tm_table *tm_table_unref(tm_table *table)
{
    if (table && atomic_fetch_sub_explicit(&table->refs, 1, memory_order_acq_rel) == 1)
        free(table);
    return NULL;
}

uint64_t tm_table_size(const tm_table *table)
{
    return table->size;
}

/* A window of the text that is being written: bytes before it are skipped, after it dropped. */
typedef struct window {
    uint8_t *dst;
    uint64_t off, end; /* of the window in the table */
    uint64_t at;       /* where the next text stands in the table */
} window;

static void put(window *w, const char *text, size_t len)
{
    uint64_t from = tm_max_u64(w->at, w->off), to = tm_min_u64(w->at + len, w->end);
    if (from < to)
        memcpy(w->dst + (from - w->off), text + (from - w->at), to - from);
    w->at += len;
}

/* The last step of rows that begins at or before OFF. */
static uint64_t step_at(const tm_table *table, uint64_t off)
{
    uint64_t lo = 0, hi = table->params.rows / STEP + 1;
    while (hi - lo > 1) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (table->starts[mid] <= off)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static int render(const tm_table *table, uint64_t off, size_t len, uint8_t *dst, tm_req *req)
{
    const tm_table_params *p = &table->params;
    assert(tm_range_ok(off, len, table->size));
    window w = {dst, off, off + len, 0};
    char stack[4096];
    put(&w, p->header, table->header_len);
    uint64_t step = step_at(table, off);
    w.at = table->starts[step];
    for (uint64_t row = step * STEP; row < p->rows && w.at < w.end; row++) {
        size_t n = w.at < w.off ? p->row_text(p->ctx, row, NULL, 0) : 0;
        if (n > 0 && w.at + n <= w.off) { /* the whole row stands before the window */
            w.at += n;
            continue;
        }
        n = p->row_text(p->ctx, row, stack, sizeof(stack));
        if (n <= sizeof(stack)) {
            put(&w, stack, n);
            continue;
        }
        TM_AUTO_FREE char *text = malloc(n);
        if (!text)
            return tm_fail(req, ENOMEM, "out of memory");
        p->row_text(p->ctx, row, text, n);
        put(&w, text, n);
    }
    return 0;
}

typedef struct render_args {
    const tm_table *table;
    uint64_t off;
    size_t len;
    uint8_t *dst;
} render_args;

static int run_render(void *args, tm_req *req)
{
    const render_args *a = args;
    return render(a->table, a->off, a->len, a->dst, req);
}

typedef struct table_blob {
    tm_blob blob;
    tm_table *table;
    void *owner;
    void (*owner_unref)(void *owner);
} table_blob;

static int table_plan(tm_blob *blob, tm_plan *plan, uint64_t off, size_t len, uint8_t *dst)
{
    render_args a = {TM_CONTAINER(blob, table_blob, blob)->table, off, len, dst};
    return tm_plan_run(plan, run_render, &a, sizeof(a));
}

static void table_free(tm_blob *blob)
{
    table_blob *self = TM_CONTAINER(blob, table_blob, blob);
    tm_table_unref(self->table);
    self->owner_unref(self->owner);
    free(self);
}

static const tm_blob_ops table_ops = {.kind = "table", .plan = table_plan, .free = table_free};

int tm_table_blob_new(tm_table *table, void *owner, void (*owner_unref)(void *owner), tm_blob **ret)
{
    table_blob *self = TM_NEW(table_blob);
    if (!self) {
        owner_unref(owner);
        return -ENOMEM;
    }
    tm_blob_init(&self->blob, &table_ops, table->size);
    self->table = tm_table_ref(table);
    self->owner = owner;
    self->owner_unref = owner_unref;
    *ret = &self->blob;
    return 0;
}

/* ---- Tables that wait: a leaf, whose bytes an opener brings ---- */

typedef struct waiting_blob {
    tm_blob blob;
    tm_waiting_table params;
    pthread_mutex_t lock; /* held while a window is rendered: rows may share what they read */
} waiting_blob;

static waiting_blob *as_waiting(tm_blob *blob)
{
    return TM_CONTAINER(blob, waiting_blob, blob);
}

static int waiting_now(tm_blob *blob, uint64_t off, size_t len, void *dst, tm_req *req)
{
    (void)blob, (void)off, (void)len, (void)req;
    return dst ? -EAGAIN : 0; /* nothing is kept that could be at hand */
}

static void render_window(tm_job *job)
{
    tm_fetch *fetch = TM_CONTAINER(job, tm_fetch, job);
    waiting_blob *self = as_waiting(fetch->blob);
    tm_req req;
    tm_req_init(&req, job->lane);
    pthread_mutex_lock(&self->lock);
    int rc = render(self->params.table, fetch->off, fetch->len, fetch->dst, &req);
    pthread_mutex_unlock(&self->lock);
    tm_fetch_done(fetch, rc, tm_req_words(&req));
}

static void waiting_start(tm_blob *blob, tm_fetch *fetch)
{
    const tm_waiting_table *params = &as_waiting(blob)->params;
    fetch->job =
        (tm_job){.run = render_window, .lane = fetch->read->params.lane, .key = params->key};
    tm_pool_submit(params->sched->openers, &fetch->job);
}

static bool waiting_cancel(tm_blob *blob, tm_fetch *fetch)
{
    return tm_pool_withdraw(as_waiting(blob)->params.sched->openers, &fetch->job);
}

static void waiting_free(tm_blob *blob)
{
    waiting_blob *self = as_waiting(blob);
    tm_table_unref(self->params.table);
    self->params.owner_unref(self->params.owner);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

static const tm_blob_ops waiting_ops = {
    .kind = "table",
    .fetch_now = waiting_now,
    .fetch_start = waiting_start,
    .fetch_cancel = waiting_cancel,
    .free = waiting_free,
};

int tm_table_waiting_blob_new(const tm_waiting_table *params, tm_blob **ret)
{
    waiting_blob *self = TM_NEW(waiting_blob);
    if (!self) {
        params->owner_unref(params->owner);
        return -ENOMEM;
    }
    tm_blob_init(&self->blob, &waiting_ops, params->table->size);
    self->params = *params;
    tm_table_ref(params->table);
    pthread_mutex_init(&self->lock, NULL);
    *ret = &self->blob;
    return 0;
}
