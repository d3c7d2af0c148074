/*
 * A tree of files and folders as its readers see it: by inode number, name and open file, without a
 * word of FUSE. The mount serves one, `tmorph ls` and `cat` walk one, a test can make its own.
 *
 * Every call may come from any thread. What would have to wait for I/O answers -EINPROGRESS where
 * the request may not block; the caller then repeats it on a thread that may.
 */
#ifndef TM_FS_TREE_H
#define TM_FS_TREE_H

#include "core/layout.h"
#include "core/req.h"
#include "core/sched.h"

typedef struct tm_tree tm_tree;

#define TM_INO_ROOT ((uint64_t)1)

typedef struct tm_attr {
    uint64_t ino;  /* 0 in a list: only a look-up can tell */
    uint32_t mode; /* type and permissions */
    uint64_t size; /* exact */
    int64_t mtime_ns;
    bool live;      /* its content changes by itself (of a folder: its names): not cached */
    bool name_live; /* from a look-up or list: its name may come to stand for something else */
} tm_attr;

/* An open file. */
typedef struct tm_open_file {
    tm_blob *blob; /* referenced and held (tm_blob_hold): the caller's */
    tm_lane lane;
    bool live;  /* read past the page cache */
    bool fresh; /* what the page cache has of it is forgotten when it is opened */
} tm_open_file;

/* What is written. */
typedef struct tm_chunk {
    const char *bytes;
    size_t len;
    uint64_t off;
} tm_chunk;

/* Takes one entry of a folder; false where there is no more room. NEXT continues after it. */
typedef bool tm_emit_fn(void *ctx, const char *name, const tm_attr *attr, uint64_t next);

typedef struct tm_tree_ops {
    /* Required. On -ENOENT, ret->live says that the name is to be asked for again each time,
     * ret->name_live that it may yet come to be. */
    int (*lookup)(tm_tree *tree, uint64_t parent, const char *name, tm_req *req, tm_attr *ret);
    int (*getattr)(tm_tree *tree, uint64_t ino, tm_req *req, tm_attr *ret);
    /* Lists from AT (0: the beginning) until EMIT has had enough; without . and .. */
    int (*list)(tm_tree *tree, uint64_t ino, uint64_t at, tm_emit_fn *emit, void *ctx, tm_req *req);
    int (*open)(tm_tree *tree, uint64_t ino, tm_req *req, tm_open_file *ret);
    /* Optional: */
    /* What a request for INO may have to wait for: tm_job.key. */
    uint64_t (*key)(tm_tree *tree, uint64_t ino);
    int (*readlink)(tm_tree *tree, uint64_t ino, tm_req *req, char **ret); /* malloc'ed */
    /* 1 where names may stand for something else since then, else 0. */
    int (*write)(tm_tree *tree, uint64_t ino, const tm_chunk *chunk, tm_req *req);
    int (*truncate)(tm_tree *tree, uint64_t ino, uint64_t size, tm_req *req);
    /* A file of that name, empty unless it is there already; it counts as looked up. */
    int (*create)(tm_tree *tree, uint64_t parent, const char *name, tm_req *req, tm_attr *ret);
    int (*remove)(tm_tree *tree, uint64_t parent, const char *name, tm_req *req);
    /* The tensors of a file of weights, the caller's; NULL of others, and where it cannot be had.
     */
    tm_layout *(*layout)(tm_tree *tree, uint64_t ino);
    /* The kernel has forgotten COUNT of the look-ups of INO that it was answered. */
    void (*forget)(tm_tree *tree, uint64_t ino, uint64_t count);
    /* A request for INO was answered an error, with words. */
    void (*failed)(tm_tree *tree, uint64_t ino, int rc, const char *words);
    /* The bytes of everything, for statfs. */
    uint64_t (*total_bytes)(tm_tree *tree);
} tm_tree_ops;

/* How the bytes of a local file go to their reader. */
typedef enum tm_raw_way {
    TM_RAW_AUTO,        /* the fastest that is allowed here: not decided yet */
    TM_RAW_PASSTHROUGH, /* the kernel reads the file itself */
    TM_RAW_MAPPED,      /* handed to the kernel from the mapped file */
    TM_RAW_PREAD,       /* copied */
    TM_RAW_SYMLINK,     /* a link to the file is shown instead */
    TM_RAW_WAY_COUNT
} tm_raw_way;

const char *tm_raw_way_name(tm_raw_way way);
bool tm_raw_way_parse(const char *name, tm_raw_way *ret);

struct tm_tree {
    const tm_tree_ops *ops;
    tm_sched *sched;
    atomic_int raw_way; /* as asked for; the mount writes what it came to */
};

#endif
