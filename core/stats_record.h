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

/* The fields in the order of stats.json. */
typedef enum tm_stats_field_id {
    TM_STAT_N,
    TM_STAT_ZERO,
    TM_STAT_NEG_ZERO,
    TM_STAT_NAN,
    TM_STAT_POS_INF,
    TM_STAT_NEG_INF,
    TM_STAT_SUBNORMAL,
    TM_STAT_MIN,
    TM_STAT_MAX,
    TM_STAT_ABSMAX,
    TM_STAT_ABSMAX_INDEX,
    TM_STAT_MEAN,
    TM_STAT_VAR,
    TM_STAT_STD,
    TM_STAT_L1,
    TM_STAT_L2,
    TM_STAT_SPARSITY,
    TM_STAT_ENTROPY,
    TM_STAT_DISTINCT,
    TM_STAT_ZERO_ROWS,
    TM_STAT_ZERO_COLS,
    TM_STATS_PLAIN_FIELDS,
    TM_STAT_Q0_001 = TM_STATS_PLAIN_FIELDS, /* quantiles */
    TM_STAT_Q0_01,
    TM_STAT_Q0_05,
    TM_STAT_Q0_25,
    TM_STAT_Q0_5,
    TM_STAT_Q0_75,
    TM_STAT_Q0_95,
    TM_STAT_Q0_99,
    TM_STAT_Q0_999,
    TM_STATS_FIELDS
} tm_stats_field_id;
static_assert(TM_STATS_FIELDS == TM_STATS_PLAIN_FIELDS + TM_STATS_QUANTILES, "each has a field");
const char *tm_stats_field_name(size_t field);
/* The field called NAME (LEN bytes); false where there is none. */
bool tm_stats_field_find(const char *name, size_t len, size_t *ret);
tm_value tm_stats_field(const tm_stats_record *record, size_t field);

#endif
