/* tmorph query: a question to every tensor. */
#include <inttypes.h>
#include <stdio.h>

#include "core/escape.h"
#include "formats/query_parse.h"
#include "formats/table_query.h"
#include "fs/answers.h"
#include "tools/cmd.h"

typedef struct asking {
    tm_offline offline;
    tm_query *query;
    bool several; /* of a collection: lines begin with the member */
    bool headed;  /* the first line was printed */
    uint64_t matches, unknown, indexable;
} asking;

static bool known_row(void *ctx, uint32_t row, tm_stats_record *ret)
{
    return tm_known_indexed(ctx, row, ret);
}

static int out_of_memory(tm_req *req)
{
    return tm_fail(req, ENOMEM, "out of memory");
}

/* ---- Printing ---- */

static int print_header(asking *a, tm_req *req)
{
    TM_AUTO_FREE char *header = a->headed ? NULL : tm_matches_header(a->query);
    if (!a->headed && !header)
        return out_of_memory(req);
    if (!a->headed)
        printf("%s%s", a->several ? "model\t" : "", header);
    a->headed = true;
    return 0;
}

/* As a table has it. */
static int print_member(const char *name, tm_req *req)
{
    size_t len = tm_field_escape(name, strlen(name), NULL, 0);
    TM_AUTO_FREE char *field = malloc(len + 1);
    if (!field)
        return out_of_memory(req);
    tm_field_escape(name, strlen(name), field, len);
    printf("%.*s\t", (int)len, field);
    return 0;
}

static int print_match(const asking *a, const tm_query_table_params *params, uint32_t i,
                       tm_req *req)
{
    size_t len = tm_match_text(params, i, NULL, 0);
    TM_AUTO_FREE char *line = malloc(len);
    if (!line)
        return out_of_memory(req);
    tm_match_text(params, i, line, len);
    if (a->several)
        TM_TRY(print_member(tm_known_of(params->ctx)->name, req));
    fwrite(line, 1, len, stdout);
    return 0;
}

/* ---- Asking ---- */

static int ask(asking *a, tm_known *known, tm_req *req)
{
    tm_answers answers;
    TM_TRY(tm_answers_find(a->query, known, req, &answers));
    tm_query_table_params params = {.model = tm_known_of(known)->model,
                                    .query = a->query,
                                    .rows = answers.matches,
                                    .count = answers.match_count,
                                    .known = known_row,
                                    .ctx = known};
    int rc = answers.match_count ? print_header(a, req) : 0;
    for (uint32_t i = 0; rc == 0 && i < answers.match_count; i++)
        rc = print_match(a, &params, i, req);
    a->matches += answers.match_count;
    a->unknown += answers.unknown_count;
    for (uint32_t i = 0; i < answers.unknown_count; i++)
        a->indexable += tm_model_is_counted(params.model, answers.unknown[i]);
    tm_answers_done(&answers);
    return rc;
}

static int ask_checkpoint(void *ctx, tm_mounted *m, tm_req *req)
{
    asking *a = ctx;
    TM_AUTO(tm_known_freep) tm_known *known = NULL;
    TM_TRY(tm_known_new(a->offline.session, m, req, &known));
    return ask(a, known, req);
}

static int ask_source(asking *a, const char *source, tm_req *req)
{
    TM_AUTO_FREE char *name = NULL;
    TM_TRY(tm_offline_add(&a->offline, source, req, &name));
    TM_AUTO(tm_mounted_unrefp) tm_mounted *m = tm_session_find(a->offline.session, name);
    a->several = m->is_collection;
    return tm_offline_each(&a->offline, m, ask_checkpoint, a, req);
}

/* "0 matches, 12 unknown: run tmorph index llama" */
static void print_summary(const asking *a, const char *source)
{
    if (a->matches && !a->unknown)
        return;
    fprintf(stderr, "%" PRIu64 " match%s, %" PRIu64 " unknown%s%s\n", a->matches,
            a->matches == 1 ? "" : "es", a->unknown, a->indexable ? ": run tmorph index " : "",
            a->indexable ? source : "");
}

/* ---- The command ---- */

static int complain_of_query(const char *text, const tm_query_error *error)
{
    tm_text shown;
    tm_text_init(&shown);
    tm_query_error_show(error, text, strlen(text), &shown);
    tm_complain("column %d: %s", error->column, error->words);
    fprintf(stderr, "%s", tm_text_error(&shown) == 0 && shown.len ? shown.bytes : "");
    tm_text_done(&shown);
    return TM_EXIT_FAILURE;
}

static int run(const tm_cmd *cmd, int argc, char **argv)
{
    asking a = {.matches = 0};
    tm_query_error error;
    tm_req req;
    if (argc != 3 || argv[1][0] == '-')
        return tm_usage_error(cmd, "a SOURCE and an EXPR are needed");
    if (tm_query_parse(argv[2], strlen(argv[2]), &error, &a.query) < 0)
        return complain_of_query(argv[2], &error);
    tm_req_init(&req, TM_LANE_QUERY);
    int rc = tm_offline_open(&(tm_session_params){0}, &a.offline, &req);
    if (rc == 0) {
        req.may_block = true;
        rc = ask_source(&a, argv[1], &req);
        tm_offline_close(&a.offline);
    }
    tm_query_free(a.query);
    if (rc < 0)
        return tm_complain("%s: %s", argv[1], tm_req_words(&req));
    print_summary(&a, argv[1]);
    return tm_close_stdout(a.matches ? TM_EXIT_GOOD : TM_EXIT_FINDINGS);
}

const tm_cmd tm_cmd_query = {
    .name = "query",
    .usage = "SOURCE EXPR",
    .words = "find the tensors of SOURCE of which EXPR is true, reading no weights",
    .help =
        "EXPR compares what headers and the index say of a tensor, such as\n"
        "  'tensor.nan_count > 0'\n"
        "  'role == \"attention\" and absmax > 8'\n"
        "  'name == \"*.mlp.*\" and not layer < 10'\n"
        "Fields: name dtype role file rank rows cols params bytes layer expert, inf_count, and\n"
        "those of stats.json, for which the SOURCE is to be indexed; quantiles are q0.5 and so\n"
        "on. docs/queries.md has the grammar.\n"
        "exit status: 1 where nothing matches\n",
    .run = run,
};
