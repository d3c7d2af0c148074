/* What a query finds in the headers of a model: the fields of a tensor that are no statistics. */
#ifndef TM_CORE_QUERY_ROW_H
#define TM_CORE_QUERY_ROW_H

#include "core/model.h"
#include "core/query.h"

/*
 * The value of FIELD, which is no statistic, for the tensor in ROW; texts live as long as MODEL.
 * Absent: rows and cols of rank 0; the layer of a tensor without one; the expert of a tensor that
 * belongs to none, or holds all of a layer.
 */
tm_query_value tm_query_header(const tm_model *model, uint32_t row, tm_field field);

/*
 * The values of all fields of QUERY for the tensor in ROW, as tm_query_ask() takes them; RET has
 * room for query->field_count. RECORD: its statistics, NULL where they are not known.
 */
void tm_query_values(const tm_query *query, const tm_model *model, uint32_t row,
                     const tm_stats_record *record, tm_query_value *ret);

#endif
