/* Reads of everything at once, by many threads, cancelled at random: each ends once, and rightly.
 */
#include <sched.h>

#include "core/blob_lazy.h"
#include "core/shared.h"
#include "tests/unit/core/worked.h"

enum {
    READERS = 2,
    ENDERS = 2,
    SLOTS = 24,        /* reads under way of each reader */
    READS = 20000,     /* of each reader */
    PART_BYTES = 3000, /* of a leaf, a result, a lazy blob */
    LEN_MAX = 700,
    LEAVES = 4,
    RESULTS = 2,
    SUBJECTS = 10,
};

/* ---- Results, whose work an ender finishes ---- */

typedef struct work {
    tm_blob blob;
    tm_shared shared;
    atomic_bool running, cancelled;
    atomic_uint faults; /* starts while it ran, cancels while it did not */
    atomic_uint starts;
} work;

static void work_start(tm_shared *shared)
{
    work *self = TM_CONTAINER(shared, work, shared);
    atomic_store(&self->cancelled, false);
    atomic_fetch_add(&self->starts, 1);
    tm_blob_ref(&self->blob); /* the work's */
    if (atomic_exchange(&self->running, true))
        atomic_fetch_add(&self->faults, 1);
}

static void work_cancel(tm_shared *shared)
{
    atomic_store(&TM_CONTAINER(shared, work, shared)->cancelled, true);
}

static const tm_shared_ops work_shared_ops = {.start = work_start, .cancel = work_cancel};

static int work_plan(tm_blob *blob, tm_plan *plan, uint64_t off, size_t len, uint8_t *dst)
{
    work *self = TM_CONTAINER(blob, work, blob);
    if (tm_shared_poll(&self->shared) < 0)
        return tm_plan_wait(plan, &self->shared);
    leaf_fill(off, len, dst);
    return 0;
}

static void work_free(tm_blob *blob)
{
    work *self = TM_CONTAINER(blob, work, blob);
    tm_shared_done(&self->shared);
    free(self);
}

static const tm_blob_ops work_ops = {.kind = "work", .plan = work_plan, .free = work_free};

static work *work_new(void)
{
    work *self = TM_NEW(work);
    assert_non_null(self);
    tm_blob_init(&self->blob, &work_ops, PART_BYTES);
    tm_shared_init(&self->shared, &work_shared_ops);
    return self;
}

/* Ends the work with RC (-EINTR where it was cancelled); false where there is none. */
static bool work_end(work *self, int rc)
{
    if (!atomic_exchange(&self->running, false))
        return false;
    if (atomic_load(&self->cancelled))
        rc = -EINTR;
    tm_shared_finish(&self->shared, rc, "the work failed");
    tm_blob_unref(&self->blob);
    return true;
}

/* ---- What is read ---- */

typedef uint8_t byte_fn(uint64_t off);

typedef struct subject {
    tm_blob *blob;
    byte_fn *byte;
} subject;

typedef struct stage {
    tm_sched *sched;
    leaf *leaves[LEAVES]; /* at hand, withdrawable, kept, dead */
    work *works[RESULTS];
    tm_blob *lazy, *parts[6];
    subject subjects[SUBJECTS];
    atomic_bool stopping;
    atomic_uint makes;
} stage;

static int make(void *ctx, tm_req *req, void **ret)
{
    stage *s = ctx;
    if (atomic_fetch_add(&s->makes, 1) % 16 != 15)
        return tm_fail(req, EIO, "the making failed");
    uint8_t *bytes = malloc(PART_BYTES);
    if (!bytes)
        return -ENOMEM;
    leaf_fill(0, PART_BYTES, bytes);
    *ret = bytes;
    return 0;
}

/* Parts of a mixture: plain bytes, then computed ones, by turns. */
static uint8_t mixed_byte(uint64_t off)
{
    uint64_t within = off % PART_BYTES;
    return off / PART_BYTES % 2 ? worked_byte(within) : leaf_byte(within);
}

static void stage_subjects(stage *s)
{
    tm_blob *slow_worked = &worked_new(&s->leaves[1]->blob, 200)->blob;
    tm_blob *result_worked = &worked_new(&s->works[0]->blob, 0)->blob;
    tm_blob *quick_worked = &worked_new(&s->leaves[0]->blob, 64)->blob;
    tm_blob *parts[] = {&s->leaves[1]->blob, result_worked,      s->lazy,
                        slow_worked,         &s->works[1]->blob, quick_worked};
    tm_blob *mixed;
    assert_int_equal(tm_blob_concat_new(parts, 6, &mixed), 0);
    subject subjects[SUBJECTS] = {
        {&s->leaves[0]->blob, leaf_byte},
        {&s->leaves[1]->blob, leaf_byte},
        {&s->leaves[2]->blob, leaf_byte},
        {&s->leaves[3]->blob, leaf_byte},
        {&s->works[0]->blob, leaf_byte},
        {&s->works[1]->blob, leaf_byte},
        {s->lazy, leaf_byte},
        {slow_worked, worked_byte},
        {result_worked, worked_byte},
        {mixed, mixed_byte},
    };
    memcpy(s->subjects, subjects, sizeof(subjects));
    tm_blob_unref(quick_worked); /* the mixture's */
}

static void stage_init(stage *s)
{
    memset(s, 0, sizeof(*s));
    s->sched = sched_new(2, 3);
    for (int i = 0; i < LEAVES; i++)
        s->leaves[i] = leaf_new(PART_BYTES);
    s->leaves[0]->at_hand = true;
    s->leaves[2]->keeps = s->leaves[3]->keeps = true;
    s->leaves[2]->blob.window = 300;
    for (int i = 0; i < RESULTS; i++)
        s->works[i] = work_new();
    tm_lazy_params params = {.sched = s->sched, .size = PART_BYTES, .make = make, .ctx = s};
    assert_int_equal(tm_blob_lazy_new(&params, &s->lazy), 0);
    stage_subjects(s);
}

/* Every reference but the stage's own is gone. */
static void stage_done(stage *s)
{
    tm_sched_free(s->sched);
    tm_blob_unref(s->subjects[9].blob);
    tm_blob_unref(s->subjects[8].blob);
    tm_blob_unref(s->subjects[7].blob);
    for (int i = 0; i < RESULTS; i++) {
        assert_int_equal(atomic_load(&s->works[i]->faults), 0);
        assert_int_equal(atomic_load(&s->works[i]->blob.refs), 1);
        tm_blob_unref(&s->works[i]->blob);
    }
    for (int i = 0; i < LEAVES; i++) {
        assert_null(s->leaves[i]->first);
        assert_int_equal(atomic_load(&s->leaves[i]->blob.refs), 1);
        tm_blob_unref(&s->leaves[i]->blob);
    }
    assert_int_equal(atomic_load(&s->lazy->refs), 1);
    tm_blob_unref(s->lazy);
}

/* ---- Enders ---- */

typedef struct actor {
    stage *stage;
    uint64_t seed;
    pthread_t thread;
    unsigned good, bad, wrong; /* reads that ended so; WRONG ones break a promise */
} actor;

static int random_rc(uint64_t *seed)
{
    static const int codes[] = {0, 0, 0, 0, 0, 0, -EIO, -EAGAIN};
    return codes[next_random(seed) % TM_ARRAY_LEN(codes)];
}

static void *end_things(void *arg)
{
    actor *self = arg;
    stage *s = self->stage;
    bool any = true;
    while (any || !atomic_load(&s->stopping)) {
        int rc = random_rc(&self->seed);
        bool newest = next_random(&self->seed) % 2;
        any = leaf_end(s->leaves[1], newest, rc, "the fetch failed");
        any |= leaf_end(s->leaves[2], newest, rc, NULL);
        if (next_random(&self->seed) % 8 == 0) /* a result that is there is never computed again */
            any |= work_end(s->works[0], -EIO);
        if (next_random(&self->seed) % 8 == 0)
            any |= work_end(s->works[1], atomic_load(&s->works[1]->starts) < 50 ? -EAGAIN : 0);
        if (!any)
            sched_yield();
    }
    return NULL;
}

/* ---- Readers ---- */

typedef struct slot {
    ending e;
    const subject *subject;
    uint8_t *own; /* where the read goes, NULL: memory of the read's */
    bool busy, cancelled, timed;
} slot;

static bool has_ended_rightly(const slot *at, actor *self)
{
    const ending *e = &at->e;
    const tm_read_params *p = &e->read->params;
    if (e->calls != 1)
        return false;
    if (e->rc < 0) {
        self->bad++;
        bool expected = e->rc == -EIO || e->rc == -EAGAIN ||
                        (at->cancelled && e->rc == -ECANCELED) ||
                        (at->timed && e->rc == -ETIMEDOUT);
        return expected && e->words[0];
    }
    self->good++;
    for (size_t i = 0; i < p->len; i++)
        if (e->read->bytes[i] != at->subject->byte(p->off + i))
            return false;
    return true;
}

static void slot_collect(slot *at, actor *self)
{
    ending_wait(&at->e);
    self->wrong += !has_ended_rightly(at, self);
    tm_read_unref(at->e.read);
    free(at->own);
    at->busy = false;
}

static void slot_cancel(slot *at)
{
    at->cancelled = true;
    tm_read_cancel(at->e.read, ECANCELED, "by the test");
}

static void slot_begin(slot *at, actor *self)
{
    uint64_t *seed = &self->seed;
    *at = (slot){.e = ENDING_INIT, .busy = true};
    at->subject = &self->stage->subjects[next_random(seed) % SUBJECTS];
    tm_blob *blob = at->subject->blob;
    bool is_dead = blob == &self->stage->leaves[3]->blob;
    uint64_t off = next_random(seed) % (blob->size + 1);
    size_t len = tm_min_u64(next_random(seed) % (LEN_MAX + 1), blob->size - off);
    at->timed = next_random(seed) % 4 == 0;
    at->own = !is_dead && next_random(seed) % 4 == 0 ? malloc(len + 1) : NULL;
    tm_read_params params = {
        .sched = self->stage->sched,
        .blob = blob,
        .off = off,
        .len = len,
        .dst = at->own,
        .lane = (tm_lane)(next_random(seed) % TM_LANE_COUNT),
        .deadline_ns = at->timed ? tm_now_ns() + next_random(seed) % 300000000 : 0,
        .done = ending_note,
        .user = &at->e,
    };
    if (tm_read_new(&params, &at->e.read) < 0)
        abort();
    if (next_random(seed) % 16 == 0)
        slot_cancel(at);
    tm_read_go(at->e.read);
    if (next_random(seed) % 8 == 0)
        slot_cancel(at);
}

static void *read_things(void *arg)
{
    actor *self = arg;
    slot *slots = tm_new_array(SLOTS, sizeof(*slots));
    if (!slots)
        abort();
    for (int begun = 0; begun < READS;) {
        slot *at = &slots[next_random(&self->seed) % SLOTS];
        if (!at->busy) {
            slot_begin(at, self);
            begun++;
        } else if (ending_came(&at->e)) {
            slot_collect(at, self);
        } else if (next_random(&self->seed) % 32 == 0) {
            slot_cancel(at);
        } else {
            sched_yield();
        }
    }
    for (int i = 0; i < SLOTS; i++) {
        if (!slots[i].busy)
            continue;
        slot_cancel(&slots[i]);
        slot_collect(&slots[i], self);
    }
    free(slots);
    return NULL;
}

static uint64_t first_seed = 1;

static void each_read_ends_once_and_rightly_whatever_happens_around_it(void **state)
{
    (void)state;
    static stage s;
    stage_init(&s);
    actor readers[READERS], enders[ENDERS];
    for (uint64_t i = 0; i < ENDERS; i++) {
        enders[i] = (actor){.stage = &s, .seed = first_seed + 100 + i};
        assert_int_equal(pthread_create(&enders[i].thread, NULL, end_things, &enders[i]), 0);
    }
    for (uint64_t i = 0; i < READERS; i++) {
        readers[i] = (actor){.stage = &s, .seed = first_seed + i};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_things, &readers[i]), 0);
    }
    unsigned good = 0, bad = 0;
    for (int i = 0; i < READERS; i++) {
        pthread_join(readers[i].thread, NULL);
        assert_int_equal(readers[i].wrong, 0);
        good += readers[i].good;
        bad += readers[i].bad;
    }
    atomic_store(&s.stopping, true);
    for (int i = 0; i < ENDERS; i++)
        pthread_join(enders[i].thread, NULL);
    while (leaf_end(s.leaves[3], false, 0, NULL))
        continue;
    for (int i = 0; i < RESULTS; i++)
        work_end(s.works[i], -EIO);
    print_message("%u reads ended well, %u did not\n", good, bad);
    assert_in_range(good, 1000, UINT32_MAX);
    assert_in_range(bad, 1000, UINT32_MAX);
    stage_done(&s);
}

/* A number is the seed: another course of events. */
int main(int argc, char **argv)
{
    if (argc > 1)
        first_seed = strtoull(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_read_ends_once_and_rightly_whatever_happens_around_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
