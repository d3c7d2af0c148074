#include "fs/level_picture.h"

#include "core/plan.h"
#include "formats/picture.h"

typedef struct picture_blob {
    tm_blob blob;
    tm_level_picture params; /* its tensors referenced */
    uint64_t rows, cols;
    pthread_mutex_t lock; /* guards drawn */
    uint8_t *drawn;       /* the whole file; NULL: not yet */
} picture_blob;

static picture_blob *as_picture(tm_blob *blob)
{
    return TM_CONTAINER(blob, picture_blob, blob);
}

/* Copies bytes of the file; false where it is not drawn yet. */
static bool copy_drawn(picture_blob *self, uint64_t off, size_t len, uint8_t *dst)
{
    pthread_mutex_lock(&self->lock);
    const uint8_t *drawn = self->drawn;
    pthread_mutex_unlock(&self->lock);
    if (drawn)
        memcpy(dst, drawn + off, len);
    return drawn;
}

typedef struct draw_args {
    picture_blob *self;
    const float *cells, *nonfinite;
    uint64_t off;
    size_t len;
    uint8_t *dst;
} draw_args;

static int run_draw(void *args, tm_req *req)
{
    const draw_args *a = args;
    picture_blob *self = a->self;
    uint8_t *file = malloc(self->blob.size);
    if (!file)
        return tm_fail(req, ENOMEM, "out of memory");
    tm_picture picture = {
        .rows = (uint32_t)self->rows,
        .cols = (uint32_t)self->cols,
        .cells = a->cells,
        .nonfinite = a->nonfinite,
        .scale = tm_picture_scale(a->cells, self->rows * self->cols),
        .level = self->params.level,
        .dtype = self->params.dtype,
    };
    tm_picture_write(&picture, file);
    memcpy(a->dst, file + a->off, a->len);
    pthread_mutex_lock(&self->lock);
    uint8_t *spare = self->drawn ? file : NULL; /* another read was first, with the same bytes */
    if (!spare)
        self->drawn = file;
    pthread_mutex_unlock(&self->lock);
    free(spare);
    return 0;
}

/* Cells that are those of TENSOR: the values themselves, or means. */
static int plan_cells(picture_blob *self, tm_tensor *tensor, tm_plan *plan, draw_args *a)
{
    uint64_t count = self->rows * self->cols;
    float *cells = tm_plan_scratch(plan, count * sizeof(*cells));
    if (!cells)
        return tm_fail(tm_plan_req(plan), ENOMEM, "out of memory");
    a->cells = cells;
    TM_TRY(tm_tensor_plan_f32(tensor, plan, self->params.plane * count, count, cells));
    return tm_plan_run(plan, run_draw, a, sizeof(*a));
}

static int picture_plan(tm_blob *blob, tm_plan *plan, uint64_t off, size_t len, uint8_t *dst)
{
    picture_blob *self = as_picture(blob);
    draw_args a = {.self = self, .off = off, .len = len, .dst = dst};
    tm_tile *tile;
    if (copy_drawn(self, off, len, dst))
        return 0;
    if (self->params.level == 0 || self->params.means)
        return plan_cells(
            self, self->params.means ? self->params.means : self->params.source.tensor, plan, &a);
    int rc =
        self->params.level > TM_BLOCK_LEVEL
            ? tm_tile_coarse_get(&self->params.source, self->params.plane, self->params.lane, &tile)
            : tm_tile_plane_get(&self->params.source, self->params.level, self->params.plane,
                                self->params.lane, &tile);
    if (rc < 0)
        return tm_fail(tm_plan_req(plan), ENOMEM, "out of memory");
    TM_TRY(tm_plan_tile(plan, tile));
    if (tm_shared_poll(&tile->shared) < 0)
        return tm_plan_wait(plan, &tile->shared);
    tm_level_cells cells = tm_tile_cells(tile, self->params.level);
    a.cells = cells.of[TM_REDUCE_MEAN];
    a.nonfinite = cells.of[TM_REDUCE_NONFINITE];
    return tm_plan_run(plan, run_draw, &a, sizeof(a));
}

static int picture_hold(tm_blob *blob, tm_req *req)
{
    return tm_tensor_hold(as_picture(blob)->params.source.tensor, req);
}

static void picture_unhold(tm_blob *blob)
{
    tm_tensor_unhold(as_picture(blob)->params.source.tensor);
}

static void picture_free(tm_blob *blob)
{
    picture_blob *self = as_picture(blob);
    tm_tensor_unref(self->params.source.tensor);
    tm_tensor_unref(self->params.means);
    pthread_mutex_destroy(&self->lock);
    free(self->drawn);
    free(self);
}

static const tm_blob_ops picture_ops = {
    .kind = "picture",
    .plan = picture_plan,
    .hold = picture_hold,
    .unhold = picture_unhold,
    .free = picture_free,
};

int tm_level_picture_new(const tm_level_picture *params, tm_blob **ret)
{
    picture_blob *self = TM_NEW(picture_blob);
    if (!self)
        return -ENOMEM;
    const tm_tensor *tensor = params->source.tensor;
    tm_planes planes = tm_planes_of(tensor->dims, tensor->rank);
    self->params = *params;
    tm_tensor_ref(self->params.source.tensor);
    if (self->params.means)
        tm_tensor_ref(self->params.means);
    self->rows = tm_planes_level_dim(planes.rows, params->level);
    self->cols = tm_planes_level_dim(planes.cols, params->level);
    pthread_mutex_init(&self->lock, NULL);
    tm_blob_init(&self->blob, &picture_ops, tm_picture_size(self->rows, self->cols));
    assert(self->blob.size > 0);
    *ret = &self->blob;
    return 0;
}
