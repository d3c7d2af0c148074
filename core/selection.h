/*
 * NumPy's way to name elements, without spaces: an index per axis ("3,-1"; "0" for rank 0), and a
 * range per axis ("2:5,:,-4:", bounds omitted at will, axes omitted at the end taken whole).
 *
 * Negative ones count from the end. An index out of range is -ENOENT; a range is cut to the
 * dimension as NumPy cuts it. -ENOENT too for what is no index or range, or too many of them.
 */
#ifndef TM_CORE_SELECTION_H
#define TM_CORE_SELECTION_H

#include "core/tensor.h"

/* "I,J,…": the flat index of one element. */
TM_MUST_CHECK int tm_selection_element(const char *text, size_t len, const uint64_t *dims,
                                       size_t rank, uint64_t *ret_index);
/* "I": an index into a dimension of DIM. */
TM_MUST_CHECK int tm_selection_index(const char *text, size_t len, uint64_t dim, uint64_t *ret);
/* "A:B,C:D,…" into RET[rank]. Rank 0 takes only "". */
TM_MUST_CHECK int tm_selection_ranges(const char *text, size_t len, const uint64_t *dims,
                                      size_t rank, tm_range *ret);

#endif
