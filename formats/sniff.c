#include "formats/sniff.h"

#include <stdio.h>
#include <strings.h>

#include "core/diag.h"

enum {
    EXCERPT_BYTES = 72
};

typedef struct head {
    const char *bytes;
    size_t len;
} head;

typedef struct magic {
    const char *bytes;
    size_t len;
    const char *words;
} magic;

#define MAGIC(bytes, words)                                                                        \
    {                                                                                              \
        bytes, sizeof(bytes) - 1, words                                                            \
    }
#define PICKLE_WORDS "is a Python pickle, which is never opened: it can run code"
#define ZIP_WORDS    "is a zip archive, as torch.save writes (.pt, .pth, .bin)"

static const magic magics[] = {
    MAGIC("PK\x03\x04", ZIP_WORDS),
    MAGIC("PK\x05\x06", "is an empty zip archive"),
    MAGIC("\x80\x02", PICKLE_WORDS),
    MAGIC("\x80\x03", PICKLE_WORDS),
    MAGIC("\x80\x04", PICKLE_WORDS),
    MAGIC("\x80\x05", PICKLE_WORDS),
    MAGIC("GGUF", "is a GGUF file"),
    MAGIC("\x1f\x8b", "is compressed (gzip)"),
    MAGIC("\x28\xb5\x2f\xfd", "is compressed (zstd)"),
    MAGIC("\xfd"
          "7zXZ",
          "is compressed (xz)"),
    MAGIC("BZh", "is compressed (bzip2)"),
    MAGIC("\x89HDF\r\n\x1a\n", "is an HDF5 file (.h5)"),
    MAGIC("\x93NUMPY", "is a NumPy array (.npy)"),
};

static bool begins_with(const head *h, const char *text)
{
    size_t len = strlen(text);
    return h->len >= len && strncasecmp(h->bytes, text, len) == 0;
}

static head without_space(const head *h)
{
    size_t skip = 0;
    while (skip < h->len && memchr(" \t\r\n", h->bytes[skip], 4))
        skip++;
    return (head){.bytes = h->bytes + skip, .len = h->len - skip};
}

/* -- A Git LFS pointer: "version URL\noid sha256:HEX\nsize N\n". */

/* The value of the line that begins with KEY and a space; 0 where there is none. */
static size_t line_value(const head *h, const char *key, const char **ret)
{
    size_t key_len = strlen(key);
    for (size_t at = 0; at < h->len;) {
        const char *line = h->bytes + at;
        const char *lf = memchr(line, '\n', h->len - at);
        size_t len = lf ? (size_t)(lf - line) : h->len - at;
        if (len > key_len && memcmp(line, key, key_len) == 0 && line[key_len] == ' ') {
            *ret = line + key_len + 1;
            return len - key_len - 1;
        }
        at += len + 1;
    }
    return 0;
}

/* A size as a person reads it, from the decimal digits of a pointer. */
static void print_size(const char *digits, size_t len, char *ret, size_t cap)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB", "EB"};
    double size = 0;
    size_t unit = 0;
    for (size_t i = 0; i < len && digits[i] >= '0' && digits[i] <= '9' && i < 18; i++)
        size = size * 10 + (digits[i] - '0');
    while (size >= 1000 && unit + 1 < TM_ARRAY_LEN(units)) {
        size /= 1000;
        unit++;
    }
    snprintf(ret, cap, "%.*f %s", unit ? 1 : 0, size, units[unit]);
}

static bool sniff_lfs(const head *h, char *ret)
{
    if (!begins_with(h, "version https://git-lfs.github.com/spec/") &&
        !begins_with(h, "version https://hawser.github.com/spec/"))
        return false;
    const char *oid = "?", *size = "";
    size_t oid_len = line_value(h, "oid", &oid), size_len = line_value(h, "size", &size);
    char oid_words[TM_WORDS_NAME_MAX], size_words[32];
    print_size(size, size_len, size_words, sizeof(size_words));
    snprintf(ret, TM_SNIFF_WORDS_MAX,
             "is a Git LFS pointer (oid %.100s, %s): the weights were not downloaded; "
             "run 'git lfs pull'",
             tm_words_name(oid, oid_len ? oid_len : 1, oid_words), size_words);
    return true;
}

/* -- Text: a server's answer that was saved as the file. */

static bool has_control_byte(const head *h)
{
    for (size_t i = 0; i < h->len; i++) {
        unsigned char c = (unsigned char)h->bytes[i];
        if (c == 0x7f || (c < 0x20 && c != '\t' && c != '\n' && c != '\r' && c != '\f'))
            return true;
    }
    return false;
}

static bool is_ascii(const head *h)
{
    for (size_t i = 0; i < h->len; i++) {
        if ((unsigned char)h->bytes[i] >= 0x80)
            return false;
    }
    return true;
}

/* What text H is, NULL where it is none. */
static const char *text_kind(const head *h)
{
    if (h->len == 0 || has_control_byte(h))
        return NULL;
    if (begins_with(h, "<!doctype html") || begins_with(h, "<html"))
        return "an HTML page";
    if (h->bytes[0] == '<')
        return "XML text";
    if (h->bytes[0] == '{' || h->bytes[0] == '[')
        return "JSON text";
    return is_ascii(h) ? "text" : NULL;
}

static bool sniff_text(const head *h, char *ret)
{
    head text = without_space(h);
    const char *kind = text_kind(&text);
    if (!kind)
        return false;
    size_t len = text.len < EXCERPT_BYTES ? text.len : EXCERPT_BYTES;
    while (len > 0 && len < text.len && ((unsigned char)text.bytes[len] & 0xc0) == 0x80)
        len--; /* not within a UTF-8 sequence */
    char excerpt[TM_WORDS_NAME_MAX];
    snprintf(ret, TM_SNIFF_WORDS_MAX,
             "is %s, not weights; a server's answer saved in their place? It begins: %s", kind,
             tm_words_name(text.bytes, len, excerpt));
    return true;
}

static bool sniff_zeros(const head *h, char *ret)
{
    for (size_t i = 0; i < h->len; i++) {
        if (h->bytes[i])
            return false;
    }
    snprintf(ret, TM_SNIFF_WORDS_MAX,
             "begins with %zu zero bytes: its space was reserved, but its content never written",
             h->len);
    return true;
}

bool tm_sniff(const void *bytes, size_t len, uint64_t size, char ret[TM_SNIFF_WORDS_MAX])
{
    head h = {.bytes = bytes, .len = len};
    if (size == 0) {
        snprintf(ret, TM_SNIFF_WORDS_MAX, "is empty");
        return true;
    }
    if (len == 0)
        return false;
    for (size_t i = 0; i < TM_ARRAY_LEN(magics); i++) {
        const magic *m = &magics[i];
        if (len >= m->len && memcmp(bytes, m->bytes, m->len) == 0) {
            snprintf(ret, TM_SNIFF_WORDS_MAX, "%s", m->words);
            return true;
        }
    }
    return sniff_lfs(&h, ret) || sniff_zeros(&h, ret) || sniff_text(&h, ret);
}

int tm_sniff_source(const tm_byte_source *src, tm_req *req, char ret[TM_SNIFF_WORDS_MAX])
{
    char bytes[TM_SNIFF_HEAD];
    size_t len = (size_t)tm_min_u64(src->size, sizeof(bytes));
    if (len)
        TM_TRY(tm_byte_source_read(src, 0, bytes, len, req));
    return tm_sniff(bytes, len, src->size, ret);
}
