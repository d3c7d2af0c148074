/* tmorph index: statistics made ahead, one index file a shard. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>

#include "core/units.h"
#include "fs/indexing.h"
#include "tools/cmd.h"
#include "tools/progress.h"

enum {
    JOBS_MAX = 1024,
    PARTS_MAX = 1000000
};

typedef struct command {
    unsigned jobs;
    tm_indexing_parts parts; /* parts 0: all */
    bool pyramids;
    const char *out;
    tm_offline offline;
    tm_progress progress;
    bool failed;
} command;

/* ---- Ctrl-C: what is done is kept ---- */

static atomic_bool *interrupted; /* of the request; set before the handler */

static void on_signal(int number)
{
    (void)number;
    atomic_store(interrupted, true);
}

static void catch_signals(tm_req *req)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND | SA_RESTART};
    interrupted = &req->cancelled;
    sigaction(SIGINT, &action, NULL); /* a second one ends the program at once */
    sigaction(SIGTERM, &action, NULL);
}

/* ---- One checkpoint ---- */

static void tell(void *ctx, uint64_t done, uint64_t total)
{
    tm_progress_tell(&((command *)ctx)->progress, done, total);
}

/* "llama: 291 tensors in 2 files, 13.5 GB: indexed in 3.2 s (4.2 GB/s)" */
static void print_report(const tm_mounted *m, const tm_indexing_report *r, double seconds)
{
    char size[TM_SIZE_TEXT_MAX], rate[TM_SIZE_TEXT_MAX];
    printf("%s: %u tensor%s in %u file%s, %s: ", m->name, r->tensors, r->tensors == 1 ? "" : "s",
           r->shards, r->shards == 1 ? "" : "s", tm_size_text(r->bytes, size));
    if (r->made == 0)
        printf("indexed already\n");
    else
        printf("indexed in %.1f s (%s/s)\n", seconds,
               tm_size_text((uint64_t)((double)r->scanned / seconds), rate));
}

static int index_checkpoint(void *ctx, tm_mounted *m, tm_req *req)
{
    command *c = ctx;
    tm_indexing_report report;
    tm_indexing_params params = {
        .session = c->offline.session,
        .mounted = m,
        .pyramids = c->pyramids,
        .parts = c->parts.parts ? &c->parts : NULL,
        .lane = TM_LANE_ANALYSIS,
        .progress = tell,
        .ctx = c,
    };
    uint64_t started = tm_now_ns();
    tm_progress_init(&c->progress, m->name);
    int rc = tm_indexing_run(&params, req, &report);
    tm_progress_end(&c->progress);
    if (report.damaged) {
        tm_complain(
            "%s: %u of its files %s damaged or missing: not all is indexed; see tmorph info",
            m->name, report.damaged, report.damaged == 1 ? "is" : "are");
        c->failed = true;
    }
    if (rc == 0)
        print_report(m, &report, (double)(tm_now_ns() - started) / 1e9);
    return rc;
}

static int index_source(command *c, const char *source, tm_req *req)
{
    TM_AUTO_FREE char *name = NULL;
    TM_TRY(tm_offline_add(&c->offline, source, req, &name));
    TM_AUTO(tm_mounted_unrefp) tm_mounted *m = tm_session_find(c->offline.session, name);
    return tm_offline_each(&c->offline, m, index_checkpoint, c, req);
}

/* ---- The command ---- */

/* A number from 1 to MAX that *TEXT begins with, which is moved behind it; 0 for none. */
static unsigned take_number(const char **text, unsigned max)
{
    char *end;
    unsigned long n = **text >= '0' && **text <= '9' ? strtoul(*text, &end, 10) : 0;
    if (n < 1 || n > max)
        return 0;
    *text = end;
    return (unsigned)n;
}

/* "I/N" */
static bool parse_part(const char *text, command *c)
{
    c->parts.part = take_number(&text, PARTS_MAX);
    if (!c->parts.part || *text++ != '/')
        return false;
    c->parts.parts = take_number(&text, PARTS_MAX);
    return c->parts.part <= c->parts.parts && *text == '\0';
}

static bool parse_jobs(const char *text, command *c)
{
    c->jobs = take_number(&text, JOBS_MAX);
    return c->jobs && *text == '\0';
}

static int parse(const tm_cmd *cmd, command *c, int argc, char **argv)
{
    static const struct option options[] = {
        {"jobs", required_argument, NULL, 'j'},
        {"out", required_argument, NULL, 'o'},
        {"part", required_argument, NULL, 'p'},
        {"pyramids", no_argument, NULL, 'P'},
        {0},
    };
    optind = 1;
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (o == 'j' && !parse_jobs(optarg, c))
            return tm_usage_error(cmd, "--jobs %s: a number from 1 to 1024 is needed", optarg);
        if (o == 'p' && !parse_part(optarg, c))
            return tm_usage_error(cmd, "--part %s: I/N is needed, such as 3/8", optarg);
        if (o == 'o')
            c->out = optarg;
        c->pyramids |= o == 'P';
        if (o == '?')
            return TM_EXIT_FAILURE; /* getopt has said why */
    }
    return optind < argc ? TM_EXIT_GOOD : tm_usage_error(cmd, "a SOURCE is needed");
}

static int run_all(command *c, int count, char **sources, tm_req *req)
{
    for (int i = 0; i < count; i++) {
        tm_req part;
        tm_req_init_part(&part, req);
        part.may_block = true;
        int rc = index_source(c, sources[i], &part);
        if (rc == -EINTR && atomic_load(&req->cancelled))
            return tm_complain("interrupted; the same command goes on where it was");
        if (rc < 0)
            c->failed = tm_complain("%s: %s", sources[i], tm_req_words(&part)) != 0;
    }
    return c->failed ? TM_EXIT_FAILURE : TM_EXIT_GOOD;
}

static void command_done(command *c)
{
    free(c->parts.loads);
}

static int run(const tm_cmd *cmd, int argc, char **argv)
{
    command c = {.jobs = 0};
    int exit_code = parse(cmd, &c, argc, argv);
    if (exit_code != TM_EXIT_GOOD)
        return exit_code;
    tm_req req;
    tm_req_init(&req, TM_LANE_ANALYSIS);
    tm_session_params params = {.threads = c.jobs, .index_folder = c.out};
    if (tm_offline_open(&params, &c.offline, &req) < 0)
        return tm_complain("%s", tm_req_words(&req));
    catch_signals(&req);
    c.parts.loads = tm_new_array(c.parts.parts, sizeof(*c.parts.loads));
    exit_code = c.parts.loads ? run_all(&c, argc - optind, argv + optind, &req)
                              : tm_complain("out of memory");
    tm_offline_close(&c.offline);
    command_done(&c);
    return tm_close_stdout(exit_code);
}

const tm_cmd tm_cmd_index = {
    .name = "index",
    .usage = "[--pyramids] [--jobs N] [--part I/N] [--out DIR] SOURCE ...",
    .words = "compute the statistics of SOURCE ahead, one index file a weight file",
    .help =
        "Reads every tensor once and writes FILE.tmidx beside each weight file, or to\n"
        "$XDG_CACHE_HOME/tmorph/index where that folder is not to be written to. A mount finds\n"
        "them there. An interrupted run is taken up by the next.\n\n"
        "  --pyramids  levels of detail too, in FILE.tmtiles\n"
        "  --jobs N    threads that compute (default: the cores)\n"
        "  --out DIR   write them to DIR, which the mount option index-dir then names\n"
        "  --part I/N  the I-th of N parts, alike in bytes: for N machines at once\n",
    .run = run,
};
