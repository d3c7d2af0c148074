#include "formats/checkpoint.h"

#include <stdio.h>

#include "core/blob_file.h"
#include "core/order.h"
#include "core/prefetch.h"
#include "formats/config.h"
#include "formats/quant.h"
#include "formats/safetensors.h"
#include "formats/shard_index.h"
#include "formats/weight_files.h"

/* What an open works with. */
typedef struct opening {
    const tm_checkpoint_params *params;
    tm_req *req;
    tm_model *model;
    tm_shard_index index; /* empty where there is none */
    bool has_index;
    tm_config config;
} opening;

/* One file's trouble is not the checkpoint's: it is read under a request of its own. */
static opening with_request(const opening *o, tm_req *req)
{
    tm_req_init_part(req, o->req);
    opening sub = *o;
    sub.req = req;
    return sub;
}

/* Want of memory fails the whole open, the end of its own request does, and a source that is one
 * file of our own mount. */
static int pass_fatal(opening *o, int rc, const tm_req *req)
{
    TM_TRY(tm_req_check_wait(o->req));
    bool fatal = rc == -ENOMEM || (rc == -ELOOP && o->params->listing->is_file);
    return fatal ? tm_fail(o->req, -rc, "%s", tm_req_words(req)) : 0;
}

/* ---- Bytes of a file of the listing ---- */

typedef struct blob_source {
    tm_sched *sched;
    tm_blob *blob;
} blob_source;

static int read_blob_source(void *ctx, uint64_t off, void *dst, size_t len, tm_req *req)
{
    blob_source *src = ctx;
    return tm_read_wait(src->sched, src->blob, off, len, dst, req);
}

static void look_ahead(void *ctx, uint64_t off, size_t len, tm_lane lane)
{
    const blob_source *src = ctx;
    tm_prefetch_ask(src->sched, src->blob, lane, src->blob, off, len);
}

static int open_blob(opening *o, const char *path, tm_blob **ret)
{
    TM_AUTO_FREE char *full = tm_listing_path(o->params->listing, path);
    tm_file *file = NULL;
    if (!full)
        return tm_fail(o->req, ENOMEM, "out of memory");
    TM_TRY(tm_file_new(o->params->files, full, o->req, &file));
    int rc = tm_blob_file_new(o->params->sched, file, ret);
    tm_file_unref(file);
    return rc < 0 ? tm_fail(o->req, -rc, "out of memory") : 0;
}

static tm_byte_source byte_source(const char *name, blob_source *src)
{
    return (tm_byte_source){.name = name,
                            .size = src->blob->size,
                            .ctx = src,
                            .read = read_blob_source,
                            .ahead = look_ahead};
}

/* ---- Weight files ---- */

static tm_model_file *add_file(opening *o, const char *name)
{
    tm_model *model = o->model;
    tm_model_file *grown = reallocarray(model->files, model->file_count + 1, sizeof(*model->files));
    char *copy = strdup(name);
    if (grown)
        model->files = grown;
    if (!grown || !copy) {
        free(copy);
        return NULL;
    }
    tm_model_file *file = &model->files[model->file_count++];
    *file = (tm_model_file){.name = copy};
    return file;
}

/* Reads the header of the file last added. Only want of memory and a cancel fail the open. */
static int read_header(opening *o, tm_model_file *file)
{
    tm_req req;
    opening sub = with_request(o, &req);
    tm_safetensors header;
    int rc = open_blob(&sub, file->name, &file->blob);
    if (rc == 0) {
        blob_source ctx = {o->params->sched, file->blob};
        tm_byte_source src = byte_source(file->name, &ctx);
        tm_safetensors_sink sink = {&o->model->table, &o->model->metadata, &o->model->diag,
                                    o->model->file_count - 1};
        rc = tm_safetensors_read(&src, &sink, &req, &header);
    }
    TM_TRY(pass_fatal(o, rc, &req));
    file->damaged = rc < 0;
    file->header_bytes = rc == 0 ? header.header_bytes : 0;
    if (rc < 0 && rc != -EBADMSG)
        tm_diag_add(&o->model->diag, TM_DAMAGE, "%s: %s", file->name, tm_req_words(&req));
    return 0;
}

static int add_weight_file(opening *o, const char *name)
{
    tm_model_file *file = add_file(o, name);
    return file ? read_header(o, file) : tm_fail(o->req, ENOMEM, "out of memory");
}

static uint32_t tensors_mapped_to(const tm_shard_index *index, uint32_t file)
{
    assert(file < index->file_count);
    uint32_t n = 0;
    for (uint32_t i = 0; i < index->entry_count; i++)
        n += index->entries[i].file == file;
    return n;
}

static int add_missing_file(opening *o, uint32_t i)
{
    if (!add_file(o, o->index.files[i]))
        return tm_fail(o->req, ENOMEM, "out of memory");
    o->model->files[i].damaged = true;
    tm_diag_add(&o->model->diag, TM_DAMAGE,
                "%s: missing; the %u tensors that the index maps to it cannot be shown",
                o->index.files[i], tensors_mapped_to(&o->index, i));
    return 0;
}

/* The files of the index, in its order: file I of the model is file I of the index. */
static int add_indexed_files(opening *o)
{
    for (uint32_t i = 0; i < o->index.file_count; i++) {
        const char *name = o->index.files[i];
        size_t entry;
        bool found = tm_listing_find(o->params->listing, name, strlen(name), &entry);
        TM_TRY(found ? add_weight_file(o, name) : add_missing_file(o, i));
    }
    return 0;
}

static int read_index(opening *o, size_t entry)
{
    const char *name = o->params->listing->entries[entry].path;
    TM_AUTO(tm_blob_unrefp) tm_blob *blob = NULL;
    tm_req req;
    opening sub = with_request(o, &req);
    int rc = open_blob(&sub, name, &blob);
    if (rc == 0) {
        blob_source ctx = {o->params->sched, blob};
        tm_byte_source src = byte_source(name, &ctx);
        rc = tm_shard_index_read(&src, &req, &o->index);
    }
    TM_TRY(pass_fatal(o, rc, &req));
    o->has_index = rc == 0;
    if (rc < 0) {
        const char *words = tm_req_words(&req);
        bool named = strncmp(words, name, strlen(name)) == 0;
        tm_diag_add(&o->model->diag, TM_DAMAGE, "%s%s%s", named ? "" : name, named ? "" : ": ",
                    words);
    }
    return 0;
}

static int add_files(opening *o)
{
    const tm_listing *listing = o->params->listing;
    size_t index_entry;
    if (!listing->is_file && tm_weight_files_index(listing, &index_entry)) {
        TM_TRY(read_index(o, index_entry));
        if (o->has_index)
            return add_indexed_files(o);
    }
    TM_AUTO_FREE size_t *entries = tm_new_array(listing->count, sizeof(*entries));
    if (!entries)
        return tm_fail(o->req, ENOMEM, "out of memory");
    size_t n = tm_weight_files_find(listing, entries);
    for (size_t i = 0; i < n; i++)
        TM_TRY(add_weight_file(o, listing->entries[entries[i]].path));
    return 0;
}

/* ---- One row a name ---- */

static bool same_name(const tm_tensor_table *t, const tm_tensor_row *a, const tm_tensor_row *b)
{
    return a->name_len == b->name_len &&
           memcmp(tm_row_name(t, a), tm_row_name(t, b), a->name_len) == 0;
}

/* Of rows [first, end) with one name: the one that counts. Words about the others. */
static tm_tensor_row choose_row(opening *o, uint32_t first, uint32_t end)
{
    const tm_tensor_table *t = &o->model->table;
    assert(first < end && end <= t->count);
    tm_tensor_row chosen = t->rows[first];
    uint32_t mapped;
    char words[TM_WORDS_NAME_MAX];
    const char *name = tm_row_name(t, &chosen);
    bool is_mapped = o->has_index && tm_shard_index_find(&o->index, name, chosen.name_len, &mapped);
    bool in_mapped = false;
    for (uint32_t i = first; is_mapped && i < end; i++) {
        if (t->rows[i].file == mapped) {
            chosen = t->rows[i];
            in_mapped = true;
        }
    }
    is_mapped = in_mapped;
    if (end - first == 1)
        return chosen;
    tm_words_name(name, chosen.name_len, words);
    for (uint32_t i = first; i < end; i++) {
        const char *file = o->model->files[t->rows[i].file].name;
        if (t->rows[i].file == chosen.file)
            continue;
        if (is_mapped)
            tm_diag_add(&o->model->diag, TM_WARNING,
                        "%s: tensor '%s' stands here too; the index maps it to %s", file, words,
                        o->model->files[chosen.file].name);
        else
            tm_diag_add(&o->model->diag, TM_DAMAGE,
                        "%s: tensor '%s' stands in %s too, and no index says which counts", file,
                        words, o->model->files[chosen.file].name);
    }
    if (!is_mapped)
        chosen.flags |= TM_ROW_REFUSED;
    return chosen;
}

static void keep_one_row_a_name(opening *o)
{
    tm_tensor_table *t = &o->model->table;
    uint32_t kept = 0;
    for (uint32_t first = 0, end; first < t->count; first = end) {
        for (end = first + 1; end < t->count && same_name(t, &t->rows[first], &t->rows[end]);)
            end++;
        t->rows[kept++] = choose_row(o, first, end);
    }
    t->count = kept;
}

/* What the index says and the headers do not, and the other way round: headers win. */
static void compare_with_index(opening *o)
{
    const tm_tensor_table *t = &o->model->table;
    uint32_t unlisted = 0, stale = 0, row, mapped;
    char example[TM_WORDS_NAME_MAX];
    for (uint32_t i = 0; i < t->count; i++)
        unlisted += !tm_shard_index_find(&o->index, tm_row_name(t, &t->rows[i]),
                                         t->rows[i].name_len, &mapped);
    for (uint32_t i = 0; i < o->index.entry_count; i++) {
        const tm_shard_entry *e = &o->index.entries[i];
        const char *name = o->index.names + e->name_off;
        bool readable = !o->model->files[e->file].damaged;
        bool there = tm_tensor_table_find(t, name, e->name_len, &row);
        if (!readable || (there && t->rows[row].file == e->file))
            continue;
        if (stale++ == 0)
            tm_words_name(name, e->name_len, example);
    }
    if (unlisted)
        tm_diag_add(&o->model->diag, TM_WARNING,
                    "%u tensors stand in the shards, but not in the index", unlisted);
    if (stale)
        tm_diag_add(&o->model->diag, TM_WARNING,
                    "the index maps %u tensors to shards that do not have them, such as '%s'",
                    stale, example);
}

/* ---- Metadata: every shard repeats what it says of all; the first to say it counts ---- */

static int compare_keys(const void *ctx, uint32_t a, uint32_t b)
{
    const tm_metadata_pair *x = (const tm_metadata_pair *)ctx + a;
    const tm_metadata_pair *y = (const tm_metadata_pair *)ctx + b;
    return tm_name_cmp(x->key, x->key_len, y->key, y->key_len);
}

static void drop_pairs_without_value(tm_metadata *m)
{
    size_t kept = 0;
    for (size_t i = 0; i < m->count; i++) {
        if (m->pairs[i].value)
            m->pairs[kept++] = m->pairs[i];
        else
            free(m->pairs[i].key);
    }
    m->count = kept;
}

static int keep_first_metadata(opening *o)
{
    tm_metadata *m = &o->model->metadata;
    TM_AUTO_FREE uint32_t *order = NULL;
    if (o->model->file_count < 2 || m->count < 2)
        return 0;
    if (m->count > UINT32_MAX)
        return tm_fail(o->req, EFBIG, "%s: too much metadata", o->params->source);
    if (tm_order_new((uint32_t)m->count, compare_keys, m->pairs, &order) < 0)
        return tm_fail(o->req, ENOMEM, "out of memory");
    for (size_t i = 1; i < m->count; i++)
        if (compare_keys(m->pairs, order[i - 1], order[i]) == 0)
            free(TM_STEAL(m->pairs[order[i]].value));
    drop_pairs_without_value(m);
    return 0;
}

/* ---- What the folder says beside its weights ---- */

static const char config_name[] = "config.json";

/* The bytes of config.json, malloc'ed: NULL where it has too many, for the parser to say so. */
static int read_config_bytes(opening *o, const char *name, char **ret, size_t *ret_len)
{
    TM_AUTO(tm_blob_unrefp) tm_blob *blob = NULL;
    TM_TRY(open_blob(o, name, &blob));
    *ret_len = blob->size;
    if (blob->size > TM_CONFIG_BYTES_MAX)
        return 0;
    TM_AUTO_FREE char *bytes = malloc(blob->size + 1);
    if (!bytes)
        return tm_fail(o->req, ENOMEM, "out of memory");
    TM_TRY(tm_read_wait(o->params->sched, blob, 0, blob->size, bytes, o->req));
    *ret = TM_STEAL(bytes);
    return 0;
}

/* A config that cannot be read is a warning: the weights do not need it. */
static int read_config(opening *o)
{
    const char *name = config_name;
    size_t entry, len = 0;
    if (!tm_listing_find(o->params->listing, name, strlen(name), &entry) ||
        o->params->listing->entries[entry].is_dir)
        return 0;
    TM_AUTO_FREE char *bytes = NULL;
    tm_req req;
    opening sub = with_request(o, &req);
    int rc = read_config_bytes(&sub, name, &bytes, &len);
    TM_TRY(pass_fatal(o, rc, &req));
    if (rc < 0)
        tm_diag_add(&o->model->diag, TM_WARNING, "%s: %s", name, tm_req_words(&req));
    else if (tm_config_parse(bytes, len, name, &o->model->diag, &o->config) < 0)
        return tm_fail(o->req, ENOMEM, "out of memory");
    return 0;
}

static bool is_used(const tm_model *model, const char *path)
{
    for (uint32_t i = 0; i < model->file_count; i++)
        if (strcmp(model->files[i].name, path) == 0)
            return true;
    return false;
}

static int find_unused(opening *o)
{
    const tm_listing *listing = o->params->listing;
    o->model->unused = tm_new_array(listing->count, sizeof(char *));
    if (!o->model->unused)
        return tm_fail(o->req, ENOMEM, "out of memory");
    for (size_t i = 0; i < listing->count; i++) {
        const tm_entry *entry = &listing->entries[i];
        if (entry->is_dir || !tm_weight_files_is_weight(entry->path) ||
            is_used(o->model, entry->path))
            continue;
        char *copy = strdup(entry->path);
        if (!copy)
            return tm_fail(o->req, ENOMEM, "out of memory");
        o->model->unused[o->model->unused_count++] = copy;
    }
    return 0;
}

static int describe(opening *o)
{
    tm_model *model = o->model;
    model->mtime_ns = o->params->listing->mtime_ns;
    model->tied = o->config.tied;
    model->source = strdup(o->params->source);
    if (o->config.architecture)
        model->architecture = strdup(o->config.architecture);
    if (!model->source || (o->config.architecture && !model->architecture))
        return tm_fail(o->req, ENOMEM, "out of memory");
    return find_unused(o);
}

/* ---- All of it ---- */

bool tm_checkpoint_has_weights(const tm_listing *listing)
{
    size_t entry;
    TM_AUTO_FREE size_t *entries = tm_new_array(listing->count, sizeof(*entries));
    return entries &&
           (tm_weight_files_index(listing, &entry) || tm_weight_files_find(listing, entries) > 0);
}

bool tm_checkpoint_reads(const tm_model *model, const char *path)
{
    return strcmp(path, config_name) == 0 || is_used(model, path) ||
           tm_weight_files_is_index(path) || tm_weight_files_is_weight(path);
}

static int open_all(opening *o)
{
    tm_model *model = o->model;
    TM_TRY(add_files(o));
    if (tm_tensor_table_seal(&model->table) < 0)
        return tm_fail(o->req, ENOMEM, "out of memory");
    keep_one_row_a_name(o);
    if (o->has_index)
        compare_with_index(o);
    TM_TRY(keep_first_metadata(o));
    TM_TRY(read_config(o));
    TM_TRY(describe(o));
    if (tm_structure_build(&model->structure, &model->table) < 0)
        return tm_fail(o->req, ENOMEM, "out of memory");
    return tm_quant_find(model, &o->config, o->req);
}

int tm_checkpoint_open(const tm_checkpoint_params *params, tm_req *req, tm_model **ret)
{
    assert(req->may_block);
    if (!tm_checkpoint_has_weights(params->listing))
        return tm_fail(req, ENOENT, "%s: no weights that can be read", params->source);
    TM_AUTO(tm_model_unrefp) tm_model *model = NULL;
    if (tm_model_new(&model) < 0)
        return tm_fail(req, ENOMEM, "out of memory");
    opening o = {.params = params, .req = req, .model = model};
    tm_shard_index_init(&o.index);
    tm_config_init(&o.config);
    int rc = open_all(&o);
    tm_shard_index_done(&o.index);
    tm_config_done(&o.config);
    if (rc == 0)
        *ret = TM_STEAL(model);
    return rc;
}
