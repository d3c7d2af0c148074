#include "core/layout.h"

#include "core/order.h"

enum {
    TENSORS_MAX = 1 << 17
};

struct tm_layout {
    tm_model *model;
    uint32_t count;
    uint32_t *rows[TM_LAYOUT_ORDERS]; /* of the model's table, which is in the order of names */
};

static const tm_tensor_row *row_at(const tm_layout *l, tm_layout_order order, uint32_t place)
{
    return &l->model->table.rows[l->rows[order][place]];
}

static int by_begin(const void *ctx, uint32_t a, uint32_t b)
{
    const tm_layout *l = ctx;
    uint64_t x = row_at(l, TM_LAYOUT_NAMES, a)->begin, y = row_at(l, TM_LAYOUT_NAMES, b)->begin;
    return x < y ? -1 : x > y;
}

static bool belongs(const tm_tensor_row *row, uint32_t file)
{
    return row->file == file && row->bytes > 0 && !(row->flags & TM_ROW_REFUSED);
}

static int sort(tm_layout *l)
{
    TM_TRY(tm_order_new(l->count, by_begin, l, &l->rows[TM_LAYOUT_BYTES]));
    for (uint32_t i = 0; i < l->count; i++)
        l->rows[TM_LAYOUT_BYTES][i] = l->rows[TM_LAYOUT_NAMES][l->rows[TM_LAYOUT_BYTES][i]];
    return 0;
}

int tm_layout_new(tm_model *model, uint32_t file, tm_layout **ret)
{
    const tm_tensor_table *table = &model->table;
    uint32_t count = 0;
    for (uint32_t i = 0; i < table->count; i++)
        count += belongs(&table->rows[i], file);
    *ret = NULL;
    if (count == 0 || count > TENSORS_MAX)
        return 0;
    tm_layout *l = TM_NEW(tm_layout);
    if (!l)
        return -ENOMEM;
    l->model = tm_model_ref(model);
    l->rows[TM_LAYOUT_NAMES] = tm_new_array(count, sizeof(uint32_t));
    for (uint32_t i = 0; l->rows[TM_LAYOUT_NAMES] && i < table->count; i++)
        if (belongs(&table->rows[i], file))
            l->rows[TM_LAYOUT_NAMES][l->count++] = i;
    if (!l->rows[TM_LAYOUT_NAMES] || sort(l) < 0) {
        tm_layout_free(l);
        return -ENOMEM;
    }
    *ret = l;
    return 0;
}

void tm_layout_free(tm_layout *l)
{
    if (!l)
        return;
    tm_model_unref(l->model);
    for (int i = 0; i < TM_LAYOUT_ORDERS; i++)
        free(l->rows[i]);
    free(l);
}

uint32_t tm_layout_count(const tm_layout *l)
{
    return l->count;
}

tm_span tm_layout_span(const tm_layout *l, tm_layout_order order, uint32_t place)
{
    const tm_tensor_row *row = row_at(l, order, place);
    return (tm_span){row->begin, row->begin + row->bytes};
}

/* How many tensors begin at or before AT. */
static uint32_t begun(const tm_layout *l, uint64_t at)
{
    uint32_t lo = 0, hi = l->count;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (row_at(l, TM_LAYOUT_BYTES, mid)->begin <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static uint32_t place_of_row(const tm_layout *l, uint32_t row)
{
    const uint32_t *rows = l->rows[TM_LAYOUT_NAMES];
    uint32_t lo = 0, hi = l->count;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (rows[mid] <= row)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

bool tm_layout_find(const tm_layout *l, uint64_t at, uint32_t ret[TM_LAYOUT_ORDERS])
{
    uint32_t place = begun(l, at);
    ret[TM_LAYOUT_BYTES] = place;
    if (place == 0 || tm_layout_span(l, TM_LAYOUT_BYTES, place - 1).end <= at)
        return false;
    ret[TM_LAYOUT_BYTES] = place - 1;
    ret[TM_LAYOUT_NAMES] = place_of_row(l, l->rows[TM_LAYOUT_BYTES][place - 1]);
    return true;
}
