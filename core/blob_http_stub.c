#include "core/blob_http.h"

bool tm_blob_http_is_built(void)
{
    return false;
}

int tm_blob_http_new(tm_sched *sched, const char *url, tm_req *req, tm_blob **ret)
{
    (void)sched, (void)ret;
    /* Only the scheme: what follows may hold a password. */
    return tm_fail(req, EOPNOTSUPP, "%.*s://…: this tmorph is built without remote sources",
                   (int)(strstr(url, "://") - url), url);
}
