#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/prefetch.h"
#include "tools/cmd.h"

enum {
    CHUNK = 1 << 20
};

static int write_all(const char *bytes, size_t len, tm_req *req)
{
    while (len > 0) {
        ssize_t n = write(STDOUT_FILENO, bytes, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tm_fail(req, errno, "cannot write: %s", strerror(errno));
        bytes += n;
        len -= (size_t)n;
    }
    return 0;
}

static int copy_out(tm_offline *offline, tm_blob *blob, tm_req *req)
{
    TM_AUTO_FREE char *buffer = malloc(CHUNK);
    if (!buffer)
        return tm_fail(req, ENOMEM, "out of memory");
    tm_sched *sched = offline->fs->tree.sched;
    tm_follow follow = {0};
    tm_foretold told;
    for (uint64_t off = 0; off < blob->size;) {
        size_t n = tm_min_u64(CHUNK, blob->size - off);
        tm_follow_read(&follow, blob->size, NULL, off, n, &told);
        tm_prefetch_told(sched, blob, TM_LANE_PREFETCH, blob, &told);
        TM_TRY(tm_read_wait(sched, blob, off, n, buffer, req));
        TM_TRY(write_all(buffer, n, req));
        off += n;
    }
    return 0;
}

static int cat_one(tm_offline *offline, const char *argument, tm_req *req)
{
    tm_tree *tree = &offline->fs->tree;
    tm_attr attr;
    tm_open_file file;
    TM_TRY(tm_offline_find(offline, argument, req, &attr));
    if (S_ISDIR(attr.mode))
        return tm_fail(req, EISDIR, "a folder: see tmorph ls %s", argument);
    TM_TRY(tree->ops->open(tree, attr.ino, req, &file));
    int rc = copy_out(offline, file.blob, req);
    tm_blob_unhold(file.blob);
    tm_blob_unref(file.blob);
    return rc;
}

static int run(const tm_cmd *cmd, int argc, char **argv)
{
    if (argc < 2 || argv[1][0] == '-')
        return tm_usage_error(cmd, "a SOURCE::PATH is needed");
    tm_offline offline;
    tm_req req;
    tm_req_init(&req, TM_LANE_SELECTION);
    if (tm_offline_open(&(tm_session_params){0}, &offline, &req) < 0)
        return tm_complain("%s", tm_req_words(&req));
    int exit_code = TM_EXIT_GOOD;
    for (int i = 1; i < argc; i++) {
        tm_req_init(&req, TM_LANE_SELECTION);
        req.may_block = true;
        int rc = cat_one(&offline, argv[i], &req);
        if (rc < 0)
            exit_code = tm_complain("%s: %s", argv[i],
                                    tm_req_words(&req)[0] ? tm_req_words(&req) : strerror(-rc));
    }
    tm_offline_close(&offline);
    return exit_code;
}

const tm_cmd tm_cmd_cat = {
    .name = "cat",
    .usage = "SOURCE::PATH ...",
    .words = "write what a mount would show at PATH of SOURCE",
    .help = "PATH is relative to the model directory, such as tensors.tsv or tensors/T/at/0,0.\n",
    .run = run,
};
