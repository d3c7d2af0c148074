/*
 * A model by layers and experts: the rows of a tensor table, ordered by what their names say.
 *
 * Built once from names alone (core/names.h); constant then. Rows without a layer are left out.
 */
#ifndef TM_CORE_STRUCTURE_H
#define TM_CORE_STRUCTURE_H

#include "core/names.h"
#include "core/tensor_table.h"

enum {
    TM_EXPERTS_MAX = 16383
}; /* of one fused tensor; inode numbers rely on it */

typedef struct tm_layer {
    int32_t layer;         /* its index in the model's names */
    uint32_t first, count; /* its rows: order[first …] */
    int32_t experts;       /* of this layer: one more than the highest index, or what is fused */
} tm_layer;

typedef struct tm_structure {
    uint32_t *order; /* rows by (layer, expert, row); those without an expert come first */
    uint32_t order_count;
    tm_layer *layers; /* ascending */
    uint32_t layer_count;
    int32_t experts;     /* the most of any layer; 0: none */
    bool several_stacks; /* such as an encoder's and a decoder's: one index names two layers */
} tm_structure;

void tm_structure_init(tm_structure *s);
void tm_structure_done(tm_structure *s);
/* TABLE is sealed. -ENOMEM. */
TM_MUST_CHECK int tm_structure_build(tm_structure *s, const tm_tensor_table *table);

/* The layer of index LAYER, NULL where there is none. */
const tm_layer *tm_structure_layer(const tm_structure *s, int32_t layer);

tm_place tm_row_place(const tm_tensor_table *table, uint32_t row);
/* Fused experts: how many stand in ROW (its first dimension), 0 where it is not fused. */
int32_t tm_row_fused_experts(const tm_tensor_table *table, uint32_t row);

#endif
