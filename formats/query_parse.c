/* One function a level of the grammar; a comparison is checked where its two sides are known. */
#include "formats/query_parse.h"

#include <stdio.h>
#include <strings.h>

#include "core/dtype.h"
#include "core/glob.h"
#include "core/names.h"
#include "formats/query_lex.h"

typedef struct parser {
    tm_query_lexer lexer;
    tm_query_token now; /* the next one that is not consumed */
    tm_query *query;
    unsigned depth;
} parser;

/* One side of a comparison. */
typedef struct side {
    enum {
        SIDE_FIELD,
        SIDE_CONSTANT,
        SIDE_NONE
    } kind;
    tm_field field;
    tm_query_value constant;
    tm_query_token token;
} side;

static int advance(parser *p)
{
    return tm_query_lexer_next(&p->lexer, &p->now);
}

static int fail(const parser *p, const tm_query_token *at, const char *words)
{
    return tm_query_fail(&p->lexer, at->at, EINVAL, "%s", words);
}

static const char *quote(const parser *p, const tm_query_token *token, char *ret)
{
    return tm_query_quote(p->lexer.text + token->at, token->len, ret);
}

/* Fails at the next token, which is not WHAT. */
static int fail_expected(const parser *p, const char *what)
{
    char quoted[TM_QUERY_QUOTE_MAX];
    const tm_query_token *now = &p->now;
    quote(p, now, quoted);
    if (now->kind == TM_TOKEN_END)
        return tm_query_fail(&p->lexer, now->at, EINVAL, "expected %s, but the query ends", what);
    const char *mark = now->kind == TM_TOKEN_TEXT ? "" : "\""; /* a text has its own */
    return tm_query_fail(&p->lexer, now->at, EINVAL, "expected %s, not %s%s%s", what, mark, quoted,
                         mark);
}

static int add_node(parser *p, const tm_query_node *node, uint16_t *ret)
{
    if (p->query->node_count == TM_QUERY_NODES_MAX)
        return tm_query_fail(&p->lexer, p->now.at, EFBIG, "more than %d comparisons and operators",
                             TM_QUERY_NODES_MAX);
    *ret = tm_query_add(p->query, node);
    return 0;
}

/* --- the sides of a comparison --- */

static bool is_word(const parser *p, const tm_query_token *token, const char *word)
{
    return token->kind == TM_TOKEN_WORD && token->len == strlen(word) &&
           strncasecmp(p->lexer.text + token->at, word, token->len) == 0;
}

/* LEFT is the side before, NULL where this is the first. */
static int fail_unknown_field(const parser *p, const side *left)
{
    static const char *const keywords[] = {"and", "or", "not", "none", "inf"};
    char quoted[TM_QUERY_QUOTE_MAX], near[TM_QUERY_WORDS_MAX];
    const char *word = p->lexer.text + p->now.at;
    for (size_t i = 0; i < TM_ARRAY_LEN(keywords); i++) {
        if (is_word(p, &p->now, keywords[i]))
            return tm_query_fail(&p->lexer, p->now.at, EINVAL, "write \"%s\" in lower case",
                                 keywords[i]);
    }
    quote(p, &p->now, quoted);
    if (left && left->kind == SIDE_FIELD && tm_field_get(left->field).is_text)
        return tm_query_fail(&p->lexer, p->now.at, EINVAL,
                             "unknown field \"%s\"; a text stands in quotes: '%s'", quoted, quoted);
    tm_query_near(word, p->now.len, near);
    return tm_query_fail(&p->lexer, p->now.at, EINVAL, "unknown field \"%s\"%s", quoted, near);
}

static int parse_side(parser *p, const side *left, side *ret)
{
    *ret = (side){.token = p->now};
    switch (p->now.kind) {
    case TM_TOKEN_WORD:
        ret->kind = SIDE_FIELD;
        if (!tm_field_find(p->lexer.text + p->now.at, p->now.len, &ret->field))
            return fail_unknown_field(p, left);
        break;
    case TM_TOKEN_NUMBER:
    case TM_TOKEN_TEXT:
        ret->kind = SIDE_CONSTANT;
        ret->constant = p->now.value;
        break;
    case TM_TOKEN_NONE:
        ret->kind = SIDE_NONE;
        break;
    case TM_TOKEN_END:
    case TM_TOKEN_COMPARISON:
    case TM_TOKEN_AND:
    case TM_TOKEN_OR:
    case TM_TOKEN_NOT:
    case TM_TOKEN_OPEN:
    case TM_TOKEN_CLOSE:
        return fail_expected(p, "a field, a number or a text");
    }
    return advance(p);
}

static int parse_comparison_op(parser *p, tm_query_token *ret)
{
    static const struct {
        const char *word, *instead;
    } elsewhere[] = {
        {"like", "== takes patterns, as in tensor.name == \"*.mlp.*\""},
        {"matches", "== takes patterns, as in tensor.name == \"*.mlp.*\""},
        {"contains", "== takes patterns, as in tensor.name == \"*.mlp.*\""},
        {"is", "write == or !="},
        {"in", "join comparisons with or"},
    };
    *ret = p->now;
    if (p->now.kind == TM_TOKEN_COMPARISON)
        return advance(p);
    for (size_t i = 0; i < TM_ARRAY_LEN(elsewhere); i++) {
        if (is_word(p, &p->now, elsewhere[i].word))
            return tm_query_fail(&p->lexer, p->now.at, EINVAL, "\"%s\" is no operator: %s",
                                 elsewhere[i].word, elsewhere[i].instead);
    }
    return fail_expected(p, "== != < <= > or >=");
}

/* --- what dtypes and roles there are --- */

static const char *dtype_name(int i)
{
    return tm_dtype_get((tm_dtype)i)->name;
}

static const char *role_name(int i)
{
    return tm_role_name((tm_role)i);
}

/* The names that a field can have where they are few. */
typedef struct vocabulary {
    const char *noun;
    int count;
    const char *(*name)(int);
} vocabulary;

static const vocabulary dtypes = {"dtype", TM_DTYPE_COUNT, dtype_name};
static const vocabulary roles = {"role", TM_ROLE_COUNT, role_name};

/* Fails where CONSTANT matches none of them. SPELLED is how the query has it. */
static int check_vocabulary(const parser *p, const vocabulary *names, const side *constant,
                            const char *spelled)
{
    const tm_query_value *v = &constant->constant;
    char all[TM_QUERY_WORDS_MAX] = "";
    for (int i = 0; i < names->count; i++) {
        const char *name = names->name(i);
        if (tm_glob_match(v->text, v->len, name, strlen(name)))
            return 0;
        size_t used = strlen(all);
        snprintf(all + used, sizeof(all) - used, "%s%s", i ? ", " : "", name);
    }
    return tm_query_fail(&p->lexer, constant->token.at, EINVAL, "no %s is called %s; there are %s",
                         names->noun, spelled, all);
}

/* A dtype becomes the name that tables print; a pattern is one for those names, in any case. */
static int normalize_dtype(parser *p, side *constant)
{
    tm_query_value *v = &constant->constant;
    tm_dtype dtype;
    char spelled[TM_QUERY_QUOTE_MAX];
    if (tm_dtype_parse(v->text, v->len, &dtype)) {
        *v = tm_query_text(dtype_name((int)dtype), strlen(dtype_name((int)dtype)));
        return 0;
    }
    quote(p, &constant->token, spelled);
    char *text = p->query->text + constant->token.at + 1;
    for (size_t i = 0; i < v->len; i++) {
        if (text[i] >= 'a' && text[i] <= 'z')
            text[i] = (char)(text[i] - ('a' - 'A'));
    }
    return check_vocabulary(p, &dtypes, constant, spelled);
}

/* Makes the constant that FIELD is compared with what its values look like. */
static int normalize(parser *p, tm_field field, side *constant)
{
    char spelled[TM_QUERY_QUOTE_MAX];
    if (field == TM_FIELD_DTYPE)
        return normalize_dtype(p, constant);
    if (field == TM_FIELD_ROLE)
        return check_vocabulary(p, &roles, constant, quote(p, &constant->token, spelled));
    return 0;
}

/* --- comparisons --- */

static int check_types(const parser *p, const side *field, const tm_query_token *op,
                       const side *other)
{
    tm_field_info info = tm_field_get(field->field);
    bool by_field = other->kind == SIDE_FIELD;
    bool is_text =
        by_field ? tm_field_get(other->field).is_text : other->constant.kind == TM_QUERY_TEXT;
    if (by_field && is_text != info.is_text)
        return tm_query_fail(&p->lexer, op->at, EINVAL,
                             "tensor.%s is a %s and tensor.%s a %s: they do not compare", info.name,
                             info.is_text ? "text" : "number", tm_field_get(other->field).name,
                             is_text ? "text" : "number");
    if (is_text != info.is_text)
        return tm_query_fail(&p->lexer, other->token.at, EINVAL,
                             info.is_text
                                 ? "tensor.%s is a text: compare it with a text in quotes"
                                 : "tensor.%s is a number: compare it with one, without quotes",
                             info.name);
    if (is_text && op->op != TM_QUERY_EQ && op->op != TM_QUERY_NE)
        return tm_query_fail(&p->lexer, op->at, EINVAL,
                             "tensor.%s is a text: it compares by == and != alone", info.name);
    return 0;
}

/* A OP B is B mirrored(OP) A. */
static tm_query_op mirrored(tm_query_op op)
{
    switch (op) {
    case TM_QUERY_LT:
        return TM_QUERY_GT;
    case TM_QUERY_LE:
        return TM_QUERY_GE;
    case TM_QUERY_GT:
        return TM_QUERY_LT;
    case TM_QUERY_GE:
        return TM_QUERY_LE;
    case TM_QUERY_EQ:
    case TM_QUERY_NE:
    case TM_QUERY_OR:
    case TM_QUERY_AND:
    case TM_QUERY_NOT:
    case TM_QUERY_NONE:
        break;
    }
    return op;
}

static int add_none(parser *p, const side *field, const tm_query_token *op, uint16_t *ret)
{
    if (op->op != TM_QUERY_EQ && op->op != TM_QUERY_NE)
        return fail(p, op, "none compares by == and != alone");
    tm_query_node node = {.op = TM_QUERY_NONE, .first = tm_query_use(p->query, field->field)};
    TM_TRY(add_node(p, &node, ret));
    if (op->op == TM_QUERY_EQ)
        return 0;
    return add_node(p, &(tm_query_node){.op = TM_QUERY_NOT, .first = *ret}, ret);
}

static int add_comparison(parser *p, const side *field, const tm_query_token *op, side *other,
                          uint16_t *ret)
{
    TM_TRY(check_types(p, field, op, other));
    tm_query_node node = {.op = op->op, .first = tm_query_use(p->query, field->field)};
    if (other->kind == SIDE_FIELD) {
        node.by_field = true;
        node.second = tm_query_use(p->query, other->field);
    } else {
        TM_TRY(normalize(p, field->field, other));
        node.constant = other->constant;
    }
    return add_node(p, &node, ret);
}

static int parse_comparison(parser *p, uint16_t *ret)
{
    side left, right;
    tm_query_token op;
    TM_TRY(parse_side(p, NULL, &left));
    TM_TRY(parse_comparison_op(p, &op));
    TM_TRY(parse_side(p, &left, &right));
    if (left.kind != SIDE_FIELD && right.kind != SIDE_FIELD)
        return fail(p, &left.token, "one side of a comparison must be a field");
    if (p->now.kind == TM_TOKEN_COMPARISON)
        return fail(p, &p->now, "comparisons do not chain: join them with and");
    if (left.kind != SIDE_FIELD) {
        side swapped = left;
        left = right;
        right = swapped;
        op.op = mirrored(op.op);
    }
    if (right.kind == SIDE_NONE)
        return add_none(p, &left, &op, ret);
    return add_comparison(p, &left, &op, &right, ret);
}

/* --- and, or, not --- */

static int parse_or(parser *p, uint16_t *ret);

static int parse_group(parser *p, uint16_t *ret)
{
    char what[96];
    int line, column;
    tm_query_place(p->lexer.text, p->now.at, &line, &column);
    snprintf(what, sizeof(what), "and, or or the \")\" of the \"(\" at %d:%d", line, column);
    TM_TRY(advance(p));
    TM_TRY(parse_or(p, ret));
    if (p->now.kind != TM_TOKEN_CLOSE)
        return fail_expected(p, what);
    return advance(p);
}

static int parse_not(parser *p, uint16_t *ret)
{
    bool negates = p->now.kind == TM_TOKEN_NOT;
    if (!negates && p->now.kind != TM_TOKEN_OPEN)
        return parse_comparison(p, ret);
    if (++p->depth > TM_QUERY_DEPTH_MAX)
        return tm_query_fail(&p->lexer, p->now.at, EFBIG,
                             "more than %u parentheses and negations within each other",
                             TM_QUERY_DEPTH_MAX);
    if (negates) {
        TM_TRY(advance(p));
        TM_TRY(parse_not(p, ret));
        TM_TRY(add_node(p, &(tm_query_node){.op = TM_QUERY_NOT, .first = *ret}, ret));
    } else {
        TM_TRY(parse_group(p, ret));
    }
    p->depth--;
    return 0;
}

/* What DEEPER parses, joined by OP wherever JOINT stands between, from left to right. */
static int parse_joined(parser *p, tm_query_token_kind joint, tm_query_op op,
                        int (*deeper)(parser *, uint16_t *), uint16_t *ret)
{
    tm_query_node node = {.op = op};
    TM_TRY(deeper(p, ret));
    while (p->now.kind == joint) {
        node.first = *ret;
        TM_TRY(advance(p));
        TM_TRY(deeper(p, &node.second));
        TM_TRY(add_node(p, &node, ret));
    }
    return 0;
}

static int parse_and(parser *p, uint16_t *ret)
{
    return parse_joined(p, TM_TOKEN_AND, TM_QUERY_AND, parse_not, ret);
}

static int parse_or(parser *p, uint16_t *ret)
{
    return parse_joined(p, TM_TOKEN_OR, TM_QUERY_OR, parse_and, ret);
}

static int parse_query(parser *p)
{
    uint16_t root;
    TM_TRY(advance(p));
    TM_TRY(parse_or(p, &root));
    if (p->now.kind == TM_TOKEN_CLOSE)
        return fail(p, &p->now, "\")\" without a \"(\" before it");
    if (p->now.kind != TM_TOKEN_END)
        return fail_expected(p, "and, or or the end");
    assert(root + 1 == p->query->node_count);
    return 0;
}

int tm_query_parse(const char *text, size_t len, tm_query_error *error, tm_query **ret)
{
    *error = (tm_query_error){.line = 1, .column = 1};
    if (len > TM_QUERY_BYTES_MAX) {
        tm_query_place(text, TM_QUERY_BYTES_MAX, &error->line, &error->column);
        snprintf(error->words, sizeof(error->words), "more than %zu bytes", TM_QUERY_BYTES_MAX);
        return -EFBIG;
    }
    /* A node has more than one byte of its own. */
    TM_AUTO(tm_query_freep)
    tm_query *query = tm_query_new(tm_min_u64(len, TM_QUERY_NODES_MAX), len + 1);
    if (!query) {
        snprintf(error->words, sizeof(error->words), "out of memory");
        return -ENOMEM;
    }
    if (len)
        memcpy(query->text, text, len);
    parser p = {.query = query};
    tm_query_lexer_init(&p.lexer, query->text, len, error);
    TM_TRY(parse_query(&p));
    *ret = TM_STEAL(query);
    return 0;
}
