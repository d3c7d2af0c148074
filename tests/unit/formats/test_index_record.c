/* Records and sums as bytes: every field there and back, and what is refused. */
#include "formats/index_record.h"

#include "tests/unit/formats/index_cases.h"

static tm_index_tensor full_tensor(void)
{
    tm_index_tensor t = {
        .name_len = 11,
        .dtype = TM_F8_E4M3FNUZ,
        .scaled = true,
        .hist_shift = 3,
        .stored_bytes = 1ull << 50,
        .context = 0x1122334455667788,
        .name_ref = {1, 2, 11},
        .sums_ref = {3, 4, 5},
        .hist_ref = {6, 7, 8},
    };
    tm_stats_summary *s = &t.record.summary;
    s->n = 1000;
    s->nan = 1;
    s->pos_inf = 2;
    s->neg_inf = 3;
    s->zero = 40;
    s->neg_zero = 5;
    s->subnormal = 6;
    s->min = -7.5;
    s->max = 8.25;
    s->absmax = 8.25;
    s->absmax_index = 999;
    s->moments = (tm_moments){.mean = 0.1, .var = 0.2, .std = 0.3, .l1 = 0.4, .l2 = 0.5};
    s->sparsity = 40.0 / 1000;
    s->entropy = 4.75;
    s->distinct = 77;
    s->has_distinct = true;
    for (size_t i = 0; i < TM_STATS_QUANTILES; i++)
        s->quantile[i] = (double)i - 4.5;
    t.record.zero_rows = 12;
    t.record.zero_cols = 13;
    return t;
}

static void every_field_comes_back(void **state)
{
    (void)state;
    uint8_t bytes[TM_INDEX_RECORD_BYTES];
    tm_index_tensor in = full_tensor(), out;
    tm_index_record_store(&in, bytes);
    assert_int_equal(tm_index_record_load(bytes, sizeof(bytes), &out), 0);
    assert_memory_equal(&in.record.summary.quantile, &out.record.summary.quantile,
                        sizeof(in.record.summary.quantile));
    assert_true(same_record(&in.record, &out.record));
    assert_int_equal(out.name_len, 11);
    assert_int_equal(out.dtype, TM_F8_E4M3FNUZ);
    assert_true(out.scaled);
    assert_int_equal(out.hist_shift, 3);
    assert_int_equal(out.stored_bytes, in.stored_bytes);
    assert_int_equal(out.context, in.context);
    assert_memory_equal(&out.name_ref, &in.name_ref, sizeof(in.name_ref));
    assert_memory_equal(&out.sums_ref, &in.sums_ref, sizeof(in.sums_ref));
    assert_memory_equal(&out.hist_ref, &in.hist_ref, sizeof(in.hist_ref));
}

static void any_nan_is_stored_as_the_same(void **state)
{
    (void)state;
    uint8_t one[TM_INDEX_RECORD_BYTES], other[TM_INDEX_RECORD_BYTES];
    tm_index_tensor t = full_tensor();
    t.record.summary.entropy = NAN;
    tm_index_record_store(&t, one);
    t.record.summary.entropy = -NAN;
    tm_index_record_store(&t, other);
    assert_memory_equal(one, other, sizeof(one));
}

static void a_changed_bit_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[TM_INDEX_RECORD_BYTES];
    tm_index_tensor t = full_tensor(), out;
    tm_index_record_store(&t, bytes);
    for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(tm_index_record_load(bytes, sizeof(bytes), &out), -EBADMSG);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(tm_index_record_load(bytes, sizeof(bytes), &out), 0);
}

static void a_longer_record_of_a_later_version_is_read(void **state)
{
    (void)state;
    uint8_t bytes[TM_INDEX_RECORD_BYTES + 16];
    tm_index_tensor t = full_tensor(), out;
    tm_index_record_store(&t, bytes);
    memset(bytes + TM_INDEX_RECORD_BYTES - 8, 0x5a, 16);
    uint64_t check = tm_hash64(bytes, sizeof(bytes) - 8);
    memcpy(bytes + sizeof(bytes) - 8, &check, 8);
    assert_int_equal(tm_index_record_load(bytes, sizeof(bytes), &out), 0);
    assert_true(same_record(&t.record, &out.record));
}

/* A u64 at an offset of docs/index-format.md, with a check that is right. */
static const struct {
    const char *what;
    size_t off;
    uint64_t value;
} impossible[] = {
    {"a name of more than a MiB", 48, ((uint64_t)5 << 32) | ((1u << 20) + 1)},
    {"sums that are too long", 48, ((uint64_t)(TM_INDEX_SUMS_MAX + 1) << 32) | 11},
    {"a histogram that is too long", 56, 655361},
    {"a shift of 17", 56, ((uint64_t)17 << 32) | 8},
    {"a dtype that is none", 64, 0x39394642}, /* BF99 */
    {"a dtype without values", 64, 0x343643}, /* C64 */
    {"2^62 elements", 104, 1ull << 62},
    {"more zeros than elements", 112, 1001},
    {"more negative zeros than zeros", 120, 41},
    {"parts that add up to more", 128, 956},
    {"parts that overflow", 128, UINT64_MAX},
    {"more subnormals than there is room for", 152, 955},
    {"a place beyond the last", 184, 1000},
};

static void what_cannot_be_is_refused_though_its_check_holds(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(impossible); i++) {
        uint8_t bytes[TM_INDEX_RECORD_BYTES];
        tm_index_tensor t = full_tensor(), out;
        tm_index_record_store(&t, bytes);
        memcpy(bytes + impossible[i].off, &impossible[i].value, 8);
        if (impossible[i].off == 64)
            memset(bytes + 72, 0, 8);
        uint64_t check = tm_hash64(bytes, sizeof(bytes) - 8);
        memcpy(bytes + sizeof(bytes) - 8, &check, 8);
        if (tm_index_record_load(bytes, sizeof(bytes), &out) != -EBADMSG)
            fail_msg("%s: accepted", impossible[i].what);
    }
}

static void sums_come_back_and_nothing_may_follow_them(void **state)
{
    (void)state;
    uint8_t bytes[TM_INDEX_SUMS_MAX + 1] = {0};
    for (size_t i = 0; i < INDEX_CASES; i++) {
        tm_stats stats;
        tm_stats_record record;
        tm_sums sums, back;
        make_stats(&index_cases[i], &stats, &sums, &record);
        size_t len = tm_index_sums_store(&sums, bytes);
        assert_int_equal(tm_index_sums_load(bytes, len, &back), 0);
        assert_memory_equal(&back, &sums, sizeof(sums));
        assert_int_equal(tm_index_sums_load(bytes, len + 1, &back), -EBADMSG);
        assert_int_equal(tm_index_sums_load(bytes, len - 1, &back), -EBADMSG);
        tm_stats_done(&stats);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_comes_back),
        cmocka_unit_test(any_nan_is_stored_as_the_same),
        cmocka_unit_test(a_changed_bit_is_refused),
        cmocka_unit_test(a_longer_record_of_a_later_version_is_read),
        cmocka_unit_test(what_cannot_be_is_refused_though_its_check_holds),
        cmocka_unit_test(sums_come_back_and_nothing_may_follow_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
