/*
 * The JSON of a safetensors header, token by token, to rows of a table and pairs of metadata.
 *
 * What one entry says is checked here; what the entries say together (no hole, no overlap, no
 * duplicate, the file's size) is for their reader, formats/safetensors.c, when all are known.
 */
#ifndef TM_FORMATS_SAFETENSORS_HEADER_H
#define TM_FORMATS_SAFETENSORS_HEADER_H

#include "core/diag.h"
#include "core/metadata.h"
#include "core/tensor_table.h"
#include "formats/json_stream.h"

enum {
    TM_SAFETENSORS_TEXT_MAX = 16 << 20, /* bytes of one string of a header */
    TM_SAFETENSORS_PAIRS_MAX = 100000,  /* pairs of __metadata__ */
    TM_SAFETENSORS_LINES_MAX = 8,       /* lines of one kind that a file adds to a diagnosis */
};

/* Lines of one kind about one file: the first few, then only how many more there are. */
typedef struct tm_safetensors_lines {
    tm_diag *diag;
    const char *file_name;
    tm_severity severity;
    uint32_t count;
} tm_safetensors_lines;

void tm_safetensors_lines_add(tm_safetensors_lines *lines, const char *fmt, ...) TM_PRINTF(2, 3);
/* Says how many were left out, if any. */
void tm_safetensors_lines_end(tm_safetensors_lines *lines);

typedef struct tm_safetensors_header {
    /* What it fills. */
    tm_tensor_table *table;
    tm_metadata *meta;
    tm_req *req;
    uint32_t file;       /* of the rows */
    uint64_t data_begin; /* where the data begins in the file */

    char words[TM_WORDS_MAX];          /* after -EBADMSG: what is wrong, where s.error is NULL */
    tm_safetensors_lines wrong_sizes;  /* entries whose offsets do not fit their shape */
    tm_safetensors_lines zero_orders;  /* shapes that upstream takes for an overflow */
    tm_safetensors_lines extra_fields; /* fields that the format does not have */

    /* The parse. */
    tm_json_stream stream;
    int place;
    size_t first_pair;
    bool has_metadata;
    unsigned fields; /* a bit for each field seen of this tensor */
    tm_dtype dtype;
    uint64_t offsets[2];
    unsigned offset_count;
    size_t rank;
    uint64_t *dims; /* of this tensor */
    size_t dims_cap;
    char *name; /* of this tensor, or the key of this pair */
    size_t name_len, name_cap;
} tm_safetensors_header;

/* NAME is the file's, for words; it and the rest are borrowed until done. */
typedef struct tm_safetensors_header_params {
    tm_tensor_table *table;
    tm_metadata *meta;
    tm_diag *diag;
    tm_req *req;
    const char *name;
    uint32_t file;
    uint64_t data_begin;
} tm_safetensors_header_params;

void tm_safetensors_header_init(tm_safetensors_header *h, const tm_safetensors_header_params *p);
void tm_safetensors_header_done(tm_safetensors_header *h);

/* 0, -EBADMSG (see words), or another failure with words in the request. */
TM_MUST_CHECK int tm_safetensors_header_feed(tm_safetensors_header *h, const void *data,
                                             size_t len);
/* The header has ended. */
TM_MUST_CHECK int tm_safetensors_header_finish(tm_safetensors_header *h);

#endif
