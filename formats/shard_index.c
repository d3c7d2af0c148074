#include "formats/shard_index.h"

#include <inttypes.h>

#include "core/order.h"
#include "formats/json_stream.h"
#include "formats/sniff.h"

enum {
    TEXT_MAX = TM_NAME_MAX, /* of one string; a longer one is no name of a tensor or file */
    FILE_NAME_MAX = 4095,   /* bytes; what Linux opens */
    MAP_DEPTH = 2,          /* of the keys and values of weight_map */
};

/* What is expected next. */
enum place {
    AT_INDEX,
    AT_SECTION, /* weight_map, another key of the index, or its end */
    IN_OTHER,   /* within the value of another key */
    AT_MAP,
    AT_TENSOR, /* a tensor's name, or the map's end */
    AT_FILE,
};

typedef struct parse {
    tm_shard_index *index;
    tm_req *req;
    tm_json_stream stream;
    const char *name; /* of the index file, for words */
    enum place place;
    bool has_map;
    uint64_t names_len, names_cap, entries_cap, files_cap;
    uint32_t *slots;     /* files by name, open addressing: 1 + the file, 0 where free */
    uint32_t slot_count; /* a power of two, at most half of them in use */
    uint64_t hash_key;
    uint32_t last_file;
} parse;

void tm_shard_index_init(tm_shard_index *index)
{
    memset(index, 0, sizeof(*index));
}

void tm_shard_index_done(tm_shard_index *index)
{
    for (uint32_t i = 0; i < index->file_count; i++)
        free(index->files[i]);
    free(index->files);
    free(index->entries);
    free(index->names);
    tm_shard_index_init(index);
}

static int no_memory(parse *x)
{
    return tm_fail(x->req, ENOMEM, "no memory for %s", x->name);
}

/* Room for NEED items, and for one, as in a tensor table: little more than is used. */
static int reserve(parse *x, void *items_at, uint64_t *cap, uint64_t need, size_t item_bytes)
{
    void *items;
    memcpy(&items, items_at, sizeof(items));
    if (items && need <= *cap)
        return 0;
    uint64_t want = tm_max_u64(tm_max_u64(*cap + *cap / 4, need), 64);
    items = realloc(items, want * item_bytes);
    if (!items)
        return no_memory(x);
    memcpy(items_at, &items, sizeof(items));
    *cap = want;
    return 0;
}

/* -- Files. */

static bool has_control_byte(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
            return true;
    }
    return false;
}

/* Every component is a plain name: not "", "." or "..". */
static bool has_plain_components(const char *name, size_t len)
{
    for (size_t at = 0; at <= len;) {
        const char *slash = memchr(name + at, '/', len - at);
        size_t n = slash ? (size_t)(slash - name) - at : len - at;
        if (n == 0 || (n == 1 && name[at] == '.') || (n == 2 && memcmp(name + at, "..", 2) == 0))
            return false;
        at += n + 1;
    }
    return true;
}

/* NULL where NAME may be opened in the index's folder, else why not. */
static const char *reason_against(const char *name, size_t len)
{
    if (len == 0)
        return "is empty";
    if (len > FILE_NAME_MAX)
        return "is too long";
    if (has_control_byte(name, len))
        return "has a control byte";
    if (memchr(name, '\\', len))
        return "has a backslash";
    if (name[0] == '/')
        return "is absolute";
    if (len > 1 && name[1] == ':')
        return "begins with a drive";
    return has_plain_components(name, len) ? NULL : "has an empty, '.' or '..' component";
}

static bool is_file(const parse *x, uint32_t file, const char *name, size_t len)
{
    const char *other = x->index->files[file];
    return strlen(other) == len && memcmp(other, name, len) == 0;
}

/* Keyed, so that an index cannot be made of names that collide. */
static uint32_t hash_of(const parse *x, const char *name, size_t len)
{
    uint64_t h = x->hash_key;
    for (size_t i = 0; i < len; i++) {
        h = (h ^ (unsigned char)name[i]) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 32;
    }
    return (uint32_t)h;
}

/* The slot of NAME, or the free one where it belongs. */
static uint32_t find_slot(const parse *x, const char *name, size_t len)
{
    uint32_t i = hash_of(x, name, len) & (x->slot_count - 1);
    while (x->slots[i] && !is_file(x, x->slots[i] - 1, name, len))
        i = (i + 1) & (x->slot_count - 1);
    return i;
}

static int reserve_slot(parse *x)
{
    uint32_t count = x->index->file_count, old = x->slot_count;
    if (2 * (count + 1) <= old)
        return 0;
    uint32_t *slots = tm_new_array(old ? old * 2 : 64, sizeof(*slots));
    if (!slots)
        return no_memory(x);
    free(x->slots);
    x->slots = slots;
    x->slot_count = old ? old * 2 : 64;
    for (uint32_t file = 0; file < count; file++) {
        const char *name = x->index->files[file];
        slots[find_slot(x, name, strlen(name))] = file + 1;
    }
    return 0;
}

static int add_file(parse *x, const char *name, size_t len)
{
    tm_shard_index *index = x->index;
    char words[TM_WORDS_NAME_MAX];
    const char *why = reason_against(name, len);
    if (why)
        return tm_fail(x->req, EBADMSG, "%s: file name '%s' %s", x->name,
                       tm_words_name(name, len, words), why);
    if (index->file_count == TM_SHARD_FILES_MAX)
        return tm_fail(x->req, EFBIG, "%s: more than %d files", x->name, TM_SHARD_FILES_MAX);
    uint64_t need = (uint64_t)index->file_count + 1;
    TM_TRY(reserve(x, &index->files, &x->files_cap, need, sizeof(*index->files)));
    char *copy = strndup(name, len);
    if (!copy)
        return no_memory(x);
    index->files[index->file_count++] = copy;
    return 0;
}

static int file_of(parse *x, const char *name, size_t len, uint32_t *ret)
{
    uint32_t *file = &x->last_file;
    if (x->index->file_count == 0 || !is_file(x, *file, name, len)) {
        TM_TRY(reserve_slot(x));
        uint32_t *slot = &x->slots[find_slot(x, name, len)];
        if (!*slot) {
            TM_TRY(add_file(x, name, len));
            *slot = x->index->file_count;
        }
        *file = *slot - 1;
    }
    *ret = *file;
    return 0;
}

/* -- The map. */

/* The name goes to the pool at once; its entry follows with the file. */
static int on_tensor(parse *x, const tm_json_event *event)
{
    tm_shard_index *index = x->index;
    if (event->kind == TM_JSON_OBJECT_END) {
        x->place = AT_SECTION;
        return 0;
    }
    if (index->entry_count == TM_TENSORS_MAX)
        return tm_fail(x->req, EFBIG, "%s: more than %u tensors", x->name, TM_TENSORS_MAX);
    TM_TRY(reserve(x, &index->names, &x->names_cap, x->names_len + event->len, 1));
    TM_TRY(reserve(x, &index->entries, &x->entries_cap, (uint64_t)index->entry_count + 1,
                   sizeof(*index->entries)));
    if (event->len)
        memcpy(index->names + x->names_len, event->text, event->len);
    index->entries[index->entry_count] = (tm_shard_entry){
        .name_off = x->names_len,
        .name_len = (uint32_t)event->len,
    };
    x->names_len += event->len;
    x->place = AT_FILE;
    return 0;
}

static int on_file(parse *x, const tm_json_event *event)
{
    tm_shard_index *index = x->index;
    tm_shard_entry *entry = &index->entries[index->entry_count];
    char name[TM_WORDS_NAME_MAX];
    if (event->kind != TM_JSON_STRING)
        return tm_fail(x->req, EBADMSG, "%s: tensor '%s': its file is not a string", x->name,
                       tm_words_name(index->names + entry->name_off, entry->name_len, name));
    TM_TRY(file_of(x, event->text, event->len, &entry->file));
    index->entry_count++;
    x->place = AT_TENSOR;
    return 0;
}

static int on_section(parse *x, const tm_json_event *event)
{
    static const char map[] = "weight_map";
    if (event->kind == TM_JSON_OBJECT_END)
        return 0;
    if (event->len != sizeof(map) - 1 || memcmp(event->text, map, event->len) != 0) {
        x->place = IN_OTHER;
        return 0;
    }
    if (x->has_map)
        return tm_fail(x->req, EBADMSG, "%s: weight_map stands twice", x->name);
    x->has_map = true;
    x->place = AT_MAP;
    return 0;
}

static int on_other(parse *x, const tm_json_event *event)
{
    bool begins = event->kind == TM_JSON_OBJECT_BEGIN || event->kind == TM_JSON_ARRAY_BEGIN;
    if (event->depth == MAP_DEPTH - 1 && !begins)
        x->place = AT_SECTION;
    return 0;
}

static int on_object(parse *x, const tm_json_event *event)
{
    bool is_index = x->place == AT_INDEX;
    if (event->kind != TM_JSON_OBJECT_BEGIN)
        return tm_fail(x->req, EBADMSG, "%s: %s is not an object", x->name,
                       is_index ? "the index" : "weight_map");
    x->place = is_index ? AT_SECTION : AT_TENSOR;
    return 0;
}

static int on_event(void *ctx, const tm_json_event *event)
{
    static int (*const handlers[])(parse *, const tm_json_event *) = {
        [AT_INDEX] = on_object, [AT_SECTION] = on_section, [IN_OTHER] = on_other,
        [AT_MAP] = on_object,   [AT_TENSOR] = on_tensor,   [AT_FILE] = on_file,
    };
    parse *x = ctx;
    return handlers[x->place](x, event);
}

/* -- The whole index. */

static int cmp_entries(const void *ctx, uint32_t a, uint32_t b)
{
    const tm_shard_index *index = ctx;
    const tm_shard_entry *x = &index->entries[a], *y = &index->entries[b];
    return tm_name_cmp(index->names + x->name_off, x->name_len, index->names + y->name_off,
                       y->name_len);
}

static int sort_entries(parse *x)
{
    tm_shard_index *index = x->index;
    TM_AUTO_FREE uint32_t *order = NULL;
    if (tm_order_is_sorted(index->entry_count, cmp_entries, index))
        return 0;
    if (tm_order_new(index->entry_count, cmp_entries, index, &order) < 0)
        return no_memory(x);
    tm_order_apply(order, index->entry_count, index->entries, sizeof(*index->entries));
    return 0;
}

static int check_duplicates(parse *x)
{
    const tm_shard_index *index = x->index;
    char name[TM_WORDS_NAME_MAX];
    for (uint32_t i = 1; i < index->entry_count; i++) {
        const tm_shard_entry *entry = &index->entries[i];
        if (cmp_entries(index, i - 1, i) == 0)
            return tm_fail(x->req, EBADMSG, "%s: tensor '%s' stands twice", x->name,
                           tm_words_name(index->names + entry->name_off, entry->name_len, name));
    }
    return 0;
}

/* Puts what the tokenizer found into words, or what the file is that has no JSON at all. */
static int explain(parse *x, int rc, const tm_byte_source *src)
{
    const tm_json_stream *s = &x->stream;
    char sniffed[TM_SNIFF_WORDS_MAX];
    if (rc == -ENOMEM)
        return no_memory(x);
    if (rc != -EBADMSG || !s->error)
        return rc;
    int known = s->error_offset == 0 ? tm_sniff_source(src, x->req, sniffed) : 0;
    TM_TRY(known);
    if (known)
        return tm_fail(x->req, EBADMSG, "%s: %s", x->name, sniffed);
    return tm_fail(x->req, EBADMSG, "%s: byte %" PRIu64 ": %s", x->name, s->error_offset, s->error);
}

static int feed(void *ctx, const void *data, size_t len)
{
    parse *x = ctx;
    return tm_json_stream_feed(&x->stream, data, len);
}

static int parse_index(parse *x, const tm_byte_source *src)
{
    if (src->size > TM_SHARD_INDEX_MAX)
        return tm_fail(x->req, EFBIG, "%s: %" PRIu64 " bytes, more than the limit of %u", x->name,
                       src->size, TM_SHARD_INDEX_MAX);
    int rc = tm_byte_source_stream(src, 0, src->size, feed, x, x->req);
    if (rc == 0)
        rc = tm_json_stream_finish(&x->stream);
    TM_TRY(explain(x, rc, src));
    if (!x->has_map)
        return tm_fail(x->req, EBADMSG, "%s: it has no weight_map", x->name);
    TM_TRY(sort_entries(x));
    return check_duplicates(x);
}

/* Gives back what was reserved and not used; failing to is harmless. */
static void trim(parse *x)
{
    tm_shard_index *index = x->index;
    char *names = realloc(index->names, tm_max_u64(x->names_len, 1));
    tm_shard_entry *entries =
        reallocarray(index->entries, index->entry_count + 1, sizeof(*entries));
    index->names = names ? names : index->names;
    index->entries = entries ? entries : index->entries;
}

int tm_shard_index_read(const tm_byte_source *src, tm_req *req, tm_shard_index *index)
{
    char name[TM_WORDS_NAME_MAX];
    parse x = {
        .index = index,
        .req = req,
        .name = tm_words_name(src->name, strlen(src->name), name),
        .hash_key = tm_now_ns(),
    };
    tm_shard_index_init(index);
    tm_json_stream_init(&x.stream, on_event, &x, TEXT_MAX);
    int rc = parse_index(&x, src);
    tm_json_stream_done(&x.stream);
    free(x.slots);
    if (rc < 0)
        tm_shard_index_done(index);
    else
        trim(&x);
    return rc;
}

bool tm_shard_index_find(const tm_shard_index *index, const char *name, size_t len,
                         uint32_t *ret_file)
{
    uint32_t lo = 0, hi = index->entry_count;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        const tm_shard_entry *entry = &index->entries[mid];
        int c = tm_name_cmp(index->names + entry->name_off, entry->name_len, name, len);
        if (c == 0) {
            *ret_file = entry->file;
            return true;
        }
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return false;
}
