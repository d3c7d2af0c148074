#include "compute/axis_tiles.h"

#include "core/plan.h"
#include "core/read.h"

enum {
    LINES_MAX = 1 << 16,   /* of a tile */
    ROWS_BYTES = 64 << 20, /* about what a tile of rows reads, so that the first lines come soon */
    CHUNK_BYTES = 4 << 20, /* of one read */
    SEGMENT_ALIGN = 64,    /* where each row's part begins in a chunk */
};

/* The rectangle of a plane that a tile walks over, cut into chunks: rows of it, or parts of one. */
typedef struct rectangle {
    uint64_t plane, row, col, rows, cols;
    uint64_t chunk_rows, chunk_cols; /* of a whole chunk; one of them is all of its axis */
    uint64_t chunks;
} rectangle;

/* ---- The rectangle as bytes: chunk I at I * stride ---- */

typedef struct chunk_blob {
    tm_blob blob;
    tm_tensor *tensor; /* referenced: a read that was given up may still plan */
    tm_planes planes;
    rectangle rect;
    unsigned bits;
    uint64_t segment; /* bytes of a row's part, with room for one that starts within a byte */
    uint64_t stride;  /* of a chunk */
} chunk_blob;

typedef struct chunk {
    uint64_t row, col, rows, cols;
} chunk;

static chunk chunk_at(const rectangle *r, uint64_t i)
{
    chunk c = {.rows = r->rows, .cols = r->cols};
    if (r->chunk_cols < r->cols) {
        uint64_t across = (r->cols + r->chunk_cols - 1) / r->chunk_cols;
        c.row = i / across;
        c.col = i % across * r->chunk_cols;
        c.rows = 1;
        c.cols = tm_min_u64(r->chunk_cols, r->cols - c.col);
    } else {
        c.row = i * r->chunk_rows;
        c.rows = tm_min_u64(r->chunk_rows, r->rows - c.row);
    }
    c.row += r->row;
    c.col += r->col;
    return c;
}

/* The first element of a row's part, and whether that lies within a byte. */
static uint64_t segment_at(const chunk_blob *self, uint64_t row, uint64_t col, bool *ret_odd)
{
    uint64_t first = (self->rect.plane * self->planes.rows + row) * self->planes.cols + col;
    *ret_odd = self->bits < 8 && first * self->bits % 8 != 0;
    return first;
}

/* Whole rows of whole bytes follow each other without gaps. */
static bool is_packed(const chunk_blob *self)
{
    return self->bits >= 8 && self->rect.chunk_cols == self->planes.cols;
}

static int chunk_plan(tm_blob *blob, tm_plan *plan, uint64_t off, size_t len, uint8_t *dst)
{
    chunk_blob *self = TM_CONTAINER(blob, chunk_blob, blob);
    assert(off % self->stride == 0 && len == self->stride);
    chunk c = chunk_at(&self->rect, off / self->stride);
    bool odd;
    if (is_packed(self))
        return tm_tensor_plan(self->tensor, plan, segment_at(self, c.row, c.col, &odd),
                              c.rows * c.cols, dst);
    for (uint64_t r = 0; r < c.rows; r++) {
        uint64_t first = segment_at(self, c.row + r, c.col, &odd);
        TM_TRY(
            tm_tensor_plan(self->tensor, plan, first - odd, c.cols + odd, dst + r * self->segment));
    }
    return 0;
}

static void chunk_free(tm_blob *blob)
{
    chunk_blob *self = TM_CONTAINER(blob, chunk_blob, blob);
    tm_tensor_unref(self->tensor);
    free(self);
}

static const tm_blob_ops chunk_ops = {.kind = "lines", .plan = chunk_plan, .free = chunk_free};

static int chunk_blob_new(tm_tensor *tensor, const rectangle *rect, chunk_blob **ret)
{
    chunk_blob *self = TM_NEW(chunk_blob);
    uint64_t size;
    if (!self)
        return -ENOMEM;
    self->planes = tm_planes_of(tensor->dims, tensor->rank);
    self->rect = *rect;
    self->bits = tm_dtype_get(tensor->dtype)->bits;
    uint64_t bytes = (rect->chunk_cols * self->bits + 7) / 8 + 1;
    self->segment = is_packed(self) ? rect->chunk_cols * self->bits / 8
                                    : (bytes + SEGMENT_ALIGN - 1) / SEGMENT_ALIGN * SEGMENT_ALIGN;
    self->stride = rect->chunk_rows * self->segment;
    if (tm_mul_overflow(self->stride, rect->chunks, &size)) {
        free(self);
        return -EFBIG;
    }
    tm_blob_init(&self->blob, &chunk_ops, size);
    self->tensor = tm_tensor_ref(tensor);
    *ret = self;
    return 0;
}

static void cut_into_chunks(rectangle *r, unsigned bits)
{
    uint64_t fits = (uint64_t)CHUNK_BYTES * 8 / bits;
    r->chunk_cols = tm_min_u64(r->cols, fits);
    r->chunk_rows = r->chunk_cols < r->cols ? 1 : tm_max_u64(fits / tm_max_u64(r->cols, 1), 1);
    r->chunk_rows = tm_min_u64(r->chunk_rows, r->rows);
    uint64_t across = (r->cols + r->chunk_cols - 1) / r->chunk_cols;
    r->chunks = across * ((r->rows + r->chunk_rows - 1) / r->chunk_rows);
}

/* ---- Making ---- */

typedef struct axis_tile {
    tm_work_tile work;
    tm_axis axis;
    rectangle rect;
    uint64_t first, count; /* lines */
    tm_axis_entry *entries;

    /* While it is made: */
    tm_axis_stats *stats;
    chunk_blob *chunks;
    uint64_t next;
    tm_job job;
    tm_read *read; /* guarded by the work's lock */
} axis_tile;

static axis_tile *as_axis(tm_work_tile *work)
{
    return TM_CONTAINER(work, axis_tile, work);
}

static void end(axis_tile *self, int rc, const char *words)
{
    tm_axis_stats_free(TM_STEAL(self->stats));
    tm_work_tile_end(&self->work, rc, words, sizeof(*self) + self->count * sizeof(*self->entries));
}

static void add_chunk(axis_tile *self, uint64_t i, const uint8_t *bytes)
{
    chunk c = chunk_at(&self->rect, i);
    for (uint64_t r = 0; r < c.rows; r++) {
        bool odd;
        segment_at(self->chunks, c.row + r, c.col, &odd);
        tm_axis_stats_add(self->stats, bytes + r * self->chunks->segment, odd, c.cols);
    }
}

static void read_next(axis_tile *self);

static tm_read *take_read(axis_tile *self)
{
    pthread_mutex_lock(&self->work.lock);
    tm_read *read = TM_STEAL(self->read);
    pthread_mutex_unlock(&self->work.lock);
    return read;
}

static void run_chunk(tm_job *job)
{
    axis_tile *self = TM_CONTAINER(job, axis_tile, job);
    add_chunk(self, self->next++, self->read->bytes);
    tm_read_unref(take_read(self));
    read_next(self);
}

/* Has a worker add what was read. The tile's lock is held. */
static void submit(axis_tile *self)
{
    self->job = (tm_job){.run = run_chunk, .lane = self->work.lane};
    tm_pool_submit(self->work.source.sched->workers, &self->job);
}

static void chunk_read(tm_read *read, int rc)
{
    axis_tile *self = read->params.user;
    if (rc == 0) {
        pthread_mutex_lock(&self->work.lock);
        submit(self); /* once it has run, SELF may be gone */
        pthread_mutex_unlock(&self->work.lock);
        return;
    }
    take_read(self);
    end(self, rc, tm_req_words(&read->req));
    tm_read_unref(read);
}

/* Reads the next chunk; at the end, that is told. SELF may be gone when it returns. */
static void read_next(axis_tile *self)
{
    if (self->next == self->rect.chunks) {
        end(self, 0, NULL);
        return;
    }
    tm_read_params params = {
        .sched = self->work.source.sched,
        .blob = &self->chunks->blob,
        .off = self->next * self->chunks->stride,
        .len = self->chunks->stride,
        .done = chunk_read,
        .user = self,
    };
    tm_read *read = NULL;
    pthread_mutex_lock(&self->work.lock);
    params.lane = self->work.lane;
    int rc = self->work.cancelled ? -EINTR : tm_read_new(&params, &self->read);
    if (rc == 0)
        read = tm_read_ref(self->read);
    pthread_mutex_unlock(&self->work.lock);
    if (rc < 0) {
        end(self, rc, rc == -EINTR ? "interrupted" : "out of memory");
        return;
    }
    tm_read_go(read);
    tm_read_unref(read);
}

static void axis_forget(tm_work_tile *work)
{
    axis_tile *self = as_axis(work);
    free(TM_STEAL(self->entries));
    tm_axis_stats_free(TM_STEAL(self->stats));
}

static void drop_chunks(axis_tile *self)
{
    if (self->chunks)
        tm_blob_unref(&self->chunks->blob);
    self->chunks = NULL;
}

static int axis_prepare(tm_work_tile *work)
{
    axis_tile *self = as_axis(work);
    bool rows = self->axis == TM_AXIS_ROWS;
    tm_tensor *tensor = work->source.tensor;
    self->entries = tm_new_array(self->count, sizeof(*self->entries));
    if (!self->entries)
        return -ENOMEM;
    tm_axis_shape shape = {.rows = self->rect.rows, .cols = self->rect.cols};
    shape.of_row = rows ? self->entries : NULL;
    shape.of_col = rows ? NULL : self->entries;
    self->stats = tm_axis_stats_new(tm_cpu_best(), tensor->dtype, &shape);
    if (!self->stats)
        return -ENOMEM;
    self->next = 0;
    drop_chunks(self);
    return chunk_blob_new(tensor, &self->rect, &self->chunks);
}

static void axis_go(tm_work_tile *work)
{
    read_next(as_axis(work));
}

static void axis_stop(tm_work_tile *work)
{
    if (as_axis(work)->read)
        tm_read_cancel(as_axis(work)->read, EINTR, "interrupted");
}

static void axis_hurry(tm_work_tile *work)
{
    axis_tile *self = as_axis(work);
    if (tm_pool_withdraw(work->source.sched->workers, &self->job))
        submit(self);
}

static void axis_free(tm_work_tile *work)
{
    drop_chunks(as_axis(work));
    free(as_axis(work));
}

static const tm_work_ops axis_ops = {
    .prepare = axis_prepare,
    .go = axis_go,
    .stop = axis_stop,
    .hurry = axis_hurry,
    .forget = axis_forget,
    .free = axis_free,
};

/* ---- Getting ---- */

uint64_t tm_axis_lines(const tm_planes *planes, tm_axis axis)
{
    bool none = planes->rows == 0 || planes->cols == 0;
    return none ? 0 : planes->planes * (axis == TM_AXIS_ROWS ? planes->rows : planes->cols);
}

/* Lines of a tile that is not cut at a plane's end. */
static uint64_t window_of(const tm_planes *planes, tm_axis axis, unsigned bits)
{
    if (axis == TM_AXIS_COLS)
        return LINES_MAX;
    uint64_t rows = (uint64_t)ROWS_BYTES * 8 / bits / planes->cols;
    return tm_min_u64(tm_max_u64(rows, 1), LINES_MAX);
}

static int axis_new(const void *ctx, tm_tile **ret)
{
    axis_tile *self = TM_NEW(axis_tile);
    if (!self)
        return -ENOMEM;
    *self = *(const axis_tile *)ctx;
    tm_work_tile_init(&self->work);
    *ret = &self->work.tile;
    return 0;
}

int tm_tile_axis_get(const tm_tile_source *source, tm_axis axis, uint64_t line, tm_lane lane,
                     tm_tile **ret)
{
    const tm_tensor *tensor = source->tensor;
    unsigned bits = tm_dtype_get(tensor->dtype)->bits;
    tm_planes planes = tm_planes_of(tensor->dims, tensor->rank);
    axis_tile wanted = {.work = {.source = *source, .lane = lane, .ops = &axis_ops}, .axis = axis};
    bool rows = axis == TM_AXIS_ROWS;
    uint64_t length = rows ? planes.rows : planes.cols;
    uint64_t window = window_of(&planes, axis, bits);
    uint64_t at = line % length / window * window; /* in its plane */
    wanted.rect = (rectangle){.plane = line / length,
                              .row = rows ? at : 0,
                              .col = rows ? 0 : at,
                              .rows = planes.rows,
                              .cols = planes.cols};
    wanted.count = tm_min_u64(window, length - at);
    *(rows ? &wanted.rect.rows : &wanted.rect.cols) = wanted.count;
    wanted.first = line / length * length + at;
    cut_into_chunks(&wanted.rect, bits);
    tm_tile_key key = {
        .group = source->group,
        .item = source->item,
        .kind = rows ? TM_TILE_ROWS : TM_TILE_COLS,
        .part = source->part,
        .index = wanted.first,
    };
    return tm_store_get(source->store, &key, lane, axis_new, &wanted, ret);
}

void tm_tile_axis_range(const tm_tile *tile, uint64_t *ret_first, uint64_t *ret_count)
{
    const axis_tile *self = as_axis(tm_work_of(tile));
    *ret_first = self->first;
    *ret_count = self->count;
}

const tm_axis_entry *tm_tile_axis(const tm_tile *tile)
{
    assert(tile->resident);
    return as_axis(tm_work_of(tile))->entries;
}
