#include "core/file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

struct tm_file {
    tm_file_set *set;
    atomic_uint refs;
    tm_file_identity identity;
    /* Guarded by the set's lock: */
    bool may_map;                 /* constant while open */
    int fd;                       /* -1: not open */
    unsigned users;               /* of fd */
    tm_file *lru_prev, *lru_next; /* in the list while open without users */
    char path[];
};

struct tm_file_set {
    pthread_mutex_t lock; /* innermost; not held while opening, reading or closing */
    unsigned open, max;
    tm_file *lru_first, *lru_last; /* least recently used first */
};

int tm_file_set_new(unsigned max_descriptors, tm_file_set **ret)
{
    tm_file_set *set = TM_NEW(tm_file_set);
    if (!set)
        return -ENOMEM;
    set->max = max_descriptors ? max_descriptors : 1;
    pthread_mutex_init(&set->lock, NULL);
    *ret = set;
    return 0;
}

void tm_file_set_free(tm_file_set *set)
{
    if (!set)
        return;
    assert(set->open == 0);
    pthread_mutex_destroy(&set->lock);
    free(set);
}

unsigned tm_file_set_open_count(tm_file_set *set)
{
    pthread_mutex_lock(&set->lock);
    unsigned n = set->open;
    pthread_mutex_unlock(&set->lock);
    return n;
}

tm_file_identity tm_file_identity_from(const struct stat *st)
{
    return (tm_file_identity){
        .dev = st->st_dev,
        .ino = st->st_ino,
        .size = S_ISDIR(st->st_mode) ? 0 : (uint64_t)st->st_size,
        .mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
    };
}

bool tm_file_identity_equal(const tm_file_identity *a, const tm_file_identity *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->size == b->size && a->mtime_ns == b->mtime_ns;
}

/* Without O_NONBLOCK a FIFO under a weight file's name would hold the thread for ever. No words. */
static int open_regular(const char *path, int *ret_fd, struct stat *ret_st)
{
    TM_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 && errno == EWOULDBLOCK)
        return -EBUSY;
    if (fd < 0 || fstat(fd, ret_st) < 0)
        return -errno;
    if (!S_ISREG(ret_st->st_mode))
        return S_ISDIR(ret_st->st_mode) ? -EISDIR : -EINVAL;
    *ret_fd = fd;
    fd = -1;
    return 0;
}

/* The words of its error RC. */
static int fail_open(const char *path, int rc, tm_req *req)
{
    const char *reason = rc == -EBUSY                     ? "another program holds a lease on it"
                         : rc == -EISDIR || rc == -EINVAL ? "not a regular file"
                                                          : strerror(-rc);
    return tm_fail(req, -rc, "%s: %s", path, reason);
}

int tm_file_new(tm_file_set *set, const char *path, tm_req *req, tm_file **ret)
{
    TM_AUTO_CLOSE int fd = -1;
    struct stat st;
    int rc = open_regular(path, &fd, &st);
    if (rc < 0)
        return fail_open(path, rc, req);
    size_t len = strlen(path) + 1;
    tm_file *file = calloc(1, sizeof(*file) + len);
    if (!file)
        return tm_fail(req, ENOMEM, "out of memory");
    file->set = set;
    file->identity = tm_file_identity_from(&st);
    file->fd = -1;
    memcpy(file->path, path, len);
    atomic_init(&file->refs, 1);
    *ret = file;
    return 0;
}

tm_file *tm_file_ref(tm_file *file)
{
    atomic_fetch_add_explicit(&file->refs, 1, memory_order_relaxed);
    return file;
}

static void lru_remove(tm_file *file)
{
    tm_file_set *set = file->set;
    *(file->lru_prev ? &file->lru_prev->lru_next : &set->lru_first) = file->lru_next;
    *(file->lru_next ? &file->lru_next->lru_prev : &set->lru_last) = file->lru_prev;
    file->lru_prev = file->lru_next = NULL;
}

static void lru_append(tm_file *file)
{
    tm_file_set *set = file->set;
    file->lru_prev = set->lru_last;
    *(set->lru_last ? &set->lru_last->lru_next : &set->lru_first) = file;
    set->lru_last = file;
}

/* Takes the descriptor of the least recently used file where the set is over its limit; -1 where
 * it is not, or where all are in use. The caller closes it without the lock. */
static int take_surplus(tm_file_set *set)
{
    tm_file *oldest = set->open > set->max ? set->lru_first : NULL;
    if (!oldest)
        return -1;
    lru_remove(oldest);
    set->open--;
    int fd = oldest->fd;
    oldest->fd = -1;
    return fd;
}

tm_file *tm_file_unref(tm_file *file)
{
    if (!file || atomic_fetch_sub_explicit(&file->refs, 1, memory_order_acq_rel) != 1)
        return NULL;
    tm_file_set *set = file->set;
    pthread_mutex_lock(&set->lock);
    assert(file->users == 0);
    if (file->fd >= 0) {
        lru_remove(file);
        set->open--;
    }
    pthread_mutex_unlock(&set->lock);
    tm_closep(&file->fd);
    free(file);
    return NULL;
}

const char *tm_file_path(const tm_file *file)
{
    return file->path;
}

const tm_file_identity *tm_file_identity_of(const tm_file *file)
{
    return &file->identity;
}

/* One more user of the descriptor that is open, -1 where none is. */
static int join_open(tm_file *file)
{
    pthread_mutex_lock(&file->set->lock);
    if (file->fd >= 0 && file->users++ == 0)
        lru_remove(file);
    int fd = file->fd;
    pthread_mutex_unlock(&file->set->lock);
    return fd;
}

static bool is_same(const tm_file *file, const struct stat *st)
{
    tm_file_identity now = tm_file_identity_from(st);
    return tm_file_identity_equal(&now, &file->identity);
}

/* What opening answers where a regular file has become a folder, a FIFO, a socket, a loop. */
static bool is_replaced(int rc)
{
    return rc == -EISDIR || rc == -EINVAL || rc == -ENXIO || rc == -ELOOP;
}

int tm_file_fail_known(const char *path, int rc, const tm_req *part, tm_req *req)
{
    if (rc == -ENOENT || rc == -ENOTDIR)
        return tm_fail(req, ESTALE, "%s: the file is gone since it was mounted", path);
    if (is_replaced(rc))
        return tm_fail(req, ESTALE, "%s: the file changed while it was mounted", path);
    return tm_fail(req, -rc, "%s", tm_req_words(part));
}

/* A filesystem that can read without waiting is a local one; tmpfs, which cannot, is as well. */
static bool is_local(int fd)
{
    char byte;
    struct iovec iov = {&byte, 1};
    struct statfs fs;
    if (preadv2(fd, &iov, 1, 0, RWF_NOWAIT) >= 0 || errno == EAGAIN)
        return true;
    return fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

bool tm_file_may_map(const tm_file *file)
{
    return file->may_map;
}

static int open_current(tm_file *file, tm_req *req, int *ret_fd, bool *ret_may_map)
{
    TM_AUTO_CLOSE int fd = -1;
    struct stat st;
    int rc = open_regular(file->path, &fd, &st);
    if (rc == -ENOENT || rc == -ENOTDIR)
        return tm_fail(req, ESTALE, "%s: the file is gone since it was mounted", file->path);
    if (is_replaced(rc) || (rc == 0 && !is_same(file, &st)))
        return tm_fail(req, ESTALE, "%s: the file changed while it was mounted", file->path);
    if (rc < 0)
        return fail_open(file->path, rc, req);
    /* What is read ahead is for core/blob_file.c to say. */
    tm_ignore(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM));
    *ret_may_map = (geteuid() == 0 || st.st_uid == geteuid()) && is_local(fd);
    *ret_fd = fd;
    fd = -1;
    return 0;
}

int tm_file_acquire(tm_file *file, bool nowait, tm_req *req, int *ret_fd)
{
    int fd = join_open(file);
    if (fd >= 0) {
        *ret_fd = fd;
        return 0;
    }
    if (nowait)
        return -EAGAIN;
    TM_AUTO_CLOSE int fresh = -1;
    bool may_map = false;
    TM_TRY(open_current(file, req, &fresh, &may_map));
    tm_file_set *set = file->set;
    pthread_mutex_lock(&set->lock);
    if (file->fd < 0) {
        file->fd = fresh;
        file->may_map = may_map;
        fresh = -1;
        set->open++;
    } else if (file->users == 0) {
        lru_remove(file); /* another thread opened it meanwhile */
    }
    file->users++;
    *ret_fd = file->fd;
    int surplus = take_surplus(set);
    pthread_mutex_unlock(&set->lock);
    tm_closep(&surplus);
    return 0;
}

void tm_file_release(tm_file *file)
{
    tm_file_set *set = file->set;
    pthread_mutex_lock(&set->lock);
    assert(file->users > 0 && file->fd >= 0);
    if (--file->users == 0)
        lru_append(file);
    int surplus = take_surplus(set);
    pthread_mutex_unlock(&set->lock);
    tm_closep(&surplus);
}

int tm_file_check(tm_file *file, int fd, tm_req *req)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return tm_fail(req, errno, "%s: %s", file->path, strerror(errno));
    if (!is_same(file, &st))
        return tm_fail(req, ESTALE, "%s: the file was changed while it was mounted", file->path);
    return 0;
}

bool tm_file_is_current(const tm_file *file)
{
    struct stat st;
    return stat(file->path, &st) == 0 && is_same(file, &st);
}
