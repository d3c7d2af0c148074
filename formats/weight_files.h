/* Which files of a folder are its weights, by their names alone. */
#ifndef TM_FORMATS_WEIGHT_FILES_H
#define TM_FORMATS_WEIGHT_FILES_H

#include "formats/listing.h"

/* The index that says where weights are; false where the folder has none. */
bool tm_weight_files_index(const tm_listing *listing, size_t *ret_entry);

/*
 * Without an index: the entries that hold the weights, in the order of their names. RET has room
 * for every entry. Returns how many; 0 where the folder has none that can be read.
 */
size_t tm_weight_files_find(const tm_listing *listing, size_t *ret);

/* Whether an entry may be such an index. */
bool tm_weight_files_is_index(const char *path);

/* Whether an entry holds weights of any format, read by us or not. */
bool tm_weight_files_is_weight(const char *path);

#endif
