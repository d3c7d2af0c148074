/* Patterns for names: '*' stands for any run of bytes, '?' for one character, all else for itself.
 */
#ifndef TM_CORE_GLOB_H
#define TM_CORE_GLOB_H

#include "core/base.h"

/*
 * Whether PATTERN covers all of TEXT; both may hold any bytes. A byte that is not part of valid
 * UTF-8 counts as a character. Time is at most the product of the lengths, never exponential.
 */
bool tm_glob_match(const char *pattern, size_t pattern_len, const char *text, size_t len);

#endif
