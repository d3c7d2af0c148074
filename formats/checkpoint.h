/*
 * A checkpoint: the weights of a folder (or one file) as a model.
 *
 * Which files are its weights: what the shard index maps; else model, adapter_model or
 * diffusion_pytorch_model.safetensors; else every *.safetensors. Only headers are read.
 *
 * A damaged file does not fail the checkpoint: its model is damaged, says why in its diagnosis,
 * and refuses what is not proved. See docs/formats.md.
 */
#ifndef TM_FORMATS_CHECKPOINT_H
#define TM_FORMATS_CHECKPOINT_H

#include "core/model.h"
#include "formats/listing.h"

typedef struct tm_checkpoint_params {
    tm_sched *sched;
    tm_file_set *files;
    const tm_listing *listing;
    const char *source; /* as its user named it */
} tm_checkpoint_params;

/* Whether the folder itself holds weights that can be read (or an index of such). */
bool tm_checkpoint_has_weights(const tm_listing *listing);

/* Reads the headers; may block. -ENOENT where there are no weights that can be read. */
TM_MUST_CHECK int tm_checkpoint_open(const tm_checkpoint_params *params, tm_req *req,
                                     tm_model **ret);

/* Whether a change of the file PATH of the source makes it another checkpoint: of what was read for
 * MODEL, and of what would be read instead or named if it were there. */
bool tm_checkpoint_reads(const tm_model *model, const char *path);

#endif
