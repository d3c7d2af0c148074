#include "formats/table_query.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/convert.h"
#include "core/text.h"
#include "formats/line.h"

enum {
    COLUMN = 24
};

/* ---- matches.tsv ---- */

char *tm_matches_header(const tm_query *query)
{
    tm_text text;
    char *header;
    size_t len;
    tm_text_init(&text);
    tm_text_puts(&text, "name");
    for (uint16_t i = 0; i < query->field_count; i++)
        if (query->fields[i] != TM_FIELD_NAME)
            tm_text_printf(&text, "\t%s", tm_field_get(query->fields[i]).name);
    tm_text_puts(&text, "\n");
    return tm_text_steal(&text, &header, &len) < 0 ? NULL : header;
}

/* A number as text, "-" for none. */
static void number_text(const tm_query_value *value, char ret[TM_VALUE_TEXT_MAX])
{
    switch (value->kind) {
    case TM_QUERY_INTEGER:
        snprintf(ret, TM_VALUE_TEXT_MAX, "%s%" PRIu64, value->negative ? "-" : "",
                 value->magnitude);
        break;
    case TM_QUERY_REAL:
        tm_double_text(value->real, ret);
        break;
    default:
        snprintf(ret, TM_VALUE_TEXT_MAX, "-");
        break;
    }
}

static void put_value(tm_line *l, tm_field field, const tm_query_value *value)
{
    char number[TM_VALUE_TEXT_MAX], column[COLUMN + 1];
    tm_line_put(l, "\t", 1);
    if (value->kind == TM_QUERY_TEXT) {
        tm_line_field(l, value->text, value->len);
        return;
    }
    number_text(value, number);
    if (!tm_field_get(field).is_text)
        snprintf(column, sizeof(column), "%*.*s", COLUMN, COLUMN, number);
    else
        snprintf(column, sizeof(column), "%.*s", COLUMN, number);
    tm_line_put(l, column, strlen(column));
}

size_t tm_match_text(const void *ctx, uint64_t index, char *dst, size_t cap)
{
    const tm_query_table_params *p = ctx;
    const tm_tensor_table *table = &p->model->table;
    uint32_t row = p->rows[index];
    tm_query_value values[TM_FIELD_COUNT];
    tm_stats_record record;
    /* When it is measured statistics do not matter: they stand in columns of one width. */
    bool known = cap > 0 && p->query->needs_statistics && p->known(p->ctx, row, &record);
    tm_query_values(p->query, p->model, row, known ? &record : NULL, values);
    tm_line l = {dst, cap, 0};
    tm_line_field(&l, tm_row_name(table, &table->rows[row]), table->rows[row].name_len);
    for (uint16_t i = 0; i < p->query->field_count; i++)
        if (p->query->fields[i] != TM_FIELD_NAME)
            put_value(&l, p->query->fields[i], &values[i]);
    tm_line_put(&l, "\n", 1);
    return l.len;
}

int tm_table_of_matches(const tm_query_table_params *params, const char *header, tm_table **ret)
{
    tm_table_params table = {
        .header = header, .rows = params->count, .row_text = tm_match_text, .ctx = params};
    return tm_table_new(&table, ret);
}

/* ---- unknown.tsv ---- */

static size_t unknown_text(const void *ctx, uint64_t index, char *dst, size_t cap)
{
    const tm_query_table_params *p = ctx;
    const tm_tensor_table *table = &p->model->table;
    uint32_t row = p->rows[index];
    const char *reason = tm_model_is_counted(p->model, row) ? "not indexed" : "has no statistics";
    tm_line l = {dst, cap, 0};
    tm_line_field(&l, tm_row_name(table, &table->rows[row]), table->rows[row].name_len);
    tm_line_put(&l, "\t", 1);
    tm_line_put(&l, reason, strlen(reason));
    tm_line_put(&l, "\n", 1);
    return l.len;
}

int tm_table_of_unknown(const tm_query_table_params *params, tm_table **ret)
{
    tm_table_params table = {
        .header = "name\treason\n", .rows = params->count, .row_text = unknown_text, .ctx = params};
    return tm_table_new(&table, ret);
}
