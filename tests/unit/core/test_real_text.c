/* Numbers as text: what printf makes of them, to the last digit. */
#include "core/real_text.h"
#include "tests/unit/core/engine.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

static void expect_same(double value)
{
    char wanted[64], got[TM_REAL_TEXT_MAX];
    int len = snprintf(wanted, sizeof(wanted), "%.9g", value);
    memset(got, 'x', sizeof(got));
    size_t n = tm_real_text(value, got);
    if (n != (size_t)len || strcmp(got, wanted) != 0)
        fail_msg("%a: %s, wanted %s", value, got, wanted);
}

static void expect_around(double value)
{
    static const double signs[] = {1, -1};
    for (int i = 0; i < 2; i++) {
        expect_same(signs[i] * value);
        expect_same(signs[i] * nextafter(value, INFINITY));
        expect_same(signs[i] * nextafter(value, 0));
    }
}

static void what_is_special_is_as_printf_has_it(void **state)
{
    (void)state;
    static const double values[] = {
        0.0, -0.0, INFINITY, -INFINITY,          DBL_MIN, DBL_MAX, DBL_TRUE_MIN, 1.0,
        0.1, 1e22, 1e23,     9007199254740993.0, 0.5,     0.3};
    for (size_t i = 0; i < TM_ARRAY_LEN(values); i++)
        expect_around(values[i]);
    expect_same(NAN);
}

/* Powers of ten and of two, where the exponent and the form change, and what rounds up to them. */
static void edges_are_right(void **state)
{
    (void)state;
    for (int x = -30; x <= 40; x++) {
        char text[32];
        static const char *const forms[] = {
            "1e%d",           "9.99999999e%d", "9.999999995e%d", "9.9999999949999999e%d",
            "1.000000005e%d", "1.23456789e%d", "1.234567885e%d", "5e%d"};
        for (size_t i = 0; i < TM_ARRAY_LEN(forms); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(text, sizeof(text), forms[i], x);
#pragma GCC diagnostic pop
            expect_around(strtod(text, NULL));
        }
    }
    for (int e = -1074; e < 1024; e++)
        expect_around(ldexp(1.0, e));
}

/* Exactly between two of 9 digits: the even one. */
static void ties_go_to_even(void **state)
{
    (void)state;
    for (uint64_t n = 100000000; n < 100001000; n++) {
        expect_around((double)n + 0.5);
        expect_around(((double)n + 0.5) * 1024);
        expect_around(((double)n * 10 + 5) * 1e6);
        expect_around((double)n / 512);
    }
}

static void any_number_is_right(void **state)
{
    (void)state;
    uint64_t seed = 9;
    for (int i = 0; i < 400000; i++) {
        uint64_t bits = next_random(&seed) << 33 ^ next_random(&seed) << 10 ^ next_random(&seed);
        double value;
        float narrow;
        uint32_t half = (uint32_t)bits << 16, whole = (uint32_t)bits;
        memcpy(&value, &bits, sizeof(value));
        if (!isnan(value))
            expect_same(value);
        bits = (bits & ~(UINT64_C(0x7ff) << 52)) | (UINT64_C(980) + bits % 90) << 52;
        memcpy(&value, &bits, sizeof(value)); /* the sizes that weights have */
        expect_same(value);
        memcpy(&narrow, &whole, sizeof(narrow));
        if (!isnan(narrow))
            expect_same((double)narrow);
        memcpy(&narrow, &half, sizeof(narrow));
        if (!isnan(narrow))
            expect_same((double)narrow);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_special_is_as_printf_has_it),
        cmocka_unit_test(edges_are_right),
        cmocka_unit_test(ties_go_to_even),
        cmocka_unit_test(any_number_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
