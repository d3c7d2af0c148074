/* A session and its tree in this process, and what tests ask of it: look-ups, lists, whole files.
 */
#ifndef TM_TESTS_UNIT_FS_TREE_WALK_H
#define TM_TESTS_UNIT_FS_TREE_WALK_H

#include "core/read.h"
#include "fs/fs.h"
#include "fs/path.h"
#include "tests/unit/fs/checkpoint_files.h"

static tm_session *session;
static tm_fs *fs;
static tm_tree *tree;

static inline tm_req blocking_request(void)
{
    tm_req req;
    tm_req_init(&req, TM_LANE_VISIBLE);
    req.may_block = true;
    return req;
}

static inline int session_begin(const tm_session_params *params)
{
    tm_req req = blocking_request();
    if (tm_session_new(params, &req, &session) < 0 || tm_fs_new(session, TM_RAW_PREAD, &fs) < 0)
        return -1;
    tree = &fs->tree;
    return 0;
}

static inline void session_end(void)
{
    tm_fs_free(fs);
    tm_session_free(session);
}

static inline int tree_begin(void **state)
{
    if (files_new(state) < 0)
        return -1;
    return session_begin(&(tm_session_params){.threads = 2, .descriptors = 16});
}

static inline int tree_end(void **state)
{
    session_end();
    return files_free(state);
}

/* Mounts SOURCE under NAME for as long as the session lasts. */
static inline void mount_source(const char *name, const char *source)
{
    tm_req req = blocking_request();
    if (tm_session_add(session, name, source, &req) < 0)
        fail_msg("%s", tm_req_words(&req));
}

static inline void unmount(const char *name)
{
    tm_req req = blocking_request();
    assert_int_equal(tm_session_remove(session, name, &req), 0);
}

/* ---- One entry ---- */

static inline int try_look_up(uint64_t parent, const char *name, tm_attr *ret)
{
    tm_req req = blocking_request();
    return tree->ops->lookup(tree, parent, name, &req, ret);
}

static inline tm_attr look_up(uint64_t parent, const char *name)
{
    tm_attr attr = {0};
    int rc = try_look_up(parent, name, &attr);
    if (rc < 0)
        fail_msg("%s: %s", name, strerrorname_np(-rc));
    return attr;
}

/* Links are followed. */
static inline tm_attr find(const char *path)
{
    tm_attr attr = {0};
    tm_req req = blocking_request();
    int rc = tm_path_find(tree, path, &req, &attr);
    if (rc < 0)
        fail_msg("%s: %s (%s)", path, strerrorname_np(-rc), tm_req_words(&req));
    return attr;
}

static inline void expect_error(const char *path, int expected)
{
    tm_attr attr;
    tm_req req = blocking_request();
    int rc = tm_path_find(tree, path, &req, &attr);
    if (rc != expected)
        fail_msg("%s: %d, not %s", path, rc, strerrorname_np(-expected));
}

/* The entry itself where it is a link. FOLDER is a path. */
static inline tm_attr find_in(const char *folder, const char *name)
{
    return look_up(find(folder).ino, name);
}

/* Malloc'ed. */
static inline char *target_of(uint64_t ino)
{
    char *target = NULL;
    tm_req req = blocking_request();
    assert_int_equal(tree->ops->readlink(tree, ino, &req, &target), 0);
    return target;
}

static inline void expect_link(const char *folder, const char *name, const char *target)
{
    tm_attr attr = find_in(folder, name);
    assert_true(S_ISLNK(attr.mode));
    char *got = target_of(attr.ino);
    assert_string_equal(got, target);
    assert_int_equal(attr.size, strlen(target));
    free(got);
}

/* ---- Files ---- */

static inline tm_blob *open_file(uint64_t ino)
{
    tm_open_file file;
    tm_req req = blocking_request();
    int rc = tree->ops->open(tree, ino, &req, &file);
    if (rc < 0)
        fail_msg("%s (%s)", strerrorname_np(-rc), tm_req_words(&req));
    return file.blob;
}

static inline void close_file(tm_blob *blob)
{
    tm_blob_unhold(blob);
    tm_blob_unref(blob);
}

/* Malloc'ed, with a NUL behind it. */
static inline char *content_of_blob(tm_blob *blob)
{
    tm_req req = blocking_request();
    char *bytes = malloc(blob->size + 1);
    assert_non_null(bytes);
    int rc = tm_read_wait(tree->sched, blob, 0, blob->size, bytes, &req);
    if (rc < 0)
        fail_msg("%s (%s)", strerrorname_np(-rc), tm_req_words(&req));
    bytes[blob->size] = '\0';
    return bytes;
}

static inline char *content_of_path(const char *path, size_t *ret_len)
{
    tm_attr attr = find(path);
    tm_blob *blob = open_file(attr.ino);
    assert_int_equal(blob->size, attr.size);
    *ret_len = blob->size;
    char *bytes = content_of_blob(blob);
    close_file(blob);
    return bytes;
}

static inline void expect_bytes_at(const char *path, const void *bytes, size_t len)
{
    size_t got_len;
    char *got = content_of_path(path, &got_len);
    if (got_len != len || memcmp(got, bytes, len) != 0)
        fail_msg("%s differs", path);
    free(got);
}

static inline void expect_text_at(const char *path, const char *text)
{
    size_t len;
    char *got = content_of_path(path, &len);
    assert_string_equal(got, text);
    free(got);
}

/* The end of a .npy: its elements. */
static inline void expect_npy_at(const char *path, const void *elems, size_t len)
{
    size_t got_len;
    char *got = content_of_path(path, &got_len);
    if (got_len != len + (got_len - len) / 64 * 64 || got_len < len + 64 ||
        memcmp(got + got_len - len, elems, len) != 0)
        fail_msg("%s differs", path);
    free(got);
}

/* ---- Lists ---- */

typedef struct listed {
    char *name;
    tm_attr attr;
    uint64_t next;
} listed;

typedef struct list {
    listed *entries;
    size_t count, cap;
    size_t room; /* entries that are still taken */
} list;

static inline bool list_emit(void *ctx, const char *name, const tm_attr *attr, uint64_t next)
{
    list *l = ctx;
    if (l->room == 0)
        return false;
    l->room--;
    if (l->count == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 16;
        l->entries = reallocarray(l->entries, l->cap, sizeof(*l->entries));
        assert_non_null(l->entries);
    }
    l->entries[l->count++] = (listed){strdup(name), *attr, next};
    return true;
}

static inline void list_done(list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->entries[i].name);
    free(l->entries);
    *l = (list){0};
}

/* Appends to L the entries from AT on, at most ROOM of them. */
static inline void list_from(list *l, uint64_t ino, uint64_t from, size_t room)
{
    tm_req req = blocking_request();
    l->room = room;
    int rc = tree->ops->list(tree, ino, from, list_emit, l, &req);
    if (rc < 0)
        fail_msg("%s (%s)", strerrorname_np(-rc), tm_req_words(&req));
}

static inline list list_of(uint64_t ino)
{
    list l = {0};
    list_from(&l, ino, 0, SIZE_MAX);
    return l;
}

/* The names in their order, each with LF: to be freed. */
static inline char *names_at(const char *path)
{
    tm_text text;
    tm_text_init(&text);
    list l = list_of(find(path).ino);
    for (size_t i = 0; i < l.count; i++)
        tm_text_printf(&text, "%s\n", l.entries[i].name);
    list_done(&l);
    char *names;
    size_t len;
    assert_int_equal(tm_text_steal(&text, &names, &len), 0);
    return names;
}

static inline void expect_names(const char *path, const char *expected)
{
    char *names = names_at(path);
    assert_string_equal(names, expected);
    free(names);
}

#endif
