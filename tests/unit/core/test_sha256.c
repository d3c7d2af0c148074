/* SHA-256 against the vectors of FIPS 180-4. */
#include "core/sha256.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static const struct {
    const char *text;
    size_t repeat; /* of the text */
    const char *hex;
} vectors[] = {
    {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"aaaaaaaaaa", 100000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
};

static void published_vectors_hash_to_their_sums(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(vectors); i++) {
        tm_sha256 *sha;
        char hex[TM_SHA256_HEX];
        assert_int_equal(tm_sha256_new(&sha), 0);
        for (size_t k = 0; k < vectors[i].repeat; k++)
            tm_sha256_add(sha, vectors[i].text, strlen(vectors[i].text));
        assert_int_equal(tm_sha256_hex(sha, hex), 0);
        assert_string_equal(hex, vectors[i].hex);
        tm_sha256_free(sha);
    }
}

static void pieces_hash_like_the_whole(void **state)
{
    (void)state;
    const char *text = vectors[2].text;
    for (size_t cut = 0; cut <= strlen(text); cut++) {
        TM_AUTO(tm_sha256_freep) tm_sha256 *sha = NULL;
        char hex[TM_SHA256_HEX];
        assert_int_equal(tm_sha256_new(&sha), 0);
        tm_sha256_add(sha, text, cut);
        tm_sha256_add(sha, text + cut, strlen(text) - cut);
        assert_int_equal(tm_sha256_hex(sha, hex), 0);
        assert_string_equal(hex, vectors[2].hex);
    }
}

static void a_second_sum_of_one_hash_is_refused(void **state)
{
    (void)state;
    tm_sha256 *sha;
    char hex[TM_SHA256_HEX];
    assert_int_equal(tm_sha256_new(&sha), 0);
    assert_int_equal(tm_sha256_hex(sha, hex), 0);
    assert_int_equal(tm_sha256_hex(sha, hex), -EIO);
    tm_sha256_free(sha);
    tm_sha256_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors_hash_to_their_sums),
        cmocka_unit_test(pieces_hash_like_the_whole),
        cmocka_unit_test(a_second_sum_of_one_hash_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
