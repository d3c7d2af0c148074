/* Histograms as bytes: the bytes themselves, the way back, and what is refused. */
#include "formats/index_hist.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

enum {
    CODES = 65536
};

static uint64_t hist[CODES], back[CODES];

static const struct {
    const char *what;
    struct {
        size_t code;
        uint64_t count;
    } set[4];
    size_t codes;
    unsigned shift;
    size_t len;
    uint8_t bytes[16];
} rows[] = {
    {"nothing", {{0, 0}}, 256, 0, 0, {0}},
    {"one at the first code", {{0, 1}}, 256, 0, 1, {0}},
    {"one at the second: one empty bin before", {{1, 1}}, 256, 0, 2, {1, 0}},
    {"neighbours", {{0, 1}, {1, 2}, {2, 64}}, 256, 0, 3, {0, 2, 126}},
    {"a count of two bytes", {{0, 65}}, 256, 0, 2, {0x80, 1}},
    {"the last of all codes", {{65535, 1}}, CODES, 0, 4, {0xfd, 0xff, 0x07, 0}},
    {"a gap between", {{3, 1}, {70, 3}}, 256, 0, 5, {5, 0, 0x83, 1, 4}},
    {"the greatest count",
     {{0, 1ull << 62}},
     2,
     0,
     9,
     {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}},
    {"two of two codes", {{0, 5}, {1, 7}}, 2, 0, 2, {8, 12}},
    {"bins of four codes", {{0, 1}, {3, 2}, {4, 1}, {255, 9}}, 256, 2, 4, {4, 0, 0x79, 16}},
    {"a single bin of all", {{0, 1}, {9, 1}, {65535, 1}}, CODES, 16, 1, {4}},
    {"a shift beyond the codes", {{0, 1}, {1, 1}}, 2, 16, 1, {2}},
};

static uint64_t set_hist(size_t row)
{
    uint64_t n = 0;
    memset(hist, 0, sizeof(hist));
    for (size_t i = 0; i < TM_ARRAY_LEN(rows[row].set); i++) {
        hist[rows[row].set[i].code] += rows[row].set[i].count;
        n += rows[row].set[i].count;
    }
    return n;
}

static size_t length_of(size_t row)
{
    size_t len = 0;
    for (size_t i = 0; i < sizeof(rows[row].bytes); i++)
        len = rows[row].bytes[i] ? i + 1 : len;
    return len > rows[row].len ? len : rows[row].len;
}

static void the_bytes_are_those_of_the_specification_and_lead_back(void **state)
{
    (void)state;
    for (size_t row = 0; row < TM_ARRAY_LEN(rows); row++) {
        uint8_t bytes[64];
        uint64_t n = set_hist(row);
        size_t len = tm_index_hist_store(hist, rows[row].codes, rows[row].shift, bytes);
        if (len != length_of(row) || memcmp(bytes, rows[row].bytes, len) != 0)
            fail_msg("%s: %zu bytes, %02x %02x %02x …", rows[row].what, len, bytes[0], bytes[1],
                     bytes[2]);
        assert_int_equal(tm_index_hist_store(hist, rows[row].codes, rows[row].shift, NULL), len);
        assert_int_equal(tm_index_hist_load(bytes, len, rows[row].shift, n, rows[row].codes, back),
                         0);
        for (size_t code = 0; code < rows[row].codes; code++) {
            size_t first = code >> rows[row].shift << rows[row].shift;
            if (first != code)
                hist[first] += hist[code], hist[code] = 0;
        }
        assert_memory_equal(back, hist, rows[row].codes * sizeof(*hist));
    }
}

static void bytes_that_store_does_not_write_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        uint64_t n;
        size_t len;
        uint8_t bytes[16];
    } bad[] = {
        {"fewer elements than said", 2, 1, {0}},
        {"more", 0, 1, {0}},
        {"an end in a varint", 1, 1, {0x80}},
        {"a varint of more bytes than it needs", 1, 2, {0x80, 0}},
        {"a varint of more than 64 bits",
         1,
         11,
         {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}},
        {"the same in ten bytes", 1, 10, {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2}},
        {"empty bins at the end", 1, 2, {0, 1}},
        {"empty bins twice", 1, 3, {1, 1, 0}},
        {"empty bins beyond the last", 1, 3, {0x81, 4, 0}},
        {"bins beyond the last", 2, 4, {0xfd, 3, 0, 0}},
        {"only empty bins", 0, 1, {1}},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(bad); i++)
        if (tm_index_hist_load(bad[i].bytes, bad[i].len, 0, bad[i].n, 256, back) != -EBADMSG)
            fail_msg("%s: accepted", bad[i].what);
    assert_int_equal(tm_index_hist_load((const uint8_t[]){0xfd, 3, 0}, 3, 0, 1, 256, back), 0);
}

static void the_least_shift_that_fits_is_taken(void **state)
{
    (void)state;
    memset(hist, 0, sizeof(hist));
    for (size_t code = 0; code < CODES; code += 2)
        hist[code] = 1 + code % 3;
    for (uint64_t room = 0; room < 300000; room = room * 2 + 1) {
        size_t bytes;
        unsigned shift = tm_index_hist_fit(hist, CODES, room, &bytes);
        assert_int_equal(bytes, tm_index_hist_store(hist, CODES, shift, NULL));
        assert_true(bytes <= room || shift == TM_INDEX_HIST_SHIFT_MAX);
        if (shift > 0)
            assert_true(tm_index_hist_store(hist, CODES, shift - 1, NULL) > room);
    }
}

static void the_room_is_a_share_of_the_tensor_but_never_too_small_for_one(void **state)
{
    (void)state;
    assert_int_equal(tm_index_hist_room(0), 256);
    assert_int_equal(tm_index_hist_room(256 * 1024), 256);
    assert_int_equal(tm_index_hist_room(257 * 1024), 257);
    assert_int_equal(tm_index_hist_room(UINT64_MAX), UINT64_MAX / 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_are_those_of_the_specification_and_lead_back),
        cmocka_unit_test(bytes_that_store_does_not_write_are_refused),
        cmocka_unit_test(the_least_shift_that_fits_is_taken),
        cmocka_unit_test(the_room_is_a_share_of_the_tensor_but_never_too_small_for_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
