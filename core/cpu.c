/* Which levels of SIMD this machine has: asked from the CPU, lowered by the environment. */
#include "core/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const char *const level_names[TM_CPU_LEVEL_COUNT] = {
    [TM_CPU_SCALAR] = "scalar",
    [TM_CPU_AVX2] = "avx2",
    [TM_CPU_AVX512] = "avx512",
    [TM_CPU_NEON] = "neon",
};

const char *tm_cpu_level_name(tm_cpu_level level)
{
    assert(level < TM_CPU_LEVEL_COUNT);
    return level_names[level];
}

#if defined(__x86_64__)

/* F16C by its bit: clang's __builtin_cpu_supports does not know the name. */
static bool has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

#else

static bool has_avx2(void)
{
    return false;
}

static bool has_avx512(void)
{
    return false;
}

#endif

static bool has_neon(void)
{
#if defined(__aarch64__)
    return true; /* part of the base architecture */
#else
    return false;
#endif
}

bool tm_cpu_has(tm_cpu_level level)
{
    switch (level) {
    case TM_CPU_SCALAR:
        return true;
    case TM_CPU_AVX2:
        return has_avx2();
    case TM_CPU_AVX512:
        return has_avx512();
    case TM_CPU_NEON:
        return has_neon();
    case TM_CPU_LEVEL_COUNT:
        break;
    }
    return false;
}

/* The level that the environment asks for; the highest where it names none. */
static tm_cpu_level wanted_level(void)
{
    const char *name = getenv("TMORPH_CPU");
    for (int level = TM_CPU_SCALAR; name && level < TM_CPU_LEVEL_COUNT; level++)
        if (strcmp(name, level_names[level]) == 0)
            return (tm_cpu_level)level;
    return TM_CPU_LEVEL_COUNT - 1;
}

tm_cpu_level tm_cpu_best(void)
{
    int level = wanted_level();
    while (level > TM_CPU_SCALAR && !tm_cpu_has((tm_cpu_level)level))
        level--;
    return (tm_cpu_level)level;
}
