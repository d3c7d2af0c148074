/* A blob that stands in a file and counts who holds it, and a check of what stands over such. */
#ifndef TM_TESTS_UNIT_CORE_HELD_H
#define TM_TESTS_UNIT_CORE_HELD_H

#include "core/req.h"
#include "core/tensor.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

typedef struct held_blob {
    tm_blob blob;
    tm_file *file; /* never looked into */
    int hold_rc;
    int held;
    unsigned *frees; /* NULL: not counted */
} held_blob;

static inline held_blob *as_held(tm_blob *blob)
{
    return TM_CONTAINER(blob, held_blob, blob);
}

static inline int held_plan(tm_blob *blob, tm_plan *plan, uint64_t off, size_t len, uint8_t *dst)
{
    (void)blob;
    (void)plan;
    for (size_t i = 0; i < len; i++)
        dst[i] = (uint8_t)(off + i);
    return 0;
}

static inline bool held_locate(tm_blob *blob, uint64_t off, uint64_t len, tm_extent *ret)
{
    *ret = (tm_extent){as_held(blob)->file, 4096 + off};
    return len <= 50;
}

static inline int held_hold(tm_blob *blob, tm_req *req)
{
    if (as_held(blob)->hold_rc < 0)
        return tm_fail(req, -as_held(blob)->hold_rc, "cannot be held");
    as_held(blob)->held++;
    return 0;
}

static inline void held_unhold(tm_blob *blob)
{
    as_held(blob)->held--;
}

static inline void held_free(tm_blob *blob)
{
    held_blob *self = as_held(blob);
    assert_int_equal(self->held, 0);
    if (self->frees)
        ++*self->frees;
    free(self);
}

static const tm_blob_ops held_ops = {
    .kind = "held",
    .plan = held_plan,
    .locate = held_locate,
    .hold = held_hold,
    .unhold = held_unhold,
    .free = held_free,
};

static inline held_blob *held_new(uint64_t size, unsigned *frees)
{
    held_blob *self = TM_NEW(held_blob);
    assert_non_null(self);
    tm_blob_init(&self->blob, &held_ops, size);
    self->file = (tm_file *)(void *)self;
    self->frees = frees;
    return self;
}

/* A tensor of DTYPE in the bytes of *RET, which goes with it. */
static inline tm_tensor *held_tensor(tm_dtype dtype, const uint64_t *dims, size_t rank,
                                     held_blob **ret)
{
    tm_tensor *tensor;
    uint64_t elems = 1, bytes;
    for (size_t i = 0; i < rank; i++)
        elems *= dims[i];
    assert_true(tm_dtype_bytes(dtype, elems, &bytes));
    *ret = held_new(bytes, NULL);
    assert_int_equal(tm_tensor_blob_new(&(*ret)->blob, dtype, dims, rank, &tensor), 0);
    tm_blob_unref(&(*ret)->blob);
    return tensor;
}

/* ---- What is over held blobs ---- */

typedef struct holder {
    tm_blob *blob;
    tm_tensor *tensor; /* one of the two */
} holder;

static inline int holder_hold(const holder *h, tm_req *req)
{
    return h->tensor ? tm_tensor_hold(h->tensor, req) : tm_blob_hold(h->blob, req);
}

static inline void holder_unhold(const holder *h)
{
    if (h->tensor)
        tm_tensor_unhold(h->tensor);
    else
        tm_blob_unhold(h->blob);
}

static inline void expect_held(held_blob *const *blobs, size_t count, int held)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(blobs[i]->held, held);
}

/* H holds all of BLOBS, or none where one of them cannot be held. */
static inline void expect_holds(const holder *h, held_blob *const *blobs, size_t count)
{
    static const int failures[] = {-ESTALE, -EINPROGRESS};
    tm_req req;
    tm_req_init(&req, TM_LANE_SCALAR);
    expect_held(blobs, count, 0);
    assert_int_equal(holder_hold(h, &req), 0);
    assert_int_equal(holder_hold(h, &req), 0);
    expect_held(blobs, count, 2);
    assert_string_equal(tm_req_words(&req), "");
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < TM_ARRAY_LEN(failures); k++) {
            tm_req_init(&req, TM_LANE_SCALAR);
            blobs[i]->hold_rc = failures[k];
            assert_int_equal(holder_hold(h, &req), failures[k]);
            assert_string_equal(tm_req_words(&req), "cannot be held");
            expect_held(blobs, count, 2);
        }
        blobs[i]->hold_rc = 0;
    }
    holder_unhold(h);
    expect_held(blobs, count, 1);
    holder_unhold(h);
    expect_held(blobs, count, 0);
}

#endif
