/* Counting by the width of the code; and sums of wide values, in as few wide additions as can be.
 */
#include "compute/tally.h"

#include "core/codes.h"

enum {
    NEAR = TM_TALLY_REPLICAS / 2, /* replicas of a code side by side; as many FAR from there */
    FAR = NEAR * TM_CODES_MAX,
    FRACTION_BITS = 23,
    COUNT_SHIFT = 41,
    /* 2^18 elements of a replica: their fractions stay below bit 41, the squares below 2^64. */
    FRACTIONS_MAX = 1 << 19,
    F32_BIAS = 150 /* of the fraction as a whole number */
};
#define CODES_MAX (UINT32_MAX - 65536ull)

int tm_tally_init(tm_tally *tally, bool few)
{
    *tally = (tm_tally){0};
    size_t n = (size_t)TM_CODES_MAX * TM_TALLY_REPLICAS;
    tally->codes = few ? NULL : tm_new_array(n, sizeof(*tally->codes));
    tally->fractions =
        tm_new_array(TM_TALLY_FRACTIONS * TM_TALLY_REPLICAS, sizeof(*tally->fractions));
    if ((few || tally->codes) && tally->fractions)
        return 0;
    tm_tally_done(tally);
    return -ENOMEM;
}

void tm_tally_done(tm_tally *tally)
{
    free(tally->codes);
    free(tally->fractions);
    *tally = (tm_tally){0};
}

bool tm_tally_is_fresh(const tm_tally *tally)
{
    return tally->codes && !tally->stats && !tally->pending && !tally->pending_fractions;
}

/* --- emptying --- */

static void count_byte(tm_stats *stats, size_t code, uint64_t count)
{
    if (stats->dtype == TM_BOOL) {
        stats->hist[code != 0] += count;
    } else if (stats->dtype == TM_F4) {
        stats->hist[code & 15] += count;
        stats->hist[code >> 4] += count;
    } else {
        stats->hist[code] += count;
    }
}

static void empty_codes(tm_tally *tally)
{
    tm_stats *stats = tally->stats;
    bool are_bytes = stats->bins <= 256;
    size_t codes = are_bytes ? 256 : TM_CODES_MAX;
    uint32_t *near = tally->codes, *far = near + FAR;
    for (size_t i = 0; i < codes; i++) {
        uint64_t count = (uint64_t)near[NEAR * i] + near[NEAR * i + 1];
        count += (uint64_t)far[NEAR * i] + far[NEAR * i + 1];
        if (are_bytes)
            count_byte(stats, i, count);
        else
            stats->hist[i] += count;
    }
    memset(near, 0, codes * NEAR * sizeof(*near));
    memset(far, 0, codes * NEAR * sizeof(*far));
    tally->pending = 0;
}

/*
 * A value is (2^23 + fraction) times a power of two, or for exponent 0 the fraction alone; so
 * sums of fractions, of their squares, and their number give the sums of values and squares.
 */
static void empty_exponent(const tm_fraction *from, size_t at, tm_sums *sums)
{
    tm_u128 count = 0, sum = 0, squares = 0;
    for (size_t i = 0; i < TM_TALLY_REPLICAS; i++) {
        count += from[i].sum >> COUNT_SHIFT;
        sum += from[i].sum & ((1ull << COUNT_SHIFT) - 1);
        squares += from[i].squares;
    }
    int exponent = (int)(at & 255);
    if (count == 0 || exponent == 255)
        return;
    if (exponent > 0) {
        squares += (sum << (FRACTION_BITS + 1)) + (count << (2 * FRACTION_BITS));
        sum += count << FRACTION_BITS;
    }
    int scale = (exponent > 0 ? exponent : 1) - F32_BIAS;
    tm_exact_sum_add(at > 255 ? &sums->negative : &sums->positive, sum, scale);
    tm_exact_sum_add(&sums->squares, squares, 2 * scale);
}

static void empty_fractions(tm_tally *tally)
{
    for (size_t i = 0; i < TM_TALLY_FRACTIONS; i++)
        empty_exponent(tally->fractions + i * TM_TALLY_REPLICAS, i, &tally->stats->wide->sums);
    memset(tally->fractions, 0, TM_TALLY_FRACTIONS * TM_TALLY_REPLICAS * sizeof(*tally->fractions));
    tally->pending_fractions = 0;
}

void tm_tally_begin(tm_tally *tally, tm_stats *stats)
{
    assert(!tally->stats);
    tally->stats = stats;
}

void tm_tally_end(tm_tally *tally)
{
    if (tally->pending > 0)
        empty_codes(tally);
    if (tally->pending_fractions > 0)
        empty_fractions(tally);
    tally->stats = NULL;
}

/* --- 16 bits and fewer --- */

static size_t word_at(const uint8_t *src)
{
    uint16_t word;
    memcpy(&word, src, sizeof(word));
    return word;
}

/* Two loads, no arithmetic: the processor scales an index by 8 as it addresses. */
static void add_words(uint32_t *codes, const uint8_t *src, size_t n)
{
    uint32_t *more = codes + FAR;
    size_t i = 0;
    for (; i + 4 <= n; i += 4, src += 8) {
        codes[word_at(src) * NEAR]++;
        codes[word_at(src + 2) * NEAR + 1]++;
        more[word_at(src + 4) * NEAR]++;
        more[word_at(src + 6) * NEAR + 1]++;
    }
    for (; i < n; i++, src += 2)
        codes[word_at(src) * NEAR]++;
}

static void add_bytes(uint32_t *codes, const uint8_t *src, size_t n)
{
    uint32_t *more = codes + FAR;
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        codes[src[i] * NEAR]++;
        codes[src[i + 1] * NEAR + 1]++;
        more[src[i + 2] * NEAR]++;
        more[src[i + 3] * NEAR + 1]++;
    }
    for (; i < n; i++)
        codes[src[i] * NEAR]++;
}

static void add_few_words(uint64_t *hist, const uint8_t *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hist[word_at(src + 2 * i)]++;
}

static void add_few_bytes(tm_stats *stats, const uint8_t *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        count_byte(stats, src[i], 1);
}

static void add_nibble(tm_stats *stats, const uint8_t *src, uint64_t at)
{
    stats->hist[at % 2 == 0 ? src[at / 2] & 15 : src[at / 2] >> 4]++;
}

static void add_whole_bytes(tm_tally *tally, const uint8_t *src, size_t n)
{
    if (tally->codes)
        add_bytes(tally->codes, src, n);
    else
        add_few_bytes(tally->stats, src, n);
}

/* Whole bytes count as pairs; the halves of bytes at either end alone. */
static void add_nibbles(tm_tally *tally, const tm_tally_run *run)
{
    uint64_t first = run->first, end = run->first + run->n;
    if (first % 2 != 0 && first < end)
        add_nibble(tally->stats, run->src, first++);
    if (end % 2 != 0 && first < end)
        add_nibble(tally->stats, run->src, --end);
    add_whole_bytes(tally, run->src + first / 2, (end - first) / 2);
}

/* --- wider types --- */

/* Fractions stay below 2^23, their squares below 2^46. */
static void add_f32(tm_tally *tally, const tm_tally_run *run)
{
    if (tally->pending_fractions > FRACTIONS_MAX)
        empty_fractions(tally);
    tally->pending_fractions += run->n;
    for (size_t i = 0; i < run->n; i++) {
        uint32_t bits;
        memcpy(&bits, &run->values[i], sizeof(bits));
        uint64_t fraction = bits & ((1u << FRACTION_BITS) - 1);
        size_t replica = i % TM_TALLY_REPLICAS;
        tm_fraction *to =
            &tally->fractions[(size_t)(bits >> FRACTION_BITS) * TM_TALLY_REPLICAS + replica];
        to->sum += fraction | 1ull << COUNT_SHIFT;
        to->squares += fraction * fraction;
        if (!tally->codes)
            tally->stats->hist[bits >> 16]++;
        else
            tally->codes[replica / NEAR * FAR + (size_t)(bits >> 16) * NEAR + replica % NEAR]++;
    }
}

static void add_f64(tm_stats *stats, const uint8_t *src, size_t n)
{
    tm_stats_wide *wide = stats->wide;
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = tm_le64(src + 8 * i), magnitude = bits & INT64_MAX;
        double value;
        memcpy(&value, &bits, sizeof(value));
        stats->hist[tm_code_of_f64(value)]++;
        if (magnitude >= 0x7ff0000000000000)
            continue;
        wide->subnormal += magnitude != 0 && magnitude < 1ull << 52;
        tm_sums_add(&wide->sums, value, 1);
    }
}

/* Sums of whole numbers, squares by halves: (h 2^32 + l)^2 = h^2 2^64 + h l 2^33 + l^2. */
typedef struct whole_sums {
    tm_u128 positive, negative, high, cross, low;
} whole_sums;

static void add_whole(tm_stats *stats, whole_sums *sums, bool negative, uint64_t magnitude)
{
    uint64_t high = magnitude >> 32, low = magnitude & UINT32_MAX;
    stats->hist[tm_code_of_integer(negative, magnitude)]++;
    *(negative ? &sums->negative : &sums->positive) += magnitude;
    sums->high += high * high;
    sums->cross += high * low;
    sums->low += low * low;
}

static void add_wholes(tm_stats *stats, const uint8_t *src, size_t n)
{
    whole_sums sums = {0};
    bool is_signed = stats->dtype == TM_I32 || stats->dtype == TM_I64;
    size_t width = tm_dtype_get(stats->dtype)->bits / 8;
    for (size_t i = 0; i < n; i++) {
        uint64_t value = 0;
        memcpy(&value, src + i * width, width);
        if (stats->dtype == TM_I32)
            value = (uint64_t)(int64_t)(int32_t)value;
        bool negative = is_signed && value >> 63;
        add_whole(stats, &sums, negative, negative ? 0 - value : value);
    }
    tm_sums *to = &stats->wide->sums;
    tm_exact_sum_add(&to->positive, sums.positive, 0);
    tm_exact_sum_add(&to->negative, sums.negative, 0);
    tm_exact_sum_add(&to->squares, sums.high, 64);
    tm_exact_sum_add(&to->squares, sums.cross, 33);
    tm_exact_sum_add(&to->squares, sums.low, 0);
}

void tm_tally_add(tm_tally *tally, const tm_tally_run *run)
{
    tm_stats *stats = tally->stats;
    unsigned bits = tm_dtype_get(stats->dtype)->bits;
    const uint8_t *src = run->src + run->first * bits / 8;
    bool uses_codes = tally->codes && (bits <= 16 || stats->dtype == TM_F32);
    if (uses_codes && tally->pending > CODES_MAX)
        empty_codes(tally);
    tally->pending += uses_codes ? run->n : 0;
    if (bits < 8)
        add_nibbles(tally, run);
    else if (bits == 8)
        add_whole_bytes(tally, src, run->n);
    else if (bits == 16 && !tally->codes)
        add_few_words(stats->hist, src, run->n);
    else if (bits == 16)
        add_words(tally->codes, src, run->n);
    else if (stats->dtype == TM_F32)
        add_f32(tally, run);
    else if (stats->dtype == TM_F64)
        add_f64(stats, src, run->n);
    else
        add_wholes(stats, src, run->n);
}
