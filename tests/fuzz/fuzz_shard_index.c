/* Any bytes as a shard index. What is accepted names no file outside its folder. */
#include "formats/shard_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct input {
    const uint8_t *data;
    size_t size;
} input;

static void require(bool holds)
{
    if (!holds)
        abort();
}

static int read_input(void *ctx, uint64_t off, void *dst, size_t len, tm_req *req)
{
    const input *in = ctx;
    (void)req;
    require(tm_range_ok(off, len, in->size));
    if (len)
        memcpy(dst, in->data + off, len);
    return 0;
}

static void check_files(const tm_shard_index *index)
{
    for (uint32_t i = 0; i < index->file_count; i++) {
        const char *name = index->files[i];
        size_t len = strlen(name);
        require(len > 0 && name[0] != '/' && !strchr(name, '\\'));
        require(strncmp(name, "../", 3) != 0 && strcmp(name, "..") != 0);
        require(!strstr(name, "/../") && !strstr(name, "//"));
        require(len < 3 || strcmp(name + len - 3, "/..") != 0);
        for (uint32_t j = 0; j < i && j < 50; j++)
            require(strcmp(index->files[j], name) != 0);
    }
}

static void check_entries(const tm_shard_index *index)
{
    const tm_shard_entry *entries = index->entries;
    for (uint32_t i = 0; i < index->entry_count; i++) {
        const char *name = index->names + entries[i].name_off;
        uint32_t file;
        require(entries[i].file < index->file_count);
        require(tm_shard_index_find(index, name, entries[i].name_len, &file));
        require(file == entries[i].file);
        if (i > 0)
            require(tm_name_cmp(index->names + entries[i - 1].name_off, entries[i - 1].name_len,
                                name, entries[i].name_len) < 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {.data = data, .size = size};
    tm_byte_source src = {.name = "i", .size = size, .ctx = &in, .read = read_input};
    tm_shard_index index;
    tm_req req;
    tm_shard_index_init(&index);
    tm_req_init(&req, TM_LANE_VISIBLE);
    int rc = tm_shard_index_read(&src, &req, &index);
    require(rc == 0 || rc == -EBADMSG);
    require((rc == 0) == (tm_req_words(&req)[0] == '\0'));
    require(rc == 0 || (index.entry_count == 0 && index.file_count == 0));
    check_files(&index);
    check_entries(&index);
    tm_shard_index_done(&index);
    return 0;
}
