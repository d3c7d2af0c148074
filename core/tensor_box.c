/*
 * A box of a tensor: rows, columns, slices, one expert.
 *
 * In row-major order a box is runs of elements that are contiguous in the tensor. Runs that lie
 * close together are read with the gaps between them and gathered (a column of a narrow matrix);
 * others are read one by one.
 */
#include "core/plan.h"
#include "core/tensor.h"

enum {
    WINDOW_RUNS = 4096,     /* runs that one plan may name */
    GATHER_BYTES = 1 << 20, /* of a span that is read with its gaps, at most */
    GATHER_RUNS = 8,        /* fewer runs than this are cheaper one by one */
    WINDOW_BYTES = 1 << 20,
};

typedef struct box_tensor {
    tm_tensor tensor;
    tm_tensor *inner;
    size_t axes;           /* of the walk: dimensions of the box but those within a run */
    uint64_t *counts;      /* of each axis of the walk */
    uint64_t *strides;     /* elements of the inner tensor */
    uint64_t base;         /* the first element */
    uint64_t run_elems;    /* contiguous elements of a run */
    uint64_t gather_elems; /* the widest span that is read with its gaps */
} box_tensor;

static box_tensor *as_box(tm_tensor *tensor)
{
    return TM_CONTAINER(tensor, box_tensor, tensor);
}

/* Where run RUN begins in the inner tensor. */
static uint64_t run_start(const box_tensor *self, uint64_t run)
{
    uint64_t at = self->base;
    assert(run * self->run_elems < self->tensor.elems);
    for (size_t i = self->axes; i-- > 0;) {
        at += run % self->counts[i] * self->strides[i];
        run /= self->counts[i];
    }
    return at;
}

typedef struct gather_args {
    const box_tensor *box;
    uint64_t first, count; /* elements of the box */
    uint64_t span_first;   /* the element of the inner tensor at src */
    const uint8_t *src;
    uint8_t *dst;
    size_t elem_bytes;
} gather_args;

static int run_gather(void *args, tm_req *req)
{
    (void)req;
    gather_args *a = args;
    const box_tensor *box = a->box;
    uint64_t at = a->first, end = a->first + a->count;
    uint8_t *dst = a->dst;
    while (at < end) {
        uint64_t run = at / box->run_elems, skip = at % box->run_elems;
        uint64_t n = tm_min_u64(box->run_elems - skip, end - at);
        uint64_t from = run_start(box, run) + skip - a->span_first;
        memcpy(dst, a->src + from * a->elem_bytes, n * a->elem_bytes);
        dst += n * a->elem_bytes;
        at += n;
    }
    return 0;
}

/* Reads the whole span of the inner tensor that holds the elements, then picks them. */
static int plan_gather(box_tensor *self, tm_plan *plan, gather_args *a, uint64_t span)
{
    void *src = tm_plan_scratch(plan, span * a->elem_bytes);
    if (!src)
        return tm_fail(tm_plan_req(plan), ENOMEM, "out of memory");
    a->src = src;
    TM_TRY(tm_tensor_plan(self->inner, plan, a->span_first, span, src));
    return tm_plan_run(plan, run_gather, a, sizeof(*a));
}

static int box_plan(tm_tensor *tensor, tm_plan *plan, uint64_t first, uint64_t count, void *dst)
{
    box_tensor *self = as_box(tensor);
    size_t elem_bytes = tm_dtype_get(tensor->dtype)->bits / 8;
    uint64_t last = first + count - 1;
    uint64_t runs = last / self->run_elems - first / self->run_elems + 1;
    uint64_t from = run_start(self, first / self->run_elems) + first % self->run_elems;
    uint64_t to = run_start(self, last / self->run_elems) + last % self->run_elems + 1;
    gather_args a = {.box = self,
                     .first = first,
                     .count = count,
                     .span_first = from,
                     .dst = dst,
                     .elem_bytes = elem_bytes};
    if (runs >= GATHER_RUNS && (to - from) <= self->gather_elems)
        return plan_gather(self, plan, &a, to - from);
    uint8_t *out = dst;
    while (count > 0) {
        uint64_t skip = first % self->run_elems;
        uint64_t n = tm_min_u64(self->run_elems - skip, count);
        uint64_t at = run_start(self, first / self->run_elems) + skip;
        TM_TRY(tm_tensor_plan(self->inner, plan, at, n, out));
        out += n * elem_bytes;
        first += n;
        count -= n;
    }
    return 0;
}

static int box_hold(tm_tensor *tensor, tm_req *req)
{
    return tm_tensor_hold(as_box(tensor)->inner, req);
}

static void box_unhold(tm_tensor *tensor)
{
    tm_tensor_unhold(as_box(tensor)->inner);
}

static void box_free(tm_tensor *tensor)
{
    box_tensor *self = as_box(tensor);
    tm_tensor_unref(self->inner);
    free(self->counts);
    free(self->strides);
    free(self);
}

static const tm_tensor_ops box_ops = {
    .plan = box_plan,
    .hold = box_hold,
    .unhold = box_unhold,
    .free = box_free,
};

/* The walk: trailing axes that are taken whole belong to the run, with the one before them. */
static void lay_out(box_tensor *self, const tm_tensor *inner, const tm_range *ranges)
{
    size_t rank = inner->rank;
    uint64_t stride = 1;
    self->run_elems = 1;
    size_t axis = rank;
    while (axis > 0) {
        axis--;
        self->run_elems *= ranges[axis].count;
        self->base += ranges[axis].start * stride;
        stride *= inner->dims[axis];
        if (ranges[axis].count != inner->dims[axis])
            break;
    }
    self->axes = axis;
    while (axis > 0) {
        axis--;
        self->counts[axis] = ranges[axis].count;
        self->strides[axis] = stride;
        self->base += ranges[axis].start * stride;
        stride *= inner->dims[axis];
    }
}

static int box_init(box_tensor *self, tm_tensor *inner, const tm_range *ranges,
                    const uint64_t *dims, size_t rank)
{
    self->counts = tm_new_array(inner->rank, sizeof(*self->counts));
    self->strides = tm_new_array(inner->rank, sizeof(*self->strides));
    if (!self->counts || !self->strides ||
        tm_tensor_init(&self->tensor, &box_ops, inner->dtype, dims, rank) < 0)
        return -ENOMEM;
    if (self->tensor.elems > 0)
        lay_out(self, inner, ranges);
    else
        self->run_elems = 1;
    uint64_t elem_bytes = tm_dtype_get(inner->dtype)->bits / 8;
    uint64_t run = tm_min_u64(self->run_elems, WINDOW_BYTES); /* their product does not overflow */
    uint64_t window = tm_min_u64(WINDOW_BYTES / elem_bytes, WINDOW_RUNS * run);
    self->tensor.window = inner->window ? tm_min_u64(window, inner->window) : window;
    /* What lies in gaps costs as much as what is wanted, where elements are computed. */
    uint64_t gather = GATHER_BYTES / elem_bytes;
    self->gather_elems = inner->window ? tm_min_u64(gather, inner->window) : gather;
    self->inner = tm_tensor_ref(inner);
    return 0;
}

static int box_new(tm_tensor *inner, const tm_range *ranges, const uint64_t *dims, size_t rank,
                   tm_tensor **ret)
{
    /* Runs are of whole bytes. */
    TM_AUTO(tm_tensor_unrefp) tm_tensor *decoded = NULL;
    if (tm_dtype_get(inner->dtype)->bits % 8) {
        TM_TRY(tm_tensor_f32_new(inner, &decoded));
        inner = decoded;
    }
    box_tensor *self = TM_NEW(box_tensor);
    if (!self)
        return -ENOMEM;
    int rc = box_init(self, inner, ranges, dims, rank);
    if (rc < 0) {
        free(self->counts);
        free(self->strides);
        free(self);
        return rc;
    }
    *ret = &self->tensor;
    return 0;
}

int tm_tensor_box_new(tm_tensor *tensor, const tm_range *ranges, tm_tensor **ret)
{
    TM_AUTO_FREE uint64_t *dims = tm_new_array(tensor->rank, sizeof(*dims));
    if (!dims)
        return -ENOMEM;
    for (size_t i = 0; i < tensor->rank; i++) {
        assert(tm_range_ok(ranges[i].start, ranges[i].count, tensor->dims[i]));
        dims[i] = ranges[i].count;
    }
    return box_new(tensor, ranges, dims, tensor->rank, ret);
}

int tm_tensor_take_new(tm_tensor *tensor, size_t axis, uint64_t index, tm_tensor **ret)
{
    assert(axis < tensor->rank && index < tensor->dims[axis]);
    size_t rank = tensor->rank;
    TM_AUTO_FREE tm_range *ranges = tm_new_array(rank, sizeof(*ranges));
    TM_AUTO_FREE uint64_t *dims = tm_new_array(rank, sizeof(*dims));
    if (!ranges || !dims)
        return -ENOMEM;
    for (size_t i = 0; i < rank; i++) {
        ranges[i] = i == axis ? (tm_range){index, 1} : (tm_range){0, tensor->dims[i]};
        if (i != axis)
            dims[i - (i > axis)] = tensor->dims[i];
    }
    return box_new(tensor, ranges, dims, rank - 1, ret);
}
