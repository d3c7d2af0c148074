#include "tools/mount_options.h"

#include <stdio.h>
#include <unistd.h>

#include "core/units.h"

void tm_mount_options_init(tm_mount_options *options)
{
    *options = (tm_mount_options){.timeout_s = 30, .raw = TM_RAW_AUTO};
}

void tm_mount_options_done(tm_mount_options *options)
{
    free(options->fsname);
    free(options->index_dir);
    free(options->log);
}

typedef int set_fn(tm_mount_options *options, const char *value, tm_req *req);

static int replace(char **field, const char *value, tm_req *req)
{
    free(*field);
    *field = strdup(value);
    return *field ? 0 : tm_fail(req, ENOMEM, "out of memory");
}

/* Where the user stands counts, not where the daemon works. */
static int set_path(char **field, const char *name, const char *value, tm_req *req)
{
    TM_AUTO_FREE char *cwd = getcwd(NULL, 0);
    TM_AUTO_FREE char *path = NULL;
    if (value[0] == '/')
        return replace(field, value, req);
    if (!cwd || asprintf(&path, "%s/%s", cwd, value) < 0)
        return tm_fail(req, ENOMEM, "%s=%s: %s", name, value, strerror(errno));
    return replace(field, path, req);
}

static int parse_count(const char *name, const char *value, unsigned max, tm_req *req,
                       unsigned *ret)
{
    char *end;
    errno = 0;
    unsigned long n = strtoul(value, &end, 10);
    if (errno || *end || end == value || value[0] == '-' || n < 1 || n > max)
        return tm_fail(req, EINVAL, "%s=%s: a number from 1 to %u is needed", name, value, max);
    *ret = (unsigned)n;
    return 0;
}

static int set_allow_other(tm_mount_options *options, const char *value, tm_req *req)
{
    (void)value, (void)req;
    options->allow_other = true;
    return 0;
}

static int set_budget(tm_mount_options *options, const char *value, tm_req *req)
{
    if (tm_size_parse(value, &options->budget) < 0 || options->budget == 0)
        return tm_fail(req, EINVAL, "budget=%s: a size such as 512M or 8G is needed", value);
    return 0;
}

static int set_exec(tm_mount_options *options, const char *value, tm_req *req)
{
    (void)value, (void)req;
    options->noexec = false;
    return 0;
}

static int set_noexec(tm_mount_options *options, const char *value, tm_req *req)
{
    (void)value, (void)req;
    options->noexec = true;
    return 0;
}

static int set_fsname(tm_mount_options *options, const char *value, tm_req *req)
{
    return replace(&options->fsname, value, req);
}

static int set_index(tm_mount_options *options, const char *value, tm_req *req)
{
    options->index = strcmp(value, "on") == 0;
    if (!options->index && strcmp(value, "off") != 0)
        return tm_fail(req, EINVAL, "index=%s: on or off", value);
    return 0;
}

static int set_index_dir(tm_mount_options *options, const char *value, tm_req *req)
{
    return set_path(&options->index_dir, "index-dir", value, req);
}

static int set_log(tm_mount_options *options, const char *value, tm_req *req)
{
    return strcmp(value, "syslog") == 0 ? replace(&options->log, value, req)
                                        : set_path(&options->log, "log", value, req);
}

static int set_threads(tm_mount_options *options, const char *value, tm_req *req)
{
    return parse_count("threads", value, 1024, req, &options->threads);
}

static int set_timeout(tm_mount_options *options, const char *value, tm_req *req)
{
    return parse_count("timeout", value, 86400, req, &options->timeout_s);
}

static int set_raw(tm_mount_options *options, const char *value, tm_req *req)
{
    if (tm_raw_way_parse(value, &options->raw))
        return 0;
    return tm_fail(req, EINVAL, "raw=%s: one of auto, passthrough, mapped, pread, symlink", value);
}

static const struct {
    const char *name;
    bool takes_value;
    set_fn *set;
} known[] = {
    {"allow_other", false, set_allow_other},
    {"budget", true, set_budget},
    {"exec", false, set_exec},
    {"fsname", true, set_fsname},
    {"index", true, set_index},
    {"index-dir", true, set_index_dir},
    {"log", true, set_log},
    {"noexec", false, set_noexec},
    {"raw", true, set_raw},
    {"threads", true, set_threads},
    {"timeout", true, set_timeout},
};

/* What mount(8), fstab and systemd add: it means nothing here, or always holds. Not what asks for
 * something that would then not be so, such as remount, or setuid=USER, which mount.fuse3(8) keeps
 * to itself. */
static const char *const generic[] = {
    "_netdev",    "async",      "atime",         "auto",       "comment",
    "context",    "defaults",   "defcontext",    "dev",        "diratime",
    "dirsync",    "fscontext",  "group",         "iversion",   "lazytime",
    "loud",       "mand",       "noatime",       "noauto",     "nodev",
    "nodiratime", "nofail",     "noiversion",    "nolazytime", "nomand",
    "nonempty",   "norelatime", "nostrictatime", "nosuid",     "nosymfollow",
    "nouser",     "owner",      "relatime",      "ro",         "rootcontext",
    "rw",         "silent",     "strictatime",   "subtype",    "suid",
    "symfollow",  "sync",       "user",          "users",
};

static bool is_generic(const char *name)
{
    if (strncmp(name, "x-", 2) == 0 || strncmp(name, "X-", 2) == 0 ||
        strcmp(name, "default_permissions") == 0)
        return true;
    for (size_t i = 0; i < TM_ARRAY_LEN(generic); i++)
        if (strcmp(name, generic[i]) == 0)
            return true;
    return false;
}

static int set_one(tm_mount_options *options, char *option, tm_req *req)
{
    char *value = strchr(option, '=');
    if (value)
        *value++ = '\0';
    for (size_t i = 0; i < TM_ARRAY_LEN(known); i++) {
        if (strcmp(option, known[i].name) != 0)
            continue;
        if (known[i].takes_value != (value && *value))
            return tm_fail(req, EINVAL, "option %s %s a value", option,
                           known[i].takes_value ? "needs" : "takes not");
        return known[i].set(options, value, req);
    }
    return is_generic(option) ? 0 : tm_fail(req, EINVAL, "unknown option '%s'", option);
}

/* Cuts the next option off *REST; NULL at the end. SELinux's labels have commas, and are quoted. */
static char *next_option(char **rest)
{
    char *option = *rest, *end = option;
    bool quoted = false;
    for (; end && *end && (quoted || *end != ','); end++)
        if (*end == '"' && (quoted || (end > option && end[-1] == '=')))
            quoted = !quoted;
    *rest = end && *end ? end + 1 : NULL;
    if (end)
        *end = '\0';
    return option;
}

int tm_mount_options_parse(tm_mount_options *options, const char *opts, tm_req *req)
{
    TM_AUTO_FREE char *copy = strdup(opts);
    if (!copy)
        return tm_fail(req, ENOMEM, "out of memory");
    char *rest = copy;
    for (char *option; (option = next_option(&rest));)
        if (*option)
            TM_TRY(set_one(options, option, req));
    return 0;
}
