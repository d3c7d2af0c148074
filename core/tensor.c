#include "core/tensor.h"

#include "core/convert.h"
#include "core/plan.h"

int tm_tensor_init(tm_tensor *tensor, const tm_tensor_ops *ops, tm_dtype dtype,
                   const uint64_t *dims, size_t rank)
{
    assert(ops->plan && ops->free && !ops->hold == !ops->unhold);
    uint64_t elems = 1;
    for (size_t i = 0; i < rank; i++)
        if (tm_mul_overflow(elems, dims[i], &elems))
            elems = 0; /* a zero dimension follows: readers refuse all else */
    tensor->dims = tm_new_array(rank, sizeof(*dims));
    if (!tensor->dims)
        return -ENOMEM;
    if (rank)
        memcpy(tensor->dims, dims, rank * sizeof(*dims));
    tensor->ops = ops;
    tensor->dtype = dtype;
    tensor->rank = rank;
    tensor->elems = elems;
    tensor->window = 0;
    atomic_init(&tensor->refs, 1);
    return 0;
}

tm_tensor *tm_tensor_ref(tm_tensor *tensor)
{
    atomic_fetch_add_explicit(&tensor->refs, 1, memory_order_relaxed);
    return tensor;
}

tm_tensor *tm_tensor_unref(tm_tensor *tensor)
{
    if (tensor && atomic_fetch_sub_explicit(&tensor->refs, 1, memory_order_acq_rel) == 1) {
        free(tensor->dims);
        tensor->ops->free(tensor);
    }
    return NULL;
}

void tm_tensor_unrefp(tm_tensor **tensor)
{
    tm_tensor_unref(*tensor);
}

int tm_tensor_plan(tm_tensor *tensor, tm_plan *plan, uint64_t first, uint64_t count, void *dst)
{
    assert(tm_range_ok(first, count, tensor->elems));
    return count ? tensor->ops->plan(tensor, plan, first, count, dst) : 0;
}

tm_blob *tm_tensor_bytes(tm_tensor *tensor)
{
    return tensor->ops->bytes ? tensor->ops->bytes(tensor) : NULL;
}

int tm_tensor_hold(tm_tensor *tensor, tm_req *req)
{
    return tensor->ops->hold ? tensor->ops->hold(tensor, req) : 0;
}

void tm_tensor_unhold(tm_tensor *tensor)
{
    if (tensor->ops->unhold)
        tensor->ops->unhold(tensor);
}

/* ---- Decoding to f32 ---- */

typedef struct decode_args {
    tm_decode_f32_fn *decode;
    const void *src;
    float *dst;
    uint64_t count;
    bool odd; /* the first element is the second half of a byte */
} decode_args;

static int run_decode(void *args, tm_req *req)
{
    (void)req;
    decode_args *a = args;
    if (!a->odd) {
        a->decode(a->src, a->dst, a->count);
        return 0;
    }
    float pair[2];
    a->decode(a->src, pair, 2);
    a->dst[0] = pair[1];
    a->decode((const char *)a->src + 1, a->dst + 1, a->count - 1);
    return 0;
}

int tm_tensor_plan_f32(tm_tensor *tensor, tm_plan *plan, uint64_t first, uint64_t count, float *dst)
{
    if (tensor->dtype == TM_F32)
        return tm_tensor_plan(tensor, plan, first, count, dst);
    if (count == 0)
        return 0;
    unsigned bits = tm_dtype_get(tensor->dtype)->bits;
    decode_args a = {
        .decode = tm_convert_get(tm_cpu_best())->decode_f32[tensor->dtype],
        .dst = dst,
        .count = count,
        .odd = bits == 4 && first % 2,
    };
    assert(a.decode);
    first -= a.odd;
    count += a.odd;
    void *src = tm_plan_scratch(plan, (count * bits + 7) / 8);
    if (!src)
        return tm_fail(tm_plan_req(plan), ENOMEM, "out of memory");
    a.src = src;
    TM_TRY(tm_tensor_plan(tensor, plan, first, count, src));
    return tm_plan_run(plan, run_decode, &a, sizeof(a));
}

typedef struct f32_tensor {
    tm_tensor tensor;
    tm_tensor *inner;
} f32_tensor;

static int f32_plan(tm_tensor *tensor, tm_plan *plan, uint64_t first, uint64_t count, void *dst)
{
    f32_tensor *self = TM_CONTAINER(tensor, f32_tensor, tensor);
    return tm_tensor_plan_f32(self->inner, plan, first, count, dst);
}

static int f32_hold(tm_tensor *tensor, tm_req *req)
{
    return tm_tensor_hold(TM_CONTAINER(tensor, f32_tensor, tensor)->inner, req);
}

static void f32_unhold(tm_tensor *tensor)
{
    tm_tensor_unhold(TM_CONTAINER(tensor, f32_tensor, tensor)->inner);
}

static void f32_free(tm_tensor *tensor)
{
    f32_tensor *self = TM_CONTAINER(tensor, f32_tensor, tensor);
    tm_tensor_unref(self->inner);
    free(self);
}

static const tm_tensor_ops f32_ops = {
    .plan = f32_plan,
    .hold = f32_hold,
    .unhold = f32_unhold,
    .free = f32_free,
};

int tm_tensor_f32_new(tm_tensor *tensor, tm_tensor **ret)
{
    if (tensor->dtype == TM_F32) {
        *ret = tm_tensor_ref(tensor);
        return 0;
    }
    f32_tensor *self = TM_NEW(f32_tensor);
    if (!self || tm_tensor_init(&self->tensor, &f32_ops, TM_F32, tensor->dims, tensor->rank) < 0) {
        free(self);
        return -ENOMEM;
    }
    self->tensor.window = tensor->window;
    self->inner = tm_tensor_ref(tensor);
    *ret = &self->tensor;
    return 0;
}

/* ---- Elements that stand in a blob ---- */

typedef struct blob_tensor {
    tm_tensor tensor;
    tm_blob *bytes;
} blob_tensor;

static int blob_plan(tm_tensor *tensor, tm_plan *plan, uint64_t first, uint64_t count, void *dst)
{
    blob_tensor *self = TM_CONTAINER(tensor, blob_tensor, tensor);
    unsigned bits = tm_dtype_get(tensor->dtype)->bits;
    assert(first * bits % 8 == 0);
    return tm_blob_plan(self->bytes, plan, first * bits / 8, (count * bits + 7) / 8, dst);
}

static tm_blob *blob_bytes(tm_tensor *tensor)
{
    return TM_CONTAINER(tensor, blob_tensor, tensor)->bytes;
}

static int blob_hold(tm_tensor *tensor, tm_req *req)
{
    return tm_blob_hold(blob_bytes(tensor), req);
}

static void blob_unhold(tm_tensor *tensor)
{
    tm_blob_unhold(blob_bytes(tensor));
}

static void blob_free(tm_tensor *tensor)
{
    blob_tensor *self = TM_CONTAINER(tensor, blob_tensor, tensor);
    tm_blob_unref(self->bytes);
    free(self);
}

static const tm_tensor_ops blob_ops = {
    .plan = blob_plan,
    .bytes = blob_bytes,
    .hold = blob_hold,
    .unhold = blob_unhold,
    .free = blob_free,
};

int tm_tensor_blob_new(tm_blob *bytes, tm_dtype dtype, const uint64_t *dims, size_t rank,
                       tm_tensor **ret)
{
    blob_tensor *self = TM_NEW(blob_tensor);
    if (!self || tm_tensor_init(&self->tensor, &blob_ops, dtype, dims, rank) < 0) {
        free(self);
        return -ENOMEM;
    }
    self->tensor.window = bytes->window ? bytes->window * 8 / tm_dtype_get(dtype)->bits : 0;
    self->bytes = tm_blob_ref(bytes);
    *ret = &self->tensor;
    return 0;
}
