/*
 * Speed of every conversion at every level of this machine, beside memcpy of as many bytes.
 *
 *     convert [OUTPUT_KIB ...]     sizes of the output; default 256 (stays in cache) and 131072
 *
 * GB/s counts the bytes of output; of five rounds the best.
 */
#include <stdio.h>

#include "core/convert.h"

enum {
    ROUNDS = 5,
    ROUND_NS = 20000000
};

typedef struct job {
    tm_decode_f32_fn *fn; /* NULL: memcpy */
    const void *src;
    float *dst;
    size_t n;
} job;

static void once(const job *what)
{
    if (what->fn)
        what->fn(what->src, what->dst, what->n);
    else
        memcpy(what->dst, what->src, what->n * sizeof(*what->dst));
    __asm__ volatile("" : : "r"(what->dst) : "memory"); /* the bytes count as read */
}

static double gb_per_second(const job *what)
{
    double best = 0;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t begin = tm_now_ns(), end = begin, calls = 0;
        for (; end - begin < ROUND_NS; end = tm_now_ns(), calls++)
            once(what);
        double speed = (double)calls * (double)what->n * sizeof(float) / (double)(end - begin);
        best = speed > best ? speed : best;
    }
    return best;
}

/* Random bits: every kind of number, subnormals and NaN too. */
static void fill(uint8_t *src, size_t bytes)
{
    uint64_t state = 88172645463325252u;
    for (size_t i = 0; i + sizeof(state) <= bytes; i += sizeof(state)) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        memcpy(src + i, &state, sizeof(state));
    }
}

static void bench_dtype(tm_dtype dtype, const uint8_t *src, float *dst, size_t n)
{
    double copy = gb_per_second(&(job){.fn = NULL, .src = src, .dst = dst, .n = n});
    printf("%-12s %8.2f", tm_dtype_get(dtype)->name, copy);
    for (int l = 0; l < TM_CPU_LEVEL_COUNT; l++) {
        if (!tm_cpu_has((tm_cpu_level)l))
            continue;
        tm_decode_f32_fn *fn = tm_convert_get((tm_cpu_level)l)->decode_f32[dtype];
        double speed = gb_per_second(&(job){.fn = fn, .src = src, .dst = dst, .n = n});
        printf(" %8.2f %5.2f", speed, speed / copy);
    }
    printf("\n");
}

static void bench_text(void)
{
    static const struct {
        const char *what;
        double first, step;
    } kinds[] = {{"whole numbers", 1, 1}, {"short decimals", 0.125, 0.125}, {"floats", 0, 0}};
    enum {
        TEXTS = 200000
    };
    for (size_t k = 0; k < TM_ARRAY_LEN(kinds); k++) {
        char text[TM_VALUE_TEXT_MAX];
        double value = kinds[k].first;
        float single = 0.1f;
        uint64_t begin = tm_now_ns();
        for (int i = 0; i < TEXTS; i++) {
            single *= 1.00001f;
            tm_double_text(kinds[k].step > 0 ? value : (double)single, text);
            value += kinds[k].step;
        }
        uint64_t ns = tm_now_ns() - begin;
        printf("text of %-16s %6.0f ns each\n", kinds[k].what, (double)ns / TEXTS);
    }
}

static int bench_size(size_t kib)
{
    size_t n = kib * 1024 / sizeof(float);
    TM_AUTO_FREE uint8_t *src = tm_new_array(n, sizeof(uint64_t));
    TM_AUTO_FREE float *dst = tm_new_array(n, sizeof(float));
    if (!src || !dst)
        return -ENOMEM;
    fill(src, n * sizeof(uint64_t));

    printf("%zu KiB of output, GB/s\n%-12s %8s", kib, "dtype", "memcpy");
    for (int l = 0; l < TM_CPU_LEVEL_COUNT; l++)
        if (tm_cpu_has((tm_cpu_level)l))
            printf(" %8s ratio", tm_cpu_level_name((tm_cpu_level)l));
    printf("\n");
    for (int d = 0; d < TM_DTYPE_COUNT; d++)
        if (tm_convert_get(TM_CPU_SCALAR)->decode_f32[d])
            bench_dtype((tm_dtype)d, src, dst, n);
    return 0;
}

int main(int argc, char **argv)
{
    static const size_t default_kib[] = {256, 131072};
    int sizes = argc > 1 ? argc - 1 : (int)TM_ARRAY_LEN(default_kib);
    for (int i = 0; i < sizes; i++) {
        size_t kib = argc > 1 ? strtoul(argv[i + 1], NULL, 10) : default_kib[i];
        if (kib == 0 || kib > 1u << 22 || bench_size(kib) < 0) {
            fprintf(stderr, "convert: cannot run with %zu KiB\n", kib);
            return 2;
        }
    }
    bench_text();
    return 0;
}
