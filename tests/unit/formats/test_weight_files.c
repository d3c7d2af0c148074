/* Which files of a folder are its weights, by names alone. */
#include "formats/weight_files.h"

#include <stdarg.h>
#include <stdio.h>
#include <setjmp.h>
#include <cmocka.h>

enum {
    ENTRIES_MAX = 16
};

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const tm_entry *)a)->path, ((const tm_entry *)b)->path);
}

/* The listing of the words of NAMES, those of folders with a slash behind them. */
static tm_listing listing_of(const char *names)
{
    tm_listing listing;
    tm_listing_init(&listing);
    listing.entries = tm_new_array(ENTRIES_MAX, sizeof(*listing.entries));
    assert_non_null(listing.entries);
    while (*names) {
        size_t len = strcspn(names, " ");
        bool is_dir = names[len - 1] == '/';
        assert_true(listing.count < ENTRIES_MAX);
        listing.entries[listing.count++] =
            (tm_entry){.path = strndup(names, len - is_dir), .is_dir = is_dir};
        names += len + (names[len] == ' ');
    }
    qsort(listing.entries, listing.count, sizeof(tm_entry), compare_entries);
    return listing;
}

typedef struct row {
    const char *names;
    const char *expected; /* words; "" for none */
} row;

static void expect_weights(const row *r, bool is_file)
{
    size_t found[ENTRIES_MAX];
    char words[512] = "";
    tm_listing listing = listing_of(r->names);
    listing.is_file = is_file;
    size_t count = tm_weight_files_find(&listing, found);
    for (size_t i = 0, n = 0; i < count; i++)
        n += (size_t)snprintf(words + n, sizeof(words) - n, "%s%s", i ? " " : "",
                              listing.entries[found[i]].path);
    assert_string_equal(words, r->expected);
    tm_listing_done(&listing);
}

static void without_an_index_a_well_known_name_counts_else_every_safetensors(void **state)
{
    (void)state;
    static const row rows[] = {
        {"", ""},
        {"config.json pytorch_model.bin", ""},
        {"model.safetensors", "model.safetensors"},
        {"model.safetensors adapter_model.safetensors other.safetensors", "model.safetensors"},
        {"adapter_model.safetensors diffusion_pytorch_model.safetensors",
         "adapter_model.safetensors"},
        {"diffusion_pytorch_model.safetensors diffusion_pytorch_model.fp16.safetensors",
         "diffusion_pytorch_model.safetensors"},
        {"b.safetensors a.safetensors c.bin", "a.safetensors b.safetensors"},
        {"model-00001-of-00002.safetensors model-00002-of-00002.safetensors",
         "model-00001-of-00002.safetensors model-00002-of-00002.safetensors"},
        {"model.fp16.safetensors", "model.fp16.safetensors"},
        {"unet/ unet/model.safetensors", ""},
        {"model.safetensors/ model.safetensors/x", ""},
        {"model.safetensors/ adapter_model.safetensors", "adapter_model.safetensors"},
        {"x.safetensors/ y.safetensors", "y.safetensors"},
        {"safetensors model.safetensorsx amodel.safetensors.tmp", ""},
        {".safetensors", ".safetensors"},
        {"MODEL.SAFETENSORS", ""},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++)
        expect_weights(&rows[i], false);
}

static void a_file_that_was_named_is_the_one_whatever_it_is(void **state)
{
    (void)state;
    static const row rows[] = {
        {"x.safetensors", "x.safetensors"},
        {"notes.txt", "notes.txt"},
        {"model.safetensors.index.json", "model.safetensors.index.json"},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++)
        expect_weights(&rows[i], true);
}

static void the_index_is_the_well_known_one_else_the_first_by_name(void **state)
{
    (void)state;
    static const row rows[] = {
        {"", ""},
        {"model.safetensors", ""},
        {"model.safetensors.index.json", "model.safetensors.index.json"},
        {"adapter_model.safetensors.index.json model.safetensors.index.json",
         "model.safetensors.index.json"},
        {"diffusion_pytorch_model.safetensors.index.json a.safetensors.index.json",
         "diffusion_pytorch_model.safetensors.index.json"},
        {"z.safetensors.index.json a.fp16.safetensors.index.json", "a.fp16.safetensors.index.json"},
        {"pytorch_model.bin.index.json", ""},
        {"sub/ sub/model.safetensors.index.json", ""},
        {"model.safetensors.index.json/", ""},
        {"model.safetensors.index.json/ b.safetensors.index.json", "b.safetensors.index.json"},
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(rows); i++) {
        tm_listing listing = listing_of(rows[i].names);
        size_t entry = 99;
        bool found = tm_weight_files_index(&listing, &entry);
        assert_string_equal(found ? listing.entries[entry].path : "", rows[i].expected);
        tm_listing_done(&listing);
    }
}

static void weights_of_every_format_are_known_by_their_names(void **state)
{
    (void)state;
    static const char *const weights[] = {
        "model.safetensors",
        "pytorch_model.bin",
        "consolidated.00.pth",
        "sub/x.pt",
        "a.ckpt",
        "q4.gguf",
        "tf_model.h5",
        "onnx/model.onnx",
        "flax_model.msgpack",
        "m.keras",
        "m.npz",
        "m.tflite",
        "optimizer.safetensors",
    };
    static const char *const others[] = {
        "config.json",
        "training_args.bin",
        "optimizer.pt",
        "sub/scheduler.pt",
        "optimizer.bin",
        "ckpt/scheduler.bin",
        "bin",
        "x.bin.index.json",
        "model.onnx_data",
        "model.safetensors.index.json",
        "",
        "a/",
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(weights); i++)
        if (!tm_weight_files_is_weight(weights[i]))
            fail_msg("%s", weights[i]);
    for (size_t i = 0; i < TM_ARRAY_LEN(others); i++)
        if (tm_weight_files_is_weight(others[i]))
            fail_msg("%s", others[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_an_index_a_well_known_name_counts_else_every_safetensors),
        cmocka_unit_test(a_file_that_was_named_is_the_one_whatever_it_is),
        cmocka_unit_test(the_index_is_the_well_known_one_else_the_first_by_name),
        cmocka_unit_test(weights_of_every_format_are_known_by_their_names),
    };
    return cmocka_run_group_tests_name("weight_files", tests, NULL, NULL);
}
