/* The text of a query: its grammar is in docs/queries.md. */
#ifndef TM_FORMATS_QUERY_PARSE_H
#define TM_FORMATS_QUERY_PARSE_H

#include "formats/query_error.h"

#define TM_QUERY_BYTES_MAX ((size_t)64 << 10)
#define TM_QUERY_DEPTH_MAX 100u /* parentheses and negations within each other */

/*
 * TEXT may hold any bytes; *RET (tm_query_free) keeps none of it.
 *
 * -EINVAL: not a query, or one that makes no sense: an unknown field, dtype or role, a text where a
 * number belongs. -EFBIG: over a limit. -ENOMEM. ERROR is filled for each.
 */
TM_MUST_CHECK int tm_query_parse(const char *text, size_t len, tm_query_error *error,
                                 tm_query **ret);

#endif
