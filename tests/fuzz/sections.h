/*
 * What the fuzz targets of files of sections share: the input as a source of bytes, and checks that
 * are right, so that what stands behind them is reached too.
 */
#ifndef TM_TESTS_FUZZ_SECTIONS_H
#define TM_TESTS_FUZZ_SECTIONS_H

#include "formats/section_file.h"

enum {
    HEADER_CHECK = 112, /* offsets of docs/index-format.md */
    SECTIONS = 32,
    TABLE_CHECK = 40,
    LENGTH = 24,
};

typedef struct input {
    uint8_t *bytes;
    size_t size;
} input;

static inline void require(bool holds)
{
    if (!holds)
        abort();
}

static inline int read_input(void *ctx, uint64_t off, void *dst, size_t len, tm_req *req)
{
    const input *in = ctx;
    (void)req;
    require(tm_range_ok(off, len, in->size));
    if (len)
        memcpy(dst, in->bytes + off, len);
    return 0;
}

/* Sets what stands in SECTIONS (COUNT of them) right; NULL: nothing. */
typedef void seal_fn(const input *in, const tm_section *sections, size_t count);

static inline void seal(const input *in, seal_fn *seal_records)
{
    uint32_t count;
    tm_section sections[TM_SECTIONS_MAX];
    if (in->size < TM_SECTION_HEADER_BYTES)
        return;
    memcpy(&count, in->bytes + SECTIONS, sizeof(count));
    uint64_t length = in->size;
    memcpy(in->bytes + LENGTH, &length, sizeof(length));
    if (count <= TM_SECTIONS_MAX && tm_section_head_bytes(count) <= in->size) {
        uint8_t *table = in->bytes + TM_SECTION_HEADER_BYTES;
        size_t bytes = count * sizeof(*sections);
        memcpy(sections, table, bytes);
        if (seal_records)
            seal_records(in, sections, count);
        for (size_t i = 0; i < count; i++)
            if (tm_range_ok(sections[i].off, sections[i].stored, in->size))
                sections[i].check = tm_hash_bytes(in->bytes + sections[i].off, sections[i].stored);
        memcpy(table, sections, bytes);
        tm_id check = tm_hash_bytes(table, bytes);
        memcpy(in->bytes + TABLE_CHECK, &check, sizeof(check));
    }
    tm_id check = tm_hash_bytes(in->bytes, HEADER_CHECK);
    memcpy(in->bytes + HEADER_CHECK, &check, sizeof(check));
}

/* The first byte of DATA says how much gets checks that are right: nothing, the header and the
 * table, or what SEAL_RECORDS does as well. Then READ has it. */
static inline void read_sealed(const uint8_t *data, size_t size, seal_fn *seal_records,
                               void (*read)(const input *in))
{
    if (size == 0)
        return;
    input in = {.size = size - 1, .bytes = malloc(size)};
    if (!in.bytes)
        return;
    memcpy(in.bytes, data + 1, in.size);
    if (data[0] % 3 > 0)
        seal(&in, data[0] % 3 == 2 ? seal_records : NULL);
    read(&in);
    free(in.bytes);
}

#endif
