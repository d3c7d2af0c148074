#include "formats/view_npy.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/convert.h"
#include "core/plan.h"

/* ---- The header ---- */

enum {
    NPY_ALIGN = 64,
    NPY_MAGIC_LEN = 8
};

typedef struct npy_header {
    char *text; /* NULL: only the length is wanted */
    size_t len; /* of the dictionary so far */
} npy_header;

static void put(npy_header *h, const char *s)
{
    size_t n = strlen(s);
    if (h->text)
        memcpy(h->text + h->len, s, n);
    h->len += n;
}

static void put_dictionary(npy_header *h, tm_dtype dtype, const uint64_t *dims, size_t rank)
{
    char number[24];
    put(h, "{'descr': '");
    assert(tm_dtype_get(dtype)->descr);
    put(h, tm_dtype_get(dtype)->descr);
    put(h, "', 'fortran_order': False, 'shape': (");
    for (size_t i = 0; i < rank; i++) {
        snprintf(number, sizeof(number), "%" PRIu64, dims[i]);
        put(h, number);
        put(h, i + 1 < rank ? ", " : rank == 1 ? "," : "");
    }
    put(h, "), }");
}

/* The whole header's length for a dictionary of LEN bytes, padding and LF included. */
static size_t header_len(size_t len, bool *ret_long)
{
    assert(NPY_MAGIC_LEN < NPY_ALIGN);
    size_t total = (NPY_MAGIC_LEN + 2 + len + 1 + NPY_ALIGN - 1) / NPY_ALIGN * NPY_ALIGN;
    *ret_long = total - NPY_MAGIC_LEN - 2 > UINT16_MAX;
    if (*ret_long)
        total = (NPY_MAGIC_LEN + 4 + len + 1 + NPY_ALIGN - 1) / NPY_ALIGN * NPY_ALIGN;
    return total;
}

static int make_header(tm_dtype dtype, const uint64_t *dims, size_t rank, tm_blob **ret)
{
    npy_header h = {NULL, 0};
    bool is_long;
    put_dictionary(&h, dtype, dims, rank);
    size_t total = header_len(h.len, &is_long);
    size_t prefix = NPY_MAGIC_LEN + (is_long ? 4 : 2);
    char *bytes = malloc(total);
    if (!bytes)
        return -ENOMEM;
    memset(bytes, ' ', total);
    bytes[total - 1] = '\n';
    memcpy(bytes, is_long ? "\x93NUMPY\2\0" : "\x93NUMPY\1\0", NPY_MAGIC_LEN);
    uint32_t rest = (uint32_t)(total - prefix);
    memcpy(bytes + NPY_MAGIC_LEN, &rest, prefix - NPY_MAGIC_LEN);
    h = (npy_header){bytes + prefix, 0};
    put_dictionary(&h, dtype, dims, rank);
    assert(prefix + h.len < total);
    return tm_blob_mem_take(bytes, total, ret);
}

uint64_t tm_view_npy_size(tm_dtype stored, const uint64_t *dims, size_t rank)
{
    tm_dtype shown = tm_dtype_get(stored)->npy;
    npy_header h = {NULL, 0};
    bool is_long;
    put_dictionary(&h, shown, dims, rank);
    uint64_t size = 1;
    for (size_t i = 0; i < rank; i++)
        if (dims[i] == 0)
            return header_len(h.len, &is_long);
    for (size_t i = 0; i < rank; i++)
        if (tm_mul_overflow(size, dims[i], &size))
            return 0;
    if (tm_mul_overflow(size, tm_dtype_get(shown)->bits / 8, &size) ||
        tm_add_overflow(size, header_len(h.len, &is_long), &size))
        return 0;
    return size;
}

/* ---- The payload: a tensor's elements as bytes ---- */

typedef struct elems_blob {
    tm_blob blob;
    tm_tensor *tensor;
    size_t elem_bytes;
} elems_blob;

typedef struct cut_args {
    const uint8_t *src;
    uint8_t *dst;
    size_t len;
} cut_args;

static int run_cut(void *args, tm_req *req)
{
    (void)req;
    cut_args *a = args;
    memcpy(a->dst, a->src, a->len);
    return 0;
}

static int elems_plan(tm_blob *blob, tm_plan *plan, uint64_t off, size_t len, uint8_t *dst)
{
    elems_blob *self = TM_CONTAINER(blob, elems_blob, blob);
    size_t width = self->elem_bytes;
    assert(width > 0 && len > 0);
    uint64_t first = off / width, end = (off + len - 1) / width + 1;
    bool whole = off % width == 0 && len % width == 0 && (uintptr_t)dst % width == 0;
    if (whole)
        return tm_tensor_plan(self->tensor, plan, first, end - first, dst);
    /* A range that cuts elements: compute whole ones, keep the part. */
    uint8_t *scratch = tm_plan_scratch(plan, (end - first) * width);
    if (!scratch)
        return tm_fail(tm_plan_req(plan), ENOMEM, "out of memory");
    TM_TRY(tm_tensor_plan(self->tensor, plan, first, end - first, scratch));
    cut_args a = {scratch + off % width, dst, len};
    return tm_plan_run(plan, run_cut, &a, sizeof(a));
}

static int elems_hold(tm_blob *blob, tm_req *req)
{
    return tm_tensor_hold(TM_CONTAINER(blob, elems_blob, blob)->tensor, req);
}

static void elems_unhold(tm_blob *blob)
{
    tm_tensor_unhold(TM_CONTAINER(blob, elems_blob, blob)->tensor);
}

static void elems_free(tm_blob *blob)
{
    elems_blob *self = TM_CONTAINER(blob, elems_blob, blob);
    tm_tensor_unref(self->tensor);
    free(self);
}

static const tm_blob_ops elems_ops = {
    .kind = "elements",
    .plan = elems_plan,
    .hold = elems_hold,
    .unhold = elems_unhold,
    .free = elems_free,
};

static int elems_new(tm_tensor *tensor, tm_blob **ret)
{
    tm_blob *bytes = tm_tensor_bytes(tensor);
    if (bytes) {
        *ret = tm_blob_ref(bytes);
        return 0;
    }
    elems_blob *self = TM_NEW(elems_blob);
    uint64_t size;
    size_t width = tm_dtype_get(tensor->dtype)->bits / 8;
    if (!self || tm_mul_overflow(tensor->elems, width, &size)) {
        free(self);
        return -ENOMEM;
    }
    tm_blob_init(&self->blob, &elems_ops, size);
    self->blob.window = tensor->window * width;
    self->tensor = tm_tensor_ref(tensor);
    self->elem_bytes = width;
    *ret = &self->blob;
    return 0;
}

static int shown_tensor(tm_tensor *tensor, tm_tensor **ret)
{
    if (tm_dtype_get(tensor->dtype)->npy == TM_F32)
        return tm_tensor_f32_new(tensor, ret);
    *ret = tm_tensor_ref(tensor);
    return 0;
}

int tm_view_npy_new(tm_tensor *tensor, tm_blob **ret)
{
    TM_AUTO(tm_tensor_unrefp) tm_tensor *shown = NULL;
    TM_AUTO(tm_blob_unrefp) tm_blob *header = NULL;
    TM_AUTO(tm_blob_unrefp) tm_blob *payload = NULL;
    TM_TRY(shown_tensor(tensor, &shown));
    TM_TRY(make_header(shown->dtype, shown->dims, shown->rank, &header));
    TM_TRY(elems_new(shown, &payload));
    tm_blob *parts[] = {header, payload};
    return tm_blob_concat_new(parts, 2, ret);
}

/* ---- One element as text ---- */

typedef struct value_blob {
    tm_blob blob;
    tm_tensor *tensor;
    uint64_t index;
} value_blob;

typedef struct value_args {
    tm_dtype dtype;
    uint64_t index; /* within src */
    const void *from;
    size_t off, len;
    uint8_t *dst;
} value_args;

static int run_value(void *args, tm_req *req)
{
    value_args *a = args;
    char text[TM_VALUE_TEXT_MAX], file[TM_VALUE_FILE_BYTES + 1];
    int n = tm_value_text(a->dtype, a->from, a->index, text);
    if (n < 0)
        return tm_fail(req, -n, "%s values have no text", tm_dtype_get(a->dtype)->name);
    snprintf(file, sizeof(file), "%24.*s\n", n, text);
    assert(tm_range_ok(a->off, a->len, TM_VALUE_FILE_BYTES));
    memcpy(a->dst, file + a->off, a->len);
    return 0;
}

static int value_plan(tm_blob *blob, tm_plan *plan, uint64_t off, size_t len, uint8_t *dst)
{
    value_blob *self = TM_CONTAINER(blob, value_blob, blob);
    unsigned bits = tm_dtype_get(self->tensor->dtype)->bits;
    uint64_t per_byte = bits < 8 ? 8 / bits : 1;
    void *src = tm_plan_scratch(plan, sizeof(uint64_t));
    if (!src)
        return tm_fail(tm_plan_req(plan), ENOMEM, "out of memory");
    uint64_t first = self->index / per_byte * per_byte;
    uint64_t count = tm_min_u64(per_byte, self->tensor->elems - first);
    TM_TRY(tm_tensor_plan(self->tensor, plan, first, count, src));
    value_args a = {.dtype = self->tensor->dtype,
                    .index = self->index - first,
                    .from = src,
                    .off = off,
                    .len = len,
                    .dst = dst};
    return tm_plan_run(plan, run_value, &a, sizeof(a));
}

static int value_hold(tm_blob *blob, tm_req *req)
{
    return tm_tensor_hold(TM_CONTAINER(blob, value_blob, blob)->tensor, req);
}

static void value_unhold(tm_blob *blob)
{
    tm_tensor_unhold(TM_CONTAINER(blob, value_blob, blob)->tensor);
}

static void value_free(tm_blob *blob)
{
    value_blob *self = TM_CONTAINER(blob, value_blob, blob);
    tm_tensor_unref(self->tensor);
    free(self);
}

static const tm_blob_ops value_ops = {
    .kind = "value",
    .plan = value_plan,
    .hold = value_hold,
    .unhold = value_unhold,
    .free = value_free,
};

int tm_view_value_new(tm_tensor *tensor, uint64_t index, tm_blob **ret)
{
    assert(index < tensor->elems);
    value_blob *self = TM_NEW(value_blob);
    if (!self)
        return -ENOMEM;
    tm_blob_init(&self->blob, &value_ops, TM_VALUE_FILE_BYTES);
    self->tensor = tm_tensor_ref(tensor);
    self->index = index;
    *ret = &self->blob;
    return 0;
}
