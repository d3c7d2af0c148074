/* Queries built by hand: three values, exact numbers, and what is not there. */
#include "core/query.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <setjmp.h>
#include <cmocka.h>

/* --- fields --- */

static void every_field_is_found_by_its_name(void **state)
{
    (void)state;
    for (int i = 0; i < TM_FIELD_COUNT; i++) {
        const char *name = tm_field_get((tm_field)i).name;
        char full[64];
        tm_field found = TM_FIELD_COUNT;
        assert_true(tm_field_find(name, strlen(name), &found));
        assert_int_equal(found, i);
        found = TM_FIELD_COUNT;
        int len = snprintf(full, sizeof(full), "tensor.%s", name);
        assert_true(tm_field_find(full, (size_t)len, &found));
        assert_int_equal(found, i);
    }
}

static void the_role_has_a_second_name(void **state)
{
    (void)state;
    tm_field found = TM_FIELD_COUNT;
    assert_true(tm_field_find("layer.type", 10, &found));
    assert_int_equal(found, TM_FIELD_ROLE);
}

static void other_names_are_no_fields(void **state)
{
    (void)state;
    static const char *const names[] = {
        "",
        "tensor",
        "tensor.",
        "tensor.tensor.name",
        "tensor.layer.type",
        "Name",
        "name ",
        "layer.name",
        "type",
        "q0.9",
        "tensor.nam",
        "tensor.names",
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++) {
        tm_field found = TM_FIELD_COUNT;
        assert_false(tm_field_find(names[i], strlen(names[i]), &found));
        assert_int_equal(found, TM_FIELD_COUNT);
    }
}

static void statistics_and_texts_are_told_apart(void **state)
{
    (void)state;
    for (int i = 0; i < TM_FIELD_COUNT; i++) {
        tm_field_info info = tm_field_get((tm_field)i);
        assert_int_equal(info.is_text, i <= TM_FIELD_FILE);
        assert_int_equal(info.is_statistic, i >= TM_FIELD_INF_COUNT);
    }
}

static void a_query_lists_its_fields_in_order_of_use(void **state)
{
    (void)state;
    TM_AUTO(tm_query_freep) tm_query *q = tm_query_new(0, 0);
    assert_non_null(q);
    assert_int_equal(tm_query_use(q, TM_FIELD_ROLE), 0);
    assert_int_equal(tm_query_use(q, TM_FIELD_LAYER), 1);
    assert_int_equal(tm_query_use(q, TM_FIELD_ROLE), 0);
    assert_false(q->needs_statistics);
    assert_int_equal(tm_query_use(q, TM_FIELD_STAT(TM_STAT_Q0_99)), 2);
    assert_true(q->needs_statistics);
    assert_int_equal(q->field_count, 3);
    assert_int_equal(q->fields[0], TM_FIELD_ROLE);
    assert_int_equal(q->fields[1], TM_FIELD_LAYER);
    assert_int_equal(q->fields[2], TM_FIELD_STAT(TM_STAT_Q0_99));
}

static void a_query_that_no_memory_could_hold_is_refused(void **state)
{
    (void)state;
    assert_null(tm_query_new(1, SIZE_MAX));
}

/* --- three values --- */

/* FIRST OP SECOND, where each is a question `layer == 1` that has the answer wanted. */
static tm_truth joined(tm_query_op op, tm_truth first, tm_truth second)
{
    static const uint64_t layers[] = {[TM_NO] = 0, [TM_YES] = 1};
    tm_query_value values[2];
    tm_truth wanted[2] = {first, second};
    TM_AUTO(tm_query_freep) tm_query *q = tm_query_new(3, 0);
    assert_non_null(q);
    for (uint16_t i = 0; i < 2; i++) {
        tm_query_node is_one = {.op = TM_QUERY_EQ, .first = i, .constant = tm_query_integer(1)};
        assert_int_equal(tm_query_add(q, &is_one), i);
        values[i] =
            wanted[i] == TM_UNKNOWN ? tm_query_unknown() : tm_query_integer(layers[wanted[i]]);
    }
    assert_int_equal(tm_query_add(q, &(tm_query_node){.op = op, .first = 0, .second = 1}), 2);
    return tm_query_ask(q, values);
}

static void and_or_not_are_kleenes(void **state)
{
    (void)state;
    static const struct {
        tm_truth a, b, both, either, not_a;
    } table[] = {
        {TM_NO, TM_NO, TM_NO, TM_NO, TM_YES},
        {TM_NO, TM_UNKNOWN, TM_NO, TM_UNKNOWN, TM_YES},
        {TM_NO, TM_YES, TM_NO, TM_YES, TM_YES},
        {TM_UNKNOWN, TM_NO, TM_NO, TM_UNKNOWN, TM_UNKNOWN},
        {TM_UNKNOWN, TM_UNKNOWN, TM_UNKNOWN, TM_UNKNOWN, TM_UNKNOWN},
        {TM_UNKNOWN, TM_YES, TM_UNKNOWN, TM_YES, TM_UNKNOWN},
        {TM_YES, TM_NO, TM_NO, TM_YES, TM_NO},
        {TM_YES, TM_UNKNOWN, TM_UNKNOWN, TM_YES, TM_NO},
        {TM_YES, TM_YES, TM_YES, TM_YES, TM_NO},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(table); i++) {
        assert_int_equal(joined(TM_QUERY_AND, table[i].a, table[i].b), table[i].both);
        assert_int_equal(joined(TM_QUERY_OR, table[i].a, table[i].b), table[i].either);
        assert_int_equal(joined(TM_QUERY_NOT, table[i].a, table[i].b), table[i].not_a);
    }
}

/* --- comparisons --- */

static const tm_query_op comparisons[] = {
    TM_QUERY_EQ, TM_QUERY_NE, TM_QUERY_LT, TM_QUERY_LE, TM_QUERY_GT, TM_QUERY_GE,
};
static const char *const comparison_names[] = {"==", "!=", "<", "<=", ">", ">="};

static tm_truth ask_constant(tm_query_op op, tm_query_value a, tm_query_value constant)
{
    TM_AUTO(tm_query_freep) tm_query *q = tm_query_new(1, 0);
    assert_non_null(q);
    tm_query_add(q, &(tm_query_node){.op = op, .constant = constant});
    return tm_query_ask(q, &a);
}

static tm_truth ask_fields(tm_query_op op, tm_query_value a, tm_query_value b)
{
    TM_AUTO(tm_query_freep) tm_query *q = tm_query_new(1, 0);
    assert_non_null(q);
    tm_query_add(q, &(tm_query_node){.op = op, .by_field = true, .first = 0, .second = 1});
    return tm_query_ask(q, (tm_query_value[]){a, b});
}

/* The answers to == != < <= > >=, as a text of y, n and ?. */
static void check_answers(const char *label, tm_query_value a, tm_query_value b,
                          const char *expected)
{
    static const char letters[] = {[TM_NO] = 'n', [TM_UNKNOWN] = '?', [TM_YES] = 'y'};
    for (size_t i = 0; i < TM_ARRAY_LEN(comparisons); i++) {
        char constant = letters[ask_constant(comparisons[i], a, b)];
        char fields = letters[ask_fields(comparisons[i], a, b)];
        if (constant != expected[i] || fields != expected[i])
            fail_msg("%s: %s is %c by constant, %c by field", label, comparison_names[i], constant,
                     fields);
    }
}

static tm_query_value minus(uint64_t magnitude)
{
    return (tm_query_value){.kind = TM_QUERY_INTEGER, .negative = true, .magnitude = magnitude};
}

#define U tm_query_integer
#define R tm_query_real

static void numbers_compare_by_their_exact_values(void **state)
{
    (void)state;
    const uint64_t two53 = UINT64_C(1) << 53, two63 = UINT64_C(1) << 63;
    const struct {
        tm_query_value less, more;
    } rows[] = {
        {U(0), U(1)},
        {minus(1), U(0)},
        {minus(2), minus(1)},
        {minus(UINT64_MAX), U(UINT64_MAX)},
        {U(UINT64_MAX - 1), U(UINT64_MAX)},
        {R(0.25), R(0.5)},
        {R(-INFINITY), R(-DBL_MAX)},
        {R(DBL_MAX), R(INFINITY)},
        {R(0), R(5e-324)},
        /* Integers against fractions. */
        {U(0), R(5e-324)},
        {R(-5e-324), U(0)},
        {U(1), R(1.5)},
        {R(1.5), U(2)},
        {minus(2), R(-1.5)},
        {R(-1.5), minus(1)},
        {R(0.999), U(1)},
        /* Where doubles are farther apart than integers. */
        {R(0x1p53), U(two53 + 1)},
        {U(two53 - 1), R(0x1p53)},
        {U(two53 + 1), R(0x1p53 + 2)},
        {minus(two53 + 1), R(-0x1p53)},
        {R(-0x1p53), minus(two53 - 1)},
        {R(0x1p63), U(two63 + 1)},
        {U(two63 - 1), R(0x1p63)},
        {minus(two63 + 1), R(-0x1p63)},
        {U(UINT64_MAX), R(0x1p64)},
        {R(0x1.fffffffffffffp63), U(UINT64_MAX)},
        {R(0x1.fffffffffffffp63), U(UINT64_MAX - 2046)},
        {R(-0x1p64), minus(UINT64_MAX)},
        {U(UINT64_MAX), R(1e300)},
        {U(UINT64_MAX), R(INFINITY)},
        {R(-INFINITY), minus(UINT64_MAX)},
        {R(-1e300), U(0)},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        char label[32];
        snprintf(label, sizeof(label), "row %zu", i);
        check_answers(label, rows[i].less, rows[i].more, "nyyynn");
        check_answers(label, rows[i].more, rows[i].less, "nynnyy");
        check_answers(label, rows[i].less, rows[i].less, "ynnyny");
        check_answers(label, rows[i].more, rows[i].more, "ynnyny");
    }
}

static void integers_and_reals_of_one_value_are_equal(void **state)
{
    (void)state;
    const struct {
        tm_query_value a, b;
    } rows[] = {
        {U(0), R(0.0)},
        {U(0), R(-0.0)},
        {minus(0), U(0)},
        {minus(0), R(0.0)},
        {R(-0.0), R(0.0)},
        {U(1), R(1.0)},
        {minus(3), R(-3.0)},
        {U(UINT64_C(1) << 53), R(0x1p53)},
        {U(UINT64_C(1) << 63), R(0x1p63)},
        {U(UINT64_MAX - 2047), R(0x1.fffffffffffffp63)},
        {minus(UINT64_C(1) << 63), R(-0x1p63)},
        {R(INFINITY), R(INFINITY)},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        char label[32];
        snprintf(label, sizeof(label), "row %zu", i);
        check_answers(label, rows[i].a, rows[i].b, "ynnyny");
        check_answers(label, rows[i].b, rows[i].a, "ynnyny");
    }
}

static void what_is_missing_differs_from_everything_and_has_no_order(void **state)
{
    (void)state;
    const tm_query_value missing[] = {tm_query_absent(), R(NAN)};
    const tm_query_value numbers[] = {U(0), U(UINT64_MAX), minus(1), R(0), R(INFINITY)};
    for (size_t i = 0; i < TM_ARRAY_LEN(missing); i++) {
        for (size_t k = 0; k < TM_ARRAY_LEN(numbers); k++) {
            check_answers("missing and number", missing[i], numbers[k], "nynnnn");
            check_answers("number and missing", numbers[k], missing[i], "nynnnn");
        }
        for (size_t k = 0; k < TM_ARRAY_LEN(missing); k++)
            check_answers("two that are missing", missing[i], missing[k], "nynnnn");
    }
}

static void what_is_unknown_answers_unknown(void **state)
{
    (void)state;
    const tm_query_value others[] = {U(0), R(1), R(NAN), tm_query_absent(), tm_query_unknown()};
    for (size_t i = 0; i < TM_ARRAY_LEN(others); i++) {
        check_answers("unknown first", tm_query_unknown(), others[i], "??????");
        check_answers("unknown second", others[i], tm_query_unknown(), "??????");
    }
}

static void none_asks_whether_there_is_a_value(void **state)
{
    (void)state;
    assert_int_equal(ask_constant(TM_QUERY_NONE, tm_query_absent(), U(0)), TM_YES);
    assert_int_equal(ask_constant(TM_QUERY_NONE, R(NAN), U(0)), TM_YES);
    assert_int_equal(ask_constant(TM_QUERY_NONE, R(INFINITY), U(0)), TM_NO);
    assert_int_equal(ask_constant(TM_QUERY_NONE, U(0), U(0)), TM_NO);
    assert_int_equal(ask_constant(TM_QUERY_NONE, tm_query_text("", 0), U(0)), TM_NO);
    assert_int_equal(ask_constant(TM_QUERY_NONE, tm_query_unknown(), U(0)), TM_UNKNOWN);
}

static tm_query_value text(const char *words)
{
    return tm_query_text(words, strlen(words));
}

static void a_constant_text_is_a_pattern(void **state)
{
    (void)state;
    static const struct {
        const char *value, *constant;
        bool equal;
    } rows[] = {
        {"norm", "norm", true},       {"norm", "nor", false}, {"norm", "norm2", false},
        {"norm", "NORM", false},      {"", "", true},         {"a.mlp.b", "*.mlp.*", true},
        {"a.mlpb", "*.mlp.*", false}, {"*", "?", true},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        tm_query_value a = text(rows[i].value), b = text(rows[i].constant);
        assert_int_equal(ask_constant(TM_QUERY_EQ, a, b), rows[i].equal ? TM_YES : TM_NO);
        assert_int_equal(ask_constant(TM_QUERY_NE, a, b), rows[i].equal ? TM_NO : TM_YES);
    }
    assert_int_equal(ask_constant(TM_QUERY_EQ, tm_query_text("a\0b", 3), tm_query_text("a\0b", 3)),
                     TM_YES);
    assert_int_equal(ask_constant(TM_QUERY_EQ, tm_query_text("a\0b", 3), text("a")), TM_NO);
}

static void the_text_of_a_field_is_no_pattern(void **state)
{
    (void)state;
    assert_int_equal(ask_fields(TM_QUERY_EQ, text("ab"), text("a*")), TM_NO);
    assert_int_equal(ask_fields(TM_QUERY_EQ, text("a*"), text("ab")), TM_NO);
    assert_int_equal(ask_fields(TM_QUERY_NE, text("ab"), text("a*")), TM_YES);
    assert_int_equal(ask_fields(TM_QUERY_EQ, text("a*"), text("a*")), TM_YES);
    assert_int_equal(ask_fields(TM_QUERY_EQ, text(""), tm_query_text(NULL, 0)), TM_YES);
    assert_int_equal(ask_fields(TM_QUERY_EQ, tm_query_absent(), text("a")), TM_NO);
    assert_int_equal(ask_fields(TM_QUERY_NE, tm_query_unknown(), text("a")), TM_UNKNOWN);
}

static void a_query_of_the_greatest_size_is_answered(void **state)
{
    (void)state;
    TM_AUTO(tm_query_freep) tm_query *q = tm_query_new(TM_QUERY_NODES_MAX, 0);
    assert_non_null(q);
    tm_query_add(q, &(tm_query_node){.op = TM_QUERY_EQ, .constant = U(7)});
    for (uint16_t i = 1; i < TM_QUERY_NODES_MAX; i++)
        tm_query_add(q, &(tm_query_node){.op = TM_QUERY_NOT, .first = (uint16_t)(i - 1)});
    tm_query_value seven = U(7), eight = U(8);
    assert_int_equal(tm_query_ask(q, &seven), TM_NO); /* after an odd number of negations */
    assert_int_equal(tm_query_ask(q, &eight), TM_YES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_found_by_its_name),
        cmocka_unit_test(the_role_has_a_second_name),
        cmocka_unit_test(other_names_are_no_fields),
        cmocka_unit_test(statistics_and_texts_are_told_apart),
        cmocka_unit_test(a_query_lists_its_fields_in_order_of_use),
        cmocka_unit_test(a_query_that_no_memory_could_hold_is_refused),
        cmocka_unit_test(and_or_not_are_kleenes),
        cmocka_unit_test(numbers_compare_by_their_exact_values),
        cmocka_unit_test(integers_and_reals_of_one_value_are_equal),
        cmocka_unit_test(what_is_missing_differs_from_everything_and_has_no_order),
        cmocka_unit_test(what_is_unknown_answers_unknown),
        cmocka_unit_test(none_asks_whether_there_is_a_value),
        cmocka_unit_test(a_constant_text_is_a_pattern),
        cmocka_unit_test(the_text_of_a_field_is_no_pattern),
        cmocka_unit_test(a_query_of_the_greatest_size_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
