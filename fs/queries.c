#include "fs/queries.h"

#include "formats/query_parse.h"
#include "formats/table_query.h"

enum {
    QUERIES_MAX = 65536 /* of a mount, those that were removed too: numbers stand in inodes */
};

struct tm_queries {
    pthread_mutex_t lock; /* guards what follows */
    tm_kept_query **all;  /* by number; NULL: removed */
    uint32_t count, cap;
};

static int out_of_memory(tm_req *req)
{
    return tm_fail(req, ENOMEM, "out of memory");
}

/* ---- One ---- */

static tm_kept_query *kept_ref(tm_kept_query *q)
{
    atomic_fetch_add_explicit(&q->refs, 1, memory_order_relaxed);
    return q;
}

tm_kept_query *tm_kept_query_unref(tm_kept_query *q)
{
    if (!q || atomic_fetch_sub_explicit(&q->refs, 1, memory_order_acq_rel) != 1)
        return NULL;
    tm_query_result_unref(q->result);
    tm_indexes_unref(q->indexes);
    tm_text_done(&q->text);
    free(q->model);
    free(q->name);
    pthread_mutex_destroy(&q->lock);
    free(q);
    return NULL;
}

void tm_kept_query_unrefp(tm_kept_query **q)
{
    tm_kept_query_unref(*q);
}

static tm_kept_query *kept_new(const char *model, const char *name, uint32_t number)
{
    tm_kept_query *q = TM_NEW(tm_kept_query);
    if (!q)
        return NULL;
    atomic_init(&q->refs, 1);
    pthread_mutex_init(&q->lock, NULL);
    tm_text_init(&q->text);
    q->number = number;
    q->model = strdup(model);
    q->name = strdup(name);
    return q->model && q->name ? q : tm_kept_query_unref(q);
}

/* ---- All of them ---- */

int tm_queries_new(tm_queries **ret)
{
    tm_queries *queries = TM_NEW(tm_queries);
    if (!queries)
        return -ENOMEM;
    pthread_mutex_init(&queries->lock, NULL);
    *ret = queries;
    return 0;
}

void tm_queries_free(tm_queries *queries)
{
    if (!queries)
        return;
    for (uint32_t i = 0; i < queries->count; i++)
        tm_kept_query_unref(queries->all[i]);
    free(queries->all);
    pthread_mutex_destroy(&queries->lock);
    free(queries);
}

/* The place of NAME of MODEL; NULL where there is none. The lock is held. */
static tm_kept_query **place_of(tm_queries *queries, const char *model, const char *name)
{
    for (uint32_t i = 0; i < queries->count; i++) {
        const tm_kept_query *q = queries->all[i];
        if (q && strcmp(q->name, name) == 0 && strcmp(q->model, model) == 0)
            return &queries->all[i];
    }
    return NULL;
}

tm_kept_query *tm_queries_find(tm_queries *queries, const char *model, const char *name)
{
    pthread_mutex_lock(&queries->lock);
    tm_kept_query **place = place_of(queries, model, name);
    tm_kept_query *q = place ? kept_ref(*place) : NULL;
    pthread_mutex_unlock(&queries->lock);
    return q;
}

tm_kept_query *tm_queries_by_number(tm_queries *queries, uint32_t number)
{
    pthread_mutex_lock(&queries->lock);
    tm_kept_query *q = number < queries->count ? queries->all[number] : NULL;
    if (q)
        kept_ref(q);
    pthread_mutex_unlock(&queries->lock);
    return q;
}

tm_kept_query *tm_queries_from(tm_queries *queries, const char *model, uint32_t number)
{
    tm_kept_query *q = NULL;
    pthread_mutex_lock(&queries->lock);
    for (uint32_t i = number; !q && i < queries->count; i++)
        if (queries->all[i] && strcmp(queries->all[i]->model, model) == 0)
            q = kept_ref(queries->all[i]);
    pthread_mutex_unlock(&queries->lock);
    return q;
}

/* The lock is held. */
static int append(tm_queries *queries, const char *model, const char *name, tm_req *req,
                  tm_kept_query ***ret)
{
    if (queries->count >= QUERIES_MAX)
        return tm_fail(req, ENOSPC, "more than %d queries were made; mount anew", QUERIES_MAX);
    if (queries->count == queries->cap) {
        uint32_t cap = queries->cap ? 2 * queries->cap : 16;
        tm_kept_query **all = reallocarray(queries->all, cap, sizeof(tm_kept_query *));
        if (!all)
            return out_of_memory(req);
        queries->all = all;
        queries->cap = cap;
    }
    tm_kept_query *q = kept_new(model, name, queries->count);
    if (!q)
        return out_of_memory(req);
    *ret = &queries->all[queries->count++];
    **ret = q;
    return 0;
}

int tm_queries_create(tm_queries *queries, const char *model, const char *name, tm_req *req,
                      tm_kept_query **ret)
{
    pthread_mutex_lock(&queries->lock);
    tm_kept_query **place = place_of(queries, model, name);
    int rc = place ? 0 : append(queries, model, name, req, &place);
    if (rc == 0)
        *ret = kept_ref(*place);
    pthread_mutex_unlock(&queries->lock);
    return rc;
}

int tm_queries_remove(tm_queries *queries, const char *model, const char *name)
{
    pthread_mutex_lock(&queries->lock);
    tm_kept_query **place = place_of(queries, model, name);
    tm_kept_query *q = place ? TM_STEAL(*place) : NULL;
    pthread_mutex_unlock(&queries->lock);
    tm_kept_query_unref(q);
    return q ? 0 : -ENOENT;
}

/* ---- Its text ---- */

int tm_kept_query_text(tm_kept_query *q, tm_req *req, char **ret, size_t *ret_len)
{
    pthread_mutex_lock(&q->lock);
    *ret_len = q->text.len;
    *ret = malloc(q->text.len + 1);
    if (*ret && q->text.len)
        memcpy(*ret, q->text.bytes, q->text.len);
    pthread_mutex_unlock(&q->lock);
    return *ret ? 0 : out_of_memory(req);
}

uint64_t tm_kept_query_size(tm_kept_query *q)
{
    pthread_mutex_lock(&q->lock);
    uint64_t size = q->text.len;
    pthread_mutex_unlock(&q->lock);
    return size;
}

/* The lock is held. */
static void forget_result(tm_kept_query *q)
{
    q->result = tm_query_result_unref(q->result);
    q->indexes = tm_indexes_unref(q->indexes);
}

static int check_size(uint64_t off, uint64_t len, tm_req *req)
{
    if (tm_range_ok(off, len, TM_QUERY_BYTES_MAX))
        return 0;
    return tm_fail(req, EFBIG, "a query has at most %zu bytes", TM_QUERY_BYTES_MAX);
}

/* SIZE bytes, of which those that are new are blanks. The lock is held. */
static int resize(tm_kept_query *q, uint64_t size, tm_req *req)
{
    if (size > q->text.len)
        tm_text_pad(&q->text, size - q->text.len);
    if (tm_text_error(&q->text) < 0)
        return out_of_memory(req);
    q->text.len = size;
    return 0;
}

int tm_kept_query_write(tm_kept_query *q, const tm_chunk *chunk, tm_req *req)
{
    TM_TRY(check_size(chunk->off, chunk->len, req));
    pthread_mutex_lock(&q->lock);
    int rc = resize(q, tm_max_u64(q->text.len, chunk->off + chunk->len), req);
    if (rc == 0 && chunk->len)
        memcpy(q->text.bytes + chunk->off, chunk->bytes, chunk->len);
    forget_result(q);
    pthread_mutex_unlock(&q->lock);
    return rc;
}

int tm_kept_query_truncate(tm_kept_query *q, uint64_t size, tm_req *req)
{
    TM_TRY(check_size(0, size, req));
    pthread_mutex_lock(&q->lock);
    int rc = resize(q, size, req);
    forget_result(q);
    pthread_mutex_unlock(&q->lock);
    return rc;
}

/* ---- What it comes to ---- */

tm_query_result *tm_query_result_unref(tm_query_result *result)
{
    if (!result || atomic_fetch_sub_explicit(&result->refs, 1, memory_order_acq_rel) != 1)
        return NULL;
    tm_query_free(result->query);
    tm_answers_done(&result->answers);
    free(result->error);
    free(result->header);
    free(result);
    return NULL;
}

void tm_query_result_unrefp(tm_query_result **result)
{
    tm_query_result_unref(*result);
}

static tm_query_result *result_ref(tm_query_result *result)
{
    atomic_fetch_add_explicit(&result->refs, 1, memory_order_relaxed);
    return result;
}

/* "LINE:COLUMN: words", the line, and a caret below the place. */
static char *describe_error(const tm_query_error *error, const char *text, size_t len)
{
    tm_text words;
    char *ret;
    size_t ret_len;
    tm_text_init(&words);
    tm_text_printf(&words, "%d:%d: %s\n", error->line, error->column, error->words);
    tm_query_error_show(error, text, len, &words);
    return tm_text_steal(&words, &ret, &ret_len) < 0 ? NULL : ret;
}

static int ask(const char *text, size_t len, tm_known *known, tm_req *req, tm_query_result **ret)
{
    TM_AUTO(tm_query_result_unrefp) tm_query_result *result = TM_NEW(tm_query_result);
    tm_query_error error;
    if (!result)
        return out_of_memory(req);
    atomic_init(&result->refs, 1);
    int rc = tm_query_parse(text, len, &error, &result->query);
    if (rc < 0)
        result->error = describe_error(&error, text, len);
    else
        result->header = tm_matches_header(result->query);
    if (rc == -ENOMEM || !(result->error || result->header))
        return out_of_memory(req);
    if (rc == 0)
        TM_TRY(tm_answers_find(result->query, known, req, &result->answers));
    *ret = TM_STEAL(result);
    return 0;
}

int tm_kept_query_ask(tm_kept_query *q, tm_session *session, tm_mounted *m, tm_req *req,
                      tm_query_result **ret)
{
    TM_AUTO(tm_known_freep) tm_known *known = NULL;
    TM_AUTO_FREE char *text = NULL;
    size_t len;
    TM_TRY(tm_known_new(session, m, req, &known));
    pthread_mutex_lock(&q->lock);
    tm_query_result *kept = q->result && q->indexes == tm_known_indexes(known) ? q->result : NULL;
    *ret = kept ? result_ref(kept) : NULL;
    pthread_mutex_unlock(&q->lock);
    if (*ret)
        return 0;
    TM_TRY(tm_kept_query_text(q, req, &text, &len));
    TM_TRY(ask(text, len, known, req, ret));
    pthread_mutex_lock(&q->lock);
    if (!tm_known_failed(known) && q->text.len == len &&
        (len == 0 || memcmp(q->text.bytes, text, len) == 0)) {
        forget_result(q);
        q->result = result_ref(*ret);
        q->indexes = tm_indexes_ref(tm_known_indexes(known));
    }
    pthread_mutex_unlock(&q->lock);
    return 0;
}
