/* A blob that computes from the one below it in several runs, may fail anywhere, and takes notes.
 */
#ifndef TM_TESTS_UNIT_CORE_WORKED_H
#define TM_TESTS_UNIT_CORE_WORKED_H

#include "tests/unit/core/engine.h"

enum {
    WORKED_RUNS = 3,
    WORKED_NOTES = 64
};

typedef struct worked_note {
    uint64_t off;
    size_t len;
} worked_note;

typedef struct worked {
    tm_blob blob;
    tm_blob *below;
    int plan_rc, run_rc;      /* what they fail with, 0: nothing */
    unsigned plan_at, run_at; /* at which plan or run, counted from 0 */
    /* Called in each run and each plan; may be NULL. */
    void (*in_run)(struct worked *self, unsigned number);
    void (*in_plan)(struct worked *self, unsigned number);
    void *user;
    atomic_uint runs, plans;
    worked_note notes[WORKED_NOTES]; /* of the first plans */
    _Atomic pthread_t thread;        /* of the last run */
} worked;

typedef struct worked_args {
    worked *self;
    unsigned step;
    size_t len;
    uint8_t *dst;
} worked_args;

static inline worked *as_worked(tm_blob *blob)
{
    return TM_CONTAINER(blob, worked, blob);
}

/* What the runs make of a byte: no two of them can be swapped. */
static inline uint8_t worked_step(uint8_t byte, unsigned step)
{
    return (uint8_t)(step % 2 ? byte + 17 : byte * 3);
}

static inline uint8_t worked_byte(uint64_t off)
{
    uint8_t byte = leaf_byte(off);
    for (unsigned step = 0; step < WORKED_RUNS; step++)
        byte = worked_step(byte, step);
    return byte;
}

static inline int worked_run(void *args, tm_req *req)
{
    worked_args *a = args;
    unsigned number = atomic_fetch_add(&a->self->runs, 1);
    atomic_store(&a->self->thread, pthread_self());
    if (a->self->in_run)
        a->self->in_run(a->self, number);
    if (a->self->run_rc < 0 && number == a->self->run_at)
        return tm_fail(req, -a->self->run_rc, "run %u failed", number);
    for (size_t i = 0; i < a->len; i++)
        a->dst[i] = worked_step(a->dst[i], a->step);
    return 0;
}

static inline int worked_plan(tm_blob *blob, tm_plan *plan, uint64_t off, size_t len, uint8_t *dst)
{
    worked *self = as_worked(blob);
    unsigned number = atomic_fetch_add(&self->plans, 1);
    if (number < WORKED_NOTES)
        self->notes[number] = (worked_note){off, len};
    if (self->in_plan)
        self->in_plan(self, number);
    if (self->plan_rc < 0 && number == self->plan_at)
        return tm_fail(tm_plan_req(plan), -self->plan_rc, "plan %u failed", number);
    TM_TRY(tm_blob_plan(self->below, plan, off, len, dst));
    for (unsigned step = 0; step < WORKED_RUNS; step++) {
        worked_args a = {self, step, len, dst};
        TM_TRY(tm_plan_run(plan, worked_run, &a, sizeof(a)));
    }
    return 0;
}

static inline void worked_free(tm_blob *blob)
{
    worked *self = as_worked(blob);
    tm_blob_unref(self->below);
    free(self);
}

static const tm_blob_ops worked_ops = {.kind = "worked", .plan = worked_plan, .free = worked_free};

static inline worked *worked_new(tm_blob *below, size_t window)
{
    worked *self = TM_NEW(worked);
    assert_non_null(self);
    tm_blob_init(&self->blob, &worked_ops, below->size);
    self->blob.window = window;
    self->below = tm_blob_ref(below);
    return self;
}

/* As expect_ended, with the bytes of a worked leaf from FIRST on. */
static inline void expect_worked(ending *e, uint64_t first)
{
    ending_wait(e);
    for (size_t i = 0; e->rc == 0 && i < e->read->params.len; i++)
        if (e->read->bytes[i] != worked_byte(first + i))
            fail_msg("byte %zu is %u", i, e->read->bytes[i]);
    expect_ended(e, 0, "");
}

#endif
