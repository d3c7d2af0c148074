/*
 * Writes what the best level of this machine decodes, and how doubles print, for
 * convert_expected.py to check: convert_dump DIR makes DIR/decode.bin and DIR/text.tsv.
 *
 * decode.bin is a row of records: name (16 bytes, zero-padded), u64 elements, u64 bytes of source,
 * source, elements as f32. text.tsv has a line for each double: its bits in hex, its text.
 */
#include <inttypes.h>
#include <stdio.h>

#include "core/convert.h"
#include "tests/unit/core/convert_sources.h"

static void die(const char *what)
{
    perror(what);
    exit(2);
}

static FILE *open_in(const char *dir, const char *name)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    if (!file)
        die(path);
    return file;
}

static void put(FILE *file, const void *data, size_t bytes)
{
    if (fwrite(data, 1, bytes, file) != bytes)
        die("write");
}

static void dump_dtype(FILE *file, tm_dtype dtype)
{
    static uint8_t src[SOURCE_BYTES_MAX];
    static float dst[SOURCE_ELEMS_MAX];
    const tm_convert *convert = tm_convert_get(tm_cpu_best());
    if (!convert->decode_f32[dtype])
        return;

    char name[16] = "";
    snprintf(name, sizeof(name), "%s", tm_dtype_get(dtype)->name);
    uint64_t n = fill_source(dtype, src);
    uint64_t bytes;
    if (!tm_dtype_bytes(dtype, n, &bytes))
        die("tm_dtype_bytes");
    convert->decode_f32[dtype](src, dst, n);
    put(file, name, sizeof(name));
    put(file, &n, sizeof(n));
    put(file, &bytes, sizeof(bytes));
    put(file, src, bytes);
    put(file, dst, n * sizeof(*dst));
}

static void dump_text(FILE *file, uint64_t bits)
{
    double value;
    char text[TM_VALUE_TEXT_MAX];
    memcpy(&value, &bits, sizeof(value));
    tm_double_text(value, text);
    fprintf(file, "%016" PRIx64 "\t%s\n", bits, text);
}

static void dump_texts(FILE *file)
{
    uint64_t state = 88172645463325252u;
    for (uint64_t exponent = 0; exponent < 2048; exponent++)
        for (uint64_t mantissa = 0; mantissa < 3; mantissa++)
            dump_text(file, exponent << 52 | mantissa);
    for (int i = 0; i < 50000; i++) {
        uint64_t r = next_random(&state);
        float single = (float)(int32_t)r * 0x1p-31f;
        double values[] = {(double)single, (double)(int64_t)r, (double)(r % 1000000) / 1000};
        uint64_t mantissa = next_random(&state) & ((1ull << 52) - 1);
        dump_text(file, r);
        dump_text(file, (1023 - 40 + r % 96) << 52 | mantissa); /* about 1e-12 to 1e17 */
        for (size_t k = 0; k < TM_ARRAY_LEN(values); k++) {
            uint64_t bits;
            memcpy(&bits, &values[k], sizeof(bits));
            dump_text(file, bits);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: convert_dump DIR\n");
        return 2;
    }
    FILE *decode = open_in(argv[1], "decode.bin");
    for (int i = 0; i < TM_DTYPE_COUNT; i++)
        dump_dtype(decode, (tm_dtype)i);
    FILE *text = open_in(argv[1], "text.tsv");
    dump_texts(text);
    if (fclose(decode) != 0 || fclose(text) != 0)
        die("close");
    return 0;
}
