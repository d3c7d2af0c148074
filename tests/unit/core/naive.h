/* Arrays as plain memory, element by element: what tensors are compared with. */
#ifndef TM_TESTS_UNIT_CORE_NAIVE_H
#define TM_TESTS_UNIT_CORE_NAIVE_H

#include "core/convert.h"
#include "core/tensor.h"
#include "tests/unit/core/engine.h"

enum {
    NAIVE_RANK_MAX = 5
};

typedef struct naive {
    tm_dtype dtype;
    size_t rank;
    uint64_t dims[NAIVE_RANK_MAX + 1];
    uint64_t elems;
    uint8_t *bytes; /* packed, malloc'ed */
} naive;

static inline uint64_t naive_bytes(tm_dtype dtype, uint64_t elems)
{
    return (elems * tm_dtype_get(dtype)->bits + 7) / 8;
}

static inline naive naive_new(tm_dtype dtype, const uint64_t *dims, size_t rank)
{
    naive n = {.dtype = dtype, .rank = rank, .elems = 1};
    for (size_t i = 0; i < rank; i++) {
        n.dims[i] = dims[i];
        n.elems *= dims[i];
    }
    n.bytes = calloc(1, naive_bytes(dtype, n.elems) + 1);
    assert_non_null(n.bytes);
    return n;
}

static inline void naive_free(naive *n)
{
    free(n->bytes);
    n->bytes = NULL;
}

/* Element AT as f32, by the scalar conversion, which has tests of its own. */
static inline float naive_f32_at(const naive *n, uint64_t at)
{
    unsigned bits = tm_dtype_get(n->dtype)->bits;
    float pair[2];
    tm_decode_f32_fn *decode = tm_convert_get(TM_CPU_SCALAR)->decode_f32[n->dtype];
    assert_non_null(decode);
    decode(n->bytes + at * bits / 8, pair, bits == 4 ? 2 : 1);
    return pair[bits == 4 ? at % 2 : 0];
}

static inline naive naive_f32(const naive *n)
{
    naive ret = naive_new(TM_F32, n->dims, n->rank);
    for (uint64_t i = 0; i < n->elems; i++) {
        float value = naive_f32_at(n, i);
        memcpy(ret.bytes + i * 4, &value, 4);
    }
    return ret;
}

/* The box of RANGES, one element after the other; narrow types become f32 first. */
static inline naive naive_box(const naive *n, const tm_range *ranges)
{
    if (tm_dtype_get(n->dtype)->bits % 8) {
        naive wide = naive_f32(n), ret = naive_box(&wide, ranges);
        naive_free(&wide);
        return ret;
    }
    uint64_t dims[NAIVE_RANK_MAX];
    for (size_t i = 0; i < n->rank; i++)
        dims[i] = ranges[i].count;
    naive ret = naive_new(n->dtype, dims, n->rank);
    size_t width = tm_dtype_get(n->dtype)->bits / 8;
    for (uint64_t i = 0; i < ret.elems; i++) {
        uint64_t rest = i, from = 0, stride = 1;
        for (size_t axis = n->rank; axis-- > 0;) {
            from += (ranges[axis].start + rest % dims[axis]) * stride;
            rest /= dims[axis];
            stride *= n->dims[axis];
        }
        memcpy(ret.bytes + i * width, n->bytes + from * width, width);
    }
    return ret;
}

static inline naive naive_take(const naive *n, size_t axis, uint64_t index)
{
    tm_range ranges[NAIVE_RANK_MAX];
    for (size_t i = 0; i < n->rank; i++)
        ranges[i] = i == axis ? (tm_range){index, 1} : (tm_range){0, n->dims[i]};
    naive ret = naive_box(n, ranges);
    ret.rank--;
    memmove(ret.dims + axis, ret.dims + axis + 1, (ret.rank - axis) * sizeof(ret.dims[0]));
    return ret;
}

/* ---- Reading a tensor's elements ---- */

typedef struct elements {
    tm_blob blob;
    tm_tensor *tensor;
    size_t width; /* bytes of an element as it is read */
    bool as_f32;
    uint64_t first;
} elements;

static inline int elements_plan(tm_blob *blob, tm_plan *plan, uint64_t off, size_t len,
                                uint8_t *dst)
{
    elements *self = TM_CONTAINER(blob, elements, blob);
    if (!self->as_f32 && tm_dtype_get(self->tensor->dtype)->bits == 4)
        return tm_tensor_plan(self->tensor, plan, off * 2, len * 2, dst);
    assert_true(off % self->width == 0 && len % self->width == 0);
    uint64_t first = self->first + off / self->width;
    if (self->as_f32)
        return tm_tensor_plan_f32(self->tensor, plan, first, len / 4, (float *)(void *)dst);
    return tm_tensor_plan(self->tensor, plan, first, len / self->width, dst);
}

static inline void elements_free(tm_blob *blob)
{
    free(TM_CONTAINER(blob, elements, blob));
}

static const tm_blob_ops elements_ops = {
    .kind = "test elements", .plan = elements_plan, .free = elements_free};

/* Elements [first, first + count) of TENSOR into DST (as f32 where AS_F32), window by window. */
typedef struct elements_read {
    tm_sched *sched;
    tm_tensor *tensor;
    uint64_t first, count;
    uint64_t window; /* of elements; 0: the tensor's own */
    bool as_f32;
} elements_read;

static inline void read_elements(const elements_read *r, void *dst)
{
    elements *self = TM_NEW(elements);
    assert_non_null(self);
    self->width = r->as_f32 ? 4 : tm_dtype_get(r->tensor->dtype)->bits / 8;
    self->tensor = r->tensor;
    self->as_f32 = r->as_f32;
    self->first = r->first;
    tm_blob_init(&self->blob, &elements_ops, r->count * self->width);
    self->blob.window = (r->window ? r->window : r->tensor->window) * self->width;
    tm_req req;
    tm_req_init(&req, TM_LANE_SELECTION);
    req.may_block = true;
    int rc = tm_read_wait(r->sched, &self->blob, 0, self->blob.size, dst, &req);
    if (rc < 0)
        fail_msg("read of %llu elements: %d %s", (unsigned long long)r->count, rc,
                 tm_req_words(&req));
    tm_blob_unref(&self->blob);
}

static inline void expect_shape(const tm_tensor *tensor, const naive *n)
{
    assert_int_equal(tensor->dtype, n->dtype);
    assert_int_equal(tensor->rank, n->rank);
    assert_int_equal(tensor->elems, n->elems);
    for (size_t i = 0; i < n->rank; i++)
        assert_int_equal(tensor->dims[i], n->dims[i]);
}

static inline bool same_f32(float a, float b)
{
    return memcmp(&a, &b, 4) == 0 || (a != a && b != b);
}

/* TENSOR, of a whole-byte type, has the elements of N in the range of R. */
static inline void expect_elements(const elements_read *r, const naive *n)
{
    size_t width = r->as_f32 ? 4 : tm_dtype_get(n->dtype)->bits / 8;
    uint8_t *got = tm_new_array(r->count * width + 1, 1);
    assert_non_null(got);
    got[r->count * width] = 0xee;
    read_elements(r, got);
    for (uint64_t i = 0; i < r->count; i++) {
        bool same;
        if (r->as_f32) {
            float value;
            memcpy(&value, got + i * 4, 4);
            same = same_f32(value, naive_f32_at(n, r->first + i));
        } else {
            same = memcmp(got + i * width, n->bytes + (r->first + i) * width, width) == 0;
        }
        if (!same)
            fail_msg("%s, rank %zu: element %llu of [%llu, +%llu) differs",
                     tm_dtype_get(n->dtype)->name, n->rank, (unsigned long long)i,
                     (unsigned long long)r->first, (unsigned long long)r->count);
    }
    assert_int_equal(got[r->count * width], 0xee);
    free(got);
}

/* All of TENSOR, then random ranges of it in random windows. */
static inline void expect_tensor(tm_sched *sched, tm_tensor *tensor, const naive *n, uint64_t *seed)
{
    expect_shape(tensor, n);
    bool decodes = tm_convert_get(TM_CPU_SCALAR)->decode_f32[n->dtype];
    bool whole_bytes = tm_dtype_get(n->dtype)->bits % 8 == 0;
    for (int i = 0; i < 6; i++) {
        uint64_t first = i ? next_random(seed) % (n->elems + 1) : 0;
        uint64_t count = i ? next_random(seed) % (n->elems - first + 1) : n->elems;
        uint64_t window = i % 2 ? 1 + next_random(seed) % 40 : 0;
        elements_read r = {sched, tensor, first, count, window, false};
        if (whole_bytes)
            expect_elements(&r, n);
        r.as_f32 = true;
        if (decodes)
            expect_elements(&r, n);
    }
}

/* A tensor in the bytes of N: at hand, or fetched by an I/O thread each time. */
static inline tm_tensor *naive_tensor(const naive *n)
{
    tm_blob *bytes;
    tm_tensor *tensor;
    assert_int_equal(tm_blob_mem_new(n->bytes, naive_bytes(n->dtype, n->elems), &bytes), 0);
    assert_int_equal(tm_tensor_blob_new(bytes, n->dtype, n->dims, n->rank, &tensor), 0);
    tm_blob_unref(bytes);
    return tensor;
}

/* Random dimensions below DIM_MAX (now and then 0), random bytes. */
static inline naive naive_random(tm_dtype dtype, size_t rank, uint64_t dim_max, uint64_t *seed)
{
    uint64_t dims[NAIVE_RANK_MAX];
    naive n;
    do {
        for (size_t i = 0; i < rank; i++)
            dims[i] = next_random(seed) % 40 == 0 ? 0 : 1 + next_random(seed) % dim_max;
        n = naive_new(dtype, dims, rank);
        if (n.elems * tm_dtype_get(dtype)->bits % 8 == 0)
            break;
        if (rank == 0) /* a single narrow element fills no byte: none is stored so */
            n.dtype = TM_U8;
        else
            naive_free(&n);
    } while (!n.bytes);
    for (uint64_t i = 0; i < naive_bytes(n.dtype, n.elems); i++)
        n.bytes[i] = (uint8_t)next_random(seed);
    return n;
}

static inline tm_range random_range(uint64_t dim, uint64_t *seed)
{
    if (next_random(seed) % 3 == 0)
        return (tm_range){0, dim};
    uint64_t start = next_random(seed) % (dim + 1);
    return (tm_range){start, next_random(seed) % (dim - start + 1)};
}

#endif
