/* What is wrong with the text of a query and where: in words, and as a line with a caret below. */
#ifndef TM_FORMATS_QUERY_ERROR_H
#define TM_FORMATS_QUERY_ERROR_H

#include "core/diag.h"
#include "core/query.h"
#include "core/text.h"

enum {
    TM_QUERY_WORDS_MAX = 512
};

typedef struct tm_query_error {
    int line, column; /* from 1. Columns count characters, whatever their bytes; the end of the text
                         has one too */
    char words[TM_QUERY_WORDS_MAX]; /* without the place */
} tm_query_error;

/* Where byte OFFSET of TEXT (or its end) stands. */
void tm_query_place(const char *text, size_t offset, int *ret_line, int *ret_column);

/*
 * Appends the line of TEXT that ERROR is in, cut to what fits a terminal, and a line with a caret
 * below the place:
 *
 *     tensor.nan_count = 0
 *                      ^
 *
 * Control bytes and what is not UTF-8 appear as '?', a tab as a blank.
 */
void tm_query_error_show(const tm_query_error *error, const char *text, size_t len, tm_text *out);

enum {
    TM_QUERY_QUOTE_MAX = TM_WORDS_NAME_MAX
};

/* A piece of a query fit for words: control bytes as %XX, and not too long. Returns RET. */
const char *tm_query_quote(const char *text, size_t len, char ret[TM_QUERY_QUOTE_MAX]);

/*
 * What to write instead of NAME, which is no field: "; there is tensor.nan_count", or which
 * fields there are.
 */
void tm_query_near(const char *name, size_t len, char ret[TM_QUERY_WORDS_MAX]);

#endif
