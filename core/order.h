/*
 * Sorting by row number: a stable merge sort of 32-bit numbers whose rows a callback compares.
 *
 * It uses the runs that are there already (files laid out by name in part, shards one after the
 * other), never takes more than n log n comparisons, and needs 4 bytes a row and 2 for merging.
 */
#ifndef TM_CORE_ORDER_H
#define TM_CORE_ORDER_H

#include "core/base.h"

/* Negative, 0 or positive as row A stands before, with or after row B. */
typedef int tm_order_cmp(const void *ctx, uint32_t a, uint32_t b);

/* True where rows 0 … n-1 stand in order as they are. */
bool tm_order_is_sorted(uint32_t n, tm_order_cmp *cmp, const void *ctx);

/* A new array of the row numbers 0 … n-1, sorted; to be freed. -ENOMEM. */
TM_MUST_CHECK int tm_order_new(uint32_t n, tm_order_cmp *cmp, const void *ctx, uint32_t **ret);

/* Moves the N items so that item I is what item ORDER[I] was. ORDER is 0 … n-1 afterwards. */
void tm_order_apply(uint32_t *order, uint32_t n, void *items, size_t item_bytes);

#endif
