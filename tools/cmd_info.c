#include <stdio.h>

#include "formats/describe.h"
#include "tools/cmd.h"

typedef struct report {
    tm_text text;
    bool json, is_list;
    unsigned shown;
    bool failed;
} report;

static void describe_json(report *r, tm_offline *offline, tm_mounted *m, const char *name,
                          tm_req *req)
{
    char fingerprint[65];
    bool known = tm_session_fingerprint(offline->session, m, req, fingerprint) == 0;
    tm_described described = {name, m->model, known ? fingerprint : NULL};
    if (r->shown)
        tm_text_puts(&r->text, ",\n");
    tm_describe_model(&r->text, &described);
}

/* A collection is described by its members. */
static int describe(report *r, tm_offline *offline, tm_mounted *m, const char *name, tm_req *req)
{
    if (m->words)
        return tm_fail(req, ENOENT, "%s", m->words);
    r->is_list |= m->is_collection;
    for (uint32_t i = 0; i < m->member_count; i++) {
        TM_AUTO(tm_mounted_unrefp) tm_mounted *member = NULL;
        TM_AUTO_FREE char *path = NULL;
        if (!m->members[i].shown)
            continue;
        TM_TRY(tm_session_member(offline->session, m, m->members[i].name, req, &member));
        if (asprintf(&path, "%s/%s", name, m->members[i].name) < 0)
            return tm_fail(req, ENOMEM, "out of memory");
        TM_TRY(describe(r, offline, member, path, req));
    }
    if (!m->model)
        return 0;
    r->failed |= m->model->diag.damaged;
    if (r->json)
        describe_json(r, offline, m, name, req);
    else if (r->shown)
        tm_text_puts(&r->text, "\n");
    if (!r->json)
        tm_describe_info(&r->text, &(tm_described){name, m->model, NULL}, 1);
    r->shown++;
    return 0;
}

static int describe_source(report *r, tm_offline *offline, const char *source, tm_req *req)
{
    TM_AUTO_FREE char *name = tm_source_name(source);
    if (!name)
        return tm_fail(req, ENOMEM, "out of memory");
    TM_TRY(tm_session_add(offline->session, name, source, req));
    TM_AUTO(tm_mounted_unrefp) tm_mounted *m = tm_session_find(offline->session, name);
    int rc = describe(r, offline, m, name, req);
    tm_req ignored;
    tm_req_init(&ignored, TM_LANE_SCALAR);
    tm_ignore(tm_session_remove(offline->session, name, &ignored)); /* the next may have its name */
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
    tm_offline offline;
    tm_req req;
    tm_req_init(&req, TM_LANE_SELECTION);
    if (tm_offline_open(&(tm_session_params){0}, &offline, &req) < 0)
        return tm_complain("%s", tm_req_words(&req));
    tm_text_init(&r.text);
    r.is_list = argc - first > 1;
    for (int i = first; i < argc; i++) {
        tm_req_init(&req, TM_LANE_SELECTION);
        req.may_block = true;
        if (describe_source(&r, &offline, argv[i], &req) < 0) {
            tm_complain("%s: %s", argv[i], tm_req_words(&req));
            r.failed = true;
        }
    }
    tm_offline_close(&offline);
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
