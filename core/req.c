#include "core/req.h"

#include <stdio.h>

void tm_req_init(tm_req *req, tm_lane lane)
{
    memset(req, 0, offsetof(tm_req, words));
    req->lane = lane;
    req->words[0] = '\0';
}

int tm_failv(tm_req *req, int code, const char *fmt, va_list args)
{
    assert(code > 0);
    int none = 0;
    if (req && atomic_compare_exchange_strong(&req->error, &none, -code))
        vsnprintf(req->words, sizeof(req->words), fmt, args);
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
    return atomic_load(&req->cancelled) ? tm_fail(req, EINTR, "interrupted") : 0;
}
