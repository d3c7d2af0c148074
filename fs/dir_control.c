/* .tmorph/: version, log, transport.tsv, and ctl, which takes one command a write. */
#include <stdio.h>
#include <sys/stat.h>

#include "core/escape.h"
#include "core/text.h"
#include "fs/fs.h"
#include "fs/version.h"

static const struct {
    const char *name;
    tm_kind kind;
} entries[] = {
    {"version", TM_KIND_VERSION},
    {"log", TM_KIND_LOG},
    {"ctl", TM_KIND_CTL},
    {"transport.tsv", TM_KIND_TRANSPORT},
};

static int control_lookup(tm_fs *fs, const tm_node *node, const char *name, tm_req *req,
                          tm_node *ret)
{
    (void)fs, (void)req;
    for (size_t i = 0; i < TM_ARRAY_LEN(entries); i++) {
        if (strcmp(name, entries[i].name) == 0) {
            *ret = tm_node_child(node, entries[i].kind, 0, 0);
            return 0;
        }
    }
    return -ENOENT;
}

static int control_list(tm_fs *fs, const tm_node *node, tm_lister *lister)
{
    (void)fs;
    for (size_t i = 0; i < TM_ARRAY_LEN(entries); i++) {
        tm_node child = tm_node_near(node, entries[i].kind, 0, 0);
        if (!tm_lister_add(lister, i, entries[i].name, &child))
            break;
    }
    return 0;
}

/* ---- Texts ---- */

static void put_field(tm_text *text, const char *name)
{
    size_t len = strlen(name), need = tm_field_escape(name, len, NULL, 0);
    TM_AUTO_FREE char *field = malloc(need + 1);
    if (field)
        tm_text_append(text, field, tm_field_escape(name, len, field, need));
}

typedef struct transport {
    tm_text *text;
    const char *way;
} transport;

static void put_transport(void *ctx, const tm_mounted *m)
{
    transport *t = ctx;
    for (size_t i = 0; i < m->listing.count; i++) {
        if (m->listing.entries[i].is_dir)
            continue;
        tm_text_puts(t->text, "load/");
        put_field(t->text, m->name);
        tm_text_puts(t->text, "/");
        put_field(t->text, m->listing.entries[i].path);
        tm_text_printf(t->text, "\t%s\n", t->way);
    }
}

/* A row for every file of load/ that is known: members of collections once they are opened. */
static void render_transport(tm_fs *fs, tm_text *text)
{
    transport t = {text, tm_raw_way_name((tm_raw_way)fs->tree.raw_way)};
    tm_text_puts(text, "path\tway\n");
    tm_session_each(fs->session, put_transport, &t);
}

static void render_log(tm_fs *fs, tm_text *text)
{
    size_t len = 0;
    TM_AUTO_FREE char *lines = tm_log_text(tm_session_log(fs->session), &len);
    if (lines)
        tm_text_append(text, lines, len);
}

static int render(tm_fs *fs, const tm_node *node, tm_req *req, char **ret, size_t *ret_len)
{
    tm_text text;
    tm_text_init(&text);
    if (node->kind == TM_KIND_VERSION)
        tm_text_printf(&text, "%s\n", TM_VERSION);
    else if (node->kind == TM_KIND_LOG)
        render_log(fs, &text);
    else if (node->kind == TM_KIND_TRANSPORT)
        render_transport(fs, &text);
    int rc = tm_text_steal(&text, ret, ret_len);
    return rc < 0 ? tm_fail(req, -rc, "%s", strerror(-rc)) : 0;
}

static int text_size(tm_fs *fs, const tm_node *node, tm_req *req, uint64_t *ret)
{
    TM_AUTO_FREE char *bytes = NULL;
    size_t len;
    TM_TRY(render(fs, node, req, &bytes, &len));
    *ret = len;
    return 0;
}

static int text_open(tm_fs *fs, const tm_node *node, tm_req *req, tm_blob **ret)
{
    char *bytes;
    size_t len;
    TM_TRY(render(fs, node, req, &bytes, &len));
    return tm_fs_text_blob(bytes, len, req, ret);
}

/* ---- Commands ---- */

typedef struct command {
    const char *name;
    int (*run)(tm_fs *fs, char *argument, tm_req *req);
} command;

static int run_add(tm_fs *fs, char *argument, tm_req *req)
{
    char *equals = strchr(argument, '=');
    if (!equals)
        return tm_fail(req, EINVAL, "ctl: add takes NAME=SOURCE");
    *equals = '\0';
    if (equals[1] != '/')
        return tm_fail(req, EINVAL, "ctl: add %s: give the source's absolute path", argument);
    return tm_session_add(fs->session, argument, equals + 1, req);
}

static int run_remove(tm_fs *fs, char *argument, tm_req *req)
{
    return tm_session_remove(fs->session, argument, req);
}

static int run_reload(tm_fs *fs, char *argument, tm_req *req)
{
    return tm_session_reload(fs->session, argument, req);
}

static const command commands[] = {
    {"add", run_add},
    {"remove", run_remove},
    {"reload", run_reload},
};

#define BLANKS " \t"

enum {
    COMMAND_MAX = 8192
};

/* Cuts LINE behind its command; returns the argument, without the blanks around it. */
static char *cut_argument(char *line)
{
    char *argument = line + strcspn(line, BLANKS);
    if (*argument)
        *argument++ = '\0';
    argument += strspn(argument, BLANKS);
    size_t len = strlen(argument);
    while (len > 0 && strchr(BLANKS, argument[len - 1]))
        len--;
    argument[len] = '\0';
    return argument;
}

static int ctl_write(tm_fs *fs, const tm_node *node, const char *bytes, size_t len, tm_req *req)
{
    (void)node;
    if (!req->may_block)
        return -EINPROGRESS;
    if (len > COMMAND_MAX || memchr(bytes, '\0', len))
        return tm_fail(req, EINVAL, "ctl: not a command");
    TM_AUTO_FREE char *line = strndup(bytes, len);
    if (!line)
        return tm_fail(req, ENOMEM, "out of memory");
    size_t end = strcspn(line, "\n");
    if (line[end] && line[end + 1])
        return tm_fail(req, EINVAL, "ctl: one command a write");
    line[end] = '\0';
    char *argument = cut_argument(line);
    if (!*argument)
        return tm_fail(req, EINVAL, "ctl: '%s': a command and its argument", line);
    for (size_t i = 0; i < TM_ARRAY_LEN(commands); i++)
        if (strcmp(line, commands[i].name) == 0)
            return commands[i].run(fs, argument, req);
    return tm_fail(req, EINVAL, "ctl: no command '%s'; there are add, remove, reload", line);
}

#define TEXT_FILE .mode = S_IFREG | 0444, .live = true, .size = text_size, .open = text_open

const tm_kind_ops tm_control_kinds[] = {
    {.mode = S_IFDIR | 0555, .lookup = control_lookup, .list = control_list},
    {TEXT_FILE}, /* version */
    {TEXT_FILE}, /* log */
    {.mode = S_IFREG | 0644,
     .live = true,
     .size = text_size,
     .open = text_open,
     .write = ctl_write},
    {TEXT_FILE}, /* transport.tsv */
};
