#include "fs/session.h"

#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "core/blob_http.h"
#include "formats/fingerprint.h"

enum {
    SERIAL_MAX = (1 << 18) - 1, /* inode numbers have 18 bits for it */
    DESCRIPTORS_SPARE = 64,     /* left to everything but sources */
    WATCH_PERIOD_S = 1,
};

struct tm_session {
    tm_sched *sched;
    tm_file_set *files;
    tm_log *log;

    pthread_mutex_t lock; /* guards what follows; not held while a source is opened */
    tm_mounted **top;     /* sorted by name */
    size_t top_count;
    tm_mounted **by_serial; /* borrowed from top and members; NULL: gone */
    uint32_t serial_count, serial_cap;
    tm_session_changed_fn *changed;
    void *changed_ctx;

    pthread_mutex_t opening; /* one source is opened at a time; taken before lock */
    bool watching, stopping;
    pthread_t watcher;
    pthread_cond_t wake;
};

/* ---- Serial numbers ---- */

static int new_serial(tm_session *s, tm_req *req, uint32_t *ret)
{
    pthread_mutex_lock(&s->lock);
    int rc = 0;
    if (s->serial_count == s->serial_cap) {
        uint32_t cap = s->serial_cap ? s->serial_cap * 2 : 64;
        tm_mounted **grown = reallocarray(s->by_serial, cap, sizeof(*grown));
        if (!grown) {
            rc = tm_fail(req, ENOMEM, "out of memory");
        } else {
            s->by_serial = grown;
            s->serial_cap = cap;
        }
    }
    if (rc == 0 && s->serial_count > SERIAL_MAX)
        rc = tm_fail(req, ENOSPC, "sources were opened %d times; mount anew", SERIAL_MAX);
    if (rc == 0) {
        *ret = s->serial_count++;
        s->by_serial[*ret] = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

/* The lock is held. */
static void forget_serials(tm_session *s, const tm_mounted *m)
{
    assert(m->serial < s->serial_count);
    s->by_serial[m->serial] = NULL;
    for (uint32_t i = 0; i < m->member_count; i++)
        if (m->members[i].opened)
            forget_serials(s, m->members[i].opened);
}

/* ---- Names ---- */

/* Where NAME stands or would stand in top. The lock is held. */
static size_t top_slot(const tm_session *s, const char *name, bool *ret_found)
{
    size_t lo = 0, hi = s->top_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (strcmp(s->top[mid]->name, name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    *ret_found = lo < s->top_count && strcmp(s->top[lo]->name, name) == 0;
    return lo;
}

tm_mounted *tm_session_find(tm_session *s, const char *name)
{
    bool found;
    pthread_mutex_lock(&s->lock);
    size_t at = top_slot(s, name, &found);
    tm_mounted *m = found ? tm_mounted_ref(s->top[at]) : NULL;
    pthread_mutex_unlock(&s->lock);
    return m;
}

tm_mounted *tm_session_by_serial(tm_session *s, uint32_t serial)
{
    pthread_mutex_lock(&s->lock);
    tm_mounted *m = serial < s->serial_count ? s->by_serial[serial] : NULL;
    if (m)
        tm_mounted_ref(m);
    pthread_mutex_unlock(&s->lock);
    return m;
}

tm_mounted *tm_session_at(tm_session *s, size_t i)
{
    pthread_mutex_lock(&s->lock);
    tm_mounted *m = i < s->top_count ? tm_mounted_ref(s->top[i]) : NULL;
    pthread_mutex_unlock(&s->lock);
    return m;
}

static int check_name(const char *name, tm_req *req)
{
    size_t len = strlen(name);
    if (len == 0 || len > 255 || strchr(name, '/') || strcmp(name, ".") == 0 ||
        strcmp(name, "..") == 0)
        return tm_fail(req, EINVAL, "'%s' cannot be a name in the mount", name);
    return 0;
}

char *tm_source_name(const char *source)
{
    size_t len = strlen(source);
    while (len > 1 && source[len - 1] == '/')
        len--;
    size_t start = len;
    while (start > 0 && source[start - 1] != '/')
        start--;
    return strndup(source + start, len - start);
}

/* "http://…", "hf://…", "s3://…": not a path. */
static bool is_url(const char *source)
{
    const char *colon = strstr(source, "://");
    if (!colon || colon == source)
        return false;
    for (const char *p = source; p < colon; p++)
        if (!(*p >= 'a' && *p <= 'z') && !(*p >= '0' && *p <= '9') && *p != '+')
            return false;
    return true;
}

/* SOURCE from the root, links kept, malloc'ed. */
static char *absolute_path(const char *source)
{
    TM_AUTO_FREE char *cwd = source[0] == '/' ? NULL : getcwd(NULL, 0);
    char *path;
    if (!cwd)
        return strdup(source);
    return asprintf(&path, "%s/%s", cwd, source) < 0 ? NULL : path;
}

/* ---- Opening ---- */

static int open_source(tm_session *s, const char *name, const char *source, tm_req *req,
                       tm_mounted **ret)
{
    tm_mounted_params params = {
        .sched = s->sched, .files = s->files, .name = name, .source = source};
    TM_AUTO(tm_mounted_unrefp) tm_mounted *m = NULL;
    TM_TRY(tm_mounted_open(&params, req, &m));
    /* Not before: a source that is away is tried again and again, and numbers are few. */
    TM_TRY(new_serial(s, req, &m->serial));
    if (m->words)
        tm_log_add(s->log, TM_LOG_WARNING, "%s", m->words);
    for (size_t i = 0; m->model && i < m->model->diag.count; i++)
        tm_log_add(s->log, TM_LOG_WARNING, "%s: %s", name, m->model->diag.lines[i].words);
    *ret = TM_STEAL(m);
    return 0;
}

static void tell_changed(tm_session *s, const tm_mounted *parent, const char *name,
                         const tm_mounted *was)
{
    pthread_mutex_lock(&s->lock);
    tm_session_changed_fn *changed = s->changed;
    void *ctx = s->changed_ctx;
    pthread_mutex_unlock(&s->lock);
    if (changed)
        changed(ctx, parent, name, was);
}

static int insert_top(tm_session *s, tm_mounted *m, tm_req *req)
{
    bool found;
    int rc = 0;
    pthread_mutex_lock(&s->lock);
    size_t at = top_slot(s, m->name, &found);
    tm_mounted **grown = found ? NULL : reallocarray(s->top, s->top_count + 1, sizeof(*grown));
    if (found) {
        rc = tm_fail(req, EEXIST, "'%s' is mounted already (%s); name this one: NAME=%s", m->name,
                     s->top[at]->source, m->source);
    } else if (!grown) {
        rc = tm_fail(req, ENOMEM, "out of memory");
    } else {
        s->top = grown;
        memmove(s->top + at + 1, s->top + at, (s->top_count - at) * sizeof(*s->top));
        s->top[at] = tm_mounted_ref(m);
        s->top_count++;
        s->by_serial[m->serial] = m;
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

int tm_session_add(tm_session *s, const char *name, const char *source, tm_req *req)
{
    assert(req->may_block);
    TM_AUTO_FREE char *chosen = name ? strdup(name) : tm_source_name(source);
    if (!chosen)
        return tm_fail(req, ENOMEM, "out of memory");
    TM_TRY(check_name(chosen, req));
    if (is_url(source)) {
        tm_blob *none;
        return tm_blob_http_new(s->sched, source, req, &none);
    }
    /* The daemon works elsewhere than where its user stands. */
    TM_AUTO_FREE char *path = absolute_path(source);
    if (!path)
        return tm_fail(req, ENOMEM, "out of memory");
    TM_AUTO(tm_mounted_unrefp) tm_mounted *m = NULL;
    pthread_mutex_lock(&s->opening);
    int rc = open_source(s, chosen, path, req, &m);
    if (rc == 0)
        rc = insert_top(s, m, req);
    pthread_mutex_unlock(&s->opening);
    if (rc == 0)
        tell_changed(s, NULL, chosen, NULL);
    return rc;
}

/* Puts FRESH (NULL: nothing) where NAME stands; returns what stood there, referenced, or NULL. */
static tm_mounted *replace_top(tm_session *s, const char *name, tm_mounted *fresh)
{
    bool found;
    pthread_mutex_lock(&s->lock);
    size_t at = top_slot(s, name, &found);
    tm_mounted *was = found ? s->top[at] : NULL;
    if (was) {
        forget_serials(s, was);
        if (fresh) {
            s->top[at] = tm_mounted_ref(fresh);
            s->by_serial[fresh->serial] = fresh;
        } else {
            memmove(s->top + at, s->top + at + 1, (s->top_count - at - 1) * sizeof(*s->top));
            s->top_count--;
        }
    }
    pthread_mutex_unlock(&s->lock);
    return was;
}

int tm_session_remove(tm_session *s, const char *name, tm_req *req)
{
    TM_AUTO(tm_mounted_unrefp) tm_mounted *was = replace_top(s, name, NULL);
    if (!was)
        return tm_fail(req, EINVAL, "'%s' is not mounted", name);
    tell_changed(s, NULL, name, was);
    return 0;
}

int tm_session_reload(tm_session *s, const char *name, tm_req *req)
{
    assert(req->may_block);
    TM_AUTO(tm_mounted_unrefp) tm_mounted *fresh = NULL;
    pthread_mutex_lock(&s->opening); /* from here on no other source takes the name */
    TM_AUTO(tm_mounted_unrefp) tm_mounted *now = tm_session_find(s, name);
    int rc = now ? open_source(s, name, now->source, req, &fresh)
                 : tm_fail(req, EINVAL, "'%s' is not mounted", name);
    TM_AUTO(tm_mounted_unrefp) tm_mounted *was = rc == 0 ? replace_top(s, name, fresh) : NULL;
    pthread_mutex_unlock(&s->opening);
    if (was)
        tell_changed(s, NULL, name, was);
    return rc;
}

/* ---- Members of collections ---- */

/* The member that is open already, referenced; NULL where it is not. */
static tm_mounted *opened_member(tm_session *s, tm_member *member)
{
    pthread_mutex_lock(&s->lock);
    tm_mounted *m = member->opened ? tm_mounted_ref(member->opened) : NULL;
    pthread_mutex_unlock(&s->lock);
    return m;
}

/* Puts FRESH where the member stands; returns what stood there (the reference too), or NULL. Where
 * the collection itself is gone, FRESH is for its caller alone. */
static tm_mounted *replace_member(tm_session *s, tm_mounted *collection, tm_member *member,
                                  tm_mounted *fresh)
{
    pthread_mutex_lock(&s->lock);
    tm_mounted *was = member->opened;
    if (was)
        forget_serials(s, was);
    member->opened = fresh ? tm_mounted_ref(fresh) : NULL;
    if (fresh && s->by_serial[collection->serial] == collection)
        s->by_serial[fresh->serial] = fresh;
    pthread_mutex_unlock(&s->lock);
    return was;
}

static int open_member(tm_session *s, tm_mounted *collection, tm_member *member, tm_req *req,
                       tm_mounted **ret)
{
    TM_AUTO_FREE char *source = tm_listing_path(&collection->listing, member->name);
    TM_AUTO_FREE char *name = NULL;
    if (!source || asprintf(&name, "%s/%s", collection->name, member->name) < 0)
        return tm_fail(req, ENOMEM, "out of memory");
    return open_source(s, name, source, req, ret);
}

int tm_session_member(tm_session *s, tm_mounted *collection, const char *name, tm_req *req,
                      tm_mounted **ret)
{
    assert(collection->is_collection);
    tm_member *member = tm_mounted_member(collection, name);
    if (!member)
        return -ENOENT;
    *ret = opened_member(s, member);
    if (*ret)
        return 0;
    if (!req->may_block)
        return -EINPROGRESS;
    pthread_mutex_lock(&s->opening);
    int rc = 0;
    *ret = opened_member(s, member);
    if (!*ret) {
        rc = open_member(s, collection, member, req, ret);
        if (rc == 0)
            tm_mounted_unref(replace_member(s, collection, member, *ret));
    }
    pthread_mutex_unlock(&s->opening);
    return rc;
}

/* ---- Watching ---- */

/* Its source cannot be opened: the name stays, empty, until it can. */
static void mark_gone(tm_session *s, const tm_mounted *m, const char *words)
{
    tm_mounted_params params = {.name = m->name, .source = m->source};
    TM_AUTO(tm_mounted_unrefp) tm_mounted *gone = NULL;
    TM_AUTO(tm_mounted_unrefp) tm_mounted *was = NULL;
    pthread_mutex_lock(&s->opening);
    TM_AUTO(tm_mounted_unrefp) tm_mounted *now = tm_session_find(s, m->name);
    if (now == m && new_serial(s, NULL, &params.serial) == 0 &&
        tm_mounted_gone(&params, words, NULL, &gone) == 0)
        was = replace_top(s, m->name, gone);
    pthread_mutex_unlock(&s->opening);
    if (!was)
        return; /* as it stands, its reads fail with words; tried again in a second */
    tm_log_add(s->log, TM_LOG_ERROR, "%s: %s", m->name, words);
    tell_changed(s, NULL, m->name, was);
}

static void reopen_top(tm_session *s, const tm_mounted *m)
{
    tm_req req;
    tm_req_init(&req, TM_LANE_VISIBLE);
    req.may_block = true;
    int rc = tm_session_reload(s, m->name, &req);
    if (rc == 0)
        tm_log_add(s->log, TM_LOG_INFO, "%s: %s has changed and was opened anew", m->name,
                   m->source);
    else if (!tm_mounted_is_gone(m))
        mark_gone(s, m, tm_req_words(&req));
}

/* Closes a member that has changed: its next look-up opens it. */
static void close_member(tm_session *s, tm_mounted *collection, tm_member *member)
{
    TM_AUTO(tm_mounted_unrefp) tm_mounted *was = replace_member(s, collection, member, NULL);
    if (was)
        tell_changed(s, collection, member->name, was);
}

/* Members that have changed are closed: the next look-up opens them. */
static void check_members(tm_session *s, tm_mounted *collection)
{
    for (uint32_t i = 0; i < collection->member_count; i++) {
        tm_member *member = &collection->members[i];
        TM_AUTO(tm_mounted_unrefp) tm_mounted *m = opened_member(s, member);
        if (!m)
            continue;
        if (tm_mounted_is_current(m)) {
            check_members(s, m);
            continue;
        }
        tm_log_add(s->log, TM_LOG_INFO, "%s: %s has changed", m->name, m->source);
        close_member(s, collection, member);
    }
}

/* The collection that M is a member of, referenced, and which one; NULL where M is at the top. */
static tm_mounted *collection_of(tm_session *s, const tm_mounted *m, tm_member **ret)
{
    TM_AUTO_FREE char *path = strdup(m->name);
    char *rest = path;
    char *name = path ? strsep(&rest, "/") : NULL;
    if (!name || !rest)
        return NULL;
    tm_mounted *at = tm_session_find(s, name);
    while (at && (name = strsep(&rest, "/"))) {
        tm_member *member = tm_mounted_member(at, name);
        if (member && !rest) {
            *ret = member;
            return at;
        }
        tm_mounted *next = member ? opened_member(s, member) : NULL;
        tm_mounted_unref(at);
        at = next;
    }
    return tm_mounted_unref(at);
}

void tm_session_refresh(tm_session *s, const tm_mounted *m)
{
    TM_AUTO(tm_mounted_unrefp) tm_mounted *now = tm_session_by_serial(s, m->serial);
    tm_member *member = NULL;
    if (now != m)
        return; /* somebody was first */
    TM_AUTO(tm_mounted_unrefp) tm_mounted *collection = collection_of(s, m, &member);
    if (collection)
        close_member(s, collection, member);
    else
        reopen_top(s, m);
}

static void check_all(tm_session *s)
{
    for (size_t i = 0;; i++) {
        TM_AUTO(tm_mounted_unrefp) tm_mounted *m = tm_session_at(s, i);
        if (!m)
            return;
        if (tm_mounted_is_current(m))
            check_members(s, m);
        else
            reopen_top(s, m);
    }
}

static void *watch_main(void *arg)
{
    tm_session *s = arg;
    pthread_setname_np(pthread_self(), "tm-watch");
    pthread_mutex_lock(&s->lock);
    while (!s->stopping) {
        struct timespec at;
        clock_gettime(CLOCK_REALTIME, &at);
        at.tv_sec += WATCH_PERIOD_S;
        pthread_cond_timedwait(&s->wake, &s->lock, &at);
        if (s->stopping)
            break;
        pthread_mutex_unlock(&s->lock);
        check_all(s);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

void tm_session_on_change(tm_session *s, tm_session_changed_fn *fn, void *ctx)
{
    pthread_mutex_lock(&s->lock);
    s->changed = fn;
    s->changed_ctx = ctx;
    pthread_mutex_unlock(&s->lock);
}

/* ---- The session itself ---- */

/* Raises the limit as far as it goes; what is spared of it may be kept open. */
static unsigned descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return DESCRIPTORS_SPARE;
    if (limit.rlim_cur < limit.rlim_max) {
        rlim_t was = limit.rlim_cur;
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
            limit.rlim_cur = was;
    }
    uint64_t max = tm_min_u64(limit.rlim_cur, 1 << 20);
    return max > 2 * DESCRIPTORS_SPARE ? (unsigned)max - DESCRIPTORS_SPARE : DESCRIPTORS_SPARE;
}

static int session_init(tm_session *s, const tm_session_params *params, tm_req *req)
{
    int rc = tm_log_new(params->log, &s->log);
    if (rc < 0)
        return tm_fail(req, -rc, "log %s: %s", params->log ? params->log : "", strerror(-rc));
    rc = tm_file_set_new(params->descriptors ? params->descriptors : descriptor_limit(), &s->files);
    if (rc == 0)
        rc = tm_sched_new(&(tm_sched_params){.workers = params->threads}, &s->sched);
    if (rc == 0 && params->watch) {
        rc = -pthread_create(&s->watcher, NULL, watch_main, s);
        s->watching = rc == 0;
    }
    return rc < 0 ? tm_fail(req, -rc, "starting threads: %s", strerror(-rc)) : 0;
}

int tm_session_new(const tm_session_params *params, tm_req *req, tm_session **ret)
{
    tm_session *s = TM_NEW(tm_session);
    if (!s)
        return tm_fail(req, ENOMEM, "out of memory");
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->opening, NULL);
    pthread_cond_init(&s->wake, NULL);
    s->serial_count = 0;
    uint32_t none; /* serial 0 is the mount's own files */
    int rc = new_serial(s, req, &none);
    if (rc == 0)
        rc = session_init(s, params, req);
    if (rc < 0) {
        tm_session_free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void tm_session_stop(tm_session *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    if (s->watching)
        pthread_join(s->watcher, NULL);
    s->watching = false;
}

void tm_session_free(tm_session *s)
{
    if (!s)
        return;
    tm_session_stop(s);
    tm_sched_free(s->sched);
    for (size_t i = 0; i < s->top_count; i++)
        tm_mounted_unref(s->top[i]);
    free(s->top);
    free(s->by_serial);
    tm_file_set_free(s->files);
    tm_log_free(s->log);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->opening);
    free(s);
}

tm_sched *tm_session_sched(tm_session *s)
{
    return s->sched;
}

tm_file_set *tm_session_files(tm_session *s)
{
    return s->files;
}

tm_log *tm_session_log(tm_session *s)
{
    return s->log;
}

int tm_session_fingerprint(tm_session *s, tm_mounted *m, tm_req *req, char ret[65])
{
    pthread_mutex_lock(&m->lock);
    memcpy(ret, m->fingerprint, sizeof(m->fingerprint));
    pthread_mutex_unlock(&m->lock);
    if (ret[0])
        return 0;
    TM_TRY(tm_fingerprint(s->sched, m->model, req, ret));
    pthread_mutex_lock(&m->lock);
    memcpy(m->fingerprint, ret, sizeof(m->fingerprint));
    pthread_mutex_unlock(&m->lock);
    return 0;
}
