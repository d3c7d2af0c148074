/* String pairs, and the lines of a diagnosis. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "core/diag.h"
#include "core/metadata.h"

static void test_pairs_keep_their_order_and_bytes(void **state)
{
    (void)state;
    tm_metadata m;
    tm_metadata_init(&m);
    char key[] = "k";
    assert_int_equal(tm_metadata_add(&m, key, 1, "v\0w", 3), 0);
    key[0] = 'x'; /* the pair is a copy */
    assert_int_equal(tm_metadata_add(&m, "", 0, "", 0), 0);
    assert_int_equal(m.count, 2);
    assert_string_equal(m.pairs[0].key, "k");
    assert_int_equal(m.pairs[0].key_len, 1);
    assert_int_equal(m.pairs[0].value_len, 3);
    assert_memory_equal(m.pairs[0].value, "v\0w", 4);
    assert_int_equal(m.pairs[1].key_len, 0);
    assert_string_equal(m.pairs[1].value, "");
    tm_metadata_done(&m);
    tm_metadata_done(&m);
}

static void test_a_key_is_found_whole(void **state)
{
    (void)state;
    tm_metadata m;
    tm_metadata_init(&m);
    assert_null(tm_metadata_find(&m, "format"));
    assert_int_equal(tm_metadata_add(&m, "form\0at", 7, "no", 2), 0);
    assert_int_equal(tm_metadata_add(&m, "format", 6, "pt", 2), 0);
    assert_int_equal(tm_metadata_add(&m, "format", 6, "np", 2), 0);
    assert_string_equal(tm_metadata_find(&m, "format"), "pt");
    assert_null(tm_metadata_find(&m, "form"));
    assert_null(tm_metadata_find(&m, "formats"));
    tm_metadata_done(&m);
}

static void test_many_pairs_are_kept_and_truncated(void **state)
{
    (void)state;
    tm_metadata m;
    tm_metadata_init(&m);
    for (size_t i = 0; i < 100; i++) {
        char key = (char)i;
        assert_int_equal(tm_metadata_add(&m, &key, 1, "v", 1), 0);
    }
    tm_metadata_truncate(&m, 200);
    assert_int_equal(m.count, 100);
    tm_metadata_truncate(&m, 40);
    assert_int_equal(m.count, 40);
    for (size_t i = 0; i < 40; i++)
        assert_int_equal(m.pairs[i].key[0], i);
    tm_metadata_done(&m);
}

static void test_damage_is_remembered_and_a_warning_is_none(void **state)
{
    (void)state;
    tm_diag d;
    tm_diag_init(&d);
    tm_diag_add(&d, TM_WARNING, "%s: %d", "f", 1);
    assert_false(d.damaged);
    tm_diag_add(&d, TM_DAMAGE, "%s: %d", "f", 2);
    assert_true(d.damaged);
    tm_diag_add(&d, TM_WARNING, "last");
    assert_true(d.damaged);
    assert_int_equal(d.count, 3);
    assert_int_equal(d.lines[0].severity, TM_WARNING);
    assert_string_equal(d.lines[0].words, "f: 1");
    assert_int_equal(d.lines[1].severity, TM_DAMAGE);
    assert_string_equal(d.lines[1].words, "f: 2");
    assert_int_equal(d.dropped, 0);
    tm_diag_done(&d);
    assert_int_equal(d.count, 0);
}

static void test_a_line_is_one_line(void **state)
{
    (void)state;
    tm_diag d;
    tm_diag_init(&d);
    tm_diag_add(&d, TM_WARNING, "a\nb\tc\x7f 5%% \xc3\xa9");
    assert_string_equal(d.lines[0].words, "a%0Ab%09c%7F 5% \xc3\xa9");
    tm_diag_done(&d);
}

static void test_a_very_long_line_is_cut_at_a_whole_character(void **state)
{
    (void)state;
    static const char e_acute[] = "\xc3\xa9";
    char text[5001];
    for (size_t lead = 0; lead < 2; lead++) {
        tm_diag d;
        tm_diag_init(&d);
        memset(text, 'x', lead);
        for (size_t i = lead; i + 1 < sizeof(text) - 1; i += 2)
            memcpy(text + i, e_acute, 2);
        text[sizeof(text) - 3] = '\0';
        tm_diag_add(&d, TM_WARNING, "%s", text);
        const char *words = d.lines[0].words;
        size_t len = strlen(words);
        assert_true(len > 2000 && len < 2048);
        assert_string_equal(words + len - 3, "…");
        assert_memory_equal(words + len - 5, e_acute, 2);
        tm_diag_done(&d);
    }
}

static void test_lines_past_the_limit_are_counted_and_still_damage(void **state)
{
    (void)state;
    tm_diag d;
    tm_diag_init(&d);
    for (int i = 0; i < TM_DIAG_LINES_MAX; i++)
        tm_diag_add(&d, TM_WARNING, "%d", i);
    assert_int_equal(d.dropped, 0);
    tm_diag_add(&d, TM_DAMAGE, "one too many");
    assert_int_equal(d.count, TM_DIAG_LINES_MAX);
    assert_int_equal(d.dropped, 1);
    assert_true(d.damaged);
    assert_string_equal(d.lines[TM_DIAG_LINES_MAX - 1].words, "999");
    tm_diag_done(&d);
}

static void test_names_in_words_are_escaped_and_shortened(void **state)
{
    (void)state;
    char ret[TM_WORDS_NAME_MAX], name[3000];
    assert_string_equal(tm_words_name("a.b", 3, ret), "a.b");
    assert_string_equal(tm_words_name("", 0, ret), "");
    assert_string_equal(tm_words_name("a\0\n\x1f\x7f%\xff", 7, ret), "a%00%0A%1F%7F%\xff");
    memset(name, 'm', sizeof(name));
    memcpy(name, "first", 5);
    memcpy(name + sizeof(name) - 4, "last", 4);
    tm_words_name(name, sizeof(name), ret);
    assert_int_equal(strlen(ret), 72 + 3 + 40);
    assert_memory_equal(ret, "first", 5);
    assert_memory_equal(ret + 72, "…", 3);
    assert_string_equal(ret + strlen(ret) - 4, "last");
    memset(name, '\n', sizeof(name));
    assert_int_equal(strlen(tm_words_name(name, sizeof(name), ret)), (72 + 40) * 3 + 3);
    assert_int_equal(strlen(tm_words_name(name, 112, ret)), 112 * 3);
}

static void test_a_name_is_shortened_at_whole_characters(void **state)
{
    (void)state;
    char ret[TM_WORDS_NAME_MAX], name[4 * 100 + 6];
    for (size_t lead = 0; lead < 4; lead++) {
        memset(name, 'x', lead);
        for (size_t i = 0; i < 100; i++)
            memcpy(name + lead + 4 * i, "\xf0\x9f\x98\x80", 4);
        memset(name + lead + 400, 'y', lead); /* so that the tail begins within a character */
        tm_words_name(name, 2 * lead + 400, ret);
        const char *cut = strstr(ret, "…");
        assert_non_null(cut);
        assert_int_equal((size_t)(cut - ret) % 4, lead);
        assert_int_equal(strlen(cut + 3) % 4, lead);
        assert_memory_equal(cut + 3, "\xf0\x9f\x98\x80", 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs_keep_their_order_and_bytes),
        cmocka_unit_test(test_a_key_is_found_whole),
        cmocka_unit_test(test_many_pairs_are_kept_and_truncated),
        cmocka_unit_test(test_damage_is_remembered_and_a_warning_is_none),
        cmocka_unit_test(test_a_line_is_one_line),
        cmocka_unit_test(test_a_very_long_line_is_cut_at_a_whole_character),
        cmocka_unit_test(test_lines_past_the_limit_are_counted_and_still_damage),
        cmocka_unit_test(test_names_in_words_are_escaped_and_shortened),
        cmocka_unit_test(test_a_name_is_shortened_at_whole_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
