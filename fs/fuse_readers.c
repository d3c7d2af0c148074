#include "fs/fuse_readers.h"

enum {
    FILE_MIN = 1 << 20 /* smaller ones are read before anything could be foretold */
};

void tm_readers_init(tm_readers *readers, tm_tree *tree, uint64_t ino, const tm_open_file *file)
{
    *readers = (tm_readers){.tree = tree, .ino = ino, .file = file};
    pthread_mutex_init(&readers->lock, NULL);
}

void tm_readers_done(tm_readers *readers)
{
    if (readers->foretold)
        tm_prefetch_cancel(readers->tree->sched, readers);
    tm_layout_free(readers->layout);
    pthread_mutex_destroy(&readers->lock);
}

/* What follows PID, in the place of who has not read for longest. The lock is held. */
static tm_follow *find(tm_readers *readers, pid_t pid)
{
    int oldest = 0;
    for (int i = 0; i < TM_READERS_MAX; i++) {
        if (readers->readers[i].last && readers->readers[i].pid == pid) {
            oldest = i;
            break;
        }
        if (readers->readers[i].last < readers->readers[oldest].last)
            oldest = i;
    }
    if (!readers->readers[oldest].last || readers->readers[oldest].pid != pid)
        memset(&readers->readers[oldest], 0, sizeof(readers->readers[oldest]));
    readers->readers[oldest].pid = pid;
    readers->readers[oldest].last = readers->reads;
    return &readers->readers[oldest].follow;
}

void tm_readers_note(tm_readers *readers, pid_t pid, uint64_t off, size_t len, tm_foretold *ret)
{
    tm_tree *tree = readers->tree;
    tm_blob *blob = readers->file->blob;
    ret->count = 0;
    if (readers->file->live || blob->size < FILE_MIN || tm_blob_in_memory(blob))
        return;
    pthread_mutex_lock(&readers->lock);
    /* Who reads once, a header say, is told apart from who goes on. */
    if (++readers->reads == 2 && tree->ops->layout) {
        pthread_mutex_unlock(&readers->lock); /* a large file's takes a while */
        tm_layout *layout = tree->ops->layout(tree, readers->ino);
        pthread_mutex_lock(&readers->lock);
        readers->layout = layout;
    }
    tm_follow_read(find(readers, pid), blob->size, readers->layout, off, len, ret);
    readers->foretold = readers->foretold || ret->count > 0;
    pthread_mutex_unlock(&readers->lock);
}

void tm_readers_ask(const tm_readers *readers, tm_sched *sched, const tm_open_file *file,
                    const tm_foretold *told)
{
    tm_prefetch_told(sched, readers, file->lane, file->blob, told);
}
