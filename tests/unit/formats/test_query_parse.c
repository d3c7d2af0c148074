/* The text of queries: what it means, and the words and places of what means nothing. */
#include "formats/query_parse.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <setjmp.h>
#include <cmocka.h>

#include "core/convert.h"

/* --- a query as text in which nothing is left to guess --- */

static const char *op_name(tm_query_op op)
{
    static const char *const names[] = {
        [TM_QUERY_OR] = "or",     [TM_QUERY_AND] = "and", [TM_QUERY_NOT] = "not",
        [TM_QUERY_EQ] = "==",     [TM_QUERY_NE] = "!=",   [TM_QUERY_LT] = "<",
        [TM_QUERY_LE] = "<=",     [TM_QUERY_GT] = ">",    [TM_QUERY_GE] = ">=",
        [TM_QUERY_NONE] = "none",
    };
    return names[op];
}

static void print_constant(const tm_query_value *v, tm_text *out)
{
    char real[TM_VALUE_TEXT_MAX];
    switch (v->kind) {
    case TM_QUERY_INTEGER:
        tm_text_printf(out, "%s%" PRIu64, v->negative ? "-" : "", v->magnitude);
        return;
    case TM_QUERY_REAL:
        tm_double_text(v->real, real);
        tm_text_printf(out, "real %s", real);
        return;
    case TM_QUERY_TEXT:
        tm_text_puts(out, "'");
        tm_text_append(out, v->text, v->len);
        tm_text_puts(out, "'");
        return;
    case TM_QUERY_UNKNOWN:
    case TM_QUERY_ABSENT:
        break;
    }
    tm_text_puts(out, "!");
}

static void print_node(const tm_query *q, uint16_t at, tm_text *out)
{
    const tm_query_node *node = &q->nodes[at];
    tm_text_printf(out, "(%s ", op_name(node->op));
    if (node->op <= TM_QUERY_NOT) {
        print_node(q, node->first, out);
        if (node->op != TM_QUERY_NOT) {
            tm_text_puts(out, " ");
            print_node(q, node->second, out);
        }
    } else {
        tm_text_puts(out, tm_field_get(q->fields[node->first]).name);
        tm_text_puts(out, node->op == TM_QUERY_NONE ? "" : " ");
        if (node->by_field)
            tm_text_puts(out, tm_field_get(q->fields[node->second]).name);
        else if (node->op != TM_QUERY_NONE)
            print_constant(&node->constant, out);
    }
    tm_text_puts(out, ")");
}

static tm_query *parse_good(const char *text, size_t len)
{
    tm_query_error error;
    tm_query *q = NULL;
    int rc = tm_query_parse(text, len, &error, &q);
    if (rc < 0)
        fail_msg("'%s': %d:%d: %s", text, error.line, error.column, error.words);
    return q;
}

static void check_meaning(const char *text, const char *expected)
{
    tm_text out;
    tm_text_init(&out);
    TM_AUTO(tm_query_freep) tm_query *q = parse_good(text, strlen(text));
    print_node(q, (uint16_t)(q->node_count - 1), &out);
    assert_int_equal(tm_text_error(&out), 0);
    if (strcmp(out.bytes, expected) != 0)
        fail_msg("'%s' is %s, not %s", text, out.bytes, expected);
    tm_text_done(&out);
}

typedef struct meaning {
    const char *text, *expected;
} meaning;

static void check_meanings(const meaning *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        check_meaning(rows[i].text, rows[i].expected);
}

static void comparisons_are_read(void **state)
{
    (void)state;
    static const meaning rows[] = {
        {"tensor.nan_count > 0", "(> nan_count 0)"},
        {"nan_count>0", "(> nan_count 0)"},
        {"\t nan_count\r\n>\n0 \n", "(> nan_count 0)"},
        {"layer == 1", "(== layer 1)"},
        {"layer != 1", "(!= layer 1)"},
        {"layer < 1", "(< layer 1)"},
        {"layer <= 1", "(<= layer 1)"},
        {"layer > 1", "(> layer 1)"},
        {"layer >= 1", "(>= layer 1)"},
        {"tensor.q0.99 > 1", "(> q0.99 1)"},
        /* The constant may stand first. */
        {"1 == layer", "(== layer 1)"},
        {"1 != layer", "(!= layer 1)"},
        {"1 < layer", "(> layer 1)"},
        {"1 <= layer", "(>= layer 1)"},
        {"1 > layer", "(< layer 1)"},
        {"1 >= layer", "(<= layer 1)"},
        {"'norm' == role", "(== role 'norm')"},
        /* Two fields. */
        {"tensor.min == tensor.max", "(== min max)"},
        {"nan_count < n", "(< nan_count n)"},
        {"name != file", "(!= name file)"},
        /* Whether there is a value. */
        {"layer == none", "(none layer)"},
        {"layer != none", "(not (none layer))"},
        {"none == layer", "(none layer)"},
        {"name == none", "(none name)"},
    };
    check_meanings(rows, TM_ARRAY_LEN(rows));
}

static void not_binds_before_and_and_before_or(void **state)
{
    (void)state;
    static const meaning rows[] = {
        {"n==1 or n==2 and n==3", "(or (== n 1) (and (== n 2) (== n 3)))"},
        {"n==1 and n==2 or n==3", "(or (and (== n 1) (== n 2)) (== n 3))"},
        {"(n==1 or n==2) and n==3", "(and (or (== n 1) (== n 2)) (== n 3))"},
        {"n==1 and (n==2 or n==3)", "(and (== n 1) (or (== n 2) (== n 3)))"},
        {"n==1 and n==2 and n==3", "(and (and (== n 1) (== n 2)) (== n 3))"},
        {"n==1 or n==2 or n==3", "(or (or (== n 1) (== n 2)) (== n 3))"},
        {"not n==1 and n==2", "(and (not (== n 1)) (== n 2))"},
        {"not n==1 or n==2", "(or (not (== n 1)) (== n 2))"},
        {"not (n==1 or n==2)", "(not (or (== n 1) (== n 2)))"},
        {"not not n==1", "(not (not (== n 1)))"},
        {"n==1 and not n==2", "(and (== n 1) (not (== n 2)))"},
        {"((n==1))", "(== n 1)"},
        {"n==1 || n==2 && !n==3", "(or (== n 1) (and (== n 2) (not (== n 3))))"},
        {"!(n==1)", "(not (== n 1))"},
        {"!!n==1", "(not (not (== n 1)))"},
    };
    check_meanings(rows, TM_ARRAY_LEN(rows));
}

static void numbers_are_exact_where_they_are_integers(void **state)
{
    (void)state;
    static const meaning rows[] = {
        {"n == 0", "(== n 0)"},
        {"n == -0", "(== n 0)"},
        {"n == +7", "(== n 7)"},
        {"n == -7", "(== n -7)"},
        {"n == 007", "(== n 7)"},
        {"n == 9007199254740993", "(== n 9007199254740993)"},
        {"n == 18446744073709551615", "(== n 18446744073709551615)"},
        {"n == -18446744073709551615", "(== n -18446744073709551615)"},
        {"n == 18446744073709551616", "(== n real 1.8446744073709552e+19)"},
        {"n == 1.0", "(== n real 1)"},
        {"n == 1e6", "(== n real 1000000)"},
        {"n == 1E+6", "(== n real 1000000)"},
        {"n == 2.5e-3", "(== n real 0.0025)"},
        {"n == .5", "(== n real 0.5)"},
        {"n == -.5", "(== n real -0.5)"},
        {"n == 0.1", "(== n real 0.1)"},
        {"n == 0.0e-999", "(== n real 0)"},
        {"n == 5e-324", "(== n real 5e-324)"},
        {"n == 1.7976931348623157e308", "(== n real 1.7976931348623157e+308)"},
        {"n == inf", "(== n real inf)"},
        {"n == +inf", "(== n real inf)"},
        {"n == -inf", "(== n real -inf)"},
        {"n>-1", "(> n -1)"},
    };
    check_meanings(rows, TM_ARRAY_LEN(rows));
}

static void texts_stand_in_either_quotes_as_they_are(void **state)
{
    (void)state;
    static const meaning rows[] = {
        {"name == \"a\"", "(== name 'a')"},
        {"name == 'a'", "(== name 'a')"},
        {"name == \"it's\"", "(== name 'it's')"},
        {"name == '\"'", "(== name '\"')"},
        {"name == ''", "(== name '')"},
        {"name == 'a\\n'", "(== name 'a\\n')"},
        {"name == 'and (or) == \xc3\xa9 \xff'", "(== name 'and (or) == \xc3\xa9 \xff')"},
        {"name == 'two\nlines'", "(== name 'two\nlines')"},
        {"name == '*.mlp.?'", "(== name '*.mlp.?')"},
        {"name == ' a '", "(== name ' a ')"},
    };
    check_meanings(rows, TM_ARRAY_LEN(rows));
}

static void a_text_may_hold_a_nul(void **state)
{
    (void)state;
    static const char text[] = "name == 'a\0b'";
    TM_AUTO(tm_query_freep) tm_query *q = parse_good(text, sizeof(text) - 1);
    tm_query_value value = tm_query_text("a\0b", 3), other = tm_query_text("a", 1);
    assert_int_equal(tm_query_ask(q, &value), TM_YES);
    assert_int_equal(tm_query_ask(q, &other), TM_NO);
}

static void dtypes_have_the_names_that_tables_print(void **state)
{
    (void)state;
    static const meaning rows[] = {
        {"dtype == 'BF16'", "(== dtype 'BF16')"},
        {"dtype == 'bf16'", "(== dtype 'BF16')"},
        {"dtype == 'bfloat16'", "(== dtype 'BF16')"},
        {"dtype == 'torch.bfloat16'", "(== dtype 'BF16')"},
        {"dtype != 'float8_e4m3fn'", "(!= dtype 'F8_E4M3')"},
        {"'half' == tensor.dtype", "(== dtype 'F16')"},
        {"dtype == 'f8_*'", "(== dtype 'F8_*')"},
        {"dtype == '?f16'", "(== dtype '?F16')"},
        {"dtype == '*'", "(== dtype '*')"},
        {"name == 'bf16'", "(== name 'bf16')"},
        {"role == 'attention'", "(== role 'attention')"},
        {"layer.type == 'm*'", "(== role 'm*')"},
        {"dtype == role", "(== dtype role)"},
    };
    check_meanings(rows, TM_ARRAY_LEN(rows));
}

/* --- errors --- */

static const struct {
    const char *text;
    int line, column;
    const char *words;
} malformed[] = {
    /* What is missing. */
    {"", 1, 1, "expected a field, a number or a text, but the query ends"},
    {" \n ", 1, 1, "expected a field, a number or a text, but the query ends"},
    {"layer", 1, 6, "expected == != < <= > or >=, but the query ends"},
    {"layer  \n", 1, 6, "expected == != < <= > or >=, but the query ends"},
    {"layer >", 1, 8, "expected a field, a number or a text, but the query ends"},
    {"layer > 3 and", 1, 14, "expected a field, a number or a text, but the query ends"},
    {"not", 1, 4, "expected a field, a number or a text, but the query ends"},
    {"layer 3", 1, 7, "expected == != < <= > or >=, not \"3\""},
    {"layer and rank", 1, 7, "expected == != < <= > or >=, not \"and\""},
    {"layer \"3\"", 1, 7, "expected == != < <= > or >=, not \"3\""},
    {"> 3", 1, 1, "expected a field, a number or a text, not \">\""},
    {"layer > > 3", 1, 9, "expected a field, a number or a text, not \">\""},
    {"layer > (3)", 1, 9, "expected a field, a number or a text, not \"(\""},
    {"(layer) > 3", 1, 7, "expected == != < <= > or >=, not \")\""},
    {"and layer > 3", 1, 1, "expected a field, a number or a text, not \"and\""},
    {"layer > 3 layer < 9", 1, 11, "expected and, or or the end, not \"layer\""},
    {"layer > 3 AND rank == 2", 1, 11, "expected and, or or the end, not \"AND\""},
    {"layer > 3 not rank == 2", 1, 11, "expected and, or or the end, not \"not\""},
    {"layer > 3 'a'", 1, 11, "expected and, or or the end, not 'a'"},
    {"layer -1 > 0", 1, 7, "expected == != < <= > or >=, not \"-1\""},
    /* Parentheses. */
    {"(layer > 3", 1, 11, "expected and, or or the \")\" of the \"(\" at 1:1, but the query ends"},
    {"rank==2 and\n (layer > 3 rank", 2, 13,
     "expected and, or or the \")\" of the \"(\" at 2:2, not \"rank\""},
    {"layer > 3)", 1, 10, "\")\" without a \"(\" before it"},
    {"()", 1, 2, "expected a field, a number or a text, not \")\""},
    {"[layer > 3]", 1, 1, "unexpected \"[\""},
    /* Operators of other languages. */
    {"tensor.nan_count = 0", 1, 18, "\"=\" is no operator: write == to compare"},
    {"layer === 3", 1, 7, "\"===\" is no operator: write =="},
    {"layer !== 3", 1, 7, "\"!==\" is no operator: write !="},
    {"layer <> 3", 1, 7, "\"<>\" is no operator: write !="},
    {"layer =< 3", 1, 7, "\"=<\" is no operator: write <="},
    {"layer => 3", 1, 7, "\"=>\" is no operator: write >="},
    {"layer \xe2\x89\xa5 3", 1, 7, "\"\xe2\x89\xa5\" is no operator: write >="},
    {"layer > 3 & rank > 2", 1, 11, "\"&\" is no operator: write and"},
    {"layer > 3 | rank > 2", 1, 11, "\"|\" is no operator: write or"},
    {"name ~ 'a'", 1, 6,
     "\"~\" is no operator: == takes patterns, as in tensor.name == \"*.mlp.*\""},
    {"name =~ 'a'", 1, 6,
     "\"=~\" is no operator: == takes patterns, as in tensor.name == \"*.mlp.*\""},
    {"name LIKE 'a'", 1, 6,
     "\"like\" is no operator: == takes patterns, as in tensor.name == \"*.mlp.*\""},
    {"layer in (1, 2)", 1, 7, "\"in\" is no operator: join comparisons with or"},
    {"layer is none", 1, 7, "\"is\" is no operator: write == or !="},
    {"1 < layer < 3", 1, 11, "comparisons do not chain: join them with and"},
    {"NOT layer > 3", 1, 1, "write \"not\" in lower case"},
    {"layer == None", 1, 10, "write \"none\" in lower case"},
    {"layer == Inf", 1, 10, "write \"inf\" in lower case"},
    {"layer + 1 > 3", 1, 7, "expected a number after \"+\""},
    {"layer > -rank", 1, 9, "expected a number after \"-\""},
    {"layer * 2 > 3", 1, 7, "unexpected \"*\""},
    {"layer > 3;", 1, 10, "unexpected \";\""},
    {"layer > \x01", 1, 9, "unexpected \"%01\""},
    {"layer > \xff", 1, 9, "unexpected byte 0xff"},
    {"layer > \xc3\xa9", 1, 9, "unexpected \"\xc3\xa9\""},
    /* Numbers. */
    {"layer > 1.", 1, 11, "expected a digit after \".\""},
    {"layer > 1.e5", 1, 11, "expected a digit after \".\""},
    {"layer > .", 1, 10, "expected a digit after \".\""},
    {"layer > 1e", 1, 11, "expected a digit after \"e\""},
    {"layer > 1e+", 1, 12, "expected a digit after \"+\""},
    {"layer > 1_000", 1, 10, "unexpected \"_\" in a number"},
    {"layer > 0x10", 1, 10, "unexpected \"x\" in a number"},
    {"layer > 7B", 1, 10, "unexpected \"B\" in a number"},
    {"layer > 1.2.3", 1, 12, "unexpected \".\" in a number"},
    {"layer > 1and rank > 2", 1, 10, "unexpected \"a\" in a number"},
    {"layer > --1", 1, 9, "expected a number after \"-\""},
    {"layer > - 1", 1, 9, "expected a number after \"-\""},
    {"layer > 1e309", 1, 9, "too large for float64: write inf"},
    {"layer > -1e309", 1, 9, "too large for float64: write inf"},
    {"mean > 1e-400", 1, 8, "too small for float64: write 0"},
    {"mean == nan", 1, 9, "nothing equals nan: write none"},
    /* Texts. */
    {"name == 'a", 1, 9, "the text lacks its closing '"},
    {"name == \"a'", 1, 9, "the text lacks its closing \""},
    {"name == \xe2\x80\x9c"
     "a\xe2\x80\x9d",
     1, 9, "\"\xe2\x80\x9c\" is no operator: write \" or '"},
    {"name == '\xc3\xa9\xc3\xa9' and foo > 1", 1, 18,
     "unknown field \"foo\"; fields are name, dtype, role, file, rank, rows, cols, params, bytes, "
     "layer, expert, and the statistics of stats.json"},
    {"name == '\xff\xfe' or x", 1, 17,
     "unknown field \"x\"; fields are name, dtype, role, file, rank, rows, cols, params, bytes, "
     "layer, expert, and the statistics of stats.json"},
    /* Fields. */
    {"tensor.nan_cout > 0", 1, 1, "unknown field \"tensor.nan_cout\"; there is tensor.nan_count"},
    {"tensor.naan_count > 0", 1, 1,
     "unknown field \"tensor.naan_count\"; there is tensor.nan_count"},
    {"neg_inf_coun > 0", 1, 1, "unknown field \"neg_inf_coun\"; there is tensor.neg_inf_count"},
    {"maen > 0", 1, 1, "unknown field \"maen\"; there is tensor.mean"},
    {"MEAN > 0", 1, 1, "unknown field \"MEAN\"; there is tensor.mean"},
    {"layer.role == 'mlp'", 1, 1, "unknown field \"layer.role\"; there is tensor.role"},
    {"0 < tensor.q0.9", 1, 5,
     "unknown field \"tensor.q0.9\"; there are tensor.q0.5, tensor.q0.95, tensor.q0.99"},
    {"zero > 0", 1, 1,
     "unknown field \"zero\"; there are tensor.zero_count, tensor.zero_rows, tensor.zero_cols"},
    {"tensor.shape == 3", 1, 1,
     "unknown field \"tensor.shape\"; there are tensor.rank, tensor.rows, tensor.cols"},
    {"dtype == bf16", 1, 10, "unknown field \"bf16\"; a text stands in quotes: 'bf16'"},
    {"layer == x_very_long_word_that_is_no_field_at_all_and_goes_on_and_on_and_on", 1, 10,
     "unknown field \"x_very_long_word_that_is_no_field_at_all_and_goe…\"; fields are name, dtype, "
     "role, file, rank, rows, cols, params, bytes, layer, expert, and the statistics of "
     "stats.json"},
    /* Sides that do not fit. */
    {"layer == '3'", 1, 10, "tensor.layer is a number: compare it with one, without quotes"},
    {"'3' == layer", 1, 1, "tensor.layer is a number: compare it with one, without quotes"},
    {"name == 3", 1, 9, "tensor.name is a text: compare it with a text in quotes"},
    {"name == inf", 1, 9, "tensor.name is a text: compare it with a text in quotes"},
    {"name > 'a'", 1, 6, "tensor.name is a text: it compares by == and != alone"},
    {"name < file", 1, 6, "tensor.name is a text: it compares by == and != alone"},
    {"name == layer", 1, 6, "tensor.name is a text and tensor.layer a number: they do not compare"},
    {"layer == name", 1, 7, "tensor.layer is a number and tensor.name a text: they do not compare"},
    {"layer >= none", 1, 7, "none compares by == and != alone"},
    {"1 == 1", 1, 1, "one side of a comparison must be a field"},
    {"'a' == none", 1, 1, "one side of a comparison must be a field"},
    {"dtype == 'bf17'", 1, 10,
     "no dtype is called 'bf17'; there are BOOL, F4, F6_E2M3, F6_E3M2, U8, I8, F8_E5M2, F8_E4M3, "
     "F8_E8M0, F8_E4M3FNUZ, F8_E5M2FNUZ, I16, U16, F16, BF16, I32, U32, F32, C64, F64, I64, U64"},
    {"role == 'attn'", 1, 9,
     "no role is called 'attn'; there are other, embedding, attention, mlp, router, norm, head"},
    {"role == 'x*'", 1, 9,
     "no role is called 'x*'; there are other, embedding, attention, mlp, router, norm, head"},
    /* Lines. */
    {"layer > 3\nand rank\n\t== 'x'", 3, 5,
     "tensor.rank is a number: compare it with one, without quotes"},
    {"layer > 3 and\r\nrank", 2, 5, "expected == != < <= > or >=, but the query ends"},
};

static void each_error_names_its_place_and_what_was_expected(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(malformed); i++) {
        tm_query_error error;
        tm_query *q = NULL;
        const char *text = malformed[i].text;
        int rc = tm_query_parse(text, strlen(text), &error, &q);
        bool same = error.line == malformed[i].line && error.column == malformed[i].column &&
                    strcmp(error.words, malformed[i].words) == 0;
        if (rc != -EINVAL || q || !same)
            fail_msg("'%s': %d, %d:%d: %s", text, rc, error.line, error.column, error.words);
    }
}

static void a_nul_between_words_is_an_error(void **state)
{
    (void)state;
    tm_query_error error;
    tm_query *q = NULL;
    assert_int_equal(tm_query_parse("layer\0> 3", 9, &error, &q), -EINVAL);
    assert_int_equal(error.column, 6);
    assert_string_equal(error.words, "unexpected \"%00\"");
}

/* --- limits --- */

static int parse_text(const tm_text *t, tm_query_error *error)
{
    TM_AUTO(tm_query_freep) tm_query *q = NULL;
    assert_int_equal(tm_text_error(t), 0);
    return tm_query_parse(t->bytes, t->len, error, &q);
}

static void check_limit(int good, int bad, void (*make)(int, tm_text *), int column,
                        const char *words)
{
    tm_query_error error;
    tm_text t;
    tm_text_init(&t);
    make(good, &t);
    assert_int_equal(parse_text(&t, &error), 0);
    tm_text_clear(&t);
    make(bad, &t);
    assert_int_equal(parse_text(&t, &error), -EFBIG);
    assert_int_equal(error.line, 1);
    assert_int_equal(error.column, column);
    assert_string_equal(error.words, words);
    tm_text_done(&t);
}

static void make_of_length(int bytes, tm_text *t)
{
    tm_text_puts(t, "n == 1");
    tm_text_pad(t, (size_t)bytes - t->len);
}

static void make_nested(int levels, tm_text *t)
{
    for (int i = 0; i < levels; i++)
        tm_text_puts(t, i % 2 ? "!" : "(");
    tm_text_puts(t, "n==1");
    for (int i = 0; i < levels; i += 2)
        tm_text_puts(t, ")");
}

/* One operator for each comparison. */
static void make_joined(int comparisons, tm_text *t)
{
    tm_text_puts(t, "!");
    for (int i = 0; i < comparisons; i++)
        tm_text_puts(t, i ? "||n>1" : "n>1");
}

static void queries_are_bounded(void **state)
{
    (void)state;
    check_limit(65536, 65537, make_of_length, 65537, "more than 65536 bytes");
    check_limit(100, 101, make_nested, 101,
                "more than 100 parentheses and negations within each other");
    check_limit(2048, 2049, make_joined, 2049 * 5, "more than 4096 comparisons and operators");
}

static void parentheses_side_by_side_are_not_nested(void **state)
{
    (void)state;
    tm_query_error error;
    tm_text t;
    tm_text_init(&t);
    for (int i = 0; i < 200; i++)
        tm_text_puts(&t, i ? " or (n == 1)" : "!(n == 1)");
    assert_int_equal(parse_text(&t, &error), 0);
    tm_text_done(&t);
}

/* --- places --- */

static const struct {
    const char *text, *shown;
} carets[] = {
    {"tensor.nan_count = 0", "tensor.nan_count = 0\n                 ^\n"},
    {"", "\n^\n"},
    {"layer >", "layer >\n       ^\n"},
    {"layer > 3\nand rank\t= 3\nand n > 1", "and rank = 3\n         ^\n"},
    {"name == '\xc3\xa9' x", "name == '\xc3\xa9' x\n            ^\n"},
    {"name == '\xff\x1b\xc2\x9b' x", "name == '?\?\?' x\n              ^\n"},
    /* Of a long line 50 columns before the place are shown, and 76 in all. */
    {"name == '0123456789012345678901234567890123456789012345678901234567890123456789' = 1 and n"
     " == 1 and n == 1234567890",
     "…234567890123456789012345678901234567890123456789' = 1 and n == 1 and n == 12\n"
     "                                                   ^\n"},
};

static void a_caret_stands_below_the_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(carets); i++) {
        const char *text = carets[i].text;
        tm_query_error error;
        tm_query *q = NULL;
        tm_text out;
        tm_text_init(&out);
        assert_int_equal(tm_query_parse(text, strlen(text), &error, &q), -EINVAL);
        tm_query_error_show(&error, text, strlen(text), &out);
        assert_int_equal(tm_text_error(&out), 0);
        assert_string_equal(out.bytes, carets[i].shown);
        tm_text_done(&out);
    }
}

/* --- what a query says of itself, and its answers --- */

static void a_query_tells_its_fields_in_order(void **state)
{
    (void)state;
    static const char text[] = "role == 'mlp' and (absmax > std or 3 < layer) and absmax < 9";
    TM_AUTO(tm_query_freep) tm_query *q = parse_good(text, sizeof(text) - 1);
    static const tm_field expected[] = {TM_FIELD_ROLE, TM_FIELD_STAT(TM_STAT_ABSMAX),
                                        TM_FIELD_STAT(TM_STAT_STD), TM_FIELD_LAYER};
    assert_int_equal(q->field_count, TM_ARRAY_LEN(expected));
    for (size_t i = 0; i < TM_ARRAY_LEN(expected); i++)
        assert_int_equal(q->fields[i], expected[i]);
    assert_true(q->needs_statistics);
}

static void a_query_of_headers_needs_no_statistics(void **state)
{
    (void)state;
    static const char text[] = "role == 'mlp' and rank == 2 and params > 1e6 and file != 'x'";
    TM_AUTO(tm_query_freep) tm_query *q = parse_good(text, sizeof(text) - 1);
    assert_false(q->needs_statistics);
}

static tm_truth answer(const char *text, const tm_query_value *values)
{
    TM_AUTO(tm_query_freep) tm_query *q = parse_good(text, strlen(text));
    return tm_query_ask(q, values);
}

static void what_headers_decide_needs_no_index(void **state)
{
    (void)state;
    tm_query_value norm[] = {tm_query_text("norm", 4), tm_query_unknown()};
    tm_query_value attention[] = {tm_query_text("attention", 9), tm_query_unknown()};
    static const char both[] = "tensor.role == \"attention\" and tensor.absmax > 8";
    assert_int_equal(answer(both, norm), TM_NO);
    assert_int_equal(answer(both, attention), TM_UNKNOWN);
    static const char either[] = "tensor.role == \"attention\" or tensor.absmax > 8";
    assert_int_equal(answer(either, norm), TM_UNKNOWN);
    assert_int_equal(answer(either, attention), TM_YES);
    assert_int_equal(answer("not (role == 'attention' and absmax > 8)", norm), TM_YES);
    assert_int_equal(answer("not (role == 'attention' and absmax > 8)", attention), TM_UNKNOWN);
}

static void integers_of_a_query_are_not_rounded(void **state)
{
    (void)state;
    tm_query_value n = tm_query_integer(UINT64_C(9007199254740993));
    assert_int_equal(answer("n == 9007199254740993", &n), TM_YES);
    assert_int_equal(answer("n == 9007199254740992", &n), TM_NO);
    assert_int_equal(answer("n > 9007199254740992.0", &n), TM_YES);
    tm_query_value most = tm_query_integer(UINT64_MAX);
    assert_int_equal(answer("n == 18446744073709551615", &most), TM_YES);
    assert_int_equal(answer("n < 18446744073709551615", &most), TM_NO);
    assert_int_equal(answer("n < 18446744073709551616", &most), TM_YES);
    tm_query_value max = tm_query_real(0x1p53);
    assert_int_equal(answer("max < 9007199254740993", &max), TM_YES);
    assert_int_equal(answer("max == 9007199254740992", &max), TM_YES);
}

static void what_is_not_there_is_no_unless_unequal(void **state)
{
    (void)state;
    const tm_query_value missing[] = {tm_query_absent(), tm_query_real(NAN)};
    for (size_t i = 0; i < TM_ARRAY_LEN(missing); i++) {
        assert_int_equal(answer("mean < 3", &missing[i]), TM_NO);
        assert_int_equal(answer("mean >= 3", &missing[i]), TM_NO);
        assert_int_equal(answer("mean == mean", &missing[i]), TM_NO);
        assert_int_equal(answer("mean != 3", &missing[i]), TM_YES);
        assert_int_equal(answer("not mean < 3", &missing[i]), TM_YES);
        assert_int_equal(answer("mean == none", &missing[i]), TM_YES);
        assert_int_equal(answer("mean != none", &missing[i]), TM_NO);
    }
    tm_query_value unknown = tm_query_unknown();
    assert_int_equal(answer("mean == none", &unknown), TM_UNKNOWN);
    assert_int_equal(answer("mean != none", &unknown), TM_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comparisons_are_read),
        cmocka_unit_test(not_binds_before_and_and_before_or),
        cmocka_unit_test(numbers_are_exact_where_they_are_integers),
        cmocka_unit_test(texts_stand_in_either_quotes_as_they_are),
        cmocka_unit_test(a_text_may_hold_a_nul),
        cmocka_unit_test(dtypes_have_the_names_that_tables_print),
        cmocka_unit_test(each_error_names_its_place_and_what_was_expected),
        cmocka_unit_test(a_nul_between_words_is_an_error),
        cmocka_unit_test(queries_are_bounded),
        cmocka_unit_test(parentheses_side_by_side_are_not_nested),
        cmocka_unit_test(a_caret_stands_below_the_place),
        cmocka_unit_test(a_query_tells_its_fields_in_order),
        cmocka_unit_test(a_query_of_headers_needs_no_statistics),
        cmocka_unit_test(what_headers_decide_needs_no_index),
        cmocka_unit_test(integers_of_a_query_are_not_rounded),
        cmocka_unit_test(what_is_not_there_is_no_unless_unequal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
