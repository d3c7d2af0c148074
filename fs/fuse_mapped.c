#include "fs/fuse_mapped.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WINDOW_BYTES ((uint64_t)64 << 20)
#define OVERLAP      ((uint64_t)2 << 20) /* so that no request lies across two windows */
#define IDLE_NS      ((uint64_t)3000000000)
enum {
    WINDOWS = 64,
    PAGE = 4096,
    PAGES_MAX = 1024
};

typedef struct window {
    tm_file *file; /* referenced; NULL: unused */
    uint64_t number;
    char *bytes;
    size_t len;
    unsigned users;
    uint64_t used_ns; /* when it was used last */
} window;

struct tm_mapped {
    /* Guards what follows; held while mapping, never while replying or unmapping. */
    pthread_mutex_t lock;
    pthread_cond_t wake; /* of the dropper */
    window windows[WINDOWS];
    bool stopping;
    pthread_t dropper;
};

/* Not with the lock held: with the last use of a deleted file its blocks are freed. */
static void unmap(window *w)
{
    if (!w->file)
        return;
    munmap(w->bytes, w->len);
    tm_file_unref(w->file);
}

static window take(window *w)
{
    window taken = *w;
    memset(w, 0, sizeof(*w));
    return taken;
}

/* ---- Windows that nobody uses any more ---- */

/* Takes out a window that has been idle for long, and returns true; else tells when the next may
 * have been, 0 where nothing is mapped. The lock is held. */
static bool take_idle(tm_mapped *mapped, window *ret, uint64_t *ret_next_ns)
{
    uint64_t now = tm_now_ns();
    *ret_next_ns = 0;
    for (int i = 0; i < WINDOWS; i++) {
        window *w = &mapped->windows[i];
        uint64_t at = (w->users ? now : w->used_ns) + IDLE_NS;
        if (!w->file)
            continue;
        if (at <= now) {
            *ret = take(w);
            return true;
        }
        if (!*ret_next_ns || at < *ret_next_ns)
            *ret_next_ns = at;
    }
    return false;
}

static void *drop_main(void *arg)
{
    tm_mapped *mapped = arg;
    pthread_setname_np(pthread_self(), "tm-unmap");
    pthread_mutex_lock(&mapped->lock);
    while (!mapped->stopping) {
        window idle;
        uint64_t next_ns;
        if (take_idle(mapped, &idle, &next_ns)) {
            pthread_mutex_unlock(&mapped->lock);
            unmap(&idle);
            pthread_mutex_lock(&mapped->lock);
        } else if (next_ns) {
            struct timespec at = tm_timespec_of(next_ns);
            pthread_cond_timedwait(&mapped->wake, &mapped->lock, &at);
        } else {
            pthread_cond_wait(&mapped->wake, &mapped->lock);
        }
    }
    pthread_mutex_unlock(&mapped->lock);
    return NULL;
}

static int start_dropper(tm_mapped *mapped)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* as tm_now_ns() */
    pthread_cond_init(&mapped->wake, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&mapped->lock, NULL);
    return -pthread_create(&mapped->dropper, NULL, drop_main, mapped);
}

static void stop_dropper(tm_mapped *mapped)
{
    pthread_mutex_lock(&mapped->lock);
    mapped->stopping = true;
    pthread_cond_signal(&mapped->wake);
    pthread_mutex_unlock(&mapped->lock);
    pthread_join(mapped->dropper, NULL);
}

int tm_mapped_new(tm_mapped **ret)
{
    tm_mapped *mapped = TM_NEW(tm_mapped);
    if (!mapped)
        return -ENOMEM;
    int rc = start_dropper(mapped);
    if (rc < 0) {
        free(mapped);
        return rc;
    }
    *ret = mapped;
    return 0;
}

void tm_mapped_free(tm_mapped *mapped)
{
    if (!mapped)
        return;
    stop_dropper(mapped);
    for (int i = 0; i < WINDOWS; i++)
        unmap(&mapped->windows[i]);
    pthread_cond_destroy(&mapped->wake);
    pthread_mutex_destroy(&mapped->lock);
    free(mapped);
}

/* ---- Replies ---- */

/* The window of FILE that begins at NUMBER * WINDOW_BYTES, mapped if need be; NULL where it cannot
 * be. RET_OLD is what it takes the place of, for the caller to unmap. The lock is held. */
static window *find_window(tm_mapped *mapped, tm_file *file, int fd, uint64_t number,
                           window *ret_old)
{
    window *oldest = NULL;
    for (int i = 0; i < WINDOWS; i++) {
        window *w = &mapped->windows[i];
        if (w->file == file && w->number == number)
            return w;
        if (w->users == 0 && (!oldest || w->used_ns < oldest->used_ns))
            oldest = w;
    }
    if (!oldest)
        return NULL;
    *ret_old = take(oldest);
    uint64_t off = number * WINDOW_BYTES;
    assert(off < tm_file_identity_of(file)->size);
    uint64_t len = tm_min_u64(tm_file_identity_of(file)->size - off, WINDOW_BYTES + OVERLAP);
    void *bytes = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, (off_t)off);
    if (bytes == MAP_FAILED)
        return NULL;
    *oldest = (window){.file = tm_file_ref(file), .number = number, .bytes = bytes, .len = len};
    pthread_cond_signal(&mapped->wake);
    return oldest;
}

static window *use_window(tm_mapped *mapped, tm_file *file, int fd, uint64_t number)
{
    window old = {0};
    pthread_mutex_lock(&mapped->lock);
    window *w = find_window(mapped, file, fd, number, &old);
    if (w)
        w->users++;
    pthread_mutex_unlock(&mapped->lock);
    unmap(&old);
    return w;
}

static void leave_window(tm_mapped *mapped, window *w)
{
    pthread_mutex_lock(&mapped->lock);
    assert(w->users > 0);
    w->users--;
    w->used_ns = tm_now_ns();
    pthread_mutex_unlock(&mapped->lock);
}

static bool is_resident(const char *bytes, size_t len)
{
    unsigned char resident[PAGES_MAX];
    uintptr_t from = (uintptr_t)bytes & ~(uintptr_t)(PAGE - 1);
    size_t pages = ((uintptr_t)bytes + len - from + PAGE - 1) / PAGE;
    if (pages > PAGES_MAX || mincore((void *)from, pages * PAGE, resident) < 0)
        return false;
    for (size_t i = 0; i < pages; i++)
        if (!(resident[i] & 1))
            return false;
    return true;
}

bool tm_mapped_reply(tm_mapped *mapped, fuse_req_t req, tm_file *file, int fd, uint64_t off,
                     size_t len)
{
    if (len == 0 || len > OVERLAP / 2 || !tm_file_may_map(file) || sysconf(_SC_PAGESIZE) != PAGE)
        return false;
    window *w = use_window(mapped, file, fd, off / WINDOW_BYTES);
    if (!w)
        return false;
    const char *bytes = w->bytes + off % WINDOW_BYTES;
    bool ok = is_resident(bytes, len) && tm_file_check(file, fd, NULL) == 0;
    if (ok)
        tm_ignore(fuse_reply_buf(req, bytes, len)); /* a reader that is gone needs no reply */
    leave_window(mapped, w);
    return ok;
}
