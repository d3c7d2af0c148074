/* The file names of tensors in folders: written once, for every folder that shows tensors. */
#ifndef TM_FS_TENSOR_NAMES_H
#define TM_FS_TENSOR_NAMES_H

#include "core/escape.h"
#include "core/tensor_table.h"

/* The file name of ROW. */
void tm_tensor_file(const tm_tensor_table *table, uint32_t row, char ret[TM_FILE_NAME_MAX + 1]);

/* The row whose file name is FILE; false where there is none. */
bool tm_tensor_by_file(const tm_tensor_table *table, const char *file, uint32_t *ret);

/* "../" UP times, then BEFORE and the file name of ROW; malloc'ed, NULL for want of memory. */
char *tm_tensor_link(const tm_tensor_table *table, uint32_t row, unsigned up, const char *before);

/* "../" UP times, then REST; malloc'ed. */
char *tm_link_up(unsigned up, const char *rest);

#endif
