/*
 * A tensor scanned block by block, several at once: workers read a block in stripes and scan each.
 * A higher lane overtakes between blocks; no thread waits.
 *
 * What it finds depends on the tensor alone, not on threads or order.
 */
#ifndef TM_COMPUTE_TENSOR_SCAN_H
#define TM_COMPUTE_TENSOR_SCAN_H

#include "compute/blocks.h"
#include "compute/scan.h"
#include "core/sched.h"
#include "core/tensor.h"

typedef struct tm_tensor_scan tm_tensor_scan;

/* Of the blocks that were scanned; ZERO_ROWS and ZERO_COLS (of all planes, without a value that is
 * not zero) only where those were all. */
typedef struct tm_scan_total {
    tm_stats stats;
    uint64_t zero_rows, zero_cols;
} tm_scan_total;

typedef struct tm_tensor_scan_params {
    tm_sched *sched;
    tm_tensor *tensor; /* any dtype but F6 and C64 */
    tm_lane lane;
    uint64_t first, count; /* blocks of it */
    unsigned parallel;     /* blocks at once; 0: as many as there are CPU workers */
    unsigned level;        /* whose cells are wanted, 1 … TM_BLOCK_LEVEL; 0: none */

    /* The cells of block BLOCK, row by row, as they come to be: from any worker, several at once.
     * An error ends the scan. NULL: not wanted. */
    int (*cells)(void *ctx, uint64_t block, const tm_lod_cell *cells);
    /* Once, from any thread: 0 with TOTAL, or an error with words. TOTAL is borrowed, but its stats
     * may be taken (and left all zeros). */
    void (*done)(void *ctx, int rc, const char *words, tm_scan_total *total);
    void *ctx;
} tm_tensor_scan_params;

/* One reference, the caller's; the scan under way holds another. */
TM_MUST_CHECK int tm_tensor_scan_new(const tm_tensor_scan_params *params, tm_tensor_scan **ret);
tm_tensor_scan *tm_tensor_scan_ref(tm_tensor_scan *scan);
tm_tensor_scan *tm_tensor_scan_unref(tm_tensor_scan *scan); /* accepts NULL; returns NULL */

/* Once. done() may have been called when it returns. */
void tm_tensor_scan_start(tm_tensor_scan *scan);
/* done() comes soon, with -EINTR unless the scan was at its end. */
void tm_tensor_scan_cancel(tm_tensor_scan *scan);

/* What it has still to do is done in LANE. */
void tm_tensor_scan_hurry(tm_tensor_scan *scan, tm_lane lane);

/* How many blocks were begun. */
uint64_t tm_tensor_scan_begun(tm_tensor_scan *scan);

/* Rows and columns of a block's cells at LEVEL. */
uint64_t tm_block_cell_rows(const tm_block *block, unsigned level);
uint64_t tm_block_cell_cols(const tm_block *block, unsigned level);

#endif
