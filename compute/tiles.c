#include "compute/tiles.h"

#include "compute/tensor_scan.h"

enum {
    LEVELS_MAX = 64
};

/* A tile that a scan makes. What of it depends on its kind is at its end. */
typedef struct scan_tile {
    tm_work_tile work;
    tm_tile_kind kind;
    tm_blocks blocks;
    unsigned level; /* whose cells the scan gives; 0: none */
    uint64_t first, count;
    tm_tensor_scan *scan; /* while it is made */

    tm_lod_cell *grid; /* while a plane is made: its cells of the scan's level */
    tm_tensor_stats *stats;
    void *content;         /* what cells point to, owned */
    tm_level_cells *cells; /* of one level, or of those above TM_BLOCK_LEVEL */
    unsigned cells_count;
} scan_tile;

static scan_tile *as_scan(tm_work_tile *work)
{
    return TM_CONTAINER(work, scan_tile, work);
}

/* ---- Statistics ---- */

int tm_tensor_stats_new(const tm_stats *stats, const tm_stats_record *record, tm_tensor_stats **ret)
{
    TM_AUTO_FREE tm_stats_row *rows = tm_new_array(TM_STATS_ROWS, sizeof(*rows));
    if (!rows)
        return -ENOMEM;
    if (stats)
        tm_stats_rows(stats, rows);
    uint32_t count = 0;
    for (uint32_t i = 0; i < TM_STATS_ROWS; i++)
        count += rows[i].count != 0;
    tm_tensor_stats *self = calloc(1, sizeof(*self) + count * sizeof(*self->hist));
    if (!self)
        return -ENOMEM;
    *self = (tm_tensor_stats){.record = *record, .hist_count = count};
    tm_hist_row *to = self->hist;
    for (uint32_t i = 0; i < TM_STATS_ROWS; i++)
        if (rows[i].count)
            *to++ = (tm_hist_row){i, rows[i].count};
    *ret = self;
    return 0;
}

void tm_tensor_stats_free(tm_tensor_stats *stats)
{
    free(stats);
}

static int keep_stats(scan_tile *self, const tm_scan_total *total, size_t *ret_bytes)
{
    tm_stats_record record = {.zero_rows = total->zero_rows, .zero_cols = total->zero_cols};
    tm_sums sums;
    tm_stats_sums(&total->stats, &sums);
    tm_stats_summarize(&total->stats, &sums, &record.summary);
    TM_TRY(tm_tensor_stats_new(&total->stats, &record, &self->stats));
    *ret_bytes =
        sizeof(*self) + sizeof(*self->stats) + self->stats->hist_count * sizeof(*self->stats->hist);
    return 0;
}

/* ---- Cells ---- */

static float reduce(const tm_lod_cell *cell, tm_reducer reducer)
{
    switch (reducer) {
    case TM_REDUCE_MEAN:
        return tm_lod_mean(cell);
    case TM_REDUCE_MIN:
        return tm_lod_min(cell);
    case TM_REDUCE_MAX:
        return tm_lod_max(cell);
    default:
        return (float)cell->nonfinite;
    }
}

/* Sets RET to ROWS x COLS cells at TO, which has room for all reducers; returns what follows. */
static float *put_cells(const tm_lod_cell *cells, uint64_t rows, uint64_t cols, float *to,
                        tm_level_cells *ret)
{
    *ret = (tm_level_cells){.rows = rows, .cols = cols};
    for (int reducer = 0; reducer < TM_REDUCE_COUNT; reducer++) {
        ret->of[reducer] = to;
        for (uint64_t i = 0; i < rows * cols; i++)
            *to++ = reduce(&cells[i], (tm_reducer)reducer);
    }
    return to;
}

/* Room for COUNT cells in LEVELS levels. */
static int new_cells(scan_tile *self, unsigned levels, uint64_t count, size_t *ret_bytes)
{
    size_t bytes;
    if (tm_mul_overflow(count, sizeof(float) * TM_REDUCE_COUNT, &bytes))
        return -EFBIG;
    self->content = malloc(bytes ? bytes : 1);
    self->cells = tm_new_array(levels, sizeof(*self->cells));
    self->cells_count = levels;
    *ret_bytes = sizeof(*self) + levels * sizeof(*self->cells) + bytes;
    return self->content && self->cells ? 0 : -ENOMEM;
}

/* The cells of a block, as the scan gives them. */
static int keep_level(void *ctx, uint64_t i, const tm_lod_cell *cells)
{
    scan_tile *self = ctx;
    tm_block block = tm_blocks_at(&self->blocks, i);
    uint64_t rows = tm_block_cell_rows(&block, self->level);
    uint64_t cols = tm_block_cell_cols(&block, self->level);
    size_t bytes;
    TM_TRY(new_cells(self, 1, rows * cols, &bytes));
    put_cells(cells, rows, cols, self->content, &self->cells[0]);
    return 0;
}

/* The same, for a plane: gathered first. */
static int gather(void *ctx, uint64_t i, const tm_lod_cell *cells)
{
    scan_tile *self = ctx;
    tm_block block = tm_blocks_at(&self->blocks, i);
    uint64_t rows = tm_block_cell_rows(&block, self->level);
    uint64_t cols = tm_block_cell_cols(&block, self->level);
    uint64_t width = tm_planes_level_dim(self->blocks.planes.cols, self->level);
    tm_lod_cell *to = self->grid + (block.row >> self->level) * width + (block.col >> self->level);
    for (uint64_t r = 0; r < rows; r++)
        memcpy(to + r * width, cells + r * cols, cols * sizeof(*cells));
    return 0;
}

static unsigned coarse_levels(const tm_blocks *b)
{
    unsigned levels = tm_planes_levels(&b->planes);
    assert(levels < LEVELS_MAX);
    return levels > TM_BLOCK_LEVEL ? levels - TM_BLOCK_LEVEL : 0;
}

static uint64_t level_cells(const tm_planes *planes, unsigned level)
{
    return tm_planes_level_dim(planes->rows, level) * tm_planes_level_dim(planes->cols, level);
}

static int keep_plane(scan_tile *self, size_t *ret_bytes)
{
    const tm_planes *planes = &self->blocks.planes;
    TM_TRY(new_cells(self, 1, level_cells(planes, self->level), ret_bytes));
    put_cells(self->grid, tm_planes_level_dim(planes->rows, self->level),
              tm_planes_level_dim(planes->cols, self->level), self->content, &self->cells[0]);
    return 0;
}

static int keep_coarse(scan_tile *self, size_t *ret_bytes)
{
    const tm_planes *planes = &self->blocks.planes;
    unsigned levels = coarse_levels(&self->blocks);
    uint64_t count = 0;
    for (unsigned i = 1; i <= levels; i++)
        count += level_cells(planes, TM_BLOCK_LEVEL + i);
    TM_TRY(new_cells(self, levels, count, ret_bytes));
    TM_AUTO_FREE tm_lod_cell *coarser =
        tm_new_array(level_cells(planes, TM_BLOCK_LEVEL + 1), sizeof(*coarser));
    if (!coarser)
        return -ENOMEM;
    float *to = self->content;
    for (unsigned i = 0; i < levels; i++) {
        unsigned level = TM_BLOCK_LEVEL + i;
        uint64_t rows = tm_planes_level_dim(planes->rows, level);
        uint64_t cols = tm_planes_level_dim(planes->cols, level);
        tm_lod_halve(self->grid, rows, cols, coarser);
        uint64_t n = level_cells(planes, level + 1);
        memcpy(self->grid, coarser, n * sizeof(*coarser));
        to = put_cells(self->grid, tm_planes_level_dim(planes->rows, level + 1),
                       tm_planes_level_dim(planes->cols, level + 1), to, &self->cells[i]);
    }
    return 0;
}

/* ---- Making ---- */

static int keep(scan_tile *self, const tm_scan_total *total, size_t *ret_bytes)
{
    if (self->kind == TM_TILE_STATS)
        return keep_stats(self, total, ret_bytes);
    if (self->kind == TM_TILE_PLANE)
        return keep_plane(self, ret_bytes);
    if (self->kind == TM_TILE_COARSE)
        return keep_coarse(self, ret_bytes);
    const tm_level_cells *cells = &self->cells[0];
    *ret_bytes = sizeof(*self) + sizeof(*cells) +
                 cells->rows * cells->cols * sizeof(float) * TM_REDUCE_COUNT;
    return 0;
}

static void scan_done(void *ctx, int rc, const char *words, tm_scan_total *total)
{
    scan_tile *self = ctx;
    size_t bytes = 0;
    if (rc == 0)
        rc = keep(self, total, &bytes);
    free(TM_STEAL(self->grid));
    tm_work_tile_end(&self->work, rc, words, bytes);
}

static int scan_prepare(tm_work_tile *work)
{
    scan_tile *self = as_scan(work);
    bool gathers = self->kind == TM_TILE_PLANE || self->kind == TM_TILE_COARSE;
    if (gathers && !(self->grid = tm_new_array(level_cells(&self->blocks.planes, self->level),
                                               sizeof(*self->grid))))
        return -ENOMEM;
    tm_tensor_scan_params params = {
        .sched = work->source.sched,
        .tensor = work->source.tensor,
        .lane = work->lane,
        .first = self->first,
        .count = self->count,
        .level = self->level,
        .cells = self->kind == TM_TILE_LEVEL ? keep_level
                 : gathers                   ? gather
                                             : NULL,
        .done = scan_done,
        .ctx = self,
    };
    self->scan = tm_tensor_scan_unref(self->scan);
    return tm_tensor_scan_new(&params, &self->scan);
}

static void scan_go(tm_work_tile *work)
{
    tm_tensor_scan *scan = tm_tensor_scan_ref(as_scan(work)->scan);
    tm_tensor_scan_start(scan); /* WORK may be gone when it returns */
    tm_tensor_scan_unref(scan);
}

static void scan_stop(tm_work_tile *work)
{
    tm_tensor_scan_cancel(as_scan(work)->scan);
}

static void scan_hurry(tm_work_tile *work)
{
    tm_tensor_scan_hurry(as_scan(work)->scan, work->lane);
}

static void scan_forget(tm_work_tile *work)
{
    scan_tile *self = as_scan(work);
    tm_tensor_stats_free(TM_STEAL(self->stats));
    free(TM_STEAL(self->content));
    free(TM_STEAL(self->cells));
    free(TM_STEAL(self->grid));
}

static void scan_free(tm_work_tile *work)
{
    tm_tensor_scan_unref(as_scan(work)->scan);
    free(as_scan(work));
}

static const tm_work_ops scan_ops = {
    .prepare = scan_prepare,
    .go = scan_go,
    .stop = scan_stop,
    .hurry = scan_hurry,
    .forget = scan_forget,
    .free = scan_free,
};

/* ---- Getting ---- */

static int scan_tile_new(const void *ctx, tm_tile **ret)
{
    scan_tile *self = TM_NEW(scan_tile);
    if (!self)
        return -ENOMEM;
    *self = *(const scan_tile *)ctx;
    tm_work_tile_init(&self->work);
    *ret = &self->work.tile;
    return 0;
}

static int get(scan_tile *wanted, uint64_t index, tm_tile **ret)
{
    const tm_tile_source *source = &wanted->work.source;
    tm_tile_key key = {
        .group = source->group,
        .item = source->item,
        .kind = wanted->kind,
        .part = (uint32_t)source->part << 8 | wanted->level,
        .index = index,
    };
    return tm_store_get(source->store, &key, wanted->work.lane, scan_tile_new, wanted, ret);
}

static scan_tile wanted_of(const tm_tile_source *source, tm_tile_kind kind, tm_lane lane)
{
    const tm_tensor *tensor = source->tensor;
    return (scan_tile){
        .work = {.source = *source, .lane = lane, .ops = &scan_ops},
        .kind = kind,
        .blocks = tm_blocks_of(tensor->dims, tensor->rank, tm_dtype_get(tensor->dtype)->bits),
    };
}

int tm_tile_stats_get(const tm_tile_source *source, tm_lane lane, tm_tile **ret)
{
    scan_tile wanted = wanted_of(source, TM_TILE_STATS, lane);
    wanted.count = wanted.blocks.count;
    return get(&wanted, 0, ret);
}

bool tm_tile_stats_known(tm_store *store, uint32_t group, uint32_t item, tm_stats_record *ret)
{
    tm_tile_key key = {.group = group, .item = item, .kind = TM_TILE_STATS};
    tm_tile *tile = tm_store_peek(store, &key);
    if (tile)
        *ret = tm_tile_stats(tile)->record;
    tm_tile_unref(tile);
    return tile;
}

int tm_tile_level_get(const tm_tile_source *source, unsigned level, uint64_t block, tm_lane lane,
                      tm_tile **ret)
{
    assert(level >= 1 && level <= TM_BLOCK_LEVEL);
    scan_tile wanted = wanted_of(source, TM_TILE_LEVEL, lane);
    wanted.level = level;
    wanted.first = block;
    wanted.count = 1;
    return get(&wanted, block, ret);
}

int tm_tile_plane_get(const tm_tile_source *source, unsigned level, uint64_t plane, tm_lane lane,
                      tm_tile **ret)
{
    assert(level >= 1 && level <= TM_BLOCK_LEVEL);
    scan_tile wanted = wanted_of(source, TM_TILE_PLANE, lane);
    wanted.level = level;
    wanted.count = wanted.blocks.down * wanted.blocks.across;
    wanted.first = plane * wanted.count;
    return get(&wanted, plane, ret);
}

int tm_tile_coarse_get(const tm_tile_source *source, uint64_t plane, tm_lane lane, tm_tile **ret)
{
    scan_tile wanted = wanted_of(source, TM_TILE_COARSE, lane);
    wanted.level = TM_BLOCK_LEVEL;
    wanted.count = wanted.blocks.down * wanted.blocks.across;
    wanted.first = plane * wanted.count;
    return get(&wanted, plane, ret);
}

const tm_tensor_stats *tm_tile_stats(const tm_tile *tile)
{
    const scan_tile *self = as_scan(tm_work_of(tile));
    assert(self->kind == TM_TILE_STATS && tile->resident);
    return self->stats;
}

tm_level_cells tm_tile_cells(const tm_tile *tile, unsigned level)
{
    const scan_tile *self = as_scan(tm_work_of(tile));
    unsigned i = self->kind == TM_TILE_COARSE ? level - TM_BLOCK_LEVEL - 1 : 0;
    assert(self->kind != TM_TILE_STATS && i < self->cells_count && tile->resident);
    return self->cells[i];
}
