/* What a query found: matches.tsv and unknown.tsv. */
#ifndef TM_FORMATS_TABLE_QUERY_H
#define TM_FORMATS_TABLE_QUERY_H

#include "core/query_row.h"
#include "formats/table.h"

typedef struct tm_query_table_params {
    const tm_model *model;
    const tm_query *query;
    const uint32_t *rows; /* of the tensors that the table has */
    uint32_t count;
    tm_known_stats_fn *known; /* of matches alone */
    void *ctx;
} tm_query_table_params;

/* The first line of matches.tsv: name, then a column for each other field of QUERY, with LF.
 * Malloc'ed; NULL for want of memory. */
char *tm_matches_header(const tm_query *query);

/* Line INDEX of it, of the tm_query_table_params PARAMS: name, then the fields, numbers
 * right-aligned, and - where there is none or it is not known. A tm_row_text_fn. */
size_t tm_match_text(const void *params, uint64_t index, char *dst, size_t cap);

/* All of it. HEADER is that of the query. All that is given outlives the table. */
TM_MUST_CHECK int tm_table_of_matches(const tm_query_table_params *params, const char *header,
                                      tm_table **ret);
/* unknown.tsv: name and reason. */
TM_MUST_CHECK int tm_table_of_unknown(const tm_query_table_params *params, tm_table **ret);

#endif
