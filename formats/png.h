/*
 * PNG files of 8-bit palette colours, their size a closed formula of their dimensions.
 *
 *     signature | IHDR | sRGB | PLTE | tEXt ... | IDAT | IEND
 *                                                  |
 *               zlib header | stored block of at most 65,535 bytes | ... | Adler-32
 *
 * The pixels are stored, each row after a filter byte of 0, so equal input gives equal bytes, and
 * the size of a file is known before anything is drawn. libpng at level 0 gives neither: where a
 * stored block ends is zlib's own affair and depends on the buffers between the two (1024 x 1024
 * pixels took 80 to 1,616 bytes more than here). zlib gives the checksums alone.
 *
 * Pure functions, any thread.
 */
#ifndef TM_FORMATS_PNG_H
#define TM_FORMATS_PNG_H

#include "core/base.h"

enum {
    TM_PNG_SIDE_MAX = 1024,
    TM_PNG_COLOURS = 256
};

/* KEYWORD: 1 to 79 bytes, printable ASCII; what the specification names is what viewers know. */
typedef struct tm_png_text {
    const char *keyword;
    const char *text; /* ASCII, at most WIDTH bytes; NULL is as good as "" */
    size_t width;     /* of the text in the file, padded with spaces */
} tm_png_text;

typedef struct tm_png {
    uint32_t width, height;  /* 1 to TM_PNG_SIDE_MAX */
    const uint32_t *palette; /* [TM_PNG_COLOURS], 0xRRGGBB in sRGB */
    const tm_png_text *texts;
    size_t text_count;
    /* Writes the colours of row Y, WIDTH indexes into the palette; called once a row, in order. */
    void (*row)(const void *arg, uint32_t y, uint8_t *ret);
    const void *arg;
} tm_png;

/* The size of the file; looks at width, height, and the texts' keywords and widths. */
size_t tm_png_size(const tm_png *png);

/* Writes just as many bytes to DST. */
void tm_png_write(const tm_png *png, uint8_t *dst);

#endif
