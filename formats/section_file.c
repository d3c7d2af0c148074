#include "formats/section_file.h"

#include <inttypes.h>

typedef struct header {
    uint8_t magic[8];
    uint16_t major, minor;
    uint32_t rules;
    uint64_t features; /* that a reader must know: none yet */
    uint64_t length;   /* of the file */
    uint32_t sections, entry_bytes;
    tm_id table_check;
    uint8_t fingerprint[TM_FINGERPRINT_BYTES];
    uint8_t reserved[24]; /* zeros */
    tm_id check;          /* of all before */
} header;
static_assert(sizeof(header) == TM_SECTION_HEADER_BYTES, "as docs/index-format.md says");
static_assert(offsetof(header, check) == 112, "as docs/index-format.md says");

static_assert(sizeof(tm_section) == TM_SECTION_ENTRY_BYTES, "an entry of the table as it is");
static_assert(offsetof(tm_section, check) == 32, "as docs/index-format.md says");

static int damaged(const tm_byte_source *src, tm_req *req, const char *why)
{
    return tm_fail(req, EBADMSG, "%s: is damaged: %s", src->name, why);
}

/* ---- Opening ---- */

/* Magic and version stand in the same place in every version, what follows may not. */
static int check_kind(const tm_byte_source *src, const tm_section_format *format, const header *h,
                      tm_req *req)
{
    if (memcmp(h->magic, format->magic, sizeof(h->magic)) != 0)
        return tm_fail(req, EBADMSG, "%s: is not %s of tensormorph", src->name, format->what);
    if (h->major != format->major)
        return tm_fail(req, EOPNOTSUPP, "%s: is %s of version %u.%u; this program reads %u",
                       src->name, format->what, h->major, h->minor, format->major);
    if (!tm_id_equal(h->check, tm_hash_bytes(h, offsetof(header, check))))
        return damaged(src, req, "its header is not what was written");
    if (h->features != 0)
        return tm_fail(req, EOPNOTSUPP, "%s: needs features (%" PRIx64 ") that are not known here",
                       src->name, h->features);
    return 0;
}

static int check_source(const tm_byte_source *src, const tm_section_format *format, const header *h,
                        const uint8_t *fingerprint, tm_req *req)
{
    if (memcmp(h->fingerprint, fingerprint, TM_FINGERPRINT_BYTES) != 0)
        return tm_fail(req, ESTALE, "%s: is %s of another file than this one", src->name,
                       format->what);
    if (h->rules != format->rules)
        return tm_fail(req, ESTALE, "%s: was made by rules %u; this program has rules %u",
                       src->name, h->rules, format->rules);
    return 0;
}

static int read_header(const tm_byte_source *src, const tm_section_format *format,
                       const uint8_t *fingerprint, tm_req *req, header *ret)
{
    if (src->size < sizeof(*ret))
        return tm_fail(req, EBADMSG, "%s: has %" PRIu64 " bytes, too few for %s", src->name,
                       src->size, format->what);
    TM_TRY(tm_byte_source_read(src, 0, ret, sizeof(*ret), req));
    TM_TRY(check_kind(src, format, ret, req));
    TM_TRY(check_source(src, format, ret, fingerprint, req));
    if (ret->length != src->size)
        return tm_fail(req, EBADMSG, "%s: is damaged: has %" PRIu64 " bytes of %" PRIu64, src->name,
                       src->size, ret->length);
    if (ret->sections > TM_SECTIONS_MAX || ret->entry_bytes != TM_SECTION_ENTRY_BYTES ||
        tm_section_head_bytes(ret->sections) > src->size)
        return damaged(src, req, "its table of sections cannot be");
    return 0;
}

/* Sections follow each other without a gap, up to the end of the file. */
static int check_table(const tm_section_file *file, tm_req *req)
{
    uint64_t at = tm_section_head_bytes(file->count);
    for (size_t i = 0; i < file->count; i++) {
        const tm_section *s = &file->sections[i];
        bool fits = s->off == at && tm_range_ok(at, s->stored, file->src.size);
        if (!fits || s->stored % TM_SECTION_ALIGN != 0 || s->used > s->stored ||
            s->stored - s->used >= TM_SECTION_ALIGN || tm_section_find(file, s->kind) != s)
            return damaged(&file->src, req, "its sections cannot be");
        at += s->stored;
    }
    return at == file->src.size ? 0 : damaged(&file->src, req, "bytes belong to no section");
}

static int check_kinds(const tm_section_file *file, uint32_t known, tm_req *req)
{
    for (size_t i = 0; i < file->count; i++) {
        const tm_section *s = &file->sections[i];
        if ((s->kind == 0 || s->kind > known) && !(s->flags & TM_SECTION_SKIPPABLE))
            return tm_fail(req, EOPNOTSUPP, "%s: has a section (%u) that is not known here",
                           file->src.name, s->kind);
    }
    return 0;
}

int tm_section_file_open(const tm_byte_source *src, const tm_section_format *format,
                         const uint8_t fingerprint[TM_FINGERPRINT_BYTES], tm_req *req,
                         tm_section_file *ret)
{
    header h;
    tm_section_file file = {.src = *src};
    TM_TRY(read_header(src, format, fingerprint, req, &h));
    file.count = h.sections;
    size_t bytes = file.count * sizeof(tm_section);
    TM_TRY(tm_byte_source_read(src, sizeof(h), file.sections, bytes, req));
    if (!tm_id_equal(h.table_check, tm_hash_bytes(file.sections, bytes)))
        return damaged(src, req, "its table of sections is not what was written");
    TM_TRY(check_table(&file, req));
    TM_TRY(check_kinds(&file, format->known_kinds, req));
    *ret = file;
    return 0;
}

/* ---- Reading ---- */

const tm_section *tm_section_find(const tm_section_file *file, uint32_t kind)
{
    for (size_t i = 0; i < file->count; i++)
        if (file->sections[i].kind == kind)
            return &file->sections[i];
    return NULL;
}

int tm_section_read(const tm_section_file *file, const tm_section *section, uint64_t off,
                    size_t len, void *dst, tm_req *req)
{
    if (!tm_range_ok(off, len, section->used))
        return damaged(&file->src, req, "something refers to bytes that are not in its section");
    return tm_byte_source_read(&file->src, section->off + off, dst, len, req);
}

static int add_chunk(void *ctx, const void *data, size_t len)
{
    tm_hasher_update(ctx, data, len);
    return 0;
}

int tm_section_check(const tm_section_file *file, const tm_section *section, tm_req *req)
{
    tm_hasher hasher;
    tm_hasher_init(&hasher);
    TM_TRY(tm_byte_source_stream(&file->src, section->off, section->off + section->stored,
                                 add_chunk, &hasher, req));
    if (!tm_id_equal(tm_hasher_final(&hasher), section->check))
        return damaged(&file->src, req, "a section is not what was written");
    return 0;
}

/* ---- Writing ---- */

size_t tm_section_head_bytes(size_t count)
{
    return TM_SECTION_HEADER_BYTES + count * TM_SECTION_ENTRY_BYTES;
}

void tm_section_head_store(const tm_section_format *format,
                           const uint8_t fingerprint[TM_FINGERPRINT_BYTES],
                           const tm_section *sections, size_t count, uint8_t *ret)
{
    assert(count <= TM_SECTIONS_MAX);
    size_t table = count * sizeof(*sections);
    const tm_section *last = count ? &sections[count - 1] : NULL;
    header h = {
        .major = format->major,
        .minor = format->minor,
        .rules = format->rules,
        .length = last ? last->off + last->stored : sizeof(h),
        .sections = (uint32_t)count,
        .entry_bytes = sizeof(*sections),
        .table_check = tm_hash_bytes(sections, table),
    };
    memcpy(h.magic, format->magic, sizeof(h.magic));
    memcpy(h.fingerprint, fingerprint, sizeof(h.fingerprint));
    h.check = tm_hash_bytes(&h, offsetof(header, check));
    memcpy(ret, &h, sizeof(h));
    if (table)
        memcpy(ret + sizeof(h), sections, table);
}
