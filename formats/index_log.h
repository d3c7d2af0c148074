/*
 * The log of an index in the making: finished tensors in order of arrival.
 *
 *     header, 128 bytes | entry | entry | …      an entry: length (8 bytes), check (8), content:
 *                                                record (344) | name | sums | histogram
 *
 * It is held locked while it is open. What does not end whole (after a kill, or on a full disk) is
 * cut off when the log is next opened. One thread.
 */
#ifndef TM_FORMATS_INDEX_LOG_H
#define TM_FORMATS_INDEX_LOG_H

#include "formats/index_record.h"

typedef struct tm_index_log {
    char *path;
    int fd;       /* -1: not open */
    uint64_t end; /* of what is whole */
    bool is_open; /* and locked, and read */
} tm_index_log;

/* Where in the log a tensor stands; the refs of its record have lengths and checks, but no places.
 */
typedef struct tm_index_entry {
    uint64_t off; /* of the content */
    uint32_t name_len, sums_len, hist_len;
} tm_index_entry;

/* What an entry is made of; borrowed. */
typedef struct tm_index_parts {
    const uint8_t *record; /* [TM_INDEX_RECORD_BYTES] */
    const void *name, *sums, *hist;
    uint32_t name_len, sums_len, hist_len;
} tm_index_parts;

typedef int tm_index_log_fn(void *ctx, const tm_index_entry *entry, const tm_index_tensor *tensor);

/* Opens or makes the log and locks it: -EBUSY where another process has it. What is whole in it,
 * and of the same shard and format, goes through FN; the rest is cut off. */
typedef struct tm_index_log_params {
    const char *path;
    const uint8_t *fingerprint; /* [TM_FINGERPRINT_BYTES] */
    tm_index_log_fn *fn;
    void *ctx;
} tm_index_log_params;
TM_MUST_CHECK int tm_index_log_open(tm_index_log *log, const tm_index_log_params *params,
                                    tm_req *req);
/* Also of one that failed to open, or of all zeros but fd -1. REMOVE: nobody needs it; but never
 * one that another process may have. */
void tm_index_log_close(tm_index_log *log, bool remove);

/* On failure the log is as it was. */
TM_MUST_CHECK int tm_index_log_append(tm_index_log *log, const tm_index_parts *parts, tm_req *req,
                                      tm_index_entry *ret);
TM_MUST_CHECK int tm_index_log_sync(const tm_index_log *log, tm_req *req);
TM_MUST_CHECK int tm_index_log_read(const tm_index_log *log, uint64_t off, size_t len, void *dst,
                                    tm_req *req);

#endif
