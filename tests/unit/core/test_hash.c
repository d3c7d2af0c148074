/* Hashes: the published values of XXH3, and that the pieces of an input do not matter. */
#include "core/hash.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

enum {
    INPUT_BYTES = 100000
};

/* Of the bytes 3, 10, 17, … (7i + 3 modulo 256), by another binding of xxHash (python-xxhash). */
static const struct {
    size_t len;
    uint64_t hash64, hi, lo;
} rows[] = {
    {0, 0x2d06800538d394c2, 0x99aa06d3014798d8, 0x6001c324468d497f},
    {1, 0x13e608bc156defed, 0x22bbb76b211a39ba, 0x13e608bc156defed},
    {3, 0xa9088dda485b481c, 0xce31763cbf8245a5, 0xa9088dda485b481c},
    {4, 0x6d9253b16c8b1ed3, 0x47197970590746b1, 0x788a609154b0fe20},
    {9, 0xfeff668361d723a8, 0xc72c88247a9a56d7, 0xeafab1c7f123109f},
    {16, 0xb8c859b0f030b585, 0xce0b9647ab24f884, 0x60d75c5e47d40a24},
    {17, 0x714a04408e79b80f, 0xbfd327edcc2fbd12, 0xeeed7654312a26d7},
    {129, 0xc664bf3311c6abc4, 0x293e4968c4619023, 0xbd91ce7ace4d385b},
    {240, 0x64556dc6b462a6cf, 0xad46c1021b076bc7, 0x04e0b5f034bee80b},
    {241, 0x8beadd3a8874fe17, 0xac6c3492c3d6b45d, 0x8beadd3a8874fe17},
    {1024, 0x9b81661c641c72b1, 0x18bc0eaca9a33636, 0x9b81661c641c72b1},
    {1025, 0x806c2072ed713576, 0xbf447251cfa98d7c, 0x806c2072ed713576},
    {100000, 0x0c056f6fcc340974, 0xd9e155dd16e141d0, 0x0c056f6fcc340974},
};

static unsigned char *new_input(void)
{
    unsigned char *input = malloc(INPUT_BYTES);
    assert_non_null(input);
    for (size_t i = 0; i < INPUT_BYTES; i++)
        input[i] = (unsigned char)(7 * i + 3);
    return input;
}

static void hashes_are_the_published_ones(void **state)
{
    (void)state;
    unsigned char *input = new_input();
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        tm_id id = tm_hash_bytes(input, rows[i].len);
        assert_true(tm_hash64(input, rows[i].len) == rows[i].hash64);
        assert_true(id.hi == rows[i].hi && id.lo == rows[i].lo);
    }
    free(input);
}

static void no_bytes_may_be_null(void **state)
{
    (void)state;
    tm_hasher hasher;
    tm_hasher_init(&hasher);
    tm_hasher_update(&hasher, NULL, 0);
    assert_true(tm_hash64(NULL, 0) == rows[0].hash64);
    assert_true(tm_hash_bytes(NULL, 0).hi == rows[0].hi);
    assert_true(tm_id_equal(tm_hasher_final(&hasher), tm_hash_bytes("", 0)));
}

static void pieces_hash_as_the_whole(void **state)
{
    (void)state;
    static const size_t pieces[] = {1, 3, 63, 64, 65, 255, 256, 257, 1024, 4099, INPUT_BYTES};
    unsigned char *input = new_input();
    for (size_t i = 0; i < TM_ARRAY_LEN(pieces); i++) {
        tm_hasher hasher;
        tm_hasher_init(&hasher);
        for (size_t at = 0; at < INPUT_BYTES; at += pieces[i])
            tm_hasher_update(&hasher, input + at, tm_min_u64(pieces[i], INPUT_BYTES - at));
        tm_id id = tm_hasher_final(&hasher);
        assert_true(tm_id_equal(id, tm_hash_bytes(input, INPUT_BYTES)));
    }
    free(input);
}

static void a_hasher_goes_on_after_an_answer_and_starts_anew(void **state)
{
    (void)state;
    tm_hasher hasher;
    tm_hasher_init(&hasher);
    tm_hasher_update(&hasher, "ab", 2);
    assert_true(tm_id_equal(tm_hasher_final(&hasher), tm_hash_bytes("ab", 2)));
    tm_hasher_update(&hasher, "c", 1);
    assert_true(tm_id_equal(tm_hasher_final(&hasher), tm_hash_bytes("abc", 3)));
    tm_hasher_init(&hasher);
    tm_hasher_update(&hasher, "c", 1);
    assert_true(tm_id_equal(tm_hasher_final(&hasher), tm_hash_bytes("c", 1)));
}

static void ids_are_equal_in_both_halves_only(void **state)
{
    (void)state;
    const tm_id id = {.hi = 1, .lo = 2};
    assert_true(tm_id_equal(id, (tm_id){.hi = 1, .lo = 2}));
    assert_false(tm_id_equal(id, (tm_id){.hi = 1, .lo = 3}));
    assert_false(tm_id_equal(id, (tm_id){.hi = 0, .lo = 2}));
    assert_false(tm_id_equal(id, (tm_id){.hi = 2, .lo = 1}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_are_the_published_ones),
        cmocka_unit_test(no_bytes_may_be_null),
        cmocka_unit_test(pieces_hash_as_the_whole),
        cmocka_unit_test(a_hasher_goes_on_after_an_answer_and_starts_anew),
        cmocka_unit_test(ids_are_equal_in_both_halves_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
