/*
 * A push tokenizer for strict JSON (RFC 8259): fed chunks of any size, it calls back per token.
 *
 * It keeps nothing but the containers it is in and a token that spans chunks, so a header of
 * 100 MB costs what its reader makes of it. Strict means: UTF-8 without overlong forms and
 * surrogates (in escapes too, where pairs are joined), no control bytes in strings, no comments,
 * no trailing commas, no byte order mark, one value and only white space around it. Neither
 * duplicate keys nor the size of numbers are its concern.
 */
#ifndef TM_FORMATS_JSON_STREAM_H
#define TM_FORMATS_JSON_STREAM_H

#include "core/base.h"

/* Containers within each other: serde_json, which upstream reads headers with, refuses the 128th.
 */
#define TM_JSON_DEPTH_MAX 127u

typedef enum tm_json_kind {
    TM_JSON_OBJECT_BEGIN,
    TM_JSON_OBJECT_END,
    TM_JSON_ARRAY_BEGIN,
    TM_JSON_ARRAY_END,
    TM_JSON_KEY,
    TM_JSON_STRING,
    TM_JSON_NUMBER,
    TM_JSON_TRUE,
    TM_JSON_FALSE,
    TM_JSON_NULL
} tm_json_kind;

typedef struct tm_json_event {
    tm_json_kind kind;
    unsigned depth;   /* how many containers stand around the token; a container's end has that of
                         its beginning */
    uint64_t offset;  /* of the token's first byte */
    const char *text; /* of a key or string (unescaped, may hold NUL) or a number (as written);
                         not NUL-terminated, for the time of the call */
    size_t len;
} tm_json_event;

/* A negative result ends the parse, which returns it. */
typedef int tm_json_event_fn(void *ctx, const tm_json_event *event);

typedef struct tm_json_stream {
    tm_json_event_fn *on_event;
    void *ctx;
    size_t text_max; /* bytes of a key, string or number */

    uint64_t offset; /* of the chunk's first byte */
    const unsigned char *chunk;
    uint64_t token_offset;
    int rc;                /* of the first failure, 0 before */
    const char *error;     /* what is wrong with the text at error_offset; NULL: not the text */
    uint64_t error_offset; /* from the first byte fed */

    char *text; /* what was seen of a token that spans chunks or has escapes */
    size_t text_len, text_cap;

    const char *literal; /* what must still follow of true, false, null */
    uint64_t objects[2]; /* a bit for each container around: 1 for an object */
    unsigned depth;
    uint8_t state, literal_kind, number_state;
    bool is_key;
    uint8_t utf8_need, utf8_lo, utf8_hi; /* bytes that a sequence lacks, and limits of the next */
    uint8_t hex_count;
    uint16_t hex, high_surrogate;
} tm_json_stream;

void tm_json_stream_init(tm_json_stream *s, tm_json_event_fn *on_event, void *ctx, size_t text_max);
void tm_json_stream_done(tm_json_stream *s);

/* 0, -EBADMSG with s->error, -ENOMEM, or what the callback returned. Stays failed. */
TM_MUST_CHECK int tm_json_stream_feed(tm_json_stream *s, const void *data, size_t len);

/* The text has ended: the same results. */
TM_MUST_CHECK int tm_json_stream_finish(tm_json_stream *s);

#endif
