/* The mount's root: README, load/, models/. */
#include <stdio.h>
#include <sys/stat.h>

#include "fs/fs.h"

static const char readme[] =
    "This is a tensormorph mount: checkpoints as folders of tensors.\n"
    "\n"
    "load/NAME/            a checkpoint's own files, byte for byte: point loaders here\n"
    "models/NAME/          the same checkpoint to look into:\n"
    "  state  error        ready or damaged, and why\n"
    "  model.json          what it is: architecture, layers, parameters, dtypes, files\n"
    "  metadata.json       the string pairs of its header\n"
    "  tensors.tsv         every tensor: name, dtype, shape, params, bytes, layer, role, file\n"
    "  stats.tsv           what is known of their values; layers.tsv by layer\n"
    "  files               the checkpoint's own files\n"
    "  tensors/T/          one folder a tensor, named exactly like it ('/' is %2F):\n"
    "    name dtype shape  one value a file\n"
    "    data.npy          the values as a NumPy file (16-bit and narrower floats as float32)\n"
    "    stats.json        counts, moments, quantiles of the values; hist.tsv their histogram;\n"
    "                      rows.tsv cols.tsv the same of each row and column\n"
    "    lod/overview.png  a picture of them; lod/L.{mean,min,max,nonfinite}.npy L.png levels\n"
    "                      that halve both axes L times\n"
    "    and by name, though not listed:\n"
    "    raw               the stored bytes\n"
    "    at/I,J            one value, such as at/0,-1\n"
    "    rows/I.npy        one row; cols/J.npy one column\n"
    "    slice/A:B,C:D.npy a box, as NumPy means it\n"
    "    stats/KEY         one number of stats.json; lod/L/Y,X.npy a tile of a level\n"
    "  tree/               the tensors by module path\n"
    "  layers/NNN/         the tensors by layer\n"
    "  experts/NNN/EEE/    the tensors by layer and expert\n"
    "  index/              whether the statistics of all tensors are known ahead; then layers/NNN\n"
    "                      and each folder of tree/ have a stats.json, too ('tmorph index')\n"
    "  query/NAME.q        write a question to it, such as 'nan_count > 0 or absmax > 100':\n"
    "                      query/NAME/matches.tsv has the tensors of which it is true\n"
    ".tmorph/              version, log, transport.tsv, lanes.tsv, residency.tsv;\n"
    "                      ctl takes one command a write:\n"
    "                      add NAME=SOURCE, remove NAME, reload NAME, budget SIZE,\n"
    "                      drop NAME, index NAME, cancel NAME\n"
    "\n"
    "Listing reads no weights; reading a file reads what it shows. 'grep -r' reads everything:\n"
    "grep models/NAME/tensors.tsv instead.\n";

static int readme_size(tm_fs *fs, const tm_node *node, tm_req *req, uint64_t *ret)
{
    (void)fs, (void)node, (void)req;
    *ret = sizeof(readme) - 1;
    return 0;
}

static int readme_open(tm_fs *fs, const tm_node *node, tm_req *req, tm_blob **ret)
{
    (void)fs, (void)node;
    int rc = tm_blob_mem_new(readme, sizeof(readme) - 1, ret);
    return rc < 0 ? tm_fail(req, ENOMEM, "out of memory") : 0;
}

static const struct {
    const char *name;
    tm_kind kind;
} entries[] = {
    {"README", TM_KIND_README},
    {"load", TM_KIND_LOADS},
    {"models", TM_KIND_MODELS},
    {".tmorph", TM_KIND_CONTROL},
};

static int root_lookup(tm_fs *fs, const tm_node *node, const char *name, tm_req *req, tm_node *ret)
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

static int root_list(tm_fs *fs, const tm_node *node, tm_lister *lister)
{
    (void)fs;
    for (size_t i = 0; i < TM_ARRAY_LEN(entries); i++) {
        tm_node child = tm_node_near(node, entries[i].kind, 0, 0);
        if (!tm_lister_add(lister, i, entries[i].name, &child))
            break;
    }
    return 0;
}

/* ---- load/ and models/: a folder for each name ---- */

static int names_lookup(tm_fs *fs, const char *name, tm_kind kind, tm_node *ret)
{
    tm_mounted *m = tm_session_find(fs->session, name);
    if (!m || (kind == TM_KIND_MODEL && !tm_mounted_has_models(m))) {
        tm_mounted_unref(m);
        return -ENOENT;
    }
    *ret = (tm_node){.mounted = m, .kind = kind};
    return 0;
}

static int names_list(tm_fs *fs, tm_kind kind, tm_lister *lister)
{
    bool more = true;
    for (size_t i = lister->at; more; i++) {
        TM_AUTO(tm_mounted_unrefp) tm_mounted *m = tm_session_at(fs->session, i);
        if (!m)
            break;
        tm_node child = {.mounted = m, .kind = kind};
        if (kind == TM_KIND_LOAD || tm_mounted_has_models(m))
            more = tm_lister_add(lister, i, m->name, &child);
    }
    return 0;
}

static int loads_lookup(tm_fs *fs, const tm_node *node, const char *name, tm_req *req, tm_node *ret)
{
    (void)node, (void)req;
    return names_lookup(fs, name, TM_KIND_LOAD, ret);
}

static int loads_list(tm_fs *fs, const tm_node *node, tm_lister *lister)
{
    (void)node;
    return names_list(fs, TM_KIND_LOAD, lister);
}

static int models_lookup(tm_fs *fs, const tm_node *node, const char *name, tm_req *req,
                         tm_node *ret)
{
    (void)node, (void)req;
    return names_lookup(fs, name, TM_KIND_MODEL, ret);
}

static int models_list(tm_fs *fs, const tm_node *node, tm_lister *lister)
{
    (void)node;
    return names_list(fs, TM_KIND_MODEL, lister);
}

const tm_kind_ops tm_root_kinds[] = {
    {.mode = S_IFDIR | 0555, .lookup = root_lookup, .list = root_list},
    {.mode = S_IFREG | 0444, .lane = TM_LANE_SELECTION, .size = readme_size, .open = readme_open},
    {.mode = S_IFDIR | 0555, .live = true, .lookup = loads_lookup, .list = loads_list},
    {.mode = S_IFDIR | 0555, .live = true, .lookup = models_lookup, .list = models_list},
};
