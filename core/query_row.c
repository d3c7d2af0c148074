/* One field at a time: a query asks for few. */
#include "core/query_row.h"

static tm_query_value from_string(const char *text)
{
    return tm_query_text(text, strlen(text));
}

/* An index that a name may lack; what says that it does is negative. */
static tm_query_value from_index(int32_t index)
{
    return index < 0 ? tm_query_absent() : tm_query_integer((uint64_t)index);
}

/* A field that names and places tell. */
static tm_query_value from_place(const tm_model *model, uint32_t row, tm_field field)
{
    tm_place place = tm_row_place(&model->table, row);
    if (field == TM_FIELD_ROLE)
        return from_string(tm_role_name(place.role));
    return from_index(field == TM_FIELD_LAYER ? place.layer : place.expert);
}

tm_query_value tm_query_header(const tm_model *model, uint32_t row, tm_field field)
{
    const tm_tensor_table *t = &model->table;
    assert(row < t->count && !tm_field_get(field).is_statistic);
    const tm_tensor_row *r = &t->rows[row];
    const uint64_t *dims = tm_row_dims(t, r);
    static_assert(TM_NO_LAYER < 0 && TM_NO_EXPERT < 0 && TM_FUSED_EXPERTS < 0, "no index");
    if (field == TM_FIELD_NAME)
        return tm_query_text(tm_row_name(t, r), r->name_len);
    if (field == TM_FIELD_DTYPE)
        return from_string(tm_dtype_get((tm_dtype)r->dtype)->name);
    if (field == TM_FIELD_FILE)
        return from_string(model->files[r->file].name);
    if (field == TM_FIELD_RANK)
        return tm_query_integer(r->rank);
    if (field == TM_FIELD_ROWS)
        return r->rank ? tm_query_integer(dims[0]) : tm_query_absent();
    if (field == TM_FIELD_COLS)
        return r->rank ? tm_query_integer(dims[r->rank - 1]) : tm_query_absent();
    if (field == TM_FIELD_PARAMS)
        return tm_query_integer(tm_row_elems(t, r));
    if (field == TM_FIELD_BYTES)
        return tm_query_integer(r->bytes);
    return from_place(model, row, field);
}

static tm_query_value statistic(const tm_stats_record *record, tm_field field)
{
    if (!record)
        return tm_query_unknown();
    if (field == TM_FIELD_INF_COUNT)
        return tm_query_integer(record->summary.pos_inf + record->summary.neg_inf);
    tm_value value = tm_stats_field(record, field - TM_FIELD_STATISTICS);
    switch (value.kind) {
    case TM_VALUE_INTEGER:
        return tm_query_integer(value.integer);
    case TM_VALUE_REAL:
        return tm_query_real(value.real);
    default:
        return tm_query_absent();
    }
}

void tm_query_values(const tm_query *query, const tm_model *model, uint32_t row,
                     const tm_stats_record *record, tm_query_value *ret)
{
    for (uint16_t i = 0; i < query->field_count; i++) {
        tm_field field = query->fields[i];
        ret[i] = tm_field_get(field).is_statistic ? statistic(record, field)
                                                  : tm_query_header(model, row, field);
    }
}
