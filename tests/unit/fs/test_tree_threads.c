/*
 * Many threads look up, list and read while another adds, removes, replaces and opens anew: every
 * answer is a whole one, of before or after, or says that the entry is gone.
 */
#include "tests/unit/fs/models.h"
#include "tests/unit/fs/tree_walk.h"

enum {
    THREADS = 16,
    ROUNDS = 120,  /* of each thread */
    CHANGES = 120, /* that the main thread makes meanwhile */
    ELEMS = 3000,
};

static atomic_uint bad, good, gone;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                \
            atomic_fetch_add(&bad, 1);                                                             \
        }                                                                                          \
    } while (0)

/* A model whose values are all VERSION: what is read must be of one version. */
static void write_version(const char *folder, uint16_t version)
{
    static uint16_t values[ELEMS];
    for (int i = 0; i < ELEMS; i++)
        values[i] = version;
    const file_tensor tensors[] = {
        {.name = "model.layers.0.a.weight", .dtype = "U16", .shape = "30,100", .bytes = values},
        {.name = "model.layers.1.b.weight", .dtype = "U16", .shape = "3000", .bytes = values}};
    write_safetensors(at("fresh"), tensors, 2);
    make_folder(at("%s", folder));
    assert_int_equal(rename(at("fresh"), at("%s/model.safetensors", folder)), 0);
}

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* 0, or the error that an entry which goes away may give. */
static bool is_answer(int rc)
{
    return rc == 0 || rc == -ENOENT || rc == -ESTALE;
}

static void expect_one_version(const char *path, tm_blob *blob)
{
    static const char *const whole[] = {"raw", "data.npy", "rows/1.npy"};
    uint16_t values[ELEMS];
    tm_req req = blocking_request();
    bool known = false;
    for (size_t i = 0; i < TM_ARRAY_LEN(whole); i++)
        known |= strstr(path, whole[i]) != NULL;
    size_t len = tm_min_u64(blob->size, known ? sizeof(values) : 64);
    int rc = tm_read_wait(tree->sched, blob, blob->size - len, len, values, &req);
    EXPECT(is_answer(rc));
    atomic_fetch_add(rc == 0 ? &good : &gone, 1);
    size_t count = strstr(path, "rows") ? 100 : len / 2;
    for (size_t i = 1; rc == 0 && known && i < count; i++)
        EXPECT(values[len / 2 - 1 - i] == values[len / 2 - 1]);
}

static void read_path(const char *path)
{
    tm_attr attr, again;
    tm_open_file file;
    tm_req req = blocking_request();
    int rc = tm_path_find(tree, path, &req, &attr);
    EXPECT(is_answer(rc));
    if (rc < 0 || !S_ISREG(attr.mode))
        return;
    req = blocking_request();
    rc = tree->ops->getattr(tree, attr.ino, &req, &again);
    EXPECT(is_answer(rc));
    EXPECT(rc < 0 || attr.live || again.size == attr.size);
    req = blocking_request();
    rc = tree->ops->open(tree, attr.ino, &req, &file);
    EXPECT(is_answer(rc));
    if (rc < 0)
        return;
    EXPECT(attr.live || file.blob->size == attr.size);
    expect_one_version(path, file.blob);
    close_file(file.blob);
}

/* Lists a folder by pieces and looks up what it names. */
static void list_path(const char *path, bool may_block)
{
    list l = {.room = 5};
    tm_attr attr;
    tm_req req = blocking_request();
    if (tm_path_find(tree, path, &req, &attr) < 0)
        return;
    for (size_t had = SIZE_MAX; had != l.count;) {
        had = l.count;
        l.room = 5;
        req = blocking_request();
        int rc =
            tree->ops->list(tree, attr.ino, had ? l.entries[had - 1].next : 0, list_emit, &l, &req);
        EXPECT(is_answer(rc) || rc == -ENOTDIR);
    }
    for (size_t i = 0; i < l.count; i++) {
        tm_attr child;
        req = blocking_request();
        req.may_block = may_block;
        int rc = tree->ops->lookup(tree, attr.ino, l.entries[i].name, &req, &child);
        EXPECT(is_answer(rc) || (!may_block && rc == -EINPROGRESS));
    }
    list_done(&l);
}

/* Looks up one value, and forgets it as the kernel would. */
static void value_at(uint64_t index)
{
    char name[32];
    tm_attr folder, attr;
    tm_req req = blocking_request();
    if (tm_path_find(tree, "models/m/tensors/model.layers.1.b.weight/at", &req, &folder) < 0)
        return;
    snprintf(name, sizeof(name), "%llu", (unsigned long long)index);
    req = blocking_request();
    int rc = tree->ops->lookup(tree, folder.ino, name, &req, &attr);
    EXPECT(is_answer(rc));
    if (rc < 0)
        return;
    EXPECT(attr.size == 25);
    tm_open_file file;
    rc = tree->ops->open(tree, attr.ino, &req, &file);
    EXPECT(is_answer(rc));
    if (rc == 0)
        close_file(file.blob);
    tree->ops->forget(tree, attr.ino, 1);
}

static const char *const files[] = {
    "models/m/tensors/model.layers.0.a.weight/raw",
    "models/m/tensors/model.layers.0.a.weight/data.npy",
    "models/m/tensors/model.layers.0.a.weight/rows/1.npy",
    "models/m/tree/model/layers/1/b/weight/raw",
    "models/m/layers/1/model.layers.1.b.weight/data.npy",
    "models/m/model.json",
    "models/m/tensors.tsv",
    "models/m/state",
    "models/m/files/model.safetensors",
    "load/m/model.safetensors",
    "models/run/pipeline/unet/tensors.tsv",
    "models/run/checkpoint-500/model.json",
    "load/run/pipeline/vae/model.safetensors",
    "models/x/tensors/model.layers.0.a.weight/raw",
    "load/x/model.safetensors",
    ".tmorph/log",
    ".tmorph/transport.tsv",
    ".tmorph/lanes.tsv",
    ".tmorph/residency.tsv",
    ".tmorph/residency/used",
};
static const char *const folders[] = {"",
                                      "models",
                                      "load",
                                      "models/m",
                                      "models/m/tree",
                                      "models/m/layers",
                                      "models/run",
                                      "models/run/pipeline",
                                      "load/run",
                                      "models/x/tensors",
                                      "load/run/pipeline"};

static void *read_for_ever(void *arg)
{
    uint64_t seed = (uintptr_t)arg;
    for (int i = 0; i < ROUNDS; i++) {
        read_path(files[next_random(&seed) % TM_ARRAY_LEN(files)]);
        list_path(folders[next_random(&seed) % TM_ARRAY_LEN(folders)], seed >> 40 & 1);
        value_at(next_random(&seed) % ELEMS);
    }
    return NULL;
}

/* One of the changes that a mount sees; X may be mounted or not. */
static void change(uint64_t *seed, uint16_t version)
{
    tm_req req = blocking_request();
    int rc = 0;
    switch (next_random(seed) % 6) {
    case 0:
        rc = tm_session_add(session, "x", at("m"), &req);
        EXPECT(rc == 0 || rc == -EEXIST);
        break;
    case 1:
        rc = tm_session_remove(session, "x", &req);
        EXPECT(rc == 0 || rc == -EINVAL);
        break;
    case 2:
        rc = tm_session_reload(session, "run", &req);
        EXPECT(rc == 0);
        break;
    case 3:
        rc = tm_session_reload(session, "x", &req);
        EXPECT(rc == 0 || rc == -EINVAL);
        break;
    default:
        write_version("m", version);
        rc = tm_session_reload(session, "m", &req);
        EXPECT(rc == 0);
        break;
    }
}

static void every_answer_is_whole_while_sources_come_and_go(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    uint64_t seed = 7;
    write_version("m", 1);
    write_run("run");
    mount_source(NULL, at("m"));
    mount_source(NULL, at("run"));
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_for_ever, (void *)(i + 1)), 0);
    for (uint16_t i = 2; i < CHANGES + 2; i++)
        change(&seed, i);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&bad), 0);
    assert_true(atomic_load(&good) > THREADS * ROUNDS / 4);

    /* Nobody changes anything any more: all that is mounted is there. */
    for (size_t i = 0; i < TM_ARRAY_LEN(files); i++)
        if (!strstr(files[i], "/x/"))
            assert_true(S_ISREG(find(files[i]).mode));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_answer_is_whole_while_sources_come_and_go),
    };
    return cmocka_run_group_tests_name("tree_threads", tests, tree_begin, tree_end);
}
