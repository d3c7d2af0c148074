#include "fs/fuse_mapped.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define WINDOW_BYTES ((uint64_t)64 << 20)
#define OVERLAP      ((uint64_t)2 << 20) /* so that no request lies across two windows */
enum {
    WINDOWS = 16,
    PAGE = 4096,
    PAGES_MAX = 1024
};

typedef struct window {
    tm_file *file; /* referenced; NULL: unused */
    uint64_t number;
    char *bytes;
    size_t len;
    unsigned users;
    uint64_t used_at; /* a clock that ticks with every use */
} window;

struct tm_mapped {
    pthread_mutex_t lock; /* guards all; held while mapping, never while replying */
    window windows[WINDOWS];
    uint64_t clock;
};

int tm_mapped_new(tm_mapped **ret)
{
    tm_mapped *mapped = TM_NEW(tm_mapped);
    if (!mapped)
        return -ENOMEM;
    pthread_mutex_init(&mapped->lock, NULL);
    *ret = mapped;
    return 0;
}

static void unmap(window *w)
{
    if (!w->file)
        return;
    munmap(w->bytes, w->len);
    tm_file_unref(w->file);
    memset(w, 0, sizeof(*w));
}

void tm_mapped_free(tm_mapped *mapped)
{
    if (!mapped)
        return;
    for (int i = 0; i < WINDOWS; i++)
        unmap(&mapped->windows[i]);
    pthread_mutex_destroy(&mapped->lock);
    free(mapped);
}

/* Since Linux 5.2, mincore() tells others that every page is resident. */
bool tm_mapped_allowed(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && (geteuid() == 0 || st.st_uid == geteuid());
}

/* The window of FILE that begins at NUMBER * WINDOW_BYTES, mapped if need be; NULL where it cannot
 * be. The lock is held. */
static window *find_window(tm_mapped *mapped, tm_file *file, int fd, uint64_t number)
{
    window *oldest = NULL;
    for (int i = 0; i < WINDOWS; i++) {
        window *w = &mapped->windows[i];
        if (w->file == file && w->number == number)
            return w;
        if (w->users == 0 && (!oldest || w->used_at < oldest->used_at))
            oldest = w;
    }
    if (!oldest)
        return NULL;
    unmap(oldest);
    uint64_t off = number * WINDOW_BYTES;
    assert(off < tm_file_identity_of(file)->size);
    uint64_t len = tm_min_u64(tm_file_identity_of(file)->size - off, WINDOW_BYTES + OVERLAP);
    void *bytes = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, (off_t)off);
    if (bytes == MAP_FAILED)
        return NULL;
    *oldest = (window){.file = tm_file_ref(file), .number = number, .bytes = bytes, .len = len};
    return oldest;
}

static window *use_window(tm_mapped *mapped, tm_file *file, int fd, uint64_t number)
{
    pthread_mutex_lock(&mapped->lock);
    window *w = find_window(mapped, file, fd, number);
    if (w) {
        w->users++;
        w->used_at = ++mapped->clock;
    }
    pthread_mutex_unlock(&mapped->lock);
    return w;
}

static void leave_window(tm_mapped *mapped, window *w)
{
    pthread_mutex_lock(&mapped->lock);
    assert(w->users > 0);
    w->users--;
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
    if (len == 0 || len > OVERLAP / 2 || sysconf(_SC_PAGESIZE) != PAGE)
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
