#include "fs/tensor_node.h"

#include "core/codes.h"
#include "fs/intern.h"

static const tm_model *model_of(const tm_node *node)
{
    assert(node->mounted && node->mounted->model);
    return node->mounted->model;
}

const tm_tensor_row *tm_tensor_node_row(const tm_node *node)
{
    assert(node->item < model_of(node)->table.count);
    return &model_of(node)->table.rows[node->item];
}

const uint64_t *tm_tensor_node_dims(const tm_node *node, size_t *ret_rank)
{
    const tm_tensor_row *row = tm_tensor_node_row(node);
    assert(node->sub == 0 || row->rank > 0);
    *ret_rank = row->rank - (node->sub > 0);
    return tm_row_dims(&model_of(node)->table, row) + (node->sub > 0);
}

bool tm_tensor_node_is_counted(const tm_node *node)
{
    return tm_codes_count(tm_model_values_dtype(model_of(node), node->item)) > 0;
}

int tm_tensor_node_values(const tm_node *node, tm_req *req, tm_tensor **ret)
{
    TM_AUTO(tm_tensor_unrefp) tm_tensor *whole = NULL;
    TM_TRY(tm_model_values(model_of(node), node->item, req, &whole));
    if (node->sub == 0) {
        *ret = TM_STEAL(whole);
        return 0;
    }
    return tm_tensor_take_new(whole, 0, node->sub - 1, ret) < 0
               ? tm_fail(req, ENOMEM, "out of memory")
               : 0;
}

tm_tile_source tm_tensor_node_source(tm_fs *fs, const tm_node *node, tm_tensor *values)
{
    return (tm_tile_source){
        .store = tm_session_store(fs->session),
        .sched = fs->tree.sched,
        .tensor = values,
        .group = node->mounted->serial,
        .item = node->item,
        .part = (uint16_t)node->sub,
    };
}

int tm_intern_child(tm_fs *fs, const tm_node *node, tm_kind kind, const char *text, tm_req *req,
                    tm_node *ret)
{
    tm_node child = tm_node_child(node, kind, node->item, node->sub);
    child.interned = tm_intern_get(fs->intern, node, kind, text);
    if (!child.interned) {
        tm_node_done(&child);
        return tm_fail(req, ENOMEM, "out of memory");
    }
    *ret = child;
    return 0;
}
