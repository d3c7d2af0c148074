/*
 * The pyramids of a shard's tensors, read: levels of detail that were made ahead
 * (docs/index-format.md).
 *
 * Opening reads the header and the table of sections alone. Cells are given out as a blob, of which
 * each piece is checked just before; a damaged one is EBADMSG for its reader. Constant once opened;
 * any thread that may block.
 */
#ifndef TM_FORMATS_TILES_FILE_H
#define TM_FORMATS_TILES_FILE_H

#include "formats/pyramid.h"
#include "formats/section_file.h"

enum {
    TM_TILES_RECORD_BYTES = 40,
    TM_TILES_CHUNK = 64 << 10, /* of cells, that are checked together */
};

/* Sections. */
enum {
    TM_TILES_TENSORS = 1,
    TM_TILES_CELLS = 2,
    TM_TILES_CHECKS = 3,
};

extern const tm_section_format tm_tiles_format;

/* Which tensor, and with which values: what a record is known by. */
typedef struct tm_tiles_tensor {
    const char *name; /* NAME_LEN bytes */
    size_t name_len;
    tm_dtype dtype; /* of the values */
    bool scaled;
    uint64_t stored_bytes, context; /* as in tm_index_tensor */
    tm_pyramid pyramid;
} tm_tiles_tensor;

typedef struct tm_tiles_record {
    uint64_t off;      /* of the pyramid in CELLS, a multiple of 8 */
    uint32_t finest;   /* 0: none is kept */
    uint32_t reserved; /* 0 */
    uint64_t identity; /* tm_tiles_identity() */
    uint64_t cells;    /* tm_hash64() of the pyramid */
    uint64_t check;    /* tm_hash64() of the fields before; 0 where the tensor is not done */
} tm_tiles_record;
static_assert(sizeof(tm_tiles_record) == TM_TILES_RECORD_BYTES, "a record of a file");

uint64_t tm_tiles_identity(const tm_tiles_tensor *tensor);
uint64_t tm_tiles_record_check(const tm_tiles_record *record);

typedef struct tm_tiles tm_tiles;

/* FILE is the blob that SRC reads, and kept. Errors are those of tm_section_file_open(). */
TM_MUST_CHECK int tm_tiles_open(const tm_byte_source *src, tm_blob *file,
                                const uint8_t fingerprint[TM_FINGERPRINT_BYTES], tm_req *req,
                                tm_tiles **ret);
void tm_tiles_close(tm_tiles *tiles); /* accepts NULL; blobs it gave live on */

/* Reads everything: -EBADMSG where one byte is not what was written. */
TM_MUST_CHECK int tm_tiles_check(const tm_tiles *tiles, tm_req *req);
uint32_t tm_tiles_count(const tm_tiles *tiles);
/* Whether a reader of cells has found that they are not what was written. */
bool tm_tiles_is_damaged(const tm_tiles *tiles);

/* The pyramid of record NUMBER as a blob of tensor->pyramid.bytes, one reference; -ENOENT (without
 * words) where it is that of another tensor, or none is kept. */
TM_MUST_CHECK int tm_tiles_cells(tm_tiles *tiles, uint32_t number, const tm_tiles_tensor *tensor,
                                 tm_req *req, tm_blob **ret);

#endif
