/* What statistics say: every number of stats.json, walked from the histogram in order of value. */
#include <math.h>

#include "core/codes.h"
#include "core/log2.h"
#include "core/stats.h"

enum {
    PERMILLE = 1000
};

const unsigned tm_stats_quantile_permille[TM_STATS_QUANTILES] = {1,   10,  50,  250, 500,
                                                                 750, 950, 990, 999};

typedef struct code {
    size_t code;
    float value;
    uint64_t count;
} code;

typedef void code_fn(void *data, const code *c);

static void call(const tm_stats *stats, size_t at, code_fn *fn, void *data)
{
    fn(data, &(code){at, tm_code_value(stats->dtype, at), stats->hist[at]});
}

/* Calls FN for every code that occurs, in order of value. */
static void each_code(const tm_stats *stats, code_fn *fn, void *data)
{
    size_t n = stats->bins / 2, at;
    int step;
    for (int half = 0; half < 2; half++) {
        tm_codes_run(stats->dtype, half, &at, &step);
        size_t from = step > 0 ? at : at + 1 - n, end = from + n;
        if (step > 0)
            while ((at = tm_codes_first(stats->hist, from, end)) < end) {
                call(stats, at, fn, data);
                from = at + 1;
            }
        else
            while ((at = tm_codes_last(stats->hist, from, end)) != from - 1) {
                call(stats, at, fn, data);
                end = at;
            }
    }
}

/* --- counts --- */

typedef struct counting {
    tm_stats_summary *ret;
    uint64_t finite;
    double smallest_normal;
} counting;

static void count_code(void *data, const code *c)
{
    counting *all = data;
    tm_stats_summary *ret = all->ret;
    ret->n += c->count;
    ret->distinct++;
    if (isnan(c->value)) {
        ret->nan += c->count;
    } else if (isinf(c->value)) {
        *(c->value > 0 ? &ret->pos_inf : &ret->neg_inf) += c->count;
    } else {
        double value = (double)c->value;
        ret->min = all->finite == 0 ? value : ret->min;
        ret->max = value;
        all->finite += c->count;
        ret->zero += value == 0 ? c->count : 0;
        ret->neg_zero += value == 0 && signbit(value) ? c->count : 0;
        ret->subnormal += value != 0 && fabs(value) < all->smallest_normal ? c->count : 0;
    }
}

/* Bins below the smallest normal f32 hold subnormals and zeros; those of f64 were counted. */
static void count_wide(const tm_stats *stats, tm_stats_summary *ret)
{
    const tm_stats_wide *wide = stats->wide;
    ret->subnormal = wide->subnormal;
    if (stats->dtype == TM_F32) {
        uint64_t below = 0;
        for (size_t i = 0; i < 0x80; i++)
            below += stats->hist[i] + stats->hist[0x8000 | i];
        ret->subnormal = below - wide->zero;
    }
    ret->zero = wide->zero;
    ret->neg_zero = wide->neg_zero;
    ret->min = wide->min;
    ret->max = wide->max;
    ret->distinct = 0;
}

/* --- quantiles --- */

typedef struct ranking {
    const tm_stats *stats;
    double min, max;
    uint64_t finite, passed;
    size_t next; /* of the quantiles */
    double *ret;
} ranking;

static uint64_t wanted_place(const ranking *all)
{
    tm_u128 product = (tm_u128)(all->finite - 1) * tm_stats_quantile_permille[all->next];
    return (uint64_t)(product / PERMILLE);
}

/* The middle of a bin of whole numbers, cut to one: such a bin starts at one, and is 2^k wide. */
static double middle_integer(double low, double width)
{
    return width > 1 ? low + (width / 2 - 1) : low;
}

/* Where in a bin of wider values the PLACE-th in order of value may be. */
static double bin_value(const ranking *all, const code *c, uint64_t place)
{
    const tm_stats_wide *wide = all->stats->wide;
    uint64_t pos_zero = wide->zero - wide->neg_zero;
    if (c->code == 0x8000 && place >= c->count - wide->neg_zero)
        return 0;
    if (c->code == 0 && place < pos_zero)
        return 0;
    double low = fabs((double)c->value), high;
    float end = tm_code_value(all->stats->dtype, (c->code & 0x7fff) + 1);
    high = isinf(end) ? 0x1p128 : (double)end;
    bool is_float = tm_dtype_get(all->stats->dtype)->is_float;
    double middle = is_float ? (low + high) / 2 : middle_integer(low, high - low);
    middle = c->code & 0x8000 ? -middle : middle;
    return middle < all->min ? all->min : middle > all->max ? all->max : middle;
}

static void rank_code(void *data, const code *c)
{
    ranking *all = data;
    if (!isfinite(c->value))
        return;
    while (all->next < TM_STATS_QUANTILES) {
        uint64_t place = wanted_place(all);
        if (place >= all->passed + c->count)
            break;
        double value = (double)c->value + 0.0;
        all->ret[all->next++] = all->stats->wide ? bin_value(all, c, place - all->passed) : value;
    }
    all->passed += c->count;
}

static void quantiles_of(const tm_stats *stats, uint64_t finite, tm_stats_summary *ret)
{
    ranking all = {stats, ret->min, ret->max, finite, 0, 0, ret->quantile};
    for (size_t i = 0; i < TM_STATS_QUANTILES; i++)
        ret->quantile[i] = NAN;
    if (finite > 0)
        each_code(stats, rank_code, &all);
}

/* Sum of p log2(1/p); each term is 0 or more, and exactly 0 for a single code. */
static double entropy_of(const tm_stats *stats, uint64_t n)
{
    double sum = 0;
    double log_n = n > 0 ? tm_log2_u64(n) : 0;
    const uint64_t *hist = stats->hist;
    for (size_t i = tm_codes_first(hist, 0, stats->bins); i < stats->bins;
         i = tm_codes_first(hist, i + 1, stats->bins))
        sum += (double)hist[i] / (double)n * (log_n - tm_log2_u64(hist[i]));
    return sum;
}

void tm_stats_summarize(const tm_stats *stats, const tm_sums *sums, tm_stats_summary *ret)
{
    *ret = (tm_stats_summary){.min = NAN, .max = NAN, .absmax = NAN};
    counting all = {ret, 0, tm_codes_smallest_normal(stats->dtype)};
    each_code(stats, count_code, &all);
    if (stats->wide && all.finite > 0)
        count_wide(stats, ret);
    ret->has_distinct = !stats->wide;
    if (all.finite > 0) {
        ret->min += 0.0;
        ret->max += 0.0;
        ret->absmax = stats->absmax;
        ret->absmax_index = stats->absmax_index;
    }
    ret->sparsity = ret->n > 0 ? (double)ret->zero / (double)ret->n : NAN;
    ret->entropy = entropy_of(stats, ret->n);
    quantiles_of(stats, all.finite, ret);
    ret->moments = tm_moments_of(sums, all.finite);
}

/* --- the histogram for people --- */

static float f32_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

enum {
    ROW_SHIFT = 20, /* a row is the sign, the exponent and 3 bits of the mantissa of an f32 */
    ROW_HALF = TM_STATS_ROWS / 2,
    ROW_INF = 0x7f8
};

static size_t row_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    size_t magnitude = (bits & 0x7fffffff) >> ROW_SHIFT;
    return bits >> 31 ? ROW_HALF - 1 - magnitude : ROW_HALF + magnitude;
}

static void count_row(void *data, const code *c)
{
    tm_stats_row *rows = data;
    rows[row_of(c->value)].count += c->count;
}

tm_stats_row tm_stats_row_bounds(uint32_t row)
{
    assert(row < TM_STATS_ROWS);
    bool negative = row < ROW_HALF;
    uint32_t magnitude = negative ? ROW_HALF - 1 - row : row - ROW_HALF;
    double near = (double)f32_of_bits(magnitude << ROW_SHIFT), far;
    if (magnitude < ROW_INF)
        far = magnitude + 1 < ROW_INF ? (double)f32_of_bits((magnitude + 1) << ROW_SHIFT) : 0x1p128;
    else
        far = near; /* an infinity, then NaN */
    return negative ? (tm_stats_row){-far, -near, 0} : (tm_stats_row){near, far, 0};
}

void tm_stats_rows(const tm_stats *stats, tm_stats_row ret[TM_STATS_ROWS])
{
    for (uint32_t row = 0; row < TM_STATS_ROWS; row++)
        ret[row] = tm_stats_row_bounds(row);
    each_code(stats, count_row, ret);
}

bool tm_stats_rows_exact(tm_dtype dtype, unsigned shift)
{
    size_t mask = ((size_t)1 << shift) - 1;
    for (size_t i = 0; shift && i < tm_codes_count(dtype); i++)
        if (row_of(tm_code_value(dtype, i)) != row_of(tm_code_value(dtype, i & ~mask)))
            return false;
    return true;
}
