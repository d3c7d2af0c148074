/*
 * PNG files: their exact size, their chunks, and their pixels, read back by the naive code here.
 * picture_expected.py reads them by other means.
 */
#include "formats/png.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

enum {
    GUARD_BYTES = 16,
    GUARD = 0xa5
};

static uint32_t palette[TM_PNG_COLOURS];

static uint8_t colour_at(uint32_t x, uint32_t y)
{
    return (uint8_t)(x * 7 + y * 13 + x * y);
}

static void draw_row(const void *arg, uint32_t y, uint8_t *ret)
{
    const tm_png *png = arg;
    for (uint32_t x = 0; x < png->width; x++)
        ret[x] = colour_at(x, y);
}

static void png_init(tm_png *png, uint32_t width, uint32_t height)
{
    *png = (tm_png){.width = width, .height = height, .palette = palette, .row = draw_row};
    png->arg = png;
}

/* The file, followed by bytes that must be as they were. */
static uint8_t *written(const tm_png *png)
{
    size_t size = tm_png_size(png);
    uint8_t *bytes = tm_new_array(size + GUARD_BYTES, 1);
    assert_non_null(bytes);
    memset(bytes, GUARD, size + GUARD_BYTES);
    tm_png_write(png, bytes);
    for (size_t i = 0; i < GUARD_BYTES; i++)
        assert_int_equal(bytes[size + i], GUARD);
    return bytes;
}

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t naive_crc(const uint8_t *bytes, size_t len)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < len; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

typedef struct chunk {
    const char *type;
    const uint8_t *bytes;
    size_t len;
} chunk;

/* The chunks of a file of SIZE bytes, which they must fill. */
static size_t chunks_of(const uint8_t *file, size_t size, chunk *ret, size_t max)
{
    size_t at = 8, count = 0;
    assert_memory_equal(file, "\x89PNG\r\n\x1a\n", 8);
    while (at < size) {
        assert_true(count < max);
        size_t len = be32(file + at);
        assert_true(tm_range_ok(at, 12 + len, size));
        assert_int_equal(be32(file + at + 8 + len), naive_crc(file + at + 4, 4 + len));
        ret[count++] = (chunk){(const char *)file + at + 4, file + at + 8, len};
        at += 12 + len;
    }
    assert_int_equal(at, size);
    return count;
}

static const chunk *chunk_named(const chunk *chunks, size_t count, const char *type)
{
    for (size_t i = 0; i < count; i++)
        if (memcmp(chunks[i].type, type, 4) == 0)
            return &chunks[i];
    fail_msg("no chunk %s", type);
    return NULL;
}

/* The bytes in the stored blocks of a zlib stream, which must be RAW_LEN; its sum must agree. */
static uint8_t *unstored(const chunk *idat, size_t raw_len)
{
    uint8_t *raw = tm_new_array(raw_len, 1);
    assert_non_null(raw);
    size_t at = 2, got = 0;
    bool is_last = false;
    assert_int_equal((idat->bytes[0] << 8 | idat->bytes[1]) % 31, 0);
    assert_int_equal(idat->bytes[0], 0x78);
    while (!is_last) {
        const uint8_t *p = idat->bytes + at;
        size_t len = p[1] | (size_t)p[2] << 8;
        assert_true(p[0] <= 1);
        assert_int_equal(p[3] | p[4] << 8, len ^ 0xffff);
        assert_true(tm_range_ok(at + 5, len, idat->len - 4) && got + len <= raw_len);
        memcpy(raw + got, p + 5, len);
        is_last = p[0];
        got += len;
        at += 5 + len;
    }
    assert_int_equal(got, raw_len);
    assert_int_equal(at + 4, idat->len);

    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < raw_len; i++) {
        a = (a + raw[i]) % 65521;
        b = (b + a) % 65521;
    }
    assert_int_equal(be32(idat->bytes + at), b << 16 | a);
    return raw;
}

static void check_picture(uint32_t width, uint32_t height)
{
    tm_png png;
    png_init(&png, width, height);
    TM_AUTO_FREE uint8_t *file = written(&png);
    chunk chunks[8];
    size_t count = chunks_of(file, tm_png_size(&png), chunks, TM_ARRAY_LEN(chunks));
    const chunk *header = chunk_named(chunks, count, "IHDR");
    assert_int_equal(header->len, 13);
    assert_int_equal(be32(header->bytes), width);
    assert_int_equal(be32(header->bytes + 4), height);
    assert_memory_equal(header->bytes + 8, "\x08\x03\0\0\0", 5);

    size_t line = 1 + (size_t)width;
    TM_AUTO_FREE uint8_t *raw = unstored(chunk_named(chunks, count, "IDAT"), line * height);
    for (uint32_t y = 0; y < height; y++) {
        assert_int_equal(raw[y * line], 0);
        for (uint32_t x = 0; x < width; x++)
            if (raw[y * line + 1 + x] != colour_at(x, y))
                fail_msg("%u x %u: pixel %u,%u", width, height, x, y);
    }
}

/* ---- Tests ---- */

typedef struct size_row {
    uint32_t width, height;
    size_t bytes;
} size_row;

/* Signature 8, IHDR 25, sRGB 13, PLTE 780, IDAT's own 12, the zlib stream's own 6, IEND 12 are 856;
 * then the rows with a byte each, and 5 for each block. */
static const size_row sizes[] = {
    {1, 1, 856 + 2 + 5},
    {1024, 1, 856 + 1025 + 5},
    {1, 1024, 856 + 2048 + 5},
    {256, 255, 856 + 65535 + 5}, /* one block that is full */
    {255, 256, 856 + 65536 + 10},
    {255, 255, 856 + 65280 + 5},
    {256, 256, 856 + 65792 + 10},
    {257, 257, 856 + 66306 + 10},
    {1024, 1023, 856 + 1048575 + 85}, /* 16 blocks and a rest */
    {1024, 1024, 856 + 1049600 + 85},
};

static void the_size_is_a_formula_of_the_dimensions(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(sizes); i++) {
        tm_png png;
        png_init(&png, sizes[i].width, sizes[i].height);
        assert_int_equal(tm_png_size(&png), sizes[i].bytes);
    }
}

static void pixels_read_back_at_every_edge_of_a_block(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(sizes); i++)
        check_picture(sizes[i].width, sizes[i].height);
}

static void every_small_picture_reads_back(void **state)
{
    (void)state;
    for (uint32_t height = 1; height <= 20; height++)
        for (uint32_t width = 1; width <= 20; width++)
            check_picture(width, height);
}

static void chunks_stand_in_the_order_of_the_specification(void **state)
{
    (void)state;
    static const char *const order[] = {"IHDR", "sRGB", "PLTE", "tEXt", "tEXt", "IDAT", "IEND"};
    static const tm_png_text texts[] = {{"Software", "x", 1}, {"Level", NULL, 2}};
    tm_png png;
    png_init(&png, 3, 2);
    png.texts = texts;
    png.text_count = TM_ARRAY_LEN(texts);
    TM_AUTO_FREE uint8_t *file = written(&png);
    chunk chunks[TM_ARRAY_LEN(order)];
    size_t count = chunks_of(file, tm_png_size(&png), chunks, TM_ARRAY_LEN(chunks));
    assert_int_equal(count, TM_ARRAY_LEN(order));
    for (size_t i = 0; i < count; i++)
        assert_memory_equal(chunks[i].type, order[i], 4);
}

static void a_text_is_padded_to_its_width(void **state)
{
    (void)state;
    static const struct {
        tm_png_text text;
        const char *bytes;
        size_t len;
    } rows[] = {
        {{"Scale", "1e-1", 6},
         "Scale\0"
         "1e-1  ",
         12},
        {{"K", "full", 4}, "K\0full", 6},
        {{"K", NULL, 3}, "K\0   ", 5},
        {{"K", "", 0}, "K\0", 2},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        tm_png png;
        png_init(&png, 1, 1);
        size_t without = tm_png_size(&png);
        png.texts = &rows[i].text;
        png.text_count = 1;
        assert_int_equal(tm_png_size(&png), without + 12 + rows[i].len);
        TM_AUTO_FREE uint8_t *file = written(&png);
        chunk chunks[8];
        size_t count = chunks_of(file, tm_png_size(&png), chunks, TM_ARRAY_LEN(chunks));
        const chunk *text = chunk_named(chunks, count, "tEXt");
        assert_int_equal(text->len, rows[i].len);
        assert_memory_equal(text->bytes, rows[i].bytes, rows[i].len);
    }
}

static void the_palette_is_red_green_blue(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < TM_PNG_COLOURS; i++)
        palette[i] = 0x010203 * i & 0xffffff;
    tm_png png;
    png_init(&png, 1, 1);
    TM_AUTO_FREE uint8_t *file = written(&png);
    chunk chunks[8];
    size_t count = chunks_of(file, tm_png_size(&png), chunks, TM_ARRAY_LEN(chunks));
    const chunk *colours = chunk_named(chunks, count, "PLTE");
    assert_int_equal(colours->len, 3 * TM_PNG_COLOURS);
    for (uint32_t i = 0; i < TM_PNG_COLOURS; i++)
        assert_int_equal(be32(colours->bytes + 3 * i - 1) & 0xffffff, palette[i]);
    memset(palette, 0, sizeof(palette));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_size_is_a_formula_of_the_dimensions),
        cmocka_unit_test(pixels_read_back_at_every_edge_of_a_block),
        cmocka_unit_test(every_small_picture_reads_back),
        cmocka_unit_test(chunks_stand_in_the_order_of_the_specification),
        cmocka_unit_test(a_text_is_padded_to_its_width),
        cmocka_unit_test(the_palette_is_red_green_blue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
