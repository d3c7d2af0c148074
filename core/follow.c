#include "core/follow.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)

/* The kernel's own reading ahead shapes what arrives: by 128 KiB, from page to page, and not always
 * in order. */
#define GAP      (128 * KIB) /* cheaper to read than to skip */
#define DISORDER (1 * MIB)   /* how far off a read still belongs to a run */
#define RUN_MIN  (1 * MIB)   /* what makes a run */
#define WINDOW   (8 * MIB)   /* how much is foretold of anything */
#define PIECE    (1 * MIB)
#define PAGE     ((int64_t)4096)
enum {
    EQUAL_MIN = 2,   /* equal distances that make a rule */
    CERTAIN_MIN = 8, /* equal distances that are taken for exact */
    COUNT_MAX = 16   /* pieces or tensors that are foretold */
};

typedef struct telling {
    uint64_t size;
    const tm_layout *layout;
    tm_foretold *told;
} telling;

static void tell(const telling *t, uint64_t from, uint64_t to)
{
    to = tm_min_u64(to, t->size); /* a layout may say more than is there */
    for (; from < to && t->told->count < TM_FORETOLD_MAX; from += PIECE) {
        t->told->pieces[t->told->count].off = from;
        t->told->pieces[t->told->count++].len = tm_min_u64(to - from, PIECE);
    }
}

static tm_span whole(const telling *t)
{
    return (tm_span){0, t->size};
}

/* ---- Runs ---- */

static bool is_run(const tm_follow *f)
{
    return f->direction != 0 && f->to - f->from >= RUN_MIN;
}

/* How far from its end the next read of a run may lie. */
static uint64_t gap_of(const tm_follow *f, bool same_tensor)
{
    return same_tensor && is_run(f) ? DISORDER : GAP;
}

static bool goes_up(const tm_follow *f, uint64_t off, uint64_t gap)
{
    uint64_t least = f->direction == 0 ? f->from : f->to - tm_min_u64(f->to, DISORDER);
    return f->direction >= 0 && off >= least && off <= f->to + gap;
}

static bool goes_down(const tm_follow *f, uint64_t off, uint64_t end, uint64_t gap)
{
    uint64_t most = f->direction == 0 ? f->from : f->from + DISORDER;
    return f->direction <= 0 && off < most && end + gap >= f->from;
}

/* As far as the run has shown that it goes: to the end of what it is in, unless it came from beyond
 * its beginning. */
static tm_span bounds_of_run(const tm_follow *f, const telling *t)
{
    uint32_t place[TM_LAYOUT_ORDERS];
    if (!t->layout)
        return whole(t);
    tm_span in = {0, t->size};
    if (tm_layout_find(t->layout, f->direction > 0 ? f->to - 1 : f->from, place)) {
        in = tm_layout_span(t->layout, TM_LAYOUT_BYTES, place[TM_LAYOUT_BYTES]);
    } else { /* before, between or behind tensors */
        uint32_t next = place[TM_LAYOUT_BYTES];
        if (next > 0)
            in.begin = tm_layout_span(t->layout, TM_LAYOUT_BYTES, next - 1).end;
        if (next < tm_layout_count(t->layout))
            in.end = tm_layout_span(t->layout, TM_LAYOUT_BYTES, next).begin;
    }
    bool came_from_below = f->from + GAP < in.begin;
    bool came_from_above = f->to > in.end + GAP;
    return (tm_span){came_from_above ? 0 : in.begin, came_from_below ? t->size : in.end};
}

static void tell_run(tm_follow *f, const telling *t)
{
    tm_span bounds = bounds_of_run(f, t);
    if (f->direction > 0) {
        uint64_t from = f->is_told ? tm_max_u64(f->told, f->to) : f->to;
        uint64_t to = tm_min_u64(f->to + WINDOW, bounds.end);
        if (from - f->to > WINDOW / 2 || from >= to)
            return;
        tell(t, from, to);
        f->told = to;
    } else {
        uint64_t to = f->is_told ? tm_min_u64(f->told, f->from) : f->from;
        uint64_t from = tm_max_u64(f->from - tm_min_u64(f->from, WINDOW), bounds.begin);
        if (f->from - to > WINDOW / 2 || from >= to)
            return;
        for (uint64_t end = to; end > from; end -= tm_min_u64(end - from, PIECE))
            tell(t, end - tm_min_u64(end - from, PIECE), end);
        f->told = from;
    }
    f->is_told = true;
}

/* ---- Strides ---- */

static bool about_equal(int64_t a, int64_t b)
{
    uint64_t apart = a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
    return apart <= (uint64_t)PAGE;
}

/* A run has ended, the next one begins at OFF, END says how far it is. */
static void begin_run(tm_follow *f, uint64_t off, uint64_t end, bool same_tensor)
{
    int64_t stride = (int64_t)(off - f->from);
    bool equal = f->strides > 0 && same_tensor && about_equal(stride, f->stride);
    if (!equal) {
        f->first = f->from;
        f->strides = 0;
        f->strides_told = 0;
    }
    f->strides = same_tensor ? f->strides + 1 : 0;
    f->strides_told -= f->strides_told > 0;
    f->stride = stride;
    f->piece = f->to - f->from;
    f->from = off;
    f->to = end;
    /* What was foretold upwards may still lie ahead. */
    f->is_told = f->is_told && f->direction > 0 && off < f->told && f->told - off <= WINDOW;
    f->direction = 0;
}

/* BOUNDS: of the tensor. */
static void tell_strides(tm_follow *f, const telling *t, tm_span bounds)
{
    /* Strides that are no whole pages come as more or less than they are: their mean is right but
     * for a part of a page, and so many times that is what lies further off. */
    int64_t stride = ((int64_t)f->from - (int64_t)f->first) / (int64_t)f->strides;
    uint64_t most = tm_min_u64(tm_max_u64(WINDOW / f->piece, 1), COUNT_MAX);
    unsigned count = (unsigned)tm_min_u64(2 * (uint64_t)f->strides, most);
    bool certain = stride % PAGE == 0 && f->strides >= CERTAIN_MIN;
    if (f->strides_told > count / 2)
        return;
    uint64_t at = f->from;
    for (unsigned i = 1; i <= count; i++) {
        uint64_t room = stride > 0 ? bounds.end - at : at - tm_min_u64(at, bounds.begin);
        if (room <= (uint64_t)(stride > 0 ? stride : -stride - 1))
            return;
        at += (uint64_t)stride;
        if (i <= f->strides_told)
            continue;
        uint64_t margin = certain ? 0 : (uint64_t)PAGE * (1 + i / f->strides);
        tell(t, at - tm_min_u64(at - bounds.begin, margin),
             tm_min_u64(at + f->piece + margin, bounds.end));
        f->strides_told = i;
    }
}

/* ---- Steps from tensor to tensor ---- */

/* The order in which the steps to this tensor have been equal; TM_LAYOUT_ORDERS: in none. */
static tm_layout_order rule_of(const tm_follow *f)
{
    tm_layout_order best = TM_LAYOUT_ORDERS;
    unsigned equal = EQUAL_MIN - 1;
    for (int order = 0; order < TM_LAYOUT_ORDERS; order++) {
        if (f->steps[order].equal > equal) {
            equal = f->steps[order].equal;
            best = (tm_layout_order)order;
        }
    }
    return best;
}

static void step_to(tm_follow *f, const uint32_t place[TM_LAYOUT_ORDERS], uint64_t left_bytes)
{
    tm_layout_order before = rule_of(f);
    for (int order = 0; order < TM_LAYOUT_ORDERS; order++) {
        int64_t step = (int64_t)place[order] - (int64_t)f->place[order];
        bool equal = f->in_tensor && step == f->steps[order].step;
        f->steps[order].equal = equal ? f->steps[order].equal + 1 : f->in_tensor;
        f->steps[order].step = step;
        f->place[order] = place[order];
    }
    bool foretold = f->steps_told > 0 && rule_of(f) == before;
    f->steps_told = foretold ? f->steps_told - 1 : 0;
    f->habit = f->part;
    if (f->part.end >= left_bytes)
        f->habit.end = UINT64_MAX;
    f->part = (tm_span){UINT64_MAX, 0};
    f->in_tensor = true;
}

/* What is read belongs to the tensor in its middle: the kernel reads around a page that is wanted.
 * Returns whether that is the one that was read last. */
static bool note_tensor(tm_follow *f, const telling *t, uint64_t off, size_t len)
{
    uint32_t place[TM_LAYOUT_ORDERS];
    if (!tm_layout_find(t->layout, off + len / 2, place))
        return false;
    bool same = f->in_tensor && place[TM_LAYOUT_BYTES] == f->place[TM_LAYOUT_BYTES];
    if (!same) {
        tm_span left = f->in_tensor
                           ? tm_layout_span(t->layout, TM_LAYOUT_BYTES, f->place[TM_LAYOUT_BYTES])
                           : (tm_span){0, 0};
        step_to(f, place, left.end - left.begin);
    }
    tm_span in = tm_layout_span(t->layout, TM_LAYOUT_BYTES, place[TM_LAYOUT_BYTES]);
    f->part.begin = tm_min_u64(f->part.begin, off - tm_min_u64(off, in.begin));
    f->part.end = tm_max_u64(f->part.end, tm_min_u64(off + len, in.end) - in.begin);
    return same;
}

static void tell_steps(tm_follow *f, const telling *t, tm_layout_order order)
{
    int64_t count = tm_layout_count(t->layout), at = f->place[order];
    uint64_t bytes = 0;
    for (unsigned i = 1; i <= COUNT_MAX && bytes < WINDOW; i++) {
        at += f->steps[order].step;
        if (at < 0 || at >= count)
            return;
        tm_span in = tm_layout_span(t->layout, order, (uint32_t)at);
        uint64_t size = in.end - in.begin, begin = tm_min_u64(size, f->habit.begin);
        uint64_t len = tm_min_u64(tm_min_u64(size, f->habit.end) - begin, WINDOW - bytes);
        bytes += len;
        if (i <= f->steps_told)
            continue;
        tell(t, in.begin + begin, in.begin + begin + len);
        f->steps_told = i;
    }
}

/* ---- All of it ---- */

void tm_follow_read(tm_follow *f, uint64_t size, const tm_layout *layout, uint64_t off, size_t len,
                    tm_foretold *ret)
{
    assert(len > 0 && tm_range_ok(off, len, size));
    telling t = {size, layout, ret};
    ret->count = 0;
    uint64_t end = off + len;
    bool same_tensor = !layout || note_tensor(f, &t, off, len);
    uint64_t gap = gap_of(f, same_tensor);
    if (!f->begun) {
        f->begun = true;
        f->from = off;
        f->to = end;
    } else if (goes_up(f, off, gap) || goes_down(f, off, end, gap)) {
        if (f->direction == 0)
            f->direction = off >= f->from ? 1 : -1;
        f->from = tm_min_u64(f->from, off);
        f->to = tm_max_u64(f->to, end);
    } else {
        begin_run(f, off, end, same_tensor);
    }
    if (is_run(f)) {
        tell_run(f, &t);
    } else if (f->strides >= EQUAL_MIN) {
        tm_span bounds = layout && f->in_tensor
                             ? tm_layout_span(layout, TM_LAYOUT_BYTES, f->place[TM_LAYOUT_BYTES])
                             : whole(&t);
        tell_strides(f, &t, bounds);
    }
    tm_layout_order rule = layout ? rule_of(f) : TM_LAYOUT_ORDERS;
    if (rule < TM_LAYOUT_ORDERS)
        tell_steps(f, &t, rule);
}
