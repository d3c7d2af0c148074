#include "formats/byte_source.h"

int tm_byte_source_read(const tm_byte_source *src, uint64_t off, void *dst, size_t len, tm_req *req)
{
    assert(tm_range_ok(off, len, src->size));
    TM_TRY(tm_req_check(req));
    return src->read(src->ctx, off, dst, len, req);
}

/* A stream tells what is next, a mebibyte at a time and eight of them ahead of what is read. */
enum {
    AHEAD_PIECE = 1 << 20,
    AHEAD_PIECES = 8
};

/* Returns up to where it has been told. */
static uint64_t tell_ahead(const tm_byte_source *src, uint64_t told, uint64_t off, uint64_t end,
                           tm_lane lane)
{
    uint64_t until = tm_min_u64(end - off, AHEAD_PIECE * AHEAD_PIECES) + off;
    /* What is shorter than a piece is read before it would be there. */
    while (src->ahead && until - told >= AHEAD_PIECE) {
        src->ahead(src->ctx, told, AHEAD_PIECE, lane);
        told += AHEAD_PIECE;
    }
    return told;
}

int tm_byte_source_stream(const tm_byte_source *src, uint64_t off, uint64_t end, tm_byte_sink *sink,
                          void *ctx, tm_req *req)
{
    TM_AUTO_FREE void *chunk = malloc(TM_BYTE_SOURCE_CHUNK);
    if (!chunk)
        return tm_fail(req, ENOMEM, "no memory to read %s", src->name);
    uint64_t told = tm_min_u64(end, off + TM_BYTE_SOURCE_CHUNK);
    while (off < end) {
        told = tell_ahead(src, told, off, end, req ? req->lane : TM_LANE_PREFETCH);
        size_t len = (size_t)tm_min_u64(end - off, TM_BYTE_SOURCE_CHUNK);
        TM_TRY(tm_byte_source_read(src, off, chunk, len, req));
        TM_TRY(sink(ctx, chunk, len));
        off += len;
    }
    return 0;
}
