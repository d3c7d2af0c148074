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

enum {
    ABSMAX_INDEX = 10,
    DISTINCT = 18
};

static const field fields[] = {
    COUNT("n", summary.n),
    COUNT("zero_count", summary.zero),
    COUNT("neg_zero_count", summary.neg_zero),
    COUNT("nan_count", summary.nan),
    COUNT("pos_inf_count", summary.pos_inf),
    COUNT("neg_inf_count", summary.neg_inf),
    COUNT("subnormal_count", summary.subnormal),
    REAL("min", summary.min),
    REAL("max", summary.max),
    REAL("absmax", summary.absmax),
    [ABSMAX_INDEX] = COUNT("absmax_index", summary.absmax_index),
    REAL("mean", summary.moments.mean),
    REAL("var", summary.moments.var),
    REAL("std", summary.moments.std),
    REAL("l1", summary.moments.l1),
    REAL("l2", summary.moments.l2),
    REAL("sparsity", summary.sparsity),
    REAL("entropy", summary.entropy),
    [DISTINCT] = COUNT("distinct", summary.distinct),
    COUNT("zero_rows", zero_rows),
    COUNT("zero_cols", zero_cols),
    QUANTILE("q0.001", 0),
    QUANTILE("q0.01", 1),
    QUANTILE("q0.05", 2),
    QUANTILE("q0.25", 3),
    QUANTILE("q0.5", 4),
    QUANTILE("q0.75", 5),
    QUANTILE("q0.95", 6),
    QUANTILE("q0.99", 7),
    QUANTILE("q0.999", 8),
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
    if ((i == DISTINCT && !record->summary.has_distinct) ||
        (i == ABSMAX_INDEX && isnan(record->summary.absmax)))
        return (tm_value){TM_VALUE_NONE, 0, 0};
    if (value.kind == TM_VALUE_INTEGER)
        memcpy(&value.integer, at, sizeof(value.integer));
    else
        memcpy(&value.real, at, sizeof(value.real));
    return value;
}
