/* Sizes as people write them. */
#include "core/units.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static void sizes_are_read_with_their_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t size;
    } rows[] = {
        {"0", 0},
        {"512", 512},
        {"512B", 512},
        {"64K", 65536},
        {"64k", 65536},
        {"64KiB", 65536},
        {"64KB", 64000},
        {"64kb", 64000},
        {"1M", 1 << 20},
        {"1MB", 1000000},
        {"8G", UINT64_C(8) << 30},
        {"10GB", UINT64_C(10000000000)},
        {"2T", UINT64_C(2) << 40},
        {"1.5G", UINT64_C(3) << 29},
        {"0.000001T", 1099511},
        {"1.5", 1},
        {"1.G", UINT64_C(1) << 30},
        {"007K", 7168},
        {"8388607T", UINT64_C(8388607) << 40},
        {"9223372036854775807", INT64_MAX},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        uint64_t size = 1;
        assert_int_equal(tm_size_parse(rows[i].text, &size), 0);
        assert_int_equal(size, rows[i].size);
    }
}

static void what_is_no_size_is_refused(void **state)
{
    (void)state;
    static const char *const none[] = {"",    " 1",   "1 ",  "-1",   "+1",  "x",     "K",
                                       "1X",  "1G ",  "1GG", "1iB",  "1Ki", "1KiBB", "1.0000001",
                                       ".5G", "0x10", "1e9", "1,5G", "inf", "1.5.5"};
    static const char *const large[] = {"9223372036854775808", "18446744073709551616", "8388608T",
                                        "99999999999999999999999T", "18446744073709551615K"};
    uint64_t size = 7;
    for (size_t i = 0; i < TM_ARRAY_LEN(none); i++)
        assert_int_equal(tm_size_parse(none[i], &size), -EINVAL);
    for (size_t i = 0; i < TM_ARRAY_LEN(large); i++)
        assert_int_equal(tm_size_parse(large[i], &size), -ERANGE);
    assert_int_equal(size, 7);
}

static void sizes_are_written_for_people(void **state)
{
    (void)state;
    static const struct {
        uint64_t size;
        const char *text;
    } rows[] = {
        {0, "0 B"},         {999, "999 B"},           {1000, "1.0 kB"},
        {99949, "99.9 kB"}, {99950, "100 kB"},        {999499, "999 kB"},
        {999500, "1.0 MB"}, {15200000000, "15.2 GB"}, {UINT64_MAX, "18.4 EB"},
    };
    char text[TM_SIZE_TEXT_MAX];
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++)
        assert_string_equal(tm_size_text(rows[i].size, text), rows[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_read_with_their_units),
        cmocka_unit_test(what_is_no_size_is_refused),
        cmocka_unit_test(sizes_are_written_for_people),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
