#include "core/structure.h"

typedef struct placed_row {
    int32_t layer, expert;
    uint32_t row;
} placed_row;

void tm_structure_init(tm_structure *s)
{
    memset(s, 0, sizeof(*s));
}

void tm_structure_done(tm_structure *s)
{
    free(s->order);
    free(s->layers);
    tm_structure_init(s);
}

tm_place tm_row_place(const tm_tensor_table *table, uint32_t row)
{
    const tm_tensor_row *r = &table->rows[row];
    return tm_place_of(tm_row_name(table, r), r->name_len, r->rank);
}

int32_t tm_row_fused_experts(const tm_tensor_table *table, uint32_t row)
{
    const tm_tensor_row *r = &table->rows[row];
    if (r->rank < 2 || tm_row_place(table, row).expert != TM_FUSED_EXPERTS)
        return 0;
    return (int32_t)tm_min_u64(tm_row_dims(table, r)[0], TM_EXPERTS_MAX);
}

static int compare_placed(const void *pa, const void *pb)
{
    const placed_row *a = pa, *b = pb;
    if (a->layer != b->layer)
        return a->layer < b->layer ? -1 : 1;
    if (a->expert != b->expert)
        return a->expert < b->expert ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* Collects the rows that have a layer; notices whether there is more than one stack of them. */
static uint32_t collect(tm_structure *s, const tm_tensor_table *table, placed_row *placed)
{
    uint32_t n = 0;
    const char *stack = NULL;
    uint32_t stack_len = 0;
    for (uint32_t row = 0; row < table->count; row++) {
        tm_place place = tm_row_place(table, row);
        if (place.layer == TM_NO_LAYER)
            continue;
        const char *name = tm_row_name(table, &table->rows[row]);
        if (!stack) {
            stack = name;
            stack_len = place.stack_len;
        } else if (place.stack_len != stack_len || memcmp(stack, name, stack_len) != 0) {
            s->several_stacks = true;
        }
        placed[n++] = (placed_row){place.layer, place.expert, row};
    }
    return n;
}

static void add_to_layer(tm_structure *s, const tm_tensor_table *table, const placed_row *p,
                         uint32_t at)
{
    tm_layer *layer = s->layer_count ? &s->layers[s->layer_count - 1] : NULL;
    if (!layer || layer->layer != p->layer) {
        layer = &s->layers[s->layer_count++];
        *layer = (tm_layer){.layer = p->layer, .first = at};
    }
    layer->count++;
    int32_t experts = p->expert >= 0                  ? p->expert + 1
                      : p->expert == TM_FUSED_EXPERTS ? tm_row_fused_experts(table, p->row)
                                                      : 0;
    if (experts > layer->experts)
        layer->experts = experts;
    if (experts > s->experts)
        s->experts = experts;
}

static uint32_t count_layers(const placed_row *placed, uint32_t n)
{
    uint32_t layers = 0;
    for (uint32_t i = 0; i < n; i++)
        layers += i == 0 || placed[i].layer != placed[i - 1].layer;
    return layers;
}

int tm_structure_build(tm_structure *s, const tm_tensor_table *table)
{
    TM_AUTO_FREE placed_row *placed = tm_new_array(table->count, sizeof(*placed));
    if (!placed)
        return -ENOMEM;
    uint32_t n = collect(s, table, placed);
    qsort(placed, n, sizeof(*placed), compare_placed);
    s->order = tm_new_array(n, sizeof(*s->order));
    s->layers = tm_new_array(count_layers(placed, n), sizeof(*s->layers));
    if (!s->order || !s->layers)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        s->order[i] = placed[i].row;
        add_to_layer(s, table, &placed[i], i);
    }
    s->order_count = n;
    return 0;
}

const tm_layer *tm_structure_layer(const tm_structure *s, int32_t layer)
{
    uint32_t lo = 0, hi = s->layer_count;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (s->layers[mid].layer < layer)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < s->layer_count && s->layers[lo].layer == layer ? &s->layers[lo] : NULL;
}
