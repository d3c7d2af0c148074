/*
 * Checkpoints that a test writes into a folder of its own: folders, links, times, safetensors files
 * whose bytes are told by the tensor's name, shard indexes.
 */
#ifndef TM_TESTS_UNIT_FS_CHECKPOINT_FILES_H
#define TM_TESTS_UNIT_FS_CHECKPOINT_FILES_H

#include "core/dtype.h"
#include "core/text.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <setjmp.h>
#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FILES_PATH_MAX = 4096,
    FILES_PATHS = 16, /* paths that a thread may have in use at once */
    FILES_RANK_MAX = 16,
};

static char files_root[FILES_PATH_MAX]; /* absolute, without links */

static inline int files_new(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    char made[256];
    snprintf(made, sizeof(made), "%s/tm-files-XXXXXX", base ? base : "/tmp");
    return mkdtemp(made) && realpath(made, files_root) ? 0 : -1;
}

static inline int files_remove_one(const char *path, const struct stat *st, int type,
                                   struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static inline int files_free(void **state)
{
    (void)state;
    return nftw(files_root, files_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* "ROOT/" and what FMT says; good for the next FILES_PATHS calls of the thread. */
static inline TM_PRINTF(1, 2) const char *at(const char *fmt, ...)
{
    static _Thread_local char paths[FILES_PATHS][FILES_PATH_MAX];
    static _Thread_local unsigned turn;
    char *path = paths[turn++ % FILES_PATHS];
    int root = snprintf(path, FILES_PATH_MAX, "%s/", files_root);
    va_list args;
    va_start(args, fmt);
    vsnprintf(path + root, FILES_PATH_MAX - (size_t)root, fmt, args);
    va_end(args);
    return path;
}

/* ---- Files and folders. Paths are absolute. ---- */

static inline void make_folder(const char *path)
{
    char part[FILES_PATH_MAX];
    snprintf(part, sizeof(part), "%s", path);
    for (char *slash = part + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        assert_true(mkdir(part, 0755) == 0 || errno == EEXIST);
        *slash = '/';
    }
    assert_true(mkdir(part, 0755) == 0 || errno == EEXIST);
}

static inline void remove_all(const char *path)
{
    assert_int_equal(nftw(path, files_remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static inline void make_folder_of(const char *path)
{
    char folder[FILES_PATH_MAX];
    snprintf(folder, sizeof(folder), "%s", path);
    *strrchr(folder, '/') = '\0';
    make_folder(folder);
}

/* Makes the file, and the folders that it stands in. */
static inline void write_bytes(const char *path, const void *bytes, size_t len)
{
    make_folder_of(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), len);
    close(fd);
}

static inline void write_text(const char *path, const char *text)
{
    write_bytes(path, text, strlen(text));
}

static inline void make_link(const char *target, const char *path)
{
    make_folder_of(path);
    assert_int_equal(symlink(target, path), 0);
}

static inline void set_time(const char *path, long seconds, long ns)
{
    struct timespec times[2] = {{seconds, ns}, {seconds, ns}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* Malloc'ed. */
static inline char *read_bytes_of(const char *path, size_t *ret_len)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    char *bytes = malloc((size_t)st.st_size + 1);
    assert_non_null(bytes);
    assert_int_equal(read(fd, bytes, (size_t)st.st_size), st.st_size);
    close(fd);
    *ret_len = (size_t)st.st_size;
    return bytes;
}

static inline void copy_file(const char *from, const char *to)
{
    size_t len;
    char *bytes = read_bytes_of(from, &len);
    write_bytes(to, bytes, len);
    free(bytes);
}

/* Flips every bit of the byte at OFF. */
static inline void change_byte(const char *path, uint64_t off)
{
    uint8_t byte;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)off), 1);
    byte = (uint8_t)~byte;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)off), 1);
    close(fd);
}

/* ---- Safetensors ---- */

typedef struct file_tensor {
    const char *name;
    const char *dtype;
    const char *shape; /* "2,3"; "" for a scalar */
    const void *bytes; /* NULL: those of tensor_byte() */
    size_t name_len;   /* 0: up to the NUL */
} file_tensor;

static inline size_t file_tensor_name_len(const file_tensor *t)
{
    return t->name_len ? t->name_len : strlen(t->name);
}

/* Byte OFF of a tensor that was given none. */
static inline uint8_t tensor_byte(const file_tensor *t, uint64_t off)
{
    uint64_t h = 0x9e3779b97f4a7c15u ^ off;
    for (size_t i = 0; i < file_tensor_name_len(t); i++)
        h = (h ^ (uint8_t)t->name[i]) * 0x100000001b3u;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9u;
    uint8_t byte = (uint8_t)(h >> 56);
    return strcmp(t->dtype, "BOOL") == 0 ? byte & 1 : byte;
}

static inline size_t file_tensor_dims(const file_tensor *t, uint64_t ret[FILES_RANK_MAX])
{
    size_t rank = 0;
    for (const char *p = t->shape; *p; p += *p == ',') {
        char *next;
        assert_true(rank < FILES_RANK_MAX);
        ret[rank++] = strtoull(p, &next, 10);
        p = next;
    }
    return rank;
}

static inline uint64_t file_tensor_elems(const file_tensor *t)
{
    uint64_t dims[FILES_RANK_MAX], elems = 1;
    size_t rank = file_tensor_dims(t, dims);
    for (size_t i = 0; i < rank; i++)
        elems *= dims[i];
    return elems;
}

static inline uint64_t file_tensor_bytes(const file_tensor *t)
{
    tm_dtype dtype;
    uint64_t bytes;
    assert_true(tm_dtype_parse_exact(t->dtype, strlen(t->dtype), &dtype));
    assert_true(tm_dtype_bytes(dtype, file_tensor_elems(t), &bytes));
    return bytes;
}

/* The tensor's stored bytes, malloc'ed. */
static inline uint8_t *file_tensor_content(const file_tensor *t)
{
    uint64_t len = file_tensor_bytes(t);
    uint8_t *bytes = malloc(len + 1);
    assert_non_null(bytes);
    for (uint64_t i = 0; i < len; i++)
        bytes[i] = t->bytes ? ((const uint8_t *)t->bytes)[i] : tensor_byte(t, i);
    return bytes;
}

static inline void put_file_tensor(tm_text *text, const file_tensor *t, uint64_t begin)
{
    tm_text_json_string(text, t->name, file_tensor_name_len(t));
    tm_text_printf(text, ":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%llu,%llu]}",
                   t->dtype, t->shape, (unsigned long long)begin,
                   (unsigned long long)(begin + file_tensor_bytes(t)));
}

/* The header as it stands in the file: its length, the JSON, padded to a multiple of eight. */
static inline void put_header(tm_text *text, const file_tensor *tensors, size_t count,
                              const char *metadata)
{
    tm_text json;
    uint64_t begin = 0;
    tm_text_init(&json);
    tm_text_puts(&json, "{");
    if (metadata)
        tm_text_printf(&json, "\"__metadata__\":%s%s", metadata, count ? "," : "");
    for (size_t i = 0; i < count; i++) {
        tm_text_puts(&json, i ? "," : "");
        put_file_tensor(&json, &tensors[i], begin);
        begin += file_tensor_bytes(&tensors[i]);
    }
    tm_text_puts(&json, "}");
    tm_text_pad(&json, (8 - json.len % 8) % 8);
    assert_int_equal(tm_text_error(&json), 0);
    uint64_t len = json.len;
    tm_text_append(text, &len, sizeof(len));
    tm_text_append(text, json.bytes, json.len);
    tm_text_done(&json);
}

/* METADATA is JSON, or NULL for none. Tensors stand in the order given. */
static inline void write_safetensors_with(const char *path, const file_tensor *tensors,
                                          size_t count, const char *metadata)
{
    tm_text text;
    tm_text_init(&text);
    put_header(&text, tensors, count, metadata);
    for (size_t i = 0; i < count; i++) {
        uint8_t *bytes = file_tensor_content(&tensors[i]);
        tm_text_append(&text, bytes, file_tensor_bytes(&tensors[i]));
        free(bytes);
    }
    assert_int_equal(tm_text_error(&text), 0);
    write_bytes(path, text.bytes, text.len);
    tm_text_done(&text);
}

static inline void write_safetensors(const char *path, const file_tensor *tensors, size_t count)
{
    write_safetensors_with(path, tensors, count, "{\"format\":\"pt\"}");
}

/* A file with one tensor of NAME, F32 [2, 3]. */
static inline void write_one(const char *path, const char *name)
{
    write_safetensors(path, &(file_tensor){.name = name, .dtype = "F32", .shape = "2,3"}, 1);
}

typedef struct index_entry {
    const char *tensor, *file;
} index_entry;

static inline void write_index(const char *path, const index_entry *entries, size_t count)
{
    tm_text text;
    tm_text_init(&text);
    tm_text_puts(&text, "{\"metadata\":{\"total_size\":1},\"weight_map\":{");
    for (size_t i = 0; i < count; i++) {
        tm_text_puts(&text, i ? "," : "");
        tm_text_json_string(&text, entries[i].tensor, strlen(entries[i].tensor));
        tm_text_puts(&text, ":");
        tm_text_json_string(&text, entries[i].file, strlen(entries[i].file));
    }
    tm_text_puts(&text, "}}\n");
    assert_int_equal(tm_text_error(&text), 0);
    write_bytes(path, text.bytes, text.len);
    tm_text_done(&text);
}

#endif
