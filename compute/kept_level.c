#include "compute/kept_level.h"

#include <math.h>

#include "core/plan.h"

enum {
    WINDOW = 1 << 18 /* cells that one plan covers: extremes of finer levels take some times that */
};

typedef struct kept_tensor {
    tm_tensor tensor;
    tm_kept_level kept;            /* with references */
    tm_reducer reducer;            /* TM_REDUCE_COUNT: the tensor has an axis of them */
    uint64_t rows, cols;           /* of the level's planes */
    uint64_t fine_rows, fine_cols; /* of those that have the extremes */
} kept_tensor;

/* ---- Extremes of a finer level ---- */

typedef struct reduction {
    const float *fine; /* those below the cells, row by row */
    uint64_t fine_rows, fine_cols;
    unsigned shift; /* how many levels */
    bool greatest;
    uint64_t count; /* cells of one row */
    float *dst;
} reduction;

/* NaN stands for a cell without finite values, which does not count. */
static float reduce_cell(const reduction *r, uint64_t col)
{
    uint64_t first = col << r->shift;
    uint64_t end = tm_min_u64((col + 1) << r->shift, r->fine_cols);
    float value = NAN;
    for (uint64_t row = 0; row < r->fine_rows; row++) {
        const float *cells = r->fine + row * r->fine_cols;
        for (uint64_t i = first; i < end; i++) {
            if (isnan(value) || (r->greatest ? cells[i] > value : cells[i] < value))
                value = cells[i];
        }
    }
    return value;
}

static int run_reduction(void *args, tm_req *req)
{
    const reduction *r = args;
    (void)req;
    for (uint64_t i = 0; i < r->count; i++)
        r->dst[i] = reduce_cell(r, i);
    return 0;
}

/* COUNT cells from AT (all planes counted through), within one row. */
static int plan_reduction(const kept_tensor *self, tm_plan *plan, bool greatest, uint64_t at,
                          uint64_t count, float *dst)
{
    unsigned shift = self->kept.level - self->kept.extremes_level;
    uint64_t row = at / self->cols % self->rows, plane = at / self->cols / self->rows;
    uint64_t col = at % self->cols << shift, first = row << shift;
    reduction r = {
        .fine_rows = tm_min_u64((row + 1) << shift, self->fine_rows) - first,
        .fine_cols = tm_min_u64(col + (count << shift), self->fine_cols) - col,
        .shift = shift,
        .greatest = greatest,
        .count = count,
        .dst = dst,
    };
    float *fine = tm_plan_scratch(plan, r.fine_rows * r.fine_cols * sizeof(*fine));
    if (!fine)
        return tm_fail(tm_plan_req(plan), ENOMEM, "out of memory");
    r.fine = fine;
    for (uint64_t i = 0; i < r.fine_rows; i++)
        TM_TRY(tm_tensor_plan_f32(self->kept.extremes[greatest], plan,
                                  (plane * self->fine_rows + first + i) * self->fine_cols + col,
                                  r.fine_cols, fine + i * r.fine_cols));
    return tm_plan_run(plan, run_reduction, &r, sizeof(r));
}

/* ---- The tensor ---- */

/* What one reducer has from cell AT on: as many of COUNT as can be planned together. */
static int plan_some(const kept_tensor *self, tm_plan *plan, tm_reducer reducer, uint64_t at,
                     uint64_t *count, float *dst)
{
    bool finer = self->kept.extremes_level < self->kept.level;
    if (reducer == TM_REDUCE_MEAN)
        return tm_tensor_plan_f32(self->kept.means, plan, at, *count, dst);
    if (reducer == TM_REDUCE_NONFINITE) {
        memset(dst, 0, *count * sizeof(*dst));
        return 0;
    }
    bool greatest = reducer == TM_REDUCE_MAX;
    if (!finer)
        return tm_tensor_plan_f32(self->kept.extremes[greatest], plan, at, *count, dst);
    *count = tm_min_u64(*count, self->cols - at % self->cols);
    return plan_reduction(self, plan, greatest, at, *count, dst);
}

static int kept_plan(tm_tensor *tensor, tm_plan *plan, uint64_t first, uint64_t count, void *dst)
{
    const kept_tensor *self = TM_CONTAINER(tensor, kept_tensor, tensor);
    uint64_t cells = self->kept.planes.planes * self->rows * self->cols;
    float *to = dst;
    while (count > 0) {
        bool all = self->reducer == TM_REDUCE_COUNT;
        uint64_t n = tm_min_u64(count, cells - first % cells);
        tm_reducer reducer = all ? (tm_reducer)(first / cells) : self->reducer;
        TM_TRY(plan_some(self, plan, reducer, first % cells, &n, to));
        first += n;
        count -= n;
        to += n;
    }
    return 0;
}

static void kept_free(tm_tensor *tensor)
{
    kept_tensor *self = TM_CONTAINER(tensor, kept_tensor, tensor);
    tm_tensor_unref(self->kept.means);
    tm_tensor_unref(self->kept.extremes[0]);
    tm_tensor_unref(self->kept.extremes[1]);
    free(self);
}

static const tm_tensor_ops kept_ops = {.plan = kept_plan, .free = kept_free};

int tm_kept_level_new(const tm_kept_level *kept, const uint64_t *dims, size_t rank,
                      tm_reducer reducer, tm_tensor **ret)
{
    assert(kept->extremes_level >= 1 && kept->extremes_level <= kept->level);
    uint64_t level_dims[TM_LEVEL_RANK_MAX];
    size_t level_rank = tm_level_dims(dims, rank, kept->level, reducer, level_dims);
    kept_tensor *self = TM_NEW(kept_tensor);
    if (!self || tm_tensor_init(&self->tensor, &kept_ops, TM_F32, level_dims, level_rank) < 0) {
        free(self);
        return -ENOMEM;
    }
    self->kept = *kept;
    tm_tensor_ref(kept->means);
    tm_tensor_ref(kept->extremes[0]);
    tm_tensor_ref(kept->extremes[1]);
    self->reducer = reducer;
    self->rows = tm_planes_level_dim(kept->planes.rows, kept->level);
    self->cols = tm_planes_level_dim(kept->planes.cols, kept->level);
    self->fine_rows = tm_planes_level_dim(kept->planes.rows, kept->extremes_level);
    self->fine_cols = tm_planes_level_dim(kept->planes.cols, kept->extremes_level);
    self->tensor.window = WINDOW;
    *ret = &self->tensor;
    return 0;
}
