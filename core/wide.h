/* Integers of many 64-bit words, least significant first: what exact sums and moments need. */
#ifndef TM_CORE_WIDE_H
#define TM_CORE_WIDE_H

#include "core/base.h"

__extension__ typedef unsigned __int128 tm_u128;

/* A += B, A -= B, modulo 2^(64 N). */
void tm_wide_add(uint64_t *a, const uint64_t *b, size_t n);
void tm_wide_subtract(uint64_t *a, const uint64_t *b, size_t n);

/* A *= FACTOR, whose overflow is returned; A /= DIVISOR, whose remainder is returned. */
uint64_t tm_wide_multiply(uint64_t *a, size_t n, uint64_t factor);
uint64_t tm_wide_divide(uint64_t *a, size_t n, uint64_t divisor);

/* RET (2 N words) = A * A. */
void tm_wide_square(const uint64_t *a, size_t n, uint64_t *ret);

/*
 * The double nearest to A * 2^EXPONENT, ties to even; STICKY: the true value is a little more.
 * Subnormals round once too. Beyond the greatest double: infinity.
 */
double tm_wide_to_double(const uint64_t *a, size_t n, int exponent, bool sticky);

/* The root of A * 2^EXPONENT, within one ulp, where the double of A itself may overflow. */
double tm_wide_root(const uint64_t *a, size_t n, int exponent, bool sticky);

#endif
