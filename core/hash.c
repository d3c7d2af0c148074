/* XXH3 behind our names. */
#include "core/hash.h"

/* Compiled in, not linked: the size of the streaming state is then this compiler's knowledge. */
#define XXH_INLINE_ALL
#include <xxhash.h>

static_assert(sizeof(XXH3_state_t) <= sizeof(tm_hasher), "the state of XXH3 grew");
static_assert(_Alignof(tm_hasher) % _Alignof(XXH3_state_t) == 0, "XXH3 wants more alignment");

static tm_id id_of(XXH128_hash_t hash)
{
    return (tm_id){.hi = hash.high64, .lo = hash.low64};
}

/* XXH3 reports errors for NULL only, which is the empty input here. */
static void check(XXH_errorcode rc)
{
    assert(rc == XXH_OK);
    (void)rc;
}

tm_id tm_hash_bytes(const void *bytes, size_t len)
{
    return id_of(XXH3_128bits(len ? bytes : "", len));
}

uint64_t tm_hash64(const void *bytes, size_t len)
{
    return XXH3_64bits(len ? bytes : "", len);
}

void tm_hasher_init(tm_hasher *hasher)
{
    check(XXH3_128bits_reset((XXH3_state_t *)(void *)hasher));
}

void tm_hasher_update(tm_hasher *hasher, const void *bytes, size_t len)
{
    if (len > 0)
        check(XXH3_128bits_update((XXH3_state_t *)(void *)hasher, bytes, len));
}

tm_id tm_hasher_final(const tm_hasher *hasher)
{
    return id_of(XXH3_128bits_digest((const XXH3_state_t *)(const void *)hasher));
}
