/* log2 by the series of the area tangent: ln(f) = 2 (s + s^3/3 + s^5/5 + …), s = (f-1)/(f+1). */
#include "core/log2.h"

enum {
    TERMS = 11 /* |s| <= 3 - 2 sqrt(2): the first term left out is below 2^-60 */
};

double tm_log2_u64(uint64_t n)
{
    assert(n > 0);
    unsigned shift = (unsigned)__builtin_clzll(n);
    int exponent = 63 - (int)shift;
    double f = (double)(n << shift) * 0x1p-63; /* 1 to 2, rounded to 53 bits */
    if (f > 0x1.6a09e667f3bcdp0) {             /* the root of 2 */
        f *= 0.5;
        exponent++;
    }
    double s = (f - 1) / (f + 1), square = s * s, sum = 0;
    for (int k = TERMS; k-- > 0;)
        sum = sum * square + 1.0 / (2 * k + 1);
    return exponent + s * sum * 0x1.71547652b82fep1; /* 2 / ln 2 */
}
