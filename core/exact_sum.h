/*
 * Sums of floats that do not depend on any order: wide fixed-point integers, two's complement.
 *
 *     word      0       …      34       35      …      67
 *     weight  2^-2176       2^0      2^64           2^2112      of the word's lowest bit
 *
 * Wide enough for 2^64 squares of any f64: the lowest bit of such a square weighs 2^-2148, and
 * 2^64 times the greatest is below 2^2112. Overflow is impossible; addition is exact, so it is
 * commutative and associative. A sum of zeros is all zeros.
 */
#ifndef TM_CORE_EXACT_SUM_H
#define TM_CORE_EXACT_SUM_H

#include "core/wide.h"

enum {
    TM_EXACT_WORDS = 68,
    TM_EXACT_POINT = 34, /* the word whose lowest bit is 1 */
    TM_EXACT_BYTES_MAX = 8 + 8 * TM_EXACT_WORDS
};

typedef struct tm_exact_sum {
    uint64_t word[TM_EXACT_WORDS];
} tm_exact_sum;

/* Adds VALUE * 2^EXPONENT. EXPONENT is -2148 or more, and the sum stays below 2^2175. */
void tm_exact_sum_add(tm_exact_sum *sum, tm_u128 value, int exponent);

/* SUM += OTHER, SUM -= OTHER. */
void tm_exact_sum_merge(tm_exact_sum *sum, const tm_exact_sum *other);
void tm_exact_sum_subtract(tm_exact_sum *sum, const tm_exact_sum *other);

/* Adds COUNT times VALUE, which is finite: |VALUE|, or its square. */
void tm_exact_sum_add_magnitude(tm_exact_sum *sum, double value, uint64_t count);
void tm_exact_sum_add_square(tm_exact_sum *sum, double value, uint64_t count);

bool tm_exact_sum_is_negative(const tm_exact_sum *sum);
void tm_exact_sum_negate(tm_exact_sum *sum);

/* The nearest double, ties to even; beyond the greatest, an infinity. */
double tm_exact_sum_to_double(const tm_exact_sum *sum);

/*
 * As bytes of a file, little-endian: u16 index of the first word that is not 0, u16 number of
 * words, u32 0, then the words. Words below are 0; words above repeat the top bit of the last.
 * The number is the least possible, 0 for a sum of 0, so that equal sums have equal bytes.
 */
size_t tm_exact_sum_store(const tm_exact_sum *sum, uint8_t ret[TM_EXACT_BYTES_MAX]);

/* -EBADMSG where the bytes are not those that tm_exact_sum_store writes, or end early. */
TM_MUST_CHECK int tm_exact_sum_load(const uint8_t *src, size_t len, tm_exact_sum *ret,
                                    size_t *ret_used);

#endif
