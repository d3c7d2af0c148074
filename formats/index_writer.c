#include "formats/index_writer.h"

#include "core/order.h"
#include "core/tensor_table.h"
#include "core/text.h"
#include "formats/index_hist.h"
#include "formats/index_log.h"
#include "formats/new_file.h"

/* Of the shard: the work that a power cut may cost. */
#define SYNC_BYTES (UINT64_C(4) << 30)
enum {
    FIRST_ENTRIES = 64,
    SECTIONS = TM_INDEX_HIST,
};

typedef struct done_tensor {
    tm_index_entry entry;
    uint64_t name_off; /* in the names */
    uint64_t context;
    bool wanted;   /* since this writer was opened */
    bool replaced; /* by a later one of the same name */
} done_tensor;

struct tm_index_writer {
    char *path;
    uint8_t fingerprint[TM_FINGERPRINT_BYTES];
    tm_index_log log;
    done_tensor *done;
    uint32_t count, cap;
    tm_text names;
    uint32_t *slots; /* 1 + number of a done tensor by its name's hash, 0: free; 2 * cap of them */
    uint64_t unsynced; /* bytes of the shard */
    bool finished;
};

static int no_memory(const tm_index_writer *writer, tm_req *req)
{
    return tm_fail(req, ENOMEM, "no memory to write %s", writer->path);
}

/* ---- What is done, by name ---- */

static const char *name_of(const tm_index_writer *writer, uint32_t i)
{
    return writer->names.bytes + writer->done[i].name_off;
}

/* The slot of NAME, or the free one where it belongs. */
static uint32_t *slot_of(const tm_index_writer *writer, const char *name, size_t len)
{
    uint64_t slots = 2 * (uint64_t)writer->cap; /* a power of two, at most half of it taken */
    for (uint64_t at = tm_hash64(name, len);; at++) {
        uint32_t *slot = &writer->slots[at & (slots - 1)];
        if (*slot == 0)
            return slot;
        uint32_t i = *slot - 1;
        if (writer->done[i].entry.name_len == len && memcmp(name_of(writer, i), name, len) == 0)
            return slot;
    }
}

/* SLOTS are all free. */
static void fill_slots(tm_index_writer *writer)
{
    for (uint32_t i = 0; i < writer->count; i++)
        if (!writer->done[i].replaced)
            *slot_of(writer, name_of(writer, i), writer->done[i].entry.name_len) = i + 1;
}

static int grow(tm_index_writer *writer)
{
    uint32_t cap = writer->cap ? 2 * writer->cap : FIRST_ENTRIES;
    done_tensor *done = reallocarray(writer->done, cap, sizeof(*done));
    if (!done)
        return -ENOMEM;
    writer->done = done;
    uint32_t *slots = tm_new_array(2 * (size_t)cap, sizeof(*slots));
    if (!slots)
        return -ENOMEM;
    free(writer->slots);
    writer->slots = slots;
    writer->cap = cap;
    fill_slots(writer);
    return 0;
}

/* Makes room for one more, so that remember() cannot fail. */
static int reserve(tm_index_writer *writer, const char *name, size_t len, tm_req *req)
{
    if (writer->count >= TM_TENSORS_MAX)
        return tm_fail(req, EFBIG, "%s: more than %u tensors", writer->path, TM_TENSORS_MAX);
    if (writer->count == writer->cap && grow(writer) < 0)
        return no_memory(writer, req);
    tm_text_append(&writer->names, name, len);
    if (tm_text_error(&writer->names) < 0)
        return no_memory(writer, req);
    return 0;
}

static void remember(tm_index_writer *writer, const done_tensor *tensor)
{
    size_t len = tensor->entry.name_len;
    done_tensor *done = &writer->done[writer->count];
    *done = *tensor;
    done->name_off = writer->names.len - len;
    uint32_t *slot = slot_of(writer, writer->names.bytes + done->name_off, len);
    if (*slot)
        writer->done[*slot - 1].replaced = true;
    *slot = ++writer->count;
}

static int remember_entry(void *ctx, const tm_index_entry *entry, const tm_index_tensor *tensor)
{
    tm_index_writer *writer = ctx;
    if (reserve(writer, tensor->name, tensor->name_len, NULL) < 0)
        return -ENOMEM;
    remember(writer, &(done_tensor){.entry = *entry, .context = tensor->context});
    return 0;
}

/* ---- Open, close ---- */

int tm_index_writer_open(const char *path, const uint8_t fingerprint[TM_FINGERPRINT_BYTES],
                         tm_req *req, tm_index_writer **ret)
{
    TM_AUTO(tm_index_writer_closep) tm_index_writer *writer = TM_NEW(tm_index_writer);
    TM_AUTO_FREE char *log = tm_path_with(path, ".part");
    if (!writer)
        return tm_fail(req, ENOMEM, "no memory to write %s", path);
    writer->log.fd = -1;
    tm_text_init(&writer->names);
    memcpy(writer->fingerprint, fingerprint, sizeof(writer->fingerprint));
    writer->path = strdup(path);
    int rc = writer->path && log ? grow(writer) : -ENOMEM;
    if (rc == 0)
        rc = tm_index_log_open(
            &writer->log, &(tm_index_log_params){log, fingerprint, remember_entry, writer}, req);
    if (rc == -ENOMEM)
        return tm_fail(req, ENOMEM, "no memory to write %s", path);
    TM_TRY(rc);
    *ret = TM_STEAL(writer);
    return 0;
}

void tm_index_writer_close(tm_index_writer *writer)
{
    if (!writer)
        return;
    tm_index_log_close(&writer->log, writer->finished || writer->count == 0);
    tm_text_done(&writer->names);
    free(writer->slots);
    free(writer->done);
    free(writer->path);
    free(writer);
}

void tm_index_writer_closep(tm_index_writer **writer)
{
    tm_index_writer_close(*writer);
}

/* ---- Adding ---- */

bool tm_index_writer_has(tm_index_writer *writer, const char *name, size_t len, uint64_t context)
{
    uint32_t slot = *slot_of(writer, name, len);
    if (slot == 0 || writer->done[slot - 1].context != context)
        return false;
    writer->done[slot - 1].wanted = true;
    return true;
}

/* Everything but the histogram's bytes; SUMS has room for those of the sums. */
static void record_of(const tm_index_item *item, uint8_t *sums_bytes, tm_index_tensor *ret)
{
    size_t sums_len = tm_index_sums_store(item->sums, sums_bytes);
    *ret = (tm_index_tensor){
        .dtype = item->stats->dtype,
        .scaled = item->scaled,
        .stored_bytes = item->stored_bytes,
        .context = item->context,
        .record = *item->record,
        .name_ref = {0, tm_hash64(item->name, item->name_len), (uint32_t)item->name_len},
        .sums_ref = {0, tm_hash64(sums_bytes, sums_len), (uint32_t)sums_len},
    };
    if (ret->record.summary.absmax != ret->record.summary.absmax)
        ret->record.summary.absmax_index = 0; /* of no meaning, but of one value */
}

/* Malloc'ed; NULL for want of memory. */
static uint8_t *hist_of(const tm_stats *stats, tm_index_tensor *tensor)
{
    size_t len;
    uint64_t room = tm_index_hist_room(tensor->stored_bytes);
    tensor->hist_shift = tm_index_hist_fit(stats->hist, stats->bins, room, &len);
    uint8_t *bytes = malloc(len ? len : 1);
    if (!bytes)
        return NULL;
    size_t used = tm_index_hist_store(stats->hist, stats->bins, tensor->hist_shift, bytes);
    assert(used == len);
    tensor->hist_ref = (tm_index_ref){0, tm_hash64(bytes, used), (uint32_t)used};
    return bytes;
}

static int append(tm_index_writer *writer, const tm_index_item *item, tm_req *req,
                  tm_index_entry *ret)
{
    uint8_t sums[TM_INDEX_SUMS_MAX], record[TM_INDEX_RECORD_BYTES];
    tm_index_tensor tensor;
    record_of(item, sums, &tensor);
    TM_AUTO_FREE uint8_t *hist = hist_of(item->stats, &tensor);
    if (!hist)
        return no_memory(writer, req);
    tm_index_record_store(&tensor, record);
    assert(tm_index_record_load(record, sizeof(record), &tensor) == 0); /* of values that can be */
    tm_index_parts parts = {
        .record = record,
        .name = item->name,
        .sums = sums,
        .hist = hist,
        .name_len = tensor.name_ref.len,
        .sums_len = tensor.sums_ref.len,
        .hist_len = tensor.hist_ref.len,
    };
    return tm_index_log_append(&writer->log, &parts, req, ret);
}

int tm_index_writer_add(tm_index_writer *writer, const tm_index_item *item, tm_req *req)
{
    done_tensor done = {.context = item->context, .wanted = true};
    assert(!writer->finished && item->name_len <= TM_NAME_MAX);
    TM_TRY(reserve(writer, item->name, item->name_len, req));
    int rc = append(writer, item, req, &done.entry);
    if (rc < 0) {
        writer->names.len -= item->name_len;
        return rc;
    }
    remember(writer, &done);
    writer->unsynced += item->stored_bytes;
    if (writer->unsynced < SYNC_BYTES)
        return 0;
    writer->unsynced = 0;
    return tm_index_log_sync(&writer->log, req);
}

/* ---- Finishing ---- */

typedef struct output {
    tm_index_writer *writer;
    tm_new_file *file;
    uint8_t *part;         /* room for the greatest histogram */
    const uint32_t *order; /* of the writer's done tensors */
    tm_req *req;
    tm_section *section; /* that is being written */
    tm_hasher hasher;
} output;

static int put(output *out, const void *bytes, size_t len)
{
    tm_hasher_update(&out->hasher, bytes, len);
    out->section->used += len;
    return tm_new_file_put(out->file, bytes, len, out->req);
}

/* Refers to the parts in the order of the records. */
static int put_records(output *out)
{
    uint64_t names = 0, sums = 0, hist = 0;
    for (uint32_t i = 0; i < out->writer->count; i++) {
        uint8_t bytes[TM_INDEX_RECORD_BYTES];
        const tm_index_entry *entry = &out->writer->done[out->order[i]].entry;
        tm_index_tensor tensor;
        TM_TRY(tm_index_log_read(&out->writer->log, entry->off, sizeof(bytes), bytes, out->req));
        if (tm_index_record_load(bytes, sizeof(bytes), &tensor) < 0)
            return tm_fail(out->req, EIO, "%s: was changed", out->writer->log.path);
        tensor.name_ref.off = names;
        tensor.sums_ref.off = sums;
        tensor.hist_ref.off = hist;
        names += entry->name_len;
        sums += entry->sums_len;
        hist += entry->hist_len;
        tm_index_record_store(&tensor, bytes);
        TM_TRY(put(out, bytes, sizeof(bytes)));
    }
    return 0;
}

static int put_names(output *out)
{
    for (uint32_t i = 0; i < out->writer->count; i++) {
        uint32_t number = out->order[i];
        TM_TRY(put(out, name_of(out->writer, number), out->writer->done[number].entry.name_len));
    }
    return 0;
}

static int put_logged(output *out, uint64_t off, size_t len)
{
    TM_TRY(tm_index_log_read(&out->writer->log, off, len, out->part, out->req));
    return put(out, out->part, len);
}

static int put_sums(output *out)
{
    for (uint32_t i = 0; i < out->writer->count; i++) {
        const tm_index_entry *entry = &out->writer->done[out->order[i]].entry;
        uint64_t off = entry->off + TM_INDEX_RECORD_BYTES + entry->name_len;
        TM_TRY(put_logged(out, off, entry->sums_len));
    }
    return 0;
}

static int put_hist(output *out)
{
    for (uint32_t i = 0; i < out->writer->count; i++) {
        const tm_index_entry *entry = &out->writer->done[out->order[i]].entry;
        uint64_t off = entry->off + TM_INDEX_RECORD_BYTES + entry->name_len + entry->sums_len;
        TM_TRY(put_logged(out, off, entry->hist_len));
    }
    return 0;
}

static int put_sections(output *out, tm_section *sections)
{
    static int (*const puts[SECTIONS])(output *) = {put_records, put_names, put_sums, put_hist};
    static const uint8_t zeros[TM_SECTION_ALIGN];
    uint64_t off = tm_section_head_bytes(SECTIONS);
    for (uint32_t i = 0; i < SECTIONS; i++) {
        tm_section *section = &sections[i];
        *section = (tm_section){.kind = i + 1, .off = off};
        out->section = section;
        tm_hasher_init(&out->hasher);
        TM_TRY(puts[i](out));
        uint64_t used = section->used;
        TM_TRY(put(out, zeros, -used % TM_SECTION_ALIGN));
        section->stored = section->used;
        section->used = used;
        section->check = tm_hasher_final(&out->hasher);
        off += section->stored;
    }
    sections[TM_INDEX_TENSORS - 1].item_bytes = TM_INDEX_RECORD_BYTES;
    return 0;
}

static int write_index(output *out)
{
    tm_section sections[SECTIONS];
    uint8_t head[TM_SECTION_HEADER_BYTES + SECTIONS * TM_SECTION_ENTRY_BYTES];
    TM_TRY(put_sections(out, sections));
    tm_section_head_store(&tm_index_format, out->writer->fingerprint, sections, SECTIONS, head);
    TM_TRY(tm_new_file_put_first(out->file, head, sizeof(head), out->req));
    return tm_new_file_commit(out->file, out->req);
}

/* The tensors that the finished file has are then all that there are. */
static void keep_wanted(tm_index_writer *writer)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < writer->count; i++)
        if (writer->done[i].wanted && !writer->done[i].replaced)
            writer->done[kept++] = writer->done[i];
    writer->count = kept;
    memset(writer->slots, 0, 2 * (size_t)writer->cap * sizeof(*writer->slots));
    fill_slots(writer);
}

static int compare_names(const void *ctx, uint32_t a, uint32_t b)
{
    const tm_index_writer *writer = ctx;
    return tm_name_cmp(name_of(writer, a), writer->done[a].entry.name_len, name_of(writer, b),
                       writer->done[b].entry.name_len);
}

int tm_index_writer_finish(tm_index_writer *writer, tm_req *req)
{
    TM_AUTO_FREE uint32_t *order = NULL;
    TM_AUTO_FREE uint8_t *part = malloc(TM_INDEX_HIST_BYTES_MAX);
    TM_AUTO(tm_new_file_closep) tm_new_file *file = NULL;
    output out = {.writer = writer, .part = part, .req = req};
    assert(!writer->finished);
    keep_wanted(writer);
    if (!part || tm_order_new(writer->count, compare_names, writer, &order) < 0)
        return no_memory(writer, req);
    out.order = order;
    TM_TRY(tm_new_file_open(writer->path, tm_section_head_bytes(SECTIONS), req, &file));
    out.file = file;
    TM_TRY(write_index(&out));
    writer->finished = true;
    return 0;
}
