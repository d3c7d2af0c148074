/*
 * A node: one file or folder of the mount as a value. Nothing is kept per node: its inode number is
 * computed from what it shows, and back.
 *
 *     63      46 45     38 37                  14 13           0
 *     +---------+---------+----------------------+--------------+
 *     | serial  |  kind   |        item          |     sub      |
 *     +---------+---------+----------------------+--------------+
 *
 * serial: which mounted source, 0 for the mount's own files. kind: what it shows (enum tm_kind).
 * item: a row of the tensor table, an entry of the listing, a layer. sub: an expert plus one, or
 * how deep in tree/ it is. Only what is named freely (one element, a slice) has no room in that:
 * such a name is interned while the kernel knows it (fs/intern.h), and item and sub are its number.
 */
#ifndef TM_FS_NODE_H
#define TM_FS_NODE_H

#include "fs/session.h"
#include "fs/tree.h"

typedef enum tm_kind {
    TM_KIND_NONE,
    /* dir_root.c */
    TM_KIND_ROOT,
    TM_KIND_README,
    TM_KIND_LOADS,  /* load/ */
    TM_KIND_MODELS, /* models/ */
    /* dir_control.c */
    TM_KIND_CONTROL,
    TM_KIND_VERSION,
    TM_KIND_LOG,
    TM_KIND_CTL,
    TM_KIND_TRANSPORT,
    TM_KIND_LANES,
    TM_KIND_RESIDENCY_TSV,
    TM_KIND_RESIDENCY, /* residency/ */
    TM_KIND_BUDGET,
    TM_KIND_USED,
    /* dir_load.c */
    TM_KIND_LOAD,      /* load/NAME */
    TM_KIND_LOAD_DIR,  /* item: an entry */
    TM_KIND_LOAD_FILE, /* item: an entry */
    TM_KIND_LOAD_LINK, /* item: an entry, with raw=symlink */
    /* dir_model.c */
    TM_KIND_MODEL, /* models/NAME */
    TM_KIND_FILES, /* -> load/NAME */
    TM_KIND_STATE,
    TM_KIND_ERROR,
    TM_KIND_MODEL_JSON,
    TM_KIND_METADATA_JSON,
    TM_KIND_TENSORS_TSV,
    TM_KIND_STATS_TSV,
    TM_KIND_LAYERS_TSV,
    TM_KIND_INDEX, /* index/ */
    TM_KIND_INDEX_STATE,
    TM_KIND_INDEX_DONE,
    TM_KIND_INDEX_TOTAL,
    TM_KIND_TENSORS,
    TM_KIND_TIED_LINK, /* item: the row it stands for */
    /* dir_queries.c */
    TM_KIND_QUERIES,    /* query/ */
    TM_KIND_QUERY_TEXT, /* item: a query's number; NAME.q */
    TM_KIND_QUERY,      /* the same of its folder, and what is in it */
    TM_KIND_MATCHES,
    TM_KIND_UNKNOWN,
    TM_KIND_QUERY_ERROR,
    /* dir_modules.c */
    TM_KIND_MODULES,      /* tree/ */
    TM_KIND_MODULE,       /* item: its first row, sub: components */
    TM_KIND_MODULE_LINK,  /* item: a row, sub: components above it */
    TM_KIND_MODULE_STATS, /* like a module; of tree/ itself sub is 0 */
    /* dir_layers.c */
    TM_KIND_LAYERS,
    TM_KIND_LAYER,      /* item: a layer of the structure */
    TM_KIND_LAYER_LINK, /* item: a row */
    TM_KIND_EXPERTS,
    TM_KIND_EXPERT_LAYER, /* item: a layer of the structure */
    TM_KIND_EXPERT,       /* item: a layer, sub: an expert */
    TM_KIND_EXPERT_LINK,  /* item: a row */
    TM_KIND_LAYER_ALIAS,  /* item: a layer: its number without zeros before it */
    TM_KIND_EXPERT_ALIAS, /* item: an expert */
    TM_KIND_LAYER_STATS,  /* item: a layer */
    /* dir_tensor.c: item: a row, sub: 0, or a fused expert plus one */
    TM_KIND_TENSOR,
    TM_KIND_NAME,
    TM_KIND_DTYPE,
    TM_KIND_SHAPE,
    TM_KIND_DATA,
    TM_KIND_RAW,
    TM_KIND_AT_DIR,
    TM_KIND_ROWS_DIR,
    TM_KIND_COLS_DIR,
    TM_KIND_SLICE_DIR,
    /* dir_stats.c: like those */
    TM_KIND_STATS_JSON,
    TM_KIND_HIST_TSV,
    TM_KIND_ROWS_TSV,
    TM_KIND_COLS_TSV,
    TM_KIND_STATS_DIR,
    /* dir_lod.c: like those */
    TM_KIND_LOD,
    /* dir_tensor.c, interned */
    TM_KIND_AT,
    TM_KIND_ROW,
    TM_KIND_COL,
    TM_KIND_SLICE,
    /* dir_stats.c, interned */
    TM_KIND_STAT,
    /* dir_lod.c, interned */
    TM_KIND_LOD_LEVEL,
    TM_KIND_LOD_FILE,
    TM_KIND_COUNT
} tm_kind;

typedef struct tm_interned tm_interned;

typedef struct tm_node {
    tm_mounted *mounted; /* referenced; NULL for the mount's own files */
    tm_kind kind;
    uint32_t item;
    uint32_t sub;
    tm_interned *interned; /* referenced; of interned kinds */
} tm_node;

#define TM_NODE_ITEM_MAX ((1u << 24) - 1)
#define TM_NODE_SUB_MAX  ((1u << 14) - 1)

typedef struct tm_fs tm_fs;

/* The node of a kind under the same source as NODE: shares its references, so it is not to be done
 * and lives as long as NODE. */
tm_node tm_node_near(const tm_node *node, tm_kind kind, uint32_t item, uint32_t sub);
/* The same with references of its own. */
tm_node tm_node_child(const tm_node *node, tm_kind kind, uint32_t item, uint32_t sub);
void tm_node_done(tm_node *node);

uint64_t tm_node_ino(const tm_node *node);

/* ---- What each kind can do ---- */

typedef struct tm_lister {
    tm_fs *fs;
    tm_req *req;
    bool live;   /* the folder's names may change */
    uint64_t at; /* where to begin: entries before are not emitted */
    tm_emit_fn *emit;
    void *ctx;
} tm_lister;

/* Gives NODE (borrowed) to the lister under NAME as entry NUMBER of its folder: false where it has
 * had enough. Nodes whose attributes fail are shown with size 0. */
bool tm_lister_add(tm_lister *lister, uint64_t number, const char *name, const tm_node *node);
/* The same for folders whose numbers are in no order: whoever lists them begins behind AT. */
bool tm_lister_emit(tm_lister *lister, uint64_t number, const char *name, const tm_node *node);

typedef struct tm_kind_ops {
    uint32_t mode; /* type and permissions */
    tm_lane lane;  /* of its reads */
    bool live;     /* see tm_attr */
    bool fresh;    /* see tm_open_file */
    /* Folders: */
    int (*lookup)(tm_fs *fs, const tm_node *node, const char *name, tm_req *req, tm_node *ret);
    int (*list)(tm_fs *fs, const tm_node *node, tm_lister *lister);
    int (*create)(tm_fs *fs, const tm_node *node, const char *name, tm_req *req, tm_node *ret);
    int (*remove)(tm_fs *fs, const tm_node *node, const char *name, tm_req *req);
    /* Files and links: */
    int (*size)(tm_fs *fs, const tm_node *node, tm_req *req, uint64_t *ret);
    int (*open)(tm_fs *fs, const tm_node *node, tm_req *req, tm_blob **ret);
    int (*write)(tm_fs *fs, const tm_node *node, const tm_chunk *chunk, tm_req *req); /* as there */
    int (*truncate)(tm_fs *fs, const tm_node *node, uint64_t size, tm_req *req);
    int (*link)(tm_fs *fs, const tm_node *node, tm_req *req, char **ret);
    tm_layout *(*layout)(const tm_node *node);        /* see tm_tree_ops */
    int64_t (*mtime)(tm_fs *fs, const tm_node *node); /* where it is not the source's */
} tm_kind_ops;

/* The rows of the kinds of each file, gathered by tree.c. */
extern const tm_kind_ops tm_root_kinds[], tm_control_kinds[], tm_load_kinds[], tm_model_kinds[],
    tm_module_kinds[], tm_layer_kinds[], tm_tensor_kinds[], tm_view_kinds[], tm_stats_kinds[],
    tm_stat_kind[], tm_lod_kinds[], tm_lod_named_kinds[], tm_query_kinds[];

#endif
