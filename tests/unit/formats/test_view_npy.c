/*
 * data.npy and single values against a naive rendering of the same stored bytes: every dtype, every
 * rank, zero dimensions, in any window.
 */
#include "formats/view_npy.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/convert.h"
#include "core/read.h"
#include "core/text.h"
#include "tests/unit/core/held.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static tm_sched *sched;

static int start_threads(void **state)
{
    (void)state;
    return tm_sched_new(&(tm_sched_params){.workers = 2, .io = 2}, &sched);
}

static int stop_threads(void **state)
{
    (void)state;
    tm_sched_free(sched);
    return 0;
}

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* ---- What stored bits mean, by the specifications alone ---- */

typedef struct float_format {
    tm_dtype dtype;
    int exponent_bits, mantissa_bits, bias;
    enum {
        IEEE,
        NAN_ALONE,
        NO_NAN,
        FNUZ
    } specials;
} float_format;

static const float_format float_formats[] = {
    {TM_F4, 2, 1, 1, NO_NAN},         {TM_F8_E5M2, 5, 2, 15, IEEE},
    {TM_F8_E4M3, 4, 3, 7, NAN_ALONE}, {TM_F8_E4M3FNUZ, 4, 3, 8, FNUZ},
    {TM_F8_E5M2FNUZ, 5, 2, 16, FNUZ}, {TM_F16, 5, 10, 15, IEEE},
    {TM_BF16, 8, 7, 127, IEEE},
};

static float naive_float(const float_format *f, uint32_t code)
{
    int exponent_mask = (1 << f->exponent_bits) - 1, mantissa_mask = (1 << f->mantissa_bits) - 1;
    int exponent = (int)(code >> f->mantissa_bits) & exponent_mask;
    int mantissa = (int)code & mantissa_mask;
    int sign = (int)(code >> (f->exponent_bits + f->mantissa_bits)) & 1;
    bool is_top = exponent == exponent_mask;
    if ((f->specials == IEEE && is_top && mantissa) ||
        (f->specials == NAN_ALONE && is_top && mantissa == mantissa_mask) ||
        (f->specials == FNUZ && sign && !exponent && !mantissa))
        return NAN;
    float size = f->specials == IEEE && is_top ? INFINITY
                 : exponent                    ? ldexpf((float)(mantissa + mantissa_mask + 1),
                                                        exponent - f->bias - f->mantissa_bits)
                            : ldexpf((float)mantissa, 1 - f->bias - f->mantissa_bits);
    return sign ? -size : size;
}

/* Element INDEX of the floats that data.npy shows as f32. */
static float naive_f32(tm_dtype dtype, const uint8_t *bytes, uint64_t index)
{
    if (dtype == TM_F32) {
        float v;
        memcpy(&v, bytes + 4 * index, 4);
        return v;
    }
    if (dtype == TM_F8_E8M0)
        return bytes[index] == 0xff ? NAN : ldexpf(1, bytes[index] - 127);
    for (size_t i = 0; i < TM_ARRAY_LEN(float_formats); i++) {
        if (float_formats[i].dtype != dtype)
            continue;
        uint32_t code = dtype == TM_F4 ? (uint32_t)bytes[index / 2] >> (index % 2 ? 4 : 0) & 15
                        : tm_dtype_get(dtype)->bits == 8
                            ? bytes[index]
                            : bytes[2 * index] + 256u * bytes[2 * index + 1];
        return naive_float(&float_formats[i], code);
    }
    fail_msg("no naive decoding of %s", tm_dtype_get(dtype)->name);
    return 0;
}

static bool is_shown_as_f32(tm_dtype dtype)
{
    return tm_dtype_get(dtype)->is_float && dtype != TM_F64;
}

/* ---- The naive file ---- */

static const char *naive_descr(tm_dtype dtype)
{
    switch (dtype) {
    case TM_BOOL:
        return "|b1";
    case TM_U8:
        return "|u1";
    case TM_I8:
        return "|i1";
    case TM_I16:
        return "<i2";
    case TM_U16:
        return "<u2";
    case TM_I32:
        return "<i4";
    case TM_U32:
        return "<u4";
    case TM_C64:
        return "<c8";
    case TM_F64:
        return "<f8";
    case TM_I64:
        return "<i8";
    case TM_U64:
        return "<u8";
    default:
        return "<f4";
    }
}

static void put_naive_header(tm_text *t, tm_dtype dtype, const uint64_t *dims, size_t rank)
{
    tm_text dict;
    tm_text_init(&dict);
    tm_text_printf(&dict, "{'descr': '%s', 'fortran_order': False, 'shape': (", naive_descr(dtype));
    for (size_t i = 0; i < rank; i++)
        tm_text_printf(&dict, "%s%" PRIu64 "%s", i ? ", " : "", dims[i], rank == 1 ? "," : "");
    tm_text_puts(&dict, "), }");
    size_t prefix = 10, len = 0;
    for (;;) { /* NEP 1: magic, version, length and header together are a multiple of 64 */
        for (len = dict.len + 1; (prefix + len) % 64; len++)
            continue;
        if (len < 65536 || prefix == 12)
            break;
        prefix = 12;
    }
    tm_text_append(t, prefix == 10 ? "\x93NUMPY\x01\x00" : "\x93NUMPY\x02\x00", 8);
    for (size_t i = 8; i < prefix; i++)
        tm_text_append(t, &(char){(char)(len >> (8 * (i - 8)))}, 1);
    tm_text_append(t, dict.bytes, dict.len);
    tm_text_pad(t, len - dict.len - 1);
    tm_text_puts(t, "\n");
    tm_text_done(&dict);
}

static uint64_t elems_of(const uint64_t *dims, size_t rank)
{
    uint64_t elems = 1;
    for (size_t i = 0; i < rank; i++)
        elems *= dims[i];
    return elems;
}

/* A tensor over bytes of its own that stand at an odd place of a blob, as they may in a file. */
typedef struct sample {
    tm_dtype dtype;
    const uint64_t *dims;
    size_t rank;
    uint64_t elems, bytes_len;
    uint8_t *bytes;
    tm_tensor *tensor;
    tm_text file; /* what data.npy must be */
} sample;

static void sample_init(sample *s, tm_dtype dtype, const uint64_t *dims, size_t rank)
{
    enum {
        BEFORE = 3
    };
    tm_blob *whole, *bytes;
    uint64_t seed = dtype * 100 + rank;
    *s = (sample){.dtype = dtype, .dims = dims, .rank = rank, .elems = elems_of(dims, rank)};
    assert_true(tm_dtype_bytes(dtype, s->elems, &s->bytes_len));
    uint8_t *stored = malloc(BEFORE + s->bytes_len + 1);
    s->bytes = malloc(s->bytes_len + 1);
    assert_non_null(stored);
    assert_non_null(s->bytes);
    for (uint64_t i = 0; i < s->bytes_len; i++)
        s->bytes[i] = (uint8_t)(next_random(&seed) & (dtype == TM_BOOL ? 1 : 255));
    memcpy(stored + BEFORE, s->bytes, s->bytes_len);
    assert_int_equal(tm_blob_mem_take(stored, BEFORE + s->bytes_len, &whole), 0);
    assert_int_equal(tm_blob_slice_new(whole, BEFORE, s->bytes_len, &bytes), 0);
    assert_int_equal(tm_tensor_blob_new(bytes, dtype, dims, rank, &s->tensor), 0);
    tm_blob_unref(whole);
    tm_blob_unref(bytes);
    tm_text_init(&s->file);
    put_naive_header(&s->file, dtype, dims, rank);
    if (!is_shown_as_f32(dtype))
        tm_text_append(&s->file, s->bytes, s->bytes_len);
    for (uint64_t i = 0; is_shown_as_f32(dtype) && i < s->elems; i++) {
        float v = naive_f32(dtype, s->bytes, i);
        tm_text_append(&s->file, &v, sizeof(v));
    }
    assert_int_equal(tm_text_error(&s->file), 0);
}

static void sample_done(sample *s)
{
    tm_tensor_unref(s->tensor);
    tm_text_done(&s->file);
    free(s->bytes);
}

static void read_window(tm_blob *blob, uint64_t off, size_t len, void *dst)
{
    tm_req req;
    tm_req_init(&req, TM_LANE_VISIBLE);
    req.may_block = true;
    assert_int_equal(tm_read_wait(sched, blob, off, len, dst, &req), 0);
    assert_string_equal(tm_req_words(&req), "");
}

/* A NaN is told by being one: which bits it has is the conversion's own test. */
static bool same_f32_bytes(const uint8_t *a, const uint8_t *b)
{
    float x, y;
    memcpy(&x, a, 4);
    memcpy(&y, b, 4);
    return (isnan(x) && isnan(y)) || memcmp(a, b, 4) == 0;
}

/* Where the whole file, as read, differs from the naive one: its bytes become the reference for
 * windows then, so that windows are compared to the bit. */
static void expect_whole(sample *s, tm_blob *blob)
{
    uint8_t *bytes = malloc(blob->size);
    assert_non_null(bytes);
    assert_int_equal(blob->size, s->file.len);
    read_window(blob, 0, blob->size, bytes);
    uint64_t payload = is_shown_as_f32(s->dtype) ? 4 * s->elems : 0;
    uint64_t exact = s->file.len - payload;
    if (memcmp(bytes, s->file.bytes, exact) != 0)
        fail_msg("%s, rank %zu: header or payload differs", tm_dtype_get(s->dtype)->name, s->rank);
    for (uint64_t i = exact; i < s->file.len; i += 4)
        if (!same_f32_bytes(bytes + i, (uint8_t *)s->file.bytes + i))
            fail_msg("%s, rank %zu: element %" PRIu64, tm_dtype_get(s->dtype)->name, s->rank,
                     (i - exact) / 4);
    memcpy(s->file.bytes, bytes, s->file.len);
    free(bytes);
}

static void expect_window(const sample *s, tm_blob *blob, uint64_t off, size_t len)
{
    uint8_t *bytes = malloc(len + 1);
    assert_non_null(bytes);
    bytes[len] = 0x55;
    read_window(blob, off, len, bytes);
    if (memcmp(bytes, s->file.bytes + off, len) != 0 || bytes[len] != 0x55)
        fail_msg("%s, rank %zu: window of %zu bytes at %" PRIu64, tm_dtype_get(s->dtype)->name,
                 s->rank, len, off);
    free(bytes);
}

static void expect_npy(sample *s, int windows)
{
    tm_blob *blob;
    uint64_t seed = s->elems;
    assert_int_equal(tm_view_npy_new(s->tensor, &blob), 0);
    assert_int_equal(tm_view_npy_size(s->dtype, s->dims, s->rank), s->file.len);
    assert_int_equal(
        (s->file.len - s->elems * tm_dtype_get(tm_dtype_get(s->dtype)->npy)->bits / 8) % 64, 0);
    expect_whole(s, blob);
    for (int i = 0; i < windows; i++) {
        uint64_t off = next_random(&seed) % s->file.len;
        size_t most = i % 3 ? tm_min_u64(s->file.len - off, 40) : s->file.len - off;
        expect_window(s, blob, off, 1 + next_random(&seed) % most);
    }
    tm_blob_unref(blob);
}

/* ---- Shapes ---- */

typedef struct shape {
    uint64_t dims[4];
    size_t rank;
    bool odd; /* elements that do not fill bytes of F4 */
} shape;

static const shape shapes[] = {
    {{0}, 0, true},
    {{1}, 1, true},
    {{7}, 1, true},
    {{8}, 1, false},
    {{3, 5}, 2, true},
    {{5, 8}, 2, false},
    {{300, 4}, 2, false},
    {{3, 4, 6}, 3, false},
    {{1, 1, 1}, 3, true},
    {{2, 3, 2, 4}, 4, false},
    {{1, 130, 1, 2}, 4, false},
    {{0}, 1, false},
    {{0, 3}, 2, false},
    {{3, 0}, 2, false},
    {{2, 0, 4}, 3, false},
    {{2, 3, 0, 2}, 4, false},
};

static bool has_values(tm_dtype dtype)
{
    return !tm_dtype_get(dtype)->is_opaque;
}

static bool fits(tm_dtype dtype, const shape *s)
{
    return has_values(dtype) && !(s->odd && tm_dtype_get(dtype)->bits < 8);
}

static void every_dtype_and_rank_equals_the_naive_file_in_any_window(void **state)
{
    (void)state;
    for (int d = 0; d < TM_DTYPE_COUNT; d++) {
        for (size_t i = 0; i < TM_ARRAY_LEN(shapes); i++) {
            if (!fits((tm_dtype)d, &shapes[i]))
                continue;
            sample s;
            sample_init(&s, (tm_dtype)d, shapes[i].dims, shapes[i].rank);
            expect_npy(&s, 60);
            sample_done(&s);
        }
    }
}

static void large_tensors_are_right_where_windows_of_the_reader_meet(void **state)
{
    (void)state;
    static const uint64_t dims[] = {3, 1000, 402};
    static const tm_dtype dtypes[] = {TM_BF16, TM_F4, TM_F8_E4M3, TM_F32, TM_I16, TM_C64};
    for (size_t i = 0; i < TM_ARRAY_LEN(dtypes); i++) {
        sample s;
        sample_init(&s, dtypes[i], dims, 3);
        expect_npy(&s, 60);
        sample_done(&s);
    }
}

/* A view of a view: rows and columns of a matrix are files of their own. */
static void a_box_of_any_dtype_equals_the_naive_file_of_its_elements(void **state)
{
    (void)state;
    static const uint64_t dims[] = {40, 26}, box_dims[] = {11, 9};
    const tm_range ranges[] = {{5, 11}, {13, 9}};
    for (int d = 0; d < TM_DTYPE_COUNT; d++) {
        if (!has_values((tm_dtype)d))
            continue;
        sample whole, box;
        unsigned bytes = tm_dtype_get((tm_dtype)d)->bits / 8;
        sample_init(&whole, (tm_dtype)d, dims, 2);
        tm_dtype shown = bytes ? (tm_dtype)d : TM_F32; /* a box of narrower ones is f32 */
        sample_init(&box, shown, box_dims, 2);
        tm_tensor_unref(box.tensor);
        assert_int_equal(tm_tensor_box_new(whole.tensor, ranges, &box.tensor), 0);
        size_t width = is_shown_as_f32(shown) ? 4 : bytes;
        uint8_t *to = (uint8_t *)box.file.bytes + box.file.len - box.elems * width;
        const uint8_t *from =
            (const uint8_t *)whole.file.bytes + whole.file.len - whole.elems * width;
        for (uint64_t row = 0; row < 11; row++)
            memcpy(to + row * 9 * width, from + ((5 + row) * 26 + 13) * width, 9 * width);
        expect_npy(&box, 60);
        sample_done(&whole);
        sample_done(&box);
    }
}

/* ---- The header and the size ---- */

static void a_header_over_64_kib_is_of_version_2(void **state)
{
    (void)state;
    enum {
        RANK_MAX = 22000
    };
    uint64_t *dims = tm_new_array(RANK_MAX, sizeof(*dims));
    assert_non_null(dims);
    for (size_t i = 0; i < RANK_MAX; i++)
        dims[i] = 1;
    unsigned versions[3] = {0};
    for (size_t rank = 21700; rank < RANK_MAX; rank += 7) {
        sample s;
        sample_init(&s, TM_U8, dims, rank);
        versions[(unsigned char)s.file.bytes[6]]++;
        expect_npy(&s, 2);
        sample_done(&s);
    }
    assert_true(versions[1] > 0 && versions[2] > 0);
    free(dims);
}

static void a_size_that_fits_no_file_is_0(void **state)
{
    (void)state;
    static const struct {
        uint64_t dims[4];
        size_t rank;
        tm_dtype dtype;
        uint64_t expected;
    } rows[] = {
        {{UINT64_MAX}, 1, TM_U8, 0},
        {{UINT64_MAX - 128}, 1, TM_U8, UINT64_MAX},
        {{UINT64_MAX - 127}, 1, TM_U8, 0},
        {{UINT64_C(1) << 62}, 1, TM_BF16, 0},
        {{UINT64_C(1) << 61}, 1, TM_BF16, (UINT64_C(1) << 63) + 128},
        {{UINT64_C(1) << 61}, 1, TM_F64, 0},
        {{UINT64_C(1) << 32, UINT64_C(1) << 32}, 2, TM_U8, 0},
        {{UINT64_C(1) << 32, UINT64_C(1) << 32, 0}, 3, TM_F64, 128},
        {{0, UINT64_MAX, UINT64_MAX, UINT64_MAX}, 4, TM_F64, 192},
        {{1, 1, 1, 1}, 4, TM_F6_E2M3, 132},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++)
        assert_int_equal(tm_view_npy_size(rows[i].dtype, rows[i].dims, rows[i].rank),
                         rows[i].expected);
}

/* ---- One value ---- */

static void naive_value(const sample *s, uint64_t index, char ret[TM_VALUE_TEXT_MAX])
{
    unsigned bits = tm_dtype_get(s->dtype)->bits;
    int64_t v = 0;
    double d;
    if (is_shown_as_f32(s->dtype)) {
        tm_double_text((double)naive_f32(s->dtype, s->bytes, index), ret);
        return;
    }
    memcpy(&v, s->bytes + index * (bits / 8), bits / 8);
    if (s->dtype == TM_F64) {
        memcpy(&d, &v, sizeof(d));
        tm_double_text(d, ret);
        return;
    }
    bool is_signed = tm_dtype_get(s->dtype)->name[0] == 'I';
    if (is_signed && bits < 64 && v >> (bits - 1))
        v -= INT64_C(1) << bits;
    snprintf(ret, TM_VALUE_TEXT_MAX, is_signed ? "%" PRId64 : "%" PRIu64, v);
}

static void expect_value_file(const sample *s, uint64_t index, bool every_window)
{
    tm_blob *blob;
    char text[TM_VALUE_TEXT_MAX], file[64], got[64];
    naive_value(s, index, text);
    assert_int_equal(snprintf(file, sizeof(file), "%24s\n", text), TM_VALUE_FILE_BYTES);
    assert_int_equal(tm_view_value_new(s->tensor, index, &blob), 0);
    assert_int_equal(blob->size, TM_VALUE_FILE_BYTES);
    for (size_t off = 0; off < (every_window ? TM_VALUE_FILE_BYTES : 1); off++) {
        for (size_t len = every_window ? 1 : TM_VALUE_FILE_BYTES; len <= TM_VALUE_FILE_BYTES - off;
             len++) {
            read_window(blob, off, len, got);
            if (memcmp(got, file + off, len) != 0)
                fail_msg("%s: element %" PRIu64 " is %.25s, not %s", tm_dtype_get(s->dtype)->name,
                         index, got, text);
        }
    }
    tm_blob_unref(blob);
}

static void a_value_at_every_index_is_its_text_to_the_right_of_25_bytes(void **state)
{
    (void)state;
    for (int d = 0; d < TM_DTYPE_COUNT; d++) {
        for (size_t i = 0; i < TM_ARRAY_LEN(shapes); i++) {
            if (!fits((tm_dtype)d, &shapes[i]) || d == TM_C64)
                continue;
            sample s;
            sample_init(&s, (tm_dtype)d, shapes[i].dims, shapes[i].rank);
            for (uint64_t index = 0; index < s.elems; index++)
                expect_value_file(&s, index, index < 2);
            sample_done(&s);
        }
    }
}

/* Values at every index of a vector of these BYTES. */
static void expect_vector(tm_dtype dtype, const void *bytes, uint64_t count)
{
    sample s;
    tm_blob *blob;
    sample_init(&s, dtype, &count, 1);
    memcpy(s.bytes, bytes, s.bytes_len);
    tm_tensor_unref(s.tensor);
    assert_int_equal(tm_blob_mem_new(bytes, s.bytes_len, &blob), 0);
    assert_int_equal(tm_tensor_blob_new(blob, dtype, &count, 1, &s.tensor), 0);
    tm_blob_unref(blob);
    for (uint64_t i = 0; i < count; i++)
        expect_value_file(&s, i, true);
    sample_done(&s);
}

static void the_longest_values_fill_the_file(void **state)
{
    (void)state;
    static const double doubles[] = {
        -2.2250738585072014e-308, -1.7976931348623157e308, 5e-324, NAN, -INFINITY, -0.0};
    static const int64_t ints[] = {INT64_MIN, INT64_MAX, -1};
    expect_vector(TM_F64, doubles, TM_ARRAY_LEN(doubles));
    expect_vector(TM_I64, ints, TM_ARRAY_LEN(ints));
    expect_vector(TM_U64, ints, TM_ARRAY_LEN(ints));
}

static void a_value_of_complex_numbers_is_refused_with_words(void **state)
{
    (void)state;
    static const uint64_t dims[] = {2};
    sample s;
    tm_blob *blob;
    tm_req req;
    char file[TM_VALUE_FILE_BYTES];
    sample_init(&s, TM_C64, dims, 1);
    assert_int_equal(tm_view_value_new(s.tensor, 1, &blob), 0);
    tm_req_init(&req, TM_LANE_SCALAR);
    req.may_block = true;
    assert_int_equal(tm_read_wait(sched, blob, 0, sizeof(file), file, &req), -EOPNOTSUPP);
    assert_string_equal(tm_req_words(&req), "C64 values have no text");
    tm_blob_unref(blob);
    sample_done(&s);
}

/* ---- What stays open ---- */

/* The npy file of TENSOR and its element 1 as text hold BYTES. */
static void expect_views_hold(tm_tensor *tensor, held_blob *const *bytes, size_t count)
{
    tm_blob *npy, *value;
    assert_int_equal(tm_view_npy_new(tensor, &npy), 0);
    assert_int_equal(tm_view_value_new(tensor, 1, &value), 0);
    expect_holds(&(holder){.blob = npy}, bytes, count);
    expect_holds(&(holder){.blob = value}, bytes, count);
    tm_blob_unref(npy);
    tm_blob_unref(value);
}

static void a_view_holds_all_that_its_tensor_is_read_from(void **state)
{
    (void)state;
    static const uint64_t dims[] = {4, 6}, grid[] = {4, 1};
    static const tm_dtype dtypes[] = {TM_F32, TM_BF16, TM_F4, TM_I64};
    held_blob *bytes[2];
    for (size_t i = 0; i < TM_ARRAY_LEN(dtypes); i++) {
        tm_tensor *tensor = held_tensor(dtypes[i], dims, 2, &bytes[0]), *row;
        assert_int_equal(tm_tensor_take_new(tensor, 0, 2, &row), 0);
        expect_views_hold(tensor, bytes, 1);
        expect_views_hold(row, bytes, 1);
        tm_tensor_unref(row);
        tm_tensor_unref(tensor);
    }
    tm_tensor *codes = held_tensor(TM_F8_E4M3, dims, 2, &bytes[0]);
    tm_tensor *scales = held_tensor(TM_F32, grid, 2, &bytes[1]), *values;
    assert_int_equal(tm_tensor_scaled_new(&(tm_scaling){codes, scales, 1, 6}, &values), 0);
    expect_views_hold(values, bytes, 2);
    tm_tensor_unref(codes);
    tm_tensor_unref(scales);
    tm_tensor_unref(values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_and_rank_equals_the_naive_file_in_any_window),
        cmocka_unit_test(large_tensors_are_right_where_windows_of_the_reader_meet),
        cmocka_unit_test(a_box_of_any_dtype_equals_the_naive_file_of_its_elements),
        cmocka_unit_test(a_header_over_64_kib_is_of_version_2),
        cmocka_unit_test(a_size_that_fits_no_file_is_0),
        cmocka_unit_test(a_value_at_every_index_is_its_text_to_the_right_of_25_bytes),
        cmocka_unit_test(the_longest_values_fill_the_file),
        cmocka_unit_test(a_value_of_complex_numbers_is_refused_with_words),
        cmocka_unit_test(a_view_holds_all_that_its_tensor_is_read_from),
    };
    return cmocka_run_group_tests_name("view_npy", tests, start_threads, stop_threads);
}
