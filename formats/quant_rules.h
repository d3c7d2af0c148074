/*
 * How names, dtypes and config.json tell a quantisation scheme, as tables; and where the tensors
 * that belong to one stand. Internal to formats/quant*.c.
 */
#ifndef TM_FORMATS_QUANT_RULES_H
#define TM_FORMATS_QUANT_RULES_H

#include "core/tensor_table.h"
#include "formats/config.h"

/*
 * Finds the row named like ROW with its last CUT bytes replaced by TAIL. Relatives share a prefix,
 * so they stand close to each other in a sorted table, which makes this a few comparisons.
 */
bool tm_quant_relative(const tm_tensor_table *table, uint32_t row, size_t cut, const char *tail,
                       uint32_t *ret);

/* The scheme of the packed codes that ROW holds, NULL where it holds none. */
const char *tm_quant_packed_scheme(const tm_tensor_table *table, const tm_quant_config *quant,
                                   uint32_t row);

/* Whether ROW is 8-bit integers that scales multiply: compressed-tensors' without zero points. */
bool tm_quant_is_scaled_int8(const tm_tensor_table *table, const tm_quant_config *quant,
                             uint32_t row);

/* Whether ROW is one-byte floats that are not scales themselves by their name. */
bool tm_quant_is_fp8(const tm_tensor_table *table, uint32_t row);

/* The row of the scales that multiply ROW. */
bool tm_quant_scale_row(const tm_tensor_table *table, uint32_t row, uint32_t *ret);

/* Bits of a code of SCHEME (as tm_quant_packed_scheme() returned it), and whether codes never
 * straddle two stored elements. 0 where it does not say. */
unsigned tm_quant_scheme_bits(const char *scheme, bool *ret_whole);

/* The code tensors that ROW may serve, by its name: calls SEEN for each, until that is true. */
bool tm_quant_for_served(const tm_tensor_table *table, uint32_t row,
                         bool (*seen)(const void *ctx, uint32_t code_row), const void *ctx);

/* ---- formats/quant_scale.c ---- */

typedef enum tm_scale_fit {
    TM_FIT_TENSOR,  /* one scale a tensor, or a plane of stacked ones */
    TM_FIT_CHANNEL, /* one a row or column */
    TM_FIT_BLOCK,   /* by the block of config.json */
    TM_FIT_NONE,
} tm_scale_fit;

/* How the scales in SCALE_ROW lie over the codes in ROW, by shape; the block is set where they do.
 */
tm_scale_fit tm_quant_fit_scale(const tm_tensor_table *table, const tm_quant_config *quant,
                                uint32_t row, uint32_t scale_row, uint64_t ret_block[2]);

#endif
