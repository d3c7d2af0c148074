#include "core/buffer.h"

#include <pthread.h>

/* Two sizes are kept: the largest FUSE request with room for a plan's bookkeeping, which is also
 * for what a scan reads, and what statistics of rows and columns read (compute/axis_tiles.c). */
enum {
    KEPT_MIN = 64 << 10, /* smaller ones are malloc's own business */
    KEPT_MAX = 16,
    ALIGN = 64,
};

typedef struct shelf {
    size_t bytes;
    int room; /* how many are kept, at most KEPT_MAX */
    int count;
    void *kept[KEPT_MAX];
} shelf;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards shelves; innermost */
static shelf shelves[] = {
    {.bytes = (1 << 20) + (64 << 10), .room = 16},
    {.bytes = (4 << 20) + (256 << 10), .room = 4},
};

/* The shelf for buffers of BYTES; NULL where they are not kept. */
static shelf *shelf_of(size_t bytes)
{
    for (size_t i = 0; bytes >= KEPT_MIN && i < TM_ARRAY_LEN(shelves); i++)
        if (bytes <= shelves[i].bytes)
            return &shelves[i];
    return NULL;
}

void *tm_buffer_get(size_t bytes)
{
    shelf *s = shelf_of(bytes);
    if (s) {
        pthread_mutex_lock(&lock);
        void *buffer = s->count ? s->kept[--s->count] : NULL;
        pthread_mutex_unlock(&lock);
        if (buffer)
            return buffer;
        bytes = s->bytes;
    }
    size_t rounded = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    return rounded < bytes ? NULL : aligned_alloc(ALIGN, rounded ? rounded : ALIGN);
}

void tm_buffer_put(void *buffer, size_t bytes)
{
    shelf *s = buffer ? shelf_of(bytes) : NULL;
    if (s) {
        pthread_mutex_lock(&lock);
        bool keep = s->count < s->room;
        if (keep)
            s->kept[s->count++] = buffer;
        pthread_mutex_unlock(&lock);
        if (keep)
            return;
    }
    free(buffer);
}

void tm_buffer_trim(void)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < TM_ARRAY_LEN(shelves); i++)
        while (shelves[i].count)
            free(shelves[i].kept[--shelves[i].count]);
    pthread_mutex_unlock(&lock);
}
