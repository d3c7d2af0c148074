/* load/NAME: a source's own files, byte for byte. */
#include <stdio.h>
#include <sys/stat.h>

#include "core/blob_file.h"
#include "fs/fs.h"

/* It is there: the tree does not resolve the numbers of entries that are gone. */
static const tm_entry *entry_of(const tm_node *node)
{
    const tm_entry *entry = tm_mounted_entry(node->mounted, node->item);
    assert(entry);
    return entry;
}

static tm_kind kind_of(const tm_fs *fs, const tm_entry *entry)
{
    if (entry->is_dir)
        return TM_KIND_LOAD_DIR;
    return fs->tree.raw_way == TM_RAW_SYMLINK ? TM_KIND_LOAD_LINK : TM_KIND_LOAD_FILE;
}

/* The folder's path with a slash behind it, "" for the root. */
static int prefix_of(const tm_node *node, tm_req *req, char **ret)
{
    int n = node->kind == TM_KIND_LOAD ? asprintf(ret, "%s", "")
                                       : asprintf(ret, "%s/", entry_of(node)->path);
    return n < 0 ? tm_fail(req, ENOMEM, "out of memory") : 0;
}

static int member_lookup(tm_fs *fs, const tm_node *node, const char *name, tm_req *req,
                         tm_node *ret)
{
    tm_mounted *m = NULL;
    TM_TRY(tm_session_member(fs->session, node->mounted, name, req, &m));
    *ret = (tm_node){.mounted = m, .kind = TM_KIND_LOAD};
    return 0;
}

static int load_lookup(tm_fs *fs, const tm_node *node, const char *name, tm_req *req, tm_node *ret)
{
    const tm_listing *listing = &node->mounted->listing;
    TM_AUTO_FREE char *prefix = NULL;
    TM_AUTO_FREE char *path = NULL;
    size_t at;
    if (tm_mounted_member(node->mounted, name))
        return member_lookup(fs, node, name, req, ret);
    TM_TRY(prefix_of(node, req, &prefix));
    if (asprintf(&path, "%s%s", prefix, name) < 0)
        return tm_fail(req, ENOMEM, "out of memory");
    if (!tm_listing_find(listing, path, strlen(path), &at))
        return -ENOENT;
    *ret = tm_node_child(node, kind_of(fs, &listing->entries[at]), node->mounted->number_of[at], 0);
    return 0;
}

/* A folder of a collection is opened by its look-up, so the list says only that there is one. */
static bool add_member(tm_lister *lister, uint64_t number, const char *name)
{
    tm_attr attr = {.ino = 0, .mode = S_IFDIR | 0555};
    return lister->emit(lister->ctx, name, &attr, number + 1);
}

static int load_list(tm_fs *fs, const tm_node *node, tm_lister *lister)
{
    const tm_mounted *m = node->mounted;
    TM_AUTO_FREE char *prefix = NULL;
    TM_TRY(prefix_of(node, lister->req, &prefix));
    size_t len = strlen(prefix);
    /* It goes on by number, since entries may come and go meanwhile. */
    size_t first = lister->at ? tm_mounted_entry_after(m, lister->at - 1)
                              : tm_listing_lower_bound(&m->listing, prefix, len);
    for (size_t i = first; i < m->listing.count; i++) {
        const tm_entry *entry = &m->listing.entries[i];
        if (strncmp(entry->path, prefix, len) != 0)
            break;
        const char *name = entry->path + len;
        if (strchr(name, '/'))
            continue;
        uint32_t number = m->number_of[i];
        tm_node child = tm_node_near(node, kind_of(fs, entry), number, 0);
        bool more = entry->is_dir && m->is_collection
                        ? add_member(lister, number, name)
                        : tm_lister_emit(lister, number, name, &child);
        if (!more)
            break;
    }
    return 0;
}

static int file_size(tm_fs *fs, const tm_node *node, tm_req *req, uint64_t *ret)
{
    (void)fs, (void)req;
    *ret = entry_of(node)->identity.size;
    return 0;
}

static int64_t entry_mtime(tm_fs *fs, const tm_node *node)
{
    (void)fs;
    return entry_of(node)->identity.mtime_ns;
}

static int file_path(const tm_node *node, tm_req *req, char **ret)
{
    *ret = tm_listing_path(&node->mounted->listing, entry_of(node)->path);
    return *ret ? 0 : tm_fail(req, ENOMEM, "out of memory");
}

static int file_open(tm_fs *fs, const tm_node *node, tm_req *req, tm_blob **ret)
{
    tm_file *file;
    if (!req->may_block)
        return -EINPROGRESS;
    TM_TRY(tm_mounted_file(node->mounted, tm_session_files(fs->session), node->item, req, &file));
    int rc = tm_blob_file_new(fs->tree.sched, file, ret);
    tm_file_unref(file);
    return rc < 0 ? tm_fail(req, ENOMEM, "out of memory") : 0;
}

static tm_layout *file_layout(const tm_node *node)
{
    tm_model *model = node->mounted->model;
    tm_layout *layout = NULL;
    for (uint32_t i = 0; model && i < model->file_count; i++)
        if (strcmp(model->files[i].name, entry_of(node)->path) == 0 &&
            tm_layout_new(model, i, &layout) < 0)
            return NULL; /* it would only have told what to read ahead */
    return layout;
}

static int file_link(tm_fs *fs, const tm_node *node, tm_req *req, char **ret)
{
    (void)fs;
    return file_path(node, req, ret);
}

const tm_kind_ops tm_load_kinds[] = {
    {.mode = S_IFDIR | 0555, .live = true, .lookup = load_lookup, .list = load_list},
    {.mode = S_IFDIR | 0555,
     .live = true,
     .lookup = load_lookup,
     .list = load_list,
     .mtime = entry_mtime},
    {.mode = S_IFREG | 0444,
     .lane = TM_LANE_VISIBLE,
     .size = file_size,
     .open = file_open,
     .layout = file_layout,
     .mtime = entry_mtime},
    {.mode = S_IFLNK | 0777, .link = file_link, .mtime = entry_mtime},
};
