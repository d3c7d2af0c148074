#include "core/sha256.h"

#include <openssl/evp.h>

struct tm_sha256 {
    EVP_MD_CTX *evp;
    bool failed;
};

int tm_sha256_new(tm_sha256 **ret)
{
    TM_AUTO(tm_sha256_freep) tm_sha256 *sha = TM_NEW(tm_sha256);
    if (!sha)
        return -ENOMEM;
    sha->evp = EVP_MD_CTX_new();
    if (!sha->evp)
        return -ENOMEM;
    if (EVP_DigestInit_ex(sha->evp, EVP_sha256(), NULL) != 1)
        return -EOPNOTSUPP;
    *ret = TM_STEAL(sha);
    return 0;
}

void tm_sha256_free(tm_sha256 *sha)
{
    if (!sha)
        return;
    EVP_MD_CTX_free(sha->evp);
    free(sha);
}

void tm_sha256_freep(tm_sha256 **sha)
{
    tm_sha256_free(*sha);
}

void tm_sha256_add(tm_sha256 *sha, const void *bytes, size_t len)
{
    if (EVP_DigestUpdate(sha->evp, bytes, len) != 1)
        sha->failed = true;
}

int tm_sha256_bytes(tm_sha256 *sha, uint8_t ret[TM_SHA256_BYTES])
{
    uint8_t sum[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    bool failed = sha->failed || EVP_DigestFinal_ex(sha->evp, sum, &len) != 1;
    sha->failed = true; /* a second call would hash nothing */
    if (failed || len != TM_SHA256_BYTES)
        return -EIO;
    memcpy(ret, sum, TM_SHA256_BYTES);
    return 0;
}

int tm_sha256_hex(tm_sha256 *sha, char ret[TM_SHA256_HEX])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t sum[TM_SHA256_BYTES];
    TM_TRY(tm_sha256_bytes(sha, sum));
    for (size_t i = 0; i < TM_SHA256_BYTES; i++) {
        ret[2 * i] = digits[sum[i] >> 4];
        ret[2 * i + 1] = digits[sum[i] & 15];
    }
    ret[2 * TM_SHA256_BYTES] = '\0';
    return 0;
}
