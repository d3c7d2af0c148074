/* Paths in a tree: components, links, and what leads nowhere. */
#include "fs/path.h"

#include <stdarg.h>
#include <stdio.h>
#include <setjmp.h>
#include <cmocka.h>
#include <sys/stat.h>

/* A tree of the test's own: entries by number, each with its parent. */
typedef struct entry {
    uint64_t parent;
    const char *name;
    uint32_t mode;
    const char *target;
} entry;

static const entry entries[] = {
    {0, "", S_IFDIR, NULL}, /* the root */
    {0, "a", S_IFDIR, NULL},
    {1, "b", S_IFDIR, NULL},
    {2, "file", S_IFREG, NULL},
    {0, "to-b", S_IFLNK, "a/b"},
    {2, "up", S_IFLNK, "../.."},
    {1, "chain", S_IFLNK, "../to-b/file"},
    {0, "loop", S_IFLNK, "loop"},
    {0, "ring-a", S_IFLNK, "ring-b"},
    {0, "ring-b", S_IFLNK, "./ring-a"},
    {0, "absolute", S_IFLNK, "/etc"},
    {0, "broken", S_IFLNK, "a/nothing"},
    {2, "here", S_IFLNK, "."},
    {0, "link-to-root", S_IFLNK, ".."},
    {0, "bad", S_IFLNK, NULL}, /* its target cannot be read */
};

static uint64_t ino_of(size_t i)
{
    return TM_INO_ROOT + i;
}

static int own_getattr(tm_tree *tree, uint64_t ino, tm_req *req, tm_attr *ret)
{
    (void)tree, (void)req;
    *ret = (tm_attr){.ino = ino, .mode = entries[ino - TM_INO_ROOT].mode};
    return 0;
}

static int own_lookup(tm_tree *tree, uint64_t parent, const char *name, tm_req *req, tm_attr *ret)
{
    if (!S_ISDIR(entries[parent - TM_INO_ROOT].mode))
        return -ENOTDIR;
    if (strcmp(name, "denied") == 0)
        return tm_fail(req, EACCES, "words of the tree");
    for (size_t i = 1; i < TM_ARRAY_LEN(entries); i++)
        if (ino_of(entries[i].parent) == parent && strcmp(entries[i].name, name) == 0)
            return own_getattr(tree, ino_of(i), req, ret);
    return -ENOENT;
}

static int own_readlink(tm_tree *tree, uint64_t ino, tm_req *req, char **ret)
{
    (void)tree;
    const char *target = entries[ino - TM_INO_ROOT].target;
    if (!target)
        return tm_fail(req, EIO, "no target");
    *ret = strdup(target);
    return 0;
}

static const tm_tree_ops own_ops = {
    .lookup = own_lookup, .getattr = own_getattr, .readlink = own_readlink};
static tm_tree own = {.ops = &own_ops};

static int find(const char *path, tm_req *req, uint64_t *ret)
{
    tm_attr attr;
    tm_req_init(req, TM_LANE_VISIBLE);
    req->may_block = true;
    int rc = tm_path_find(&own, path, req, &attr);
    if (rc == 0)
        *ret = attr.ino;
    return rc;
}

static void a_path_is_walked_from_the_root_and_links_are_followed(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        size_t entry;
    } rows[] = {
        {"", 0},
        {"/", 0},
        {".", 0},
        {"a", 1},
        {"/a", 1},
        {"a/", 1},
        {"a//b///", 2},
        {"a/./b/.", 2},
        {"a/b/file", 3},
        {"a/b/..", 1},
        {"..", 0},
        {"../../a", 1},
        {"a/b/../../a/b/file", 3},
        {"to-b", 2},
        {"to-b/file", 3},
        {"to-b/..", 1},
        {"a/b/up", 0},
        {"a/b/up/a", 1},
        {"a/chain", 3},
        {"a/b/here/here/here/file", 3},
        {"link-to-root/a", 1},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        tm_req req;
        uint64_t ino = 0;
        if (find(rows[i].path, &req, &ino) < 0 || ino != ino_of(rows[i].entry))
            fail_msg("%s", rows[i].path);
        assert_string_equal(tm_req_words(&req), "");
    }
}

static void what_is_not_there_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        int rc;
        const char *words;
    } rows[] = {
        {"nothing", -ENOENT, "nothing: No such file or directory"},
        {"a/nothing/b", -ENOENT, "nothing: No such file or directory"},
        {"a/b/file/c", -ENOTDIR, "c: Not a directory"},
        {"broken", -ENOENT, "nothing: No such file or directory"},
        {"absolute", -EXDEV, "/etc: lies outside of the tree"},
        {"absolute/passwd", -EXDEV, "/etc: lies outside of the tree"},
        {"loop", -ELOOP, "too many links"},
        {"ring-a/x", -ELOOP, "too many links"},
        {"a/denied", -EACCES, "words of the tree"},
        {"bad", -EIO, "no target"},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        tm_req req;
        uint64_t ino;
        assert_int_equal(find(rows[i].path, &req, &ino), rows[i].rc);
        assert_string_equal(tm_req_words(&req), rows[i].words);
    }
}

/* PART, COUNT times; malloc'ed. */
static char *repeated(const char *part, size_t count)
{
    size_t len = strlen(part);
    char *path = tm_new_array(count * len + 1, 1);
    assert_non_null(path);
    for (size_t i = 0; i < count; i++)
        memcpy(path + i * len, part, len);
    return path;
}

static void forty_links_are_followed_and_no_more(void **state)
{
    (void)state;
    tm_req req;
    uint64_t ino;
    char *path = repeated("to-b/../../", 40);
    assert_int_equal(find(path, &req, &ino), 0);
    assert_int_equal(ino, TM_INO_ROOT);
    free(path);
    path = repeated("to-b/../../", 41);
    assert_int_equal(find(path, &req, &ino), -ELOOP);
    free(path);
}

/* A tree where every name is a folder one deeper. */
static int deep_lookup(tm_tree *tree, uint64_t parent, const char *name, tm_req *req, tm_attr *ret)
{
    (void)tree, (void)name, (void)req;
    *ret = (tm_attr){.ino = parent + 1, .mode = S_IFDIR};
    return 0;
}

static int deep_getattr(tm_tree *tree, uint64_t ino, tm_req *req, tm_attr *ret)
{
    (void)tree, (void)req;
    *ret = (tm_attr){.ino = ino, .mode = S_IFDIR};
    return 0;
}

static void a_path_of_any_length_is_walked_and_one_too_deep_refused(void **state)
{
    (void)state;
    static const tm_tree_ops deep_ops = {.lookup = deep_lookup, .getattr = deep_getattr};
    tm_tree deep = {.ops = &deep_ops};
    tm_req req;
    tm_attr attr;
    uint64_t ino;
    char *path = repeated("a/b/../../", 10000);
    assert_int_equal(find(path, &req, &ino), 0);
    assert_int_equal(ino, TM_INO_ROOT);
    free(path);
    path = repeated("d/", 4095);
    assert_int_equal(tm_path_find(&deep, path, &req, &attr), 0);
    assert_int_equal(attr.ino, TM_INO_ROOT + 4095);
    free(path);
    path = repeated("d/", 4096);
    assert_int_equal(tm_path_find(&deep, path, &req, &attr), -ENAMETOOLONG);
    assert_string_equal(tm_req_words(&req), "the path is too deep");
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_is_walked_from_the_root_and_links_are_followed),
        cmocka_unit_test(what_is_not_there_is_named),
        cmocka_unit_test(forty_links_are_followed_and_no_more),
        cmocka_unit_test(a_path_of_any_length_is_walked_and_one_too_deep_refused),
    };
    return cmocka_run_group_tests_name("path", tests, NULL, NULL);
}
