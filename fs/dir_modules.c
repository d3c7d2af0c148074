/*
 * tree/: the tensors by module path. A name is split at its dots, but not where what stands before
 * the dot is a tensor itself (`weight`, `weight.absmax`), and not beyond what fits an inode number.
 *
 * Rows are sorted by name, so a module is a run of rows; its folder is known by the first of them
 * and by how many components it shares with the others.
 */
#include <sys/stat.h>

#include "fs/fs.h"
#include "fs/group_stats.h"
#include "fs/tensor_names.h"

static const tm_tensor_table *table_of(const tm_node *node)
{
    assert(node->mounted && node->mounted->model);
    return &node->mounted->model->table;
}

/* Where the component that begins at FROM ends: at a dot that splits, or at the name's end. */
static size_t component_end(const tm_tensor_table *table, const tm_tensor_row *row, size_t from,
                            unsigned components)
{
    const char *name = tm_row_name(table, row);
    uint32_t other;
    for (size_t i = from; i < row->name_len && components < TM_NODE_SUB_MAX; i++)
        if (name[i] == '.' && !tm_tensor_table_find(table, name, i, &other))
            return i;
    return row->name_len;
}

/* A module: a prefix of names, with the dot behind it. The root has none. */
typedef struct module {
    const tm_tensor_table *table;
    const char *prefix;
    size_t len;
    unsigned components;
    uint32_t first, end; /* its rows */
} module;

/* The first row after those that begin with NAME[0, LEN), whose last byte is a dot. */
static uint32_t run_end(const tm_tensor_table *table, uint32_t first, size_t len)
{
    const char *name = tm_row_name(table, &table->rows[first]);
    uint32_t lo = first, hi = table->count;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        const tm_tensor_row *row = &table->rows[mid];
        bool inside = row->name_len >= len && memcmp(tm_row_name(table, row), name, len) == 0;
        if (inside)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static module module_of(const tm_node *node)
{
    const tm_tensor_table *table = table_of(node);
    module m = {.table = table, .prefix = "", .end = table->count};
    if (node->sub == 0)
        return m;
    assert(node->item < table->count);
    const tm_tensor_row *row = &table->rows[node->item];
    for (unsigned i = 0; i < node->sub; i++)
        m.len = component_end(table, row, m.len, i) + 1;
    m.prefix = tm_row_name(table, row);
    m.components = node->sub;
    m.first = node->item;
    m.end = run_end(table, m.first, m.len);
    return m;
}

/* What the rows from ROW on are in module M: a folder of several, or one link. */
typedef struct child {
    char file[TM_FILE_NAME_MAX + 1];
    tm_node node; /* borrowed */
    uint32_t end; /* the first row after it */
} child;

static void child_at(const tm_node *dir, const module *m, uint32_t row, child *ret)
{
    assert(row >= m->first && row < m->end);
    const tm_tensor_row *r = &m->table->rows[row];
    size_t end = component_end(m->table, r, m->len, m->components);
    tm_name_to_file(tm_row_name(m->table, r) + m->len, end - m->len, ret->file);
    if (end == r->name_len) {
        ret->node = tm_node_near(dir, TM_KIND_MODULE_LINK, row, m->components);
        ret->end = row + 1;
    } else {
        ret->node = tm_node_near(dir, TM_KIND_MODULE, row, m->components + 1);
        ret->end = run_end(m->table, row, end + 1);
    }
}

/* The child that ROW belongs to, if it goes by the name FILE. */
static bool try_row(const tm_node *dir, const module *m, uint32_t row, const char *file, child *ret)
{
    if (row < m->first || row >= m->end)
        return false;
    child_at(dir, m, row, ret);
    return strcmp(ret->file, file) == 0;
}

/* A component is a tensor's last one, or one that others follow after a dot. */
static bool find_whole(const tm_node *dir, const module *m, const char *file, const char *path,
                       size_t len, child *ret)
{
    uint32_t row;
    if (tm_tensor_table_find(m->table, path, len, &row) && try_row(dir, m, row, file, ret))
        return true;
    TM_AUTO_FREE char *dotted = malloc(len + 1);
    if (!dotted)
        return false;
    memcpy(dotted, path, len);
    dotted[len] = '.';
    return try_row(dir, m, tm_tensor_table_lower_bound(m->table, dotted, len + 1), file, ret);
}

/* Of a cut file name only the beginning is known: every child that begins so is compared. */
static bool find_cut(const tm_node *dir, const module *m, const char *file, const char *path,
                     size_t len, child *ret)
{
    for (uint32_t row = tm_tensor_table_lower_bound(m->table, path, len); row < m->end;
         row = ret->end)
        if (try_row(dir, m, row, file, ret))
            return true;
    return false;
}

/* The child of M that goes by the name FILE: 1, or 0 where there is none. */
static int find_child(const tm_node *dir, const module *m, const char *file, tm_req *req,
                      child *ret)
{
    char part[TM_FILE_NAME_MAX];
    size_t len, file_len = strlen(file);
    if (file_len > TM_FILE_NAME_MAX)
        return 0;
    tm_file_name_kind kind = tm_file_to_name(file, file_len, part, &len);
    if (kind == TM_FILE_NAME_INVALID)
        return 0;
    TM_AUTO_FREE char *path = malloc(m->len + len + 1);
    if (!path)
        return tm_fail(req, ENOMEM, "out of memory");
    memcpy(path, m->prefix, m->len);
    memcpy(path + m->len, part, len);
    return kind == TM_FILE_NAME_WHOLE ? find_whole(dir, m, file, path, m->len + len, ret)
                                      : find_cut(dir, m, file, path, m->len + len, ret);
}

static const char stats_name[] = "stats.json"; /* unless a tensor goes by that */

static int module_lookup(tm_fs *fs, const tm_node *node, const char *name, tm_req *req,
                         tm_node *ret)
{
    (void)fs;
    module m = module_of(node);
    child c;
    int found = find_child(node, &m, name, req, &c);
    TM_TRY(found);
    if (found)
        *ret = tm_node_child(node, c.node.kind, c.node.item, c.node.sub);
    else if (strcmp(name, stats_name) == 0)
        *ret = tm_node_child(node, TM_KIND_MODULE_STATS, node->item, node->sub);
    else
        return -ENOENT;
    return 0;
}

static int module_list(tm_fs *fs, const tm_node *node, tm_lister *lister)
{
    (void)fs;
    module m = module_of(node);
    child c;
    for (uint64_t row = tm_max_u64(m.first, lister->at); row < m.end;) {
        child_at(node, &m, (uint32_t)row, &c);
        if (!tm_lister_add(lister, c.end - 1, c.file, &c.node))
            return 0;
        row = c.end;
    }
    tm_node stats = tm_node_near(node, TM_KIND_MODULE_STATS, node->item, node->sub);
    int taken = lister->at <= m.end ? find_child(node, &m, stats_name, lister->req, &c) : 1;
    TM_TRY(taken);
    if (!taken)
        tm_lister_add(lister, m.end, stats_name, &stats);
    return 0;
}

/* ---- Its statistics ---- */

static tm_group_subject subject_of(const module *m)
{
    return (tm_group_subject){
        .key = "module", .name = m->prefix, .name_len = m->len ? m->len - 1 : 0};
}

static int stats_size(tm_fs *fs, const tm_node *node, tm_req *req, uint64_t *ret)
{
    (void)fs, (void)req;
    module m = module_of(node);
    tm_group_subject subject = subject_of(&m);
    *ret = tm_group_json_size(&subject);
    return 0;
}

static int stats_open(tm_fs *fs, const tm_node *node, tm_req *req, tm_blob **ret)
{
    module m = module_of(node);
    tm_group_subject subject = subject_of(&m);
    tm_group_rows rows = {NULL, m.first, m.end - m.first};
    return tm_group_stats_open(fs, node, &rows, &subject, req, ret);
}

/* ---- Its tensors ---- */

static int module_link(tm_fs *fs, const tm_node *node, tm_req *req, char **ret)
{
    (void)fs;
    *ret = tm_tensor_link(table_of(node), node->item, node->sub + 1, "tensors/");
    return *ret ? 0 : tm_fail(req, ENOMEM, "out of memory");
}

const tm_kind_ops tm_module_kinds[] = {
    {.mode = S_IFDIR | 0555, .lookup = module_lookup, .list = module_list},
    {.mode = S_IFDIR | 0555, .lookup = module_lookup, .list = module_list},
    {.mode = S_IFLNK | 0777, .link = module_link},
    {.mode = S_IFREG | 0444,
     .lane = TM_LANE_ANALYSIS,
     .fresh = true,
     .size = stats_size,
     .open = stats_open},
};
