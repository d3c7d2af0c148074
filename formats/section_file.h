/*
 * Files of sections, which both index files are (docs/index-format.md):
 *
 *     header, 128 bytes | table of sections, 48 bytes each | section | section | …
 *
 * The header and the table are checked when a file is opened; a section may be checked as a whole,
 * or what stands in it has checks of its own. Nothing is mapped: a file that shrinks or changes
 * under us is an error of a read. tm_section_read() is the one way to what a section holds.
 */
#ifndef TM_FORMATS_SECTION_FILE_H
#define TM_FORMATS_SECTION_FILE_H

#include "core/hash.h"
#include "formats/byte_source.h"

enum {
    TM_FINGERPRINT_BYTES = 32,
    TM_SECTION_HEADER_BYTES = 128,
    TM_SECTION_ENTRY_BYTES = 48,
    TM_SECTIONS_MAX = 64,
    TM_SECTION_ALIGN = 8,     /* of the places of sections and of their lengths */
    TM_SECTION_SKIPPABLE = 1, /* flag: who does not know the kind may pass over it */
};

/* What kind of file: constant, one a kind. */
typedef struct tm_section_format {
    const char *what; /* for words: "an index" */
    uint8_t magic[8];
    uint16_t major, minor;
    uint32_t rules;       /* changes whenever the same source gives other content */
    uint32_t known_kinds; /* kinds 1 to this are known here */
} tm_section_format;

typedef struct tm_section {
    uint32_t kind;
    uint16_t flags;
    uint16_t item_bytes; /* of items of fixed size, 0 for others */
    uint64_t off;
    uint64_t stored; /* bytes, a multiple of TM_SECTION_ALIGN */
    uint64_t used;   /* of these; zeros follow */
    tm_id check;     /* tm_hash_bytes() of the stored bytes */
} tm_section;

typedef struct tm_section_file {
    tm_byte_source src;
    tm_section sections[TM_SECTIONS_MAX];
    size_t count;
} tm_section_file;

/*
 * Checks the header and the table; SRC is copied, and what it borrows lives as long as RET is used.
 * -EBADMSG: damaged, cut short, or no such file at all; -EOPNOTSUPP: of a version or with features
 * that are not known here; -ESTALE: of another source, or made by other rules.
 */
TM_MUST_CHECK int tm_section_file_open(const tm_byte_source *src, const tm_section_format *format,
                                       const uint8_t fingerprint[TM_FINGERPRINT_BYTES], tm_req *req,
                                       tm_section_file *ret);

/* The section of KIND, NULL where there is none. */
const tm_section *tm_section_find(const tm_section_file *file, uint32_t kind);

/* LEN bytes at OFF of what SECTION uses; -EBADMSG where they are not within it. */
TM_MUST_CHECK int tm_section_read(const tm_section_file *file, const tm_section *section,
                                  uint64_t off, size_t len, void *dst, tm_req *req);

/* Reads all of SECTION: -EBADMSG where it is not what was written. */
TM_MUST_CHECK int tm_section_check(const tm_section_file *file, const tm_section *section,
                                   tm_req *req);

/* How many bytes header and table take, and those bytes. Offsets of SECTIONS follow each other. */
size_t tm_section_head_bytes(size_t count);
void tm_section_head_store(const tm_section_format *format,
                           const uint8_t fingerprint[TM_FINGERPRINT_BYTES],
                           const tm_section *sections, size_t count, uint8_t *ret);

#endif
