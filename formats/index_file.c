#include "formats/index_file.h"

#include <inttypes.h>

#include "core/codes.h"
#include "core/tensor_table.h"
#include "formats/index_hist.h"

enum {
    ITEM_BYTES_MAX = 4096,     /* of a record of any minor version */
    BATCH = 64,                /* records that are read at once */
    BATCH_NAME_BYTES = 1 << 20 /* and their names, but a single one may be longer */
};

struct tm_index {
    tm_section_file file;
    const tm_section *tensors, *names, *sums, *hist; /* of FILE */
    uint32_t count;
};

static const char *name_of(const tm_index *index)
{
    return index->file.src.name;
}

/* ---- Opening ---- */

static int find_sections(tm_index *index, tm_req *req)
{
    index->tensors = tm_section_find(&index->file, TM_INDEX_TENSORS);
    index->names = tm_section_find(&index->file, TM_INDEX_NAMES);
    index->sums = tm_section_find(&index->file, TM_INDEX_SUMS);
    index->hist = tm_section_find(&index->file, TM_INDEX_HIST);
    if (!index->tensors || !index->names || !index->sums || !index->hist)
        return tm_fail(req, EBADMSG, "%s: is damaged: it lacks a section", name_of(index));
    size_t item = index->tensors->item_bytes;
    if (item < TM_INDEX_RECORD_BYTES || item > ITEM_BYTES_MAX || item % TM_SECTION_ALIGN != 0 ||
        index->tensors->used % item != 0 || index->tensors->used / item > TM_TENSORS_MAX)
        return tm_fail(req, EBADMSG, "%s: is damaged: its records cannot be", name_of(index));
    index->count = (uint32_t)(index->tensors->used / item);
    return 0;
}

int tm_index_open(const tm_byte_source *src, const uint8_t fingerprint[TM_FINGERPRINT_BYTES],
                  tm_req *req, tm_index **ret)
{
    TM_AUTO(tm_index_closep) tm_index *index = TM_NEW(tm_index);
    if (!index)
        return tm_fail(req, ENOMEM, "no memory to read %s", src->name);
    TM_TRY(tm_section_file_open(src, &tm_index_format, fingerprint, req, &index->file));
    TM_TRY(find_sections(index, req));
    *ret = TM_STEAL(index);
    return 0;
}

void tm_index_close(tm_index *index)
{
    free(index);
}

void tm_index_closep(tm_index **index)
{
    tm_index_close(*index);
}

uint32_t tm_index_count(const tm_index *index)
{
    return index->count;
}

/* ---- What a record refers to ---- */

/* The bytes of REF, checked; DST has room for them. */
static int read_ref(const tm_index *index, const tm_section *section, const tm_index_ref *ref,
                    void *dst, tm_req *req)
{
    TM_TRY(tm_section_read(&index->file, section, ref->off, ref->len, dst, req));
    if (tm_hash64(dst, ref->len) != ref->check)
        return tm_fail(req, EBADMSG,
                       "%s: is damaged: what is kept of a tensor is not what was "
                       "written",
                       name_of(index));
    return 0;
}

int tm_index_sums(const tm_index *index, const tm_index_tensor *tensor, tm_req *req, tm_sums *ret)
{
    uint8_t bytes[TM_INDEX_SUMS_MAX];
    TM_TRY(read_ref(index, index->sums, &tensor->sums_ref, bytes, req));
    if (tm_index_sums_load(bytes, tensor->sums_ref.len, ret) < 0)
        return tm_fail(req, EBADMSG, "%s: is damaged: sums that cannot be", name_of(index));
    return 0;
}

static int load_hist(const tm_index *index, const tm_index_tensor *tensor, tm_req *req,
                     tm_stats *ret)
{
    const tm_index_ref *ref = &tensor->hist_ref;
    TM_AUTO_FREE uint8_t *bytes = malloc(ref->len ? ref->len : 1);
    if (!bytes)
        return tm_fail(req, ENOMEM, "no memory to read %s", name_of(index));
    TM_TRY(read_ref(index, index->hist, ref, bytes, req));
    int rc = tm_index_hist_load(bytes, ref->len, tensor->hist_shift, tensor->record.summary.n,
                                ret->bins, ret->hist);
    if (rc < 0)
        return tm_fail(req, -rc, "%s: is damaged: a histogram that cannot be", name_of(index));
    return 0;
}

/* What tm_stats_summarize() made of it, back again. */
static void restore_extremes(const tm_index_tensor *tensor, tm_stats *ret)
{
    const tm_stats_summary *summary = &tensor->record.summary;
    bool has_values = summary->min == summary->min;
    if (has_values)
        tm_stats_offer_absmax(ret, summary->absmax, summary->absmax_index);
    if (!ret->wide || !has_values)
        return;
    ret->wide->zero = summary->zero;
    ret->wide->neg_zero = summary->neg_zero;
    ret->wide->subnormal = tensor->dtype == TM_F64 ? summary->subnormal : 0;
    ret->wide->min = summary->min;
    ret->wide->max = summary->max;
}

int tm_index_stats(const tm_index *index, const tm_index_tensor *tensor, tm_req *req, tm_stats *ret)
{
    tm_stats stats;
    int rc = tm_stats_init(&stats, tensor->dtype);
    if (rc < 0)
        return tm_fail(req, -rc, "no memory to read %s", name_of(index));
    restore_extremes(tensor, &stats);
    rc = load_hist(index, tensor, req, &stats);
    if (rc == 0 && stats.wide)
        rc = tm_index_sums(index, tensor, req, &stats.wide->sums);
    if (rc < 0) {
        tm_stats_done(&stats);
        return rc;
    }
    *ret = stats;
    return 0;
}

/* ---- Tensors ---- */

typedef struct batch {
    tm_index_tensor tensors[BATCH];
    uint32_t count;
    size_t name_bytes;
    char *names; /* of all, in order */
} batch;

static void batch_done(batch *b)
{
    free(b->names);
}

static int load_records(const tm_index *index, uint32_t first, const uint8_t *bytes, batch *b,
                        tm_req *req)
{
    size_t item = index->tensors->item_bytes;
    for (uint32_t i = 0; i < b->count; i++) {
        int rc = tm_index_record_load(bytes + i * item, item, &b->tensors[i]);
        if (rc < 0)
            return tm_fail(req, -rc, "%s: is damaged: record %" PRIu32 " is not what was written",
                           name_of(index), first + i);
    }
    return 0;
}

/* Leaves those whose names take too much. Names follow each other without a gap. */
static int measure_names(const tm_index *index, batch *b, tm_req *req)
{
    const uint64_t start = b->tensors[0].name_ref.off;
    b->name_bytes = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        const tm_index_ref *ref = &b->tensors[i].name_ref;
        if (ref->off - start != b->name_bytes)
            return tm_fail(req, EBADMSG, "%s: is damaged: names that cannot be", name_of(index));
        if (i > 0 && b->name_bytes + ref->len > BATCH_NAME_BYTES) {
            b->count = i;
            break;
        }
        b->name_bytes += ref->len;
    }
    return 0;
}

static int load_names(const tm_index *index, batch *b, tm_req *req)
{
    TM_TRY(measure_names(index, b, req));
    free(b->names);
    b->names = malloc(b->name_bytes ? b->name_bytes : 1);
    if (!b->names)
        return tm_fail(req, ENOMEM, "no memory to read %s", name_of(index));
    char *at = b->names;
    TM_TRY(tm_section_read(&index->file, index->names, b->tensors[0].name_ref.off, b->name_bytes,
                           at, req));
    for (uint32_t i = 0; i < b->count; i++) {
        const tm_index_ref *ref = &b->tensors[i].name_ref;
        if (tm_hash64(at, ref->len) != ref->check)
            return tm_fail(req, EBADMSG, "%s: is damaged: a name is not what was written",
                           name_of(index));
        b->tensors[i].name = at;
        at += ref->len;
    }
    return 0;
}

/* Reads up to MOST tensors from FIRST on, at least one. */
static int load_batch(const tm_index *index, uint32_t first, uint32_t most, batch *b, tm_req *req)
{
    size_t item = index->tensors->item_bytes;
    b->count = (uint32_t)tm_min_u64(tm_min_u64(most, index->count - first), BATCH);
    TM_AUTO_FREE uint8_t *bytes = tm_new_array(b->count, item);
    if (!bytes)
        return tm_fail(req, ENOMEM, "no memory to read %s", name_of(index));
    TM_TRY(tm_section_read(&index->file, index->tensors, (uint64_t)first * item, b->count * item,
                           bytes, req));
    TM_TRY(load_records(index, first, bytes, b, req));
    return load_names(index, b, req);
}

static int find_in(const tm_index *index, uint32_t near, const char *name, size_t len, batch *b,
                   tm_req *req)
{
    uint32_t low = 0, high = index->count;
    for (bool first = true; low < high; first = false) {
        uint32_t middle = first && near < high ? near : low + (high - low) / 2;
        TM_TRY(load_batch(index, middle, 1, b, req));
        int order = tm_name_cmp(b->tensors[0].name, b->tensors[0].name_len, name, len);
        if (order == 0)
            return 0;
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return -ENOENT;
}

int tm_index_find(const tm_index *index, const char *name, size_t len, tm_req *req,
                  tm_index_tensor *ret)
{
    return tm_index_find_near(index, index->count / 2, name, len, req, ret);
}

int tm_index_find_near(const tm_index *index, uint32_t near, const char *name, size_t len,
                       tm_req *req, tm_index_tensor *ret)
{
    TM_AUTO_FREE batch *owned = TM_NEW(batch);
    if (!owned)
        return tm_fail(req, ENOMEM, "no memory to read %s", name_of(index));
    int rc = find_in(index, near, name, len, owned, req);
    batch_done(owned);
    if (rc < 0)
        return rc;
    *ret = owned->tensors[0];
    ret->name = name;
    return 0;
}

static int each_in(const tm_index *index, tm_index_range range, tm_index_fn *fn, void *ctx,
                   batch *b, tm_req *req)
{
    while (range.count > 0 && range.first < index->count) {
        TM_TRY(load_batch(index, range.first, range.count, b, req));
        for (uint32_t i = 0; i < b->count; i++) {
            int rc = fn(ctx, range.first + i, &b->tensors[i]);
            if (rc != 0)
                return rc;
        }
        range.first += b->count;
        range.count -= b->count;
    }
    return 0;
}

int tm_index_each(const tm_index *index, tm_index_range range, tm_index_fn *fn, void *ctx,
                  tm_req *req)
{
    TM_AUTO_FREE batch *b = TM_NEW(batch);
    if (!b)
        return tm_fail(req, ENOMEM, "no memory to read %s", name_of(index));
    int rc = each_in(index, range, fn, ctx, b, req);
    batch_done(b);
    return rc;
}

/* ---- Everything ---- */

typedef struct checking {
    const tm_index *index;
    tm_req *req;
    uint64_t names, sums, hist; /* bytes of each that are accounted for */
    char *last;                 /* the name before */
    size_t last_len;
} checking;

static int check_order(checking *c, const tm_index_tensor *tensor)
{
    bool first = c->last == NULL;
    if (!first && tm_name_cmp(c->last, c->last_len, tensor->name, tensor->name_len) >= 0)
        return tm_fail(c->req, EBADMSG, "%s: is damaged: names are not in order",
                       name_of(c->index));
    free(c->last);
    c->last = malloc(tensor->name_len ? tensor->name_len : 1);
    if (!c->last)
        return tm_fail(c->req, ENOMEM, "no memory to read %s", name_of(c->index));
    memcpy(c->last, tensor->name, tensor->name_len);
    c->last_len = tensor->name_len;
    return 0;
}

static int check_tensor(void *ctx, uint32_t number, const tm_index_tensor *tensor)
{
    checking *c = ctx;
    tm_stats stats;
    tm_sums sums;
    TM_TRY(check_order(c, tensor));
    if (tensor->name_ref.off != c->names || tensor->sums_ref.off != c->sums ||
        tensor->hist_ref.off != c->hist)
        return tm_fail(c->req, EBADMSG, "%s: is damaged: record %" PRIu32 " is out of place",
                       name_of(c->index), number);
    c->names += tensor->name_ref.len;
    c->sums += tensor->sums_ref.len;
    c->hist += tensor->hist_ref.len;
    TM_TRY(tm_index_sums(c->index, tensor, c->req, &sums));
    TM_TRY(tm_index_stats(c->index, tensor, c->req, &stats));
    tm_stats_done(&stats);
    return 0;
}

int tm_index_check(const tm_index *index, tm_req *req)
{
    checking c = {.index = index, .req = req};
    for (size_t i = 0; i < index->file.count; i++)
        TM_TRY(tm_section_check(&index->file, &index->file.sections[i], req));
    int rc = tm_index_each(index, (tm_index_range){0, UINT32_MAX}, check_tensor, &c, req);
    free(c.last);
    TM_TRY(rc);
    if (c.names != index->names->used || c.sums != index->sums->used || c.hist != index->hist->used)
        return tm_fail(req, EBADMSG, "%s: is damaged: bytes belong to no tensor", name_of(index));
    return 0;
}
