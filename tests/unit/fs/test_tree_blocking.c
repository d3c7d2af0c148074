/*
 * A request that may not block gets its answer, or -EINPROGRESS, without one system call that could
 * wait for a disk, without work that grows with the model, and without waiting for a thread that
 * does either. The calls are watched by the linker's --wrap; two of them stop where the test says
 * so.
 */
#include <dirent.h>
#include <sys/uio.h>

#include "tests/unit/fs/models.h"
#include "tests/unit/fs/tree_walk.h"

static _Thread_local bool forbidden; /* this thread may not ask the disk */
static _Thread_local bool stops;     /* this thread waits where it is stopped */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool stopped, go_on;

static void check(const char *call)
{
    if (forbidden) {
        fprintf(stderr, "a request that may not block called %s()\n", call);
        abort();
    }
}

static void may_stop_here(void)
{
    if (!stops)
        return;
    pthread_mutex_lock(&lock);
    stopped = true;
    pthread_cond_broadcast(&changed);
    while (!go_on)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

/* A function that checks, then calls the real one. */
#define WATCHED(type, name, parameters, arguments)                                                 \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        check(#name);                                                                              \
        return __real_##name arguments;                                                            \
    }

struct stat64;
WATCHED(int, stat, (const char *path, struct stat *st), (path, st))
WATCHED(int, stat64, (const char *path, struct stat64 *st), (path, st))
WATCHED(int, lstat, (const char *path, struct stat *st), (path, st))
WATCHED(int, lstat64, (const char *path, struct stat64 *st), (path, st))
WATCHED(int, fstatat, (int fd, const char *path, struct stat *st, int flags), (fd, path, st, flags))
WATCHED(int, fstatat64, (int fd, const char *path, struct stat64 *st, int flags),
        (fd, path, st, flags))
WATCHED(int, access, (const char *path, int mode), (path, mode))
WATCHED(ssize_t, read, (int fd, void *dst, size_t len), (fd, dst, len))
WATCHED(ssize_t, pread, (int fd, void *dst, size_t len, off_t off), (fd, dst, len, off))
WATCHED(ssize_t, pread64, (int fd, void *dst, size_t len, off_t off), (fd, dst, len, off))
WATCHED(struct dirent *, readdir, (DIR * dir), (dir))
WATCHED(struct dirent *, readdir64, (DIR * dir), (dir))

/* The mode is passed on where there is none, too: open() takes it for nothing then. */
WATCHED(int, open, (const char *path, int flags, mode_t mode), (path, flags, mode))
WATCHED(int, open64, (const char *path, int flags, mode_t mode), (path, flags, mode))
WATCHED(int, openat, (int fd, const char *path, int flags, mode_t mode), (fd, path, flags, mode))
WATCHED(int, openat64, (int fd, const char *path, int flags, mode_t mode), (fd, path, flags, mode))

DIR *__real_opendir(const char *path);
DIR *__wrap_opendir(const char *path);
DIR *__wrap_opendir(const char *path)
{
    check("opendir");
    may_stop_here();
    return __real_opendir(path);
}

int __real_tm_table_of_tensors(const tm_model *model, tm_table **ret);
int __wrap_tm_table_of_tensors(const tm_model *model, tm_table **ret);
int __wrap_tm_table_of_tensors(const tm_model *model, tm_table **ret)
{
    check("tm_table_of_tensors");
    may_stop_here();
    return __real_tm_table_of_tensors(model, ret);
}

/* Starts a thread of MAIN, which is to stop, and waits until it has. */
static pthread_t start_and_stop(void *(*main)(void *), void *arg)
{
    pthread_t thread;
    stopped = go_on = false;
    assert_int_equal(pthread_create(&thread, NULL, main, arg), 0);
    pthread_mutex_lock(&lock);
    while (!stopped)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    alarm(60); /* a wait for it would last for ever */
    return thread;
}

/* Lets it go on, and returns what it ended with. */
static void *end_of(pthread_t thread)
{
    void *ret;
    alarm(0);
    pthread_mutex_lock(&lock);
    go_on = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    assert_int_equal(pthread_join(thread, &ret), 0);
    return ret;
}

/* ---- Every entry, asked by such a request ---- */

typedef struct answers {
    size_t entries, in_progress;
} answers;

static tm_req hasty_request(void)
{
    tm_req req;
    tm_req_init(&req, TM_LANE_SCALAR);
    return req;
}

/* RC of a call that may not block. */
static void note_answer(answers *a, const char *name, int rc)
{
    a->entries++;
    a->in_progress += rc == -EINPROGRESS;
    if (rc < 0 && rc != -EINPROGRESS)
        fail_msg("%s: %s", name, strerrorname_np(-rc));
}

static void ask_file(answers *a, const char *name, uint64_t ino)
{
    tm_open_file file;
    tm_req req = hasty_request();
    int rc = tree->ops->open(tree, ino, &req, &file);
    note_answer(a, name, rc);
    if (rc == 0)
        close_file(file.blob);
    req = hasty_request();
    rc = tree->ops->write(tree, ino, &(tm_chunk){"reload llama", 12, 0}, &req);
    assert_true(rc == -EROFS || rc == -EINPROGRESS);
}

static void ask_link(answers *a, const char *name, uint64_t ino)
{
    char *target;
    tm_req req = hasty_request();
    int rc = tree->ops->readlink(tree, ino, &req, &target);
    note_answer(a, name, rc);
    if (rc == 0)
        free(target);
}

static void ask_folder(answers *a, uint64_t ino)
{
    list l = {.room = SIZE_MAX};
    tm_req req = hasty_request();
    assert_int_equal(tree->ops->list(tree, ino, 0, list_emit, &l, &req), 0);
    for (size_t i = 0; i < l.count; i++) {
        tm_attr attr, again;
        req = hasty_request();
        int rc = tree->ops->lookup(tree, ino, l.entries[i].name, &req, &attr);
        note_answer(a, l.entries[i].name, rc);
        if (rc < 0)
            continue;
        assert_int_equal(tree->ops->getattr(tree, attr.ino, &req, &again), 0);
        if (S_ISDIR(attr.mode))
            ask_folder(a, attr.ino);
        else if (S_ISREG(attr.mode))
            ask_file(a, l.entries[i].name, attr.ino);
        else
            ask_link(a, l.entries[i].name, attr.ino);
    }
    list_done(&l);
}

static answers ask_all(void)
{
    answers a = {0};
    forbidden = true;
    ask_folder(&a, TM_INO_ROOT);
    forbidden = false;
    return a;
}

/* Not listed, but asked for all the same. */
static void ask_by_name(const char *folder, const char *name, int expected)
{
    uint64_t ino = find(folder).ino;
    tm_attr attr;
    tm_req req = hasty_request();
    forbidden = true;
    int rc = tree->ops->lookup(tree, ino, name, &req, &attr);
    forbidden = false;
    assert_int_equal(rc, expected);
}

static int begin(void **state)
{
    if (tree_begin(state) < 0)
        return -1;
    write_llama("llama", 3);
    write_fused("fused");
    write_damaged("damaged");
    write_fp8("fp8");
    write_run("run");
    static const char *const names[] = {"llama", "fused", "damaged", "fp8", "run"};
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++)
        mount_source(NULL, at("%s", names[i]));
    return 0;
}

static void no_request_that_may_not_block_asks_the_disk(void **state)
{
    (void)state;
    answers a = ask_all();
    assert_true(a.entries > 300);
    /* Members of run in both trees, the files of load/, the tables of tensors. */
    assert_true(a.in_progress >= 11 && a.in_progress <= a.entries / 4);
    ask_by_name("models/llama/tensors", "lm_head.weight", 0);
    ask_by_name("models/llama/tensors", "nothing", -ENOENT);
    ask_by_name("models/llama/tensors/model.norm.weight", "at", 0);
    ask_by_name("models/llama/tensors/model.norm.weight/at", "3", 0);
    ask_by_name("models/llama/tensors/model.norm.weight/slice", "1:3.npy", 0);
    ask_by_name("models/llama/layers", "2", 0);
    ask_by_name("models/fused/experts/001", "4", 0);
    ask_by_name("models/run", "nothing", -ENOENT);
    ask_by_name("models/run", "checkpoint-500", -EINPROGRESS);
    ask_by_name("load/run", "runs", -EINPROGRESS);
    ask_by_name("models", "nothing", -ENOENT);
}

static void what_was_in_progress_is_answered_once_another_has_done_it(void **state)
{
    (void)state;
    find("models/run/checkpoint-1000");
    ask_by_name("models/run", "checkpoint-1000", 0);
    ask_by_name("load/run", "checkpoint-1000", 0);
    ask_by_name("models/run", "checkpoint-500", -EINPROGRESS);
    find("models/run/pipeline/unet");
    ask_by_name("models/run/pipeline", "unet", 0);
    ask_by_name("models/run/pipeline", "vae", -EINPROGRESS);
}

static void a_table_of_tensors_is_measured_by_those_who_may_wait(void **state)
{
    (void)state;
    answers a = {0};
    ask_by_name("models/llama", "tensors.tsv", -EINPROGRESS);
    uint64_t ino = find("models/llama/tensors.tsv").ino;
    ask_by_name("models/llama", "tensors.tsv", 0);
    forbidden = true;
    ask_file(&a, "tensors.tsv", ino);
    forbidden = false;
    assert_int_equal(a.in_progress, 0);
}

/* ---- While a source is being opened ---- */

static void *add_slowly(void *arg)
{
    stops = true;
    tm_req req = blocking_request();
    int rc = tm_session_add(session, "slow", arg, &req);
    stops = false;
    return (void *)(intptr_t)rc;
}

static void nobody_who_may_not_block_waits_for_a_source_that_is_being_opened(void **state)
{
    (void)state;
    write_one(at("slow/model.safetensors"), "a");
    static char source[FILES_PATH_MAX];
    snprintf(source, sizeof(source), "%s", at("slow"));
    pthread_t thread = start_and_stop(add_slowly, source);
    answers a = ask_all();
    assert_true(a.entries > 300);
    ask_by_name("models", "slow", -ENOENT);
    ask_by_name("models/run", "checkpoint-500", -EINPROGRESS);
    unmount("damaged");
    assert_null(end_of(thread));
    ask_by_name("models", "slow", 0);
}

/* ---- While a table is being measured ---- */

static void *measure_slowly(void *arg)
{
    stops = true;
    tm_attr attr;
    int rc = try_look_up(*(uint64_t *)arg, "tensors.tsv", &attr);
    stops = false;
    return (void *)(intptr_t)rc;
}

static void nobody_waits_for_a_table_that_is_being_measured(void **state)
{
    (void)state;
    uint64_t ino = find("models/fused").ino;
    pthread_t thread = start_and_stop(measure_slowly, &ino);
    answers a = ask_all();
    assert_true(a.entries > 300);
    ask_by_name("models/fused", "tensors.tsv", -EINPROGRESS);
    size_t len;
    free(content_of_path("models/fused/model.json", &len));
    free(content_of_path("load/fused/model.safetensors", &len));
    uint64_t size = find("models/fused/tensors.tsv").size; /* who may wait does it once more */
    assert_null(end_of(thread));
    ask_by_name("models/fused", "tensors.tsv", 0);
    assert_int_equal(find("models/fused/tensors.tsv").size, size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_request_that_may_not_block_asks_the_disk),
        cmocka_unit_test(what_was_in_progress_is_answered_once_another_has_done_it),
        cmocka_unit_test(a_table_of_tensors_is_measured_by_those_who_may_wait),
        cmocka_unit_test(nobody_who_may_not_block_waits_for_a_source_that_is_being_opened),
        cmocka_unit_test(nobody_waits_for_a_table_that_is_being_measured),
    };
    return cmocka_run_group_tests_name("tree_blocking", tests, begin, tree_end);
}
