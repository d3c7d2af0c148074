/* The mount's tree over a session: what everything under fs/ shares. */
#ifndef TM_FS_FS_H
#define TM_FS_FS_H

#include "fs/node.h"

typedef struct tm_intern tm_intern;
typedef struct tm_queries tm_queries;

struct tm_fs {
    tm_tree tree;
    tm_session *session;
    tm_intern *intern;
    tm_queries *queries;
    int64_t started_ns; /* CLOCK_REALTIME */
    bool foretells;     /* what a viewer will look at next is made ready: it goes on looking */
};

/* SESSION must outlive it. */
TM_MUST_CHECK int tm_fs_new(tm_session *session, tm_raw_way raw, tm_fs **ret);
void tm_fs_free(tm_fs *fs);

/* For implementations of kinds. */
const tm_kind_ops *tm_kind_get(tm_kind kind);
int tm_fs_attr(tm_fs *fs, const tm_node *node, tm_req *req, tm_attr *ret);

/* A file with fixed text: malloc'ed TEXT is taken. */
TM_MUST_CHECK int tm_fs_text_blob(char *text_take, size_t len, tm_req *req, tm_blob **ret);

#endif
