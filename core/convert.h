/*
 * Conversions of elements: stored bytes to f32, and one element to text.
 *
 * The scalar table is the specification; a CPU level overrides slots of it and must give the same
 * bits, NaN payloads included (a NaN keeps its sign and its payload's top bits, and is quiet).
 */
#ifndef TM_CORE_CONVERT_H
#define TM_CORE_CONVERT_H

#include "core/cpu.h"
#include "core/dtype.h"

/* Decodes N packed elements at SRC (any alignment) to DST. Sub-byte types start at a whole byte. */
typedef void tm_decode_f32_fn(const void *src, float *dst, size_t n);

typedef struct tm_convert {
    /* NULL for F6 (packing unspecified) and C64. Wider types round once, to nearest even. */
    tm_decode_f32_fn *decode_f32[TM_DTYPE_COUNT];
} tm_convert;

/* The table for LEVEL, which tm_cpu_has(). Slots that LEVEL does not override are lower levels'. */
const tm_convert *tm_convert_get(tm_cpu_level level);

enum {
    TM_VALUE_TEXT_MAX = 32
};

/*
 * Prints element INDEX of the packed elements at SRC (their first is element 0) as text without
 * padding: integers as they are (BOOL as 0 or 1), floats as the shortest decimal that reads back
 * as the same float64, or nan, inf, -inf. Returns the length, or -EOPNOTSUPP for F6 and C64.
 */
int tm_value_text(tm_dtype dtype, const void *src, uint64_t index, char ret[TM_VALUE_TEXT_MAX]);

/* The same float text for a double: for every float that the tree prints. Returns the length. */
int tm_double_text(double value, char ret[TM_VALUE_TEXT_MAX]);

#endif
