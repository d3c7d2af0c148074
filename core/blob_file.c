#include "core/blob_file.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/read.h"

enum {
    STREAM_SLACK = 4 << 20, /* how far from the last read's end a read still continues it */
    STREAM_MIN = 1 << 20,   /* bytes that make a stream: a header is none */
    READ_AHEAD = 8 << 20,   /* what is asked for ahead of a stream */
};

typedef struct file_blob {
    tm_blob blob;
    tm_file *file;
    tm_sched *sched;
    atomic_uint_fast64_t stream_end; /* of the last read that had to wait */
    atomic_uint_fast64_t stream_len; /* of the reads that continued each other up to it */
    atomic_uint_fast64_t asked_end;  /* up to where the disk was asked ahead of it */
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

static int file_fetch_now(tm_blob *blob, uint64_t off, size_t len, void *dst, tm_req *req)
{
    file_blob *self = as_file(blob);
    int fd;
    TM_TRY(tm_file_acquire(self->file, true, req, &fd));
    int rc = read_cached(fd, off, len, dst);
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

/* Source files are opened for random access, so that one value does not cost the disk megabytes,
 * and several threads that read one descriptor look random anyway: a stream is noticed here. */
static void ask_ahead(file_blob *self, int fd, uint64_t off, uint64_t len)
{
    uint64_t end = off + len;
    uint64_t last = atomic_exchange_explicit(&self->stream_end, end, memory_order_relaxed);
    uint64_t asked = atomic_load_explicit(&self->asked_end, memory_order_relaxed);
    bool continues = off + STREAM_SLACK >= last && off <= last + STREAM_SLACK;
    bool known = asked >= end && asked <= end + READ_AHEAD;
    uint64_t before = continues ? atomic_load_explicit(&self->stream_len, memory_order_relaxed) : 0;
    atomic_store_explicit(&self->stream_len, before + len, memory_order_relaxed);
    if (before < STREAM_MIN || (known && asked - end > READ_AHEAD / 2))
        return;
    uint64_t from = known ? asked : end;
    atomic_store_explicit(&self->asked_end, end + READ_AHEAD, memory_order_relaxed);
    tm_ignore(posix_fadvise(fd, (off_t)from, (off_t)(end + READ_AHEAD - from),
                            POSIX_FADV_WILLNEED)); /* a hint: its failure costs only time */
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
        ask_ahead(as_file(fetch->blob), fd, fetch->off, fetch->len);
        rc = read_all(file, fd, fetch, &req);
        tm_file_release(file);
    }
    tm_fetch_done(fetch, rc, tm_req_words(&req));
}

static void file_fetch_start(tm_blob *blob, tm_fetch *fetch)
{
    fetch->job = (tm_job){
        .run = fetch_job,
        .lane = fetch->read->params.lane,
        .key = tm_file_identity_of(as_file(blob)->file)->dev + 1,
    };
    tm_pool_submit(as_file(blob)->sched->io, &fetch->job);
}

static bool file_fetch_cancel(tm_blob *blob, tm_fetch *fetch)
{
    return tm_pool_withdraw(as_file(blob)->sched->io, &fetch->job);
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
