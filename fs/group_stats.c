#include "fs/group_stats.h"

#include "core/blob_lazy.h"
#include "core/text.h"
#include "fs/known.h"

enum {
    CHECK_ROWS = 1024 /* after how many rows a cancel is looked for */
};

typedef struct group_stats {
    tm_session *session;
    tm_mounted *mounted; /* referenced */
    tm_group_rows rows;
    tm_group_subject subject;
} group_stats;

static void group_free(void *ctx)
{
    tm_mounted_unref(((group_stats *)ctx)->mounted);
    free(ctx);
}

static int merge(const group_stats *self, tm_known *known, tm_req *req, tm_stats_group *group)
{
    const tm_model *model = self->mounted->model;
    group->tensors = self->rows.count;
    for (uint32_t i = 0; i < self->rows.count; i++) {
        uint32_t at = self->rows.first + i;
        uint32_t row = self->rows.order ? self->rows.order[at] : at;
        tm_stats_record record;
        tm_sums sums;
        if (i % CHECK_ROWS == 0)
            TM_TRY(tm_req_check(req));
        if (!tm_model_is_counted(model, row))
            continue;
        group->counted++;
        group->elems += tm_row_elems(&model->table, &model->table.rows[row]);
        if (tm_known_sums(known, row, &record, &sums))
            tm_stats_group_add(group, &record, &sums);
    }
    return 0;
}

static int make(void *ctx, tm_req *req, void **ret)
{
    group_stats *self = ctx;
    TM_AUTO(tm_known_freep) tm_known *known = NULL;
    tm_stats_group group;
    tm_text text;
    char *bytes;
    size_t len;
    TM_TRY(tm_known_new(self->session, self->mounted, req, &known));
    tm_stats_group_init(&group);
    TM_TRY(merge(self, known, req, &group));
    self->subject.group = &group;
    tm_text_init(&text);
    tm_group_json(&text, &self->subject);
    int rc = tm_text_steal(&text, &bytes, &len);
    if (rc < 0)
        return tm_fail(req, -rc, "%s", strerror(-rc));
    *ret = bytes;
    return 0;
}

int tm_group_stats_open(tm_fs *fs, const tm_node *node, const tm_group_rows *rows,
                        const tm_group_subject *subject, tm_req *req, tm_blob **ret)
{
    group_stats *self = TM_NEW(group_stats);
    if (!self)
        return tm_fail(req, ENOMEM, "out of memory");
    *self = (group_stats){fs->session, tm_mounted_ref(node->mounted), *rows, *subject};
    tm_lazy_params params = {.sched = fs->tree.sched,
                             .key = tm_mounted_key(node->mounted),
                             .size = tm_group_json_size(subject),
                             .make = make,
                             .ctx = self,
                             .free_ctx = group_free};
    return tm_blob_lazy_new(&params, ret) < 0 ? tm_fail(req, ENOMEM, "out of memory") : 0;
}
