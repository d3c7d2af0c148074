/* Sums that lose nothing: against values that can be told, in any order, and as bytes. */
#include "core/exact_sum.h"

#include <math.h>
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Adds VALUE with its sign. */
static void add(tm_exact_sum *sum, double value)
{
    tm_exact_sum one = {{0}};
    tm_exact_sum_add_magnitude(&one, value, 1);
    if (value < 0)
        tm_exact_sum_subtract(sum, &one);
    else
        tm_exact_sum_merge(sum, &one);
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static void a_sum_is_rounded_once_to_nearest_even(void **state)
{
    (void)state;
    static const struct {
        double terms[5];
        double sum;
    } cases[] = {
        {{0}, 0},
        {{1, 0x1p-53}, 1},
        {{1, 0x1p-53, 0x1p-1074}, 0x1.0000000000001p0},
        {{1, 0x1p-52, 0x1p-53}, 0x1.0000000000002p0},
        {{-1, -0x1p-53, -0x1p-1074}, -0x1.0000000000001p0},
        {{1e308, 1, -1e308}, 1},
        {{0x1.fffffffffffffp1023, 0x1p970}, INFINITY},
        {{0x1.fffffffffffffp1023, 0x1p969}, 0x1.fffffffffffffp1023},
        {{0x1.fffffffffffffp1023, 0x1.fffffffffffffp1023, -0x1.fffffffffffffp1023, -1, 1},
         0x1.fffffffffffffp1023},
        {{0x1p-1074, 0x1p-1074}, 0x1p-1073},
        {{0x1p-1022, -0x1p-1074}, 0x1.ffffffffffffep-1023},
        {{0x1p-1074, -0x1p-1074}, 0},
        {{3, -5}, -2},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(cases); i++) {
        tm_exact_sum sum = {{0}};
        for (size_t k = 0; k < TM_ARRAY_LEN(cases[i].terms); k++)
            add(&sum, cases[i].terms[k]);
        if (bits_of(tm_exact_sum_to_double(&sum)) != bits_of(cases[i].sum))
            fail_msg("case %zu is %a, not %a", i, tm_exact_sum_to_double(&sum), cases[i].sum);
    }
}

static void every_double_comes_back_as_itself(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = next_random(&seed);
        double value;
        memcpy(&value, &bits, sizeof(value));
        tm_exact_sum sum = {{0}};
        if (!isfinite(value) || value == 0)
            continue;
        add(&sum, value);
        assert_int_equal(bits_of(tm_exact_sum_to_double(&sum)), bits);
        assert_int_equal(tm_exact_sum_is_negative(&sum), value < 0);
    }
}

static void half_a_subnormal_rounds_to_even_and_more_rounds_up(void **state)
{
    (void)state;
    tm_exact_sum sum = {{0}};
    tm_exact_sum_add(&sum, 1, -1075);
    assert_true(tm_exact_sum_to_double(&sum) == 0);
    tm_exact_sum_add(&sum, 1, -2148);
    assert_true(tm_exact_sum_to_double(&sum) == 0x1p-1074);
    tm_exact_sum least = {{0}};
    tm_exact_sum_add(&least, 1, -1076);
    assert_true(tm_exact_sum_to_double(&least) == 0);
}

static void a_count_times_a_value_or_square_is_that_many_additions(void **state)
{
    (void)state;
    static const double values[] = {0, 1, 0.1, 0x1p-1074, 0x1.fffffffffffffp1023, 3e-200};
    for (size_t i = 0; i < TM_ARRAY_LEN(values); i++) {
        tm_exact_sum once = {{0}}, often = {{0}};
        for (int k = 0; k < 1000; k++) {
            tm_exact_sum_add_magnitude(&often, values[i], 1);
            tm_exact_sum_add_square(&often, values[i], 1);
        }
        tm_exact_sum_add_magnitude(&once, -values[i], 1000);
        tm_exact_sum_add_square(&once, -values[i], 1000);
        assert_memory_equal(&once, &often, sizeof(once));
    }
    tm_exact_sum most = {{0}};
    tm_exact_sum_add_square(&most, 0x1.fffffffffffffp1023, UINT64_MAX);
    assert_false(tm_exact_sum_is_negative(&most));
    assert_int_equal(most.word[TM_EXACT_WORDS - 1], 0);
}

static void any_order_gives_the_same_words(void **state)
{
    (void)state;
    enum {
        N = 500
    };
    double values[N];
    uint64_t seed = 99;
    tm_exact_sum first = {{0}};
    for (size_t i = 0; i < N; i++) {
        uint64_t bits = next_random(&seed);
        memcpy(&values[i], &bits, sizeof(bits));
        values[i] = isfinite(values[i]) ? values[i] : 1;
        add(&first, values[i]);
    }
    for (int round = 0; round < 20; round++) {
        tm_exact_sum parts[2] = {{{0}}, {{0}}};
        for (size_t i = N; i-- > 0;) {
            size_t other = next_random(&seed) % (i + 1);
            double swap = values[i];
            values[i] = values[other];
            values[other] = swap;
            add(&parts[next_random(&seed) % 2], values[i]);
        }
        tm_exact_sum_merge(&parts[0], &parts[1]);
        assert_memory_equal(&parts[0], &first, sizeof(first));
    }
}

static void stored_bytes_are_few_and_read_back(void **state)
{
    (void)state;
    static const struct {
        double value;
        size_t bytes;
    } cases[] = {{0, 8},          {1, 16},          {-1, 16},          {0x1p62, 16},
                 {0x1p63, 24},    {-0x1p63, 16},    {-0x1p64, 16},     {1.5, 24},
                 {-1.5, 24},      {0x1p-1074, 16},  {-0x1p-1074, 16},  {1e308, 24},
                 {0x1p-1000, 16}, {-0x1p-1000, 16}, {0x1.8p-1024, 24}, {0.1, 16}};
    for (size_t i = 0; i < TM_ARRAY_LEN(cases); i++) {
        tm_exact_sum sum = {{0}}, back;
        uint8_t bytes[TM_EXACT_BYTES_MAX];
        size_t used;
        add(&sum, cases[i].value);
        size_t n = tm_exact_sum_store(&sum, bytes);
        assert_int_equal(tm_exact_sum_load(bytes, n, &back, &used), 0);
        assert_int_equal(used, n);
        assert_memory_equal(&back, &sum, sizeof(sum));
        for (size_t shorter = 0; shorter < n; shorter++)
            assert_int_equal(tm_exact_sum_load(bytes, shorter, &back, &used), -EBADMSG);
        if (n > cases[i].bytes)
            fail_msg("%a takes %zu bytes", cases[i].value, n);
    }
}

static void bytes_that_are_not_ours_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint16_t head[4];
        uint64_t words[2];
    } cases[] = {
        {{34, 2, 0, 0}, {1, 0}},                   /* a word that says nothing */
        {{34, 2, 0, 0}, {0, 1}},                   /* the first is 0 */
        {{34, 2, 0, 0}, {1ull << 63, UINT64_MAX}}, /* a sign that is there already */
        {{34, 1, 1, 0}, {1, 0}},                   /* not 0 where 0 must be */
        {{67, 2, 0, 0}, {1, 1}},                   /* past the end */
        {{65535, 65535, 0, 0}, {1, 1}},
        {{3, 0, 0, 0}, {0, 0}}, /* nothing, but somewhere */
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(cases); i++) {
        uint8_t bytes[sizeof(cases[i].head) + sizeof(cases[i].words)];
        tm_exact_sum sum;
        size_t used;
        memcpy(bytes, cases[i].head, sizeof(cases[i].head));
        memcpy(bytes + sizeof(cases[i].head), cases[i].words, sizeof(cases[i].words));
        assert_int_equal(tm_exact_sum_load(bytes, sizeof(bytes), &sum, &used), -EBADMSG);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sum_is_rounded_once_to_nearest_even),
        cmocka_unit_test(every_double_comes_back_as_itself),
        cmocka_unit_test(half_a_subnormal_rounds_to_even_and_more_rounds_up),
        cmocka_unit_test(a_count_times_a_value_or_square_is_that_many_additions),
        cmocka_unit_test(any_order_gives_the_same_words),
        cmocka_unit_test(stored_bytes_are_few_and_read_back),
        cmocka_unit_test(bytes_that_are_not_ours_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
