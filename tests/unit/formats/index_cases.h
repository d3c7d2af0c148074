/*
 * Tensors for tests of index files: statistics made of numbers that follow from a key, and all that
 * an index must give back of them. And a shard's index, written and read.
 */
#ifndef TM_TESTS_UNIT_FORMATS_INDEX_CASES_H
#define TM_TESTS_UNIT_FORMATS_INDEX_CASES_H

#include <math.h>

#include "core/codes.h"
#include "formats/index_file.h"
#include "formats/index_hist.h"
#include "formats/index_writer.h"
#include "tests/unit/formats/memory_source.h"
#include "tests/unit/fs/checkpoint_files.h"

typedef struct index_case {
    const char *name;
    size_t name_len;
    tm_dtype dtype;
    uint64_t n;
    bool scaled;
    uint64_t context;
} index_case;

#define INDEX_NAME(text) text, sizeof(text) - 1

static const index_case index_cases[] = {
    {INDEX_NAME("model.norm.weight"), TM_BF16, 4096, false, 0},
    {INDEX_NAME("b"), TM_BOOL, 100, false, 0},
    {INDEX_NAME(""), TM_U8, 1, false, 0},
    {INDEX_NAME("a\n\0\xff"), TM_F8_E4M3, 300, false, 7},
    {INDEX_NAME("empty"), TM_F32, 0, false, 0},
    {INDEX_NAME("model.norm"), TM_F32, 500, true, UINT64_MAX},
    {INDEX_NAME("tiny"), TM_F64, 60, false, 0},
    {INDEX_NAME("ids"), TM_I64, 40, false, 0},
    {INDEX_NAME("half"), TM_I16, 50, false, 0},
    {INDEX_NAME("nothing finite"), TM_F16, 3, false, 1},
};
enum {
    INDEX_CASES = TM_ARRAY_LEN(index_cases)
};

static const uint8_t index_fingerprint[TM_FINGERPRINT_BYTES] = {1, 2, 3, 250, [31] = 9};

static inline uint64_t index_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = *state >> 33 ^ *state;
    return x * 0x9e3779b97f4a7c15u >> 11;
}

static inline void count_wide_value(tm_stats *stats, double value, uint64_t at)
{
    bool is_integer = !tm_dtype_get(stats->dtype)->is_float;
    tm_stats_wide *wide = stats->wide;
    stats->hist[is_integer ? tm_code_of_integer(value < 0, (uint64_t)fabs(value))
                           : tm_code_of_f64(value)]++;
    if (!isfinite(value))
        return;
    wide->zero += value == 0;
    wide->neg_zero += value == 0 && signbit(value);
    wide->subnormal += stats->dtype == TM_F64 && value != 0 && fabs(value) < 0x1p-1022;
    wide->min = value < wide->min ? value : wide->min;
    wide->max = value > wide->max ? value : wide->max;
    tm_sums_add(&wide->sums, value, 1);
    tm_stats_offer_absmax(stats, fabs(value), at);
}

static inline double wide_value(tm_dtype dtype, uint64_t key)
{
    static const double specials[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 0x1p-1060, -0x1p1020};
    if (!tm_dtype_get(dtype)->is_float)
        return (double)(int64_t)(key % 2001) - 1000;
    if (key % 8 == 0 && dtype == TM_F64)
        return specials[key / 8 % TM_ARRAY_LEN(specials)];
    return (double)(float)(((double)(key % 100003) - 50000) * 0x1p-20);
}

/* To be freed with tm_stats_done(). */
static inline void make_stats(const index_case *c, tm_stats *stats, tm_sums *sums,
                              tm_stats_record *record)
{
    uint64_t state = c->n * 1000 + (uint64_t)c->dtype;
    assert_int_equal(tm_stats_init(stats, c->dtype), 0);
    for (uint64_t i = 0; i < c->n; i++) {
        uint64_t key = index_random(&state);
        if (stats->wide) {
            count_wide_value(stats, wide_value(c->dtype, key), i);
            continue;
        }
        size_t code = c->dtype == TM_F16 ? 0x7c00 + i : key % stats->bins;
        float value = tm_code_value(c->dtype, code);
        stats->hist[code]++;
        if (isfinite(value))
            tm_stats_offer_absmax(stats, (double)fabsf(value), i);
    }
    memset(record, 0, sizeof(*record));
    tm_stats_sums(stats, sums);
    tm_stats_summarize(stats, sums, &record->summary);
    record->zero_rows = c->n % 5;
    record->zero_cols = c->n % 7;
}

static inline uint64_t stored_bytes_of(const index_case *c)
{
    return c->n * tm_dtype_get(c->dtype)->bits / 8 / (c->scaled ? 4 : 1);
}

/* ---- Writing ---- */

static inline void add_case(tm_index_writer *writer, const index_case *c)
{
    tm_req req;
    tm_stats stats;
    tm_sums sums;
    tm_stats_record record;
    tm_req_init(&req, TM_LANE_INDEX);
    make_stats(c, &stats, &sums, &record);
    tm_index_item item = {c->name,    c->name_len, c->scaled, stored_bytes_of(c),
                          c->context, &stats,      &sums,     &record};
    assert_int_equal(tm_index_writer_add(writer, &item, &req), 0);
    tm_stats_done(&stats);
}

static inline tm_index_writer *open_writer(const char *path)
{
    tm_req req;
    tm_index_writer *writer;
    tm_req_init(&req, TM_LANE_INDEX);
    assert_int_equal(tm_index_writer_open(path, index_fingerprint, &req, &writer), 0);
    return writer;
}

static inline void finish_writer(tm_index_writer *writer)
{
    tm_req req;
    tm_req_init(&req, TM_LANE_INDEX);
    assert_int_equal(tm_index_writer_finish(writer, &req), 0);
    tm_index_writer_close(writer);
}

/* The index of all cases, in the order given, malloc'ed. */
static inline char *index_of_cases(size_t *ret_len)
{
    tm_index_writer *writer = open_writer(at("cases.tmidx"));
    for (size_t i = 0; i < INDEX_CASES; i++)
        add_case(writer, &index_cases[i]);
    finish_writer(writer);
    return read_bytes_of(at("cases.tmidx"), ret_len);
}

/* ---- Reading ---- */

typedef struct opened_index {
    memory_file file;
    tm_byte_source src;
    tm_req req;
    tm_index *index;
} opened_index;

/* What tm_index_open() says to LEN bytes. To be closed either way. */
static inline int open_bytes(opened_index *o, const char *bytes, size_t len)
{
    o->file = (memory_file){bytes, len};
    o->src = memory_source(&o->file, "m.tmidx", len);
    o->index = NULL;
    tm_req_init(&o->req, TM_LANE_ANALYSIS);
    return tm_index_open(&o->src, index_fingerprint, &o->req, &o->index);
}

static inline bool same_real(double a, double b)
{
    return memcmp(&a, &b, sizeof(a)) == 0 || (isnan(a) && isnan(b));
}

/* Field by field, all that people see of it. */
static inline bool same_record(const tm_stats_record *a, const tm_stats_record *b)
{
    for (size_t i = 0; i < TM_STATS_FIELDS; i++) {
        tm_value x = tm_stats_field(a, i), y = tm_stats_field(b, i);
        if (x.kind != y.kind || x.integer != y.integer || !same_real(x.real, y.real))
            return false;
    }
    return a->summary.has_distinct == b->summary.has_distinct;
}

/* Bins of 2^SHIFT codes, counted at their first. */
static inline bool same_hist(const tm_stats *exact, unsigned shift, const tm_stats *coarse)
{
    for (size_t first = 0; first < exact->bins; first += (size_t)1 << shift) {
        uint64_t exact_count = 0, coarse_count = 0;
        size_t end = tm_min_u64(exact->bins, first + ((size_t)1 << shift));
        for (size_t code = first; code < end; code++) {
            exact_count += exact->hist[code];
            coarse_count += coarse->hist[code];
        }
        if (coarse->hist[first] != exact_count || coarse_count != exact_count)
            return false;
    }
    return true;
}

static inline bool same_stats(const tm_stats *exact, unsigned shift, const tm_stats *b)
{
    return exact->dtype == b->dtype && exact->bins == b->bins && !exact->wide == !b->wide &&
           same_hist(exact, shift, b) &&
           (!exact->wide || memcmp(exact->wide, b->wide, sizeof(*b->wide)) == 0) &&
           same_real(exact->absmax, b->absmax) && exact->absmax_index == b->absmax_index;
}

/* What was put in for a case. */
typedef struct case_content {
    const index_case *c;
    tm_stats stats;
    tm_stats_record record;
    tm_sums sums;
} case_content;

static inline void make_content(const index_case *c, case_content *ret)
{
    ret->c = c;
    make_stats(c, &ret->stats, &ret->sums, &ret->record);
}

/* Whether what INDEX gives is EXPECTED. *RET_REFUSED: it gave nothing, with words. */
static inline bool gives(opened_index *o, const case_content *expected, bool *ret_refused)
{
    const index_case *c = expected->c;
    tm_index_tensor tensor;
    tm_stats got = {0};
    tm_sums sums;
    *ret_refused = tm_index_find(o->index, c->name, c->name_len, &o->req, &tensor) < 0 ||
                   tm_index_sums(o->index, &tensor, &o->req, &sums) < 0 ||
                   tm_index_stats(o->index, &tensor, &o->req, &got) < 0;
    if (*ret_refused)
        return false;
    bool same = tensor.scaled == c->scaled && tensor.context == c->context &&
                tensor.stored_bytes == stored_bytes_of(c) && tensor.name_len == c->name_len &&
                same_record(&tensor.record, &expected->record) &&
                memcmp(&sums, &expected->sums, sizeof(sums)) == 0 &&
                same_stats(&expected->stats, tensor.hist_shift, &got);
    tm_stats_done(&got);
    return same;
}

static inline bool gives_case(opened_index *o, const index_case *c)
{
    case_content expected;
    bool refused;
    make_content(c, &expected);
    bool same = gives(o, &expected, &refused);
    tm_stats_done(&expected.stats);
    return same;
}

#endif
