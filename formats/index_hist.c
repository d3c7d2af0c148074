#include "formats/index_hist.h"

#include "core/codes.h"

static_assert(TM_CODES_MAX * 10 == TM_INDEX_HIST_BYTES_MAX, "ten bytes hold any varint");

enum {
    VARINT_BITS = 7,
    VARINT_MORE = 0x80
};

uint64_t tm_index_hist_room(uint64_t stored_bytes)
{
    return tm_max_u64(stored_bytes / TM_INDEX_HIST_SHARE, TM_INDEX_HIST_FLOOR);
}

static size_t bins_of(size_t codes, unsigned shift)
{
    return ((codes - 1) >> shift) + 1;
}

/* ---- Storing ---- */

/* Appends to RET (may be NULL), returns how many bytes. */
static size_t put_varint(uint64_t value, uint8_t *ret)
{
    size_t len = 0;
    for (; value >= VARINT_MORE; value >>= VARINT_BITS, len++)
        if (ret)
            ret[len] = (uint8_t)(value | VARINT_MORE);
    if (ret)
        ret[len] = (uint8_t)value;
    return len + 1;
}

static uint64_t bin_count(const uint64_t *hist, size_t codes, unsigned shift, size_t bin)
{
    size_t first = bin << shift, end = tm_min_u64(codes, (bin + 1) << shift);
    uint64_t count = 0;
    for (size_t code = first; code < end; code++)
        count += hist[code];
    return count;
}

size_t tm_index_hist_store(const uint64_t *hist, size_t codes, unsigned shift, uint8_t *ret)
{
    assert(codes >= 1 && codes <= TM_CODES_MAX && shift <= TM_INDEX_HIST_SHIFT_MAX);
    size_t bins = bins_of(codes, shift), len = 0;
    for (size_t bin = 0; bin < bins; bin++) {
        size_t code = tm_codes_first(hist, bin << shift, codes);
        if (code == codes)
            break;
        size_t empty = (code >> shift) - bin;
        bin += empty;
        if (empty > 0)
            len += put_varint(2 * (empty - 1) + 1, ret ? ret + len : NULL);
        uint64_t count = bin_count(hist, codes, shift, bin);
        len += put_varint(2 * (count - 1), ret ? ret + len : NULL);
    }
    return len;
}

unsigned tm_index_hist_fit(const uint64_t *hist, size_t codes, uint64_t room, size_t *ret_bytes)
{
    unsigned shift = 0;
    size_t bytes = tm_index_hist_store(hist, codes, shift, NULL);
    while (bytes > room && shift < TM_INDEX_HIST_SHIFT_MAX)
        bytes = tm_index_hist_store(hist, codes, ++shift, NULL);
    *ret_bytes = bytes;
    return shift;
}

/* ---- Loading ---- */

typedef struct cursor {
    const uint8_t *at, *end;
} cursor;

/* False where the bytes end early, or are not the shortest of their value. */
static bool get_varint(cursor *c, uint64_t *ret)
{
    uint64_t value = 0;
    for (unsigned shift = 0; c->at < c->end && shift < 64; shift += VARINT_BITS) {
        uint8_t byte = *c->at++;
        if (shift == 63 && byte > 1)
            return false;
        value |= (uint64_t)(byte & (VARINT_MORE - 1)) << shift;
        if (!(byte & VARINT_MORE)) {
            *ret = value;
            return byte != 0 || shift == 0;
        }
    }
    return false;
}

int tm_index_hist_load(const uint8_t *bytes, size_t len, unsigned shift, uint64_t n, size_t codes,
                       uint64_t *ret)
{
    cursor c = {bytes, bytes + len};
    size_t bins = bins_of(codes, shift), bin = 0;
    uint64_t left = n;
    bool after_empty = false;
    memset(ret, 0, codes * sizeof(*ret));
    while (c.at < c.end) {
        uint64_t value;
        if (!get_varint(&c, &value))
            return -EBADMSG;
        bool is_empty = value & 1;
        uint64_t amount = value / 2 + 1;
        uint64_t step = is_empty ? amount : 1;
        if (step > bins - bin || (is_empty && after_empty) || (!is_empty && amount > left))
            return -EBADMSG;
        if (!is_empty) {
            ret[bin << shift] = amount;
            left -= amount;
        }
        bin += step;
        after_empty = is_empty;
    }
    return left == 0 && !after_empty ? 0 : -EBADMSG;
}
