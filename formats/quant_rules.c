#include "formats/quant_rules.h"

#define BIT(dtype)  (1u << (dtype))
#define BYTES       (BIT(TM_U8) | BIT(TM_I8))
#define WORDS       (BIT(TM_I32) | BIT(TM_U32) | BIT(TM_I16) | BIT(TM_U16) | BIT(TM_I64))
#define U8_OR_WORDS (BIT(TM_U8) | WORDS)
#define WIDE_FLOATS (BIT(TM_F16) | BIT(TM_BF16) | BIT(TM_F32))
#define FP8S        (BIT(TM_F8_E4M3) | BIT(TM_F8_E5M2) | BIT(TM_F8_E4M3FNUZ) | BIT(TM_F8_E5M2FNUZ))
#define ANY         (~0u)

static_assert(TM_DTYPE_COUNT <= 32, "a set of dtypes is a word");

/* ---- Schemes ---- */

typedef struct scheme {
    const char *family; /* what a rule names */
    const char *name;   /* what people read */
    uint8_t bits;       /* of a code; 0: not known */
    bool whole;         /* a stored element holds whole codes: three bits leave two of 32 unused */
} scheme;

/* clang-format off */
#define ONE(name, bits) {name, name, bits, true}
/* One family, with its variants by the bits that config.json names. */
#define BY_BITS(family, whole)                                                                     \
    {family, family, 0, false},                                                                    \
    {family, family "-2bit", 2, whole}, {family, family "-3bit", 3, whole},                        \
    {family, family "-4bit", 4, whole}, {family, family "-5bit", 5, whole},                        \
    {family, family "-6bit", 6, whole}, {family, family "-8bit", 8, whole}

static const scheme schemes[] = {
    BY_BITS("gptq", false),
    BY_BITS("awq", false),
    BY_BITS("gptq-or-awq", false),
    BY_BITS("compressed-tensors", true),
    BY_BITS("mlx", false),
    BY_BITS("quanto", false),
    BY_BITS("hqq", false),
    ONE("compressed-tensors-nvfp4", 4),
    ONE("compressed-tensors-mxfp4", 4),
    ONE("modelopt-nvfp4", 4),
    ONE("mxfp4", 4),
    ONE("fp4", 4),
    ONE("bitsandbytes-nf4", 4),
    ONE("bitsandbytes-fp4", 4),
    ONE("bitsandbytes-4bit", 4),
    ONE("bitsandbytes-nested", 8),
    ONE("bitsandbytes-int8", 8),
    ONE("nunchaku", 4),
    ONE("bitnet", 2),
    ONE("eetq", 8),
    ONE("int8", 8),
    ONE("aqlm", 0),
    ONE("vptq", 0),
    ONE("quip", 0),
    ONE("exl2", 0),
    ONE("exl3", 0),
    ONE("torchao", 0),
    ONE("packed", 0),
};
/* clang-format on */

/* The scheme of FAMILY with BITS; the family's first where it has none such. */
static const scheme *find_scheme(const char *family, unsigned bits)
{
    const scheme *first = NULL;
    for (size_t i = 0; i < TM_ARRAY_LEN(schemes); i++) {
        if (strcmp(schemes[i].family, family) != 0)
            continue;
        if (schemes[i].bits == bits)
            return &schemes[i];
        first = first ? first : &schemes[i];
    }
    assert(first);
    return first;
}

unsigned tm_quant_scheme_bits(const char *name, bool *ret_whole)
{
    for (size_t i = 0; i < TM_ARRAY_LEN(schemes); i++) {
        if (schemes[i].name == name) {
            *ret_whole = schemes[i].whole;
            return schemes[i].bits;
        }
    }
    return 0;
}

/* ---- Rules ---- */

/* What a name ends in. Every row is held against all of them, so its length is at hand. */
typedef struct suffix {
    const char *bytes;
    size_t len;
} suffix;
#define S(literal)                                                                                 \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }

typedef struct rule {
    const char *family;
    suffix code;          /* how the names of its codes end */
    const char *relative; /* what another tensor has there instead, which must exist; NULL: none */
    const char *method;   /* part of the config's quant_method; "": any; NULL: none is needed */
    uint32_t dtypes;      /* that its codes are stored in */
} rule;

/* The first that matches counts. */
/* clang-format off */
static const rule rules[] = {
    {"awq",                      S(".qweight"),     ".scales",         "awq",    WORDS},
    {"gptq",                     S(".qweight"),     ".g_idx",          NULL,     WORDS},
    {"gptq",                     S(".qweight"),     ".scales",         "gptq",   WORDS},
    {"gptq-or-awq",              S(".qweight"),     ".scales",         NULL,     WORDS},
    {"nunchaku",                 S(".qweight"),     ".wscales",        NULL,     BYTES | WORDS},
    {"awq",                      S(".qzeros"),      ".qweight",        "awq",    WORDS},
    {"gptq",                     S(".qzeros"),      ".g_idx",          NULL,     WORDS},
    {"gptq",                     S(".qzeros"),      ".qweight",        "gptq",   WORDS},
    {"gptq-or-awq",              S(".qzeros"),      ".qweight",        NULL,     WORDS},
    {"compressed-tensors-nvfp4", S("_packed"),      "_global_scale",   NULL,     BYTES},
    {"compressed-tensors-mxfp4", S("_packed"),      "_scale",          NULL,     BYTES},
    {"compressed-tensors",       S("_packed"),      "_scale",          NULL,     WORDS},
    {"compressed-tensors",       S("_zero_point"),  "_packed",         NULL,     WORDS},
    {"mxfp4",                    S("_blocks"),      "_scales",         NULL,     BYTES},
    {"mxfp4",                    S(".blocks"),      ".scales",         NULL,     BYTES},
    {"modelopt-nvfp4",           S(""),             "_scale_2",        NULL,     BYTES},
    {"modelopt-nvfp4",           S(""),             "_weight_scale_2", NULL,     BYTES},
    {"bitsandbytes-nested",      S(".absmax"),      ".nested_absmax",  NULL,     BYTES},
    /* Any storage dtype may hold bitsandbytes' bytes; only the config makes that worth a look. */
    {"bitsandbytes-nf4",  S(""),  ".quant_state.bitsandbytes__nf4",  NULL,           BYTES},
    {"bitsandbytes-fp4",  S(""),  ".quant_state.bitsandbytes__fp4",  NULL,           BYTES},
    {"bitsandbytes-4bit",        S(""),             ".absmax",         NULL,     BYTES},
    {"bitsandbytes-nf4",  S(""),  ".quant_state.bitsandbytes__nf4",  "bitsandbytes", WIDE_FLOATS},
    {"bitsandbytes-fp4",  S(""),  ".quant_state.bitsandbytes__fp4",  "bitsandbytes", WIDE_FLOATS},
    {"bitsandbytes-int8",        S(".weight"),      ".SCB",            NULL,     BYTES},
    {"eetq",                     S(""),             "_scales",         "eetq",   BYTES},
    {"int8",                     S(""),             "_scales",         NULL,     BIT(TM_I8)},
    {"hqq",                      S(".W_q"),         ".scale",          NULL,     ANY},
    {"hqq",                      S(".W_q"),         NULL,              "hqq",    ANY},
    {"aqlm",                     S(".codes"),       ".codebooks",      NULL,     BYTES | WORDS},
    {"vptq",                     S(".indices"),     ".centroids.weight", NULL,     BYTES | WORDS},
    {"quip",                     S(".Qidxs"),       NULL,              NULL,     BYTES | WORDS},
    {"exl2",                     S(".q_weight"),    ".q_scale",        NULL,     WORDS},
    {"exl2",                     S(".q_scale"),     ".q_weight",       NULL,     WORDS},
    {"exl3",                     S(".trellis"),     NULL,              NULL,     WORDS},
    {"mlx",                      S(".weight"),      ".scales",         NULL,     BIT(TM_U32)},
    {"quanto",                   S("._data._data"), "._scale",         NULL,     BYTES | FP8S},
    {"quanto",                   S("._data"),       "._scale",         NULL,     BYTES | FP8S},
    {"torchao", S("qdata"), NULL, "torchao", BYTES | WORDS | FP8S},
    {"bitnet",                   S(""),             "_scale",          "bitnet", BIT(TM_U8)},
    {"mxfp4",                    S(""),             "_scale",          "quark",  BIT(TM_U8)},
    {"fp4",                      S(".weight"),      ".scale",          "fp8",    BYTES},
    {"fp4",                      S(""),             "_scale",          NULL,     BIT(TM_F4)},
    {"fp4",                      S(""),             "_scale_inv",      NULL,     BIT(TM_F4)},
    {"fp4",                      S(".weight"),      ".scale",          NULL,     BIT(TM_F4)},
    {"int8",                     S(""),             "_scale",          NULL,     BIT(TM_I8)},
    {"int8",                     S(".weight"),      ".scale",          NULL,     BIT(TM_I8)},
    {"packed",                   S(""),             "_scale",          NULL,     U8_OR_WORDS},
    {"packed",                   S(""),             "_scale_inv",      NULL,     BYTES | WORDS},
    {"packed",                   S(".weight"),      ".scale",          NULL,     U8_OR_WORDS},
    {"packed",                   S(".weight"),      NULL,              "",       BYTES | WORDS},
};

/* The names of scales that multiply, in the order in which they are looked for. */
static const struct {
    suffix code;
    const char *scale;
} scale_names[] = {
    {S(""),        "_scale_inv"},     /* DeepSeek: the inverse of what the encoder multiplied by */
    {S(""),        "_scale"},         /* compressed-tensors, ModelOpt, FBGEMM, ComfyUI */
    {S(""),        "_weight_scale"},  /* ModelOpt, of stacked experts */
    {S(".weight"), ".scale_weight"},  /* ComfyUI, older */
    {S(".weight"), ".qscale_weight"}, /* Mistral's own layout */
    {S(".weight"), ".scale"},         /* DeepSeek's own layout */
};

/* Side tensors: what their names end in, and what those of the codes that they serve do there. */
static const struct {
    suffix side;
    const char *code;
} sides[] = {
    {S("_scale_inv"), ""}, {S("_scale"), ""}, {S("_scale"), "_packed"}, {S("_scale_2"), ""},
    {S("_weight_scale"), ""}, {S("_weight_scale_2"), ""}, {S("_input_scale"), ""},
    {S("_global_scale"), "_packed"}, {S("_shape"), "_packed"}, {S("_zero_point"), "_packed"},
    {S("_zero_point"), ""}, {S("_g_idx"), "_packed"}, {S("_g_idx"), ""}, {S("_scales"), "_blocks"},
    {S("_scales"), ""}, {S(".scales"), ".blocks"}, {S(".scales"), ".qweight"},
    {S(".scales"), ".weight"}, {S(".scales"), ".codes"}, {S(".wscales"), ".qweight"},
    {S(".qzeros"), ".qweight"}, {S(".g_idx"), ".qweight"}, {S(".biases"), ".weight"},
    {S(".absmax"), ""}, {S(".quant_map"), ""}, {S(".nested_absmax"), ""},
    {S(".nested_quant_map"), ""}, {S(".quant_state.bitsandbytes__nf4"), ""},
    {S(".quant_state.bitsandbytes__fp4"), ""}, {S(".SCB"), ".weight"},
    {S(".weight_format"), ".weight"}, {S(".input_scale"), ".weight"},
    {S(".input_scale"), ".weight_packed"}, {S(".input_zero_point"), ".weight"},
    {S(".input_global_scale"), ".weight_packed"}, {S(".output_scale"), ".weight"},
    {S(".activation_scale"), ".weight"}, {S(".scale_weight"), ".weight"},
    {S(".scale_input"), ".weight"}, {S(".comfy_quant"), ".weight"},
    {S(".qscale_weight"), ".weight"}, {S(".qscale_act"), ".weight"}, {S(".scale"), ".weight"},
    {S(".scale"), ".W_q"}, {S(".zero"), ".W_q"}, {S(".nbits"), ".W_q"}, {S(".group_size"), ".W_q"},
    {S(".shape"), ".W_q"}, {S(".axis"), ".W_q"}, {S(".packing"), ".W_q"},
    {S(".codebooks"), ".codes"}, {S(".centroids.weight"), ".indices"}, {S(".q_scale"), ".q_weight"},
    {S(".q_scale_max"), ".q_weight"}, {S(".q_groups"), ".q_weight"},
    {S(".q_group_map"), ".q_weight"}, {S(".q_perm"), ".q_weight"}, {S(".q_invperm"), ".q_weight"},
    {S(".suh"), ".trellis"}, {S(".svh"), ".trellis"}, {S(".su"), ".trellis"},
    {S(".sv"), ".trellis"}, {S(".mcg"), ".trellis"}, {S(".mul1"), ".trellis"},
    {S("._scale"), "._data"}, {S("._shift"), "._data"}, {S("._scale"), "._data._data"},
    {S("._shift"), "._data._data"},
};
/* clang-format on */

/* ---- Relatives ---- */

/* A name in two pieces, never put together: a name may have a megabyte. */
typedef struct joined {
    const char *head, *tail;
    size_t head_len, tail_len;
} joined;

/* The row's name against NAME. */
static int compare(const tm_tensor_table *t, uint32_t row, const joined *name)
{
    const tm_tensor_row *r = &t->rows[row];
    const char *s = tm_row_name(t, r);
    int c = memcmp(s, name->head, tm_min_u64(r->name_len, name->head_len));
    if (c)
        return c;
    if (r->name_len < name->head_len)
        return -1;
    return tm_name_cmp(s + name->head_len, r->name_len - name->head_len, name->tail,
                       name->tail_len);
}

/* Bounds of the first row that is not less than NAME: *LO … *HI, by steps that double from FROM. */
static void bracket(const tm_tensor_table *t, uint32_t from, const joined *name, uint32_t *lo,
                    uint32_t *hi)
{
    uint32_t step = 1;
    *lo = *hi = from;
    if (compare(t, from, name) < 0) {
        while (*hi < t->count && compare(t, *hi, name) < 0) {
            *lo = *hi + 1;
            *hi = (uint32_t)tm_min_u64((uint64_t)*hi + step, t->count);
            step *= 2;
        }
        return;
    }
    while (*lo > 0 && compare(t, *lo, name) >= 0) {
        *hi = *lo;
        *lo -= step < *lo ? step : *lo;
        step *= 2;
    }
}

bool tm_quant_relative(const tm_tensor_table *table, uint32_t row, size_t cut, const char *tail,
                       uint32_t *ret)
{
    const tm_tensor_row *r = &table->rows[row];
    assert(cut <= r->name_len);
    joined name = {tm_row_name(table, r), tail, r->name_len - cut, strlen(tail)};
    uint32_t lo, hi;
    bracket(table, row, &name, &lo, &hi);
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (compare(table, mid, &name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == table->count || compare(table, lo, &name) != 0)
        return false;
    *ret = lo;
    return true;
}

static bool ends_in(const tm_tensor_table *t, uint32_t row, const suffix *end)
{
    const tm_tensor_row *r = &t->rows[row];
    if (end->len == 0)
        return true;
    if (end->len > r->name_len)
        return false;
    const char *name_end = tm_row_name(t, r) + r->name_len;
    return name_end[-1] == end->bytes[end->len - 1] &&
           memcmp(name_end - end->len, end->bytes, end->len) == 0;
}

/* Whether there is a relative that has RELATIVE in the place of END. */
static bool has_relative(const tm_tensor_table *t, uint32_t row, const suffix *end,
                         const char *relative)
{
    uint32_t at;
    return ends_in(t, row, end) && tm_quant_relative(t, row, end->len, relative, &at);
}

/* ---- Recognition ---- */

static bool method_has(const tm_quant_config *quant, const char *part)
{
    return quant->method && strstr(quant->method, part);
}

static bool matches(const tm_tensor_table *t, const tm_quant_config *quant, uint32_t row,
                    const rule *want)
{
    return (want->dtypes & BIT(t->rows[row].dtype)) &&
           (!want->method || method_has(quant, want->method)) &&
           (want->relative ? has_relative(t, row, &want->code, want->relative)
                           : ends_in(t, row, &want->code));
}

const char *tm_quant_packed_scheme(const tm_tensor_table *table, const tm_quant_config *quant,
                                   uint32_t row)
{
    for (size_t i = 0; i < TM_ARRAY_LEN(rules); i++) {
        if (matches(table, quant, row, &rules[i]))
            return find_scheme(rules[i].family, quant->bits)->name;
    }
    return NULL;
}

/* Scales in one byte each: no codes of a weight. */
static bool is_scale_name(const tm_tensor_table *t, uint32_t row)
{
    static const suffix ends[] = {S("_scale"), S("_scale_inv"), S("_scale_2"), S("_scales"),
                                  S(".scale"), S(".scales"),    S(".absmax")};
    for (size_t i = 0; i < TM_ARRAY_LEN(ends); i++) {
        if (ends_in(t, row, &ends[i]))
            return true;
    }
    return false;
}

bool tm_quant_is_scaled_int8(const tm_tensor_table *table, const tm_quant_config *quant,
                             uint32_t row)
{
    uint32_t at;
    return table->rows[row].dtype == TM_I8 && method_has(quant, "compressed-tensors") &&
           tm_quant_relative(table, row, 0, "_scale", &at) &&
           !tm_quant_relative(table, row, 0, "_zero_point", &at) &&
           !tm_quant_relative(table, row, 0, "_g_idx", &at);
}

bool tm_quant_is_fp8(const tm_tensor_table *table, uint32_t row)
{
    return (FP8S & BIT(table->rows[row].dtype)) && !is_scale_name(table, row);
}

bool tm_quant_scale_row(const tm_tensor_table *table, uint32_t row, uint32_t *ret)
{
    for (size_t i = 0; i < TM_ARRAY_LEN(scale_names); i++) {
        const suffix *code = &scale_names[i].code;
        if (ends_in(table, row, code) &&
            tm_quant_relative(table, row, code->len, scale_names[i].scale, ret))
            return true;
    }
    return false;
}

bool tm_quant_for_served(const tm_tensor_table *table, uint32_t row,
                         bool (*seen)(const void *ctx, uint32_t code_row), const void *ctx)
{
    for (size_t i = 0; i < TM_ARRAY_LEN(sides); i++) {
        const suffix *side = &sides[i].side;
        uint32_t code;
        if (ends_in(table, row, side) &&
            tm_quant_relative(table, row, side->len, sides[i].code, &code) && seen(ctx, code))
            return true;
    }
    return false;
}
