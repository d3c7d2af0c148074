/* A node of a tensor, or of an expert of a fused one: what its files share. */
#ifndef TM_FS_TENSOR_NODE_H
#define TM_FS_TENSOR_NODE_H

#include "compute/tiles.h"
#include "fs/fs.h"

const tm_tensor_row *tm_tensor_node_row(const tm_node *node);
/* Of an expert, the dimensions without the axis of experts. */
const uint64_t *tm_tensor_node_dims(const tm_node *node, size_t *ret_rank);
/* Whether its values are counted: those of F6 and C64 have no statistics and no levels. */
bool tm_tensor_node_is_counted(const tm_node *node);
/* See tm_model_values(). */
TM_MUST_CHECK int tm_tensor_node_values(const tm_node *node, tm_req *req, tm_tensor **ret);

/* Where tiles of VALUES (borrowed), the node's, are kept. */
tm_tile_source tm_tensor_node_source(tm_fs *fs, const tm_node *node, tm_tensor *values);

/* A child of NODE by the name TEXT, which is interned. */
TM_MUST_CHECK int tm_intern_child(tm_fs *fs, const tm_node *node, tm_kind kind, const char *text,
                                  tm_req *req, tm_node *ret);

#endif
