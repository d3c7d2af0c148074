#include <stdio.h>

#include "formats/describe.h"
#include "tools/cmd.h"

typedef struct report {
    tm_offline offline;
    tm_text text;
    bool json, is_list;
    unsigned shown;
    bool failed;
} report;

static void describe_json(report *r, tm_mounted *m, tm_req *req)
{
    char fingerprint[65];
    bool known = tm_session_fingerprint(r->offline.session, m, req, fingerprint) == 0;
    tm_described described = {m->name, m->model, known ? fingerprint : NULL};
    if (r->shown)
        tm_text_puts(&r->text, ",\n");
    tm_describe_model(&r->text, &described);
}

static int describe(void *ctx, tm_mounted *m, tm_req *req)
{
    report *r = ctx;
    r->failed |= m->model->diag.damaged;
    if (r->json)
        describe_json(r, m, req);
    else if (r->shown)
        tm_text_puts(&r->text, "\n");
    if (!r->json)
        tm_describe_info(&r->text, &(tm_described){m->name, m->model, NULL}, 1);
    r->shown++;
    return 0;
}

static int describe_source(report *r, const char *source, tm_req *req)
{
    TM_AUTO_FREE char *name = tm_source_name(source);
    if (!name)
        return tm_fail(req, ENOMEM, "out of memory");
    TM_TRY(tm_session_add(r->offline.session, name, source, req));
    TM_AUTO(tm_mounted_unrefp) tm_mounted *m = tm_session_find(r->offline.session, name);
    r->is_list |= m->is_collection;
    int rc = tm_offline_each(&r->offline, m, describe, r, req);
    tm_req ignored;
    tm_req_init(&ignored, TM_LANE_SCALAR);
    tm_ignore(
        tm_session_remove(r->offline.session, name, &ignored)); /* the next may have its name */
    return rc;
}

static void print_report(report *r)
{
    bool wrap = r->json && r->is_list && r->shown;
    if (wrap)
        puts("[");
    if (r->text.len)
        fwrite(r->text.bytes, 1, r->text.len, stdout);
    if (wrap)
        puts("]");
}

static int run(const tm_cmd *cmd, int argc, char **argv)
{
    report r = {.json = argc > 1 && strcmp(argv[1], "--json") == 0};
    int first = 1 + r.json;
    if (argc <= first || argv[first][0] == '-')
        return tm_usage_error(cmd, "a SOURCE is needed");
    tm_req req;
    tm_req_init(&req, TM_LANE_SELECTION);
    if (tm_offline_open(&(tm_session_params){0}, &r.offline, &req) < 0)
        return tm_complain("%s", tm_req_words(&req));
    tm_text_init(&r.text);
    r.is_list = argc - first > 1;
    for (int i = first; i < argc; i++) {
        tm_req_init(&req, TM_LANE_SELECTION);
        req.may_block = true;
        if (describe_source(&r, argv[i], &req) < 0) {
            tm_complain("%s: %s", argv[i], tm_req_words(&req));
            r.failed = true;
        }
    }
    tm_offline_close(&r.offline);
    if (tm_text_error(&r.text) < 0)
        r.failed = tm_complain("out of memory") != 0;
    print_report(&r);
    tm_text_done(&r.text);
    return tm_close_stdout(r.failed ? TM_EXIT_FAILURE : TM_EXIT_GOOD);
}

const tm_cmd tm_cmd_info = {
    .name = "info",
    .usage = "[--json] SOURCE ...",
    .words = "say what SOURCE is: parameters, dtypes, layers, and what is wrong with it",
    .help = "  --json  the same as model.json in a mount (of several sources, a list of such)\n"
            "exit status: 2 where a source is damaged or cannot be read\n",
    .run = run,
};
