/* Bytes that are in memory already. */
#include "core/blob.h"

typedef struct mem_blob {
    tm_blob blob;
    uint8_t *bytes;
} mem_blob;

static int mem_plan(tm_blob *blob, tm_plan *plan, uint64_t off, size_t len, uint8_t *dst)
{
    (void)plan;
    memcpy(dst, TM_CONTAINER(blob, mem_blob, blob)->bytes + off, len);
    return 0;
}

static void mem_free(tm_blob *blob)
{
    mem_blob *self = TM_CONTAINER(blob, mem_blob, blob);
    free(self->bytes);
    free(self);
}

static const tm_blob_ops mem_ops = {.kind = "memory", .plan = mem_plan, .free = mem_free};

int tm_blob_mem_take(void *bytes, size_t len, tm_blob **ret)
{
    mem_blob *self = bytes ? TM_NEW(mem_blob) : NULL;
    if (!self) {
        free(bytes);
        return -ENOMEM;
    }
    tm_blob_init(&self->blob, &mem_ops, len);
    self->bytes = bytes;
    *ret = &self->blob;
    return 0;
}

int tm_blob_mem_new(const void *bytes, size_t len, tm_blob **ret)
{
    void *copy = malloc(len ? len : 1);
    if (copy && len)
        memcpy(copy, bytes, len);
    return tm_blob_mem_take(copy, len, ret);
}

bool tm_blob_in_memory(const tm_blob *blob)
{
    return blob->ops == &mem_ops;
}
