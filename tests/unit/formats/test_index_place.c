/* Where index files lie, and where they do not. */
#include "formats/index_place.h"

#include "tests/unit/formats/index_cases.h"

#define HEX                                                                                        \
    "0102"                                                                                         \
    "03fa" /* of index_fingerprint */                                                              \
    "000000000000000000000000000000000000000000000000000000"                                       \
    "09"

static tm_index_place place_of(const char *folder, const char *shard)
{
    const char *slash = strrchr(shard, '/');
    return (tm_index_place){.folder = folder,
                            .name = slash ? slash + 1 : shard,
                            .shard = shard,
                            .suffix = ".tmidx",
                            .fingerprint = index_fingerprint};
}

static void each_place_has_its_path(void **state)
{
    (void)state;
    static const struct {
        const char *folder, *shard, *xdg, *home;
        tm_index_where where;
        const char *path; /* NULL: none */
    } rows[] = {
        {NULL, "/m/a.safetensors", "/c", "/h", TM_INDEX_BESIDE, "/m/a.safetensors.tmidx"},
        {NULL, "a.safetensors", "/c", "/h", TM_INDEX_BESIDE, "a.safetensors.tmidx"},
        {NULL, "/m/a", "/c", "/h", TM_INDEX_IN_FOLDER, NULL},
        {"/out", "/m/a.safetensors", "/c", "/h", TM_INDEX_IN_FOLDER, "/out/a.safetensors.tmidx"},
        {"out", "a", "/c", "/h", TM_INDEX_IN_FOLDER, "out/a.tmidx"},
        {NULL, "/m/a", "/c", "/h", TM_INDEX_IN_CACHE, "/c/tmorph/index/" HEX ".tmidx"},
        {NULL, "/m/a", NULL, "/h", TM_INDEX_IN_CACHE, "/h/.cache/tmorph/index/" HEX ".tmidx"},
        {NULL, "/m/a", "rel", "/h", TM_INDEX_IN_CACHE, "/h/.cache/tmorph/index/" HEX ".tmidx"},
        {NULL, "/m/a", "", NULL, TM_INDEX_IN_CACHE, NULL},
        {NULL, "/m/a", NULL, "h", TM_INDEX_IN_CACHE, NULL},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        char *path = NULL;
        tm_index_place place = place_of(rows[i].folder, rows[i].shard);
        rows[i].xdg ? setenv("XDG_CACHE_HOME", rows[i].xdg, 1) : unsetenv("XDG_CACHE_HOME");
        rows[i].home ? setenv("HOME", rows[i].home, 1) : unsetenv("HOME");
        int rc = tm_index_path(&place, rows[i].where, &path);
        assert_int_equal(rc, rows[i].path ? 0 : -ENOENT);
        if (rows[i].path)
            assert_string_equal(path, rows[i].path);
        free(path);
    }
}

/* As somebody whom a folder's mode keeps out: root is not. */
static int path_as_nobody(const tm_index_place *place, tm_req *req, char **ret)
{
    enum {
        NOBODY = 65534
    };
    bool is_root = geteuid() == 0;
    tm_req_init(req, TM_LANE_INDEX);
    if (is_root)
        assert_int_equal(seteuid(NOBODY), 0);
    int rc = tm_index_path_to_write(place, req, ret);
    if (is_root)
        assert_int_equal(seteuid(0), 0);
    return rc;
}

static void make_folder_of_mode(const char *path, mode_t mode)
{
    make_folder(path);
    assert_int_equal(chmod(path, mode), 0);
}

static void it_is_written_beside_the_shard_where_that_may_be(void **state)
{
    (void)state;
    tm_req req;
    char *path;
    assert_int_equal(chmod(files_root, 0755), 0);
    make_folder_of_mode(at("open"), 0777);
    make_folder_of_mode(at("closed"), 0555);
    make_folder_of_mode(at("cache"), 0777);
    setenv("XDG_CACHE_HOME", at("cache"), 1);
    const char *cached = at("cache/tmorph/index/" HEX ".tmidx");

    tm_index_place place = place_of(NULL, at("open/a"));
    assert_int_equal(path_as_nobody(&place, &req, &path), 0);
    assert_string_equal(path, at("open/a.tmidx"));
    free(path);
    place.not_beside = true;
    assert_int_equal(path_as_nobody(&place, &req, &path), 0);
    assert_string_equal(path, cached);
    free(path);
    place = place_of(NULL, at("closed/a"));
    assert_int_equal(path_as_nobody(&place, &req, &path), 0);
    assert_string_equal(path, cached);
    free(path);

    struct stat st;
    assert_int_equal(stat(at("cache/tmorph/index"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
}

static void a_folder_that_is_named_is_made_and_taken(void **state)
{
    (void)state;
    tm_req req;
    char *path;
    struct stat st;
    tm_index_place place = place_of(at("new/folder"), at("open/a"));
    tm_req_init(&req, TM_LANE_INDEX);
    assert_int_equal(tm_index_path_to_write(&place, &req, &path), 0);
    assert_string_equal(path, at("new/folder/a.tmidx"));
    free(path);
    assert_int_equal(stat(at("new/folder"), &st), 0);
    assert_true(S_ISDIR(st.st_mode));
}

static void where_no_folder_can_be_made_words_say_so(void **state)
{
    (void)state;
    tm_req req;
    char *path = NULL;
    char words[FILES_PATH_MAX];
    write_text(at("file"), "");
    tm_index_place place = place_of(at("file/in"), at("open/a"));
    tm_req_init(&req, TM_LANE_INDEX);
    assert_int_equal(tm_index_path_to_write(&place, &req, &path), -EEXIST);
    snprintf(words, sizeof(words), "%s: cannot be made: File exists", at("file"));
    assert_string_equal(tm_req_words(&req), words);

    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    make_folder_of_mode(at("closed"), 0555);
    place = place_of(NULL, at("closed/a"));
    assert_int_equal(path_as_nobody(&place, &req, &path), -ENOENT);
    assert_non_null(strstr(tm_req_words(&req), "neither XDG_CACHE_HOME nor HOME"));
    assert_null(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_place_has_its_path),
        cmocka_unit_test(it_is_written_beside_the_shard_where_that_may_be),
        cmocka_unit_test(a_folder_that_is_named_is_made_and_taken),
        cmocka_unit_test(where_no_folder_can_be_made_words_say_so),
    };
    return cmocka_run_group_tests(tests, files_new, files_free);
}
