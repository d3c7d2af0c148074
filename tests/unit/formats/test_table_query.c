/* matches.tsv and unknown.tsv: their lines, and sizes that no statistic changes. */
#include "formats/table_query.h"

#include <math.h>
#include <stdio.h>

#include "core/read.h"
#include "formats/query_parse.h"
#include "tests/unit/formats/model_builder.h"

enum {
    ROWS_MAX = 16
};

static tm_sched *sched;

static int start_threads(void **state)
{
    (void)state;
    return tm_sched_new(&(tm_sched_params){.workers = 1, .io = 1}, &sched);
}

static int stop_threads(void **state)
{
    (void)state;
    tm_sched_free(sched);
    return 0;
}

/* ---- What is known ---- */

typedef struct knowledge {
    bool known[ROWS_MAX];
    tm_stats_record records[ROWS_MAX];
    unsigned asked;
} knowledge;

static bool known_row(void *ctx, uint32_t row, tm_stats_record *ret)
{
    knowledge *all = ctx;
    all->asked++;
    assert_true(row < ROWS_MAX);
    if (all->known[row])
        *ret = all->records[row];
    return all->known[row];
}

static tm_query *parsed(const char *text)
{
    tm_query_error error;
    tm_query *query = NULL;
    if (tm_query_parse(text, strlen(text), &error, &query) < 0)
        fail_msg("%s: %d:%d: %s", text, error.line, error.column, error.words);
    return query;
}

/* ---- The header ---- */

static void the_header_has_a_column_for_each_other_field_in_order_of_use(void **state)
{
    (void)state;
    static const struct {
        const char *query, *header;
    } rows[] = {
        {"name == 'a'", "name\n"},
        {"layer == none", "name\tlayer\n"},
        {"absmax > 8 and role == 'norm'", "name\tabsmax\trole\n"},
        {"role == 'norm' and absmax > 8", "name\trole\tabsmax\n"},
        {"tensor.dtype == 'bf16' or tensor.q0.99 < 1", "name\tdtype\tq0.99\n"},
        {"layer.type == 'mlp'", "name\trole\n"},
        {"nan_count < n", "name\tnan_count\tn\n"},
        {"rank == 2 and name == 'x' and not rank < 1 and file == 'f'", "name\trank\tfile\n"},
        {"rank == 2 or tensor.rank == 3 or rank == 4", "name\trank\n"},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        TM_AUTO(tm_query_freep) tm_query *query = parsed(rows[i].query);
        TM_AUTO_FREE char *header = tm_matches_header(query);
        assert_string_equal(header, rows[i].header);
    }
}

static void all_fields_have_a_column_of_their_own(void **state)
{
    (void)state;
    TM_AUTO(tm_query_freep) tm_query *query = tm_query_new(1, 0);
    size_t columns = 1;
    assert_non_null(query);
    for (int i = 0; i < TM_FIELD_COUNT; i++)
        tm_query_use(query, (tm_field)i);
    TM_AUTO_FREE char *header = tm_matches_header(query);
    for (const char *p = header; *p; p++)
        columns += *p == '\t';
    assert_int_equal(columns, TM_FIELD_COUNT);
    assert_memory_equal(header, "name\tdtype\trole\tfile\trank\t", 26);
}

/* ---- Lines ---- */

static const char tensors[] = "model.layers.3.mlp.up_proj.weight BF16 6,4 1\n"
                              "model.norm.weight F32 5\n"
                              "scale F64 -\n"
                              "z F8_E4M3 0,3\n";
enum {
    MLP,
    NORM,
    SCALAR,
    EMPTY
};

#define LOWEST (-2.2250738585072014e-308) /* 24 columns: none is longer */

/* Of one row; the others are not known. */
static void expect_match(const char *text, uint32_t row, const tm_stats_record *record,
                         const char *expected)
{
    TM_AUTO(tm_model_unrefp) tm_model *model = builder_model(tensors);
    TM_AUTO(tm_query_freep) tm_query *query = parsed(text);
    knowledge all = {.asked = 0};
    all.known[row] = record != NULL;
    if (record)
        all.records[row] = *record;
    tm_query_table_params params = {model, query, &row, 1, known_row, &all};
    char line[1024];
    size_t len = tm_match_text(&params, 0, line, sizeof(line) - 1);
    assert_true(len < sizeof(line));
    line[len] = '\0';
    assert_string_equal(line, expected);
}

/* Headers. */
static void a_line_says_what_the_headers_say(void **state)
{
    (void)state;
    static const struct {
        const char *query;
        uint32_t row;
        const char *line;
    } rows[] = {
        {"name == '*'", MLP, "model.layers.3.mlp.up_proj.weight\n"},
        {"dtype == 'bf16'", MLP, "model.layers.3.mlp.up_proj.weight\tBF16\n"},
        {"file != role", NORM, "model.norm.weight\ta.safetensors\tnorm\n"},
        {"file != role", MLP, "model.layers.3.mlp.up_proj.weight\tb.safetensors\tmlp\n"},
        {"layer < 4", MLP, "model.layers.3.mlp.up_proj.weight\t                       3\n"},
        {"layer < 4", NORM, "model.norm.weight\t                       -\n"},
        {"rows > cols", MLP,
         "model.layers.3.mlp.up_proj.weight\t                       6\t"
         "                       4\n"},
        {"rows > cols", SCALAR, "scale\t                       -\t                       -\n"},
        {"rank < 9 and params < 9 and bytes < 9", SCALAR,
         "scale\t                       0\t                       1\t                       8\n"},
        {"rank < 9 and params < 9 and bytes < 9", EMPTY,
         "z\t                       2\t                       0\t                       0\n"},
        {"expert == none and role == 'other'", SCALAR, "scale\t                       -\tother\n"},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++)
        expect_match(rows[i].query, rows[i].row, NULL, rows[i].line);
}

static void statistics_stand_in_columns_of_one_width(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *column;
    } rows[] = {
        {0, "                       0"},        {-0.0, "                      -0"},
        {0.1, "                     0.1"},      {-2.5, "                    -2.5"},
        {1e22, "                   1e+22"},     {NAN, "                     nan"},
        {INFINITY, "                     inf"}, {-INFINITY, "                    -inf"},
        {LOWEST, "-2.2250738585072014e-308"},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        char expected[200];
        tm_stats_record record = {.summary = {.min = rows[i].value,
                                              .moments = {.mean = rows[i].value},
                                              .quantile = {[4] = rows[i].value}}};
        snprintf(expected, sizeof(expected), "scale\t%s\t%s\t%s\n", rows[i].column, rows[i].column,
                 rows[i].column);
        expect_match("min < 1 or mean < 1 or q0.5 < 1", SCALAR, &record, expected);
    }
}

static void counts_are_whole_and_what_is_not_there_is_a_dash(void **state)
{
    (void)state;
    tm_stats_record record = {.summary = {.n = UINT64_MAX,
                                          .pos_inf = 3,
                                          .neg_inf = 4,
                                          .absmax = 1,
                                          .absmax_index = 0,
                                          .distinct = 9,
                                          .has_distinct = true},
                              .zero_rows = 10000000000000000000u};
    expect_match("n > 0 and inf_count > 0", SCALAR, &record,
                 "scale\t    18446744073709551615\t                       7\n");
    expect_match("zero_rows != distinct", SCALAR, &record,
                 "scale\t    10000000000000000000\t                       9\n");
    expect_match("absmax_index == 0", SCALAR, &record, "scale\t                       0\n");
    record.summary.has_distinct = false;
    record.summary.absmax = NAN;
    expect_match("distinct == none and absmax_index == none", SCALAR, &record,
                 "scale\t                       -\t                       -\n");
}

static void what_is_not_known_is_a_dash_too(void **state)
{
    (void)state;
    expect_match("min < 1 or n > 0 or role == 'norm'", NORM, NULL,
                 "model.norm.weight\t                       -\t                       -\tnorm\n");
}

/* ---- Whole tables ---- */

static void nothing_to_unref(void *owner)
{
    (void)owner;
}

/* All that TABLE holds, malloc'ed, with a NUL behind it; its size is what was measured. */
static char *content_of(tm_table *table)
{
    TM_AUTO(tm_blob_unrefp) tm_blob *blob = NULL;
    tm_req req;
    tm_req_init(&req, TM_LANE_QUERY);
    req.may_block = true;
    assert_int_equal(tm_table_blob_new(table, NULL, nothing_to_unref, &blob), 0);
    assert_int_equal(blob->size, tm_table_size(table));
    char *bytes = malloc(blob->size + 1);
    assert_non_null(bytes);
    assert_int_equal(tm_read_wait(sched, blob, 0, blob->size, bytes, &req), 0);
    bytes[blob->size] = '\0';
    assert_int_equal(strlen(bytes), blob->size);
    return bytes;
}

static void expect_matches(const tm_query_table_params *params, const char *expected)
{
    TM_AUTO_FREE char *header = tm_matches_header(params->query);
    tm_table *table;
    assert_int_equal(tm_table_of_matches(params, header, &table), 0);
    TM_AUTO_FREE char *got = content_of(table);
    assert_string_equal(got, expected);
    tm_table_unref(table);
}

static void the_table_has_the_rows_that_it_is_given(void **state)
{
    (void)state;
    TM_AUTO(tm_model_unrefp) tm_model *model = builder_model(tensors);
    TM_AUTO(tm_query_freep) tm_query *query = parsed("dtype == '*' and zero_rows < 10");
    static const uint32_t some[] = {MLP, SCALAR}, all[] = {MLP, NORM, SCALAR, EMPTY};
    knowledge k = {.known = {[MLP] = true, [EMPTY] = true},
                   .records = {[MLP] = {.zero_rows = 5}, [EMPTY] = {.zero_rows = 0}}};
    tm_query_table_params params = {model, query, some, 2, known_row, &k};
    expect_matches(&params, "name\tdtype\tzero_rows\n"
                            "model.layers.3.mlp.up_proj.weight\tBF16\t                       5\n"
                            "scale\tF64\t                       -\n");
    params.rows = all;
    params.count = TM_ARRAY_LEN(all);
    expect_matches(&params, "name\tdtype\tzero_rows\n"
                            "model.layers.3.mlp.up_proj.weight\tBF16\t                       5\n"
                            "model.norm.weight\tF32\t                       -\n"
                            "scale\tF64\t                       -\n"
                            "z\tF8_E4M3\t                       0\n");
    params.count = 0;
    expect_matches(&params, "name\tdtype\tzero_rows\n");
}

static tm_stats_record even_record(double real, uint64_t count)
{
    tm_stats_record r = {.summary = {.n = count,
                                     .zero = count,
                                     .neg_zero = count,
                                     .nan = count,
                                     .pos_inf = count / 2,
                                     .neg_inf = count / 2,
                                     .subnormal = count,
                                     .min = real,
                                     .max = real,
                                     .absmax = real,
                                     .absmax_index = count,
                                     .moments = {real, real, real, real, real},
                                     .sparsity = real,
                                     .entropy = real,
                                     .distinct = count,
                                     .has_distinct = count % 2},
                         .zero_rows = count,
                         .zero_cols = count};
    for (size_t i = 0; i < TM_STATS_QUANTILES; i++)
        r.summary.quantile[i] = real;
    return r;
}

/* A query that uses every field. */
static tm_query *query_of_all(void)
{
    tm_query *query = tm_query_new(1, 0);
    assert_non_null(query);
    for (int i = 0; i < TM_FIELD_COUNT; i++)
        tm_query_use(query, (tm_field)i);
    query->needs_statistics = true;
    return query;
}

/* What is measured knows no statistics; what is rendered knows some. */
static void sizes_hold_whatever_becomes_known(void **state)
{
    (void)state;
    TM_AUTO(tm_model_unrefp) tm_model *model = builder_model(tensors);
    TM_AUTO(tm_query_freep) tm_query *query = query_of_all();
    TM_AUTO_FREE char *header = tm_matches_header(query);
    static const uint32_t rows[] = {MLP, NORM, SCALAR, EMPTY};
    static const double reals[] = {0, NAN, -INFINITY, LOWEST, 0.1, 1e22};
    static const uint64_t counts[] = {0, 1, UINT64_MAX};
    knowledge k = {.asked = 0};
    tm_query_table_params params = {model, query, rows, TM_ARRAY_LEN(rows), known_row, &k};
    tm_table *table;
    assert_int_equal(tm_table_of_matches(&params, header, &table), 0);
    free(content_of(table));
    for (size_t i = 0; i < TM_ARRAY_LEN(reals); i++) {
        for (size_t c = 0; c < TM_ARRAY_LEN(counts); c++) {
            for (uint32_t row = 0; row < TM_ARRAY_LEN(rows); row++) {
                k.known[row] = (row + i) % 3 != 0;
                k.records[row] = even_record(reals[i], counts[c]);
            }
            for (uint32_t row = 0; row < TM_ARRAY_LEN(rows); row++) {
                char line[2048];
                size_t len = tm_match_text(&params, row, line, sizeof(line));
                assert_int_equal(len, tm_match_text(&params, row, NULL, 0));
            }
            free(content_of(table));
        }
    }
    tm_table_unref(table);
}

static void measuring_asks_for_no_statistics(void **state)
{
    (void)state;
    TM_AUTO(tm_model_unrefp) tm_model *model = builder_model(tensors);
    TM_AUTO(tm_query_freep) tm_query *query = parsed("rank < 9 and min < 9 and max < 9");
    TM_AUTO_FREE char *header = tm_matches_header(query);
    static const uint32_t rows[] = {MLP, NORM, SCALAR, EMPTY};
    knowledge k = {.known = {true, true, true, true}};
    tm_query_table_params params = {model, query, rows, TM_ARRAY_LEN(rows), known_row, &k};
    tm_table *table;
    assert_int_equal(tm_table_of_matches(&params, header, &table), 0);
    assert_int_equal(k.asked, 0);
    free(content_of(table));
    assert_int_equal(k.asked, TM_ARRAY_LEN(rows));
    tm_table_unref(table);
}

static void a_query_of_headers_asks_for_none_at_all(void **state)
{
    (void)state;
    TM_AUTO(tm_model_unrefp) tm_model *model = builder_model(tensors);
    TM_AUTO(tm_query_freep) tm_query *query = parsed("rank < 9 and role != 'mlp'");
    static const uint32_t rows[] = {NORM, SCALAR};
    knowledge k = {.known = {true, true, true, true}};
    tm_query_table_params params = {model, query, rows, TM_ARRAY_LEN(rows), known_row, &k};
    expect_matches(&params, "name\trank\trole\n"
                            "model.norm.weight\t                       1\tnorm\n"
                            "scale\t                       0\tother\n");
    assert_int_equal(k.asked, 0);
}

/* A buffer of any size gets as much of the line as it has room for, and no more. */
static void a_line_is_cut_where_its_buffer_ends(void **state)
{
    (void)state;
    TM_AUTO(tm_model_unrefp) tm_model *model = builder_model(tensors);
    TM_AUTO(tm_query_freep) tm_query *query = query_of_all();
    static const uint32_t rows[] = {MLP};
    knowledge k = {.known = {true}, .records = {even_record(-0.1, 7)}};
    tm_query_table_params params = {model, query, rows, 1, known_row, &k};
    char whole[2048], part[2048];
    size_t len = tm_match_text(&params, 0, whole, sizeof(whole));
    assert_true(len < sizeof(whole) && whole[len - 1] == '\n');
    assert_int_equal(tm_match_text(&params, 0, NULL, 0), len);
    for (size_t cap = 1; cap <= len; cap++) {
        memset(part, '\x55', sizeof(part));
        assert_int_equal(tm_match_text(&params, 0, part, cap), len);
        assert_memory_equal(part, whole, cap);
        assert_int_equal(part[cap], '\x55');
    }
}

/* ---- Names ---- */

static void add_named(tm_model *model, const char *name, size_t len)
{
    tm_tensor_new tensor = {.name = name, .name_len = len, .dtype = TM_C64, .bytes = 8};
    assert_int_equal(tm_tensor_table_add(&model->table, &tensor, NULL), 0);
}

#define LONG_NAME 9000 /* longer than any buffer on a stack */

static void names_of_any_bytes_stay_one_field_of_one_line(void **state)
{
    (void)state;
    static const char *const names[] = {
        "", "100%", "a/b", "line\nfeed", "tab\there", "emoji\xf0\x9f\x98\x80", "\xff\xfe"};
    static const uint32_t rows[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static char long_name[LONG_NAME];
    TM_AUTO(tm_model_unrefp) tm_model *model = builder_model("");
    TM_AUTO(tm_query_freep) tm_query *query = parsed("file == '*'");
    tm_text expected;
    memset(long_name, 'z', sizeof(long_name));
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++)
        add_named(model, names[i], strlen(names[i]));
    add_named(model, long_name, sizeof(long_name));
    assert_int_equal(tm_tensor_table_seal(&model->table), 0);
    free(model->files[0].name);
    model->files[0].name = strdup("odd\tfile%");
    tm_text_init(&expected);
    tm_text_puts(&expected, "name\tfile\n"
                            "%\todd%09file%25\n"
                            "100%25\todd%09file%25\n"
                            "a/b\todd%09file%25\n"
                            "emoji\xf0\x9f\x98\x80\todd%09file%25\n"
                            "line%0Afeed\todd%09file%25\n"
                            "tab%09here\todd%09file%25\n");
    tm_text_append(&expected, long_name, sizeof(long_name));
    tm_text_puts(&expected, "\todd%09file%25\n\xff\xfe\todd%09file%25\n");
    assert_int_equal(tm_text_error(&expected), 0);
    tm_query_table_params params = {model, query, rows, TM_ARRAY_LEN(rows), known_row, NULL};
    expect_matches(&params, expected.bytes);
    tm_text_done(&expected);
}

/* ---- unknown.tsv ---- */

static void expect_unknown(const tm_query_table_params *params, const char *expected)
{
    tm_table *table;
    assert_int_equal(tm_table_of_unknown(params, &table), 0);
    TM_AUTO_FREE char *got = content_of(table);
    assert_string_equal(got, expected);
    tm_table_unref(table);
}

static void unknown_tensors_are_told_with_the_reason(void **state)
{
    (void)state;
    TM_AUTO(tm_model_unrefp)
    tm_model *model = builder_model("a BF16 2,2\n"
                                    "b C64 3\n"
                                    "c F6_E2M3 4\n"
                                    "d F6_E3M2 8\n"
                                    "e F4 2\n"
                                    "f BOOL -\n"
                                    "odd%name I64 0\n");
    TM_AUTO(tm_query_freep) tm_query *query = parsed("nan_count > 0 and absmax > 1");
    static const uint32_t rows[] = {0, 1, 2, 3, 4, 5, 6};
    tm_query_table_params params = {
        .model = model, .query = query, .rows = rows, .count = TM_ARRAY_LEN(rows)};
    expect_unknown(&params, "name\treason\n"
                            "a\tnot indexed\n"
                            "b\thas no statistics\n"
                            "c\thas no statistics\n"
                            "d\thas no statistics\n"
                            "e\tnot indexed\n"
                            "f\tnot indexed\n"
                            "odd%25name\tnot indexed\n");
    params.rows = rows + 1;
    params.count = 1;
    expect_unknown(&params, "name\treason\nb\thas no statistics\n");
    params.count = 0;
    expect_unknown(&params, "name\treason\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_header_has_a_column_for_each_other_field_in_order_of_use),
        cmocka_unit_test(all_fields_have_a_column_of_their_own),
        cmocka_unit_test(a_line_says_what_the_headers_say),
        cmocka_unit_test(statistics_stand_in_columns_of_one_width),
        cmocka_unit_test(counts_are_whole_and_what_is_not_there_is_a_dash),
        cmocka_unit_test(what_is_not_known_is_a_dash_too),
        cmocka_unit_test(the_table_has_the_rows_that_it_is_given),
        cmocka_unit_test(sizes_hold_whatever_becomes_known),
        cmocka_unit_test(measuring_asks_for_no_statistics),
        cmocka_unit_test(a_query_of_headers_asks_for_none_at_all),
        cmocka_unit_test(a_line_is_cut_where_its_buffer_ends),
        cmocka_unit_test(names_of_any_bytes_stay_one_field_of_one_line),
        cmocka_unit_test(unknown_tensors_are_told_with_the_reason),
    };
    return cmocka_run_group_tests_name("table_query", tests, start_threads, stop_threads);
}
