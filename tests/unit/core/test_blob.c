/* Blobs over blobs: memory, slices, concatenations; where they stand, and what they hold open. */
#include "tests/unit/core/engine.h"
#include "tests/unit/core/held.h"

/* Whether bytes [off, off + len) of BLOB are those of EXPECTED. */
static void expect_range(tm_sched *sched, tm_blob *blob, uint64_t off, size_t len,
                         const uint8_t *expected)
{
    tm_req req;
    tm_req_init(&req, TM_LANE_VISIBLE);
    req.may_block = true;
    uint8_t *got = malloc(len + 1);
    assert_non_null(got);
    got[len] = 0xee;
    assert_int_equal(tm_read_wait(sched, blob, off, len, got, &req), 0);
    assert_memory_equal(got, expected + off, len);
    assert_int_equal(got[len], 0xee);
    free(got);
}

static void expect_all_ranges(tm_sched *sched, tm_blob *blob, const void *expected)
{
    for (uint64_t off = 0; off <= blob->size; off++)
        for (uint64_t len = 0; len <= blob->size - off; len++)
            expect_range(sched, blob, off, len, expected);
}

static tm_blob *memory(const char *text)
{
    tm_blob *blob;
    assert_int_equal(tm_blob_mem_new(text, strlen(text), &blob), 0);
    return blob;
}

static void memory_gives_any_range_of_its_bytes(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    char source[] = "0123456789";
    tm_blob *copied, *taken, *empty;
    assert_int_equal(tm_blob_mem_new(source, 10, &copied), 0);
    assert_int_equal(tm_blob_mem_take(strdup("abcdefg"), 7, &taken), 0);
    assert_int_equal(tm_blob_mem_new(NULL, 0, &empty), 0);
    memset(source, 'x', sizeof(source));
    assert_int_equal(copied->size, 10);
    assert_int_equal(taken->size, 7);
    assert_int_equal(empty->size, 0);
    expect_all_ranges(sched, copied, "0123456789");
    expect_all_ranges(sched, taken, "abcdefg");
    expect_all_ranges(sched, empty, "");
    tm_extent extent;
    assert_false(tm_blob_locate(copied, 0, 1, &extent));
    assert_int_equal(tm_blob_hold(copied, NULL), 0);
    tm_blob_unhold(copied);
    tm_blob_unref(copied);
    tm_blob_unref(taken);
    tm_blob_unref(empty);
    assert_int_equal(tm_blob_mem_take(NULL, 7, &taken), -ENOMEM);
    tm_sched_free(sched);
}

static void a_slice_is_a_range_of_its_whole(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    tm_blob *whole = memory("0123456789"), *slice, *inner, *none;
    assert_int_equal(tm_blob_slice_new(whole, 2, 6, &slice), 0);
    assert_int_equal(tm_blob_slice_new(slice, 1, 4, &inner), 0);
    assert_int_equal(tm_blob_slice_new(slice, 6, 0, &none), 0);
    tm_blob_unref(whole);
    expect_all_ranges(sched, slice, "234567");
    tm_blob_unref(slice);
    expect_all_ranges(sched, inner, "3456");
    expect_all_ranges(sched, none, "");
    tm_blob_unref(inner);
    tm_blob_unref(none);
    tm_sched_free(sched);
}

static void a_concatenation_joins_its_parts_empty_ones_too(void **state)
{
    (void)state;
    static const struct {
        const char *parts[6];
        const char *whole;
    } rows[] = {
        {{NULL}, ""},
        {{"", NULL}, ""},
        {{"", "", NULL}, ""},
        {{"abc", NULL}, "abc"},
        {{"abc", "de", NULL}, "abcde"},
        {{"", "abc", "", "", "de", NULL}, "abcde"},
        {{"a", "b", "c", "", "", NULL}, "abc"},
    };
    tm_sched *sched = sched_new(1, 1);
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        tm_blob *parts[6], *whole;
        size_t count = 0;
        for (; rows[i].parts[count]; count++)
            parts[count] = memory(rows[i].parts[count]);
        assert_int_equal(tm_blob_concat_new(parts, count, &whole), 0);
        assert_int_equal(whole->size, strlen(rows[i].whole));
        for (size_t j = 0; j < count; j++)
            tm_blob_unref(parts[j]);
        expect_all_ranges(sched, whole, rows[i].whole);
        tm_blob_unref(whole);
    }
    tm_sched_free(sched);
}

static void blobs_of_2_64_bytes_together_are_refused(void **state)
{
    (void)state;
    unsigned frees = 0;
    held_blob *half = held_new((uint64_t)1 << 63, &frees), *rest = held_new(UINT64_MAX / 2, &frees);
    tm_blob *whole;
    tm_blob *most[] = {&half->blob, &rest->blob}, *over[] = {&half->blob, &rest->blob, &half->blob};
    assert_int_equal(tm_blob_concat_new(most, 2, &whole), 0);
    assert_int_equal(whole->size, UINT64_MAX);
    uint8_t last;
    tm_req req;
    tm_req_init(&req, TM_LANE_SCALAR);
    req.may_block = true;
    tm_sched *sched = sched_new(1, 1);
    assert_int_equal(tm_read_wait(sched, whole, UINT64_MAX - 1, 1, &last, &req), 0);
    assert_int_equal(last, (uint8_t)(UINT64_MAX / 2 - 1));
    tm_sched_free(sched);
    tm_blob_unref(whole);
    assert_int_equal(tm_blob_concat_new(over, 3, &whole), -EFBIG);
    tm_blob_unref(&half->blob);
    tm_blob_unref(&rest->blob);
    assert_int_equal(frees, 2);
}

static void the_narrowest_window_of_the_parts_is_that_of_the_whole(void **state)
{
    (void)state;
    static const struct {
        size_t windows[3], whole;
    } rows[] = {{{0, 0, 0}, 0}, {{0, 7, 0}, 7}, {{9, 7, 8}, 7}, {{3, 0, 9}, 3}};
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        unsigned frees = 0;
        tm_blob *parts[3], *whole, *slice;
        for (int j = 0; j < 3; j++) {
            parts[j] = &held_new(10, &frees)->blob;
            parts[j]->window = rows[i].windows[j];
        }
        assert_int_equal(tm_blob_concat_new(parts, 3, &whole), 0);
        assert_int_equal(whole->window, rows[i].whole);
        assert_int_equal(tm_blob_slice_new(whole, 5, 5, &slice), 0);
        assert_int_equal(slice->window, rows[i].whole);
        for (int j = 0; j < 3; j++)
            tm_blob_unref(parts[j]);
        tm_blob_unref(whole);
        assert_int_equal(frees, 0);
        tm_blob_unref(slice);
        assert_int_equal(frees, 3);
    }
}

static void a_range_within_one_part_is_found_in_its_file(void **state)
{
    (void)state;
    unsigned frees = 0;
    held_blob *a = held_new(10, &frees), *b = held_new(100, &frees);
    tm_blob *text = memory("header"), *whole, *slice;
    tm_blob *parts[] = {text, &a->blob, &b->blob};
    tm_extent extent;
    assert_int_equal(tm_blob_concat_new(parts, 3, &whole), 0); /* 6 + 10 + 100 */
    static const struct {
        uint64_t off, len;
        int part; /* 0: none */
        uint64_t at;
    } rows[] = {
        {0, 6, 0, 0},  {5, 2, 0, 0},      {6, 10, 1, 4096}, {6, 11, 0, 0},     {15, 1, 1, 4105},
        {15, 2, 0, 0}, {16, 50, 2, 4096}, {16, 51, 0, 0},   {115, 1, 2, 4195}, {116, 0, 2, 4196},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        bool found = tm_blob_locate(whole, rows[i].off, rows[i].len, &extent);
        assert_int_equal(found, rows[i].part != 0);
        if (found) {
            assert_ptr_equal(extent.file, rows[i].part == 1 ? a->file : b->file);
            assert_int_equal(extent.off, rows[i].at);
        }
    }
    assert_int_equal(tm_blob_slice_new(whole, 20, 30, &slice), 0);
    assert_true(tm_blob_locate(slice, 1, 29, &extent));
    assert_ptr_equal(extent.file, b->file);
    assert_int_equal(extent.off, 4096 + 20 + 1 - 16);
    tm_blob_unref(slice);
    tm_blob_unref(whole);
    for (int i = 0; i < 3; i++)
        tm_blob_unref(parts[i]);
    assert_int_equal(tm_blob_concat_new(NULL, 0, &whole), 0);
    assert_false(tm_blob_locate(whole, 0, 0, &extent));
    tm_blob_unref(whole);
}

static void all_parts_are_held_or_none(void **state)
{
    (void)state;
    unsigned frees = 0;
    held_blob *held[3] = {held_new(10, &frees), held_new(10, &frees), held_new(10, &frees)};
    tm_blob *parts[] = {&held[0]->blob, &held[1]->blob, &held[2]->blob}, *whole, *slice;
    assert_int_equal(tm_blob_concat_new(parts, 3, &whole), 0);
    assert_int_equal(tm_blob_slice_new(whole, 0, 30, &slice), 0);
    expect_holds(&(holder){.blob = slice}, held, 3);
    tm_blob_unref(slice);
    tm_blob_unref(whole);
    for (int i = 0; i < 3; i++)
        tm_blob_unref(parts[i]);
    assert_int_equal(frees, 3);
}

/* ---- Random trees of slices and concatenations ---- */

enum {
    SOURCE_BYTES = 300,
    TREES = 300,
    READS = 40
};

typedef struct tree {
    tm_blob *blob;
    uint8_t bytes[4096];
} tree;

static void tree_slice(tree *t, uint64_t *seed)
{
    uint64_t off = next_random(seed) % (t->blob->size + 1);
    uint64_t len = next_random(seed) % (t->blob->size - off + 1);
    tm_blob *slice;
    assert_int_equal(tm_blob_slice_new(t->blob, off, len, &slice), 0);
    tm_blob_unref(t->blob);
    t->blob = slice;
    memmove(t->bytes, t->bytes + off, len);
}

static void tree_leaf(tree *t, uint64_t *seed)
{
    uint64_t size = next_random(seed) % SOURCE_BYTES;
    leaf_fill(0, size, t->bytes);
    if (next_random(seed) % 2) {
        leaf *l = leaf_new(size);
        l->at_hand = true;
        l->blob.window = next_random(seed) % 3 ? 0 : 1 + next_random(seed) % 64;
        t->blob = &l->blob;
    } else {
        assert_int_equal(tm_blob_mem_new(t->bytes, size, &t->blob), 0);
    }
}

static void tree_random(tree *t, unsigned depth, uint64_t *seed)
{
    size_t count = depth ? next_random(seed) % 4 : 0;
    if (count == 0) {
        tree_leaf(t, seed);
    } else {
        tm_blob *parts[4];
        size_t size = 0;
        for (size_t i = 0; i < count; i++) {
            tree part;
            tree_random(&part, depth - 1, seed);
            parts[i] = part.blob;
            memcpy(t->bytes + size, part.bytes, part.blob->size);
            size += part.blob->size;
        }
        assert_int_equal(tm_blob_concat_new(parts, count, &t->blob), 0);
        for (size_t i = 0; i < count; i++)
            tm_blob_unref(parts[i]);
    }
    if (next_random(seed) % 2)
        tree_slice(t, seed);
}

static void any_tree_of_slices_and_concatenations_gives_its_bytes(void **state)
{
    (void)state;
    tm_sched *sched = sched_new(1, 1);
    uint64_t seed = 7;
    for (int i = 0; i < TREES; i++) {
        tree t;
        tree_random(&t, 2, &seed);
        for (int j = 0; j < READS; j++) {
            uint64_t off = next_random(&seed) % (t.blob->size + 1);
            size_t len = next_random(&seed) % (t.blob->size - off + 1);
            expect_range(sched, t.blob, off, len, t.bytes);
        }
        tm_blob_unref(t.blob);
    }
    tm_sched_free(sched);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_gives_any_range_of_its_bytes),
        cmocka_unit_test(a_slice_is_a_range_of_its_whole),
        cmocka_unit_test(a_concatenation_joins_its_parts_empty_ones_too),
        cmocka_unit_test(blobs_of_2_64_bytes_together_are_refused),
        cmocka_unit_test(the_narrowest_window_of_the_parts_is_that_of_the_whole),
        cmocka_unit_test(a_range_within_one_part_is_found_in_its_file),
        cmocka_unit_test(all_parts_are_held_or_none),
        cmocka_unit_test(any_tree_of_slices_and_concatenations_gives_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
