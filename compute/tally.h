/*
 * Counting of a thread: histograms in replicas, exact sums in parts, moved to a tm_stats in bulk.
 *
 * Neighbours count in different replicas, so that equal ones (pruned weights, constants) do not
 * wait for each other. Internal to the scan.
 */
#ifndef TM_COMPUTE_TALLY_H
#define TM_COMPUTE_TALLY_H

#include "core/stats.h"

enum {
    TM_TALLY_REPLICAS = 4,
    TM_TALLY_FRACTIONS = 512 /* sign and exponent of an f32 */
};

/* Of the elements of one sign and exponent; see add_f32(). */
typedef struct tm_fraction {
    uint64_t sum; /* of the fractions; and from bit 41 on their number */
    uint64_t squares;
} tm_fraction;

typedef struct tm_tally {
    tm_stats *stats;
    uint32_t *codes;            /* [2][65536][2], owned; of 8-bit types the first 256 of each;
                                   NULL: few elements, which are not worth it */
    tm_fraction *fractions;     /* [512][4], owned */
    uint64_t pending;           /* elements in codes */
    uint64_t pending_fractions; /* elements in fractions */
} tm_tally;

/* FEW: so few elements will come that replicas are not worth their emptying. -ENOMEM. */
TM_MUST_CHECK int tm_tally_init(tm_tally *tally, bool few);
void tm_tally_done(tm_tally *tally);
/* Whether it is as after init() with FEW false. */
bool tm_tally_is_fresh(const tm_tally *tally);

/* STATS is borrowed until tm_tally_end, which moves to it what is pending. */
void tm_tally_begin(tm_tally *tally, tm_stats *stats);
void tm_tally_end(tm_tally *tally);

/*
 * Counts N elements from the FIRST of SRC. VALUES are the same, decoded to f32, for F32 alone (NaN
 * is quiet there).
 */
typedef struct tm_tally_run {
    const uint8_t *src;
    uint64_t first;
    size_t n; /* at most 256 */
    const float *values;
} tm_tally_run;
void tm_tally_add(tm_tally *tally, const tm_tally_run *run);

#endif
