/* Where a parser takes its bytes from: a name for words, a size, and exact reads. */
#ifndef TM_FORMATS_BYTE_SOURCE_H
#define TM_FORMATS_BYTE_SOURCE_H

#include "core/req.h"

/* Used by any thread that may block. */
typedef struct tm_byte_source {
    const char *name; /* for words: the file's name as its user knows it */
    uint64_t size;
    void *ctx;
    /* Reads exactly LEN bytes at OFF (within size), or fails with words in REQ. */
    int (*read)(void *ctx, uint64_t off, void *dst, size_t len, tm_req *req);
    /* Optional: LEN bytes at OFF will be read soon, in LANE. */
    void (*ahead)(void *ctx, uint64_t off, size_t len, tm_lane lane);
} tm_byte_source;

enum {
    TM_BYTE_SOURCE_CHUNK = 64 << 10
};

/* Reads LEN bytes at OFF, within the source's size: the one caller of read. */
TM_MUST_CHECK int tm_byte_source_read(const tm_byte_source *src, uint64_t off, void *dst,
                                      size_t len, tm_req *req);

/* Takes the next chunk of a stream; a negative result ends the stream. */
typedef int tm_byte_sink(void *ctx, const void *data, size_t len);

/*
 * Streams [OFF, END) through SINK in chunks of 64 KiB. Returns what the sink or the read returned;
 * stops with -EINTR between chunks where REQ was cancelled.
 */
TM_MUST_CHECK int tm_byte_source_stream(const tm_byte_source *src, uint64_t off, uint64_t end,
                                        tm_byte_sink *sink, void *ctx, tm_req *req);

#endif
