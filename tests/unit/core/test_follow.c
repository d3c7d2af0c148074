/*
 * What is foretold of readers: that they get what they will want, little that they will not, and
 * nothing twice. And the layout that is told by.
 */
#include "core/follow.h"
#include "tests/unit/core/engine.h"

#include <stdio.h>
#include <stdlib.h>

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)

enum {
    UNIT = 4096, /* what is counted: each page of the file */
    PAGES = 64 << 8
};

#define SIZE ((uint64_t)PAGES * UNIT) /* 64 MiB */

/* A reader, and what was foretold of it so far. */
typedef struct run {
    tm_follow follow;
    const tm_layout *layout;
    unsigned char told[PAGES], had[PAGES]; /* page by page */
    unsigned hits, reads;                  /* reads all of whose pages had been foretold */
    unsigned repeats;                      /* whole pages that were foretold twice */
} run;

static void run_read(run *r, uint64_t off, uint64_t len)
{
    tm_foretold told;
    bool hit = true;
    for (uint64_t p = off / UNIT; p <= (off + len - 1) / UNIT; p++) {
        hit = hit && r->told[p];
        r->had[p] = 1;
    }
    r->hits += hit;
    r->reads++;
    tm_follow_read(&r->follow, SIZE, r->layout, off, len, &told);
    uint64_t bytes = 0;
    assert_in_range(told.count, 0, TM_FORETOLD_MAX);
    for (unsigned i = 0; i < told.count; i++) {
        assert_true(tm_range_ok(told.pieces[i].off, told.pieces[i].len, SIZE));
        assert_in_range(told.pieces[i].len, 1, MIB);
        bytes += told.pieces[i].len;
        /* A page at either end may be shared by two. */
        uint64_t first = (told.pieces[i].off + UNIT - 1) / UNIT;
        uint64_t end = (told.pieces[i].off + told.pieces[i].len) / UNIT;
        for (uint64_t p = first; p < end; p++)
            r->repeats += r->told[p];
        for (uint64_t p = told.pieces[i].off / UNIT;
             p * UNIT < told.pieces[i].off + told.pieces[i].len; p++)
            r->told[p] = 1;
    }
    assert_in_range(bytes, 0, 17 * MIB);
}

/* Bytes that were foretold and never read. */
static uint64_t wasted(const run *r)
{
    uint64_t pages = 0;
    for (size_t i = 0; i < PAGES; i++)
        pages += r->told[i] && !r->had[i];
    return pages * UNIT;
}

static bool told_all(const run *r, uint64_t off, uint64_t end)
{
    for (uint64_t p = off / UNIT; p * UNIT < end; p++)
        if (!r->told[p])
            return false;
    return true;
}

static uint64_t told_bytes(const run *r)
{
    uint64_t pages = 0;
    for (size_t i = 0; i < PAGES; i++)
        pages += r->told[i] != 0;
    return pages * UNIT;
}

static run *run_new(const tm_layout *layout)
{
    run *r = TM_NEW(run);
    assert_non_null(r);
    r->layout = layout;
    return r;
}

/* ---- Without tensors ---- */

static void a_run_upwards_is_foretold_from_its_first_mebibyte_on(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {4 * KIB, 128 * KIB, 1 * MIB};
    for (size_t s = 0; s < TM_ARRAY_LEN(sizes); s++) {
        run *r = run_new(NULL);
        for (uint64_t off = 0; off < SIZE; off += sizes[s])
            run_read(r, off, sizes[s]);
        assert_true(told_all(r, 2 * MIB, SIZE));
        assert_in_range(r->reads - r->hits, 1, 2 * MIB / sizes[s]);
        assert_int_equal(wasted(r), 0);
        free(r);
    }
}

static void a_run_may_come_in_disorder(void **state)
{
    (void)state;
    run *r = run_new(NULL);
    uint64_t piece = 128 * KIB, seed = 7;
    /* Threads of the kernel's queue change places with their neighbours. */
    for (uint64_t off = 0; off + 4 * piece <= SIZE; off += 4 * piece) {
        uint64_t order[] = {0, 1, 2, 3};
        for (int i = 3; i > 0; i--) {
            uint64_t k = next_random(&seed) % (unsigned)(i + 1), swap = order[i];
            order[i] = order[k];
            order[k] = swap;
        }
        for (int i = 0; i < 4; i++)
            run_read(r, off + order[i] * piece, piece);
    }
    assert_in_range(r->hits, r->reads * 8 / 10, r->reads);
    assert_in_range(r->repeats, 0, MIB / UNIT); /* before it is known for a run */
    assert_int_equal(wasted(r), 0);
    free(r);
}

static void a_run_downwards_is_foretold_too(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {64 * KIB, 1 * MIB};
    for (size_t s = 0; s < TM_ARRAY_LEN(sizes); s++) {
        run *r = run_new(NULL);
        for (uint64_t off = SIZE; off > 0; off -= sizes[s])
            run_read(r, off - sizes[s], sizes[s]);
        assert_in_range(r->reads - r->hits, 1, 2 * MIB / sizes[s] + 1);
        assert_int_equal(wasted(r), 0);
        free(r);
    }
}

static void strides_are_foretold_in_both_directions(void **state)
{
    (void)state;
    static const struct {
        uint64_t stride, len;
    } rows[] = {{MIB, 4 * KIB},         {MIB, 64 * KIB},      {300 * KIB, 16 * KIB},
                {1000 * 1000, 1 * KIB}, {3 * MIB, 1 * MIB},   {777777, 50000},
                {5 * MIB / 2, 12345},   {200 * KIB, 4 * KIB}, {MIB + 8, 128 * KIB}};
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        for (int down = 0; down < 2; down++) {
            run *r = run_new(NULL);
            uint64_t count = (SIZE - rows[i].len) / rows[i].stride;
            for (uint64_t k = 0; k < count; k++) {
                uint64_t at = (down ? count - 1 - k : k) * rows[i].stride + 12 * UNIT;
                /* whole pages arrive from the kernel */
                uint64_t from = at / UNIT * UNIT;
                uint64_t end = tm_min_u64((at + rows[i].len + UNIT - 1) / UNIT * UNIT, SIZE);
                run_read(r, from, end - from);
            }
            assert_in_range(r->reads - r->hits, 3,
                            4); /* those that make the rule, or a part of one */
            assert_in_range(r->repeats, 0, rows[i].stride % UNIT ? 3 * r->reads : 0);
            /* what follows the end, and pages around pieces that begin within one */
            uint64_t margin = rows[i].stride % UNIT ? 3 * count * UNIT : 0;
            assert_in_range(wasted(r), 0, margin + 9 * MIB);
            free(r);
        }
    }
}

static void what_follows_no_rule_is_left_alone(void **state)
{
    (void)state;
    uint64_t seed = 3;
    run *r = run_new(NULL);
    for (int i = 0; i < 2000; i++)
        run_read(r, next_random(&seed) % (PAGES - 1) * UNIT, UNIT);
    assert_in_range(told_bytes(r), 0, 2000 * UNIT / 4);
    free(r);
    /* A header, and one value. */
    r = run_new(NULL);
    run_read(r, 0, 128 * KIB);
    run_read(r, 128 * KIB, 512 * KIB);
    run_read(r, 40 * MIB, 4 * KIB);
    assert_int_equal(told_bytes(r), 0);
    free(r);
}

/* ---- With tensors ---- */

static void add_tensor(tm_model *model, const char *name, uint32_t file, uint64_t begin,
                       uint64_t bytes)
{
    tm_tensor_new tensor = {.name = name,
                            .name_len = strlen(name),
                            .dtype = TM_U8,
                            .dims = &bytes,
                            .rank = 1,
                            .file = file,
                            .begin = begin,
                            .bytes = bytes};
    assert_int_equal(tm_tensor_table_add(&model->table, &tensor, NULL), 0);
}

enum {
    LAYERS = 15,
    ROLES = 4
};

static const uint64_t role_bytes[ROLES] = {3 * MIB, 512 * KIB, 512 * KIB, 8 * KIB};

/* Fifteen layers, the norms of all behind them: names and bytes go other ways. */
static tm_model *layered(void)
{
    static const char *const roles[ROLES] = {"w", "k", "q", "norm"};
    tm_model *model;
    assert_int_equal(tm_model_new(&model), 0);
    uint64_t at = 64 * KIB;
    for (int i = 0; i < LAYERS * ROLES; i++) {
        bool norms = i >= LAYERS * (ROLES - 1);
        int role = norms ? ROLES - 1 : i % (ROLES - 1);
        int layer = norms ? i - LAYERS * (ROLES - 1) : i / (ROLES - 1);
        char name[32];
        snprintf(name, sizeof(name), "layer.%02d.%s", layer, roles[role]);
        add_tensor(model, name, 1, at, role_bytes[role]);
        at += role_bytes[role];
    }
    assert_true(at <= SIZE);
    add_tensor(model, "layer.03.a of another file", 0, 0, MIB);
    assert_int_equal(tm_tensor_table_seal(&model->table), 0);
    return model;
}

/* Reads the tensor at PLACE of ORDER as the kernel does, LEN bytes of it. */
static void read_tensor(run *r, tm_layout_order order, uint32_t place, uint64_t most)
{
    tm_span in = tm_layout_span(r->layout, order, place);
    uint64_t end = in.begin + tm_min_u64(in.end - in.begin, most);
    for (uint64_t off = in.begin; off < end; off += 128 * KIB)
        run_read(r, off, tm_min_u64(end - off, 128 * KIB));
}

static void a_layout_has_both_orders_of_one_file(void **state)
{
    (void)state;
    tm_model *model = layered();
    tm_layout *l;
    assert_int_equal(tm_layout_new(model, 1, &l), 0);
    assert_int_equal(tm_layout_count(l), LAYERS * ROLES);
    uint64_t at = 64 * KIB;
    for (uint32_t i = 0; i < LAYERS * ROLES; i++) {
        tm_span in = tm_layout_span(l, TM_LAYOUT_BYTES, i);
        assert_int_equal(in.begin, at);
        uint32_t place[TM_LAYOUT_ORDERS];
        for (int end = 0; end < 2; end++) {
            assert_true(tm_layout_find(l, end ? in.end - 1 : in.begin, place));
            assert_int_equal(place[TM_LAYOUT_BYTES], i);
            tm_span by_name = tm_layout_span(l, TM_LAYOUT_NAMES, place[TM_LAYOUT_NAMES]);
            assert_int_equal(by_name.begin, in.begin);
            assert_int_equal(by_name.end, in.end);
        }
        at = in.end;
    }
    uint32_t place[TM_LAYOUT_ORDERS];
    assert_false(tm_layout_find(l, 0, place));
    assert_int_equal(place[TM_LAYOUT_BYTES], 0);
    assert_false(tm_layout_find(l, at, place));
    assert_int_equal(place[TM_LAYOUT_BYTES], LAYERS * ROLES);
    /* names: k norm q w of each layer */
    assert_int_equal(tm_layout_span(l, TM_LAYOUT_NAMES, 1).end -
                         tm_layout_span(l, TM_LAYOUT_NAMES, 1).begin,
                     8 * KIB);
    tm_layout_free(l);
    assert_int_equal(tm_layout_new(model, 2, &l), 0);
    assert_null(l);
    tm_model_unref(model);
}

static void a_run_stops_at_the_end_of_its_tensor_until_it_goes_on(void **state)
{
    (void)state;
    tm_model *model = layered();
    tm_layout *l;
    assert_int_equal(tm_layout_new(model, 1, &l), 0);
    run *r = run_new(l);
    read_tensor(r, TM_LAYOUT_BYTES, 3, UINT64_MAX);
    tm_span in = tm_layout_span(l, TM_LAYOUT_BYTES, 3);
    assert_true(told_all(r, in.begin + 2 * MIB, in.end - 1));
    assert_int_equal(wasted(r), 0);
    read_tensor(r, TM_LAYOUT_BYTES, 4, 256 * KIB);
    assert_true(
        told_all(r, in.end + 128 * KIB, in.end + 8 * MIB)); /* it came from the one before */
    free(r);
    /* Downwards likewise. */
    r = run_new(l);
    for (uint64_t off = in.end; off > in.begin; off -= 128 * KIB)
        run_read(r, off - 128 * KIB, 128 * KIB);
    assert_true(told_all(r, in.begin, in.end - 2 * MIB));
    assert_int_equal(wasted(r), 0);
    free(r);
    /* A header of megabytes is no tensor either. */
    tm_layout_free(l);
    tm_model_unref(model);
}

static void who_goes_by_name_is_followed(void **state)
{
    (void)state;
    tm_model *model = layered();
    tm_layout *l;
    assert_int_equal(tm_layout_new(model, 1, &l), 0);
    for (int down = 0; down < 2; down++) {
        run *r = run_new(l);
        for (uint32_t i = 0; i < LAYERS * ROLES; i++)
            read_tensor(r, TM_LAYOUT_NAMES, down ? LAYERS * ROLES - 1 - i : i, UINT64_MAX);
        assert_in_range(r->reads - r->hits, 3, r->reads / 8);
        assert_int_equal(wasted(r), 0);
        free(r);
    }
    tm_layout_free(l);
    tm_model_unref(model);
}

static void one_role_of_each_layer_is_followed(void **state)
{
    (void)state;
    tm_model *model = layered();
    tm_layout *l;
    assert_int_equal(tm_layout_new(model, 1, &l), 0);
    /* By name every fourth, whole or a part of each. */
    static const uint64_t parts[] = {UINT64_MAX, 4 * KIB, 256 * KIB};
    for (uint32_t role = 0; role < ROLES; role++) {
        for (size_t part = 0; part < TM_ARRAY_LEN(parts); part++) {
            run *r = run_new(l);
            for (uint32_t layer = 0; layer < LAYERS; layer++)
                read_tensor(r, TM_LAYOUT_NAMES, layer * ROLES + role, parts[part]);
            tm_span in = tm_layout_span(l, TM_LAYOUT_NAMES, role);
            uint64_t each = tm_min_u64(in.end - in.begin, parts[part]);
            uint64_t misses = 3 * ((each + 128 * KIB - 1) / (128 * KIB));
            assert_in_range(r->reads - r->hits, 3, misses);
            assert_in_range(wasted(r), 0, 64 * KIB); /* what lies behind the last layer */
            free(r);
        }
    }
    tm_layout_free(l);
    tm_model_unref(model);
}

/* A tool that wants one row of each, a loader that takes its half of each. */
static void of_each_tensor_the_part_that_was_read_is_foretold(void **state)
{
    (void)state;
    tm_model *model = layered();
    tm_layout *l;
    assert_int_equal(tm_layout_new(model, 1, &l), 0);
    static const struct {
        uint64_t begin, len;
    } parts[] = {{1 * MIB, 4 * KIB}, {2 * MIB, 1 * MIB}, {3 * MIB - 64 * KIB, 64 * KIB}};
    for (size_t i = 0; i < TM_ARRAY_LEN(parts); i++) {
        run *r = run_new(l);
        for (uint32_t layer = 0; layer < LAYERS; layer++) {
            tm_span in = tm_layout_span(l, TM_LAYOUT_NAMES, layer * ROLES + 3); /* w */
            for (uint64_t at = 0; at < parts[i].len; at += 64 * KIB)
                run_read(r, in.begin + parts[i].begin + at,
                         tm_min_u64(64 * KIB, parts[i].len - at));
        }
        assert_in_range(r->reads - r->hits, 3, 3 * ((parts[i].len + 64 * KIB - 1) / (64 * KIB)));
        assert_int_equal(wasted(r), 0);
        free(r);
    }
    tm_layout_free(l);
    tm_model_unref(model);
}

/* Down over a part of the file, then up over the same: all that lies above is foretold anew. */
static void who_turns_around_is_followed(void **state)
{
    (void)state;
    run *r = run_new(NULL);
    for (uint64_t off = 40 * MIB; off > 20 * MIB; off -= 128 * KIB)
        run_read(r, off - 128 * KIB, 128 * KIB);
    memset(r->told, 0, sizeof(r->told)); /* the page cache has forgotten */
    for (uint64_t off = 8 * MIB; off < 40 * MIB; off += 128 * KIB)
        run_read(r, off, 128 * KIB);
    assert_true(told_all(r, 10 * MIB, 40 * MIB));
    free(r);
}

static void columns_of_a_tensor_stay_in_it(void **state)
{
    (void)state;
    tm_model *model = layered();
    tm_layout *l;
    assert_int_equal(tm_layout_new(model, 1, &l), 0);
    run *r = run_new(l);
    tm_span in = tm_layout_span(l, TM_LAYOUT_BYTES, 4);
    for (uint64_t at = in.begin + 16 * KIB; at + 4 * KIB <= in.end; at += 192 * KIB)
        run_read(r, at, 4 * KIB);
    assert_in_range(r->reads - r->hits, 3, 4);
    for (size_t p = 0; p < PAGES; p++)
        if (r->told[p])
            assert_in_range(p * UNIT, in.begin, in.end - 1);
    free(r);
    tm_layout_free(l);
    tm_model_unref(model);
}

/* Offsets as large as they come, and any reads at all, are no trouble. */
static void any_reads_are_taken(void **state)
{
    (void)state;
    tm_model *model = layered();
    tm_layout *l;
    assert_int_equal(tm_layout_new(model, 1, &l), 0);
    uint64_t seed = 11;
    for (int round = 0; round < 200; round++) {
        static const uint64_t sizes[] = {1, 4096, SIZE, (uint64_t)INT64_MAX};
        tm_follow follow = {0};
        tm_foretold told;
        uint64_t size = sizes[round % 4];
        for (int i = 0; i < 200; i++) {
            uint64_t wide = next_random(&seed) << 33 ^ next_random(&seed) << 2, off, len;
            int how = (int)(next_random(&seed) % 4);
            off = how == 0   ? wide % size
                  : how == 1 ? size - 1 - wide % tm_min_u64(size, 4096)
                  : how == 2 ? size / 3 * (next_random(&seed) % 3)
                             : (uint64_t)i * 123457 % size;
            len = 1 + wide % tm_min_u64(size - off, 2 * MIB);
            tm_follow_read(&follow, size, round % 2 ? l : NULL, off, len, &told);
            for (unsigned k = 0; k < told.count; k++)
                assert_true(tm_range_ok(told.pieces[k].off, told.pieces[k].len, size));
        }
    }
    tm_layout_free(l);
    tm_model_unref(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_upwards_is_foretold_from_its_first_mebibyte_on),
        cmocka_unit_test(a_run_may_come_in_disorder),
        cmocka_unit_test(a_run_downwards_is_foretold_too),
        cmocka_unit_test(strides_are_foretold_in_both_directions),
        cmocka_unit_test(what_follows_no_rule_is_left_alone),
        cmocka_unit_test(a_layout_has_both_orders_of_one_file),
        cmocka_unit_test(a_run_stops_at_the_end_of_its_tensor_until_it_goes_on),
        cmocka_unit_test(who_goes_by_name_is_followed),
        cmocka_unit_test(one_role_of_each_layer_is_followed),
        cmocka_unit_test(of_each_tensor_the_part_that_was_read_is_foretold),
        cmocka_unit_test(who_turns_around_is_followed),
        cmocka_unit_test(columns_of_a_tensor_stay_in_it),
        cmocka_unit_test(any_reads_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
