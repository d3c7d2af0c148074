#include "formats/tiles_writer.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/new_file.h"

enum {
    SECTIONS = TM_TILES_CHECKS,
    FILE_MODE = 0666 /* less the umask */
};

struct tm_tiles_writer {
    char *path, *part;
    int fd;
    uint8_t fingerprint[TM_FINGERPRINT_BYTES];
    tm_tiles_record *records; /* as they are to be; check is 0 until a tensor is done */
    uint64_t *bytes;          /* of each pyramid */
    uint32_t count;
    uint64_t cells_off, cells_bytes; /* in the file */
};

static int no_memory(const char *path, tm_req *req)
{
    return tm_fail(req, ENOMEM, "no memory to write %s", path);
}

static uint64_t tensors_off(void)
{
    return tm_section_head_bytes(SECTIONS);
}

/* What the part begins with while it is one. */
static void part_head(const tm_tiles_writer *w, uint8_t ret[TM_SECTION_HEADER_BYTES])
{
    static const uint8_t magic[8] = {0x89, 'T', 'M', 'T', 'I', 'P', '\r', '\n'};
    tm_section_format format = tm_tiles_format;
    memcpy(format.magic, magic, sizeof(magic));
    tm_section_head_store(&format, w->fingerprint, NULL, 0, ret);
}

/* ---- Reading the part ---- */

static int read_part(const tm_tiles_writer *w, uint64_t off, size_t len, void *dst, tm_req *req)
{
    int there = tm_read_all(w->fd, w->part, dst, len, off, req);
    if (there == 0)
        return tm_fail(req, EIO, "%s: was cut short", w->part);
    return there < 0 ? there : 0;
}

/* The hash of a pyramid as it stands in the part. */
static int hash_cells(const tm_tiles_writer *w, uint32_t i, tm_req *req, uint64_t *ret)
{
    TM_AUTO_FREE uint8_t *chunk = malloc(TM_TILES_CHUNK);
    tm_hasher hasher;
    if (!chunk)
        return no_memory(w->path, req);
    tm_hasher_init(&hasher);
    for (uint64_t at = 0; at < w->bytes[i]; at += TM_TILES_CHUNK) {
        size_t len = tm_min_u64(TM_TILES_CHUNK, w->bytes[i] - at);
        TM_TRY(read_part(w, w->cells_off + w->records[i].off + at, len, chunk, req));
        tm_hasher_update(&hasher, chunk, len);
    }
    *ret = tm_hasher_final(&hasher).lo;
    return 0;
}

static bool is_same(const tm_tiles_record *a, const tm_tiles_record *b)
{
    return a->off == b->off && a->finest == b->finest && a->identity == b->identity;
}

/* Keeps what an earlier writer has done and what is still there. */
static int take_up(tm_tiles_writer *w, tm_req *req)
{
    for (uint32_t i = 0; i < w->count; i++) {
        tm_tiles_record found;
        uint64_t hash;
        if (w->records[i].finest == 0)
            continue;
        TM_TRY(tm_req_check(req));
        TM_TRY(read_part(w, tensors_off() + i * sizeof(found), sizeof(found), &found, req));
        if (found.check != tm_tiles_record_check(&found) || !is_same(&found, &w->records[i]))
            continue;
        TM_TRY(hash_cells(w, i, req, &hash));
        if (hash == found.cells)
            w->records[i] = found;
    }
    return 0;
}

/* ---- Opening ---- */

static int begin(tm_tiles_writer *w, tm_req *req)
{
    uint8_t expected[TM_SECTION_HEADER_BYTES], found[TM_SECTION_HEADER_BYTES];
    const off_t size = (off_t)(w->cells_off + w->cells_bytes);
    struct stat st;
    w->fd = open(w->part, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
    if (w->fd < 0)
        return tm_fail_file(req, errno, w->part, "cannot be opened");
    if (fstat(w->fd, &st) < 0 || !S_ISREG(st.st_mode))
        return tm_fail(req, EINVAL, "%s: is not a regular file", w->part);
    part_head(w, expected);
    if (st.st_size >= size) {
        TM_TRY(read_part(w, 0, sizeof(found), found, req));
        if (memcmp(found, expected, sizeof(found)) == 0)
            return take_up(w, req);
    }
    if (ftruncate(w->fd, 0) < 0 || ftruncate(w->fd, size) < 0)
        return tm_fail_file(req, errno, w->part, "cannot be made");
    return tm_write_all(w->fd, w->part, expected, sizeof(expected), 0, req);
}

static void lay_out(tm_tiles_writer *w, const tm_tiles_plan *plan)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        const tm_tiles_tensor *tensor = &plan->tensors[i];
        w->records[i] = (tm_tiles_record){
            .off = at, .finest = tensor->pyramid.finest, .identity = tm_tiles_identity(tensor)};
        if (w->records[i].finest == 0)
            w->records[i].check = tm_tiles_record_check(&w->records[i]);
        w->bytes[i] = tensor->pyramid.bytes;
        at += w->bytes[i];
    }
    w->count = plan->count;
    w->cells_off = tensors_off() + (uint64_t)plan->count * TM_TILES_RECORD_BYTES;
    w->cells_bytes = at;
}

int tm_tiles_writer_open(const char *path, const tm_tiles_plan *plan, tm_req *req,
                         tm_tiles_writer **ret)
{
    tm_tiles_writer *w = TM_NEW(tm_tiles_writer);
    if (!w)
        return no_memory(path, req);
    w->fd = -1;
    w->path = strdup(path);
    w->part = tm_path_with(path, ".part");
    w->records = tm_new_array(plan->count, sizeof(*w->records));
    w->bytes = tm_new_array(plan->count, sizeof(*w->bytes));
    memcpy(w->fingerprint, plan->fingerprint, sizeof(w->fingerprint));
    int rc = w->path && w->part && w->records && w->bytes ? 0 : no_memory(path, req);
    if (rc == 0) {
        lay_out(w, plan);
        rc = begin(w, req);
    }
    if (rc < 0) {
        tm_tiles_writer_close(w);
        return rc;
    }
    *ret = w;
    return 0;
}

void tm_tiles_writer_close(tm_tiles_writer *w)
{
    if (!w)
        return;
    tm_closep(&w->fd);
    free(w->path);
    free(w->part);
    free(w->records);
    free(w->bytes);
    free(w);
}

/* ---- Tensors ---- */

bool tm_tiles_writer_has(const tm_tiles_writer *w, uint32_t number)
{
    return w->records[number].check != 0;
}

int tm_tiles_writer_put(tm_tiles_writer *w, uint32_t number, uint64_t off, const void *bytes,
                        size_t len, tm_req *req)
{
    assert(tm_range_ok(off, len, w->bytes[number]));
    return tm_write_all(w->fd, w->part, bytes, len, w->cells_off + w->records[number].off + off,
                        req);
}

int tm_tiles_writer_end(tm_tiles_writer *w, uint32_t number, tm_req *req)
{
    tm_tiles_record record = w->records[number];
    TM_TRY(hash_cells(w, number, req, &record.cells));
    record.check = tm_tiles_record_check(&record);
    TM_TRY(tm_write_all(w->fd, w->part, &record, sizeof(record),
                        tensors_off() + (uint64_t)number * sizeof(record), req));
    w->records[number] = record;
    /* It begins to go to the disk now, so that little is left to wait for at the end. A hint. */
    tm_ignore(sync_file_range(w->fd, (off_t)(w->cells_off + record.off), (off_t)w->bytes[number],
                              SYNC_FILE_RANGE_WRITE));
    return 0;
}

/* ---- Finishing ---- */

/* Hashes the cells, of each chunk to CHECKS and of all to SECTION. */
static int hash_chunks(const tm_tiles_writer *w, uint64_t *checks, tm_section *section, tm_req *req)
{
    TM_AUTO_FREE uint8_t *chunk = malloc(TM_TILES_CHUNK);
    tm_hasher hasher;
    if (!chunk)
        return no_memory(w->path, req);
    tm_hasher_init(&hasher);
    for (uint64_t at = 0; at < w->cells_bytes; at += TM_TILES_CHUNK) {
        size_t len = tm_min_u64(TM_TILES_CHUNK, w->cells_bytes - at);
        TM_TRY(tm_req_check(req));
        TM_TRY(read_part(w, w->cells_off + at, len, chunk, req));
        checks[at / TM_TILES_CHUNK] = tm_hash64(chunk, len);
        tm_hasher_update(&hasher, chunk, len);
    }
    section->check = tm_hasher_final(&hasher);
    return 0;
}

/* What stands before the cells, and behind them. */
static int write_around(const tm_tiles_writer *w, const tm_section *sections,
                        const uint64_t *checks, tm_req *req)
{
    uint8_t head[TM_SECTION_HEADER_BYTES + SECTIONS * TM_SECTION_ENTRY_BYTES];
    const tm_section *last = &sections[SECTIONS - 1];
    TM_TRY(tm_write_all(w->fd, w->part, w->records, sections[0].stored, sections[0].off, req));
    TM_TRY(tm_write_all(w->fd, w->part, checks, last->stored, last->off, req));
    tm_section_head_store(&tm_tiles_format, w->fingerprint, sections, SECTIONS, head);
    return tm_write_all(w->fd, w->part, head, sizeof(head), 0, req);
}

static int write_all(tm_tiles_writer *w, uint64_t *checks, size_t chunks, tm_req *req)
{
    const uint64_t records = (uint64_t)w->count * TM_TILES_RECORD_BYTES;
    const uint64_t check_bytes = chunks * sizeof(*checks);
    tm_section sections[SECTIONS] = {
        {.kind = TM_TILES_TENSORS,
         .item_bytes = TM_TILES_RECORD_BYTES,
         .off = tensors_off(),
         .stored = records,
         .used = records,
         .check = tm_hash_bytes(w->records, records)},
        {.kind = TM_TILES_CELLS,
         .off = w->cells_off,
         .stored = w->cells_bytes,
         .used = w->cells_bytes},
        {.kind = TM_TILES_CHECKS,
         .off = w->cells_off + w->cells_bytes,
         .stored = check_bytes,
         .used = check_bytes},
    };
    TM_TRY(hash_chunks(w, checks, &sections[TM_TILES_CELLS - 1], req));
    sections[TM_TILES_CHECKS - 1].check = tm_hash_bytes(checks, check_bytes);
    return write_around(w, sections, checks, req);
}

int tm_tiles_writer_finish(tm_tiles_writer *w, tm_req *req)
{
    size_t chunks = (w->cells_bytes + TM_TILES_CHUNK - 1) / TM_TILES_CHUNK;
    TM_AUTO_FREE uint64_t *checks = tm_new_array(chunks, sizeof(*checks));
    if (!checks)
        return no_memory(w->path, req);
    for (uint32_t i = 0; i < w->count; i++)
        assert(tm_tiles_writer_has(w, i));
    TM_TRY(write_all(w, checks, chunks, req));
    if (ftruncate(w->fd, (off_t)(w->cells_off + w->cells_bytes + chunks * sizeof(*checks))) < 0)
        return tm_fail_file(req, errno, w->part, "cannot be cut");
    if (fdatasync(w->fd) < 0)
        return tm_fail_file(req, errno, w->part, "cannot be synced");
    if (rename(w->part, w->path) < 0)
        return tm_fail_file(req, errno, w->part, "cannot be renamed");
    return tm_sync_folder_of(w->path, req);
}
