/*
 * A model: an ordered set of named tensors with string metadata. A checkpoint is one; so are a
 * morph, each of its nodes, a diff. What shows a model (the tree, statistics, queries) shows all.
 *
 * Built by its maker, then constant; shared by reference count; any thread.
 */
#ifndef TM_CORE_MODEL_H
#define TM_CORE_MODEL_H

#include "core/blob.h"
#include "core/diag.h"
#include "core/metadata.h"
#include "core/structure.h"
#include "core/tensor.h"
#include "core/tensor_table.h"

/* A file that rows stand in. */
typedef struct tm_model_file {
    char *name;    /* relative to the model's folder */
    tm_blob *blob; /* NULL: missing */
    uint64_t header_bytes;
    bool damaged;
} tm_model_file;

typedef enum tm_part_kind {
    TM_PART_SCALED, /* codes with scales: the values can be shown */
    TM_PART_PACKED, /* a piece of a scheme that is recognised, but not decoded */
} tm_part_kind;

/* A stored tensor that is only part of a value. */
typedef struct tm_part {
    uint32_t row;
    tm_part_kind kind;
    const char *scheme; /* static: "fp8-block", "gptq", … */
    uint32_t scale_row; /* SCALED: */
    uint64_t block_rows, block_cols;
} tm_part;

struct tm_model {
    atomic_uint refs;
    tm_tensor_table table;
    tm_metadata metadata;
    tm_diag diag;
    tm_structure structure;
    tm_model_file *files;
    uint32_t file_count;
    tm_part *parts; /* sorted by row */
    uint32_t part_count;
    char **unused; /* other weight files of the folder */
    uint32_t unused_count;
    char *source;       /* as its user may see it: no secrets */
    const char *format; /* static: "safetensors" */
    char *architecture; /* NULL: unknown */
    bool tied;          /* an absent output head is the embedding */
    int64_t mtime_ns;   /* the newest of its files */
};

TM_MUST_CHECK int tm_model_new(tm_model **ret);
tm_model *tm_model_ref(tm_model *model);
tm_model *tm_model_unref(tm_model *model);
void tm_model_unrefp(tm_model **model);

/* The part that ROW is, NULL where it is a whole value. */
const tm_part *tm_model_part(const tm_model *model, uint32_t row);

/* The stored bytes of ROW. -EBADMSG where its file does not prove them; words in REQ. */
TM_MUST_CHECK int tm_model_raw(const tm_model *model, uint32_t row, tm_req *req, tm_blob **ret);

/* The values of ROW. Like raw, and -EOPNOTSUPP with the scheme's name for what cannot be decoded.
 */
TM_MUST_CHECK int tm_model_values(const tm_model *model, uint32_t row, tm_req *req,
                                  tm_tensor **ret);
/* Whether tm_model_values() would succeed, without making anything; words in REQ (may be NULL). */
TM_MUST_CHECK int tm_model_check_values(const tm_model *model, uint32_t row, tm_req *req);
/* The tensor's name in words: as much as a line bears, control bytes as '?'. Returns RET. */
enum {
    TM_NAME_SHOWN = 128
};
const char *tm_model_show_name(const tm_model *model, uint32_t row, char ret[TM_NAME_SHOWN]);
/* Fails with CODE and words about ROW: "tensor 'NAME' WHY". */
int tm_model_fail(const tm_model *model, uint32_t row, tm_req *req, int code, const char *why);
/* Whether its values are counted, so that it has statistics: it has values, and not F6 or C64. */
bool tm_model_is_counted(const tm_model *model, uint32_t row);
/* The dtype of the values of ROW: F32 for scaled ones. */
tm_dtype tm_model_values_dtype(const tm_model *model, uint32_t row);

/* Where a tied output head has its weights: true, with the absent name and the row it stands for.
 */
bool tm_model_tied(const tm_model *model, const char **ret_alias, uint32_t *ret_row);

#endif
