/* query/: NAME.q takes the text of a query, and the folder NAME shows what it comes to. */
#include <stdio.h>
#include <sys/stat.h>

#include "formats/table_query.h"
#include "fs/fs.h"
#include "fs/queries.h"

static int out_of_memory(tm_req *req)
{
    return tm_fail(req, ENOMEM, "out of memory");
}

/* The query that NODE (whose item is its number) belongs to, referenced. */
static int query_of(tm_fs *fs, const tm_node *node, tm_req *req, tm_kept_query **ret)
{
    *ret = tm_queries_by_number(fs->queries, node->item);
    return *ret ? 0 : tm_fail(req, ESTALE, "the query was removed");
}

/* ---- query/ ---- */

enum {
    NAME_BYTES_MAX = 255
};

static const char suffix[] = ".q";
#define SUFFIX_LEN (sizeof(suffix) - 1)

/* NAME without ".q", malloc'ed; NULL where it does not end so. */
static char *text_name(const char *name)
{
    size_t len = strlen(name);
    bool is_text = len > SUFFIX_LEN && strcmp(name + len - SUFFIX_LEN, suffix) == 0;
    return is_text ? strndup(name, len - SUFFIX_LEN) : NULL;
}

static int queries_lookup(tm_fs *fs, const tm_node *node, const char *name, tm_req *req,
                          tm_node *ret)
{
    (void)req;
    TM_AUTO_FREE char *stem = text_name(name);
    const char *model = node->mounted->name;
    TM_AUTO(tm_kept_query_unrefp)
    tm_kept_query *text = stem ? tm_queries_find(fs->queries, model, stem) : NULL;
    TM_AUTO(tm_kept_query_unrefp)
    tm_kept_query *folder = tm_queries_find(fs->queries, model, name);
    if (!text && !folder)
        return -ENOENT;
    *ret = text ? tm_node_child(node, TM_KIND_QUERY_TEXT, text->number, 0)
                : tm_node_child(node, TM_KIND_QUERY, folder->number, 0);
    return 0;
}

/* Two entries a query: its text and its folder. */
static int queries_list(tm_fs *fs, const tm_node *node, tm_lister *lister)
{
    const char *model = node->mounted->name;
    for (uint32_t number = (uint32_t)(lister->at / 2);;) {
        TM_AUTO(tm_kept_query_unrefp)
        tm_kept_query *q = tm_queries_from(fs->queries, model, number);
        TM_AUTO_FREE char *file = NULL;
        if (!q)
            return 0;
        if (asprintf(&file, "%s%s", q->name, suffix) < 0)
            return out_of_memory(lister->req);
        tm_node text = tm_node_near(node, TM_KIND_QUERY_TEXT, q->number, 0);
        tm_node folder = tm_node_near(node, TM_KIND_QUERY, q->number, 0);
        if (!tm_lister_add(lister, 2 * (uint64_t)q->number, file, &text) ||
            !tm_lister_add(lister, 2 * (uint64_t)q->number + 1, q->name, &folder))
            return 0;
        number = q->number + 1;
    }
}

static int queries_create(tm_fs *fs, const tm_node *node, const char *name, tm_req *req,
                          tm_node *ret)
{
    TM_AUTO_FREE char *stem = text_name(name);
    TM_AUTO(tm_kept_query_unrefp) tm_kept_query *q = NULL;
    TM_AUTO_FREE char *inner = stem ? text_name(stem) : NULL;
    if (strlen(name) > NAME_BYTES_MAX)
        return -ENAMETOOLONG;
    if (!stem)
        return tm_fail(req, EINVAL, "query/%s: the name of a query ends in .q", name);
    if (inner || strcmp(stem, ".") == 0 || strcmp(stem, "..") == 0)
        return tm_fail(req, EINVAL, "query/%s: no folder can be called %s", name, stem);
    TM_TRY(tm_queries_create(fs->queries, node->mounted->name, stem, req, &q));
    *ret = tm_node_child(node, TM_KIND_QUERY_TEXT, q->number, 0);
    return 0;
}

static int queries_remove(tm_fs *fs, const tm_node *node, const char *name, tm_req *req)
{
    (void)req;
    TM_AUTO_FREE char *stem = text_name(name);
    return stem ? tm_queries_remove(fs->queries, node->mounted->name, stem) : -EROFS;
}

/* ---- NAME.q ---- */

static int text_size(tm_fs *fs, const tm_node *node, tm_req *req, uint64_t *ret)
{
    TM_AUTO(tm_kept_query_unrefp) tm_kept_query *q = NULL;
    TM_TRY(query_of(fs, node, req, &q));
    *ret = tm_kept_query_size(q);
    return 0;
}

static int text_open(tm_fs *fs, const tm_node *node, tm_req *req, tm_blob **ret)
{
    TM_AUTO(tm_kept_query_unrefp) tm_kept_query *q = NULL;
    char *text;
    size_t len;
    TM_TRY(query_of(fs, node, req, &q));
    TM_TRY(tm_kept_query_text(q, req, &text, &len));
    return tm_fs_text_blob(text, len, req, ret);
}

static int text_write(tm_fs *fs, const tm_node *node, const tm_chunk *chunk, tm_req *req)
{
    TM_AUTO(tm_kept_query_unrefp) tm_kept_query *q = NULL;
    TM_TRY(query_of(fs, node, req, &q));
    return tm_kept_query_write(q, chunk, req);
}

static int text_truncate(tm_fs *fs, const tm_node *node, uint64_t size, tm_req *req)
{
    TM_AUTO(tm_kept_query_unrefp) tm_kept_query *q = NULL;
    TM_TRY(query_of(fs, node, req, &q));
    return tm_kept_query_truncate(q, size, req);
}

/* ---- The folder NAME ---- */

static const struct {
    const char *name;
    tm_kind kind;
} entries[] = {
    {"matches.tsv", TM_KIND_MATCHES},
    {"unknown.tsv", TM_KIND_UNKNOWN},
    {"error", TM_KIND_QUERY_ERROR},
};

static int query_lookup(tm_fs *fs, const tm_node *node, const char *name, tm_req *req, tm_node *ret)
{
    (void)fs, (void)req;
    for (size_t i = 0; i < TM_ARRAY_LEN(entries); i++) {
        if (strcmp(name, entries[i].name) == 0) {
            *ret = tm_node_child(node, entries[i].kind, node->item, 0);
            return 0;
        }
    }
    return -ENOENT;
}

/* A folder has none, but its query may be gone. */
static int folder_size(tm_fs *fs, const tm_node *node, tm_req *req, uint64_t *ret)
{
    TM_AUTO(tm_kept_query_unrefp) tm_kept_query *q = NULL;
    TM_TRY(query_of(fs, node, req, &q));
    *ret = 0;
    return 0;
}

static int query_list(tm_fs *fs, const tm_node *node, tm_lister *lister)
{
    uint64_t none;
    TM_TRY(folder_size(fs, node, lister->req, &none));
    for (size_t i = lister->at; i < TM_ARRAY_LEN(entries); i++) {
        tm_node child = tm_node_near(node, entries[i].kind, node->item, 0);
        if (!tm_lister_add(lister, i, entries[i].name, &child))
            break;
    }
    return 0;
}

/* ---- What it comes to ---- */

static int result_of(tm_fs *fs, const tm_node *node, tm_req *req, tm_query_result **ret)
{
    TM_AUTO(tm_kept_query_unrefp) tm_kept_query *q = NULL;
    TM_TRY(query_of(fs, node, req, &q));
    return tm_kept_query_ask(q, fs->session, node->mounted, req, ret);
}

/* A table and what it is rendered from. */
typedef struct found {
    tm_query_result *result; /* referenced */
    tm_known *known;
    tm_query_table_params params;
    tm_table *table;
} found;

static void found_free(void *ctx)
{
    found *f = ctx;
    tm_table_unref(f->table);
    tm_query_result_unref(f->result);
    tm_known_free(f->known);
    free(f);
}

static bool known_row(void *ctx, uint32_t row, tm_stats_record *ret)
{
    return tm_known_indexed(ctx, row, ret);
}

static int make_table(found *f, const tm_node *node, tm_req *req)
{
    const tm_answers *answers = &f->result->answers;
    bool matches = node->kind == TM_KIND_MATCHES;
    f->params = (tm_query_table_params){
        .model = node->mounted->model,
        .query = f->result->query,
        .rows = matches ? answers->matches : answers->unknown,
        .count = matches ? answers->match_count : answers->unknown_count,
        .known = known_row,
        .ctx = f->known,
    };
    int rc = matches ? tm_table_of_matches(&f->params, f->result->header, &f->table)
                     : tm_table_of_unknown(&f->params, &f->table);
    return rc < 0 ? out_of_memory(req) : 0;
}

static int found_new(tm_fs *fs, const tm_node *node, tm_req *req, found **ret)
{
    found *f = TM_NEW(found);
    if (!f)
        return out_of_memory(req);
    int rc = result_of(fs, node, req, &f->result);
    if (rc == 0)
        rc = tm_known_new(fs->session, node->mounted, req, &f->known);
    if (rc == 0 && f->result->query)
        rc = make_table(f, node, req);
    if (rc < 0) {
        found_free(f);
        return rc;
    }
    *ret = f;
    return 0;
}

/* Of a text that is no query there is no table. */
static int table_size(tm_fs *fs, const tm_node *node, tm_req *req, uint64_t *ret)
{
    found *f;
    TM_TRY(found_new(fs, node, req, &f));
    *ret = f->table ? tm_table_size(f->table) : 0;
    found_free(f);
    return 0;
}

static int table_open(tm_fs *fs, const tm_node *node, tm_req *req, tm_blob **ret)
{
    found *f;
    TM_TRY(found_new(fs, node, req, &f));
    if (!f->table) {
        found_free(f);
        return tm_blob_mem_new("", 0, ret) < 0 ? out_of_memory(req) : 0;
    }
    tm_waiting_table params = {.table = f->table,
                               .sched = fs->tree.sched,
                               .key = tm_mounted_key(node->mounted),
                               .owner = f,
                               .owner_unref = found_free};
    return tm_table_waiting_blob_new(&params, ret) < 0 ? out_of_memory(req) : 0;
}

static int error_size(tm_fs *fs, const tm_node *node, tm_req *req, uint64_t *ret)
{
    TM_AUTO(tm_query_result_unrefp) tm_query_result *result = NULL;
    TM_TRY(result_of(fs, node, req, &result));
    *ret = result->error ? strlen(result->error) : 0;
    return 0;
}

static int error_open(tm_fs *fs, const tm_node *node, tm_req *req, tm_blob **ret)
{
    TM_AUTO(tm_query_result_unrefp) tm_query_result *result = NULL;
    TM_TRY(result_of(fs, node, req, &result));
    const char *error = result->error ? result->error : "";
    return tm_blob_mem_new(error, strlen(error), ret) < 0 ? out_of_memory(req) : 0;
}

#define LIVE_FILE .mode = S_IFREG | 0444, .lane = TM_LANE_QUERY, .live = true

const tm_kind_ops tm_query_kinds[] = {
    {.mode = S_IFDIR | 0755,
     .live = true,
     .lookup = queries_lookup,
     .list = queries_list,
     .create = queries_create,
     .remove = queries_remove},
    {.mode = S_IFREG | 0644,
     .lane = TM_LANE_SELECTION,
     .live = true,
     .size = text_size,
     .open = text_open,
     .write = text_write,
     .truncate = text_truncate},
    {.mode = S_IFDIR | 0555, .lookup = query_lookup, .list = query_list, .size = folder_size},
    {LIVE_FILE, .size = table_size, .open = table_open}, /* matches.tsv */
    {LIVE_FILE, .size = table_size, .open = table_open}, /* unknown.tsv */
    {LIVE_FILE, .size = error_size, .open = error_open}, /* error */
};
