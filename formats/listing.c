#include "formats/listing.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/index_place.h"

void tm_listing_init(tm_listing *listing)
{
    memset(listing, 0, sizeof(*listing));
}

void tm_listing_done(tm_listing *listing)
{
    for (size_t i = 0; i < listing->count; i++)
        free(listing->entries[i].path);
    free(listing->entries);
    for (size_t i = 0; i < listing->dangling_count; i++)
        free(listing->dangling[i]);
    free(listing->dangling);
    free(listing->root);
    free(listing->cache);
    tm_listing_init(listing);
}

char *tm_listing_path(const tm_listing *listing, const char *path)
{
    char *ret;
    int n = asprintf(&ret, "%s%s%s", listing->root, *path ? "/" : "", path);
    return n < 0 ? NULL : ret;
}

static int add_entry(tm_listing *listing, char *path_take, const struct stat *st, tm_req *req)
{
    TM_AUTO_FREE char *path = path_take;
    if (listing->count == TM_LISTING_MAX)
        return tm_fail(req, EFBIG, "%s: more than %d files and folders", listing->root,
                       TM_LISTING_MAX);
    if (listing->count == listing->cap) {
        size_t cap = listing->cap ? listing->cap * 2 : 32;
        tm_entry *grown = reallocarray(listing->entries, cap, sizeof(*grown));
        if (!grown)
            return tm_fail(req, ENOMEM, "out of memory");
        listing->entries = grown;
        listing->cap = cap;
    }
    tm_entry *entry = &listing->entries[listing->count++];
    *entry = (tm_entry){TM_STEAL(path), S_ISDIR(st->st_mode), tm_file_identity_from(st)};
    if (!entry->is_dir && entry->identity.mtime_ns > listing->mtime_ns)
        listing->mtime_ns = entry->identity.mtime_ns;
    return 0;
}

static int add_dangling(tm_listing *listing, char *path_take, tm_req *req)
{
    TM_AUTO_FREE char *path = path_take;
    if (listing->dangling_count == TM_LISTING_MAX)
        return tm_fail(req, EFBIG, "%s: more than %d links that lead nowhere", listing->root,
                       TM_LISTING_MAX);
    char **grown =
        reallocarray(listing->dangling, listing->dangling_count + 1, sizeof(*listing->dangling));
    if (!grown)
        return tm_fail(req, ENOMEM, "out of memory");
    listing->dangling = grown;
    listing->dangling[listing->dangling_count++] = TM_STEAL(path);
    return 0;
}

/* The folders from the root to the one being listed, to notice a link that leads back. */
typedef struct ancestor {
    const struct ancestor *up;
    dev_t dev;
    ino_t ino;
    int depth_left;
} ancestor;

static bool leads_back(const ancestor *up, const struct stat *st)
{
    for (; up; up = up->up)
        if (up->dev == st->st_dev && up->ino == st->st_ino)
            return true;
    return false;
}

static bool is_left_out(const char *name)
{
    static const char *const names[] = {".", "..", ".git", ".cache"};
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return tm_index_is_unfinished(name);
}

static void closedirp(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

/* Our own mount refuses us with ELOOP: to read a source through ourselves has no end either. */
static const char *words_of(int code)
{
    return code == ELOOP ? "leads into this mount, or from link to link" : strerror(code);
}

static int list_dir(tm_listing *listing, const char *prefix, const ancestor *up, tm_req *req);

/* One name of a folder: a file is added, a folder is added and listed. */
static int list_name(tm_listing *listing, int dirfd, const char *prefix, const char *name,
                     const ancestor *up, tm_req *req)
{
    struct stat st;
    bool leads_nowhere = fstatat(dirfd, name, &st, 0) < 0;
    if (!leads_nowhere && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return 0;
    if (!leads_nowhere && S_ISDIR(st.st_mode) && leads_back(up, &st))
        return 0;
    char *path;
    if (asprintf(&path, "%s%s%s", prefix, *prefix ? "/" : "", name) < 0)
        return tm_fail(req, ENOMEM, "out of memory");
    if (leads_nowhere)
        return add_dangling(listing, path, req);
    TM_TRY(add_entry(listing, path, &st, req));
    if (!S_ISDIR(st.st_mode) || up->depth_left == 0)
        return 0;
    ancestor here = {up, st.st_dev, st.st_ino, up->depth_left - 1};
    return list_dir(listing, path, &here, req);
}

static int list_dir(tm_listing *listing, const char *prefix, const ancestor *up, tm_req *req)
{
    assert(up->depth_left >= 0);
    TM_AUTO_FREE char *path = tm_listing_path(listing, prefix);
    if (!path)
        return tm_fail(req, ENOMEM, "out of memory");
    TM_AUTO(closedirp) DIR *dir = opendir(path);
    /* A folder within that cannot be read, is gone by now, or stands in our own mount (which
     * refuses us with ELOOP), is shown empty. */
    if (!dir && *prefix &&
        (errno == EACCES || errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
        return 0;
    if (!dir)
        return tm_fail(req, errno, "%s: %s", path, words_of(errno));
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (!entry)
            break;
        if (!is_left_out(entry->d_name))
            TM_TRY(list_name(listing, dirfd(dir), prefix, entry->d_name, up, req));
    }
    return errno ? tm_fail(req, errno, "%s: %s", path, strerror(errno)) : 0;
}

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const tm_entry *)a)->path, ((const tm_entry *)b)->path);
}

/* ---- The Hugging Face cache ---- */

/* The name of a snapshot that refs/main of a cache folder says, "" where it says none. */
static void read_main_ref(const char *path, char ret[65])
{
    TM_AUTO_FREE char *ref = NULL;
    ret[0] = '\0';
    if (asprintf(&ref, "%s/refs/main", path) < 0)
        return;
    TM_AUTO_CLOSE int fd = open(ref, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, ret, 64);
    ret[n > 0 ? n : 0] = '\0';
    ret[strcspn(ret, "\r\n ")] = '\0';
    if (ret[0] == '.' || strchr(ret, '/'))
        ret[0] = '\0';
}

/* The newest folder in DIR, malloc'ed; NULL where there is none. */
static char *newest_folder(const char *path)
{
    TM_AUTO(closedirp) DIR *dir = opendir(path);
    char *newest = NULL;
    struct timespec when = {0, 0};
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct stat st;
        if (entry->d_name[0] == '.' || fstatat(dirfd(dir), entry->d_name, &st, 0) < 0 ||
            !S_ISDIR(st.st_mode))
            continue;
        bool newer = st.st_mtim.tv_sec > when.tv_sec ||
                     (st.st_mtim.tv_sec == when.tv_sec && st.st_mtim.tv_nsec > when.tv_nsec);
        if (newest && !newer)
            continue;
        free(newest);
        when = st.st_mtim;
        newest = strdup(entry->d_name);
    }
    return newest;
}

static bool is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* A cache folder stands for one of its snapshots; any other path for itself. PATH has no slash at
 * its end. Malloc'ed. */
static char *resolve_cache(const char *path)
{
    TM_AUTO_FREE char *snapshots = NULL;
    char *ret = NULL;
    char ref[65];
    if (asprintf(&snapshots, "%s/snapshots", path) < 0)
        return NULL;
    const char *name = strrchr(path, '/');
    if (strncmp(name ? name + 1 : path, "models--", 8) != 0 || !is_dir(snapshots))
        return strdup(path);
    read_main_ref(path, ref);
    if (ref[0] && asprintf(&ret, "%s/%s", snapshots, ref) >= 0) {
        if (is_dir(ret))
            return ret;
        free(ret);
    }
    TM_AUTO_FREE char *newest = newest_folder(snapshots);
    if (!newest)
        return strdup(path);
    return asprintf(&ret, "%s/%s", snapshots, newest) < 0 ? NULL : ret;
}

/* ---- Reading ---- */

static int read_file(tm_listing *listing, const struct stat *st, tm_req *req)
{
    char *slash = strrchr(listing->root, '/');
    assert(slash); /* the root is absolute */
    char *name = strdup(slash + 1);
    if (!name)
        return tm_fail(req, ENOMEM, "out of memory");
    *(slash == listing->root ? slash + 1 : slash) = '\0';
    listing->is_file = true;
    return add_entry(listing, name, st, req);
}

static char *without_last_slashes(const char *path)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    return strndup(path, len);
}

static int read_listing(tm_listing *listing, const char *path, int depth, tm_req *req)
{
    TM_AUTO_FREE char *given = without_last_slashes(path);
    TM_AUTO_FREE char *resolved = given ? resolve_cache(given) : NULL;
    struct stat st;
    if (!resolved)
        return tm_fail(req, ENOMEM, "out of memory");
    /* Only the folder's own name is made absolute: a link to a file keeps its name. */
    if (stat(resolved, &st) < 0)
        return tm_fail(req, errno, "%s: %s", path, words_of(errno));
    char cwd[PATH_MAX] = "";
    if (resolved[0] != '/' && !getcwd(cwd, sizeof(cwd)))
        return tm_fail(req, errno, "the working directory: %s", strerror(errno));
    if (asprintf(&listing->root, "%s%s%s", cwd, *cwd ? "/" : "", resolved) < 0) {
        listing->root = NULL;
        return tm_fail(req, ENOMEM, "out of memory");
    }
    if (strcmp(given, resolved) != 0)
        listing->cache = TM_STEAL(given);
    listing->root_identity = tm_file_identity_from(&st);
    if (S_ISREG(st.st_mode))
        return read_file(listing, &st, req);
    if (!S_ISDIR(st.st_mode))
        return tm_fail(req, EINVAL, "%s: neither a file nor a folder", path);
    ancestor root = {NULL, st.st_dev, st.st_ino, depth};
    TM_TRY(list_dir(listing, "", &root, req));
    if (listing->count)
        qsort(listing->entries, listing->count, sizeof(tm_entry), compare_entries);
    if (listing->mtime_ns == 0)
        listing->mtime_ns = listing->root_identity.mtime_ns;
    return 0;
}

int tm_listing_read(const char *path, int depth, tm_req *req, tm_listing *ret)
{
    tm_listing listing;
    tm_listing_init(&listing);
    int rc = read_listing(&listing, path, depth, req);
    if (rc < 0) {
        tm_listing_done(&listing);
        return rc;
    }
    *ret = listing;
    return 0;
}

/* ---- Looking up ---- */

static int compare_path(const char *entry, const char *path, size_t len)
{
    int order = strncmp(entry, path, len);
    return order ? order : entry[len] != '\0';
}

size_t tm_listing_lower_bound(const tm_listing *listing, const char *path, size_t len)
{
    size_t lo = 0, hi = listing->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (compare_path(listing->entries[mid].path, path, len) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool tm_listing_find(const tm_listing *listing, const char *path, size_t len, size_t *ret)
{
    size_t at = tm_listing_lower_bound(listing, path, len);
    if (at == listing->count || compare_path(listing->entries[at].path, path, len) != 0)
        return false;
    *ret = at;
    return true;
}

/* ---- Changes ---- */

static bool same_identity(const char *path, const tm_file_identity *was)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return false;
    tm_file_identity is = tm_file_identity_from(&st);
    return tm_file_identity_equal(&is, was);
}

/* Whether the root is still the snapshot that its cache folder means. */
static bool same_snapshot(const tm_listing *listing)
{
    if (!listing->cache)
        return true;
    TM_AUTO_FREE char *now = resolve_cache(listing->cache);
    const char *name = now ? strrchr(now, '/') : NULL;
    return name && strcmp(strrchr(listing->root, '/'), name) == 0;
}

bool tm_listing_is_current(const tm_listing *listing)
{
    if (!same_snapshot(listing))
        return false;
    if (!listing->is_file && !same_identity(listing->root, &listing->root_identity))
        return false;
    for (size_t i = 0; i < listing->count; i++) {
        TM_AUTO_FREE char *path = tm_listing_path(listing, listing->entries[i].path);
        if (!path || !same_identity(path, &listing->entries[i].identity))
            return false;
    }
    for (size_t i = 0; i < listing->dangling_count; i++) {
        TM_AUTO_FREE char *path = tm_listing_path(listing, listing->dangling[i]);
        if (path && access(path, F_OK) == 0)
            return false;
    }
    return true;
}
