/*
 * Any bytes as a query. What is refused has a place and words; what is accepted is a tree, and once
 * it has answered yes or no without knowing something, learning that changes nothing.
 */
#include "formats/query_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* --- what is refused --- */

static void check_error(const tm_query_error *error, const char *text, size_t len)
{
    int line, column;
    tm_text shown;
    tm_query_place(text, len, &line, &column);
    require(error->line >= 1 && error->column >= 1 && error->words[0]);
    require(error->line <= line && (error->line < line || error->column <= column));
    tm_text_init(&shown);
    tm_query_error_show(error, text, len, &shown);
    require(tm_text_error(&shown) == 0);
    require(shown.len > 2 && memcmp(shown.bytes + shown.len - 2, "^\n", 2) == 0);
    size_t lines = 0;
    for (size_t i = 0; i < shown.len; i++) {
        unsigned char c = (unsigned char)shown.bytes[i];
        require(c == '\n' || (c >= 0x20 && c != 0x7f));
        lines += c == '\n';
    }
    require(lines == 2);
    tm_text_done(&shown);
}

/* --- what is accepted --- */

static bool is_join(const tm_query_node *node)
{
    return node->op == TM_QUERY_OR || node->op == TM_QUERY_AND;
}

static void check_comparison(const tm_query *q, const tm_query_node *node)
{
    require(node->first < q->field_count);
    if (node->op == TM_QUERY_NONE)
        return;
    bool is_text = tm_field_get(q->fields[node->first]).is_text;
    require(!is_text || node->op == TM_QUERY_EQ || node->op == TM_QUERY_NE);
    if (node->by_field) {
        require(node->second < q->field_count);
        require(tm_field_get(q->fields[node->second]).is_text == is_text);
    } else if (is_text) {
        require(node->constant.kind == TM_QUERY_TEXT);
    } else {
        require(node->constant.kind == TM_QUERY_INTEGER || node->constant.kind == TM_QUERY_REAL);
        require(node->constant.kind != TM_QUERY_REAL || node->constant.real == node->constant.real);
    }
}

/* Every node but the last is the child of exactly one that stands behind it. */
static void check_tree(const tm_query *q)
{
    static uint8_t parents[TM_QUERY_NODES_MAX];
    memset(parents, 0, sizeof(parents));
    require(q->node_count >= 1 && q->node_count <= TM_QUERY_NODES_MAX);
    for (uint16_t i = 0; i < q->node_count; i++) {
        const tm_query_node *node = &q->nodes[i];
        if (!is_join(node) && node->op != TM_QUERY_NOT) {
            check_comparison(q, node);
            continue;
        }
        require(node->first < i && parents[node->first]++ == 0);
        if (is_join(node))
            require(node->second < i && parents[node->second]++ == 0);
    }
    for (uint16_t i = 0; i < q->node_count; i++)
        require(parents[i] == (i + 1 < q->node_count));
}

static void check_fields(const tm_query *q)
{
    bool needed = false;
    require(q->field_count >= 1 && q->field_count <= TM_FIELD_COUNT);
    for (uint16_t i = 0; i < q->field_count; i++) {
        for (uint16_t k = 0; k < i; k++)
            require(q->fields[k] != q->fields[i]);
        needed |= tm_field_get(q->fields[i]).is_statistic;
    }
    require(q->needs_statistics == needed);
}

/* --- answers --- */

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* A value that the field may have: often one that the query names, so that both answers occur. */
static tm_query_value some_value(const tm_query *q, uint16_t place, uint64_t *state)
{
    const tm_query_node *node = &q->nodes[next_random(state) % q->node_count];
    bool is_text = tm_field_get(q->fields[place]).is_text;
    bool is_comparison = node->op >= TM_QUERY_EQ && node->op <= TM_QUERY_GE && !node->by_field;
    if (is_comparison && is_text == (node->constant.kind == TM_QUERY_TEXT))
        return node->constant;
    if (is_text)
        return next_random(state) % 2 ? tm_query_text("model.norm", 10) : tm_query_text("", 0);
    switch (next_random(state) % 4) {
    case 0:
        return tm_query_absent();
    case 1:
        return tm_query_real((double)next_random(state) / 1e10 - 1e9);
    case 2:
        return tm_query_integer(next_random(state));
    default:
        return tm_query_real(-__builtin_nan(""));
    }
}

static void check_answers(const tm_query *q, uint64_t seed)
{
    uint64_t state = seed * 2 + 1;
    for (int round = 0; round < 8; round++) {
        tm_query_value known[TM_FIELD_COUNT], partly[TM_FIELD_COUNT];
        for (uint16_t i = 0; i < q->field_count; i++) {
            known[i] = some_value(q, i, &state);
            partly[i] = next_random(&state) % 2 ? known[i] : tm_query_unknown();
        }
        tm_truth answer = tm_query_ask(q, known), before = tm_query_ask(q, partly);
        require(answer == TM_YES || answer == TM_NO);
        require(before == TM_UNKNOWN || before == answer);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tm_query_error error;
    tm_query *query = NULL;
    int rc = tm_query_parse((const char *)data, size, &error, &query);
    require(rc == 0 || rc == -EINVAL || rc == -EFBIG);
    require((rc == 0) == (query != NULL));
    if (rc < 0) {
        check_error(&error, (const char *)data, size);
        return 0;
    }
    check_tree(query);
    check_fields(query);
    uint64_t seed = size;
    for (size_t i = 0; i < size; i++)
        seed = seed * 31 + data[i];
    check_answers(query, seed);
    tm_query_free(query);
    return 0;
}
