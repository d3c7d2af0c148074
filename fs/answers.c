#include "fs/answers.h"

#include "core/query_row.h"

enum {
    CHECK_ROWS = 1024 /* after how many rows a cancel is looked for */
};

/* Statistics are looked for only where headers do not decide. */
static tm_truth answer(const tm_query *query, tm_known *known, uint32_t row)
{
    const tm_model *model = tm_known_of(known)->model;
    tm_query_value values[TM_FIELD_COUNT];
    tm_stats_record record;
    tm_query_values(query, model, row, NULL, values);
    tm_truth truth = tm_query_ask(query, values);
    if (truth != TM_UNKNOWN || !tm_known_indexed(known, row, &record))
        return truth;
    tm_query_values(query, model, row, &record, values);
    return tm_query_ask(query, values);
}

static int append(uint32_t **rows, uint32_t *count, uint32_t row)
{
    /* A power of two, or nothing yet: it is full. */
    if ((*count & (*count - 1)) == 0) {
        uint32_t *grown = reallocarray(*rows, *count ? 2 * (size_t)*count : 1, sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        *rows = grown;
    }
    (*rows)[(*count)++] = row;
    return 0;
}

static int find(const tm_query *query, tm_known *known, tm_req *req, tm_answers *ret)
{
    uint32_t count = tm_known_of(known)->model->table.count;
    for (uint32_t row = 0; row < count; row++) {
        int rc = 0;
        if (row % CHECK_ROWS == 0)
            TM_TRY(tm_req_check(req));
        tm_truth truth = answer(query, known, row);
        if (truth == TM_YES)
            rc = append(&ret->matches, &ret->match_count, row);
        else if (truth == TM_UNKNOWN)
            rc = append(&ret->unknown, &ret->unknown_count, row);
        if (rc < 0)
            return tm_fail(req, ENOMEM, "out of memory");
    }
    return 0;
}

int tm_answers_find(const tm_query *query, tm_known *known, tm_req *req, tm_answers *ret)
{
    *ret = (tm_answers){.match_count = 0};
    int rc = find(query, known, req, ret);
    if (rc < 0)
        tm_answers_done(ret);
    return rc;
}

void tm_answers_done(tm_answers *answers)
{
    free(answers->matches);
    free(answers->unknown);
    *answers = (tm_answers){.match_count = 0};
}
