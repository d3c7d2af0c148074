/*
 * Where the tensors of one file lie: in the order of their bytes, and in that of their names. For
 * who foretells what a reader of the file will want next (core/follow.h).
 *
 * Constant once built; keeps a reference to its model; 8 bytes a tensor.
 */
#ifndef TM_CORE_LAYOUT_H
#define TM_CORE_LAYOUT_H

#include "core/model.h"

typedef struct tm_layout tm_layout;

/* The two orders. A tensor has a place in each. */
typedef enum tm_layout_order {
    TM_LAYOUT_BYTES,
    TM_LAYOUT_NAMES,
    TM_LAYOUT_ORDERS
} tm_layout_order;

/* *RET is NULL for a file without tensors, and for one of more than 131,072: what is known of a
 * file while it is open stays within a mebibyte. Tensors without bytes, and refused ones, are left
 * out. */
TM_MUST_CHECK int tm_layout_new(tm_model *model, uint32_t file, tm_layout **ret);
void tm_layout_free(tm_layout *layout); /* accepts NULL */

uint32_t tm_layout_count(const tm_layout *layout);

/* Bytes [begin, end) of the file. */
typedef struct tm_span {
    uint64_t begin, end;
} tm_span;

/* The tensor at PLACE of ORDER. */
tm_span tm_layout_span(const tm_layout *layout, tm_layout_order order, uint32_t place);

/* The tensor that has byte AT: true, with its places. Else false, with ret[TM_LAYOUT_BYTES] that of
 * the first tensor behind AT (the count where there is none). */
bool tm_layout_find(const tm_layout *layout, uint64_t at, uint32_t ret[TM_LAYOUT_ORDERS]);

#endif
