#include "fs/mounts.h"

#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <unistd.h>

enum {
    LINE_MAX_BYTES = 1 << 16, /* two paths, of which a byte may take four, and the options */
    LINKS_MAX = 40            /* as the kernel has it */
};

/* ---- Paths ---- */

/* PATH from the root, links followed but for the last component, which may be one. */
static int resolve_parent(const char *path, char **ret)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    TM_AUTO_FREE char *last = strndup(path + start, end - start);
    TM_AUTO_FREE char *folder = start ? strndup(path, start) : strdup(".");
    if (!last || !folder)
        return -ENOMEM;
    bool is_name = *last && strcmp(last, ".") != 0 && strcmp(last, "..") != 0;
    TM_AUTO_FREE char *real = realpath(is_name ? folder : path, NULL);
    if (!real)
        return -errno;
    char *joined;
    if (is_name && asprintf(&joined, "%s/%s", strcmp(real, "/") == 0 ? "" : real, last) < 0)
        return -ENOMEM;
    *ret = is_name ? joined : TM_STEAL(real);
    return 0;
}

/* Puts what the link *PATH leads to, TARGET, in its place. */
static int follow(char **path, const char *target)
{
    TM_AUTO_FREE char *link = TM_STEAL(*path);
    TM_AUTO_FREE char *joined = NULL;
    if (target[0] == '/')
        return resolve_parent(target, path);
    *strrchr(link, '/') = '\0';
    if (asprintf(&joined, "%s/%s", link, target) < 0)
        return -ENOMEM;
    return resolve_parent(joined, path);
}

int tm_mounts_resolve(const char *path, tm_req *req, char **ret)
{
    TM_AUTO_FREE char *at = NULL;
    int rc = resolve_parent(path, &at);
    for (int links = 0; rc == 0; links++) {
        char target[PATH_MAX];
        ssize_t n = readlink(at, target, sizeof(target) - 1);
        if (n < 0) {
            *ret = TM_STEAL(at);
            return 0;
        }
        target[n] = '\0';
        rc = links < LINKS_MAX ? follow(&at, target) : -ELOOP;
    }
    return tm_fail(req, -rc, "%s: %s", path, strerror(-rc));
}

/* ---- The table ---- */

int tm_mounts_type(const char *table, const char *point, tm_req *req, char **ret)
{
    TM_AUTO_FREE char *line = malloc(LINE_MAX_BYTES);
    TM_AUTO_FREE char *type = NULL;
    FILE *file = setmntent(table, "re");
    if (!file)
        return tm_fail(req, errno, "%s: %s", table, strerror(errno));
    struct mntent entry;
    bool complete = line != NULL;
    while (complete && getmntent_r(file, &entry, line, LINE_MAX_BYTES)) {
        if (strcmp(entry.mnt_dir, point) != 0)
            continue;
        free(type);
        type = strdup(entry.mnt_type);
        complete = type != NULL;
    }
    endmntent(file);
    if (!complete)
        return tm_fail(req, ENOMEM, "out of memory");
    *ret = TM_STEAL(type);
    return 0;
}
