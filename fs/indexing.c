#include "fs/indexing.h"

#include <inttypes.h>

#include "compute/tensor_scan.h"
#include "core/order.h"
#include "formats/index_writer.h"
#include "fs/indexes.h"
#include "fs/pyramid_sink.h"

enum {
    TICK_MS = 100, /* how often progress is told and a cancel noticed */
};

typedef struct indexing indexing;

/* A tensor under way. */
typedef struct item {
    indexing *run;
    uint32_t row;
    uint64_t context;
    unsigned slots; /* blocks of it that are scanned at once */
    uint64_t blocks;
    tm_tensor *tensor; /* held open */
    tm_tensor_scan *scan;
    tm_pyramid_sink sink; /* writer NULL: no pyramid is made */
    struct item *next;    /* of those that have finished */
    /* Once finished: */
    int rc;
    tm_req cells_req; /* the words of what kept cells from being written */
    char words[TM_WORDS_MAX];
    tm_stats stats;
    tm_sums sums;
    tm_stats_record record;
} item;

struct indexing {
    const tm_indexing_params *params;
    tm_req *req;
    tm_shards *shards;
    tm_indexing_report *report;
    tm_index_writer *writer;
    tm_tiles_writer *tiles;   /* NULL: no pyramids are wanted */
    tm_tiles_tensor *tensors; /* of the shard, for those */
    uint64_t done;            /* bytes of tensors that need nothing any more */
    item **under_way;         /* [room] */
    unsigned count;           /* of those */
    unsigned slots, room;     /* blocks that they scan at once, and that there may be */
    pthread_mutex_t lock;     /* guards what follows */
    pthread_cond_t some_finished;
    item *finished; /* list */
};

static int out_of_memory(tm_req *req)
{
    return tm_fail(req, ENOMEM, "out of memory");
}

static const tm_tensor_row *row_of(const indexing *run, uint32_t row)
{
    return &run->shards->model->table.rows[row];
}

/* ---- One tensor ---- */

static void item_free(item *it)
{
    tm_tensor_scan_unref(it->scan);
    tm_pyramid_sink_done(&it->sink);
    tm_tensor_unhold(it->tensor);
    tm_tensor_unref(it->tensor);
    tm_stats_done(&it->stats);
    free(it);
}

/* From any thread; what takes time is done here, several at once. */
static void scan_done(void *ctx, int rc, const char *words, tm_scan_total *total)
{
    item *it = ctx;
    indexing *run = it->run;
    if (rc == 0 && it->sink.writer)
        rc = tm_pyramid_sink_end(&it->sink, &it->cells_req);
    if (*tm_req_words(&it->cells_req))
        words = tm_req_words(&it->cells_req);
    it->rc = rc;
    strncpy(it->words, words, sizeof(it->words) - 1);
    if (rc == 0) {
        it->stats = total->stats;
        total->stats = (tm_stats){.bins = 0};
        tm_stats_sums(&it->stats, &it->sums);
        tm_stats_summarize(&it->stats, &it->sums, &it->record.summary);
        it->record.zero_rows = total->zero_rows;
        it->record.zero_cols = total->zero_cols;
    }
    pthread_mutex_lock(&run->lock);
    it->next = run->finished;
    run->finished = it;
    pthread_cond_signal(&run->some_finished);
    pthread_mutex_unlock(&run->lock);
}

/* The scan's own words are those of its reads. */
static int take_cells(void *ctx, uint64_t block, const tm_lod_cell *cells)
{
    item *it = ctx;
    return tm_pyramid_sink_block(&it->sink, block, cells, &it->cells_req);
}

static int scan_new(indexing *run, item *it, tm_tensor_scan **ret)
{
    tm_tensor_scan_params params = {
        .sched = tm_session_sched(run->params->session),
        .tensor = it->tensor,
        .lane = run->params->lane,
        .count = it->blocks,
        .parallel = it->slots,
        .level = it->sink.writer ? it->sink.pyramid.finest : 0,
        .cells = it->sink.writer ? take_cells : NULL,
        .done = scan_done,
        .ctx = it,
    };
    return tm_tensor_scan_new(&params, ret) < 0 ? out_of_memory(run->req) : 0;
}

static tm_blocks blocks_of(const item *it)
{
    const tm_tensor *t = it->tensor;
    return tm_blocks_of(t->dims, t->rank, tm_dtype_get(t->dtype)->bits);
}

static int sink_init(indexing *run, item *it)
{
    uint32_t number = run->shards->number_of[it->row];
    if (!run->tiles || tm_tiles_writer_has(run->tiles, number))
        return 0;
    tm_blocks blocks = blocks_of(it);
    int rc =
        tm_pyramid_sink_init(&it->sink, run->tiles, number, &run->tensors[number].pyramid, &blocks);
    return rc < 0 ? out_of_memory(run->req) : 0;
}

static int start(indexing *run, uint32_t row, uint64_t context)
{
    item *it = TM_NEW(item);
    if (!it)
        return out_of_memory(run->req);
    *it = (item){.run = run, .row = row, .context = context};
    tm_req_init(&it->cells_req, run->params->lane);
    int rc = tm_model_values(run->shards->model, row, run->req, &it->tensor);
    if (rc == 0 && (rc = tm_tensor_hold(it->tensor, run->req)) < 0)
        it->tensor = tm_tensor_unref(it->tensor);
    if (rc < 0) {
        free(it);
        return rc;
    }
    it->blocks = blocks_of(it).count;
    unsigned most = tm_session_sched(run->params->session)->worker_count;
    it->slots = (unsigned)tm_min_u64(tm_max_u64(it->blocks, 1), most);
    it->slots = (unsigned)tm_min_u64(it->slots, run->room - run->slots);
    rc = sink_init(run, it);
    if (rc == 0)
        rc = scan_new(run, it, &it->scan);
    if (rc < 0) {
        item_free(it);
        return rc;
    }
    run->under_way[run->count++] = it;
    run->slots += it->slots;
    tm_tensor_scan_start(it->scan);
    return 0;
}

static int add(indexing *run, const item *it)
{
    const tm_model *model = run->shards->model;
    const tm_tensor_row *row = row_of(run, it->row);
    tm_index_item done = {
        .name = tm_row_name(&model->table, row),
        .name_len = row->name_len,
        .scaled = tm_model_part(model, it->row) != NULL,
        .stored_bytes = row->bytes,
        .context = it->context,
        .stats = &it->stats,
        .sums = &it->sums,
        .record = &it->record,
    };
    return tm_index_writer_add(run->writer, &done, run->req);
}

static int fail(indexing *run, const item *it)
{
    char name[TM_NAME_SHOWN];
    const tm_model *model = run->shards->model;
    return tm_fail(run->req, -it->rc, "%s: tensor '%s': %s",
                   run->shards->shards[row_of(run, it->row)->file].path,
                   tm_model_show_name(model, it->row, name), it->words);
}

/* A finished one goes to the index. */
static int collect(indexing *run, item *it)
{
    unsigned i = 0;
    while (run->under_way[i] != it)
        i++;
    run->under_way[i] = run->under_way[--run->count];
    run->slots -= it->slots;
    int rc = it->rc < 0 ? fail(run, it) : add(run, it);
    if (rc == 0) {
        run->done += row_of(run, it->row)->bytes;
        run->report->scanned += row_of(run, it->row)->bytes;
    }
    item_free(it);
    return rc;
}

/* ---- Waiting ---- */

static void tell(indexing *run)
{
    uint64_t done = run->done;
    if (!run->params->progress)
        return;
    for (unsigned i = 0; i < run->count; i++) {
        const item *it = run->under_way[i];
        uint64_t bytes = row_of(run, it->row)->bytes, blocks = tm_max_u64(it->blocks, 1);
        done += bytes / blocks * tm_tensor_scan_begun(it->scan);
    }
    run->params->progress(run->params->ctx, tm_min_u64(done, run->report->bytes),
                          run->report->bytes);
}

/* Those that have finished, waited for until there is one or a tick has passed. */
static item *wait_for_some(indexing *run)
{
    struct timespec at = tm_after_ms(TICK_MS);
    pthread_mutex_lock(&run->lock);
    while (!run->finished)
        if (pthread_cond_clockwait(&run->some_finished, &run->lock, CLOCK_MONOTONIC, &at) != 0)
            break;
    item *list = run->finished;
    run->finished = NULL;
    pthread_mutex_unlock(&run->lock);
    return list;
}

static void cancel_all(indexing *run)
{
    for (unsigned i = 0; i < run->count; i++)
        tm_tensor_scan_cancel(run->under_way[i]->scan);
}

/* ---- One shard ---- */

/* Whether an earlier run has done tensor NUMBER of SHARD, which the index then keeps. */
static bool is_done(const indexing *run, const tm_shard *shard, uint32_t number, uint64_t context)
{
    const tm_tensor_row *row = row_of(run, shard->rows[number]);
    const char *name = tm_row_name(&run->shards->model->table, row);
    bool counted = tm_index_writer_has(run->writer, name, row->name_len, context);
    return counted && (!run->tiles || tm_tiles_writer_has(run->tiles, number));
}

/* 1: there is a next tensor from *AT on that is not done yet. */
static int next_row(indexing *run, const tm_shard *shard, uint32_t *at, uint64_t *ret_context)
{
    for (; *at < shard->count; ++*at) {
        TM_TRY(tm_shards_context(run->shards, shard->rows[*at], run->req, ret_context));
        if (!is_done(run, shard, *at, *ret_context))
            return 1;
        run->done += row_of(run, shard->rows[*at])->bytes;
    }
    return 0;
}

/* Scans what is missing, as much at once as there is room for. */
static int scan_shard(indexing *run, const tm_shard *shard)
{
    uint32_t at = 0;
    int rc = 0;
    while (at < shard->count || run->count > 0) {
        while (rc == 0 && at < shard->count && run->slots < run->room) {
            uint64_t context;
            rc = next_row(run, shard, &at, &context);
            if (rc > 0)
                rc = start(run, shard->rows[at++], context);
        }
        if (rc == 0)
            rc = tm_req_check(run->req);
        if (rc < 0) {
            at = shard->count;
            cancel_all(run);
        }
        for (item *it = run->count ? wait_for_some(run) : NULL, *next; it; it = next) {
            next = it->next;
            int collected = collect(run, it);
            rc = rc < 0 ? rc : collected;
        }
        tell(run);
    }
    return rc;
}

/* What pyramids are made of: all tensors of the shard. */
static int list_tensors(indexing *run, const tm_shard *shard)
{
    run->tensors = tm_new_array(shard->count, sizeof(*run->tensors));
    if (!run->tensors)
        return out_of_memory(run->req);
    for (uint32_t i = 0; i < shard->count; i++)
        TM_TRY(tm_shards_tiles_tensor(run->shards, shard->rows[i], run->req, &run->tensors[i]));
    return 0;
}

static int open_tiles(indexing *run, const tm_shard *shard, const tm_index_place *place)
{
    tm_index_place tiles = *place;
    TM_AUTO_FREE char *path = NULL;
    tiles.suffix = TM_TILES_SUFFIX;
    TM_TRY(list_tensors(run, shard));
    TM_TRY(tm_index_path_to_write(&tiles, run->req, &path));
    tm_tiles_plan plan = {run->tensors, shard->count, place->fingerprint};
    return tm_tiles_writer_open(path, &plan, run->req, &run->tiles);
}

/* The index is finished last: its log is the lock of both. */
static int make_both(indexing *run, const tm_shard *shard, const tm_index_place *place)
{
    if (run->params->pyramids)
        TM_TRY(open_tiles(run, shard, place));
    TM_TRY(scan_shard(run, shard));
    if (run->tiles)
        TM_TRY(tm_tiles_writer_finish(run->tiles, run->req));
    return tm_index_writer_finish(run->writer, run->req);
}

/* Whether a folder that looked as if it could be written to cannot. */
static bool is_read_only(int rc)
{
    return rc == -EROFS || rc == -EACCES || rc == -EPERM;
}

/* Opens the writer of a shard's index. Where that cannot be beside the shard
 * it is in the cache. */
static int open_writer(indexing *run, tm_index_place *place)
{
    TM_AUTO_FREE char *path = NULL;
    tm_req part;
    tm_req_init_part(&part, run->req);
    part.may_block = true;
    TM_TRY(tm_index_path_to_write(place, run->req, &path));
    int rc = tm_index_writer_open(path, place->fingerprint, &part, &run->writer);
    if (is_read_only(rc) && !place->folder && !place->not_beside) {
        place->not_beside = true;
        return open_writer(run, place);
    }
    return rc < 0 ? tm_fail(run->req, -rc, "%s", tm_req_words(&part)) : 0;
}

static int index_shard(indexing *run, uint32_t i)
{
    const tm_shard *shard = &run->shards->shards[i];
    const char *folder = tm_session_index_folder(run->params->session);
    uint8_t fingerprint[TM_FINGERPRINT_BYTES];
    TM_TRY(tm_shards_fingerprint(run->shards, i, run->req, fingerprint));
    tm_index_place place = tm_shards_place(run->shards, i, folder, fingerprint);
    TM_TRY(open_writer(run, &place));
    int rc = make_both(run, shard, &place);
    tm_tiles_writer_close(TM_STEAL(run->tiles));
    free(TM_STEAL(run->tensors));
    tm_index_writer_close(TM_STEAL(run->writer));
    return rc;
}

/* ---- All of them ---- */

static int by_size(const void *ctx, uint32_t a, uint32_t b)
{
    const tm_shard *shards = ctx;
    if (shards[a].bytes != shards[b].bytes)
        return shards[a].bytes > shards[b].bytes ? -1 : 1;
    return strcmp(shards[a].name, shards[b].name);
}

static unsigned lightest(const uint64_t *loads, unsigned parts)
{
    unsigned ret = 0;
    for (unsigned i = 1; i < parts; i++)
        if (loads[i] < loads[ret])
            ret = i;
    return ret;
}

/* Which shards belong to this part: the largest first, each to the part that has least by then. It
 * depends on their names and sizes alone, so it is the same on every machine. */
static int share_out(indexing *run, bool *ret)
{
    const tm_shards *s = run->shards;
    tm_indexing_parts *p = run->params->parts;
    TM_AUTO_FREE uint32_t *order = NULL;
    if (tm_order_new(s->count, by_size, s->shards, &order) < 0)
        return out_of_memory(run->req);
    for (uint32_t i = 0; i < s->count; i++) {
        unsigned part = p ? lightest(p->loads, p->parts) : 0;
        if (p)
            p->loads[part] += s->shards[order[i]].bytes;
        ret[order[i]] = !p || part == p->part - 1;
    }
    return 0;
}

static void count(indexing *run, const bool *mine)
{
    for (uint32_t i = 0; i < run->shards->count; i++) {
        const tm_shard *shard = &run->shards->shards[i];
        if (!mine[i])
            continue;
        run->report->shards += shard->count > 0;
        run->report->damaged += shard->file->damaged || !shard->file->blob;
        run->report->tensors += shard->count;
        run->report->bytes += shard->bytes;
    }
}

/* A shard that cannot be indexed does not keep the others from it. */
static int index_all(indexing *run, const bool *mine, tm_indexes *there)
{
    int first = 0;
    tm_req *req = run->req;
    for (uint32_t i = 0; i < run->shards->count; i++) {
        const tm_shard *shard = &run->shards->shards[i];
        if (!mine[i] || shard->count == 0)
            continue;
        tm_req part;
        tm_req_init_part(&part, req);
        part.may_block = true;
        run->req = &part;
        uint64_t done = run->done;
        bool ready = tm_indexes_has_all(there, i, run->params->pyramids, &part);
        int rc = ready ? 0 : index_shard(run, i);
        run->report->made += rc == 0 && !ready;
        run->done = rc == 0 ? done + shard->bytes : done;
        if (rc < 0 && first == 0)
            first = tm_fail(req, -rc, "%s", tm_req_words(&part));
        if (rc == -EINTR)
            break;
    }
    run->req = req;
    return first;
}

static int run_all(indexing *run)
{
    TM_AUTO(tm_indexes_unrefp) tm_indexes *there = NULL;
    TM_AUTO_FREE bool *mine = tm_new_array(run->shards->count, sizeof(*mine));
    run->under_way = tm_new_array(run->room, sizeof(item *));
    if (!mine || !run->under_way)
        return out_of_memory(run->req);
    TM_TRY(share_out(run, mine));
    count(run, mine);
    tm_indexes_forget(run->params->mounted); /* what there is now counts */
    TM_TRY(tm_indexes_get(run->params->session, run->params->mounted, run->req, &there));
    return index_all(run, mine, there);
}

int tm_indexing_run(const tm_indexing_params *params, tm_req *req, tm_indexing_report *ret)
{
    tm_sched *sched = tm_session_sched(params->session);
    assert(req->may_block && (!params->parts || params->parts->part >= 1));
    *ret = (tm_indexing_report){.shards = 0};
    indexing run = {.params = params,
                    .req = req,
                    .report = ret,
                    .room = sched->worker_count * 2, /* one tensor begins as another ends */
                    .lock = PTHREAD_MUTEX_INITIALIZER,
                    .some_finished = PTHREAD_COND_INITIALIZER};
    TM_TRY(tm_shards_of(sched, params->mounted, req, &run.shards));
    int rc = run_all(&run);
    tm_indexes_forget(params->mounted);
    free(run.under_way);
    tm_shards_unref(run.shards);
    return rc;
}
