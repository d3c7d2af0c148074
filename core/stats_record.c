#include "core/stats_record.h"

#include <math.h>

typedef struct field {
    const char *name;
    tm_value_kind kind;
    size_t offset; /* in tm_stats_record */
} field;

#define AT(member) offsetof(tm_stats_record, member)
#define COUNT(name, member)                                                                        \
    {                                                                                              \
        name, TM_VALUE_INTEGER, AT(member)                                                         \
    }
#define REAL(name, member)                                                                         \
    {                                                                                              \
        name, TM_VALUE_REAL, AT(member)                                                            \
    }
#define QUANTILE(name, i)                                                                          \
    {                                                                                              \
        name, TM_VALUE_REAL, AT(summary.quantile) + (i) * sizeof(double)                           \
    }

static const field fields[] = {
    [TM_STAT_N] = COUNT("n", summary.n),
    [TM_STAT_ZERO] = COUNT("zero_count", summary.zero),
    [TM_STAT_NEG_ZERO] = COUNT("neg_zero_count", summary.neg_zero),
    [TM_STAT_NAN] = COUNT("nan_count", summary.nan),
    [TM_STAT_POS_INF] = COUNT("pos_inf_count", summary.pos_inf),
    [TM_STAT_NEG_INF] = COUNT("neg_inf_count", summary.neg_inf),
    [TM_STAT_SUBNORMAL] = COUNT("subnormal_count", summary.subnormal),
    [TM_STAT_MIN] = REAL("min", summary.min),
    [TM_STAT_MAX] = REAL("max", summary.max),
    [TM_STAT_ABSMAX] = REAL("absmax", summary.absmax),
    [TM_STAT_ABSMAX_INDEX] = COUNT("absmax_index", summary.absmax_index),
    [TM_STAT_MEAN] = REAL("mean", summary.moments.mean),
    [TM_STAT_VAR] = REAL("var", summary.moments.var),
    [TM_STAT_STD] = REAL("std", summary.moments.std),
    [TM_STAT_L1] = REAL("l1", summary.moments.l1),
    [TM_STAT_L2] = REAL("l2", summary.moments.l2),
    [TM_STAT_SPARSITY] = REAL("sparsity", summary.sparsity),
    [TM_STAT_ENTROPY] = REAL("entropy", summary.entropy),
    [TM_STAT_DISTINCT] = COUNT("distinct", summary.distinct),
    [TM_STAT_ZERO_ROWS] = COUNT("zero_rows", zero_rows),
    [TM_STAT_ZERO_COLS] = COUNT("zero_cols", zero_cols),
    [TM_STAT_Q0_001] = QUANTILE("q0.001", 0),
    [TM_STAT_Q0_01] = QUANTILE("q0.01", 1),
    [TM_STAT_Q0_05] = QUANTILE("q0.05", 2),
    [TM_STAT_Q0_25] = QUANTILE("q0.25", 3),
    [TM_STAT_Q0_5] = QUANTILE("q0.5", 4),
    [TM_STAT_Q0_75] = QUANTILE("q0.75", 5),
    [TM_STAT_Q0_95] = QUANTILE("q0.95", 6),
    [TM_STAT_Q0_99] = QUANTILE("q0.99", 7),
    [TM_STAT_Q0_999] = QUANTILE("q0.999", 8),
};
static_assert(TM_ARRAY_LEN(fields) == TM_STATS_FIELDS, "as many as the header says");

const char *tm_stats_field_name(size_t i)
{
    assert(i < TM_STATS_FIELDS);
    return fields[i].name;
}

bool tm_stats_field_find(const char *name, size_t len, size_t *ret)
{
    for (size_t i = 0; i < TM_STATS_FIELDS; i++) {
        if (strlen(fields[i].name) == len && memcmp(fields[i].name, name, len) == 0) {
            *ret = i;
            return true;
        }
    }
    return false;
}

tm_value tm_stats_field(const tm_stats_record *record, size_t i)
{
    assert(i < TM_STATS_FIELDS);
    const char *at = (const char *)record + fields[i].offset;
    tm_value value = {.kind = fields[i].kind};
    if ((i == TM_STAT_DISTINCT && !record->summary.has_distinct) ||
        (i == TM_STAT_ABSMAX_INDEX && isnan(record->summary.absmax)))
        return (tm_value){TM_VALUE_NONE, 0, 0};
    if (value.kind == TM_VALUE_INTEGER)
        memcpy(&value.integer, at, sizeof(value.integer));
    else
        memcpy(&value.real, at, sizeof(value.real));
    return value;
}
