/* String pairs in the order of their file: a checkpoint's __metadata__. */
#ifndef TM_CORE_METADATA_H
#define TM_CORE_METADATA_H

#include "core/base.h"

typedef struct tm_metadata_pair {
    char *key, *value; /* owned, NUL-terminated for convenience; may hold NUL bytes themselves */
    size_t key_len, value_len;
} tm_metadata_pair;

typedef struct tm_metadata {
    tm_metadata_pair *pairs;
    size_t count, cap;
} tm_metadata;

void tm_metadata_init(tm_metadata *m);
void tm_metadata_done(tm_metadata *m);

/* Appends a copy; -ENOMEM. */
TM_MUST_CHECK int tm_metadata_add(tm_metadata *m, const char *key, size_t key_len,
                                  const char *value, size_t value_len);
/* Drops every pair from COUNT on. */
void tm_metadata_truncate(tm_metadata *m, size_t count);
/* The value of KEY, NULL where there is none. */
const char *tm_metadata_find(const tm_metadata *m, const char *key);

#endif
