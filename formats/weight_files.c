#include "formats/weight_files.h"

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static bool is_top_file(const tm_entry *entry)
{
    return !entry->is_dir && !strchr(entry->path, '/');
}

bool tm_weight_files_is_index(const char *path)
{
    return !strchr(path, '/') && ends_with(path, ".safetensors.index.json");
}

bool tm_weight_files_index(const tm_listing *listing, size_t *ret_entry)
{
    static const char *const names[] = {
        "model.safetensors.index.json",
        "adapter_model.safetensors.index.json",
        "diffusion_pytorch_model.safetensors.index.json",
    };
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++)
        if (tm_listing_find(listing, names[i], strlen(names[i]), ret_entry) &&
            !listing->entries[*ret_entry].is_dir)
            return true;
    for (size_t i = 0; i < listing->count; i++) {
        const tm_entry *entry = &listing->entries[i];
        if (!entry->is_dir && tm_weight_files_is_index(entry->path)) {
            *ret_entry = i;
            return true;
        }
    }
    return false;
}

size_t tm_weight_files_find(const tm_listing *listing, size_t *ret)
{
    static const char *const names[] = {
        "model.safetensors",
        "adapter_model.safetensors",
        "diffusion_pytorch_model.safetensors",
    };
    if (listing->is_file) {
        ret[0] = 0; /* the user named it: whatever it is, it is the one */
        return 1;
    }
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++)
        if (tm_listing_find(listing, names[i], strlen(names[i]), &ret[0]) &&
            !listing->entries[ret[0]].is_dir)
            return 1;
    size_t n = 0;
    for (size_t i = 0; i < listing->count; i++)
        if (is_top_file(&listing->entries[i]) &&
            ends_with(listing->entries[i].path, ".safetensors"))
            ret[n++] = i;
    return n;
}

bool tm_weight_files_is_weight(const char *path)
{
    static const char *const ends[] = {
        ".safetensors", ".bin",  ".pt",    ".pth", ".ckpt",    ".gguf",
        ".h5",          ".onnx", ".keras", ".npz", ".msgpack", ".tflite",
    };
    static const char *const others[] = {"training_args.bin", "optimizer.pt", "scheduler.pt",
                                         "optimizer.bin", "scheduler.bin"};
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < TM_ARRAY_LEN(others); i++)
        if (strcmp(name, others[i]) == 0)
            return false;
    for (size_t i = 0; i < TM_ARRAY_LEN(ends); i++)
        if (ends_with(name, ends[i]))
            return true;
    return false;
}
