/* Small JSON documents: accessors, limits, refusals. */
#include "formats/json.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static tm_json *parsed(const char *text)
{
    tm_json_error error;
    tm_json *doc = NULL;
    assert_int_equal(tm_json_parse(text, strlen(text), &error, &doc), 0);
    assert_non_null(doc);
    return doc;
}

static void a_path_is_followed_through_objects_and_lists(void **state)
{
    (void)state;
    tm_json *doc = parsed("{\"a\": {\"b\": [\"x\", 7, true, 1.5, null]}}");
    const tm_json *list = tm_json_get(tm_json_get(doc, "a"), "b");
    int64_t i = 0;
    double d = 0;
    bool b = false;
    assert_true(tm_json_is_object(doc));
    assert_true(tm_json_is_array(list));
    assert_int_equal(tm_json_len(list), 5);
    assert_int_equal(tm_json_len(doc), 1);
    assert_string_equal(tm_json_str(tm_json_at(list, 0)), "x");
    assert_true(tm_json_int(tm_json_at(list, 1), &i));
    assert_int_equal(i, 7);
    assert_true(tm_json_bool(tm_json_at(list, 2), &b));
    assert_true(b);
    assert_true(tm_json_number(tm_json_at(list, 3), &d));
    assert_true(d == 1.5);
    assert_true(tm_json_number(tm_json_at(list, 1), &d));
    assert_true(d == 7);
    assert_true(tm_json_is_null(tm_json_at(list, 4)));
    tm_json_free(doc);
}

static void what_is_not_there_or_of_another_kind_answers_nothing(void **state)
{
    (void)state;
    tm_json *doc = parsed("{\"s\": \"x\", \"n\": 1.5, \"l\": [1]}");
    const tm_json *no = tm_json_get(doc, "absent");
    int64_t i = 42;
    double d = 42;
    bool b = true;
    assert_null(no);
    assert_null(tm_json_get(no, "deeper"));
    assert_null(tm_json_get(tm_json_get(doc, "s"), "x"));
    assert_null(tm_json_at(no, 0));
    assert_null(tm_json_at(tm_json_get(doc, "l"), 1));
    assert_null(tm_json_at(doc, 0));
    assert_null(tm_json_str(no));
    assert_null(tm_json_str(tm_json_get(doc, "n")));
    assert_false(tm_json_int(no, &i) || tm_json_int(tm_json_get(doc, "n"), &i));
    assert_false(tm_json_number(no, &d) || tm_json_number(tm_json_get(doc, "s"), &d));
    assert_false(tm_json_bool(no, &b) || tm_json_bool(tm_json_get(doc, "s"), &b));
    assert_true(i == 42 && d == 42 && b);
    assert_int_equal(tm_json_len(no), 0);
    assert_int_equal(tm_json_len(tm_json_get(doc, "s")), 0);
    assert_false(tm_json_is_null(no) || tm_json_is_object(no) || tm_json_is_array(no));
    tm_json_free(doc);
    tm_json_free(NULL);
}

static void members_come_in_the_order_of_the_text(void **state)
{
    (void)state;
    static const char *const keys[] = {"z", "a", "m", ""};
    tm_json *doc = parsed("{\"z\": 0, \"a\": 1, \"m\": 2, \"\": 3}");
    size_t n = 0;
    for (tm_json_member m = {0}; tm_json_next(doc, &m); n++) {
        int64_t value = -1;
        assert_true(n < TM_ARRAY_LEN(keys));
        assert_string_equal(m.key, keys[n]);
        assert_true(tm_json_int(m.value, &value));
        assert_int_equal(value, n);
    }
    assert_int_equal(n, 4);
    tm_json_member m = {0};
    assert_false(tm_json_next(NULL, &m));
    assert_false(tm_json_next(tm_json_get(doc, "z"), &m));
    tm_json_free(doc);
}

static void each_kind_has_words(void **state)
{
    (void)state;
    static const char *const words[] = {"an object", "a list",    "a string",  "a number",
                                        "a number",  "a boolean", "a boolean", "null"};
    tm_json *doc = parsed("[{}, [], \"\", 1, 1.0, true, false, null]");
    for (size_t i = 0; i < TM_ARRAY_LEN(words); i++)
        assert_string_equal(tm_json_kind_words(tm_json_at(doc, i)), words[i]);
    assert_string_equal(tm_json_kind_words(NULL), "nothing");
    tm_json_free(doc);
}

static void any_value_may_stand_outermost(void **state)
{
    (void)state;
    tm_json *doc = parsed(" \"x\" ");
    assert_string_equal(tm_json_str(doc), "x");
    tm_json_free(doc);
}

static const struct {
    const char *text;
    int line, column;
    const char *words;
} malformed[] = {
    {"{\"a\": 1, \"a\": 2}", 1, 12, "duplicate object key near '\"a\"'"},
    {"{\"a\": 1, \"\\u0061\": 2}", 1, 17, "duplicate object key near '\"\\u0061\"'"},
    {"{\n \"a\": tru }", 2, 9, "invalid token near 'tru'"},
    {"[1,]", 1, 4, "unexpected token near ']'"},
    {"[NaN]", 1, 4, "invalid token near 'NaN'"},
    {"{\"a\": 1} x", 1, 10, "end of file expected near 'x'"},
    {"[18446744073709551616]", 1, 21, "too big integer near '18446744073709551616'"},
};

static void malformed_text_is_refused_with_its_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(malformed); i++) {
        tm_json_error error;
        tm_json *doc = NULL;
        const char *text = malformed[i].text;
        assert_int_equal(tm_json_parse(text, strlen(text), &error, &doc), -EBADMSG);
        assert_null(doc);
        assert_string_equal(error.words, malformed[i].words);
        assert_int_equal(error.line, malformed[i].line);
        assert_int_equal(error.column, malformed[i].column);
    }
}

static void text_without_a_value_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        " ",
                                        "{",
                                        "[",
                                        "\"",
                                        "\\",
                                        "\"\\",
                                        "\xef\xbb\xbf{}",
                                        "{\"a\\u0000\": 1}",
                                        "\"\xff\"",
                                        "{'a': 1}",
                                        "// x\n1"};
    for (size_t i = 0; i < TM_ARRAY_LEN(texts); i++) {
        tm_json_error error;
        tm_json *doc = NULL;
        assert_int_equal(tm_json_parse(texts[i], strlen(texts[i]), &error, &doc), -EBADMSG);
        assert_true(error.words[0] != '\0');
    }
    tm_json_error error;
    tm_json *doc = NULL;
    assert_int_equal(tm_json_parse(NULL, 0, &error, &doc), -EBADMSG);
}

/* N times UNIT between HEAD and TAIL. */
static char *repeated(const char *head, const char *unit, size_t n, const char *tail)
{
    size_t len = strlen(head) + n * strlen(unit) + strlen(tail);
    char *text = malloc(len + 1), *p = text;
    assert_non_null(text);
    p = stpcpy(p, head);
    for (size_t i = 0; i < n; i++)
        p = stpcpy(p, unit);
    stpcpy(p, tail);
    return text;
}

static int parse_result(char *text, tm_json_error *error)
{
    tm_json *doc = NULL;
    int rc = tm_json_parse(text, strlen(text), error, &doc);
    tm_json_free(doc);
    free(text);
    return rc;
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    tm_json_error error;
    char *ends = repeated("", "]", TM_JSON_TREE_DEPTH_MAX, "");
    assert_int_equal(parse_result(repeated("", "[", TM_JSON_TREE_DEPTH_MAX, ends), &error), 0);
    assert_int_equal(parse_result(repeated("[", "[", TM_JSON_TREE_DEPTH_MAX, ends), &error),
                     -EFBIG);
    assert_string_equal(error.words, "more than 127 levels of nesting");
    assert_int_equal(error.line, 0);
    /* Brackets in strings nest nothing; an escaped quote does not end one. */
    assert_int_equal(parse_result(repeated("\"\\\"", "[", 1000, "\\\\\""), &error), 0);
    free(ends);
}

static void the_number_of_values_is_bounded(void **state)
{
    (void)state;
    tm_json_error error;
    /* The list, and N + 1 numbers in it. */
    size_t n = TM_JSON_VALUES_MAX - 2;
    assert_int_equal(parse_result(repeated("[1", ",1", n, "]"), &error), 0);
    assert_int_equal(parse_result(repeated("[1", ",1", n + 1, "]"), &error), -EFBIG);
    assert_string_equal(error.words, "more than 1000000 values");
    n = TM_JSON_CONTAINERS_MAX - 2;
    assert_int_equal(parse_result(repeated("[[]", ",[]", n, "]"), &error), 0);
    assert_int_equal(parse_result(repeated("[{}", ",{}", n + 1, "]"), &error), -EFBIG);
    assert_string_equal(error.words, "more than 250000 objects and arrays");
}

static void the_number_of_bytes_is_bounded(void **state)
{
    (void)state;
    tm_json_error error;
    assert_int_equal(parse_result(repeated("1", " ", TM_JSON_BYTES_MAX - 1, ""), &error), 0);
    assert_int_equal(parse_result(repeated("1", " ", TM_JSON_BYTES_MAX, ""), &error), -EFBIG);
    assert_string_equal(error.words, "more than 16777216 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_is_followed_through_objects_and_lists),
        cmocka_unit_test(what_is_not_there_or_of_another_kind_answers_nothing),
        cmocka_unit_test(members_come_in_the_order_of_the_text),
        cmocka_unit_test(each_kind_has_words),
        cmocka_unit_test(any_value_may_stand_outermost),
        cmocka_unit_test(malformed_text_is_refused_with_its_place),
        cmocka_unit_test(text_without_a_value_is_refused),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(the_number_of_values_is_bounded),
        cmocka_unit_test(the_number_of_bytes_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
