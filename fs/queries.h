/*
 * The queries that were written into query/ of models: their names and texts, kept while the mount
 * is up, also where a model is opened anew. Any thread.
 */
#ifndef TM_FS_QUERIES_H
#define TM_FS_QUERIES_H

#include <pthread.h>

#include "core/query.h"
#include "core/text.h"
#include "fs/answers.h"
#include "fs/tree.h"

/* What a query came to; shared by reference count. Constant. */
typedef struct tm_query_result {
    atomic_uint refs;
    tm_query *query; /* NULL: its text is none, which ERROR says */
    char *error;     /* NULL: none */
    char *header;    /* of matches.tsv */
    tm_answers answers;
} tm_query_result;

typedef struct tm_kept_query {
    atomic_uint refs;
    uint32_t number;      /* of all, not used again */
    char *model;          /* the name of what it asks */
    char *name;           /* without .q */
    pthread_mutex_t lock; /* guards what follows */
    tm_text text;
    tm_query_result *result; /* of TEXT as it stands and INDEXES; NULL: not asked yet */
    tm_indexes *indexes;
} tm_kept_query;

typedef struct tm_queries tm_queries;

TM_MUST_CHECK int tm_queries_new(tm_queries **ret);
void tm_queries_free(tm_queries *queries); /* accepts NULL */

/* All return one reference. The query NAME of MODEL, NULL where there is none. */
tm_kept_query *tm_queries_find(tm_queries *queries, const char *model, const char *name);
tm_kept_query *tm_queries_by_number(tm_queries *queries, uint32_t number);
/* The first of MODEL with NUMBER or a greater one; NULL at the end. */
tm_kept_query *tm_queries_from(tm_queries *queries, const char *model, uint32_t number);
/* The one that is there already, or a new one, empty. -ENOSPC, -ENOMEM. */
TM_MUST_CHECK int tm_queries_create(tm_queries *queries, const char *model, const char *name,
                                    tm_req *req, tm_kept_query **ret);
/* -ENOENT where there is none. */
TM_MUST_CHECK int tm_queries_remove(tm_queries *queries, const char *model, const char *name);

tm_kept_query *tm_kept_query_unref(tm_kept_query *query); /* accepts NULL; returns NULL */
void tm_kept_query_unrefp(tm_kept_query **query);

/* A copy of its text, malloc'ed. */
TM_MUST_CHECK int tm_kept_query_text(tm_kept_query *query, tm_req *req, char **ret,
                                     size_t *ret_len);
uint64_t tm_kept_query_size(tm_kept_query *query);
/* -EFBIG beyond what a query may have. What lies between its end and the chunk becomes blanks. */
TM_MUST_CHECK int tm_kept_query_write(tm_kept_query *query, const tm_chunk *chunk, tm_req *req);
TM_MUST_CHECK int tm_kept_query_truncate(tm_kept_query *query, uint64_t size, tm_req *req);

/* What it comes to, asked of M, anew where its text or the indexes have changed; one reference.
 * -EINPROGRESS where REQ may not block. */
TM_MUST_CHECK int tm_kept_query_ask(tm_kept_query *query, tm_session *session, tm_mounted *m,
                                    tm_req *req, tm_query_result **ret);
tm_query_result *tm_query_result_unref(tm_query_result *result); /* accepts NULL; returns NULL */
void tm_query_result_unrefp(tm_query_result **result);

#endif
