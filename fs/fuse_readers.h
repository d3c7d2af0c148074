/*
 * Who reads an open file, thread by thread, and what they will want next: it is had near before
 * they ask. The kernel reads ahead of one that goes upwards, but not far enough for a slow source,
 * and not at all of one that goes downwards, in strides or from tensor to tensor.
 */
#ifndef TM_FS_FUSE_READERS_H
#define TM_FS_FUSE_READERS_H

#include <pthread.h>

#include "core/prefetch.h"
#include "fs/tree.h"

enum {
    TM_READERS_MAX = 8 /* that are known at a time */
};

/* Embedded in what stands for the open file. */
typedef struct tm_readers {
    tm_tree *tree;
    uint64_t ino;
    const tm_open_file *file;
    pthread_mutex_t lock; /* guards what follows */
    uint64_t reads;
    tm_layout *layout; /* NULL: none, or not there yet */
    struct {
        pid_t pid;
        uint64_t last; /* of all reads; 0: nobody */
        tm_follow follow;
    } readers[TM_READERS_MAX];
    bool foretold;
} tm_readers;

/* FILE, which is INO of TREE, lasts as long as READERS. */
void tm_readers_init(tm_readers *readers, tm_tree *tree, uint64_t ino, const tm_open_file *file);
/* Gives up what was asked for in its name. */
void tm_readers_done(tm_readers *readers);

/* The thread PID reads [off, off + len), LEN not 0. */
void tm_readers_note(tm_readers *readers, pid_t pid, uint64_t off, size_t len, tm_foretold *ret);
/* Has that near, of the file. READERS may be gone: it is only a name. */
void tm_readers_ask(const tm_readers *readers, tm_sched *sched, const tm_open_file *file,
                    const tm_foretold *told);

#endif
