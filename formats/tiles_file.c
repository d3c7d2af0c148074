#include "formats/tiles_file.h"

#include "core/blob.h"
#include "core/plan.h"
#include "core/stats.h"
#include "core/tensor_table.h"

enum {
    WINDOW = 1 << 20 /* that one plan of cells covers */
};

const tm_section_format tm_tiles_format = {
    .what = "levels of detail",
    .magic = {0x89, 'T', 'M', 'T', 'I', 'L', '\r', '\n'},
    .major = 1,
    .minor = 0,
    .rules = TM_STATS_RULES,
    .known_kinds = TM_TILES_CHECKS,
};

struct tm_tiles {
    atomic_uint refs; /* blobs of its cells have one each */
    atomic_bool damaged;
    tm_section_file file;
    tm_blob *blob; /* of the file, referenced */
    const tm_section *tensors, *cells, *checks;
    uint32_t count;
};

uint64_t tm_tiles_identity(const tm_tiles_tensor *tensor)
{
    const char *dtype = tm_dtype_get(tensor->dtype)->name;
    const tm_planes *planes = &tensor->pyramid.planes;
    const uint64_t numbers[] = {tensor->scaled, tensor->stored_bytes, tensor->context,
                                planes->planes, planes->rows,         planes->cols};
    tm_hasher hasher;
    tm_hasher_init(&hasher);
    tm_hasher_update(&hasher, numbers, sizeof(numbers));
    tm_hasher_update(&hasher, dtype, strlen(dtype) + 1);
    tm_hasher_update(&hasher, tensor->name, tensor->name_len);
    return tm_hasher_final(&hasher).lo;
}

uint64_t tm_tiles_record_check(const tm_tiles_record *record)
{
    return tm_hash64(record, offsetof(tm_tiles_record, check));
}

/* ---- Opening ---- */

static int damaged(const tm_tiles *tiles, tm_req *req, const char *why)
{
    return tm_fail(req, EBADMSG, "%s: is damaged: %s", tiles->file.src.name, why);
}

static int find_sections(tm_tiles *tiles, tm_req *req)
{
    tiles->tensors = tm_section_find(&tiles->file, TM_TILES_TENSORS);
    tiles->cells = tm_section_find(&tiles->file, TM_TILES_CELLS);
    tiles->checks = tm_section_find(&tiles->file, TM_TILES_CHECKS);
    if (!tiles->tensors || !tiles->cells || !tiles->checks)
        return damaged(tiles, req, "it lacks a section");
    uint64_t count = tiles->tensors->used / TM_TILES_RECORD_BYTES;
    uint64_t chunks = (tiles->cells->used + TM_TILES_CHUNK - 1) / TM_TILES_CHUNK;
    if (tiles->tensors->item_bytes != TM_TILES_RECORD_BYTES ||
        tiles->tensors->used % TM_TILES_RECORD_BYTES != 0 || count > TM_TENSORS_MAX ||
        tiles->checks->used != chunks * sizeof(uint64_t))
        return damaged(tiles, req, "its records cannot be");
    tiles->count = (uint32_t)count;
    return 0;
}

int tm_tiles_open(const tm_byte_source *src, tm_blob *file,
                  const uint8_t fingerprint[TM_FINGERPRINT_BYTES], tm_req *req, tm_tiles **ret)
{
    tm_tiles *tiles = TM_NEW(tm_tiles);
    if (!tiles)
        return tm_fail(req, ENOMEM, "no memory to read %s", src->name);
    atomic_init(&tiles->refs, 1);
    tiles->blob = tm_blob_ref(file);
    int rc = tm_section_file_open(src, &tm_tiles_format, fingerprint, req, &tiles->file);
    if (rc == 0)
        rc = find_sections(tiles, req);
    if (rc < 0) {
        tm_tiles_close(tiles);
        return rc;
    }
    *ret = tiles;
    return 0;
}

void tm_tiles_close(tm_tiles *tiles)
{
    if (!tiles || atomic_fetch_sub_explicit(&tiles->refs, 1, memory_order_acq_rel) != 1)
        return;
    tm_blob_unref(tiles->blob);
    free(tiles);
}

bool tm_tiles_is_damaged(const tm_tiles *tiles)
{
    return atomic_load(&tiles->damaged);
}

uint32_t tm_tiles_count(const tm_tiles *tiles)
{
    return tiles->count;
}

int tm_tiles_check(const tm_tiles *tiles, tm_req *req)
{
    for (size_t i = 0; i < tiles->file.count; i++)
        TM_TRY(tm_section_check(&tiles->file, &tiles->file.sections[i], req));
    return 0;
}

/* ---- Cells: read by whole chunks, each checked ---- */

typedef struct cells_blob {
    tm_blob blob;
    tm_tiles *tiles; /* referenced: for its file, and to say that it is damaged */
    char *name;
    uint64_t cells_off, checks_off; /* in the file */
    uint64_t first;                 /* of the blob's bytes in CELLS */
    uint64_t used;                  /* of CELLS */
} cells_blob;

typedef struct checked {
    const cells_blob *self;
    const uint8_t *chunks;
    const uint64_t *checks;
    uint64_t begin, end; /* of the chunks, in CELLS */
    uint64_t off;        /* of what is wanted, the same */
    size_t len;
    uint8_t *dst;
} checked;

static int run_checked(void *args, tm_req *req)
{
    const checked *c = args;
    for (uint64_t at = c->begin; at < c->end; at += TM_TILES_CHUNK) {
        size_t len = tm_min_u64(TM_TILES_CHUNK, c->end - at);
        uint64_t check;
        memcpy(&check, c->checks + (at - c->begin) / TM_TILES_CHUNK, sizeof(check));
        if (tm_hash64(c->chunks + (at - c->begin), len) == check)
            continue;
        atomic_store(&c->self->tiles->damaged, true);
        return tm_fail(req, EBADMSG, "%s: is damaged: cells are not what was written",
                       c->self->name);
    }
    memcpy(c->dst, c->chunks + (c->off - c->begin), c->len);
    return 0;
}

static int cells_plan(tm_blob *blob, tm_plan *plan, uint64_t off, size_t len, uint8_t *dst)
{
    const cells_blob *self = TM_CONTAINER(blob, cells_blob, blob);
    uint64_t at = self->first + off, begin = at / TM_TILES_CHUNK * TM_TILES_CHUNK;
    uint64_t whole = (at + len + TM_TILES_CHUNK - 1) / TM_TILES_CHUNK * TM_TILES_CHUNK;
    uint64_t end = tm_min_u64(whole, self->used);
    size_t checks = (whole - begin) / TM_TILES_CHUNK * sizeof(uint64_t);
    uint8_t *chunks = tm_plan_scratch(plan, end - begin);
    uint64_t *check = tm_plan_scratch(plan, checks);
    if (!chunks || !check)
        return tm_fail(tm_plan_req(plan), ENOMEM, "out of memory");
    TM_TRY(tm_blob_plan(self->tiles->blob, plan, self->cells_off + begin, end - begin, chunks));
    TM_TRY(tm_blob_plan(self->tiles->blob, plan,
                        self->checks_off + begin / TM_TILES_CHUNK * sizeof(uint64_t), checks,
                        check));
    checked args = {self, chunks, check, begin, end, at, len, dst};
    return tm_plan_run(plan, run_checked, &args, sizeof(args));
}

static void cells_free(tm_blob *blob)
{
    cells_blob *self = TM_CONTAINER(blob, cells_blob, blob);
    tm_tiles_close(self->tiles);
    free(self->name);
    free(self);
}

static const tm_blob_ops cells_ops = {.kind = "cells", .plan = cells_plan, .free = cells_free};

static int cells_new(tm_tiles *tiles, uint64_t off, uint64_t bytes, tm_blob **ret)
{
    cells_blob *self = TM_NEW(cells_blob);
    if (!self || !(self->name = strdup(tiles->file.src.name))) {
        free(self);
        return -ENOMEM;
    }
    tm_blob_init(&self->blob, &cells_ops, bytes);
    self->blob.window = WINDOW;
    atomic_fetch_add_explicit(&tiles->refs, 1, memory_order_relaxed);
    self->tiles = tiles;
    self->cells_off = tiles->cells->off;
    self->checks_off = tiles->checks->off;
    self->first = off;
    self->used = tiles->cells->used;
    *ret = &self->blob;
    return 0;
}

int tm_tiles_cells(tm_tiles *tiles, uint32_t number, const tm_tiles_tensor *tensor, tm_req *req,
                   tm_blob **ret)
{
    tm_tiles_record record;
    if (number >= tiles->count)
        return -ENOENT;
    TM_TRY(tm_section_read(&tiles->file, tiles->tensors, (uint64_t)number * sizeof(record),
                           sizeof(record), &record, req));
    if (record.check != tm_tiles_record_check(&record))
        return damaged(tiles, req, "a record is not what was written");
    const tm_pyramid *p = &tensor->pyramid;
    if (record.finest == 0 || record.finest != p->finest ||
        record.identity != tm_tiles_identity(tensor))
        return -ENOENT;
    if (!tm_range_ok(record.off, p->bytes, tiles->cells->used))
        return damaged(tiles, req, "a record refers to bytes that are not there");
    if (cells_new(tiles, record.off, p->bytes, ret) < 0)
        return tm_fail(req, ENOMEM, "no memory to read %s", tiles->file.src.name);
    return 0;
}
