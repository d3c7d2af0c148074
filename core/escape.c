/* Escapes, and the cut form of names that are too long for a file name. */
#include "core/escape.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/hash.h"

enum {
    TAIL = 17, /* '~' and the hash */
    PREFIX_MAX = TM_FILE_NAME_MAX - TAIL,
    UNIT_MAX = 4, /* bytes that are never split */
    CUT_MIN = PREFIX_MAX - (UNIT_MAX - 1) + TAIL,
};

static const char upper_hex[] = "0123456789ABCDEF";

static bool needs_escape(char c, bool in_file)
{
    unsigned char byte = (unsigned char)c;
    return byte < 0x20 || byte == 0x7f || c == '%' || (in_file && c == '/');
}

static size_t escape(const char *name, size_t len, bool in_file, char *ret, size_t cap)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)name[i];
        char text[3] = {name[i]};
        size_t count = 1;
        if (needs_escape(name[i], in_file)) {
            text[0] = '%';
            text[1] = upper_hex[byte >> 4];
            text[2] = upper_hex[byte & 15];
            count = 3;
        }
        for (size_t j = 0; j < count; j++, n++)
            if (n < cap)
                ret[n] = text[j];
    }
    return n;
}

/* The file name of a name that is none by itself, else NULL. */
static const char *special_file(const char *name, size_t len)
{
    if (len == 0)
        return "%";
    if (len <= 2 && name[0] == '.' && name[len - 1] == '.')
        return len == 1 ? "%2E" : "%2E%2E";
    return NULL;
}

/* The bytes of the UTF-8 sequence that begins TEXT, 1 where none does (RFC 3629, section 4). */
static size_t sequence_len(const char *text, size_t room)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t n = p[0] < 0xc2 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 1;
    if (n > room)
        return 1;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 1;
    bool overlong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
    bool surrogate = p[0] == 0xed && p[1] > 0x9f;
    bool beyond = p[0] == 0xf4 && p[1] > 0x8f;
    return overlong || surrogate || beyond ? 1 : n;
}

/* How many bytes of NAME a cut file name keeps; *RET_ESCAPED: how many they become. */
static size_t kept_len(const char *name, size_t len, size_t *ret_escaped)
{
    size_t in = 0, out = 0;
    while (in < len) {
        bool escaped = needs_escape(name[in], true);
        size_t unit = escaped ? 1 : sequence_len(name + in, len - in);
        size_t grows = escaped ? 3 : unit;
        if (out + grows > PREFIX_MAX)
            break;
        in += unit;
        out += grows;
    }
    assert(out + TAIL >= CUT_MIN); /* so only names that are cut may be given */
    *ret_escaped = out;
    return in;
}

static bool ends_like_cut(const char *text, size_t len)
{
    if (len < TAIL || text[len - TAIL] != '~')
        return false;
    for (size_t i = len - TAIL + 1; i < len; i++)
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
            return false;
    return true;
}

/* No escape ends like a cut name, so NAME ends so where its escaped form does. */
static bool is_cut(const char *name, size_t len, size_t escaped)
{
    return escaped > TM_FILE_NAME_MAX || (escaped >= CUT_MIN && ends_like_cut(name, len));
}

size_t tm_name_to_file(const char *name, size_t len, char ret[TM_FILE_NAME_MAX + 1])
{
    const char *special = special_file(name, len);
    if (special) {
        size_t special_len = strlen(special);
        memcpy(ret, special, special_len + 1);
        return special_len;
    }
    size_t escaped = escape(name, len, true, ret, TM_FILE_NAME_MAX);
    if (!is_cut(name, len, escaped)) {
        ret[escaped] = '\0';
        return escaped;
    }
    size_t prefix;
    escape(name, kept_len(name, len, &prefix), true, ret, PREFIX_MAX);
    snprintf(ret + prefix, TAIL + 1, "~%016" PRIx64, tm_hash64(name, len));
    return prefix + TAIL;
}

size_t tm_name_to_file_len(const char *name, size_t len)
{
    const char *special = special_file(name, len);
    if (special)
        return strlen(special);
    size_t escaped = escape(name, len, true, NULL, 0);
    if (!is_cut(name, len, escaped))
        return escaped;
    size_t prefix;
    kept_len(name, len, &prefix);
    return prefix + TAIL;
}

bool tm_name_matches_file(const char *name, size_t len, const char *file, size_t file_len)
{
    char expected[TM_FILE_NAME_MAX + 1];
    return tm_name_to_file(name, len, expected) == file_len &&
           memcmp(expected, file, file_len) == 0;
}

/* -1 where it is no upper-case digit. */
static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* False where TEXT is not what escape() makes of any bytes. */
static bool unescape(const char *text, size_t len, char *ret, size_t *ret_len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        bool escaped = c == '%';
        if (escaped) {
            int high = len - i > 2 ? hex_value(text[i + 1]) : -1;
            int low = len - i > 2 ? hex_value(text[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (needs_escape(c, true) != escaped)
            return false;
        ret[n++] = c;
    }
    *ret_len = n;
    return true;
}

tm_file_name_kind tm_file_to_name(const char *file, size_t len, char *ret, size_t *ret_len)
{
    static const char specials[3][3] = {"", ".", ".."};
    if (len == 0 || len > TM_FILE_NAME_MAX || special_file(file, len))
        return TM_FILE_NAME_INVALID;
    for (size_t i = 0; i < TM_ARRAY_LEN(specials); i++) {
        if (tm_name_matches_file(specials[i], i, file, len)) {
            memcpy(ret, specials[i], i);
            *ret_len = i;
            return TM_FILE_NAME_WHOLE;
        }
    }
    bool cut = len >= CUT_MIN && ends_like_cut(file, len);
    if (!unescape(file, cut ? len - TAIL : len, ret, ret_len))
        return TM_FILE_NAME_INVALID;
    return cut ? TM_FILE_NAME_HASHED : TM_FILE_NAME_WHOLE;
}

size_t tm_field_escape(const char *name, size_t len, char *ret, size_t cap)
{
    if (len > 0)
        return escape(name, len, false, ret, cap);
    if (cap > 0)
        ret[0] = '%';
    return 1;
}
