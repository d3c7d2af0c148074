#include <stdio.h>

#include "fs/path.h"
#include "tools/cmd.h"

int tm_offline_open(const tm_session_params *params, tm_offline *ret, tm_req *req)
{
    tm_offline offline = {0};
    TM_TRY(tm_session_new(params, req, &offline.session));
    if (tm_fs_new(offline.session, TM_RAW_PREAD, &offline.fs) < 0) {
        tm_session_free(offline.session);
        return tm_fail(req, ENOMEM, "out of memory");
    }
    *ret = offline;
    return 0;
}

void tm_offline_close(tm_offline *offline)
{
    tm_fs_free(offline->fs);
    tm_session_free(offline->session);
}

int tm_offline_add(tm_offline *offline, const char *source, tm_req *req, char **ret_name)
{
    TM_AUTO_FREE char *base = tm_source_name(source);
    TM_AUTO_FREE char *name = base ? strdup(base) : NULL;
    TM_AUTO_FREE char *path = tm_source_path(source);
    for (unsigned n = 2; name && path; n++) {
        TM_AUTO(tm_mounted_unrefp) tm_mounted *other = tm_session_find(offline->session, name);
        bool is_there = other && strcmp(other->source, path) == 0;
        if (!other)
            TM_TRY(tm_session_add(offline->session, name, source, req));
        if (!other || is_there) {
            *ret_name = TM_STEAL(name);
            return 0;
        }
        free(name);
        if (asprintf(&name, "%s-%u", base, n) < 0)
            name = NULL;
    }
    return tm_fail(req, ENOMEM, "out of memory");
}

int tm_offline_find(tm_offline *offline, const char *argument, tm_req *req, tm_attr *ret)
{
    const char *colons = strstr(argument, "::");
    size_t len = colons ? (size_t)(colons - argument) : strlen(argument);
    TM_AUTO_FREE char *source = strndup(argument, len);
    TM_AUTO_FREE char *path = NULL;
    TM_AUTO_FREE char *name = NULL;
    if (!source)
        return tm_fail(req, ENOMEM, "out of memory");
    TM_TRY(tm_offline_add(offline, source, req, &name));
    TM_AUTO(tm_mounted_unrefp) tm_mounted *m = tm_session_find(offline->session, name);
    if (m->words)
        return tm_fail(req, ENOENT, "%s", m->words);
    if (asprintf(&path, "models/%s/%s", name, colons ? colons + 2 : "") < 0)
        return tm_fail(req, ENOMEM, "out of memory");
    return tm_path_find(&offline->fs->tree, path, req, ret);
}

static int each_member(tm_offline *offline, tm_mounted *m, uint32_t i, tm_checkpoint_fn *fn,
                       void *ctx, tm_req *req)
{
    TM_AUTO(tm_mounted_unrefp) tm_mounted *member = NULL;
    TM_TRY(tm_session_member(offline->session, m, m->members[i].name, req, &member));
    return tm_offline_each(offline, member, fn, ctx, req);
}

int tm_offline_each(tm_offline *offline, tm_mounted *m, tm_checkpoint_fn *fn, void *ctx,
                    tm_req *req)
{
    int first = 0;
    if (m->words)
        return tm_fail(req, ENOENT, "%s", m->words);
    for (uint32_t i = 0; i < m->member_count && first != -EINTR; i++) {
        tm_req part;
        tm_req_init_part(&part, req);
        part.may_block = true;
        int rc = m->members[i].shown ? each_member(offline, m, i, fn, ctx, &part) : 0;
        if (rc < 0 && (first == 0 || rc == -EINTR))
            first = tm_fail(req, -rc, "%s", tm_req_words(&part));
    }
    return first < 0 || !m->model ? first : fn(ctx, m, req);
}
