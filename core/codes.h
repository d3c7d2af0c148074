/*
 * The codes by which a histogram counts: which there are, their values, their order.
 *
 * A type of 16 bits or fewer has its bit patterns (BOOL: 0, 1). A wider type has 65,536 bins: the
 * top 16 bits of the value cut to f32, so a code is the bf16 at the bin's end that is nearer to 0.
 */
#ifndef TM_CORE_CODES_H
#define TM_CORE_CODES_H

#include "core/dtype.h"

enum {
    TM_CODES_MAX = 65536,
    TM_CODE_INF = 0x7f80, /* of wider types */
    TM_CODE_NEG_INF = 0xff80
};

/* How many codes; 0 for types without values (F6, C64). */
size_t tm_codes_count(tm_dtype dtype);

/* True where codes are bins, not bit patterns. */
bool tm_codes_are_bins(tm_dtype dtype);

/*
 * Codes in order of value are two runs of half of them each: from *first on, by *step (1 or -1).
 * NaNs lie at one or both ends; -0 is before +0. HALF is 0 or 1; of BOOL a run is one code.
 */
void tm_codes_run(tm_dtype dtype, int half, size_t *ret_first, int *ret_step);

/* The first of the codes from FROM to END (not of it) that occurs, the last one: END, or FROM - 1,
 * where none does. Most codes of a small tensor do not: they are passed over by eights. */
size_t tm_codes_first(const uint64_t *counts, size_t from, size_t end);
size_t tm_codes_last(const uint64_t *counts, size_t from, size_t end);

/* The value of CODE; of a bin: its end nearer to 0. */
float tm_code_value(tm_dtype dtype, size_t code);

/* The smallest normal magnitude; 0 for types that have no subnormals. */
double tm_codes_smallest_normal(tm_dtype dtype);

/* The bins of wide values. */
unsigned tm_code_of_f64(double value);
unsigned tm_code_of_integer(bool negative, uint64_t magnitude);

#endif
