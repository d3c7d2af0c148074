#include "fs/background.h"

#include <sched.h>
#include <stdio.h>

#include "fs/indexing.h"

enum {
    LOOK_PERIOD_MS = 1000 /* where all are indexed: how often new ones are looked for */
};

/* A checkpoint or collection that was asked for. */
typedef struct asked {
    tm_mounted *m; /* referenced */
    bool pyramids;
    struct asked *next;
} asked;

struct tm_background {
    tm_session *session;
    bool all;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake;
    pthread_t thread;
    bool started, stopping;
    asked *first, **last;
    asked *doing;   /* what was asked for and is under way */
    bool busy;      /* a pass is under way */
    char **stopped; /* names that were cancelled while this pass goes on */
    uint32_t stopped_count;
    uint32_t *seen; /* serial numbers that need nothing more, but where they are asked for */
    uint32_t seen_count, seen_cap;
    tm_mounted *current; /* being indexed, referenced; NULL: none */
    tm_req *req;         /* of that, or of a member that is being opened */
    uint64_t done;       /* bytes of it */
};

/* ---- What is to be done ---- */

static bool is_seen(const tm_background *b, uint32_t serial)
{
    for (uint32_t i = 0; i < b->seen_count; i++)
        if (b->seen[i] == serial)
            return true;
    return false;
}

/* Where memory is short it is indexed again: that finds it ready. The lock is held. */
static void see(tm_background *b, uint32_t serial)
{
    if (is_seen(b, serial))
        return;
    if (b->seen_count == b->seen_cap) {
        uint32_t cap = b->seen_cap ? 2 * b->seen_cap : 64;
        uint32_t *seen = reallocarray(b->seen, cap, sizeof(*seen));
        if (!seen)
            return;
        b->seen = seen;
        b->seen_cap = cap;
    }
    b->seen[b->seen_count++] = serial;
}

static bool is_stopping(tm_background *b)
{
    pthread_mutex_lock(&b->lock);
    bool stopping = b->stopping;
    pthread_mutex_unlock(&b->lock);
    return stopping;
}

/* Whether NAME is WHOLE, or that of a member of it. */
static bool is_within(const char *whole, const char *name)
{
    size_t len = strlen(whole);
    return strncmp(name, whole, len) == 0 && (name[len] == '\0' || name[len] == '/');
}

/* The lock is held. */
static bool is_stopped(const tm_background *b, const char *name)
{
    for (uint32_t i = 0; i < b->stopped_count; i++)
        if (is_within(b->stopped[i], name))
            return true;
    return b->stopping;
}

/* The lock is held. Where memory is short the cancel is heard by what runs now alone. */
static void stop_name(tm_background *b, const char *name)
{
    char **grown = reallocarray(b->stopped, b->stopped_count + 1, sizeof(*grown));
    if (!grown)
        return;
    b->stopped = grown;
    if ((grown[b->stopped_count] = strdup(name)))
        b->stopped_count++;
}

static void forget_stopped(tm_background *b)
{
    while (b->stopped_count)
        free(b->stopped[--b->stopped_count]);
}

/* Whether M, or what is in it, is to be indexed. ASKED: it was asked for. */
static bool is_wanted(tm_background *b, const tm_mounted *m, bool asked_for)
{
    pthread_mutex_lock(&b->lock);
    bool wanted = !is_stopped(b, m->name) && (asked_for || !is_seen(b, m->serial));
    pthread_mutex_unlock(&b->lock);
    return wanted;
}

static void set_current(tm_background *b, tm_mounted *m, tm_req *req)
{
    pthread_mutex_lock(&b->lock);
    tm_mounted *was = b->current;
    b->current = m ? tm_mounted_ref(m) : NULL;
    b->req = req;
    b->done = 0;
    if (req && is_stopped(b, m->name))
        atomic_store(&req->cancelled, true);
    if (was)
        see(b, was->serial);
    pthread_mutex_unlock(&b->lock);
    tm_mounted_unref(was);
}

/* ---- Doing it ---- */

static void tell(void *ctx, uint64_t done, uint64_t total)
{
    tm_background *b = ctx;
    (void)total;
    pthread_mutex_lock(&b->lock);
    b->done = done;
    pthread_mutex_unlock(&b->lock);
}

static void log_end(tm_background *b, const tm_mounted *m, int rc, const tm_req *req,
                    const tm_indexing_report *report)
{
    tm_log *log = tm_session_log(b->session);
    if (rc == -EINTR)
        tm_log_add(log, TM_LOG_INFO, "%s: indexing was stopped; it goes on where it was", m->name);
    else if (rc < 0)
        tm_log_add(log, TM_LOG_ERROR, "%s: not indexed: %s", m->name, tm_req_words(req));
    else if (report->scanned)
        tm_log_add(log, TM_LOG_INFO, "%s: indexed: %u tensors in %u files", m->name,
                   report->tensors, report->shards);
}

static void index_one(tm_background *b, tm_mounted *m, bool pyramids)
{
    tm_req req;
    tm_req_init(&req, TM_LANE_INDEX);
    req.may_block = true;
    tm_indexing_params params = {.session = b->session,
                                 .mounted = m,
                                 .pyramids = pyramids,
                                 .lane = TM_LANE_INDEX,
                                 .progress = tell,
                                 .ctx = b};
    tm_indexing_report report;
    set_current(b, m, &req);
    int rc = tm_indexing_run(&params, &req, &report);
    log_end(b, m, rc, &req, &report);
    set_current(b, NULL, NULL);
}

/* The member of M called NAME; NULL where it cannot be opened, or need not: M was cancelled. */
static tm_mounted *open_member(tm_background *b, tm_mounted *m, const char *name)
{
    tm_mounted *member = NULL;
    tm_req req;
    tm_req_init(&req, TM_LANE_INDEX);
    req.may_block = true;
    pthread_mutex_lock(&b->lock);
    b->req = &req; /* so that the end of the mount need not wait for a source that hangs */
    bool wanted = !is_stopped(b, m->name);
    pthread_mutex_unlock(&b->lock);
    if (wanted && tm_session_member(b->session, m, name, &req, &member) < 0)
        member = NULL;
    pthread_mutex_lock(&b->lock);
    b->req = NULL;
    pthread_mutex_unlock(&b->lock);
    return member;
}

/* M, or every checkpoint in it. HOW: as it was asked for; NULL: it was not, so only what was not
 * seen yet. */
static void index_below(tm_background *b, tm_mounted *m, const asked *how)
{
    if (!is_wanted(b, m, how))
        return;
    if (m->model)
        index_one(b, m, how && how->pyramids);
    for (uint32_t i = 0; i < m->member_count; i++) {
        TM_AUTO(tm_mounted_unrefp) tm_mounted *member = NULL;
        if (m->members[i].shown && is_wanted(b, m, how))
            member = open_member(b, m, m->members[i].name);
        if (member)
            index_below(b, member, how);
    }
}

static void index_what_is_new(tm_background *b)
{
    for (size_t i = 0; !is_stopping(b); i++) {
        TM_AUTO(tm_mounted_unrefp) tm_mounted *m = tm_session_at(b->session, i);
        if (!m)
            return;
        index_below(b, m, NULL);
    }
}

static void wait_a_while(tm_background *b)
{
    struct timespec at = tm_after_ms(LOOK_PERIOD_MS);
    if (b->all)
        pthread_cond_clockwait(&b->wake, &b->lock, CLOCK_MONOTONIC, &at);
    else
        pthread_cond_wait(&b->wake, &b->lock);
}

/* What was asked for first; NULL: nothing. The lock is held. */
static asked *take_asked(tm_background *b)
{
    asked *a = b->first;
    if (a && !(b->first = a->next))
        b->last = &b->first;
    return a;
}

/* One pass: what was asked for, or where all are indexed what is new. The lock is held, but not
 * while it works. */
static void pass(tm_background *b, asked *a)
{
    b->doing = a;
    b->busy = true;
    pthread_mutex_unlock(&b->lock);
    if (a)
        index_below(b, a->m, a);
    else if (b->all)
        index_what_is_new(b);
    pthread_mutex_lock(&b->lock);
    b->doing = NULL;
    b->busy = false;
    forget_stopped(b);
}

static void *background_main(void *arg)
{
    tm_background *b = arg;
    pthread_setname_np(pthread_self(), "tm-index");
    pthread_setschedparam(pthread_self(), SCHED_IDLE, &(struct sched_param){0});
    pthread_mutex_lock(&b->lock);
    while (!b->stopping) {
        asked *a = take_asked(b);
        if (!a)
            wait_a_while(b);
        pass(b, a);
        pthread_mutex_unlock(&b->lock);
        if (a)
            tm_mounted_unref(a->m);
        free(a);
        pthread_mutex_lock(&b->lock);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* ---- Asking ---- */

/* The thread is started when there is something for it. The lock is held. */
static int start(tm_background *b)
{
    if (b->started || b->stopping)
        return 0;
    int rc = -pthread_create(&b->thread, NULL, background_main, b);
    b->started = rc == 0;
    return rc;
}

static bool is_waiting(const tm_background *b, const tm_mounted *m)
{
    for (const asked *a = b->first; a; a = a->next)
        if (a->m->serial == m->serial)
            return true;
    return (b->doing && b->doing->m->serial == m->serial) ||
           (b->current && b->current->serial == m->serial);
}

/* Whether M was asked for already, and no less of it. */
static bool is_asked(const tm_background *b, const tm_mounted *m, bool pyramids)
{
    for (const asked *a = b->first; a; a = a->next)
        if (a->m->serial == m->serial && a->pyramids >= pyramids)
            return true;
    if (is_stopped(b, m->name))
        return false;
    return (b->doing && b->doing->m->serial == m->serial && b->doing->pyramids >= pyramids) ||
           (!pyramids && b->current && b->current->serial == m->serial);
}

int tm_background_index(tm_background *b, tm_mounted *m, bool pyramids, tm_req *req)
{
    asked *a = malloc(sizeof(*a));
    int rc = a ? 0 : -ENOMEM;
    pthread_mutex_lock(&b->lock);
    if (rc == 0)
        rc = start(b);
    if (rc == 0 && !is_asked(b, m, pyramids)) {
        *a = (asked){tm_mounted_ref(m), pyramids, NULL};
        *b->last = TM_STEAL(a);
        b->last = &(*b->last)->next;
        pthread_cond_signal(&b->wake);
    }
    pthread_mutex_unlock(&b->lock);
    free(a);
    return rc < 0 ? tm_fail(req, -rc, "indexing %s: %s", m->name, strerror(-rc)) : 0;
}

static void free_asked(asked *list)
{
    while (list) {
        asked *next = list->next;
        tm_mounted_unref(list->m);
        free(list);
        list = next;
    }
}

void tm_background_cancel(tm_background *b, const tm_mounted *m)
{
    asked *gone = NULL;
    pthread_mutex_lock(&b->lock);
    for (asked **link = &b->first; *link;) {
        asked *a = *link;
        if (is_within(m->name, a->m->name)) {
            *link = a->next;
            a->next = gone;
            gone = a;
        } else {
            link = &a->next;
        }
        b->last = link;
    }
    see(b, m->serial);
    if (b->busy)
        stop_name(b, m->name);
    if (b->current && is_within(m->name, b->current->name))
        atomic_store(&b->req->cancelled, true);
    pthread_mutex_unlock(&b->lock);
    free_asked(gone);
}

bool tm_background_has(tm_background *b, const tm_mounted *m, uint64_t *ret_done)
{
    pthread_mutex_lock(&b->lock);
    bool waiting = is_waiting(b, m);
    *ret_done = b->current && b->current->serial == m->serial ? b->done : 0;
    pthread_mutex_unlock(&b->lock);
    return waiting;
}

/* ---- Its life ---- */

void tm_background_stop(tm_background *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    bool running = b->started && !b->stopping;
    b->stopping = true;
    if (b->req)
        atomic_store(&b->req->cancelled, true);
    pthread_cond_signal(&b->wake);
    pthread_mutex_unlock(&b->lock);
    if (running)
        pthread_join(b->thread, NULL);
}

void tm_background_free(tm_background *b)
{
    if (!b)
        return;
    tm_background_stop(b);
    free_asked(b->first);
    forget_stopped(b);
    free(b->stopped);
    free(b->seen);
    pthread_cond_destroy(&b->wake);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

int tm_background_new(tm_session *session, bool all, tm_background **ret)
{
    tm_background *b = TM_NEW(tm_background);
    if (!b)
        return -ENOMEM;
    b->session = session;
    b->all = all;
    b->last = &b->first;
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->wake, NULL);
    pthread_mutex_lock(&b->lock);
    int rc = all ? start(b) : 0;
    pthread_mutex_unlock(&b->lock);
    if (rc < 0) {
        tm_background_free(b);
        return rc;
    }
    *ret = b;
    return 0;
}
