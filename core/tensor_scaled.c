/* Codes times scales; see core/tensor.h for the layout of the blocks. */
#include "core/plan.h"
#include "core/tensor.h"

enum {
    WINDOW_ELEMS = 256 << 10
};

typedef struct scaled_tensor {
    tm_tensor tensor;
    tm_tensor *codes, *scales;
    uint64_t rows, cols;             /* of a plane: the last two axes */
    uint64_t block_rows, block_cols; /* of a block */
    uint64_t grid_rows, grid_cols;   /* blocks of a plane */
} scaled_tensor;

static scaled_tensor *as_scaled(tm_tensor *tensor)
{
    return TM_CONTAINER(tensor, scaled_tensor, tensor);
}

static uint64_t div_up(uint64_t n, uint64_t d)
{
    return n / d + (n % d != 0);
}

uint64_t tm_scaling_count(const uint64_t *dims, size_t rank, uint64_t block_rows,
                          uint64_t block_cols)
{
    assert(block_rows > 0 && block_cols > 0);
    uint64_t count = 1;
    for (size_t i = 0; i < rank; i++) {
        uint64_t n = i + 1 == rank   ? div_up(dims[i], block_cols)
                     : i + 2 == rank ? div_up(dims[i], block_rows)
                                     : dims[i];
        if (tm_mul_overflow(count, n, &count))
            return 0;
    }
    return count;
}

/* The scale of element AT. */
static uint64_t scale_at(const scaled_tensor *self, uint64_t at)
{
    assert(at < self->tensor.elems);
    uint64_t row = at / self->cols, col = at % self->cols;
    uint64_t plane = row / self->rows;
    row %= self->rows;
    uint64_t grid_row = plane * self->grid_rows + row / self->block_rows;
    return grid_row * self->grid_cols + col / self->block_cols;
}

typedef struct scale_args {
    const scaled_tensor *self;
    float *values; /* codes as f32, scaled in place */
    const float *scales;
    uint64_t first, count;
    uint64_t scale_first; /* the scale at scales[0] */
} scale_args;

static int run_scale(void *args, tm_req *req)
{
    (void)req;
    scale_args *a = args;
    uint64_t at = a->first, end = a->first + a->count;
    float *v = a->values;
    while (at < end) {
        /* To the end of the block's part of this row. */
        uint64_t col = at % a->self->cols;
        uint64_t stop =
            tm_min_u64((col / a->self->block_cols + 1) * a->self->block_cols, a->self->cols);
        uint64_t n = tm_min_u64(stop - col, end - at);
        float scale = a->scales[scale_at(a->self, at) - a->scale_first];
        for (uint64_t i = 0; i < n; i++)
            v[i] *= scale;
        v += n;
        at += n;
    }
    return 0;
}

static int scaled_plan(tm_tensor *tensor, tm_plan *plan, uint64_t first, uint64_t count, void *dst)
{
    scaled_tensor *self = as_scaled(tensor);
    /* Scales grow along a row and from row to row of blocks, but a new row of a block starts over:
     * the whole rows of the grid that are touched hold them all. */
    uint64_t low = scale_at(self, first) / self->grid_cols * self->grid_cols;
    uint64_t high = (scale_at(self, first + count - 1) / self->grid_cols + 1) * self->grid_cols;
    float *scales = tm_plan_scratch(plan, (high - low) * sizeof(float));
    if (!scales)
        return tm_fail(tm_plan_req(plan), ENOMEM, "out of memory");
    TM_TRY(tm_tensor_plan_f32(self->scales, plan, low, high - low, scales));
    TM_TRY(tm_tensor_plan_f32(self->codes, plan, first, count, dst));
    scale_args a = {self, dst, scales, first, count, low};
    return tm_plan_run(plan, run_scale, &a, sizeof(a));
}

static int scaled_hold(tm_tensor *tensor, tm_req *req)
{
    scaled_tensor *self = as_scaled(tensor);
    TM_TRY(tm_tensor_hold(self->codes, req));
    int rc = tm_tensor_hold(self->scales, req);
    if (rc < 0)
        tm_tensor_unhold(self->codes);
    return rc;
}

static void scaled_unhold(tm_tensor *tensor)
{
    scaled_tensor *self = as_scaled(tensor);
    tm_tensor_unhold(self->codes);
    tm_tensor_unhold(self->scales);
}

static void scaled_free(tm_tensor *tensor)
{
    scaled_tensor *self = as_scaled(tensor);
    tm_tensor_unref(self->codes);
    tm_tensor_unref(self->scales);
    free(self);
}

static const tm_tensor_ops scaled_ops = {
    .plan = scaled_plan,
    .hold = scaled_hold,
    .unhold = scaled_unhold,
    .free = scaled_free,
};

int tm_tensor_scaled_new(const tm_scaling *scaling, tm_tensor **ret)
{
    tm_tensor *codes = scaling->codes;
    size_t rank = codes->rank;
    assert(tm_scaling_count(codes->dims, rank, scaling->block_rows, scaling->block_cols) ==
           scaling->scales->elems);
    scaled_tensor *self = TM_NEW(scaled_tensor);
    if (!self || tm_tensor_init(&self->tensor, &scaled_ops, TM_F32, codes->dims, rank) < 0) {
        free(self);
        return -ENOMEM;
    }
    self->cols = rank >= 1 ? codes->dims[rank - 1] : 1;
    self->rows = rank >= 2 ? codes->dims[rank - 2] : 1;
    self->block_rows = scaling->block_rows;
    self->block_cols = scaling->block_cols;
    self->grid_rows = div_up(self->rows, self->block_rows);
    self->grid_cols = div_up(self->cols, self->block_cols);
    self->tensor.window = codes->window ? tm_min_u64(codes->window, WINDOW_ELEMS) : WINDOW_ELEMS;
    self->codes = tm_tensor_ref(codes);
    self->scales = tm_tensor_ref(scaling->scales);
    *ret = &self->tensor;
    return 0;
}
