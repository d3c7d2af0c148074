#include "compute/level_tensor.h"

#include "core/plan.h"

enum {
    WAITS_MAX = 4 /* tiles made for one read at once */
};

typedef struct level_tensor {
    tm_tensor tensor;
    tm_tile_source source; /* its tensor referenced */
    tm_blocks blocks;
    unsigned level;
    tm_reducer reducer;  /* TM_REDUCE_COUNT: the tensor has an axis of them */
    uint64_t rows, cols; /* of the level's planes */
} level_tensor;

static level_tensor *as_level(tm_tensor *tensor)
{
    return TM_CONTAINER(tensor, level_tensor, tensor);
}

size_t tm_level_dims(const uint64_t *dims, size_t rank, unsigned level, tm_reducer reducer,
                     uint64_t ret[TM_LEVEL_RANK_MAX])
{
    tm_planes planes = tm_planes_of(dims, rank);
    size_t n = 0;
    if (reducer == TM_REDUCE_COUNT)
        ret[n++] = TM_REDUCE_COUNT;
    if (planes.planes != 1)
        ret[n++] = planes.planes;
    ret[n++] = tm_planes_level_dim(planes.rows, level);
    ret[n++] = tm_planes_level_dim(planes.cols, level);
    return n;
}

/* Cells of one tile that follow each other in the tensor. */
typedef struct run {
    tm_reducer reducer;
    uint64_t plane;
    uint64_t block;              /* up to TM_BLOCK_LEVEL: whose tile it is */
    uint64_t tile_row, tile_col; /* of the first */
    uint64_t count;
} run;

/* The run that begins at cell FIRST, of at most COUNT. */
static run run_at(const level_tensor *self, uint64_t first, uint64_t count)
{
    const tm_blocks *b = &self->blocks;
    uint64_t plane_cells = self->rows * self->cols, plane = first / plane_cells;
    uint64_t row = first % plane_cells / self->cols, col = first % self->cols;
    bool all = self->reducer == TM_REDUCE_COUNT;
    run r = {
        .reducer = all ? (tm_reducer)(plane / b->planes.planes) : self->reducer,
        .plane = plane % b->planes.planes,
        .tile_row = row,
        .tile_col = col,
        .count = tm_min_u64(count, self->cols - col),
    };
    if (self->level > TM_BLOCK_LEVEL)
        return r;
    uint64_t down = (row << self->level) / b->rows, across = (col << self->level) / b->cols;
    r.block = (r.plane * b->down + down) * b->across + across;
    /* Blocks begin at multiples of 256 rows and 4096 columns, so nothing is lost by the shift. */
    r.tile_row -= down * b->rows >> self->level;
    r.tile_col -= across * b->cols >> self->level;
    if (across + 1 < b->across)
        r.count = tm_min_u64(r.count, (b->cols >> self->level) - r.tile_col);
    return r;
}

static int get_tile(const level_tensor *self, const run *r, tm_lane lane, tm_tile **ret)
{
    if (self->level > TM_BLOCK_LEVEL)
        return tm_tile_coarse_get(&self->source, r->plane, lane, ret);
    return tm_tile_level_get(&self->source, self->level, r->block, lane, ret);
}

static int level_plan(tm_tensor *tensor, tm_plan *plan, uint64_t first, uint64_t count, void *dst)
{
    const level_tensor *self = as_level(tensor);
    float *to = dst;
    unsigned waits = 0;
    for (run r; count > 0 && waits < WAITS_MAX; first += r.count, count -= r.count, to += r.count) {
        r = run_at(self, first, count);
        tm_tile *tile;
        if (get_tile(self, &r, tm_plan_req(plan)->lane, &tile) < 0)
            return tm_fail(tm_plan_req(plan), ENOMEM, "out of memory");
        TM_TRY(tm_plan_tile(plan, tile));
        if (tm_shared_poll(&tile->shared) < 0) {
            TM_TRY(tm_plan_wait(plan, &tile->shared));
            waits++;
            continue;
        }
        tm_level_cells cells = tm_tile_cells(tile, self->level);
        memcpy(to, cells.of[r.reducer] + r.tile_row * cells.cols + r.tile_col,
               r.count * sizeof(*to));
    }
    return 0;
}

static int level_hold(tm_tensor *tensor, tm_req *req)
{
    return tm_tensor_hold(as_level(tensor)->source.tensor, req);
}

static void level_unhold(tm_tensor *tensor)
{
    tm_tensor_unhold(as_level(tensor)->source.tensor);
}

static void level_free(tm_tensor *tensor)
{
    level_tensor *self = as_level(tensor);
    tm_tensor_unref(self->source.tensor);
    free(self);
}

static const tm_tensor_ops level_ops = {
    .plan = level_plan,
    .hold = level_hold,
    .unhold = level_unhold,
    .free = level_free,
};

/* As many cells as one tile gives in a run, so that one read does not set off a whole tensor's. */
static uint64_t window_of(const level_tensor *self)
{
    const tm_blocks *b = &self->blocks;
    if (self->level > TM_BLOCK_LEVEL)
        return 0;
    uint64_t rows = tm_max_u64(b->rows >> self->level, 1);
    uint64_t cols = tm_max_u64(b->cols >> self->level, 1);
    return b->across > 1 ? cols : rows * cols;
}

int tm_level_tensor_new(const tm_tile_source *source, unsigned level, tm_reducer reducer,
                        tm_tensor **ret)
{
    assert(level >= 1 && source->tensor->elems > 0);
    const tm_tensor *of = source->tensor;
    uint64_t dims[TM_LEVEL_RANK_MAX];
    size_t rank = tm_level_dims(of->dims, of->rank, level, reducer, dims);
    level_tensor *self = TM_NEW(level_tensor);
    if (!self || tm_tensor_init(&self->tensor, &level_ops, TM_F32, dims, rank) < 0) {
        free(self);
        return -ENOMEM;
    }
    self->source = *source;
    tm_tensor_ref(self->source.tensor);
    self->blocks = tm_blocks_of(of->dims, of->rank, tm_dtype_get(of->dtype)->bits);
    self->level = level;
    self->reducer = reducer;
    self->rows = dims[rank - 2];
    self->cols = dims[rank - 1];
    self->tensor.window = window_of(self);
    *ret = &self->tensor;
    return 0;
}
