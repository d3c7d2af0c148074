/* An index read: what comes back, in what order, and what damage, age and strangers lead to. */
#include "formats/index_file.h"

#include "core/tensor_table.h"
#include "tests/unit/formats/index_cases.h"

static char *bytes; /* the index of all cases */
static size_t len;
static case_content contents[INDEX_CASES];

static int begin(void **state)
{
    if (files_new(state) < 0)
        return -1;
    bytes = index_of_cases(&len);
    for (size_t i = 0; i < INDEX_CASES; i++)
        make_content(&index_cases[i], &contents[i]);
    return 0;
}

static int end(void **state)
{
    for (size_t i = 0; i < INDEX_CASES; i++)
        tm_stats_done(&contents[i].stats);
    free(bytes);
    return files_free(state);
}

/* ---- What it gives ---- */

static void everything_put_in_comes_back(void **state)
{
    (void)state;
    opened_index o;
    bool refused;
    assert_int_equal(open_bytes(&o, bytes, len), 0);
    assert_int_equal(tm_index_check(o.index, &o.req), 0);
    assert_int_equal(tm_index_count(o.index), INDEX_CASES);
    for (size_t i = 0; i < INDEX_CASES; i++)
        if (!gives(&o, &contents[i], &refused))
            fail_msg("case %zu, '%s': %s", i, index_cases[i].name, tm_req_words(&o.req));
    tm_index_close(o.index);
}

static void a_name_that_is_not_there_is_not_found_and_no_error(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t name_len;
    } absent[] = {{INDEX_NAME("model.norm.weigh")},
                  {INDEX_NAME("a")},
                  {INDEX_NAME("z")},
                  {INDEX_NAME("\0")},
                  {INDEX_NAME("a\n\0\xfe")}};
    opened_index o;
    tm_index_tensor tensor;
    assert_int_equal(open_bytes(&o, bytes, len), 0);
    for (size_t i = 0; i < TM_ARRAY_LEN(absent); i++)
        assert_int_equal(
            tm_index_find(o.index, absent[i].name, absent[i].name_len, &o.req, &tensor), -ENOENT);
    assert_string_equal(tm_req_words(&o.req), "");
    tm_index_close(o.index);
}

typedef struct walk {
    uint32_t next, seen;
    int stop_with;
    char last[64];
    size_t last_len;
} walk;

static int walk_on(void *ctx, uint32_t number, const tm_index_tensor *tensor)
{
    walk *w = ctx;
    assert_int_equal(number, w->next++);
    assert_true(tensor->name_len < sizeof(w->last));
    if (w->seen++ > 0)
        assert_true(tm_name_cmp(w->last, w->last_len, tensor->name, tensor->name_len) < 0);
    memcpy(w->last, tensor->name, tensor->name_len);
    w->last_len = tensor->name_len;
    return w->stop_with;
}

static void tensors_come_in_order_of_names(void **state)
{
    (void)state;
    static const struct {
        tm_index_range range;
        uint32_t seen;
        int stop_with;
    } rows[] = {
        {{0, UINT32_MAX}, INDEX_CASES, 0}, {{3, 2}, 2, 0}, {{INDEX_CASES - 1, 5}, 1, 0},
        {{INDEX_CASES, 5}, 0, 0},          {{0, 0}, 0, 0}, {{2, 5}, 1, 7},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        opened_index o;
        walk w = {.next = rows[i].range.first, .stop_with = rows[i].stop_with};
        assert_int_equal(open_bytes(&o, bytes, len), 0);
        assert_int_equal(tm_index_each(o.index, rows[i].range, walk_on, &w, &o.req),
                         rows[i].stop_with);
        assert_int_equal(w.seen, rows[i].seen);
        tm_index_close(o.index);
    }
}

/* ---- Many ---- */

enum {
    MANY = 1000
};

static void name_of_many(unsigned i, char ret[2000])
{
    memset(ret, 'x', 1990);
    snprintf(ret + (i % 7 ? 4 : 1990), 8, "%04u", i);
    memcpy(ret, "many", 4);
}

static void more_than_a_batch_with_long_names_is_found_and_walked(void **state)
{
    (void)state;
    char name[2000];
    size_t many_len;
    tm_index_writer *writer = open_writer(at("many.tmidx"));
    for (unsigned i = MANY; i-- > 0;) {
        name_of_many(i, name);
        index_case c = {name, strlen(name), TM_BOOL, i % 50, false, i};
        add_case(writer, &c);
    }
    finish_writer(writer);
    char *many = read_bytes_of(at("many.tmidx"), &many_len);
    opened_index o;
    assert_int_equal(open_bytes(&o, many, many_len), 0);
    assert_int_equal(tm_index_check(o.index, &o.req), 0);
    assert_int_equal(tm_index_count(o.index), MANY);
    for (unsigned i = 0; i < MANY; i++) {
        name_of_many(i, name);
        assert_true(gives_case(&o, &(index_case){name, strlen(name), TM_BOOL, i % 50, false, i}));
    }
    tm_index_close(o.index);
    free(many);
}

/* ---- Damage ---- */

static void a_file_that_ends_early_or_late_is_refused(void **state)
{
    (void)state;
    opened_index o;
    char *longer = malloc(len + 8);
    assert_non_null(longer);
    memcpy(longer, bytes, len);
    memset(longer + len, 0, 8);
    for (size_t cut = 0; cut <= len + 8; cut++) {
        if (cut == len)
            continue;
        assert_int_equal(open_bytes(&o, longer, cut), -EBADMSG);
        assert_string_not_equal(tm_req_words(&o.req), "");
    }
    free(longer);
}

static void a_file_that_is_cut_while_open_is_an_error_of_the_read(void **state)
{
    (void)state;
    opened_index o;
    tm_index_tensor tensor;
    assert_int_equal(open_bytes(&o, bytes, len), 0);
    o.file.len = 400;
    assert_int_equal(tm_index_find(o.index, "b", 1, &o.req, &tensor), -EIO);
    tm_index_close(o.index);
}

/* Where byte OFF is changed, nothing is given that was not put in. */
static void check_changed(size_t off)
{
    opened_index o;
    int rc = open_bytes(&o, bytes, len);
    if (rc < 0) {
        assert_true(rc == -EBADMSG || rc == -EOPNOTSUPP || rc == -ESTALE);
        assert_string_not_equal(tm_req_words(&o.req), "");
        return;
    }
    tm_req whole;
    tm_req_init(&whole, TM_LANE_INDEX);
    if (tm_index_check(o.index, &whole) != -EBADMSG)
        fail_msg("byte %zu changed: not noticed", off);
    bool refused;
    size_t i = off % INDEX_CASES;
    if (!gives(&o, &contents[i], &refused) && !refused)
        fail_msg("byte %zu changed: case %zu is other than what was put in", off, i);
    tm_index_close(o.index);
}

static void any_byte_that_is_changed_is_noticed(void **state)
{
    (void)state;
    for (size_t off = 0; off < len; off++) {
        bytes[off] = (char)~bytes[off];
        check_changed(off);
        bytes[off] = (char)(~bytes[off] ^ 1);
        check_changed(off);
        bytes[off] ^= 1;
    }
}

/* ---- Age and strangers ---- */

/* The header with other bytes at OFF, and its check right. */
static int open_with(size_t off, const void *other, size_t other_len, tm_req *ret_req)
{
    opened_index o;
    char *copy = malloc(len);
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    memcpy(copy + off, other, other_len);
    tm_id check = tm_hash_bytes(copy, 112);
    memcpy(copy + 112, &check, sizeof(check));
    int rc = open_bytes(&o, copy, len);
    *ret_req = o.req;
    if (rc == 0)
        tm_index_close(o.index);
    free(copy);
    return rc;
}

static void what_is_of_another_time_or_file_is_refused_with_words(void **state)
{
    (void)state;
    static const struct {
        size_t off;
        uint8_t byte;
        int rc;
        const char *words;
    } rows[] = {
        {1, 'X', -EBADMSG, "m.tmidx: is not an index of tensormorph"},
        {8, 2, -EOPNOTSUPP, "m.tmidx: is an index of version 2.0; this program reads 1"},
        {10, 9, 0, ""},
        {12, 77, -ESTALE, "m.tmidx: was made by rules 77; this program has rules 1"},
        {16, 4, -EOPNOTSUPP, "m.tmidx: needs features (4) that are not known here"},
        {56, 9, -ESTALE, "m.tmidx: is an index of another file than this one"},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        tm_req req;
        assert_int_equal(open_with(rows[i].off, &rows[i].byte, 1, &req), rows[i].rc);
        assert_string_equal(tm_req_words(&req), rows[i].words);
    }
}

/* The index with a fifth section, of KIND and FLAGS. */
static int open_with_section(uint32_t kind, uint16_t flags, opened_index *o, char **ret_bytes)
{
    enum {
        EXTRA = 8
    };
    tm_section sections[TM_INDEX_HIST + 1];
    size_t old_head = tm_section_head_bytes(TM_INDEX_HIST);
    size_t head = tm_section_head_bytes(TM_INDEX_HIST + 1);
    memcpy(sections, bytes + TM_SECTION_HEADER_BYTES, TM_INDEX_HIST * sizeof(*sections));
    for (size_t i = 0; i < TM_INDEX_HIST; i++)
        sections[i].off += head - old_head;
    char *copy = calloc(1, len + TM_SECTION_ENTRY_BYTES + EXTRA);
    assert_non_null(copy);
    memcpy(copy + head, bytes + old_head, len - old_head);
    sections[TM_INDEX_HIST] = (tm_section){
        .kind = kind,
        .flags = flags,
        .off = len + head - old_head,
        .stored = EXTRA,
        .used = 5,
        .check = tm_hash_bytes(copy + len + head - old_head, EXTRA),
    };
    tm_section_head_store(&tm_index_format, index_fingerprint, sections, TM_INDEX_HIST + 1,
                          (uint8_t *)copy);
    *ret_bytes = copy;
    return open_bytes(o, copy, len + head - old_head + EXTRA);
}

static void a_section_that_is_not_known_is_passed_over_only_where_it_says_so(void **state)
{
    (void)state;
    opened_index o;
    char *copy;
    bool refused;
    assert_int_equal(open_with_section(9, TM_SECTION_SKIPPABLE, &o, &copy), 0);
    assert_int_equal(tm_index_check(o.index, &o.req), 0);
    for (size_t i = 0; i < INDEX_CASES; i++)
        assert_true(gives(&o, &contents[i], &refused));
    tm_index_close(o.index);
    free(copy);

    assert_int_equal(open_with_section(9, 0, &o, &copy), -EOPNOTSUPP);
    assert_string_equal(tm_req_words(&o.req), "m.tmidx: has a section (9) that is not known here");
    free(copy);
    assert_int_equal(open_with_section(TM_INDEX_SUMS, 0, &o, &copy), -EBADMSG);
    free(copy);
}

static void the_bytes_are_those_of_version_1(void **state)
{
    (void)state;
    /* Another number here is another format, or another rule of statistics: see
     * docs/index-format.md for what must change with it. */
    assert_int_equal(tm_hash64(bytes, len), 0xdafd82627e371ff7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_put_in_comes_back),
        cmocka_unit_test(a_name_that_is_not_there_is_not_found_and_no_error),
        cmocka_unit_test(tensors_come_in_order_of_names),
        cmocka_unit_test(more_than_a_batch_with_long_names_is_found_and_walked),
        cmocka_unit_test(a_file_that_ends_early_or_late_is_refused),
        cmocka_unit_test(a_file_that_is_cut_while_open_is_an_error_of_the_read),
        cmocka_unit_test(any_byte_that_is_changed_is_noticed),
        cmocka_unit_test(what_is_of_another_time_or_file_is_refused_with_words),
        cmocka_unit_test(a_section_that_is_not_known_is_passed_over_only_where_it_says_so),
        cmocka_unit_test(the_bytes_are_those_of_version_1),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
