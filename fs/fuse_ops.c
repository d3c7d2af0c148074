#include "fs/fuse_ops.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "core/read.h"
#include "fs/fuse_backing.h"
#include "fs/fuse_waiting.h"

/* What never comes to be something else: a source that changes gets other inode numbers. For years:
 * where the kernel asked again for what was replaced, a file that is still open would end (ESTALE).
 */
static const double KEEP_S = 1e9;
/*
 * What a name stands for in a folder whose names may change. The kernel then asks again, ten times
 * a second at most, and need not be told. To tell it would be to wait for its lock of the folder,
 * whose holder may be waiting for us: where we end in between, neither ever gets up.
 */
static const double NAME_KEEP_S = 0.1;

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

/* A folder's attributes stay a while even where its names do not: every path through it asks for
 * them. */
static double keep_attr(const tm_attr *attr)
{
    return !attr->live ? KEEP_S : S_ISDIR(attr->mode) ? NAME_KEEP_S : 0;
}

static double keep_name(const tm_attr *attr)
{
    return attr->name_live ? NAME_KEEP_S : KEEP_S;
}

static struct fuse_entry_param entry_of(const tm_fuse *fuse, const tm_attr *attr)
{
    return (struct fuse_entry_param){
        .ino = attr->ino,
        .attr = stat_of(fuse, attr),
        .attr_timeout = keep_attr(attr),
        .entry_timeout = keep_name(attr),
    };
}

static void forget(tm_fuse *fuse, fuse_ino_t ino, uint64_t count)
{
    if (fuse->tree->ops->forget)
        fuse->tree->ops->forget(fuse->tree, ino, count);
}

static int run_lookup(const tm_op *o, tm_req *req)
{
    tm_fuse *fuse = o->fuse;
    tm_attr attr = {0};
    int rc = fuse->tree->ops->lookup(fuse->tree, o->ino, o->bytes, req, &attr);
    if (rc == -ENOENT && !attr.live) {
        /* Loaders look for dozens of files that are not there. */
        struct fuse_entry_param none = {.ino = 0, .entry_timeout = keep_name(&attr)};
        TM_TRY(tm_op_claim(o));
        tm_ignore(fuse_reply_entry(o->fuse_req, &none));
        return 0;
    }
    TM_TRY(rc);
    struct fuse_entry_param entry = entry_of(fuse, &attr);
    rc = tm_op_claim(o);
    if (rc < 0 || fuse_reply_entry(o->fuse_req, &entry) < 0)
        forget(fuse, attr.ino, 1);
    return rc;
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    tm_op o = {.run = run_lookup,
               .fuse = fuse_of(req),
               .fuse_req = req,
               .ino = parent,
               .bytes = name,
               .len = strlen(name)};
    tm_op_start(&o);
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

static int run_getattr(const tm_op *o, tm_req *req)
{
    tm_fuse *fuse = o->fuse;
    tm_attr attr;
    TM_TRY(fuse->tree->ops->getattr(fuse->tree, o->ino, req, &attr));
    struct stat st = stat_of(fuse, &attr);
    TM_TRY(tm_op_claim(o));
    tm_ignore(fuse_reply_attr(o->fuse_req, &st, keep_attr(&attr)));
    return 0;
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)fi;
    tm_op o = {.run = run_getattr, .fuse = fuse_of(req), .fuse_req = req, .ino = ino};
    tm_op_start(&o);
}

/* Only a size can be set, of what takes writes: `echo … > ctl` sets it too, to no effect. */
static int run_setattr(const tm_op *o, tm_req *req)
{
    tm_fuse *fuse = o->fuse;
    tm_attr attr;
    TM_TRY(fuse->tree->ops->getattr(fuse->tree, o->ino, req, &attr));
    if (!(attr.mode & S_IWUSR) || S_ISDIR(attr.mode) || !fuse->tree->ops->truncate)
        return -EROFS;
    if (o->has_size) {
        TM_TRY(fuse->tree->ops->truncate(fuse->tree, o->ino, o->off, req));
        TM_TRY(fuse->tree->ops->getattr(fuse->tree, o->ino, req, &attr));
    }
    struct stat st = stat_of(fuse, &attr);
    TM_TRY(tm_op_claim(o));
    tm_ignore(fuse_reply_attr(o->fuse_req, &st, 0));
    return 0;
}

static void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st, int to_set,
                       struct fuse_file_info *fi)
{
    (void)fi;
    if (to_set & ~(FUSE_SET_ATTR_SIZE | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW |
                   FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_CTIME)) {
        tm_ignore(fuse_reply_err(req, EROFS));
        return;
    }
    tm_op o = {.run = run_setattr,
               .fuse = fuse_of(req),
               .fuse_req = req,
               .ino = ino,
               .has_size = to_set & FUSE_SET_ATTR_SIZE,
               .off = (uint64_t)st->st_size};
    tm_op_start(&o);
}

static int run_readlink(const tm_op *o, tm_req *req)
{
    tm_tree *tree = o->fuse->tree;
    TM_AUTO_FREE char *target = NULL;
    if (!tree->ops->readlink)
        return -EINVAL;
    TM_TRY(tree->ops->readlink(tree, o->ino, req, &target));
    TM_TRY(tm_op_claim(o));
    tm_ignore(fuse_reply_readlink(o->fuse_req, target));
    return 0;
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
    tm_op o = {.run = run_readlink, .fuse = fuse_of(req), .fuse_req = req, .ino = ino};
    tm_op_start(&o);
}

/* ---- Open files ---- */

static tm_handle *handle_of(const struct fuse_file_info *fi)
{
    return (tm_handle *)(uintptr_t)fi->fh;
}

static int open_handle(const tm_op *o, tm_req *req, tm_handle **ret)
{
    tm_fuse *fuse = o->fuse;
    tm_handle_params params = {.tree = fuse->tree,
                               .ino = o->ino,
                               .mapped = fuse->mapped,
                               .reads = &fuse->reads,
                               .timeout_ns = fuse->timeout_ns};
    TM_TRY(fuse->tree->ops->open(fuse->tree, o->ino, req, &params.file));
    return tm_handle_new(&params, ret);
}

/* Only ctl takes writes. */
static int check_write(const tm_op *o, tm_req *req)
{
    tm_tree *tree = o->fuse->tree;
    tm_attr attr;
    if ((o->fi.flags & O_ACCMODE) == O_RDONLY)
        return 0;
    TM_TRY(tree->ops->getattr(tree, o->ino, req, &attr));
    return attr.mode & S_IWUSR ? 0 : -EROFS;
}

/* Replies to the open with HANDLE. */
static int reply_open(const tm_op *o, tm_handle *handle, tm_req *req)
{
    struct fuse_file_info fi = o->fi;
    TM_TRY(tm_op_claim(o));
    int rc = tm_backing_open(o->fuse, o->fuse_req, o->ino, handle, &fi);
    if (rc < 0) {
        tm_fail(req, -rc, "raw=passthrough: the kernel refuses it here");
        tm_op_fail(o, rc, req);
        return rc;
    }
    const tm_open_file *file = tm_handle_file(handle);
    fi.fh = (uintptr_t)handle;
    fi.direct_io = file->live;
    /* The kernel refuses an open file that is both passed through and cached. */
    fi.keep_cache = !file->live && !file->fresh && !tm_handle_backing(handle);
    fi.noflush = tm_blob_in_memory(file->blob); /* no read of it is ever under way */
    return fuse_reply_open(o->fuse_req, &fi);
}

static int run_open(const tm_op *o, tm_req *req)
{
    tm_handle *handle;
    TM_TRY(check_write(o, req));
    TM_TRY(open_handle(o, req, &handle));
    if (reply_open(o, handle, req) < 0) {
        tm_backing_close(o->fuse, o->ino, handle);
        tm_handle_free(handle);
    }
    return 0;
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    tm_op o = {.run = run_open, .fuse = fuse_of(req), .fuse_req = req, .ino = ino, .fi = *fi};
    tm_op_start(&o);
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
    tm_backing_close(fuse_of(req), ino, handle_of(fi));
    tm_handle_free(handle_of(fi));
    tm_ignore(fuse_reply_err(req, 0));
}

static int run_write(const tm_op *o, tm_req *req)
{
    tm_tree *tree = o->fuse->tree;
    if (!tree->ops->write)
        return -EROFS;
    int changed = tree->ops->write(tree, o->ino, &(tm_chunk){o->bytes, o->len, o->off}, req);
    TM_TRY(changed);
    /* Who looks after the write has returned finds what it changed. */
    if (changed)
        tm_ignore(nanosleep(&(struct timespec){.tv_nsec = (long)(NAME_KEEP_S * 1e9)}, NULL));
    TM_TRY(tm_op_claim(o));
    tm_ignore(fuse_reply_write(o->fuse_req, o->len));
    return 0;
}

static void op_write(fuse_req_t req, fuse_ino_t ino, const char *bytes, size_t len, off_t off,
                     struct fuse_file_info *fi)
{
    (void)fi;
    tm_op o = {.run = run_write,
               .fuse = fuse_of(req),
               .fuse_req = req,
               .ino = ino,
               .bytes = bytes,
               .len = len,
               .off = (uint64_t)off};
    tm_op_start(&o);
}

static int run_create(const tm_op *o, tm_req *req)
{
    tm_fuse *fuse = o->fuse;
    tm_attr attr;
    if (!fuse->tree->ops->create)
        return -EROFS;
    TM_TRY(fuse->tree->ops->create(fuse->tree, o->ino, o->bytes, req, &attr));
    struct fuse_entry_param entry = entry_of(fuse, &attr);
    tm_op opening = *o;
    tm_handle *handle;
    opening.ino = attr.ino;
    TM_TRY(open_handle(&opening, req, &handle));
    struct fuse_file_info fi = o->fi;
    fi.fh = (uintptr_t)handle;
    fi.direct_io = tm_handle_file(handle)->live;
    int rc = tm_op_claim(o);
    if (rc < 0 || fuse_reply_create(o->fuse_req, &entry, &fi) < 0)
        tm_handle_free(handle);
    return rc;
}

static void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
                      struct fuse_file_info *fi)
{
    (void)mode;
    tm_op o = {.run = run_create,
               .fuse = fuse_of(req),
               .fuse_req = req,
               .ino = parent,
               .bytes = name,
               .len = strlen(name),
               .fi = *fi};
    tm_op_start(&o);
}

static int run_unlink(const tm_op *o, tm_req *req)
{
    tm_tree *tree = o->fuse->tree;
    if (!tree->ops->remove)
        return -EROFS;
    TM_TRY(tree->ops->remove(tree, o->ino, o->bytes, req));
    TM_TRY(tm_op_claim(o));
    tm_ignore(fuse_reply_err(o->fuse_req, 0));
    return 0;
}

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    tm_op o = {.run = run_unlink,
               .fuse = fuse_of(req),
               .fuse_req = req,
               .ino = parent,
               .bytes = name,
               .len = strlen(name)};
    tm_op_start(&o);
}

/* ---- Folders ---- */

typedef struct dir_buffer {
    const tm_fuse *fuse;
    bool plus;
    size_t used, size;
    char *bytes;
} dir_buffer;

static bool add_entry(void *ctx, const char *name, const tm_attr *attr, uint64_t next)
{
    dir_buffer *b = ctx;
    char *at = b->bytes + b->used;
    size_t room = b->size - b->used, need;
    struct fuse_entry_param entry = entry_of(b->fuse, attr);
    if (attr->ino == 0)
        entry.attr.st_ino = UINT32_MAX; /* a folder that only a look-up opens */
    need = b->plus ? fuse_add_direntry_plus(NULL, at, room, name, &entry, (off_t)next)
                   : fuse_add_direntry(NULL, at, room, name, &entry.attr, (off_t)next);
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

static int run_readdir(const tm_op *o, tm_req *req)
{
    tm_tree *tree = o->fuse->tree;
    dir_range range;
    memcpy(&range, o->bytes, sizeof(range));
    TM_AUTO_FREE char *bytes = malloc(range.size);
    if (!bytes)
        return -ENOMEM;
    dir_buffer b = {o->fuse, range.plus, 0, range.size, bytes};
    TM_TRY(tree->ops->list(tree, o->ino, range.at, add_entry, &b, req));
    TM_TRY(tm_op_claim(o));
    tm_ignore(fuse_reply_buf(o->fuse_req, bytes, b.used));
    return 0;
}

static void read_folder(fuse_req_t req, fuse_ino_t ino, const dir_range *range)
{
    tm_op o = {.run = run_readdir,
               .fuse = fuse_of(req),
               .fuse_req = req,
               .ino = ino,
               .bytes = (const char *)range,
               .len = sizeof(*range)};
    tm_op_start(&o);
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

static int run_opendir(const tm_op *o, tm_req *req)
{
    tm_fuse *fuse = o->fuse;
    tm_attr attr;
    TM_TRY(fuse->tree->ops->getattr(fuse->tree, o->ino, req, &attr));
    struct fuse_file_info fi = o->fi;
    fi.cache_readdir = fi.keep_cache = !attr.live;
    TM_TRY(tm_op_claim(o));
    tm_ignore(fuse_reply_open(o->fuse_req, &fi));
    return 0;
}

static void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    tm_op o = {.run = run_opendir, .fuse = fuse_of(req), .fuse_req = req, .ino = ino, .fi = *fi};
    tm_op_start(&o);
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
    tm_fuse_do_without(conn, FUSE_CAP_ATOMIC_O_TRUNC); /* it comes as a setattr */
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

static void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
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
    .rmdir = op_rmdir,
    .symlink = op_symlink,
    .rename = op_rename,
    .link = op_link,
    .create = op_create,
};
