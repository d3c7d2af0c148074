/* Mean, variance and norms from exact sums: each is rounded once (std and l2: twice). */
#ifndef TM_CORE_MOMENTS_H
#define TM_CORE_MOMENTS_H

#include "core/exact_sum.h"

/* What a set of finite values adds up to. Merging is adding. */
typedef struct tm_sums {
    tm_exact_sum positive; /* of the values above 0 */
    tm_exact_sum negative; /* of the magnitudes of the values below 0 */
    tm_exact_sum squares;
} tm_sums;

typedef struct tm_moments {
    double mean, var, std; /* of the population; NaN for no values */
    double l1, l2;         /* 0 for no values */
} tm_moments;

void tm_sums_merge(tm_sums *sums, const tm_sums *other);

/* Adds COUNT times VALUE, which is finite. */
void tm_sums_add(tm_sums *sums, double value, uint64_t count);

/* mean, var and l1 are the nearest doubles of the true values; std and l2 within one ulp. */
tm_moments tm_moments_of(const tm_sums *sums, uint64_t n);

#endif
