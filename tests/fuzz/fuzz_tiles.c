/*
 * Any bytes as levels of detail. What is refused has words; what is given out can be read or is
 * damaged. The first byte says how much of it gets checks that are right: nothing, the header and
 * the table, or the records and the cells as well.
 */
#include "core/read.h"
#include "formats/tiles_file.h"
#include "tests/fuzz/sections.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static tm_tiles_tensor tensor_of(void)
{
    static const uint64_t dims[] = {512, 512};
    tm_tiles_tensor tensor = {.name = "w", .name_len = 1, .dtype = TM_BF16, .stored_bytes = 524288};
    tensor.pyramid = tm_pyramid_of(dims, 2, tensor.dtype, tensor.stored_bytes);
    return tensor;
}

static void seal_records(const input *in, const tm_section *sections, size_t count)
{
    tm_tiles_tensor tensor = tensor_of();
    const tm_section *tensors = &sections[0], *cells = &sections[1], *checks = &sections[2];
    if (count < 3 || !tm_range_ok(tensors->off, tensors->stored, in->size) ||
        !tm_range_ok(cells->off, cells->stored, in->size) ||
        !tm_range_ok(checks->off, checks->stored, in->size))
        return;
    for (uint64_t at = 0; tm_range_ok(at, TM_TILES_RECORD_BYTES, tensors->stored);
         at += TM_TILES_RECORD_BYTES) {
        tm_tiles_record record;
        memcpy(&record, in->bytes + tensors->off + at, sizeof(record));
        record.identity = tm_tiles_identity(&tensor);
        record.check = tm_tiles_record_check(&record);
        memcpy(in->bytes + tensors->off + at, &record, sizeof(record));
    }
    for (uint64_t at = 0, i = 0; at < cells->stored; at += TM_TILES_CHUNK, i++) {
        uint64_t check =
            tm_hash64(in->bytes + cells->off + at, tm_min_u64(TM_TILES_CHUNK, cells->stored - at));
        if (tm_range_ok(8 * i, 8, checks->stored))
            memcpy(in->bytes + checks->off + 8 * i, &check, sizeof(check));
    }
}

/* Every byte of CELLS, in pieces of any size. */
static void read_cells(tm_sched *sched, tm_blob *cells)
{
    uint8_t bytes[1000];
    for (uint64_t off = 0; off < cells->size;) {
        size_t len = tm_min_u64(sizeof(bytes), cells->size - off);
        tm_req req;
        tm_req_init(&req, TM_LANE_VISIBLE);
        req.may_block = true;
        int rc = tm_read_wait(sched, cells, off, len, bytes, &req);
        require(rc == 0 || (rc == -EBADMSG && tm_req_words(&req)[0] != '\0'));
        if (rc < 0)
            return;
        off += len;
    }
}

static void check_tiles(tm_sched *sched, tm_tiles *tiles)
{
    tm_tiles_tensor tensor = tensor_of();
    for (uint32_t i = 0; i <= tm_tiles_count(tiles) && i < 8; i++) {
        tm_req req;
        tm_blob *cells = NULL;
        tm_req_init(&req, TM_LANE_VISIBLE);
        int rc = tm_tiles_cells(tiles, i, &tensor, &req, &cells);
        require(rc == 0 || rc == -EBADMSG || rc == -ENOENT);
        require((rc == 0) == (cells != NULL));
        if (cells)
            read_cells(sched, cells);
        tm_blob_unref(cells);
    }
    tm_req req;
    tm_req_init(&req, TM_LANE_VISIBLE);
    int rc = tm_tiles_check(tiles, &req);
    require(rc == 0 || rc == -EBADMSG);
}

static void read_tiles(const input *in)
{
    static tm_sched *sched; /* for the whole run */
    tm_byte_source src = {.name = "t", .size = in->size, .ctx = (void *)in, .read = read_input};
    uint8_t fingerprint[TM_FINGERPRINT_BYTES] = {1, 2, 3, 250, [31] = 9};
    tm_tiles *tiles = NULL;
    tm_blob *file;
    tm_req req;
    if (!sched && tm_sched_new(&(tm_sched_params){.workers = 1, .io = 1}, &sched) < 0)
        return;
    if (tm_blob_mem_new(in->bytes, in->size, &file) < 0)
        return;
    tm_req_init(&req, TM_LANE_VISIBLE);
    int rc = tm_tiles_open(&src, file, fingerprint, &req, &tiles);
    require(rc == 0 || rc == -EBADMSG || rc == -EOPNOTSUPP || rc == -ESTALE);
    require((rc == 0) == (tm_req_words(&req)[0] == '\0'));
    if (tiles)
        check_tiles(sched, tiles);
    tm_tiles_close(tiles);
    tm_blob_unref(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_sealed(data, size, seal_records, read_tiles);
    return 0;
}
