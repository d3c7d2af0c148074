/* A level of detail of a tensor as its index has it. */
#ifndef TM_FS_INDEXED_LEVEL_H
#define TM_FS_INDEXED_LEVEL_H

#include "compute/tiles.h"
#include "fs/fs.h"

/* RET: the level with REDUCER, as tm_level_tensor_new() would make it; NULL where it is not kept,
 * or values are not finite. -EINPROGRESS where REQ may not block. */
TM_MUST_CHECK int tm_indexed_level_find(tm_fs *fs, const tm_node *node, unsigned level,
                                        tm_reducer reducer, tm_req *req, tm_tensor **ret);

#endif
