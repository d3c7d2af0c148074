/* The table of mounts, as the kernel writes it, and the paths that are looked for in it. */
#include "fs/mounts.h"

#include "tests/unit/fs/checkpoint_files.h"

/* ---- The table ---- */

static void expect_type(const char *point, const char *type)
{
    tm_req req;
    char *found = NULL;
    tm_req_init(&req, TM_LANE_VISIBLE);
    assert_int_equal(tm_mounts_type(at("mounts"), point, &req, &found), 0);
    if (type) {
        assert_non_null(found);
        assert_string_equal(found, type);
    } else {
        assert_null(found);
    }
    free(found);
}

static void the_last_line_of_a_mount_point_is_what_stands_there(void **state)
{
    (void)state;
    write_text(at("mounts"), "/dev/vda / ext4 rw,relatime 0 0\n"
                             "llama /mnt fuse.tmorph rw,nosuid,nodev 0 0\n"
                             "tmpfs /mnt/tmp tmpfs rw 0 0\n"
                             "tmpfs /both tmpfs rw 0 0\n"
                             "llama /both fuse.tmorph rw 0 0\n"
                             "llama /covered fuse.tmorph rw 0 0\n"
                             "sshfs#host: /covered fuse.sshfs rw 0 0\n"
                             "/dev/fuse /plain fuse rw 0 0");
    static const struct {
        const char *point, *type;
    } rows[] = {
        {"/", "ext4"},
        {"/mnt", "fuse.tmorph"},
        {"/mnt/tmp", "tmpfs"},
        {"/both", "fuse.tmorph"},
        {"/covered", "fuse.sshfs"},
        {"/plain", "fuse"},
        {"/mnt/", NULL},
        {"/mn", NULL},
        {"/mnt/tm", NULL},
        {"llama", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++)
        expect_type(rows[i].point, rows[i].type);
}

static void what_a_line_cannot_hold_is_escaped_in_it(void **state)
{
    (void)state;
    write_text(at("mounts"), "a\\040b /with\\040blank fuse.tmorph rw 0 0\n"
                             "\\043c /with\\134back fuse.tmorph rw 0 0\n"
                             "c /with\\134040 fuse.one rw 0 0\n"
                             "c /with\\011tab\\012line fuse.two rw 0 0\n"
                             "c /with#number fuse.three rw 0 0\n"
                             "c /\xc3\xa9\xff fuse.four rw 0 0\n");
    static const struct {
        const char *point, *type;
    } rows[] = {
        {"/with blank", "fuse.tmorph"}, {"/with\\back", "fuse.tmorph"},
        {"/with\\040", "fuse.one"},     {"/with\ttab\nline", "fuse.two"},
        {"/with#number", "fuse.three"}, {"/\xc3\xa9\xff", "fuse.four"},
        {"/with\\040blank", NULL},      {"/with", NULL},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++)
        expect_type(rows[i].point, rows[i].type);
}

/* Two paths of which each byte is escaped, and more options than that. */
static void the_longest_line_hides_no_other(void **state)
{
    (void)state;
    enum {
        DEPTH = 4000
    };
    char *point = malloc(DEPTH + 1), *text = malloc(200000), *end = text;
    assert_true(point && text);
    memset(point, ' ', DEPTH);
    point[0] = '/';
    point[DEPTH] = '\0';
    for (int path = 0; path < 2; path++) {
        *end++ = '/';
        for (int i = 1; i < DEPTH; i++)
            end += snprintf(end, 5, "\\040");
        *end++ = ' ';
    }
    end += snprintf(end, 20, "fuse.tmorph ");
    memset(end, 'o', 100000);
    snprintf(end + 100000, 64, " 0 0\ntmpfs /next tmpfs rw 0 0\n");
    write_text(at("mounts"), text);
    expect_type(point, "fuse.tmorph");
    expect_type("/next", "tmpfs");
    free(point);
    free(text);
}

static void a_table_that_is_not_there_is_said(void **state)
{
    (void)state;
    tm_req req;
    char *type = NULL, words[FILES_PATH_MAX + 64];
    tm_req_init(&req, TM_LANE_VISIBLE);
    assert_int_equal(tm_mounts_type(at("none"), "/", &req, &type), -ENOENT);
    snprintf(words, sizeof(words), "%s: No such file or directory", at("none"));
    assert_string_equal(tm_req_words(&req), words);
    assert_null(type);
}

static void the_kernels_table_has_the_root(void **state)
{
    (void)state;
    tm_req req;
    char *type = NULL;
    tm_req_init(&req, TM_LANE_VISIBLE);
    if (access(TM_MOUNTS_TABLE, R_OK) < 0)
        skip();
    assert_int_equal(tm_mounts_type(TM_MOUNTS_TABLE, "/proc", &req, &type), 0);
    assert_string_equal(type, "proc");
    free(type);
}

/* ---- Paths ---- */

static void every_path_to_a_folder_leads_to_it(void **state)
{
    (void)state;
    make_folder(at("real/deep"));
    make_folder(at("real/with blank\\\n"));
    make_link("real/deep", at("link"));
    make_link(at("link"), at("far"));
    make_link("../real//deep/", at("real/slashed"));
    make_link("real", at("folder"));
    make_link("..", at("real/deep/up"));
    make_link("nothing", at("dangling"));
    static const struct {
        const char *path, *wanted; /* below the test's folder, where it stands */
    } rows[] = {
        {"real/deep", "/real/deep"},
        {"./real/../real//deep///", "/real/deep"},
        {"real/deep/.", "/real/deep"},
        {"real/deep/..", "/real"},
        {".", ""},
        {"real/with blank\\\n", "/real/with blank\\\n"},
        {"link", "/real/deep"},
        {"link/", "/real/deep"},
        {"far", "/real/deep"},
        {"folder/deep", "/real/deep"},
        {"folder/slashed", "/real/deep"},
        {"real/deep/up", "/real"},
        {"not/../real", NULL},
        {"real/nothing", "/real/nothing"},
        {"dangling", "/nothing"},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        tm_req req;
        char *found = NULL;
        tm_req_init(&req, TM_LANE_VISIBLE);
        int rc = tm_mounts_resolve(rows[i].path, &req, &found);
        assert_int_equal(rc, rows[i].wanted ? 0 : -ENOENT);
        if (rows[i].wanted) {
            assert_int_equal(strncmp(found, files_root, strlen(files_root)), 0);
            assert_string_equal(found + strlen(files_root), rows[i].wanted);
        }
        free(found);
    }
}

static void a_path_from_the_root_is_itself(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"/", "/"}, {"//", "/"}, {"/proc", "/proc"}, {"/../proc/", "/proc"}, {"/none", "/none"}};
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        tm_req req;
        char *found = NULL;
        tm_req_init(&req, TM_LANE_VISIBLE);
        assert_int_equal(tm_mounts_resolve(rows[i][0], &req, &found), 0);
        assert_string_equal(found, rows[i][1]);
        free(found);
    }
}

static void a_path_that_leads_nowhere_is_said(void **state)
{
    (void)state;
    make_link("ring-b", at("ring-a"));
    make_link("ring-a", at("ring-b"));
    write_text(at("file"), "");
    static const struct {
        const char *path;
        int rc;
        const char *words;
    } rows[] = {
        {"none/at/all", -ENOENT, "none/at/all: No such file or directory"},
        {"", -ENOENT, ": No such file or directory"},
        {"file/below", -ENOTDIR, "file/below: Not a directory"},
        {"ring-a", -ELOOP, "ring-a: Too many levels of symbolic links"},
        {"ring-a/below", -ELOOP, "ring-a/below: Too many levels of symbolic links"},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        tm_req req;
        char *found = NULL;
        tm_req_init(&req, TM_LANE_VISIBLE);
        assert_int_equal(tm_mounts_resolve(rows[i].path, &req, &found), rows[i].rc);
        assert_string_equal(tm_req_words(&req), rows[i].words);
        assert_null(found);
    }
}

static int begin(void **state)
{
    return files_new(state) == 0 ? chdir(files_root) : -1;
}

static int end(void **state)
{
    return chdir("/") == 0 ? files_free(state) : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_line_of_a_mount_point_is_what_stands_there),
        cmocka_unit_test(what_a_line_cannot_hold_is_escaped_in_it),
        cmocka_unit_test(the_longest_line_hides_no_other),
        cmocka_unit_test(a_table_that_is_not_there_is_said),
        cmocka_unit_test(the_kernels_table_has_the_root),
        cmocka_unit_test(every_path_to_a_folder_leads_to_it),
        cmocka_unit_test(a_path_from_the_root_is_itself),
        cmocka_unit_test(a_path_that_leads_nowhere_is_said),
    };
    return cmocka_run_group_tests_name("mounts", tests, begin, end);
}
