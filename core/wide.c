/* Arithmetic of many words, and its rounding to doubles. */
#include "core/wide.h"

#include <math.h>

enum {
    DOUBLE_DIGITS = 53,
    DOUBLE_LOWEST = -1074 /* exponent of the smallest subnormal */
};

void tm_wide_add(uint64_t *a, const uint64_t *b, size_t n)
{
    uint64_t carry = 0;
    for (size_t i = 0; i < n; i++) {
        tm_u128 t = (tm_u128)a[i] + b[i] + carry;
        a[i] = (uint64_t)t;
        carry = (uint64_t)(t >> 64);
    }
}

void tm_wide_subtract(uint64_t *a, const uint64_t *b, size_t n)
{
    uint64_t borrow = 0;
    for (size_t i = 0; i < n; i++) {
        tm_u128 t = (tm_u128)a[i] - b[i] - borrow;
        a[i] = (uint64_t)t;
        borrow = (uint64_t)(t >> 64) & 1;
    }
}

uint64_t tm_wide_multiply(uint64_t *a, size_t n, uint64_t factor)
{
    uint64_t carry = 0;
    for (size_t i = 0; i < n; i++) {
        tm_u128 t = (tm_u128)a[i] * factor + carry;
        a[i] = (uint64_t)t;
        carry = (uint64_t)(t >> 64);
    }
    return carry;
}

uint64_t tm_wide_divide(uint64_t *a, size_t n, uint64_t divisor)
{
    uint64_t rest = 0;
    for (size_t i = n; i-- > 0;) {
        tm_u128 t = (tm_u128)rest << 64 | a[i];
        a[i] = (uint64_t)(t / divisor);
        rest = (uint64_t)(t % divisor);
    }
    return rest;
}

void tm_wide_square(const uint64_t *a, size_t n, uint64_t *ret)
{
    memset(ret, 0, 2 * n * sizeof(*ret));
    for (size_t i = 0; i < n; i++) {
        uint64_t carry = 0;
        for (size_t k = 0; a[i] != 0 && k < n; k++) {
            tm_u128 t = (tm_u128)a[i] * a[k] + ret[i + k] + carry;
            ret[i + k] = (uint64_t)t;
            carry = (uint64_t)(t >> 64);
        }
        ret[i + n] = a[i] != 0 ? carry : ret[i + n];
    }
}

/* The top 64 bits of A from its highest set bit, whose weight is 2^*top; a lost bit sets the last.
 * 0 for 0. */
static uint64_t top_bits(const uint64_t *a, size_t n, int exponent, bool sticky, int *top)
{
    size_t at = n;
    while (at > 0 && a[at - 1] == 0)
        at--;
    if (at == 0)
        return 0;
    unsigned shift = (unsigned)__builtin_clzll(a[at - 1]);
    uint64_t below = at >= 2 ? a[at - 2] : 0;
    uint64_t bits = shift ? a[at - 1] << shift | below >> (64 - shift) : a[at - 1];
    bool lost = sticky || (shift ? below << shift : below) != 0;
    for (size_t i = 0; i + 2 < at && !lost; i++)
        lost = a[i] != 0;
    *top = exponent + (int)at * 64 - 1 - (int)shift;
    return bits | lost;
}

/* BITS, from the highest of 64 on, rounded to its first DIGITS (0 ... 53), to nearest even. */
static uint64_t rounded(uint64_t bits, int digits)
{
    uint64_t kept = digits > 0 ? bits >> (64 - digits) : 0;
    uint64_t rest = digits > 0 ? bits << digits : bits;
    uint64_t half = 1ull << 63;
    return kept + (rest > half || (rest == half && (kept & 1)));
}

double tm_wide_to_double(const uint64_t *a, size_t n, int exponent, bool sticky)
{
    int top;
    uint64_t bits = top_bits(a, n, exponent, sticky, &top);
    int digits = bits ? top - DOUBLE_LOWEST + 1 : -1;
    if (digits < 0)
        return 0;
    digits = digits > DOUBLE_DIGITS ? DOUBLE_DIGITS : digits;
    return ldexp((double)rounded(bits, digits), top - digits + 1);
}

double tm_wide_root(const uint64_t *a, size_t n, int exponent, bool sticky)
{
    int top;
    uint64_t bits = top_bits(a, n, exponent, sticky, &top);
    if (bits == 0)
        return 0;
    double mantissa = (double)rounded(bits, DOUBLE_DIGITS);
    int scale = top - DOUBLE_DIGITS + 1;
    if (scale % 2 != 0) {
        mantissa *= 2;
        scale--;
    }
    return ldexp(sqrt(mantissa), scale / 2);
}
