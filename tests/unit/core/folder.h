/* A folder of files that a test makes, replaces and changes. */
#ifndef TM_TESTS_UNIT_CORE_FOLDER_H
#define TM_TESTS_UNIT_CORE_FOLDER_H

#include "core/base.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <setjmp.h>
#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FOLDER_PATH_MAX = 600
};

static char folder[256];

static inline int folder_new(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof(folder), "%s/tm-unit-XXXXXX", base ? base : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

/* Empties the folder, which has no folders in it but empty ones. */
static inline void folder_clear(void)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            assert_int_equal(
                unlinkat(dirfd(dir), entry->d_name, entry->d_type == DT_DIR ? AT_REMOVEDIR : 0), 0);
    closedir(dir);
}

static inline int folder_free(void **state)
{
    (void)state;
    folder_clear();
    return rmdir(folder);
}

static inline const char *path_in(char ret[FOLDER_PATH_MAX], const char *name)
{
    snprintf(ret, FOLDER_PATH_MAX, "%s/%s", folder, name);
    return ret;
}

/* Byte OFF of the file that was made with KEY. */
static inline uint8_t file_byte(unsigned key, uint64_t off)
{
    return (uint8_t)(off * 37 + (off >> 8) * 11 + key * 101 + 3);
}

/* Writes LEN bytes of KEY to what is there or is made; its time is KEY seconds past an epoch. */
static inline void write_file(const char *name, unsigned key, size_t len)
{
    char path[FOLDER_PATH_MAX];
    uint8_t *bytes = malloc(len + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = file_byte(key, i);
    int fd = open(path_in(path, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), len);
    struct timespec times[2] = {{1700000000 + key, 0}, {1700000000 + key, 0}};
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
    free(bytes);
}

/* Puts another file in the place of NAME. */
static inline void replace_file(const char *name, unsigned key, size_t len)
{
    char from[FOLDER_PATH_MAX], to[FOLDER_PATH_MAX];
    write_file("new", key, len);
    assert_int_equal(rename(path_in(from, "new"), path_in(to, name)), 0);
}

#endif
