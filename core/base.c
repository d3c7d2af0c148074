#include "core/base.h"

#include <time.h>
#include <unistd.h>

void tm_freep(void *pp)
{
    free(*(void **)pp);
}

void tm_closep(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

void *tm_new_array(size_t n, size_t item_bytes)
{
    return calloc(n ? n : 1, item_bytes);
}

uint64_t tm_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

struct timespec tm_timespec_of(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
}

struct timespec tm_after_ms(uint64_t ms)
{
    return tm_timespec_of(tm_now_ns() + ms * 1000000);
}
