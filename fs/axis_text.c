#include "fs/axis_text.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/convert.h"
#include "core/plan.h"

static const char header[] = "index\tn\tnan_count\tinf_count\tzero_count\tabsmax\trms\n";

enum {
    HEADER_BYTES = sizeof(header) - 1,
    COLUMN = 24,
    LINE_BYTES = 7 * (COLUMN + 1),
    WAITS_MAX = 4 /* tiles made for one read at once */
};

typedef struct axis_text {
    tm_blob blob;
    tm_tile_source source; /* its tensor referenced */
    tm_axis axis;
    tm_lane lane;
} axis_text;

static axis_text *as_text(tm_blob *blob)
{
    return TM_CONTAINER(blob, axis_text, blob);
}

uint64_t tm_axis_text_size(const tm_planes *planes, tm_axis axis)
{
    uint64_t size;
    if (tm_mul_overflow(tm_axis_lines(planes, axis), LINE_BYTES, &size) ||
        tm_add_overflow(size, HEADER_BYTES, &size) || size > INT64_MAX)
        return 0;
    return size;
}

static void line_text(uint64_t line, const tm_axis_entry *e, char ret[LINE_BYTES + 1])
{
    char absmax[TM_VALUE_TEXT_MAX], rms[TM_VALUE_TEXT_MAX];
    tm_double_text(e->absmax, absmax);
    tm_double_text(tm_axis_rms(e), rms);
    snprintf(ret, LINE_BYTES + 1,
             "%24" PRIu64 "\t%24" PRIu64 "\t%24" PRIu64 "\t%24" PRIu64 "\t%24" PRIu64
             "\t%24.24s\t%24.24s\n",
             line, e->n, e->nan, e->inf, e->zero, absmax, rms);
}

/* Copies what of TEXT (LEN bytes that stand at AT in the file) lies in [off, off + len) to DST. */
static void copy_part(const char *text, size_t len, uint64_t at, uint64_t off, size_t size,
                      uint8_t *dst)
{
    uint64_t from = tm_max_u64(at, off), to = tm_min_u64(at + len, off + size);
    if (from < to)
        memcpy(dst + (from - off), text + (from - at), to - from);
}

static int text_plan(tm_blob *blob, tm_plan *plan, uint64_t off, size_t len, uint8_t *dst)
{
    axis_text *self = as_text(blob);
    copy_part(header, HEADER_BYTES, 0, off, len, dst);
    if (off + len <= HEADER_BYTES)
        return 0;
    uint64_t line = off < HEADER_BYTES ? 0 : (off - HEADER_BYTES) / LINE_BYTES;
    uint64_t end = (off + len - HEADER_BYTES + LINE_BYTES - 1) / LINE_BYTES;
    for (unsigned waits = 0; line < end && waits < WAITS_MAX;) {
        tm_tile *tile;
        if (tm_tile_axis_get(&self->source, self->axis, line, self->lane, &tile) < 0)
            return tm_fail(tm_plan_req(plan), ENOMEM, "out of memory");
        TM_TRY(tm_plan_tile(plan, tile));
        bool there = tm_shared_poll(&tile->shared) == 0;
        if (!there)
            TM_TRY(tm_plan_wait(plan, &tile->shared));
        waits += !there;
        uint64_t first, count;
        tm_tile_axis_range(tile, &first, &count);
        uint64_t behind = tm_min_u64(end, first + count);
        for (; there && line < behind; line++) {
            char text[LINE_BYTES + 1];
            line_text(line, &tm_tile_axis(tile)[line - first], text);
            copy_part(text, LINE_BYTES, HEADER_BYTES + line * LINE_BYTES, off, len, dst);
        }
        line = behind;
    }
    return 0;
}

static int text_hold(tm_blob *blob, tm_req *req)
{
    return tm_tensor_hold(as_text(blob)->source.tensor, req);
}

static void text_unhold(tm_blob *blob)
{
    tm_tensor_unhold(as_text(blob)->source.tensor);
}

static void text_free(tm_blob *blob)
{
    axis_text *self = as_text(blob);
    tm_tensor_unref(self->source.tensor);
    free(self);
}

static const tm_blob_ops text_ops = {
    .kind = "lines",
    .plan = text_plan,
    .hold = text_hold,
    .unhold = text_unhold,
    .free = text_free,
};

int tm_axis_text_new(const tm_tile_source *source, tm_axis axis, tm_lane lane, tm_blob **ret)
{
    axis_text *self = TM_NEW(axis_text);
    if (!self)
        return -ENOMEM;
    tm_planes planes = tm_planes_of(source->tensor->dims, source->tensor->rank);
    tm_blob_init(&self->blob, &text_ops, tm_axis_text_size(&planes, axis));
    self->source = *source;
    tm_tensor_ref(self->source.tensor);
    self->axis = axis;
    self->lane = lane;
    *ret = &self->blob;
    return 0;
}
