/* The fields of statistics: their names, their order, and which have no value when. */
#include "core/stats_record.h"

#include <math.h>
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#define REAL    TM_VALUE_REAL
#define INTEGER TM_VALUE_INTEGER

/* In the order of stats.json; the value is what full_record() puts there. */
static const struct {
    const char *name;
    tm_value_kind kind;
    double value;
} fields[] = {
    {"n", INTEGER, 1},
    {"zero_count", INTEGER, 2},
    {"neg_zero_count", INTEGER, 3},
    {"nan_count", INTEGER, 4},
    {"pos_inf_count", INTEGER, 5},
    {"neg_inf_count", INTEGER, 6},
    {"subnormal_count", INTEGER, 7},
    {"min", REAL, -8.5},
    {"max", REAL, 9.5},
    {"absmax", REAL, 10.5},
    {"absmax_index", INTEGER, 11},
    {"mean", REAL, 12.5},
    {"var", REAL, 13.5},
    {"std", REAL, 14.5},
    {"l1", REAL, 15.5},
    {"l2", REAL, 16.5},
    {"sparsity", REAL, 17.5},
    {"entropy", REAL, 18.5},
    {"distinct", INTEGER, 19},
    {"zero_rows", INTEGER, 20},
    {"zero_cols", INTEGER, 21},
    {"q0.001", REAL, 22.5},
    {"q0.01", REAL, 23.5},
    {"q0.05", REAL, 24.5},
    {"q0.25", REAL, 25.5},
    {"q0.5", REAL, 26.5},
    {"q0.75", REAL, 27.5},
    {"q0.95", REAL, 28.5},
    {"q0.99", REAL, 29.5},
    {"q0.999", REAL, 30.5},
};
static_assert(TM_ARRAY_LEN(fields) == TM_STATS_FIELDS, "all of them");

/* No two fields are the same. */
static tm_stats_record full_record(void)
{
    return (tm_stats_record){
        .summary =
            {
                .n = 1,
                .zero = 2,
                .neg_zero = 3,
                .nan = 4,
                .pos_inf = 5,
                .neg_inf = 6,
                .subnormal = 7,
                .min = -8.5,
                .max = 9.5,
                .absmax = 10.5,
                .absmax_index = 11,
                .moments = {.mean = 12.5, .var = 13.5, .std = 14.5, .l1 = 15.5, .l2 = 16.5},
                .sparsity = 17.5,
                .entropy = 18.5,
                .distinct = 19,
                .has_distinct = true,
                .quantile = {22.5, 23.5, 24.5, 25.5, 26.5, 27.5, 28.5, 29.5, 30.5},
            },
        .zero_rows = 20,
        .zero_cols = 21,
    };
}

static void names_stand_in_the_order_of_the_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_STATS_FIELDS; i++)
        assert_string_equal(tm_stats_field_name(i), fields[i].name);
    assert_string_equal(tm_stats_field_name(TM_STATS_PLAIN_FIELDS), "q0.001");
}

static void each_name_is_found_and_only_as_a_whole(void **state)
{
    (void)state;
    static const char *const others[] = {"",     "N",  "nn",      "n ",      "zero", "zero_counts",
                                         "q0.1", "q0", "q0.50",   "0.5",     "q",    "absmax_inde",
                                         "std/", "l",  "distinc", "quantile"};
    size_t found;
    for (size_t i = 0; i < TM_STATS_FIELDS; i++) {
        char longer[32];
        size_t len = strlen(fields[i].name);
        memcpy(longer, fields[i].name, len);
        longer[len] = 'x'; /* LEN bytes count, no NUL */
        found = SIZE_MAX;
        assert_true(tm_stats_field_find(longer, len, &found));
        assert_int_equal(found, i);
        assert_false(tm_stats_field_find(longer, len + 1, &found));
    }
    for (size_t i = 0; i < TM_ARRAY_LEN(others); i++)
        assert_false(tm_stats_field_find(others[i], strlen(others[i]), &found));
}

static void each_field_is_its_own_member(void **state)
{
    (void)state;
    tm_stats_record record = full_record();
    for (size_t i = 0; i < TM_STATS_FIELDS; i++) {
        tm_value value = tm_stats_field(&record, i);
        assert_int_equal(value.kind, fields[i].kind);
        if (value.kind == TM_VALUE_INTEGER)
            assert_int_equal(value.integer, (uint64_t)fields[i].value);
        else
            assert_true(value.real == fields[i].value);
    }
}

static tm_value field_called(const tm_stats_record *record, const char *name)
{
    size_t field;
    assert_true(tm_stats_field_find(name, strlen(name), &field));
    return tm_stats_field(record, field);
}

static void a_wide_type_has_no_distinct_patterns(void **state)
{
    (void)state;
    tm_stats_record record = full_record();
    record.summary.has_distinct = false;
    for (size_t i = 0; i < TM_STATS_FIELDS; i++) {
        bool none = strcmp(fields[i].name, "distinct") == 0;
        assert_int_equal(tm_stats_field(&record, i).kind, none ? TM_VALUE_NONE : fields[i].kind);
    }
}

static void without_finite_values_nothing_stands_where_the_greatest_is(void **state)
{
    (void)state;
    tm_stats_record record = full_record();
    record.summary.absmax = NAN;
    assert_int_equal(field_called(&record, "absmax_index").kind, TM_VALUE_NONE);
    tm_value absmax = field_called(&record, "absmax");
    assert_int_equal(absmax.kind, TM_VALUE_REAL);
    assert_true(isnan(absmax.real));
    record.summary.absmax = 0; /* of zeros alone, which are finite */
    assert_int_equal(field_called(&record, "absmax_index").integer, 11);
}

static void counts_keep_all_their_bits(void **state)
{
    (void)state;
    tm_stats_record record = full_record();
    record.summary.n = UINT64_MAX;
    record.zero_cols = (UINT64_C(1) << 53) + 1;
    assert_true(field_called(&record, "n").integer == UINT64_MAX);
    assert_true(field_called(&record, "zero_cols").integer == (UINT64_C(1) << 53) + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_stand_in_the_order_of_the_file),
        cmocka_unit_test(each_name_is_found_and_only_as_a_whole),
        cmocka_unit_test(each_field_is_its_own_member),
        cmocka_unit_test(a_wide_type_has_no_distinct_patterns),
        cmocka_unit_test(without_finite_values_nothing_stands_where_the_greatest_is),
        cmocka_unit_test(counts_keep_all_their_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
