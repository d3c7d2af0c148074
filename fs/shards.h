/*
 * The weight files of a checkpoint as index files know them (docs/index-format.md): which tensors
 * of each are counted, its fingerprint, and where its index lies.
 *
 * Constant but for fingerprints, which are made at first use; shared by reference count; any
 * thread.
 */
#ifndef TM_FS_SHARDS_H
#define TM_FS_SHARDS_H

#include "formats/index_place.h"
#include "formats/tiles_file.h"
#include "fs/mounted.h"

typedef struct tm_shard {
    const tm_model_file *file;
    char *path;           /* of the file */
    char *name;           /* relative to the source */
    bool not_beside;      /* it lies in a cache of others */
    const uint32_t *rows; /* its counted tensors, in order of names */
    uint32_t count;
    uint64_t bytes; /* of these */
    /* Guarded by the lock of all: */
    bool has_fingerprint;
    uint8_t fingerprint[TM_FINGERPRINT_BYTES];
} tm_shard;

struct tm_shards {
    atomic_uint refs;
    tm_sched *sched;
    tm_model *model; /* referenced */
    tm_shard *shards;
    uint32_t count; /* a shard for each file of the model, whatever is in it */
    uint32_t *rows;
    uint32_t *number_of; /* of each row: its place in its shard's rows, or TM_SHARD_NONE */
    pthread_mutex_t lock;
};
#define TM_SHARD_NONE UINT32_MAX

/* Those of M, a checkpoint, kept with it; one reference. -ENOMEM with words. */
TM_MUST_CHECK int tm_shards_of(tm_sched *sched, tm_mounted *m, tm_req *req, tm_shards **ret);
tm_shards *tm_shards_ref(tm_shards *shards);
tm_shards *tm_shards_unref(tm_shards *shards); /* accepts NULL; returns NULL */
void tm_shards_unrefp(tm_shards **shards);

/* Computed once. May block. */
TM_MUST_CHECK int tm_shards_fingerprint(tm_shards *shards, uint32_t shard, tm_req *req,
                                        uint8_t ret[TM_FINGERPRINT_BYTES]);

/*
 * What the values of ROW depend on beside its shard: 0 for a tensor that is stored as it is, else a
 * hash of the size of its blocks and, where the scales lie in another shard, of that one's
 * fingerprint. May block.
 */
TM_MUST_CHECK int tm_shards_context(tm_shards *shards, uint32_t row, tm_req *req, uint64_t *ret);

/* ROW as the files of pyramids know it. May block. */
TM_MUST_CHECK int tm_shards_tiles_tensor(tm_shards *shards, uint32_t row, tm_req *req,
                                         tm_tiles_tensor *ret);

#define TM_INDEX_SUFFIX ".tmidx"
#define TM_TILES_SUFFIX ".tmtiles"

/* Where the index of a shard lies. FOLDER: named by the user, or NULL; what RET borrows lives as
 * long as SHARDS and FINGERPRINT. */
tm_index_place tm_shards_place(const tm_shards *shards, uint32_t shard, const char *folder,
                               const uint8_t *fingerprint);

#endif
