/* The fingerprint: what it is made of, to the byte, and what changes it. */
#include "formats/fingerprint.h"

#include <inttypes.h>

#include "core/sched.h"
#include "core/sha256.h"
#include "formats/checkpoint.h"
#include "tests/unit/fs/checkpoint_files.h"

enum {
    BLOCK = 4096,
    BLOCKS = 16
};

static tm_sched *sched;
static tm_file_set *file_set;

static int begin(void **state)
{
    if (files_new(state) < 0 || tm_file_set_new(8, &file_set) < 0)
        return -1;
    return tm_sched_new(&(tm_sched_params){.workers = 2, .io = 2}, &sched);
}

static int end(void **state)
{
    tm_sched_free(sched);
    tm_file_set_free(file_set);
    return files_free(state);
}

/* ---- Models of bytes in memory ---- */

typedef struct content {
    const char *name;
    uint8_t *bytes; /* NULL: missing */
    uint64_t size, header;
} content;

static content content_of(const char *name, uint64_t size, uint64_t header)
{
    content c = {name, malloc(size + 1), size, header};
    assert_non_null(c.bytes);
    for (uint64_t i = 0; i < size; i++)
        c.bytes[i] = (uint8_t)((i * 2654435761u) >> 13);
    return c;
}

static tm_model *model_of(const content *contents, uint32_t count)
{
    tm_model *model;
    assert_int_equal(tm_model_new(&model), 0);
    model->files = tm_new_array(count, sizeof(*model->files));
    assert_non_null(model->files);
    for (uint32_t i = 0; i < count; i++) {
        tm_model_file *file = &model->files[model->file_count++];
        file->name = strdup(contents[i].name);
        file->header_bytes = contents[i].header;
        if (contents[i].bytes)
            assert_int_equal(tm_blob_mem_new(contents[i].bytes, contents[i].size, &file->blob), 0);
    }
    return model;
}

static void fingerprint_of(const content *contents, uint32_t count, char ret[65])
{
    tm_req req;
    tm_req_init(&req, TM_LANE_VISIBLE);
    req.may_block = true;
    tm_model *model = model_of(contents, count);
    assert_int_equal(tm_fingerprint(sched, model, &req, ret), 0);
    assert_int_equal(strlen(ret), 64);
    assert_int_equal(strspn(ret, "0123456789abcdef"), 64);
    tm_model_unref(model);
}

/* Where block I of a file begins, of those that are small enough for plain arithmetic. */
static uint64_t block_at(uint64_t size, unsigned i)
{
    return (size - BLOCK) * i / (BLOCKS - 1);
}

static void shard_fingerprint_of(const content *c, uint8_t ret[TM_SHA256_BYTES])
{
    tm_req req;
    tm_req_init(&req, TM_LANE_VISIBLE);
    req.may_block = true;
    tm_model *model = model_of(c, 1);
    assert_int_equal(tm_shard_fingerprint(sched, model->files, &req, ret), 0);
    tm_model_unref(model);
}

/* The definition in formats/fingerprint.h, word by word: of a file without its name. */
static void add_defined_content(tm_sha256 *sha, const content *c)
{
    char size[24];
    tm_sha256_add(sha, size, (size_t)snprintf(size, sizeof(size), "%" PRIu64, c->size) + 1);
    if (c->size <= c->header + BLOCKS * BLOCK) {
        tm_sha256_add(sha, c->bytes, c->size);
        return;
    }
    tm_sha256_add(sha, c->bytes, c->header);
    for (unsigned k = 0; k < BLOCKS; k++)
        tm_sha256_add(sha, c->bytes + block_at(c->size, k), BLOCK);
}

/* For contents that are sorted. */
static void defined_fingerprint(const content *contents, uint32_t count, char ret[65])
{
    tm_sha256 *sha;
    assert_int_equal(tm_sha256_new(&sha), 0);
    for (uint32_t i = 0; i < count; i++) {
        tm_sha256_add(sha, contents[i].name, strlen(contents[i].name) + 1);
        if (contents[i].bytes)
            add_defined_content(sha, &contents[i]);
    }
    assert_int_equal(tm_sha256_hex(sha, ret), 0);
    tm_sha256_freep(&sha);
}

static void the_fingerprint_is_what_its_definition_says(void **state)
{
    (void)state;
    static const struct {
        uint64_t size, header;
    } rows[] = {
        {0, 0},
        {1, 0},
        {8, 8},
        {4096, 100},
        {65536, 0},
        {65537, 0},
        {65536 + 500, 500},
        {65536 + 501, 500},
        {200001, 1000},
        {1000000, 300000},
        {1000000, 999999},
        {70000, 70000},
        {100, 2000}, /* a header that the file does not have */
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        content c = content_of("model.safetensors", rows[i].size, rows[i].header);
        char got[65], expected[65];
        fingerprint_of(&c, 1, got);
        defined_fingerprint(&c, 1, expected);
        assert_string_equal(got, expected);
        free(c.bytes);
    }
}

static void a_shard_has_that_of_its_content_under_any_name(void **state)
{
    (void)state;
    static const struct {
        uint64_t size, header;
    } rows[] = {{0, 0}, {65536 + 500, 500}, {65536 + 501, 500}, {1000000, 300000}};
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        for (int k = 0; k < 2; k++) {
            content c = content_of(k ? "b" : "a/a.safetensors", rows[i].size, rows[i].header);
            uint8_t got[TM_SHA256_BYTES], expected[TM_SHA256_BYTES];
            shard_fingerprint_of(&c, got);
            tm_sha256 *sha;
            assert_int_equal(tm_sha256_new(&sha), 0);
            add_defined_content(sha, &c);
            assert_int_equal(tm_sha256_bytes(sha, expected), 0);
            tm_sha256_free(sha);
            assert_memory_equal(got, expected, sizeof(expected));
            free(c.bytes);
        }
    }
}

static void a_shard_that_is_missing_has_none(void **state)
{
    (void)state;
    content c = {.name = "a.safetensors"};
    tm_req req;
    tm_req_init(&req, TM_LANE_VISIBLE);
    tm_model *model = model_of(&c, 1);
    uint8_t got[TM_SHA256_BYTES];
    assert_int_equal(tm_shard_fingerprint(sched, model->files, &req, got), -ENOENT);
    assert_string_equal(tm_req_words(&req), "a.safetensors: is missing");
    tm_model_unref(model);
}

static void every_file_counts_and_a_missing_one_by_its_name(void **state)
{
    (void)state;
    content both[] = {content_of("a.safetensors", 100000, 64), content_of("b.safetensors", 999, 8)};
    content missing[] = {both[0], {.name = "b.safetensors"}};
    content renamed[] = {both[0], {.name = "c.safetensors"}};
    content swapped[] = {both[1], both[0]};
    swapped[0].name = both[0].name;
    swapped[1].name = both[1].name;
    const content *const lists[] = {both, missing, renamed, swapped};
    char seen[5][65];
    for (size_t i = 0; i < TM_ARRAY_LEN(lists); i++) {
        char expected[65];
        fingerprint_of(lists[i], 2, seen[i]);
        defined_fingerprint(lists[i], 2, expected);
        assert_string_equal(seen[i], expected);
    }
    fingerprint_of(both, 1, seen[4]);
    for (size_t i = 0; i < TM_ARRAY_LEN(seen); i++)
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(seen[i], seen[k]);
    free(both[0].bytes);
    free(both[1].bytes);
}

static void the_order_of_the_files_does_not_count(void **state)
{
    (void)state;
    content sorted[] = {content_of("a.safetensors", 100000, 64),
                        content_of("b.safetensors", 999, 8),
                        {.name = "b.safetensors.2"},
                        content_of("\xc3\xbc.safetensors", 70, 8)};
    static const unsigned orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {2, 0, 3, 1}};
    char expected[65], got[65];
    defined_fingerprint(sorted, 4, expected);
    for (size_t i = 0; i < TM_ARRAY_LEN(orders); i++) {
        content turned[4];
        for (size_t k = 0; k < 4; k++)
            turned[k] = sorted[orders[i][k]];
        fingerprint_of(turned, 4, got);
        assert_string_equal(got, expected);
    }
    for (size_t i = 0; i < 4; i++)
        free(sorted[i].bytes);
}

static void a_change_of_any_sampled_byte_of_the_size_or_the_name_changes_it(void **state)
{
    (void)state;
    content c = content_of("model.safetensors", 300007, 1000);
    char was[65], now[65];
    fingerprint_of(&c, 1, was);
    for (unsigned i = 0; i < BLOCKS; i++) {
        uint64_t at_bytes[] = {block_at(c.size, i), block_at(c.size, i) + BLOCK - 1};
        for (size_t k = 0; k < 2; k++) {
            c.bytes[at_bytes[k]] ^= 1;
            fingerprint_of(&c, 1, now);
            c.bytes[at_bytes[k]] ^= 1;
            assert_string_not_equal(now, was);
        }
    }
    c.bytes[999] ^= 1;
    fingerprint_of(&c, 1, now);
    assert_string_not_equal(now, was);
    c.bytes[999] ^= 1;
    c.size--;
    fingerprint_of(&c, 1, now);
    assert_string_not_equal(now, was);
    c.size++;
    c.name = "model2.safetensors";
    fingerprint_of(&c, 1, now);
    assert_string_not_equal(now, was);
    free(c.bytes);
}

static void bytes_that_are_not_sampled_do_not_count(void **state)
{
    (void)state;
    content c = content_of("model.safetensors", 300007, 1000);
    char was[65], now[65];
    fingerprint_of(&c, 1, was);
    for (unsigned i = 0; i + 1 < BLOCKS; i++) {
        c.bytes[block_at(c.size, i) + BLOCK] ^= 1;
        c.bytes[block_at(c.size, i + 1) - 1] ^= 1;
    }
    fingerprint_of(&c, 1, now);
    assert_string_equal(now, was);
    free(c.bytes);
}

/* ---- Checkpoints on disk ---- */

static int open_fingerprint(const char *path, tm_req *req, char ret[65])
{
    tm_listing listing;
    tm_model *model;
    tm_req_init(req, TM_LANE_VISIBLE);
    req->may_block = true;
    assert_int_equal(tm_listing_read(path, TM_LISTING_DEPTH_MAX, req, &listing), 0);
    tm_checkpoint_params params = {sched, file_set, &listing, path};
    assert_int_equal(tm_checkpoint_open(&params, req, &model), 0);
    tm_listing_done(&listing);
    int rc = tm_fingerprint(sched, model, req, ret);
    tm_model_unref(model);
    return rc;
}

static void the_same_weights_have_one_fingerprint_wherever_they_lie(void **state)
{
    (void)state;
    static const file_tensor tensors[] = {{.name = "a", .dtype = "F32", .shape = "200,300"},
                                          {.name = "b", .dtype = "BF16", .shape = "64"}};
    char folder[65], copy[65], cached[65], single[65], changed[65];
    tm_req req;
    write_safetensors(at("m/model.safetensors"), tensors, 2);
    copy_file(at("m/model.safetensors"), at("elsewhere/model.safetensors"));
    write_text(at("elsewhere/config.json"), "{\"model_type\": \"other\"}");
    copy_file(at("m/model.safetensors"), at("models--o--n/blobs/0123"));
    make_link("../../blobs/0123", at("models--o--n/snapshots/4567/model.safetensors"));
    assert_int_equal(open_fingerprint(at("m"), &req, folder), 0);
    assert_int_equal(open_fingerprint(at("elsewhere"), &req, copy), 0);
    assert_int_equal(open_fingerprint(at("models--o--n"), &req, cached), 0);
    assert_int_equal(open_fingerprint(at("m/model.safetensors"), &req, single), 0);
    assert_string_equal(folder, copy);
    assert_string_equal(folder, cached);
    assert_string_equal(folder, single);
    change_byte(at("elsewhere/model.safetensors"), 240000); /* in the last block */
    assert_int_equal(open_fingerprint(at("elsewhere"), &req, changed), 0);
    assert_string_not_equal(folder, changed);
}

static void an_index_does_not_count_whatever_its_order(void **state)
{
    (void)state;
    static const file_tensor tensors[] = {{.name = "a", .dtype = "F32", .shape = "20"},
                                          {.name = "b", .dtype = "F32", .shape = "30"},
                                          {.name = "c", .dtype = "F32", .shape = "40"}};
    static const char *const files[] = {"1.safetensors", "2.safetensors", "3.safetensors"};
    static const index_entry orders[][3] = {
        {{"a", "1.safetensors"}, {"b", "2.safetensors"}, {"c", "3.safetensors"}},
        {{"c", "3.safetensors"}, {"a", "1.safetensors"}, {"b", "2.safetensors"}},
        {{"b", "2.safetensors"}, {"c", "3.safetensors"}, {"a", "1.safetensors"}},
    };
    char without[65], with[65];
    tm_req req;
    for (size_t i = 0; i < 3; i++)
        write_safetensors(at("indexed/%s", files[i]), &tensors[i], 1);
    assert_int_equal(open_fingerprint(at("indexed"), &req, without), 0);
    for (size_t i = 0; i < TM_ARRAY_LEN(orders); i++) {
        write_index(at("indexed/model.safetensors.index.json"), orders[i], 3);
        assert_int_equal(open_fingerprint(at("indexed"), &req, with), 0);
        assert_string_equal(with, without);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fingerprint_is_what_its_definition_says),
        cmocka_unit_test(a_shard_has_that_of_its_content_under_any_name),
        cmocka_unit_test(a_shard_that_is_missing_has_none),
        cmocka_unit_test(every_file_counts_and_a_missing_one_by_its_name),
        cmocka_unit_test(the_order_of_the_files_does_not_count),
        cmocka_unit_test(a_change_of_any_sampled_byte_of_the_size_or_the_name_changes_it),
        cmocka_unit_test(bytes_that_are_not_sampled_do_not_count),
        cmocka_unit_test(the_same_weights_have_one_fingerprint_wherever_they_lie),
        cmocka_unit_test(an_index_does_not_count_whatever_its_order),
    };
    return cmocka_run_group_tests_name("fingerprint", tests, begin, end);
}
