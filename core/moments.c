/* Moments by integers: n Q - S^2 has no cancellation when it is exact. */
#include "core/moments.h"

#include <math.h>

enum {
    SQUARE_WORDS = 2 * TM_EXACT_WORDS,
    EXTRA_WORDS = 4, /* below the point: dividing twice by 64 bits leaves 128 true ones */
    LOWEST = -64 * TM_EXACT_POINT
};

void tm_sums_merge(tm_sums *sums, const tm_sums *other)
{
    tm_exact_sum_merge(&sums->positive, &other->positive);
    tm_exact_sum_merge(&sums->negative, &other->negative);
    tm_exact_sum_merge(&sums->squares, &other->squares);
}

void tm_sums_add(tm_sums *sums, double value, uint64_t count)
{
    tm_exact_sum_add_magnitude(value < 0 ? &sums->negative : &sums->positive, value, count);
    tm_exact_sum_add_square(&sums->squares, value, count);
}

/* The magnitude of the sum of all values; returns whether the sum is negative. */
static bool total_of(const tm_sums *sums, tm_exact_sum *ret)
{
    *ret = sums->positive;
    tm_exact_sum_subtract(ret, &sums->negative);
    bool negative = tm_exact_sum_is_negative(ret);
    if (negative)
        tm_exact_sum_negate(ret);
    return negative;
}

static double mean_of(const tm_exact_sum *magnitude, uint64_t n)
{
    uint64_t words[EXTRA_WORDS + TM_EXACT_WORDS] = {0};
    memcpy(words + EXTRA_WORDS, magnitude->word, sizeof(magnitude->word));
    uint64_t rest = tm_wide_divide(words, TM_ARRAY_LEN(words), n);
    return tm_wide_to_double(words, TM_ARRAY_LEN(words), LOWEST - 64 * EXTRA_WORDS, rest != 0);
}

/* (n Q - S^2) / n^2, never negative (Cauchy and Schwarz). Q is moved to the weight of S^2. */
static void variance_of(const tm_sums *sums, const tm_exact_sum *magnitude, uint64_t n,
                        tm_moments *ret)
{
    uint64_t words[EXTRA_WORDS + SQUARE_WORDS + 1] = {0}, square[SQUARE_WORDS + 1] = {0};
    uint64_t *value = words + EXTRA_WORDS;
    memcpy(value + TM_EXACT_POINT, sums->squares.word, sizeof(sums->squares.word));
    value[TM_EXACT_POINT + TM_EXACT_WORDS] =
        tm_wide_multiply(value + TM_EXACT_POINT, TM_EXACT_WORDS, n);
    tm_wide_square(magnitude->word, TM_EXACT_WORDS, square);
    tm_wide_subtract(value, square, SQUARE_WORDS + 1);

    uint64_t rest = tm_wide_divide(words, TM_ARRAY_LEN(words), n);
    rest |= tm_wide_divide(words, TM_ARRAY_LEN(words), n);
    int exponent = 2 * LOWEST - 64 * EXTRA_WORDS;
    ret->var = tm_wide_to_double(words, TM_ARRAY_LEN(words), exponent, rest != 0);
    ret->std = tm_wide_root(words, TM_ARRAY_LEN(words), exponent, rest != 0);
}

tm_moments tm_moments_of(const tm_sums *sums, uint64_t n)
{
    tm_moments moments = {.mean = NAN, .var = NAN, .std = NAN};
    tm_exact_sum magnitude;
    bool negative = total_of(sums, &magnitude);
    if (n > 0) {
        double mean = mean_of(&magnitude, n);
        moments.mean = negative ? -mean : mean;
        variance_of(sums, &magnitude, n, &moments);
    }
    tm_exact_sum all = sums->positive;
    tm_exact_sum_merge(&all, &sums->negative);
    moments.l1 = tm_exact_sum_to_double(&all);
    moments.l2 = tm_wide_root(sums->squares.word, TM_EXACT_WORDS, LOWEST, false);
    return moments;
}
