/*
 * Text that grows: what a rendered file is written into.
 *
 * Its first failure (no memory, or more than TM_TEXT_MAX bytes) sticks and drops what follows, so a
 * renderer appends without looking and asks once, at its end: tm_text_error() or tm_text_steal().
 */
#ifndef TM_CORE_TEXT_H
#define TM_CORE_TEXT_H

#include <stdarg.h>

#include "core/base.h"

/* Length of the UTF-8 sequence at BYTES (1 to 4); 0 where none of Unicode's table 3-7 begins there,
 * or nothing is LEFT. */
size_t tm_utf8_len(const void *bytes, size_t left);

#define TM_TEXT_MAX ((size_t)1 << 30) /* bytes */

typedef struct tm_text {
    char *bytes; /* NULL while empty; else followed by a NUL */
    size_t len, cap;
    int error; /* 0, -ENOMEM, -EFBIG */
} tm_text;

void tm_text_init(tm_text *t);
void tm_text_done(tm_text *t);
/* Empty again, with its memory kept; a failure stays. */
void tm_text_clear(tm_text *t);

void tm_text_append(tm_text *t, const void *bytes, size_t len);
void tm_text_puts(tm_text *t, const char *words);
void tm_text_printf(tm_text *t, const char *fmt, ...) TM_PRINTF(2, 3);
void tm_text_pad(tm_text *t, size_t columns); /* spaces */

/* BYTES as a JSON string with its quotes. Control bytes (DEL too) are escaped; each byte that is
 * not part of valid UTF-8 becomes U+FFFD. */
void tm_text_json_string(tm_text *t, const void *bytes, size_t len);

/* What the text's first failure was, 0 before. */
TM_MUST_CHECK int tm_text_error(const tm_text *t);

/* The bytes, to be freed, NUL-terminated also where there are none; T is empty afterwards. */
TM_MUST_CHECK int tm_text_steal(tm_text *t, char **ret, size_t *ret_len);

#endif
