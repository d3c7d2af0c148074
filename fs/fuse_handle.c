#include "fs/fuse_handle.h"

#include <time.h>
#include <unistd.h>

#include "fs/fuse_caller.h"
#include "fs/fuse_readers.h"
#include "fs/fuse_waiting.h"

enum {
    CANCEL_S = 2 /* within which all that were cancelled have been answered */
};

typedef struct reading reading;

struct tm_handle {
    tm_handle_params params;
    tm_file *whole; /* the file whose bytes these are, from its first on; NULL: none */
    int fd;         /* of whole, -1: none; open as long as the handle */
    int backing_id;
    tm_handle *prev, *next; /* in the mount's list */
    pthread_mutex_t lock;   /* guards readings */
    reading *readings;
    tm_readers readers;
};

/* One request of the kernel. */
struct reading {
    tm_handle *handle;
    fuse_req_t req;
    tm_read *read;
    pid_t pid; /* of the thread that asked */
    reading *prev, *next;
};

int tm_handle_new(const tm_handle_params *params, tm_handle **ret)
{
    tm_handle *handle = TM_NEW(tm_handle);
    if (!handle) {
        tm_blob_unhold(params->file.blob);
        tm_blob_unref(params->file.blob);
        return -ENOMEM;
    }
    handle->params = *params;
    handle->fd = -1;
    pthread_mutex_init(&handle->lock, NULL);
    tm_readers_init(&handle->readers, params->tree, params->ino, &handle->params.file);
    tm_blob *blob = params->file.blob;
    tm_extent extent;
    if (tm_blob_locate(blob, 0, blob->size, &extent) && extent.off == 0 &&
        tm_file_identity_of(extent.file)->size == blob->size &&
        tm_file_acquire(extent.file, true, NULL, &handle->fd) == 0)
        handle->whole = extent.file;
    tm_reads *reads = params->reads;
    pthread_mutex_lock(&reads->lock);
    handle->next = reads->handles;
    if (handle->next)
        handle->next->prev = handle;
    reads->handles = handle;
    pthread_mutex_unlock(&reads->lock);
    *ret = handle;
    return 0;
}

void tm_handle_free(tm_handle *handle)
{
    assert(!handle->readings);
    tm_reads *reads = handle->params.reads;
    pthread_mutex_lock(&reads->lock);
    *(handle->prev ? &handle->prev->next : &reads->handles) = handle->next;
    if (handle->next)
        handle->next->prev = handle->prev;
    pthread_mutex_unlock(&reads->lock);
    tm_readers_done(&handle->readers);
    if (handle->whole)
        tm_file_release(handle->whole);
    tm_blob_unhold(handle->params.file.blob);
    tm_blob_unref(handle->params.file.blob);
    pthread_mutex_destroy(&handle->lock);
    free(handle);
}

int tm_handle_fd(tm_handle *handle)
{
    return handle->fd;
}

const tm_open_file *tm_handle_file(const tm_handle *handle)
{
    return &handle->params.file;
}

int tm_handle_backing(const tm_handle *handle)
{
    return handle->backing_id;
}

void tm_handle_set_backing(tm_handle *handle, int backing_id)
{
    handle->backing_id = backing_id;
}

/* ---- Reads under way ---- */

static void on_interrupt(fuse_req_t req, void *data);

/* From when this returns, an interrupt, a flush or the mount's end may end the read at any time,
 * and with it R, its request and the handle. Until then the lock keeps the read from being found.
 */
static void link_reading(tm_handle *handle, reading *r)
{
    tm_reads_begin(handle->params.reads);
    pthread_mutex_lock(&handle->lock);
    r->next = handle->readings;
    if (r->next)
        r->next->prev = r;
    handle->readings = r;
    fuse_req_interrupt_func(r->req, on_interrupt, r);
    pthread_mutex_unlock(&handle->lock);
}

static void unlink_reading(reading *r)
{
    pthread_mutex_lock(&r->handle->lock);
    *(r->prev ? &r->prev->next : &r->handle->readings) = r->next;
    if (r->next)
        r->next->prev = r->prev;
    pthread_mutex_unlock(&r->handle->lock);
}

void tm_reads_init(tm_reads *reads)
{
    memset(reads, 0, sizeof(*reads));
    pthread_mutex_init(&reads->lock, NULL);
    pthread_cond_init(&reads->none, NULL);
}

void tm_reads_done(tm_reads *reads)
{
    pthread_cond_destroy(&reads->none);
    pthread_mutex_destroy(&reads->lock);
}

void tm_reads_begin(tm_reads *reads)
{
    atomic_fetch_add(&reads->count, 1);
}

void tm_reads_end(tm_reads *reads)
{
    /* The lock, so that who waits for the last one does not free it under us. */
    pthread_mutex_lock(&reads->lock);
    if (atomic_fetch_sub(&reads->count, 1) == 1)
        pthread_cond_broadcast(&reads->none);
    pthread_mutex_unlock(&reads->lock);
}

static void cancel_all(tm_handle *handle)
{
    pthread_mutex_lock(&handle->lock);
    for (reading *r = handle->readings; r; r = r->next)
        tm_read_cancel(r->read, EINTR, "the mount ends");
    pthread_mutex_unlock(&handle->lock);
}

void tm_reads_cancel(tm_reads *reads)
{
    struct timespec limit = tm_after_ms(CANCEL_S * 1000);
    pthread_mutex_lock(&reads->lock);
    for (tm_handle *handle = reads->handles; handle; handle = handle->next)
        cancel_all(handle);
    tm_waiting_cancel_all(reads->waiting);
    int rc = 0;
    while (atomic_load(&reads->count) && rc == 0)
        rc = pthread_cond_clockwait(&reads->none, &reads->lock, CLOCK_MONOTONIC, &limit);
    pthread_mutex_unlock(&reads->lock);
}

void tm_reads_finish(tm_reads *reads)
{
    pthread_mutex_lock(&reads->lock);
    while (atomic_load(&reads->count))
        pthread_cond_wait(&reads->none, &reads->lock);
    pthread_mutex_unlock(&reads->lock);
    while (reads->handles)
        tm_handle_free(reads->handles);
}

static void read_done(tm_read *read, int rc)
{
    reading *r = read->params.user;
    tm_tree *tree = r->handle->params.tree;
    tm_reads *reads = r->handle->params.reads;
    uint64_t ino = r->handle->params.ino;
    fuse_req_t req = r->req;
    /* Returns only when no interrupt is using R; from here on none will. */
    fuse_req_interrupt_func(req, NULL, NULL);
    unlink_reading(r); /* the handle may be released once the kernel has its reply */
    free(r);
    if (rc < 0 && rc != -EINTR && tree->ops->failed)
        tree->ops->failed(tree, ino, rc, tm_req_words(&read->req));
    if (rc < 0)
        tm_ignore(fuse_reply_err(req, -rc));
    else
        tm_ignore(fuse_reply_buf(req, (const char *)read->bytes, read->params.len));
    tm_read_unref(read);
    tm_reads_end(reads);
}

/* Called with the request's lock held, so it must not reply: a cancel never does. */
static void on_interrupt(fuse_req_t req, void *data)
{
    (void)req;
    reading *r = data;
    if (tm_caller_wants_away(r->pid))
        tm_read_cancel(r->read, EINTR, "interrupted");
}

static int start_read(tm_handle *handle, fuse_req_t req, uint64_t off, size_t len)
{
    const tm_handle_params *p = &handle->params;
    assert(tm_range_ok(off, len, p->file.blob->size));
    reading *r = TM_NEW(reading);
    if (!r)
        return -ENOMEM;
    *r = (reading){.handle = handle, .req = req, .pid = fuse_req_ctx(req)->pid};
    tm_read_params params = {
        .sched = p->tree->sched,
        .blob = p->file.blob,
        .off = off,
        .len = len,
        .lane = p->file.lane,
        .deadline_ns = p->timeout_ns ? tm_now_ns() + p->timeout_ns : 0,
        .done = read_done,
        .user = r,
    };
    int rc = tm_read_new(&params, &r->read);
    if (rc < 0) {
        free(r);
        return rc;
    }
    tm_read *read = tm_read_ref(r->read); /* the read may end before it is begun */
    link_reading(handle, r);
    tm_read_go(read);
    tm_read_unref(read);
    return 0;
}

/* Bytes that stand in a local file as they are; false where they go another way. */
static bool reply_mapped(tm_handle *handle, fuse_req_t req, uint64_t at, size_t len)
{
    tm_mapped *mapped = handle->params.mapped;
    tm_extent extent;
    int fd;
    if (handle->whole)
        return mapped && tm_mapped_reply(mapped, req, handle->whole, handle->fd, at, len);
    if (!mapped || !tm_blob_locate(handle->params.file.blob, at, len, &extent) ||
        tm_file_acquire(extent.file, true, NULL, &fd) < 0)
        return false;
    tm_file *file = tm_file_ref(extent.file); /* the handle may be gone once it is replied */
    bool replied = tm_mapped_reply(mapped, req, file, fd, extent.off, len);
    tm_file_release(file);
    tm_file_unref(file);
    return replied;
}

/* Once it has its reply the handle may be gone. */
static void answer_read(tm_handle *handle, fuse_req_t req, uint64_t at, size_t len)
{
    tm_sched *sched = handle->params.tree->sched;
    tm_lane lane = handle->params.file.lane;
    if (reply_mapped(handle, req, at, len)) {
        tm_sched_count(sched, lane, len);
        return;
    }
    int rc = start_read(handle, req, at, len);
    if (rc < 0)
        tm_ignore(fuse_reply_err(req, -rc));
}

void tm_handle_read(tm_handle *handle, fuse_req_t req, size_t size, off_t off)
{
    tm_handle_params *p = &handle->params;
    uint64_t end = p->file.blob->size, at = (uint64_t)off;
    if (off < 0 || at >= end || size == 0) {
        tm_ignore(fuse_reply_buf(req, NULL, 0));
        return;
    }
    size_t len = tm_min_u64(size, end - at);
    tm_sched *sched = p->tree->sched;
    tm_readers *readers = &handle->readers;
    tm_foretold told;
    tm_readers_note(readers, fuse_req_ctx(req)->pid, at, len, &told);
    tm_open_file file = p->file;
    tm_blob_ref(file.blob);
    answer_read(handle, req, at, len);
    if (told.count)
        tm_readers_ask(readers, sched, &file, &told);
    tm_blob_unref(file.blob);
}

void tm_handle_flush(tm_handle *handle, pid_t pid)
{
    pthread_mutex_lock(&handle->lock);
    for (reading *r = handle->readings; r; r = r->next)
        if ((pid > 0 && r->pid == pid) || tm_caller_is_gone(r->pid))
            tm_read_cancel(r->read, EINTR, "its reader is gone");
    pthread_mutex_unlock(&handle->lock);
}
