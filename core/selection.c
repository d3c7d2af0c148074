#include "core/selection.h"

/* Cuts TEXT at its next comma: the field, and what follows. */
typedef struct fields {
    const char *rest, *end;
    bool more;
} fields;

static bool next_field(fields *f, const char **ret, size_t *ret_len)
{
    if (!f->more)
        return false;
    const char *comma = memchr(f->rest, ',', (size_t)(f->end - f->rest));
    const char *stop = comma ? comma : f->end;
    *ret = f->rest;
    *ret_len = (size_t)(stop - f->rest);
    f->more = comma != NULL;
    f->rest = comma ? comma + 1 : f->end;
    return true;
}

/* A decimal number with an optional minus, in its shortest spelling only: one name per element.
 * One too large for 64 bits is as good as the largest: it is past every dimension. */
static bool parse_number(const char *text, size_t len, bool *ret_negative, uint64_t *ret)
{
    bool negative = len > 0 && text[0] == '-';
    size_t i = negative;
    if (i == len || (text[i] == '0' && (len - i > 1 || negative)))
        return false;
    uint64_t v = 0;
    for (; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        if (tm_mul_overflow(v, 10, &v) || tm_add_overflow(v, (uint64_t)(text[i] - '0'), &v))
            v = UINT64_MAX;
    }
    *ret_negative = negative;
    *ret = v;
    return true;
}

int tm_selection_index(const char *text, size_t len, uint64_t dim, uint64_t *ret)
{
    bool negative;
    uint64_t v;
    if (!parse_number(text, len, &negative, &v))
        return -ENOENT;
    if (negative ? v > dim : v >= dim)
        return -ENOENT;
    *ret = negative ? dim - v : v;
    return 0;
}

int tm_selection_element(const char *text, size_t len, const uint64_t *dims, size_t rank,
                         uint64_t *ret_index)
{
    if (rank == 0) {
        if (len != 1 || text[0] != '0')
            return -ENOENT;
        *ret_index = 0;
        return 0;
    }
    fields f = {text, text + len, true};
    uint64_t at = 0;
    for (size_t axis = 0; axis < rank; axis++) {
        const char *field;
        size_t field_len;
        uint64_t index;
        if (!next_field(&f, &field, &field_len))
            return -ENOENT;
        TM_TRY(tm_selection_index(field, field_len, dims[axis], &index));
        at = at * dims[axis] + index;
    }
    if (f.more)
        return -ENOENT;
    *ret_index = at;
    return 0;
}

/* One bound of a range, cut to [0, dim]. */
static bool parse_bound(const char *text, size_t len, uint64_t dim, uint64_t *bound)
{
    bool negative;
    uint64_t v;
    if (len == 0)
        return true; /* as it stands */
    if (!parse_number(text, len, &negative, &v))
        return false;
    v = tm_min_u64(v, dim);
    *bound = negative ? dim - v : v;
    return true;
}

static int parse_range(const char *text, size_t len, uint64_t dim, tm_range *ret)
{
    const char *colon = memchr(text, ':', len);
    if (!colon)
        return -ENOENT;
    size_t before = (size_t)(colon - text);
    uint64_t start = 0, stop = dim;
    if (!parse_bound(text, before, dim, &start) ||
        !parse_bound(colon + 1, len - before - 1, dim, &stop))
        return -ENOENT;
    *ret = (tm_range){start, stop > start ? stop - start : 0};
    return 0;
}

int tm_selection_ranges(const char *text, size_t len, const uint64_t *dims, size_t rank,
                        tm_range *ret)
{
    fields f = {text, text + len, rank > 0};
    if (rank == 0)
        return len == 0 ? 0 : -ENOENT;
    for (size_t axis = 0; axis < rank; axis++) {
        const char *field;
        size_t field_len;
        ret[axis] = (tm_range){0, dims[axis]};
        if (next_field(&f, &field, &field_len))
            TM_TRY(parse_range(field, field_len, dims[axis], &ret[axis]));
    }
    return f.more ? -ENOENT : 0;
}
