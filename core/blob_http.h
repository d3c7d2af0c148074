/*
 * A URL as a blob. The one door to libcurl, core/blob_http.c; a build without it has
 * core/blob_http_stub.c, which says so.
 */
#ifndef TM_CORE_BLOB_HTTP_H
#define TM_CORE_BLOB_HTTP_H

#include "core/blob.h"
#include "core/req.h"

bool tm_blob_http_is_built(void);

/* Asks the server for the object's size and version; may block. Words in REQ never hold secrets. */
TM_MUST_CHECK int tm_blob_http_new(tm_sched *sched, const char *url, tm_req *req, tm_blob **ret);

#endif
