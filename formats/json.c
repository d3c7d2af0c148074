#include "formats/json.h"

#include <jansson.h>
#include <stdio.h>

/* A tm_json is a json_t: the header only hides the name. */
static json_t *as_jansson(const tm_json *v)
{
    return (json_t *)(uintptr_t)v;
}

static const tm_json *from_jansson(const json_t *v)
{
    return (const tm_json *)v;
}

static int fail_limit(tm_json_error *error, const char *what, size_t max)
{
    snprintf(error->words, sizeof(error->words), "more than %zu %s", max, what);
    return -EFBIG;
}

typedef struct size_of_text {
    size_t depth, max_depth;
    size_t containers, separators;
} size_of_text;

/* Counts what a tree of the text would hold, before anything is allocated. Any text will do. */
static size_of_text measure(const char *text, size_t len)
{
    size_of_text s = {0};
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (in_string) {
            i += c == '\\';
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            s.containers++;
            s.depth++;
            s.max_depth = tm_max_u64(s.max_depth, s.depth);
        } else if (c == ']' || c == '}') {
            s.depth -= s.depth > 0;
        } else if (c == ',') {
            s.separators++;
        }
    }
    return s;
}

static int check_limits(const char *text, size_t len, tm_json_error *error)
{
    if (len > TM_JSON_BYTES_MAX)
        return fail_limit(error, "bytes", TM_JSON_BYTES_MAX);
    size_of_text s = measure(text, len);
    if (s.max_depth > TM_JSON_TREE_DEPTH_MAX)
        return fail_limit(error, "levels of nesting", TM_JSON_TREE_DEPTH_MAX);
    if (s.containers > TM_JSON_CONTAINERS_MAX)
        return fail_limit(error, "objects and arrays", TM_JSON_CONTAINERS_MAX);
    /* Every value but the outermost is the first of a container or follows a comma. */
    if (s.containers + s.separators + 1 > TM_JSON_VALUES_MAX)
        return fail_limit(error, "values", TM_JSON_VALUES_MAX);
    return 0;
}

int tm_json_parse(const void *bytes, size_t len, tm_json_error *error, tm_json **ret)
{
    *error = (tm_json_error){0};
    TM_TRY(check_limits(bytes, len, error));
    json_error_t why;
    size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY;
    json_t *root = json_loadb(len ? bytes : "", len, flags, &why);
    if (root) {
        *ret = (tm_json *)root;
        return 0;
    }
    /* jansson gives most of its failed allocations no words at all. */
    bool no_memory = json_error_code(&why) == json_error_out_of_memory || !why.text[0];
    error->line = why.line > 0 ? why.line : 0;
    error->column = why.column > 0 ? why.column : why.line > 0;
    snprintf(error->words, sizeof(error->words), "%s", no_memory ? "out of memory" : why.text);
    return no_memory ? -ENOMEM : -EBADMSG;
}

void tm_json_free(tm_json *document)
{
    json_decref(as_jansson(document));
}

void tm_json_freep(tm_json **document)
{
    tm_json_free(*document);
}

bool tm_json_is_object(const tm_json *v)
{
    return json_is_object(as_jansson(v));
}

bool tm_json_is_array(const tm_json *v)
{
    return json_is_array(as_jansson(v));
}

bool tm_json_is_null(const tm_json *v)
{
    return json_is_null(as_jansson(v));
}

const char *tm_json_kind_words(const tm_json *v)
{
    if (!v)
        return "nothing";
    switch (json_typeof(as_jansson(v))) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_NULL:
        return "null";
    }
    return "nothing";
}

const tm_json *tm_json_get(const tm_json *v, const char *key)
{
    return from_jansson(json_object_get(as_jansson(v), key));
}

size_t tm_json_len(const tm_json *v)
{
    return tm_json_is_array(v) ? json_array_size(as_jansson(v)) : json_object_size(as_jansson(v));
}

const tm_json *tm_json_at(const tm_json *v, size_t i)
{
    return from_jansson(json_array_get(as_jansson(v), i));
}

const char *tm_json_str(const tm_json *v)
{
    return json_string_value(as_jansson(v));
}

bool tm_json_int(const tm_json *v, int64_t *ret)
{
    if (!json_is_integer(as_jansson(v)))
        return false;
    *ret = json_integer_value(as_jansson(v));
    return true;
}

bool tm_json_number(const tm_json *v, double *ret)
{
    if (!json_is_number(as_jansson(v)))
        return false;
    *ret = json_number_value(as_jansson(v));
    return true;
}

bool tm_json_bool(const tm_json *v, bool *ret)
{
    if (!json_is_boolean(as_jansson(v)))
        return false;
    *ret = json_is_true(as_jansson(v));
    return true;
}

bool tm_json_next(const tm_json *v, tm_json_member *member)
{
    json_t *object = as_jansson(v);
    member->at = member->at ? json_object_iter_next(object, member->at) : json_object_iter(object);
    if (!member->at)
        return false;
    member->key = json_object_iter_key(member->at);
    member->value = from_jansson(json_object_iter_value(member->at));
    return true;
}
