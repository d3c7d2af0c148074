/*
 * An index in the making, of one shard, tensor by tensor in any order.
 *
 *     PATH.part   a log of finished tensors, each with its length and check; one writer holds its
 *                 lock. After a kill what is whole in it is kept, and the rest is done again
 *     PATH.tmp    while finishing: the log's tensors in order of names
 *     PATH        appears whole, by rename, or not at all
 *
 * The file depends on the tensors alone: not on order, interruptions, threads or machine.
 * One thread at a time. Errors say which file and why.
 */
#ifndef TM_FORMATS_INDEX_WRITER_H
#define TM_FORMATS_INDEX_WRITER_H

#include "formats/index_record.h"

typedef struct tm_index_writer tm_index_writer;

/* What is added; borrowed for the call. */
typedef struct tm_index_item {
    const char *name; /* NAME_LEN bytes */
    size_t name_len;
    bool scaled;
    uint64_t stored_bytes, context; /* as in tm_index_tensor */
    const tm_stats *stats;          /* its histogram, its dtype */
    const tm_sums *sums;            /* those of STATS */
    const tm_stats_record *record;
} tm_index_item;

/* Takes up PATH.part where it is of the same shard and format, else begins it anew. -EBUSY: another
 * writer has it. */
TM_MUST_CHECK int tm_index_writer_open(const char *path,
                                       const uint8_t fingerprint[TM_FINGERPRINT_BYTES], tm_req *req,
                                       tm_index_writer **ret);

/* Whether NAME was already done, with the same CONTEXT. What was neither asked for nor added since
 * the writer was opened is left out of the finished file. */
bool tm_index_writer_has(tm_index_writer *writer, const char *name, size_t len, uint64_t context);

/* Instead of one of the same name. On an error the log is as it was before. */
TM_MUST_CHECK int tm_index_writer_add(tm_index_writer *writer, const tm_index_item *item,
                                      tm_req *req);

/* Writes PATH and removes PATH.part; once. On an error the log stays for another try. */
TM_MUST_CHECK int tm_index_writer_finish(tm_index_writer *writer, tm_req *req);

/* Leaves the log for a later writer, unless it is empty or finished. Accepts NULL. */
void tm_index_writer_close(tm_index_writer *writer);
void tm_index_writer_closep(tm_index_writer **writer);

#endif
