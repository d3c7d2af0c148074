/*
 * Hashes and ids: the one door to xxHash (XXH3, whose values its authors keep for good).
 *
 * Not against an adversary: who can choose both inputs can make them collide. Where that matters
 * (a file's integrity), use a cryptographic one.
 */
#ifndef TM_CORE_HASH_H
#define TM_CORE_HASH_H

#include "core/base.h"

/* 128 bits of hash: equal ids are taken for equal content. */
typedef struct tm_id {
    uint64_t hi, lo;
} tm_id;

static inline bool tm_id_equal(tm_id a, tm_id b)
{
    return a.hi == b.hi && a.lo == b.lo;
}

tm_id tm_hash_bytes(const void *bytes, size_t len);
uint64_t tm_hash64(const void *bytes, size_t len);

/* tm_hash_bytes() of a concatenation. On the stack, or in memory aligned to 64 bytes (malloc does
 * not). One thread; holds nothing to release. */
typedef struct tm_hasher {
    _Alignas(64) unsigned char state[576];
} tm_hasher;

void tm_hasher_init(tm_hasher *hasher);
void tm_hasher_update(tm_hasher *hasher, const void *bytes, size_t len);
tm_id tm_hasher_final(const tm_hasher *hasher); /* updates may follow */

#endif
