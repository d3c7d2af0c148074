/*
 * The pyramids of a shard in the making, in any order of tensors and blocks.
 *
 *     PATH.part   the file as it will be, for where everything stands is known before; a tensor's
 *                 record is written when its cells are there. After a kill what is whole is kept
 *     PATH        appears whole, by rename, or not at all
 *
 * Who writes holds the lock of the shard's index (formats/index_writer.h). Cells of several tensors
 * may be put and ended by as many threads at once. Errors say which file and why.
 */
#ifndef TM_FORMATS_TILES_WRITER_H
#define TM_FORMATS_TILES_WRITER_H

#include "formats/tiles_file.h"

typedef struct tm_tiles_writer tm_tiles_writer;

/* The tensors of a shard in order of names. */
typedef struct tm_tiles_plan {
    const tm_tiles_tensor *tensors;
    uint32_t count;
    const uint8_t *fingerprint; /* [TM_FINGERPRINT_BYTES] */
} tm_tiles_plan;

/* PLAN is not kept. Takes up PATH.part where it is of the same shard, else begins it anew. */
TM_MUST_CHECK int tm_tiles_writer_open(const char *path, const tm_tiles_plan *plan, tm_req *req,
                                       tm_tiles_writer **ret);
/* Whether tensor NUMBER is done, or nothing is kept of it. */
bool tm_tiles_writer_has(const tm_tiles_writer *writer, uint32_t number);

/* LEN bytes at OFF of the pyramid of tensor NUMBER. */
TM_MUST_CHECK int tm_tiles_writer_put(tm_tiles_writer *writer, uint32_t number, uint64_t off,
                                      const void *bytes, size_t len, tm_req *req);
/* All of it was put. */
TM_MUST_CHECK int tm_tiles_writer_end(tm_tiles_writer *writer, uint32_t number, tm_req *req);

/* Once all tensors are done: makes it PATH. On an error the part stays for another try. */
TM_MUST_CHECK int tm_tiles_writer_finish(tm_tiles_writer *writer, tm_req *req);
/* Leaves the part for a later writer. Accepts NULL. */
void tm_tiles_writer_close(tm_tiles_writer *writer);

#endif
