/* Files as sources: who they are, their descriptors, and how a change shows. */
#include "core/file.h"

#include "tests/unit/core/engine.h"
#include "tests/unit/core/folder.h"

static tm_file_set *set_new(unsigned max)
{
    tm_file_set *set;
    assert_int_equal(tm_file_set_new(max, &set), 0);
    return set;
}

static tm_file *file_new(tm_file_set *set, const char *name)
{
    char path[FOLDER_PATH_MAX];
    tm_req req;
    tm_file *file;
    tm_req_init(&req, TM_LANE_VISIBLE);
    assert_int_equal(tm_file_new(set, path_in(path, name), &req, &file), 0);
    return file;
}

/* Byte 7 of FILE through a descriptor that is given back at once. */
static int read_seventh(tm_file *file, bool nowait, tm_req *req, uint8_t *ret)
{
    int fd;
    TM_TRY(tm_file_acquire(file, nowait, req, &fd));
    assert_int_equal(pread(fd, ret, 1, 7), 1);
    tm_file_release(file);
    return 0;
}

static void a_file_is_known_by_what_it_was_when_first_seen(void **state)
{
    (void)state;
    char path[FOLDER_PATH_MAX], link[FOLDER_PATH_MAX];
    struct stat st;
    write_file("a", 1, 100);
    assert_int_equal(symlink("a", path_in(link, "link")), 0);
    assert_int_equal(stat(path_in(path, "a"), &st), 0);
    tm_file_set *set = set_new(4);
    static const char *const names[] = {"a", "link"};
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++) {
        tm_file *file = file_new(set, names[i]);
        const tm_file_identity *id = tm_file_identity_of(file);
        assert_string_equal(tm_file_path(file), path_in(path, names[i]));
        assert_int_equal(id->dev, st.st_dev);
        assert_int_equal(id->ino, st.st_ino);
        assert_int_equal(id->size, 100);
        assert_int_equal(id->mtime_ns, (int64_t)1700000001 * 1000000000);
        assert_true(tm_file_is_current(file));
        assert_int_equal(tm_file_set_open_count(set), 0); /* only when it is read */
        assert_ptr_equal(tm_file_ref(file), file);
        assert_null(tm_file_unref(file));
        assert_null(tm_file_unref(file));
    }
    assert_null(tm_file_unref(NULL));
    tm_file_set_free(set);
    tm_file_set_free(NULL);
    folder_clear();
}

static void expect_refused(tm_file_set *set, const char *path, int rc, const char *reason)
{
    char words[FOLDER_PATH_MAX + 100];
    tm_req req;
    tm_file *file;
    tm_req_init(&req, TM_LANE_VISIBLE);
    assert_int_equal(tm_file_new(set, path, &req, &file), rc);
    snprintf(words, sizeof(words), "%s: %s", path, reason);
    assert_string_equal(tm_req_words(&req), words);
}

static void what_is_no_regular_file_is_refused_and_holds_nobody_up(void **state)
{
    (void)state;
    char path[FOLDER_PATH_MAX];
    tm_file_set *set = set_new(4);
    assert_int_equal(mkfifo(path_in(path, "fifo"), 0644), 0);
    expect_refused(set, path, -EINVAL, "not a regular file");
    assert_int_equal(mkdir(path_in(path, "dir"), 0755), 0);
    expect_refused(set, path, -EISDIR, "not a regular file");
    expect_refused(set, "/dev/null", -EINVAL, "not a regular file");
    expect_refused(set, path_in(path, "absent"), -ENOENT, strerror(ENOENT));
    assert_int_equal(symlink("loop", path_in(path, "loop")), 0);
    expect_refused(set, path, -ELOOP, strerror(ELOOP));
    assert_int_equal(symlink("absent", path_in(path, "dangling")), 0);
    expect_refused(set, path, -ENOENT, strerror(ENOENT));
    write_file("below", 1, 10);
    expect_refused(set, path_in(path, "below/x"), -ENOTDIR, strerror(ENOTDIR));
    tm_file_set_free(set);
    folder_clear();
}

static void a_descriptor_is_opened_on_demand_and_shared(void **state)
{
    (void)state;
    write_file("a", 1, 100);
    tm_file_set *set = set_new(4);
    tm_file *file = file_new(set, "a");
    tm_req req;
    int fd, same;
    tm_req_init(&req, TM_LANE_VISIBLE);
    assert_int_equal(tm_file_acquire(file, true, &req, &fd), -EAGAIN);
    assert_int_equal(tm_file_set_open_count(set), 0);
    assert_int_equal(tm_file_acquire(file, false, &req, &fd), 0);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(tm_file_acquire(file, true, &req, &same), 0);
    assert_int_equal(same, fd);
    assert_int_equal(tm_file_check(file, fd, &req), 0);
    tm_file_release(file);
    tm_file_release(file);
    assert_int_equal(tm_file_acquire(file, true, &req, &same), 0); /* it stays open */
    assert_int_equal(same, fd);
    tm_file_release(file);
    assert_int_equal(tm_file_set_open_count(set), 1);
    assert_string_equal(tm_req_words(&req), "");
    tm_file_unref(file);
    assert_int_equal(tm_file_set_open_count(set), 0);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    tm_file_set_free(set);
    folder_clear();
}

/* ---- The limit ---- */

enum {
    FILES = 50
};

static void make_files(tm_file_set *set, tm_file *files[FILES])
{
    for (unsigned i = 0; i < FILES; i++) {
        char name[16];
        snprintf(name, sizeof(name), "f%u", i);
        write_file(name, i, 100);
        files[i] = file_new(set, name);
    }
}

static void any_number_of_files_keeps_within_the_limit(void **state)
{
    (void)state;
    tm_file *files[FILES];
    tm_file_set *set = set_new(2);
    tm_req req;
    uint8_t byte;
    tm_req_init(&req, TM_LANE_VISIBLE);
    make_files(set, files);
    for (int round = 0; round < 3; round++) {
        for (unsigned i = 0; i < FILES; i++) {
            assert_int_equal(read_seventh(files[i], false, &req, &byte), 0);
            assert_int_equal(byte, file_byte(i, 7));
            assert_in_range(tm_file_set_open_count(set), 1, 2);
        }
    }
    for (unsigned i = 0; i < FILES; i++)
        tm_file_unref(files[i]);
    assert_int_equal(tm_file_set_open_count(set), 0);
    tm_file_set_free(set);
    folder_clear();
}

static void the_least_recently_used_descriptor_goes_first(void **state)
{
    (void)state;
    tm_file *files[FILES];
    tm_file_set *set = set_new(2);
    tm_req req;
    uint8_t byte;
    tm_req_init(&req, TM_LANE_VISIBLE);
    make_files(set, files);
    static const struct {
        unsigned used, open[2];
    } rows[] = {{0, {0, 0}}, {1, {0, 1}}, {0, {0, 1}}, {2, {0, 2}}, {2, {0, 2}},
                {0, {0, 2}}, {3, {0, 3}}, {1, {3, 1}}, {3, {1, 3}}, {0, {3, 0}}};
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        assert_int_equal(read_seventh(files[rows[i].used], false, &req, &byte), 0);
        for (unsigned j = 0; j < 5; j++) {
            bool open = j == rows[i].open[0] || j == rows[i].open[1];
            int fd, rc = tm_file_acquire(files[j], true, &req, &fd);
            assert_int_equal(rc, open ? 0 : -EAGAIN);
            if (rc == 0)
                tm_file_release(files[j]);
        }
        /* The look has used both: the one of this row is to be the last used again. */
        assert_int_equal(read_seventh(files[rows[i].used], true, &req, &byte), 0);
    }
    for (unsigned i = 0; i < FILES; i++)
        tm_file_unref(files[i]);
    tm_file_set_free(set);
    folder_clear();
}

static void descriptors_in_use_may_be_more_than_the_limit_until_they_are_released(void **state)
{
    (void)state;
    tm_file *files[FILES];
    int fds[FILES];
    tm_file_set *set = set_new(2);
    tm_req req;
    tm_req_init(&req, TM_LANE_VISIBLE);
    make_files(set, files);
    for (unsigned i = 0; i < FILES; i++) {
        assert_int_equal(tm_file_acquire(files[i], false, &req, &fds[i]), 0);
        assert_int_equal(tm_file_set_open_count(set), i + 1);
    }
    for (unsigned i = 0; i < FILES; i++) {
        uint8_t byte;
        assert_int_equal(pread(fds[i], &byte, 1, 7), 1);
        assert_int_equal(byte, file_byte(i, 7));
    }
    for (unsigned i = 0; i < FILES; i++) {
        tm_file_release(files[i]);
        assert_int_equal(tm_file_set_open_count(set), i + 2 < FILES ? FILES - i - 1 : 2);
    }
    for (unsigned i = 0; i < FILES; i++)
        tm_file_unref(files[i]);
    tm_file_set_free(set);
    folder_clear();
}

/* ---- Changes ---- */

static void change_nothing(void)
{
}

static void replace(void)
{
    replace_file("a", 1, 100); /* same size, same time: another inode */
}

static void grow(void)
{
    write_file("a", 1, 101);
}

static void shrink(void)
{
    write_file("a", 1, 99);
}

static void rewrite(void)
{
    write_file("a", 2, 100); /* same inode, same size: another time */
}

static void vanish(void)
{
    char path[FOLDER_PATH_MAX];
    assert_int_equal(unlink(path_in(path, "a")), 0);
}

static void become_a_fifo(void)
{
    char path[FOLDER_PATH_MAX];
    vanish();
    assert_int_equal(mkfifo(path_in(path, "a"), 0644), 0);
}

static void become_a_folder(void)
{
    char path[FOLDER_PATH_MAX];
    vanish();
    assert_int_equal(mkdir(path_in(path, "a"), 0755), 0);
}

static void become_a_loop(void)
{
    char path[FOLDER_PATH_MAX];
    vanish();
    assert_int_equal(symlink("a", path_in(path, "a")), 0);
}

#define CHANGED "the file changed while it was mounted"
#define GONE    "the file is gone since it was mounted"

static const struct {
    void (*change)(void);
    bool is_current;
    const char *words; /* of an acquire when it was not open: ESTALE; NULL: it succeeds */
    int checked;       /* what a check of a descriptor opened before says */
} changes[] = {
    {change_nothing, true, NULL, 0},    {replace, false, CHANGED, 0},
    {grow, false, CHANGED, -ESTALE},    {shrink, false, CHANGED, -ESTALE},
    {rewrite, false, CHANGED, -ESTALE}, {vanish, false, GONE, 0},
    {become_a_fifo, false, CHANGED, 0}, {become_a_folder, false, CHANGED, 0},
    {become_a_loop, false, CHANGED, 0},
};

static void expect_words(const tm_req *req, const char *name, const char *reason)
{
    char path[FOLDER_PATH_MAX], words[FOLDER_PATH_MAX + 100];
    snprintf(words, sizeof(words), "%s: %s", path_in(path, name), reason);
    assert_string_equal(tm_req_words(req), words);
}

/* The folder above is a file now. */
static void a_file_whose_folder_is_gone_is_gone(void **state)
{
    (void)state;
    char dir[FOLDER_PATH_MAX], path[FOLDER_PATH_MAX];
    assert_int_equal(mkdir(path_in(dir, "d"), 0755), 0);
    write_file("d/a", 1, 100);
    tm_file_set *set = set_new(2);
    tm_file *file = file_new(set, "d/a");
    assert_int_equal(unlink(path_in(path, "d/a")), 0);
    assert_int_equal(rmdir(dir), 0);
    write_file("d", 1, 100);
    tm_req req;
    int fd;
    tm_req_init(&req, TM_LANE_VISIBLE);
    assert_int_equal(tm_file_acquire(file, false, &req, &fd), -ESTALE);
    expect_words(&req, "d/a", GONE);
    tm_file_unref(file);
    tm_file_set_free(set);
    folder_clear();
}

static void a_change_shows_when_the_file_is_opened_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(changes); i++) {
        tm_file_set *set = set_new(2);
        tm_req req;
        int fd;
        tm_req_init(&req, TM_LANE_VISIBLE);
        write_file("a", 1, 100);
        tm_file *file = file_new(set, "a");
        changes[i].change();
        assert_int_equal(tm_file_is_current(file), changes[i].is_current);
        int rc = tm_file_acquire(file, false, &req, &fd);
        assert_int_equal(rc, changes[i].words ? -ESTALE : 0);
        if (rc == 0)
            tm_file_release(file);
        else
            expect_words(&req, "a", changes[i].words);
        assert_int_equal(tm_file_set_open_count(set), rc == 0);
        tm_file_unref(file);
        tm_file_set_free(set);
        folder_clear();
    }
}

static void a_change_in_place_shows_in_a_descriptor_that_is_open(void **state)
{
    (void)state;
    for (size_t i = 0; i < TM_ARRAY_LEN(changes); i++) {
        tm_file_set *set = set_new(2);
        tm_req req;
        int fd;
        tm_req_init(&req, TM_LANE_VISIBLE);
        write_file("a", 1, 100);
        tm_file *file = file_new(set, "a");
        assert_int_equal(tm_file_acquire(file, false, &req, &fd), 0);
        changes[i].change();
        assert_int_equal(tm_file_check(file, fd, &req), changes[i].checked);
        if (changes[i].checked < 0)
            assert_non_null(strstr(tm_req_words(&req), "/a: "));
        tm_file_release(file);
        tm_file_unref(file);
        tm_file_set_free(set);
        folder_clear();
    }
}

/* ---- Threads ---- */

enum {
    THREADS = 3,
    USES = 3000
};

typedef struct user {
    tm_file **files;
    uint64_t seed;
    pthread_t thread;
    unsigned faults;
} user;

static void *use_files(void *arg)
{
    user *self = arg;
    for (int i = 0; i < USES; i++) {
        unsigned n = (unsigned)(next_random(&self->seed) % 10);
        bool nowait = next_random(&self->seed) % 2;
        uint8_t byte = 0;
        int fd, rc = tm_file_acquire(self->files[n], nowait, NULL, &fd);
        if (rc < 0) {
            self->faults += !nowait || rc != -EAGAIN;
            continue;
        }
        bool right = pread(fd, &byte, 1, 7) == 1 && byte == file_byte(n, 7) &&
                     tm_file_check(self->files[n], fd, NULL) == 0;
        self->faults += !right;
        tm_file_release(self->files[n]);
    }
    return NULL;
}

static void a_descriptor_is_of_its_file_as_long_as_it_is_used(void **state)
{
    (void)state;
    tm_file *files[FILES];
    user users[THREADS];
    tm_file_set *set = set_new(2);
    make_files(set, files);
    for (uint64_t i = 0; i < THREADS; i++) {
        users[i] = (user){.files = files, .seed = i};
        assert_int_equal(pthread_create(&users[i].thread, NULL, use_files, &users[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(users[i].thread, NULL);
        assert_int_equal(users[i].faults, 0);
    }
    assert_in_range(tm_file_set_open_count(set), 1, 2);
    for (unsigned i = 0; i < FILES; i++)
        tm_file_unref(files[i]);
    tm_file_set_free(set);
    folder_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_known_by_what_it_was_when_first_seen),
        cmocka_unit_test(what_is_no_regular_file_is_refused_and_holds_nobody_up),
        cmocka_unit_test(a_descriptor_is_opened_on_demand_and_shared),
        cmocka_unit_test(any_number_of_files_keeps_within_the_limit),
        cmocka_unit_test(the_least_recently_used_descriptor_goes_first),
        cmocka_unit_test(descriptors_in_use_may_be_more_than_the_limit_until_they_are_released),
        cmocka_unit_test(a_change_shows_when_the_file_is_opened_again),
        cmocka_unit_test(a_file_whose_folder_is_gone_is_gone),
        cmocka_unit_test(a_change_in_place_shows_in_a_descriptor_that_is_open),
        cmocka_unit_test(a_descriptor_is_of_its_file_as_long_as_it_is_used),
    };
    return cmocka_run_group_tests(tests, folder_new, folder_free);
}
