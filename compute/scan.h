/*
 * One pass over elements: statistics, empty rows and columns, level 4 of detail.
 *
 * The work item is a block: up to 256 rows of a plane, any columns, where rows and columns start at
 * multiples of 16 of the plane. It is cut into pieces of 16 rows and 256 columns that are decoded
 * once into a buffer which stays in the L1 cache.
 *
 * The scalar kernels are the specification; a CPU level overrides them with the same bits.
 */
#ifndef TM_COMPUTE_SCAN_H
#define TM_COMPUTE_SCAN_H

#include "compute/lod.h"
#include "core/stats.h"
#include "core/cpu.h"

enum {
    TM_TILE_SIDE = 256,
    TM_SCAN_LEVEL = 4, /* of the cells that a scan gives */
    TM_SCAN_CELL = 1 << TM_SCAN_LEVEL
};

typedef struct tm_scan_block {
    const void *src;    /* packed elements of the statistics' dtype, any alignment */
    uint64_t first;     /* which element of SRC is the block's first (F4: may be odd) */
    uint64_t stride;    /* elements of SRC from one row to the next */
    size_t rows, cols;  /* 1 ... 256 rows, 1 or more columns */
    uint64_t index;     /* flat index in the tensor of the block's first element */
    uint64_t row_elems; /* and how much it grows from one row to the next */
} tm_scan_block;

/* Where a block's results go: cells are overwritten. Each may be NULL. */
typedef struct tm_scan_out {
    tm_lod_cell *cells; /* [ceil(rows / 16)][ceil(cols / 16)] of level 4 */
    uint64_t *row_bits; /* [4]: bit r is set where row r has a value that is not zero, as NaN */
    uint64_t *col_bits; /* [ceil(cols / 64)]: the same of columns; the caller clears both */
} tm_scan_out;

/* Scratch of one thread, about 1.2 MiB; for ELEMS of less than 16,384 (all that will be added) a
 * tenth of it. NULL: no memory. LEVEL is one that tm_cpu_has(). */
typedef struct tm_scan tm_scan;
tm_scan *tm_scan_new(tm_cpu_level level, uint64_t elems);
void tm_scan_free(tm_scan *scan);
void tm_scan_freep(tm_scan **scan); /* for TM_AUTO */

/*
 * tm_scan_begin, tm_scan_add for any blocks in any order, tm_scan_end. STATS (borrowed until the
 * end, its dtype is that of the blocks) has them all only after the end.
 */
void tm_scan_begin(tm_scan *scan, tm_stats *stats);
void tm_scan_add(tm_scan *scan, const tm_scan_block *block, const tm_scan_out *out);
void tm_scan_end(tm_scan *scan);

/*
 * Cells of LEVEL 1, 2 or 3 of a block of at most 256 columns, for finer pictures than those that
 * are kept: [ceil(rows / 2^LEVEL)][ceil(cols / 2^LEVEL)]. Needs no tm_scan_begin. -EOPNOTSUPP for
 * F6 and C64.
 */
TM_MUST_CHECK int tm_scan_fine(tm_scan *scan, tm_dtype dtype, const tm_scan_block *block,
                               unsigned level, tm_lod_cell *ret);

#endif
