#include "fs/known.h"

#include "compute/tiles.h"

struct tm_known {
    tm_session *session;
    tm_mounted *m; /* referenced */
    tm_indexes *indexes;
    tm_index_cursor *cursor;
    bool failed;
};

int tm_known_new(tm_session *session, tm_mounted *m, tm_req *req, tm_known **ret)
{
    TM_AUTO(tm_known_freep) tm_known *known = NULL;
    TM_AUTO(tm_indexes_unrefp) tm_indexes *indexes = NULL;
    if (!req->may_block)
        return -EINPROGRESS;
    TM_TRY(tm_indexes_get(session, m, req, &indexes));
    known = TM_NEW(tm_known);
    if (!known || tm_index_cursor_new(indexes, &known->cursor) < 0)
        return tm_fail(req, ENOMEM, "out of memory");
    known->session = session;
    known->m = tm_mounted_ref(m);
    known->indexes = TM_STEAL(indexes);
    *ret = TM_STEAL(known);
    return 0;
}

void tm_known_free(tm_known *known)
{
    if (!known)
        return;
    tm_index_cursor_free(known->cursor);
    tm_indexes_unref(known->indexes);
    tm_mounted_unref(known->m);
    free(known);
}

void tm_known_freep(tm_known **known)
{
    tm_known_free(*known);
}

tm_mounted *tm_known_of(const tm_known *known)
{
    return known->m;
}

tm_indexes *tm_known_indexes(const tm_known *known)
{
    return known->indexes;
}

bool tm_known_failed(const tm_known *known)
{
    return known->failed;
}

static void init(tm_req *req)
{
    tm_req_init(req, TM_LANE_SELECTION);
    req->may_block = true;
}

static void note_trouble(tm_known *known, const tm_req *req)
{
    if (!*tm_req_words(req))
        return;
    known->failed = true;
    tm_log_add(tm_session_log(known->session), TM_LOG_WARNING, "%s: an index is not used: %s",
               known->m->name, tm_req_words(req));
}

bool tm_known_record(tm_known *known, uint32_t row, tm_stats_record *ret)
{
    return tm_tile_stats_known(tm_session_store(known->session), known->m->serial, row, ret) ||
           tm_known_indexed(known, row, ret);
}

bool tm_known_indexed(tm_known *known, uint32_t row, tm_stats_record *ret)
{
    tm_req req;
    init(&req);
    bool found = tm_index_cursor_record(known->cursor, row, &req, ret);
    note_trouble(known, &req);
    return found;
}

bool tm_known_sums(tm_known *known, uint32_t row, tm_stats_record *ret, tm_sums *sums)
{
    tm_req req;
    init(&req);
    bool found = tm_indexes_sums(known->indexes, row, &req, ret, sums) == 0;
    note_trouble(known, &req);
    return found;
}
