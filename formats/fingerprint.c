#include "formats/fingerprint.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/read.h"
#include "core/sha256.h"

enum {
    CHUNK = 64 << 10,
    BLOCK = 4096,
    BLOCKS = 16
};

typedef struct hashing {
    tm_sched *sched;
    tm_req *req;
    tm_sha256 *sha;
    uint8_t buffer[CHUNK];
} hashing;

static int add_range(hashing *h, tm_blob *blob, uint64_t off, uint64_t len)
{
    while (len > 0) {
        size_t n = tm_min_u64(len, sizeof(h->buffer));
        TM_TRY(tm_read_wait(h->sched, blob, off, n, h->buffer, h->req));
        tm_sha256_add(h->sha, h->buffer, n);
        off += n;
        len -= n;
    }
    return 0;
}

static int add_blocks(hashing *h, tm_blob *blob)
{
    uint64_t last = blob->size - BLOCK;
    for (uint64_t i = 0; i < BLOCKS; i++) {
        /* floor(last * i / 15) without overflow */
        uint64_t off = last / (BLOCKS - 1) * i + last % (BLOCKS - 1) * i / (BLOCKS - 1);
        TM_TRY(add_range(h, blob, off, BLOCK));
    }
    return 0;
}

static int add_content(hashing *h, const tm_model_file *file)
{
    char size[24];
    int n = snprintf(size, sizeof(size), "%" PRIu64, file->blob->size);
    tm_sha256_add(h->sha, size, (size_t)n + 1);
    uint64_t header = tm_min_u64(file->header_bytes, file->blob->size);
    if (file->blob->size <= header + BLOCKS * BLOCK)
        return add_range(h, file->blob, 0, file->blob->size);
    TM_TRY(add_range(h, file->blob, 0, header));
    return add_blocks(h, file->blob);
}

static int add_file(hashing *h, const tm_model_file *file)
{
    tm_sha256_add(h->sha, file->name, strlen(file->name) + 1);
    return file->blob ? add_content(h, file) : 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const tm_model_file *const *)a)->name,
                  (*(const tm_model_file *const *)b)->name);
}

/* The files of MODEL by name, malloc'ed; NULL for want of memory. */
static const tm_model_file **sorted_files(const tm_model *model)
{
    const tm_model_file **files = tm_new_array(model->file_count, sizeof(*files));
    if (!files)
        return NULL;
    for (uint32_t i = 0; i < model->file_count; i++)
        files[i] = &model->files[i];
    qsort(files, model->file_count, sizeof(*files), compare_names);
    return files;
}

static void hashing_freep(hashing **h)
{
    if (*h)
        tm_sha256_free((*h)->sha);
    free(*h);
}

static int hashing_new(tm_sched *sched, tm_req *req, hashing **ret)
{
    TM_AUTO(hashing_freep) hashing *h = TM_NEW(hashing);
    TM_TRY(h ? tm_sha256_new(&h->sha) : -ENOMEM);
    h->sched = sched;
    h->req = req;
    *ret = TM_STEAL(h);
    return 0;
}

static int fail(tm_req *req, int rc)
{
    return rc < 0 ? tm_fail(req, -rc, "fingerprint: %s", strerror(-rc)) : rc;
}

int tm_fingerprint(tm_sched *sched, const tm_model *model, tm_req *req, char ret[65])
{
    TM_AUTO(hashing_freep) hashing *h = NULL;
    TM_AUTO_FREE const tm_model_file **files = sorted_files(model);
    TM_TRY(fail(req, files ? hashing_new(sched, req, &h) : -ENOMEM));
    for (uint32_t i = 0; i < model->file_count; i++)
        TM_TRY(add_file(h, files[i]));
    return fail(req, tm_sha256_hex(h->sha, ret));
}

int tm_shard_fingerprint(tm_sched *sched, const tm_model_file *file, tm_req *req,
                         uint8_t ret[TM_SHA256_BYTES])
{
    TM_AUTO(hashing_freep) hashing *h = NULL;
    if (!file->blob)
        return tm_fail(req, ENOENT, "%s: is missing", file->name);
    TM_TRY(fail(req, hashing_new(sched, req, &h)));
    TM_TRY(add_content(h, file));
    return fail(req, tm_sha256_bytes(h->sha, ret));
}
