#include "formats/safetensors.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/order.h"
#include "formats/safetensors_header.h"
#include "formats/sniff.h"

enum {
    LENGTH_BYTES = 8
};

typedef struct reader {
    const tm_byte_source *src;
    tm_tensor_table *table;
    tm_metadata *meta;
    tm_diag *diag;
    tm_req *req;
    uint32_t file, first_row;
    size_t first_pair;
    uint64_t header_bytes; /* 8 + N */
} reader;

static TM_PRINTF(2, 3) int damage(reader *r, const char *fmt, ...)
{
    char words[TM_WORDS_MAX + TM_SNIFF_WORDS_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(words, sizeof(words), fmt, args);
    va_end(args);
    tm_diag_add(r->diag, TM_DAMAGE, "%s: %s", r->src->name, words);
    return -EBADMSG;
}

/* -- The header's length, and what the file is where it has none. */

/* Says what the file really is, else WORDS. */
static int not_safetensors(reader *r, const char *words)
{
    char sniffed[TM_SNIFF_WORDS_MAX];
    int known = tm_sniff_source(r->src, r->req, sniffed);
    TM_TRY(known);
    return damage(r, "%s", known ? sniffed : words);
}

/* 1 where JSON seems to follow a plausible length, 0 where it does not. */
static int seems_safetensors(reader *r)
{
    unsigned char first = '{';
    if (r->src->size > LENGTH_BYTES)
        TM_TRY(tm_byte_source_read(r->src, LENGTH_BYTES, &first, 1, r->req));
    return first == '{' || first == ' ' || first == '\t' || first == '\r' || first == '\n';
}

static int read_length(reader *r)
{
    unsigned char bytes[LENGTH_BYTES];
    char words[TM_WORDS_MAX];
    uint64_t size = r->src->size;
    if (size < LENGTH_BYTES) {
        snprintf(words, sizeof(words),
                 "cut short: a file of %" PRIu64 " bytes, where the header's length alone has 8",
                 size);
        return not_safetensors(r, words);
    }
    TM_TRY(tm_byte_source_read(r->src, 0, bytes, sizeof(bytes), r->req));
    uint64_t n = tm_le64(bytes);
    if (n == 0)
        return not_safetensors(r, "a header of 0 bytes");
    if (n > TM_SAFETENSORS_HEADER_MAX) {
        snprintf(words, sizeof(words),
                 "not a safetensors file: a header of %" PRIu64 " bytes, more than the limit of %u",
                 n, TM_SAFETENSORS_HEADER_MAX);
        return not_safetensors(r, words);
    }
    r->header_bytes = LENGTH_BYTES + n;
    if (n <= size - LENGTH_BYTES)
        return 0;
    snprintf(words, sizeof(words),
             "cut short: a header of %" PRIu64 " bytes in a file of %" PRIu64 " bytes", n, size);
    int plausible = seems_safetensors(r);
    TM_TRY(plausible);
    return plausible ? damage(r, "%s", words) : not_safetensors(r, words);
}

static int feed_header(void *ctx, const void *data, size_t len)
{
    return tm_safetensors_header_feed(ctx, data, len);
}

static int parse_header(reader *r, tm_safetensors_header *h)
{
    TM_TRY(tm_byte_source_stream(r->src, LENGTH_BYTES, r->header_bytes, feed_header, h, r->req));
    return tm_safetensors_header_finish(h);
}

/* Adds the header's tensors and metadata; takes them back where it is malformed. */
static int read_header(reader *r, uint32_t *ret_wrong_sizes)
{
    tm_safetensors_header h;
    tm_safetensors_header_init(&h, &(tm_safetensors_header_params){
                                       .table = r->table,
                                       .meta = r->meta,
                                       .diag = r->diag,
                                       .req = r->req,
                                       .name = r->src->name,
                                       .file = r->file,
                                       .data_begin = r->header_bytes,
                                   });
    int rc = parse_header(r, &h);
    tm_safetensors_lines_end(&h.wrong_sizes);
    tm_safetensors_lines_end(&h.extra_fields);
    tm_safetensors_lines_end(&h.zero_orders);
    *ret_wrong_sizes = h.wrong_sizes.count;
    /* A file of another kind may by chance begin with a length that passes. */
    if (rc == -EBADMSG && h.stream.error && h.stream.error_offset == 0)
        rc = not_safetensors(r, h.words);
    else if (rc == -EBADMSG)
        rc = damage(r, "%s", h.words);
    tm_safetensors_header_done(&h);
    if (rc < 0) {
        tm_tensor_table_truncate(r->table, r->first_row);
        tm_metadata_truncate(r->meta, r->first_pair);
    }
    return rc;
}

/* -- What the entries say together. */

static const tm_tensor_row *row_of(const reader *r, uint32_t i)
{
    return &r->table->rows[r->first_row + i];
}

static uint32_t row_count(const reader *r)
{
    return r->table->count - r->first_row;
}

static const char *name_of(const reader *r, const tm_tensor_row *row, char ret[TM_WORDS_NAME_MAX])
{
    return tm_words_name(tm_row_name(r->table, row), row->name_len, ret);
}

static tm_safetensors_lines damage_lines(const reader *r)
{
    return (tm_safetensors_lines){
        .diag = r->diag,
        .file_name = r->src->name,
        .severity = TM_DAMAGE,
    };
}

static void refuse_all(reader *r)
{
    for (uint32_t i = r->first_row; i < r->table->count; i++)
        r->table->rows[i].flags |= TM_ROW_REFUSED;
}

/* The one pass that a well-written header costs: each tensor begins where the last one ended. */
static bool is_laid_out_in_order(const reader *r)
{
    uint64_t end = r->header_bytes;
    for (uint32_t i = 0; i < row_count(r); i++) {
        const tm_tensor_row *row = row_of(r, i);
        if (row->begin != end)
            return false;
        end += row->bytes;
    }
    return true;
}

/* Of rows sorted by name. */
static bool has_duplicates(reader *r)
{
    char name[TM_WORDS_NAME_MAX];
    tm_safetensors_lines lines = damage_lines(r);
    for (uint32_t i = 1; i < row_count(r); i++) {
        const tm_tensor_row *a = row_of(r, i - 1), *b = row_of(r, i);
        if (tm_name_cmp(tm_row_name(r->table, a), a->name_len, tm_row_name(r->table, b),
                        b->name_len) == 0)
            tm_safetensors_lines_add(&lines, "tensor '%s' stands twice in the header",
                                     name_of(r, b, name));
    }
    tm_safetensors_lines_end(&lines);
    return lines.count > 0;
}

static int cmp_by_place(const void *ctx, uint32_t a, uint32_t b)
{
    const tm_tensor_row *x = row_of(ctx, a), *y = row_of(ctx, b);
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* ROW does not begin where LAST, the one before it (NULL: the header), ended. */
static void add_gap(const reader *r, tm_safetensors_lines *lines, const tm_tensor_row *last,
                    const tm_tensor_row *row)
{
    char a[TM_WORDS_NAME_MAX], b[TM_WORDS_NAME_MAX];
    uint64_t end = last ? last->begin + last->bytes : r->header_bytes;
    name_of(r, row, b);
    if (row->begin > end)
        tm_safetensors_lines_add(lines,
                                 "bytes %" PRIu64 " to %" PRIu64 " belong to no tensor: a hole "
                                 "before tensor '%s'",
                                 end, row->begin, b);
    else if (row->begin == last->begin && row->bytes == last->bytes)
        tm_safetensors_lines_add(
            lines, "tensors '%s' and '%s' stand on the same bytes, %" PRIu64 " to %" PRIu64,
            name_of(r, last, a), b, row->begin, end);
    else
        tm_safetensors_lines_add(lines,
                                 "tensor '%s' begins at byte %" PRIu64
                                 ", within tensor '%s', which ends at %" PRIu64 ": an overlap",
                                 b, row->begin, name_of(r, last, a), end);
}

/* 1 where the tensors leave holes or overlap, else 0; -ENOMEM. */
static int has_gaps(reader *r)
{
    TM_AUTO_FREE uint32_t *order = NULL;
    if (tm_order_new(row_count(r), cmp_by_place, r, &order) < 0)
        return tm_fail(r->req, ENOMEM, "no memory for the header of %s", r->src->name);
    tm_safetensors_lines lines = damage_lines(r);
    const tm_tensor_row *last = NULL;
    for (uint32_t i = 0; i < row_count(r); i++) {
        const tm_tensor_row *row = row_of(r, order[i]);
        if (row->begin != (last ? last->begin + last->bytes : r->header_bytes))
            add_gap(r, &lines, last, row);
        last = row;
    }
    tm_safetensors_lines_end(&lines);
    return lines.count > 0;
}

static uint64_t data_end(const reader *r)
{
    uint64_t end = r->header_bytes;
    for (uint32_t i = 0; i < row_count(r); i++)
        end = tm_max_u64(end, row_of(r, i)->begin + row_of(r, i)->bytes);
    return end;
}

/* The header is sound; the file may not be. */
static int check_size(reader *r)
{
    uint64_t size = r->src->size, end = data_end(r);
    if (size == end)
        return 0;
    if (size > end) {
        refuse_all(r);
        return damage(r,
                      "has %" PRIu64 " bytes, but what its header describes ends at byte %" PRIu64,
                      size, end);
    }
    char name[TM_WORDS_NAME_MAX];
    tm_safetensors_lines lines = damage_lines(r);
    for (uint32_t i = r->first_row; i < r->table->count; i++) {
        tm_tensor_row *row = &r->table->rows[i];
        if (row->begin + row->bytes <= size)
            continue;
        row->flags |= TM_ROW_REFUSED;
        tm_safetensors_lines_add(&lines,
                                 "tensor '%s': data ends at byte %" PRIu64
                                 ", but the file has %" PRIu64
                                 " bytes: cut short (expected %" PRIu64 ")",
                                 name_of(r, row, name), row->begin + row->bytes, size, end);
    }
    tm_safetensors_lines_end(&lines);
    return -EBADMSG;
}

/* Leaves the rows sorted by name. */
static int check_rows(reader *r, bool sizes_fit)
{
    bool in_order = is_laid_out_in_order(r);
    if (tm_tensor_table_sort_tail(r->table, r->first_row) < 0)
        return tm_fail(r->req, ENOMEM, "no memory for the header of %s", r->src->name);
    bool sound = !has_duplicates(r) && sizes_fit;
    /* Where sizes are wrong, gaps only repeat that. */
    if (sound && !in_order) {
        int gaps = has_gaps(r);
        TM_TRY(gaps);
        sound = !gaps;
    }
    if (sound)
        return check_size(r);
    refuse_all(r);
    return -EBADMSG;
}

int tm_safetensors_read(const tm_byte_source *src, const tm_safetensors_sink *sink, tm_req *req,
                        tm_safetensors *ret)
{
    reader r = {
        .src = src,
        .table = sink->table,
        .meta = sink->meta,
        .diag = sink->diag,
        .req = req,
        .file = sink->file,
        .first_row = sink->table->count,
        .first_pair = sink->meta->count,
    };
    uint32_t wrong_sizes;
    *ret = (tm_safetensors){0};
    TM_TRY(read_length(&r));
    ret->header_bytes = r.header_bytes;
    TM_TRY(read_header(&r, &wrong_sizes));
    int rc = check_rows(&r, wrong_sizes == 0);
    ret->rows_valid = rc == 0 || rc == -EBADMSG;
    if (!ret->rows_valid) {
        tm_tensor_table_truncate(r.table, r.first_row);
        tm_metadata_truncate(r.meta, r.first_pair);
    }
    return rc;
}
