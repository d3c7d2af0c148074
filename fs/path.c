#include "fs/path.h"

#include <stdio.h>
#include <sys/stat.h>

enum {
    LINKS_MAX = 40,
    DEPTH_MAX = 4096
};

/* A walk: the folders from the root to where it stands, and what of the path is left. */
typedef struct walk {
    tm_tree *tree;
    tm_req *req;
    tm_attr *at; /* at[depth - 1] is where it stands */
    size_t depth;
    unsigned links;
} walk;

static int walk_path(walk *w, const char *path);

static int follow_link(walk *w, const tm_attr *link)
{
    TM_AUTO_FREE char *target = NULL;
    if (++w->links > LINKS_MAX)
        return tm_fail(w->req, ELOOP, "too many links");
    TM_TRY(w->tree->ops->readlink(w->tree, link->ino, w->req, &target));
    if (target[0] == '/')
        return tm_fail(w->req, EXDEV, "%s: lies outside of the tree", target);
    return walk_path(w, target);
}

static int step(walk *w, const char *name)
{
    if (strcmp(name, ".") == 0 || name[0] == '\0')
        return 0;
    if (strcmp(name, "..") == 0) {
        w->depth -= w->depth > 1;
        return 0;
    }
    if (w->depth == DEPTH_MAX)
        return tm_fail(w->req, ENAMETOOLONG, "the path is too deep");
    tm_attr attr;
    int rc = w->tree->ops->lookup(w->tree, w->at[w->depth - 1].ino, name, w->req, &attr);
    if (rc < 0)
        return tm_fail(w->req, -rc, "%s: %s", name, strerror(-rc));
    if (S_ISLNK(attr.mode))
        return follow_link(w, &attr);
    w->at[w->depth++] = attr;
    return 0;
}

static int walk_path(walk *w, const char *path)
{
    TM_AUTO_FREE char *copy = strdup(path);
    if (!copy)
        return tm_fail(w->req, ENOMEM, "out of memory");
    char *rest = copy;
    for (char *name; (name = strsep(&rest, "/"));)
        TM_TRY(step(w, name));
    return 0;
}

int tm_path_find(tm_tree *tree, const char *path, tm_req *req, tm_attr *ret)
{
    assert(req->may_block);
    TM_AUTO_FREE tm_attr *at = tm_new_array(DEPTH_MAX, sizeof(*at));
    if (!at)
        return tm_fail(req, ENOMEM, "out of memory");
    walk w = {.tree = tree, .req = req, .at = at, .depth = 1};
    TM_TRY(tree->ops->getattr(tree, TM_INO_ROOT, req, &at[0]));
    TM_TRY(walk_path(&w, path));
    *ret = at[w.depth - 1];
    return 0;
}
