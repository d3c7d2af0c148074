#include "fs/shards.h"

#include <stdio.h>

#include "core/hash.h"
#include "formats/fingerprint.h"

/* ---- Which tensors are counted ---- */

/* Sets number_of and the counts of the shards; those of a file are in order of names, as rows are.
 */
static void number_rows(tm_shards *s)
{
    const tm_tensor_table *table = &s->model->table;
    for (uint32_t row = 0; row < table->count; row++) {
        tm_shard *shard = &s->shards[table->rows[row].file];
        s->number_of[row] = tm_model_is_counted(s->model, row) ? shard->count++ : TM_SHARD_NONE;
    }
}

static void place_rows(tm_shards *s)
{
    const tm_tensor_table *table = &s->model->table;
    uint32_t *at = s->rows;
    for (uint32_t i = 0; i < s->count; i++) {
        s->shards[i].rows = at;
        at += s->shards[i].count;
    }
    for (uint32_t row = 0; row < table->count; row++) {
        tm_shard *shard = &s->shards[table->rows[row].file];
        if (s->number_of[row] == TM_SHARD_NONE)
            continue;
        s->rows[(shard->rows - s->rows) + s->number_of[row]] = row;
        shard->bytes += table->rows[row].bytes;
    }
}

/* ---- Their life ---- */

/* Whether PATH leads into a Hugging Face cache: "…/models--ORG--NAME/blobs/HASH", or a file that
 * was copied to its snapshots. */
static bool is_in_hub(const char *path)
{
    TM_AUTO_FREE char *real = realpath(path, NULL);
    const char *repo = real ? strstr(real, "/models--") : NULL;
    const char *below = repo ? strchr(repo + 1, '/') : NULL;
    return below && (strncmp(below, "/blobs/", 7) == 0 || strncmp(below, "/snapshots/", 11) == 0);
}

static int name_shard(tm_shard *shard, const tm_mounted *m)
{
    const char *member = strchr(m->name, '/'); /* of a collection */
    shard->path = tm_listing_path(&m->listing, shard->file->name);
    int n = asprintf(&shard->name, "%s%s%s", member ? member + 1 : "", member ? "/" : "",
                     shard->file->name);
    if (n < 0)
        shard->name = NULL;
    shard->not_beside = m->listing.cache || (shard->path && is_in_hub(shard->path));
    return shard->path && shard->name ? 0 : -ENOMEM;
}

static int fill(tm_shards *s, const tm_mounted *m)
{
    s->count = s->model->file_count;
    s->shards = tm_new_array(s->count, sizeof(*s->shards));
    s->rows = tm_new_array(s->model->table.count, sizeof(*s->rows));
    s->number_of = tm_new_array(s->model->table.count, sizeof(*s->number_of));
    if (!s->shards || !s->rows || !s->number_of)
        return -ENOMEM;
    for (uint32_t i = 0; i < s->count; i++) {
        s->shards[i].file = &s->model->files[i];
        TM_TRY(name_shard(&s->shards[i], m));
    }
    number_rows(s);
    place_rows(s);
    return 0;
}

static int shards_new(tm_sched *sched, const tm_mounted *m, tm_req *req, tm_shards **ret)
{
    TM_AUTO(tm_shards_unrefp) tm_shards *s = TM_NEW(tm_shards);
    if (s) {
        atomic_init(&s->refs, 1);
        pthread_mutex_init(&s->lock, NULL);
        s->sched = sched;
        s->model = tm_model_ref(m->model);
    }
    if (!s || fill(s, m) < 0)
        return tm_fail(req, ENOMEM, "out of memory");
    *ret = TM_STEAL(s);
    return 0;
}

int tm_shards_of(tm_sched *sched, tm_mounted *m, tm_req *req, tm_shards **ret)
{
    TM_AUTO(tm_shards_unrefp) tm_shards *fresh = NULL;
    assert(m->model);
    pthread_mutex_lock(&m->lock);
    tm_shards *kept = m->shards ? tm_shards_ref(m->shards) : NULL;
    pthread_mutex_unlock(&m->lock);
    if (!kept) {
        TM_TRY(shards_new(sched, m, req, &fresh));
        pthread_mutex_lock(&m->lock);
        if (!m->shards)
            m->shards = TM_STEAL(fresh);
        kept = tm_shards_ref(m->shards);
        pthread_mutex_unlock(&m->lock);
    }
    *ret = kept;
    return 0;
}

tm_shards *tm_shards_ref(tm_shards *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

tm_shards *tm_shards_unref(tm_shards *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return NULL;
    for (uint32_t i = 0; s->shards && i < s->count; i++) {
        free(s->shards[i].path);
        free(s->shards[i].name);
    }
    free(s->shards);
    free(s->rows);
    free(s->number_of);
    tm_model_unref(s->model);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return NULL;
}

void tm_shards_unrefp(tm_shards **s)
{
    tm_shards_unref(*s);
}

/* ---- What identifies them ---- */

int tm_shards_fingerprint(tm_shards *s, uint32_t i, tm_req *req, uint8_t ret[TM_FINGERPRINT_BYTES])
{
    tm_shard *shard = &s->shards[i];
    pthread_mutex_lock(&s->lock);
    bool known = shard->has_fingerprint;
    memcpy(ret, shard->fingerprint, TM_FINGERPRINT_BYTES);
    pthread_mutex_unlock(&s->lock);
    if (known)
        return 0;
    TM_TRY(tm_shard_fingerprint(s->sched, shard->file, req, ret));
    pthread_mutex_lock(&s->lock);
    memcpy(shard->fingerprint, ret, TM_FINGERPRINT_BYTES);
    shard->has_fingerprint = true;
    pthread_mutex_unlock(&s->lock);
    return 0;
}

/* As docs/index-format.md has it. */
int tm_shards_context(tm_shards *s, uint32_t row, tm_req *req, uint64_t *ret)
{
    const tm_tensor_row *rows = s->model->table.rows;
    const tm_part *part = tm_model_part(s->model, row);
    *ret = 0;
    if (!part)
        return 0;
    assert(part->kind == TM_PART_SCALED);
    uint8_t fingerprint[TM_FINGERPRINT_BYTES];
    bool elsewhere = rows[part->scale_row].file != rows[row].file;
    if (elsewhere)
        TM_TRY(tm_shards_fingerprint(s, rows[part->scale_row].file, req, fingerprint));
    tm_hasher hasher;
    tm_hasher_init(&hasher);
    tm_hasher_update(&hasher, &part->block_rows, sizeof(part->block_rows));
    tm_hasher_update(&hasher, &part->block_cols, sizeof(part->block_cols));
    if (elsewhere)
        tm_hasher_update(&hasher, fingerprint, sizeof(fingerprint));
    tm_id id = tm_hasher_final(&hasher);
    *ret = id.lo ? id.lo : 1;
    return 0;
}

int tm_shards_tiles_tensor(tm_shards *s, uint32_t row, tm_req *req, tm_tiles_tensor *ret)
{
    const tm_tensor_table *table = &s->model->table;
    const tm_tensor_row *r = &table->rows[row];
    *ret = (tm_tiles_tensor){
        .name = tm_row_name(table, r),
        .name_len = r->name_len,
        .dtype = tm_model_values_dtype(s->model, row),
        .scaled = tm_model_part(s->model, row) != NULL,
        .stored_bytes = r->bytes,
    };
    ret->pyramid = tm_pyramid_of(tm_row_dims(table, r), r->rank, ret->dtype, r->bytes);
    return tm_shards_context(s, row, req, &ret->context);
}

tm_index_place tm_shards_place(const tm_shards *s, uint32_t i, const char *folder,
                               const uint8_t *fingerprint)
{
    return (tm_index_place){
        .folder = folder,
        .name = s->shards[i].name,
        .shard = s->shards[i].path,
        .suffix = TM_INDEX_SUFFIX,
        .fingerprint = fingerprint,
        .not_beside = s->shards[i].not_beside,
    };
}
