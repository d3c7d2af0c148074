#include "formats/new_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum {
    BUFFER_BYTES = 64 << 10,
    NEW_FILE_MODE = 0666 /* less the umask */
};

struct tm_new_file {
    char *path, *tmp;
    int fd; /* -1: not open, and no file to remove */
    uint64_t at;
    size_t fill;
    uint8_t buffer[BUFFER_BYTES]; /* what stands at AT */
};

/* ---- Files by their descriptors ---- */

int tm_fail_file(tm_req *req, int code, const char *path, const char *what)
{
    return tm_fail(req, code, "%s: %s: %s", path, what, strerror(code));
}

char *tm_path_with(const char *path, const char *suffix)
{
    size_t path_len = strlen(path), suffix_len = strlen(suffix);
    char *joined = malloc(path_len + suffix_len + 1);
    if (!joined)
        return NULL;
    memcpy(joined, path, path_len);
    memcpy(joined + path_len, suffix, suffix_len + 1);
    return joined;
}

int tm_write_all(int fd, const char *path, const void *bytes, size_t len, uint64_t off, tm_req *req)
{
    const uint8_t *at = bytes;
    while (len > 0) {
        ssize_t n = pwrite(fd, at, len, (off_t)off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return tm_fail_file(req, n < 0 ? errno : EIO, path, "cannot be written");
        at += n;
        len -= (size_t)n;
        off += (uint64_t)n;
    }
    return 0;
}

int tm_read_all(int fd, const char *path, void *dst, size_t len, uint64_t off, tm_req *req)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = pread(fd, (uint8_t *)dst + done, len - done, (off_t)(off + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tm_fail_file(req, errno, path, "cannot be read");
        if (n == 0)
            return 0;
        done += (size_t)n;
    }
    return 1;
}

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return strdup(".");
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

int tm_sync_folder_of(const char *path, tm_req *req)
{
    TM_AUTO_FREE char *name = folder_of(path);
    if (!name)
        return tm_fail(req, ENOMEM, "no memory to write %s", path);
    TM_AUTO_CLOSE int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return tm_fail_file(req, errno, name, "cannot be opened");
    /* some filesystems have nothing to sync in a folder, and say so */
    if (fsync(fd) < 0 && errno != EINVAL && errno != EROFS)
        return tm_fail_file(req, errno, name, "cannot be synced");
    return 0;
}

/* ---- The file ---- */

int tm_new_file_open(const char *path, uint64_t off, tm_req *req, tm_new_file **ret)
{
    TM_AUTO(tm_new_file_closep) tm_new_file *file = TM_NEW(tm_new_file);
    if (!file)
        return tm_fail(req, ENOMEM, "no memory to write %s", path);
    file->fd = -1;
    file->at = off;
    file->path = strdup(path);
    file->tmp = tm_path_with(path, ".tmp");
    if (!file->path || !file->tmp)
        return tm_fail(req, ENOMEM, "no memory to write %s", path);
    int flags = O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
    file->fd = open(file->tmp, flags, NEW_FILE_MODE);
    if (file->fd < 0)
        return tm_fail_file(req, errno, file->tmp, "cannot be made");
    *ret = TM_STEAL(file);
    return 0;
}

void tm_new_file_close(tm_new_file *file)
{
    if (!file)
        return;
    if (file->fd >= 0) {
        unlink(file->tmp);
        close(file->fd);
    }
    free(file->path);
    free(file->tmp);
    free(file);
}

void tm_new_file_closep(tm_new_file **file)
{
    tm_new_file_close(*file);
}

static int flush(tm_new_file *file, tm_req *req)
{
    TM_TRY(tm_write_all(file->fd, file->tmp, file->buffer, file->fill, file->at, req));
    file->at += file->fill;
    file->fill = 0;
    return 0;
}

int tm_new_file_put(tm_new_file *file, const void *bytes, size_t len, tm_req *req)
{
    const uint8_t *from = bytes;
    while (len > 0) {
        if (file->fill == BUFFER_BYTES)
            TM_TRY(flush(file, req));
        size_t n = tm_min_u64(len, BUFFER_BYTES - file->fill);
        memcpy(file->buffer + file->fill, from, n);
        file->fill += n;
        from += n;
        len -= n;
    }
    return 0;
}

int tm_new_file_put_first(tm_new_file *file, const void *bytes, size_t len, tm_req *req)
{
    return tm_write_all(file->fd, file->tmp, bytes, len, 0, req);
}

int tm_new_file_commit(tm_new_file *file, tm_req *req)
{
    TM_TRY(flush(file, req));
    if (fsync(file->fd) < 0)
        return tm_fail_file(req, errno, file->tmp, "cannot be synced");
    if (rename(file->tmp, file->path) < 0)
        return tm_fail_file(req, errno, file->path, "cannot be put in its place");
    tm_closep(&file->fd);
    file->fd = -1;
    return tm_sync_folder_of(file->path, req);
}
