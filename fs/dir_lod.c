/*
 * Levels of detail of one tensor: lod/L.{mean,min,max,nonfinite}.npy, pictures of them, and their
 * tiles. What is in the folder follows from the shape: no level is computed before it is read.
 */
#include <stdio.h>
#include <sys/stat.h>

#include "compute/level_tensor.h"
#include "core/prefetch.h"
#include "core/selection.h"
#include "core/text.h"
#include "formats/picture.h"
#include "formats/view_npy.h"
#include "fs/fs.h"
#include "fs/indexed_level.h"
#include "fs/intern.h"
#include "fs/level_picture.h"
#include "fs/tensor_node.h"

enum {
    LISTED_LEVEL = 4, /* finer ones are found by name */
    TILE_SIDE = 256
};

static int out_of_memory(tm_req *req)
{
    return tm_fail(req, ENOMEM, "out of memory");
}

static tm_planes planes_of(const tm_node *node)
{
    size_t rank;
    const uint64_t *dims = tm_tensor_node_dims(node, &rank);
    return tm_planes_of(dims, rank);
}

static uint64_t picture_size(const tm_planes *planes, unsigned level)
{
    return tm_picture_size(tm_planes_level_dim(planes->rows, level),
                           tm_planes_level_dim(planes->cols, level));
}

/* The finest level (0: the values) that fits a picture. */
static unsigned overview_level(const tm_planes *planes)
{
    unsigned level = 0;
    while (picture_size(planes, level) == 0 && level < tm_planes_levels(planes))
        level++;
    return level;
}

/* ---- Names ---- */

typedef enum lod_what {
    LOD_CELLS,   /* "4.mean.npy" */
    LOD_PICTURE, /* "4.png", "4.p2.png", "overview.png" */
    LOD_LEVEL,   /* "4": the folder of its tiles */
    LOD_TILE,    /* "4/0,1.npy", interned so */
} lod_what;

typedef struct lod_name {
    lod_what what;
    unsigned level;
    tm_reducer reducer; /* of cells */
    uint64_t plane;     /* of a picture or tile */
    uint64_t row, col;  /* of a tile, in tiles */
} lod_name;

static const char *const reducers[] = {"mean", "min", "max", "nonfinite"};
static_assert(TM_ARRAY_LEN(reducers) == TM_REDUCE_COUNT, "each reducer has a name");

/* A number without zeros before it; moves *TEXT behind it. */
static bool take_number(const char **text, uint64_t max, uint64_t *ret)
{
    const char *p = *text;
    uint64_t n = 0;
    if (*p < '0' || *p > '9' || (p[0] == '0' && p[1] >= '0' && p[1] <= '9'))
        return false;
    for (; *p >= '0' && *p <= '9'; p++)
        if (tm_mul_overflow(n, 10, &n) || tm_add_overflow(n, (uint64_t)(*p - '0'), &n))
            return false;
    *text = p;
    *ret = n;
    return n <= max;
}

static bool take(const char **text, const char *word)
{
    size_t len = strlen(word);
    if (strncmp(*text, word, len) != 0)
        return false;
    *text += len;
    return true;
}

/* "png", or with several planes "pK.png". */
static bool parse_picture(const char *rest, const tm_planes *planes, lod_name *ret)
{
    ret->what = LOD_PICTURE;
    if (planes->planes != 1 &&
        !(take(&rest, "p") && take_number(&rest, planes->planes - 1, &ret->plane) &&
          take(&rest, ".")))
        return false;
    return strcmp(rest, "png") == 0 && picture_size(planes, ret->level) > 0;
}

/* "Y,X.npy", with several planes "K,Y,X.npy". */
static bool parse_tile(const char *rest, const tm_planes *planes, lod_name *ret)
{
    uint64_t rows = tm_planes_level_dim(planes->rows, ret->level);
    uint64_t cols = tm_planes_level_dim(planes->cols, ret->level);
    ret->what = LOD_TILE;
    if (planes->planes != 1 &&
        !(take_number(&rest, planes->planes - 1, &ret->plane) && take(&rest, ",")))
        return false;
    return take_number(&rest, (rows - 1) / TILE_SIDE, &ret->row) && take(&rest, ",") &&
           take_number(&rest, (cols - 1) / TILE_SIDE, &ret->col) && strcmp(rest, ".npy") == 0;
}

static bool parse_cells(const char *rest, lod_name *ret)
{
    ret->what = LOD_CELLS;
    for (unsigned i = 0; i < TM_REDUCE_COUNT; i++) {
        size_t len = strlen(reducers[i]);
        ret->reducer = (tm_reducer)i;
        if (strncmp(rest, reducers[i], len) == 0 && strcmp(rest + len, ".npy") == 0)
            return true;
    }
    return false;
}

/* What NAME means of a tensor with these planes, which has elements; false where it means nothing.
 */
static bool parse(const char *name, const tm_planes *planes, lod_name *ret)
{
    uint64_t level;
    *ret = (lod_name){.what = LOD_PICTURE};
    if (take(&name, "overview.")) {
        ret->level = overview_level(planes);
        return parse_picture(name, planes, ret) ||
               (strcmp(name, "png") == 0 && picture_size(planes, ret->level) > 0);
    }
    if (!take_number(&name, tm_planes_levels(planes), &level) || level == 0)
        return false;
    ret->level = (unsigned)level;
    ret->what = LOD_LEVEL;
    if (*name == '\0')
        return true;
    if (take(&name, "/"))
        return parse_tile(name, planes, ret);
    return take(&name, ".") && (parse_cells(name, ret) || parse_picture(name, planes, ret));
}

static lod_name name_of(const tm_node *node)
{
    tm_planes planes = planes_of(node);
    lod_name name;
    bool known = parse(node->interned->text, &planes, &name);
    assert(known);
    (void)known;
    return name;
}

static bool has_levels(const tm_planes *planes)
{
    return planes->planes && planes->rows && planes->cols;
}

static int lod_lookup(tm_fs *fs, const tm_node *node, const char *name, tm_req *req, tm_node *ret)
{
    tm_planes planes = planes_of(node);
    lod_name parsed;
    if (!has_levels(&planes) || !parse(name, &planes, &parsed) || strchr(name, '/'))
        return -ENOENT;
    tm_kind kind = parsed.what == LOD_LEVEL ? TM_KIND_LOD_LEVEL : TM_KIND_LOD_FILE;
    return tm_intern_child(fs, node, kind, name, req, ret);
}

/* Tiles of a level. */
static int tile_lookup(tm_fs *fs, const tm_node *node, const char *name, tm_req *req, tm_node *ret)
{
    tm_planes planes = planes_of(node);
    lod_name parsed;
    TM_AUTO_FREE char *path = NULL;
    if (asprintf(&path, "%s/%s", node->interned->text, name) < 0)
        return out_of_memory(req);
    if (!parse(path, &planes, &parsed))
        return -ENOENT;
    return tm_intern_child(fs, node, TM_KIND_LOD_FILE, path, req, ret);
}

/* ---- The list: names that a look-up finds, which gives them their numbers ---- */

static bool list_name(tm_lister *lister, uint64_t number, const char *name)
{
    tm_attr attr = {.ino = 0, .mode = S_IFREG | 0444};
    return number < lister->at || lister->emit(lister->ctx, name, &attr, number + 1);
}

static int lod_list(tm_fs *fs, const tm_node *node, tm_lister *lister)
{
    (void)fs;
    tm_planes planes = planes_of(node);
    char name[64];
    uint64_t number = 0;
    if (!has_levels(&planes))
        return 0;
    bool more = picture_size(&planes, overview_level(&planes)) == 0 ||
                list_name(lister, number++, "overview.png");
    for (unsigned level = LISTED_LEVEL; more && level <= tm_planes_levels(&planes); level++) {
        for (unsigned i = 0; more && i < TM_REDUCE_COUNT; i++) {
            snprintf(name, sizeof(name), "%u.%s.npy", level, reducers[i]);
            more = list_name(lister, number++, name);
        }
        if (!more || planes.planes != 1 || picture_size(&planes, level) == 0)
            continue;
        snprintf(name, sizeof(name), "%u.png", level);
        more = list_name(lister, number++, name);
    }
    return 0;
}

/* ---- The files ---- */

/* The dimensions of a tile's box: all reducers, its plane, its rows and columns. */
static size_t tile_ranges(const lod_name *name, const tm_planes *planes,
                          tm_range ret[TM_LEVEL_RANK_MAX])
{
    uint64_t rows = tm_planes_level_dim(planes->rows, name->level);
    uint64_t cols = tm_planes_level_dim(planes->cols, name->level);
    uint64_t row = name->row * TILE_SIDE, col = name->col * TILE_SIDE;
    size_t n = 0;
    ret[n++] = (tm_range){0, TM_REDUCE_COUNT};
    if (planes->planes != 1)
        ret[n++] = (tm_range){name->plane, 1};
    ret[n++] = (tm_range){row, tm_min_u64(TILE_SIDE, rows - row)};
    ret[n++] = (tm_range){col, tm_min_u64(TILE_SIDE, cols - col)};
    return n;
}

static int lod_size(tm_fs *fs, const tm_node *node, tm_req *req, uint64_t *ret)
{
    (void)fs;
    tm_planes planes = planes_of(node);
    lod_name name = name_of(node);
    uint64_t dims[TM_LEVEL_RANK_MAX];
    size_t rank;
    if (name.what == LOD_PICTURE) {
        *ret = picture_size(&planes, name.level);
        return 0;
    }
    if (name.what == LOD_TILE) {
        tm_range ranges[TM_LEVEL_RANK_MAX];
        rank = tile_ranges(&name, &planes, ranges);
        for (size_t i = 0; i < rank; i++)
            dims[i] = ranges[i].count;
    } else {
        size_t own_rank;
        const uint64_t *own = tm_tensor_node_dims(node, &own_rank);
        rank = tm_level_dims(own, own_rank, name.level, name.reducer, dims);
    }
    *ret = tm_view_npy_size(TM_F32, dims, rank);
    return *ret ? 0
                : tm_model_fail(node->mounted->model, node->item, req, EFBIG,
                                "has levels that fit no file");
}

/* Which reducer a file needs. */
static tm_reducer reducer_of(const lod_name *name)
{
    return name->what == LOD_TILE      ? TM_REDUCE_COUNT
           : name->what == LOD_PICTURE ? TM_REDUCE_MEAN
                                       : name->reducer;
}

/* KEPT: the level where it was kept, or NULL. */
static int npy_of(const tm_tile_source *source, const lod_name *name, tm_tensor *kept,
                  tm_blob **ret)
{
    TM_AUTO(tm_tensor_unrefp) tm_tensor *level = kept ? tm_tensor_ref(kept) : NULL;
    TM_AUTO(tm_tensor_unrefp) tm_tensor *box = NULL;
    if (!level)
        TM_TRY(tm_level_tensor_new(source, name->level, reducer_of(name), &level));
    if (name->what == LOD_CELLS)
        return tm_view_npy_new(level, ret);
    tm_planes planes = tm_planes_of(source->tensor->dims, source->tensor->rank);
    tm_range ranges[TM_LEVEL_RANK_MAX];
    tile_ranges(name, &planes, ranges);
    TM_TRY(tm_tensor_box_new(level, ranges, &box));
    return tm_view_npy_new(box, ret);
}

/* ---- What is looked at next ---- */

#define FORETOLD_BYTES (UINT64_C(64) << 20) /* of values that are scanned ahead for one tile */

/* How much of an axis is scanned for a tile from AT on: blocks of BLOCK, but for the last. */
static uint64_t scanned(uint64_t at, unsigned level, uint64_t block, uint64_t axis)
{
    uint64_t from = at * TILE_SIDE << level, to = from + ((uint64_t)TILE_SIDE << level);
    from -= from % block;
    return tm_min_u64((to + block - 1) / block * block, axis) - from;
}

/* Whether scanning for a tile takes no longer than looking ahead is worth. Coarser levels have
 * tiles of whole planes, so the ones beside this one are there with it. */
static bool is_cheap(const tm_tensor *values, const lod_name *name)
{
    unsigned bits = tm_dtype_get(values->dtype)->bits;
    tm_blocks b = tm_blocks_of(values->dims, values->rank, bits);
    if (name->level > TM_BLOCK_LEVEL)
        return false;
    uint64_t rows = scanned(name->row, name->level, b.rows, b.planes.rows), bytes;
    uint64_t cols = scanned(name->col, name->level, b.cols, b.planes.cols);
    return !tm_mul_overflow(rows, cols, &bytes) && !tm_mul_overflow(bytes, bits, &bytes) &&
           bytes / 8 <= FORETOLD_BYTES;
}

/* What is looked at, and how the level of what may be next is had. */
typedef struct looking {
    tm_fs *fs;
    const tm_node *node;
    tm_tensor *values;
    tm_tensor *kept; /* the level where it was kept, or NULL */
} looking;

/* Has the tile made, or brought near where it is kept, if there is such a one. */
static void foretell_tile(const looking *at, const lod_name *name)
{
    tm_planes planes = planes_of(at->node);
    TM_AUTO(tm_blob_unrefp) tm_blob *blob = NULL;
    tm_tile_source source = tm_tensor_node_source(at->fs, at->node, at->values);
    if (name->row > (tm_planes_level_dim(planes.rows, name->level) - 1) / TILE_SIDE ||
        name->col > (tm_planes_level_dim(planes.cols, name->level) - 1) / TILE_SIDE ||
        (!at->kept && !is_cheap(at->values, name)) || npy_of(&source, name, at->kept, &blob) < 0)
        return;
    tm_prefetch_ask(at->fs->tree.sched, at->node->mounted, TM_LANE_PREFETCH, blob, 0, blob->size);
}

/* The tiles beside NAME, for who moves over the tensor. */
static void foretell_beside(const looking *at, const lod_name *name)
{
    for (int side = 0; side < 4; side++) {
        lod_name next = *name;
        uint64_t *place = side % 2 ? &next.row : &next.col;
        *place += side < 2 ? 1 : UINT64_MAX; /* one below 0 is no tile either */
        foretell_tile(at, &next);
    }
}

/* The four of the finer level that NAME is made of, for who looks closer. Nobody who looks at what
 * is kept has the weights read by that. */
static void foretell_finer(const looking *at, const lod_name *name)
{
    TM_AUTO(tm_tensor_unrefp) tm_tensor *kept = NULL;
    looking finer = *at;
    lod_name next = *name;
    tm_req req;
    tm_req_init(&req, TM_LANE_PREFETCH);
    next.level--;
    if (next.level == 0 ||
        tm_indexed_level_find(at->fs, at->node, next.level, TM_REDUCE_COUNT, &req, &kept) < 0 ||
        (at->kept && !kept))
        return;
    finer.kept = kept;
    for (unsigned part = 0; part < 4; part++) {
        next.row = name->row * 2 + part / 2;
        next.col = name->col * 2 + part % 2;
        foretell_tile(&finer, &next);
    }
}

static int lod_open(tm_fs *fs, const tm_node *node, tm_req *req, tm_blob **ret)
{
    TM_AUTO(tm_tensor_unrefp) tm_tensor *values = NULL;
    lod_name name = name_of(node);
    TM_TRY(tm_tensor_node_values(node, req, &values));
    TM_AUTO(tm_tensor_unrefp) tm_tensor *kept = NULL;
    TM_TRY(tm_indexed_level_find(fs, node, name.level, reducer_of(&name), req, &kept));
    tm_level_picture picture = {
        .source = tm_tensor_node_source(fs, node, values),
        .level = name.level,
        .plane = name.plane,
        .dtype = tm_tensor_node_row(node)->dtype,
        .lane = TM_LANE_VISIBLE,
        .means = kept,
    };
    int rc = name.what == LOD_PICTURE ? tm_level_picture_new(&picture, ret)
                                      : npy_of(&picture.source, &name, kept, ret);
    if (rc < 0)
        return out_of_memory(req);
    if (name.what == LOD_TILE && fs->foretells) {
        looking at = {fs, node, values, kept};
        foretell_beside(&at, &name);
        foretell_finer(&at, &name);
    }
    return 0;
}

const tm_kind_ops tm_lod_kinds[] = {
    {.mode = S_IFDIR | 0555, .lookup = lod_lookup, .list = lod_list},
};

const tm_kind_ops tm_lod_named_kinds[] = {
    {.mode = S_IFDIR | 0555, .lookup = tile_lookup},
    {.mode = S_IFREG | 0444, .lane = TM_LANE_VISIBLE, .size = lod_size, .open = lod_open},
};
