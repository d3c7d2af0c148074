#include "fs/pyramid_sink.h"

#include "compute/tensor_scan.h"

/* A rectangle of cells of a level. */
typedef struct rect {
    unsigned level;
    uint64_t plane, row, col, rows, cols;
    const tm_lod_cell *cells; /* row by row */
} rect;

/* One of the arrays that are kept of a level. */
typedef struct array {
    float (*value)(const tm_lod_cell *cell);
    uint64_t off; /* in the pyramid */
    bool narrow;  /* BF16 */
} array;

static int out_of_memory(tm_req *req)
{
    return tm_fail(req, ENOMEM, "out of memory");
}

/* What BF16 has of a value that it holds: no bit is lost. */
static uint16_t narrow(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    assert((bits & 0xffff) == 0);
    return (uint16_t)(bits >> 16);
}

static void fill(const array *a, const tm_lod_cell *cells, uint64_t count, void *ret)
{
    float *wide = ret;
    uint16_t *half = ret;
    for (uint64_t i = 0; i < count; i++) {
        if (a->narrow)
            half[i] = narrow(a->value(&cells[i]));
        else
            wide[i] = a->value(&cells[i]);
    }
}

static int put_array(tm_pyramid_sink *sink, const array *a, const rect *r, tm_req *req)
{
    const tm_planes *planes = &sink->pyramid.planes;
    uint64_t height = tm_planes_level_dim(planes->rows, r->level);
    uint64_t width = tm_planes_level_dim(planes->cols, r->level);
    size_t item = a->narrow ? sizeof(uint16_t) : sizeof(float);
    TM_AUTO_FREE uint8_t *bytes = tm_new_array(r->rows * r->cols, item);
    if (!bytes)
        return out_of_memory(req);
    fill(a, r->cells, r->rows * r->cols, bytes);
    /* Whole rows follow each other. */
    uint64_t lines = r->cols == width ? 1 : r->rows, len = r->rows * r->cols * item / lines;
    for (uint64_t i = 0; i < lines; i++) {
        uint64_t cell = (r->plane * height + r->row + i) * width + r->col;
        TM_TRY(tm_tiles_writer_put(sink->writer, sink->number, a->off + cell * item,
                                   bytes + i * len, len, req));
    }
    return 0;
}

static int put_rect(tm_pyramid_sink *sink, const rect *r, tm_req *req)
{
    const tm_pyramid *p = &sink->pyramid;
    array means = {tm_lod_mean, tm_pyramid_means_at(p, r->level), false};
    TM_TRY(put_array(sink, &means, r, req));
    if (!tm_pyramid_has_extremes(p, r->level))
        return 0;
    array least = {tm_lod_min, tm_pyramid_extremes_at(p, r->level, false), p->narrow};
    array greatest = {tm_lod_max, tm_pyramid_extremes_at(p, r->level, true), p->narrow};
    TM_TRY(put_array(sink, &least, r, req));
    return put_array(sink, &greatest, r, req);
}

/* ---- A block ---- */

static void keep_coarse(tm_pyramid_sink *sink, const rect *r)
{
    const tm_planes *planes = &sink->pyramid.planes;
    uint64_t height = tm_planes_level_dim(planes->rows, r->level);
    uint64_t width = tm_planes_level_dim(planes->cols, r->level);
    for (uint64_t i = 0; i < r->rows; i++)
        memcpy(sink->coarse + (r->plane * height + r->row + i) * width + r->col,
               r->cells + i * r->cols, r->cols * sizeof(*r->cells));
}

static rect rect_of(const tm_block *block, unsigned level, const tm_lod_cell *cells)
{
    return (rect){.level = level,
                  .plane = block->plane,
                  .row = block->row >> level,
                  .col = block->col >> level,
                  .rows = tm_block_cell_rows(block, level),
                  .cols = tm_block_cell_cols(block, level),
                  .cells = cells};
}

int tm_pyramid_sink_block(tm_pyramid_sink *sink, uint64_t i, const tm_lod_cell *cells, tm_req *req)
{
    tm_block block = tm_blocks_at(&sink->blocks, i);
    unsigned last = (unsigned)tm_min_u64(TM_PYRAMID_COARSE, sink->pyramid.top);
    rect r = rect_of(&block, sink->pyramid.finest, cells);
    /* Two buffers, from one to the other: each level has no more cells than the one before. */
    TM_AUTO_FREE tm_lod_cell *a = tm_new_array(r.rows * r.cols, sizeof(*a));
    TM_AUTO_FREE tm_lod_cell *b = tm_new_array(r.rows * r.cols, sizeof(*b));
    if (!a || !b)
        return out_of_memory(req);
    for (;;) {
        TM_TRY(put_rect(sink, &r, req));
        if (r.level == TM_PYRAMID_COARSE)
            keep_coarse(sink, &r);
        if (r.level == last)
            return 0;
        tm_lod_cell *to = r.cells == a ? b : a;
        tm_lod_halve(r.cells, r.rows, r.cols, to);
        r = rect_of(&block, r.level + 1, to);
    }
}

/* ---- The whole tensor ---- */

/* Levels above TM_PYRAMID_COARSE of a plane. */
static int put_coarser(tm_pyramid_sink *sink, uint64_t plane, tm_req *req)
{
    const tm_planes *planes = &sink->pyramid.planes;
    rect r = {.level = TM_PYRAMID_COARSE,
              .plane = plane,
              .rows = tm_planes_level_dim(planes->rows, TM_PYRAMID_COARSE),
              .cols = tm_planes_level_dim(planes->cols, TM_PYRAMID_COARSE)};
    uint64_t count = r.rows * r.cols;
    TM_AUTO_FREE tm_lod_cell *a = tm_new_array(count, sizeof(*a));
    TM_AUTO_FREE tm_lod_cell *b = tm_new_array(count, sizeof(*b));
    if (!a || !b)
        return out_of_memory(req);
    r.cells = sink->coarse + plane * count;
    while (r.level < sink->pyramid.top) {
        tm_lod_cell *to = r.cells == a ? b : a;
        tm_lod_halve(r.cells, r.rows, r.cols, to);
        r.level++;
        r.rows = tm_planes_level_dim(planes->rows, r.level);
        r.cols = tm_planes_level_dim(planes->cols, r.level);
        r.cells = to;
        TM_TRY(put_rect(sink, &r, req));
    }
    return 0;
}

int tm_pyramid_sink_end(tm_pyramid_sink *sink, tm_req *req)
{
    for (uint64_t plane = 0; sink->coarse && plane < sink->pyramid.planes.planes; plane++)
        TM_TRY(put_coarser(sink, plane, req));
    return tm_tiles_writer_end(sink->writer, sink->number, req);
}

int tm_pyramid_sink_init(tm_pyramid_sink *sink, tm_tiles_writer *writer, uint32_t number,
                         const tm_pyramid *pyramid, const tm_blocks *blocks)
{
    static_assert(TM_PYRAMID_COARSE == (int)TM_BLOCK_LEVEL, "a block has all levels up to that");
    assert(pyramid->finest > 0);
    *sink = (tm_pyramid_sink){writer, number, *pyramid, *blocks, NULL};
    if (pyramid->top < TM_PYRAMID_COARSE)
        return 0;
    sink->coarse =
        tm_new_array(tm_pyramid_cells(pyramid, TM_PYRAMID_COARSE), sizeof(*sink->coarse));
    return sink->coarse ? 0 : -ENOMEM;
}

void tm_pyramid_sink_done(tm_pyramid_sink *sink)
{
    free(TM_STEAL(sink->coarse));
}
