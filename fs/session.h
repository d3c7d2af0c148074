/*
 * The session: the one place where everything meets. It owns the threads, the descriptors, the log
 * and what is mounted under which name; it opens, watches, reopens and closes sources.
 *
 * Any thread. Sources are opened by threads that may block (req->may_block).
 */
#ifndef TM_FS_SESSION_H
#define TM_FS_SESSION_H

#include "core/log.h"
#include "core/sched.h"
#include "core/store.h"
#include "fs/mounted.h"

typedef struct tm_session tm_session;
typedef struct tm_background tm_background;

typedef struct tm_session_params {
    unsigned threads;         /* CPU workers; 0: the cores */
    uint64_t budget;          /* bytes that the tile store may keep; 0: the default */
    unsigned descriptors;     /* source files kept open at most; 0: from the process's limit */
    const char *log;          /* see tm_log_new() */
    const char *index_folder; /* where indexes lie beside the usual places; NULL: none */
    bool watch;               /* notice changed sources, about once a second */
    bool index;               /* make indexes of all that is mounted, in the background */
} tm_session_params;

TM_MUST_CHECK int tm_session_new(const tm_session_params *params, tm_req *req, tm_session **ret);
/* Stops watching and indexing. */
void tm_session_stop(tm_session *session);
/* Nothing that came from the session may be in use any more. */
void tm_session_free(tm_session *session);

tm_sched *tm_session_sched(tm_session *session);
tm_file_set *tm_session_files(tm_session *session);
tm_log *tm_session_log(tm_session *session);
tm_store *tm_session_store(tm_session *session); /* its groups are serial numbers */
tm_background *tm_session_background(tm_session *session);
const char *tm_session_index_folder(const tm_session *session); /* NULL: none was named */

/* Opens SOURCE under NAME (NULL: its last component). -EEXIST where the name is taken, with the
 * remedy in words. Names are file names: no '/', not '.' or '..', at most 255 bytes. */
TM_MUST_CHECK int tm_session_add(tm_session *session, const char *name, const char *source,
                                 tm_req *req);
/* The name that a source has by default: its last component, malloc'ed; NULL for want of memory. */
char *tm_source_name(const char *source);
/* The path that it is opened by and keeps (tm_mounted.source): from the root, links kept;
 * malloc'ed, NULL for want of memory. */
char *tm_source_path(const char *source);
TM_MUST_CHECK int tm_session_remove(tm_session *session, const char *name, tm_req *req);
/* What stands under NAME ("collection/member" too), referenced; -EINVAL where nothing does. */
TM_MUST_CHECK int tm_session_get(tm_session *session, const char *name, tm_req *req,
                                 tm_mounted **ret);
/* Forgets what was computed of a source and its members. Also "collection/member". */
TM_MUST_CHECK int tm_session_drop(tm_session *session, const char *name, tm_req *req);
/* Opens the source anew, changed or not. */
TM_MUST_CHECK int tm_session_reload(tm_session *session, const char *name, tm_req *req);

/* M was found to be out of date: what its name stands for is brought up to date, now or at its next
 * look-up. */
void tm_session_refresh(tm_session *session, const tm_mounted *m, tm_req *req);

/* What stands under a name now, referenced; NULL where nothing does. */
tm_mounted *tm_session_find(tm_session *session, const char *name);
/* What has this serial number, if it is still what its name stands for; referenced, or NULL. */
tm_mounted *tm_session_by_serial(tm_session *session, uint32_t serial);
/* The I-th name in order, referenced; NULL at the end. */
tm_mounted *tm_session_at(tm_session *session, size_t i);
/* A member of a collection, opened if it is not yet; -EINPROGRESS where that would mean to wait and
 * REQ may not. */
TM_MUST_CHECK int tm_session_member(tm_session *session, tm_mounted *collection, const char *name,
                                    tm_req *req, tm_mounted **ret);

/* Whether models/ shows a member of a collection. */
bool tm_session_shows(tm_session *session, const tm_member *member);

/* What a thread that waits for the source of SERIAL waits for: its disk (tm_job.key). */
uint64_t tm_session_key(tm_session *session, uint32_t serial);

/* The fingerprint of a model (64 hex digits): from its files' names, sizes, headers and a sample of
 * blocks; see formats/fingerprint.h. Computed once. May block. */
TM_MUST_CHECK int tm_session_fingerprint(tm_session *session, tm_mounted *m, tm_req *req,
                                         char ret[65]);

/* Calls FN with all that is mounted, in order of names: a collection, then those of its members
 * that are open, and theirs. No lock is held. */
typedef void tm_session_visit_fn(void *ctx, const tm_mounted *m);
void tm_session_each(tm_session *session, tm_session_visit_fn *fn, void *ctx);

#endif
