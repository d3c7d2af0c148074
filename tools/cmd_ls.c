#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "tools/cmd.h"

typedef struct listing {
    tm_tree *tree;
    bool is_long;
    tm_req *req;
} listing;

static char type_of(uint32_t mode)
{
    return S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'l' : '-';
}

static void print_long(const listing *l, const char *name, const tm_attr *attr)
{
    char when[32];
    time_t seconds = (time_t)(attr->mtime_ns / 1000000000);
    struct tm local;
    localtime_r(&seconds, &local);
    strftime(when, sizeof(when), "%Y-%m-%d %H:%M", &local);
    char mode[10];
    for (int bit = 0; bit < 9; bit++)
        mode[bit] = attr->mode >> (8 - bit) & 1 ? "rwx"[bit % 3] : '-';
    printf("%c%.9s %14llu %s %s", type_of(attr->mode), mode, (unsigned long long)attr->size, when,
           name);
    TM_AUTO_FREE char *target = NULL;
    if (S_ISLNK(attr->mode) && l->tree->ops->readlink(l->tree, attr->ino, l->req, &target) == 0)
        printf(" -> %s", target);
    putchar('\n');
}

static bool print_entry(void *ctx, const char *name, const tm_attr *attr, uint64_t next)
{
    (void)next;
    const listing *l = ctx;
    if (l->is_long)
        print_long(l, name, attr);
    else
        puts(name);
    return true;
}

static int list_one(tm_offline *offline, const char *argument, bool is_long, tm_req *req)
{
    listing l = {&offline->fs->tree, is_long, req};
    tm_attr attr;
    TM_TRY(tm_offline_find(offline, argument, req, &attr));
    if (S_ISDIR(attr.mode))
        return l.tree->ops->list(l.tree, attr.ino, 0, print_entry, &l, req);
    const char *slash = strrchr(argument, '/'), *colons = strstr(argument, "::");
    print_entry(&l, slash && (!colons || slash > colons) ? slash + 1 : colons + 2, &attr, 0);
    return 0;
}

static int list_all(tm_offline *offline, char **sources, int count, bool is_long)
{
    int exit_code = TM_EXIT_GOOD;
    for (int i = 0; i < count; i++) {
        tm_req req;
        tm_req_init(&req, TM_LANE_SELECTION);
        req.may_block = true;
        if (count > 1)
            printf("%s%s:\n", i ? "\n" : "", sources[i]);
        int rc = list_one(offline, sources[i], is_long, &req);
        if (rc < 0)
            exit_code = tm_complain("%s: %s", sources[i],
                                    tm_req_words(&req)[0] ? tm_req_words(&req) : strerror(-rc));
    }
    return exit_code;
}

static int run(const tm_cmd *cmd, int argc, char **argv)
{
    bool is_long = argc > 1 && strcmp(argv[1], "-l") == 0;
    int first = 1 + is_long;
    if (argc <= first || argv[first][0] == '-')
        return tm_usage_error(cmd, "a SOURCE is needed");
    tm_offline offline;
    tm_req req;
    tm_req_init(&req, TM_LANE_SELECTION);
    if (tm_offline_open(&(tm_session_params){0}, &offline, &req) < 0)
        return tm_complain("%s", tm_req_words(&req));
    int exit_code = list_all(&offline, argv + first, argc - first, is_long);
    tm_offline_close(&offline);
    return tm_close_stdout(exit_code);
}

const tm_cmd tm_cmd_ls = {
    .name = "ls",
    .usage = "[-l] SOURCE[::PATH] ...",
    .words = "list what a mount would show of SOURCE",
    .help = "PATH is relative to the model directory, such as tensors or layers/000.\n"
            "  -l  also type, size, time, and where links lead\n",
    .run = run,
};
