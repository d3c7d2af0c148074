/* Names that are held while somebody uses them, and found again under one number. */
#include "fs/intern.h"

#include <stdarg.h>
#include <stdio.h>
#include <setjmp.h>
#include <cmocka.h>

static tm_intern *intern;
static tm_mounted mounted[3] = {{.serial = 1}, {.serial = 2}, {.serial = 3}};

static int begin(void **state)
{
    (void)state;
    return tm_intern_new(&intern);
}

static int end(void **state)
{
    (void)state;
    tm_intern_free(intern);
    return 0;
}

static tm_interned *get(unsigned source, tm_kind kind, uint32_t item, uint32_t sub,
                        const char *text)
{
    tm_node node = {.mounted = &mounted[source], .kind = kind, .item = item, .sub = sub};
    tm_interned *e = tm_intern_get(intern, &node, kind, text);
    assert_non_null(e);
    return e;
}

static bool is_held(uint64_t number)
{
    tm_interned *e = tm_intern_find(intern, number);
    if (e)
        tm_intern_release(e);
    return e != NULL;
}

static void one_name_is_one_entry_with_one_number(void **state)
{
    (void)state;
    tm_interned *a = get(0, TM_KIND_AT, 3, 4, "1,2"), *b = get(0, TM_KIND_AT, 3, 4, "1,2");
    assert_ptr_equal(a, b);
    assert_int_equal(a->serial, 1);
    assert_int_equal(a->kind, TM_KIND_AT);
    assert_int_equal(a->item, 3);
    assert_int_equal(a->sub, 4);
    assert_string_equal(a->text, "1,2");
    tm_interned *found = tm_intern_find(intern, a->number);
    assert_ptr_equal(found, a);
    tm_intern_release(a);
    tm_intern_release(b);
    tm_intern_release(found);
}

static void names_that_differ_in_any_part_are_different_entries(void **state)
{
    (void)state;
    tm_interned *all[] = {
        get(0, TM_KIND_AT, 0, 0, "0"),    get(1, TM_KIND_AT, 0, 0, "0"),
        get(0, TM_KIND_ROW, 0, 0, "0"),   get(0, TM_KIND_AT, 1, 0, "0"),
        get(0, TM_KIND_AT, 0, 1, "0"),    get(0, TM_KIND_AT, 0, 0, "1"),
        get(0, TM_KIND_AT, 0, 0, ""),     get(0, TM_KIND_AT, 0, 0, "00"),
        get(0, TM_KIND_SLICE, 0, 0, "0"), get(0, TM_KIND_COL, 0, 0, "0"),
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(all); i++)
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(all[i]->number, all[k]->number);
    for (size_t i = 0; i < TM_ARRAY_LEN(all); i++)
        tm_intern_release(all[i]);
}

/* So many that they share buckets. */
static void names_that_differ_in_one_number_are_different_entries(void **state)
{
    (void)state;
    enum {
        COUNT = 1000
    };
    static tm_interned *all[COUNT];
    static bool seen[COUNT];
    for (int part = 0; part < 2; part++) {
        memset(seen, 0, sizeof(seen));
        for (uint32_t i = 0; i < COUNT; i++) {
            all[i] = get(0, TM_KIND_AT, part ? i : 3, part ? 3 : i, "0");
            assert_true(all[i]->number < COUNT);
            assert_false(seen[all[i]->number]);
            seen[all[i]->number] = true;
        }
        for (uint32_t i = 0; i < COUNT; i++)
            tm_intern_release(all[i]);
    }
}

static void an_entry_lasts_while_it_is_used_or_known_to_the_kernel(void **state)
{
    (void)state;
    tm_interned *e = get(0, TM_KIND_AT, 0, 0, "5");
    uint64_t number = e->number;
    tm_intern_release(e);
    assert_false(is_held(number));

    e = get(0, TM_KIND_AT, 0, 0, "6");
    number = e->number;
    tm_intern_looked_up(e);
    tm_intern_looked_up(e);
    tm_intern_release(e);
    assert_true(is_held(number));
    tm_intern_forget(intern, number, 1);
    assert_true(is_held(number));
    tm_intern_forget(intern, number, 1);
    assert_false(is_held(number));
}

static void an_entry_that_the_kernel_forgets_lasts_for_its_users(void **state)
{
    (void)state;
    tm_interned *e = get(0, TM_KIND_AT, 0, 0, "7"), *again = tm_intern_find(intern, e->number);
    uint64_t number = e->number;
    tm_intern_looked_up(e);
    tm_intern_forget(intern, number, 1);
    assert_true(is_held(number));
    tm_intern_release(e);
    assert_true(is_held(number));
    assert_string_equal(again->text, "7");
    tm_intern_release(again);
    assert_false(is_held(number));
}

static void forgetting_too_much_or_what_is_unknown_does_no_harm(void **state)
{
    (void)state;
    tm_interned *e = get(0, TM_KIND_AT, 0, 0, "8");
    uint64_t number = e->number;
    tm_intern_looked_up(e);
    tm_intern_forget(intern, number, UINT64_MAX);
    assert_true(is_held(number));
    tm_intern_release(e);
    tm_intern_forget(intern, number, 1);
    tm_intern_forget(intern, UINT64_MAX, 1);
    tm_intern_forget(intern, 1000000, 1);
    assert_null(tm_intern_find(intern, UINT64_MAX));
    assert_null(tm_intern_find(intern, 1000000));
    assert_false(is_held(number));
}

static void numbers_are_given_again_and_stay_small(void **state)
{
    (void)state;
    enum {
        COUNT = 5000
    };
    static tm_interned *all[COUNT];
    static bool seen[COUNT];
    char text[32];
    for (int round = 0; round < 3; round++) {
        memset(seen, 0, sizeof(seen));
        for (uint32_t i = 0; i < COUNT; i++) {
            snprintf(text, sizeof(text), "%u,%u", i / 7, i % 7);
            all[i] = get(i % 3, TM_KIND_AT, i, 0, text);
            assert_true(all[i]->number < COUNT);
            assert_false(seen[all[i]->number]);
            seen[all[i]->number] = true;
        }
        for (uint32_t i = 0; i < COUNT; i++) {
            snprintf(text, sizeof(text), "%u,%u", i / 7, i % 7);
            tm_interned *again = get(i % 3, TM_KIND_AT, i, 0, text);
            assert_ptr_equal(again, all[i]);
            tm_intern_release(again);
        }
        for (uint32_t i = 0; i < COUNT; i++)
            tm_intern_release(all[i * 2477u % COUNT]);
        for (uint64_t number = 0; number < COUNT; number++)
            assert_false(is_held(number));
    }
}

/* ---- Threads ---- */

enum {
    THREADS = 8,
    ROUNDS = 4000,
    NAMES = 17
};

/* Looks up, uses and forgets names that all threads share. */
static void *use_names(void *arg)
{
    uint64_t seed = (uintptr_t)arg;
    char text[16];
    for (int i = 0; i < ROUNDS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint32_t name = (uint32_t)(seed >> 33) % NAMES;
        snprintf(text, sizeof(text), "%u", name);
        tm_node node = {.mounted = &mounted[name % 3], .item = name};
        tm_interned *e = tm_intern_get(intern, &node, TM_KIND_AT, text);
        uint64_t number = e->number;
        tm_intern_looked_up(e);
        tm_intern_release(e);
        /* The look-up above holds it, whoever else lets go. */
        tm_interned *found = tm_intern_find(intern, number);
        if (!found || found->item != name || strcmp(found->text, text) != 0)
            return (void *)1;
        tm_intern_release(found);
        tm_intern_forget(intern, number, 1);
    }
    return NULL;
}

static void threads_share_entries_and_leave_none_behind(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_names, (void *)(i + 1)), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_null(result);
    }
    for (uint64_t number = 0; number < NAMES + THREADS; number++)
        assert_false(is_held(number));
}

static void what_is_still_held_goes_with_the_table(void **state)
{
    (void)state;
    tm_intern *other;
    tm_node node = {.mounted = &mounted[0]};
    assert_int_equal(tm_intern_new(&other), 0);
    for (uint32_t i = 0; i < 300; i++) {
        node.item = i;
        tm_interned *e = tm_intern_get(other, &node, TM_KIND_ROW, "0");
        tm_intern_looked_up(e);
        tm_intern_release(e);
    }
    tm_intern_free(other);
    tm_intern_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_name_is_one_entry_with_one_number),
        cmocka_unit_test(names_that_differ_in_any_part_are_different_entries),
        cmocka_unit_test(names_that_differ_in_one_number_are_different_entries),
        cmocka_unit_test(an_entry_lasts_while_it_is_used_or_known_to_the_kernel),
        cmocka_unit_test(an_entry_that_the_kernel_forgets_lasts_for_its_users),
        cmocka_unit_test(forgetting_too_much_or_what_is_unknown_does_no_harm),
        cmocka_unit_test(numbers_are_given_again_and_stay_small),
        cmocka_unit_test(threads_share_entries_and_leave_none_behind),
        cmocka_unit_test(what_is_still_held_goes_with_the_table),
    };
    return cmocka_run_group_tests_name("intern", tests, begin, end);
}
