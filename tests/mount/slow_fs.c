/*
 * A folder mounted a second time, as slow as one likes: a source that hangs.
 *
 *     slow_fs FOLDER MOUNTPOINT [MS]
 *
 * Every request but those for the root's own attributes first waits while the file FOLDER/.slow
 * says so: "look" holds look-ups and listings, "open" opens, "read" reads, "all" all of them, for
 * what its second word names (a part of the path; none: everything). It is asked again every 10 ms.
 *
 * With MS, each read takes so many milliseconds, and the kernel keeps what it has read.
 */
#define FUSE_USE_VERSION 312
#include <fuse3/fuse.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base.h"

static char folder[4096];
static long delay_ms;

static bool is_held(const char *what, const char *path)
{
    char file[4200], held[16] = "", part[256] = "";
    snprintf(file, sizeof(file), "%s/.slow", folder);
    FILE *f = fopen(file, "r");
    if (!f)
        return false;
    int words = fscanf(f, "%15s %255s", held, part);
    fclose(f);
    return words > 0 && (strcmp(held, what) == 0 || strcmp(held, "all") == 0) &&
           (words < 2 || strstr(path, part));
}

/* The path in the folder, once it may go on. */
static const char *real(const char *what, const char *path, char ret[8192])
{
    while (is_held(what, path) && !fuse_interrupted())
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    snprintf(ret, 8192, "%s%s", folder, path);
    return ret;
}

static int slow_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
    (void)fi;
    char at[8192];
    return lstat(real(strcmp(path, "/") ? "look" : "", path, at), st) < 0 ? -errno : 0;
}

static int slow_readlink(const char *path, char *target, size_t size)
{
    char at[8192];
    ssize_t n = readlink(real("look", path, at), target, size - 1);
    target[n < 0 ? 0 : n] = '\0';
    return n < 0 ? -errno : 0;
}

static int slow_readdir(const char *path, void *list, fuse_fill_dir_t fill, off_t off,
                        struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
    (void)off, (void)fi, (void)flags;
    char at[8192];
    DIR *dir = opendir(real("look", path, at));
    if (!dir)
        return -errno;
    for (struct dirent *entry; (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".slow") != 0)
            fill(list, entry->d_name, NULL, 0, 0);
    closedir(dir);
    return 0;
}

static int slow_open(const char *path, struct fuse_file_info *fi)
{
    char at[8192];
    int fd = open(real("open", path, at), O_RDONLY | O_CLOEXEC);
    fi->fh = (uint64_t)fd;
    fi->direct_io = delay_ms == 0; /* so that each read comes here */
    fi->keep_cache = delay_ms > 0;
    return fd < 0 ? -errno : 0;
}

static int slow_read(const char *path, char *bytes, size_t size, off_t off,
                     struct fuse_file_info *fi)
{
    char at[8192];
    tm_ignore(real("read", path, at) != NULL);
    nanosleep(&(struct timespec){delay_ms / 1000, delay_ms % 1000 * 1000000}, NULL);
    ssize_t n = pread((int)fi->fh, bytes, size, off);
    return n < 0 ? -errno : (int)n;
}

static int slow_release(const char *path, struct fuse_file_info *fi)
{
    (void)path;
    close((int)fi->fh);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 4 || !realpath(argv[1], folder)) {
        fprintf(stderr, "usage: slow_fs FOLDER MOUNTPOINT [MS]\n");
        return 2;
    }
    delay_ms = argc == 4 ? strtol(argv[3], NULL, 10) : 0;
    static const struct fuse_operations ops = {
        .getattr = slow_getattr,
        .readlink = slow_readlink,
        .readdir = slow_readdir,
        .open = slow_open,
        .read = slow_read,
        .release = slow_release,
    };
    static const char options[] = "max_threads=200,max_idle_threads=200,attr_timeout=0,"
                                  "entry_timeout=0,negative_timeout=0";
    char *args[] = {argv[0], (char *)"-f", (char *)"-o", (char *)options, argv[2], NULL};
    return fuse_main(5, args, &ops, NULL);
}
