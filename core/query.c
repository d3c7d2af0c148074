/* Answers, in order of the nodes: children stand before their parents, so nothing recurs. */
#include "core/query.h"

#include <math.h>

#include "core/glob.h"

/* --- fields --- */

#define TEXT(NAME)                                                                                 \
    {                                                                                              \
        .name = (NAME), .is_text = true                                                            \
    }
#define HEADER(NAME)                                                                               \
    {                                                                                              \
        .name = (NAME)                                                                             \
    }
static const tm_field_info infos[TM_FIELD_STATISTICS] = {
    [TM_FIELD_NAME] = TEXT("name"),
    [TM_FIELD_DTYPE] = TEXT("dtype"),
    [TM_FIELD_ROLE] = TEXT("role"),
    [TM_FIELD_FILE] = TEXT("file"),
    [TM_FIELD_RANK] = HEADER("rank"),
    [TM_FIELD_ROWS] = HEADER("rows"),
    [TM_FIELD_COLS] = HEADER("cols"),
    [TM_FIELD_PARAMS] = HEADER("params"),
    [TM_FIELD_BYTES] = HEADER("bytes"),
    [TM_FIELD_LAYER] = HEADER("layer"),
    [TM_FIELD_EXPERT] = HEADER("expert"),
    [TM_FIELD_INF_COUNT] = {.name = "inf_count", .is_statistic = true},
};

tm_field_info tm_field_get(tm_field field)
{
    assert(field < TM_FIELD_COUNT);
    if (field < TM_FIELD_STATISTICS)
        return infos[field];
    return (tm_field_info){.name = tm_stats_field_name(field - TM_FIELD_STATISTICS),
                           .is_statistic = true};
}

static bool same(const char *name, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(word, name, len) == 0;
}

bool tm_field_find(const char *name, size_t len, tm_field *ret)
{
    static const char prefix[] = "tensor.";
    size_t prefix_len = sizeof(prefix) - 1;
    if (same(name, len, "layer.type")) {
        *ret = TM_FIELD_ROLE;
        return true;
    }
    if (len > prefix_len && memcmp(name, prefix, prefix_len) == 0) {
        name += prefix_len;
        len -= prefix_len;
    }
    for (int i = 0; i < TM_FIELD_STATISTICS; i++) {
        if (same(name, len, infos[i].name)) {
            *ret = (tm_field)i;
            return true;
        }
    }
    size_t statistic = 0;
    if (!tm_stats_field_find(name, len, &statistic))
        return false;
    *ret = TM_FIELD_STAT(statistic);
    return true;
}

/* --- the query --- */

tm_query *tm_query_new(size_t nodes, size_t text)
{
    assert(nodes <= TM_QUERY_NODES_MAX);
    uint64_t bytes = sizeof(tm_query) + nodes * sizeof(tm_query_node);
    if (tm_add_overflow(bytes, text, &bytes))
        return NULL;
    tm_query *query = calloc(1, bytes);
    if (!query)
        return NULL;
    query->node_cap = (uint16_t)nodes;
    query->text = (char *)&query->nodes[nodes];
    return query;
}

void tm_query_free(tm_query *query)
{
    free(query);
}

void tm_query_freep(tm_query **query)
{
    tm_query_free(*query);
}

uint16_t tm_query_use(tm_query *query, tm_field field)
{
    uint16_t place = 0;
    while (place < query->field_count && query->fields[place] != field)
        place++;
    if (place == query->field_count) {
        query->fields[query->field_count++] = field;
        query->needs_statistics |= tm_field_get(field).is_statistic;
    }
    return place;
}

uint16_t tm_query_add(tm_query *query, const tm_query_node *node)
{
    assert(query->node_count < query->node_cap);
    query->nodes[query->node_count] = *node;
    return query->node_count++;
}

/* --- comparisons --- */

typedef enum order {
    BEFORE,
    SAME,
    AFTER,
    APART, /* of no order, and not the same */
} order;

static order order_of(int sign)
{
    return sign < 0 ? BEFORE : sign > 0 ? AFTER : SAME;
}

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int sign_of_integer(const tm_query_value *v)
{
    return v->magnitude == 0 ? 0 : v->negative ? -1 : 1;
}

static int compare_integers(const tm_query_value *a, const tm_query_value *b)
{
    int sign = sign_of_integer(a);
    if (sign != sign_of_integer(b))
        return sign - sign_of_integer(b);
    return sign * compare_u64(a->magnitude, b->magnitude);
}

/* Nothing is rounded: where the whole part of REAL decides nothing, its fraction does. REAL is no
 * NaN. */
static int compare_integer_to_real(const tm_query_value *integer, double real)
{
    if (fabs(real) >= 0x1p64)
        return real > 0 ? -1 : 1;
    tm_query_value whole = {
        .kind = TM_QUERY_INTEGER, .negative = real < 0, .magnitude = (uint64_t)fabs(real)};
    int sign = compare_integers(integer, &whole);
    if (sign || (double)whole.magnitude == fabs(real))
        return sign;
    return real > 0 ? -1 : 1;
}

static order compare_numbers(const tm_query_value *a, const tm_query_value *b)
{
    bool a_real = a->kind == TM_QUERY_REAL, b_real = b->kind == TM_QUERY_REAL;
    if ((a_real && isnan(a->real)) || (b_real && isnan(b->real)))
        return APART;
    if (a_real && b_real)
        return order_of((a->real > b->real) - (a->real < b->real));
    if (a_real)
        return order_of(-compare_integer_to_real(b, a->real));
    if (b_real)
        return order_of(compare_integer_to_real(a, b->real));
    return order_of(compare_integers(a, b));
}

static order compare_texts(const tm_query_value *a, const tm_query_value *b, bool b_is_pattern)
{
    if (b_is_pattern)
        return tm_glob_match(b->text, b->len, a->text, a->len) ? SAME : APART;
    bool equal = a->len == b->len && (a->len == 0 || memcmp(a->text, b->text, a->len) == 0);
    return equal ? SAME : APART;
}

static bool holds(tm_query_op op, order found)
{
    assert(op >= TM_QUERY_EQ && op <= TM_QUERY_GE);
    switch (op) {
    case TM_QUERY_EQ:
        return found == SAME;
    case TM_QUERY_NE:
        return found != SAME;
    case TM_QUERY_LT:
        return found == BEFORE;
    case TM_QUERY_LE:
        return found == BEFORE || found == SAME;
    case TM_QUERY_GT:
        return found == AFTER;
    case TM_QUERY_GE:
        return found == AFTER || found == SAME;
    case TM_QUERY_OR:
    case TM_QUERY_AND:
    case TM_QUERY_NOT:
    case TM_QUERY_NONE:
        break;
    }
    return false;
}

static bool is_missing(const tm_query_value *v)
{
    return v->kind == TM_QUERY_ABSENT || (v->kind == TM_QUERY_REAL && isnan(v->real));
}

static tm_truth compare(const tm_query_node *node, const tm_query_value *values)
{
    const tm_query_value *a = &values[node->first];
    const tm_query_value *b = node->by_field ? &values[node->second] : &node->constant;
    if (a->kind == TM_QUERY_UNKNOWN || b->kind == TM_QUERY_UNKNOWN)
        return TM_UNKNOWN;
    order found = APART;
    if (!is_missing(a) && !is_missing(b)) {
        assert((a->kind == TM_QUERY_TEXT) == (b->kind == TM_QUERY_TEXT));
        found =
            a->kind == TM_QUERY_TEXT ? compare_texts(a, b, !node->by_field) : compare_numbers(a, b);
    }
    return holds(node->op, found) ? TM_YES : TM_NO;
}

static tm_truth truth_of(const tm_query_node *node, const uint8_t *truths,
                         const tm_query_value *values)
{
    const tm_query_value *value = &values[node->first];
    switch (node->op) {
    case TM_QUERY_OR:
        return (tm_truth)tm_max_u64(truths[node->first], truths[node->second]);
    case TM_QUERY_AND:
        return (tm_truth)tm_min_u64(truths[node->first], truths[node->second]);
    case TM_QUERY_NOT:
        return (tm_truth)(TM_YES - truths[node->first]);
    case TM_QUERY_NONE:
        return value->kind == TM_QUERY_UNKNOWN ? TM_UNKNOWN : is_missing(value) ? TM_YES : TM_NO;
    case TM_QUERY_EQ:
    case TM_QUERY_NE:
    case TM_QUERY_LT:
    case TM_QUERY_LE:
    case TM_QUERY_GT:
    case TM_QUERY_GE:
        break;
    }
    return compare(node, values);
}

tm_truth tm_query_ask(const tm_query *query, const tm_query_value *values)
{
    static_assert(TM_NO == 0 && TM_UNKNOWN == 1 && TM_YES == 2, "and is the least, or the most");
    uint8_t truths[TM_QUERY_NODES_MAX];
    assert(query->node_count > 0);
    for (uint16_t i = 0; i < query->node_count; i++)
        truths[i] = (uint8_t)truth_of(&query->nodes[i], truths, values);
    return (tm_truth)truths[query->node_count - 1];
}
