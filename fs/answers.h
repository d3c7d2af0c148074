/* A query answered for every tensor of a checkpoint, from headers and indexes alone. */
#ifndef TM_FS_ANSWERS_H
#define TM_FS_ANSWERS_H

#include "core/query.h"
#include "fs/known.h"

/* Rows of tensors, in order of names: those of which the answer is yes, and unknown. */
typedef struct tm_answers {
    uint32_t *matches, *unknown; /* owned */
    uint32_t match_count, unknown_count;
} tm_answers;

/* May block. Ends soon after REQ was cancelled. */
TM_MUST_CHECK int tm_answers_find(const tm_query *query, tm_known *known, tm_req *req,
                                  tm_answers *ret);
void tm_answers_done(tm_answers *answers); /* also of one that is all zeros */

#endif
