#include "compute/tensor_scan.h"

#include "core/plan.h"
#include "core/prefetch.h"

enum {
    PARALLEL_MAX = 64
};

/* The blocks of a tensor as bytes, so that one is read by a read: block I at I * STRIDE. */
typedef struct blocks_blob {
    tm_blob blob;
    tm_tensor *tensor;
    tm_blocks blocks;
    unsigned bits;
    uint64_t stride;
} blocks_blob;

/* One of those that scan at once, each a block at a time. */
typedef struct slot {
    tm_tensor_scan *scan;
    tm_job job;
    tm_read *read; /* guarded by the scan's lock */
    uint64_t block;
    tm_scan *kernel;
    tm_stats stats;
    tm_lod_cell *cells, *spare; /* of a block: of level 4 or the level wanted, and of the next */
} slot;

struct tm_tensor_scan {
    tm_tensor_scan_params params;
    atomic_uint refs;
    blocks_blob *source;
    pthread_mutex_t lock; /* guards what follows */
    tm_lane lane;         /* of what it has still to do */
    uint64_t next, end;
    unsigned running;
    bool cancelled;
    tm_req req; /* the first error, in words */
    /* Rows with a value that is not zero, where several blocks have a row; columns likewise. */
    uint64_t *row_map, *col_map;
    uint64_t zero_rows, zero_cols;
    unsigned slot_count;
    slot slots[];
};

/* ---- Reading a block ---- */

static blocks_blob *as_blocks(tm_blob *blob)
{
    return TM_CONTAINER(blob, blocks_blob, blob);
}

static uint64_t first_elem(const tm_blocks *b, const tm_block *block)
{
    return (block->plane * b->planes.rows + block->row) * b->planes.cols + block->col;
}

/* Whether the first element of BLOCK lies within a byte. */
static bool starts_odd(const blocks_blob *self, const tm_block *block)
{
    return self->bits < 8 && first_elem(&self->blocks, block) * self->bits % 8 != 0;
}

static int blocks_plan(tm_blob *blob, tm_plan *plan, uint64_t off, size_t len, uint8_t *dst)
{
    blocks_blob *self = as_blocks(blob);
    assert(off % self->stride == 0 && len == self->stride);
    const tm_blocks *b = &self->blocks;
    tm_block block = tm_blocks_at(b, off / self->stride);
    uint64_t first = first_elem(b, &block);
    if (block.cols == b->planes.cols) {
        bool odd = starts_odd(self, &block);
        return tm_tensor_plan(self->tensor, plan, first - odd, block.rows * block.cols + odd, dst);
    }
    for (uint64_t r = 0; r < block.rows; r++) {
        TM_TRY(tm_tensor_plan(self->tensor, plan, first, block.cols, dst));
        first += b->planes.cols;
        dst += block.cols * self->bits / 8;
    }
    return 0;
}

static void blocks_free(tm_blob *blob)
{
    tm_tensor_unref(as_blocks(blob)->tensor);
    free(as_blocks(blob));
}

static const tm_blob_ops blocks_ops = {.kind = "blocks", .plan = blocks_plan, .free = blocks_free};

static int blocks_blob_new(tm_tensor *tensor, blocks_blob **ret)
{
    blocks_blob *self = TM_NEW(blocks_blob);
    uint64_t size;
    if (!self)
        return -ENOMEM;
    self->bits = tm_dtype_get(tensor->dtype)->bits;
    self->blocks = tm_blocks_of(tensor->dims, tensor->rank, self->bits);
    self->stride = tm_blocks_bytes(&self->blocks, self->bits);
    if (tm_mul_overflow(self->blocks.count, self->stride, &size)) {
        free(self);
        return -EFBIG;
    }
    tm_blob_init(&self->blob, &blocks_ops, size);
    self->tensor = tm_tensor_ref(tensor);
    *ret = self;
    return 0;
}

/* ---- Cells of a block ---- */

static uint64_t ceil_shift(uint64_t n, unsigned by)
{
    return (n >> by) + ((n & ((UINT64_C(1) << by) - 1)) != 0);
}

uint64_t tm_block_cell_rows(const tm_block *block, unsigned level)
{
    return ceil_shift(block->rows, level);
}

uint64_t tm_block_cell_cols(const tm_block *block, unsigned level)
{
    return ceil_shift(block->cols, level);
}

/* Cells of levels 1 to 3 of BLOCK's rows [row, row + piece->rows) from its elements, tile by tile.
 */
static int fine_cells(slot *s, const tm_scan_block *piece, uint64_t row, const tm_block *block)
{
    unsigned level = s->scan->params.level;
    uint64_t width = tm_block_cell_cols(block, level);
    tm_dtype dtype = s->scan->params.tensor->dtype;
    for (uint64_t col = 0; col < piece->cols; col += TM_TILE_SIDE) {
        tm_scan_block tile = *piece;
        tile.first += col;
        tile.cols = tm_min_u64(TM_TILE_SIDE, piece->cols - col);
        tm_block shape = {.rows = tile.rows, .cols = tile.cols};
        uint64_t rows = tm_block_cell_rows(&shape, level), cols = tm_block_cell_cols(&shape, level);
        TM_TRY(tm_scan_fine(s->kernel, dtype, &tile, level, s->spare));
        for (uint64_t r = 0; r < rows; r++)
            memcpy(s->cells + ((row >> level) + r) * width + (col >> level), s->spare + r * cols,
                   cols * sizeof(*s->cells));
    }
    return 0;
}

/* From cells of level 4 to those of the level wanted. */
static void coarsen(slot *s, const tm_block *block)
{
    for (unsigned level = TM_SCAN_LEVEL; level < s->scan->params.level; level++) {
        tm_lod_halve(s->cells, tm_block_cell_rows(block, level), tm_block_cell_cols(block, level),
                     s->spare);
        tm_lod_cell *swap = s->cells;
        s->cells = s->spare;
        s->spare = swap;
    }
}

/* ---- Rows and columns without values ---- */

static uint64_t ones(uint64_t word)
{
    return (uint64_t)__builtin_popcountll(word);
}

static bool has_bit(const uint64_t *map, uint64_t i)
{
    return map[i / 64] >> (i % 64) & 1;
}

static void set_bits(uint64_t *map, uint64_t at, const uint64_t *bits, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (has_bit(bits, i))
            map[(at + i) / 64] |= UINT64_C(1) << ((at + i) % 64);
}

static uint64_t count_ones(const uint64_t *map, uint64_t count)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < (count + 63) / 64; i++)
        n += ones(map[i]);
    return n;
}

/* Rows ROW … of BLOCK are done, BITS says which are not empty. */
static void note_rows(tm_tensor_scan *scan, const tm_block *block, uint64_t row, uint64_t rows,
                      const uint64_t *bits)
{
    const tm_planes *planes = &scan->source->blocks.planes;
    pthread_mutex_lock(&scan->lock);
    if (scan->row_map)
        set_bits(scan->row_map, block->plane * planes->rows + block->row + row, bits, rows);
    else
        scan->zero_rows += rows - count_ones(bits, rows);
    pthread_mutex_unlock(&scan->lock);
}

static void note_cols(tm_tensor_scan *scan, const tm_block *block, const uint64_t *bits)
{
    const tm_planes *planes = &scan->source->blocks.planes;
    pthread_mutex_lock(&scan->lock);
    if (scan->col_map)
        set_bits(scan->col_map, block->plane * planes->cols + block->col, bits, block->cols);
    else
        scan->zero_cols += block->cols - count_ones(bits, block->cols);
    pthread_mutex_unlock(&scan->lock);
}

/* ---- Scanning a block ---- */

/* COL_BITS: one a column, cleared. */
static int scan_block(slot *s, const uint8_t *src, uint64_t *col_bits)
{
    tm_tensor_scan *scan = s->scan;
    const blocks_blob *source = scan->source;
    const tm_blocks *b = &source->blocks;
    tm_block block = tm_blocks_at(b, s->block);
    unsigned level = scan->params.level;
    uint64_t width = tm_block_cell_cols(&block, TM_SCAN_LEVEL);
    for (uint64_t row = 0; row < block.rows; row += TM_TILE_SIDE) {
        tm_scan_block piece = {
            .src = src,
            .first = starts_odd(source, &block) + row * block.cols,
            .stride = block.cols,
            .rows = tm_min_u64(TM_TILE_SIDE, block.rows - row),
            .cols = block.cols,
            .index = first_elem(b, &block) + row * b->planes.cols,
            .row_elems = b->planes.cols,
        };
        uint64_t row_bits[TM_TILE_SIDE / 64] = {0};
        tm_scan_out out = {.row_bits = row_bits, .col_bits = col_bits};
        if (level >= TM_SCAN_LEVEL)
            out.cells = s->cells + (row >> TM_SCAN_LEVEL) * width;
        tm_scan_add(s->kernel, &piece, &out);
        note_rows(scan, &block, row, piece.rows, row_bits);
        if (level && level < TM_SCAN_LEVEL)
            TM_TRY(fine_cells(s, &piece, row, &block));
    }
    note_cols(scan, &block, col_bits);
    if (level > TM_SCAN_LEVEL)
        coarsen(s, &block);
    return level && scan->params.cells ? scan->params.cells(scan->params.ctx, s->block, s->cells)
                                       : 0;
}

/* ---- One after the other ---- */

static void fail(tm_tensor_scan *scan, int rc, const char *words)
{
    tm_fail(&scan->req, -rc, "%s", words && *words ? words : strerror(-rc));
}

static int total_of(tm_tensor_scan *scan, tm_scan_total *ret)
{
    const tm_planes *planes = &scan->source->blocks.planes;
    TM_TRY(tm_stats_init(&ret->stats, scan->params.tensor->dtype));
    for (unsigned i = 0; i < scan->slot_count; i++) {
        tm_scan_end(scan->slots[i].kernel);
        tm_stats_merge(&ret->stats, &scan->slots[i].stats);
    }
    uint64_t rows = planes->planes * planes->rows, cols = planes->planes * planes->cols;
    ret->zero_rows = scan->row_map ? rows - count_ones(scan->row_map, rows) : scan->zero_rows;
    ret->zero_cols = scan->col_map ? cols - count_ones(scan->col_map, cols) : scan->zero_cols;
    return 0;
}

/* What scanning needed, mebibytes a slot: who keeps a scan that has ended keeps none of it. */
static void drop_memory(tm_tensor_scan *scan)
{
    for (unsigned i = 0; i < scan->slot_count; i++) {
        slot *s = &scan->slots[i];
        tm_scan_free(TM_STEAL(s->kernel));
        tm_stats_done(&s->stats);
        free(TM_STEAL(s->cells));
        free(TM_STEAL(s->spare));
    }
    free(TM_STEAL(scan->row_map));
    free(TM_STEAL(scan->col_map));
}

/* The last slot has ended. */
static void end(tm_tensor_scan *scan)
{
    tm_scan_total total = {.zero_rows = 0};
    int rc = atomic_load(&scan->req.error);
    pthread_mutex_lock(&scan->lock);
    if (rc == 0 && scan->cancelled && scan->next < scan->end)
        rc = -EINTR;
    pthread_mutex_unlock(&scan->lock);
    if (rc == 0)
        rc = total_of(scan, &total);
    if (rc < 0)
        fail(scan, rc, rc == -EINTR ? "interrupted" : NULL);
    tm_prefetch_cancel(scan->params.sched, scan);
    drop_memory(scan);
    scan->params.done(scan->params.ctx, rc, tm_req_words(&scan->req), rc == 0 ? &total : NULL);
    tm_stats_done(&total.stats);
    tm_tensor_scan_unref(scan);
}

static bool read_next(slot *s);

/* S has nothing left to do. */
static void leave(slot *s)
{
    tm_tensor_scan *scan = s->scan;
    pthread_mutex_lock(&scan->lock);
    bool last = --scan->running == 0;
    pthread_mutex_unlock(&scan->lock);
    if (last)
        end(scan);
}

/* Has a worker scan what S has read. The lock is held. */
static void submit(slot *s)
{
    s->job.lane = s->scan->lane;
    tm_pool_submit(tm_sched_workers(s->scan->params.sched, s->job.lane), &s->job);
}

static void run_block(tm_job *job)
{
    slot *s = TM_CONTAINER(job, slot, job);
    uint64_t cols = s->scan->source->blocks.cols;
    TM_AUTO_FREE uint64_t *col_bits = tm_new_array((cols + 63) / 64, sizeof(*col_bits));
    int rc = col_bits ? scan_block(s, s->read->bytes, col_bits) : -ENOMEM;
    if (rc < 0)
        fail(s->scan, rc, NULL);
    tm_read *read = s->read;
    pthread_mutex_lock(&s->scan->lock);
    s->read = NULL;
    pthread_mutex_unlock(&s->scan->lock);
    tm_read_unref(read);
    if (!read_next(s))
        leave(s);
}

static void block_read(tm_read *read, int rc)
{
    slot *s = read->params.user;
    if (rc < 0)
        fail(s->scan, rc, tm_req_words(&read->req));
    pthread_mutex_t *lock = &s->scan->lock;
    pthread_mutex_lock(lock);
    if (rc == 0)
        submit(s); /* once it has run, S may be gone */
    else
        s->read = NULL;
    pthread_mutex_unlock(lock);
    if (rc == 0)
        return;
    tm_read_unref(read);
    leave(s);
}

/* Has the block brought near that a slot will take when all have done the one they are at. The lock
 * is held. */
static void foretell(tm_tensor_scan *scan, uint64_t block)
{
    uint64_t later = block + scan->slot_count;
    if (later < scan->end)
        tm_prefetch_ask(scan->params.sched, scan, scan->lane, &scan->source->blob,
                        later * scan->source->stride, scan->source->stride);
}

/* Takes the next block and has it read; false where there is none. */
static bool read_next(slot *s)
{
    tm_tensor_scan *scan = s->scan;
    tm_read *read = NULL;
    pthread_mutex_lock(&scan->lock);
    if (scan->next < scan->end && !scan->cancelled && atomic_load(&scan->req.error) == 0) {
        s->block = scan->next++;
        tm_read_params params = {
            .sched = scan->params.sched,
            .blob = &scan->source->blob,
            .off = s->block * scan->source->stride,
            .len = scan->source->stride,
            .lane = scan->lane,
            .done = block_read,
            .user = s,
        };
        int rc = tm_read_new(&params, &s->read);
        if (rc == 0) {
            read = tm_read_ref(s->read);
            foretell(scan, s->block);
        } else {
            fail(scan, rc, NULL);
        }
    }
    pthread_mutex_unlock(&scan->lock);
    if (!read)
        return false;
    tm_read_go(read); /* SCAN may be gone when it returns */
    tm_read_unref(read);
    return true;
}

void tm_tensor_scan_start(tm_tensor_scan *scan)
{
    atomic_fetch_add(&scan->refs, 1); /* until its end */
    scan->running = scan->slot_count + 1;
    for (unsigned i = 0; i < scan->slot_count; i++)
        if (!read_next(&scan->slots[i]))
            leave(&scan->slots[i]);
    leave(&scan->slots[0]); /* what kept the end from coming before all had begun */
}

void tm_tensor_scan_cancel(tm_tensor_scan *scan)
{
    pthread_mutex_lock(&scan->lock);
    scan->cancelled = true;
    for (unsigned i = 0; i < scan->slot_count; i++)
        if (scan->slots[i].read)
            tm_read_cancel(scan->slots[i].read, EINTR, "interrupted");
    pthread_mutex_unlock(&scan->lock);
}

void tm_tensor_scan_hurry(tm_tensor_scan *scan, tm_lane lane)
{
    pthread_mutex_lock(&scan->lock);
    tm_pool *pool = tm_sched_workers(scan->params.sched, scan->lane);
    scan->lane = lane;
    for (unsigned i = 0; i < scan->slot_count; i++)
        if (tm_pool_withdraw(pool, &scan->slots[i].job))
            submit(&scan->slots[i]);
    pthread_mutex_unlock(&scan->lock);
}

uint64_t tm_tensor_scan_begun(tm_tensor_scan *scan)
{
    pthread_mutex_lock(&scan->lock);
    uint64_t begun = scan->next - scan->params.first;
    pthread_mutex_unlock(&scan->lock);
    return begun;
}

/* ---- Its life ---- */

static int slot_init(slot *s, tm_tensor_scan *scan)
{
    const tm_blocks *b = &scan->source->blocks;
    unsigned level = scan->params.level;
    tm_block whole = {.rows = b->rows, .cols = b->cols};
    unsigned kept = level && level < TM_SCAN_LEVEL ? level : TM_SCAN_LEVEL;
    uint64_t cells = tm_block_cell_rows(&whole, kept) * tm_block_cell_cols(&whole, kept);
    s->scan = scan;
    s->job = (tm_job){.run = run_block};
    s->kernel = tm_scan_new(tm_cpu_best());
    s->cells = level ? tm_new_array(cells, sizeof(*s->cells)) : NULL;
    /* As many as are halved at most; of the fine levels, those of a tile. */
    uint64_t spare = tm_max_u64(cells, (TM_TILE_SIDE / 2) * (TM_TILE_SIDE / 2));
    s->spare = level ? tm_new_array(spare, sizeof(*s->spare)) : NULL;
    if (!s->kernel || (level && (!s->cells || !s->spare)))
        return -ENOMEM;
    TM_TRY(tm_stats_init(&s->stats, scan->params.tensor->dtype));
    tm_scan_begin(s->kernel, &s->stats);
    return 0;
}

tm_tensor_scan *tm_tensor_scan_ref(tm_tensor_scan *scan)
{
    atomic_fetch_add(&scan->refs, 1);
    return scan;
}

tm_tensor_scan *tm_tensor_scan_unref(tm_tensor_scan *scan)
{
    if (!scan || atomic_fetch_sub(&scan->refs, 1) != 1)
        return NULL;
    drop_memory(scan);
    if (scan->source)
        tm_blob_unref(&scan->source->blob);
    tm_tensor_unref(scan->params.tensor);
    pthread_mutex_destroy(&scan->lock);
    free(scan);
    return NULL;
}

static int scan_init(tm_tensor_scan *scan)
{
    TM_TRY(blocks_blob_new(scan->params.tensor, &scan->source));
    const tm_blocks *b = &scan->source->blocks;
    assert(tm_range_ok(scan->params.first, scan->params.count, b->count));
    if (b->across > 1 && !(scan->row_map = tm_new_array(
                               (b->planes.planes * b->planes.rows + 63) / 64, sizeof(uint64_t))))
        return -ENOMEM;
    if (b->down > 1 && !(scan->col_map = tm_new_array((b->planes.planes * b->planes.cols + 63) / 64,
                                                      sizeof(uint64_t))))
        return -ENOMEM;
    for (unsigned i = 0; i < scan->slot_count; i++)
        TM_TRY(slot_init(&scan->slots[i], scan));
    return 0;
}

int tm_tensor_scan_new(const tm_tensor_scan_params *params, tm_tensor_scan **ret)
{
    assert(params->level <= TM_BLOCK_LEVEL);
    uint64_t wanted = params->parallel ? params->parallel : params->sched->worker_count;
    wanted = tm_min_u64(wanted, tm_max_u64(params->count, 1));
    unsigned slots = (unsigned)tm_min_u64(wanted, PARALLEL_MAX);
    tm_tensor_scan *scan = calloc(1, sizeof(*scan) + slots * sizeof(slot));
    if (!scan)
        return -ENOMEM;
    scan->params = *params;
    scan->params.tensor = tm_tensor_ref(params->tensor);
    atomic_init(&scan->refs, 1);
    pthread_mutex_init(&scan->lock, NULL);
    tm_req_init(&scan->req, params->lane);
    scan->lane = params->lane;
    scan->next = params->first;
    scan->end = params->first + params->count;
    scan->slot_count = slots;
    int rc = scan_init(scan);
    if (rc < 0) {
        tm_tensor_scan_unref(scan);
        return rc;
    }
    *ret = scan;
    return 0;
}
