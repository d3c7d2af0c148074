#include "core/blob_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/read.h"

enum {
    NEAR_BYTES = 128 << 10, /* of one hint the kernel heeds no more where a device reads so much */
    PEEK_BYTES = 4 << 10,   /* what is read sooner than it is asked for */
    LOOK_PAGES = 4 << 10    /* of which is asked whether they are in memory: 16 MiB */
};

typedef struct file_blob {
    tm_blob blob;
    tm_file *file;
    tm_sched *sched;
} file_blob;

static file_blob *as_file(tm_blob *blob)
{
    return TM_CONTAINER(blob, file_blob, blob);
}

/* What the page cache holds, else -EAGAIN. A filesystem without RWF_NOWAIT is always waited for. */
static int read_cached(int fd, uint64_t off, size_t len, uint8_t *dst)
{
    struct iovec iov = {dst, len};
    ssize_t n = preadv2(fd, &iov, 1, (off_t)off, RWF_NOWAIT);
    return n == (ssize_t)len ? 0 : -EAGAIN;
}

/* Whether it holds them all, else -EAGAIN. Larger ranges are not read: that would have the kernel
 * fetch what it meets, and say that it was there. */
static int look_cached(tm_file *file, int fd, uint64_t off, size_t len)
{
    static_assert((int)PEEK_BYTES <= (int)LOOK_PAGES, "they share their memory");
    unsigned char near[LOOK_PAGES];
    if (len <= PEEK_BYTES)
        return read_cached(fd, off, len, near);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = off % page;
    size_t bytes = before + len, pages = (bytes + page - 1) / page;
    if (pages > LOOK_PAGES || !tm_file_may_map(file))
        return -EAGAIN;
    void *at = mmap(NULL, bytes, PROT_NONE, MAP_SHARED, fd, (off_t)(off - before));
    if (at == MAP_FAILED)
        return -EAGAIN;
    int rc = mincore(at, bytes, near) == 0 ? 0 : -EAGAIN;
    for (size_t i = 0; rc == 0 && i < pages; i++)
        if (!(near[i] & 1))
            rc = -EAGAIN;
    munmap(at, bytes);
    return rc;
}

static int file_fetch_now(tm_blob *blob, uint64_t off, size_t len, void *dst, tm_req *req)
{
    file_blob *self = as_file(blob);
    int fd;
    TM_TRY(tm_file_acquire(self->file, true, req, &fd));
    int rc = dst ? read_cached(fd, off, len, dst) : look_cached(self->file, fd, off, len);
    if (rc == 0)
        rc = tm_file_check(self->file, fd, req); /* after the copy: it covers what was copied */
    tm_file_release(self->file);
    return rc;
}

static int read_all(tm_file *file, int fd, tm_fetch *fetch, tm_req *req)
{
    size_t done = 0;
    while (done < fetch->len) {
        ssize_t n = pread(fd, fetch->dst + done, fetch->len - done, (off_t)(fetch->off + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tm_fail(req, errno, "%s: at byte %llu: %s", tm_file_path(file),
                           (unsigned long long)(fetch->off + done), strerror(errno));
        if (n == 0)
            break;
        done += (size_t)n;
    }
    TM_TRY(tm_file_check(file, fd, req));
    if (done < fetch->len)
        return tm_fail(req, EIO, "%s: ends at byte %llu", tm_file_path(file),
                       (unsigned long long)(fetch->off + done));
    return 0;
}

/* Has the kernel read what it has not. Source files are opened for random access, so that one value
 * does not cost the disk megabytes: what is to be read ahead is told by who knows
 * (core/prefetch.h).
 */
static int bring_near(int fd, const tm_fetch *fetch)
{
    int rc = 0;
    for (size_t done = 0, n; rc == 0 && done < fetch->len; done += n) {
        n = tm_min_u64(fetch->len - done, NEAR_BYTES);
        rc = -posix_fadvise(fd, (off_t)(fetch->off + done), (off_t)n, POSIX_FADV_WILLNEED);
    }
    return rc;
}

static void fetch_job(tm_job *job)
{
    tm_fetch *fetch = TM_CONTAINER(job, tm_fetch, job);
    tm_file *file = as_file(fetch->blob)->file;
    tm_req req;
    tm_req_init(&req, job->lane);
    int fd;
    int rc = tm_file_acquire(file, false, &req, &fd);
    if (rc == 0) {
        rc = fetch->dst ? read_all(file, fd, fetch, &req) : bring_near(fd, fetch);
        tm_file_release(file);
    }
    tm_fetch_done(fetch, rc, tm_req_words(&req));
}

static tm_pool *pool_of(const file_blob *self, const tm_fetch *fetch)
{
    return fetch->dst ? self->sched->io : self->sched->near;
}

static void file_fetch_start(tm_blob *blob, tm_fetch *fetch)
{
    fetch->job = (tm_job){
        .run = fetch_job,
        .lane = fetch->read->params.lane,
        .key = tm_file_identity_of(as_file(blob)->file)->dev + 1,
    };
    tm_pool_submit(pool_of(as_file(blob), fetch), &fetch->job);
}

static bool file_fetch_cancel(tm_blob *blob, tm_fetch *fetch)
{
    return tm_pool_withdraw(pool_of(as_file(blob), fetch), &fetch->job);
}

static bool file_locate(tm_blob *blob, uint64_t off, uint64_t len, tm_extent *ret)
{
    (void)len;
    *ret = (tm_extent){as_file(blob)->file, off};
    return true;
}

static int file_hold(tm_blob *blob, tm_req *req)
{
    int fd;
    int rc = tm_file_acquire(as_file(blob)->file, !req->may_block, req, &fd);
    return rc == -EAGAIN ? -EINPROGRESS : rc;
}

static void file_unhold(tm_blob *blob)
{
    tm_file_release(as_file(blob)->file);
}

static void file_free(tm_blob *blob)
{
    file_blob *self = as_file(blob);
    tm_file_unref(self->file);
    free(self);
}

static const tm_blob_ops file_ops = {
    .kind = "file",
    .fetch_now = file_fetch_now,
    .fetch_start = file_fetch_start,
    .fetch_cancel = file_fetch_cancel,
    .locate = file_locate,
    .hold = file_hold,
    .unhold = file_unhold,
    .free = file_free,
};

int tm_blob_file_new(tm_sched *sched, tm_file *file, tm_blob **ret)
{
    file_blob *self = TM_NEW(file_blob);
    if (!self)
        return -ENOMEM;
    tm_blob_init(&self->blob, &file_ops, tm_file_identity_of(file)->size);
    self->file = tm_file_ref(file);
    self->sched = sched;
    *ret = &self->blob;
    return 0;
}
