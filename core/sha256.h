/* SHA-256: the fingerprints of sources. The one door to libcrypto. One thread at a time. */
#ifndef TM_CORE_SHA256_H
#define TM_CORE_SHA256_H

#include "core/base.h"

enum {
    TM_SHA256_BYTES = 32,
    TM_SHA256_HEX = 65, /* with its NUL */
};

typedef struct tm_sha256 tm_sha256;

/* -ENOMEM, or -EOPNOTSUPP where libcrypto was told to do without SHA-256. */
TM_MUST_CHECK int tm_sha256_new(tm_sha256 **ret);
void tm_sha256_free(tm_sha256 *sha);
void tm_sha256_freep(tm_sha256 **sha); /* for TM_AUTO */

/* A failure sticks, for tm_sha256_hex() to tell. */
void tm_sha256_add(tm_sha256 *sha, const void *bytes, size_t len);
/* Of all that was added, as bytes or as lower-case hex digits. Once; SHA can only be freed then.
 * -EIO. */
TM_MUST_CHECK int tm_sha256_bytes(tm_sha256 *sha, uint8_t ret[TM_SHA256_BYTES]);
TM_MUST_CHECK int tm_sha256_hex(tm_sha256 *sha, char ret[TM_SHA256_HEX]);

#endif
