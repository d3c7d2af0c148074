#include "core/real_text.h"

#include <stdio.h>

#include "core/wide.h"

/*
 * A value m 2^e is scaled by a power of ten to an integer of 9 digits. Within the bounds below
 * numerator and denominator are exact in 128 bits, so the quotient is rounded as the value itself
 * would be. Outside them printf does it.
 */
enum {
    DIGITS = 9,
    MANTISSA = 52,
    UP_MAX = 22,   /* m 10^22 < 2^127 */
    DOWN_MAX = 20, /* and 10^20 2^60 < 2^127 */
    SHIFT_MAX = 126,
    LEFT_MAX = 60,
};
#define LEAST UINT64_C(100000000) /* of 9 digits */

static tm_u128 power_of_ten(unsigned n)
{
    tm_u128 power = 1;
    while (n-- > 0)
        power *= 10;
    return power;
}

/* A value's 9 digits, as an integer, before which the decimal point stands EXPONENT + 1 places from
 * the left. */
typedef struct decimal {
    uint64_t digits;
    int exponent;
} decimal;

/* M 2^E times 10^(8 - X), rounded; false where it does not fit. */
static bool scale(uint64_t m, int e, int x, uint64_t *ret)
{
    int up = DIGITS - 1 - x;
    if (up > UP_MAX || -up > DOWN_MAX || e > LEFT_MAX || -e > SHIFT_MAX)
        return false;
    tm_u128 over = (tm_u128)m * (up > 0 ? power_of_ten((unsigned)up) : 1);
    tm_u128 under = up < 0 ? power_of_ten((unsigned)-up) : 1;
    if (e > 0)
        over <<= e;
    else if (up < 0 && -e > MANTISSA)
        return false;
    else
        under <<= -e;
    tm_u128 quotient = over / under, rest = over % under;
    bool is_more = rest > under - rest || (rest == under - rest && quotient % 2 != 0);
    *ret = (uint64_t)quotient + is_more;
    return true;
}

/* MAGNITUDE is finite and not 0. */
static bool to_decimal(double magnitude, decimal *ret)
{
    uint64_t bits;
    memcpy(&bits, &magnitude, sizeof(bits));
    int e = (int)(bits >> MANTISSA) - 1075;
    uint64_t m = (bits & ((UINT64_C(1) << MANTISSA) - 1)) | UINT64_C(1) << MANTISSA;
    if (e == -1075)
        return false; /* subnormal */
    /* The exponent is this or one more: 2^(e+52) <= magnitude < 2^(e+53). */
    int x = (int)((e + MANTISSA) * 0.30102999566398120) - (e + MANTISSA < 0);
    for (int tries = 0; tries < 2; tries++, x++) {
        if (!scale(m, e, x, &ret->digits))
            return false;
        if (ret->digits < LEAST * 10) {
            ret->exponent = x;
            return ret->digits >= LEAST;
        }
    }
    return false;
}

static char *put_digits(char *to, const char *digits, int count)
{
    memcpy(to, digits, (size_t)count);
    return to + count;
}

/* COUNT digits, the last of which is not 0. */
static char *put_fixed(char *to, const char *digits, int count, int exponent)
{
    if (exponent < 0) {
        *to++ = '0';
        *to++ = '.';
        for (int i = -1; i > exponent; i--)
            *to++ = '0';
        return put_digits(to, digits, count);
    }
    int whole = exponent + 1;
    for (int i = 0; i < whole; i++)
        *to++ = i < count ? digits[i] : '0';
    if (count > whole) {
        *to++ = '.';
        to = put_digits(to, digits + whole, count - whole);
    }
    return to;
}

static char *put_scientific(char *to, const char *digits, int count, int exponent)
{
    unsigned magnitude = (unsigned)(exponent < 0 ? -exponent : exponent);
    *to++ = digits[0];
    if (count > 1) {
        *to++ = '.';
        to = put_digits(to, digits + 1, count - 1);
    }
    *to++ = 'e';
    *to++ = exponent < 0 ? '-' : '+';
    assert(magnitude < 100);
    *to++ = (char)('0' + magnitude / 10);
    *to++ = (char)('0' + magnitude % 10);
    return to;
}

size_t tm_real_text(double value, char ret[TM_REAL_TEXT_MAX])
{
    decimal d;
    double magnitude = value < 0 ? -value : value;
    if (!(magnitude > 0) || !to_decimal(magnitude, &d))
        return (size_t)snprintf(ret, TM_REAL_TEXT_MAX, "%.9g", value);
    char digits[DIGITS], *to = ret;
    for (int i = DIGITS; i-- > 0; d.digits /= 10)
        digits[i] = (char)('0' + d.digits % 10);
    int count = DIGITS;
    while (digits[count - 1] == '0')
        count--;
    if (value < 0)
        *to++ = '-';
    if (d.exponent < -4 || d.exponent >= DIGITS)
        to = put_scientific(to, digits, count, d.exponent);
    else
        to = put_fixed(to, digits, count, d.exponent);
    *to = '\0';
    return (size_t)(to - ret);
}
