/*
 * What is known of the values of one tensor, as fields with names: those of stats.json, of
 * stats/KEY, of stats.tsv and of queries.
 */
#ifndef TM_CORE_STATS_RECORD_H
#define TM_CORE_STATS_RECORD_H

#include "core/stats.h"

typedef struct tm_stats_record {
    tm_stats_summary summary;
    uint64_t zero_rows, zero_cols; /* of its planes, without a value that is not zero */
} tm_stats_record;

/* A row of the histogram for people; where a list has them, sorted and without those of count 0. */
typedef struct tm_hist_row {
    uint32_t row; /* of TM_STATS_ROWS */
    uint64_t count;
} tm_hist_row;

typedef enum tm_value_kind {
    TM_VALUE_NONE, /* there is no such value: the distinct patterns of a wide type */
    TM_VALUE_INTEGER,
    TM_VALUE_REAL, /* may be NaN: the mean of no values */
} tm_value_kind;

typedef struct tm_value {
    tm_value_kind kind;
    uint64_t integer;
    double real;
} tm_value;

/* The fields in the order of stats.json, quantiles at the end ("q0.001", …). */
enum {
    TM_STATS_FIELDS = 30,
    TM_STATS_PLAIN_FIELDS = TM_STATS_FIELDS - TM_STATS_QUANTILES
};
const char *tm_stats_field_name(size_t field);
/* The field called NAME (LEN bytes); false where there is none. */
bool tm_stats_field_find(const char *name, size_t len, size_t *ret);
tm_value tm_stats_field(const tm_stats_record *record, size_t field);

#endif
