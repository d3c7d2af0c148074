#include "fs/indexed_level.h"

#include "compute/kept_level.h"
#include "fs/indexes.h"
#include "fs/tensor_node.h"

/* CELLS of a level, that stand at OFF in the pyramid. */
static int array_new(const tm_pyramid *p, tm_blob *cells, uint64_t off, unsigned level,
                     tm_dtype dtype, tm_tensor **ret)
{
    TM_AUTO(tm_blob_unrefp) tm_blob *bytes = NULL;
    uint64_t count = tm_pyramid_cells(p, level);
    TM_TRY(tm_blob_slice_new(cells, off, count * tm_dtype_get(dtype)->bits / 8, &bytes));
    return tm_tensor_blob_new(bytes, dtype, &count, 1, ret);
}

static int level_new(const tm_node *node, const tm_pyramid *p, tm_blob *cells, unsigned level,
                     tm_reducer reducer, tm_tensor **ret)
{
    TM_AUTO(tm_tensor_unrefp) tm_tensor *means = NULL;
    TM_AUTO(tm_tensor_unrefp) tm_tensor *least = NULL;
    TM_AUTO(tm_tensor_unrefp) tm_tensor *greatest = NULL;
    unsigned finer = tm_pyramid_has_extremes(p, level) ? level : p->finest;
    tm_dtype dtype = p->narrow ? TM_BF16 : TM_F32;
    size_t rank;
    const uint64_t *dims = tm_tensor_node_dims(node, &rank);
    TM_TRY(array_new(p, cells, tm_pyramid_means_at(p, level), level, TM_F32, &means));
    TM_TRY(array_new(p, cells, tm_pyramid_extremes_at(p, finer, false), finer, dtype, &least));
    TM_TRY(array_new(p, cells, tm_pyramid_extremes_at(p, finer, true), finer, dtype, &greatest));
    tm_kept_level kept = {p->planes, level, finer, means, {least, greatest}};
    return tm_kept_level_new(&kept, dims, rank, reducer, ret);
}

int tm_indexed_level_find(tm_fs *fs, const tm_node *node, unsigned level, tm_reducer reducer,
                          tm_req *req, tm_tensor **ret)
{
    TM_AUTO(tm_indexes_unrefp) tm_indexes *indexes = NULL;
    TM_AUTO(tm_blob_unrefp) tm_blob *cells = NULL;
    tm_stats_record record;
    tm_pyramid pyramid;
    *ret = NULL;
    if (node->sub != 0 || level < TM_PYRAMID_FINEST)
        return 0;
    TM_TRY(tm_indexes_get(fs->session, node->mounted, req, &indexes));
    tm_req part; /* an index that cannot be read is no reason to fail */
    tm_req_init_part(&part, req);
    part.may_block = true;
    if (tm_indexes_pyramid(indexes, node->item, &part, &pyramid, &cells) < 0 ||
        level < pyramid.finest || !tm_indexes_record(indexes, node->item, &part, &record) ||
        record.summary.nan + record.summary.pos_inf + record.summary.neg_inf > 0)
        return tm_req_check(req);
    return level_new(node, &pyramid, cells, level, reducer, ret) < 0
               ? tm_fail(req, ENOMEM, "out of memory")
               : 0;
}
