#include "formats/index_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/tensor_table.h"
#include "formats/index_hist.h"
#include "formats/new_file.h"

enum {
    ENTRY_HEAD_BYTES = 16,
    CONTENT_MAX = TM_INDEX_RECORD_BYTES + TM_NAME_MAX + TM_INDEX_SUMS_MAX + TM_INDEX_HIST_BYTES_MAX,
    LOG_MODE = 0666 /* less the umask */
};

static void header_of(const uint8_t *fingerprint, uint8_t ret[TM_SECTION_HEADER_BYTES])
{
    static const uint8_t magic[8] = {0x89, 'T', 'M', 'I', 'D', 'P', '\r', '\n'};
    tm_section_format format = tm_index_format;
    memcpy(format.magic, magic, sizeof(magic));
    tm_section_head_store(&format, fingerprint, NULL, 0, ret);
}

/* ---- Opening ---- */

static int open_log(tm_index_log *log, tm_req *req)
{
    struct stat st;
    log->fd = open(log->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, LOG_MODE);
    if (log->fd < 0)
        return tm_fail_file(req, errno, log->path, "cannot be opened");
    if (fstat(log->fd, &st) < 0 || !S_ISREG(st.st_mode))
        return tm_fail(req, EINVAL, "%s: is not a regular file", log->path);
    if (flock(log->fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return tm_fail(req, EBUSY, "%s: another process is at work on it", log->path);
    return tm_fail_file(req, errno, log->path, "cannot be locked");
}

/* Whoever had the lock before us may have removed the log under this name, or made it anew. */
static bool is_the_log(const tm_index_log *log)
{
    struct stat ours, named;
    return fstat(log->fd, &ours) == 0 && stat(log->path, &named) == 0 &&
           ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

static int lock_log(tm_index_log *log, tm_req *req)
{
    for (;;) {
        TM_TRY(open_log(log, req));
        if (is_the_log(log))
            return 0;
        tm_closep(&log->fd);
        log->fd = -1;
        TM_TRY(tm_req_check(req));
    }
}

/* ---- Reading ---- */

int tm_index_log_read(const tm_index_log *log, uint64_t off, size_t len, void *dst, tm_req *req)
{
    int there = tm_read_all(log->fd, log->path, dst, len, off, req);
    if (there == 0)
        return tm_fail(req, EIO, "%s: was cut short", log->path);
    return there < 0 ? there : 0;
}

static bool load_content(const uint8_t *content, uint64_t len, tm_index_tensor *ret)
{
    if (len < TM_INDEX_RECORD_BYTES ||
        tm_index_record_load(content, TM_INDEX_RECORD_BYTES, ret) < 0)
        return false;
    const uint64_t parts = (uint64_t)ret->name_ref.len + ret->sums_ref.len + ret->hist_ref.len;
    ret->name = (const char *)content + TM_INDEX_RECORD_BYTES;
    return parts == len - TM_INDEX_RECORD_BYTES;
}

/* 1: there is an entry at the log's end, which is now whole up to it; 0: there is none. */
static int read_entry(tm_index_log *log, const tm_index_log_params *params, uint8_t *content,
                      tm_req *req)
{
    uint8_t head[ENTRY_HEAD_BYTES];
    tm_index_tensor tensor;
    int there = tm_read_all(log->fd, log->path, head, sizeof(head), log->end, req);
    if (there <= 0)
        return there;
    uint64_t len = tm_le64(head);
    if (len > CONTENT_MAX)
        return 0;
    there = tm_read_all(log->fd, log->path, content, len, log->end + sizeof(head), req);
    if (there <= 0)
        return there;
    if (tm_hash64(content, len) != tm_le64(head + 8) || !load_content(content, len, &tensor))
        return 0;
    tm_index_entry entry = {log->end + sizeof(head), tensor.name_ref.len, tensor.sums_ref.len,
                            tensor.hist_ref.len};
    TM_TRY(params->fn(params->ctx, &entry, &tensor));
    log->end += sizeof(head) + len;
    return 1;
}

static int read_entries(tm_index_log *log, const tm_index_log_params *params, tm_req *req)
{
    TM_AUTO_FREE uint8_t *content = malloc(CONTENT_MAX);
    int more = 1;
    if (!content)
        return tm_fail(req, ENOMEM, "no memory to read %s", log->path);
    while (more > 0) {
        TM_TRY(tm_req_check(req));
        more = read_entry(log, params, content, req);
    }
    return more;
}

/* Takes up what is there, or begins anew. */
static int resume(tm_index_log *log, const tm_index_log_params *params, tm_req *req)
{
    uint8_t expected[TM_SECTION_HEADER_BYTES], found[TM_SECTION_HEADER_BYTES];
    header_of(params->fingerprint, expected);
    int there = tm_read_all(log->fd, log->path, found, sizeof(found), 0, req);
    TM_TRY(there);
    bool is_ours = there > 0 && memcmp(found, expected, sizeof(found)) == 0;
    log->end = sizeof(expected);
    if (is_ours)
        TM_TRY(read_entries(log, params, req));
    if (ftruncate(log->fd, is_ours ? (off_t)log->end : 0) < 0)
        return tm_fail_file(req, errno, log->path, "cannot be cut");
    return is_ours ? 0 : tm_write_all(log->fd, log->path, expected, sizeof(expected), 0, req);
}

int tm_index_log_open(tm_index_log *log, const tm_index_log_params *params, tm_req *req)
{
    *log = (tm_index_log){.path = strdup(params->path), .fd = -1};
    if (!log->path)
        return tm_fail(req, ENOMEM, "no memory to open %s", params->path);
    TM_TRY(lock_log(log, req));
    TM_TRY(resume(log, params, req));
    log->is_open = true;
    return 0;
}

void tm_index_log_close(tm_index_log *log, bool remove)
{
    if (log->is_open && remove)
        unlink(log->path); /* before the lock goes */
    tm_closep(&log->fd);
    free(log->path);
    *log = (tm_index_log){.fd = -1};
}

/* ---- Writing ---- */

static int write_entry(tm_index_log *log, const tm_index_parts *parts, uint8_t *entry, tm_req *req)
{
    const size_t lens[] = {TM_INDEX_RECORD_BYTES, parts->name_len, parts->sums_len,
                           parts->hist_len};
    const void *from[] = {parts->record, parts->name, parts->sums, parts->hist};
    uint8_t *content = entry + ENTRY_HEAD_BYTES;
    uint64_t len = 0;
    for (size_t i = 0; i < TM_ARRAY_LEN(lens); i++) {
        if (lens[i])
            memcpy(content + len, from[i], lens[i]);
        len += lens[i];
    }
    uint64_t head[2] = {len, tm_hash64(content, len)};
    memcpy(entry, head, sizeof(head));
    return tm_write_all(log->fd, log->path, entry, ENTRY_HEAD_BYTES + len, log->end, req);
}

int tm_index_log_append(tm_index_log *log, const tm_index_parts *parts, tm_req *req,
                        tm_index_entry *ret)
{
    size_t len = ENTRY_HEAD_BYTES + TM_INDEX_RECORD_BYTES + (size_t)parts->name_len +
                 parts->sums_len + parts->hist_len;
    TM_AUTO_FREE uint8_t *entry = malloc(len);
    if (!entry)
        return tm_fail(req, ENOMEM, "no memory to write %s", log->path);
    int rc = write_entry(log, parts, entry, req);
    if (rc < 0) {
        /* without that the next append or the next open cuts it off */
        tm_ignore(ftruncate(log->fd, (off_t)log->end));
        return rc;
    }
    *ret = (tm_index_entry){log->end + ENTRY_HEAD_BYTES, parts->name_len, parts->sums_len,
                            parts->hist_len};
    log->end += len;
    return 0;
}

int tm_index_log_sync(const tm_index_log *log, tm_req *req)
{
    return fdatasync(log->fd) < 0 ? tm_fail_file(req, errno, log->path, "cannot be synced") : 0;
}
