/* Paths within a tree, for programs that walk it without a mount. */
#ifndef TM_FS_PATH_H
#define TM_FS_PATH_H

#include "fs/tree.h"

/* The node at PATH (from the root, components joined by '/'), links followed. May block. Words in
 * REQ name the component that is not there. */
TM_MUST_CHECK int tm_path_find(tm_tree *tree, const char *path, tm_req *req, tm_attr *ret);

#endif
