/* Text that grows, and JSON strings. */
#include "core/text.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static void appended_text_stands_in_order_and_ends_in_nul(void **state)
{
    (void)state;
    tm_text t;
    tm_text_init(&t);
    assert_null(t.bytes);
    tm_text_puts(&t, "a");
    tm_text_append(&t, "b\0c", 3);
    tm_text_pad(&t, 2);
    tm_text_printf(&t, "%d%s", 7, "x");
    assert_int_equal(t.len, 8);
    assert_memory_equal(t.bytes, "ab\0c  7x", 9);
    assert_int_equal(tm_text_error(&t), 0);
    tm_text_done(&t);
    assert_null(t.bytes);
}

static void text_of_any_length_is_formatted_whole(void **state)
{
    (void)state;
    /* Around the first allocation and the growth after it, and far beyond both. */
    static const size_t lens[] = {0, 1, 254, 255, 256, 257, 383, 384, 385, 100000};
    for (size_t i = 0; i < TM_ARRAY_LEN(lens); i++) {
        tm_text t;
        tm_text_init(&t);
        tm_text_printf(&t, "%*s|", (int)lens[i], "");
        tm_text_printf(&t, "%*s|", (int)lens[i], "");
        assert_int_equal(t.len, 2 * lens[i] + 2);
        assert_int_equal(t.bytes[lens[i]], '|');
        assert_int_equal(t.bytes[t.len - 1], '|');
        assert_int_equal(strlen(t.bytes), t.len);
        tm_text_done(&t);
    }
}

static void a_character_has_the_length_that_its_bytes_say(void **state)
{
    (void)state;
    assert_int_equal(tm_utf8_len("a", 1), 1);
    assert_int_equal(tm_utf8_len("", 1), 1); /* its NUL */
    assert_int_equal(tm_utf8_len("\xc3\xa9", 2), 2);
    assert_int_equal(tm_utf8_len("\xf0\x9f\xa6\x99", 4), 4);
    assert_int_equal(tm_utf8_len("\xf0\x9f\xa6\x99", 3), 0);
    assert_int_equal(tm_utf8_len("\xa9", 1), 0);
    assert_int_equal(tm_utf8_len("a", 0), 0);
}

static void stolen_text_leaves_an_empty_one(void **state)
{
    (void)state;
    tm_text t;
    char *bytes;
    size_t len;
    tm_text_init(&t);
    tm_text_puts(&t, "words");
    assert_int_equal(tm_text_steal(&t, &bytes, &len), 0);
    assert_int_equal(len, 5);
    assert_string_equal(bytes, "words");
    free(bytes);
    assert_int_equal(tm_text_steal(&t, &bytes, &len), 0);
    assert_int_equal(len, 0);
    assert_string_equal(bytes, "");
    free(bytes);
}

static void cleared_text_begins_again(void **state)
{
    (void)state;
    tm_text t;
    tm_text_init(&t);
    tm_text_clear(&t);
    tm_text_puts(&t, "one");
    tm_text_clear(&t);
    assert_int_equal(t.len, 0);
    assert_string_equal(t.bytes, "");
    tm_text_puts(&t, "two");
    assert_string_equal(t.bytes, "two");
    tm_text_done(&t);
}

static void a_text_over_the_limit_fails_and_stays_failed(void **state)
{
    (void)state;
    tm_text t;
    char *bytes = NULL;
    size_t len;
    tm_text_init(&t);
    tm_text_puts(&t, "kept");
    tm_text_pad(&t, TM_TEXT_MAX - 3);
    assert_int_equal(tm_text_error(&t), -EFBIG);
    tm_text_puts(&t, "more");
    tm_text_printf(&t, "%d", 1);
    tm_text_json_string(&t, "x", 1);
    tm_text_pad(&t, SIZE_MAX);
    assert_string_equal(t.bytes, "kept");
    assert_int_equal(tm_text_steal(&t, &bytes, &len), -EFBIG);
    assert_null(bytes);
    tm_text_done(&t);
}

#define FFFD "\xef\xbf\xbd"

static const struct {
    const char *from;
    size_t len;
    const char *json;
} strings[] = {
    {"", 0, "\"\""},
    {"plain", 5, "\"plain\""},
    {"say \"\\\"", 7, "\"say \\\"\\\\\\\"\""},
    {"\b\f\n\r\t/", 6, "\"\\b\\f\\n\\r\\t/\""},
    {"\0\x01\x1f\x7f", 4, "\"\\u0000\\u0001\\u001f\\u007f\""},
    {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 9, "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\""},
    /* The limits of well-formed sequences, from Unicode's table 3-7. */
    {"\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80", 13,
     "\"\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\""},
    {"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8, "\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\""},
    /* Each byte that is no part of one becomes one U+FFFD: overlong, surrogate, cut, too high. */
    {"\xff", 1, "\"" FFFD "\""},
    {"a\x80z", 3, "\"a" FFFD "z\""},
    {"\xc0\x80", 2, "\"" FFFD FFFD "\""},
    {"\xe0\x9f\xbf", 3, "\"" FFFD FFFD FFFD "\""},
    {"\xed\xa0\x80", 3, "\"" FFFD FFFD FFFD "\""},
    {"\xf0\x8f\xbf\xbf", 4, "\"" FFFD FFFD FFFD FFFD "\""},
    {"\xf4\x90\x80\x80", 4, "\"" FFFD FFFD FFFD FFFD "\""},
    {"\xf5\x80\x80\x80", 4, "\"" FFFD FFFD FFFD FFFD "\""},
    {"\xe2\x82", 2, "\"" FFFD FFFD "\""},
    {"\xe2\x82\"", 3, "\"" FFFD FFFD "\\\"\""},
    {"\xf0\x9f\x98"
     "ab",
     5, "\"" FFFD FFFD FFFD "ab\""},
};

static void a_json_string_escapes_what_json_or_utf8_forbids(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(strings); i++) {
        tm_text t;
        tm_text_init(&t);
        /* Of exactly its bytes, so that a read past them is seen. */
        char *exact = malloc(strings[i].len + 1);
        assert_non_null(exact);
        memcpy(exact, strings[i].from, strings[i].len);
        exact = realloc(exact, strings[i].len ? strings[i].len : 1);
        tm_text_json_string(&t, exact, strings[i].len);
        assert_string_equal(t.bytes, strings[i].json);
        free(exact);
        tm_text_done(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appended_text_stands_in_order_and_ends_in_nul),
        cmocka_unit_test(text_of_any_length_is_formatted_whole),
        cmocka_unit_test(a_character_has_the_length_that_its_bytes_say),
        cmocka_unit_test(stolen_text_leaves_an_empty_one),
        cmocka_unit_test(cleared_text_begins_again),
        cmocka_unit_test(a_text_over_the_limit_fails_and_stays_failed),
        cmocka_unit_test(a_json_string_escapes_what_json_or_utf8_forbids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
