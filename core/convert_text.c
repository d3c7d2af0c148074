/*
 * Elements and doubles as text: the shortest decimal that reads back as the same double, laid out
 * as Python's repr lays it out, but without the ".0" of a whole number.
 */
#include "core/convert.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum {
    DIGITS_KEPT = DBL_DIG, /* a decimal of so many digits survives its way through a double */
    DIGITS_MAX = DBL_DECIMAL_DIG, /* so many tell any two doubles apart */
    PLAIN_POINT_MIN = -3,         /* 0.0001 is the smallest that is written without an exponent */
    PLAIN_POINT_MAX = 16,         /* and 9999999999999998 the greatest */
};

__extension__ typedef unsigned __int128 uint128;

/* digits * 10^power; DIGITS has no trailing zero. */
typedef struct decimal {
    uint64_t digits;
    int power;
} decimal;

/* The doubles from 2^-36 to 2^50: what 118 bits hold exactly in the way below. */
enum {
    EXACT_EXPONENT_MIN = -36,
    EXACT_EXPONENT_END = 50
};

static int double_exponent(uint64_t bits)
{
    return (int)(bits >> 52) - 1023;
}

/* A double's neighbourhood: what reads back as it, times 10^scale, as fixed-point numbers. */
typedef struct neighbourhood {
    uint128 middle;     /* the double itself, with SHIFT fractional bits */
    uint64_t low, high; /* the whole numbers that read back */
    unsigned shift;
    int scale;
} neighbourhood;

/*
 * The double is m * 2^(e-52). Its neighbours lie m's unit away (half a unit below a power of two),
 * and whatever is nearer than half-way to them reads back. SCALE gives at least 17 digits; then
 * 4m * 5^scale / 2^shift is the double times 10^scale. SHIFT is 3 or more, so the half-way points,
 * whose numerators have at most one factor 2, are no whole numbers: rounding ties need no care.
 */
static neighbourhood neighbourhood_of(uint64_t bits)
{
    int e = double_exponent(bits);
    uint64_t mantissa = bits & ((1ull << 52) - 1);
    uint64_t m = mantissa | 1ull << 52;
    int scale = 16 - ((e * 78913) >> 18); /* log10(2) = 78913 / 2^18, rounded down */
    uint64_t five = 1;
    for (int i = 0; i < scale; i++)
        five *= 5;

    unsigned shift = (unsigned)(54 - e - scale);
    uint128 lower = (uint128)(4 * m - (mantissa == 0 ? 1 : 2)) * five;
    uint128 upper = (uint128)(4 * m + 2) * five;
    return (neighbourhood){
        .middle = (uint128)(4 * m) * five,
        .low = (uint64_t)(lower >> shift) + 1,
        .high = (uint64_t)(upper >> shift),
        .shift = shift,
        .scale = scale,
    };
}

/* The multiple of the greatest power of ten that reads back; of two the nearer, then the even. */
static decimal shortest_in(const neighbourhood *near)
{
    uint64_t unit = 1;
    int power = -near->scale;
    for (; near->high / (10 * unit) * (10 * unit) >= near->low; unit *= 10)
        power++;

    uint64_t whole = (uint64_t)(near->middle >> near->shift);
    uint64_t digits = whole / unit;
    uint128 rest = near->middle - ((uint128)(digits * unit) << near->shift);
    uint128 half = (uint128)unit << (near->shift - 1);
    if (rest > half || (rest == half && digits % 2 == 1))
        digits++;
    if (digits * unit < near->low)
        digits++;
    else if (digits * unit > near->high)
        digits--;
    return (decimal){digits, power};
}

/* Scientific text as printf's %e writes it; its decimal point is whatever the locale has. */
typedef char scientific[48];

static void print_digits(double value, int count, scientific ret)
{
    snprintf(ret, sizeof(scientific), "%.*e", count - 1, value);
}

static bool reads_back(const scientific text, double value)
{
    return strtod(text, NULL) == value;
}

/* One unit more in the last digit of TEXT; false where every digit is a 9. */
static bool step_up(scientific text)
{
    for (char *at = strchr(text, 'e') - 1; at >= text; at--) {
        if (*at == '9') {
            *at = '0';
        } else if (*at >= '0' && *at < '9') {
            ++*at;
            return true;
        }
    }
    return false;
}

/* The next decimal above a power of two may read back where the nearest, below it, does not. */
static bool print_above(double value, int count, scientific ret)
{
    int exponent;
    if (frexp(value, &exponent) != 0.5)
        return false;
    print_digits(value, count, ret);
    return step_up(ret) && reads_back(ret, value);
}

/*
 * The fewest digits that read back. If DIGITS_KEPT do not, more are needed; if they do, those
 * without trailing zeros are the shortest, but for subnormals, whose precision is less.
 */
static void print_shortest(double value, scientific ret)
{
    for (int count = value < DBL_MIN ? 1 : DIGITS_KEPT; count < DIGITS_MAX; count++) {
        print_digits(value, count, ret);
        if (reads_back(ret, value) || print_above(value, count, ret))
            return;
    }
    print_digits(value, DIGITS_MAX, ret);
}

static decimal shortest_by_trial(double value)
{
    scientific text;
    print_shortest(value, text);
    decimal number = {0, 1};
    const char *at = text;
    for (; *at != 'e'; at++) {
        if (*at >= '0' && *at <= '9') {
            number.digits = 10 * number.digits + (unsigned)(*at - '0');
            number.power--;
        }
    }
    number.power += (int)strtol(at + 1, NULL, 10);
    for (; number.digits % 10 == 0; number.digits /= 10)
        number.power++;
    return number;
}

static decimal shortest(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    int exponent = double_exponent(bits);
    if (exponent < EXACT_EXPONENT_MIN || exponent >= EXACT_EXPONENT_END)
        return shortest_by_trial(value);
    neighbourhood near = neighbourhood_of(bits);
    return shortest_in(&near);
}

static char *put(char *at, const char *text, int len)
{
    memcpy(at, text, (size_t)len);
    return at + len;
}

static char *put_zeros(char *at, int count)
{
    memset(at, '0', (size_t)count);
    return at + count;
}

/* At AT, TM_VALUE_TEXT_MAX less a sign; returns its end. */
static char *layout(const decimal *number, char *at)
{
    char buffer[24];
    char *end = buffer + sizeof(buffer);
    char *digits = end;
    for (uint64_t rest = number->digits; rest > 0; rest /= 10)
        *--digits = (char)('0' + rest % 10);
    int count = (int)(end - digits);

    int point = count + number->power; /* digits before the decimal point */
    if (point < PLAIN_POINT_MIN || point > PLAIN_POINT_MAX) {
        at = put(at, digits, 1);
        if (count > 1)
            at = put(put(at, ".", 1), digits + 1, count - 1);
        return at + snprintf(at, sizeof("e+308"), "e%+03d", point - 1);
    }
    if (point <= 0)
        return put(put_zeros(put(at, "0.", 2), -point), digits, count);
    if (point >= count)
        return put_zeros(put(at, digits, count), point - count);
    return put(put(put(at, digits, point), ".", 1), digits + point, count - point);
}

int tm_double_text(double value, char ret[TM_VALUE_TEXT_MAX])
{
    char *at = ret;
    if (signbit(value) && !isnan(value))
        at = put(at, "-", 1);
    if (isnan(value)) {
        at = put(at, "nan", 3);
    } else if (isinf(value)) {
        at = put(at, "inf", 3);
    } else if (value == 0) {
        at = put(at, "0", 1);
    } else {
        decimal number = shortest(fabs(value));
        at = layout(&number, at);
    }
    *at = '\0';
    return (int)(at - ret);
}

static int integer_text(tm_dtype dtype, const void *at, char ret[TM_VALUE_TEXT_MAX])
{
    unsigned bits = tm_dtype_get(dtype)->bits;
    uint64_t raw = 0;
    memcpy(&raw, at, bits / 8);

    if (dtype == TM_BOOL)
        raw = raw != 0;
    if (dtype == TM_I8 || dtype == TM_I16 || dtype == TM_I32 || dtype == TM_I64) {
        int64_t extended = (int64_t)(raw << (64 - bits)) >> (64 - bits);
        return snprintf(ret, TM_VALUE_TEXT_MAX, "%" PRId64, extended);
    }
    return snprintf(ret, TM_VALUE_TEXT_MAX, "%" PRIu64, raw);
}

/* The float at AT; of F4's two in a byte the first is the low one. */
static double float_element(tm_dtype dtype, const void *at, bool is_second)
{
    if (dtype == TM_F64) {
        double value;
        memcpy(&value, at, sizeof(value));
        return value;
    }
    float values[2];
    size_t n = dtype == TM_F4 ? 2 : 1;
    tm_convert_get(TM_CPU_SCALAR)->decode_f32[dtype](at, values, n);
    return (double)values[is_second ? 1 : 0];
}

int tm_value_text(tm_dtype dtype, const void *src, uint64_t index, char ret[TM_VALUE_TEXT_MAX])
{
    const tm_dtype_info *info = tm_dtype_get(dtype);
    if (info->is_opaque || dtype == TM_C64)
        return -EOPNOTSUPP;

    const uint8_t *from = src;
    if (dtype == TM_F4)
        return tm_double_text(float_element(dtype, from + index / 2, index % 2 == 1), ret);
    from += index * (info->bits / 8);
    if (!info->is_float)
        return integer_text(dtype, from, ret);
    return tm_double_text(float_element(dtype, from, false), ret);
}
