#include "core/stats_group.h"

#include <math.h>

void tm_stats_group_init(tm_stats_group *group)
{
    *group = (tm_stats_group){.summary = {.min = NAN, .max = NAN, .absmax = NAN}};
}

void tm_stats_group_add(tm_stats_group *group, const tm_stats_record *record, const tm_sums *sums)
{
    tm_stats_summary *g = &group->summary;
    const tm_stats_summary *s = &record->summary;
    group->known++;
    g->n += s->n;
    g->nan += s->nan;
    g->pos_inf += s->pos_inf;
    g->neg_inf += s->neg_inf;
    g->zero += s->zero;
    g->neg_zero += s->neg_zero;
    g->subnormal += s->subnormal;
    /* NaN stands for no finite value: fmin and fmax pass over it. */
    g->min = fmin(g->min, s->min);
    g->max = fmax(g->max, s->max);
    g->absmax = fmax(g->absmax, s->absmax);
    group->zero_rows += record->zero_rows;
    group->zero_cols += record->zero_cols;
    tm_sums_merge(&group->sums, sums);
}

bool tm_stats_group_has(size_t field)
{
    return field < TM_STATS_PLAIN_FIELDS && field != TM_STAT_ABSMAX_INDEX &&
           field != TM_STAT_ENTROPY && field != TM_STAT_DISTINCT;
}

void tm_stats_group_record(const tm_stats_group *group, tm_stats_record *ret)
{
    const tm_stats_summary *g = &group->summary;
    *ret = (tm_stats_record){
        .summary = *g, .zero_rows = group->zero_rows, .zero_cols = group->zero_cols};
    ret->summary.moments = tm_moments_of(&group->sums, g->n - g->nan - g->pos_inf - g->neg_inf);
    ret->summary.sparsity = g->n ? (double)g->zero / (double)g->n : NAN;
}
