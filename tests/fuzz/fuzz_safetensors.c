/*
 * Any bytes as a safetensors file. What is accepted must keep the promises of the reader, and the
 * tokenizer must see the same in one piece as byte by byte.
 */
#include "formats/json_stream.h"
#include "formats/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct input {
    const uint8_t *data;
    size_t size;
} input;

static void require(bool holds)
{
    if (!holds)
        abort();
}

static int read_input(void *ctx, uint64_t off, void *dst, size_t len, tm_req *req)
{
    const input *in = ctx;
    (void)req;
    require(tm_range_ok(off, len, in->size));
    if (len)
        memcpy(dst, in->data + off, len);
    return 0;
}

/* -- The reader. */

/* The rows of a good file, sorted by name: names differ, and every byte has its place. */
static void check_rows(const tm_tensor_table *t, const tm_safetensors *result, size_t size)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        const tm_tensor_row *row = &t->rows[i];
        uint64_t needed;
        require(row->flags == 0 && row->file == 3);
        require(row->begin >= result->header_bytes);
        require(tm_range_ok(row->begin, row->bytes, size));
        require(tm_dtype_bytes((tm_dtype)row->dtype, tm_row_elems(t, row), &needed));
        require(needed == row->bytes);
        bytes += row->bytes;
        if (i > 0)
            require(tm_name_cmp(tm_row_name(t, row - 1), row[-1].name_len, tm_row_name(t, row),
                                row->name_len) < 0);
        uint32_t found;
        require(tm_tensor_table_find(t, tm_row_name(t, row), row->name_len, &found) && found == i);
    }
    require(bytes == size - result->header_bytes);
}

static void check_file(const uint8_t *data, size_t size)
{
    input in = {.data = data, .size = size};
    tm_byte_source src = {.name = "f", .size = size, .ctx = &in, .read = read_input};
    tm_tensor_table table;
    tm_metadata meta;
    tm_diag diag;
    tm_req req;
    tm_safetensors result;
    tm_tensor_table_init(&table);
    tm_metadata_init(&meta);
    tm_diag_init(&diag);
    tm_req_init(&req, TM_LANE_VISIBLE);
    tm_safetensors_sink sink = {&table, &meta, &diag, 3};
    int rc = tm_safetensors_read(&src, &sink, &req, &result);
    require(rc == 0 || rc == -EBADMSG);
    require(diag.damaged == (rc == -EBADMSG));
    require(result.rows_valid || (table.count == 0 && meta.count == 0));
    require(tm_tensor_table_seal(&table) == 0);
    if (rc == 0)
        check_rows(&table, &result, size);
    tm_tensor_table_done(&table);
    tm_metadata_done(&meta);
    tm_diag_done(&diag);
}

/* -- The tokenizer. */

enum {
    TEXT_MAX = 1 << 20 /* more than any input: where text is too long depends on its pieces */
};

typedef struct digest {
    uint64_t hash, events;
} digest;

static int on_event(void *ctx, const tm_json_event *event)
{
    digest *d = ctx;
    uint64_t parts[] = {(uint64_t)event->kind, event->depth, event->offset, event->len};
    for (size_t i = 0; i < TM_ARRAY_LEN(parts); i++)
        d->hash = (d->hash ^ parts[i]) * UINT64_C(0x100000001b3);
    for (size_t i = 0; i < event->len; i++)
        d->hash = (d->hash ^ (uint8_t)event->text[i]) * UINT64_C(0x100000001b3);
    d->events++;
    return 0;
}

typedef struct outcome {
    digest digest;
    int rc;
    uint64_t error_offset;
} outcome;

static outcome tokenize(const uint8_t *data, size_t size, size_t piece)
{
    outcome o = {0};
    tm_json_stream s;
    tm_json_stream_init(&s, on_event, &o.digest, TEXT_MAX);
    for (size_t at = 0; at < size && o.rc == 0; at += piece)
        o.rc = tm_json_stream_feed(&s, data + at, size - at < piece ? size - at : piece);
    if (o.rc == 0)
        o.rc = tm_json_stream_finish(&s);
    require((o.rc == -EBADMSG) == (s.error != NULL));
    o.error_offset = s.error_offset;
    tm_json_stream_done(&s);
    return o;
}

static void check_tokens(const uint8_t *data, size_t size)
{
    outcome whole = tokenize(data, size, size ? size : 1);
    for (size_t piece = 1; piece <= 9; piece += 4) {
        outcome cut = tokenize(data, size, piece);
        require(cut.rc == whole.rc && cut.error_offset == whole.error_offset);
        require(cut.digest.events == whole.digest.events && cut.digest.hash == whole.digest.hash);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_file(data, size);
    if (size > 8)
        check_tokens(data + 8, size - 8);
    return 0;
}
