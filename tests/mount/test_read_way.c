/*
 * The way of a read, proved on a real mount with no format in sight: many faults at once, stuck
 * readers that hold nobody up, readers that are killed, a reduction that many wait for.
 *
 * The server is a process of its own, so that a reader can be killed, and so that this one never
 * waits for itself.
 */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/base.h"
#include "fs/mount.h"
#include "tests/mount/slow_tree.h"

enum {
    SKIP = 77,
    STUCK_READERS = 1000,
    FAULTING_THREADS = 32,
    PAGE = 4096,
    TIME_LIMIT_S = 5, /* of the mount's reads */
    KILL_ROUNDS = 40,
    PATIENCE_MS = 20000, /* a bound against hanging, not a measure */
};

static char dir[] = "/tmp/tm-read-way-XXXXXX";
static pid_t server;

/* ---- The server ---- */

static int serve(int ready_fd)
{
    tm_req req;
    tm_sched *sched;
    tm_slow_tree *tree;
    tm_mount *mount;
    tm_req_init(&req, TM_LANE_VISIBLE);
    if (tm_sched_new(&(tm_sched_params){0}, &sched) < 0 || tm_slow_tree_new(sched, &tree) < 0)
        return 2;
    tm_mount_params params = {
        .tree = tm_slow_tree_of(tree),
        .mountpoint = dir,
        .fsname = "slow",
        .timeout_ns = (uint64_t)TIME_LIMIT_S * 1000000000,
    };
    if (tm_mount_new(&params, &req, &mount) < 0) {
        fprintf(stderr, "%s\n", tm_req_words(&req));
        return SKIP;
    }
    if (write(ready_fd, "", 1) != 1 || tm_mount_serve(mount, &req) < 0)
        return 2;
    tm_mount_free(mount);
    tm_sched_free(sched);
    tm_slow_tree_free(tree);
    return 0;
}

static void path_of(const char *name, char ret[128])
{
    snprintf(ret, 128, "%s/%s", dir, name);
}

static int open_file(const char *name, int flags)
{
    char path[128];
    path_of(name, path);
    return open(path, O_RDONLY | O_CLOEXEC | flags);
}

/* The number in a file, ULONG_MAX where it cannot be read. */
static unsigned long try_number(const char *name)
{
    char text[64] = "";
    int fd = open_file(name, 0);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    tm_closep(&fd);
    return n > 0 ? strtoul(text, NULL, 10) : ULONG_MAX;
}

static unsigned long read_number(const char *name)
{
    unsigned long number = try_number(name);
    assert_true(number != ULONG_MAX);
    return number;
}

static void sleep_ms(unsigned ms)
{
    usleep(ms * 1000);
}

static void await_fetches(unsigned long wanted, bool at_least)
{
    for (unsigned waited = 0;; waited += 20) {
        unsigned long now = read_number("fetches");
        if (at_least ? now >= wanted : now <= wanted)
            return;
        assert_true(waited < PATIENCE_MS);
        sleep_ms(20);
    }
}

/* ---- Readers ---- */

static uint8_t expected(uint64_t off)
{
    return (uint8_t)(off / PAGE % 251);
}

typedef struct faulter {
    const uint8_t *map;
    uint64_t first, step;
    atomic_uint *faults;
    uint64_t until_ns;
    bool wrong;
} faulter;

static void *fault_pages(void *arg)
{
    faulter *f = arg;
    for (uint64_t page = f->first; page < TM_SLOW_BYTES / PAGE && tm_now_ns() < f->until_ns;
         page += f->step) {
        f->wrong |= f->map[page * PAGE] != expected(page * PAGE);
        atomic_fetch_add(f->faults, 1);
    }
    return NULL;
}

static void *read_stuck(void *arg)
{
    char byte;
    int fd = open_file("stuck", 0);
    if (pread(fd, &byte, 1, (off_t)((uintptr_t)arg * (1 << 20))) == 1)
        abort();
    return NULL;
}

/* A process with COUNT threads that wait for bytes that never come. */
static pid_t start_stuck_readers(unsigned count)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 64 << 10);
    for (unsigned i = 0; i < count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attr, read_stuck, (void *)(uintptr_t)i) != 0)
            _exit(1);
    }
    for (;;)
        pause();
}

static void kill_and_reap(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    for (unsigned waited = 0;; waited += 5) {
        int status;
        pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid)
            return;
        assert_int_equal(got, 0);
        assert_true(waited < PATIENCE_MS); /* a reader that cannot be killed */
        sleep_ms(5);
    }
}

/* ---- Tests ---- */

static void thirty_two_threads_fault_at_once(void **state)
{
    (void)state;
    int fd = open_file("slow", 0);
    const uint8_t *map = mmap(NULL, TM_SLOW_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    assert_int_equal(madvise((void *)map, TM_SLOW_BYTES, MADV_RANDOM), 0);
    atomic_uint faults = 0;
    pthread_t threads[FAULTING_THREADS];
    faulter faulters[FAULTING_THREADS];
    uint64_t start = tm_now_ns();
    for (unsigned i = 0; i < FAULTING_THREADS; i++) {
        faulters[i] = (faulter){map, i, FAULTING_THREADS, &faults, start + 2000000000u, false};
        assert_int_equal(pthread_create(&threads[i], NULL, fault_pages, &faulters[i]), 0);
    }
    for (unsigned i = 0; i < FAULTING_THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(faulters[i].wrong);
    }
    double rate = atomic_load(&faults) / ((double)(tm_now_ns() - start) / 1e9);
    printf("%.0f faults/s at 30 ms each, %d threads\n", rate, FAULTING_THREADS);
    assert_true(rate >= 500);
    munmap((void *)map, TM_SLOW_BYTES);
    close(fd);
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The median time to open, read and close `at`, not from the page cache. */
static uint64_t time_at(void)
{
    enum {
        TIMES = 101
    };
    uint64_t took[TIMES];
    for (unsigned i = 0; i < TIMES; i++) {
        char text[64];
        uint64_t start = tm_now_ns();
        int fd = open_file("at", i % 2 ? O_DIRECT : 0);
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        assert_int_equal(pread(fd, text, sizeof(text), 0), 25);
        close(fd);
        took[i] = tm_now_ns() - start;
        assert_true(took[i] < 1000000000u);
    }
    qsort(took, TIMES, sizeof(took[0]), compare_u64);
    return took[TIMES / 2];
}

static void a_value_is_prompt_beside_a_thousand_stuck_readers(void **state)
{
    (void)state;
    uint64_t alone = time_at();
    pid_t pid = start_stuck_readers(STUCK_READERS);
    await_fetches(STUCK_READERS, true);
    uint64_t beside = time_at();
    printf("at: %llu us alone, %llu us beside %d stuck readers\n", (unsigned long long)alone / 1000,
           (unsigned long long)beside / 1000, STUCK_READERS);
    assert_true(beside < 20 * alone + 5000000);
    kill_and_reap(pid);
    await_fetches(0, false);
}

static void killed_reader_main(unsigned round)
{
    static const char *const names[] = {"slow", "stuck", "sum", "stuck"};
    const char *name = names[round % TM_ARRAY_LEN(names)];
    int fd = open_file(name, 0);
    if (round % 3 == 0) {
        const volatile uint8_t *map = mmap(NULL, 16 << 20, PROT_READ, MAP_SHARED, fd, 0);
        if (round % 2)
            close(fd); /* then nothing tells the server that this reader is gone */
        for (uint64_t i = round; map != MAP_FAILED && i < 4096; i += 7)
            if (strcmp(name, "sum") != 0)
                (void)map[i * PAGE];
    }
    char buffer[65536];
    for (uint64_t i = 0; pread(fd, buffer, sizeof(buffer), (off_t)(i % 256 * 65536)) >= 0; i++)
        continue;
    _exit(0);
}

static void readers_killed_in_a_loop_leave_nothing_behind(void **state)
{
    (void)state;
    for (unsigned round = 0; round < KILL_ROUNDS; round++) {
        pid_t pids[4];
        for (unsigned i = 0; i < TM_ARRAY_LEN(pids); i++) {
            pids[i] = fork();
            if (pids[i] == 0)
                killed_reader_main(round + i);
        }
        sleep_ms(round * 7 % 60);
        for (unsigned i = 0; i < TM_ARRAY_LEN(pids); i++)
            kill_and_reap(pids[i]);
    }
    await_fetches(0, false);
}

static void a_stuck_read_ends_at_its_time_limit(void **state)
{
    (void)state;
    char byte;
    int fd = open_file("stuck", 0);
    assert_int_equal(pread(fd, &byte, 1, 512 << 20), -1);
    assert_true(errno == ETIMEDOUT || errno == EIO); /* page cache reads say EIO for any errno */
    close(fd);
    await_fetches(0, false);
}

static void a_reduction_is_computed_once_for_all_who_wait(void **state)
{
    (void)state;
    uint64_t sum = 0;
    for (uint64_t page = 0; page < TM_SLOW_BYTES / PAGE; page++)
        sum += (uint64_t)expected(page * PAGE) * PAGE;
    unsigned long before = read_number("reductions");
    pid_t pids[16];
    for (unsigned i = 0; i < TM_ARRAY_LEN(pids); i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            _exit(try_number("sum") == sum ? 0 : 1);
    }
    for (unsigned i = 0; i < TM_ARRAY_LEN(pids); i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    assert_true(read_number("reductions") <= before + 1);
    assert_true(read_number("reductions") >= 1);
}

/* ---- The frame ---- */

static int start_server(void)
{
    int fds[2];
    char byte;
    if (!mkdtemp(dir) || pipe(fds) < 0)
        return 1;
    server = fork();
    if (server == 0) {
        close(fds[0]);
        exit(serve(fds[1]));
    }
    close(fds[1]);
    if (read(fds[0], &byte, 1) == 1)
        return 0;
    int status;
    waitpid(server, &status, 0);
    rmdir(dir);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int stop_server(void)
{
    tm_req req;
    tm_req_init(&req, TM_LANE_VISIBLE);
    int status = 0;
    if (tm_mount_unmount(dir, &req) < 0) {
        fprintf(stderr, "%s\n", tm_req_words(&req));
        kill(server, SIGTERM);
        status = 1;
    }
    int server_status;
    waitpid(server, &server_status, 0);
    rmdir(dir);
    return status || server_status;
}

int main(void)
{
    if (access("/dev/fuse", R_OK | W_OK) < 0) {
        fprintf(stderr, "skipped: /dev/fuse cannot be opened\n");
        return SKIP;
    }
    int rc = start_server();
    if (rc)
        return rc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thirty_two_threads_fault_at_once),
        cmocka_unit_test(a_value_is_prompt_beside_a_thousand_stuck_readers),
        cmocka_unit_test(readers_killed_in_a_loop_leave_nothing_behind),
        cmocka_unit_test(a_stuck_read_ends_at_its_time_limit),
        cmocka_unit_test(a_reduction_is_computed_once_for_all_who_wait),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return stop_server() || failed;
}
