/* Sorting by row number: against a plain sort of the same rows, for many patterns and sizes. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "core/order.h"

typedef struct row {
    uint32_t key, place; /* place: where it stood, to see that equal rows keep their order */
} row;

typedef struct rows {
    const row *rows;
    uint64_t compared;
} rows;

static int cmp(const void *ctx, uint32_t a, uint32_t b)
{
    const rows *r = ctx;
    ((rows *)(uintptr_t)r)->compared++;
    return (r->rows[a].key > r->rows[b].key) - (r->rows[a].key < r->rows[b].key);
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Fills the keys by the named pattern. */
enum pattern {
    RISING,
    FALLING,
    EQUAL,
    RANDOM,
    FEW_KEYS,
    SAWTOOTH,
    TWO_RUNS,
    LAST_FIRST,
    SHRINKING_RUNS,
    PATTERNS
};

static uint32_t key_of(enum pattern pattern, uint32_t i, uint32_t n, uint32_t *random)
{
    switch (pattern) {
    case RISING:
        return i;
    case FALLING:
        return n - i;
    case EQUAL:
        return 7;
    case RANDOM:
        return next_random(random);
    case FEW_KEYS:
        return next_random(random) % 4;
    case SAWTOOTH:
        return i % 50;
    case TWO_RUNS:
        return i % (n / 2 + 1);
    case LAST_FIRST:
        return i + 1 == n ? 0 : i + 1;
    default:
        return i ^ (i >> 3);
    }
}

static void check(enum pattern pattern, uint32_t n)
{
    row *items = tm_new_array(n, sizeof(*items));
    assert_non_null(items);
    uint32_t random = n;
    for (uint32_t i = 0; i < n; i++)
        items[i] = (row){.key = key_of(pattern, i, n, &random), .place = i};
    rows r = {.rows = items};
    uint32_t *order = NULL;
    assert_int_equal(tm_order_new(n, cmp, &r, &order), 0);
    uint64_t log2 = 1;
    while (n >> log2)
        log2++;
    assert_true(r.compared <= n * (log2 + 4));
    tm_order_apply(order, n, items, sizeof(*items));
    uint64_t places = 0;
    for (uint32_t i = 0; i < n; i++) {
        places += items[i].place;
        assert_int_equal(order[i], i);
        if (i == 0)
            continue;
        bool rises = items[i - 1].key < items[i].key;
        bool stable = items[i - 1].key == items[i].key && items[i - 1].place < items[i].place;
        if (!rises && !stable)
            fail_msg("pattern %d of %u rows: row %u", (int)pattern, n, i);
    }
    assert_int_equal(places, (uint64_t)n * (n ? n - 1 : 0) / 2);
    assert_true(tm_order_is_sorted(n, cmp, &r));
    free(order);
    free(items);
}

static void test_every_pattern_of_every_size_is_sorted_and_stable(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {0,  1,  2,  3,   15,  16,  17,   31,   32,
                                     33, 64, 65, 100, 255, 257, 1000, 4097, 100000};
    for (size_t i = 0; i < TM_ARRAY_LEN(sizes); i++) {
        for (int pattern = 0; pattern < PATTERNS; pattern++)
            check((enum pattern)pattern, sizes[i]);
    }
}

static void test_rows_out_of_order_are_noticed(void **state)
{
    (void)state;
    const row items[] = {{1, 0}, {2, 1}, {2, 2}, {1, 3}};
    rows r = {.rows = items};
    assert_true(tm_order_is_sorted(0, cmp, &r));
    assert_true(tm_order_is_sorted(1, cmp, &r));
    assert_true(tm_order_is_sorted(3, cmp, &r));
    assert_false(tm_order_is_sorted(4, cmp, &r));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pattern_of_every_size_is_sorted_and_stable),
        cmocka_unit_test(test_rows_out_of_order_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
