/* A line of a table, written to a buffer that may be too short: its length goes on, the text does
 * not. What renders rows (tm_row_text_fn) writes with it. */
#ifndef TM_FORMATS_LINE_H
#define TM_FORMATS_LINE_H

#include "core/escape.h"

typedef struct tm_line {
    char *dst;
    size_t cap, len;
} tm_line;

static inline void tm_line_put(tm_line *l, const char *text, size_t n)
{
    if (l->len < l->cap)
        memcpy(l->dst + l->len, text, tm_min_u64(n, l->cap - l->len));
    l->len += n;
}

/* A name as tables have it. */
static inline void tm_line_field(tm_line *l, const char *text, size_t n)
{
    size_t cap = l->len < l->cap ? l->cap - l->len : 0;
    l->len += tm_field_escape(text, n, cap ? l->dst + l->len : NULL, cap);
}

#endif
