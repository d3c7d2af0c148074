/* Patterns: what they cover, by character, and how long that takes at worst. */
#include "core/glob.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

static const struct {
    const char *pattern, *text;
    bool covers;
} rows[] = {
    {"", "", true},
    {"", "a", false},
    {"a", "", false},
    {"a", "a", true},
    {"a", "b", false},
    {"a", "A", false},
    {"a", "ab", false},
    {"ab", "a", false},
    {"*", "", true},
    {"*", "a.b/c", true},
    {"**", "", true},
    {"a*", "a", true},
    {"*a", "a", true},
    {"a*b", "ab", true},
    {"a*b", "axxb", true},
    {"a*b", "axxbc", false},
    {"*ab", "aab", true},
    {"*ab*", "xaabx", true},
    {"*.mlp.*", "layers.3.mlp.up_proj.weight", true},
    {"*.mlp.*", "layers.3.attn.up_proj.weight", false},
    {"*.mlp.*", "mlp.up", false},
    {"*.weight", "a.weight.weight", true},
    {"*a*b*c*", "abcabc", true},
    {"*a*b*c", "abcab", false},
    {"layers.?.*", "layers.3.a", true},
    {"layers.?.*", "layers.33.a", false},
    {"?", "", false},
    {"??", "a", false},
    {"*?", "", false},
    {"*?", "a", true},
    {"?*?", "a", false},
    /* Other shells' notations stand for themselves. */
    {"[ab]", "a", false},
    {"[ab]", "[ab]", true},
    {"\\*", "\\x", true},
    {"{a,b}", "a", false},
    /* A character of several bytes is one, and never cut; a stray byte is one as well. */
    {"?", "\xc3\xa9", true},
    {"??", "\xc3\xa9", false},
    {"*??", "\xc3\xa9", false},
    {"*??", "\xe6\x97\xa5", false},
    {"*??", "x\xe6\x97\xa5", true},
    {"?", "\xe9", true},
    {"??", "\xe6\x97", true},
    {"?", "\xf0\x9f\xa6\x99", true},
    {"caf\xc3\xa9*", "caf\xc3\xa9.weight", true},
    {"*\xe9*", "a\xe9z", true},
};

static void patterns_cover_whole_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        const char *pattern = rows[i].pattern, *text = rows[i].text;
        if (tm_glob_match(pattern, strlen(pattern), text, strlen(text)) != rows[i].covers)
            fail_msg("'%s' and '%s'", pattern, text);
    }
}

static void a_nul_is_a_byte_like_others(void **state)
{
    (void)state;
    assert_true(tm_glob_match("a?b", 3, "a\0b", 3));
    assert_true(tm_glob_match("a\0b", 3, "a\0b", 3));
    assert_false(tm_glob_match("a\0b", 3, "a\0c", 3));
    assert_false(tm_glob_match("a", 1, "a\0", 2));
}

/* Would take longer than the sun lasts if every star were tried at every place. */
static void many_stars_take_no_exponential_time(void **state)
{
    (void)state;
    char pattern[201], text[2000];
    for (size_t i = 0; i < 200; i += 2)
        memcpy(pattern + i, "*a", 2);
    pattern[200] = 'b';
    memset(text, 'a', sizeof(text));
    assert_false(tm_glob_match(pattern, sizeof(pattern), text, sizeof(text)));
    text[sizeof(text) - 1] = 'b';
    assert_true(tm_glob_match(pattern, sizeof(pattern), text, sizeof(text)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_cover_whole_texts),
        cmocka_unit_test(a_nul_is_a_byte_like_others),
        cmocka_unit_test(many_stars_take_no_exponential_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
