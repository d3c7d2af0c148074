#include "fs/fuse_backing.h"

typedef struct tm_backing {
    fuse_ino_t ino;
    int id;
    unsigned users;
    struct tm_backing *next;
} tm_backing;

static tm_backing **find(tm_fuse *fuse, fuse_ino_t ino)
{
    tm_backing **link = &fuse->backings;
    while (*link && (*link)->ino != ino)
        link = &(*link)->next;
    return link;
}

/* The inode's backing id, one user more; 0 where the kernel refuses. The lock is held. An inode
 * that is passed through already stays so, whatever became of others meanwhile. */
static int use_backing(tm_fuse *fuse, fuse_req_t req, fuse_ino_t ino, int fd)
{
    tm_backing *backing = *find(fuse, ino);
    if (backing) {
        backing->users++;
        return backing->id;
    }
    if (!atomic_load(&fuse->passthrough))
        return 0;
    backing = TM_NEW(tm_backing);
    int id = backing ? tm_fuse_backing_open(req, fd) : 0;
    if (id <= 0) {
        free(backing);
        return 0;
    }
    *backing = (tm_backing){ino, id, 1, fuse->backings};
    fuse->backings = backing;
    return id;
}

int tm_backing_open(tm_fuse *fuse, fuse_req_t req, fuse_ino_t ino, tm_handle *handle,
                    struct fuse_file_info *fi)
{
    int fd = tm_handle_fd(handle);
    if (fd < 0)
        return 0;
    pthread_mutex_lock(&fuse->lock);
    int id = use_backing(fuse, req, ino, fd);
    pthread_mutex_unlock(&fuse->lock);
    if (id <= 0 && atomic_exchange(&fuse->passthrough, false) && !fuse->demanded)
        /* Refused (a stacked filesystem, no privilege): not asked for again. */
        atomic_store(&fuse->tree->raw_way, TM_RAW_MAPPED);
    if (id <= 0)
        return fuse->demanded ? -EOPNOTSUPP : 0;
    tm_fuse_set_backing(fi, id);
    tm_handle_set_backing(handle, id);
    return 0;
}

void tm_backing_close(tm_fuse *fuse, fuse_ino_t ino, tm_handle *handle)
{
    if (tm_handle_backing(handle) == 0)
        return;
    pthread_mutex_lock(&fuse->lock);
    tm_backing **link = find(fuse, ino);
    tm_backing *backing = *link;
    assert(backing);
    if (--backing->users == 0) {
        *link = backing->next;
        tm_fuse_backing_close(fuse->session, backing->id);
        free(backing);
    }
    pthread_mutex_unlock(&fuse->lock);
}

void tm_backing_free_all(tm_fuse *fuse)
{
    while (fuse->backings) {
        tm_backing *backing = fuse->backings;
        fuse->backings = backing->next;
        free(backing);
    }
}
