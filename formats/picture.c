#include "formats/picture.h"

#include <math.h>
#include <stdio.h>

#include "formats/png.h"

/* ---- Colours ---- */

static_assert((int)TM_PICTURE_SIDE_MAX <= (int)TM_PNG_SIDE_MAX, "a picture is a PNG file");

/*
 * Straight lines in OKLab (Ottosson, 2020, "A perceptual color space for image processing") from
 * white, L 1, to blue and to red, both L 0.45 and chroma 0.16, at hues of 260 and 27 degrees; in
 * 127 equal steps each, converted to sRGB (IEC 61966-2-1), rounded to the nearest. So equal
 * differences of values look equal, a grey copy shows magnitudes, and blue and red stay apart for
 * the colour-blind, as magenta does from both. tests/unit/formats/picture_expected.py computes it.
 */
static const uint32_t palette[TM_PNG_COLOURS] = {
    0x154fac, 0x1851ad, 0x1a52ad, 0x1c54ae, 0x1e55af, 0x2056b0, 0x2258b0, 0x2459b1, 0x265bb2,
    0x285cb3, 0x2a5eb3, 0x2c5fb4, 0x2e60b5, 0x2f62b6, 0x3163b6, 0x3365b7, 0x3566b8, 0x3767b9,
    0x3869b9, 0x3a6aba, 0x3c6cbb, 0x3e6dbb, 0x406ebc, 0x4170bd, 0x4371be, 0x4573be, 0x4774bf,
    0x4875c0, 0x4a77c1, 0x4c78c1, 0x4e79c2, 0x4f7bc3, 0x517cc3, 0x537ec4, 0x557fc5, 0x5780c5,
    0x5882c6, 0x5a83c7, 0x5c84c8, 0x5e86c8, 0x5f87c9, 0x6189ca, 0x638aca, 0x658bcb, 0x668dcc,
    0x688ecc, 0x6a8fcd, 0x6c91ce, 0x6d92ce, 0x6f94cf, 0x7195d0, 0x7396d1, 0x7498d1, 0x7699d2,
    0x789ad3, 0x7a9cd3, 0x7c9dd4, 0x7d9ed5, 0x7fa0d5, 0x81a1d6, 0x83a3d7, 0x84a4d7, 0x86a5d8,
    0x88a7d8, 0x8aa8d9, 0x8ca9da, 0x8dabda, 0x8facdb, 0x91addc, 0x93afdc, 0x95b0dd, 0x96b2de,
    0x98b3de, 0x9ab4df, 0x9cb6e0, 0x9eb7e0, 0x9fb8e1, 0xa1bae1, 0xa3bbe2, 0xa5bde3, 0xa7bee3,
    0xa9bfe4, 0xaac1e5, 0xacc2e5, 0xaec3e6, 0xb0c5e6, 0xb2c6e7, 0xb4c7e8, 0xb5c9e8, 0xb7cae9,
    0xb9ccea, 0xbbcdea, 0xbdceeb, 0xbfd0eb, 0xc1d1ec, 0xc2d3ed, 0xc4d4ed, 0xc6d5ee, 0xc8d7ee,
    0xcad8ef, 0xccd9f0, 0xcedbf0, 0xcfdcf1, 0xd1def1, 0xd3dff2, 0xd5e0f3, 0xd7e2f3, 0xd9e3f4,
    0xdbe5f4, 0xdde6f5, 0xdfe7f5, 0xe0e9f6, 0xe2eaf7, 0xe4ebf7, 0xe6edf8, 0xe8eef8, 0xeaf0f9,
    0xecf1f9, 0xeef2fa, 0xf0f4fb, 0xf2f5fb, 0xf3f7fc, 0xf5f8fc, 0xf7f9fd, 0xf9fbfd, 0xfbfcfe,
    0xfdfefe, 0xffffff, 0xfefdfd, 0xfefcfb, 0xfdfaf9, 0xfdf8f7, 0xfcf6f6, 0xfcf5f4, 0xfbf3f2,
    0xfaf1f0, 0xfaefee, 0xf9eeec, 0xf9ecea, 0xf8eae8, 0xf7e9e6, 0xf7e7e5, 0xf6e5e3, 0xf5e3e1,
    0xf5e2df, 0xf4e0dd, 0xf4dedb, 0xf3ddd9, 0xf2dbd8, 0xf2d9d6, 0xf1d7d4, 0xf0d6d2, 0xf0d4d0,
    0xefd2ce, 0xeed1cc, 0xeecfcb, 0xedcdc9, 0xeccbc7, 0xeccac5, 0xebc8c3, 0xeac6c2, 0xeac5c0,
    0xe9c3be, 0xe8c1bc, 0xe8c0ba, 0xe7beb8, 0xe6bcb7, 0xe5bbb5, 0xe5b9b3, 0xe4b7b1, 0xe3b5af,
    0xe3b4ae, 0xe2b2ac, 0xe1b0aa, 0xe0afa8, 0xe0ada6, 0xdfaba5, 0xdeaaa3, 0xdda8a1, 0xdda69f,
    0xdca59e, 0xdba39c, 0xdaa19a, 0xdaa098, 0xd99e96, 0xd89c95, 0xd79b93, 0xd79991, 0xd6978f,
    0xd5968e, 0xd4948c, 0xd3928a, 0xd39188, 0xd28f87, 0xd18d85, 0xd08b83, 0xcf8a81, 0xcf8880,
    0xce867e, 0xcd857c, 0xcc837b, 0xcb8179, 0xcb8077, 0xca7e75, 0xc97c74, 0xc87b72, 0xc77970,
    0xc6776f, 0xc6766d, 0xc5746b, 0xc47269, 0xc37168, 0xc26f66, 0xc16d64, 0xc06c63, 0xc06a61,
    0xbf685f, 0xbe665e, 0xbd655c, 0xbc635a, 0xbb6158, 0xba6057, 0xb95e55, 0xb85c53, 0xb85a52,
    0xb75950, 0xb6574e, 0xb5554d, 0xb4534b, 0xb35249, 0xb25048, 0xb14e46, 0xb04c44, 0xaf4b42,
    0xae4941, 0xad473f, 0xac453d, 0xab433c, 0xaa413a, 0xaa3f38, 0xa93e37, 0xa83c35, 0xa73a33,
    0xa63831, 0xa53630, 0xa4342e, 0xa3322c, 0xa22f2a, 0xa12d29, 0xa02b27, 0x9f2925, 0x9e2623,
    0x9d2421, 0x9c211f, 0x9b1f1d, 0xff00ff,
};

enum {
    STEPS = TM_PICTURE_ZERO /* from zero to the scale */
};

/*
 * Exact, though a quotient is rounded. 127 |V| has at most 31 significant bits and the scale 24, so
 * the exact quotient differs from any n + 1/2 that it does not equal by more than 2^-34, while
 * doubles below 128 round by at most 2^-47.
 */
static unsigned steps_of(double size, double scale)
{
    if (size >= scale)
        return size > 0 ? STEPS : 0;
    return (unsigned)(STEPS * size / scale + 0.5);
}

uint8_t tm_picture_index(float value, float scale)
{
    if (!isfinite(value))
        return TM_PICTURE_NONFINITE;
    unsigned steps = steps_of(fabsf(value), scale);
    return (uint8_t)(value < 0 ? TM_PICTURE_ZERO - steps : TM_PICTURE_ZERO + steps);
}

static void draw_row(const void *arg, uint32_t y, uint8_t *ret)
{
    const tm_picture *picture = arg;
    size_t first = (size_t)y * picture->cols;
    for (size_t x = 0; x < picture->cols; x++)
        ret[x] = tm_picture_index(picture->cells[first + x], picture->scale);
    for (size_t x = 0; picture->nonfinite && x < picture->cols; x++)
        if (picture->nonfinite[first + x] != 0)
            ret[x] = TM_PICTURE_NONFINITE;
}

/* ---- The scale ---- */

static uint32_t magnitude_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits & 0x7fffffff;
}

/* Zero has no part in a scale, nor has what is not finite. */
static bool is_scaled(uint32_t magnitude)
{
    return magnitude > 0 && magnitude < 0x7f800000;
}

enum {
    DIGIT_MAX_BITS = 11
};

/* The magnitude of rank RANK: by its digits, the highest first. Magnitudes sort as their bits. */
static uint32_t magnitude_of_rank(const float *cells, size_t count, size_t rank)
{
    static const struct {
        unsigned shift, bits;
    } digits[] = {{20, 11}, {10, 10}, {0, 10}};
    uint32_t found = 0, found_mask = 0;
    for (size_t d = 0; d < TM_ARRAY_LEN(digits); d++) {
        size_t counts[1 << DIGIT_MAX_BITS] = {0};
        uint32_t mask = (1u << digits[d].bits) - 1, digit = 0;
        for (size_t i = 0; i < count; i++) {
            uint32_t magnitude = magnitude_bits(cells[i]);
            if (is_scaled(magnitude) && (magnitude & found_mask) == found)
                counts[magnitude >> digits[d].shift & mask]++;
        }
        for (; rank >= counts[digit]; digit++)
            rank -= counts[digit];
        found |= digit << digits[d].shift;
        found_mask |= mask << digits[d].shift;
    }
    return found;
}

float tm_picture_scale(const float *cells, size_t count)
{
    size_t scaled = 0;
    for (size_t i = 0; i < count; i++)
        scaled += is_scaled(magnitude_bits(cells[i]));
    if (scaled == 0)
        return 0;
    uint32_t bits = magnitude_of_rank(cells, count, (scaled - 1) * 99 / 100);
    float scale;
    memcpy(&scale, &bits, sizeof(scale));
    return scale;
}

/* ---- The file ---- */

enum text_at {
    TEXT_SOFTWARE,
    TEXT_DESCRIPTION,
    TEXT_SCALE,
    TEXT_CELL,
    TEXT_LEVEL,
    TEXT_DTYPE,
    TEXT_COUNT
};

#define SOFTWARE "tensormorph"
#define DESCRIPTION                                                                                \
    "A pixel is the mean of a cell of a tensor, from -Scale (blue) over 0 (white) to Scale (red)." \
    " Magenta: not finite."

static const tm_png_text texts[TEXT_COUNT] = {
    [TEXT_SOFTWARE] = {"Software", SOFTWARE, sizeof(SOFTWARE) - 1},
    [TEXT_DESCRIPTION] = {"Description", DESCRIPTION, sizeof(DESCRIPTION) - 1},
    [TEXT_SCALE] = {"Scale", NULL, sizeof("1.23456789e-01") - 1},
    [TEXT_CELL] = {"Cell", NULL, sizeof("2^64 x 2^64 elements") - 1},
    [TEXT_LEVEL] = {"Level", NULL, sizeof("64") - 1},
    [TEXT_DTYPE] = {"Dtype", NULL, sizeof("F8_E4M3FNUZ") - 1},
};

uint64_t tm_picture_size(uint64_t rows, uint64_t cols)
{
    if (rows == 0 || cols == 0 || rows > TM_PICTURE_SIDE_MAX || cols > TM_PICTURE_SIDE_MAX)
        return 0;
    return tm_png_size(&(tm_png){.width = (uint32_t)cols,
                                 .height = (uint32_t)rows,
                                 .texts = texts,
                                 .text_count = TEXT_COUNT});
}

void tm_picture_write(const tm_picture *picture, uint8_t *dst)
{
    assert(picture->scale >= 0 && isfinite(picture->scale));
    assert(picture->level <= TM_PICTURE_LEVEL_MAX);
    char scale[32], cell[32], level[8];
    snprintf(scale, sizeof(scale), "%.8e", (double)picture->scale);
    snprintf(cell, sizeof(cell), "2^%u x 2^%u elements", picture->level, picture->level);
    snprintf(level, sizeof(level), "%u", picture->level);

    tm_png_text filled[TEXT_COUNT];
    memcpy(filled, texts, sizeof(filled));
    filled[TEXT_SCALE].text = scale;
    filled[TEXT_CELL].text = cell;
    filled[TEXT_LEVEL].text = level;
    filled[TEXT_DTYPE].text = tm_dtype_get(picture->dtype)->name;
    tm_png_write(&(tm_png){.width = picture->cols,
                           .height = picture->rows,
                           .palette = palette,
                           .texts = filled,
                           .text_count = TEXT_COUNT,
                           .row = draw_row,
                           .arg = picture},
                 dst);
}
