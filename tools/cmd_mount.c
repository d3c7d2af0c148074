/*
 * tmorph mount: a daemon that serves the mount. The process that was called waits until the mount
 * answers, so that what follows it in a script finds it; what goes wrong before that is its to say.
 */
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/mount.h"
#include "tools/cmd.h"
#include "tools/mount_options.h"

typedef struct mounting {
    tm_mount_options options;
    char **sources;
    int source_count;
    char *mountpoint; /* from the root */
    int ready_fd;     /* a byte there: the mount answers; -1 in the foreground */
    tm_session *session;
    tm_fs *fs;
    tm_mount *mount;
} mounting;

/* ---- The daemon ---- */

/* [NAME=]SOURCE: a name has no slash. */
static int add_source(mounting *m, char *argument, tm_req *req)
{
    char *equals = strchr(argument, '='), *slash = strchr(argument, '/');
    bool named = equals && equals > argument && (!slash || equals < slash);
    TM_AUTO_FREE char *name = named ? strndup(argument, (size_t)(equals - argument)) : NULL;
    return tm_session_add(m->session, name, named ? equals + 1 : argument, req);
}

/* A mount point within a source would show the mount in itself. */
static int check_source(const mounting *m, const tm_mounted *mounted, tm_req *req)
{
    TM_AUTO_FREE char *source = realpath(mounted->source, NULL);
    size_t len = source ? strlen(source) : 0;
    if (len && !mounted->listing.is_file && strncmp(m->mountpoint, source, len) == 0 &&
        (m->mountpoint[len] == '/' || m->mountpoint[len] == '\0'))
        return tm_fail(req, EINVAL, "%s: lies within the source %s", m->mountpoint, source);
    return 0;
}

static void warn_of(const tm_mounted *mounted)
{
    if (mounted->words)
        fprintf(stderr, "tmorph: %s: only load/%s is shown\n", mounted->words, mounted->name);
    const tm_diag *diag = mounted->model ? &mounted->model->diag : NULL;
    for (size_t i = 0; diag && i < diag->count; i++)
        if (diag->lines[i].severity == TM_DAMAGE)
            fprintf(stderr, "tmorph: %s is damaged: %s\n", mounted->name, diag->lines[i].words);
}

static int open_sources(mounting *m, tm_req *req)
{
    tm_session_params params = {
        .threads = m->options.threads,
        .budget = m->options.budget,
        .log = m->options.log,
        .watch = true,
        .index = m->options.index,
        .index_folder = m->options.index_dir,
    };
    TM_TRY(tm_session_new(&params, req, &m->session));
    for (int i = 0; i < m->source_count; i++)
        TM_TRY(add_source(m, m->sources[i], req));
    for (size_t i = 0;; i++) {
        TM_AUTO(tm_mounted_unrefp) tm_mounted *mounted = tm_session_at(m->session, i);
        if (!mounted)
            break;
        TM_TRY(check_source(m, mounted, req));
        warn_of(mounted);
    }
    if (tm_fs_new(m->session, m->options.raw, &m->fs) < 0)
        return tm_fail(req, ENOMEM, "out of memory");
    m->fs->foretells = true;
    return 0;
}

static const char *fsname_of(const mounting *m)
{
    return m->options.fsname ? m->options.fsname : m->source_count == 1 ? m->sources[0] : "tmorph";
}

static int mount_tree(mounting *m, tm_req *req)
{
    tm_mount_params params = {
        .tree = &m->fs->tree,
        .mountpoint = m->mountpoint,
        .fsname = fsname_of(m),
        .allow_other = m->options.allow_other,
        .noexec = m->options.noexec,
        .timeout_ns = (uint64_t)m->options.timeout_s * 1000000000u,
    };
    return tm_mount_new(&params, req, &m->mount);
}

/* False where the process that was called is gone: nobody waits for this mount any more. */
static bool detach(mounting *m)
{
    if (write(m->ready_fd, "", 1) != 1)
        return false;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null >= 0 && fd <= 2; fd++)
        tm_ignore(dup2(null, fd));
    tm_closep(&null);
    tm_ignore(chdir("/"));
    tm_closep(&m->ready_fd);
    m->ready_fd = -1;
    return true;
}

static int serve(mounting *m)
{
    tm_req req;
    tm_req_init(&req, TM_LANE_VISIBLE);
    req.may_block = true;
    int rc = open_sources(m, &req);
    if (rc == 0)
        rc = mount_tree(m, &req);
    if (rc == 0 && m->ready_fd >= 0 && !detach(m))
        rc = tm_fail(&req, EPIPE, "the command that asked for the mount is gone");
    if (rc == 0)
        rc = tm_mount_serve(m->mount, &req);
    if (rc < 0)
        tm_complain("%s", tm_req_words(&req));
    tm_session_stop(m->session);
    tm_mount_free(m->mount);
    tm_fs_free(m->fs);
    tm_session_free(m->session);
    return rc < 0 ? TM_EXIT_FAILURE : TM_EXIT_GOOD;
}

/* ---- The process that was called ---- */

static int wait_until_ready(mounting *m, int fd, pid_t pid)
{
    char byte;
    ssize_t n;
    do
        n = read(fd, &byte, 1);
    while (n < 0 && errno == EINTR);
    int status = 0;
    if (n == 1) {
        struct stat st;
        if (stat(m->mountpoint, &st) == 0)
            return TM_EXIT_GOOD;
        return tm_complain("%s: mounted, but does not answer: %s", m->mountpoint, strerror(errno));
    }
    if (waitpid(pid, &status, 0) == pid && WIFSIGNALED(status))
        return tm_complain("the daemon was ended by signal %d", WTERMSIG(status));
    return TM_EXIT_FAILURE; /* the daemon has said why */
}

/* Forks before any thread is started. */
static int serve_in_background(mounting *m)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return tm_complain("pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid < 0)
        return tm_complain("fork: %s", strerror(errno));
    if (pid > 0) {
        close(fds[1]);
        int exit_code = wait_until_ready(m, fds[0], pid);
        close(fds[0]);
        return exit_code;
    }
    close(fds[0]);
    setsid();
    m->ready_fd = fds[1];
    return serve(m);
}

static int find_mountpoint(mounting *m, const char *argument)
{
    struct stat st;
    tm_req req;
    tm_req_init(&req, TM_LANE_VISIBLE);
    if (tm_mount_clear_stale(argument))
        fprintf(stderr, "tmorph: %s: the daemon of an earlier mount was gone; cleared\n", argument);
    if (tm_mount_check_free(argument, &req) < 0)
        return tm_complain("%s", tm_req_words(&req));
    m->mountpoint = realpath(argument, NULL);
    if (!m->mountpoint || stat(m->mountpoint, &st) < 0)
        return tm_complain("%s: %s", argument, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return tm_complain("%s: not a folder", argument);
    return TM_EXIT_GOOD;
}

static int parse(const tm_cmd *cmd, mounting *m, int argc, char **argv)
{
    tm_req req;
    tm_req_init(&req, TM_LANE_VISIBLE);
    optind = 1;
    for (int c; (c = getopt(argc, argv, "fo:")) != -1;) {
        if (c == 'f')
            m->options.foreground = true;
        else if (c != 'o')
            return tm_usage_error(cmd, "see --help");
        else if (tm_mount_options_parse(&m->options, optarg, &req) < 0)
            return tm_usage_error(cmd, "%s", tm_req_words(&req));
    }
    if (optind == argc)
        return tm_usage_error(cmd, "a mount point is needed");
    m->sources = argv + optind;
    m->source_count = argc - optind - 1;
    return find_mountpoint(m, argv[argc - 1]);
}

static int run(const tm_cmd *cmd, int argc, char **argv)
{
    mounting m = {.ready_fd = -1};
    tm_mount_options_init(&m.options);
    int exit_code = parse(cmd, &m, argc, argv);
    if (exit_code == TM_EXIT_GOOD)
        exit_code = m.options.foreground ? serve(&m) : serve_in_background(&m);
    tm_mount_options_done(&m.options);
    free(m.mountpoint);
    return exit_code;
}

const tm_cmd tm_cmd_mount = {
    .name = "mount",
    .usage = "[-f] [-o OPTS] [[NAME=]SOURCE ...] MNT",
    .words = "mount checkpoints at MNT",
    .help = "SOURCE is a .safetensors file, a checkpoint's folder, or a folder of such.\n"
            "Returns when the mount answers; MNT/README says what is in it.\n\n"
            "  -f                  stay in the foreground\n"
            "  -o OPTS             options, separated by commas:\n"
            "     allow_other      let other users in (see fuse.conf(5))\n"
            "     budget=SIZE      memory for what was computed (a quarter of all, at most 512M)\n"
            "     fsname=NAME      what mount and df show\n"
            "     index=on|off     make indexes in the background (off); see tmorph-index(1)\n"
            "     index-dir=DIR    where indexes lie, beside the usual places\n"
            "     log=FILE|syslog  where the log goes, beside .tmorph/log\n"
            "     raw=WAY          how a local file's bytes go: auto, passthrough, mapped, pread,\n"
            "                      symlink\n"
            "     threads=N        threads that compute (default: the cores)\n"
            "     timeout=SECONDS  how long a read may take (30)\n",
    .run = run,
};
