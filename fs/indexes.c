#include "fs/indexes.h"

#include <sys/stat.h>

#include "core/blob_file.h"
#include "core/read.h"

enum {
    BATCH = 64, /* records that a cursor reads at once */
};
#define LOOK_PERIOD_NS UINT64_C(1000000000)

/* An index file that was looked at. */
typedef struct found {
    atomic_uint refs;
    tm_sched *sched;
    char *path;
    tm_file_identity identity;
    tm_blob *blob;
    tm_index *index; /* of a file of either kind; both NULL: it does not fit */
    tm_tiles *tiles;
    atomic_bool damaged; /* as was found while it was read: it fits no more */
} found;

typedef enum file_kind {
    INDEX_FILE,
    TILES_FILE,
    FILE_KINDS
} file_kind;

struct tm_indexes {
    atomic_uint refs;
    tm_session *session;
    tm_shards *shards;
    bool has_fingerprints; /* the session's folder has files that are called by them */
    found *(*found)[FILE_KINDS][TM_INDEX_PLACES]; /* of each shard; NULL: none there */
    pthread_mutex_t lock;                         /* guards what follows */
    bool reported;
    tm_index_report report; /* once it was made, until damage is found */
    unsigned damages;       /* that were found */
};

static int out_of_memory(tm_req *req)
{
    return tm_fail(req, ENOMEM, "out of memory");
}

/* ---- One file ---- */

static void found_unref(found *f)
{
    if (!f || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1)
        return;
    tm_index_close(f->index);
    tm_tiles_close(f->tiles);
    tm_blob_unref(f->blob);
    free(f->path);
    free(f);
}

static void found_unrefp(found **f)
{
    found_unref(*f);
}

static found *found_ref(found *f)
{
    atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
    return f;
}

static int read_found(void *ctx, uint64_t off, void *dst, size_t len, tm_req *req)
{
    const found *f = ctx;
    return tm_read_wait(f->sched, f->blob, off, len, dst, req);
}

/* Takes PATH. */
static int found_new(tm_session *session, char *path_take, tm_req *req, found **ret)
{
    TM_AUTO_FREE char *path = path_take;
    TM_AUTO(found_unrefp) found *f = TM_NEW(found);
    tm_file *file;
    if (!f)
        return out_of_memory(req);
    atomic_init(&f->refs, 1);
    f->sched = tm_session_sched(session);
    TM_TRY(tm_file_new(tm_session_files(session), path, req, &file));
    f->path = TM_STEAL(path);
    f->identity = *tm_file_identity_of(file);
    int rc = tm_blob_file_new(f->sched, file, &f->blob);
    tm_file_unref(file);
    if (rc < 0)
        return out_of_memory(req);
    *ret = TM_STEAL(f);
    return 0;
}

static bool is_of_the_asker(int rc)
{
    return rc == -ENOMEM || rc == -EINTR || rc == -ETIMEDOUT;
}

/* Opens it. What does not fit is remembered as such, and said once. */
static int open_found(tm_session *session, found *f, file_kind kind, const uint8_t *fingerprint,
                      tm_req *req)
{
    tm_req part;
    tm_req_init_part(&part, req);
    part.may_block = true;
    tm_byte_source source = {.name = f->path, .size = f->blob->size, .ctx = f, .read = read_found};
    int rc = kind == INDEX_FILE ? tm_index_open(&source, fingerprint, &part, &f->index)
                                : tm_tiles_open(&source, f->blob, fingerprint, &part, &f->tiles);
    if (is_of_the_asker(rc))
        return tm_fail(req, -rc, "%s", tm_req_words(&part));
    if (rc < 0)
        tm_log_add(tm_session_log(session), TM_LOG_WARNING, "%s; it is not used",
                   tm_req_words(&part));
    return 0;
}

/* ---- Looking after all of them ---- */

/* The path of a place, malloc'ed; NULL where there is no such place. */
static char *path_of(const tm_index_place *place, tm_index_where where)
{
    char *path;
    return tm_index_path(place, where, &path) == 0 ? path : NULL;
}

static bool is_same_file(const found *f, const struct stat *st)
{
    tm_file_identity now = tm_file_identity_from(st);
    return f && tm_file_identity_equal(&f->identity, &now);
}

/* Where a file may lie. */
typedef struct spot {
    uint32_t shard;
    file_kind kind;
    tm_index_where where;
} spot;

/* What lies at AT, or what was found there BEFORE (may be NULL). */
static int look(tm_indexes *self, const spot *at, found *before, tm_req *req)
{
    uint32_t i = at->shard;
    uint8_t fingerprint[TM_FINGERPRINT_BYTES] = {0};
    const char *folder = tm_session_index_folder(self->session);
    tm_index_place place = tm_shards_place(self->shards, i, folder, fingerprint);
    struct stat st;
    place.suffix = at->kind == INDEX_FILE ? TM_INDEX_SUFFIX : TM_TILES_SUFFIX;
    bool by_fingerprint = (at->where == TM_INDEX_IN_CACHE && tm_index_cache_exists()) ||
                          (at->where == TM_INDEX_IN_FOLDER_TOO && self->has_fingerprints);
    if (by_fingerprint)
        TM_TRY(tm_shards_fingerprint(self->shards, i, req, fingerprint));
    char *path = path_of(&place, at->where);
    if (!path || stat(path, &st) < 0 || !S_ISREG(st.st_mode)) {
        free(path);
        return 0;
    }
    if (is_same_file(before, &st)) {
        self->found[i][at->kind][at->where] = found_ref(before);
        free(path);
        return 0;
    }
    tm_req part;
    tm_req_init_part(&part, req);
    found *f = NULL;
    int rc = found_new(self->session, path, &part, &f);
    if (rc < 0)
        return is_of_the_asker(rc) ? tm_fail(req, -rc, "%s", tm_req_words(&part)) : 0;
    self->found[i][at->kind][at->where] = f;
    TM_TRY(tm_shards_fingerprint(self->shards, i, req, fingerprint));
    return open_found(self->session, f, at->kind, fingerprint, req);
}

static int look_at_shard(tm_indexes *self, uint32_t i, const tm_indexes *before, tm_req *req)
{
    for (int kind = 0; kind < FILE_KINDS; kind++) {
        for (int where = 0; where < TM_INDEX_PLACES; where++) {
            spot at = {i, (file_kind)kind, (tm_index_where)where};
            TM_TRY(look(self, &at, before ? before->found[i][kind][where] : NULL, req));
        }
    }
    return 0;
}

/* A shard that cannot be read has no index, and does not keep the others from theirs. */
static int look_at_all(tm_indexes *self, const tm_indexes *before, tm_req *req)
{
    for (uint32_t i = 0; i < self->shards->count; i++) {
        tm_req part;
        TM_TRY(tm_req_check(req));
        if (self->shards->shards[i].count == 0)
            continue;
        tm_req_init_part(&part, req);
        part.may_block = true;
        int rc = look_at_shard(self, i, before, &part);
        if (is_of_the_asker(rc))
            return tm_fail(req, -rc, "%s", tm_req_words(&part));
    }
    return 0;
}

static int indexes_new(tm_session *session, tm_mounted *m, const tm_indexes *before, tm_req *req,
                       tm_indexes **ret)
{
    TM_AUTO(tm_indexes_unrefp) tm_indexes *self = TM_NEW(tm_indexes);
    if (!self)
        return out_of_memory(req);
    atomic_init(&self->refs, 1);
    pthread_mutex_init(&self->lock, NULL);
    self->session = session;
    TM_TRY(tm_shards_of(tm_session_sched(session), m, req, &self->shards));
    const char *folder = tm_session_index_folder(session);
    self->has_fingerprints = folder && tm_index_folder_has_fingerprints(folder);
    self->found = tm_new_array(self->shards->count, sizeof(*self->found));
    if (!self->found)
        return out_of_memory(req);
    TM_TRY(look_at_all(self, before && before->shards == self->shards ? before : NULL, req));
    *ret = TM_STEAL(self);
    return 0;
}

tm_indexes *tm_indexes_ref(tm_indexes *self)
{
    atomic_fetch_add_explicit(&self->refs, 1, memory_order_relaxed);
    return self;
}

tm_indexes *tm_indexes_unref(tm_indexes *self)
{
    if (!self || atomic_fetch_sub_explicit(&self->refs, 1, memory_order_acq_rel) != 1)
        return NULL;
    for (uint32_t i = 0; self->found && i < self->shards->count; i++)
        for (int at = 0; at < FILE_KINDS * TM_INDEX_PLACES; at++)
            found_unref(self->found[i][at / TM_INDEX_PLACES][at % TM_INDEX_PLACES]);
    free(self->found);
    tm_shards_unref(self->shards);
    pthread_mutex_destroy(&self->lock);
    free(self);
    return NULL;
}

void tm_indexes_unrefp(tm_indexes **self)
{
    tm_indexes_unref(*self);
}

/* Those that are kept with M, referenced (NULL: none); RET_CURRENT: they need not be looked after.
 */
static tm_indexes *kept_indexes(tm_mounted *m, bool *ret_current, uint64_t *ret_forgotten)
{
    pthread_mutex_lock(&m->lock);
    *ret_forgotten = m->indexes_forgotten;
    tm_indexes *kept = m->indexes ? tm_indexes_ref(m->indexes) : NULL;
    *ret_current =
        kept && m->indexes_looked_ns && tm_now_ns() - m->indexes_looked_ns < LOOK_PERIOD_NS;
    pthread_mutex_unlock(&m->lock);
    return kept;
}

/* Whether nothing has changed. */
static bool is_same(const tm_indexes *a, const tm_indexes *b)
{
    return a->shards == b->shards &&
           memcmp(a->found, b->found, a->shards->count * sizeof(*a->found)) == 0;
}

int tm_indexes_get(tm_session *session, tm_mounted *m, tm_req *req, tm_indexes **ret)
{
    bool current;
    uint64_t forgotten; /* how often they had been when this look began */
    TM_AUTO(tm_indexes_unrefp) tm_indexes *kept = kept_indexes(m, &current, &forgotten);
    if (current) {
        *ret = TM_STEAL(kept);
        return 0;
    }
    if (!req->may_block)
        return -EINPROGRESS;
    tm_indexes *fresh = NULL;
    uint64_t now = tm_now_ns();
    TM_TRY(indexes_new(session, m, kept, req, &fresh));
    if (kept && is_same(kept, fresh)) {
        tm_indexes_unref(fresh);
        fresh = tm_indexes_ref(kept);
    }
    pthread_mutex_lock(&m->lock);
    tm_indexes *was = m->indexes;
    m->indexes = tm_indexes_ref(fresh);
    m->indexes_looked_ns = forgotten == m->indexes_forgotten ? now : 0;
    pthread_mutex_unlock(&m->lock);
    tm_indexes_unref(was);
    *ret = fresh;
    return 0;
}

/* ---- What they know ---- */

static bool is_usable(const found *f)
{
    return f && !atomic_load(&f->damaged) &&
           (f->index || (f->tiles && !tm_tiles_is_damaged(f->tiles)));
}

/* The file of a shard that is used; NULL where none fits. */
static found *used(const tm_indexes *self, uint32_t i, file_kind kind)
{
    for (int where = 0; where < TM_INDEX_PLACES; where++)
        if (is_usable(self->found[i][kind][where]))
            return self->found[i][kind][where];
    return NULL;
}

/* What RC of reading F says of it; returns RC. */
static int note(tm_indexes *self, found *f, int rc, const tm_req *req)
{
    if (rc != -EBADMSG || atomic_exchange(&f->damaged, true))
        return rc;
    tm_log_add(tm_session_log(self->session), TM_LOG_WARNING, "%s; it is not used",
               tm_req_words(req));
    pthread_mutex_lock(&self->lock);
    self->damages++;
    self->reported = false;
    pthread_mutex_unlock(&self->lock);
    return rc;
}

/* Whether what an index says is of tensor ROW as it is now. */
static bool fits(tm_indexes *self, uint32_t row, const tm_index_tensor *tensor, tm_req *req)
{
    const tm_model *model = self->shards->model;
    const tm_tensor_row *r = &model->table.rows[row];
    uint64_t context;
    return tensor->name_len == r->name_len &&
           memcmp(tensor->name, tm_row_name(&model->table, r), r->name_len) == 0 &&
           tensor->dtype == tm_model_values_dtype(model, row) &&
           tensor->scaled == (tm_model_part(model, row) != NULL) &&
           tensor->stored_bytes == r->bytes &&
           tensor->record.summary.n == tm_row_elems(&model->table, r) &&
           tm_shards_context(self->shards, row, req, &context) == 0 && tensor->context == context;
}

static uint32_t shard_of(const tm_indexes *self, uint32_t row)
{
    return self->shards->model->table.rows[row].file;
}

/* The index that has tensor ROW, and its record there. -ENOENT where none has; else with words. */
static int find(tm_indexes *self, uint32_t row, tm_req *req, found **ret_found,
                tm_index_tensor *ret)
{
    const tm_tensor_table *table = &self->shards->model->table;
    const tm_tensor_row *r = &table->rows[row];
    uint32_t number = self->shards->number_of[row];
    found *f = number == TM_SHARD_NONE ? NULL : used(self, r->file, INDEX_FILE);
    if (!f)
        return -ENOENT;
    int rc = tm_index_find_near(f->index, number, tm_row_name(table, r), r->name_len, req, ret);
    TM_TRY(note(self, f, rc, req));
    *ret_found = f;
    return fits(self, row, ret, req) ? 0 : -ENOENT;
}

bool tm_indexes_record(tm_indexes *self, uint32_t row, tm_req *req, tm_stats_record *ret)
{
    found *f;
    tm_index_tensor tensor;
    if (find(self, row, req, &f, &tensor) < 0)
        return false;
    *ret = tensor.record;
    return true;
}

int tm_indexes_stats(tm_indexes *self, uint32_t row, tm_req *req, tm_stats_record *record,
                     unsigned *shift, tm_stats *ret)
{
    found *f;
    tm_index_tensor tensor;
    TM_TRY(find(self, row, req, &f, &tensor));
    TM_TRY(note(self, f, tm_index_stats(f->index, &tensor, req, ret), req));
    *record = tensor.record;
    *shift = tensor.hist_shift;
    return 0;
}

int tm_indexes_sums(tm_indexes *self, uint32_t row, tm_req *req, tm_stats_record *record,
                    tm_sums *ret)
{
    found *f;
    tm_index_tensor tensor;
    TM_TRY(find(self, row, req, &f, &tensor));
    TM_TRY(note(self, f, tm_index_sums(f->index, &tensor, req, ret), req));
    *record = tensor.record;
    return 0;
}

/* ---- All of a shard ---- */

typedef struct shard_report {
    uint64_t done; /* bytes of tensors that are known */
    uint32_t known;
    bool stale; /* there is a file that does not fit, or not in all that it has */
} shard_report;

static shard_report report_shard(tm_indexes *self, uint32_t i, tm_req *req)
{
    const tm_shard *shard = &self->shards->shards[i];
    const tm_tensor_row *rows = self->shards->model->table.rows;
    TM_AUTO(tm_index_cursor_freep) tm_index_cursor *cursor = NULL;
    shard_report report = {.done = 0};
    tm_stats_record record;
    const found *f = used(self, i, INDEX_FILE);
    if (!f || tm_index_cursor_new(self, &cursor) < 0) {
        for (int where = 0; where < TM_INDEX_PLACES; where++)
            report.stale |= self->found[i][INDEX_FILE][where] != NULL;
        return report;
    }
    for (uint32_t at = 0; at < shard->count; at++) {
        if (!tm_index_cursor_record(cursor, shard->rows[at], req, &record))
            continue;
        report.known++;
        report.done += rows[shard->rows[at]].bytes;
    }
    report.stale =
        !is_usable(f) || (report.known < shard->count && tm_index_count(f->index) >= shard->count);
    return report;
}

static tm_index_report report_all(tm_indexes *self, tm_req *req)
{
    tm_index_report all = {TM_INDEX_NONE, 0, 0};
    bool whole = true, stale = false;
    for (uint32_t i = 0; i < self->shards->count; i++) {
        const tm_shard *shard = &self->shards->shards[i];
        shard_report report = report_shard(self, i, req);
        all.total += shard->bytes;
        all.done += report.done;
        whole &= report.known == shard->count;
        stale |= report.stale;
        all.state = report.known ? TM_INDEX_PARTIAL : all.state;
    }
    all.state = whole ? TM_INDEX_FRESH : stale ? TM_INDEX_STALE : all.state;
    return all;
}

tm_index_report tm_indexes_report(tm_indexes *self, tm_req *req)
{
    pthread_mutex_lock(&self->lock);
    bool reported = self->reported;
    unsigned damages = self->damages;
    tm_index_report report = self->report;
    pthread_mutex_unlock(&self->lock);
    if (reported)
        return report;
    tm_req part; /* what cannot be read is not known, and no failure */
    tm_req_init_part(&part, req);
    part.may_block = true;
    report = report_all(self, &part);
    pthread_mutex_lock(&self->lock);
    self->report = report;
    self->reported = damages == self->damages && tm_req_check(&part) == 0;
    pthread_mutex_unlock(&self->lock);
    return report;
}

/* What counts where indexes are written to: those in the folder if one is named. */
static const found *written(const tm_indexes *self, uint32_t i, file_kind kind)
{
    if (!tm_session_index_folder(self->session))
        return used(self, i, kind);
    for (int where = TM_INDEX_IN_FOLDER; where <= TM_INDEX_IN_FOLDER_TOO; where++)
        if (is_usable(self->found[i][kind][where]))
            return self->found[i][kind][where];
    return NULL;
}

/* Whether the pyramids are those of all tensors of a shard as they are now. */
static bool tiles_fit(tm_indexes *self, uint32_t i, tm_tiles *tiles, tm_req *req)
{
    const tm_shard *shard = &self->shards->shards[i];
    if (tm_tiles_count(tiles) != shard->count || tm_tiles_check(tiles, req) < 0)
        return false;
    for (uint32_t at = 0; at < shard->count; at++) {
        tm_tiles_tensor tensor;
        tm_blob *cells = NULL;
        if (tm_shards_tiles_tensor(self->shards, shard->rows[at], req, &tensor) < 0)
            return false;
        if (tensor.pyramid.finest && tm_tiles_cells(tiles, at, &tensor, req, &cells) < 0)
            return false;
        tm_blob_unref(cells);
    }
    return true;
}

bool tm_indexes_has_all(tm_indexes *self, uint32_t i, bool pyramids, tm_req *req)
{
    const found *index = written(self, i, INDEX_FILE), *tiles = written(self, i, TILES_FILE);
    tm_req part;
    tm_req_init_part(&part, req);
    part.may_block = true;
    if (!index || tm_index_check(index->index, &part) < 0 ||
        report_shard(self, i, &part).known != self->shards->shards[i].count)
        return false;
    return !pyramids || (tiles && tiles_fit(self, i, tiles->tiles, &part));
}

int tm_indexes_pyramid(tm_indexes *self, uint32_t row, tm_req *req, tm_pyramid *ret,
                       tm_blob **cells)
{
    uint32_t shard = shard_of(self, row), number = self->shards->number_of[row];
    found *tiles = number == TM_SHARD_NONE ? NULL : used(self, shard, TILES_FILE);
    tm_tiles_tensor tensor;
    if (!tiles)
        return -ENOENT;
    TM_TRY(tm_shards_tiles_tensor(self->shards, row, req, &tensor));
    *ret = tensor.pyramid;
    int rc = tm_tiles_cells(tiles->tiles, number, &tensor, req, cells);
    return note(self, tiles, rc, req);
}

void tm_indexes_forget(tm_mounted *m)
{
    pthread_mutex_lock(&m->lock);
    m->indexes_looked_ns = 0;
    m->indexes_forgotten++;
    pthread_mutex_unlock(&m->lock);
}

/* ---- Many of them ---- */

struct tm_index_cursor {
    tm_indexes *indexes;
    uint32_t shard, first, count; /* which records are here */
    struct {
        bool fits;
        tm_stats_record record;
    } items[BATCH];
    tm_req *req; /* while a batch is read */
};

int tm_index_cursor_new(tm_indexes *indexes, tm_index_cursor **ret)
{
    *ret = TM_NEW(tm_index_cursor);
    if (!*ret)
        return -ENOMEM;
    (*ret)->indexes = tm_indexes_ref(indexes);
    return 0;
}

void tm_index_cursor_free(tm_index_cursor *cursor)
{
    if (cursor)
        tm_indexes_unref(cursor->indexes);
    free(cursor);
}

void tm_index_cursor_freep(tm_index_cursor **cursor)
{
    tm_index_cursor_free(*cursor);
}

static int take_item(void *ctx, uint32_t number, const tm_index_tensor *tensor)
{
    tm_index_cursor *c = ctx;
    const tm_shard *shard = &c->indexes->shards->shards[c->shard];
    uint32_t i = number - c->first;
    c->items[i].fits =
        number < shard->count && fits(c->indexes, shard->rows[number], tensor, c->req);
    c->items[i].record = tensor->record;
    c->count = i + 1;
    return 0;
}

bool tm_index_cursor_record(tm_index_cursor *c, uint32_t row, tm_req *req, tm_stats_record *ret)
{
    const tm_shards *shards = c->indexes->shards;
    uint32_t shard = shards->model->table.rows[row].file, number = shards->number_of[row];
    found *f = number == TM_SHARD_NONE ? NULL : used(c->indexes, shard, INDEX_FILE);
    if (!f)
        return false;
    if (shard != c->shard || number < c->first || number - c->first >= c->count) {
        c->shard = shard;
        c->first = number;
        c->count = 0;
        c->req = req;
        int rc = tm_index_each(f->index, (tm_index_range){number, BATCH}, take_item, c, req);
        if (note(c->indexes, f, rc, req) < 0)
            c->count = 0;
    }
    if (number - c->first < c->count && c->items[number - c->first].fits) {
        *ret = c->items[number - c->first].record;
        return true;
    }
    /* Not where it was expected: the index has other tensors too, or not all. */
    return tm_indexes_record(c->indexes, row, req, ret);
}
