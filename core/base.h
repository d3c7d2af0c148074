/* The vocabulary every file shares: attributes, scope-bound release, checked arithmetic. */
#ifndef TM_CORE_BASE_H
#define TM_CORE_BASE_H

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/types.h"

#define TM_MUST_CHECK         __attribute__((warn_unused_result))
#define TM_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define TM_ARRAY_LEN(a)       (sizeof(a) / sizeof((a)[0]))
#define TM_CONTAINER(p, T, m) ((T *)(void *)((char *)(p)-offsetof(T, m)))

/* TM_AUTO(fn) T v = …; calls fn(&v) when v goes out of scope. Returning v needs TM_STEAL(v). */
#define TM_AUTO(fn) __attribute__((cleanup(fn)))
#define TM_STEAL(p)                                                                                \
    __extension__({                                                                                \
        __typeof__(p) *tm_steal_from_ = &(p);                                                      \
        __typeof__(p) tm_stolen_ = *tm_steal_from_;                                                \
        *tm_steal_from_ = NULL;                                                                    \
        tm_stolen_;                                                                                \
    })

/* Returns from the caller with the (negative) error of EXPR, if it has one. */
#define TM_TRY(expr)                                                                               \
    do {                                                                                           \
        int tm_try_ = (expr);                                                                      \
        if (tm_try_ < 0)                                                                           \
            return tm_try_;                                                                        \
    } while (0)

/* For a result that is ignored on purpose; the call says why in a comment. */
static inline void tm_ignore(int rc)
{
    (void)rc;
}

/* Cleanup functions for TM_AUTO. */
void tm_freep(void *pp); /* free(*(void **)pp) */
void tm_closep(int *fd); /* close(*fd) where *fd >= 0 */
#define TM_AUTO_FREE  TM_AUTO(tm_freep)
#define TM_AUTO_CLOSE TM_AUTO(tm_closep)

/* True where the sum or product does not fit; *ret is then undefined. */
static inline TM_MUST_CHECK bool tm_add_overflow(uint64_t a, uint64_t b, uint64_t *ret)
{
    return __builtin_add_overflow(a, b, ret);
}

static inline TM_MUST_CHECK bool tm_mul_overflow(uint64_t a, uint64_t b, uint64_t *ret)
{
    return __builtin_mul_overflow(a, b, ret);
}

/* True where [off, off + len) lies within [0, size). */
static inline bool tm_range_ok(uint64_t off, uint64_t len, uint64_t size)
{
    return off <= size && len <= size - off;
}

static inline uint64_t tm_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t tm_max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Little-endian loads and stores of unaligned memory. */
static inline uint64_t tm_le64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    return v;
}

/* A calloc of N items that cannot overflow; NULL on overflow or want of memory. */
void *tm_new_array(size_t n, size_t item_bytes);
#define TM_NEW(T) ((T *)calloc(1, sizeof(T)))

/* CLOCK_MONOTONIC in nanoseconds; a time of it, and MS milliseconds from now, to wait until. */
uint64_t tm_now_ns(void);
struct timespec tm_timespec_of(uint64_t ns);
struct timespec tm_after_ms(uint64_t ms);

static_assert(sizeof(void *) == 8, "tensormorph needs a 64-bit machine");
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tensormorph needs a little-endian machine"
#endif

#endif
