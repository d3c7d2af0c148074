/* stats.json of a layer or a module: what the indexes say of its tensors, merged. */
#ifndef TM_FS_GROUP_STATS_H
#define TM_FS_GROUP_STATS_H

#include "formats/stats_text.h"
#include "fs/fs.h"

/* Rows ORDER[FIRST] … of the model, or FIRST … where ORDER is NULL; borrowed from the model. */
typedef struct tm_group_rows {
    const uint32_t *order;
    uint32_t first, count;
} tm_group_rows;

/* SUBJECT says which it is; what it borrows lives as long as NODE's mounted source. */
TM_MUST_CHECK int tm_group_stats_open(tm_fs *fs, const tm_node *node, const tm_group_rows *rows,
                                      const tm_group_subject *subject, tm_req *req, tm_blob **ret);

#endif
