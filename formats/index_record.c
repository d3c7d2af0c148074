#include "formats/index_record.h"

#include <math.h>

#include "core/codes.h"
#include "core/tensor_table.h"
#include "formats/index_hist.h"

enum {
    FLAG_SCALED = 1,
    DTYPE_BYTES = 16,
    COUNT_BITS = 62 /* no tensor has as many elements: their bits would not fit 64 */
};

const tm_section_format tm_index_format = {
    .what = "an index",
    .magic = {0x89, 'T', 'M', 'I', 'D', 'X', '\r', '\n'},
    .major = TM_INDEX_MAJOR,
    .minor = TM_INDEX_MINOR,
    .rules = TM_STATS_RULES,
    .known_kinds = TM_INDEX_HIST,
};

typedef struct record {
    uint64_t name_off, sums_off, hist_off;
    uint64_t name_check, sums_check, hist_check;
    uint32_t name_len, sums_len, hist_len;
    uint32_t hist_shift;
    char dtype[DTYPE_BYTES]; /* padded with NUL */
    uint64_t flags;
    uint64_t stored_bytes, context;
    uint64_t n, zero, neg_zero, nan, pos_inf, neg_inf, subnormal;
    double min, max, absmax;
    uint64_t absmax_index;
    double mean, var, std, l1, l2, entropy;
    uint64_t distinct, zero_rows, zero_cols;
    double quantile[TM_STATS_QUANTILES];
    uint64_t check; /* of all before */
} record;
static_assert(sizeof(record) == TM_INDEX_RECORD_BYTES, "as docs/index-format.md says");
static_assert(offsetof(record, dtype) == 64, "as docs/index-format.md says");
static_assert(offsetof(record, n) == 104, "as docs/index-format.md says");
static_assert(offsetof(record, min) == 160, "as docs/index-format.md says");
static_assert(offsetof(record, distinct) == 240, "as docs/index-format.md says");
static_assert(offsetof(record, check) == 336, "as docs/index-format.md says");

/* What stands in the file as it stands in a tm_stats_record. */
#define INTEGERS(X)                                                                                \
    X(n, summary.n)                                                                                \
    X(zero, summary.zero)                                                                          \
    X(neg_zero, summary.neg_zero)                                                                  \
    X(nan, summary.nan)                                                                            \
    X(pos_inf, summary.pos_inf)                                                                    \
    X(neg_inf, summary.neg_inf)                                                                    \
    X(subnormal, summary.subnormal)                                                                \
    X(absmax_index, summary.absmax_index)                                                          \
    X(distinct, summary.distinct)                                                                  \
    X(zero_rows, zero_rows)                                                                        \
    X(zero_cols, zero_cols)
#define REALS(X)                                                                                   \
    X(min, summary.min)                                                                            \
    X(max, summary.max)                                                                            \
    X(absmax, summary.absmax)                                                                      \
    X(mean, summary.moments.mean)                                                                  \
    X(var, summary.moments.var)                                                                    \
    X(std, summary.moments.std)                                                                    \
    X(l1, summary.moments.l1)                                                                      \
    X(l2, summary.moments.l2)                                                                      \
    X(entropy, summary.entropy)

/* One NaN: its sign and payload differ by CPU. */
static double stored_real(double value)
{
    static const uint64_t bits = 0x7ff8000000000000;
    if (isnan(value))
        memcpy(&value, &bits, sizeof(value));
    return value;
}

static void store_refs(const tm_index_tensor *tensor, record *r)
{
    r->name_off = tensor->name_ref.off;
    r->name_len = tensor->name_ref.len;
    r->name_check = tensor->name_ref.check;
    r->sums_off = tensor->sums_ref.off;
    r->sums_len = tensor->sums_ref.len;
    r->sums_check = tensor->sums_ref.check;
    r->hist_off = tensor->hist_ref.off;
    r->hist_len = tensor->hist_ref.len;
    r->hist_check = tensor->hist_ref.check;
}

void tm_index_record_store(const tm_index_tensor *tensor, uint8_t ret[TM_INDEX_RECORD_BYTES])
{
    const tm_stats_record *stats = &tensor->record;
    const char *dtype = tm_dtype_get(tensor->dtype)->name;
    assert(strlen(dtype) < DTYPE_BYTES && tensor->hist_shift <= TM_INDEX_HIST_SHIFT_MAX);
    record r = {
        .hist_shift = tensor->hist_shift,
        .flags = tensor->scaled ? FLAG_SCALED : 0,
        .stored_bytes = tensor->stored_bytes,
        .context = tensor->context,
    };
    store_refs(tensor, &r);
    memcpy(r.dtype, dtype, strlen(dtype));
#define STORE_INTEGER(to, from) r.to = stats->from;
#define STORE_REAL(to, from)    r.to = stored_real(stats->from);
    INTEGERS(STORE_INTEGER)
    REALS(STORE_REAL)
    for (size_t i = 0; i < TM_STATS_QUANTILES; i++)
        r.quantile[i] = stored_real(stats->summary.quantile[i]);
    r.check = tm_hash64(&r, offsetof(record, check));
    memcpy(ret, &r, sizeof(r));
}

/* ---- Loading ---- */

static bool has_sane_refs(const record *r)
{
    return r->name_len <= TM_NAME_MAX && r->sums_len <= TM_INDEX_SUMS_MAX &&
           r->hist_len <= TM_INDEX_HIST_BYTES_MAX && r->hist_shift <= TM_INDEX_HIST_SHIFT_MAX;
}

static bool has_sane_counts(const record *r)
{
    const uint64_t parts[] = {r->zero, r->nan, r->pos_inf, r->neg_inf};
    uint64_t left = r->n;
    for (size_t i = 0; i < TM_ARRAY_LEN(parts); i++) {
        if (parts[i] > left)
            return false;
        left -= parts[i];
    }
    bool place_is_known = !isnan(r->absmax);
    return r->n >> COUNT_BITS == 0 && r->neg_zero <= r->zero && r->subnormal <= left &&
           (place_is_known ? r->absmax >= 0 && r->absmax_index < r->n : r->absmax_index == 0);
}

static bool load_dtype(const record *r, tm_dtype *ret)
{
    size_t len = strnlen(r->dtype, DTYPE_BYTES);
    return tm_dtype_parse_exact(r->dtype, len, ret) && tm_codes_count(*ret) > 0;
}

static void load_refs(const record *r, tm_index_tensor *tensor)
{
    tensor->name_ref = (tm_index_ref){r->name_off, r->name_check, r->name_len};
    tensor->sums_ref = (tm_index_ref){r->sums_off, r->sums_check, r->sums_len};
    tensor->hist_ref = (tm_index_ref){r->hist_off, r->hist_check, r->hist_len};
    tensor->name_len = r->name_len;
}

static void load_stats(const record *r, tm_dtype dtype, tm_stats_record *stats)
{
#define LOAD(from, to) stats->to = r->from;
    INTEGERS(LOAD)
    REALS(LOAD)
    memcpy(stats->summary.quantile, r->quantile, sizeof(r->quantile));
    stats->summary.sparsity = r->n > 0 ? (double)r->zero / (double)r->n : NAN;
    stats->summary.has_distinct = !tm_codes_are_bins(dtype);
}

int tm_index_record_load(const uint8_t *bytes, size_t len, tm_index_tensor *ret)
{
    record r;
    assert(len >= sizeof(r));
    size_t body = len - sizeof(r.check);
    if (tm_hash64(bytes, body) != tm_le64(bytes + body))
        return -EBADMSG;
    memcpy(&r, bytes, sizeof(r));
    tm_index_tensor tensor = {
        .scaled = r.flags & FLAG_SCALED,
        .hist_shift = r.hist_shift,
        .stored_bytes = r.stored_bytes,
        .context = r.context,
    };
    if (!has_sane_refs(&r) || !has_sane_counts(&r) || !load_dtype(&r, &tensor.dtype))
        return -EBADMSG;
    load_refs(&r, &tensor);
    load_stats(&r, tensor.dtype, &tensor.record);
    *ret = tensor;
    return 0;
}

/* ---- Sums ---- */

size_t tm_index_sums_store(const tm_sums *sums, uint8_t ret[TM_INDEX_SUMS_MAX])
{
    size_t used = tm_exact_sum_store(&sums->positive, ret);
    used += tm_exact_sum_store(&sums->negative, ret + used);
    return used + tm_exact_sum_store(&sums->squares, ret + used);
}

int tm_index_sums_load(const uint8_t *bytes, size_t len, tm_sums *ret)
{
    tm_sums sums;
    tm_exact_sum *const parts[] = {&sums.positive, &sums.negative, &sums.squares};
    for (size_t i = 0; i < TM_ARRAY_LEN(parts); i++) {
        size_t used;
        TM_TRY(tm_exact_sum_load(bytes, len, parts[i], &used));
        bytes += used;
        len -= used;
    }
    if (len > 0)
        return -EBADMSG;
    *ret = sums;
    return 0;
}
