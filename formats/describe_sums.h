/* What a model's tensors come to: for formats/describe*.c. */
#ifndef TM_FORMATS_DESCRIBE_SUMS_H
#define TM_FORMATS_DESCRIBE_SUMS_H

#include "formats/quant.h"

typedef struct tm_dtype_sum {
    tm_dtype dtype;
    uint64_t bytes;
} tm_dtype_sum;

/* Sums that overflow are UINT64_MAX. */
typedef struct tm_describe_sums {
    uint64_t parameters, parameters_stored, bytes;
    tm_dtype_sum dtypes[TM_DTYPE_COUNT]; /* most bytes first */
    size_t dtype_count;
} tm_describe_sums;

void tm_describe_sum(const tm_model *model, tm_describe_sums *ret);

#endif
