/* A range of one blob, and several blobs one after the other. */
#include "core/blob.h"

typedef struct slice_blob {
    tm_blob blob;
    tm_blob *whole;
    uint64_t off;
} slice_blob;

static slice_blob *as_slice(tm_blob *blob)
{
    return TM_CONTAINER(blob, slice_blob, blob);
}

static int slice_plan(tm_blob *blob, tm_plan *plan, uint64_t off, size_t len, uint8_t *dst)
{
    slice_blob *self = as_slice(blob);
    return tm_blob_plan(self->whole, plan, self->off + off, len, dst);
}

static bool slice_locate(tm_blob *blob, uint64_t off, uint64_t len, tm_extent *ret)
{
    slice_blob *self = as_slice(blob);
    return tm_blob_locate(self->whole, self->off + off, len, ret);
}

static int slice_hold(tm_blob *blob, tm_req *req)
{
    return tm_blob_hold(as_slice(blob)->whole, req);
}

static void slice_unhold(tm_blob *blob)
{
    tm_blob_unhold(as_slice(blob)->whole);
}

static void slice_free(tm_blob *blob)
{
    slice_blob *self = as_slice(blob);
    tm_blob_unref(self->whole);
    free(self);
}

static const tm_blob_ops slice_ops = {
    .kind = "slice",
    .plan = slice_plan,
    .locate = slice_locate,
    .hold = slice_hold,
    .unhold = slice_unhold,
    .free = slice_free,
};

int tm_blob_slice_new(tm_blob *blob, uint64_t off, uint64_t len, tm_blob **ret)
{
    assert(tm_range_ok(off, len, blob->size));
    slice_blob *self = TM_NEW(slice_blob);
    if (!self)
        return -ENOMEM;
    tm_blob_init(&self->blob, &slice_ops, len);
    self->blob.window = blob->window;
    self->whole = tm_blob_ref(blob);
    self->off = off;
    *ret = &self->blob;
    return 0;
}

typedef struct concat_blob {
    tm_blob blob;
    size_t count;
    uint64_t *starts; /* of each part, and the end */
    tm_blob **parts;
} concat_blob;

static concat_blob *as_concat(tm_blob *blob)
{
    return TM_CONTAINER(blob, concat_blob, blob);
}

/* The part that holds byte OFF. */
static size_t part_at(const concat_blob *self, uint64_t off)
{
    size_t lo = 0, hi = self->count;
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (self->starts[mid] <= off)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static int concat_plan(tm_blob *blob, tm_plan *plan, uint64_t off, size_t len, uint8_t *dst)
{
    concat_blob *self = as_concat(blob);
    for (size_t i = part_at(self, off); len > 0; i++) {
        uint64_t n = tm_min_u64(len, self->starts[i + 1] - off);
        TM_TRY(tm_blob_plan(self->parts[i], plan, off - self->starts[i], n, dst));
        off += n;
        len -= n;
        dst += n;
    }
    return 0;
}

static bool concat_locate(tm_blob *blob, uint64_t off, uint64_t len, tm_extent *ret)
{
    concat_blob *self = as_concat(blob);
    if (self->count == 0)
        return false;
    size_t i = part_at(self, off);
    if (len > self->starts[i + 1] - off)
        return false;
    return tm_blob_locate(self->parts[i], off - self->starts[i], len, ret);
}

static int concat_hold(tm_blob *blob, tm_req *req)
{
    concat_blob *self = as_concat(blob);
    for (size_t i = 0; i < self->count; i++) {
        int rc = tm_blob_hold(self->parts[i], req);
        if (rc < 0) {
            while (i-- > 0)
                tm_blob_unhold(self->parts[i]);
            return rc;
        }
    }
    return 0;
}

static void concat_unhold(tm_blob *blob)
{
    concat_blob *self = as_concat(blob);
    for (size_t i = 0; i < self->count; i++)
        tm_blob_unhold(self->parts[i]);
}

static void concat_free(tm_blob *blob)
{
    concat_blob *self = as_concat(blob);
    for (size_t i = 0; self->parts && i < self->count; i++)
        tm_blob_unref(self->parts[i]);
    free(self->parts);
    free(self->starts);
    free(self);
}

static const tm_blob_ops concat_ops = {
    .kind = "concat",
    .plan = concat_plan,
    .locate = concat_locate,
    .hold = concat_hold,
    .unhold = concat_unhold,
    .free = concat_free,
};

int tm_blob_concat_new(tm_blob *const *parts, size_t count, tm_blob **ret)
{
    concat_blob *self = TM_NEW(concat_blob);
    if (!self)
        return -ENOMEM;
    self->starts = tm_new_array(count + 1, sizeof(*self->starts));
    self->parts = tm_new_array(count, sizeof(*self->parts));
    if (!self->starts || !self->parts) {
        concat_free(&self->blob);
        return -ENOMEM;
    }
    uint64_t size = 0;
    for (size_t i = 0; i < count; i++) {
        self->parts[i] = tm_blob_ref(parts[i]);
        self->count = i + 1;
        if (tm_add_overflow(size, parts[i]->size, &size)) {
            concat_free(&self->blob);
            return -EFBIG;
        }
        self->starts[i + 1] = size;
    }
    tm_blob_init(&self->blob, &concat_ops, size);
    for (size_t i = 0; i < count; i++)
        if (parts[i]->window && (!self->blob.window || parts[i]->window < self->blob.window))
            self->blob.window = parts[i]->window;
    *ret = &self->blob;
    return 0;
}
