/* Sizes as people write them. */
#ifndef TM_CORE_UNITS_H
#define TM_CORE_UNITS_H

#include "core/base.h"

/*
 * "512", "64K", "1.5G", "2GiB", "10GB": K, M, G and T (or KiB, …) count by 1024, KB and so on by
 * 1000, as dd and truncate do; small letters too. -EINVAL for anything else, -ERANGE beyond 2^63.
 */
TM_MUST_CHECK int tm_size_parse(const char *text, uint64_t *ret);

/* "15.2 GB", "512 B": three digits or so, in thousands, as file managers and the Hub count.
 * Returns RET. */
enum {
    TM_SIZE_TEXT_MAX = 16
};
const char *tm_size_text(uint64_t bytes, char ret[TM_SIZE_TEXT_MAX]);

#endif
