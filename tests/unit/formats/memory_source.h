/* A byte source over memory, which may hold only the beginning of the file that it stands for. */
#ifndef TM_TESTS_MEMORY_SOURCE_H
#define TM_TESTS_MEMORY_SOURCE_H

#include "formats/byte_source.h"

typedef struct memory_file {
    const char *bytes;
    size_t len; /* a read beyond them fails */
} memory_file;

static inline int memory_file_read(void *ctx, uint64_t off, void *dst, size_t len, tm_req *req)
{
    const memory_file *file = ctx;
    if (!tm_range_ok(off, len, file->len))
        return tm_fail(req, EIO, "a read beyond what the test provides");
    if (len)
        memcpy(dst, file->bytes + off, len);
    return 0;
}

static inline tm_byte_source memory_source(memory_file *file, const char *name, uint64_t size)
{
    return (tm_byte_source){.name = name, .size = size, .ctx = file, .read = memory_file_read};
}

#endif
