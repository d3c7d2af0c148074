/*
 * Packed elements that exercise a conversion: every code of types of 16 bits or fewer; of wider
 * ones random bits of every magnitude, and the neighbours of what lies half-way between two f32.
 */
#ifndef TM_TESTS_CONVERT_SOURCES_H
#define TM_TESTS_CONVERT_SOURCES_H

#include "core/dtype.h"

enum {
    SOURCE_ELEMS_MAX = 65536,
    SOURCE_BYTES_MAX = 8 * SOURCE_ELEMS_MAX
};

static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* An integer whose magnitude is random, every other one just beside a half-way point of f32. */
static inline uint64_t random_integer(uint64_t *state, unsigned bits)
{
    uint64_t r = next_random(state);
    unsigned shift = (unsigned)(next_random(state) % bits);
    if (r % 2 == 0)
        return r >> shift;
    unsigned low_bits = shift % 40 + 1;
    uint64_t half = 1ull << (low_bits - 1);
    uint64_t mantissa = 1u << 23 | (r >> 40 & 0x7fffff);
    uint64_t value = (mantissa << low_bits) + half + (next_random(state) % 3 - 1);
    return r >> 8 & 1 ? value : 0 - value;
}

/* The bits of a double: any, or a float's moved by half a unit, one f64 step more or less. */
static inline uint64_t random_double(uint64_t *state)
{
    uint64_t r = next_random(state);
    uint64_t step = next_random(state) % 3 - 1;
    double value;
    if (r % 4 == 0)
        return next_random(state);
    if (r % 4 == 1) { /* between two subnormal floats */
        value = (double)(r >> 41) * 0x1p-150;
    } else {
        uint32_t bits = (uint32_t)(r >> 32);
        float single;
        memcpy(&single, &bits, sizeof(single));
        value = (double)single;
        step += 1ull << 28;
    }
    uint64_t result;
    memcpy(&result, &value, sizeof(result));
    return result + step;
}

/* Fills SRC (SOURCE_BYTES_MAX) and returns the number of elements. */
static inline size_t fill_source(tm_dtype dtype, uint8_t *src)
{
    unsigned bits = tm_dtype_get(dtype)->bits;
    size_t n = bits >= 16 ? SOURCE_ELEMS_MAX : 256;
    uint64_t state = 0x9e3779b97f4a7c15u;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t code = i;
        if (dtype == TM_F64)
            code = random_double(&state);
        else if (dtype == TM_F32)
            code = next_random(&state) >> 16;
        else if (bits > 16)
            code = random_integer(&state, bits);
        size_t bytes = bits < 8 ? 1 : bits / 8;
        memcpy(src + i * bytes, &code, bytes);
    }
    return bits == 4 ? 2 * n : n;
}

#endif
