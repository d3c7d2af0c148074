/*
 * An index read: what is known of the tensors of one shard (docs/index-format.md).
 *
 * Opening reads the header and the table alone; whatever is given out has been checked just before,
 * so a damaged byte is -EBADMSG for what it belongs to and nothing else. No error here is a reason
 * to fail anything but the use of the index: its words say why it is not used.
 * Nothing is kept per tensor. Constant once opened; any thread that may block.
 */
#ifndef TM_FORMATS_INDEX_FILE_H
#define TM_FORMATS_INDEX_FILE_H

#include "formats/index_record.h"

typedef struct tm_index tm_index;

/* SRC is copied; what it borrows lives until the close. Errors are those of tm_section_file_open().
 */
TM_MUST_CHECK int tm_index_open(const tm_byte_source *src,
                                const uint8_t fingerprint[TM_FINGERPRINT_BYTES], tm_req *req,
                                tm_index **ret);
void tm_index_close(tm_index *index); /* accepts NULL */
void tm_index_closep(tm_index **index);

/* Reads everything: -EBADMSG where one byte is not what was written. */
TM_MUST_CHECK int tm_index_check(const tm_index *index, tm_req *req);

uint32_t tm_index_count(const tm_index *index);

/* -ENOENT (without words) where the index has no such tensor. The name of RET is NAME. */
TM_MUST_CHECK int tm_index_find(const tm_index *index, const char *name, size_t len, tm_req *req,
                                tm_index_tensor *ret);

/* The same, where its number is probably NEAR. */
TM_MUST_CHECK int tm_index_find_near(const tm_index *index, uint32_t near, const char *name,
                                     size_t len, tm_req *req, tm_index_tensor *ret);

/* Calls FN for COUNT tensors (or up to the last) from number FIRST on, which are in bytewise order
 * of names; TENSOR and its name are borrowed for the call. Stops with what FN returns if not 0. */
typedef int tm_index_fn(void *ctx, uint32_t number, const tm_index_tensor *tensor);
typedef struct tm_index_range {
    uint32_t first, count;
} tm_index_range;
TM_MUST_CHECK int tm_index_each(const tm_index *index, tm_index_range range, tm_index_fn *fn,
                                void *ctx, tm_req *req);

/* Of a tensor that INDEX gave: its exact sums. */
TM_MUST_CHECK int tm_index_sums(const tm_index *index, const tm_index_tensor *tensor, tm_req *req,
                                tm_sums *ret);

/*
 * The statistics that it was made of, to be freed by tm_stats_done(). Where hist_shift is not 0,
 * counts stand at the first code of their bin (of floats the one nearest to 0): of the types whose
 * codes are the top bits of an f32 (BF16 and wider ones) tm_stats_rows() is exact up to a shift of
 * 4; merging keeps what the greatest shift keeps.
 */
TM_MUST_CHECK int tm_index_stats(const tm_index *index, const tm_index_tensor *tensor, tm_req *req,
                                 tm_stats *ret);

#endif
