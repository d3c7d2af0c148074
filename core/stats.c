/* The accumulator: memory by type, merging, and the sums that a histogram adds up to. */
#include "core/stats.h"

#include <math.h>

#include "core/codes.h"

static void clear_values(tm_stats *stats)
{
    stats->absmax = -1;
    stats->absmax_index = 0;
    if (stats->wide)
        *stats->wide = (tm_stats_wide){.min = INFINITY, .max = -INFINITY};
}

int tm_stats_init(tm_stats *stats, tm_dtype dtype)
{
    *stats = (tm_stats){.dtype = dtype, .bins = tm_codes_count(dtype)};
    if (stats->bins == 0)
        return -EOPNOTSUPP;
    stats->hist = tm_new_array(stats->bins, sizeof(*stats->hist));
    bool is_wide = tm_codes_are_bins(dtype);
    stats->wide = is_wide ? TM_NEW(tm_stats_wide) : NULL;
    if (!stats->hist || (is_wide && !stats->wide)) {
        tm_stats_done(stats);
        return -ENOMEM;
    }
    clear_values(stats);
    return 0;
}

void tm_stats_done(tm_stats *stats)
{
    free(stats->hist);
    free(stats->wide);
    *stats = (tm_stats){0};
}

void tm_stats_clear(tm_stats *stats)
{
    memset(stats->hist, 0, stats->bins * sizeof(*stats->hist));
    clear_values(stats);
}

static void merge_wide(tm_stats_wide *wide, const tm_stats_wide *other)
{
    wide->zero += other->zero;
    wide->neg_zero += other->neg_zero;
    wide->subnormal += other->subnormal;
    wide->min = other->min < wide->min ? other->min : wide->min;
    wide->max = other->max > wide->max ? other->max : wide->max;
    tm_sums_merge(&wide->sums, &other->sums);
}

void tm_stats_merge(tm_stats *stats, const tm_stats *other)
{
    assert(stats->dtype == other->dtype);
    for (size_t i = 0; i < stats->bins; i++)
        stats->hist[i] += other->hist[i];
    if (stats->wide)
        merge_wide(stats->wide, other->wide);
    tm_stats_offer_absmax(stats, other->absmax, other->absmax_index);
}

void tm_stats_offer_absmax(tm_stats *stats, double absmax, uint64_t index)
{
    bool is_earlier = absmax == stats->absmax && index < stats->absmax_index;
    if (absmax > stats->absmax || is_earlier) {
        stats->absmax = absmax;
        stats->absmax_index = index;
    }
}

void tm_stats_sums(const tm_stats *stats, tm_sums *ret)
{
    if (stats->wide) {
        *ret = stats->wide->sums;
        return;
    }
    memset(ret, 0, sizeof(*ret));
    const uint64_t *hist = stats->hist;
    for (size_t code = tm_codes_first(hist, 0, stats->bins); code < stats->bins;
         code = tm_codes_first(hist, code + 1, stats->bins)) {
        float value = tm_code_value(stats->dtype, code);
        if (isfinite(value))
            tm_sums_add(ret, (double)value, hist[code]);
    }
}
