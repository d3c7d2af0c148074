#include "core/text.h"

#include <stdio.h>

enum {
    FIRST_BYTES = 256
};

void tm_text_init(tm_text *t)
{
    memset(t, 0, sizeof(*t));
}

void tm_text_done(tm_text *t)
{
    free(t->bytes);
    tm_text_init(t);
}

void tm_text_clear(tm_text *t)
{
    t->len = 0;
    if (t->bytes)
        t->bytes[0] = '\0';
}

/* Makes room for MORE bytes and a NUL. */
static bool reserve(tm_text *t, size_t more)
{
    if (t->error)
        return false;
    if (more > TM_TEXT_MAX - t->len) {
        t->error = -EFBIG;
        return false;
    }
    size_t need = t->len + more + 1;
    if (need <= t->cap)
        return true;
    size_t cap = tm_max_u64(tm_max_u64(need, t->cap + t->cap / 2), FIRST_BYTES);
    char *grown = realloc(t->bytes, cap);
    if (!grown) {
        t->error = -ENOMEM;
        return false;
    }
    t->bytes = grown;
    t->cap = cap;
    return true;
}

void tm_text_append(tm_text *t, const void *bytes, size_t len)
{
    if (!reserve(t, len))
        return;
    if (len)
        memcpy(t->bytes + t->len, bytes, len);
    t->len += len;
    t->bytes[t->len] = '\0';
}

void tm_text_puts(tm_text *t, const char *words)
{
    tm_text_append(t, words, strlen(words));
}

void tm_text_printf(tm_text *t, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    assert(n >= 0);
    if (reserve(t, (size_t)n)) {
        vsnprintf(t->bytes + t->len, (size_t)n + 1, fmt, again);
        t->len += (size_t)n;
    }
    va_end(again);
    va_end(args);
}

void tm_text_pad(tm_text *t, size_t columns)
{
    if (!reserve(t, columns))
        return;
    memset(t->bytes + t->len, ' ', columns);
    t->len += columns;
    t->bytes[t->len] = '\0';
}

size_t tm_utf8_len(const void *bytes, size_t left)
{
    const unsigned char *p = bytes;
    static const struct {
        unsigned char first_lo, first_hi, second_lo, second_hi, len;
    } forms[] = {
        {0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t i = 0; left > 0 && i < TM_ARRAY_LEN(forms); i++) {
        if (p[0] < forms[i].first_lo || p[0] > forms[i].first_hi)
            continue;
        size_t len = forms[i].len;
        if (len > left || (len > 1 && (p[1] < forms[i].second_lo || p[1] > forms[i].second_hi)))
            return 0;
        for (size_t k = 2; k < len; k++) {
            if ((p[k] & 0xc0) != 0x80)
                return 0;
        }
        return len;
    }
    return 0;
}

/* What stands for byte C in a JSON string, NULL where it stands for itself. */
static const char *json_escape(unsigned char c, char ret[8])
{
    static const char short_from[] = "\"\\\b\f\n\r\t", short_to[] = "\"\\bfnrt";
    const char *at = c ? strchr(short_from, c) : NULL;
    if (at)
        snprintf(ret, 8, "\\%c", short_to[at - short_from]);
    else if (c < 0x20 || c == 0x7f)
        snprintf(ret, 8, "\\u%04x", c);
    else
        return NULL;
    return ret;
}

void tm_text_json_string(tm_text *t, const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    size_t plain = 0; /* where what is not yet appended begins */
    tm_text_append(t, "\"", 1);
    for (size_t i = 0; i < len;) {
        char buf[8];
        size_t n = tm_utf8_len(p + i, len - i);
        const char *instead = n == 0 ? "\xef\xbf\xbd" : n == 1 ? json_escape(p[i], buf) : NULL;
        if (instead) {
            tm_text_append(t, p + plain, i - plain);
            tm_text_puts(t, instead);
            plain = i + 1;
        }
        i += n ? n : 1;
    }
    if (len > plain)
        tm_text_append(t, p + plain, len - plain);
    tm_text_append(t, "\"", 1);
}

int tm_text_error(const tm_text *t)
{
    return t->error;
}

int tm_text_steal(tm_text *t, char **ret, size_t *ret_len)
{
    tm_text_append(t, "", 0);
    TM_TRY(t->error);
    *ret_len = t->len;
    *ret = TM_STEAL(t->bytes);
    tm_text_init(t);
    return 0;
}
