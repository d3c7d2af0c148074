/* Statistics of several tensors together: a layer, a module. Counts and exact sums, so they do not
 * depend on the order in which tensors are added. */
#ifndef TM_CORE_STATS_GROUP_H
#define TM_CORE_STATS_GROUP_H

#include "core/stats_record.h"

typedef struct tm_stats_group {
    uint64_t tensors;         /* all that belong to it */
    uint64_t counted;         /* those whose values are counted */
    uint64_t known;           /* those that were added */
    uint64_t elems;           /* of those that are counted */
    tm_stats_summary summary; /* counts and extremes alone */
    uint64_t zero_rows, zero_cols;
    tm_sums sums;
} tm_stats_group;

void tm_stats_group_init(tm_stats_group *group);
/* RECORD and SUMS of one more tensor. */
void tm_stats_group_add(tm_stats_group *group, const tm_stats_record *record, const tm_sums *sums);

/* Whether FIELD (tm_stats_field_id) is one of a group: those that merge, not histograms nor places.
 */
bool tm_stats_group_has(size_t field);
/* What all of them are together: fields that a group has not are of no meaning. */
void tm_stats_group_record(const tm_stats_group *group, tm_stats_record *ret);

#endif
