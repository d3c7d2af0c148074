#include "formats/byte_source.h"

int tm_byte_source_read(const tm_byte_source *src, uint64_t off, void *dst, size_t len, tm_req *req)
{
    assert(tm_range_ok(off, len, src->size));
    TM_TRY(tm_req_check(req));
    return src->read(src->ctx, off, dst, len, req);
}

int tm_byte_source_stream(const tm_byte_source *src, uint64_t off, uint64_t end, tm_byte_sink *sink,
                          void *ctx, tm_req *req)
{
    TM_AUTO_FREE void *chunk = malloc(TM_BYTE_SOURCE_CHUNK);
    if (!chunk)
        return tm_fail(req, ENOMEM, "no memory to read %s", src->name);
    while (off < end) {
        size_t len = (size_t)tm_min_u64(end - off, TM_BYTE_SOURCE_CHUNK);
        TM_TRY(tm_byte_source_read(src, off, chunk, len, req));
        TM_TRY(sink(ctx, chunk, len));
        off += len;
    }
    return 0;
}
