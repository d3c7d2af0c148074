/*
 * Cells of a level of detail as a PNG picture: white at zero, red above, blue below.
 *
 * The colour of a cell is a function of its value and the picture's scale alone:
 *
 *     index   0 ... 126          127      128 ... 254          255
 *             -scale, blue       0        scale, red           magenta
 *
 * a finite value V has the index 127 + n or, below zero, 127 - n, where n is 127 |V| / scale
 * rounded to the nearest whole number, halves away from zero, and 127 beyond the scale; computed
 * exactly. -0 is 0. With a scale of 0 any value but 0 has n = 127. What is not finite is magenta.
 *
 * Texts of the file (tEXt, of fixed width, padded with spaces): Software, Description, Scale,
 * Cell, Level, Dtype. Scale has the nine digits that read back as the same f32. There is no version
 * in it, so equal input gives equal bytes with each release too.
 *
 * Pure functions, any thread.
 */
#ifndef TM_FORMATS_PICTURE_H
#define TM_FORMATS_PICTURE_H

#include "core/dtype.h"

enum {
    TM_PICTURE_SIDE_MAX = 1024, /* cells an axis */
    TM_PICTURE_LEVEL_MAX = 64,
    TM_PICTURE_ZERO = 127,
    TM_PICTURE_NONFINITE = 255
};

typedef struct tm_picture {
    uint32_t rows, cols; /* 1 to TM_PICTURE_SIDE_MAX */
    const float *cells;  /* [rows][cols], the means */
    /* [rows][cols], how many elements of a cell are not finite: where any is, the cell is magenta.
     * NULL: only cells whose value is not finite are. */
    const float *nonfinite;
    float scale;    /* finite, 0 or more */
    unsigned level; /* a cell is the mean of 2^level x 2^level elements */
    tm_dtype dtype; /* of the tensor, as stored */
} tm_picture;

/* The size of the file; 0 where there is no picture, a side being 0 or too long. */
uint64_t tm_picture_size(uint64_t rows, uint64_t cols);

/* Writes just as many bytes to DST. */
void tm_picture_write(const tm_picture *picture, uint8_t *dst);

/*
 * A scale for COUNT cells: of the magnitudes of those m that are finite and not zero, in order,
 * the one at floor(0.99 (m - 1)); 0 where there are none. From the cells, not the elements: means
 * of many elements are much smaller. Neither outliers nor a majority of zeros decide it.
 */
float tm_picture_scale(const float *cells, size_t count);

/* The colour of one value. */
uint8_t tm_picture_index(float value, float scale);

#endif
