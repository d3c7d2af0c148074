/*
 * Statistics of a tensor, or of any part of it, that merge: counts and exact sums only.
 *
 * The heart is a histogram. Types of 16 bits or fewer count every bit pattern (BOOL: 0 and 1), from
 * which all but the place of the greatest magnitude follows. Wider types count bins: the top 16
 * bits of the value cut (truncated toward 0) to f32, so the relative width of a bin is 2^-7; beyond
 * f32's greatest it is the bin of that, below its smallest subnormal that of a zero with the sign;
 * every NaN is in 0x7fc0 or 0xffc0 or beside them, infinities in 0x7f80 and 0xff80.
 *
 * Merging adds integers and compares: the same bytes in any order, on any number of threads.
 * A tm_stats belongs to one thread at a time.
 */
#ifndef TM_CORE_STATS_H
#define TM_CORE_STATS_H

#include "core/moments.h"
#include "core/dtype.h"

enum {
    TM_STATS_QUANTILES = 9,
    TM_STATS_RULES = 1 /* changes whenever the same elements give another value of a statistic */
};

/* What a histogram of bins does not tell; only for types wider than 16 bits. */
typedef struct tm_stats_wide {
    uint64_t zero, neg_zero; /* zero counts both signs */
    uint64_t subnormal;      /* of F64; those of F32 follow from the histogram */
    double min, max;         /* of finite values; inf, -inf for none. 0 is +0 */
    tm_sums sums;            /* integers: of the integers, not of their doubles */
} tm_stats_wide;

typedef struct tm_stats {
    tm_dtype dtype;
    size_t bins;           /* 2, 16, 256 or 65536 */
    uint64_t *hist;        /* [bins], owned */
    tm_stats_wide *wide;   /* owned; NULL for types of 16 bits or fewer */
    double absmax;         /* greatest magnitude of a finite value; -1 for none */
    uint64_t absmax_index; /* the lowest flat index that has it; 0 for none */
} tm_stats;

/* Empty statistics: 512 KiB for types of 16 bits or more. -ENOMEM, -EOPNOTSUPP for F6 and C64. */
TM_MUST_CHECK int tm_stats_init(tm_stats *stats, tm_dtype dtype);
void tm_stats_done(tm_stats *stats); /* also of one that is all zeros */
void tm_stats_clear(tm_stats *stats);

/* STATS += OTHER, of the same dtype. Indexes are of the whole tensor in both. */
void tm_stats_merge(tm_stats *stats, const tm_stats *other);

/* A candidate for the greatest magnitude: kept where it is greater, or equal and earlier. */
void tm_stats_offer_absmax(tm_stats *stats, double absmax, uint64_t index);

/* The exact sums, for any type: those of STATS itself, or what its histogram adds up to. */
void tm_stats_sums(const tm_stats *stats, tm_sums *ret);

/*
 * Every field of stats.json that values decide. Counts are of elements; min to l2 and the
 * quantiles over finite values (NaN where there are none, l1 and l2 then 0).
 */
typedef struct tm_stats_summary {
    uint64_t n, nan, pos_inf, neg_inf, zero, neg_zero, subnormal;
    double min, max, absmax; /* a zero is +0 */
    uint64_t absmax_index;   /* of no meaning where absmax is NaN */
    tm_moments moments;
    double sparsity;   /* zero / n; NaN for n = 0 */
    double entropy;    /* in bits, of the histogram over all n elements; 0 for n = 0 */
    uint64_t distinct; /* bit patterns that occur */
    bool has_distinct; /* types of 16 bits or fewer */
    double quantile[TM_STATS_QUANTILES];
} tm_stats_summary;

/* 0.001 0.01 0.05 0.25 0.5 0.75 0.95 0.99 0.999, in thousandths. */
extern const unsigned tm_stats_quantile_permille[TM_STATS_QUANTILES];

/*
 * A quantile q of m finite values is element floor(q (m - 1)) in order of value. Of wider types it
 * is the middle of its bin (of the integers in it, cut to an integer), but exact where it is a
 * zero, and never outside min and max. SUMS are those of STATS.
 */
void tm_stats_summarize(const tm_stats *stats, const tm_sums *sums, tm_stats_summary *ret);

/*
 * A histogram for people: how many elements lie in each of 4096 intervals of sign, exponent and 3
 * mantissa bits of the value cut to f32, in order of value. The bound farther from 0 is outside.
 * The intervals of the greatest exponent: first (lo and hi the same infinity) the infinities, then,
 * with bounds that are NaN, NaNs.
 */
enum {
    TM_STATS_ROWS = 4096
};
typedef struct tm_stats_row {
    double lo, hi;
    uint64_t count;
} tm_stats_row;

void tm_stats_rows(const tm_stats *stats, tm_stats_row ret[TM_STATS_ROWS]);
/* Whether the rows are still exact where each count stands at its code without the SHIFT lowest
 * bits. */
bool tm_stats_rows_exact(tm_dtype dtype, unsigned shift);
/* Row ROW without a count. */
tm_stats_row tm_stats_row_bounds(uint32_t row);

#endif
