#include "formats/config.h"

#include "formats/json.h"

void tm_config_init(tm_config *config)
{
    memset(config, 0, sizeof(*config));
}

void tm_config_done(tm_config *config)
{
    free(config->architecture);
    free(config->quant.method);
    free(config->quant.format);
    free(config->quant.checkpoint_format);
    tm_config_init(config);
}

/* ---- Python's JSON ---- */

/* Python's json writes these bare words for floats that JSON lacks. */
static const char *const bare_words[] = {"NaN", "Infinity"};

/* A copy of the text with each bare word as a 0 and spaces: no key that is read here has one. */
static char *without_bare_words(const char *text, size_t len)
{
    char *copy = malloc(len + 1);
    if (!copy)
        return NULL;
    if (len)
        memcpy(copy, text, len);
    copy[len] = '\0';
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        if (in_string) {
            in_string = copy[i] != '"';
            i += copy[i] == '\\';
            continue;
        }
        in_string = copy[i] == '"';
        for (size_t k = 0; k < TM_ARRAY_LEN(bare_words); k++) {
            size_t n = strlen(bare_words[k]);
            if (n <= len - i && memcmp(copy + i, bare_words[k], n) == 0) {
                memset(copy + i, ' ', n);
                copy[i] = '0';
            }
        }
    }
    return copy;
}

/* ---- Keys ---- */

/* A non-empty string by any of the two keys (the second may be NULL). */
static const char *find_str(const tm_json *v, const char *key, const char *other_key)
{
    const char *s = tm_json_str(tm_json_get(v, key));
    if ((!s || !*s) && other_key)
        s = tm_json_str(tm_json_get(v, other_key));
    return s && *s ? s : NULL;
}

static int copy_str(const char *s, char **ret)
{
    if (!s)
        return 0;
    char *copy = strdup(s);
    if (!copy)
        return -ENOMEM;
    *ret = copy;
    return 0;
}

/* A positive integer, 0 where V is something else. */
static uint64_t positive(const tm_json *v)
{
    int64_t n = 0;
    return tm_json_int(v, &n) && n > 0 ? (uint64_t)n : 0;
}

/* The language model's own part of a multimodal config: what it says goes before the whole's. */
static const tm_json *text_part(const tm_json *root)
{
    return tm_json_get(root, "text_config");
}

static int read_architecture(const tm_json *root, tm_config *config)
{
    const char *name = tm_json_str(tm_json_at(tm_json_get(root, "architectures"), 0));
    if (!name || !*name)
        name = find_str(root, "_class_name", "model_type");
    return copy_str(name, &config->architecture);
}

static void read_tied(const tm_json *root, tm_config *config)
{
    static const char key[] = "tie_word_embeddings";
    config->tied = true;
    if (!tm_json_bool(tm_json_get(text_part(root), key), &config->tied))
        tm_json_bool(tm_json_get(root, key), &config->tied);
}

static void read_dtype(const tm_json *root, tm_config *config)
{
    const char *name = find_str(root, "dtype", "torch_dtype");
    if (!name)
        name = find_str(text_part(root), "dtype", "torch_dtype");
    config->dtype_known = name && tm_dtype_parse(name, strlen(name), &config->dtype);
}

/* ---- Quantisation ---- */

static const tm_json *find_quant(const tm_json *root)
{
    static const char *const keys[] = {"quantization_config", "compression_config", "quantization"};
    const tm_json *parts[] = {root, text_part(root)};
    for (size_t p = 0; p < TM_ARRAY_LEN(parts); p++) {
        for (size_t k = 0; k < TM_ARRAY_LEN(keys); k++) {
            const tm_json *q = tm_json_get(parts[p], keys[k]);
            if (tm_json_is_object(q))
                return q;
        }
    }
    return NULL;
}

/* Names the method of a config that does not, by what only one writer has. */
static const char *guess_method(const tm_json *root, const tm_json *q)
{
    if (find_str(q, "quant_algo", NULL) || tm_json_is_object(tm_json_get(q, "quantization")))
        return "modelopt";
    if (tm_json_get(q, "load_in_4bit") || tm_json_get(q, "load_in_8bit"))
        return "bitsandbytes";
    if (tm_json_get(q, "config_groups") || q == tm_json_get(root, "compression_config"))
        return "compressed-tensors";
    if (tm_json_get(q, "bits") && tm_json_get(q, "group_size"))
        return "mlx";
    return "unknown";
}

/* A number that must be the same wherever it stands. */
typedef struct agreed {
    uint64_t value;
    bool seen, several;
} agreed;

static void agree(agreed *a, uint64_t value)
{
    a->several = a->several || (a->seen && a->value != value);
    a->seen = true;
    a->value = value;
}

static uint64_t agreement(const agreed *a)
{
    return a->several ? 0 : a->value;
}

typedef struct groups {
    agreed bits, rows, cols;
} groups;

/* A pair of positive numbers: [rows, cols]. */
static bool read_pair(const tm_json *v, uint64_t ret[2])
{
    ret[0] = positive(tm_json_at(v, 0));
    ret[1] = positive(tm_json_at(v, 1));
    return tm_json_len(v) == 2 && ret[0] && ret[1];
}

/* The weights of one of compressed-tensors' config_groups. */
static void read_group(const tm_json *weights, groups *g)
{
    const char *strategy = find_str(weights, "strategy", NULL);
    uint64_t block[2], bits = positive(tm_json_get(weights, "num_bits"));
    uint64_t group_size = positive(tm_json_get(weights, "group_size"));
    if (bits)
        agree(&g->bits, bits);
    if (!strategy)
        return;
    if (strcmp(strategy, "block") == 0 &&
        read_pair(tm_json_get(weights, "block_structure"), block)) {
        agree(&g->rows, block[0]);
        agree(&g->cols, block[1]);
    } else if ((strcmp(strategy, "group") == 0 || strcmp(strategy, "tensor_group") == 0) &&
               group_size) {
        agree(&g->rows, 1);
        agree(&g->cols, group_size);
    }
}

static void read_groups(const tm_json *q, groups *g)
{
    const tm_json *list = tm_json_get(q, "config_groups");
    for (tm_json_member m = {0}; tm_json_next(list, &m);)
        read_group(tm_json_get(m.value, "weights"), g);
}

static void read_numbers(const tm_json *q, tm_quant_config *quant)
{
    groups g = {0};
    uint64_t block[2];
    read_groups(q, &g);
    uint64_t bits = positive(tm_json_get(q, "bits"));
    if (!bits)
        bits = agreement(&g.bits);
    quant->bits = bits <= 64 ? (unsigned)bits : 0;
    if (read_pair(tm_json_get(q, "weight_block_size"), block)) {
        quant->block_rows = block[0];
        quant->block_cols = block[1];
    } else if (!g.rows.several && !g.cols.several) {
        quant->block_rows = g.rows.value;
        quant->block_cols = g.cols.value;
    }
}

static int read_quant(const tm_json *root, tm_quant_config *quant)
{
    const tm_json *q = find_quant(root);
    if (!q)
        return 0;
    const char *method = find_str(q, "quant_method", NULL);
    /* ModelOpt's hf_quant_config.json, put into config.json as it is, has one level more. */
    const tm_json *inner = tm_json_get(q, "quantization");
    const tm_json *body = tm_json_is_object(inner) ? inner : q;
    const char *format = find_str(body, "format", "fmt");
    read_numbers(body, quant);
    TM_TRY(copy_str(method ? method : guess_method(root, q), &quant->method));
    TM_TRY(copy_str(format ? format : find_str(body, "quant_algo", NULL), &quant->format));
    return copy_str(find_str(body, "checkpoint_format", NULL), &quant->checkpoint_format);
}

static void warn_of_block_size(const tm_json *root, const char *file, tm_diag *diag)
{
    uint64_t block[2];
    const tm_json *v = tm_json_get(find_quant(root), "weight_block_size");
    if (v && !tm_json_is_null(v) && !read_pair(v, block))
        tm_diag_add(diag, TM_WARNING, "%s: weight_block_size is not two positive numbers", file);
}

static int read_root(const tm_json *root, tm_config *config)
{
    TM_TRY(read_architecture(root, config));
    read_tied(root, config);
    read_dtype(root, config);
    return read_quant(root, &config->quant);
}

static void warn_of_text(const char *file, const tm_json_error *error, tm_diag *diag)
{
    if (error->line)
        tm_diag_add(diag, TM_WARNING, "%s:%d:%d: %s; the file is left out", file, error->line,
                    error->column, error->words);
    else
        tm_diag_add(diag, TM_WARNING, "%s: %s; the file is left out", file, error->words);
}

/* RET stays NULL where the text is no object, which DIAG then says. */
static int parse_root(const void *bytes, size_t len, const char *file, tm_diag *diag, tm_json **ret)
{
    tm_json_error error = {0};
    TM_AUTO(tm_json_freep) tm_json *root = NULL;
    TM_AUTO_FREE char *text = without_bare_words(bytes, len);
    int rc = text ? tm_json_parse(text, len, &error, &root) : -ENOMEM;
    if (rc == -ENOMEM)
        return rc;
    if (rc < 0) {
        warn_of_text(file, &error, diag);
    } else if (!tm_json_is_object(root)) {
        tm_diag_add(diag, TM_WARNING, "%s: %s where an object belongs; the file is left out", file,
                    tm_json_kind_words(root));
    } else {
        *ret = TM_STEAL(root);
    }
    return 0;
}

int tm_config_parse(const void *bytes, size_t len, const char *file, tm_diag *diag,
                    tm_config *config)
{
    if (len > TM_CONFIG_BYTES_MAX) {
        tm_diag_add(diag, TM_WARNING, "%s: more than %zu bytes; the file is left out", file,
                    TM_CONFIG_BYTES_MAX);
        return 0;
    }
    TM_AUTO(tm_json_freep) tm_json *root = NULL;
    TM_AUTO(tm_config_done) tm_config read = {0};
    TM_TRY(parse_root(bytes, len, file, diag, &root));
    if (!root)
        return 0;
    warn_of_block_size(root, file, diag);
    TM_TRY(read_root(root, &read));
    tm_config_done(config);
    *config = read;
    tm_config_init(&read);
    return 0;
}
