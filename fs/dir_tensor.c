/*
 * One tensor as a folder: its name, dtype and shape, its values, and by name its elements, rows,
 * columns and slices. A fused expert is shown by the same folder, as the slice that it is.
 */
#include <stdio.h>
#include <sys/stat.h>

#include "core/selection.h"
#include "core/text.h"
#include "formats/view_npy.h"
#include "fs/fs.h"
#include "fs/intern.h"
#include "fs/tensor_node.h"

static int out_of_memory(tm_req *req)
{
    return tm_fail(req, ENOMEM, "out of memory");
}

/* ---- What the folder shows ---- */

static const struct {
    const char *name;
    tm_kind kind;
    bool listed;
} entries[] = {
    {"name", TM_KIND_NAME, true},
    {"dtype", TM_KIND_DTYPE, true},
    {"shape", TM_KIND_SHAPE, true},
    {"data.npy", TM_KIND_DATA, true},
    {"stats.json", TM_KIND_STATS_JSON, true},
    {"hist.tsv", TM_KIND_HIST_TSV, true},
    {"rows.tsv", TM_KIND_ROWS_TSV, true},
    {"cols.tsv", TM_KIND_COLS_TSV, true},
    {"raw", TM_KIND_RAW, false},
    {"at", TM_KIND_AT_DIR, false},
    {"rows", TM_KIND_ROWS_DIR, false},
    {"cols", TM_KIND_COLS_DIR, false},
    {"slice", TM_KIND_SLICE_DIR, false},
    {"stats", TM_KIND_STATS_DIR, false},
    {"lod", TM_KIND_LOD, true},
};

static bool needs_values(tm_kind kind)
{
    return kind == TM_KIND_DATA || kind >= TM_KIND_AT_DIR;
}

static bool needs_counts(tm_kind kind)
{
    return kind == TM_KIND_HIST_TSV || kind == TM_KIND_ROWS_TSV || kind == TM_KIND_COLS_TSV ||
           kind == TM_KIND_LOD;
}

/* Whether NODE has KIND. stats.json of F6, whose values nobody can read, is there and says so. */
static int check_entry(const tm_node *node, tm_kind kind, tm_req *req)
{
    const tm_model *model = node->mounted->model;
    if (!needs_values(kind))
        return 0;
    bool is_statistic = kind == TM_KIND_STATS_JSON || kind == TM_KIND_STATS_DIR;
    if (is_statistic && !tm_model_part(model, node->item) &&
        tm_model_check_values(model, node->item, NULL) == -EOPNOTSUPP)
        return 0;
    return tm_model_check_values(model, node->item, req);
}

static int tensor_lookup(tm_fs *fs, const tm_node *node, const char *name, tm_req *req,
                         tm_node *ret)
{
    (void)fs;
    for (size_t i = 0; i < TM_ARRAY_LEN(entries); i++) {
        if (strcmp(name, entries[i].name) != 0)
            continue;
        TM_TRY(check_entry(node, entries[i].kind, req));
        if (entries[i].kind == TM_KIND_LOD && !tm_tensor_node_is_counted(node))
            return -ENOENT;
        *ret = tm_node_child(node, entries[i].kind, node->item, node->sub);
        return 0;
    }
    return -ENOENT;
}

static int tensor_list(tm_fs *fs, const tm_node *node, tm_lister *lister)
{
    (void)fs;
    bool counted = tm_tensor_node_is_counted(node);
    for (size_t i = 0; i < TM_ARRAY_LEN(entries); i++) {
        tm_node child = tm_node_near(node, entries[i].kind, node->item, node->sub);
        if (!entries[i].listed || check_entry(node, entries[i].kind, NULL) < 0 ||
            (needs_counts(entries[i].kind) && !counted))
            continue;
        if (!tm_lister_add(lister, i, entries[i].name, &child))
            break;
    }
    return 0;
}

/* ---- name, dtype, shape ---- */

static void render(const tm_node *node, tm_text *text)
{
    const tm_tensor_table *table = &node->mounted->model->table;
    const tm_tensor_row *row = tm_tensor_node_row(node);
    if (node->kind == TM_KIND_NAME) {
        tm_text_append(text, tm_row_name(table, row), row->name_len);
    } else if (node->kind == TM_KIND_DTYPE) {
        tm_text_puts(text, tm_dtype_get(row->dtype)->name);
    } else {
        size_t rank;
        const uint64_t *dims = tm_tensor_node_dims(node, &rank);
        tm_text_puts(text, "[");
        for (size_t i = 0; i < rank; i++)
            tm_text_printf(text, "%s%llu", i ? ", " : "", (unsigned long long)dims[i]);
        tm_text_puts(text, "]");
    }
    tm_text_puts(text, "\n");
}

static int render_bytes(const tm_node *node, tm_req *req, char **ret, size_t *ret_len)
{
    tm_text text;
    tm_text_init(&text);
    render(node, &text);
    int rc = tm_text_steal(&text, ret, ret_len);
    return rc < 0 ? tm_fail(req, -rc, "%s", strerror(-rc)) : 0;
}

static int text_size(tm_fs *fs, const tm_node *node, tm_req *req, uint64_t *ret)
{
    (void)fs;
    TM_AUTO_FREE char *bytes = NULL;
    size_t len;
    TM_TRY(render_bytes(node, req, &bytes, &len));
    *ret = len;
    return 0;
}

static int text_open(tm_fs *fs, const tm_node *node, tm_req *req, tm_blob **ret)
{
    (void)fs;
    char *bytes;
    size_t len;
    TM_TRY(render_bytes(node, req, &bytes, &len));
    return tm_fs_text_blob(bytes, len, req, ret);
}

/* ---- data.npy, raw ---- */

static int npy_size(const tm_node *node, const uint64_t *dims, size_t rank, tm_req *req,
                    uint64_t *ret)
{
    *ret = tm_view_npy_size(tm_model_values_dtype(node->mounted->model, node->item), dims, rank);
    if (*ret)
        return 0;
    return tm_model_fail(node->mounted->model, node->item, req, EFBIG,
                         "has values that fit no file");
}

static int data_size(tm_fs *fs, const tm_node *node, tm_req *req, uint64_t *ret)
{
    (void)fs;
    size_t rank;
    const uint64_t *dims = tm_tensor_node_dims(node, &rank);
    return npy_size(node, dims, rank, req, ret);
}

static int data_open(tm_fs *fs, const tm_node *node, tm_req *req, tm_blob **ret)
{
    (void)fs;
    TM_AUTO(tm_tensor_unrefp) tm_tensor *values = NULL;
    TM_TRY(tm_tensor_node_values(node, req, &values));
    return tm_view_npy_new(values, ret) < 0 ? out_of_memory(req) : 0;
}

/* An expert's part of the stored bytes. */
static int raw_range(const tm_node *node, tm_req *req, uint64_t *ret_off, uint64_t *ret_len)
{
    const tm_tensor_row *row = tm_tensor_node_row(node);
    uint64_t experts = node->sub ? tm_row_dims(&node->mounted->model->table, row)[0] : 1;
    if (row->bytes % experts)
        return tm_model_fail(node->mounted->model, node->item, req, EOPNOTSUPP,
                             "has experts that do not fill whole bytes");
    *ret_len = row->bytes / experts;
    *ret_off = node->sub ? *ret_len * (node->sub - 1) : 0;
    return 0;
}

static int raw_size(tm_fs *fs, const tm_node *node, tm_req *req, uint64_t *ret)
{
    (void)fs;
    uint64_t off;
    return raw_range(node, req, &off, ret);
}

static int raw_open(tm_fs *fs, const tm_node *node, tm_req *req, tm_blob **ret)
{
    (void)fs;
    TM_AUTO(tm_blob_unrefp) tm_blob *whole = NULL;
    uint64_t off = 0, len = 0;
    TM_TRY(raw_range(node, req, &off, &len));
    TM_TRY(tm_model_raw(node->mounted->model, node->item, req, &whole));
    return tm_blob_slice_new(whole, off, len, ret) < 0 ? out_of_memory(req) : 0;
}

/* ---- at/, rows/, cols/, slice/: names that are given freely ---- */

static int at_lookup(tm_fs *fs, const tm_node *node, const char *name, tm_req *req, tm_node *ret)
{
    size_t rank;
    const uint64_t *dims = tm_tensor_node_dims(node, &rank);
    uint64_t index;
    TM_TRY(tm_selection_element(name, strlen(name), dims, rank, &index));
    if (tm_model_values_dtype(node->mounted->model, node->item) == TM_C64)
        return tm_model_fail(node->mounted->model, node->item, req, EOPNOTSUPP,
                             "is C64, whose values have no text; data.npy has them");
    return tm_intern_child(fs, node, TM_KIND_AT, name, req, ret);
}

static int at_size(tm_fs *fs, const tm_node *node, tm_req *req, uint64_t *ret)
{
    (void)fs, (void)node, (void)req;
    *ret = TM_VALUE_FILE_BYTES;
    return 0;
}

static int at_open(tm_fs *fs, const tm_node *node, tm_req *req, tm_blob **ret)
{
    (void)fs;
    TM_AUTO(tm_tensor_unrefp) tm_tensor *values = NULL;
    const char *text = node->interned->text;
    uint64_t index;
    TM_TRY(tm_tensor_node_values(node, req, &values));
    TM_TRY(tm_selection_element(text, strlen(text), values->dims, values->rank, &index));
    return tm_view_value_new(values, index, ret) < 0 ? out_of_memory(req) : 0;
}

/* The name without .npy, malloc'ed. */
static int stem_of(const char *name, tm_req *req, char **ret)
{
    size_t len = strlen(name);
    if (len < 4 || strcmp(name + len - 4, ".npy") != 0)
        return -ENOENT;
    *ret = strndup(name, len - 4);
    return *ret ? 0 : out_of_memory(req);
}

/* The axis that rows/ or cols/ takes an index of. */
static size_t axis_of(tm_kind kind, size_t rank)
{
    assert(rank > 0);
    return kind == TM_KIND_ROW || kind == TM_KIND_ROWS_DIR ? 0 : rank - 1;
}

static int line_lookup(tm_fs *fs, const tm_node *node, const char *name, tm_req *req, tm_node *ret)
{
    TM_AUTO_FREE char *stem = NULL;
    size_t rank;
    const uint64_t *dims = tm_tensor_node_dims(node, &rank);
    uint64_t index;
    TM_TRY(stem_of(name, req, &stem));
    if (rank == 0)
        return -ENOENT;
    size_t axis = axis_of(node->kind, rank);
    TM_TRY(tm_selection_index(stem, strlen(stem), dims[axis], &index));
    tm_kind kind = node->kind == TM_KIND_ROWS_DIR ? TM_KIND_ROW : TM_KIND_COL;
    return tm_intern_child(fs, node, kind, stem, req, ret);
}

static int line_size(tm_fs *fs, const tm_node *node, tm_req *req, uint64_t *ret)
{
    (void)fs;
    size_t rank;
    const uint64_t *dims = tm_tensor_node_dims(node, &rank);
    size_t axis = axis_of(node->kind, rank);
    if (axis == 0)
        return npy_size(node, dims + 1, rank - 1, req, ret);
    return npy_size(node, dims, rank - 1, req, ret);
}

static int line_open(tm_fs *fs, const tm_node *node, tm_req *req, tm_blob **ret)
{
    (void)fs;
    TM_AUTO(tm_tensor_unrefp) tm_tensor *values = NULL;
    TM_AUTO(tm_tensor_unrefp) tm_tensor *line = NULL;
    const char *text = node->interned->text;
    uint64_t index;
    TM_TRY(tm_tensor_node_values(node, req, &values));
    size_t axis = axis_of(node->kind, values->rank);
    TM_TRY(tm_selection_index(text, strlen(text), values->dims[axis], &index));
    if (tm_tensor_take_new(values, axis, index, &line) < 0 || tm_view_npy_new(line, ret) < 0)
        return out_of_memory(req);
    return 0;
}

/* The ranges that TEXT names, malloc'ed. */
static int ranges_of(const char *text, const uint64_t *dims, size_t rank, tm_req *req,
                     tm_range **ret)
{
    TM_AUTO_FREE tm_range *ranges = tm_new_array(rank, sizeof(*ranges));
    if (!ranges)
        return out_of_memory(req);
    TM_TRY(tm_selection_ranges(text, strlen(text), dims, rank, ranges));
    *ret = TM_STEAL(ranges);
    return 0;
}

static int slice_lookup(tm_fs *fs, const tm_node *node, const char *name, tm_req *req, tm_node *ret)
{
    TM_AUTO_FREE char *stem = NULL;
    TM_AUTO_FREE tm_range *ranges = NULL;
    size_t rank;
    const uint64_t *dims = tm_tensor_node_dims(node, &rank);
    TM_TRY(stem_of(name, req, &stem));
    TM_TRY(ranges_of(stem, dims, rank, req, &ranges));
    return tm_intern_child(fs, node, TM_KIND_SLICE, stem, req, ret);
}

static int slice_size(tm_fs *fs, const tm_node *node, tm_req *req, uint64_t *ret)
{
    (void)fs;
    TM_AUTO_FREE tm_range *ranges = NULL;
    size_t rank;
    const uint64_t *dims = tm_tensor_node_dims(node, &rank);
    TM_TRY(ranges_of(node->interned->text, dims, rank, req, &ranges));
    TM_AUTO_FREE uint64_t *counts = tm_new_array(rank, sizeof(*counts));
    if (!counts)
        return out_of_memory(req);
    for (size_t i = 0; i < rank; i++)
        counts[i] = ranges[i].count;
    return npy_size(node, counts, rank, req, ret);
}

static int slice_open(tm_fs *fs, const tm_node *node, tm_req *req, tm_blob **ret)
{
    (void)fs;
    TM_AUTO(tm_tensor_unrefp) tm_tensor *values = NULL;
    TM_AUTO(tm_tensor_unrefp) tm_tensor *box = NULL;
    TM_AUTO_FREE tm_range *ranges = NULL;
    TM_TRY(tm_tensor_node_values(node, req, &values));
    TM_TRY(ranges_of(node->interned->text, values->dims, values->rank, req, &ranges));
    if (tm_tensor_box_new(values, ranges, &box) < 0 || tm_view_npy_new(box, ret) < 0)
        return out_of_memory(req);
    return 0;
}

#define FOLDER    .mode = S_IFDIR | 0555
#define FILE_MODE .mode = S_IFREG | 0444
#define ONE       .lane = TM_LANE_SCALAR
#define SELECTION .lane = TM_LANE_SELECTION
#define VISIBLE   .lane = TM_LANE_VISIBLE

const tm_kind_ops tm_tensor_kinds[] = {
    {FOLDER, .lookup = tensor_lookup, .list = tensor_list},
    {FILE_MODE, ONE, .size = text_size, .open = text_open}, /* name */
    {FILE_MODE, ONE, .size = text_size, .open = text_open}, /* dtype */
    {FILE_MODE, ONE, .size = text_size, .open = text_open}, /* shape */
    {FILE_MODE, VISIBLE, .size = data_size, .open = data_open},
    {FILE_MODE, SELECTION, .size = raw_size, .open = raw_open},
    {FOLDER, .lookup = at_lookup},
    {FOLDER, .lookup = line_lookup}, /* rows */
    {FOLDER, .lookup = line_lookup}, /* cols */
    {FOLDER, .lookup = slice_lookup},
};

const tm_kind_ops tm_view_kinds[] = {
    {FILE_MODE, ONE, .size = at_size, .open = at_open},
    {FILE_MODE, SELECTION, .size = line_size, .open = line_open}, /* row */
    {FILE_MODE, SELECTION, .size = line_size, .open = line_open}, /* col */
    {FILE_MODE, SELECTION, .size = slice_size, .open = slice_open},
};
