/* What this CPU can do, and a mask by which tests force each lower level. */
#ifndef TM_CORE_CPU_H
#define TM_CORE_CPU_H

#include "core/base.h"

typedef enum tm_cpu_level {
    TM_CPU_SCALAR, /* the specification: plain C */
    TM_CPU_AVX2,   /* x86-64: AVX2, FMA, F16C */
    TM_CPU_AVX512, /* x86-64: AVX-512 F, BW, DQ, VL on top */
    TM_CPU_NEON,   /* arm64 */
    TM_CPU_LEVEL_COUNT
} tm_cpu_level;

/* True where this machine (and this build) can run code of LEVEL. */
bool tm_cpu_has(tm_cpu_level level);

/* The best level that this machine has. Environment TMORPH_CPU=scalar|avx2|avx512|neon lowers it.
 */
tm_cpu_level tm_cpu_best(void);

const char *tm_cpu_level_name(tm_cpu_level level);

#endif
