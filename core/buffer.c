#include "core/buffer.h"

#include <pthread.h>

/* One size of kept buffer: the largest FUSE request, with room for a plan's bookkeeping. */
enum {
    KEPT_BYTES = (1 << 20) + (64 << 10),
    KEPT_MIN = 64 << 10, /* smaller ones are malloc's own business */
    KEPT_COUNT = 16,
    ALIGN = 64,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards kept and count; innermost */
static void *kept[KEPT_COUNT];
static int count;

static bool is_kept_size(size_t bytes)
{
    return bytes >= KEPT_MIN && bytes <= KEPT_BYTES;
}

void *tm_buffer_get(size_t bytes)
{
    if (is_kept_size(bytes)) {
        pthread_mutex_lock(&lock);
        void *buffer = count ? kept[--count] : NULL;
        pthread_mutex_unlock(&lock);
        if (buffer)
            return buffer;
        bytes = KEPT_BYTES;
    }
    size_t rounded = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    return rounded < bytes ? NULL : aligned_alloc(ALIGN, rounded ? rounded : ALIGN);
}

void tm_buffer_put(void *buffer, size_t bytes)
{
    if (buffer && is_kept_size(bytes)) {
        pthread_mutex_lock(&lock);
        bool keep = count < KEPT_COUNT;
        if (keep)
            kept[count++] = buffer;
        pthread_mutex_unlock(&lock);
        if (keep)
            return;
    }
    free(buffer);
}

void tm_buffer_trim(void)
{
    pthread_mutex_lock(&lock);
    while (count)
        free(kept[--count]);
    pthread_mutex_unlock(&lock);
}
