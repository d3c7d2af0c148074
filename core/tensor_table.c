#include "core/tensor_table.h"

#include <inttypes.h>

#include "core/order.h"

void tm_tensor_table_init(tm_tensor_table *t)
{
    memset(t, 0, sizeof(*t));
}

void tm_tensor_table_done(tm_tensor_table *t)
{
    free(t->rows);
    free(t->names);
    free(t->dims);
    tm_tensor_table_init(t);
}

/*
 * Makes room for NEED items (and for one, so that the array exists). The factor is small because
 * these arrays are big: the kernel moves their pages without a copy, and what is not yet used is
 * not resident.
 */
static int reserve(void **items, uint64_t *cap, uint64_t need, size_t item_bytes)
{
    if (*items && need <= *cap)
        return 0;
    uint64_t more = *cap * item_bytes < (1u << 20) ? *cap / 2 : *cap / 4;
    uint64_t want = tm_max_u64(tm_max_u64(*cap + more, need), 64);
    void *grown = realloc(*items, want * item_bytes);
    if (!grown)
        return -ENOMEM;
    *items = grown;
    *cap = want;
    return 0;
}

static int reserve_for(tm_tensor_table *t, const tm_tensor_new *tensor)
{
    void *rows = t->rows, *names = t->names, *dims = t->dims;
    int rc = reserve(&rows, &t->rows_cap, (uint64_t)t->count + 1, sizeof(*t->rows));
    t->rows = rows;
    if (rc == 0)
        rc = reserve(&names, &t->names_cap, t->names_len + tensor->name_len, 1);
    t->names = names;
    if (rc == 0)
        rc = reserve(&dims, &t->dims_cap, t->dims_len + tensor->rank, sizeof(*t->dims));
    t->dims = dims;
    return rc;
}

bool tm_dims_elems(const uint64_t *dims, size_t rank, uint64_t *ret)
{
    uint64_t elems = 1;
    bool overflow = false;
    for (size_t i = 0; i < rank; i++) {
        if (dims[i] == 0) {
            *ret = 0;
            return true;
        }
        overflow = overflow || tm_mul_overflow(elems, dims[i], &elems);
    }
    *ret = elems;
    return !overflow;
}

static int check_limits(const tm_tensor_table *t, const tm_tensor_new *tensor, tm_req *req)
{
    uint64_t elems;
    if (t->count >= TM_TENSORS_MAX)
        return tm_fail(req, EFBIG, "more than %u tensors", TM_TENSORS_MAX);
    if (tensor->name_len > TM_NAME_MAX)
        return tm_fail(req, EFBIG, "a tensor name of more than %d bytes", TM_NAME_MAX);
    if (tensor->rank > TM_RANK_MAX)
        return tm_fail(req, EFBIG, "a tensor of more than %d dimensions", TM_RANK_MAX);
    if (!tm_dims_elems(tensor->dims, tensor->rank, &elems))
        return tm_fail(req, EFBIG, "a tensor of 2^64 elements or more");
    if (t->names_len + tensor->name_len > TM_NAME_POOL_MAX)
        return tm_fail(req, EFBIG, "tensor names of more than 8 GiB together");
    if (t->dims_len + tensor->rank > TM_DIM_POOL_MAX)
        return tm_fail(req, EFBIG, "more than 2^31 dimensions together");
    return 0;
}

int tm_tensor_table_add(tm_tensor_table *t, const tm_tensor_new *tensor, tm_req *req)
{
    TM_TRY(check_limits(t, tensor, req));
    if (reserve_for(t, tensor) < 0)
        return tm_fail(req, ENOMEM, "no memory for %" PRIu32 " tensors", t->count + 1);
    t->rows[t->count++] = (tm_tensor_row){
        .name_off = t->names_len,
        .begin = tensor->begin,
        .bytes = tensor->bytes,
        .dims_off = (uint32_t)t->dims_len,
        .name_len = (uint32_t)tensor->name_len,
        .file = tensor->file,
        .rank = (uint16_t)tensor->rank,
        .dtype = (uint8_t)tensor->dtype,
        .flags = tensor->flags,
    };
    if (tensor->name_len)
        memcpy(t->names + t->names_len, tensor->name, tensor->name_len);
    if (tensor->rank)
        memcpy(t->dims + t->dims_len, tensor->dims, tensor->rank * sizeof(*t->dims));
    t->names_len += tensor->name_len;
    t->dims_len += tensor->rank;
    return 0;
}

void tm_tensor_table_truncate(tm_tensor_table *t, uint32_t count)
{
    /* Pools grow in the order of adding, so the lowest offset dropped is where the rest ends. */
    for (uint32_t i = count; i < t->count; i++) {
        t->names_len = tm_min_u64(t->names_len, t->rows[i].name_off);
        t->dims_len = tm_min_u64(t->dims_len, t->rows[i].dims_off);
    }
    if (count < t->count)
        t->count = count;
}

int tm_name_cmp(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int c = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return c ? c : (a_len > b_len) - (a_len < b_len);
}

typedef struct tail {
    const tm_tensor_table *table;
    const tm_tensor_row *rows;
} tail;

static int cmp_by_name(const void *ctx, uint32_t a, uint32_t b)
{
    const tail *s = ctx;
    const tm_tensor_row *x = s->rows + a, *y = s->rows + b;
    int c =
        tm_name_cmp(tm_row_name(s->table, x), x->name_len, tm_row_name(s->table, y), y->name_len);
    return c ? c : (x->file > y->file) - (x->file < y->file);
}

int tm_tensor_table_sort_tail(tm_tensor_table *t, uint32_t first)
{
    if (first >= t->count)
        return 0;
    tail s = {.table = t, .rows = t->rows + first};
    uint32_t n = t->count - first;
    if (tm_order_is_sorted(n, cmp_by_name, &s))
        return 0;
    TM_AUTO_FREE uint32_t *order = NULL;
    TM_TRY(tm_order_new(n, cmp_by_name, &s, &order));
    tm_order_apply(order, n, t->rows + first, sizeof(*t->rows));
    return 0;
}

static void trim(void **items, uint64_t *cap, uint64_t len, size_t item_bytes)
{
    uint64_t want = tm_max_u64(len, 1);
    void *trimmed = *items ? realloc(*items, want * item_bytes) : NULL;
    if (!trimmed)
        return;
    *items = trimmed;
    *cap = want;
}

int tm_tensor_table_seal(tm_tensor_table *t)
{
    TM_TRY(tm_tensor_table_sort_tail(t, 0));
    void *rows = t->rows, *names = t->names, *dims = t->dims;
    trim(&rows, &t->rows_cap, t->count, sizeof(*t->rows));
    trim(&names, &t->names_cap, t->names_len, 1);
    trim(&dims, &t->dims_cap, t->dims_len, sizeof(*t->dims));
    t->rows = rows;
    t->names = names;
    t->dims = dims;
    return 0;
}

uint32_t tm_tensor_table_lower_bound(const tm_tensor_table *t, const char *name, size_t len)
{
    uint32_t lo = 0, hi = t->count;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        const tm_tensor_row *row = &t->rows[mid];
        if (tm_name_cmp(tm_row_name(t, row), row->name_len, name, len) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool tm_tensor_table_find(const tm_tensor_table *t, const char *name, size_t len, uint32_t *ret)
{
    uint32_t i = tm_tensor_table_lower_bound(t, name, len);
    if (i == t->count)
        return false;
    const tm_tensor_row *row = &t->rows[i];
    if (tm_name_cmp(tm_row_name(t, row), row->name_len, name, len) != 0)
        return false;
    *ret = i;
    return true;
}

uint64_t tm_row_elems(const tm_tensor_table *t, const tm_tensor_row *row)
{
    uint64_t elems;
    bool fits = tm_dims_elems(tm_row_dims(t, row), row->rank, &elems);
    assert(fits);
    return fits ? elems : 0;
}
