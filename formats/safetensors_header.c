#include "formats/safetensors_header.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/order.h"

static const char metadata_name[] = "__metadata__";

/* What is expected next. */
enum place {
    AT_HEADER,
    AT_NAME,  /* a tensor's name, __metadata__, or the header's end */
    AT_ENTRY, /* a tensor's object */
    AT_FIELD, /* a field of it, or its end */
    AT_DTYPE,
    AT_SHAPE,
    IN_SHAPE, /* a dimension, or the end */
    AT_OFFSETS,
    IN_OFFSETS,  /* an offset, or the end */
    IN_EXTRA,    /* within the value of a field that the format does not have */
    AT_METADATA, /* its object, or null */
    AT_KEY,      /* a key of it, or its end */
    AT_TEXT,     /* a value of it */
};

enum field {
    FIELD_DTYPE,
    FIELD_SHAPE,
    FIELD_OFFSETS,
    FIELD_COUNT
};

static const struct {
    const char *name;
    size_t len;
    enum place place;
} fields[FIELD_COUNT] = {
    [FIELD_DTYPE] = {"dtype", 5, AT_DTYPE},
    [FIELD_SHAPE] = {"shape", 5, AT_SHAPE},
    [FIELD_OFFSETS] = {"data_offsets", 12, AT_OFFSETS},
};

/* -- Words. */

void tm_safetensors_lines_add(tm_safetensors_lines *lines, const char *fmt, ...)
{
    char words[TM_WORDS_MAX];
    if (lines->count++ >= TM_SAFETENSORS_LINES_MAX)
        return;
    va_list args;
    va_start(args, fmt);
    vsnprintf(words, sizeof(words), fmt, args);
    va_end(args);
    tm_diag_add(lines->diag, lines->severity, "%s: %s", lines->file_name, words);
}

void tm_safetensors_lines_end(tm_safetensors_lines *lines)
{
    if (lines->count > TM_SAFETENSORS_LINES_MAX)
        tm_diag_add(lines->diag, lines->severity, "%s: lines like these left out: %" PRIu32,
                    lines->file_name, lines->count - TM_SAFETENSORS_LINES_MAX);
}

static TM_PRINTF(2, 3) int refuse(tm_safetensors_header *h, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(h->words, sizeof(h->words), fmt, args);
    va_end(args);
    return -EBADMSG;
}

static const char *current_name(const tm_safetensors_header *h, char ret[TM_WORDS_NAME_MAX])
{
    return tm_words_name(h->name, h->name_len, ret);
}

/* Refuses the header because of its current tensor. */
static TM_PRINTF(2, 3) int refuse_tensor(tm_safetensors_header *h, const char *fmt, ...)
{
    char name[TM_WORDS_NAME_MAX], why[TM_WORDS_MAX - TM_WORDS_NAME_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof(why), fmt, args);
    va_end(args);
    return refuse(h, "tensor '%s': %s", current_name(h, name), why);
}

static int no_memory(tm_safetensors_header *h)
{
    return tm_fail(h->req, ENOMEM, "no memory for the header of %s", h->extra_fields.file_name);
}

/* -- Fields of a tensor. */

static int keep_name(tm_safetensors_header *h, const tm_json_event *event)
{
    if (event->len > TM_NAME_MAX)
        return refuse(h, "a name of %zu bytes; at most %d are supported", event->len, TM_NAME_MAX);
    if (event->len > h->name_cap || !h->name) {
        size_t cap = event->len + event->len / 2 + 128;
        char *grown = realloc(h->name, cap);
        if (!grown)
            return no_memory(h);
        h->name = grown;
        h->name_cap = cap;
    }
    if (event->len)
        memcpy(h->name, event->text, event->len);
    h->name_len = event->len;
    return 0;
}

static bool text_is(const tm_json_event *event, const char *text, size_t len)
{
    return event->len == len && memcmp(event->text, text, len) == 0;
}

/* JSON has seen to it that there are no leading zeros: 20 digits hold every number below 2^64. */
static bool parse_u64(const tm_json_event *event, uint64_t *ret)
{
    uint64_t value = 0;
    if (event->kind != TM_JSON_NUMBER || event->len > 20)
        return false;
    for (size_t i = 0; i < event->len; i++) {
        unsigned digit = (unsigned char)event->text[i] - (unsigned)'0';
        if (digit > 9 || tm_mul_overflow(value, 10, &value) ||
            tm_add_overflow(value, digit, &value))
            return false;
    }
    *ret = value;
    return true;
}

/* An item of FIELD's list that is not the number it should be. */
static int refuse_item(tm_safetensors_header *h, enum field field, const tm_json_event *event)
{
    char text[TM_WORDS_NAME_MAX];
    if (event->kind != TM_JSON_NUMBER)
        return refuse_tensor(h, "%s holds something that is not a number", fields[field].name);
    return refuse_tensor(h, "%s holds %s, which is not a whole number from 0 to 2^64 - 1",
                         fields[field].name, tm_words_name(event->text, event->len, text));
}

/* Most tensors have the type of the one before. */
static bool parse_dtype(tm_safetensors_header *h, const tm_json_event *event)
{
    const char *last = tm_dtype_get(h->dtype)->name;
    return text_is(event, last, strlen(last)) ||
           tm_dtype_parse_exact(event->text, event->len, &h->dtype);
}

static int on_dtype(tm_safetensors_header *h, const tm_json_event *event)
{
    char text[TM_WORDS_NAME_MAX];
    if (event->kind != TM_JSON_STRING)
        return refuse_tensor(h, "dtype is not a string");
    if (!parse_dtype(h, event))
        return refuse_tensor(h, "unknown dtype '%s'", tm_words_name(event->text, event->len, text));
    h->place = AT_FIELD;
    return 0;
}

/* The beginning of a list. */
static int on_list(tm_safetensors_header *h, const tm_json_event *event)
{
    bool is_shape = h->place == AT_SHAPE;
    if (event->kind != TM_JSON_ARRAY_BEGIN)
        return refuse_tensor(h, "%s is not a list",
                             fields[is_shape ? FIELD_SHAPE : FIELD_OFFSETS].name);
    h->place = is_shape ? IN_SHAPE : IN_OFFSETS;
    return 0;
}

static int on_dimension(tm_safetensors_header *h, const tm_json_event *event)
{
    if (event->kind == TM_JSON_ARRAY_END) {
        h->place = AT_FIELD;
        return 0;
    }
    if (h->rank == TM_RANK_MAX)
        return refuse_tensor(h, "more than %d dimensions are not supported", TM_RANK_MAX);
    if (h->rank == h->dims_cap) {
        size_t cap = h->dims_cap * 2 + 8;
        uint64_t *grown = reallocarray(h->dims, cap, sizeof(*grown));
        if (!grown)
            return no_memory(h);
        h->dims = grown;
        h->dims_cap = cap;
    }
    if (!parse_u64(event, &h->dims[h->rank]))
        return refuse_item(h, FIELD_SHAPE, event);
    h->rank++;
    return 0;
}

static int on_offset(tm_safetensors_header *h, const tm_json_event *event)
{
    if (event->kind == TM_JSON_ARRAY_END && h->offset_count == 2) {
        h->place = AT_FIELD;
        return 0;
    }
    if (event->kind == TM_JSON_ARRAY_END || h->offset_count == 2)
        return refuse_tensor(h, "data_offsets are not two numbers");
    if (!parse_u64(event, &h->offsets[h->offset_count]))
        return refuse_item(h, FIELD_OFFSETS, event);
    h->offset_count++;
    return 0;
}

static int on_extra(tm_safetensors_header *h, const tm_json_event *event)
{
    bool begins = event->kind == TM_JSON_OBJECT_BEGIN || event->kind == TM_JSON_ARRAY_BEGIN;
    if (event->depth == 2 && !begins)
        h->place = AT_FIELD;
    return 0;
}

/* -- A whole tensor. */

/* Upstream multiplies dimension by dimension, so it sees an overflow that stands before a zero. */
static bool upstream_overflows(const uint64_t *dims, size_t rank)
{
    uint64_t elems = 1;
    for (size_t i = 0; i < rank; i++) {
        if (tm_mul_overflow(elems, dims[i], &elems))
            return true;
    }
    return false;
}

/* The bytes that the shape needs. */
static int check_shape(tm_safetensors_header *h, uint64_t *ret_bytes)
{
    const tm_dtype_info *dtype = tm_dtype_get(h->dtype);
    uint64_t elems, bits;
    if (!tm_dims_elems(h->dims, h->rank, &elems))
        return refuse_tensor(h, "its shape has 2^64 elements or more");
    if (tm_mul_overflow(elems, dtype->bits, &bits))
        return refuse_tensor(h, "its shape needs 2^64 bits or more");
    if (!tm_dtype_bytes(h->dtype, elems, ret_bytes))
        return refuse_tensor(h, "its elements (%" PRIu64 " of %s) do not fill whole bytes", elems,
                             dtype->name);
    char name[TM_WORDS_NAME_MAX];
    if (elems == 0 && upstream_overflows(h->dims, h->rank))
        tm_safetensors_lines_add(&h->zero_orders,
                                 "tensor '%s': no elements, but other readers take its shape for "
                                 "an overflow",
                                 current_name(h, name));
    return 0;
}

static int check_offsets(tm_safetensors_header *h, uint64_t bytes)
{
    uint64_t begin = h->offsets[0], end = h->offsets[1];
    if (begin > end)
        return refuse_tensor(h, "its data ends at %" PRIu64 ", before it begins at %" PRIu64, end,
                             begin);
    if (end > (uint64_t)INT64_MAX - h->data_begin)
        return refuse_tensor(h, "its data ends at %" PRIu64 ", beyond any file", end);
    char name[TM_WORDS_NAME_MAX];
    if (end - begin != bytes)
        tm_safetensors_lines_add(&h->wrong_sizes,
                                 "tensor '%s': data_offsets span %" PRIu64
                                 " bytes, but its shape and dtype need %" PRIu64,
                                 current_name(h, name), end - begin, bytes);
    return 0;
}

static int end_tensor(tm_safetensors_header *h)
{
    uint64_t bytes;
    for (unsigned i = 0; i < FIELD_COUNT; i++) {
        if (!(h->fields & 1u << i))
            return refuse_tensor(h, "it has no %s", fields[i].name);
    }
    TM_TRY(check_shape(h, &bytes));
    TM_TRY(check_offsets(h, bytes));
    h->place = AT_NAME;
    return tm_tensor_table_add(h->table,
                               &(tm_tensor_new){
                                   .name = h->name,
                                   .name_len = h->name_len,
                                   .dtype = h->dtype,
                                   .dims = h->dims,
                                   .rank = h->rank,
                                   .file = h->file,
                                   .begin = h->data_begin + h->offsets[0],
                                   .bytes = bytes,
                               },
                               h->req);
}

static int on_field(tm_safetensors_header *h, const tm_json_event *event)
{
    if (event->kind == TM_JSON_OBJECT_END)
        return end_tensor(h);
    for (unsigned i = 0; i < FIELD_COUNT; i++) {
        if (!text_is(event, fields[i].name, fields[i].len))
            continue;
        if (h->fields & 1u << i)
            return refuse_tensor(h, "it has %s twice", fields[i].name);
        h->fields |= 1u << i;
        h->place = fields[i].place;
        return 0;
    }
    char name[TM_WORDS_NAME_MAX], field[TM_WORDS_NAME_MAX];
    tm_safetensors_lines_add(&h->extra_fields,
                             "tensor '%s' has a field '%s' that the format does not have",
                             current_name(h, name), tm_words_name(event->text, event->len, field));
    h->place = IN_EXTRA;
    return 0;
}

static int on_entry(tm_safetensors_header *h, const tm_json_event *event)
{
    if (event->kind == TM_JSON_ARRAY_BEGIN)
        return refuse_tensor(h, "a list where the format has an object");
    if (event->kind != TM_JSON_OBJECT_BEGIN)
        return refuse_tensor(h, "a value where the format has an object");
    h->fields = 0;
    h->rank = 0;
    h->offset_count = 0;
    h->place = AT_FIELD;
    return 0;
}

/* -- The header and its metadata. */

static int on_header(tm_safetensors_header *h, const tm_json_event *event)
{
    if (event->kind != TM_JSON_OBJECT_BEGIN)
        return refuse(h, "the header is not a JSON object");
    h->place = AT_NAME;
    return 0;
}

static int on_name(tm_safetensors_header *h, const tm_json_event *event)
{
    if (event->kind == TM_JSON_OBJECT_END)
        return 0;
    if (!text_is(event, metadata_name, sizeof(metadata_name) - 1)) {
        h->place = AT_ENTRY;
        return keep_name(h, event);
    }
    if (h->has_metadata)
        return refuse(h, "%s stands twice", metadata_name);
    h->has_metadata = true;
    h->place = AT_METADATA;
    return 0;
}

static int on_metadata(tm_safetensors_header *h, const tm_json_event *event)
{
    if (event->kind != TM_JSON_OBJECT_BEGIN && event->kind != TM_JSON_NULL)
        return refuse(h, "%s is not an object", metadata_name);
    h->place = event->kind == TM_JSON_NULL ? AT_NAME : AT_KEY;
    return 0;
}

static int on_key(tm_safetensors_header *h, const tm_json_event *event)
{
    if (event->kind == TM_JSON_OBJECT_END) {
        h->place = AT_NAME;
        return 0;
    }
    if (h->meta->count - h->first_pair >= TM_SAFETENSORS_PAIRS_MAX)
        return refuse(h, "%s has more than %d keys", metadata_name, TM_SAFETENSORS_PAIRS_MAX);
    h->place = AT_TEXT;
    return keep_name(h, event);
}

static int on_text(tm_safetensors_header *h, const tm_json_event *event)
{
    char name[TM_WORDS_NAME_MAX];
    if (event->kind != TM_JSON_STRING)
        return refuse(h, "%s: the value of '%s' is not a string", metadata_name,
                      current_name(h, name));
    if (tm_metadata_add(h->meta, h->name, h->name_len, event->text, event->len) < 0)
        return no_memory(h);
    h->place = AT_KEY;
    return 0;
}

static int on_event(void *ctx, const tm_json_event *event)
{
    static int (*const handlers[])(tm_safetensors_header *, const tm_json_event *) = {
        [AT_HEADER] = on_header,   [AT_NAME] = on_name,         [AT_ENTRY] = on_entry,
        [AT_FIELD] = on_field,     [AT_DTYPE] = on_dtype,       [AT_SHAPE] = on_list,
        [IN_SHAPE] = on_dimension, [AT_OFFSETS] = on_list,      [IN_OFFSETS] = on_offset,
        [IN_EXTRA] = on_extra,     [AT_METADATA] = on_metadata, [AT_KEY] = on_key,
        [AT_TEXT] = on_text,
    };
    tm_safetensors_header *h = ctx;
    return handlers[h->place](h, event);
}

/* Metadata keys must differ, as tensor names must. */
static int cmp_keys(const void *ctx, uint32_t a, uint32_t b)
{
    const tm_metadata_pair *pairs = ctx, *x = pairs + a, *y = pairs + b;
    return tm_name_cmp(x->key, x->key_len, y->key, y->key_len);
}

static int check_keys(tm_safetensors_header *h)
{
    uint32_t n = (uint32_t)(h->meta->count - h->first_pair);
    if (n < 2)
        return 0;
    const tm_metadata_pair *pairs = h->meta->pairs + h->first_pair;
    TM_AUTO_FREE uint32_t *order = NULL;
    if (tm_order_new(n, cmp_keys, pairs, &order) < 0)
        return no_memory(h);
    char key[TM_WORDS_NAME_MAX];
    for (uint32_t i = 1; i < n; i++) {
        const tm_metadata_pair *pair = pairs + order[i];
        if (cmp_keys(pairs, order[i - 1], order[i]) == 0)
            return refuse(h, "%s has the key '%s' twice", metadata_name,
                          tm_words_name(pair->key, pair->key_len, key));
    }
    return 0;
}

/* -- The door. */

void tm_safetensors_header_init(tm_safetensors_header *h, const tm_safetensors_header_params *p)
{
    memset(h, 0, sizeof(*h));
    h->table = p->table;
    h->meta = p->meta;
    h->req = p->req;
    h->file = p->file;
    h->data_begin = p->data_begin;
    h->first_pair = p->meta->count;
    tm_safetensors_lines lines = {.diag = p->diag, .file_name = p->name, .severity = TM_WARNING};
    h->zero_orders = lines;
    h->extra_fields = lines;
    lines.severity = TM_DAMAGE;
    h->wrong_sizes = lines;
    h->place = AT_HEADER;
    tm_json_stream_init(&h->stream, on_event, h, TM_SAFETENSORS_TEXT_MAX);
}

void tm_safetensors_header_done(tm_safetensors_header *h)
{
    tm_json_stream_done(&h->stream);
    free(h->dims);
    free(h->name);
}

/* Puts what the tokenizer found into words. */
static int explain(tm_safetensors_header *h, int rc)
{
    if (rc == -ENOMEM)
        return no_memory(h);
    if (rc == -EBADMSG && h->stream.error)
        return refuse(h, "byte %" PRIu64 " of the header: %s", h->stream.error_offset,
                      h->stream.error);
    return rc;
}

int tm_safetensors_header_feed(tm_safetensors_header *h, const void *data, size_t len)
{
    return explain(h, tm_json_stream_feed(&h->stream, data, len));
}

int tm_safetensors_header_finish(tm_safetensors_header *h)
{
    TM_TRY(explain(h, tm_json_stream_finish(&h->stream)));
    return check_keys(h);
}
