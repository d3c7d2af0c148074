/* models/NAME: what a checkpoint is, and its tensors. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/blob_lazy.h"
#include "formats/describe.h"
#include "fs/background.h"
#include "fs/fs.h"
#include "fs/known.h"
#include "fs/tensor_names.h"

static int out_of_memory(tm_req *req)
{
    return tm_fail(req, ENOMEM, "out of memory");
}

static const struct {
    const char *name;
    tm_kind kind;
} entries[] = {
    {"files", TM_KIND_FILES},
    {"state", TM_KIND_STATE},
    {"error", TM_KIND_ERROR},
    {"model.json", TM_KIND_MODEL_JSON},
    {"metadata.json", TM_KIND_METADATA_JSON},
    {"tensors.tsv", TM_KIND_TENSORS_TSV},
    {"stats.tsv", TM_KIND_STATS_TSV},
    {"layers.tsv", TM_KIND_LAYERS_TSV},
    {"index", TM_KIND_INDEX},
    {"query", TM_KIND_QUERIES},
    {"tensors", TM_KIND_TENSORS},
    {"tree", TM_KIND_MODULES},
    {"layers", TM_KIND_LAYERS},
    {"experts", TM_KIND_EXPERTS},
};

/* ---- The folder; of a collection, the folders of its members ---- */

static int member_lookup(tm_fs *fs, const tm_node *node, const char *name, tm_req *req,
                         tm_node *ret)
{
    tm_mounted *m = NULL;
    TM_TRY(tm_session_member(fs->session, node->mounted, name, req, &m));
    if (!tm_mounted_has_models(m)) {
        tm_mounted_unref(m);
        return -ENOENT;
    }
    *ret = (tm_node){.mounted = m, .kind = TM_KIND_MODEL};
    return 0;
}

static int model_lookup(tm_fs *fs, const tm_node *node, const char *name, tm_req *req, tm_node *ret)
{
    if (node->mounted->is_collection)
        return member_lookup(fs, node, name, req, ret);
    for (size_t i = 0; i < TM_ARRAY_LEN(entries); i++) {
        if (strcmp(name, entries[i].name) == 0) {
            *ret = tm_node_child(node, entries[i].kind, 0, 0);
            return 0;
        }
    }
    return -ENOENT;
}

static int members_list(tm_fs *fs, const tm_node *node, tm_lister *lister)
{
    const tm_mounted *m = node->mounted;
    tm_attr attr = {.ino = 0, .mode = S_IFDIR | 0555}; /* opened by its look-up */
    for (uint64_t i = lister->at; i < m->member_count; i++)
        if (tm_session_shows(fs->session, &m->members[i]) &&
            !lister->emit(lister->ctx, m->members[i].name, &attr, i + 1))
            break;
    return 0;
}

static int model_list(tm_fs *fs, const tm_node *node, tm_lister *lister)
{
    if (node->mounted->is_collection)
        return members_list(fs, node, lister);
    for (size_t i = 0; i < TM_ARRAY_LEN(entries); i++) {
        tm_node child = tm_node_near(node, entries[i].kind, 0, 0);
        if (!tm_lister_add(lister, i, entries[i].name, &child))
            break;
    }
    return 0;
}

static int files_link(tm_fs *fs, const tm_node *node, tm_req *req, char **ret)
{
    (void)fs;
    TM_AUTO_FREE char *rest = NULL;
    if (asprintf(&rest, "load/%s", node->mounted->name) < 0)
        return out_of_memory(req);
    *ret = tm_link_up(tm_mounted_depth(node->mounted) + 1, rest);
    return *ret ? 0 : out_of_memory(req);
}

/* ---- Texts that are rendered from the model alone ---- */

static void render(const tm_node *node, const char *fingerprint, tm_text *text)
{
    const tm_mounted *m = node->mounted;
    assert(m && m->model);
    tm_described described = {m->name, m->model, fingerprint};
    if (node->kind == TM_KIND_STATE)
        tm_text_printf(text, "%s\n", tm_describe_state(m->model));
    else if (node->kind == TM_KIND_ERROR)
        tm_describe_error(text, m->model);
    else if (node->kind == TM_KIND_METADATA_JSON)
        tm_describe_metadata(text, m->model);
    else
        tm_describe_model(text, &described);
}

static int render_bytes(const tm_node *node, const char *fingerprint, tm_req *req, char **ret,
                        size_t *ret_len)
{
    tm_text text;
    tm_text_init(&text);
    render(node, fingerprint, &text);
    int rc = tm_text_steal(&text, ret, ret_len);
    return rc < 0 ? tm_fail(req, -rc, "%s", strerror(-rc)) : 0;
}

/* Any fingerprint: they are all of one length. */
static const char no_fingerprint[] =
    "0000000000000000000000000000000000000000000000000000000000000000";

static int text_size(tm_fs *fs, const tm_node *node, tm_req *req, uint64_t *ret)
{
    (void)fs;
    tm_mounted *m = node->mounted;
    uint64_t *kept = node->kind == TM_KIND_MODEL_JSON      ? &m->model_json_size
                     : node->kind == TM_KIND_METADATA_JSON ? &m->metadata_json_size
                                                           : NULL;
    if (kept) {
        pthread_mutex_lock(&m->lock);
        *ret = *kept;
        pthread_mutex_unlock(&m->lock);
        if (*ret)
            return 0;
    }
    TM_AUTO_FREE char *bytes = NULL;
    size_t len;
    TM_TRY(render_bytes(node, no_fingerprint, req, &bytes, &len));
    *ret = len;
    if (kept) {
        pthread_mutex_lock(&m->lock);
        *kept = len;
        pthread_mutex_unlock(&m->lock);
    }
    return 0;
}

static int text_open(tm_fs *fs, const tm_node *node, tm_req *req, tm_blob **ret)
{
    (void)fs;
    char *bytes;
    size_t len;
    TM_TRY(render_bytes(node, no_fingerprint, req, &bytes, &len));
    return tm_fs_text_blob(bytes, len, req, ret);
}

/* ---- model.json: its fingerprint takes a look at the weights ---- */

typedef struct model_json {
    tm_session *session;
    tm_mounted *mounted;
    size_t size;
} model_json;

static void model_json_free(void *ctx)
{
    model_json *self = ctx;
    tm_mounted_unref(self->mounted);
    free(self);
}

/* Its size was told before it was made. */
static int pad_json(char *text_take, size_t len, size_t size, char **ret)
{
    assert(len > 0 && len <= size);
    char *padded = realloc(text_take, size);
    if (!padded) {
        free(text_take);
        return -ENOMEM;
    }
    memset(padded + len - 1, ' ', size - len);
    padded[size - 1] = '\n';
    *ret = padded;
    return 0;
}

static int model_json_make(void *ctx, tm_req *req, void **ret)
{
    model_json *self = ctx;
    char fingerprint[65];
    tm_node node = {.mounted = self->mounted, .kind = TM_KIND_MODEL_JSON};
    char *bytes;
    size_t len;
    /* Files that cannot be read have none, and that is no reason to show nothing. */
    int rc = tm_session_fingerprint(self->session, self->mounted, req, fingerprint);
    if (rc == -ENOMEM || rc == -EINTR)
        return rc;
    TM_TRY(render_bytes(&node, rc == 0 ? fingerprint : NULL, req, &bytes, &len));
    if (pad_json(bytes, len, self->size, &bytes) < 0)
        return out_of_memory(req);
    *ret = bytes;
    return 0;
}

static int model_json_open(tm_fs *fs, const tm_node *node, tm_req *req, tm_blob **ret)
{
    tm_lazy_params params = {.sched = fs->tree.sched,
                             .key = tm_mounted_key(node->mounted),
                             .make = model_json_make,
                             .free_ctx = model_json_free};
    TM_TRY(text_size(fs, node, req, &params.size));
    model_json *ctx = TM_NEW(model_json);
    if (!ctx)
        return out_of_memory(req);
    *ctx = (model_json){fs->session, tm_mounted_ref(node->mounted), params.size};
    params.ctx = ctx;
    return tm_blob_lazy_new(&params, ret) < 0 ? out_of_memory(req) : 0;
}

/* ---- tensors.tsv ---- */

/* The table that was measured already, referenced; NULL where none was. */
static tm_table *kept_table(tm_mounted *m)
{
    pthread_mutex_lock(&m->lock);
    tm_table *table = m->tensors_tsv ? tm_table_ref(m->tensors_tsv) : NULL;
    pthread_mutex_unlock(&m->lock);
    return table;
}

/* Keeps TABLE, unless another thread was first; returns the one kept. */
static tm_table *keep_table(tm_mounted *m, tm_table *table_take)
{
    pthread_mutex_lock(&m->lock);
    if (!m->tensors_tsv)
        m->tensors_tsv = tm_table_ref(table_take);
    tm_table *kept = tm_table_ref(m->tensors_tsv);
    pthread_mutex_unlock(&m->lock);
    tm_table_unref(table_take);
    return kept;
}

/* The table, referenced. Measuring it renders every row, half a second for a million of them: not
 * under the model's lock, nor by a thread that others wait for. */
static int tensors_table(tm_mounted *m, tm_req *req, tm_table **ret)
{
    assert(m->model);
    *ret = kept_table(m);
    if (*ret)
        return 0;
    if (!req->may_block)
        return -EINPROGRESS;
    tm_table *fresh;
    if (tm_table_of_tensors(m->model, &fresh) < 0)
        return out_of_memory(req);
    *ret = keep_table(m, fresh);
    return 0;
}

static int tsv_size(tm_fs *fs, const tm_node *node, tm_req *req, uint64_t *ret)
{
    (void)fs;
    tm_table *table;
    TM_TRY(tensors_table(node->mounted, req, &table));
    *ret = tm_table_size(table);
    tm_table_unref(table);
    return 0;
}

static void unref_mounted(void *m)
{
    tm_mounted_unref(m);
}

static int tsv_open(tm_fs *fs, const tm_node *node, tm_req *req, tm_blob **ret)
{
    (void)fs;
    tm_table *table;
    TM_TRY(tensors_table(node->mounted, req, &table));
    int rc = tm_table_blob_new(table, tm_mounted_ref(node->mounted), unref_mounted, ret);
    tm_table_unref(table);
    return rc < 0 ? out_of_memory(req) : 0;
}

/* ---- stats.tsv, layers.tsv: what is known, when they are read, and never more ---- */

typedef struct known_table {
    tm_known *known;
    tm_stats_table_params params;
} known_table;

static void known_table_free(void *self)
{
    tm_known_free(((known_table *)self)->known);
    free(self);
}

static bool known_row(void *ctx, uint32_t row, tm_stats_record *ret)
{
    return tm_known_record(((const known_table *)ctx)->known, row, ret);
}

/* Measures it: a million rows take a while. */
static int measure(const tm_node *node, const tm_stats_table_params *params, tm_req *req,
                   tm_table **ret)
{
    if (!req->may_block)
        return -EINPROGRESS;
    int rc = node->kind == TM_KIND_STATS_TSV ? tm_table_of_stats(params, ret)
                                             : tm_table_of_layers(params, ret);
    return rc < 0 ? out_of_memory(req) : 0;
}

static int known_size(tm_fs *fs, const tm_node *node, tm_req *req, uint64_t *ret)
{
    (void)fs;
    tm_mounted *m = node->mounted;
    uint64_t *size = node->kind == TM_KIND_STATS_TSV ? &m->stats_tsv_size : &m->layers_tsv_size;
    tm_stats_table_params params = {.model = m->model};
    tm_table *table;
    pthread_mutex_lock(&m->lock);
    *ret = *size;
    pthread_mutex_unlock(&m->lock);
    if (*ret)
        return 0;
    TM_TRY(measure(node, &params, req, &table));
    pthread_mutex_lock(&m->lock);
    *ret = *size = tm_table_size(table);
    pthread_mutex_unlock(&m->lock);
    tm_table_unref(table);
    return 0;
}

static int known_open(tm_fs *fs, const tm_node *node, tm_req *req, tm_blob **ret)
{
    TM_AUTO(tm_known_freep) tm_known *known = NULL;
    tm_mounted *m = node->mounted;
    TM_TRY(tm_known_new(fs->session, m, req, &known));
    known_table *self = TM_NEW(known_table);
    if (!self)
        return out_of_memory(req);
    self->known = TM_STEAL(known);
    self->params = (tm_stats_table_params){m->model, known_row, self};
    tm_waiting_table params = {.sched = fs->tree.sched,
                               .key = tm_mounted_key(m),
                               .owner = self,
                               .owner_unref = known_table_free};
    int rc = measure(node, &self->params, req, &params.table);
    if (rc < 0) {
        known_table_free(self);
        return rc;
    }
    rc = tm_table_waiting_blob_new(&params, ret);
    tm_table_unref(params.table);
    return rc < 0 ? out_of_memory(req) : 0;
}

/* ---- index/ ---- */

static const struct {
    const char *name;
    tm_kind kind;
} index_entries[] = {
    {"state", TM_KIND_INDEX_STATE},
    {"done", TM_KIND_INDEX_DONE},
    {"total", TM_KIND_INDEX_TOTAL},
};

static int index_lookup(tm_fs *fs, const tm_node *node, const char *name, tm_req *req, tm_node *ret)
{
    (void)fs, (void)req;
    for (size_t i = 0; i < TM_ARRAY_LEN(index_entries); i++) {
        if (strcmp(name, index_entries[i].name) == 0) {
            *ret = tm_node_child(node, index_entries[i].kind, 0, 0);
            return 0;
        }
    }
    return -ENOENT;
}

static int index_list(tm_fs *fs, const tm_node *node, tm_lister *lister)
{
    (void)fs;
    for (size_t i = lister->at; i < TM_ARRAY_LEN(index_entries); i++) {
        tm_node child = tm_node_near(node, index_entries[i].kind, 0, 0);
        if (!tm_lister_add(lister, i, index_entries[i].name, &child))
            break;
    }
    return 0;
}

enum {
    INDEX_TEXT_BYTES = 25
};

static int index_size(tm_fs *fs, const tm_node *node, tm_req *req, uint64_t *ret)
{
    (void)fs, (void)node, (void)req;
    *ret = INDEX_TEXT_BYTES;
    return 0;
}

static int index_open(tm_fs *fs, const tm_node *node, tm_req *req, tm_blob **ret)
{
    static const char *const states[] = {"none", "partial", "fresh", "stale"};
    tm_indexes *indexes;
    char text[INDEX_TEXT_BYTES + 1];
    if (!req->may_block)
        return -EINPROGRESS;
    TM_TRY(tm_indexes_get(fs->session, node->mounted, req, &indexes));
    tm_index_report report = tm_indexes_report(indexes, req);
    tm_indexes_unref(indexes);
    uint64_t under_way;
    if (tm_background_has(tm_session_background(fs->session), node->mounted, &under_way) &&
        report.state != TM_INDEX_FRESH) {
        report.state = TM_INDEX_PARTIAL;
        report.done = tm_max_u64(report.done, under_way);
    }
    if (node->kind == TM_KIND_INDEX_STATE)
        snprintf(text, sizeof(text), "%*s\n", INDEX_TEXT_BYTES - 1, states[report.state]);
    else
        snprintf(text, sizeof(text), "%*" PRIu64 "\n", INDEX_TEXT_BYTES - 1,
                 node->kind == TM_KIND_INDEX_DONE ? report.done : report.total);
    char *copy = strdup(text);
    return copy ? tm_fs_text_blob(copy, INDEX_TEXT_BYTES, req, ret) : out_of_memory(req);
}

/* ---- tensors/ ---- */

static int tensors_lookup(tm_fs *fs, const tm_node *node, const char *name, tm_req *req,
                          tm_node *ret)
{
    (void)fs, (void)req;
    const tm_model *model = node->mounted->model;
    const char *alias;
    uint32_t row;
    if (tm_tensor_by_file(&model->table, name, &row)) {
        *ret = tm_node_child(node, TM_KIND_TENSOR, row, 0);
        return 0;
    }
    if (tm_model_tied(model, &alias, &row) && strcmp(name, alias) == 0) {
        *ret = tm_node_child(node, TM_KIND_TIED_LINK, row, 0);
        return 0;
    }
    return -ENOENT;
}

static int tensors_list(tm_fs *fs, const tm_node *node, tm_lister *lister)
{
    (void)fs;
    const tm_tensor_table *table = &node->mounted->model->table;
    char file[TM_FILE_NAME_MAX + 1];
    for (uint64_t row = lister->at; row < table->count; row++) {
        tm_node child = tm_node_near(node, TM_KIND_TENSOR, (uint32_t)row, 0);
        tm_tensor_file(table, (uint32_t)row, file);
        if (!tm_lister_add(lister, row, file, &child))
            break;
    }
    return 0;
}

static int tied_link(tm_fs *fs, const tm_node *node, tm_req *req, char **ret)
{
    (void)fs;
    assert(node->item < node->mounted->model->table.count);
    *ret = tm_tensor_link(&node->mounted->model->table, node->item, 0, "");
    return *ret ? 0 : out_of_memory(req);
}

#define TEXT_FILE .mode = S_IFREG | 0444, .lane = TM_LANE_SELECTION

const tm_kind_ops tm_model_kinds[] = {
    {.mode = S_IFDIR | 0555, .lookup = model_lookup, .list = model_list},
    {.mode = S_IFLNK | 0777, .link = files_link},
    {TEXT_FILE, .live = true, .size = text_size, .open = text_open}, /* state */
    {TEXT_FILE, .live = true, .size = text_size, .open = text_open}, /* error */
    {TEXT_FILE, .size = text_size, .open = model_json_open},
    {TEXT_FILE, .size = text_size, .open = text_open}, /* metadata.json */
    {TEXT_FILE, .size = tsv_size, .open = tsv_open},
    {TEXT_FILE, .fresh = true, .size = known_size, .open = known_open}, /* stats.tsv */
    {TEXT_FILE, .fresh = true, .size = known_size, .open = known_open}, /* layers.tsv */
    {.mode = S_IFDIR | 0555, .lookup = index_lookup, .list = index_list},
    {TEXT_FILE, .live = true, .size = index_size, .open = index_open}, /* index/state */
    {TEXT_FILE, .live = true, .size = index_size, .open = index_open}, /* index/done */
    {TEXT_FILE, .live = true, .size = index_size, .open = index_open}, /* index/total */
    {.mode = S_IFDIR | 0555, .lookup = tensors_lookup, .list = tensors_list},
    {.mode = S_IFLNK | 0777, .link = tied_link},
};
