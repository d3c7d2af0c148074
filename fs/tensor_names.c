#include "fs/tensor_names.h"

#include <stdio.h>

void tm_tensor_file(const tm_tensor_table *table, uint32_t row, char ret[TM_FILE_NAME_MAX + 1])
{
    assert(row < table->count);
    const tm_tensor_row *r = &table->rows[row];
    tm_name_to_file(tm_row_name(table, r), r->name_len, ret);
}

/* A cut file name tells only how the name begins: every such name is compared. */
static bool find_hashed(const tm_tensor_table *table, const char *file, const char *prefix,
                        size_t len, uint32_t *ret)
{
    for (uint32_t row = tm_tensor_table_lower_bound(table, prefix, len); row < table->count;
         row++) {
        const tm_tensor_row *r = &table->rows[row];
        const char *name = tm_row_name(table, r);
        if (r->name_len < len || memcmp(name, prefix, len) != 0)
            return false;
        if (tm_name_matches_file(name, r->name_len, file, strlen(file))) {
            *ret = row;
            return true;
        }
    }
    return false;
}

bool tm_tensor_by_file(const tm_tensor_table *table, const char *file, uint32_t *ret)
{
    char name[TM_FILE_NAME_MAX];
    size_t len, file_len = strlen(file);
    if (file_len > TM_FILE_NAME_MAX)
        return false;
    switch (tm_file_to_name(file, file_len, name, &len)) {
    case TM_FILE_NAME_WHOLE:
        return tm_tensor_table_find(table, name, len, ret);
    case TM_FILE_NAME_HASHED:
        return find_hashed(table, file, name, len, ret);
    case TM_FILE_NAME_INVALID:
        return false;
    }
    return false;
}

char *tm_link_up(unsigned up, const char *rest)
{
    size_t len = strlen(rest);
    char *link = tm_new_array(3 * (size_t)up + len + 1, 1);
    if (!link)
        return NULL;
    for (unsigned i = 0; i < up; i++)
        memcpy(link + 3 * (size_t)i, "../", 3);
    memcpy(link + 3 * (size_t)up, rest, len + 1);
    return link;
}

char *tm_tensor_link(const tm_tensor_table *table, uint32_t row, unsigned up, const char *before)
{
    char file[TM_FILE_NAME_MAX + 1];
    TM_AUTO_FREE char *rest = NULL;
    tm_tensor_file(table, row, file);
    if (asprintf(&rest, "%s%s", before, file) < 0)
        return NULL;
    return tm_link_up(up, rest);
}
