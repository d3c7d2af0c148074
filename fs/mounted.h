/*
 * What one NAME of the mount stands for: a checkpoint, a folder without readable weights, or a
 * collection of checkpoints. Constant once opened, but for what is rendered once and kept.
 *
 * When its source changes the session opens a new one with a new serial number; who still holds the
 * old one (an open file) keeps the old bytes.
 */
#ifndef TM_FS_MOUNTED_H
#define TM_FS_MOUNTED_H

#include <pthread.h>

#include "core/model.h"
#include "formats/listing.h"
#include "formats/table.h"

typedef struct tm_mounted tm_mounted;

/* A folder of a collection. */
typedef struct tm_member {
    char *name;
    bool shown;         /* under models/ too: it holds weights, or a collection */
    tm_mounted *opened; /* NULL: not looked up yet; guarded by the session's lock */
} tm_member;

struct tm_mounted {
    atomic_uint refs;
    uint32_t serial;
    char *name;   /* relative to models/: "llama", or "run/checkpoint-1000" */
    char *source; /* the path to open */
    tm_listing listing;
    tm_model *model; /* NULL: no weights that can be read */
    bool is_collection;
    tm_member *members; /* sorted by name */
    uint32_t member_count;
    char *words; /* why there is no model, NULL where that is as it should be */
    int64_t mtime_ns;

    pthread_mutex_t lock; /* guards what follows: made at first use */
    tm_file **files;      /* of the listing's entries; NULL: not read yet */
    tm_table *tensors_tsv;
    uint64_t model_json_size, metadata_json_size; /* 0: not known yet */
    char fingerprint[65];                         /* "": not known yet */
};

typedef struct tm_mounted_params {
    tm_sched *sched;
    tm_file_set *files;
    const char *name;
    const char *source;
    uint32_t serial;
} tm_mounted_params;

/* Looks at the source and reads headers; may block. Only a source that cannot be looked at at all
 * fails: a damaged one is opened and says what is wrong. */
TM_MUST_CHECK int tm_mounted_open(const tm_mounted_params *params, tm_req *req, tm_mounted **ret);

/* What stands for a source that cannot be opened any more: an empty folder that is never current.
 */
TM_MUST_CHECK int tm_mounted_gone(const tm_mounted_params *params, const char *words, tm_req *req,
                                  tm_mounted **ret);
bool tm_mounted_is_gone(const tm_mounted *m);

/* Whether its source is what was opened. May block. */
bool tm_mounted_is_current(const tm_mounted *m);

tm_mounted *tm_mounted_ref(tm_mounted *m);
tm_mounted *tm_mounted_unref(tm_mounted *m);
void tm_mounted_unrefp(tm_mounted **m);

/* The member of a collection, NULL where there is none. */
tm_member *tm_mounted_member(tm_mounted *m, const char *name);

/* The file of entry ENTRY of the listing, referenced: one object however often it is opened, so
 * that its descriptor and its mapping are shared. -ESTALE where it is another one now. May block.
 */
TM_MUST_CHECK int tm_mounted_file(tm_mounted *m, tm_file_set *set, size_t entry, tm_req *req,
                                  tm_file **ret);

/* How many components NAME has: how far up models/ is. */
unsigned tm_mounted_depth(const tm_mounted *m);

#endif
