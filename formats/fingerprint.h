/*
 * The fingerprint of a checkpoint: which weights these are, without reading them all.
 *
 * SHA-256 over, for each weight file in bytewise order of names: its name, NUL, its size as decimal
 * text, NUL, its first 8 + N bytes (the header), and 16 blocks of 4 KiB that begin at
 * floor((size - 4096) * i / 15) for i = 0 … 15 (a file that is no larger than header and blocks
 * together is hashed whole instead).
 * The same weights give the same fingerprint wherever they lie, and in whatever order an index or a
 * folder has them.
 */
#ifndef TM_FORMATS_FINGERPRINT_H
#define TM_FORMATS_FINGERPRINT_H

#include "core/model.h"
#include "core/sha256.h"

/* 64 hex digits. May block. A missing file counts by its name alone. */
TM_MUST_CHECK int tm_fingerprint(tm_sched *sched, const tm_model *model, tm_req *req, char ret[65]);

/* Of a single file, whatever its name: SHA-256 over the same without name and NUL. May block. */
TM_MUST_CHECK int tm_shard_fingerprint(tm_sched *sched, const tm_model_file *file, tm_req *req,
                                       uint8_t ret[TM_SHA256_BYTES]);

#endif
