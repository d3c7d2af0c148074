/* Places are told in characters, since that is what editors and people count. */
#include "formats/query_error.h"

enum {
    QUOTE_BYTES = 48,  /* of a piece that is shown in words */
    WIDTH = 76,        /* columns of the line that is shown */
    BEFORE_CARET = 50, /* of them, at most so many before the place */
};

static size_t char_len(const char *text, size_t left)
{
    size_t n = tm_utf8_len(text, left);
    return n ? n : 1;
}

void tm_query_place(const char *text, size_t offset, int *ret_line, int *ret_column)
{
    *ret_line = *ret_column = 1;
    for (size_t i = 0; i < offset; i += char_len(text + i, offset - i)) {
        bool ends = text[i] == '\n';
        *ret_line += ends;
        *ret_column = ends ? 1 : *ret_column + 1;
    }
}

const char *tm_query_quote(const char *text, size_t len, char ret[TM_QUERY_QUOTE_MAX])
{
    static const char ellipsis[] = "…";
    static_assert(3 * QUOTE_BYTES + sizeof(ellipsis) <= TM_QUERY_QUOTE_MAX, "3 bytes for one");
    size_t shown = 0;
    while (shown < len && shown + char_len(text + shown, len - shown) <= QUOTE_BYTES)
        shown += char_len(text + shown, len - shown);
    tm_words_name(text, shown, ret);
    if (shown < len)
        memcpy(ret + strlen(ret), ellipsis, sizeof(ellipsis));
    return ret;
}

/* Line LINE of TEXT, without its LF. */
static const char *line_of(const char *text, size_t *len, int line)
{
    const char *end = text + *len;
    for (const char *lf; line > 1 && (lf = memchr(text, '\n', (size_t)(end - text))); line--)
        text = lf + 1;
    const char *lf = memchr(text, '\n', (size_t)(end - text));
    *len = (size_t)((lf ? lf : end) - text);
    return text;
}

/* One character in one column. U+0080 to U+009F are control characters as well. */
static void show_char(const char *text, size_t len, size_t left, tm_text *out)
{
    unsigned char first = (unsigned char)text[0], second = len > 1 ? (unsigned char)text[1] : 0;
    if (first == '\t')
        tm_text_puts(out, " ");
    else if (first < 0x20 || first == 0x7f || (first == 0xc2 && second < 0xa0) ||
             tm_utf8_len(text, left) == 0)
        tm_text_puts(out, "?");
    else
        tm_text_append(out, text, len);
}

void tm_query_error_show(const tm_query_error *error, const char *text, size_t len, tm_text *out)
{
    const char *line = line_of(len ? text : "", &len, error->line);
    int first = error->column > BEFORE_CARET + 1 ? error->column - BEFORE_CARET : 1;
    int column = 1;
    tm_text_puts(out, first > 1 ? "…" : "");
    for (size_t i = 0; i < len && column < first + WIDTH; column++) {
        size_t n = char_len(line + i, len - i);
        if (column >= first)
            show_char(line + i, n, len - i, out);
        i += n;
    }
    tm_text_puts(out, "\n");
    tm_text_pad(out, (size_t)(error->column - first) + (first > 1));
    tm_text_puts(out, "^\n");
}
