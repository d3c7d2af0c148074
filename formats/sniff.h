/* What a file that cannot be read as weights really is, by its first bytes. */
#ifndef TM_FORMATS_SNIFF_H
#define TM_FORMATS_SNIFF_H

#include "formats/byte_source.h"

enum {
    TM_SNIFF_HEAD = 1024, /* bytes that are enough */
    TM_SNIFF_WORDS_MAX = 512,
};

/*
 * Words that follow a file's name ("is a Git LFS pointer …"), and true; false where HEAD, the
 * first LEN bytes of a file of SIZE bytes, tells nothing. No control bytes in the words.
 */
bool tm_sniff(const void *head, size_t len, uint64_t size, char ret[TM_SNIFF_WORDS_MAX]);

/* The same of SRC: 1 where RET was written, 0 where it was not, or the failure of its read. */
TM_MUST_CHECK int tm_sniff_source(const tm_byte_source *src, tm_req *req,
                                  char ret[TM_SNIFF_WORDS_MAX]);

#endif
