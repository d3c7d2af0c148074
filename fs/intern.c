#include "fs/intern.h"

#include "core/hash.h"

enum {
    BUCKETS_MIN = 64
};

struct tm_intern {
    pthread_mutex_t lock; /* guards all, and the counts of every entry */
    tm_interned **buckets;
    size_t bucket_count; /* a power of two */
    tm_interned **by_number;
    uint64_t *free_numbers; /* a stack */
    size_t number_count, number_cap, free_count, used;
};

int tm_intern_new(tm_intern **ret)
{
    tm_intern *intern = TM_NEW(tm_intern);
    if (!intern)
        return -ENOMEM;
    intern->bucket_count = BUCKETS_MIN;
    intern->buckets = tm_new_array(BUCKETS_MIN, sizeof(*intern->buckets));
    if (!intern->buckets) {
        free(intern);
        return -ENOMEM;
    }
    pthread_mutex_init(&intern->lock, NULL);
    *ret = intern;
    return 0;
}

static void interned_free(tm_interned *e)
{
    free(e->text);
    free(e);
}

void tm_intern_free(tm_intern *intern)
{
    if (!intern)
        return;
    for (size_t i = 0; i < intern->number_count; i++)
        if (intern->by_number[i])
            interned_free(intern->by_number[i]);
    free(intern->buckets);
    free(intern->by_number);
    free(intern->free_numbers);
    pthread_mutex_destroy(&intern->lock);
    free(intern);
}

static uint64_t hash_of(uint32_t serial, tm_kind kind, uint32_t item, uint32_t sub,
                        const char *text)
{
    uint32_t key[4] = {serial, (uint32_t)kind, item, sub};
    return tm_hash64(text, strlen(text)) ^ tm_hash64(key, sizeof(key));
}

static tm_interned **bucket_of(tm_intern *intern, uint64_t hash)
{
    return &intern->buckets[hash & (intern->bucket_count - 1)];
}

static void grow_buckets(tm_intern *intern)
{
    size_t count = intern->bucket_count * 2;
    tm_interned **was = intern->buckets;
    tm_interned **grown = tm_new_array(count, sizeof(*grown));
    if (!grown)
        return; /* longer chains do no harm */
    intern->buckets = grown;
    size_t was_count = intern->bucket_count;
    intern->bucket_count = count;
    for (size_t i = 0; i < was_count; i++) {
        for (tm_interned *e = was[i], *next; e; e = next) {
            next = e->next;
            tm_interned **bucket =
                bucket_of(intern, hash_of(e->serial, e->kind, e->item, e->sub, e->text));
            e->next = *bucket;
            *bucket = e;
        }
    }
    free(was);
}

/* A number that is free, with room for it in both arrays. */
static bool take_number(tm_intern *intern, uint64_t *ret)
{
    if (intern->free_count) {
        *ret = intern->free_numbers[--intern->free_count];
        return true;
    }
    if (intern->number_count == intern->number_cap) {
        size_t cap = intern->number_cap ? intern->number_cap * 2 : BUCKETS_MIN;
        tm_interned **by = reallocarray(intern->by_number, cap, sizeof(*by));
        if (by)
            intern->by_number = by;
        uint64_t *numbers = reallocarray(intern->free_numbers, cap, sizeof(*numbers));
        if (numbers)
            intern->free_numbers = numbers;
        if (!by || !numbers)
            return false;
        intern->number_cap = cap;
    }
    *ret = intern->number_count++;
    intern->by_number[*ret] = NULL;
    return true;
}

static tm_interned *add_entry(tm_intern *intern, const tm_interned *like)
{
    tm_interned *e = TM_NEW(tm_interned);
    char *text = strdup(like->text);
    if (!e || !text || !take_number(intern, &e->number)) {
        free(text);
        free(e);
        return NULL;
    }
    if (intern->used >= intern->bucket_count)
        grow_buckets(intern);
    uint64_t number = e->number;
    *e = *like;
    e->number = number;
    e->text = text;
    e->intern = intern;
    tm_interned **bucket = bucket_of(intern, hash_of(e->serial, e->kind, e->item, e->sub, text));
    e->next = *bucket;
    *bucket = e;
    intern->by_number[number] = e;
    intern->used++;
    return e;
}

static bool is_same(const tm_interned *a, const tm_interned *b)
{
    return a->serial == b->serial && a->kind == b->kind && a->item == b->item && a->sub == b->sub &&
           strcmp(a->text, b->text) == 0;
}

tm_interned *tm_intern_get(tm_intern *intern, const tm_node *node, tm_kind kind, const char *text)
{
    tm_interned like = {.serial = node->mounted->serial,
                        .kind = kind,
                        .item = node->item,
                        .sub = node->sub,
                        .text = (char *)text};
    uint64_t hash = hash_of(like.serial, kind, like.item, like.sub, text);
    pthread_mutex_lock(&intern->lock);
    tm_interned *e = *bucket_of(intern, hash);
    while (e && !is_same(e, &like))
        e = e->next;
    if (!e)
        e = add_entry(intern, &like);
    if (e)
        e->users++;
    pthread_mutex_unlock(&intern->lock);
    return e;
}

tm_interned *tm_intern_find(tm_intern *intern, uint64_t number)
{
    pthread_mutex_lock(&intern->lock);
    tm_interned *e = number < intern->number_count ? intern->by_number[number] : NULL;
    if (e)
        e->users++;
    pthread_mutex_unlock(&intern->lock);
    return e;
}

/* Frees what nobody holds. The lock is held. */
static void drop_unused(tm_intern *intern, tm_interned *e)
{
    if (e->users || e->lookups)
        return;
    tm_interned **link = bucket_of(intern, hash_of(e->serial, e->kind, e->item, e->sub, e->text));
    while (*link != e)
        link = &(*link)->next;
    *link = e->next;
    intern->by_number[e->number] = NULL;
    intern->free_numbers[intern->free_count++] = e->number;
    intern->used--;
    interned_free(e);
}

void tm_intern_release(tm_interned *e)
{
    tm_intern *intern = e->intern;
    pthread_mutex_lock(&intern->lock);
    assert(e->users > 0);
    e->users--;
    drop_unused(intern, e);
    pthread_mutex_unlock(&intern->lock);
}

void tm_intern_looked_up(tm_interned *e)
{
    pthread_mutex_lock(&e->intern->lock);
    assert(e->users > 0);
    e->lookups++;
    pthread_mutex_unlock(&e->intern->lock);
}

void tm_intern_forget(tm_intern *intern, uint64_t number, uint64_t count)
{
    pthread_mutex_lock(&intern->lock);
    tm_interned *e = number < intern->number_count ? intern->by_number[number] : NULL;
    if (e) {
        e->lookups -= tm_min_u64(count, e->lookups);
        drop_unused(intern, e);
    }
    pthread_mutex_unlock(&intern->lock);
}
