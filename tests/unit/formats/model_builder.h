/*
 * Models made of lines of text, for tests: "NAME DTYPE SHAPE [FILE]", where SHAPE is 2,3 or - for a
 * scalar and FILE is the number of one of the model's files (a.safetensors, b.safetensors).
 */
#ifndef TM_TESTS_MODEL_BUILDER_H
#define TM_TESTS_MODEL_BUILDER_H

#include "core/model.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

/* The next word of *AT, up to END; moves *AT behind it. */
static inline const char *builder_word(const char **at, const char *end, size_t *ret_len)
{
    while (*at < end && **at == ' ')
        (*at)++;
    const char *word = *at;
    while (*at < end && **at != ' ')
        (*at)++;
    *ret_len = (size_t)(*at - word);
    return word;
}

static inline void builder_add_line(tm_model *model, const char *at, const char *end)
{
    size_t name_len, dtype_len, shape_len, file_len, rank = 0;
    const char *name = builder_word(&at, end, &name_len);
    const char *dtype_word = builder_word(&at, end, &dtype_len);
    const char *shape = builder_word(&at, end, &shape_len);
    const char *file = builder_word(&at, end, &file_len);
    tm_dtype dtype;
    uint64_t dims[8], elems, bytes;
    assert_true(tm_dtype_parse_exact(dtype_word, dtype_len, &dtype));
    for (const char *p = shape; *p != '-' && p < shape + shape_len; p += *p == ',') {
        char *next;
        assert_true(rank < TM_ARRAY_LEN(dims));
        dims[rank++] = strtoull(p, &next, 10);
        p = next;
    }
    assert_true(tm_dims_elems(dims, rank, &elems));
    assert_true(tm_dtype_bytes(dtype, elems, &bytes));
    tm_tensor_new tensor = {
        .name = name,
        .name_len = name_len,
        .dtype = dtype,
        .dims = dims,
        .rank = rank,
        .file = file_len ? (uint32_t)(*file - '0') : 0,
        .begin = 128,
        .bytes = bytes,
    };
    assert_int_equal(tm_tensor_table_add(&model->table, &tensor, NULL), 0);
}

static inline void builder_add_file(tm_model *model, const char *name)
{
    tm_model_file *file = &model->files[model->file_count++];
    static const char bytes[1000];
    file->name = strdup(name);
    assert_non_null(file->name);
    assert_int_equal(tm_blob_mem_new(bytes, sizeof(bytes), &file->blob), 0);
}

/* LINES end in LF each. */
static inline tm_model *builder_model(const char *lines)
{
    tm_model *model;
    assert_int_equal(tm_model_new(&model), 0);
    model->files = tm_new_array(2, sizeof(*model->files));
    assert_non_null(model->files);
    builder_add_file(model, "a.safetensors");
    builder_add_file(model, "b.safetensors");
    for (const char *at = lines, *end; *at; at = end + 1) {
        end = strchr(at, '\n');
        assert_non_null(end);
        builder_add_line(model, at, end);
    }
    assert_int_equal(tm_tensor_table_seal(&model->table), 0);
    assert_int_equal(tm_structure_build(&model->structure, &model->table), 0);
    return model;
}

#endif
