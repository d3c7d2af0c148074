/* Sizes as people write them. */
#ifndef TM_CORE_UNITS_H
#define TM_CORE_UNITS_H

#include "core/base.h"

/*
 * "512", "64K", "1.5G", "2GiB", "10GB": K, M, G and T (or KiB, …) count by 1024, KB and so on by
 * 1000, as dd and truncate do; small letters too. -EINVAL for anything else, -ERANGE beyond 2^63.
 */
TM_MUST_CHECK int tm_size_parse(const char *text, uint64_t *ret);

#endif
