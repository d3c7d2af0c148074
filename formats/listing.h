/*
 * What a local source consists of: its folders and files, sorted by path. Nothing is opened.
 *
 * Links are followed (a Hugging Face cache is made of them), but not into a folder that is being
 * listed already. `.git` and `.cache` are not the checkpoint's own and left out, as are indexes in
 * the making and what is neither file nor folder; a link that leads nowhere is left out and
 * remembered.
 */
#ifndef TM_FORMATS_LISTING_H
#define TM_FORMATS_LISTING_H

#include "core/file.h"

enum {
    TM_LISTING_MAX = 1 << 20, /* entries */
    TM_LISTING_DEPTH_MAX = 32,
};

typedef struct tm_entry {
    char *path; /* relative to the root, components joined by '/' */
    bool is_dir;
    tm_file_identity identity; /* of a folder: size is 0 */
} tm_entry;

typedef struct tm_listing {
    char *root;  /* absolute; of a single file its folder */
    char *cache; /* the cache folder whose snapshot the root is, NULL where it is none */
    tm_file_identity root_identity;
    tm_entry *entries; /* sorted by path, bytewise */
    size_t count, cap;
    char **dangling; /* links that lead nowhere: their paths, like those of entries */
    size_t dangling_count;
    int64_t mtime_ns; /* the newest of the files, else the root's */
    bool is_file;     /* the source is one file: the only entry */
} tm_listing;

void tm_listing_init(tm_listing *listing);
void tm_listing_done(tm_listing *listing);

/*
 * Lists PATH: a folder, or a single file. A folder of the Hugging Face cache (models--org--name)
 * means the snapshot that refs/main names, else its newest one. Folders are listed DEPTH levels
 * down (0: the names in PATH alone). May block. -EFBIG over the limits.
 */
TM_MUST_CHECK int tm_listing_read(const char *path, int depth, tm_req *req, tm_listing *ret);

/* The entry at PATH (LEN bytes); false where there is none. */
bool tm_listing_find(const tm_listing *listing, const char *path, size_t len, size_t *ret);
/* The first entry whose path is not less than PATH. */
size_t tm_listing_lower_bound(const tm_listing *listing, const char *path, size_t len);

/* "ROOT/PATH", malloc'ed; NULL for want of memory. */
char *tm_listing_path(const tm_listing *listing, const char *path);

/* Whether nothing that was listed has changed: the same folders, the same files, links that still
 * lead nowhere, and of a cache the same snapshot. May block. */
bool tm_listing_is_current(const tm_listing *listing);

#endif
