#include "compute/tensor_scan.h"

#include "core/plan.h"
#include "core/prefetch.h"

enum {
    PARALLEL_MAX = 64,
    STRIPE_BYTES = 256 << 10 /* they stay in the L2 cache from when they are read until scanned */
};

/* The blocks of a tensor as bytes: block I at I * STRIDE, and in it each stripe, which is some of
 * its rows, at a multiple of STRIPE. What is read is whole stripes. */
typedef struct blocks_blob {
    tm_blob blob;
    tm_tensor *tensor;
    tm_blocks blocks;
    unsigned bits;
    uint64_t stripe_rows, stripe; /* the most bytes that one has */
    uint64_t stride;
} blocks_blob;

/* One of those that scan at once, each a block at a time. */
typedef struct slot {
    tm_tensor_scan *scan;
    tm_job job;
    tm_read *read;      /* guarded by the scan's lock */
    atomic_bool is_met; /* by the first of the two that meet() */
    uint64_t number;
    tm_block block;
    uint64_t row; /* of the block, where the stripe at hand begins */
    tm_scan *kernel;
    tm_stats stats;
    uint64_t *col_bits;         /* of the block */
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
    bool cancelled, is_cut; /* cut: not all was scanned */
    tm_req req;             /* the first error, in words */
    /* Rows with a value that is not zero, where several blocks have a row; columns likewise. */
    uint64_t *row_map, *col_map;
    uint64_t zero_rows, zero_cols;
    unsigned slot_count;
    slot slots[];
};

/* ---- Reading a stripe ---- */

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

/* The stripe of BLOCK that begins at its row ROW. */
static tm_block stripe_at(const blocks_blob *self, const tm_block *block, uint64_t row)
{
    tm_block stripe = *block;
    stripe.row += row;
    stripe.rows = tm_min_u64(self->stripe_rows, block->rows - row);
    return stripe;
}

/* What is read of it. */
static uint64_t stripe_bytes(const blocks_blob *self, const tm_block *stripe)
{
    uint64_t elems = stripe->rows * stripe->cols + starts_odd(self, stripe);
    return elems / 8 * self->bits + (elems % 8 * self->bits + 7) / 8;
}

static int plan_stripe(blocks_blob *self, tm_plan *plan, const tm_block *stripe, uint8_t *dst)
{
    const tm_blocks *b = &self->blocks;
    uint64_t first = first_elem(b, stripe);
    if (stripe->cols == b->planes.cols) {
        bool odd = starts_odd(self, stripe);
        return tm_tensor_plan(self->tensor, plan, first - odd, stripe->rows * stripe->cols + odd,
                              dst);
    }
    for (uint64_t r = 0; r < stripe->rows; r++) {
        TM_TRY(tm_tensor_plan(self->tensor, plan, first, stripe->cols, dst));
        first += b->planes.cols;
        dst += stripe->cols * self->bits / 8;
    }
    return 0;
}

static int blocks_plan(tm_blob *blob, tm_plan *plan, uint64_t off, size_t len, uint8_t *dst)
{
    blocks_blob *self = as_blocks(blob);
    assert(off % self->stripe == 0);
    for (uint64_t end = off + len; off < end; off += self->stripe, dst += self->stripe) {
        tm_block block = tm_blocks_at(&self->blocks, off / self->stride);
        uint64_t row = off % self->stride / self->stripe * self->stripe_rows;
        if (row >= block.rows) /* a block at the edge has fewer */
            continue;
        tm_block stripe = stripe_at(self, &block, row);
        TM_TRY(plan_stripe(self, plan, &stripe, dst));
    }
    return 0;
}

static void blocks_free(tm_blob *blob)
{
    tm_tensor_unref(as_blocks(blob)->tensor);
    free(as_blocks(blob));
}

static const tm_blob_ops blocks_ops = {.kind = "blocks", .plan = blocks_plan, .free = blocks_free};

/* As many rows as fill one, in whole cells of level 4; at least one row of those. */
static void set_stripes(blocks_blob *self)
{
    tm_blocks of = self->blocks;
    uint64_t row = tm_max_u64(of.cols * self->bits / 8, 1);
    uint64_t rows = STRIPE_BYTES / row / TM_SCAN_CELL * TM_SCAN_CELL;
    of.rows = tm_min_u64(tm_max_u64(rows, TM_SCAN_CELL), tm_max_u64(of.rows, 1));
    self->stripe_rows = of.rows;
    self->stripe = tm_blocks_bytes(&of, self->bits);
    self->stride = self->stripe * ((self->blocks.rows + of.rows - 1) / of.rows);
}

static int blocks_blob_new(tm_tensor *tensor, blocks_blob **ret)
{
    blocks_blob *self = TM_NEW(blocks_blob);
    uint64_t size;
    if (!self)
        return -ENOMEM;
    self->bits = tm_dtype_get(tensor->dtype)->bits;
    self->blocks = tm_blocks_of(tensor->dims, tensor->rank, self->bits);
    set_stripes(self);
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

/* ---- Scanning a stripe ---- */

static int scan_stripe(slot *s, const uint8_t *src)
{
    tm_tensor_scan *scan = s->scan;
    const blocks_blob *source = scan->source;
    const tm_blocks *b = &source->blocks;
    tm_block stripe = stripe_at(source, &s->block, s->row);
    unsigned level = scan->params.level;
    uint64_t width = tm_block_cell_cols(&s->block, TM_SCAN_LEVEL);
    for (uint64_t at = 0; at < stripe.rows; at += TM_TILE_SIDE) {
        uint64_t row = s->row + at;
        tm_scan_block piece = {
            .src = src,
            .first = starts_odd(source, &stripe) + at * stripe.cols,
            .stride = stripe.cols,
            .rows = tm_min_u64(TM_TILE_SIDE, stripe.rows - at),
            .cols = stripe.cols,
            .index = first_elem(b, &stripe) + at * b->planes.cols,
            .row_elems = b->planes.cols,
        };
        uint64_t row_bits[TM_TILE_SIDE / 64] = {0};
        tm_scan_out out = {.row_bits = row_bits, .col_bits = s->col_bits};
        if (level >= TM_SCAN_LEVEL)
            out.cells = s->cells + (row >> TM_SCAN_LEVEL) * width;
        tm_scan_add(s->kernel, &piece, &out);
        note_rows(scan, &s->block, row, piece.rows, row_bits);
        if (level && level < TM_SCAN_LEVEL)
            TM_TRY(fine_cells(s, &piece, row, &s->block));
    }
    return 0;
}

static int finish_block(slot *s)
{
    const tm_tensor_scan_params *params = &s->scan->params;
    note_cols(s->scan, &s->block, s->col_bits);
    if (params->level > TM_SCAN_LEVEL)
        coarsen(s, &s->block);
    return params->level && params->cells ? params->cells(params->ctx, s->number, s->cells) : 0;
}

/* ---- One after the other ---- */

static void fail(tm_tensor_scan *scan, int rc, const char *words)
{
    tm_fail(&scan->req, -rc, "%s", words && *words ? words : strerror(-rc));
}

static void total_of(tm_tensor_scan *scan, tm_scan_total *ret)
{
    const tm_planes *planes = &scan->source->blocks.planes;
    for (unsigned i = 0; i < scan->slot_count; i++) {
        tm_scan_end(scan->slots[i].kernel);
        if (i > 0)
            tm_stats_merge(&scan->slots[0].stats, &scan->slots[i].stats);
    }
    ret->stats = scan->slots[0].stats;
    scan->slots[0].stats = (tm_stats){.bins = 0};
    uint64_t rows = planes->planes * planes->rows, cols = planes->planes * planes->cols;
    ret->zero_rows = scan->row_map ? rows - count_ones(scan->row_map, rows) : scan->zero_rows;
    ret->zero_cols = scan->col_map ? cols - count_ones(scan->col_map, cols) : scan->zero_cols;
}

/* What scanning needed, mebibytes a slot: who keeps a scan that has ended keeps none of it. */
static void drop_memory(tm_tensor_scan *scan)
{
    for (unsigned i = 0; i < scan->slot_count; i++) {
        slot *s = &scan->slots[i];
        tm_scan_free(TM_STEAL(s->kernel));
        tm_stats_done(&s->stats);
        free(TM_STEAL(s->col_bits));
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
    if (rc == 0 && scan->is_cut)
        rc = -EINTR;
    pthread_mutex_unlock(&scan->lock);
    if (rc == 0)
        total_of(scan, &total);
    if (rc < 0)
        fail(scan, rc, rc == -EINTR ? "interrupted" : NULL);
    tm_prefetch_cancel(scan->params.sched, scan);
    drop_memory(scan);
    scan->params.done(scan->params.ctx, rc, tm_req_words(&scan->req), rc == 0 ? &total : NULL);
    tm_stats_done(&total.stats);
    tm_tensor_scan_unref(scan);
}

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

/* The lock is held. */
static void submit_locked(slot *s)
{
    s->job.lane = s->scan->lane;
    tm_pool_submit(tm_sched_workers(s->scan->params.sched, s->job.lane), &s->job);
}

/* Has a worker go on with what S has read. S may be gone when this returns. */
static void submit(slot *s)
{
    pthread_mutex_t *lock = &s->scan->lock;
    pthread_mutex_lock(lock);
    submit_locked(s);
    pthread_mutex_unlock(lock);
}

/* Returns whether the other of the two has been here: who has the read begun, once that returns,
 * and the read, once it has ended. Who comes last goes on with S. */
static bool meet(slot *s)
{
    return atomic_exchange(&s->is_met, true);
}

static void stripe_read(tm_read *read, int rc)
{
    slot *s = read->params.user;
    if (rc < 0)
        fail(s->scan, rc, tm_req_words(&read->req));
    if (meet(s))
        submit(s);
}

/* Has block NUMBER brought near. */
static void foretell(tm_tensor_scan *scan, uint64_t number)
{
    pthread_mutex_lock(&scan->lock);
    tm_lane lane = scan->lane;
    pthread_mutex_unlock(&scan->lock);
    if (number < scan->end)
        tm_prefetch_ask(scan->params.sched, scan, lane, &scan->source->blob,
                        number * scan->source->stride, scan->source->stride);
}

/* S goes on to the next stripe: of its block, else of the next block. False where there is none, or
 * none is wanted any more. The lock is held. */
static bool next_stripe(slot *s)
{
    tm_tensor_scan *scan = s->scan;
    bool in_block = s->row > 0;
    if (!in_block && scan->next == scan->end)
        return false;
    scan->is_cut = scan->is_cut || scan->cancelled;
    if (scan->cancelled || atomic_load(&scan->req.error) != 0)
        return false;
    if (in_block)
        return true;
    s->number = scan->next++;
    s->block = tm_blocks_at(&scan->source->blocks, s->number);
    memset(s->col_bits, 0, (s->block.cols + 63) / 64 * sizeof(*s->col_bits));
    return true;
}

/* The read of the next stripe, which is the caller's to begin; NULL where there is none. */
static tm_read *read_new(slot *s)
{
    tm_tensor_scan *scan = s->scan;
    const blocks_blob *source = scan->source;
    tm_read *read = NULL;
    atomic_store(&s->is_met, false); /* before a cancel may end the read */
    pthread_mutex_lock(&scan->lock);
    if (next_stripe(s)) {
        tm_block stripe = stripe_at(source, &s->block, s->row);
        tm_read_params params = {
            .sched = scan->params.sched,
            .blob = &scan->source->blob,
            .off = s->number * source->stride + s->row / source->stripe_rows * source->stripe,
            .len = stripe_bytes(source, &stripe),
            .lane = scan->lane,
            .done = stripe_read,
            .user = s,
        };
        int rc = tm_read_new(&params, &s->read);
        if (rc == 0)
            read = tm_read_ref(s->read);
        else
            fail(scan, rc, NULL);
    }
    pthread_mutex_unlock(&scan->lock);
    return read;
}

/* Scans what was read. Returns whether that was the end of the block. */
static bool take_stripe(slot *s)
{
    tm_tensor_scan *scan = s->scan;
    int rc = scan_stripe(s, s->read->bytes);
    s->row += scan->source->stripe_rows;
    bool is_end = s->row >= s->block.rows;
    if (is_end) {
        s->row = 0;
        rc = rc == 0 ? finish_block(s) : rc;
    }
    if (rc < 0)
        fail(scan, rc, NULL);
    return is_end;
}

static void drop_read(slot *s)
{
    tm_read *read = s->read;
    pthread_mutex_lock(&s->scan->lock);
    s->read = NULL;
    pthread_mutex_unlock(&s->scan->lock);
    tm_read_unref(read);
}

/* Begins the next read; true where it has ended already. S may be gone when this returns false. */
static bool read_next(slot *s)
{
    tm_read *read = read_new(s);
    if (!read) {
        leave(s);
        return false;
    }
    if (s->row == 0)
        foretell(s->scan, s->number + s->scan->slot_count); /* when all have done theirs */
    tm_read_go(read);
    tm_read_unref(read);
    return meet(s);
}

/* Stripe after stripe as long as they are at hand, for what has just been copied is warm; other
 * jobs go between blocks. */
static void run_stripes(tm_job *job)
{
    slot *s = TM_CONTAINER(job, slot, job);
    bool is_end = false;
    do {
        if (atomic_load(&s->scan->req.error) == 0)
            is_end = take_stripe(s);
        drop_read(s);
        if (!read_next(s))
            return;
    } while (!is_end);
    submit(s);
}

void tm_tensor_scan_start(tm_tensor_scan *scan)
{
    atomic_fetch_add(&scan->refs, 1); /* until its end */
    scan->running = scan->slot_count + 1;
    uint64_t first = scan->next;
    for (unsigned i = 0; i < scan->slot_count && scan->source->stride > scan->source->stripe; i++)
        foretell(scan, first + i); /* for their first blocks are read in stripes too */
    for (unsigned i = 0; i < scan->slot_count; i++)
        if (read_next(&scan->slots[i]))
            submit(&scan->slots[i]);
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
            submit_locked(&scan->slots[i]);
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
    s->job = (tm_job){.run = run_stripes};
    s->kernel = tm_scan_new(tm_cpu_best(), scan->params.count * b->rows * b->cols);
    s->col_bits = tm_new_array((b->cols + 63) / 64, sizeof(*s->col_bits));
    s->cells = level ? reallocarray(NULL, cells, sizeof(*s->cells)) : NULL;
    /* As many as are halved at most; of the fine levels, those of a tile. */
    uint64_t spare = tm_max_u64(cells, (TM_TILE_SIDE / 2) * (TM_TILE_SIDE / 2));
    s->spare = level ? reallocarray(NULL, spare, sizeof(*s->spare)) : NULL;
    if (!s->kernel || !s->col_bits || (level && (!s->cells || !s->spare)))
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
