/* layers/ and experts/: the same tensors by what their names say. */
#include <stdio.h>
#include <sys/stat.h>

#include "fs/fs.h"
#include "fs/group_stats.h"
#include "fs/tensor_names.h"

static const tm_structure *structure_of(const tm_node *node)
{
    assert(node->mounted && node->mounted->model);
    return &node->mounted->model->structure;
}

static const tm_tensor_table *table_of(const tm_node *node)
{
    return &node->mounted->model->table;
}

static const tm_layer *layer_of(const tm_node *node)
{
    assert(node->item < structure_of(node)->layer_count);
    return &structure_of(node)->layers[node->item];
}

/* ---- Numbers as names: zero-padded so that they sort, at least three digits ---- */

enum {
    DIGITS_MIN = 3,
    NUMBER_MAX = 16
};

static int digits_for(int32_t last)
{
    int digits = 1;
    for (int32_t v = last; v >= 10; v /= 10)
        digits++;
    return digits < DIGITS_MIN ? DIGITS_MIN : digits;
}

static int layer_digits(const tm_structure *s)
{
    return digits_for(s->layer_count ? s->layers[s->layer_count - 1].layer : 0);
}

static void padded(int32_t number, int digits, char ret[NUMBER_MAX])
{
    assert(number >= 0 && digits < NUMBER_MAX);
    char text[NUMBER_MAX];
    int len = snprintf(text, sizeof(text), "%d", number);
    int zeros = digits > len ? digits - len : 0;
    memset(ret, '0', (size_t)zeros);
    memcpy(ret + zeros, text, (size_t)len + 1);
}

/* A decimal number that fits; *RET_PADDED says whether it is spelled with DIGITS digits. */
static bool parse_number(const char *text, int digits, int32_t *ret, bool *ret_padded)
{
    size_t len = strlen(text);
    int64_t v = 0;
    if (len == 0 || len > 10)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        v = v * 10 + (text[i] - '0');
    }
    if (v > INT32_MAX)
        return false;
    *ret_padded = len == (size_t)digits;
    *ret = (int32_t)v;
    return *ret_padded || text[0] != '0' || len == 1;
}

/* ---- layers/ and experts/ themselves ---- */

static bool has_folder(const tm_node *node, const tm_layer *layer)
{
    return node->kind == TM_KIND_LAYERS || layer->experts > 0;
}

static int layers_lookup(tm_fs *fs, const tm_node *node, const char *name, tm_req *req,
                         tm_node *ret)
{
    (void)fs, (void)req;
    const tm_structure *s = structure_of(node);
    int32_t number;
    bool is_padded;
    if (!parse_number(name, layer_digits(s), &number, &is_padded))
        return -ENOENT;
    const tm_layer *layer = tm_structure_layer(s, number);
    if (!layer || !has_folder(node, layer))
        return -ENOENT;
    tm_kind kind = !is_padded                     ? TM_KIND_LAYER_ALIAS
                   : node->kind == TM_KIND_LAYERS ? TM_KIND_LAYER
                                                  : TM_KIND_EXPERT_LAYER;
    *ret = tm_node_child(node, kind, (uint32_t)(layer - s->layers), 0);
    return 0;
}

static int layers_list(tm_fs *fs, const tm_node *node, tm_lister *lister)
{
    (void)fs;
    const tm_structure *s = structure_of(node);
    tm_kind kind = node->kind == TM_KIND_LAYERS ? TM_KIND_LAYER : TM_KIND_EXPERT_LAYER;
    char name[NUMBER_MAX];
    for (uint64_t i = lister->at; i < s->layer_count; i++) {
        if (!has_folder(node, &s->layers[i]))
            continue;
        padded(s->layers[i].layer, layer_digits(s), name);
        tm_node child = tm_node_near(node, kind, (uint32_t)i, 0);
        if (!tm_lister_add(lister, i, name, &child))
            break;
    }
    return 0;
}

static int alias_link(tm_fs *fs, const tm_node *node, tm_req *req, char **ret)
{
    (void)fs;
    char name[NUMBER_MAX];
    if (node->kind == TM_KIND_LAYER_ALIAS)
        padded(layer_of(node)->layer, layer_digits(structure_of(node)), name);
    else
        padded((int32_t)node->item, digits_for(structure_of(node)->experts - 1), name);
    *ret = strdup(name);
    return *ret ? 0 : tm_fail(req, ENOMEM, "out of memory");
}

/* ---- layers/NNN: every tensor of the layer, under its full name ---- */

static const char stats_name[] = "stats.json"; /* unless a tensor goes by that */

static bool has_tensor(const tm_node *node, const char *name, uint32_t *ret_row)
{
    return tm_tensor_by_file(table_of(node), name, ret_row) &&
           tm_row_place(table_of(node), *ret_row).layer == layer_of(node)->layer;
}

static int layer_lookup(tm_fs *fs, const tm_node *node, const char *name, tm_req *req, tm_node *ret)
{
    (void)fs, (void)req;
    uint32_t row;
    if (has_tensor(node, name, &row)) {
        *ret = tm_node_child(node, TM_KIND_LAYER_LINK, row, 0);
        return 0;
    }
    if (strcmp(name, stats_name) != 0)
        return -ENOENT;
    *ret = tm_node_child(node, TM_KIND_LAYER_STATS, node->item, 0);
    return 0;
}

static int layer_list(tm_fs *fs, const tm_node *node, tm_lister *lister)
{
    (void)fs;
    const tm_layer *layer = layer_of(node);
    char file[TM_FILE_NAME_MAX + 1];
    for (uint64_t i = lister->at; i < layer->count; i++) {
        uint32_t row = structure_of(node)->order[layer->first + i];
        tm_node child = tm_node_near(node, TM_KIND_LAYER_LINK, row, 0);
        tm_tensor_file(table_of(node), row, file);
        if (!tm_lister_add(lister, i, file, &child))
            return 0;
    }
    uint32_t row;
    tm_node stats = tm_node_near(node, TM_KIND_LAYER_STATS, node->item, 0);
    if (lister->at <= layer->count && !has_tensor(node, stats_name, &row))
        tm_lister_add(lister, layer->count, stats_name, &stats);
    return 0;
}

static tm_group_subject subject_of(const tm_node *node)
{
    return (tm_group_subject){.key = "layer", .number = layer_of(node)->layer};
}

static int stats_size(tm_fs *fs, const tm_node *node, tm_req *req, uint64_t *ret)
{
    (void)fs, (void)req;
    tm_group_subject subject = subject_of(node);
    *ret = tm_group_json_size(&subject);
    return 0;
}

static int stats_open(tm_fs *fs, const tm_node *node, tm_req *req, tm_blob **ret)
{
    const tm_layer *layer = layer_of(node);
    tm_group_subject subject = subject_of(node);
    tm_group_rows rows = {structure_of(node)->order, layer->first, layer->count};
    return tm_group_stats_open(fs, node, &rows, &subject, req, ret);
}

static int layer_link(tm_fs *fs, const tm_node *node, tm_req *req, char **ret)
{
    (void)fs;
    unsigned up = node->kind == TM_KIND_LAYER_LINK ? 2 : 3;
    *ret = tm_tensor_link(table_of(node), node->item, up, "tensors/");
    return *ret ? 0 : tm_fail(req, ENOMEM, "out of memory");
}

/* ---- experts/NNN ---- */

static int expert_layer_lookup(tm_fs *fs, const tm_node *node, const char *name, tm_req *req,
                               tm_node *ret)
{
    (void)fs, (void)req;
    int32_t expert;
    bool is_padded;
    if (!parse_number(name, digits_for(structure_of(node)->experts - 1), &expert, &is_padded) ||
        expert >= layer_of(node)->experts || expert > TM_EXPERTS_MAX)
        return -ENOENT;
    *ret = is_padded ? tm_node_child(node, TM_KIND_EXPERT, node->item, (uint32_t)expert)
                     : tm_node_child(node, TM_KIND_EXPERT_ALIAS, (uint32_t)expert, 0);
    return 0;
}

static int expert_layer_list(tm_fs *fs, const tm_node *node, tm_lister *lister)
{
    (void)fs;
    char name[NUMBER_MAX];
    uint64_t experts = tm_min_u64((uint64_t)layer_of(node)->experts, TM_EXPERTS_MAX);
    for (uint64_t i = lister->at; i < experts; i++) {
        padded((int32_t)i, digits_for(structure_of(node)->experts - 1), name);
        tm_node child = tm_node_near(node, TM_KIND_EXPERT, node->item, (uint32_t)i);
        if (!tm_lister_add(lister, i, name, &child))
            break;
    }
    return 0;
}

/* ---- experts/NNN/EEE: its own tensors as links, its slices of fused ones as folders ---- */

static int32_t expert_at(const tm_node *node, uint32_t i)
{
    assert(i < structure_of(node)->order_count);
    return tm_row_place(table_of(node), structure_of(node)->order[i]).expert;
}

/* Rows of a layer stand by expert, fused ones first: where those of EXPERT begin. */
static uint32_t rows_of_expert(const tm_node *node, int32_t expert)
{
    const tm_layer *layer = layer_of(node);
    uint32_t lo = layer->first, hi = layer->first + layer->count;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (expert_at(node, mid) < expert)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Calls for each row that may belong to the expert: the fused ones, then its own. */
typedef struct expert_walk {
    uint32_t at, fused_end, own, own_end;
    const char *stem; /* what stands before a role: "model.layers.0.mlp.experts.5."; NULL: no role
                         is enough of a name */
    size_t stem_len;
} expert_walk;

static expert_walk walk_expert(const tm_node *node)
{
    expert_walk walk = {
        .at = layer_of(node)->first,
        .fused_end = rows_of_expert(node, TM_NO_EXPERT),
        .own = rows_of_expert(node, (int32_t)node->sub),
        .own_end = rows_of_expert(node, (int32_t)node->sub + 1),
    };
    /* Where a layer has both, fused ones go by their whole names, for every expert. */
    bool has_own = rows_of_expert(node, 0) < layer_of(node)->first + layer_of(node)->count;
    if (has_own && walk.own == walk.own_end)
        return walk;
    uint32_t row = structure_of(node)->order[has_own ? walk.own : walk.at];
    walk.stem = tm_row_name(table_of(node), &table_of(node)->rows[row]);
    walk.stem_len = tm_row_place(table_of(node), row).leaf_off;
    return walk;
}

static bool next_row(const tm_node *node, expert_walk *w, uint32_t *ret)
{
    if (w->at == w->fused_end)
        w->at = w->own;
    if (w->at >= w->own_end && w->at >= w->fused_end)
        return false;
    *ret = structure_of(node)->order[w->at++];
    return true;
}

/* A role alone names a tensor only among those that share what stands before it. */
static size_t stem_of(const tm_node *node, const expert_walk *w, const char *name, size_t leaf_off)
{
    bool shared = w->stem && leaf_off == w->stem_len && memcmp(name, w->stem, leaf_off) == 0;
    return shared && !structure_of(node)->several_stacks ? leaf_off : 0;
}

/* Whether ROW belongs to the folder's expert; its name there, and the node that it is. */
static bool expert_child(const tm_node *node, const expert_walk *w, uint32_t row,
                         char file[TM_FILE_NAME_MAX + 1], tm_node *ret)
{
    const tm_tensor_table *table = table_of(node);
    const tm_tensor_row *r = &table->rows[row];
    tm_place place = tm_row_place(table, row);
    if (place.expert == (int32_t)node->sub)
        *ret = tm_node_near(node, TM_KIND_EXPERT_LINK, row, 0);
    else if ((int32_t)node->sub < tm_row_fused_experts(table, row))
        *ret = tm_node_near(node, TM_KIND_TENSOR, row, node->sub + 1);
    else
        return false;
    size_t skip = stem_of(node, w, tm_row_name(table, r), place.leaf_off);
    tm_name_to_file(tm_row_name(table, r) + skip, r->name_len - skip, file);
    return true;
}

static int expert_lookup(tm_fs *fs, const tm_node *node, const char *name, tm_req *req,
                         tm_node *ret)
{
    (void)fs, (void)req;
    expert_walk walk = walk_expert(node);
    char file[TM_FILE_NAME_MAX + 1];
    tm_node child;
    for (uint32_t row; next_row(node, &walk, &row);) {
        if (!expert_child(node, &walk, row, file, &child) || strcmp(file, name) != 0)
            continue;
        *ret = tm_node_child(node, child.kind, child.item, child.sub);
        return 0;
    }
    return -ENOENT;
}

static int expert_list(tm_fs *fs, const tm_node *node, tm_lister *lister)
{
    (void)fs;
    expert_walk walk = walk_expert(node);
    char file[TM_FILE_NAME_MAX + 1];
    tm_node child;
    uint64_t number = 0;
    for (uint32_t row; next_row(node, &walk, &row); number++)
        if (expert_child(node, &walk, row, file, &child) &&
            !tm_lister_add(lister, number, file, &child))
            break;
    return 0;
}

const tm_kind_ops tm_layer_kinds[] = {
    {.mode = S_IFDIR | 0555, .lookup = layers_lookup, .list = layers_list},
    {.mode = S_IFDIR | 0555, .lookup = layer_lookup, .list = layer_list},
    {.mode = S_IFLNK | 0777, .link = layer_link},
    {.mode = S_IFDIR | 0555, .lookup = layers_lookup, .list = layers_list}, /* experts */
    {.mode = S_IFDIR | 0555, .lookup = expert_layer_lookup, .list = expert_layer_list},
    {.mode = S_IFDIR | 0555, .lookup = expert_lookup, .list = expert_list},
    {.mode = S_IFLNK | 0777, .link = layer_link}, /* an expert's own tensor */
    {.mode = S_IFLNK | 0777, .link = alias_link},
    {.mode = S_IFLNK | 0777, .link = alias_link},
    {.mode = S_IFREG | 0444,
     .lane = TM_LANE_ANALYSIS,
     .fresh = true,
     .size = stats_size,
     .open = stats_open},
};
