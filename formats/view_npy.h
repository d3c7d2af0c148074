/*
 * A tensor as a NumPy file, and one element as text.
 *
 * Floats of 16 bits or fewer are shown as f32, since NumPy has no name for most of them; other
 * types as they are. Where nothing has to be decoded the payload is the source's own bytes.
 * Format: NEP 1, version 1.0 (2.0 for a header over 64 KiB); the payload starts at a multiple
 * of 64.
 */
#ifndef TM_FORMATS_VIEW_NPY_H
#define TM_FORMATS_VIEW_NPY_H

#include "core/tensor.h"

/* Of any dtype but F6. */
TM_MUST_CHECK int tm_view_npy_new(tm_tensor *tensor, tm_blob **ret);
/* The size of that, for a tensor of STORED type, without making it; 0 where it does not fit. */
uint64_t tm_view_npy_size(tm_dtype stored, const uint64_t *dims, size_t rank);

enum {
    TM_VALUE_FILE_BYTES = 25
}; /* right-aligned to 24 columns, and LF */

/* The text of element INDEX, as a file of 25 bytes. Not for F6 and C64. */
TM_MUST_CHECK int tm_view_value_new(tm_tensor *tensor, uint64_t index, tm_blob **ret);

#endif
