#include "fs/session.h"

#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "core/blob_http.h"
#include "core/prefetch.h"
#include "formats/fingerprint.h"
#include "fs/background.h"

enum {
    SERIAL_MAX = (1 << 18) - 1, /* inode numbers have 18 bits for it */
    DESCRIPTORS_SPARE = 64,     /* left to everything but sources */
    WATCH_PERIOD_S = 1,
    TURN_CHECK_MS = 100, /* how late a cancel is noticed by who waits for its turn */
    DEPTH_MAX = 16,      /* of collections in collections: a link that leads back has no end */
};

/* A thread that opens what one name stands for; on its stack. */
typedef struct turn {
    const char *name;
    struct turn *next;
} turn;

struct tm_session {
    tm_sched *sched;
    tm_file_set *files;
    tm_log *log;
    tm_store *store;
    char *index_folder;
    tm_background *background;

    pthread_mutex_t lock; /* guards what follows; not held while a source is opened */
    tm_mounted **top;     /* sorted by name */
    size_t top_count;
    tm_mounted **by_serial; /* borrowed from top and members; NULL: gone */
    uint32_t serial_count, serial_cap;
    turn *turns; /* no two of one name */
    pthread_cond_t turn_ended;

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

/* What has the serial number of M and of each of its members now: they, or nothing. The lock is
 * held. */
static void set_serials(tm_session *s, tm_mounted *m, bool there)
{
    assert(m->serial < s->serial_count);
    s->by_serial[m->serial] = there ? m : NULL;
    for (uint32_t i = 0; i < m->member_count; i++)
        if (m->members[i].opened)
            set_serials(s, m->members[i].opened, there);
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

char *tm_source_path(const char *source)
{
    TM_AUTO_FREE char *cwd = source[0] == '/' ? NULL : getcwd(NULL, 0);
    char *path;
    if (!cwd)
        return strdup(source);
    return asprintf(&path, "%s/%s", cwd, source) < 0 ? NULL : path;
}

/* ---- Places: where what a name stands for is kept ---- */

/* The place of NAME ("run/checkpoint-1"): NULL where there is none. The lock is held. */
static tm_mounted **place_of(tm_session *s, const char *name)
{
    char part[256];
    size_t len = strcspn(name, "/");
    bool found;
    if (len >= sizeof(part))
        return NULL;
    memcpy(part, name, len);
    part[len] = '\0';
    size_t at = top_slot(s, part, &found);
    tm_mounted **place = found ? &s->top[at] : NULL;
    for (name += len; place && *name; name += len) {
        name++; /* the slash */
        len = strcspn(name, "/");
        if (!*place || len >= sizeof(part))
            return NULL;
        memcpy(part, name, len);
        part[len] = '\0';
        tm_member *member = tm_mounted_member(*place, part);
        place = member ? &member->opened : NULL;
    }
    return place;
}

/* What stands under NAME, referenced; NULL where nothing does. */
static tm_mounted *standing(tm_session *s, const char *name)
{
    pthread_mutex_lock(&s->lock);
    tm_mounted **place = place_of(s, name);
    tm_mounted *m = place && *place ? tm_mounted_ref(*place) : NULL;
    pthread_mutex_unlock(&s->lock);
    return m;
}

/* FRESH takes the place of WAS under the same number: its members stay open. The lock is held. */
static void carry_members(tm_mounted *fresh, const tm_mounted *was)
{
    for (uint32_t i = 0; i < was->member_count; i++) {
        tm_member *member = tm_mounted_member(fresh, was->members[i].name);
        if (member && was->members[i].opened)
            member->opened = tm_mounted_ref(was->members[i].opened);
    }
}

static void remove_from_top(tm_session *s, tm_mounted **place)
{
    size_t at = (size_t)(place - s->top);
    memmove(place, place + 1, (s->top_count - at - 1) * sizeof(*s->top));
    s->top_count--;
}

/* What was computed of M and its members goes with them. */
static void drop_tiles(tm_session *s, const tm_mounted *m)
{
    tm_store_drop(s->store, m->serial);
    tm_prefetch_cancel(s->sched, m);
    for (uint32_t i = 0; i < m->member_count; i++)
        if (m->members[i].opened)
            drop_tiles(s, m->members[i].opened);
}

/* Puts FRESH (NULL: nothing) where WAS stands under NAME; false where something else stands there
 * by now. */
static bool replace(tm_session *s, const char *name, tm_mounted *was, tm_mounted *fresh)
{
    pthread_mutex_lock(&s->lock);
    tm_mounted **place = place_of(s, name);
    bool stood = place && *place == was;
    if (stood)
        set_serials(s, was, false);
    if (stood && fresh) {
        if (was->serial == fresh->serial)
            carry_members(fresh, was);
        *place = tm_mounted_ref(fresh);
        set_serials(s, fresh, true);
    } else if (stood && strchr(name, '/')) {
        *place = NULL;
    } else if (stood) {
        remove_from_top(s, place);
    }
    pthread_mutex_unlock(&s->lock);
    if (stood) {
        if (!fresh || fresh->serial != was->serial)
            drop_tiles(s, was);
        tm_mounted_unref(was);
    }
    return stood;
}

/* ---- All of them ---- */

/* The member that is open, referenced; NULL where it is not. */
static tm_mounted *opened_member(tm_session *s, const tm_member *member)
{
    pthread_mutex_lock(&s->lock);
    tm_mounted *m = member->opened ? tm_mounted_ref(member->opened) : NULL;
    pthread_mutex_unlock(&s->lock);
    return m;
}

bool tm_session_shows(tm_session *s, const tm_member *member)
{
    TM_AUTO(tm_mounted_unrefp) tm_mounted *m = opened_member(s, member);
    return m ? tm_mounted_has_models(m) : member->shown;
}

uint64_t tm_session_key(tm_session *s, uint32_t serial)
{
    TM_AUTO(tm_mounted_unrefp) tm_mounted *m = tm_session_by_serial(s, serial);
    return m ? tm_mounted_key(m) : 0;
}

static void visit(tm_session *s, tm_mounted *m, tm_session_visit_fn *fn, void *ctx)
{
    fn(ctx, m);
    for (uint32_t i = 0; i < m->member_count; i++) {
        TM_AUTO(tm_mounted_unrefp) tm_mounted *member = opened_member(s, &m->members[i]);
        if (member)
            visit(s, member, fn, ctx);
    }
}

void tm_session_each(tm_session *s, tm_session_visit_fn *fn, void *ctx)
{
    for (size_t i = 0;; i++) {
        TM_AUTO(tm_mounted_unrefp) tm_mounted *m = tm_session_at(s, i);
        if (!m)
            return;
        visit(s, m, fn, ctx);
    }
}

/* ---- Turns: one thread at a time opens what a name stands for ---- */

static bool is_taken(const tm_session *s, const char *name)
{
    const turn *t = s->turns;
    while (t && strcmp(t->name, name) != 0)
        t = t->next;
    return t;
}

static int begin_turn(tm_session *s, turn *t, const char *name, tm_req *req)
{
    int rc = 0;
    pthread_mutex_lock(&s->lock);
    while (is_taken(s, name) && (rc = tm_req_check_wait(req)) == 0) {
        struct timespec at = tm_after_ms(TURN_CHECK_MS);
        pthread_cond_clockwait(&s->turn_ended, &s->lock, CLOCK_MONOTONIC, &at);
    }
    if (rc == 0) {
        *t = (turn){name, s->turns};
        s->turns = t;
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static void end_turn(tm_session *s, turn *t)
{
    pthread_mutex_lock(&s->lock);
    turn **link = &s->turns;
    while (*link != t)
        link = &(*link)->next;
    *link = t->next;
    pthread_cond_broadcast(&s->turn_ended);
    pthread_mutex_unlock(&s->lock);
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
        set_serials(s, m, true);
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
    TM_AUTO_FREE char *path = tm_source_path(source);
    if (!path)
        return tm_fail(req, ENOMEM, "out of memory");
    TM_AUTO(tm_mounted_unrefp) tm_mounted *m = NULL;
    TM_TRY(open_source(s, chosen, path, req, &m));
    return insert_top(s, m, req);
}

static int not_mounted(const char *name, tm_req *req)
{
    return tm_fail(req, EINVAL, "'%s' is not mounted", name);
}

int tm_session_remove(tm_session *s, const char *name, tm_req *req)
{
    for (;;) {
        TM_AUTO(tm_mounted_unrefp) tm_mounted *m = tm_session_find(s, name);
        if (!m)
            return not_mounted(name, req);
        if (replace(s, name, m, NULL))
            return 0;
    }
}

static void drop_visited(void *ctx, const tm_mounted *m)
{
    tm_store_drop(((tm_session *)ctx)->store, m->serial);
}

int tm_session_get(tm_session *s, const char *name, tm_req *req, tm_mounted **ret)
{
    *ret = standing(s, name);
    return *ret ? 0 : not_mounted(name, req);
}

int tm_session_drop(tm_session *s, const char *name, tm_req *req)
{
    TM_AUTO(tm_mounted_unrefp) tm_mounted *m = NULL;
    TM_TRY(tm_session_get(s, name, req, &m));
    visit(s, m, drop_visited, s);
    return 0;
}

int tm_session_reload(tm_session *s, const char *name, tm_req *req)
{
    assert(req->may_block);
    turn t;
    TM_TRY(begin_turn(s, &t, name, req));
    TM_AUTO(tm_mounted_unrefp) tm_mounted *fresh = NULL;
    TM_AUTO(tm_mounted_unrefp) tm_mounted *was = tm_session_find(s, name);
    int rc = was ? open_source(s, name, was->source, req, &fresh) : not_mounted(name, req);
    /* In its turn only a removal can come between. */
    if (rc == 0 && !replace(s, name, was, fresh))
        rc = not_mounted(name, req);
    end_turn(s, &t);
    return rc;
}

/* ---- Members of collections ---- */

/* M becomes the member that COLLECTION has under the same name, unless that is gone by now or
 * another one stands there: then M is for its caller alone. */
static void keep_member(tm_session *s, const tm_mounted *collection, tm_mounted *m)
{
    pthread_mutex_lock(&s->lock);
    tm_mounted **parent = place_of(s, collection->name);
    tm_mounted **place =
        parent && *parent && (*parent)->serial == collection->serial ? place_of(s, m->name) : NULL;
    if (place && !*place) {
        *place = tm_mounted_ref(m);
        set_serials(s, m, true);
    }
    pthread_mutex_unlock(&s->lock);
}

static int open_member(tm_session *s, tm_mounted *collection, const char *member, const char *name,
                       tm_req *req, tm_mounted **ret)
{
    TM_AUTO_FREE char *source = tm_listing_path(&collection->listing, member);
    if (!source)
        return tm_fail(req, ENOMEM, "out of memory");
    TM_TRY(open_source(s, name, source, req, ret));
    keep_member(s, collection, *ret);
    return 0;
}

int tm_session_member(tm_session *s, tm_mounted *collection, const char *member, tm_req *req,
                      tm_mounted **ret)
{
    assert(collection->is_collection);
    TM_AUTO_FREE char *name = NULL;
    if (!tm_mounted_member(collection, member))
        return -ENOENT;
    if (asprintf(&name, "%s/%s", collection->name, member) < 0)
        return tm_fail(req, ENOMEM, "out of memory");
    *ret = standing(s, name);
    if (*ret)
        return 0;
    if (tm_mounted_depth(collection) >= DEPTH_MAX)
        return tm_fail(req, ELOOP, "%s: collections in collections without end", name);
    if (!req->may_block)
        return -EINPROGRESS;
    turn t;
    TM_TRY(begin_turn(s, &t, name, req));
    *ret = standing(s, name);
    int rc = *ret ? 0 : open_member(s, collection, member, name, req, ret);
    end_turn(s, &t);
    return rc;
}

/* ---- Keeping up with the sources ---- */

/* Its source cannot be opened: the name stays, empty, until it can. */
static void mark_gone(tm_session *s, tm_mounted *was, const char *words)
{
    tm_mounted_params params = {.name = was->name, .source = was->source};
    TM_AUTO(tm_mounted_unrefp) tm_mounted *gone = NULL;
    if (new_serial(s, NULL, &params.serial) == 0 &&
        tm_mounted_gone(&params, words, NULL, &gone) == 0 && replace(s, was->name, was, gone))
        tm_log_add(s->log, TM_LOG_ERROR, "%s: %s", was->name, words);
}

static int open_anew(tm_session *s, tm_mounted *was, tm_req *req)
{
    TM_AUTO(tm_mounted_unrefp) tm_mounted *fresh = NULL;
    TM_TRY(open_source(s, was->name, was->source, req, &fresh));
    if (replace(s, was->name, was, fresh))
        tm_log_add(s->log, TM_LOG_INFO, "%s: %s has changed and was opened anew", was->name,
                   was->source);
    return 0;
}

/* Something of M's source has changed; it is M's turn. A member is opened by its next look-up. */
static int follow(tm_session *s, tm_mounted *m, tm_req *req)
{
    TM_AUTO(tm_mounted_unrefp) tm_mounted *fresh = NULL;
    int rc = tm_mounted_relist(m, req, &fresh);
    if (rc == 0) {
        tm_ignore(replace(s, m->name, m, fresh));
        return 0;
    }
    TM_TRY(tm_req_check_wait(req));
    if (strchr(m->name, '/')) {
        if (replace(s, m->name, m, NULL))
            tm_log_add(s->log, TM_LOG_INFO, "%s: %s has changed", m->name, m->source);
        return 0;
    }
    tm_req anew;
    tm_req_init_part(&anew, req);
    rc = open_anew(s, m, &anew);
    /* Any other trouble may pass: what stands stays, and is tried again in a second. */
    bool gone = rc == -ENOENT || rc == -ENOTDIR || rc == -ELOOP;
    if (gone && !tm_mounted_is_gone(m))
        mark_gone(s, m, tm_req_words(&anew));
    return rc;
}

/* Sees to it that what NAME stands for is what its source is. */
static void keep_up(tm_session *s, const char *name, tm_req *req)
{
    turn t;
    if (begin_turn(s, &t, name, req) < 0)
        return;
    TM_AUTO(tm_mounted_unrefp) tm_mounted *m = standing(s, name);
    if (m && !tm_mounted_is_current(m))
        tm_ignore(follow(s, m, req)); /* as it stands, its reads fail with words */
    end_turn(s, &t);
}

void tm_session_refresh(tm_session *s, const tm_mounted *m, tm_req *req)
{
    tm_req part; /* the words of REQ are those of what was found */
    tm_req_init_part(&part, req);
    keep_up(s, m->name, &part);
}

/* ---- Watching ---- */

typedef struct check_job {
    tm_job job;
    tm_session *session;
    tm_mounted *m; /* referenced */
} check_job;

static void run_check(tm_job *job)
{
    check_job *self = TM_CONTAINER(job, check_job, job);
    tm_req req;
    tm_req_init(&req, job->lane);
    req.may_block = true;
    keep_up(self->session, self->m->name, &req);
    atomic_store(&self->m->checking, false);
    tm_mounted_unref(self->m);
    free(self);
}

/* Each on an opener's thread of its own: one that hangs keeps back nobody else. */
static void start_check(void *ctx, const tm_mounted *standing_now)
{
    tm_mounted *m = (tm_mounted *)(uintptr_t)standing_now; /* it is counted and flagged, no more */
    tm_session *s = ctx;
    check_job *self = atomic_exchange(&m->checking, true) ? NULL : malloc(sizeof(*self));
    if (!self)
        return; /* it is being checked, or will be in a second */
    *self = (check_job){
        .job = {.run = run_check, .lane = TM_LANE_VISIBLE, .key = tm_mounted_key(m)},
        .session = s,
        .m = tm_mounted_ref(m),
    };
    tm_pool_submit(s->sched->openers, &self->job);
}

static void *watch_main(void *arg)
{
    tm_session *s = arg;
    pthread_setname_np(pthread_self(), "tm-watch");
    pthread_mutex_lock(&s->lock);
    while (!s->stopping) {
        struct timespec at = tm_after_ms(WATCH_PERIOD_S * 1000);
        pthread_cond_clockwait(&s->wake, &s->lock, CLOCK_MONOTONIC, &at);
        pthread_mutex_unlock(&s->lock);
        tm_session_each(s, start_check, s);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
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

/* A quarter of the memory, but not more than most can spare without asking. */
static uint64_t default_budget(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t memory = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
    return tm_min_u64(memory / 4, UINT64_C(512) << 20);
}

static int session_init(tm_session *s, const tm_session_params *params, tm_req *req)
{
    int rc = tm_log_new(params->log, &s->log);
    if (rc < 0)
        return tm_fail(req, -rc, "log %s: %s", params->log ? params->log : "", strerror(-rc));
    if (params->index_folder && !(s->index_folder = strdup(params->index_folder)))
        return tm_fail(req, ENOMEM, "out of memory");
    rc = tm_store_new(params->budget ? params->budget : default_budget(), &s->store);
    if (rc == 0)
        rc = tm_file_set_new(params->descriptors ? params->descriptors : descriptor_limit(),
                             &s->files);
    if (rc == 0)
        rc = tm_sched_new(&(tm_sched_params){.workers = params->threads}, &s->sched);
    if (rc == 0)
        rc = tm_background_new(s, params->index, &s->background);
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
    pthread_cond_init(&s->wake, NULL);
    pthread_cond_init(&s->turn_ended, NULL);
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
    tm_background_stop(s->background);
}

void tm_session_free(tm_session *s)
{
    if (!s)
        return;
    tm_session_stop(s);
    tm_sched_free(s->sched);
    tm_background_free(s->background);
    tm_store_free(s->store); /* whose tiles hold tensors and files */
    for (size_t i = 0; i < s->top_count; i++)
        tm_mounted_unref(s->top[i]);
    free(s->top);
    free(s->by_serial);
    tm_file_set_free(s->files);
    tm_log_free(s->log);
    free(s->index_folder);
    pthread_cond_destroy(&s->wake);
    pthread_cond_destroy(&s->turn_ended);
    pthread_mutex_destroy(&s->lock);
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

tm_store *tm_session_store(tm_session *s)
{
    return s->store;
}

tm_background *tm_session_background(tm_session *s)
{
    return s->background;
}

const char *tm_session_index_folder(const tm_session *s)
{
    return s->index_folder;
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
