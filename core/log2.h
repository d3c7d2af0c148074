/* A logarithm of our own: libm's differs by CPU and release, and entropies are bytes of a file. */
#ifndef TM_CORE_LOG2_H
#define TM_CORE_LOG2_H

#include "core/base.h"

/* log2(N) for N > 0, within 2 ulp; exact for powers of two. */
double tm_log2_u64(uint64_t n);

#endif
