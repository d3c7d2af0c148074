/*
 * Buffers for reads. A fresh megabyte from malloc costs four times what filling a used one costs
 * (page faults), so a few used ones are kept. Any thread.
 */
#ifndef TM_CORE_BUFFER_H
#define TM_CORE_BUFFER_H

#include "core/base.h"

/* At least BYTES, aligned to 64, not cleared; NULL for want of memory. */
void *tm_buffer_get(size_t bytes);
/* BYTES as given to get. Accepts NULL. */
void tm_buffer_put(void *buffer, size_t bytes);
/* Gives back what is kept. */
void tm_buffer_trim(void);

#endif
