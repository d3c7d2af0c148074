#include "fs/fuse_ops.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/read.h"
#include "fs/fuse_backing.h"

/* Nothing changes under its name without our telling the kernel. */
static const double KEEP_S = 3600;

enum {
    READ_MAX = 1 << 20,
    /* A page that is read ahead counts as a background request until it is answered. A thousand
     * readers of a stuck source must not keep the kernel from sending the next one's request. */
    BACKGROUND_MAX = 32768,
};

static tm_fuse *fuse_of(fuse_req_t req)
{
    return fuse_req_userdata(req);
}

/* ---- Requests that may have to wait: again on an opener thread ---- */

typedef struct op op;

struct op {
    /* Replies, or returns an error; -EINPROGRESS where it would have to wait and may not. */
    int (*run)(const op *op, tm_req *req);
    fuse_req_t req;
    fuse_ino_t ino;
    const char *bytes; /* a name, or what is written */
    size_t len;
    struct fuse_file_info fi;
};

typedef struct waiting_op {
    tm_job job;
    op op;
    char bytes[];
} waiting_op;

static void reply_error(fuse_req_t fuse_req, int rc, const tm_req *req)
{
    tm_tree *tree = fuse_of(fuse_req)->tree;
    if (rc != -ENOENT && tm_req_words(req)[0] && tree->ops->failed)
        tree->ops->failed(tree, rc, tm_req_words(req));
    tm_ignore(fuse_reply_err(fuse_req, -rc));
}

static void run_waiting(tm_job *job)
{
    waiting_op *w = TM_CONTAINER(job, waiting_op, job);
    tm_req req;
    tm_req_init(&req, job->lane);
    req.may_block = true;
    tm_reads *reads = &fuse_of(w->op.req)->reads;
    int rc = w->op.run(&w->op, &req);
    if (rc < 0)
        reply_error(w->op.req, rc, &req);
    free(w);
    tm_reads_end(reads);
}

static void start_op(const op *o)
{
    tm_req req;
    tm_req_init(&req, TM_LANE_SCALAR);
    int rc = o->run(o, &req);
    if (rc != -EINPROGRESS) {
        if (rc < 0)
            reply_error(o->req, rc, &req);
        return;
    }
    waiting_op *w = malloc(sizeof(*w) + o->len + 1);
    if (!w) {
        tm_ignore(fuse_reply_err(o->req, ENOMEM));
        return;
    }
    w->job = (tm_job){.run = run_waiting, .lane = TM_LANE_SELECTION};
    w->op = *o;
    if (o->bytes) {
        memcpy(w->bytes, o->bytes, o->len);
        w->bytes[o->len] = '\0';
        w->op.bytes = w->bytes;
    }
    tm_reads_begin(&fuse_of(o->req)->reads);
    tm_pool_submit(fuse_of(o->req)->tree->sched->openers, &w->job);
}

/* ---- Attributes ---- */

static struct stat stat_of(const tm_fuse *fuse, const tm_attr *attr)
{
    return (struct stat){
        .st_ino = attr->ino,
        .st_mode = attr->mode,
        .st_nlink = 1,
        .st_uid = fuse->uid,
        .st_gid = fuse->gid,
        .st_size = (off_t)attr->size,
        .st_blksize = 4096,
        .st_blocks = (blkcnt_t)(attr->size / 512 + (attr->size % 512 != 0)),
        .st_mtim = {attr->mtime_ns / 1000000000, attr->mtime_ns % 1000000000},
        .st_ctim = {attr->mtime_ns / 1000000000, attr->mtime_ns % 1000000000},
        .st_atim = {attr->mtime_ns / 1000000000, attr->mtime_ns % 1000000000},
    };
}

/* A folder's attributes stay even where its names do not: every path through it asks for them. */
static double keep_attr(const tm_attr *attr)
{
    return attr->live && !S_ISDIR(attr->mode) ? 0 : KEEP_S;
}

static struct fuse_entry_param entry_of(const tm_fuse *fuse, const tm_attr *attr)
{
    return (struct fuse_entry_param){
        .ino = attr->ino,
        .attr = stat_of(fuse, attr),
        .attr_timeout = keep_attr(attr),
        .entry_timeout = KEEP_S,
    };
}

static int run_lookup(const op *o, tm_req *req)
{
    tm_fuse *fuse = fuse_of(o->req);
    tm_attr attr = {0};
    int rc = fuse->tree->ops->lookup(fuse->tree, o->ino, o->bytes, req, &attr);
    if (rc == -ENOENT && !attr.live) {
        /* What is not there now never will be: the kernel need not ask again. */
        struct fuse_entry_param none = {.ino = 0, .entry_timeout = KEEP_S};
        tm_ignore(fuse_reply_entry(o->req, &none));
        return 0;
    }
    TM_TRY(rc);
    struct fuse_entry_param entry = entry_of(fuse, &attr);
    if (fuse_reply_entry(o->req, &entry) < 0 && fuse->tree->ops->forget)
        fuse->tree->ops->forget(fuse->tree, attr.ino, 1);
    return 0;
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    op o = {.run = run_lookup, .req = req, .ino = parent, .bytes = name, .len = strlen(name)};
    start_op(&o);
}

static void forget(tm_fuse *fuse, fuse_ino_t ino, uint64_t count)
{
    if (fuse->tree->ops->forget)
        fuse->tree->ops->forget(fuse->tree, ino, count);
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count)
{
    forget(fuse_of(req), ino, count);
    fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
    for (size_t i = 0; i < count; i++)
        forget(fuse_of(req), forgets[i].ino, forgets[i].nlookup);
    fuse_reply_none(req);
}

static int run_getattr(const op *o, tm_req *req)
{
    tm_fuse *fuse = fuse_of(o->req);
    tm_attr attr;
    TM_TRY(fuse->tree->ops->getattr(fuse->tree, o->ino, req, &attr));
    struct stat st = stat_of(fuse, &attr);
    tm_ignore(fuse_reply_attr(o->req, &st, keep_attr(&attr)));
    return 0;
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)fi;
    op o = {.run = run_getattr, .req = req, .ino = ino};
    start_op(&o);
}

/* Nothing can be set; but `echo … > ctl` truncates it first. */
static int run_setattr(const op *o, tm_req *req)
{
    tm_fuse *fuse = fuse_of(o->req);
    tm_attr attr;
    TM_TRY(fuse->tree->ops->getattr(fuse->tree, o->ino, req, &attr));
    if (!(attr.mode & S_IWUSR) || S_ISDIR(attr.mode))
        return -EROFS;
    struct stat st = stat_of(fuse, &attr);
    tm_ignore(fuse_reply_attr(o->req, &st, 0));
    return 0;
}

static void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st, int to_set,
                       struct fuse_file_info *fi)
{
    (void)st, (void)fi;
    if (to_set & ~(FUSE_SET_ATTR_SIZE | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW |
                   FUSE_SET_ATTR_CTIME)) {
        tm_ignore(fuse_reply_err(req, EROFS));
        return;
    }
    op o = {.run = run_setattr, .req = req, .ino = ino};
    start_op(&o);
}

static int run_readlink(const op *o, tm_req *req)
{
    tm_tree *tree = fuse_of(o->req)->tree;
    TM_AUTO_FREE char *target = NULL;
    if (!tree->ops->readlink)
        return -EINVAL;
    TM_TRY(tree->ops->readlink(tree, o->ino, req, &target));
    tm_ignore(fuse_reply_readlink(o->req, target));
    return 0;
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
    op o = {.run = run_readlink, .req = req, .ino = ino};
    start_op(&o);
}

/* ---- Open files ---- */

static tm_handle *handle_of(const struct fuse_file_info *fi)
{
    return (tm_handle *)(uintptr_t)fi->fh;
}

static int open_handle(const op *o, tm_req *req, tm_handle **ret)
{
    tm_fuse *fuse = fuse_of(o->req);
    tm_handle_params params = {.tree = fuse->tree,
                               .mapped = fuse->mapped,
                               .reads = &fuse->reads,
                               .timeout_ns = fuse->timeout_ns};
    TM_TRY(fuse->tree->ops->open(fuse->tree, o->ino, req, &params.file));
    return tm_handle_new(&params, ret);
}

/* Only ctl takes writes. */
static int check_write(const op *o, tm_req *req)
{
    tm_tree *tree = fuse_of(o->req)->tree;
    tm_attr attr;
    if ((o->fi.flags & O_ACCMODE) == O_RDONLY)
        return 0;
    TM_TRY(tree->ops->getattr(tree, o->ino, req, &attr));
    return attr.mode & S_IWUSR ? 0 : -EROFS;
}

static int run_open(const op *o, tm_req *req)
{
    tm_fuse *fuse = fuse_of(o->req);
    struct fuse_file_info fi = o->fi;
    tm_handle *handle;
    TM_TRY(check_write(o, req));
    TM_TRY(open_handle(o, req, &handle));
    int rc = tm_backing_open(fuse, o->req, o->ino, handle, &fi);
    if (rc < 0) {
        tm_handle_free(handle);
        return tm_fail(req, -rc, "raw=passthrough: the kernel refuses it here");
    }
    const tm_open_file *file = tm_handle_file(handle);
    fi.fh = (uintptr_t)handle;
    fi.direct_io = file->live;
    /* The kernel refuses an open file that is both passed through and cached. */
    fi.keep_cache = !file->live && !tm_handle_backing(handle);
    fi.noflush = tm_blob_in_memory(file->blob); /* no read of it is ever under way */
    if (fuse_reply_open(o->req, &fi) < 0) {
        tm_backing_close(fuse, o->req, o->ino, handle);
        tm_handle_free(handle);
    }
    return 0;
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    op o = {.run = run_open, .req = req, .ino = ino, .fi = *fi};
    start_op(&o);
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                    struct fuse_file_info *fi)
{
    (void)ino;
    tm_handle_read(handle_of(fi), req, size, off);
}

static void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    tm_handle_flush(handle_of(fi), fuse_req_ctx(req)->pid);
    tm_ignore(fuse_reply_err(req, 0));
}

static void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    tm_backing_close(fuse_of(req), req, ino, handle_of(fi));
    tm_handle_free(handle_of(fi));
    tm_ignore(fuse_reply_err(req, 0));
}

static int run_write(const op *o, tm_req *req)
{
    tm_tree *tree = fuse_of(o->req)->tree;
    if (!tree->ops->write)
        return -EROFS;
    TM_TRY(tree->ops->write(tree, o->ino, o->bytes, o->len, req));
    tm_ignore(fuse_reply_write(o->req, o->len));
    return 0;
}

static void op_write(fuse_req_t req, fuse_ino_t ino, const char *bytes, size_t len, off_t off,
                     struct fuse_file_info *fi)
{
    (void)off, (void)fi;
    op o = {.run = run_write, .req = req, .ino = ino, .bytes = bytes, .len = len};
    start_op(&o);
}

/* ---- Folders ---- */

typedef struct dir_buffer {
    fuse_req_t req;
    bool plus;
    size_t used, size;
    char *bytes;
} dir_buffer;

static bool add_entry(void *ctx, const char *name, const tm_attr *attr, uint64_t next)
{
    dir_buffer *b = ctx;
    tm_fuse *fuse = fuse_of(b->req);
    char *at = b->bytes + b->used;
    size_t room = b->size - b->used, need;
    struct fuse_entry_param entry = entry_of(fuse, attr);
    if (attr->ino == 0)
        entry.attr.st_ino = UINT32_MAX; /* a folder that only a look-up opens */
    need = b->plus ? fuse_add_direntry_plus(b->req, at, room, name, &entry, (off_t)next)
                   : fuse_add_direntry(b->req, at, room, name, &entry.attr, (off_t)next);
    if (need > room)
        return false;
    b->used += need;
    return true;
}

typedef struct dir_range {
    size_t size;
    uint64_t at;
    bool plus;
} dir_range;

static int run_readdir(const op *o, tm_req *req)
{
    tm_tree *tree = fuse_of(o->req)->tree;
    dir_range range;
    memcpy(&range, o->bytes, sizeof(range));
    TM_AUTO_FREE char *bytes = malloc(range.size);
    if (!bytes)
        return -ENOMEM;
    dir_buffer b = {o->req, range.plus, 0, range.size, bytes};
    TM_TRY(tree->ops->list(tree, o->ino, range.at, add_entry, &b, req));
    tm_ignore(fuse_reply_buf(o->req, bytes, b.used));
    return 0;
}

static void read_folder(fuse_req_t req, fuse_ino_t ino, const dir_range *range)
{
    op o = {.run = run_readdir,
            .req = req,
            .ino = ino,
            .bytes = (const char *)range,
            .len = sizeof(*range)};
    start_op(&o);
}

static void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                       struct fuse_file_info *fi)
{
    (void)fi;
    read_folder(req, ino, &(dir_range){size, (uint64_t)off, false});
}

static void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                           struct fuse_file_info *fi)
{
    (void)fi;
    read_folder(req, ino, &(dir_range){size, (uint64_t)off, true});
}

static int run_opendir(const op *o, tm_req *req)
{
    tm_fuse *fuse = fuse_of(o->req);
    tm_attr attr;
    TM_TRY(fuse->tree->ops->getattr(fuse->tree, o->ino, req, &attr));
    struct fuse_file_info fi = o->fi;
    fi.cache_readdir = fi.keep_cache = !attr.live;
    tm_ignore(fuse_reply_open(o->req, &fi));
    return 0;
}

static void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    op o = {.run = run_opendir, .req = req, .ino = ino, .fi = *fi};
    start_op(&o);
}

/* ---- The rest ---- */

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
    (void)ino;
    tm_tree *tree = fuse_of(req)->tree;
    uint64_t bytes = tree->ops->total_bytes ? tree->ops->total_bytes(tree) : 0;
    struct statvfs st = {
        .f_bsize = 4096,
        .f_frsize = 4096,
        .f_blocks = bytes / 4096 + (bytes % 4096 != 0),
        .f_namemax = 255,
    };
    tm_ignore(fuse_reply_statfs(req, &st));
}

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
    tm_fuse *fuse = userdata;
    conn->max_write = READ_MAX;
    conn->max_background = BACKGROUND_MAX;
    conn->congestion_threshold = BACKGROUND_MAX;
    tm_fuse_do_without(conn, FUSE_CAP_SPLICE_READ);
    tm_fuse_do_without(conn, FUSE_CAP_SPLICE_WRITE);
    tm_fuse_do_without(conn, FUSE_CAP_SPLICE_MOVE);
    tm_fuse_want(conn, FUSE_CAP_ASYNC_READ);
    tm_fuse_want(conn, FUSE_CAP_ASYNC_DIO);
    tm_fuse_want(conn, FUSE_CAP_PARALLEL_DIROPS);
    tm_fuse_want(conn, FUSE_CAP_READDIRPLUS);
    tm_fuse_want(conn, FUSE_CAP_READDIRPLUS_AUTO);
    tm_fuse_want(conn, FUSE_CAP_CACHE_SYMLINKS);
    int way = atomic_load(&fuse->tree->raw_way);
    if (way == TM_RAW_AUTO || way == TM_RAW_PASSTHROUGH)
        fuse->passthrough = geteuid() == 0 && tm_fuse_want_passthrough(conn);
    if (way == TM_RAW_AUTO)
        atomic_store(&fuse->tree->raw_way, fuse->passthrough ? TM_RAW_PASSTHROUGH : TM_RAW_MAPPED);
    fuse->demanded = way == TM_RAW_PASSTHROUGH;
}

static void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t dev)
{
    (void)parent, (void)name, (void)mode, (void)dev;
    tm_ignore(fuse_reply_err(req, EROFS));
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    op_mknod(req, parent, name, mode, 0);
}

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    op_mknod(req, parent, name, 0, 0);
}

static void op_symlink(fuse_req_t req, const char *link, fuse_ino_t parent, const char *name)
{
    (void)link;
    op_mknod(req, parent, name, 0, 0);
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
                      const char *new_name, unsigned flags)
{
    (void)new_parent, (void)new_name, (void)flags;
    op_mknod(req, parent, name, 0, 0);
}

static void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
    (void)ino;
    op_mknod(req, parent, name, 0, 0);
}

static void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
                      struct fuse_file_info *fi)
{
    (void)fi;
    op_mknod(req, parent, name, mode, 0);
}

const struct fuse_lowlevel_ops tm_fuse_ops = {
    .init = op_init,
    .lookup = op_lookup,
    .forget = op_forget,
    .forget_multi = op_forget_multi,
    .getattr = op_getattr,
    .setattr = op_setattr,
    .readlink = op_readlink,
    .open = op_open,
    .read = op_read,
    .write = op_write,
    .flush = op_flush,
    .release = op_release,
    .opendir = op_opendir,
    .readdir = op_readdir,
    .readdirplus = op_readdirplus,
    .statfs = op_statfs,
    .mknod = op_mknod,
    .mkdir = op_mkdir,
    .unlink = op_unlink,
    .rmdir = op_unlink,
    .symlink = op_symlink,
    .rename = op_rename,
    .link = op_link,
    .create = op_create,
};
