/*
 * A tensor: a lazily readable n-d array. Reads are linear runs of elements in row-major order,
 * which is how files, ranges of a URL and tiles lie; boxes and conversions are tensors over
 * tensors.
 *
 * Like a blob, a tensor plans and never reads. Constant once built; shared; any thread.
 */
#ifndef TM_CORE_TENSOR_H
#define TM_CORE_TENSOR_H

#include "core/blob.h"
#include "core/dtype.h"

typedef struct tm_tensor_ops {
    /* Adds to PLAN what makes DST hold elements [first, first + count), packed, of the tensor's
     * dtype. Of a sub-byte type FIRST is at a whole byte. Required. */
    int (*plan)(tm_tensor *tensor, tm_plan *plan, uint64_t first, uint64_t count, void *dst);
    /* Optional: the blob whose bytes are the elements (borrowed). */
    tm_blob *(*bytes)(tm_tensor *tensor);
    /* Optional, both: as a blob's (core/blob.h), of everything that the elements are read from. */
    int (*hold)(tm_tensor *tensor, tm_req *req);
    void (*unhold)(tm_tensor *tensor);
    void (*free)(tm_tensor *tensor); /* required; frees TENSOR, not dims */
} tm_tensor_ops;

struct tm_tensor {
    const tm_tensor_ops *ops;
    atomic_uint refs;
    tm_dtype dtype;
    size_t rank;
    uint64_t *dims; /* owned */
    uint64_t elems;
    uint64_t window; /* the most elements one plan should cover; 0: any */
};

/* For implementations: copies DIMS, one reference; -ENOMEM. ELEMS must not overflow (checked). */
TM_MUST_CHECK int tm_tensor_init(tm_tensor *tensor, const tm_tensor_ops *ops, tm_dtype dtype,
                                 const uint64_t *dims, size_t rank);

tm_tensor *tm_tensor_ref(tm_tensor *tensor);
tm_tensor *tm_tensor_unref(tm_tensor *tensor);
void tm_tensor_unrefp(tm_tensor **tensor);

TM_MUST_CHECK int tm_tensor_plan(tm_tensor *tensor, tm_plan *plan, uint64_t first, uint64_t count,
                                 void *dst);
/* The same elements as f32, from any FIRST; not for F6 and C64. */
TM_MUST_CHECK int tm_tensor_plan_f32(tm_tensor *tensor, tm_plan *plan, uint64_t first,
                                     uint64_t count, float *dst);
/* The blob whose bytes are the elements, NULL where there is none (borrowed). */
tm_blob *tm_tensor_bytes(tm_tensor *tensor);
/* Each hold that succeeds is undone by one unhold; one that fails holds nothing. */
TM_MUST_CHECK int tm_tensor_hold(tm_tensor *tensor, tm_req *req);
void tm_tensor_unhold(tm_tensor *tensor);

/* The elements that stand in BYTES (its size is theirs). */
TM_MUST_CHECK int tm_tensor_blob_new(tm_blob *bytes, tm_dtype dtype, const uint64_t *dims,
                                     size_t rank, tm_tensor **ret);
/* TENSOR as f32, itself where it is f32. */
TM_MUST_CHECK int tm_tensor_f32_new(tm_tensor *tensor, tm_tensor **ret);

/* Elements [start, start + count) of each axis. */
typedef struct tm_range {
    uint64_t start, count;
} tm_range;

/* The box of RANGES (one per axis, within the dimensions), rank kept. A box of elements narrower
 * than a byte is f32. */
TM_MUST_CHECK int tm_tensor_box_new(tm_tensor *tensor, const tm_range *ranges, tm_tensor **ret);
/* Index INDEX of axis AXIS: one rank less. */
TM_MUST_CHECK int tm_tensor_take_new(tm_tensor *tensor, size_t axis, uint64_t index,
                                     tm_tensor **ret);

/*
 * Stored codes with scales as their values, f32: value = f32(code) * f32(scale), one rounding.
 *
 * The last two axes are cut into blocks of block_rows x block_cols (edge blocks are partial), axes
 * before them count on their own; SCALES holds one scale a block, in row-major order. A scale per
 * tensor is one block, per channel a block of one row and all columns.
 */
typedef struct tm_scaling {
    tm_tensor *codes, *scales;
    uint64_t block_rows, block_cols;
} tm_scaling;

/* The number of scales that BLOCK sizes ask for with these dimensions; 0 on overflow. */
uint64_t tm_scaling_count(const uint64_t *dims, size_t rank, uint64_t block_rows,
                          uint64_t block_cols);
/* SCALES has exactly that many elements. Keeps references. */
TM_MUST_CHECK int tm_tensor_scaled_new(const tm_scaling *scaling, tm_tensor **ret);

#endif
