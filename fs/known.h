/*
 * What is known of the values of a checkpoint's tensors without reading them: what was computed
 * since it was mounted, and what its indexes say. One thread at a time, that may block.
 */
#ifndef TM_FS_KNOWN_H
#define TM_FS_KNOWN_H

#include "fs/indexes.h"

typedef struct tm_known tm_known;

/* -EINPROGRESS where REQ may not block. */
TM_MUST_CHECK int tm_known_new(tm_session *session, tm_mounted *m, tm_req *req, tm_known **ret);
void tm_known_free(tm_known *known); /* accepts NULL */
void tm_known_freep(tm_known **known);
tm_mounted *tm_known_of(const tm_known *known);
tm_indexes *tm_known_indexes(const tm_known *known); /* borrowed; the same while nothing changes */

/* Whether an index could not be read: what it may know was said not to be known. */
bool tm_known_failed(const tm_known *known);

/* False where nothing is; what keeps an index from being read goes to the log. */
bool tm_known_record(tm_known *known, uint32_t row, tm_stats_record *ret);
/* The same from an index alone: what queries go by, so that they all agree. */
bool tm_known_indexed(tm_known *known, uint32_t row, tm_stats_record *ret);
/* The same with exact sums, which only an index has. */
bool tm_known_sums(tm_known *known, uint32_t row, tm_stats_record *ret, tm_sums *sums);

#endif
