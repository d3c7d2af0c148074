/* What a local source consists of: names, links, the Hugging Face cache, limits, changes. */
#include "formats/listing.h"

#include "tests/unit/fs/checkpoint_files.h"

static tm_listing read_listing(const char *path, int depth)
{
    tm_listing listing;
    tm_req req;
    tm_req_init(&req, TM_LANE_VISIBLE);
    assert_int_equal(tm_listing_read(path, depth, &req, &listing), 0);
    return listing;
}

/* The paths of the entries, each with LF, those of folders with a slash before it. */
static void expect_entries(const tm_listing *listing, const char *expected)
{
    tm_text text;
    tm_text_init(&text);
    for (size_t i = 0; i < listing->count; i++)
        tm_text_printf(&text, "%s%s\n", listing->entries[i].path,
                       listing->entries[i].is_dir ? "/" : "");
    assert_int_equal(tm_text_error(&text), 0);
    assert_string_equal(text.bytes ? text.bytes : "", expected);
    tm_text_done(&text);
}

static void expect_listing(const char *path, int depth, const char *expected)
{
    tm_listing listing = read_listing(path, depth);
    expect_entries(&listing, expected);
    tm_listing_done(&listing);
}

static void expect_failure(const char *path, int rc, const char *words)
{
    tm_listing listing;
    tm_req req;
    tm_req_init(&req, TM_LANE_VISIBLE);
    assert_int_equal(tm_listing_read(path, TM_LISTING_DEPTH_MAX, &req, &listing), rc);
    assert_string_equal(tm_req_words(&req), words);
}

/* ---- Names ---- */

static void entries_are_sorted_by_path_bytewise(void **state)
{
    (void)state;
    static const char *const files[] = {"a/x", "a/b/y",    "a.txt", "a-b", "B",
                                        "a0",  "\xc3\xa9", "\xff",  "z z", "line\nfeed"};
    for (size_t i = 0; i < TM_ARRAY_LEN(files); i++)
        write_text(at("sorted/%s", files[i]), "1");
    expect_listing(at("sorted"), TM_LISTING_DEPTH_MAX,
                   "B\na/\na-b\na.txt\na/b/\na/b/y\na/x\na0\nline\nfeed\nz z\n\xc3\xa9\n\xff\n");
}

static void folders_are_listed_as_deep_as_asked_for(void **state)
{
    (void)state;
    write_text(at("deep/1/2/3/file"), "");
    expect_listing(at("deep"), 0, "1/\n");
    expect_listing(at("deep"), 1, "1/\n1/2/\n");
    expect_listing(at("deep"), 2, "1/\n1/2/\n1/2/3/\n");
    expect_listing(at("deep"), 3, "1/\n1/2/\n1/2/3/\n1/2/3/file\n");
    expect_listing(at("deep"), 4, "1/\n1/2/\n1/2/3/\n1/2/3/file\n");
}

static void folders_of_git_and_of_the_hub_are_left_out_at_every_depth(void **state)
{
    (void)state;
    static const char *const files[] = {
        ".git/HEAD", ".cache/huggingface/x", "sub/.git/HEAD", "sub/.cache/x", ".gitattributes",
        ".cached",   "sub/.gitattributes",   ".hidden/file"};
    for (size_t i = 0; i < TM_ARRAY_LEN(files); i++)
        write_text(at("own/%s", files[i]), "");
    expect_listing(at("own"), TM_LISTING_DEPTH_MAX,
                   ".cached\n.gitattributes\n.hidden/\n.hidden/file\nsub/\nsub/.gitattributes\n");
}

static void what_is_neither_file_nor_folder_is_left_out_and_not_opened(void **state)
{
    (void)state;
    write_text(at("odd/file"), "");
    assert_int_equal(mkfifo(at("odd/fifo"), 0644), 0);
    make_link("/dev/null", at("odd/device"));
    tm_listing listing = read_listing(at("odd"), 1);
    expect_entries(&listing, "file\n");
    assert_int_equal(listing.dangling_count, 0);
    tm_listing_done(&listing);
}

static void an_empty_folder_has_no_entries_and_the_time_of_its_own(void **state)
{
    (void)state;
    make_folder(at("empty"));
    set_time(at("empty"), 1700000000, 5);
    tm_listing listing = read_listing(at("empty"), TM_LISTING_DEPTH_MAX);
    assert_int_equal(listing.count, 0);
    assert_int_equal(listing.mtime_ns, 1700000000000000005);
    assert_false(listing.is_file);
    assert_string_equal(listing.root, at("empty"));
    tm_listing_done(&listing);
}

static void the_time_is_that_of_the_newest_file_however_deep(void **state)
{
    (void)state;
    write_text(at("times/old"), "");
    write_text(at("times/sub/new"), "");
    set_time(at("times/old"), 1600000000, 0);
    set_time(at("times/sub/new"), 1600000001, 7);
    set_time(at("times/sub"), 1900000000, 0);
    set_time(at("times"), 1900000000, 0);
    tm_listing listing = read_listing(at("times"), TM_LISTING_DEPTH_MAX);
    assert_int_equal(listing.mtime_ns, 1600000001000000007);
    tm_listing_done(&listing);
}

static void an_entry_knows_size_and_identity_of_what_a_link_leads_to(void **state)
{
    (void)state;
    struct stat st;
    write_text(at("ident/blobs/b"), "12345");
    make_link("../blobs/b", at("ident/snapshot/file"));
    assert_int_equal(stat(at("ident/blobs/b"), &st), 0);
    tm_listing listing = read_listing(at("ident/snapshot"), 0);
    expect_entries(&listing, "file\n");
    const tm_file_identity *id = &listing.entries[0].identity;
    assert_int_equal(id->size, 5);
    assert_int_equal(id->ino, st.st_ino);
    assert_int_equal(id->dev, st.st_dev);
    assert_int_equal(id->mtime_ns, (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec);
    tm_listing_done(&listing);
}

/* ---- Links ---- */

static void links_that_lead_nowhere_are_remembered_until_they_lead_somewhere(void **state)
{
    (void)state;
    write_text(at("dangling/file"), "");
    make_link("missing", at("dangling/one"));
    make_link("../../missing", at("dangling/sub/two"));
    make_link("ring-b", at("dangling/ring-a"));
    make_link("ring-a", at("dangling/ring-b"));
    tm_listing listing = read_listing(at("dangling"), TM_LISTING_DEPTH_MAX);
    expect_entries(&listing, "file\nsub/\n");
    assert_int_equal(listing.dangling_count, 4);
    assert_true(tm_listing_is_current(&listing));
    assert_int_equal(symlink("dangling/file", at("missing")), 0);
    assert_false(tm_listing_is_current(&listing)); /* "sub/two" leads there */
    assert_int_equal(unlink(at("missing")), 0);
    tm_listing_done(&listing);
}

static void links_that_lead_back_are_left_out_and_others_followed(void **state)
{
    (void)state;
    write_text(at("back/sub/file"), "");
    make_link(".", at("back/self"));
    make_link("..", at("back/sub/up"));
    make_link("../sub", at("back/sub/here"));
    make_link(at("back"), at("back/sub/below/absolute"));
    make_link("sub", at("back/twin"));
    expect_listing(at("back"), TM_LISTING_DEPTH_MAX,
                   "sub/\nsub/below/\nsub/file\ntwin/\ntwin/below/\ntwin/file\n");
}

static void a_root_that_is_a_link_is_noticed_when_links_lead_back_to_it(void **state)
{
    (void)state;
    write_text(at("real/file"), "");
    make_link("real", at("alias"));
    make_link(at("alias"), at("real/again"));
    expect_listing(at("alias"), TM_LISTING_DEPTH_MAX, "file\n");
}

/* ---- Limits ---- */

static void what_lies_deeper_than_the_limit_is_not_seen(void **state)
{
    (void)state;
    char path[FILES_PATH_MAX];
    int len = snprintf(path, sizeof(path), "%s", at("well"));
    for (int i = 0; i < TM_LISTING_DEPTH_MAX + 5; i++)
        len += snprintf(path + len, sizeof(path) - (size_t)len, "/d");
    make_folder(path);
    tm_listing listing = read_listing(at("well"), TM_LISTING_DEPTH_MAX);
    assert_int_equal(listing.count, TM_LISTING_DEPTH_MAX + 1);
    assert_int_equal(strlen(listing.entries[listing.count - 1].path),
                     2 * (TM_LISTING_DEPTH_MAX + 1) - 1);
    tm_listing_done(&listing);
}

static void more_entries_than_the_limit_are_an_error(void **state)
{
    (void)state;
    char words[512];
    for (int i = 0; i < 1024; i++)
        write_text(at("many/files/%d", i), "");
    for (int i = 0; i < 1024; i++)
        make_link("files", at("many/link%d", i));
    snprintf(words, sizeof(words), "%s: more than 1048576 files and folders", at("many"));
    expect_failure(at("many"), -EFBIG, words);
    remove_all(at("many"));
}

/* ---- The Hugging Face cache ---- */

/* A cache folder with snapshots of these names, made at these times; a file in each names it. */
static void make_cache(const char *name, const char *const *snapshots, const long *times, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        write_text(at("%s/blobs/%s", name, snapshots[i]), "1234");
        make_link(at("%s/blobs/%s", name, snapshots[i]),
                  at("%s/snapshots/%s/in-%s", name, snapshots[i], snapshots[i]));
        set_time(at("%s/snapshots/%s", name, snapshots[i]), times[i], 0);
    }
}

static const char *const two_snapshots[] = {"aaaa", "bbbb"};

static void a_cache_folder_means_the_snapshot_that_main_names(void **state)
{
    (void)state;
    make_cache("models--o--n", two_snapshots, (const long[]){100, 200}, 2);
    static const char *const refs[] = {"aaaa", "aaaa\n", "aaaa\r\n", "aaaa "};
    for (size_t i = 0; i < TM_ARRAY_LEN(refs); i++) {
        write_text(at("models--o--n/refs/main"), refs[i]);
        expect_listing(at("models--o--n"), 0, "in-aaaa\n");
    }
    tm_listing listing = read_listing(at("models--o--n"), 0);
    assert_string_equal(listing.root, at("models--o--n/snapshots/aaaa"));
    assert_int_equal(listing.entries[0].identity.size, 4);
    tm_listing_done(&listing);
}

static void a_cache_folder_without_a_usable_main_means_its_newest_snapshot(void **state)
{
    (void)state;
    make_cache("models--o--newest", two_snapshots, (const long[]){100, 200}, 2);
    expect_listing(at("models--o--newest"), 0, "in-bbbb\n");
    static const char *const refs[] = {"", "cccc", "..", ".", "../snapshots/aaaa", "/", "\n"};
    for (size_t i = 0; i < TM_ARRAY_LEN(refs); i++) {
        write_text(at("models--o--newest/refs/main"), refs[i]);
        expect_listing(at("models--o--newest"), 0, "in-bbbb\n");
    }
    set_time(at("models--o--newest/snapshots/aaaa"), 200, 1);
    expect_listing(at("models--o--newest"), 0, "in-aaaa\n");
    set_time(at("models--o--newest/snapshots/bbbb"), 200, 2);
    expect_listing(at("models--o--newest"), 0, "in-bbbb\n");
}

static void a_cache_folder_that_means_another_snapshot_has_changed(void **state)
{
    (void)state;
    make_cache("models--o--moves", two_snapshots, (const long[]){100, 200}, 2);
    write_text(at("models--o--moves/refs/main"), "aaaa");
    tm_listing listing = read_listing(at("models--o--moves/"), 0);
    assert_true(tm_listing_is_current(&listing));
    write_text(at("models--o--moves/refs/main"), "bbbb");
    assert_false(tm_listing_is_current(&listing));
    write_text(at("models--o--moves/refs/main"), "aaaa\n");
    assert_true(tm_listing_is_current(&listing));
    remove_all(at("models--o--moves/refs"));
    assert_false(tm_listing_is_current(&listing));
    char *was = getcwd(NULL, 0);
    assert_int_equal(chdir(files_root), 0);
    tm_listing relative = read_listing("models--o--moves", 0);
    assert_true(tm_listing_is_current(&relative));
    remove_all(at("models--o--moves"));
    assert_false(tm_listing_is_current(&relative));
    assert_int_equal(chdir(was), 0);
    free(was);
    assert_false(tm_listing_is_current(&listing));
    tm_listing_done(&relative);
    tm_listing_done(&listing);
}

static void a_cache_folder_is_known_however_its_path_is_written(void **state)
{
    (void)state;
    make_cache("models--o--paths", two_snapshots, (const long[]){100, 200}, 2);
    char *was = getcwd(NULL, 0);
    expect_listing(at("models--o--paths/"), 0, "in-bbbb\n");
    expect_listing(at("models--o--paths///"), 0, "in-bbbb\n");
    assert_int_equal(chdir(files_root), 0);
    expect_listing("models--o--paths", 0, "in-bbbb\n");
    expect_listing("./models--o--paths/", 0, "in-bbbb\n");
    assert_int_equal(chdir(was), 0);
    free(was);
}

static void what_only_looks_like_a_cache_folder_is_listed_as_it_is(void **state)
{
    (void)state;
    write_text(at("models--o--plain/model.safetensors"), "");
    expect_listing(at("models--o--plain"), 0, "model.safetensors\n");
    make_folder(at("models--o--bare/snapshots"));
    expect_listing(at("models--o--bare"), 0, "snapshots/\n");
    make_cache("my-models", two_snapshots, (const long[]){100, 200}, 2);
    expect_listing(at("my-models"), 0, "blobs/\nsnapshots/\n");
}

/* ---- A single file ---- */

static void a_file_is_its_folder_with_one_entry(void **state)
{
    (void)state;
    write_text(at("single/m.safetensors"), "123");
    write_text(at("single/other"), "");
    set_time(at("single/m.safetensors"), 1650000000, 0);
    tm_listing listing = read_listing(at("single/m.safetensors"), 0);
    assert_true(listing.is_file);
    assert_string_equal(listing.root, at("single"));
    assert_int_equal(listing.mtime_ns, 1650000000000000000);
    expect_entries(&listing, "m.safetensors\n");
    assert_int_equal(listing.entries[0].identity.size, 3);
    tm_listing_done(&listing);
}

static void a_link_to_a_file_keeps_its_own_name_and_folder(void **state)
{
    (void)state;
    write_text(at("target/blob"), "123");
    make_link("../target/blob", at("named/model.safetensors"));
    tm_listing listing = read_listing(at("named/model.safetensors"), 0);
    assert_string_equal(listing.root, at("named"));
    expect_entries(&listing, "model.safetensors\n");
    tm_listing_done(&listing);
}

static void relative_paths_begin_at_the_working_directory(void **state)
{
    (void)state;
    write_text(at("relative/sub/file"), "");
    char *was = getcwd(NULL, 0);
    assert_int_equal(chdir(at("relative")), 0);
    tm_listing folder = read_listing("sub", 0);
    tm_listing file = read_listing("sub/file", 0);
    assert_int_equal(chdir(was), 0);
    free(was);
    assert_string_equal(folder.root, at("relative/sub"));
    assert_string_equal(file.root, at("relative/sub"));
    assert_true(tm_listing_is_current(&folder));
    assert_true(tm_listing_is_current(&file));
    tm_listing_done(&folder);
    tm_listing_done(&file);
}

static void what_cannot_be_listed_fails_with_its_path_and_reason(void **state)
{
    (void)state;
    char words[512];
    snprintf(words, sizeof(words), "%s: No such file or directory", at("nothing"));
    expect_failure(at("nothing"), -ENOENT, words);
    assert_int_equal(mkfifo(at("pipe"), 0644), 0);
    snprintf(words, sizeof(words), "%s: neither a file nor a folder", at("pipe"));
    expect_failure(at("pipe"), -EINVAL, words);
    expect_failure("", -ENOENT, ": No such file or directory");
}

/* ---- Looking up ---- */

static size_t naive_lower_bound(const tm_listing *listing, const char *path)
{
    size_t i = 0;
    while (i < listing->count && strcmp(listing->entries[i].path, path) < 0)
        i++;
    return i;
}

static void expect_found(const tm_listing *listing, const char *path, size_t len)
{
    char probe[64];
    snprintf(probe, sizeof(probe), "%.*s", (int)len, path);
    size_t expected = naive_lower_bound(listing, probe), found = 99;
    assert_int_equal(tm_listing_lower_bound(listing, path, len), expected);
    bool there = expected < listing->count && strcmp(listing->entries[expected].path, probe) == 0;
    assert_int_equal(tm_listing_find(listing, path, len, &found), there);
    if (there)
        assert_int_equal(found, expected);
}

static void paths_are_found_by_any_prefix_as_by_a_walk(void **state)
{
    (void)state;
    static const char *const files[] = {"m", "m.x", "m/x", "m-x", "mm", "n/a/b", "n/a-b", "\xfe"};
    for (size_t i = 0; i < TM_ARRAY_LEN(files); i++)
        if (strcmp(files[i], "m") != 0)
            write_text(at("found/%s", files[i]), "");
    tm_listing listing = read_listing(at("found"), TM_LISTING_DEPTH_MAX);
    static const char *const others[] = {"",     "/",    "a",   "m/",  "m/x/y",
                                         "m/xx", "n/a/", "n/b", "\xff"};
    for (size_t i = 0; i < TM_ARRAY_LEN(others); i++)
        expect_found(&listing, others[i], strlen(others[i]));
    for (size_t i = 0; i < listing.count; i++)
        for (size_t len = 0; len <= strlen(listing.entries[i].path); len++)
            expect_found(&listing, listing.entries[i].path, len);
    tm_listing_done(&listing);
}

/* ---- Changes ---- */

typedef struct change {
    const char *what;
    void (*make)(void);
} change;

static void change_size(void)
{
    write_text(at("watched/sub/file"), "longer than before");
    set_time(at("watched/sub/file"), 1000, 0);
}

static void change_time(void)
{
    set_time(at("watched/sub/file"), 1000, 1);
}

static void change_inode(void)
{
    write_text(at("fresh"), "12");
    set_time(at("fresh"), 1000, 0);
    assert_int_equal(rename(at("fresh"), at("watched/sub/file")), 0);
    set_time(at("watched/sub"), 2000, 0);
}

static void remove_file(void)
{
    assert_int_equal(unlink(at("watched/sub/file")), 0);
    set_time(at("watched/sub"), 2000, 0);
}

static void add_file(void)
{
    write_text(at("watched/sub/added"), "");
}

static void add_file_at_the_top(void)
{
    write_text(at("watched/added"), "");
}

static void retarget_link(void)
{
    assert_int_equal(unlink(at("watched/link")), 0);
    make_link(at("other"), at("watched/link"));
    set_time(at("watched"), 3000, 0);
}

static void remove_root(void)
{
    remove_all(at("watched"));
}

/* A folder whose times are set, so that only what a change is about differs. */
static tm_listing watched_listing(void)
{
    write_text(at("watched/sub/file"), "12");
    write_text(at("blob"), "blob");
    write_text(at("other"), "othr");
    set_time(at("watched/sub/file"), 1000, 0);
    set_time(at("blob"), 1000, 0);
    set_time(at("other"), 1000, 0);
    make_link(at("blob"), at("watched/link"));
    set_time(at("watched/sub"), 2000, 0);
    set_time(at("watched"), 3000, 0);
    return read_listing(at("watched"), TM_LISTING_DEPTH_MAX);
}

static void every_change_of_a_source_is_noticed(void **state)
{
    (void)state;
    static const change changes[] = {
        {"size", change_size},         {"time", change_time},
        {"inode", change_inode},       {"file removed", remove_file},
        {"file added", add_file},      {"file added at the top", add_file_at_the_top},
        {"link moved", retarget_link}, {"root removed", remove_root},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(changes); i++) {
        tm_listing listing = watched_listing();
        expect_entries(&listing, "link\nsub/\nsub/file\n");
        assert_true(tm_listing_is_current(&listing));
        changes[i].make();
        if (tm_listing_is_current(&listing))
            fail_msg("not noticed: %s", changes[i].what);
        tm_listing_done(&listing);
        if (access(at("watched"), F_OK) == 0)
            remove_all(at("watched"));
    }
}

static void a_single_file_does_not_mind_what_happens_beside_it(void **state)
{
    (void)state;
    write_text(at("beside/file"), "12");
    tm_listing listing = read_listing(at("beside/file"), 0);
    write_text(at("beside/other"), "");
    assert_true(tm_listing_is_current(&listing));
    write_text(at("beside/file"), "123");
    assert_false(tm_listing_is_current(&listing));
    tm_listing_done(&listing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_sorted_by_path_bytewise),
        cmocka_unit_test(folders_are_listed_as_deep_as_asked_for),
        cmocka_unit_test(folders_of_git_and_of_the_hub_are_left_out_at_every_depth),
        cmocka_unit_test(what_is_neither_file_nor_folder_is_left_out_and_not_opened),
        cmocka_unit_test(an_empty_folder_has_no_entries_and_the_time_of_its_own),
        cmocka_unit_test(the_time_is_that_of_the_newest_file_however_deep),
        cmocka_unit_test(an_entry_knows_size_and_identity_of_what_a_link_leads_to),
        cmocka_unit_test(links_that_lead_nowhere_are_remembered_until_they_lead_somewhere),
        cmocka_unit_test(links_that_lead_back_are_left_out_and_others_followed),
        cmocka_unit_test(a_root_that_is_a_link_is_noticed_when_links_lead_back_to_it),
        cmocka_unit_test(what_lies_deeper_than_the_limit_is_not_seen),
        cmocka_unit_test(more_entries_than_the_limit_are_an_error),
        cmocka_unit_test(a_cache_folder_means_the_snapshot_that_main_names),
        cmocka_unit_test(a_cache_folder_without_a_usable_main_means_its_newest_snapshot),
        cmocka_unit_test(a_cache_folder_that_means_another_snapshot_has_changed),
        cmocka_unit_test(a_cache_folder_is_known_however_its_path_is_written),
        cmocka_unit_test(what_only_looks_like_a_cache_folder_is_listed_as_it_is),
        cmocka_unit_test(a_file_is_its_folder_with_one_entry),
        cmocka_unit_test(a_link_to_a_file_keeps_its_own_name_and_folder),
        cmocka_unit_test(relative_paths_begin_at_the_working_directory),
        cmocka_unit_test(what_cannot_be_listed_fails_with_its_path_and_reason),
        cmocka_unit_test(paths_are_found_by_any_prefix_as_by_a_walk),
        cmocka_unit_test(every_change_of_a_source_is_noticed),
        cmocka_unit_test(a_single_file_does_not_mind_what_happens_beside_it),
    };
    return cmocka_run_group_tests_name("listing", tests, files_new, files_free);
}
