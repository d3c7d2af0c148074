/*
 * Histograms as bytes. Codes are cut by SHIFT low bits, so a bin is 2^SHIFT neighbouring codes:
 * of floats the mantissa's last bits. Bins in order of code, as varints (7 bits a byte, low ones
 * first, the top bit says that more follow): 2 (count - 1) for the next bin, 2 (k - 1) + 1 for k
 * bins that are empty. What follows the last bin that is not empty is left out.
 */
#ifndef TM_FORMATS_INDEX_HIST_H
#define TM_FORMATS_INDEX_HIST_H

#include "core/base.h"

enum {
    TM_INDEX_HIST_SHIFT_MAX = 16,
    TM_INDEX_HIST_BYTES_MAX = 65536 * 10, /* of any, one varint a code */
    TM_INDEX_HIST_FLOOR = 256,            /* bytes that any histogram may take */
    TM_INDEX_HIST_SHARE = 1024            /* and else the tensor's stored bytes over this */
};

/* How many bytes a histogram of a tensor may take. */
uint64_t tm_index_hist_room(uint64_t stored_bytes);

/* How many bytes it takes. RET: NULL, or room for them. Counts are below 2^63. */
size_t tm_index_hist_store(const uint64_t *hist, size_t codes, unsigned shift, uint8_t *ret);

/* The least shift with which it takes at most ROOM bytes, and how many it then takes. */
unsigned tm_index_hist_fit(const uint64_t *hist, size_t codes, uint64_t room, size_t *ret_bytes);

/* All CODES counts: that of a bin stands at its first code, others are 0. -EBADMSG where the bytes
 * are not those that store() writes of a histogram of N elements. */
TM_MUST_CHECK int tm_index_hist_load(const uint8_t *bytes, size_t len, unsigned shift, uint64_t n,
                                     size_t codes, uint64_t *ret);

#endif
