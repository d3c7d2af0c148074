/*
 * The safetensors reader: header to rows of a tensor table, no tensor byte read.
 *
 * Layout: u64 little-endian N, N bytes of JSON, data. Accepts what upstream's Rust reader accepts,
 * less duplicate names and keys and the array form of a tensor; see docs/formats.md. The header is
 * parsed as it streams by (64 KiB at a time), so its cost is that of the rows it makes.
 */
#ifndef TM_FORMATS_SAFETENSORS_H
#define TM_FORMATS_SAFETENSORS_H

#include "core/diag.h"
#include "core/metadata.h"
#include "core/tensor_table.h"
#include "formats/byte_source.h"

#define TM_SAFETENSORS_HEADER_MAX 100000000u /* N, as upstream's limit */

typedef struct tm_safetensors {
    uint64_t header_bytes; /* 8 + N: the first byte of data */
    bool rows_valid;       /* the header itself could be read: rows were added */
} tm_safetensors;

/* Where the parser puts what it reads. */
typedef struct tm_safetensors_sink {
    tm_tensor_table *table;
    tm_metadata *meta;
    tm_diag *diag;
    uint32_t file; /* of the rows */
} tm_safetensors_sink;

/*
 * Reads the header of SRC and appends its tensors to the table of SINK (begin counted from the
 * start of the file) and its metadata.
 *
 * 0: a good file. -EBADMSG: a malformed one, with the reason as a TM_DAMAGE line in DIAG (every
 * line starts with SRC's name). Then the rows are kept and marked TM_ROW_REFUSED where the header
 * could be read to its end (ret->rows_valid): all of them where it contradicts itself (hole,
 * overlap, duplicate, wrong size), only those that reach past the end of a file cut short; else
 * TABLE and META are as before. -EIO, -ENOMEM, -EINTR, …: the read failed, words in REQ, TABLE and
 * META as before. Unusual but harmless things are TM_WARNING lines.
 */
TM_MUST_CHECK int tm_safetensors_read(const tm_byte_source *src, const tm_safetensors_sink *sink,
                                      tm_req *req, tm_safetensors *ret);

#endif
