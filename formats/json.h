/*
 * Small JSON documents as trees: config.json, recipes. The one door to jansson.
 *
 * A document is bounded in bytes, depth and values, so that a hostile file costs no more memory
 * than a big honest one; keys are unique. Accessors take NULL and answer "not there", so a path
 * reads as one expression: tm_json_str(tm_json_get(tm_json_get(doc, "a"), "b")). Headers, which
 * may name 870,000 tensors, are read by formats/json_stream.h instead.
 */
#ifndef TM_FORMATS_JSON_H
#define TM_FORMATS_JSON_H

#include "core/base.h"

#define TM_JSON_BYTES_MAX      ((size_t)16 << 20)
#define TM_JSON_TREE_DEPTH_MAX 127u     /* containers within each other */
#define TM_JSON_VALUES_MAX     1000000u /* values of a document, containers included */
#define TM_JSON_CONTAINERS_MAX 250000u

/* A value in a document; it lives as long as the document. Reading is for any thread. */
typedef struct tm_json tm_json;

enum {
    TM_JSON_WORDS_MAX = 256
};

typedef struct tm_json_error {
    int line, column;              /* of the end of what is wrong, from 1; 0: of no one place */
    char words[TM_JSON_WORDS_MAX]; /* without the place */
} tm_json_error;

/*
 * -EBADMSG: not JSON, or a duplicate key. -EFBIG: over a limit. -ENOMEM. ERROR has words for each.
 * Other than RFC 8259: strings and keys must not hold U+0000, integers must fit 64 bits, signed.
 */
TM_MUST_CHECK int tm_json_parse(const void *bytes, size_t len, tm_json_error *error, tm_json **ret);
void tm_json_free(tm_json *document);
void tm_json_freep(tm_json **document); /* for TM_AUTO */

bool tm_json_is_object(const tm_json *v);
bool tm_json_is_array(const tm_json *v);
bool tm_json_is_null(const tm_json *v); /* a null that is there */
/* For words: "an object", "a string", …, "nothing" for NULL. */
const char *tm_json_kind_words(const tm_json *v);

/* A member of an object. NULL where V is none or has none of that name. */
const tm_json *tm_json_get(const tm_json *v, const char *key);
/* Elements of an array, members of an object; 0 for everything else. */
size_t tm_json_len(const tm_json *v);
/* An element of an array. NULL where V is none or shorter. */
const tm_json *tm_json_at(const tm_json *v, size_t i);

/* NULL where V is no string. UTF-8, NUL-terminated. */
const char *tm_json_str(const tm_json *v);
/* False, and *RET untouched, where V is something else. An integer is a number too. */
bool tm_json_int(const tm_json *v, int64_t *ret);
bool tm_json_number(const tm_json *v, double *ret);
bool tm_json_bool(const tm_json *v, bool *ret);

/* The members of an object, in the order of the text:
 * for (tm_json_member m = {0}; tm_json_next(v, &m);) … m.key, m.value */
typedef struct tm_json_member {
    const char *key;
    const tm_json *value;
    void *at;
} tm_json_member;

/* False after the last one, and where V is no object. */
bool tm_json_next(const tm_json *v, tm_json_member *member);

#endif
