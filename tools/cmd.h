/* What the subcommands of tmorph share. */
#ifndef TM_TOOLS_CMD_H
#define TM_TOOLS_CMD_H

#include "fs/fs.h"

enum {
    TM_EXIT_GOOD = 0,
    TM_EXIT_FINDINGS = 1,
    TM_EXIT_FAILURE = 2
};

typedef struct tm_cmd {
    const char *name;
    const char *usage;                                           /* the arguments */
    const char *words;                                           /* one line of what it does */
    const char *help;                                            /* the options, NULL: none */
    int (*run)(const struct tm_cmd *cmd, int argc, char **argv); /* argv[0] is the name */
} tm_cmd;

extern const tm_cmd tm_cmd_mount, tm_cmd_umount, tm_cmd_ls, tm_cmd_cat, tm_cmd_info, tm_cmd_index,
    tm_cmd_query;

/* "tmorph: words" on stderr; returns TM_EXIT_FAILURE. */
int tm_complain(const char *fmt, ...) TM_PRINTF(1, 2);
/* The usage of CMD on stderr, after words; returns TM_EXIT_FAILURE. */
int tm_usage_error(const tm_cmd *cmd, const char *fmt, ...) TM_PRINTF(2, 3);
/* The help of CMD on stdout; returns TM_EXIT_GOOD, or failure where it cannot be written. */
int tm_print_help(const tm_cmd *cmd);
/* Flushes stdout; a failure to write is one of the command. */
int tm_close_stdout(int exit_code);

/* A tree over sources, without a mount. */
typedef struct tm_offline {
    tm_session *session;
    tm_fs *fs;
} tm_offline;

TM_MUST_CHECK int tm_offline_open(const tm_session_params *params, tm_offline *ret, tm_req *req);
void tm_offline_close(tm_offline *offline);

/* SOURCE[::PATH]: adds SOURCE to the tree, once, and finds PATH in its model directory. */
TM_MUST_CHECK int tm_offline_find(tm_offline *offline, const char *argument, tm_req *req,
                                  tm_attr *ret);

/* Adds SOURCE under the name that it has in a mount; where another source has that, with a number
 * behind it. One that was added before is what it was. */
TM_MUST_CHECK int tm_offline_add(tm_offline *offline, const char *source, tm_req *req,
                                 char **ret_name);

/* Calls FN with M if it is a checkpoint, or with those in it, opened one by one, if it is a
 * collection: all of them, and then the first failure. */
typedef int tm_checkpoint_fn(void *ctx, tm_mounted *m, tm_req *req);
TM_MUST_CHECK int tm_offline_each(tm_offline *offline, tm_mounted *m, tm_checkpoint_fn *fn,
                                  void *ctx, tm_req *req);

#endif
