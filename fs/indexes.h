/*
 * The indexes of a mounted checkpoint: what is known of its tensors without reading them.
 *
 * A snapshot of the index files that are there and fit (docs/index-format.md says where they lie
 * and when they do not fit; why one is not used goes to the log, once). It is looked after again
 * when it is asked for and a second has passed. Constant; shared by reference count; any thread
 * that may block.
 */
#ifndef TM_FS_INDEXES_H
#define TM_FS_INDEXES_H

#include "formats/index_file.h"
#include "fs/session.h"
#include "fs/shards.h"

typedef struct tm_indexes tm_indexes;

/* Those of M, a checkpoint, as they are now; one reference. -EINPROGRESS where REQ may not block.
 */
TM_MUST_CHECK int tm_indexes_get(tm_session *session, tm_mounted *m, tm_req *req, tm_indexes **ret);
tm_indexes *tm_indexes_ref(tm_indexes *indexes);
tm_indexes *tm_indexes_unref(tm_indexes *indexes); /* accepts NULL; returns NULL */
void tm_indexes_unrefp(tm_indexes **indexes);

typedef enum tm_index_state {
    TM_INDEX_NONE,
    TM_INDEX_PARTIAL, /* of some tensors */
    TM_INDEX_FRESH,   /* of all */
    TM_INDEX_STALE,   /* not of all, and what there is fits no more or is damaged */
} tm_index_state;

typedef struct tm_index_report {
    tm_index_state state;
    uint64_t done, total; /* bytes of counted tensors */
} tm_index_report;
/* Reads the records of all, once. May block. */
tm_index_report tm_indexes_report(tm_indexes *indexes, tm_req *req);

/* Whether SHARD has an index that is whole, of all its tensors, and lies where one is written to,
 * and where PYRAMIDS are wanted those too: reads all of it. */
bool tm_indexes_has_all(tm_indexes *indexes, uint32_t shard, bool pyramids, tm_req *req);

/* The next who asks for those of M looks after them, however soon. */
void tm_indexes_forget(tm_mounted *m);

/* What is known of tensor ROW: false where that is nothing, or cannot be read. */
bool tm_indexes_record(tm_indexes *indexes, uint32_t row, tm_req *req, tm_stats_record *ret);

/* The statistics of tensor ROW with their histogram (tm_index_stats()), to be freed, and RECORD.
 * -ENOENT (without words) where there are none. SHIFT: how coarse the histogram is. */
TM_MUST_CHECK int tm_indexes_stats(tm_indexes *indexes, uint32_t row, tm_req *req,
                                   tm_stats_record *record, unsigned *shift, tm_stats *ret);

/* The record of tensor ROW and its exact sums; -ENOENT (without words) where there are none. */
TM_MUST_CHECK int tm_indexes_sums(tm_indexes *indexes, uint32_t row, tm_req *req,
                                  tm_stats_record *record, tm_sums *ret);

/* The levels of detail that are kept of tensor ROW: PYRAMID and its bytes, one reference; -ENOENT
 * (without words) where none are. */
TM_MUST_CHECK int tm_indexes_pyramid(tm_indexes *indexes, uint32_t row, tm_req *req,
                                     tm_pyramid *pyramid, tm_blob **ret);

/* For many rows one after the other, of which neighbours are read at once. One thread at a time. */
typedef struct tm_index_cursor tm_index_cursor;
TM_MUST_CHECK int tm_index_cursor_new(tm_indexes *indexes, tm_index_cursor **ret);
void tm_index_cursor_free(tm_index_cursor *cursor); /* accepts NULL */
void tm_index_cursor_freep(tm_index_cursor **cursor);
bool tm_index_cursor_record(tm_index_cursor *cursor, uint32_t row, tm_req *req,
                            tm_stats_record *ret);

#endif
