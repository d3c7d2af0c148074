/*
 * A reader of one file, as loaders read: prints the seconds and GB/s (1e9) of one pass.
 *
 *     reader MODE FILE [THREADS [BLOCK_BYTES]]
 *
 * MODE: read (one thread, in order), pread (each thread its share), direct (the same with
 * O_DIRECT), mmap (maps shared and sums it all). Buffers are touched before the clock starts.
 * "cold" before MODE gives up the file's cached pages first (of a FUSE file: those of the mount).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    BLOCK_DEFAULT = 1 << 20,
    THREADS_MAX = 64,
    ALIGNMENT = 1 << 21
};

typedef struct job {
    int fd;
    const unsigned char *map; /* mmap mode; else NULL */
    unsigned char *buffer;
    size_t block;
    uint64_t begin, end;
    uint64_t sum;
    int error;
    pthread_t thread;
} job;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A sum over all bytes, by words, so that none can be left out and memory is what limits it. */
static uint64_t sum_bytes(const unsigned char *p, uint64_t n)
{
    enum {
        LANES = 8
    };
    uint64_t sums[LANES] = {0}, i = 0;
    for (; i + sizeof(sums) <= n; i += sizeof(sums)) {
        uint64_t words[LANES];
        memcpy(words, p + i, sizeof(words));
        for (int lane = 0; lane < LANES; lane++)
            sums[lane] += words[lane];
    }
    for (; i < n; i++)
        sums[0] += p[i];
    for (int lane = 1; lane < LANES; lane++)
        sums[0] += sums[lane];
    return sums[0];
}

static void *run_map(void *arg)
{
    job *j = arg;
    j->sum = sum_bytes(j->map + j->begin, j->end - j->begin);
    return NULL;
}

static void *run_pread(void *arg)
{
    job *j = arg;
    for (uint64_t at = j->begin; at < j->end;) {
        uint64_t left = j->end - at;
        /* O_DIRECT wants whole blocks; what lies past the end is not there to be read */
        ssize_t n = pread(j->fd, j->buffer, j->block, (off_t)at);
        if (n <= 0) {
            j->error = n < 0 ? errno : EIO;
            return NULL;
        }
        j->sum += j->buffer[0];
        at += (uint64_t)n < left ? (uint64_t)n : left;
    }
    return NULL;
}

/* Divides [0, size) into shares of whole blocks. */
static void divide(job *jobs, unsigned threads, uint64_t size, size_t block)
{
    uint64_t blocks = (size + block - 1) / block;
    for (unsigned i = 0; i < threads; i++) {
        uint64_t end = blocks * (i + 1) / threads * block;
        jobs[i].begin = blocks * i / threads * block;
        jobs[i].end = end < size ? end : size;
    }
}

static int run(job *jobs, unsigned threads, void *(*work)(void *), double *ret_seconds)
{
    double start = now();
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&jobs[i].thread, NULL, work, &jobs[i]) != 0)
            abort();
    for (unsigned i = 0; i < threads; i++)
        pthread_join(jobs[i].thread, NULL);
    *ret_seconds = now() - start;
    for (unsigned i = 0; i < threads; i++)
        if (jobs[i].error)
            return jobs[i].error;
    return 0;
}

static int prepare(job *jobs, unsigned threads, int fd, const unsigned char *map, size_t block)
{
    for (unsigned i = 0; i < threads; i++) {
        jobs[i] = (job){.fd = fd, .map = map, .block = block};
        jobs[i].buffer = map ? NULL : aligned_alloc(ALIGNMENT, ALIGNMENT * (block / ALIGNMENT + 1));
        if (!map && !jobs[i].buffer)
            return ENOMEM;
        if (!map)
            memset(jobs[i].buffer, 1, block);
    }
    return 0;
}

static int measure(const char *mode, const char *path, unsigned threads, size_t block, bool cold)
{
    static job jobs[THREADS_MAX];
    int fd = open(path, O_RDONLY | (strcmp(mode, "direct") == 0 ? O_DIRECT : 0));
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0 || st.st_size == 0) {
        fprintf(stderr, "%s: %s\n", path, fd < 0 ? strerror(errno) : "empty");
        return 1;
    }
    if (cold)
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    uint64_t size = (uint64_t)st.st_size, sum = 0;
    void *map = NULL;
    if (strcmp(mode, "mmap") == 0) {
        map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED) {
            fprintf(stderr, "%s: mmap: %s\n", path, strerror(errno));
            return 1;
        }
    }
    double seconds = 0;
    int error = prepare(jobs, threads, fd, map, block);
    divide(jobs, threads, size, block);
    if (!error)
        error = run(jobs, threads, map ? run_map : run_pread, &seconds);
    if (error) {
        fprintf(stderr, "%s: %s\n", path, strerror(error));
        return 1;
    }
    for (unsigned i = 0; i < threads; i++)
        sum += jobs[i].sum;
    printf("%.6f s %.3f GB/s sum %" PRIu64 "\n", seconds, (double)size / seconds / 1e9, sum);
    return 0;
}

int main(int argc, char **argv)
{
    static const char *const modes[] = {"read", "pread", "direct", "mmap"};
    bool cold = argc > 1 && strcmp(argv[1], "cold") == 0, known = false;
    int at = 1 + cold;
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes) && argc > at; i++)
        known |= strcmp(argv[at], modes[i]) == 0;
    if (!known || argc < at + 2 || argc > at + 4) {
        fprintf(stderr, "usage: reader [cold] read|pread|direct|mmap FILE [THREADS [BLOCK]]\n");
        return 2;
    }
    unsigned long threads = argc > at + 2 ? strtoul(argv[at + 2], NULL, 10) : 1;
    size_t block = argc > at + 3 ? strtoull(argv[at + 3], NULL, 10) : BLOCK_DEFAULT;
    if (threads < 1 || threads > THREADS_MAX || block < 512)
        return 2;
    return measure(argv[at], argv[at + 1], (unsigned)threads, block, cold);
}
