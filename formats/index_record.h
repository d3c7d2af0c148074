/*
 * One tensor in an index: a record of fixed size, with checks of its own and of what it refers to.
 * The bytes are those of docs/index-format.md. Pure functions, any thread.
 */
#ifndef TM_FORMATS_INDEX_RECORD_H
#define TM_FORMATS_INDEX_RECORD_H

#include "core/stats_record.h"
#include "formats/section_file.h"

enum {
    TM_INDEX_MAJOR = 1,
    TM_INDEX_MINOR = 0,
    TM_INDEX_RECORD_BYTES = 344,
    TM_INDEX_SUMS_MAX = 3 * TM_EXACT_BYTES_MAX,
};

/* Sections. */
enum {
    TM_INDEX_TENSORS = 1,
    TM_INDEX_NAMES = 2,
    TM_INDEX_SUMS = 3,
    TM_INDEX_HIST = 4,
};

extern const tm_section_format tm_index_format;

/* Bytes of a section that a record refers to. */
typedef struct tm_index_ref {
    uint64_t off;
    uint64_t check; /* tm_hash64() */
    uint32_t len;
} tm_index_ref;

typedef struct tm_index_tensor {
    const char *name; /* NAME_LEN bytes, borrowed */
    size_t name_len;
    tm_dtype dtype;         /* of the values that were counted */
    bool scaled;            /* they are stored codes with scales */
    unsigned hist_shift;    /* low bits of codes that the histogram does without; 0: it is exact */
    uint64_t stored_bytes;  /* of the tensor in its shard */
    uint64_t context;       /* what else its values depend on, as its maker knows; 0: nothing */
    tm_stats_record record; /* always exact, also where the histogram is not */
    tm_index_ref name_ref, sums_ref, hist_ref; /* of the reader and the writer alone */
} tm_index_tensor;

void tm_index_record_store(const tm_index_tensor *tensor, uint8_t ret[TM_INDEX_RECORD_BYTES]);

/* BYTES of a record (TM_INDEX_RECORD_BYTES or more, of a later minor version); name is NULL then,
 * but name_len known. -EBADMSG: its check fails, or what it says cannot be. */
TM_MUST_CHECK int tm_index_record_load(const uint8_t *bytes, size_t len, tm_index_tensor *ret);

/* The three sums one after the other; load: exactly LEN bytes, else -EBADMSG. */
size_t tm_index_sums_store(const tm_sums *sums, uint8_t ret[TM_INDEX_SUMS_MAX]);
TM_MUST_CHECK int tm_index_sums_load(const uint8_t *bytes, size_t len, tm_sums *ret);

#endif
