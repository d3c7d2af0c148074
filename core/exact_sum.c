/* Exact sums as wide integers: add with carry, round once, store without what says nothing. */
#include "core/exact_sum.h"

enum {
    STORE_HEAD_BYTES = 8
};

void tm_exact_sum_add(tm_exact_sum *sum, tm_u128 value, int exponent)
{
    unsigned bit = (unsigned)(exponent + 64 * TM_EXACT_POINT);
    unsigned shift = bit % 64;
    size_t at = bit / 64;
    uint64_t low = (uint64_t)value, high = (uint64_t)(value >> 64);
    uint64_t parts[3] = {low << shift, high << shift, 0};
    if (shift > 0) {
        parts[1] |= low >> (64 - shift);
        parts[2] = high >> (64 - shift);
    }
    uint64_t carry = 0;
    for (size_t i = 0; at < TM_EXACT_WORDS && (i < 3 || carry); i++, at++) {
        tm_u128 t = (tm_u128)sum->word[at] + (i < 3 ? parts[i] : 0) + carry;
        sum->word[at] = (uint64_t)t;
        carry = (uint64_t)(t >> 64);
    }
}

void tm_exact_sum_merge(tm_exact_sum *sum, const tm_exact_sum *other)
{
    tm_wide_add(sum->word, other->word, TM_EXACT_WORDS);
}

void tm_exact_sum_subtract(tm_exact_sum *sum, const tm_exact_sum *other)
{
    tm_wide_subtract(sum->word, other->word, TM_EXACT_WORDS);
}

/* |VALUE| as an integer below 2^53 times 2^*EXPONENT. */
static uint64_t mantissa_of(double value, int *exponent)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    int biased = (int)(bits >> 52 & 0x7ff);
    uint64_t fraction = bits & 0xfffffffffffff;
    *exponent = (biased > 0 ? biased : 1) - 1075;
    return biased > 0 ? fraction | 1ull << 52 : fraction;
}

void tm_exact_sum_add_magnitude(tm_exact_sum *sum, double value, uint64_t count)
{
    int exponent;
    uint64_t mantissa = mantissa_of(value, &exponent);
    tm_exact_sum_add(sum, (tm_u128)mantissa * count, exponent);
}

void tm_exact_sum_add_square(tm_exact_sum *sum, double value, uint64_t count)
{
    int exponent;
    uint64_t mantissa = mantissa_of(value, &exponent);
    tm_u128 square = (tm_u128)mantissa * mantissa;
    tm_exact_sum_add(sum, (square & UINT64_MAX) * count, 2 * exponent);
    tm_exact_sum_add(sum, (square >> 64) * count, 2 * exponent + 64);
}

bool tm_exact_sum_is_negative(const tm_exact_sum *sum)
{
    return sum->word[TM_EXACT_WORDS - 1] >> 63;
}

void tm_exact_sum_negate(tm_exact_sum *sum)
{
    tm_exact_sum zero = {{0}};
    tm_exact_sum_subtract(&zero, sum);
    *sum = zero;
}

double tm_exact_sum_to_double(const tm_exact_sum *sum)
{
    tm_exact_sum magnitude = *sum;
    bool negative = tm_exact_sum_is_negative(sum);
    if (negative)
        tm_exact_sum_negate(&magnitude);
    double value = tm_wide_to_double(magnitude.word, TM_EXACT_WORDS, -64 * TM_EXACT_POINT, false);
    return negative ? -value : value;
}

/* The words that say something: [*first, return value). */
static size_t words_of(const tm_exact_sum *sum, size_t *first)
{
    uint64_t sign = tm_exact_sum_is_negative(sum) ? UINT64_MAX : 0;
    size_t from = 0, to = TM_EXACT_WORDS;
    while (from < TM_EXACT_WORDS && sum->word[from] == 0)
        from++;
    *first = from < TM_EXACT_WORDS ? from : 0;
    if (from == TM_EXACT_WORDS)
        return 0;
    while (to - 1 > from && sum->word[to - 1] == sign && sum->word[to - 2] >> 63 == sign >> 63)
        to--;
    return to;
}

size_t tm_exact_sum_store(const tm_exact_sum *sum, uint8_t ret[TM_EXACT_BYTES_MAX])
{
    size_t first, end = words_of(sum, &first);
    uint16_t head[4] = {(uint16_t)first, (uint16_t)(end - first), 0, 0};
    memcpy(ret, head, STORE_HEAD_BYTES);
    memcpy(ret + STORE_HEAD_BYTES, sum->word + first, (end - first) * sizeof(uint64_t));
    return STORE_HEAD_BYTES + (end - first) * sizeof(uint64_t);
}

int tm_exact_sum_load(const uint8_t *src, size_t len, tm_exact_sum *ret, size_t *ret_used)
{
    uint16_t head[4];
    tm_exact_sum sum = {{0}};
    if (len < sizeof(head))
        return -EBADMSG;
    memcpy(head, src, sizeof(head));
    size_t first = head[0], n = head[1];
    if (first + n > TM_EXACT_WORDS || len - sizeof(head) < n * sizeof(uint64_t))
        return -EBADMSG;
    memcpy(sum.word + first, src + sizeof(head), n * sizeof(uint64_t));
    if (n > 0 && sum.word[first + n - 1] >> 63)
        memset(sum.word + first + n, 0xff, (TM_EXACT_WORDS - first - n) * sizeof(uint64_t));
    uint8_t same[TM_EXACT_BYTES_MAX];
    size_t used = tm_exact_sum_store(&sum, same);
    if (used != sizeof(head) + n * sizeof(uint64_t) || memcmp(same, src, used) != 0)
        return -EBADMSG;
    *ret = sum;
    *ret_used = used;
    return 0;
}
