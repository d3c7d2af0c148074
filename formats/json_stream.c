#include "formats/json_stream.h"

enum state {
    /* Between tokens: what may come next. */
    AT_VALUE,
    AT_ITEM_OR_END, /* just after '[' */
    AT_KEY_OR_END,  /* just after '{' */
    AT_KEY,
    AT_COLON,
    AT_COMMA_OR_END,
    AT_NOTHING, /* the value is complete */
    /* Within a token. */
    IN_STRING,
    IN_ESCAPE, /* after a backslash */
    IN_HEX,
    IN_LOW_BACKSLASH, /* a high surrogate was read: a low one must follow */
    IN_LOW_U,
    IN_NUMBER,
    IN_LITERAL,
};

typedef struct cursor {
    const unsigned char *p, *end;
} cursor;

void tm_json_stream_init(tm_json_stream *s, tm_json_event_fn *on_event, void *ctx, size_t text_max)
{
    memset(s, 0, sizeof(*s));
    s->on_event = on_event;
    s->ctx = ctx;
    s->text_max = text_max;
    s->state = AT_VALUE;
}

void tm_json_stream_done(tm_json_stream *s)
{
    free(s->text);
    s->text = NULL;
}

static int fail_at(tm_json_stream *s, uint64_t offset, const char *words)
{
    s->error = words;
    s->error_offset = offset;
    return -EBADMSG;
}

static uint64_t offset_of(const tm_json_stream *s, const unsigned char *p)
{
    return s->offset + (uint64_t)(p - s->chunk);
}

static int fail(tm_json_stream *s, const cursor *c, const char *words)
{
    return fail_at(s, offset_of(s, c->p), words);
}

static int emit(tm_json_stream *s, tm_json_kind kind, const void *text, size_t len)
{
    tm_json_event event = {
        .kind = kind,
        .depth = s->depth,
        .offset = s->token_offset,
        .text = text,
        .len = len,
    };
    return s->on_event(s->ctx, &event);
}

static bool in_object(const tm_json_stream *s)
{
    unsigned top = s->depth - 1;
    return s->depth > 0 && (s->objects[top / 64] >> top % 64 & 1);
}

static void end_value(tm_json_stream *s)
{
    s->state = s->depth ? AT_COMMA_OR_END : AT_NOTHING;
}

/* -- The text of a token: in the chunk where it lies there whole, else collected. */

static int reserve_text(tm_json_stream *s, size_t need)
{
    if (need <= s->text_cap)
        return 0;
    size_t cap = s->text_cap + s->text_cap / 2;
    cap = cap < need ? need : cap;
    cap = cap < 256 ? 256 : cap;
    char *text = realloc(s->text, cap);
    if (!text)
        return -ENOMEM;
    s->text = text;
    s->text_cap = cap;
    return 0;
}

static int collect(tm_json_stream *s, const void *bytes, size_t n)
{
    if (n > s->text_max - s->text_len)
        return fail_at(s, s->token_offset, "text longer than is supported");
    if (n == 0)
        return 0;
    TM_TRY(reserve_text(s, s->text_len + n));
    memcpy(s->text + s->text_len, bytes, n);
    s->text_len += n;
    return 0;
}

/* Emits the token whose last N bytes are at LAST; what came before was collected. */
static int emit_text(tm_json_stream *s, tm_json_kind kind, const void *last, size_t n)
{
    if (s->text_len == 0 && n <= s->text_max)
        return emit(s, kind, last, n);
    TM_TRY(collect(s, last, n));
    int rc = emit(s, kind, s->text, s->text_len);
    s->text_len = 0;
    return rc;
}

/* -- Strings. */

#define EACH_BYTE(b) (0x0101010101010101u * (uint64_t)(b))

/* A bit for each byte of X that is zero; the lowest one set is exact, higher ones may not be. */
static uint64_t zero_bytes(uint64_t x)
{
    return (x - EACH_BYTE(1)) & ~x & EACH_BYTE(0x80);
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* Skips ASCII bytes that stand for themselves, eight at a time. */
static const unsigned char *skip_plain(const unsigned char *p, const unsigned char *end)
{
    while (end - p >= 8) {
        uint64_t x = tm_le64(p);
        uint64_t control = (x - EACH_BYTE(0x20)) & ~x & EACH_BYTE(0x80);
        uint64_t stop = control | (x & EACH_BYTE(0x80)) | zero_bytes(x ^ EACH_BYTE('"')) |
                        zero_bytes(x ^ EACH_BYTE('\\'));
        if (stop)
            return p + (__builtin_ctzll(stop) >> 3);
        p += 8;
    }
    while (p < end && is_plain(*p))
        p++;
    return p;
}

/* One byte of a sequence of two to four, as table 3-7 of the Unicode standard allows them. */
static bool push_utf8(tm_json_stream *s, unsigned char c)
{
    if (s->utf8_need) {
        if (c < s->utf8_lo || c > s->utf8_hi)
            return false;
        s->utf8_need--;
        s->utf8_lo = 0x80;
        s->utf8_hi = 0xbf;
        return true;
    }
    if (c < 0xc2 || c > 0xf4)
        return false;
    s->utf8_need = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
    s->utf8_lo = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    s->utf8_hi = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    return true;
}

static int end_string(tm_json_stream *s, const unsigned char *last, size_t n)
{
    if (s->is_key) {
        s->state = AT_COLON;
        return emit_text(s, TM_JSON_KEY, last, n);
    }
    end_value(s);
    return emit_text(s, TM_JSON_STRING, last, n);
}

static int step_string(tm_json_stream *s, cursor *c)
{
    const unsigned char *begin = c->p;
    for (;;) {
        if (!s->utf8_need)
            c->p = skip_plain(c->p, c->end);
        if (c->p == c->end)
            return collect(s, begin, (size_t)(c->p - begin));
        if (*c->p < 0x80 && !s->utf8_need)
            break;
        if (!push_utf8(s, *c->p))
            return fail(s, c, "invalid UTF-8");
        c->p++;
    }
    size_t n = (size_t)(c->p - begin);
    if (*c->p < 0x20)
        return fail(s, c, "a control byte in a string");
    if (*c->p++ == '"')
        return end_string(s, begin, n);
    s->state = IN_ESCAPE;
    return collect(s, begin, n);
}

static int step_escape(tm_json_stream *s, cursor *c)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (*c->p == 'u') {
        c->p++;
        s->hex = 0;
        s->hex_count = 0;
        s->state = IN_HEX;
        return 0;
    }
    const char *letter = memchr(letters, *c->p, sizeof(letters) - 1);
    if (!letter)
        return fail(s, c, "an unknown escape in a string");
    c->p++;
    s->state = IN_STRING;
    return collect(s, &meanings[letter - letters], 1);
}

static int collect_code_point(tm_json_stream *s, uint32_t code)
{
    unsigned char b[4];
    size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; i-- > 1; code >>= 6)
        b[i] = (unsigned char)(0x80 | (code & 0x3f));
    b[0] = (unsigned char)(lead[n] | code);
    s->state = IN_STRING;
    return collect(s, b, n);
}

static int end_hex(tm_json_stream *s, const cursor *c)
{
    uint32_t high = s->high_surrogate, code = s->hex;
    bool is_low = code >= 0xdc00 && code <= 0xdfff;
    if (is_low != (high != 0))
        return fail(s, c, "a lone surrogate in a string");
    if (code >= 0xd800 && code <= 0xdbff) {
        s->high_surrogate = s->hex;
        s->state = IN_LOW_BACKSLASH;
        return 0;
    }
    s->high_surrogate = 0;
    return collect_code_point(s, high ? 0x10000 + ((high - 0xd800) << 10) + (code - 0xdc00) : code);
}

static int step_hex(tm_json_stream *s, cursor *c)
{
    unsigned char b = *c->p, lower = b | 0x20;
    unsigned digit;
    if (b >= '0' && b <= '9')
        digit = b - '0';
    else if (lower >= 'a' && lower <= 'f')
        digit = lower - 'a' + 10u;
    else
        return fail(s, c, "an escape of fewer than four hex digits in a string");
    s->hex = (uint16_t)(s->hex << 4 | digit);
    if (++s->hex_count == 4)
        TM_TRY(end_hex(s, c));
    c->p++;
    return 0;
}

static int step_low_surrogate(tm_json_stream *s, cursor *c)
{
    if (*c->p != (s->state == IN_LOW_BACKSLASH ? '\\' : 'u'))
        return fail(s, c, "a lone surrogate in a string");
    if (s->state == IN_LOW_BACKSLASH) {
        s->state = IN_LOW_U;
        c->p++;
        return 0;
    }
    return step_escape(s, c);
}

/* -- Numbers: a small automaton. The digits stay text. */

enum number_state {
    NOT_A_NUMBER, /* the byte ends the number */
    NUMBER_START,
    NUMBER_MINUS,
    NUMBER_ZERO,
    NUMBER_INTEGER,
    NUMBER_POINT,
    NUMBER_FRACTION,
    NUMBER_E,
    NUMBER_E_SIGN,
    NUMBER_EXPONENT,
    NUMBER_STATES
};

static uint8_t next_number_state(uint8_t state, unsigned char c)
{
    enum {
        ZERO,
        DIGIT,
        MINUS,
        PLUS,
        POINT,
        E,
        CLASSES
    };
    static const uint8_t next[NUMBER_STATES][CLASSES] = {
        [NUMBER_START] = {NUMBER_ZERO, NUMBER_INTEGER, NUMBER_MINUS, 0, 0, 0},
        [NUMBER_MINUS] = {NUMBER_ZERO, NUMBER_INTEGER, 0, 0, 0, 0},
        [NUMBER_ZERO] = {0, 0, 0, 0, NUMBER_POINT, NUMBER_E},
        [NUMBER_INTEGER] = {NUMBER_INTEGER, NUMBER_INTEGER, 0, 0, NUMBER_POINT, NUMBER_E},
        [NUMBER_POINT] = {NUMBER_FRACTION, NUMBER_FRACTION, 0, 0, 0, 0},
        [NUMBER_FRACTION] = {NUMBER_FRACTION, NUMBER_FRACTION, 0, 0, 0, NUMBER_E},
        [NUMBER_E] = {NUMBER_EXPONENT, NUMBER_EXPONENT, NUMBER_E_SIGN, NUMBER_E_SIGN, 0, 0},
        [NUMBER_E_SIGN] = {NUMBER_EXPONENT, NUMBER_EXPONENT, 0, 0, 0, 0},
        [NUMBER_EXPONENT] = {NUMBER_EXPONENT, NUMBER_EXPONENT, 0, 0, 0, 0},
    };
    if (c >= '0' && c <= '9')
        return next[state][c == '0' ? ZERO : DIGIT];
    switch (c) {
    case '-':
        return next[state][MINUS];
    case '+':
        return next[state][PLUS];
    case '.':
        return next[state][POINT];
    case 'e':
    case 'E':
        return next[state][E];
    default:
        return NOT_A_NUMBER;
    }
}

static bool is_whole_number(const tm_json_stream *s)
{
    return s->number_state == NUMBER_ZERO || s->number_state == NUMBER_INTEGER ||
           s->number_state == NUMBER_FRACTION || s->number_state == NUMBER_EXPONENT;
}

/* What most of a number is. */
static const unsigned char *skip_digits(const unsigned char *p, const unsigned char *end)
{
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

static int step_number(tm_json_stream *s, cursor *c)
{
    const unsigned char *begin = c->p;
    while (c->p < c->end) {
        uint8_t next = next_number_state(s->number_state, *c->p);
        if (next == NOT_A_NUMBER)
            break;
        s->number_state = next;
        c->p++;
        if (next == NUMBER_INTEGER)
            c->p = skip_digits(c->p, c->end);
    }
    size_t n = (size_t)(c->p - begin);
    if (c->p == c->end)
        return collect(s, begin, n);
    if (!is_whole_number(s))
        return fail(s, c, "a malformed number");
    end_value(s);
    return emit_text(s, TM_JSON_NUMBER, begin, n);
}

/* -- true, false, null. */

static int begin_literal(tm_json_stream *s, const char *rest, tm_json_kind kind)
{
    s->literal = rest;
    s->literal_kind = (uint8_t)kind;
    s->state = IN_LITERAL;
    return 0;
}

static int step_literal(tm_json_stream *s, cursor *c)
{
    if (*c->p != (unsigned char)*s->literal)
        return fail(s, c, "a value is expected");
    c->p++;
    if (*++s->literal)
        return 0;
    end_value(s);
    return emit(s, (tm_json_kind)s->literal_kind, NULL, 0);
}

/* -- Between tokens. */

static int open_container(tm_json_stream *s, const cursor *c, bool is_object)
{
    if (s->depth >= TM_JSON_DEPTH_MAX)
        return fail(s, c, "nested deeper than 127 levels");
    TM_TRY(emit(s, is_object ? TM_JSON_OBJECT_BEGIN : TM_JSON_ARRAY_BEGIN, NULL, 0));
    uint64_t bit = (uint64_t)1 << s->depth % 64;
    if (is_object)
        s->objects[s->depth / 64] |= bit;
    else
        s->objects[s->depth / 64] &= ~bit;
    s->depth++;
    s->state = is_object ? AT_KEY_OR_END : AT_ITEM_OR_END;
    return 0;
}

static int close_container(tm_json_stream *s, const cursor *c)
{
    bool is_object = in_object(s);
    if (*c->p != (is_object ? '}' : ']'))
        return fail(s, c, is_object ? "',' or '}' is expected" : "',' or ']' is expected");
    s->depth--;
    end_value(s);
    return emit(s, is_object ? TM_JSON_OBJECT_END : TM_JSON_ARRAY_END, NULL, 0);
}

static int begin_string(tm_json_stream *s, bool is_key)
{
    s->is_key = is_key;
    s->state = IN_STRING;
    return 0;
}

static int begin_value(tm_json_stream *s, const cursor *c)
{
    switch (*c->p) {
    case '{':
        return open_container(s, c, true);
    case '[':
        return open_container(s, c, false);
    case '"':
        return begin_string(s, false);
    case 't':
        return begin_literal(s, "rue", TM_JSON_TRUE);
    case 'f':
        return begin_literal(s, "alse", TM_JSON_FALSE);
    case 'n':
        return begin_literal(s, "ull", TM_JSON_NULL);
    default:
        break;
    }
    if (next_number_state(NUMBER_START, *c->p) == NOT_A_NUMBER)
        return fail(s, c, *c->p == 0xef ? "a byte order mark" : "a value is expected");
    s->number_state = NUMBER_START;
    s->state = IN_NUMBER;
    return 0;
}

static int begin_key(tm_json_stream *s, const cursor *c, bool may_end)
{
    if (*c->p == '"')
        return begin_string(s, true);
    if (may_end && *c->p == '}')
        return close_container(s, c);
    return fail(s, c, may_end ? "a key or '}' is expected" : "a key is expected");
}

static int step_between(tm_json_stream *s, const cursor *c)
{
    switch ((enum state)s->state) {
    case AT_ITEM_OR_END:
        return *c->p == ']' ? close_container(s, c) : begin_value(s, c);
    case AT_KEY_OR_END:
        return begin_key(s, c, true);
    case AT_KEY:
        return begin_key(s, c, false);
    case AT_COLON:
        s->state = AT_VALUE;
        return *c->p == ':' ? 0 : fail(s, c, "':' is expected");
    case AT_COMMA_OR_END:
        if (*c->p != ',')
            return close_container(s, c);
        s->state = in_object(s) ? AT_KEY : AT_VALUE;
        return 0;
    case AT_NOTHING:
        return fail(s, c, "more text after the end of the value");
    default:
        return begin_value(s, c);
    }
}

static bool is_space(unsigned char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Goes on to the first byte of a token that has more than one. */
static int step_to_token(tm_json_stream *s, cursor *c)
{
    while (c->p < c->end && s->state < IN_STRING) {
        if (is_space(*c->p)) {
            c->p++;
            continue;
        }
        s->token_offset = offset_of(s, c->p);
        TM_TRY(step_between(s, c));
        c->p += s->state != IN_NUMBER; /* a number has no first byte apart from its digits */
    }
    return 0;
}

static int step(tm_json_stream *s, cursor *c)
{
    switch ((enum state)s->state) {
    case IN_STRING:
        return step_string(s, c);
    case IN_ESCAPE:
        return step_escape(s, c);
    case IN_HEX:
        return step_hex(s, c);
    case IN_LOW_BACKSLASH:
    case IN_LOW_U:
        return step_low_surrogate(s, c);
    case IN_NUMBER:
        return step_number(s, c);
    case IN_LITERAL:
        return step_literal(s, c);
    default:
        return step_to_token(s, c);
    }
}

int tm_json_stream_feed(tm_json_stream *s, const void *data, size_t len)
{
    if (s->rc < 0 || len == 0)
        return s->rc;
    cursor c = {.p = data, .end = (const unsigned char *)data + len};
    s->chunk = data;
    while (c.p < c.end && s->rc >= 0)
        s->rc = step(s, &c);
    if (s->rc < 0)
        return s->rc;
    s->offset += len;
    return 0;
}

int tm_json_stream_finish(tm_json_stream *s)
{
    if (s->rc < 0)
        return s->rc;
    s->chunk = NULL;
    if (s->state == IN_NUMBER && s->depth == 0 && is_whole_number(s)) {
        end_value(s);
        s->rc = emit_text(s, TM_JSON_NUMBER, NULL, 0);
    } else if (s->state != AT_NOTHING) {
        s->rc = fail_at(s, s->offset, "the text ends too early");
    }
    return s->rc < 0 ? s->rc : 0;
}
