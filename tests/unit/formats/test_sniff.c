/* What a file that is no weights is said to be. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "formats/sniff.h"
#include "tests/unit/formats/memory_source.h"

#define LFS_WORDS(oid, size)                                                                       \
    "is a Git LFS pointer (oid " oid ", " size "): the weights were not downloaded; "              \
    "run 'git lfs pull'"
#define TEXT_WORDS(kind, excerpt)                                                                  \
    "is " kind ", not weights; a server's answer saved in their place? It begins: " excerpt

typedef struct sniff_case {
    const char *head;
    size_t len;
    const char *words; /* NULL: unknown */
} sniff_case;

#define CASE(head, words)                                                                          \
    {                                                                                              \
        head, sizeof(head) - 1, words                                                              \
    }

static const sniff_case cases[] = {
    CASE("", "is empty"),
    CASE("\0\0\0\0\0\0\0\0\0\0",
         "begins with 10 zero bytes: its space was reserved, but its content never written"),
    CASE("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 4903354368\n",
         LFS_WORDS("sha256:4d7a21", "4.9 GB")),
    CASE("version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 999\n",
         LFS_WORDS("sha256:ab", "999 bytes")),
    CASE("version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 1000",
         LFS_WORDS("sha256:ab", "1.0 kB")),
    CASE("version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 99999999999999999999\n",
         LFS_WORDS("sha256:ab", "1.0 EB")),
    CASE("version https://git-lfs.github.com/spec/v1\nsize x\n", LFS_WORDS("?", "0 bytes")),
    CASE("version https://git-lfs.github.com/spec/v1\noid a\x1b[31m\nsize 1\n",
         LFS_WORDS("a%1B[31m", "1 bytes")),
    CASE("PK\x03\x04\0\0\x08\x08", "is a zip archive, as torch.save writes (.pt, .pth, .bin)"),
    CASE("PK\x05\x06", "is an empty zip archive"),
    CASE("\x80\x02}q\x01", "is a Python pickle, which is never opened: it can run code"),
    CASE("\x80\x05\x95", "is a Python pickle, which is never opened: it can run code"),
    CASE("GGUF\x03\0\0\0", "is a GGUF file"),
    CASE("\x1f\x8b\x08\0", "is compressed (gzip)"),
    CASE("\x28\xb5\x2f\xfd\0", "is compressed (zstd)"),
    CASE("\xfd"
         "7zXZ\0",
         "is compressed (xz)"),
    CASE("BZh91AY&SY", "is compressed (bzip2)"),
    CASE("\x89HDF\r\n\x1a\n\0", "is an HDF5 file (.h5)"),
    CASE("\x93NUMPY\x01\0", "is a NumPy array (.npy)"),
    CASE("<!DOCTYPE html>\n<html>", TEXT_WORDS("an HTML page", "<!DOCTYPE html>%0A<html>")),
    CASE("  <HTML lang=en>\xc3\xa9", TEXT_WORDS("an HTML page", "<HTML lang=en>\xc3\xa9")),
    CASE("<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code>",
         TEXT_WORDS("XML text", "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code>")),
    CASE("{\"error\":\"Repository not found\"}",
         TEXT_WORDS("JSON text", "{\"error\":\"Repository not found\"}")),
    CASE("Entry not found", TEXT_WORDS("text", "Entry not found")),
    /* A long text shows its first 72 bytes, less what would cut a character. */
    CASE("{12345678901234567890123456789012345678901234567890123456789012345678901\xc3\xa9",
         TEXT_WORDS("JSON text",
                    "{12345678901234567890123456789012345678901234567890123456789012345678901")),
    CASE("{1234567890123456789012345678901234567890123456789012345678901234567890\xc3\xa9",
         TEXT_WORDS("JSON text",
                    "{1234567890123456789012345678901234567890123456789012345678901234567890")),
    CASE("PK\x01\x02", NULL),
    CASE("GGU", TEXT_WORDS("text", "GGU")),
    CASE("\x80\x01", NULL),
    CASE("some text\x01", NULL),
    CASE("some text\x7f", NULL),
    CASE("caf\xe9", NULL),
    CASE(" \n ", NULL),
    CASE("\0\0\0\0\x01", NULL),
};

static void test_files_are_known_by_their_first_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(cases); i++) {
        const sniff_case *c = &cases[i];
        char words[TM_SNIFF_WORDS_MAX] = "unknown";
        /* In memory of its exact size, so that a sanitizer sees a read beyond it. */
        char *head = malloc(c->len ? c->len : 1);
        assert_non_null(head);
        memcpy(head, c->head, c->len);
        bool known = tm_sniff(head, c->len, c->len, words);
        assert_string_equal(words, c->words ? c->words : "unknown");
        assert_int_equal(known, c->words != NULL);
        free(head);
    }
}

static void test_only_the_head_of_a_source_is_read(void **state)
{
    (void)state;
    char head[TM_SNIFF_HEAD] = "GGUF", words[TM_SNIFF_WORDS_MAX];
    memory_file file = {.bytes = head, .len = sizeof(head)};
    tm_byte_source src = memory_source(&file, "f", UINT64_C(1) << 40);
    tm_req req;
    tm_req_init(&req, TM_LANE_VISIBLE);
    assert_int_equal(tm_sniff_source(&src, &req, words), 1);
    assert_string_equal(words, "is a GGUF file");
    memset(head, 1, sizeof(head));
    assert_int_equal(tm_sniff_source(&src, &req, words), 0);
    src.size = 0;
    assert_int_equal(tm_sniff_source(&src, &req, words), 1);
    assert_string_equal(words, "is empty");
}

static void test_a_failed_read_is_passed_on(void **state)
{
    (void)state;
    char words[TM_SNIFF_WORDS_MAX];
    memory_file file = {.bytes = "GG", .len = 2};
    tm_byte_source src = memory_source(&file, "f", 100);
    tm_req req;
    tm_req_init(&req, TM_LANE_VISIBLE);
    assert_int_equal(tm_sniff_source(&src, &req, words), -EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_are_known_by_their_first_bytes),
        cmocka_unit_test(test_only_the_head_of_a_source_is_read),
        cmocka_unit_test(test_a_failed_read_is_passed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
