/* A token is told by its first byte; what cannot be one says what to write instead. */
#include "formats/query_lex.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

void tm_query_lexer_init(tm_query_lexer *lexer, const char *text, size_t len, tm_query_error *error)
{
    while (len > 0 && memchr(" \t\r\n", text[len - 1], 4))
        len--;
    *lexer = (tm_query_lexer){.text = text, .len = len, .error = error};
}

int tm_query_fail(const tm_query_lexer *lexer, size_t at, int code, const char *fmt, ...)
{
    tm_query_error *error = lexer->error;
    tm_query_place(lexer->text, at, &error->line, &error->column);
    va_list args;
    va_start(args, fmt);
    vsnprintf(error->words, sizeof(error->words), fmt, args);
    va_end(args);
    return -code;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_word_char(char c)
{
    return is_letter(c) || is_digit(c) || c == '.';
}

static bool begins_with(const tm_query_lexer *lexer, size_t at, const char *sign)
{
    size_t len = strlen(sign);
    return len <= lexer->len - at && memcmp(lexer->text + at, sign, len) == 0;
}

/* --- numbers --- */

static size_t skip_digits(const tm_query_lexer *lexer, size_t at)
{
    while (at < lexer->len && is_digit(lexer->text[at]))
        at++;
    return at;
}

static int need_digits(const tm_query_lexer *lexer, size_t *at, const char *after)
{
    size_t end = skip_digits(lexer, *at);
    if (end == *at)
        return tm_query_fail(lexer, *at, EINVAL, "expected a digit after \"%s\"", after);
    *at = end;
    return 0;
}

/* Finds the end of the number whose digits begin at *AT. */
static int scan_number(const tm_query_lexer *lexer, size_t *at, bool *ret_is_real)
{
    const char *text = lexer->text; /* its NUL stops every look ahead */
    *ret_is_real = false;
    *at = skip_digits(lexer, *at);
    if (text[*at] == '.') {
        *ret_is_real = true;
        *at += 1;
        TM_TRY(need_digits(lexer, at, "."));
    }
    if (text[*at] == 'e' || text[*at] == 'E') {
        *ret_is_real = true;
        *at += text[*at + 1] == '+' || text[*at + 1] == '-' ? 2 : 1;
        TM_TRY(need_digits(lexer, at, (const char[]){text[*at - 1], '\0'}));
    }
    if (is_word_char(text[*at]))
        return tm_query_fail(lexer, *at, EINVAL, "unexpected \"%c\" in a number", text[*at]);
    return 0;
}

/* False where the digits do not fit. */
static bool parse_integer(const char *digits, size_t len, uint64_t *ret)
{
    *ret = 0;
    for (size_t i = 0; i < len; i++) {
        if (tm_mul_overflow(*ret, 10, ret) ||
            tm_add_overflow(*ret, (uint64_t)(digits[i] - '0'), ret))
            return false;
    }
    return true;
}

/* Whether a digit before the exponent is not 0. */
static bool is_nonzero(const char *number, size_t len)
{
    for (size_t i = 0; i < len && number[i] != 'e' && number[i] != 'E'; i++) {
        if (number[i] >= '1' && number[i] <= '9')
            return true;
    }
    return false;
}

/* The digits of TOKEN begin at DIGITS. Integers that fit are exact, all else the nearest double. */
static int convert_number(const tm_query_lexer *lexer, size_t digits, bool is_real,
                          tm_query_token *token)
{
    const char *text = lexer->text + digits;
    size_t len = token->at + token->len - digits;
    bool negative = lexer->text[token->at] == '-';
    uint64_t magnitude;
    if (!is_real && parse_integer(text, len, &magnitude)) {
        token->value = tm_query_integer(magnitude);
        token->value.negative = negative && magnitude > 0;
        return 0;
    }
    double real = strtod(text, NULL);
    if (isinf(real))
        return tm_query_fail(lexer, token->at, EINVAL, "too large for float64: write inf");
    if (real == 0 && is_nonzero(text, len))
        return tm_query_fail(lexer, token->at, EINVAL, "too small for float64: write 0");
    token->value = tm_query_real(negative ? -real : real);
    return 0;
}

static int lex_number(tm_query_lexer *lexer, tm_query_token *token)
{
    bool is_signed = memchr("+-", lexer->text[token->at], 2);
    size_t digits = token->at + is_signed, end = digits;
    bool is_real;
    token->kind = TM_TOKEN_NUMBER;
    if (begins_with(lexer, digits, "inf") && !is_word_char(lexer->text[digits + 3])) {
        token->len = digits + 3 - token->at;
        token->value = tm_query_real(lexer->text[token->at] == '-' ? -INFINITY : INFINITY);
        return 0;
    }
    char first = lexer->text[digits];
    if (!is_digit(first) && first != '.')
        return tm_query_fail(lexer, token->at, EINVAL, "expected a number after \"%c\"",
                             lexer->text[token->at]);
    TM_TRY(scan_number(lexer, &end, &is_real));
    token->len = end - token->at;
    return convert_number(lexer, digits, is_real, token);
}

/* --- texts and words --- */

static int lex_text(tm_query_lexer *lexer, tm_query_token *token)
{
    const char *begin = lexer->text + token->at + 1;
    const char *end = memchr(begin, begin[-1], lexer->len - token->at - 1);
    if (!end)
        return tm_query_fail(lexer, token->at, EINVAL, "the text lacks its closing %c", begin[-1]);
    token->kind = TM_TOKEN_TEXT;
    token->value = tm_query_text(begin, (size_t)(end - begin));
    token->len = token->value.len + 2;
    return 0;
}

static int lex_word(tm_query_lexer *lexer, tm_query_token *token)
{
    static const struct {
        const char *word;
        tm_query_token_kind kind;
    } keywords[] = {
        {"and", TM_TOKEN_AND},
        {"or", TM_TOKEN_OR},
        {"not", TM_TOKEN_NOT},
        {"none", TM_TOKEN_NONE},
    };
    const char *word = lexer->text + token->at;
    while (token->at + token->len < lexer->len && is_word_char(word[token->len]))
        token->len++;
    token->kind = TM_TOKEN_WORD;
    if (token->len == 3 && memcmp(word, "inf", 3) == 0)
        return lex_number(lexer, token);
    if (token->len == 3 && memcmp(word, "nan", 3) == 0)
        return tm_query_fail(lexer, token->at, EINVAL, "nothing equals nan: write none");
    for (size_t i = 0; i < TM_ARRAY_LEN(keywords); i++) {
        if (strlen(keywords[i].word) == token->len &&
            memcmp(keywords[i].word, word, token->len) == 0)
            token->kind = keywords[i].kind;
    }
    return 0;
}

/* --- operators --- */

#define IS_PATTERN "== takes patterns, as in tensor.name == \"*.mlp.*\""

/* A longer sign stands before a shorter one that it begins with. */
static const struct {
    const char *sign;
    tm_query_token_kind kind;
    tm_query_op op;
    const char *instead; /* NULL: it is a token */
} signs[] = {
    {"===", TM_TOKEN_END, 0, "write =="},
    {"!==", TM_TOKEN_END, 0, "write !="},
    {"==", TM_TOKEN_COMPARISON, TM_QUERY_EQ, NULL},
    {"!=", TM_TOKEN_COMPARISON, TM_QUERY_NE, NULL},
    {"<=", TM_TOKEN_COMPARISON, TM_QUERY_LE, NULL},
    {">=", TM_TOKEN_COMPARISON, TM_QUERY_GE, NULL},
    {"<>", TM_TOKEN_END, 0, "write !="},
    {"=<", TM_TOKEN_END, 0, "write <="},
    {"=>", TM_TOKEN_END, 0, "write >="},
    {"=~", TM_TOKEN_END, 0, IS_PATTERN},
    {"!~", TM_TOKEN_END, 0, IS_PATTERN},
    {"&&", TM_TOKEN_AND, 0, NULL},
    {"||", TM_TOKEN_OR, 0, NULL},
    {"<", TM_TOKEN_COMPARISON, TM_QUERY_LT, NULL},
    {">", TM_TOKEN_COMPARISON, TM_QUERY_GT, NULL},
    {"!", TM_TOKEN_NOT, 0, NULL},
    {"(", TM_TOKEN_OPEN, 0, NULL},
    {")", TM_TOKEN_CLOSE, 0, NULL},
    {"=", TM_TOKEN_END, 0, "write == to compare"},
    {"~", TM_TOKEN_END, 0, IS_PATTERN},
    {"&", TM_TOKEN_END, 0, "write and"},
    {"|", TM_TOKEN_END, 0, "write or"},
    {"\xe2\x80\x9c", TM_TOKEN_END, 0, "write \" or '"}, /* typographic quotes */
    {"\xe2\x80\x9d", TM_TOKEN_END, 0, "write \" or '"},
    {"\xe2\x80\x9e", TM_TOKEN_END, 0, "write \" or '"},
    {"\xe2\x80\x98", TM_TOKEN_END, 0, "write \" or '"},
    {"\xe2\x80\x99", TM_TOKEN_END, 0, "write \" or '"},
    {"\xe2\x89\xa0", TM_TOKEN_END, 0, "write !="}, /* signs of mathematics */
    {"\xe2\x89\xa4", TM_TOKEN_END, 0, "write <="},
    {"\xe2\x89\xa5", TM_TOKEN_END, 0, "write >="},
};

static int fail_char(const tm_query_lexer *lexer, size_t at)
{
    char quoted[TM_QUERY_QUOTE_MAX];
    size_t len = tm_utf8_len(lexer->text + at, lexer->len - at);
    if (len == 0)
        return tm_query_fail(lexer, at, EINVAL, "unexpected byte 0x%02x",
                             (unsigned char)lexer->text[at]);
    tm_query_quote(lexer->text + at, len, quoted);
    return tm_query_fail(lexer, at, EINVAL, "unexpected \"%s\"", quoted);
}

static int lex_sign(tm_query_lexer *lexer, tm_query_token *token)
{
    for (size_t i = 0; i < TM_ARRAY_LEN(signs); i++) {
        if (!begins_with(lexer, token->at, signs[i].sign))
            continue;
        if (signs[i].instead)
            return tm_query_fail(lexer, token->at, EINVAL, "\"%s\" is no operator: %s",
                                 signs[i].sign, signs[i].instead);
        token->kind = signs[i].kind;
        token->op = signs[i].op;
        token->len = strlen(signs[i].sign);
        return 0;
    }
    return fail_char(lexer, token->at);
}

int tm_query_lexer_next(tm_query_lexer *lexer, tm_query_token *ret)
{
    while (lexer->at < lexer->len && memchr(" \t\r\n", lexer->text[lexer->at], 4))
        lexer->at++;
    tm_query_token token = {.at = lexer->at};
    char c = lexer->text[lexer->at];
    if (lexer->at == lexer->len)
        token.kind = TM_TOKEN_END;
    else if (is_digit(c) || memchr(".+-", c, 3))
        TM_TRY(lex_number(lexer, &token));
    else if (is_letter(c))
        TM_TRY(lex_word(lexer, &token));
    else if (c == '"' || c == '\'')
        TM_TRY(lex_text(lexer, &token));
    else
        TM_TRY(lex_sign(lexer, &token));
    lexer->at += token.len;
    *ret = token;
    return 0;
}
