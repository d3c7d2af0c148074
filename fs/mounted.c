#include "fs/mounted.h"

#include <stdio.h>

#include "formats/checkpoint.h"

enum {
    COLLECTION_DEPTH = 3
}; /* how far down a folder is searched for weights */

/* ---- Collections ---- */

static bool holds_weights(const char *path, int depth);

static bool a_folder_holds_weights(const tm_listing *listing, int depth)
{
    for (size_t i = 0; i < listing->count; i++) {
        if (!listing->entries[i].is_dir)
            continue;
        TM_AUTO_FREE char *path = tm_listing_path(listing, listing->entries[i].path);
        if (path && holds_weights(path, depth))
            return true;
    }
    return false;
}

/* Whether a folder has weights, or a folder in it has. What cannot be listed has none. */
static bool holds_weights(const char *path, int depth)
{
    tm_listing listing;
    if (tm_listing_read(path, 0, NULL, &listing) < 0)
        return false;
    bool ret = tm_checkpoint_has_weights(&listing) ||
               (depth > 0 && a_folder_holds_weights(&listing, depth - 1));
    tm_listing_done(&listing);
    return ret;
}

static int find_members(tm_mounted *m, tm_req *req)
{
    m->members = tm_new_array(m->listing.count, sizeof(*m->members));
    if (!m->members)
        return tm_fail(req, ENOMEM, "out of memory");
    bool any = false;
    for (size_t i = 0; i < m->listing.count; i++) {
        const tm_entry *entry = &m->listing.entries[i];
        if (!entry->is_dir)
            continue;
        TM_AUTO_FREE char *path = tm_listing_path(&m->listing, entry->path);
        char *name = path ? strdup(entry->path) : NULL;
        if (!name)
            return tm_fail(req, ENOMEM, "out of memory");
        bool shown = holds_weights(path, COLLECTION_DEPTH - 1);
        m->members[m->member_count++] = (tm_member){name, shown, NULL};
        any |= shown;
    }
    m->is_collection = any;
    return 0;
}

static int compare_member(const void *key, const void *member)
{
    return strcmp(key, ((const tm_member *)member)->name);
}

tm_member *tm_mounted_member(tm_mounted *m, const char *name)
{
    assert(!m->is_collection || !m->model);
    if (!m->is_collection)
        return NULL;
    return bsearch(name, m->members, m->member_count, sizeof(*m->members), compare_member);
}

/* ---- Opening ---- */

static int open_model(tm_mounted *m, const tm_mounted_params *params, tm_req *req)
{
    tm_checkpoint_params cp = {
        .sched = params->sched,
        .files = params->files,
        .listing = &m->listing,
        .source = params->source,
    };
    TM_TRY(tm_checkpoint_open(&cp, req, &m->model));
    m->mtime_ns = m->model->mtime_ns;
    return 0;
}

static int list_all(tm_mounted *m, const tm_mounted_params *params, tm_req *req)
{
    tm_listing_done(&m->listing);
    TM_TRY(tm_listing_read(params->source, TM_LISTING_DEPTH_MAX, req, &m->listing));
    m->mtime_ns = m->listing.mtime_ns;
    return 0;
}

static int open_all(tm_mounted *m, const tm_mounted_params *params, tm_req *req)
{
    TM_TRY(tm_listing_read(params->source, 0, req, &m->listing));
    m->mtime_ns = m->listing.mtime_ns;
    if (tm_checkpoint_has_weights(&m->listing)) {
        TM_TRY(list_all(m, params, req));
        return open_model(m, params, req);
    }
    TM_TRY(find_members(m, req));
    if (m->is_collection)
        return 0;
    if (asprintf(&m->words, "%s: no weights that can be read (*.safetensors)", params->source) < 0)
        return tm_fail(req, ENOMEM, "out of memory");
    return list_all(m, params, req);
}

static tm_mounted *mounted_new(const tm_mounted_params *params)
{
    tm_mounted *m = TM_NEW(tm_mounted);
    if (!m)
        return NULL;
    atomic_init(&m->refs, 1);
    pthread_mutex_init(&m->lock, NULL);
    tm_listing_init(&m->listing);
    m->serial = params->serial;
    m->name = strdup(params->name);
    m->source = strdup(params->source);
    if (!m->name || !m->source)
        return tm_mounted_unref(m);
    return m;
}

int tm_mounted_open(const tm_mounted_params *params, tm_req *req, tm_mounted **ret)
{
    TM_AUTO(tm_mounted_unrefp) tm_mounted *m = mounted_new(params);
    if (!m)
        return tm_fail(req, ENOMEM, "out of memory");
    TM_TRY(open_all(m, params, req));
    *ret = TM_STEAL(m);
    return 0;
}

int tm_mounted_gone(const tm_mounted_params *params, const char *words, tm_req *req,
                    tm_mounted **ret)
{
    TM_AUTO(tm_mounted_unrefp) tm_mounted *m = mounted_new(params);
    if (!m || !(m->words = strdup(words)))
        return tm_fail(req, ENOMEM, "out of memory");
    *ret = TM_STEAL(m);
    return 0;
}

bool tm_mounted_is_gone(const tm_mounted *m)
{
    return !m->listing.root;
}

bool tm_mounted_is_current(const tm_mounted *m)
{
    return !tm_mounted_is_gone(m) && tm_listing_is_current(&m->listing);
}

tm_mounted *tm_mounted_ref(tm_mounted *m)
{
    atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
    return m;
}

tm_mounted *tm_mounted_unref(tm_mounted *m)
{
    if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1)
        return NULL;
    for (uint32_t i = 0; i < m->member_count; i++) {
        tm_mounted_unref(m->members[i].opened);
        free(m->members[i].name);
    }
    free(m->members);
    for (size_t i = 0; m->files && i < m->listing.count; i++)
        tm_file_unref(m->files[i]);
    free(m->files);
    tm_table_unref(m->tensors_tsv);
    tm_model_unref(m->model);
    tm_listing_done(&m->listing);
    free(m->name);
    free(m->source);
    free(m->words);
    pthread_mutex_destroy(&m->lock);
    free(m);
    return NULL;
}

void tm_mounted_unrefp(tm_mounted **m)
{
    tm_mounted_unref(*m);
}

/* Keeps FILE as the one of its entry, unless another thread was first; returns the one kept. */
static tm_file *keep_file(tm_mounted *m, size_t entry, tm_file *file)
{
    pthread_mutex_lock(&m->lock);
    if (!m->files)
        m->files = tm_new_array(m->listing.count, sizeof(*m->files));
    if (m->files && !m->files[entry])
        m->files[entry] = tm_file_ref(file);
    tm_file *kept = tm_file_ref(m->files ? m->files[entry] : file);
    pthread_mutex_unlock(&m->lock);
    return kept;
}

int tm_mounted_file(tm_mounted *m, tm_file_set *set, size_t entry, tm_req *req, tm_file **ret)
{
    assert(req->may_block && entry < m->listing.count);
    TM_AUTO_FREE char *path = tm_listing_path(&m->listing, m->listing.entries[entry].path);
    tm_file *file;
    if (!path)
        return tm_fail(req, ENOMEM, "out of memory");
    TM_TRY(tm_file_new(set, path, req, &file));
    int rc = 0;
    if (tm_file_identity_equal(tm_file_identity_of(file), &m->listing.entries[entry].identity))
        *ret = keep_file(m, entry, file);
    else
        rc = tm_fail(req, ESTALE, "%s: the file changed while it was mounted", path);
    tm_file_unref(file);
    return rc;
}

unsigned tm_mounted_depth(const tm_mounted *m)
{
    unsigned depth = 1;
    for (const char *p = m->name; *p; p++)
        depth += *p == '/';
    return depth;
}
