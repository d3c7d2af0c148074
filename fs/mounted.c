#include "fs/mounted.h"

#include <stdio.h>

#include "formats/checkpoint.h"
#include "fs/indexes.h"

enum {
    COLLECTION_DEPTH = 3, /* how far down a folder is searched for weights */
    NUMBERS_MAX = 1 << 21 /* that files had in turn; then the source is opened anew */
};
static_assert(NUMBERS_MAX >= 2 * TM_LISTING_MAX, "each entry has a number of its own");

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

/* ---- The numbers of entries ---- */

const tm_entry *tm_mounted_entry(const tm_mounted *m, uint32_t number)
{
    bool there = number < m->numbered_count && !m->numbered[number].gone;
    return there ? &m->listing.entries[m->numbered[number].entry] : NULL;
}

size_t tm_mounted_entry_after(const tm_mounted *m, uint64_t number)
{
    if (number >= m->numbered_count)
        return m->listing.count;
    return m->numbered[number].entry + !m->numbered[number].gone;
}

static bool is_same(const tm_entry *a, const tm_entry *b)
{
    return a->is_dir ? b->is_dir : !b->is_dir && tm_file_identity_equal(&a->identity, &b->identity);
}

/* The number that the I-th entry had in WAS (may be NULL), if it is the same file. */
static bool number_before(const tm_mounted *m, size_t i, const tm_mounted *was, uint32_t *ret)
{
    const tm_entry *entry = &m->listing.entries[i];
    size_t at;
    if (!was || !tm_listing_find(&was->listing, entry->path, strlen(entry->path), &at) ||
        !is_same(entry, &was->listing.entries[at]))
        return false;
    *ret = was->number_of[at];
    return true;
}

/* Where what has number I in WAS stood, as a place in the new listing: who is in the midst of a
 * list goes on from there. */
static uint32_t place_now(const tm_mounted *m, const tm_mounted *was, uint32_t i)
{
    uint32_t then = was->numbered[i].entry;
    if (then == was->listing.count)
        return (uint32_t)m->listing.count;
    const char *path = was->listing.entries[then].path;
    size_t at = tm_listing_lower_bound(&m->listing, path, strlen(path));
    /* Another file of that name stands in the place of the one that is gone. */
    if (!was->numbered[i].gone && at < m->listing.count &&
        strcmp(m->listing.entries[at].path, path) == 0)
        at++;
    return (uint32_t)at;
}

/* Numbers the entries: as in WAS, whose lock is held, and behind those. */
static int number_entries(tm_mounted *m, const tm_mounted *was, tm_req *req)
{
    uint32_t count = was ? was->numbered_count : 0;
    if (was && count + m->listing.count > NUMBERS_MAX)
        return -ESTALE;
    m->number_of = tm_new_array(m->listing.count, sizeof(*m->number_of));
    m->numbered = tm_new_array(count + m->listing.count, sizeof(*m->numbered));
    if (!m->number_of || !m->numbered)
        return tm_fail(req, ENOMEM, "out of memory");
    for (uint32_t i = 0; i < count; i++)
        m->numbered[i] = (tm_numbered){place_now(m, was, i), true, NULL};
    for (size_t i = 0; i < m->listing.count; i++) {
        uint32_t number = count;
        bool known = number_before(m, i, was, &number);
        m->number_of[i] = number;
        m->numbered[number] = (tm_numbered){(uint32_t)i, false, NULL};
        if (known && was->numbered[number].file)
            m->numbered[number].file = tm_file_ref(was->numbered[number].file);
        count += !known;
    }
    m->numbered_count = count;
    return 0;
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
    TM_TRY(number_entries(m, NULL, req));
    *ret = TM_STEAL(m);
    return 0;
}

/* ---- The same with a new listing ---- */

/* The first entry from AT on that MODEL depends on; the count where there is none. */
static size_t next_read(const tm_listing *listing, const tm_model *model, size_t at)
{
    while (at < listing->count &&
           (listing->entries[at].is_dir ||
            !(listing->is_file || tm_checkpoint_reads(model, listing->entries[at].path))))
        at++;
    return at;
}

static bool same_weights(const tm_mounted *was, const tm_listing *now)
{
    const tm_listing *then = &was->listing;
    if (strcmp(then->root, now->root) != 0 || then->is_file != now->is_file)
        return false;
    size_t i = next_read(then, was->model, 0), k = next_read(now, was->model, 0);
    while (i < then->count && k < now->count) {
        const tm_entry *a = &then->entries[i], *b = &now->entries[k];
        if (strcmp(a->path, b->path) != 0 || !is_same(a, b))
            return false;
        i = next_read(then, was->model, i + 1);
        k = next_read(now, was->model, k + 1);
    }
    return i == then->count && k == now->count;
}

/* Whether M, of which only the listing is known, is what WAS is. Finds its members. */
static int check_same(tm_mounted *m, const tm_mounted *was, tm_req *req)
{
    if (was->model)
        return same_weights(was, &m->listing) ? 0 : -ESTALE;
    if (tm_checkpoint_has_weights(&m->listing))
        return -ESTALE;
    TM_TRY(find_members(m, req));
    return m->is_collection == was->is_collection ? 0 : -ESTALE;
}

/* What WAS knows already. */
static int take_over(tm_mounted *m, tm_mounted *was, tm_req *req)
{
    pthread_mutex_lock(&was->lock);
    int rc = number_entries(m, was, req);
    m->tensors_tsv = was->tensors_tsv ? tm_table_ref(was->tensors_tsv) : NULL;
    m->model_json_size = was->model_json_size;
    m->metadata_json_size = was->metadata_json_size;
    m->stats_tsv_size = was->stats_tsv_size;
    m->layers_tsv_size = was->layers_tsv_size;
    m->shards = was->shards ? tm_shards_ref(was->shards) : NULL;
    m->indexes = was->indexes ? tm_indexes_ref(was->indexes) : NULL;
    memcpy(m->fingerprint, was->fingerprint, sizeof(m->fingerprint));
    pthread_mutex_unlock(&was->lock);
    m->model = was->model ? tm_model_ref(was->model) : NULL;
    m->mtime_ns = m->model ? m->model->mtime_ns : m->listing.mtime_ns;
    if (rc == 0 && was->words && !(m->words = strdup(was->words)))
        rc = tm_fail(req, ENOMEM, "out of memory");
    return rc;
}

int tm_mounted_relist(tm_mounted *was, tm_req *req, tm_mounted **ret)
{
    if (tm_mounted_is_gone(was))
        return -ESTALE;
    tm_mounted_params params = {.name = was->name, .source = was->source, .serial = was->serial};
    TM_AUTO(tm_mounted_unrefp) tm_mounted *m = mounted_new(&params);
    if (!m)
        return tm_fail(req, ENOMEM, "out of memory");
    int depth = was->model ? TM_LISTING_DEPTH_MAX : 0;
    TM_TRY(tm_listing_read(was->source, depth, req, &m->listing));
    TM_TRY(check_same(m, was, req));
    if (!was->model && !was->is_collection)
        TM_TRY(list_all(m, &params, req));
    TM_TRY(take_over(m, was, req));
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

uint64_t tm_mounted_key(const tm_mounted *m)
{
    return tm_mounted_is_gone(m) ? 0 : m->listing.root_identity.dev + 1;
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
    for (uint32_t i = 0; i < m->numbered_count; i++)
        tm_file_unref(m->numbered[i].file);
    free(m->numbered);
    free(m->number_of);
    tm_table_unref(m->tensors_tsv);
    tm_indexes_unref(m->indexes);
    tm_shards_unref(m->shards);
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

/* Keeps FILE as the one with NUMBER, unless another thread was first; returns the one kept. */
static tm_file *keep_file(tm_mounted *m, uint32_t number, tm_file *file)
{
    pthread_mutex_lock(&m->lock);
    tm_file **slot = &m->numbered[number].file;
    if (!*slot)
        *slot = tm_file_ref(file);
    tm_file *kept = tm_file_ref(*slot);
    pthread_mutex_unlock(&m->lock);
    return kept;
}

int tm_mounted_file(tm_mounted *m, tm_file_set *set, uint32_t number, tm_req *req, tm_file **ret)
{
    assert(req->may_block);
    const tm_entry *entry = tm_mounted_entry(m, number);
    assert(entry);
    TM_AUTO_FREE char *path = tm_listing_path(&m->listing, entry->path);
    tm_file *file;
    if (!path)
        return tm_fail(req, ENOMEM, "out of memory");
    tm_req part;
    tm_req_init_part(&part, req);
    int rc = tm_file_new(set, path, &part, &file);
    if (rc < 0)
        return tm_file_fail_known(path, rc, &part, req);
    if (tm_file_identity_equal(tm_file_identity_of(file), &entry->identity))
        *ret = keep_file(m, number, file);
    else
        rc = tm_fail(req, ESTALE, "%s: the file changed while it was mounted", path);
    tm_file_unref(file);
    return rc;
}

bool tm_mounted_has_models(const tm_mounted *m)
{
    return m->model || m->is_collection;
}

unsigned tm_mounted_depth(const tm_mounted *m)
{
    unsigned depth = 1;
    for (const char *p = m->name; *p; p++)
        depth += *p == '/';
    return depth;
}
