#include "formats/index_place.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PRIVATE = 0700,    /* folders in the user's cache */
    FOLDER_MODE = 0777 /* others, less the umask */
};

/* "$XDG_CACHE_HOME/tmorph/index", malloc'ed. Relative paths there are to be ignored. */
static int cache_folder(char **ret)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (cache && cache[0] == '/')
        n = asprintf(ret, "%s/tmorph/index", cache);
    else if (home && home[0] == '/')
        n = asprintf(ret, "%s/.cache/tmorph/index", home);
    else
        return -ENOENT;
    return n < 0 ? -ENOMEM : 0;
}

bool tm_index_is_unfinished(const char *name)
{
    static const char *const ends[] = {".tmidx.part", ".tmidx.tmp", ".tmtiles.part"};
    size_t len = strlen(name);
    for (size_t i = 0; i < TM_ARRAY_LEN(ends); i++)
        if (len > strlen(ends[i]) && strcmp(name + len - strlen(ends[i]), ends[i]) == 0)
            return true;
    return false;
}

bool tm_index_cache_exists(void)
{
    TM_AUTO_FREE char *folder = NULL;
    struct stat st;
    return cache_folder(&folder) == 0 && stat(folder, &st) == 0;
}

static void closedirp(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

bool tm_index_folder_has_fingerprints(const char *folder)
{
    static const char digits[] = "0123456789abcdef";
    TM_AUTO(closedirp) DIR *dir = opendir(folder);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        if (strspn(entry->d_name, digits) == (size_t)2 * TM_FINGERPRINT_BYTES)
            return true;
    return false;
}

static int path_by_fingerprint(const tm_index_place *place, const char *folder, char **ret)
{
    char name[2 * TM_FINGERPRINT_BYTES + 1];
    for (size_t i = 0; i < TM_FINGERPRINT_BYTES; i++)
        snprintf(name + 2 * i, 3, "%02x", place->fingerprint[i]);
    return asprintf(ret, "%s/%s%s", folder, name, place->suffix) < 0 ? -ENOMEM : 0;
}

static int path_in_cache(const tm_index_place *place, char **ret)
{
    TM_AUTO_FREE char *folder = NULL;
    TM_TRY(cache_folder(&folder));
    return path_by_fingerprint(place, folder, ret);
}

int tm_index_path(const tm_index_place *place, tm_index_where where, char **ret)
{
    char *path = NULL;
    int n = -1;
    switch (where) {
    case TM_INDEX_IN_FOLDER:
        if (!place->folder)
            return -ENOENT;
        n = asprintf(&path, "%s/%s%s", place->folder, place->name, place->suffix);
        break;
    case TM_INDEX_IN_FOLDER_TOO:
        return place->folder ? path_by_fingerprint(place, place->folder, ret) : -ENOENT;
    case TM_INDEX_BESIDE:
        n = asprintf(&path, "%s%s", place->shard, place->suffix);
        break;
    case TM_INDEX_IN_CACHE:
        return path_in_cache(place, ret);
    case TM_INDEX_PLACES:
        return -ENOENT;
    }
    if (n < 0)
        return -ENOMEM;
    *ret = path;
    return 0;
}

/* ---- Writing ---- */

static bool may_write_beside(const tm_index_place *place)
{
    const char *slash = strrchr(place->shard, '/');
    TM_AUTO_FREE char *folder =
        slash ? strndup(place->shard, (size_t)(slash - place->shard) + 1) : strdup(".");
    return !place->not_beside && folder &&
           faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0;
}

/* Makes the folder that PATH stands in, and those above it. */
static int make_folder_of(char *path, mode_t mode, tm_req *req)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int code = mkdir(path, mode) < 0 ? errno : 0;
        struct stat st;
        if (code != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
            code = 0; /* it is there, on a filesystem that need not be writable */
        if (code != 0)
            tm_ignore(tm_fail(req, code, "%s: cannot be made: %s", path, strerror(code)));
        *slash = '/';
        if (code != 0)
            return -code;
    }
    return 0;
}

/* Whether PATH is an index, but of another shard. */
static bool is_of_another(const char *path, const uint8_t *fingerprint)
{
    static const uint8_t magics[][8] = {{0x89, 'T', 'M', 'I', 'D', 'X', '\r', '\n'},
                                        {0x89, 'T', 'M', 'T', 'I', 'L', '\r', '\n'}};
    enum {
        FINGERPRINT_OFF = 56
    };
    uint8_t head[FINGERPRINT_OFF + TM_FINGERPRINT_BYTES];
    TM_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || pread(fd, head, sizeof(head), 0) != (ssize_t)sizeof(head))
        return false;
    return (memcmp(head, magics[0], 8) == 0 || memcmp(head, magics[1], 8) == 0) &&
           memcmp(head + FINGERPRINT_OFF, fingerprint, TM_FINGERPRINT_BYTES) != 0;
}

int tm_index_path_to_write(const tm_index_place *place, tm_req *req, char **ret)
{
    TM_AUTO_FREE char *path = NULL;
    bool beside = !place->folder && may_write_beside(place);
    tm_index_where where = place->folder ? TM_INDEX_IN_FOLDER
                           : beside      ? TM_INDEX_BESIDE
                                         : TM_INDEX_IN_CACHE;
    int rc = tm_index_path(place, where, &path);
    if (rc == -ENOENT)
        return tm_fail(req, ENOENT,
                       "%s: its folder is not to be written to, and neither XDG_CACHE_HOME nor "
                       "HOME names a cache for its index",
                       place->shard);
    if (rc < 0)
        return tm_fail(req, -rc, "no memory to index %s", place->shard);
    if (where == TM_INDEX_IN_FOLDER && is_of_another(path, place->fingerprint)) {
        free(TM_STEAL(path));
        if (tm_index_path(place, TM_INDEX_IN_FOLDER_TOO, &path) < 0)
            return tm_fail(req, ENOMEM, "no memory to index %s", place->shard);
    }
    if (where != TM_INDEX_BESIDE)
        TM_TRY(make_folder_of(path, where == TM_INDEX_IN_CACHE ? PRIVATE : FOLDER_MODE, req));
    *ret = TM_STEAL(path);
    return 0;
}
