/*
 * Any bytes as an index. What is refused has words; what is given out can be. The first byte says
 * how much of it gets checks that are right, so that what stands behind them is reached too:
 * nothing, the header and the table, or the records as well.
 */
#include "core/codes.h"
#include "core/tensor_table.h"
#include "formats/index_file.h"
#include "tests/fuzz/sections.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- Checks that are right ---- */

static void seal_refs(const input *in, const tm_section *sections, uint8_t *record)
{
    for (size_t i = 0; i < 3; i++) {
        uint32_t len;
        const tm_section *s = &sections[i + 1];
        uint64_t off = tm_le64(record + 8 * i);
        memcpy(&len, record + 48 + 4 * i, sizeof(len));
        if (!tm_range_ok(s->off, s->stored, in->size) || !tm_range_ok(off, len, s->stored))
            continue;
        uint64_t check = tm_hash64(in->bytes + s->off + off, len);
        memcpy(record + 24 + 8 * i, &check, sizeof(check));
    }
}

static void seal_records(const input *in, const tm_section *sections, size_t count)
{
    const tm_section *s = &sections[0];
    if (count < 4 || !tm_range_ok(s->off, s->stored, in->size))
        return;
    for (uint64_t at = 0; tm_range_ok(at, TM_INDEX_RECORD_BYTES, s->stored);
         at += TM_INDEX_RECORD_BYTES) {
        uint8_t *record = in->bytes + s->off + at;
        seal_refs(in, sections, record);
        uint64_t check = tm_hash64(record, TM_INDEX_RECORD_BYTES - 8);
        memcpy(record + TM_INDEX_RECORD_BYTES - 8, &check, sizeof(check));
    }
}

/* ---- What is given out ---- */

typedef struct visit {
    const tm_index *index;
    uint32_t left; /* of the tensors that are looked at in full: each takes a megabyte */
} visit;

static void check_stats(const visit *v, const tm_index_tensor *tensor)
{
    tm_stats stats;
    tm_sums sums;
    tm_req req;
    tm_req_init(&req, TM_LANE_ANALYSIS);
    int rc = tm_index_sums(v->index, tensor, &req, &sums);
    require(rc == 0 || rc == -EBADMSG);
    rc = tm_index_stats(v->index, tensor, &req, &stats);
    require(rc == 0 || rc == -EBADMSG);
    require((rc == 0) || tm_req_words(&req)[0] != '\0');
    if (rc < 0)
        return;
    uint64_t n = 0;
    for (size_t i = 0; i < stats.bins; i++)
        n += stats.hist[i];
    require(n == tensor->record.summary.n);
    tm_stats_done(&stats);
}

static int look_at(void *ctx, uint32_t number, const tm_index_tensor *tensor)
{
    visit *v = ctx;
    const tm_stats_summary *s = &tensor->record.summary;
    require(number < tm_index_count(v->index));
    require(tensor->name && tensor->name_len <= TM_NAME_MAX);
    require(tensor->dtype < TM_DTYPE_COUNT && tm_codes_count(tensor->dtype) > 0);
    require(s->nan <= s->n && s->zero <= s->n - s->nan && s->neg_zero <= s->zero);
    require(s->absmax != s->absmax || s->absmax_index < s->n);
    if (v->left > 0 && v->left--)
        check_stats(v, tensor);
    return 0;
}

static void check_index(const tm_index *index)
{
    visit v = {index, 4};
    tm_index_tensor tensor;
    tm_req req;
    tm_req_init(&req, TM_LANE_ANALYSIS);
    int rc = tm_index_each(index, (tm_index_range){0, UINT32_MAX}, look_at, &v, &req);
    require(rc == 0 || rc == -EBADMSG);
    rc = tm_index_find(index, "model.norm", 10, &req, &tensor);
    require(rc == 0 || rc == -EBADMSG || rc == -ENOENT);
    if (tm_index_count(index) <= 16) {
        rc = tm_index_check(index, &req);
        require(rc == 0 || rc == -EBADMSG);
    }
}

static void read_index(const input *in)
{
    tm_byte_source src = {.name = "i", .size = in->size, .ctx = (void *)in, .read = read_input};
    uint8_t fingerprint[TM_FINGERPRINT_BYTES] = {1, 2, 3, 250, [31] = 9};
    tm_index *index = NULL;
    tm_req req;
    tm_req_init(&req, TM_LANE_ANALYSIS);
    int rc = tm_index_open(&src, fingerprint, &req, &index);
    require(rc == 0 || rc == -EBADMSG || rc == -EOPNOTSUPP || rc == -ESTALE);
    require((rc == 0) == (tm_req_words(&req)[0] == '\0'));
    require((rc == 0) == (index != NULL));
    if (index)
        check_index(index);
    tm_index_close(index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_sealed(data, size, seal_records, read_index);
    return 0;
}
