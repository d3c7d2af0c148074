#include "core/diag.h"

#include <stdarg.h>
#include <stdio.h>

enum {
    LINE_BYTES_MAX = 2048, /* before escaping */
    NAME_HEAD = 72,
    NAME_TAIL = 40,
};
static const char ellipsis[] = "…";

static_assert((NAME_HEAD + NAME_TAIL) * 3 + sizeof(ellipsis) <= TM_WORDS_NAME_MAX,
              "a shortened name fits when all of it is escaped");

void tm_diag_init(tm_diag *d)
{
    memset(d, 0, sizeof(*d));
}

void tm_diag_done(tm_diag *d)
{
    for (size_t i = 0; i < d->count; i++)
        free(d->lines[i].words);
    free(d->lines);
    tm_diag_init(d);
}

/* Escapes control bytes into RET, which has room for three times LEN and a NUL. */
static size_t escape(const char *bytes, size_t len, char *ret)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c >= 0x20 && c != 0x7f) {
            ret[n++] = bytes[i];
            continue;
        }
        ret[n++] = '%';
        ret[n++] = digits[c >> 4];
        ret[n++] = digits[c & 15];
    }
    ret[n] = '\0';
    return n;
}

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* The longest prefix within MAX bytes that does not end inside a UTF-8 sequence. */
static size_t whole_prefix(const char *bytes, size_t len, size_t max)
{
    if (len <= max)
        return len;
    size_t n = max;
    while (n > max - 3 && is_continuation(bytes[n]))
        n--;
    return is_continuation(bytes[n]) ? max : n;
}

const char *tm_words_name(const char *name, size_t len, char ret[TM_WORDS_NAME_MAX])
{
    if (len <= NAME_HEAD + NAME_TAIL) {
        escape(name, len, ret);
        return ret;
    }
    size_t n = escape(name, whole_prefix(name, len, NAME_HEAD), ret);
    memcpy(ret + n, ellipsis, sizeof(ellipsis) - 1);
    n += sizeof(ellipsis) - 1;
    const char *tail = name + len - NAME_TAIL;
    size_t skip = 0;
    while (skip < 3 && is_continuation(tail[skip]))
        skip++;
    escape(tail + skip, NAME_TAIL - skip, ret + n);
    return ret;
}

/* An owned line of words, NULL for want of memory. */
static TM_PRINTF(1, 0) char *make_line(const char *fmt, va_list args)
{
    char line[LINE_BYTES_MAX], escaped[LINE_BYTES_MAX * 3];
    int n = vsnprintf(line, sizeof(line), fmt, args);
    size_t len = n < 0 ? 0 : (size_t)n;
    if (len >= sizeof(line)) {
        len = whole_prefix(line, sizeof(line), sizeof(line) - sizeof(ellipsis));
        memcpy(line + len, ellipsis, sizeof(ellipsis));
        len += sizeof(ellipsis) - 1;
    }
    escape(line, len, escaped);
    return strdup(escaped);
}

static bool reserve_one(tm_diag *d)
{
    if (d->count < d->cap)
        return true;
    size_t cap = d->cap ? d->cap * 2 : 8;
    tm_diag_line *lines = reallocarray(d->lines, cap, sizeof(*lines));
    if (!lines)
        return false;
    d->lines = lines;
    d->cap = cap;
    return true;
}

void tm_diag_add(tm_diag *d, tm_severity severity, const char *fmt, ...)
{
    char *words = NULL;
    va_list args;
    va_start(args, fmt);
    if (d->count < TM_DIAG_LINES_MAX && reserve_one(d))
        words = make_line(fmt, args);
    va_end(args);
    d->damaged = d->damaged || severity == TM_DAMAGE;
    if (words)
        d->lines[d->count++] = (tm_diag_line){.severity = severity, .words = words};
    else
        d->dropped++;
}
