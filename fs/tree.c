#include "fs/tree.h"

#include <sys/stat.h>
#include <time.h>

#include "fs/fs.h"
#include "fs/intern.h"
#include "fs/queries.h"

/* ---- Inode numbers ---- */

enum {
    SUB_BITS = 14,
    ITEM_BITS = 24,
    KIND_BITS = 8
};
enum {
    KIND_SHIFT = SUB_BITS + ITEM_BITS,
    SERIAL_SHIFT = KIND_SHIFT + KIND_BITS
};
static_assert(TM_KIND_COUNT <= 1 << KIND_BITS, "a kind must fit its bits");

static bool is_interned(tm_kind kind)
{
    return kind >= TM_KIND_AT && kind <= TM_KIND_LOD_FILE;
}

static uint64_t make_ino(uint32_t serial, tm_kind kind, uint64_t rest)
{
    assert(rest >> KIND_SHIFT == 0 && kind < TM_KIND_COUNT);
    return (uint64_t)serial << SERIAL_SHIFT | (uint64_t)kind << KIND_SHIFT | rest;
}

uint64_t tm_node_ino(const tm_node *node)
{
    if (node->kind == TM_KIND_ROOT)
        return TM_INO_ROOT;
    uint64_t rest =
        node->interned ? node->interned->number : (uint64_t)node->item << SUB_BITS | node->sub;
    return make_ino(node->mounted ? node->mounted->serial : 0, node->kind, rest);
}

/* ---- Nodes ---- */

tm_node tm_node_near(const tm_node *node, tm_kind kind, uint32_t item, uint32_t sub)
{
    assert(item <= TM_NODE_ITEM_MAX && sub <= TM_NODE_SUB_MAX);
    return (tm_node){.mounted = node->mounted, .kind = kind, .item = item, .sub = sub};
}

tm_node tm_node_child(const tm_node *node, tm_kind kind, uint32_t item, uint32_t sub)
{
    tm_node child = tm_node_near(node, kind, item, sub);
    if (child.mounted)
        tm_mounted_ref(child.mounted);
    return child;
}

void tm_node_done(tm_node *node)
{
    tm_mounted_unref(node->mounted);
    if (node->interned)
        tm_intern_release(node->interned);
    memset(node, 0, sizeof(*node));
}

static bool is_entry(tm_kind kind)
{
    return kind >= TM_KIND_LOAD_DIR && kind <= TM_KIND_LOAD_LINK;
}

static int replaced(tm_req *req)
{
    return tm_fail(req, ESTALE, "what was mounted here was replaced or removed");
}

static int resolve(tm_fs *fs, uint64_t ino, tm_req *req, tm_node *ret)
{
    uint32_t serial = (uint32_t)(ino >> SERIAL_SHIFT);
    uint64_t rest = ino & ((UINT64_C(1) << KIND_SHIFT) - 1);
    tm_node node = {.kind = (tm_kind)(ino >> KIND_SHIFT & ((1u << KIND_BITS) - 1))};
    if (ino == TM_INO_ROOT) {
        *ret = (tm_node){.kind = TM_KIND_ROOT};
        return 0;
    }
    if (serial && !(node.mounted = tm_session_by_serial(fs->session, serial)))
        return replaced(req);
    if (is_interned(node.kind)) {
        node.interned = tm_intern_find(fs->intern, rest);
        if (!node.interned || !node.mounted || node.interned->serial != serial) {
            tm_node_done(&node);
            return -ESTALE;
        }
        node.item = node.interned->item;
        node.sub = node.interned->sub;
    } else {
        node.item = (uint32_t)(rest >> SUB_BITS);
        node.sub = (uint32_t)(rest & TM_NODE_SUB_MAX);
    }
    if (is_entry(node.kind) && (!node.mounted || !tm_mounted_entry(node.mounted, node.item))) {
        tm_node_done(&node);
        return replaced(req);
    }
    *ret = node;
    return 0;
}

/* ---- Kinds ---- */

typedef struct kind_range {
    tm_kind first, last;
    const tm_kind_ops *ops; /* of first and on */
} kind_range;

static const kind_range ranges[] = {
    {TM_KIND_ROOT, TM_KIND_MODELS, tm_root_kinds},
    {TM_KIND_CONTROL, TM_KIND_USED, tm_control_kinds},
    {TM_KIND_LOAD, TM_KIND_LOAD_LINK, tm_load_kinds},
    {TM_KIND_MODEL, TM_KIND_TIED_LINK, tm_model_kinds},
    {TM_KIND_QUERIES, TM_KIND_QUERY_ERROR, tm_query_kinds},
    {TM_KIND_MODULES, TM_KIND_MODULE_STATS, tm_module_kinds},
    {TM_KIND_LAYERS, TM_KIND_LAYER_STATS, tm_layer_kinds},
    {TM_KIND_TENSOR, TM_KIND_SLICE_DIR, tm_tensor_kinds},
    {TM_KIND_STATS_JSON, TM_KIND_STATS_DIR, tm_stats_kinds},
    {TM_KIND_AT, TM_KIND_SLICE, tm_view_kinds},
    {TM_KIND_STAT, TM_KIND_STAT, tm_stat_kind},
    {TM_KIND_LOD, TM_KIND_LOD, tm_lod_kinds},
    {TM_KIND_LOD_LEVEL, TM_KIND_LOD_FILE, tm_lod_named_kinds},
};

const tm_kind_ops *tm_kind_get(tm_kind kind)
{
    for (size_t i = 0; i < TM_ARRAY_LEN(ranges); i++)
        if (kind >= ranges[i].first && kind <= ranges[i].last)
            return &ranges[i].ops[kind - ranges[i].first];
    return NULL;
}

/* A collection's members come and go; what a model consists of stays. */
static bool is_live(const tm_node *node, const tm_kind_ops *ops)
{
    return ops->live || (node->kind == TM_KIND_MODEL && node->mounted->is_collection);
}

int tm_fs_attr(tm_fs *fs, const tm_node *node, tm_req *req, tm_attr *ret)
{
    const tm_kind_ops *ops = tm_kind_get(node->kind);
    if (!ops)
        return -ESTALE;
    tm_attr attr = {
        .ino = tm_node_ino(node),
        .mode = ops->mode,
        .mtime_ns = ops->mtime      ? ops->mtime(fs, node)
                    : node->mounted ? node->mounted->mtime_ns
                                    : fs->started_ns,
        .live = is_live(node, ops),
    };
    if (ops->size)
        TM_TRY(ops->size(fs, node, req, &attr.size));
    if (ops->link) {
        TM_AUTO_FREE char *target = NULL;
        TM_TRY(ops->link(fs, node, req, &target));
        attr.size = strlen(target);
    }
    *ret = attr;
    return 0;
}

bool tm_lister_emit(tm_lister *lister, uint64_t number, const char *name, const tm_node *node)
{
    tm_attr attr;
    if (tm_fs_attr(lister->fs, node, lister->req, &attr) < 0)
        attr = (tm_attr){.ino = 0, .mode = tm_kind_get(node->kind)->mode};
    attr.name_live = lister->live;
    return lister->emit(lister->ctx, name, &attr, number + 1);
}

bool tm_lister_add(tm_lister *lister, uint64_t number, const char *name, const tm_node *node)
{
    return number < lister->at || tm_lister_emit(lister, number, name, node);
}

int tm_fs_text_blob(char *text_take, size_t len, tm_req *req, tm_blob **ret)
{
    return tm_blob_mem_take(text_take, len, ret) < 0 ? tm_fail(req, ENOMEM, "out of memory") : 0;
}

/* ---- The tree's calls ---- */

static tm_fs *as_fs(tm_tree *tree)
{
    return TM_CONTAINER(tree, tm_fs, tree);
}

static int fs_lookup(tm_tree *tree, uint64_t parent, const char *name, tm_req *req, tm_attr *ret)
{
    tm_fs *fs = as_fs(tree);
    TM_AUTO(tm_node_done) tm_node dir = {0};
    TM_AUTO(tm_node_done) tm_node node = {0};
    TM_TRY(resolve(fs, parent, req, &dir));
    const tm_kind_ops *ops = tm_kind_get(dir.kind);
    if (!ops || !ops->lookup)
        return -ENOTDIR;
    bool live = is_live(&dir, ops);
    /* A name to come in load/ or query/ is waited for, a file of a source is not. */
    ret->live = live && (!dir.mounted || ops->create);
    ret->name_live = live;
    TM_TRY(ops->lookup(fs, &dir, name, req, &node));
    TM_TRY(tm_fs_attr(fs, &node, req, ret));
    ret->name_live = live;
    if (node.interned)
        tm_intern_looked_up(node.interned);
    return 0;
}

static int fs_getattr(tm_tree *tree, uint64_t ino, tm_req *req, tm_attr *ret)
{
    tm_fs *fs = as_fs(tree);
    TM_AUTO(tm_node_done) tm_node node = {0};
    TM_TRY(resolve(fs, ino, req, &node));
    return tm_fs_attr(fs, &node, req, ret);
}

static int fs_list(tm_tree *tree, uint64_t ino, uint64_t at, tm_emit_fn *emit, void *ctx,
                   tm_req *req)
{
    tm_fs *fs = as_fs(tree);
    TM_AUTO(tm_node_done) tm_node node = {0};
    TM_TRY(resolve(fs, ino, req, &node));
    const tm_kind_ops *ops = tm_kind_get(node.kind);
    if (!ops || !S_ISDIR(ops->mode))
        return -ENOTDIR;
    tm_lister lister = {fs, req, is_live(&node, ops), at, emit, ctx};
    return ops->list ? ops->list(fs, &node, &lister) : 0;
}

static int fs_open(tm_tree *tree, uint64_t ino, tm_req *req, tm_open_file *ret)
{
    tm_fs *fs = as_fs(tree);
    TM_AUTO(tm_node_done) tm_node node = {0};
    TM_TRY(resolve(fs, ino, req, &node));
    const tm_kind_ops *ops = tm_kind_get(node.kind);
    if (!ops || !ops->open)
        return ops && S_ISDIR(ops->mode) ? -EISDIR : -EINVAL;
    tm_blob *blob;
    int rc = ops->open(fs, &node, req, &blob);
    if (rc == 0) {
        rc = tm_blob_hold(blob, req);
        if (rc < 0)
            tm_blob_unref(blob);
    }
    /* The kernel looks the path up once more, and finds what the name stands for now. */
    if (rc == -ESTALE && node.mounted && req->may_block)
        tm_session_refresh(fs->session, node.mounted, req);
    TM_TRY(rc);
    *ret = (tm_open_file){blob, ops->lane, ops->live, ops->fresh};
    return 0;
}

static int fs_readlink(tm_tree *tree, uint64_t ino, tm_req *req, char **ret)
{
    tm_fs *fs = as_fs(tree);
    TM_AUTO(tm_node_done) tm_node node = {0};
    TM_TRY(resolve(fs, ino, req, &node));
    const tm_kind_ops *ops = tm_kind_get(node.kind);
    return ops && ops->link ? ops->link(fs, &node, req, ret) : -EINVAL;
}

static int fs_write(tm_tree *tree, uint64_t ino, const tm_chunk *chunk, tm_req *req)
{
    tm_fs *fs = as_fs(tree);
    TM_AUTO(tm_node_done) tm_node node = {0};
    TM_TRY(resolve(fs, ino, req, &node));
    const tm_kind_ops *ops = tm_kind_get(node.kind);
    return ops && ops->write ? ops->write(fs, &node, chunk, req) : -EROFS;
}

static int fs_truncate(tm_tree *tree, uint64_t ino, uint64_t size, tm_req *req)
{
    tm_fs *fs = as_fs(tree);
    TM_AUTO(tm_node_done) tm_node node = {0};
    TM_TRY(resolve(fs, ino, req, &node));
    const tm_kind_ops *ops = tm_kind_get(node.kind);
    if (ops && ops->truncate)
        return ops->truncate(fs, &node, size, req);
    return ops && ops->write ? 0 : -EROFS; /* what takes commands has no size */
}

static int fs_create(tm_tree *tree, uint64_t parent, const char *name, tm_req *req, tm_attr *ret)
{
    tm_fs *fs = as_fs(tree);
    TM_AUTO(tm_node_done) tm_node dir = {0};
    TM_AUTO(tm_node_done) tm_node node = {0};
    TM_TRY(resolve(fs, parent, req, &dir));
    const tm_kind_ops *ops = tm_kind_get(dir.kind);
    if (!ops || !ops->create)
        return -EROFS;
    TM_TRY(ops->create(fs, &dir, name, req, &node));
    TM_TRY(tm_fs_attr(fs, &node, req, ret));
    ret->name_live = true;
    return 0;
}

static int fs_remove(tm_tree *tree, uint64_t parent, const char *name, tm_req *req)
{
    tm_fs *fs = as_fs(tree);
    TM_AUTO(tm_node_done) tm_node dir = {0};
    TM_TRY(resolve(fs, parent, req, &dir));
    const tm_kind_ops *ops = tm_kind_get(dir.kind);
    return ops && ops->remove ? ops->remove(fs, &dir, name, req) : -EROFS;
}

static tm_layout *fs_layout(tm_tree *tree, uint64_t ino)
{
    TM_AUTO(tm_node_done) tm_node node = {0};
    if (resolve(as_fs(tree), ino, NULL, &node) < 0)
        return NULL;
    const tm_kind_ops *ops = tm_kind_get(node.kind);
    return ops && ops->layout ? ops->layout(&node) : NULL;
}

static void fs_forget(tm_tree *tree, uint64_t ino, uint64_t count)
{
    tm_kind kind = (tm_kind)(ino >> KIND_SHIFT & ((1u << KIND_BITS) - 1));
    if (is_interned(kind))
        tm_intern_forget(as_fs(tree)->intern, ino & ((UINT64_C(1) << KIND_SHIFT) - 1), count);
}

/* The words name the file where they are about one; the rest is of the source. Who reads a file
 * does not know for which tensor, so words that name none are given the node's. */
static void fs_failed(tm_tree *tree, uint64_t ino, int rc, const char *words)
{
    tm_fs *fs = as_fs(tree);
    tm_node node;
    char tensor[TM_NAME_SHOWN] = "";
    if (resolve(fs, ino, NULL, &node) < 0)
        node = (tm_node){.kind = TM_KIND_NONE};
    if (node.kind >= TM_KIND_TENSOR && !strstr(words, "tensor '"))
        tm_model_show_name(node.mounted->model, node.item, tensor);
    TM_AUTO(tm_mounted_unrefp)
    tm_mounted *m = tm_session_by_serial(fs->session, (uint32_t)(ino >> SERIAL_SHIFT));
    tm_log_add(tm_session_log(fs->session), TM_LOG_ERROR, "%s%s%s%s%s%s (%s)", m ? m->name : "",
               m ? ": " : "", *tensor ? "tensor '" : "", tensor, *tensor ? "': " : "", words,
               strerrorname_np(-rc));
    tm_node_done(&node);
}

static void add_bytes(void *ctx, const tm_mounted *m)
{
    for (size_t i = 0; i < m->listing.count; i++)
        *(uint64_t *)ctx += m->listing.entries[i].identity.size;
}

static uint64_t fs_total_bytes(tm_tree *tree)
{
    uint64_t total = 0;
    tm_session_each(as_fs(tree)->session, add_bytes, &total);
    return total;
}

static uint64_t fs_key(tm_tree *tree, uint64_t ino)
{
    /* Serial 0: the mount's own files, of which ctl waits for whatever source it names. */
    return tm_session_key(as_fs(tree)->session, (uint32_t)(ino >> SERIAL_SHIFT));
}

static const tm_tree_ops fs_ops = {
    .key = fs_key,
    .lookup = fs_lookup,
    .getattr = fs_getattr,
    .list = fs_list,
    .open = fs_open,
    .readlink = fs_readlink,
    .write = fs_write,
    .truncate = fs_truncate,
    .create = fs_create,
    .remove = fs_remove,
    .layout = fs_layout,
    .forget = fs_forget,
    .failed = fs_failed,
    .total_bytes = fs_total_bytes,
};

int tm_fs_new(tm_session *session, tm_raw_way raw, tm_fs **ret)
{
    tm_fs *fs = TM_NEW(tm_fs);
    if (!fs || tm_intern_new(&fs->intern) < 0 || tm_queries_new(&fs->queries) < 0) {
        tm_fs_free(fs);
        return -ENOMEM;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    fs->started_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    fs->tree.ops = &fs_ops;
    fs->tree.sched = tm_session_sched(session);
    atomic_init(&fs->tree.raw_way, raw);
    fs->session = session;
    *ret = fs;
    return 0;
}

void tm_fs_free(tm_fs *fs)
{
    if (!fs)
        return;
    tm_queries_free(fs->queries);
    tm_intern_free(fs->intern);
    free(fs);
}
