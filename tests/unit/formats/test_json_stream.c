/* The JSON tokenizer: every text is fed whole, byte by byte, and cut in two at every place. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>

#include "formats/json_stream.h"

/* What the callback saw, as text: kind, depth, '@' and offset, '(' text ')'. */
typedef struct transcript {
    char text[4096];
    size_t len;
    int stop_after; /* events until the callback fails with ECANCELED; 0: never */
} transcript;

static int on_event(void *ctx, const tm_json_event *event)
{
    transcript *t = ctx;
    char *to = t->text + t->len;
    size_t room = sizeof(t->text) - t->len;
    int n = snprintf(to, room, "%s%c%u@%d", t->len ? " " : "", "{}[]KSNtf0"[event->kind],
                     event -> depth, (int)event -> offset);
    assert_true(n > 0 && (size_t)n + event->len + 3 < room);
    if (event->text) {
        to[n++] = '(';
        memcpy(to + n, event->text, event->len);
        n += (int)event->len;
        to[n++] = ')';
        to[n] = '\0';
    }
    t->len += (size_t)n;
    return t->stop_after && --t->stop_after == 0 ? -ECANCELED : 0;
}

typedef struct result {
    transcript t;
    int rc;
    const char *error;
    uint64_t error_offset;
} result;

/* Feeds a copy of each piece in memory of its exact size, so that a sanitizer sees an overrun. */
static int feed_copy(tm_json_stream *s, const char *text, size_t len)
{
    char *copy = malloc(len ? len : 1);
    assert_non_null(copy);
    memcpy(copy, text, len);
    int rc = tm_json_stream_feed(s, copy, len);
    free(copy);
    return rc;
}

enum {
    TEXT_MAX = 64
};

/* Cuts after CUT bytes, or after each byte where CUT is 0. */
static result parse(const char *text, size_t len, size_t cut)
{
    result r = {0};
    tm_json_stream s;
    tm_json_stream_init(&s, on_event, &r.t, TEXT_MAX);
    if (cut) {
        r.rc = feed_copy(&s, text, cut);
        if (r.rc == 0)
            r.rc = feed_copy(&s, text + cut, len - cut);
    }
    for (size_t i = 0; !cut && i < len && r.rc == 0; i++)
        r.rc = feed_copy(&s, text + i, 1);
    if (r.rc == 0)
        r.rc = tm_json_stream_finish(&s);
    else
        assert_int_equal(tm_json_stream_finish(&s), r.rc);
    r.error = s.error;
    r.error_offset = s.error_offset;
    tm_json_stream_done(&s);
    return r;
}

typedef struct text_case {
    const char *text;
    size_t len;
    const char *expected; /* the transcript, or what is wrong */
    int error_offset;     /* -1: nothing is */
} text_case;

#define GOOD(text, expected)                                                                       \
    {                                                                                              \
        text, sizeof(text) - 1, expected, -1                                                       \
    }
#define BAD(text, offset, expected)                                                                \
    {                                                                                              \
        text, sizeof(text) - 1, expected, offset                                                   \
    }

static void check(const text_case *c, size_t cut)
{
    result r = parse(c->text, c->len, cut);
    bool good = c->error_offset < 0;
    if (r.rc != (good ? 0 : -EBADMSG))
        fail_msg("%s cut at %zu: result %d (%s at %d)", c->text, cut, r.rc, r.error ? r.error : "-",
                 (int)r.error_offset);
    if (strcmp(good ? r.t.text : r.error, c->expected) != 0)
        fail_msg("%s cut at %zu: %s", c->text, cut, good ? r.t.text : r.error);
    if (!good && r.error_offset != (uint64_t)c->error_offset)
        fail_msg("%s cut at %zu: error at %d", c->text, cut, (int)r.error_offset);
}

static void check_all(const text_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t cut = 0; cut <= cases[i].len; cut++)
            check(&cases[i], cut);
    }
}

static void test_values_become_events(void **state)
{
    (void)state;
    static const text_case cases[] = {
        GOOD("{}", "{0@0 }0@1"),
        GOOD("[]", "[0@0 ]0@1"),
        GOOD(" \t\r\n[ ] \n", "[0@4 ]0@6"),
        GOOD("true", "t0@0"),
        GOOD("false", "f0@0"),
        GOOD("null", "00@0"),
        GOOD("\"\"", "S0@0()"),
        GOOD("\"abc\"", "S0@0(abc)"),
        GOOD("\" ab cd ef gh !#[]\"", "S0@0( ab cd ef gh !#[])"),
        GOOD("[1,2]", "[0@0 N1@1(1) N1@3(2) ]0@4"),
        GOOD("[{},[1]]", "[0@0 {1@1 }1@2 [1@4 N2@5(1) ]1@6 ]0@7"),
        GOOD("[[],[[]],{}]", "[0@0 [1@1 ]1@2 [1@4 [2@5 ]2@6 ]1@7 {1@9 }1@10 ]0@11"),
        GOOD("{\"a\":1,\"b\":[null,true]}",
             "{0@0 K1@1(a) N1@5(1) K1@7(b) [1@11 02@12 t2@17 ]1@21 }0@22"),
        GOOD("{ \"a\" : { \"b\" : \"c\" } }", "{0@0 K1@2(a) {1@8 K2@10(b) S2@16(c) }1@20 }0@22"),
        GOOD("{\"a\":1,\"a\":2}", "{0@0 K1@1(a) N1@5(1) K1@7(a) N1@11(2) }0@12"),
    };
    check_all(cases, TM_ARRAY_LEN(cases));
}

static void test_numbers_stay_text(void **state)
{
    (void)state;
    static const text_case cases[] = {
        GOOD("0", "N0@0(0)"),
        GOOD("-0", "N0@0(-0)"),
        GOOD("10", "N0@0(10)"),
        GOOD("1234567890123456789012345", "N0@0(1234567890123456789012345)"),
        GOOD("0.5", "N0@0(0.5)"),
        GOOD("-1.25e+10 ", "N0@0(-1.25e+10)"),
        GOOD("1E5", "N0@0(1E5)"),
        GOOD("1e-007", "N0@0(1e-007)"),
        GOOD("1e999", "N0@0(1e999)"),
        BAD("-", 1, "the text ends too early"),
        BAD("1.", 2, "the text ends too early"),
        BAD("1e", 2, "the text ends too early"),
        BAD("1e+", 3, "the text ends too early"),
        BAD("-]", 1, "a malformed number"),
        BAD("[1.]", 3, "a malformed number"),
        BAD("[1.e5]", 3, "a malformed number"),
        BAD("[1e]", 3, "a malformed number"),
        BAD("[-a]", 2, "a malformed number"),
        BAD("[01]", 2, "',' or ']' is expected"),
        BAD("[1.2.3]", 4, "',' or ']' is expected"),
        BAD("[1e5e5]", 4, "',' or ']' is expected"),
        BAD("[1-2]", 2, "',' or ']' is expected"),
        BAD("[+1]", 1, "a value is expected"),
        BAD("[.5]", 1, "a value is expected"),
        BAD("Infinity", 0, "a value is expected"),
    };
    check_all(cases, TM_ARRAY_LEN(cases));
}

static void test_escapes_become_utf8(void **state)
{
    (void)state;
    static const text_case cases[] = {
        GOOD("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "S0@0(\"\\/\b\f\n\r\t)"),
        GOOD("\"\\u0041\\u00e9\\u20AC\"", "S0@0(A\303\251\342\202\254)"),
        GOOD("\"\\u007f\\u0080\\u07ff\\u0800\\uffff\"",
             "S0@0(\177\302\200\337\277\340\240\200\357\277\277)"),
        GOOD("\"\\ud800\\udc00\\uDBFF\\uDFFF\"", "S0@0(\360\220\200\200\364\217\277\277)"),
        GOOD("\"x\\ud83d\\ude00y\"", "S0@0(x\360\237\230\200y)"),
        GOOD("{\"\\u0061\":1}", "{0@0 K1@1(a) N1@10(1) }0@11"),
        BAD("\"\\a\"", 2, "an unknown escape in a string"),
        BAD("\"\\\0\"", 2, "an unknown escape in a string"),
        BAD("\"\\U0041\"", 2, "an unknown escape in a string"),
        BAD("\"\\u004\"", 6, "an escape of fewer than four hex digits in a string"),
        BAD("\"\\u00g1\"", 5, "an escape of fewer than four hex digits in a string"),
        BAD("\"\\ud800\"", 7, "a lone surrogate in a string"),
        BAD("\"\\ud800x\"", 7, "a lone surrogate in a string"),
        BAD("\"\\ud800\\n\"", 8, "a lone surrogate in a string"),
        BAD("\"\\ud800\\u0041\"", 12, "a lone surrogate in a string"),
        BAD("\"\\ud800\\ud800\"", 12, "a lone surrogate in a string"),
        BAD("\"\\udc00\"", 6, "a lone surrogate in a string"),
        BAD("\"\\udc00\\ud800\"", 6, "a lone surrogate in a string"),
    };
    check_all(cases, TM_ARRAY_LEN(cases));
}

static void test_an_escaped_nul_is_a_byte_of_the_text(void **state)
{
    (void)state;
    result r = parse("\"a\\u0000b\"", 10, 0);
    assert_int_equal(r.rc, 0);
    assert_int_equal(r.t.len, 9);
    assert_memory_equal(r.t.text, "S0@0(a\0b)", 9);
}

static void test_only_utf8_is_accepted(void **state)
{
    (void)state;
    static const text_case cases[] = {
        GOOD("\"\302\200\337\277\"", "S0@0(\302\200\337\277)"),
        GOOD("\"\340\240\200\355\237\277\356\200\200\357\277\277\"",
             "S0@0(\340\240\200\355\237\277\356\200\200\357\277\277)"),
        GOOD("\"\360\220\200\200\364\217\277\277\"", "S0@0(\360\220\200\200\364\217\277\277)"),
        GOOD("\"12345678\303\25112345678\"", "S0@0(12345678\303\25112345678)"),
        BAD("\"\200\"", 1, "invalid UTF-8"),
        BAD("\"\300\200\"", 1, "invalid UTF-8"),
        BAD("\"\301\277\"", 1, "invalid UTF-8"),
        BAD("\"\302\"", 2, "invalid UTF-8"),
        BAD("\"\302a\"", 2, "invalid UTF-8"),
        BAD("\"\302\302\"", 2, "invalid UTF-8"),
        BAD("\"\340\237\277\"", 2, "invalid UTF-8"),
        BAD("\"\342\202\"", 3, "invalid UTF-8"),
        BAD("\"\355\240\200\"", 2, "invalid UTF-8"),
        BAD("\"\360\217\277\277\"", 2, "invalid UTF-8"),
        BAD("\"\364\220\200\200\"", 2, "invalid UTF-8"),
        BAD("\"\365\200\200\200\"", 1, "invalid UTF-8"),
        BAD("\"\377\"", 1, "invalid UTF-8"),
        BAD("\"\342\202\\u0041\"", 3, "invalid UTF-8"),
        BAD("\303\251", 0, "a value is expected"),
        BAD("\357\273\277{}", 0, "a byte order mark"),
    };
    check_all(cases, TM_ARRAY_LEN(cases));
}

static void test_plain_bytes_are_told_from_others_at_every_distance(void **state)
{
    (void)state;
    /* The scan goes by eight bytes: each special byte stands at each place of a block. */
    static const unsigned char ends[] = {0x00, 0x1f, '"', '\\', 0x80, 0xff};
    for (size_t at = 0; at < 20; at++) {
        for (size_t i = 0; i < TM_ARRAY_LEN(ends); i++) {
            char text[32];
            memset(text, 0x7f, sizeof(text));
            text[0] = '"';
            text[at + 1] = (char)ends[i];
            memcpy(text + at + 2, "n\"", 2);
            result r = parse(text, at + 4, at + 4);
            int expected = ends[i] == '\\' ? 0 : -EBADMSG;
            assert_int_equal(r.rc, expected);
            if (ends[i] == '\\')
                assert_int_equal(r.t.len, at + 7);
            else
                assert_int_equal(r.error_offset, ends[i] == '"' ? at + 2 : at + 1);
        }
    }
}

static void test_malformed_text_is_refused_at_its_byte(void **state)
{
    (void)state;
    static const text_case cases[] = {
        BAD("", 0, "the text ends too early"),
        BAD(" \n", 2, "the text ends too early"),
        BAD("[", 1, "the text ends too early"),
        BAD("{\"a\":1", 6, "the text ends too early"),
        BAD("{\"a\"", 4, "the text ends too early"),
        BAD("\"abc", 4, "the text ends too early"),
        BAD("\"abc\\", 5, "the text ends too early"),
        BAD("tru", 3, "the text ends too early"),
        BAD("tRue", 1, "a value is expected"),
        BAD("nulL", 3, "a value is expected"),
        BAD("truefalse", 4, "more text after the end of the value"),
        BAD("{} {}", 3, "more text after the end of the value"),
        BAD("1 2", 2, "more text after the end of the value"),
        BAD("[]\0", 2, "more text after the end of the value"),
        BAD("]", 0, "a value is expected"),
        BAD("[}", 1, "a value is expected"),
        BAD("[1}", 2, "',' or ']' is expected"),
        BAD("{]", 1, "a key or '}' is expected"),
        BAD("{\"a\":1]", 6, "',' or '}' is expected"),
        BAD("{\"a\":}", 5, "a value is expected"),
        BAD("{\"a\" 1}", 5, "':' is expected"),
        BAD("{\"a\",1}", 4, "':' is expected"),
        BAD("{1:2}", 1, "a key or '}' is expected"),
        BAD("{,}", 1, "a key or '}' is expected"),
        BAD("{\"a\":1,}", 7, "a key is expected"),
        BAD("[1,]", 3, "a value is expected"),
        BAD("[,1]", 1, "a value is expected"),
        BAD("[1 2]", 3, "',' or ']' is expected"),
        BAD("['a']", 1, "a value is expected"),
        BAD("[1]//x", 3, "more text after the end of the value"),
        BAD("[\f1]", 1, "a value is expected"),
        BAD("\"a\nb\"", 2, "a control byte in a string"),
        BAD("\"a\0b\"", 2, "a control byte in a string"),
        BAD("\"\x1f\"", 1, "a control byte in a string"),
    };
    check_all(cases, TM_ARRAY_LEN(cases));
}

static result parse_nested(size_t levels, bool objects)
{
    char text[2048];
    size_t len = 0;
    for (size_t i = 0; i < levels; i++)
        len += (size_t)snprintf(text + len, 8, "%s", !objects || i % 2 ? "[" : "{\"a\":");
    text[len++] = '1';
    for (size_t i = levels; i-- > 0;)
        text[len++] = !objects || i % 2 ? ']' : '}';
    return parse(text, len, len);
}

static void test_127_levels_are_accepted_and_128_are_not(void **state)
{
    (void)state;
    assert_int_equal(parse_nested(127, false).rc, 0);
    assert_int_equal(parse_nested(127, true).rc, 0);
    result r = parse_nested(128, false);
    assert_int_equal(r.rc, -EBADMSG);
    assert_string_equal(r.error, "nested deeper than 127 levels");
    assert_int_equal(r.error_offset, 127);
}

static void test_text_over_the_limit_is_refused(void **state)
{
    (void)state;
    char text[TEXT_MAX + 3];
    memset(text, 'a', sizeof(text));
    text[0] = text[TEXT_MAX + 1] = '"';
    for (size_t cut = 0; cut <= TEXT_MAX + 2; cut++)
        assert_int_equal(parse(text, TEXT_MAX + 2, cut).rc, 0);
    text[TEXT_MAX + 1] = 'a';
    text[TEXT_MAX + 2] = '"';
    for (size_t cut = 0; cut <= TEXT_MAX + 3; cut++) {
        result r = parse(text, TEXT_MAX + 3, cut);
        assert_int_equal(r.rc, -EBADMSG);
        assert_string_equal(r.error, "text longer than is supported");
        assert_int_equal(r.error_offset, 0);
    }
    memset(text, '1', sizeof(text));
    assert_int_equal(parse(text, TEXT_MAX, 0).rc, 0);
    assert_int_equal(parse(text, TEXT_MAX + 1, 0).rc, -EBADMSG);
}

static void test_a_callback_that_fails_ends_the_parse(void **state)
{
    (void)state;
    tm_json_stream s;
    transcript t = {.stop_after = 2};
    tm_json_stream_init(&s, on_event, &t, TEXT_MAX);
    assert_int_equal(tm_json_stream_feed(&s, "[1,2]", 5), -ECANCELED);
    assert_int_equal(tm_json_stream_feed(&s, "]", 1), -ECANCELED);
    assert_int_equal(tm_json_stream_finish(&s), -ECANCELED);
    assert_string_equal(t.text, "[0@0 N1@1(1)");
    assert_null(s.error);
    tm_json_stream_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_become_events),
        cmocka_unit_test(test_numbers_stay_text),
        cmocka_unit_test(test_escapes_become_utf8),
        cmocka_unit_test(test_an_escaped_nul_is_a_byte_of_the_text),
        cmocka_unit_test(test_only_utf8_is_accepted),
        cmocka_unit_test(test_plain_bytes_are_told_from_others_at_every_distance),
        cmocka_unit_test(test_malformed_text_is_refused_at_its_byte),
        cmocka_unit_test(test_127_levels_are_accepted_and_128_are_not),
        cmocka_unit_test(test_text_over_the_limit_is_refused),
        cmocka_unit_test(test_a_callback_that_fails_ends_the_parse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
