/*
 * The null server: a FUSE filesystem that does no work, to measure against.
 *
 * What FUSE itself costs on a machine is what this server takes; our daemon is judged by the ratio.
 * It mounts with the same options as ours and answers reads from a static 1 MiB buffer:
 *
 *     MNT/file          --size bytes
 *     MNT/small         100 bytes
 *     MNT/entries/      --entries folders, with names of --name-length bytes
 */
#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    BUFFER_BYTES = 1 << 20, /* the largest READ that the kernel sends */
    SMALL_BYTES = 100,
    BLOCK_BYTES = 512,
    NAME_MAX_BYTES = 255,
    SERIAL_DIGITS = 9, /* at the end of an entry's name */
    ENTRIES_MAX = 999999999,
    MAX_BACKGROUND = 64,
};

/* Inode numbers: the root's is fixed by FUSE. */
enum {
    INO_FILE = 2,
    INO_SMALL = 3,
    INO_ENTRIES = 4,
    INO_FIRST_ENTRY = 16
};

typedef struct null_options {
    uint64_t size;
    uint64_t entries;
    double timeout; /* seconds that attributes and entries stay valid */
    unsigned threads;
    unsigned name_length;
    bool keep_cache;
    bool direct;
} null_options;

static null_options options = {
    .size = 1 << 30, .timeout = 3600, .threads = 4, .name_length = 40, .keep_cache = true};
static char buffer[BUFFER_BYTES] __attribute__((aligned(1 << 21)));

/* ---------------------------------------------------------------- attributes */

static uint64_t size_of(fuse_ino_t ino)
{
    return ino == INO_FILE ? options.size : ino == INO_SMALL ? SMALL_BYTES : 0;
}

static bool is_file(fuse_ino_t ino)
{
    return ino == INO_FILE || ino == INO_SMALL;
}

static bool exists(fuse_ino_t ino)
{
    return ino == FUSE_ROOT_ID || is_file(ino) || ino == INO_ENTRIES ||
           (ino >= INO_FIRST_ENTRY && ino - INO_FIRST_ENTRY < options.entries);
}

static void attributes_of(fuse_ino_t ino, struct stat *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->st_ino = ino;
    ret->st_mode = is_file(ino) ? S_IFREG | 0444 : S_IFDIR | 0555;
    ret->st_nlink = 1;
    ret->st_size = (off_t)size_of(ino);
    ret->st_blocks = (blkcnt_t)((size_of(ino) + BLOCK_BYTES - 1) / BLOCK_BYTES);
    ret->st_blksize = 4096;
}

static void fill_entry(fuse_ino_t ino, struct fuse_entry_param *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->ino = ino;
    ret->attr_timeout = ret->entry_timeout = options.timeout;
    attributes_of(ino, &ret->attr);
}

/* ---------------------------------------------------------------- names */

/* "eee…000000042": all of one length, so that a listing costs what ours does. */
static void name_of_entry(uint64_t index, char ret[NAME_MAX_BYTES + 1])
{
    size_t lead = options.name_length - SERIAL_DIGITS;
    memset(ret, 'e', lead);
    for (size_t i = SERIAL_DIGITS; i-- > 0; index /= 10)
        ret[lead + i] = (char)('0' + index % 10);
    ret[options.name_length] = '\0';
}

static fuse_ino_t entry_named(const char *name)
{
    char again[NAME_MAX_BYTES + 1];
    if (strlen(name) != options.name_length)
        return 0;
    uint64_t index = strtoull(name + options.name_length - SERIAL_DIGITS, NULL, 10);
    if (index >= options.entries)
        return 0;
    name_of_entry(index, again);
    return strcmp(name, again) == 0 ? INO_FIRST_ENTRY + index : 0;
}

static fuse_ino_t child_named(fuse_ino_t parent, const char *name)
{
    if (parent == INO_ENTRIES)
        return entry_named(name);
    if (parent != FUSE_ROOT_ID)
        return 0;
    return strcmp(name, "file") == 0      ? INO_FILE
           : strcmp(name, "small") == 0   ? INO_SMALL
           : strcmp(name, "entries") == 0 ? INO_ENTRIES
                                          : 0;
}

/* The child of FOLDER at POSITION of its listing; 0 at the end. */
static fuse_ino_t child_at(fuse_ino_t folder, uint64_t position, char ret_name[NAME_MAX_BYTES + 1])
{
    static const char *const root_names[] = {"file", "small", "entries"};
    if (folder == FUSE_ROOT_ID && position < sizeof(root_names) / sizeof(*root_names)) {
        snprintf(ret_name, NAME_MAX_BYTES + 1, "%s", root_names[position]);
        return child_named(folder, ret_name);
    }
    if (folder == INO_ENTRIES && position < options.entries) {
        name_of_entry(position, ret_name);
        return INO_FIRST_ENTRY + position;
    }
    return 0;
}

/* ---------------------------------------------------------------- operations */

static void null_init(void *data, struct fuse_conn_info *conn)
{
    (void)data;
    conn->max_read = BUFFER_BYTES;
    conn->max_background = MAX_BACKGROUND;
    conn->congestion_threshold = MAX_BACKGROUND * 3 / 4;
}

static void null_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct fuse_entry_param entry;
    fuse_ino_t ino = child_named(parent, name);
    if (ino)
        fill_entry(ino, &entry);
    else
        entry = (struct fuse_entry_param){.entry_timeout = options.timeout};
    fuse_reply_entry(req, &entry);
}

static void null_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count)
{
    (void)ino;
    (void)count;
    fuse_reply_none(req);
}

static void null_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)fi;
    struct stat attributes;
    if (!exists(ino)) {
        fuse_reply_err(req, ENOENT);
        return;
    }
    attributes_of(ino, &attributes);
    fuse_reply_attr(req, &attributes, options.timeout);
}

static void null_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    fi->keep_cache = options.keep_cache;
    fi->direct_io = options.direct;
    fuse_reply_open(req, fi);
}

static void null_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    fi->keep_cache = fi->cache_readdir = options.keep_cache;
    fuse_reply_open(req, fi);
}

static void null_read(fuse_req_t req, fuse_ino_t ino, size_t len, off_t off,
                      struct fuse_file_info *fi)
{
    (void)fi;
    uint64_t size = size_of(ino), begin = (uint64_t)off;
    uint64_t left = begin < size ? size - begin : 0;
    size_t n = len < left ? len : (size_t)left;
    fuse_reply_buf(req, buffer, n < BUFFER_BYTES ? n : BUFFER_BYTES);
}

static void list(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, bool plus)
{
    char *reply = malloc(size);
    size_t left = size;
    if (!reply) {
        fuse_reply_err(req, ENOMEM);
        return;
    }
    for (uint64_t at = (uint64_t)off;; at++) {
        char name[NAME_MAX_BYTES + 1];
        struct fuse_entry_param entry;
        fuse_ino_t child = child_at(ino, at, name);
        if (!child)
            break;
        fill_entry(child, &entry);
        char *end = reply + size - left;
        off_t next = (off_t)(at + 1);
        size_t need = plus ? fuse_add_direntry_plus(req, end, left, name, &entry, next)
                           : fuse_add_direntry(req, end, left, name, &entry.attr, next);
        if (need > left)
            break;
        left -= need;
    }
    fuse_reply_buf(req, reply, size - left);
    free(reply);
}

static void null_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                         struct fuse_file_info *fi)
{
    (void)fi;
    list(req, ino, size, off, false);
}

static void null_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                             struct fuse_file_info *fi)
{
    (void)fi;
    list(req, ino, size, off, true);
}

static const struct fuse_lowlevel_ops operations = {
    .init = null_init,
    .lookup = null_lookup,
    .forget = null_forget,
    .getattr = null_getattr,
    .open = null_open,
    .opendir = null_opendir,
    .read = null_read,
    .readdir = null_readdir,
    .readdirplus = null_readdirplus,
};

/* ---------------------------------------------------------------- main */

static int usage(void)
{
    fprintf(stderr, "usage: null_server [--size=BYTES] [--entries=N] [--name-length=N]\n"
                    "                   [--timeout=SECONDS] [--threads=N] [--no-keep-cache]\n"
                    "                   [--direct] MNT\n"
                    "Stays in front until it is unmounted.\n");
    return 2;
}

static int parse(int argc, char **argv)
{
    static const struct option names[] = {{"size", required_argument, NULL, 's'},
                                          {"entries", required_argument, NULL, 'e'},
                                          {"timeout", required_argument, NULL, 't'},
                                          {"threads", required_argument, NULL, 'n'},
                                          {"name-length", required_argument, NULL, 'l'},
                                          {"no-keep-cache", no_argument, NULL, 'k'},
                                          {"direct", no_argument, NULL, 'd'},
                                          {NULL, 0, NULL, 0}};
    int c;
    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (c) {
        case 's':
            options.size = strtoull(optarg, NULL, 10);
            break;
        case 'e':
            options.entries = strtoull(optarg, NULL, 10);
            break;
        case 't':
            options.timeout = strtod(optarg, NULL);
            break;
        case 'n':
            options.threads = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'l':
            options.name_length = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'k':
            options.keep_cache = false;
            break;
        case 'd':
            options.direct = true;
            break;
        default:
            return -1;
        }
    }
    options.entries = options.entries < ENTRIES_MAX ? options.entries : ENTRIES_MAX;
    bool good = optind + 1 == argc && options.threads > 0 && options.name_length >= SERIAL_DIGITS &&
                options.name_length <= NAME_MAX_BYTES;
    return good ? optind : -1;
}

static int serve(const char *mount_point)
{
    char arg0[] = "null_server", flag[] = "-o",
         mount_options[] = "fsname=null_server,subtype=null,default_permissions,max_read=1048576";
    char *args[] = {arg0, flag, mount_options, NULL};
    struct fuse_args fuse_args = FUSE_ARGS_INIT(3, args);
    struct fuse_session *session =
        fuse_session_new(&fuse_args, &operations, sizeof(operations), NULL);
    struct fuse_loop_config *config = fuse_loop_cfg_create();
    int rc = 2;
    if (session && config && fuse_set_signal_handlers(session) == 0) {
        fuse_loop_cfg_set_max_threads(config, options.threads);
        fuse_loop_cfg_set_idle_threads(config, options.threads);
        if (fuse_session_mount(session, mount_point) == 0) {
            rc = fuse_session_loop_mt(session, config) == 0 ? 0 : 1;
            fuse_session_unmount(session);
        }
        fuse_remove_signal_handlers(session);
    }
    if (config)
        fuse_loop_cfg_destroy(config);
    if (session)
        fuse_session_destroy(session);
    fuse_opt_free_args(&fuse_args);
    return rc;
}

int main(int argc, char **argv)
{
    int at = parse(argc, argv);
    if (at < 0)
        return usage();
    for (size_t i = 0; i < sizeof(buffer); i++)
        buffer[i] = (char)(i * 131 + 7);
    return serve(argv[at]);
}
