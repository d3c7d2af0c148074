/* What stands behind -o of `tmorph mount`. */
#ifndef TM_TOOLS_MOUNT_OPTIONS_H
#define TM_TOOLS_MOUNT_OPTIONS_H

#include "fs/fs.h"

typedef struct tm_mount_options {
    bool foreground;
    bool allow_other;
    bool noexec;
    char *fsname;     /* NULL: by the sources */
    char *log;        /* see tm_log_new(); a path from the root */
    char *index_dir;  /* where indexes lie; a path from the root, NULL: none */
    bool index;       /* made in the background */
    unsigned threads; /* 0: the cores */
    unsigned timeout_s;
    uint64_t budget; /* bytes; 0: the default */
    tm_raw_way raw;
} tm_mount_options;

void tm_mount_options_init(tm_mount_options *options);
void tm_mount_options_done(tm_mount_options *options);

/* Adds OPTS, "a,b=c,…". Options of mount(8) that mean nothing here are ignored; -EINVAL with words
 * for an unknown one. */
TM_MUST_CHECK int tm_mount_options_parse(tm_mount_options *options, const char *opts, tm_req *req);

#endif
