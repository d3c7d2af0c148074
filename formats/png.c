/* Chunks: PNG specification, third edition. Stored blocks: RFC 1951; around them: RFC 1950. */
#include "formats/png.h"

#include <zlib.h>

enum {
    SIGNATURE_BYTES = 8,
    CHUNK_BYTES = 12, /* of a chunk without what is in it: length, type, CRC */
    HEADER_BYTES = 13,
    COLOUR_BYTES = 3,
    KEYWORD_MAX = 79,
    BIT_DEPTH = 8,
    COLOUR_TYPE_PALETTE = 3,
    INTENT_PERCEPTUAL = 0,
    STORED_MAX = 65535, /* bytes of a stored block */
    STORED_HEADER_BYTES = 5,
    ZLIB_BYTES = 2 + 4 /* header, Adler-32 */
};

/* ---- Sizes ---- */

static size_t pixels_bytes(const tm_png *png)
{
    return (size_t)png->height * (1 + (size_t)png->width);
}

static size_t stream_bytes(const tm_png *png)
{
    size_t pixels = pixels_bytes(png);
    return ZLIB_BYTES + pixels + (pixels + STORED_MAX - 1) / STORED_MAX * STORED_HEADER_BYTES;
}

static size_t text_bytes(const tm_png_text *text)
{
    return strlen(text->keyword) + 1 + text->width;
}

size_t tm_png_size(const tm_png *png)
{
    assert(png->width >= 1 && png->width <= TM_PNG_SIDE_MAX);
    assert(png->height >= 1 && png->height <= TM_PNG_SIDE_MAX);
    size_t size = SIGNATURE_BYTES;
    size += CHUNK_BYTES + HEADER_BYTES;
    size += CHUNK_BYTES + 1; /* sRGB */
    size += CHUNK_BYTES + TM_PNG_COLOURS * COLOUR_BYTES;
    for (size_t i = 0; i < png->text_count; i++)
        size += CHUNK_BYTES + text_bytes(&png->texts[i]);
    size += CHUNK_BYTES + stream_bytes(png);
    size += CHUNK_BYTES; /* IEND */
    return size;
}

/* ---- Chunks ---- */

typedef struct sink {
    uint8_t *at;
    uint8_t *type; /* of the open chunk: where its checksum begins */
    size_t len;    /* of what the open chunk holds */
} sink;

static void put(sink *out, const void *bytes, size_t len)
{
    memcpy(out->at, bytes, len);
    out->at += len;
}

static void put_be32(sink *out, uint32_t value)
{
    const uint8_t bytes[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8),
                              (uint8_t)value};
    put(out, bytes, sizeof(bytes));
}

static void open_chunk(sink *out, const char *type, size_t len)
{
    put_be32(out, (uint32_t)len);
    out->type = out->at;
    out->len = len;
    put(out, type, 4);
}

static void close_chunk(sink *out)
{
    size_t len = (size_t)(out->at - out->type);
    assert(len == 4 + out->len);
    put_be32(out, (uint32_t)crc32(0, out->type, (uInt)len));
}

static void put_header(sink *out, const tm_png *png)
{
    const uint8_t rest[] = {BIT_DEPTH, COLOUR_TYPE_PALETTE, 0, 0, 0}; /* not interlaced */
    const uint8_t intent = INTENT_PERCEPTUAL;
    open_chunk(out, "IHDR", HEADER_BYTES);
    put_be32(out, png->width);
    put_be32(out, png->height);
    put(out, rest, sizeof(rest));
    close_chunk(out);
    open_chunk(out, "sRGB", 1);
    put(out, &intent, 1);
    close_chunk(out);
}

static void put_palette(sink *out, const uint32_t *palette)
{
    open_chunk(out, "PLTE", TM_PNG_COLOURS * COLOUR_BYTES);
    for (size_t i = 0; i < TM_PNG_COLOURS; i++) {
        const uint8_t rgb[COLOUR_BYTES] = {(uint8_t)(palette[i] >> 16), (uint8_t)(palette[i] >> 8),
                                           (uint8_t)palette[i]};
        put(out, rgb, sizeof(rgb));
    }
    close_chunk(out);
}

static void put_text(sink *out, const tm_png_text *text)
{
    size_t keyword_len = strlen(text->keyword), len = text->text ? strlen(text->text) : 0;
    assert(keyword_len >= 1 && keyword_len <= KEYWORD_MAX && len <= text->width);
    open_chunk(out, "tEXt", text_bytes(text));
    put(out, text->keyword, keyword_len + 1);
    put(out, text->text ? text->text : "", len);
    memset(out->at, ' ', text->width - len);
    out->at += text->width - len;
    close_chunk(out);
}

/* ---- Pixels ---- */

typedef struct stored {
    sink *out;
    size_t left;          /* bytes of all blocks that are still to come */
    size_t left_in_block; /* and of the one that has begun */
} stored;

static void begin_block(stored *s)
{
    size_t len = s->left < STORED_MAX ? s->left : STORED_MAX;
    const uint8_t header[STORED_HEADER_BYTES] = {len == s->left, /* the last one */
                                                 (uint8_t)len, (uint8_t)(len >> 8), (uint8_t)~len,
                                                 (uint8_t)(~len >> 8)};
    put(s->out, header, sizeof(header));
    s->left_in_block = len;
}

static void put_stored(stored *s, const uint8_t *bytes, size_t len)
{
    assert(len <= s->left);
    while (len > 0) {
        if (s->left_in_block == 0)
            begin_block(s);
        size_t n = len < s->left_in_block ? len : s->left_in_block;
        put(s->out, bytes, n);
        s->left_in_block -= n;
        s->left -= n;
        bytes += n;
        len -= n;
    }
}

static void put_pixels(sink *out, const tm_png *png)
{
    static const uint8_t zlib_header[2] = {0x78, 0x01}; /* deflate, a window of 32 KiB, no effort */
    uint8_t row[1 + TM_PNG_SIDE_MAX] = {0};             /* the filter's byte, 0 for none, first */
    size_t row_bytes = 1 + (size_t)png->width;
    uLong sum = adler32(0, NULL, 0);
    stored s = {.out = out, .left = pixels_bytes(png)};
    open_chunk(out, "IDAT", stream_bytes(png));
    put(out, zlib_header, sizeof(zlib_header));
    for (uint32_t y = 0; y < png->height; y++) {
        png->row(png->arg, y, row + 1);
        sum = adler32(sum, row, (uInt)row_bytes);
        put_stored(&s, row, row_bytes);
    }
    put_be32(out, (uint32_t)sum);
    close_chunk(out);
}

void tm_png_write(const tm_png *png, uint8_t *dst)
{
    size_t size = tm_png_size(png);
    sink out = {.at = dst};
    put(&out, "\x89PNG\r\n\x1a\n", SIGNATURE_BYTES);
    put_header(&out, png);
    put_palette(&out, png->palette);
    for (size_t i = 0; i < png->text_count; i++)
        put_text(&out, &png->texts[i]);
    put_pixels(&out, png);
    open_chunk(&out, "IEND", 0);
    close_chunk(&out);
    assert((size_t)(out.at - dst) == size);
}
