/*
 * Tensor names of any bytes in tensors/, tree/ and layers/: each resolves to its own tensor, and
 * folders of modules are what splitting names by hand gives.
 */
#include "core/escape.h"
#include "core/tensor_table.h"
#include "tests/unit/fs/models.h"
#include "tests/unit/fs/tree_walk.h"

enum {
    NAMES_MAX = 128,
    NAME_MAX_LEN = 1024
};

typedef struct odd_name {
    char text[NAME_MAX_LEN];
    size_t len;
} odd_name;

static odd_name names[NAMES_MAX]; /* sorted */
static file_tensor tensors[NAMES_MAX];
static size_t name_count;

static void add_bytes(const char *text, size_t len)
{
    assert_true(name_count < NAMES_MAX && len < NAME_MAX_LEN);
    odd_name *n = &names[name_count++];
    memcpy(n->text, text, len);
    n->len = len;
}

static TM_PRINTF(1, 2) void add_name(const char *fmt, ...)
{
    char text[NAME_MAX_LEN];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    add_bytes(text, (size_t)len);
}

/* COUNT times C, good until the next call. */
static const char *run_of(char c, size_t count)
{
    static char text[NAME_MAX_LEN];
    memset(text, c, count);
    text[count] = '\0';
    return text;
}

static int compare_names(const void *a, const void *b)
{
    const odd_name *x = a, *y = b;
    return tm_name_cmp(x->text, x->len, y->text, y->len);
}

static void add_plain_names(void)
{
    static const char *const plain[] = {
        ".",
        "..",
        "...",
        ".hidden",
        "a/b",
        "/etc/passwd",
        "100%",
        "%2F",
        "%",
        "a b",
        "tab\there",
        "new\nline",
        "del\x7f",
        "\xc3\xbc\xc3\xb1",
        "emoji\xf0\x9f\x98\x80.weight",
        "a:b",
        "*",
        "'\"\\",
        "-n",
        "~",
        "CON",
        "UPPER",
        "upper",
        "name",
        "raw",
        "q.weight",
        "q.weight.absmax",
        "q.weight.absmax.deep.er",
        "q.weight.quant_map",
        "q.weightier",
        "x.",
        "x..",
        "x..y",
        "x.y",
        "x/.y",
        "x-.y",
        "m.a",
        "m.a-b",
        "m.a.c",
        "m.ab.c",
        "m.a0.c",
        "deep.a.b.c.d",
        "deep.a.b.c.e",
        "deep.a.bb",
        "deep.a.b.cc",
        "deep.%2E.x",
        "deep./.x",
        "model.layers.3.odd/name",
        "model.layers.3.",
        "model.layers.3.\xf0\x9f\x98\x80",
        "model.layers.3.mlp.experts.1.",
        "model.layers.3.mlp.experts.1.a/b",
        "sole~0123456789abcdef",
        "end.",
        "end.x.",
        "lm_head.weight",
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(plain); i++)
        add_name("%s", plain[i]);
    add_bytes("nul\0byte", 8);
    add_bytes("nul\0.byte", 9);
    add_bytes("\0", 1);
}

/* Names over what a file name holds, whole or as one component, and such as look like cut ones. */
static void add_long_names(void)
{
    add_name("%s", run_of('l', 255));
    add_name("%s", run_of('l', 256));
    add_name("%sa", run_of('l', 300));
    add_name("%sb", run_of('l', 300));
    add_name("long.%sa.weight", run_of('c', 300));
    add_name("long.%sb.weight", run_of('c', 300));
    add_name("long.%sb.bias", run_of('c', 300));
    add_name("long.%s", run_of('c', 299));
    add_name("long.%s.%s", "short", run_of('e', 260));
    add_name("%s~0123456789abcdef", run_of('h', 238));
    add_name("%s~0123456789abcdef", run_of('h', 237));
    add_name("%s~0123456789abcde", run_of('h', 238));
    add_name("%s~0123456789ABCDEF", run_of('h', 238));
    add_name("mod.%s~0123456789abcdef.w", run_of('h', 238));
    add_name("%s", run_of('/', 85));
    add_name("%s", run_of('/', 86));
    add_name("%s", run_of('.', 64));
    for (int i = 0; i < 130; i++)
        memcpy(names[name_count].text + 2 * i, "\xc3\xa9", 2);
    names[name_count++].len = 260;
}

static int begin_with_names(void **state)
{
    if (tree_begin(state) < 0)
        return -1;
    add_plain_names();
    add_long_names();
    qsort(names, name_count, sizeof(names[0]), compare_names);
    for (size_t i = 0; i < name_count; i++)
        tensors[i] = (file_tensor){
            .name = names[i].text, .dtype = "U8", .shape = "5", .name_len = names[i].len};
    write_safetensors(at("odd/model.safetensors"), tensors, name_count);
    mount_source(NULL, at("odd"));
    return 0;
}

static int begin_without_the_empty_name(void **state)
{
    name_count = 0;
    return begin_with_names(state);
}

/* Where the empty name is a tensor, it is also a prefix that a leading dot does not split. */
static int begin_with_the_empty_name(void **state)
{
    name_count = 0;
    add_name("%s", "");
    return begin_with_names(state);
}

/* ---- tensors/ ---- */

static uint64_t tensor_folder(const odd_name *n)
{
    char file[TM_FILE_NAME_MAX + 1];
    tm_name_to_file(n->text, n->len, file);
    return find_in("models/odd/tensors", file).ino;
}

static void expect_content(uint64_t folder, const char *file, const void *bytes, size_t len)
{
    tm_attr attr = look_up(folder, file);
    tm_blob *blob = open_file(attr.ino);
    assert_int_equal(blob->size, attr.size);
    assert_int_equal(blob->size, len);
    char *got = content_of_blob(blob);
    assert_memory_equal(got, bytes, len);
    close_file(blob);
    free(got);
}

static void every_name_is_a_folder_with_its_own_name_and_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < name_count; i++) {
        char line[NAME_MAX_LEN + 1];
        uint8_t *bytes = file_tensor_content(&tensors[i]);
        uint64_t folder = tensor_folder(&names[i]);
        memcpy(line, names[i].text, names[i].len);
        line[names[i].len] = '\n';
        expect_content(folder, "name", line, names[i].len + 1);
        expect_content(folder, "raw", bytes, 5);
        free(bytes);
    }
}

static void the_folder_of_tensors_lists_the_names_in_their_order(void **state)
{
    (void)state;
    list l = list_of(find("models/odd/tensors").ino);
    assert_int_equal(l.count, name_count);
    for (size_t i = 0; i < name_count; i++) {
        char file[TM_FILE_NAME_MAX + 1];
        tm_name_to_file(names[i].text, names[i].len, file);
        assert_string_equal(l.entries[i].name, file);
        assert_true(strlen(file) <= TM_FILE_NAME_MAX && !strchr(file, '/'));
    }
    list_done(&l);
}

static void other_spellings_of_a_name_are_not_there(void **state)
{
    (void)state;
    static const char *const spellings[] = {
        "a%2fb",  "%61/b", "a%2Fb%00", "%2E%2e", "%2E.",       ".%2E",
        "...%",   "%25%",  "%25",      "%252F%", "new%0aline", "new\nline",
        "upper ", "Upper", "nul",      "nul%00", "%00%00",     "%C3%BC%C3%B1"};
    uint64_t folder = find("models/odd/tensors").ino;
    tm_attr attr;
    for (size_t i = 0; i < TM_ARRAY_LEN(spellings); i++)
        if (strcmp(spellings[i], "%25") != 0)
            assert_int_equal(try_look_up(folder, spellings[i], &attr), -ENOENT);
    assert_int_equal(try_look_up(folder, "%25", &attr), 0);
    assert_int_equal(try_look_up(folder, "", &attr), -ENOENT);
    assert_int_equal(try_look_up(folder, run_of('l', 256), &attr), -ENOENT);
    assert_int_equal(try_look_up(folder, run_of('l', 1000), &attr), -ENOENT);
}

static void a_cut_name_needs_its_own_hash(void **state)
{
    (void)state;
    size_t cut = 0;
    for (size_t i = 0; i < name_count; i++) {
        char file[TM_FILE_NAME_MAX + 1], whole[TM_FILE_NAME_MAX + 1];
        size_t len = tm_name_to_file(names[i].text, names[i].len, file), whole_len;
        tm_attr attr;
        if (tm_file_to_name(file, len, whole, &whole_len) != TM_FILE_NAME_HASHED)
            continue;
        cut++;
        file[len - 1] = file[len - 1] == '0' ? '1' : '0';
        assert_int_equal(try_look_up(find("models/odd/tensors").ino, file, &attr), -ENOENT);
    }
    assert_true(cut >= 8);
}

/* ---- tree/ ---- */

static bool is_tensor(const char *text, size_t len)
{
    odd_name key = {.len = len};
    memcpy(key.text, text, len);
    return bsearch(&key, names, name_count, sizeof(names[0]), compare_names);
}

/* Where the component that begins at FROM ends, split by hand. */
static size_t component_end(const odd_name *n, size_t from)
{
    for (size_t i = from; i < n->len; i++)
        if (n->text[i] == '.' && !is_tensor(n->text, i))
            return i;
    return n->len;
}

/* The file name of the component at FROM. */
static void component_file(const odd_name *n, size_t from, char ret[TM_FILE_NAME_MAX + 1])
{
    tm_name_to_file(n->text + from, component_end(n, from) - from, ret);
}

static void every_name_is_reached_by_its_modules(void **state)
{
    (void)state;
    for (size_t i = 0; i < name_count; i++) {
        const odd_name *n = &names[i];
        char path[4 * NAME_MAX_LEN] = "models/odd/tree", file[TM_FILE_NAME_MAX + 1];
        size_t at_path = strlen(path);
        for (size_t from = 0;; from = component_end(n, from) + 1) {
            component_file(n, from, file);
            at_path += (size_t)snprintf(path + at_path, sizeof(path) - at_path, "/%s", file);
            if (component_end(n, from) == n->len)
                break;
        }
        tm_attr leaf = find(path);
        if (leaf.ino != tensor_folder(n))
            fail_msg("%s leads to another tensor", path);
    }
}

/* The folder of the LEN bytes of PREFIX, which is empty or ends in a dot. */
static void expect_module(uint64_t ino, const odd_name *prefix)
{
    list l = list_of(ino);
    size_t count = 0;
    char file[TM_FILE_NAME_MAX + 1], last[TM_FILE_NAME_MAX + 1] = "";
    for (size_t i = 0; i < name_count; i++) {
        const odd_name *n = &names[i];
        if (n->len < prefix->len || memcmp(n->text, prefix->text, prefix->len) != 0)
            continue;
        component_file(n, prefix->len, file);
        if (strcmp(file, last) == 0)
            continue;
        snprintf(last, sizeof(last), "%s", file);
        assert_true(count < l.count);
        assert_string_equal(l.entries[count].name, file);
        tm_attr child = look_up(ino, file);
        assert_int_equal(child.ino, l.entries[count].attr.ino);
        count++;
        odd_name below = {.len = component_end(n, prefix->len) + 1};
        assert_int_equal(S_ISDIR(child.mode), below.len <= n->len);
        if (!S_ISDIR(child.mode))
            continue;
        memcpy(below.text, n->text, below.len);
        expect_module(child.ino, &below);
    }
    assert_int_equal(count + 1, l.count);
    assert_string_equal(l.entries[count].name, "stats.json");
    list_done(&l);
}

static void folders_of_modules_are_names_split_by_hand(void **state)
{
    (void)state;
    static const odd_name none;
    expect_module(find("models/odd/tree").ino, &none);
}

static void a_leaf_that_is_also_a_prefix_is_not_split(void **state)
{
    (void)state;
    expect_names(
        "models/odd/tree/q",
        "weight\nweight.absmax\nweight.absmax.deep\nweight.quant_map\nweightier\nstats.json\n");
    expect_link("models/odd/tree/q", "weight.absmax", "../../tensors/q.weight.absmax");
    expect_link("models/odd/tree/q/weight.absmax.deep", "er",
                "../../../tensors/q.weight.absmax.deep.er");
    expect_error("models/odd/tree/q/weight/absmax", -ENOENT);
    expect_error("models/odd/tree/q.weight", -ENOENT);
}

static void what_is_no_module_is_not_there(void **state)
{
    (void)state;
    static const char *const paths[] = {"deep.a",   "deep/a/b/c/x", "deep/a.b",       "deep/a/b.c",
                                        "deep/",    "x/%/%/%",      "deep/a/b/c/d/e", "m.a",
                                        "deep/%2E", "long/short.e", "sole",           "modx"};
    char path[512];
    for (size_t i = 0; i < TM_ARRAY_LEN(paths); i++) {
        snprintf(path, sizeof(path), "models/odd/tree/%s", paths[i]);
        tm_attr attr;
        tm_req req = blocking_request();
        int rc = tm_path_find(tree, path, &req, &attr);
        bool is_folder = strcmp(paths[i], "deep/") == 0;
        if (rc != (is_folder ? 0 : -ENOENT))
            fail_msg("%s: %d", path, rc);
    }
    tm_attr attr;
    assert_int_equal(try_look_up(find("models/odd/tree").ino, run_of('l', 300), &attr), -ENOENT);
}

/* ---- layers/ and experts/ ---- */

static void layers_show_odd_names_by_the_same_file_names(void **state)
{
    (void)state;
    expect_names("models/odd/layers", "003\n");
    expect_names("models/odd/layers/003",
                 "model.layers.3.\nmodel.layers.3.odd%2Fname\n"
                 "model.layers.3.\xf0\x9f\x98\x80\nmodel.layers.3.mlp.experts.1.\n"
                 "model.layers.3.mlp.experts.1.a%2Fb\nstats.json\n");
    expect_link("models/odd/layers/003", "model.layers.3.odd%2Fname",
                "../../tensors/model.layers.3.odd%2Fname");
    expect_names("models/odd/experts/003/001", "%\na%2Fb\n");
    expect_link("models/odd/experts/003/001", "%",
                "../../../tensors/model.layers.3.mlp.experts.1.");
    expect_error("models/odd/layers/003/lm_head.weight", -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_is_a_folder_with_its_own_name_and_bytes),
        cmocka_unit_test(the_folder_of_tensors_lists_the_names_in_their_order),
        cmocka_unit_test(other_spellings_of_a_name_are_not_there),
        cmocka_unit_test(a_cut_name_needs_its_own_hash),
        cmocka_unit_test(every_name_is_reached_by_its_modules),
        cmocka_unit_test(folders_of_modules_are_names_split_by_hand),
        cmocka_unit_test(a_leaf_that_is_also_a_prefix_is_not_split),
        cmocka_unit_test(what_is_no_module_is_not_there),
        cmocka_unit_test(layers_show_odd_names_by_the_same_file_names),
    };
    int without = cmocka_run_group_tests_name("tree_names, without the empty name", tests,
                                              begin_without_the_empty_name, tree_end);
    int with = cmocka_run_group_tests_name("tree_names, with the empty name", tests,
                                           begin_with_the_empty_name, tree_end);
    return without + with;
}
