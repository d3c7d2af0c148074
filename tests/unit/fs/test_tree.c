/*
 * What holds for every entry of a tree, whatever it shows: its look-up and its list agree, its size
 * is that of its bytes, its inode number is its own, and a list goes on where it stopped.
 */
#include "tests/unit/fs/models.h"
#include "tests/unit/fs/tree_walk.h"

#include "formats/view_npy.h"
#include "fs/queries.h"

static void keep_query(const char *model, const char *name, const char *text)
{
    tm_kept_query *q;
    tm_req req = blocking_request();
    assert_int_equal(tm_queries_create(fs->queries, model, name, &req, &q), 0);
    assert_int_equal(tm_kept_query_write(q, &(tm_chunk){text, strlen(text), 0}, &req), 0);
    tm_kept_query_unref(q);
}

static void keep_queries(void)
{
    keep_query("llama", "yes", "rank == 2");
    keep_query("llama", "unknown", "layer < 5 and mean != none or role == 'norm'\n");
    keep_query("llama", "none", "");
    keep_query("dtypes", "nan", "nan_count > 0");
    keep_query("run/pipeline/vae", "wrong", "rank = 2");
}

static void mount_all(void)
{
    write_llama("llama", 12);
    write_experts("experts");
    write_fused("fused");
    write_stacks("stacks");
    write_sparse_layers("sparse");
    write_dtypes("dtypes");
    write_fp8("fp8");
    write_damaged("damaged");
    write_run("run");
    write_text(at("plain/readme.txt"), "no weights here\n");
    write_text(at("plain/sub/file"), "");
    write_one(at("single.safetensors"), "a.b");
    make_folder(at("empty"));
    static const char *const names[] = {"llama", "experts", "fused", "stacks", "sparse", "dtypes",
                                        "fp8",   "damaged", "run",   "plain",  "empty"};
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++)
        mount_source(NULL, at("%s", names[i]));
    mount_source("single", at("single.safetensors"));
    mount_source("again", at("llama"));
    keep_queries();
}

static int begin(void **state)
{
    if (tree_begin(state) < 0)
        return -1;
    mount_all();
    return 0;
}

/* ---- Each entry ---- */

typedef struct walk {
    uint64_t *inos;
    size_t count, cap;
    size_t folders, files, links;
} walk;

static void note_ino(walk *w, uint64_t ino)
{
    if (w->count == w->cap) {
        w->cap = w->cap ? 2 * w->cap : 1024;
        w->inos = reallocarray(w->inos, w->cap, sizeof(*w->inos));
        assert_non_null(w->inos);
    }
    w->inos[w->count++] = ino;
}

static bool same_attr(const tm_attr *a, const tm_attr *b)
{
    return a->ino == b->ino && a->mode == b->mode && a->size == b->size &&
           a->mtime_ns == b->mtime_ns && a->live == b->live;
}

/* The entry as listed, looked up by its name, and asked for by its number: all say the same. */
static tm_attr expect_one_entry(const char *path, uint64_t parent, const listed *e)
{
    tm_attr looked, asked;
    tm_req req = blocking_request();
    int rc = try_look_up(parent, e->name, &looked);
    if (rc < 0)
        fail_msg("%s/%s is listed, but: %s", path, e->name, strerrorname_np(-rc));
    assert_int_equal(tree->ops->getattr(tree, looked.ino, &req, &asked), 0);
    if (!same_attr(&looked, &asked))
        fail_msg("%s/%s: attributes differ from those of its look-up", path, e->name);
    /* A member of a collection is opened by its look-up alone. */
    if (e->attr.ino ? !same_attr(&looked, &e->attr) : e->attr.mode != looked.mode)
        fail_msg("%s/%s: attributes differ from those in the list", path, e->name);
    return looked;
}

static void expect_file(const char *path, const tm_attr *attr)
{
    tm_open_file file;
    tm_req req = blocking_request();
    char *target;
    int rc = tree->ops->open(tree, attr->ino, &req, &file);
    if (rc < 0)
        fail_msg("%s: %s (%s)", path, strerrorname_np(-rc), tm_req_words(&req));
    if (file.blob->size != attr->size || file.live != attr->live)
        fail_msg("%s: the open file differs from its attributes", path);
    free(content_of_blob(file.blob));
    close_file(file.blob);
    assert_int_equal(tree->ops->readlink(tree, attr->ino, &req, &target), -EINVAL);
}

static void expect_a_link_that_leads_somewhere(const char *path, const tm_attr *attr)
{
    tm_open_file file;
    tm_req req = blocking_request();
    char *target = target_of(attr->ino);
    if (strlen(target) != attr->size)
        fail_msg("%s: a link of %zu bytes", path, strlen(target));
    free(target);
    assert_false(S_ISLNK(find(path).mode));
    assert_int_equal(tree->ops->open(tree, attr->ino, &req, &file), -EINVAL);
}

static bool same_entries(const list *a, size_t from, const list *b)
{
    if (a->count - from != b->count)
        return false;
    for (size_t i = 0; i < b->count; i++)
        if (strcmp(a->entries[from + i].name, b->entries[i].name) != 0 ||
            a->entries[from + i].next != b->entries[i].next ||
            !same_attr(&a->entries[from + i].attr, &b->entries[i].attr))
            return false;
    return true;
}

/* A list goes on after each entry, and comes out the same by pieces of any size. */
static void expect_a_list_that_resumes(const char *path, uint64_t ino, const list *whole)
{
    static const size_t rooms[] = {1, 2, 7};
    for (size_t i = 0; i < whole->count; i++) {
        list rest = {0};
        list_from(&rest, ino, whole->entries[i].next, SIZE_MAX);
        if (!same_entries(whole, i + 1, &rest))
            fail_msg("%s: the list after %s differs", path, whole->entries[i].name);
        list_done(&rest);
    }
    for (size_t k = 0; k < TM_ARRAY_LEN(rooms); k++) {
        list pieces = {0};
        size_t had;
        do {
            had = pieces.count;
            list_from(&pieces, ino, had ? pieces.entries[had - 1].next : 0, rooms[k]);
            assert_true(pieces.count <= had + rooms[k]);
        } while (pieces.count > had);
        if (!same_entries(whole, 0, &pieces))
            fail_msg("%s: the list by %zu differs", path, rooms[k]);
        list_done(&pieces);
    }
}

static void expect_names_once(const char *path, const list *l)
{
    for (size_t i = 0; i < l->count; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(l->entries[i].name, l->entries[k].name) == 0)
                fail_msg("%s: %s is listed twice", path, l->entries[i].name);
}

static void walk_folder(walk *w, const char *path, uint64_t ino)
{
    char below[FILES_PATH_MAX];
    tm_open_file file;
    tm_req req = blocking_request();
    list l = list_of(ino);
    assert_int_equal(tree->ops->open(tree, ino, &req, &file), -EISDIR);
    expect_names_once(path, &l);
    for (size_t i = 0; i < l.count; i++) {
        tm_attr attr = expect_one_entry(path, ino, &l.entries[i]);
        snprintf(below, sizeof(below), "%s/%s", path, l.entries[i].name);
        note_ino(w, attr.ino);
        w->folders += S_ISDIR(attr.mode);
        w->files += S_ISREG(attr.mode);
        w->links += S_ISLNK(attr.mode);
        if (S_ISDIR(attr.mode))
            walk_folder(w, below, attr.ino);
        else if (S_ISREG(attr.mode))
            expect_file(below, &attr);
        else
            expect_a_link_that_leads_somewhere(below, &attr);
    }
    /* After the look-ups: members that they opened are listed as before. */
    list again = list_of(ino);
    assert_true(same_entries(&l, 0, &again));
    list_done(&again);
    expect_a_list_that_resumes(path, ino, &l);
    list_done(&l);
}

static int compare_inos(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void every_entry_is_what_its_list_its_look_up_and_its_bytes_say(void **state)
{
    (void)state;
    walk w = {0};
    note_ino(&w, TM_INO_ROOT);
    walk_folder(&w, "", TM_INO_ROOT);
    qsort(w.inos, w.count, sizeof(*w.inos), compare_inos);
    for (size_t i = 1; i < w.count; i++)
        if (w.inos[i] == w.inos[i - 1])
            fail_msg("inode number %llu stands twice", (unsigned long long)w.inos[i]);
    /* So much is mounted that nothing was skipped. */
    assert_true(w.folders > 400 && w.files > 1000 && w.links > 400);
    free(w.inos);
}

static void a_list_from_any_place_at_all_ends_and_does_no_harm(void **state)
{
    (void)state;
    static const char *const folders[] = {"",
                                          "load",
                                          "models",
                                          "load/llama",
                                          "load/llama/tokenizer",
                                          "load/run",
                                          "models/run",
                                          "models/llama",
                                          "models/llama/tensors",
                                          "models/llama/tree",
                                          "models/llama/tree/model",
                                          "models/llama/tree/model/layers/3",
                                          "models/llama/layers",
                                          "models/llama/layers/003",
                                          "models/experts/experts",
                                          "models/experts/experts/012",
                                          "models/experts/experts/012/004",
                                          "models/fused/experts/000/004",
                                          "models/llama/tensors/model.norm.weight",
                                          "models/llama/query",
                                          "models/llama/query/yes",
                                          "models/llama/index",
                                          ".tmorph"};
    static const uint64_t places[] = {
        1000,           (1u << 24) - 1, UINT32_MAX, UINT64_C(1) << 32, (UINT64_C(1) << 32) + 1,
        UINT64_MAX / 2, UINT64_MAX};
    for (size_t i = 0; i < TM_ARRAY_LEN(folders); i++) {
        uint64_t ino = find(folders[i]).ino;
        for (size_t k = 0; k < TM_ARRAY_LEN(places); k++) {
            list l = {0};
            list_from(&l, ino, places[k], SIZE_MAX);
            if (l.count != 0)
                fail_msg("%s: entries after %llu", folders[i], (unsigned long long)places[k]);
            list_done(&l);
        }
    }
}

/* ---- Bytes ---- */

static void files_of_load_are_the_sources_byte_for_byte(void **state)
{
    (void)state;
    static const char *const files[] = {"llama/model-00001-of-00002.safetensors",
                                        "llama/model.safetensors.index.json",
                                        "llama/config.json",
                                        "llama/tokenizer/vocab.txt",
                                        "damaged/2.safetensors",
                                        "plain/readme.txt",
                                        "plain/sub/file",
                                        "run/trainer.log",
                                        "run/checkpoint-500/config.json",
                                        "run/runs/events/log.txt",
                                        "run/pipeline/vae/model.safetensors"};
    for (size_t i = 0; i < TM_ARRAY_LEN(files); i++) {
        size_t len;
        struct stat st;
        char path[512];
        char *bytes = read_bytes_of(at("%s", files[i]), &len);
        assert_int_equal(stat(at("%s", files[i]), &st), 0);
        snprintf(path, sizeof(path), "load/%s", files[i]);
        expect_bytes_at(path, bytes, len);
        assert_int_equal(find(path).mtime_ns,
                         (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec);
        free(bytes);
    }
}

/* Every tensor of MODEL, as it was written. */
static void expect_raw(const char *model, const file_tensor *t)
{
    char path[1024];
    uint8_t *bytes = file_tensor_content(t);
    snprintf(path, sizeof(path), "models/%s/tensors/%s/raw", model, t->name);
    expect_bytes_at(path, bytes, file_tensor_bytes(t));
    free(bytes);
}

static void raw_and_the_small_files_of_a_tensor_say_what_was_written(void **state)
{
    (void)state;
    for (int d = 0; d < TM_DTYPE_COUNT; d++) {
        const tm_dtype_info *info = tm_dtype_get((tm_dtype)d);
        char name[64], path[256], text[80];
        snprintf(name, sizeof(name), "%s.of.2", info->name);
        expect_raw("dtypes", &(file_tensor){.name = name, .dtype = info->name, .shape = "2,3,4"});
        snprintf(path, sizeof(path), "models/dtypes/tensors/%s/name", name);
        snprintf(text, sizeof(text), "%s\n", name);
        expect_text_at(path, text);
        snprintf(path, sizeof(path), "models/dtypes/tensors/%s/dtype", name);
        snprintf(text, sizeof(text), "%s\n", info->name);
        expect_text_at(path, text);
        snprintf(path, sizeof(path), "models/dtypes/tensors/%s/shape", name);
        expect_text_at(path, "[2, 3, 4]\n");
    }
    expect_text_at("models/dtypes/tensors/U8.of.6/shape", "[]\n");
    expect_text_at("models/dtypes/tensors/U8.of.4/shape", "[0, 3]\n");
    expect_text_at("models/dtypes/tensors/U8.of.7/shape", "[7]\n");
}

static void selections_are_parts_of_the_values(void **state)
{
    (void)state;
    file_tensor t = {.name = "I32.of.2", .dtype = "I32", .shape = "2,3,4"};
    int32_t *v = (int32_t *)(void *)file_tensor_content(&t);
    char text[64];
    const char *folder = "models/dtypes/tensors/I32.of.2";
    char path[256];
    for (int i = 0; i < 24; i++) {
        snprintf(text, sizeof(text), "%24d\n", v[i]);
        snprintf(path, sizeof(path), "%s/at/%d,%d,%d", folder, i / 12, i / 4 % 3, i % 4);
        expect_text_at(path, text);
        snprintf(path, sizeof(path), "%s/at/%d,%d,%d", folder, i / 12 - 2, i / 4 % 3 - 3,
                 i % 4 - 4);
        expect_text_at(path, text);
    }
    snprintf(path, sizeof(path), "%s/rows/-1.npy", folder);
    expect_npy_at(path, v + 12, 48);
    int32_t column[6], box[4] = {v[5], v[6], v[17], v[18]};
    for (int i = 0; i < 6; i++)
        column[i] = v[4 * i + 2];
    snprintf(path, sizeof(path), "%s/cols/2.npy", folder);
    expect_npy_at(path, column, sizeof(column));
    snprintf(path, sizeof(path), "%s/slice/:,1:2,1:-1.npy", folder);
    expect_npy_at(path, box, sizeof(box));
    snprintf(path, sizeof(path), "%s/slice/.npy", folder);
    expect_error(path, -ENOENT);
    snprintf(path, sizeof(path), "%s/data.npy", folder);
    expect_npy_at(path, v, 96);
    free(v);
    expect_text_at("models/dtypes/tensors/BOOL.of.6/at/0",
                   tensor_byte(&(file_tensor){.name = "BOOL.of.6", .dtype = "BOOL", .shape = ""}, 0)
                       ? "                       1\n"
                       : "                       0\n");
    expect_npy_at("models/dtypes/tensors/U8.of.4/data.npy", "", 0);
    expect_npy_at("models/dtypes/tensors/U8.of.4/cols/2.npy", "", 0);
    expect_npy_at("models/dtypes/tensors/U8.of.5/rows/3.npy", "", 0);
}

static void what_is_no_selection_is_not_there(void **state)
{
    (void)state;
    static const char *const paths[] = {"I32.of.2/at/0,0",
                                        "I32.of.2/at/0,0,4",
                                        "I32.of.2/at/0,0,0,0",
                                        "I32.of.2/at/-3,0,0",
                                        "I32.of.2/at/00,0,0",
                                        "I32.of.2/at/ 0,0,0",
                                        "I32.of.2/at/0,0,0.npy",
                                        "I32.of.2/at/",
                                        "I32.of.2/rows/2.npy",
                                        "I32.of.2/rows/0",
                                        "I32.of.2/rows/.npy",
                                        "I32.of.2/cols/4.npy",
                                        "I32.of.2/cols/-5.npy",
                                        "I32.of.2/slice/0,0,0.npy",
                                        "I32.of.2/slice/:,:,:,:.npy",
                                        "I32.of.2/slice/:",
                                        "U8.of.6/rows/0.npy",
                                        "U8.of.6/cols/0.npy",
                                        "U8.of.6/at/1",
                                        "U8.of.4/at/0,0",
                                        "U8.of.4/rows/0.npy",
                                        "U8.of.5/cols/0.npy",
                                        "I32.of.2/nothing",
                                        "I32.of.2/at/18446744073709551616,0,0"};
    char path[256];
    for (size_t i = 0; i < TM_ARRAY_LEN(paths); i++) {
        snprintf(path, sizeof(path), "models/dtypes/tensors/%s", paths[i]);
        if (paths[i][strlen(paths[i]) - 1] == '/')
            assert_true(S_ISDIR(find(path).mode));
        else
            expect_error(path, -ENOENT);
    }
}

static void folders_of_selections_list_nothing(void **state)
{
    (void)state;
    static const char *const folders[] = {"at", "rows", "cols", "slice"};
    char path[128];
    for (size_t i = 0; i < TM_ARRAY_LEN(folders); i++) {
        snprintf(path, sizeof(path), "models/dtypes/tensors/I32.of.2/%s", folders[i]);
        expect_names(path, "");
    }
    expect_names("models/dtypes/tensors/I32.of.2",
                 "name\ndtype\nshape\ndata.npy\nstats.json\nhist.tsv\nrows.tsv\ncols.tsv\nlod\n");
}

static void scaled_values_are_those_of_codes_and_scales(void **state)
{
    (void)state;
    static const float scales[] = {0.5f, 2.0f, 4.0f, 0.25f};
    const file_tensor plain = {.name = "m.a.weight", .dtype = "F8_E4M3", .shape = "4,6"};
    expect_raw("fp8", &plain);
    /* The same codes without scales, as the tree shows them. */
    write_safetensors(at("codes/model.safetensors"), &plain, 1);
    mount_source(NULL, at("codes"));
    size_t len;
    char *npy = content_of_path("models/codes/tensors/m.a.weight/data.npy", &len);
    float values[24];
    memcpy(values, npy + len - sizeof(values), sizeof(values));
    for (int i = 0; i < 24; i++)
        values[i] *= scales[i / 12 * 2 + i % 6 / 3];
    expect_npy_at("models/fp8/tensors/m.a.weight/data.npy", values, sizeof(values));
    expect_npy_at("models/fp8/tensors/m.a.weight/rows/2.npy", values + 12, 24);
    assert_int_equal(find("models/fp8/tensors/m.a.weight/at/3,-1").size, TM_VALUE_FILE_BYTES);
    free(npy);
    unmount("codes");
}

/* ---- What is refused ---- */

static void what_has_no_values_answers_why_and_still_has_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        int rc;
    } rows[] = {
        {"models/dtypes/tensors/F6_E2M3.of.1/data.npy", -EOPNOTSUPP},
        {"models/dtypes/tensors/F6_E2M3.of.1/at", -EOPNOTSUPP},
        {"models/dtypes/tensors/F6_E3M2.of.1/rows", -EOPNOTSUPP},
        {"models/dtypes/tensors/C64.of.1/at/0,0", -EOPNOTSUPP},
        {"models/damaged/tensors/cut.b/data.npy", -EBADMSG},
        {"models/dtypes/tensors/F6_E2M3.of.1/hist.tsv", -EOPNOTSUPP},
        {"models/damaged/tensors/cut.b/slice", -EBADMSG},
        {"models/damaged/tensors/cut.b/stats.json", -EBADMSG},
        {"models/damaged/tensors/cut.b/stats", -EBADMSG},
        {"models/damaged/tensors/gone.weight", -ENOENT},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++)
        expect_error(rows[i].path, rows[i].rc);
    expect_names("models/dtypes/tensors/F6_E2M3.of.1", "name\ndtype\nshape\nstats.json\n");
    expect_names("models/damaged/tensors/cut.b", "name\ndtype\nshape\n");
    assert_int_equal(find("models/dtypes/tensors/F6_E2M3.of.1/raw").size, 6);
    expect_npy_at("models/dtypes/tensors/C64.of.4/data.npy", "", 0);
    tm_attr raw = find("models/damaged/tensors/cut.b/raw");
    tm_open_file file;
    tm_req req = blocking_request();
    assert_int_equal(raw.size, 10);
    assert_int_equal(tree->ops->open(tree, raw.ino, &req, &file), -EBADMSG);
    assert_string_equal(tm_req_words(&req),
                        "2.safetensors: damaged, so tensor 'cut.b' cannot be read");
    expect_text_at("models/damaged/state", "damaged\n");
    expect_text_at("models/llama/state", "ready\n");
    expect_text_at("models/llama/error", "");
}

static void folders_without_weights_are_in_load_alone(void **state)
{
    (void)state;
    expect_names("load", "again\ndamaged\ndtypes\nempty\nexperts\nfp8\nfused\nllama\nplain\nrun\n"
                         "single\nsparse\nstacks\n");
    expect_names("models", "again\ndamaged\ndtypes\nexperts\nfp8\nfused\nllama\nrun\nsingle\n"
                           "sparse\nstacks\n");
    expect_error("models/plain", -ENOENT);
    expect_error("models/empty", -ENOENT);
    expect_names("load/empty", "");
    expect_names("load/plain", "readme.txt\nsub\n");
    expect_names("load/single", "single.safetensors\n");
}

static void what_cannot_be_done_with_an_entry_is_refused(void **state)
{
    (void)state;
    tm_req req = blocking_request();
    tm_attr attr, file = find("models/llama/state"), folder = find("models/llama");
    char *target;
    list l = {0};
    assert_int_equal(try_look_up(file.ino, "x", &attr), -ENOTDIR);
    assert_int_equal(tree->ops->list(tree, file.ino, 0, list_emit, &l, &req), -ENOTDIR);
    assert_int_equal(tree->ops->readlink(tree, folder.ino, &req, &target), -EINVAL);
    assert_int_equal(tree->ops->write(tree, file.ino, &(tm_chunk){"x", 1, 0}, &req), -EROFS);
    assert_int_equal(tree->ops->write(tree, folder.ino, &(tm_chunk){"x", 1, 0}, &req), -EROFS);
    attr.live = false;
    assert_int_equal(try_look_up(find("models").ino, "nothing", &attr), -ENOENT);
    assert_true(attr.live);
    attr.live = true;
    assert_int_equal(try_look_up(find("models/llama/tensors").ino, "nothing", &attr), -ENOENT);
    assert_false(attr.live);
}

static void numbers_that_were_never_given_are_stale(void **state)
{
    (void)state;
    tm_attr attr;
    uint64_t inos[] = {UINT64_MAX,
                       UINT64_C(200000) << 46,
                       find("models/llama").ino | UINT64_C(0xff) << 38,
                       find("models/llama/tensors/model.norm.weight/at/0").ino + 1000000,
                       UINT64_C(0xff) << 38,
                       0};
    for (size_t i = 0; i < TM_ARRAY_LEN(inos); i++) {
        tm_req req = blocking_request();
        assert_int_equal(tree->ops->getattr(tree, inos[i], &req, &attr), -ESTALE);
    }
}

static uint64_t bytes_found;

static int note_bytes(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)path, (void)ftw;
    bytes_found += type == FTW_F ? (uint64_t)st->st_size : 0;
    return 0;
}

/* Of the files at PATH and below. */
static uint64_t bytes_below(const char *path)
{
    bytes_found = 0;
    assert_int_equal(nftw(path, note_bytes, 16, FTW_PHYS), 0);
    return bytes_found;
}

static void the_whole_has_the_bytes_of_its_sources_and_of_members_that_were_looked_up(void **state)
{
    (void)state;
    static const struct {
        const char *looked_up, *bytes_of;
    } rows[] = {
        {"load/whole", "trainer.log"},
        {"models/whole/checkpoint-500", "checkpoint-500"},
        {"load/whole/checkpoint-500", NULL}, /* the same */
        {"load/whole/runs", "runs"},
        {"load/whole/pipeline", "pipeline/model_index.json"},
        {"models/whole/pipeline/vae", "pipeline/vae"},
    };
    uint64_t before = tree->ops->total_bytes(tree), total = before;
    assert_true(before > bytes_below(at("llama")));
    write_run("whole");
    mount_source(NULL, at("whole"));
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        find(rows[i].looked_up);
        total += rows[i].bytes_of ? bytes_below(at("whole/%s", rows[i].bytes_of)) : 0;
        assert_int_equal(tree->ops->total_bytes(tree), total);
    }
    unmount("whole");
    assert_int_equal(tree->ops->total_bytes(tree), before);
}

/* ---- Interned names ---- */

static void a_selection_is_forgotten_when_the_kernel_forgets_it(void **state)
{
    (void)state;
    tm_attr attr;
    tm_req req = blocking_request();
    uint64_t folder = find("models/llama/tensors/model.norm.weight/at").ino;
    tm_attr first = look_up(folder, "5"), second = look_up(folder, "5");
    assert_int_equal(first.ino, second.ino);
    assert_int_not_equal(look_up(folder, "-3").ino, first.ino);
    tree->ops->forget(tree, first.ino, 1);
    assert_int_equal(tree->ops->getattr(tree, first.ino, &req, &attr), 0);
    assert_true(same_attr(&attr, &first));
    tree->ops->forget(tree, first.ino, 1);
    assert_int_equal(tree->ops->getattr(tree, first.ino, &req, &attr), -ESTALE);
    tree->ops->forget(tree, find("models/llama").ino, 1);
    assert_int_equal(tree->ops->getattr(tree, find("models/llama").ino, &req, &attr), 0);
}

/* Its number within the table is given again, to a name of another source. */
static void a_number_that_another_source_was_given_is_stale_for_the_first(void **state)
{
    (void)state;
    tm_attr attr;
    tm_req req = blocking_request();
    uint64_t first = look_up(find("models/llama/tensors/model.norm.weight/at").ino, "1").ino;
    uint64_t folder = find("models/again/tensors/model.norm.weight/at").ino;
    uint64_t within = (UINT64_C(1) << 38) - 1;
    tree->ops->forget(tree, first, 1);
    uint64_t second = look_up(folder, "2").ino;
    assert_int_equal(second & within, first & within);
    assert_int_equal(tree->ops->getattr(tree, first, &req, &attr), -ESTALE);
    assert_int_equal(tree->ops->getattr(tree, second, &req, &attr), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_entry_is_what_its_list_its_look_up_and_its_bytes_say),
        cmocka_unit_test(a_list_from_any_place_at_all_ends_and_does_no_harm),
        cmocka_unit_test(files_of_load_are_the_sources_byte_for_byte),
        cmocka_unit_test(raw_and_the_small_files_of_a_tensor_say_what_was_written),
        cmocka_unit_test(selections_are_parts_of_the_values),
        cmocka_unit_test(what_is_no_selection_is_not_there),
        cmocka_unit_test(folders_of_selections_list_nothing),
        cmocka_unit_test(scaled_values_are_those_of_codes_and_scales),
        cmocka_unit_test(what_has_no_values_answers_why_and_still_has_bytes),
        cmocka_unit_test(folders_without_weights_are_in_load_alone),
        cmocka_unit_test(what_cannot_be_done_with_an_entry_is_refused),
        cmocka_unit_test(numbers_that_were_never_given_are_stale),
        cmocka_unit_test(the_whole_has_the_bytes_of_its_sources_and_of_members_that_were_looked_up),
        cmocka_unit_test(a_selection_is_forgotten_when_the_kernel_forgets_it),
        cmocka_unit_test(a_number_that_another_source_was_given_is_stale_for_the_first),
    };
    return cmocka_run_group_tests_name("tree", tests, begin, tree_end);
}
