/*
 * What a model's config.json says that its tensors do not: the architecture, whether the output
 * head is the embedding, the dtype, and how the weights were quantised.
 *
 * Written by transformers, diffusers, mlx-lm and the quantisers; every key is optional and of no
 * certain type, so what is not understood counts as absent, and a text that is no JSON is a
 * warning.
 */
#ifndef TM_FORMATS_CONFIG_H
#define TM_FORMATS_CONFIG_H

#include "core/diag.h"
#include "core/dtype.h"

#define TM_CONFIG_BYTES_MAX ((size_t)16 << 20)

typedef struct tm_quant_config {
    char *method; /* "fp8", "gptq", …; "unknown" where none is named; NULL: not quantised */
    char *format; /* "pack-quantized", "e4m3", "NVFP4", …; NULL: unknown */
    char *checkpoint_format; /* of GPTQ: "gptq_v2"; NULL: unknown */
    unsigned bits;           /* of a code; 0: unknown, or not the same everywhere */
    uint64_t block_rows; /* weights that share a scale, of the last two axes; both 0: unknown, */
    uint64_t block_cols; /* not the same everywhere, or by channel or tensor */
} tm_quant_config;

typedef struct tm_config {
    char *architecture; /* architectures[0], else _class_name, else model_type; NULL: unknown */
    bool tied; /* tie_word_embeddings; transformers' default is true, so an absent key is */
    bool dtype_known;
    tm_dtype dtype; /* dtype, or torch_dtype */
    tm_quant_config quant;
} tm_config;

/* That of a model without config.json: nothing known, not tied. */
void tm_config_init(tm_config *config);
void tm_config_done(tm_config *config);

/*
 * Reads the LEN bytes of a config.json into CONFIG, which is as from init. -ENOMEM is the only
 * failure; a text that cannot be read is a TM_WARNING in DIAG that names FILE, and leaves CONFIG as
 * it was. Python's NaN and Infinity, which it writes into real ones, are accepted.
 */
TM_MUST_CHECK int tm_config_parse(const void *bytes, size_t len, const char *file, tm_diag *diag,
                                  tm_config *config);

#endif
