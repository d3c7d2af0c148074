/*
 * A file that appears whole or not at all: written as PATH.tmp, synced, renamed over PATH, and the
 * folder synced. One thread; two writers of one PATH are their caller's to prevent.
 */
#ifndef TM_FORMATS_NEW_FILE_H
#define TM_FORMATS_NEW_FILE_H

#include "core/req.h"

typedef struct tm_new_file tm_new_file;

/* Begins it, in place of what another writer left. The first bytes written are at offset OFF. */
TM_MUST_CHECK int tm_new_file_open(const char *path, uint64_t off, tm_req *req, tm_new_file **ret);
/* Removes PATH.tmp unless it was committed. Accepts NULL. */
void tm_new_file_close(tm_new_file *file);
void tm_new_file_closep(tm_new_file **file);

/* Appends. */
TM_MUST_CHECK int tm_new_file_put(tm_new_file *file, const void *bytes, size_t len, tm_req *req);
/* Fills the place that was left free at the beginning. */
TM_MUST_CHECK int tm_new_file_put_first(tm_new_file *file, const void *bytes, size_t len,
                                        tm_req *req);
/* Once, as the last. */
TM_MUST_CHECK int tm_new_file_commit(tm_new_file *file, tm_req *req);

/* For files that are written in other ways. PATH and SUFFIX, malloc'ed; NULL for want of memory. */
char *tm_path_with(const char *path, const char *suffix);
/* Fails with "PATH: WHAT: words of CODE". */
int tm_fail_file(tm_req *req, int code, const char *path, const char *what);
TM_MUST_CHECK int tm_write_all(int fd, const char *path, const void *bytes, size_t len,
                               uint64_t off, tm_req *req);
/* 1: all LEN bytes are there; 0: the file ends before. */
TM_MUST_CHECK int tm_read_all(int fd, const char *path, void *dst, size_t len, uint64_t off,
                              tm_req *req);
/* A file that was made or renamed in the folder of PATH is there for good. */
TM_MUST_CHECK int tm_sync_folder_of(const char *path, tm_req *req);

#endif
