#include "core/order.h"

/* Runs are made at least this long by insertion, since short merges cost more. */
#define RUN_MIN 16u
/* Each run on the stack is at least twice as long as the next: 32 hold 2^32 rows. */
#define STACK_MAX      40u
#define ITEM_BYTES_MAX 64u

typedef struct run {
    uint32_t begin, len;
} run;

typedef struct sorter {
    uint32_t *order;
    uint32_t n;
    uint32_t *scratch; /* room for half of the rows, made by the first merge */
    tm_order_cmp *cmp;
    const void *ctx;
    run stack[STACK_MAX];
    unsigned depth;
} sorter;

bool tm_order_is_sorted(uint32_t n, tm_order_cmp *cmp, const void *ctx)
{
    for (uint32_t i = 1; i < n; i++) {
        if (cmp(ctx, i - 1, i) > 0)
            return false;
    }
    return true;
}

static void reverse(uint32_t *order, uint32_t n)
{
    for (uint32_t i = 0, j = n; i + 1 < j; i++) {
        uint32_t row = order[i];
        order[i] = order[--j];
        order[j] = row;
    }
}

/* The length of the run that begins at BEGIN, which ascends afterwards. */
static uint32_t natural_run(const sorter *s, uint32_t begin)
{
    uint32_t *order = s->order + begin;
    uint32_t max = s->n - begin, len = 1;
    if (max == 1)
        return 1;
    /* Only a strictly falling run may be turned round: equal rows keep their order. */
    bool falls = s->cmp(s->ctx, order[0], order[1]) > 0;
    for (len = 2; len < max; len++) {
        if ((s->cmp(s->ctx, order[len - 1], order[len]) > 0) != falls)
            break;
    }
    if (falls)
        reverse(order, len);
    return len;
}

/* Lengthens a sorted run of HAVE rows to WANT rows. */
static void insert_up_to(const sorter *s, uint32_t *order, uint32_t have, uint32_t want)
{
    for (uint32_t i = have; i < want; i++) {
        uint32_t row = order[i], lo = 0, hi = i;
        while (lo < hi) {
            uint32_t mid = lo + (hi - lo) / 2;
            if (s->cmp(s->ctx, order[mid], row) <= 0)
                lo = mid + 1;
            else
                hi = mid;
        }
        memmove(order + lo + 1, order + lo, (i - lo) * sizeof(*order));
        order[lo] = row;
    }
}

/* Merges from the front: the left run is the shorter one and stands in scratch meanwhile. */
static void merge_forward(const sorter *s, uint32_t *order, uint32_t left, uint32_t right)
{
    const uint32_t *a = s->scratch, *a_end = a + left;
    const uint32_t *b = order + left, *b_end = b + right;
    memcpy(s->scratch, order, left * sizeof(*order));
    while (a < a_end && b < b_end)
        *order++ = s->cmp(s->ctx, *b, *a) < 0 ? *b++ : *a++;
    memmove(order, a, (size_t)(a_end - a) * sizeof(*order));
}

/* The same from the back, with the right run in scratch. */
static void merge_backward(const sorter *s, uint32_t *order, uint32_t left, uint32_t right)
{
    uint32_t a = left, b = right, to = left + right;
    memcpy(s->scratch, order + left, right * sizeof(*order));
    while (a > 0 && b > 0) {
        bool take_left = s->cmp(s->ctx, s->scratch[b - 1], order[a - 1]) < 0;
        order[--to] = take_left ? order[--a] : s->scratch[--b];
    }
    memcpy(order, s->scratch, b * sizeof(*order));
}

/* Merges the two topmost runs. */
static int merge_top(sorter *s)
{
    run *left = &s->stack[s->depth - 2], *right = &s->stack[s->depth - 1];
    uint32_t *order = s->order + left->begin;
    if (!s->scratch) {
        s->scratch = tm_new_array(s->n / 2 + 1, sizeof(*s->scratch));
        if (!s->scratch)
            return -ENOMEM;
    }
    if (s->cmp(s->ctx, order[left->len - 1], order[left->len]) > 0) {
        if (left->len <= right->len)
            merge_forward(s, order, left->len, right->len);
        else
            merge_backward(s, order, left->len, right->len);
    }
    left->len += right->len;
    s->depth--;
    return 0;
}

static int sort(sorter *s)
{
    for (uint32_t begin = 0; begin < s->n;) {
        uint32_t len = natural_run(s, begin);
        uint32_t want = s->n - begin < RUN_MIN ? s->n - begin : RUN_MIN;
        if (len < want) {
            insert_up_to(s, s->order + begin, len, want);
            len = want;
        }
        assert(s->depth < STACK_MAX);
        s->stack[s->depth++] = (run){.begin = begin, .len = len};
        begin += len;
        while (s->depth > 1 && s->stack[s->depth - 2].len / 2 < s->stack[s->depth - 1].len)
            TM_TRY(merge_top(s));
    }
    while (s->depth > 1)
        TM_TRY(merge_top(s));
    return 0;
}

int tm_order_new(uint32_t n, tm_order_cmp *cmp, const void *ctx, uint32_t **ret)
{
    TM_AUTO_FREE uint32_t *order = tm_new_array(n, sizeof(*order));
    if (!order)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    sorter s = {.order = order, .n = n, .cmp = cmp, .ctx = ctx};
    int rc = sort(&s);
    free(s.scratch);
    TM_TRY(rc);
    *ret = TM_STEAL(order);
    return 0;
}

void tm_order_apply(uint32_t *order, uint32_t n, void *items, size_t item_bytes)
{
    char *base = items;
    char saved[ITEM_BYTES_MAX];
    assert(item_bytes <= sizeof(saved));
    for (uint32_t i = 0; i < n; i++) {
        if (order[i] == i)
            continue;
        /* Follow the cycle that item I belongs to, each item moving into its place. */
        memcpy(saved, base + i * item_bytes, item_bytes);
        uint32_t to = i;
        while (order[to] != i) {
            uint32_t from = order[to];
            memcpy(base + to * item_bytes, base + from * item_bytes, item_bytes);
            order[to] = to;
            to = from;
        }
        memcpy(base + to * item_bytes, saved, item_bytes);
        order[to] = to;
    }
}
