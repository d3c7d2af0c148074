/*
 * Tensor names as file names and table fields.
 *
 * As a file name: '/', '%', control bytes (0x00-0x1f, 0x7f) are %XX with upper-case digits; '.' and
 * '..' become %2E and %2E%2E; the empty name is '%'; other bytes, invalid UTF-8 too, stay. Where
 * the result is over 255 bytes it is cut to a prefix (not inside an escape or a UTF-8 sequence)
 * followed by '~' and 16 hex digits of a hash of the whole name. Not invertible then: a look-up
 * compares forward, see tm_name_matches_file().
 *
 * A cut file name has 252 to 255 bytes, since no escape and no sequence is over 4 bytes. A name
 * that would by itself become such a file name (so long, and ending in '~' and 16 lower-case hex
 * digits) is cut as well. So the shape of a file name alone tells whether it was cut, and two
 * names share a file name only where their hashes collide.
 */
#ifndef TM_CORE_ESCAPE_H
#define TM_CORE_ESCAPE_H

#include "core/base.h"

enum {
    TM_FILE_NAME_MAX = 255
};

/* Writes the NUL-terminated file name of NAME; returns its length, 1 to 255. */
size_t tm_name_to_file(const char *name, size_t len, char ret[TM_FILE_NAME_MAX + 1]);

/* The length of the same, without writing it. */
size_t tm_name_to_file_len(const char *name, size_t len);

/* Whether FILE is the file name of NAME. */
bool tm_name_matches_file(const char *name, size_t len, const char *file, size_t file_len);

typedef enum tm_file_name_kind {
    TM_FILE_NAME_WHOLE,   /* decodes to one name, whose file name it is */
    TM_FILE_NAME_HASHED,  /* the cut form: RET holds the first bytes of the name; a look-up asks
                             tm_name_matches_file() of each name that begins with them */
    TM_FILE_NAME_INVALID, /* no tensor name has it: a lower-case or useless escape, a bare '.' … */
} tm_file_name_kind;

/* Decodes FILE (1 to 255 bytes, others are invalid). RET has room for LEN bytes; it and *RET_LEN
 * are undefined where it is invalid. Only the canonical spelling is whole. */
tm_file_name_kind tm_file_to_name(const char *file, size_t len, char *ret, size_t *ret_len);

/* A field of a table: like a file name (the empty one is '%'), but neither '/', '.' and '..' nor
 * length are touched: only '%' and control bytes are escaped. Returns the length; writes at most
 * CAP bytes of it, no NUL. */
size_t tm_field_escape(const char *name, size_t len, char *ret, size_t cap);

#endif
