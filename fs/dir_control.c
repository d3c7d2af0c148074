/* .tmorph/: what the mount says of itself, and ctl, which takes one command a write. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/escape.h"
#include "core/text.h"
#include "core/units.h"
#include "fs/background.h"
#include "fs/fs.h"
#include "fs/version.h"

typedef struct named_kind {
    const char *name;
    tm_kind kind;
} named_kind;

static const named_kind entries[] = {
    {"version", TM_KIND_VERSION},
    {"log", TM_KIND_LOG},
    {"ctl", TM_KIND_CTL},
    {"transport.tsv", TM_KIND_TRANSPORT},
    {"lanes.tsv", TM_KIND_LANES},
    {"residency.tsv", TM_KIND_RESIDENCY_TSV},
    {"residency", TM_KIND_RESIDENCY},
};

static const named_kind residency_entries[] = {
    {"budget", TM_KIND_BUDGET},
    {"used", TM_KIND_USED},
};

/* The names of the folder NODE. */
static const named_kind *names_of(const tm_node *node, size_t *ret_count)
{
    bool residency = node->kind == TM_KIND_RESIDENCY;
    *ret_count = residency ? TM_ARRAY_LEN(residency_entries) : TM_ARRAY_LEN(entries);
    return residency ? residency_entries : entries;
}

static int control_lookup(tm_fs *fs, const tm_node *node, const char *name, tm_req *req,
                          tm_node *ret)
{
    (void)fs, (void)req;
    size_t count;
    const named_kind *names = names_of(node, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, names[i].name) == 0) {
            *ret = tm_node_child(node, names[i].kind, 0, 0);
            return 0;
        }
    }
    return -ENOENT;
}

static int control_list(tm_fs *fs, const tm_node *node, tm_lister *lister)
{
    (void)fs;
    size_t count;
    const named_kind *names = names_of(node, &count);
    for (size_t i = 0; i < count; i++) {
        tm_node child = tm_node_near(node, names[i].kind, 0, 0);
        if (!tm_lister_add(lister, i, names[i].name, &child))
            break;
    }
    return 0;
}

/* ---- Texts ---- */

static void put_bytes(tm_text *text, const char *name, size_t len)
{
    size_t need = tm_field_escape(name, len, NULL, 0);
    TM_AUTO_FREE char *field = malloc(need + 1);
    if (field)
        tm_text_append(text, field, tm_field_escape(name, len, field, need));
}

static void put_field(tm_text *text, const char *name)
{
    put_bytes(text, name, strlen(name));
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

/* ---- residency.tsv: the tiles in memory, a row for each tensor ---- */

typedef struct resident {
    uint32_t group, item;
    uint64_t bytes;
    tm_lane lane; /* the highest */
} resident;

typedef struct residents {
    resident *rows;
    size_t count, cap;
    bool failed;
} residents;

static void add_resident(void *ctx, const tm_tile *tile)
{
    residents *all = ctx;
    if (all->count == all->cap) {
        size_t cap = all->cap ? all->cap * 2 : 256;
        resident *grown = reallocarray(all->rows, cap, sizeof(*grown));
        all->failed |= !grown;
        if (!grown)
            return;
        all->rows = grown;
        all->cap = cap;
    }
    all->rows[all->count++] = (resident){tile->key.group, tile->key.item, tile->bytes, tile->lane};
}

static int compare_residents(const void *a, const void *b)
{
    const resident *x = a, *y = b;
    return x->group != y->group ? (x->group < y->group ? -1 : 1)
           : x->item != y->item ? (x->item < y->item ? -1 : 1)
                                : 0;
}

static void put_resident(tm_fs *fs, tm_text *text, const resident *row)
{
    TM_AUTO(tm_mounted_unrefp) tm_mounted *m = tm_session_by_serial(fs->session, row->group);
    if (!m || !m->model || row->item >= m->model->table.count)
        return; /* it was replaced just now */
    const tm_tensor_table *table = &m->model->table;
    const tm_tensor_row *tensor = &table->rows[row->item];
    put_field(text, m->name);
    tm_text_puts(text, "\t");
    put_bytes(text, tm_row_name(table, tensor), tensor->name_len);
    tm_text_printf(text, "\t%" PRIu64 "\t0\t0\t%d-%s\n", row->bytes, (int)row->lane,
                   tm_lane_name(row->lane));
}

static void render_residency(tm_fs *fs, tm_text *text)
{
    residents all = {.rows = NULL};
    tm_store_each(tm_session_store(fs->session), add_resident, &all);
    if (all.count)
        qsort(all.rows, all.count, sizeof(*all.rows), compare_residents);
    tm_text_puts(text, "model\ttensor\thost_bytes\tdevice_bytes\tdisk_bytes\tlane\n");
    for (size_t i = 0, end; i < all.count; i = end) {
        resident sum = all.rows[i];
        for (end = i + 1; end < all.count && compare_residents(&sum, &all.rows[end]) == 0; end++) {
            sum.bytes += all.rows[end].bytes;
            if (all.rows[end].lane < sum.lane)
                sum.lane = all.rows[end].lane;
        }
        put_resident(fs, text, &sum);
    }
    if (all.failed)
        tm_text_printf(text, "# out of memory: not all are here\n");
    free(all.rows);
}

static void render_version(tm_fs *fs, tm_text *text)
{
    (void)fs;
    tm_text_printf(text, "%s\n", TM_VERSION);
}

static void render_nothing(tm_fs *fs, tm_text *text)
{
    (void)fs, (void)text;
}

static void render_lanes(tm_fs *fs, tm_text *text)
{
    tm_lane_report report[TM_LANE_COUNT];
    tm_sched_report(fs->tree.sched, report);
    tm_text_puts(text, "lane\tqueued\trunning\tdone\tbytes\n");
    for (int i = 0; i < TM_LANE_COUNT; i++)
        tm_text_printf(text, "%d-%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\n", i,
                       tm_lane_name((tm_lane)i), report[i].jobs.queued, report[i].jobs.running,
                       report[i].jobs.done, report[i].bytes);
}

static void render_number(tm_text *text, uint64_t number)
{
    tm_text_printf(text, "%24" PRIu64 "\n", number);
}

static void render_budget(tm_fs *fs, tm_text *text)
{
    render_number(text, tm_store_budget(tm_session_store(fs->session)));
}

static void render_used(tm_fs *fs, tm_text *text)
{
    render_number(text, tm_store_used(tm_session_store(fs->session)));
}

/* What the texts of this folder are, in the order of their kinds. */
static void (*const renders[])(tm_fs *fs, tm_text *text) = {
    render_version,   render_log,     render_nothing, render_transport, render_lanes,
    render_residency, render_nothing, render_budget,  render_used,
};
static_assert(TM_ARRAY_LEN(renders) == TM_KIND_USED - TM_KIND_VERSION + 1, "a text for each kind");

static int render(tm_fs *fs, const tm_node *node, tm_req *req, char **ret, size_t *ret_len)
{
    tm_text text;
    tm_text_init(&text);
    assert(node->kind >= TM_KIND_VERSION && node->kind <= TM_KIND_USED);
    renders[node->kind - TM_KIND_VERSION](fs, &text);
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

static int run_budget(tm_fs *fs, char *argument, tm_req *req)
{
    uint64_t bytes;
    if (tm_size_parse(argument, &bytes) < 0 || bytes == 0)
        return tm_fail(req, EINVAL, "ctl: budget %s: a size such as 512M or 8G is needed",
                       argument);
    tm_store_set_budget(tm_session_store(fs->session), bytes);
    return 0;
}

static int run_drop(tm_fs *fs, char *argument, tm_req *req)
{
    return tm_session_drop(fs->session, argument, req);
}

static int run_index(tm_fs *fs, char *argument, tm_req *req)
{
    static const char word[] = " pyramids";
    TM_AUTO(tm_mounted_unrefp) tm_mounted *m = NULL;
    size_t len = strlen(argument), word_len = sizeof(word) - 1;
    bool pyramids = len > word_len && strcmp(argument + len - word_len, word) == 0;
    if (pyramids)
        argument[len - word_len] = '\0';
    TM_TRY(tm_session_get(fs->session, argument, req, &m));
    if (!tm_mounted_has_models(m))
        return tm_fail(req, EINVAL, "ctl: index %s: it has no tensors", argument);
    return tm_background_index(tm_session_background(fs->session), m, pyramids, req);
}

static int run_cancel(tm_fs *fs, char *argument, tm_req *req)
{
    TM_AUTO(tm_mounted_unrefp) tm_mounted *m = NULL;
    TM_TRY(tm_session_get(fs->session, argument, req, &m));
    tm_background_cancel(tm_session_background(fs->session), m);
    return 0;
}

static const command commands[] = {
    {"add", run_add},   {"remove", run_remove}, {"reload", run_reload}, {"budget", run_budget},
    {"drop", run_drop}, {"index", run_index},   {"cancel", run_cancel},
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

static int ctl_write(tm_fs *fs, const tm_node *node, const tm_chunk *chunk, tm_req *req)
{
    (void)node;
    if (!req->may_block)
        return -EINPROGRESS;
    if (chunk->len > COMMAND_MAX || memchr(chunk->bytes, '\0', chunk->len))
        return tm_fail(req, EINVAL, "ctl: not a command");
    TM_AUTO_FREE char *line = strndup(chunk->bytes, chunk->len);
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
        if (strcmp(line, commands[i].name) == 0) {
            int rc = commands[i].run(fs, argument, req);
            return rc < 0 ? rc : 1;
        }
    return tm_fail(req, EINVAL,
                   "ctl: no command '%s'; there are add, remove, reload, budget, drop, "
                   "index, cancel",
                   line);
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
    {TEXT_FILE}, /* lanes.tsv */
    {TEXT_FILE}, /* residency.tsv */
    {.mode = S_IFDIR | 0555, .lookup = control_lookup, .list = control_list},
    {TEXT_FILE}, /* residency/budget */
    {TEXT_FILE}, /* residency/used */
};
