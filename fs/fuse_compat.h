/* What differs between libfuse 3.12 (Debian 12 has 3.14) and 3.17 (Debian 13): here and only here.
 */
#ifndef TM_FS_FUSE_COMPAT_H
#define TM_FS_FUSE_COMPAT_H

#define FUSE_USE_VERSION 312

#include <fuse3/fuse_lowlevel.h>

#include "core/base.h"

#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
#define TM_FUSE_HAS_PASSTHROUGH 1
#include <linux/fuse.h>
#include <sys/ioctl.h>
#else
#define TM_FUSE_HAS_PASSTHROUGH 0
#endif

/* Asks for a capability where the kernel offers it; returns whether it does. */
static inline bool tm_fuse_want(struct fuse_conn_info *conn, unsigned cap)
{
#if TM_FUSE_HAS_PASSTHROUGH
    return fuse_set_feature_flag(conn, cap);
#else
    if (!(conn->capable & cap))
        return false;
    conn->want |= cap;
    return true;
#endif
}

static inline void tm_fuse_do_without(struct fuse_conn_info *conn, unsigned cap)
{
#if TM_FUSE_HAS_PASSTHROUGH
    fuse_unset_feature_flag(conn, cap);
#else
    conn->want &= ~cap;
#endif
}

/* Raw bytes by the kernel itself: asked for at INIT, then set up per open file. */
static inline bool tm_fuse_want_passthrough(struct fuse_conn_info *conn)
{
#if TM_FUSE_HAS_PASSTHROUGH
    conn->max_backing_stack_depth = 1;
    if (fuse_set_feature_flag(conn, FUSE_CAP_PASSTHROUGH))
        return true;
    conn->max_backing_stack_depth = 0;
#else
    (void)conn;
#endif
    return false;
}

/* A backing id (> 0) for FD, or 0 where the kernel refuses. */
static inline int tm_fuse_backing_open(fuse_req_t req, int fd)
{
#if TM_FUSE_HAS_PASSTHROUGH
    return fuse_passthrough_open(req, fd);
#else
    (void)req, (void)fd;
    return 0;
#endif
}

/* Not fuse_passthrough_close(): that wants a request, which a reply that failed has freed. */
static inline void tm_fuse_backing_close(struct fuse_session *session, int backing_id)
{
#if TM_FUSE_HAS_PASSTHROUGH
    uint32_t id = (uint32_t)backing_id;
    tm_ignore(ioctl(fuse_session_fd(session), FUSE_DEV_IOC_BACKING_CLOSE, &id));
#else
    (void)session, (void)backing_id;
#endif
}

static inline void tm_fuse_set_backing(struct fuse_file_info *fi, int backing_id)
{
#if TM_FUSE_HAS_PASSTHROUGH
    fi->backing_id = backing_id;
#else
    (void)fi, (void)backing_id;
#endif
}

#endif
