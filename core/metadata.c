#include "core/metadata.h"

void tm_metadata_init(tm_metadata *m)
{
    memset(m, 0, sizeof(*m));
}

void tm_metadata_done(tm_metadata *m)
{
    tm_metadata_truncate(m, 0);
    free(m->pairs);
    tm_metadata_init(m);
}

void tm_metadata_truncate(tm_metadata *m, size_t count)
{
    while (m->count > count) {
        m->count--;
        free(m->pairs[m->count].key);
        free(m->pairs[m->count].value);
    }
}

static char *copy_of(const char *bytes, size_t len)
{
    if (len == SIZE_MAX)
        return NULL;
    char *copy = malloc(len + 1);
    if (!copy)
        return NULL;
    if (len)
        memcpy(copy, bytes, len);
    copy[len] = '\0';
    return copy;
}

static int reserve_one(tm_metadata *m)
{
    if (m->count < m->cap)
        return 0;
    size_t cap = m->cap + m->cap / 2 + 8;
    tm_metadata_pair *pairs = reallocarray(m->pairs, cap, sizeof(*pairs));
    if (!pairs)
        return -ENOMEM;
    m->pairs = pairs;
    m->cap = cap;
    return 0;
}

int tm_metadata_add(tm_metadata *m, const char *key, size_t key_len, const char *value,
                    size_t value_len)
{
    TM_TRY(reserve_one(m));
    TM_AUTO_FREE char *key_copy = copy_of(key, key_len);
    TM_AUTO_FREE char *value_copy = copy_of(value, value_len);
    if (!key_copy || !value_copy)
        return -ENOMEM;
    m->pairs[m->count++] = (tm_metadata_pair){
        .key = TM_STEAL(key_copy),
        .value = TM_STEAL(value_copy),
        .key_len = key_len,
        .value_len = value_len,
    };
    return 0;
}

const char *tm_metadata_find(const tm_metadata *m, const char *key)
{
    size_t len = strlen(key);
    for (size_t i = 0; i < m->count; i++) {
        const tm_metadata_pair *pair = &m->pairs[i];
        if (pair->key_len == len && memcmp(pair->key, key, len) == 0)
            return pair->value;
    }
    return NULL;
}
