/* Our logarithm: exact at powers of two, near libm's elsewhere, the same bits for ever. */
#include "core/log2.h"

#include <math.h>
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static void powers_of_two_are_exact(void **state)
{
    (void)state;
    for (int i = 0; i < 64; i++)
        assert_true(tm_log2_u64(1ull << i) == i);
    assert_true(tm_log2_u64(UINT64_MAX) == 64);
}

static void other_numbers_are_within_two_units(void **state)
{
    (void)state;
    uint64_t n = 1;
    for (int i = 0; i < 200000; i++) {
        n = n * 6364136223846793005u + 1442695040888963407u;
        uint64_t value = (n >> (i % 64)) | 1;
        double want = log2((double)value), got = tm_log2_u64(value);
        if (fabs(got - want) > 2 * (nextafter(want, INFINITY) - want))
            fail_msg("log2(%llu) is %a, not %a", (unsigned long long)value, got, want);
    }
}

static void its_bits_are_fixed(void **state)
{
    (void)state;
    static const struct {
        uint64_t n;
        double log;
    } cases[] = {{3, 0x1.95c01a39fbd69p+0}, {10, 0x1.a934f0979a371p+1}};
    for (size_t i = 0; i < TM_ARRAY_LEN(cases); i++)
        if (tm_log2_u64(cases[i].n) != cases[i].log)
            fail_msg("log2(%d) is %a", (int)cases[i].n, tm_log2_u64(cases[i].n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(powers_of_two_are_exact),
        cmocka_unit_test(other_numbers_are_within_two_units),
        cmocka_unit_test(its_bits_are_fixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
