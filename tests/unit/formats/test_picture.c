/*
 * Colours against exact integer arithmetic, scales against a sort, sizes and bytes of pictures.
 * picture_expected.py decodes whole files.
 */
#include "formats/picture.h"

#include <float.h>
#include <math.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static uint32_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 32);
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* ---- One value ---- */

static void a_value_has_the_colour_of_the_nearest_step(void **state)
{
    (void)state;
    static const struct {
        float value, scale;
        int index;
    } rows[] = {
        {0.0f, 1, 127},
        {-0.0f, 1, 127},
        {1, 1, 254},
        {-1, 1, 0},
        {0.5f, 1, 127 + 64}, /* 63.5: away from zero */
        {-0.5f, 1, 127 - 64},
        {0.5f, 127, 128}, /* 0.5 */
        {-0.5f, 127, 126},
        {0x1.fffffep-2f, 127, 127}, /* the float before it */
        {-0x1.fffffep-2f, 127, 127},
        {1.5f, 127, 129},
        {126.5f, 127, 254},
        {0x1.f9fffep6f, 127, 253}, /* just below 126.5 */
        {126, 127, 253},
        {127.5f, 127, 254}, /* beyond the scale */
        {2, 1, 254},
        {-2, 1, 0},
        {FLT_MAX, 1, 254},
        {-FLT_MAX, FLT_TRUE_MIN, 0},
        {FLT_MAX, FLT_MAX, 254},
        {FLT_TRUE_MIN, FLT_MAX, 127},
        {-FLT_TRUE_MIN, FLT_MAX, 127},
        {FLT_TRUE_MIN, FLT_TRUE_MIN, 254},
        {FLT_TRUE_MIN, 2 * FLT_TRUE_MIN, 127 + 64},
        {-FLT_TRUE_MIN, 254 * FLT_TRUE_MIN, 126},
        {FLT_TRUE_MIN, 255 * FLT_TRUE_MIN, 127},
        {0.0f, 0, 127},
        {-0.0f, 0, 127},
        {FLT_TRUE_MIN, 0, 254},
        {-1, 0, 0},
        {INFINITY, 1, 255},
        {-INFINITY, 1, 255},
        {NAN, 1, 255},
        {-NAN, 0, 255},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++)
        if (tm_picture_index(rows[i].value, rows[i].scale) != rows[i].index)
            fail_msg("%a of %a: %u, not %d", (double)rows[i].value, (double)rows[i].scale,
                     tm_picture_index(rows[i].value, rows[i].scale), rows[i].index);
}

__extension__ typedef unsigned __int128 uint128;

/* Positive, normal and below it, as m * 2^e. */
static uint64_t mantissa_of(float value, int *ret_exponent)
{
    uint64_t m = (uint64_t)ldexp((double)frexpf(value, ret_exponent), 24);
    *ret_exponent -= 24;
    return m;
}

/* The greatest n with (2n - 1) scale <= 254 value, in whole numbers. */
static unsigned exact_steps(float value, float scale)
{
    int value_exponent, scale_exponent;
    uint128 v = mantissa_of(value, &value_exponent), s = mantissa_of(scale, &scale_exponent);
    int shift = value_exponent - scale_exponent;
    if (shift > 2)
        return 127;
    if (shift < -60)
        return 0;
    v <<= shift > 0 ? shift : 0;
    s <<= shift < 0 ? -shift : 0;
    unsigned n = 0;
    while (n < 127 && (2 * n + 1) * s <= 254 * v)
        n++;
    return n;
}

static void any_two_floats_give_the_exact_step(void **state)
{
    (void)state;
    uint64_t seed = 1;
    size_t tried = 0, ties = 0;
    while (tried < 2000000) {
        float scale = float_of(next_random(&seed) & 0x7fffffff);
        uint32_t pick = next_random(&seed);
        unsigned n = pick % 127;
        /* A tie, (2n + 1) / 254 of the scale, or near it: the floats about it; else anything. */
        uint32_t bits = bits_of((float)((2 * n + 1) * (double)scale / 254));
        float value = float_of(pick >> 30 == 1 ? bits - 1 : pick >> 30 == 2 ? bits + 1 : bits);
        if (pick >> 30 == 3)
            value = scale * (float)(pick & 0xffff) / 65536;
        if (!(scale > 0) || !isfinite(scale) || !(value > 0) || !isfinite(value))
            continue;
        unsigned want = exact_steps(value, scale);
        if (tm_picture_index(value, scale) != 127 + want ||
            tm_picture_index(-value, scale) != 127 - want)
            fail_msg("%a of %a: %u, not %u", (double)value, (double)scale,
                     tm_picture_index(value, scale) - 127, want);
        ties += 254 * (double)value == (2 * n + 1) * (double)scale;
        tried++;
    }
    assert_true(ties > 1000);
}

/* ---- The scale ---- */

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static float naive_scale(const float *cells, size_t count)
{
    TM_AUTO_FREE float *sorted = tm_new_array(count + 1, sizeof(float));
    assert_non_null(sorted);
    size_t m = 0;
    for (size_t i = 0; i < count; i++)
        if (isfinite(cells[i]) && cells[i] != 0)
            sorted[m++] = fabsf(cells[i]);
    qsort(sorted, m, sizeof(float), compare_floats);
    return m ? sorted[(m - 1) * 99 / 100] : 0;
}

static void a_scale_is_the_99th_percentile_of_magnitudes(void **state)
{
    (void)state;
    enum {
        CELLS_MAX = 3000
    };
    static float cells[CELLS_MAX];
    uint64_t seed = 7;
    for (size_t count = 0; count < CELLS_MAX; count += count < 300 ? 1 : 271) {
        for (int kind = 0; kind < 4; kind++) {
            for (size_t i = 0; i < count; i++) {
                uint32_t bits = next_random(&seed);
                cells[i] = kind == 0   ? float_of(bits) /* infinities and NaN among them */
                           : kind == 1 ? (float)(int)(bits % 7) - 3
                           : kind == 2 ? (bits % 50 ? 0 : float_of(bits & 0x83ffffff))
                                       : 0.5f + (float)(bits % 1000) * 0x1p-24f;
            }
            assert_true(tm_picture_scale(cells, count) == naive_scale(cells, count));
        }
    }
}

static void cells_without_a_value_have_the_scale_zero(void **state)
{
    (void)state;
    static const float cells[] = {0, -0.0f, NAN, -NAN, INFINITY, -INFINITY, 0};
    assert_true(tm_picture_scale(cells, TM_ARRAY_LEN(cells)) == 0);
    assert_true(tm_picture_scale(NULL, 0) == 0);
}

static void a_scale_is_a_magnitude_that_a_cell_has(void **state)
{
    (void)state;
    static const struct {
        float cells[4];
        float scale;
    } rows[] = {
        {{0, 0, 0, -3}, 3},
        {{NAN, -INFINITY, FLT_TRUE_MIN, 0}, FLT_TRUE_MIN},
        {{FLT_MAX, FLT_MAX, -FLT_MAX, FLT_MAX}, FLT_MAX},
        {{1, 2, 3, 100}, 3},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++)
        assert_true(tm_picture_scale(rows[i].cells, 4) == rows[i].scale);
}

/* ---- The file ---- */

static void there_is_no_picture_without_cells_or_of_a_side_over_1024(void **state)
{
    (void)state;
    static const struct {
        uint64_t rows, cols, bytes;
    } rows[] = {
        {0, 0, 0},
        {0, 5, 0},
        {5, 0, 0},
        {1025, 1, 0},
        {1, 1025, 0},
        {UINT64_MAX, 1, 0},
        {1, (uint64_t)1 << 32 | 1, 0},
        /* 1143: as test_png.c has it, and six texts */
        {1, 1, 1143 + 2 + 5},
        {3, 2, 1143 + 9 + 5},
        {2, 3, 1143 + 8 + 5},
        {255, 256, 1143 + 65535 + 5},
        {256, 255, 1143 + 65536 + 10},
        {1024, 1024, 1143 + 1049600 + 85},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++)
        assert_int_equal(tm_picture_size(rows[i].rows, rows[i].cols), rows[i].bytes);
}

static void the_size_is_the_same_for_any_text(void **state)
{
    (void)state;
    static const float scales[] = {0, FLT_TRUE_MIN, FLT_MIN, 0.1f, 1, FLT_MAX};
    static const float cell = 1;
    uint8_t bytes[2048];
    uint64_t size = tm_picture_size(1, 1);
    for (unsigned level = 0; level <= TM_PICTURE_LEVEL_MAX; level++)
        for (tm_dtype dtype = 0; dtype < TM_DTYPE_COUNT; dtype++)
            for (size_t i = 0; i < TM_ARRAY_LEN(scales); i++) {
                memset(bytes, 0xa5, sizeof(bytes));
                tm_picture_write(&(tm_picture){.rows = 1,
                                               .cols = 1,
                                               .cells = &cell,
                                               .scale = scales[i],
                                               .level = level,
                                               .dtype = dtype},
                                 bytes);
                assert_memory_equal(bytes + size - 8, "IEND\xae\x42\x60\x82", 8);
                assert_int_equal(bytes[size], 0xa5);
            }
}

static void equal_cells_give_equal_bytes(void **state)
{
    (void)state;
    enum {
        SIDE = 300,
        BYTES = 100000
    };
    static float cells[SIDE * SIDE], copy[SIDE * SIDE];
    static uint8_t first[BYTES], second[BYTES];
    uint64_t seed = 3, size = tm_picture_size(SIDE, SIDE);
    assert_true(size <= BYTES);
    for (size_t i = 0; i < SIDE * SIDE; i++)
        cells[i] = float_of(next_random(&seed));
    memcpy(copy, cells, sizeof(cells));
    memset(second, 0xff, sizeof(second));
    tm_picture picture = {.rows = SIDE, .cols = SIDE, .cells = cells, .scale = 1};
    tm_picture_write(&picture, first);
    picture.cells = copy;
    tm_picture_write(&picture, second);
    assert_memory_equal(first, second, size);
}

static void a_cell_with_elements_that_are_not_finite_is_magenta(void **state)
{
    (void)state;
    static const float cells[] = {0, 0.25f, -1, NAN, 1, INFINITY};
    static const float nonfinite[] = {0, 1, 256, 4, 0, 0};
    static const uint8_t without[] = {0, 127, 159, 0, 255, 254, 255};
    static const uint8_t with[] = {0, 127, 255, 255, 255, 254, 255};
    uint8_t bytes[2048];
    uint64_t size = tm_picture_size(1, 6);
    tm_picture picture = {.rows = 1, .cols = 6, .cells = cells, .scale = 1};
    /* The one row, its filter's byte first, stands before two checksums and IEND. */
    const uint8_t *row = bytes + size - 12 - 4 - 4 - sizeof(with);
    tm_picture_write(&picture, bytes);
    assert_memory_equal(row, without, sizeof(without));
    picture.nonfinite = nonfinite;
    tm_picture_write(&picture, bytes);
    assert_memory_equal(row, with, sizeof(with));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_has_the_colour_of_the_nearest_step),
        cmocka_unit_test(any_two_floats_give_the_exact_step),
        cmocka_unit_test(a_scale_is_the_99th_percentile_of_magnitudes),
        cmocka_unit_test(cells_without_a_value_have_the_scale_zero),
        cmocka_unit_test(a_scale_is_a_magnitude_that_a_cell_has),
        cmocka_unit_test(there_is_no_picture_without_cells_or_of_a_side_over_1024),
        cmocka_unit_test(the_size_is_the_same_for_any_text),
        cmocka_unit_test(equal_cells_give_equal_bytes),
        cmocka_unit_test(a_cell_with_elements_that_are_not_finite_is_magenta),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
