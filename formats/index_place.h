/*
 * Where index files lie: in a folder that the user names, beside the shard, or in the user's cache
 * ($XDG_CACHE_HOME/tmorph/index/FINGERPRINT.tmidx) for shards in folders that are not to be
 * written to. Whoever reads looks in all three.
 */
#ifndef TM_FORMATS_INDEX_PLACE_H
#define TM_FORMATS_INDEX_PLACE_H

#include "formats/section_file.h"

typedef enum tm_index_where {
    TM_INDEX_IN_FOLDER,     /* FOLDER/NAME.tmidx */
    TM_INDEX_IN_FOLDER_TOO, /* FOLDER/FINGERPRINT.tmidx, where that is another shard's */
    TM_INDEX_BESIDE,        /* SHARD.tmidx */
    TM_INDEX_IN_CACHE,
    TM_INDEX_PLACES
} tm_index_where;

typedef struct tm_index_place {
    const char *folder;         /* named by the user; NULL: none */
    const char *name;           /* of the shard in there: "unet/model.safetensors" */
    const char *shard;          /* path of the shard */
    const char *suffix;         /* ".tmidx" */
    const uint8_t *fingerprint; /* [TM_FINGERPRINT_BYTES] of the shard */
    bool not_beside;            /* the shard lies in a cache of others, such as Hugging Face's */
} tm_index_place;

/* Malloc'ed. -ENOENT: the place does not have it (no folder was named; there is no home). */
TM_MUST_CHECK int tm_index_path(const tm_index_place *place, tm_index_where where, char **ret);

/* Whether NAME is that of an index in the making: nothing of the checkpoint's, and ever changing.
 */
bool tm_index_is_unfinished(const char *name);

/* Whether FOLDER has an index that is called by a fingerprint. May block. */
bool tm_index_folder_has_fingerprints(const char *folder);

/* Whether anything may lie in the cache: without it no fingerprint is needed to look. May block. */
bool tm_index_cache_exists(void);

/* Where to write, malloc'ed: the folder if one is named (by fingerprint where another shard's index
 * has the name), else beside the shard if that folder may
 * be written to, else the cache. Folders are made. */
TM_MUST_CHECK int tm_index_path_to_write(const tm_index_place *place, tm_req *req, char **ret);

#endif
