/*
 * The shard index, NAME.safetensors.index.json: {"metadata": {…}, "weight_map": {tensor: file}}.
 *
 * Streamed like a safetensors header, since it names every tensor once more. total_size is often
 * wrong in the wild and never used.
 */
#ifndef TM_FORMATS_SHARD_INDEX_H
#define TM_FORMATS_SHARD_INDEX_H

#include "formats/safetensors.h"

enum {
    TM_SHARD_FILES_MAX = 100000
};
#define TM_SHARD_INDEX_MAX (1u << 30) /* bytes of an index file */

typedef struct tm_shard_entry {
    uint64_t name_off; /* of the tensor's name in the pool */
    uint32_t name_len;
    uint32_t file; /* index into files */
} tm_shard_entry;

typedef struct tm_shard_index {
    char **files; /* distinct file names, in order of first mention */
    uint32_t file_count;
    tm_shard_entry *entries; /* sorted by tensor name */
    uint32_t entry_count;
    char *names; /* pool */
} tm_shard_index;

void tm_shard_index_init(tm_shard_index *index);
void tm_shard_index_done(tm_shard_index *index);

/*
 * Reads SRC. File names must be relative, without "..", backslash, control byte or leading slash
 * (an index must not reach outside its folder): else -EBADMSG. Words in REQ. INDEX holds the
 * result on success and is empty on failure. A duplicate tensor is -EBADMSG.
 */
TM_MUST_CHECK int tm_shard_index_read(const tm_byte_source *src, tm_req *req,
                                      tm_shard_index *index);

/* The file that the index maps a tensor to; false where it does not name the tensor. */
bool tm_shard_index_find(const tm_shard_index *index, const char *name, size_t len,
                         uint32_t *ret_file);

#endif
