/*
 * The words of a query: fields, numbers, texts in quotes, operators, parentheses.
 *
 * A text stands in " or ' and holds anything but its quote; nothing in it is escaped.
 */
#ifndef TM_FORMATS_QUERY_LEX_H
#define TM_FORMATS_QUERY_LEX_H

#include "formats/query_error.h"

typedef enum tm_query_token_kind {
    TM_TOKEN_END, /* at the end of the last token */
    TM_TOKEN_WORD,
    TM_TOKEN_NUMBER,
    TM_TOKEN_TEXT,
    TM_TOKEN_COMPARISON,
    TM_TOKEN_AND,
    TM_TOKEN_OR,
    TM_TOKEN_NOT,
    TM_TOKEN_NONE,
    TM_TOKEN_OPEN,
    TM_TOKEN_CLOSE,
} tm_query_token_kind;

typedef struct tm_query_token {
    tm_query_token_kind kind;
    tm_query_op op;       /* COMPARISON */
    tm_query_value value; /* NUMBER, TEXT: borrowed from the text of the query */
    size_t at, len;       /* in bytes */
} tm_query_token;

typedef struct tm_query_lexer {
    const char *text; /* with a NUL behind it */
    size_t len;       /* of what counts: without blanks at the end */
    size_t at;
    tm_query_error *error;
} tm_query_lexer;

/* TEXT[LEN] is a NUL. */
void tm_query_lexer_init(tm_query_lexer *lexer, const char *text, size_t len,
                         tm_query_error *error);

/* The next token. -EINVAL with an error where none begins. */
TM_MUST_CHECK int tm_query_lexer_next(tm_query_lexer *lexer, tm_query_token *ret);

/* Puts the place of byte AT and words into the error; returns -CODE. */
int tm_query_fail(const tm_query_lexer *lexer, size_t at, int code, const char *fmt, ...)
    TM_PRINTF(4, 5);

#endif
