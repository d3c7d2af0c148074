/*
 * Writes pictures, and what they are made of, for picture_expected.py to check: picture_dump DIR
 * makes DIR/NAME.png and DIR/NAME.bin, which has the dtype (16 bytes, zero-padded), u32 rows, cols,
 * level, u32 whether there are counts, the scale as f32, the cells as f32, the counts as f32.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "formats/picture.h"

static void die(const char *what)
{
    perror(what);
    exit(2);
}

static void put(FILE *file, const void *data, size_t bytes)
{
    if (fwrite(data, 1, bytes, file) != bytes)
        die("write");
}

static FILE *open_in(const char *dir, const char *name, const char *suffix)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s.%s", dir, name, suffix);
    FILE *file = fopen(path, "wb");
    if (!file)
        die(path);
    return file;
}

static void dump(const char *dir, const char *name, const tm_picture *picture)
{
    size_t count = (size_t)picture->rows * picture->cols;
    uint64_t size = tm_picture_size(picture->rows, picture->cols);
    uint8_t *bytes = tm_new_array(size, 1);
    if (!bytes)
        die("memory");
    tm_picture_write(picture, bytes);
    FILE *file = open_in(dir, name, "png");
    put(file, bytes, size);
    if (fclose(file) != 0)
        die("close");
    free(bytes);

    char dtype[16] = "";
    snprintf(dtype, sizeof(dtype), "%s", tm_dtype_get(picture->dtype)->name);
    const uint32_t numbers[] = {picture->rows, picture->cols, picture->level,
                                picture->nonfinite != NULL};
    file = open_in(dir, name, "bin");
    put(file, dtype, sizeof(dtype));
    put(file, numbers, sizeof(numbers));
    put(file, &picture->scale, sizeof(picture->scale));
    put(file, picture->cells, count * sizeof(float));
    if (picture->nonfinite)
        put(file, picture->nonfinite, count * sizeof(float));
    if (fclose(file) != 0)
        die("close");
}

static uint32_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 32);
}

/* What cells are made of: bits of any kind, or multiples of half a step of a scale of 1. */
typedef enum cell_kind {
    ANY_BITS,
    HALF_STEPS,
    ZEROS,
    NANS
} cell_kind;

static float cell_of(cell_kind kind, uint64_t *seed)
{
    uint32_t bits = next_random(seed);
    float value;
    switch (kind) {
    case ANY_BITS:
        memcpy(&value, &bits, sizeof(value));
        return value;
    case HALF_STEPS:
        return (float)((int)(bits % 600) - 300) / 254;
    case ZEROS:
        return bits % 2 ? -0.0f : 0.0f;
    case NANS:
        return NAN;
    }
    return 0;
}

typedef struct sample {
    uint32_t rows, cols;
    cell_kind kind;
    float scale; /* negative: the cells' own */
    bool has_nonfinite;
    unsigned level;
    tm_dtype dtype;
} sample;

static const sample samples[] = {
    {1, 1, HALF_STEPS, 1, false, 0, TM_F32},
    {1, 1, NANS, -1, false, 64, TM_F8_E4M3FNUZ},
    {1, 1024, HALF_STEPS, 1, true, 4, TM_BF16},
    {1024, 1, ANY_BITS, -1, false, 12, TM_F16},
    {255, 256, HALF_STEPS, -1, true, 5, TM_BF16}, /* pixels of one full block */
    {256, 255, HALF_STEPS, 1, false, 5, TM_I8},   /* and of a byte more */
    {255, 255, ANY_BITS, 1e-40f, false, 6, TM_F64},
    {256, 256, ANY_BITS, 0x1p-149f, true, 7, TM_F64},
    {257, 257, ANY_BITS, 0x1.fffffep127f, false, 8, TM_U64},
    {100, 37, ANY_BITS, -1, true, 10, TM_F4},
    {9, 70, HALF_STEPS, 0, false, 4, TM_BOOL},
    {64, 64, ZEROS, -1, false, 4, TM_F8_E5M2},
    {12, 34, NANS, -1, true, 4, TM_F32},
    {1024, 1024, HALF_STEPS, 1, true, 4, TM_BF16},
    {1023, 1024, HALF_STEPS, -1, false, 13, TM_BF16},
};

static void dump_sample(const char *dir, const sample *s, uint64_t seed)
{
    size_t count = (size_t)s->rows * s->cols;
    TM_AUTO_FREE float *cells = tm_new_array(count, sizeof(float));
    TM_AUTO_FREE float *nonfinite = tm_new_array(count, sizeof(float));
    if (!cells || !nonfinite)
        die("memory");
    char name[32];
    snprintf(name, sizeof(name), "%" PRIu64, seed);
    for (size_t i = 0; i < count; i++) {
        cells[i] = cell_of(s->kind, &seed);
        uint32_t bits = next_random(&seed);
        nonfinite[i] = bits % 10 == 0 ? (float)(bits % 256) : 0;
    }
    dump(dir, name,
         &(tm_picture){.rows = s->rows,
                       .cols = s->cols,
                       .cells = cells,
                       .nonfinite = s->has_nonfinite ? nonfinite : NULL,
                       .scale = s->scale < 0 ? tm_picture_scale(cells, count) : s->scale,
                       .level = s->level,
                       .dtype = s->dtype});
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    for (size_t i = 0; i < TM_ARRAY_LEN(samples); i++)
        dump_sample(argv[1], &samples[i], i);
    return 0;
}
