/*
 * What one NAME of the mount stands for: a checkpoint, a folder without readable weights, or a
 * collection of checkpoints. Constant once opened, but for what is rendered once and kept.
 *
 * When its source changes the session puts another one in its place, and who still holds the old
 * one (an open file) keeps the old bytes. Where only files beside the weights have changed (a log
 * grows, a checkpoint joins a collection) it is the same with a new listing: the same serial
 * number, model and members, and every file that is still the same keeps its number. Otherwise it
 * is opened anew under a new serial number.
 */
#ifndef TM_FS_MOUNTED_H
#define TM_FS_MOUNTED_H

#include <pthread.h>

#include "core/model.h"
#include "formats/listing.h"
#include "formats/table.h"

typedef struct tm_mounted tm_mounted;
typedef struct tm_shards tm_shards;
typedef struct tm_indexes tm_indexes;

/* A folder of a collection. */
typedef struct tm_member {
    char *name;
    bool shown;         /* under models/ too, as far as can be told before it is opened */
    tm_mounted *opened; /* NULL: not looked up yet; guarded by the session's lock */
} tm_member;

/* A file or folder of the listing, by the number that it has in inode numbers. */
typedef struct tm_numbered {
    uint32_t
        entry; /* of the listing; of one that is gone, the first of those that stood behind it */
    bool gone;
    tm_file *file; /* NULL: not read yet */
} tm_numbered;

struct tm_mounted {
    atomic_uint refs;
    uint32_t serial;
    char *name;   /* relative to models/: "llama", or "run/checkpoint-1000" */
    char *source; /* the path to open */
    tm_listing listing;
    uint32_t *number_of; /* of each entry */
    tm_model *model;     /* NULL: no weights that can be read */
    bool is_collection;
    tm_member *members; /* sorted by name */
    uint32_t member_count;
    char *words; /* why there is no model, NULL where that is as it should be */
    int64_t mtime_ns;

    atomic_bool checking; /* whether a job looks if it is current */

    pthread_mutex_t lock;  /* guards what follows: made at first use */
    tm_numbered *numbered; /* only their files change */
    uint32_t numbered_count;
    tm_table *tensors_tsv;
    uint64_t model_json_size, metadata_json_size; /* 0: not known yet */
    uint64_t stats_tsv_size, layers_tsv_size;     /* the same */
    char fingerprint[65];                         /* "": not known yet */
    tm_shards *shards;                            /* NULL: not made yet */
    tm_indexes *indexes;                          /* the same */
    uint64_t indexes_looked_ns;                   /* when they were looked after last */
    uint64_t indexes_forgotten;                   /* how often that has been made to mean nothing */
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

/* WAS with what its source consists of now, for the place where WAS stands; members are for the
 * session to carry over. -ESTALE where it must be opened anew. May block. */
TM_MUST_CHECK int tm_mounted_relist(tm_mounted *was, tm_req *req, tm_mounted **ret);

/* What stands for a source that cannot be opened any more: an empty folder that is never current.
 */
TM_MUST_CHECK int tm_mounted_gone(const tm_mounted_params *params, const char *words, tm_req *req,
                                  tm_mounted **ret);
bool tm_mounted_is_gone(const tm_mounted *m);

/* Whether its source is what was opened. May block. */
bool tm_mounted_is_current(const tm_mounted *m);

/* What a thread that waits for the source waits for (tm_job.key), and what has that serial number.
 */
uint64_t tm_mounted_key(const tm_mounted *m);
uint64_t tm_serial_key(uint32_t serial);

tm_mounted *tm_mounted_ref(tm_mounted *m);
tm_mounted *tm_mounted_unref(tm_mounted *m);
void tm_mounted_unrefp(tm_mounted **m);

/* The member of a collection, NULL where there is none. */
tm_member *tm_mounted_member(tm_mounted *m, const char *name);

/* The entry of the listing that has NUMBER; NULL where it is gone. */
const tm_entry *tm_mounted_entry(const tm_mounted *m, uint32_t number);
/* Which entry follows the one with NUMBER, whether that is there or gone. */
size_t tm_mounted_entry_after(const tm_mounted *m, uint64_t number);

/* The file with NUMBER (which is there), referenced: one object however often it is opened, so that
 * its descriptor and its mapping are shared. -ESTALE where it is another one now. May block. */
TM_MUST_CHECK int tm_mounted_file(tm_mounted *m, tm_file_set *set, uint32_t number, tm_req *req,
                                  tm_file **ret);

/* Whether models/ shows it: it is a checkpoint, or a collection of such. */
bool tm_mounted_has_models(const tm_mounted *m);

/* How many components NAME has: how far up models/ is. */
unsigned tm_mounted_depth(const tm_mounted *m);

#endif
