#include "core/req.h"

#include <sched.h>
#include <stdio.h>

const char *tm_lane_name(tm_lane lane)
{
    static const char *const names[] = {"scalar",   "selection", "visible", "prefetch",
                                        "analysis", "query",     "index"};
    static_assert(TM_ARRAY_LEN(names) == TM_LANE_COUNT, "each lane has a name");
    return names[lane];
}

void tm_req_init(tm_req *req, tm_lane lane)
{
    memset(req, 0, offsetof(tm_req, words));
    req->lane = lane;
    req->words[0] = '\0';
}

void tm_req_init_part(tm_req *req, tm_req *parent)
{
    tm_req_init(req, parent->lane);
    req->parent = parent;
    req->may_block = parent->may_block;
    req->deadline_ns = parent->deadline_ns;
}

int tm_failv(tm_req *req, int code, const char *fmt, va_list args)
{
    assert(code > 0);
    if (!req)
        return -code;
    if (!atomic_exchange(&req->failed, true)) {
        vsnprintf(req->words, sizeof(req->words), fmt, args);
        atomic_store(&req->error, -code);
    }
    while (!atomic_load(&req->error))
        sched_yield(); /* another thread is in the midst of its words */
    return -code;
}

int tm_fail(tm_req *req, int code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int rc = tm_failv(req, code, fmt, args);
    va_end(args);
    return rc;
}

const char *tm_req_words(const tm_req *req)
{
    return req->words;
}

int tm_req_check(tm_req *req)
{
    if (req->parent && tm_req_check(req->parent) < 0)
        return tm_fail(req, -atomic_load(&req->parent->error), "%s", tm_req_words(req->parent));
    if (!atomic_load(&req->cancelled))
        return 0;
    tm_ignore(tm_fail(req, EINTR, "interrupted")); /* unless whoever cancelled it said why */
    return atomic_load(&req->error);
}

int tm_req_check_wait(tm_req *req)
{
    TM_TRY(tm_req_check(req));
    if (req->deadline_ns == 0 || tm_now_ns() < req->deadline_ns)
        return 0;
    return tm_fail(req, ETIMEDOUT, "no answer within the time limit");
}
