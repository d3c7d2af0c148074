/*
 * Quantised checkpoints: which stored tensors are only parts of a value, and what can be shown.
 *
 * Codes whose scales multiply them (FP8 by tensor, channel or block, and compressed-tensors' int8)
 * become TM_PART_SCALED; the codes of every other scheme TM_PART_PACKED: recognised, named, and
 * never shown as if they were values. Scales and other side tensors stay tensors of their own.
 * The schemes are a table in formats/quant_rules.c; docs/formats.md says what each one means.
 */
#ifndef TM_FORMATS_QUANT_H
#define TM_FORMATS_QUANT_H

#include "core/model.h"
#include "formats/config.h"

/*
 * Fills MODEL's parts from its sealed table, and adds a TM_WARNING line per kind of trouble (scales
 * that do not fit, …) to its diagnosis. -ENOMEM, -EINTR, with words in REQ; MODEL has no parts
 * then.
 */
TM_MUST_CHECK int tm_quant_find(tm_model *model, const tm_config *config, tm_req *req);

/* Whether ROW only serves a part: its scales, zero points, shape, … None of the model's weights. */
bool tm_quant_is_side(const tm_model *model, uint32_t row);

/* How many weights PART's codes are: as its scheme packs them, else as many as are stored. */
uint64_t tm_quant_values(const tm_model *model, const tm_part *part);

/* How many weights MODEL has (UINT64_MAX where that overflows): no side tensor counts. */
uint64_t tm_quant_parameters(const tm_model *model);

#endif
