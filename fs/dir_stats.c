/* What is computed of one tensor when it is read: stats.json, hist.tsv and stats/KEY by one pass
 * over it for all of them; rows.tsv and cols.tsv by the window. */
#include <stdio.h>
#include <sys/stat.h>

#include "compute/tiles.h"
#include "core/plan.h"
#include "core/text.h"
#include "formats/stats_text.h"
#include "fs/fs.h"
#include "fs/indexes.h"
#include "fs/axis_text.h"
#include "fs/intern.h"
#include "fs/tensor_node.h"

static int out_of_memory(tm_req *req)
{
    return tm_fail(req, ENOMEM, "out of memory");
}

/* ---- What the texts say ---- */

static tm_stats_subject subject_of(const tm_node *node)
{
    const tm_model *model = node->mounted->model;
    const tm_tensor_row *row = tm_tensor_node_row(node);
    tm_stats_subject s = {
        .name = tm_row_name(&model->table, row),
        .name_len = row->name_len,
        .dtype = tm_dtype_get(row->dtype)->name,
        .scaled = tm_model_part(model, node->item) != NULL,
    };
    s.dims = tm_tensor_node_dims(node, &s.rank);
    tm_dims_elems(s.dims, s.rank, &s.elems); /* which fit: the table's limits */
    return s;
}

/* STATS is NULL where there are none; FIELD counts for stats/KEY. */
static void render(const tm_node *node, size_t field, const tm_tensor_stats *stats, tm_text *text)
{
    tm_stats_subject s = subject_of(node);
    s.record = stats ? &stats->record : NULL;
    if (node->kind == TM_KIND_STATS_JSON) {
        tm_stats_json(text, &s);
    } else if (node->kind == TM_KIND_HIST_TSV) {
        tm_hist_tsv(text, stats ? stats->hist : NULL, stats ? stats->hist_count : 0);
    } else {
        char value[TM_STATS_VALUE_BYTES + 1];
        tm_stats_record none = {.summary.n = s.elems};
        if (s.record || field == 0)
            tm_stats_value_text(s.record ? s.record : &none, field, value);
        else
            snprintf(value, sizeof(value), "%*s\n", TM_STATS_VALUE_BYTES - 1, "-");
        tm_text_puts(text, value);
    }
}

/* ---- The texts as blobs: they wait for the tile, and are rendered from it ---- */

typedef struct stats_blob {
    tm_blob blob;
    tm_node node; /* with references */
    size_t field; /* of stats/KEY */
    tm_lane lane;
    tm_tile_source source;    /* its tensor referenced */
    tm_tensor_stats *indexed; /* what an index knows, owned; NULL: it is computed */
} stats_blob;

static stats_blob *as_stats(tm_blob *blob)
{
    return TM_CONTAINER(blob, stats_blob, blob);
}

static int copy_text(const stats_blob *self, const tm_tensor_stats *stats, uint64_t off, size_t len,
                     uint8_t *dst)
{
    tm_text text;
    tm_text_init(&text);
    render(&self->node, self->field, stats, &text);
    int rc = tm_text_error(&text);
    if (rc == 0) {
        assert(text.len == self->blob.size);
        memcpy(dst, text.bytes + off, len);
    }
    tm_text_done(&text);
    return rc;
}

static int stats_plan(tm_blob *blob, tm_plan *plan, uint64_t off, size_t len, uint8_t *dst)
{
    stats_blob *self = as_stats(blob);
    const tm_tensor_stats *stats = self->indexed;
    if (self->source.tensor && !stats) {
        tm_tile *tile;
        if (tm_tile_stats_get(&self->source, self->lane, &tile) < 0)
            return out_of_memory(tm_plan_req(plan));
        TM_TRY(tm_plan_tile(plan, tile));
        if (tm_shared_poll(&tile->shared) < 0)
            return tm_plan_wait(plan, &tile->shared);
        stats = tm_tile_stats(tile);
    }
    return copy_text(self, stats, off, len, dst) < 0 ? out_of_memory(tm_plan_req(plan)) : 0;
}

static int stats_hold(tm_blob *blob, tm_req *req)
{
    tm_tensor *tensor = as_stats(blob)->source.tensor;
    return tensor ? tm_tensor_hold(tensor, req) : 0;
}

static void stats_unhold(tm_blob *blob)
{
    if (as_stats(blob)->source.tensor)
        tm_tensor_unhold(as_stats(blob)->source.tensor);
}

static void stats_free(tm_blob *blob)
{
    stats_blob *self = as_stats(blob);
    tm_tensor_stats_free(self->indexed);
    tm_tensor_unref(self->source.tensor);
    tm_node_done(&self->node);
    free(self);
}

static const tm_blob_ops stats_ops = {
    .kind = "statistics",
    .plan = stats_plan,
    .hold = stats_hold,
    .unhold = stats_unhold,
    .free = stats_free,
};

static int text_size(tm_fs *fs, const tm_node *node, tm_req *req, uint64_t *ret)
{
    (void)fs, (void)req;
    tm_stats_subject s = subject_of(node);
    *ret = node->kind == TM_KIND_STATS_JSON ? tm_stats_json_size(&s)
           : node->kind == TM_KIND_HIST_TSV ? TM_HIST_TSV_BYTES
                                            : TM_STATS_VALUE_BYTES;
    return 0;
}

/* What INDEXES know of the tensor as far as the file shows it; NULL where it has to be computed.
 * -ENOMEM. What cannot be read of an index is said in the log, and no failure. */
static int from_indexes(tm_indexes *indexes, const tm_node *node, tm_req *req,
                        tm_tensor_stats **ret)
{
    tm_stats_record record;
    tm_stats stats;
    unsigned shift;
    if (node->kind != TM_KIND_HIST_TSV)
        return tm_indexes_record(indexes, node->item, req, &record)
                   ? tm_tensor_stats_new(NULL, &record, ret)
                   : 0;
    if (tm_indexes_stats(indexes, node->item, req, &record, &shift, &stats) < 0)
        return 0;
    int rc = 0;
    if (tm_stats_rows_exact(stats.dtype, shift))
        rc = tm_tensor_stats_new(&stats, &record, ret);
    tm_stats_done(&stats);
    return rc;
}

/* The same, malloc'ed; nothing where it was computed already. */
static int find_indexed(tm_fs *fs, const tm_node *node, tm_req *req, tm_tensor_stats **ret)
{
    TM_AUTO(tm_indexes_unrefp) tm_indexes *indexes = NULL;
    tm_stats_record record;
    *ret = NULL;
    if (node->sub != 0 || tm_tile_stats_known(tm_session_store(fs->session), node->mounted->serial,
                                              node->item, &record))
        return 0;
    TM_TRY(tm_indexes_get(fs->session, node->mounted, req, &indexes));
    tm_req part;
    tm_req_init_part(&part, req);
    part.may_block = true;
    if (from_indexes(indexes, node, &part, ret) < 0)
        return out_of_memory(req);
    return *ret ? 0 : tm_req_check(req);
}

static int text_open(tm_fs *fs, const tm_node *node, tm_req *req, tm_blob **ret)
{
    uint64_t size;
    TM_TRY(text_size(fs, node, req, &size));
    if (node->kind == TM_KIND_HIST_TSV && !tm_tensor_node_is_counted(node))
        return tm_model_fail(node->mounted->model, node->item, req, EOPNOTSUPP,
                             "has values that are not counted");
    TM_AUTO(tm_tensor_unrefp) tm_tensor *values = NULL;
    tm_tensor_stats *indexed = NULL;
    if (tm_tensor_node_is_counted(node)) {
        TM_TRY(tm_tensor_node_values(node, req, &values));
        TM_TRY(find_indexed(fs, node, req, &indexed));
    }
    stats_blob *self = TM_NEW(stats_blob);
    if (!self) {
        tm_tensor_stats_free(indexed);
        return out_of_memory(req);
    }
    self->indexed = indexed;
    tm_blob_init(&self->blob, &stats_ops, size);
    self->node = tm_node_child(node, node->kind, node->item, node->sub);
    if (node->interned)
        tm_ignore(tm_stats_field_find(node->interned->text, strlen(node->interned->text),
                                      &self->field)); /* a name without one was not looked up */
    self->lane = tm_kind_get(node->kind)->lane;
    self->source = tm_tensor_node_source(fs, node, TM_STEAL(values));
    *ret = &self->blob;
    return 0;
}

/* ---- rows.tsv, cols.tsv ---- */

static tm_axis axis_of(const tm_node *node)
{
    return node->kind == TM_KIND_ROWS_TSV ? TM_AXIS_ROWS : TM_AXIS_COLS;
}

static int lines_size(tm_fs *fs, const tm_node *node, tm_req *req, uint64_t *ret)
{
    (void)fs;
    size_t rank;
    const uint64_t *dims = tm_tensor_node_dims(node, &rank);
    tm_planes planes = tm_planes_of(dims, rank);
    *ret = tm_axis_text_size(&planes, axis_of(node));
    return *ret ? 0
                : tm_model_fail(node->mounted->model, node->item, req, EFBIG,
                                "has lines that fit no file");
}

static int lines_open(tm_fs *fs, const tm_node *node, tm_req *req, tm_blob **ret)
{
    TM_AUTO(tm_tensor_unrefp) tm_tensor *values = NULL;
    if (!tm_tensor_node_is_counted(node))
        return tm_model_fail(node->mounted->model, node->item, req, EOPNOTSUPP,
                             "has values that are not counted");
    TM_TRY(tm_tensor_node_values(node, req, &values));
    tm_tile_source source = tm_tensor_node_source(fs, node, values);
    int rc = tm_axis_text_new(&source, axis_of(node), TM_LANE_ANALYSIS, ret);
    return rc < 0 ? out_of_memory(req) : 0;
}

/* ---- stats/ ---- */

static int key_lookup(tm_fs *fs, const tm_node *node, const char *name, tm_req *req, tm_node *ret)
{
    size_t field;
    if (!tm_stats_field_find(name, strlen(name), &field))
        return -ENOENT;
    return tm_intern_child(fs, node, TM_KIND_STAT, name, req, ret);
}

#define TEXT .mode = S_IFREG | 0444, .lane = TM_LANE_ANALYSIS, .size = text_size, .open = text_open

#define LINES                                                                                      \
    .mode = S_IFREG | 0444, .lane = TM_LANE_ANALYSIS, .size = lines_size, .open = lines_open

const tm_kind_ops tm_stats_kinds[] = {
    {TEXT},  /* stats.json */
    {TEXT},  /* hist.tsv */
    {LINES}, /* rows.tsv */
    {LINES}, /* cols.tsv */
    {.mode = S_IFDIR | 0555, .lookup = key_lookup},
};

const tm_kind_ops tm_stat_kind[] = {{TEXT}};
