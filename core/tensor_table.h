/*
 * The names, dtypes, shapes and places of a model's tensors as compact rows.
 *
 * A checkpoint may have 870,000 tensors, so a row is 40 bytes, and names and dimensions stand in
 * two pools. A reader appends rows (tm_tensor_table_add); tm_tensor_table_seal() then sorts them
 * by name (bytewise), after which the table is constant and any thread may read it.
 */
#ifndef TM_CORE_TENSOR_TABLE_H
#define TM_CORE_TENSOR_TABLE_H

#include "core/dtype.h"
#include "core/req.h"

enum {
    TM_RANK_MAX = 65535,
    TM_NAME_MAX = 1 << 20, /* bytes of one tensor name */
};
#define TM_TENSORS_MAX   (1u << 24)          /* tensors of one model; inode numbers rely on it */
#define TM_NAME_POOL_MAX ((uint64_t)8 << 30) /* bytes */
#define TM_DIM_POOL_MAX  ((uint64_t)1 << 31) /* dimensions */

enum {
    TM_ROW_REFUSED = 1, /* its bytes are not proved by its file's header: reads answer EBADMSG */
};

typedef struct tm_tensor_row {
    uint64_t name_off; /* in the name pool */
    uint64_t begin;    /* first byte in its file */
    uint64_t bytes;
    uint32_t dims_off; /* in the dimension pool */
    uint32_t name_len;
    uint32_t file; /* index into the model's files */
    uint16_t rank;
    uint8_t dtype; /* tm_dtype */
    uint8_t flags; /* TM_ROW_* */
} tm_tensor_row;

static_assert(sizeof(tm_tensor_row) == 40, "870,000 rows must stay small");

typedef struct tm_tensor_table {
    tm_tensor_row *rows;
    char *names;
    uint64_t *dims;
    uint32_t count;
    uint64_t names_len, dims_len;
    uint64_t rows_cap, names_cap, dims_cap; /* of the allocations, in items */
} tm_tensor_table;

typedef struct tm_tensor_new {
    const char *name; /* bytes, NUL allowed */
    size_t name_len;
    tm_dtype dtype;
    const uint64_t *dims;
    size_t rank;
    uint32_t file;
    uint64_t begin, bytes;
    uint8_t flags;
} tm_tensor_new;

void tm_tensor_table_init(tm_tensor_table *t);
void tm_tensor_table_done(tm_tensor_table *t); /* also of a half-built table */

/* Appends a copy. -EFBIG over a limit, -ENOMEM. The table is unchanged on failure. */
TM_MUST_CHECK int tm_tensor_table_add(tm_tensor_table *t, const tm_tensor_new *tensor, tm_req *req);

/*
 * Drops every row from COUNT on, with its name and dimensions. Rows on both sides of COUNT may
 * have been sorted since they were added, but not across it.
 */
void tm_tensor_table_truncate(tm_tensor_table *t, uint32_t count);

/* Sorts the rows from FIRST on (those of one file) by name. Sorted input costs one pass. */
TM_MUST_CHECK int tm_tensor_table_sort_tail(tm_tensor_table *t, uint32_t first);

/* Sorts by name, then by file, and gives back unused memory. Sorted input costs one pass. */
TM_MUST_CHECK int tm_tensor_table_seal(tm_tensor_table *t);

/* Of a sealed table: the row of NAME. False where there is none. */
bool tm_tensor_table_find(const tm_tensor_table *t, const char *name, size_t len, uint32_t *ret);

/* Of a sealed table: the first row whose name is not less than NAME (count where there is none). */
uint32_t tm_tensor_table_lower_bound(const tm_tensor_table *t, const char *name, size_t len);

static inline const char *tm_row_name(const tm_tensor_table *t, const tm_tensor_row *row)
{
    return t->names + row->name_off;
}

static inline const uint64_t *tm_row_dims(const tm_tensor_table *t, const tm_tensor_row *row)
{
    return t->dims + row->dims_off;
}

/* The number of elements: the product of the dimensions, 1 for rank 0. Checked when added. */
uint64_t tm_row_elems(const tm_tensor_table *t, const tm_tensor_row *row);

/* The product of dimensions: 0 where one of them is 0, wherever it stands; false on overflow. */
bool tm_dims_elems(const uint64_t *dims, size_t rank, uint64_t *ret);

/* Bytewise, a shorter name before a longer one that it begins. */
int tm_name_cmp(const char *a, size_t a_len, const char *b, size_t b_len);

#endif
