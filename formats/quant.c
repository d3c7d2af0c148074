#include "formats/quant.h"

#include <inttypes.h>
#include <stdio.h>

#include "formats/quant_rules.h"

/* Why codes that should have scales have no values; each is one line of the diagnosis. */
typedef enum trouble {
    PLAIN,       /* no scales in a model that is not quantised: shown as they are */
    NO_SCALE,    /* no scales in one that is */
    SCALE_DTYPE, /* the scales are no floats that multiply */
    SCALE_SHAPE, /* they do not fit */
    TROUBLE_COUNT
} trouble;

typedef struct case_seen {
    uint32_t count, row, scale_row; /* the first one */
} case_seen;

typedef struct search {
    const tm_model *model;
    const tm_quant_config *quant;
    tm_part *parts;
    uint32_t count, cap;
    uint32_t scaled;
    case_seen seen[TROUBLE_COUNT];
} search;

/* Of codes without scales, until it is known whether the model is quantised at all. */
static const char unscaled_scheme[] = "fp8";

static int add_part(search *s, const tm_part *part)
{
    if (s->count == s->cap) {
        uint32_t cap = s->cap + s->cap / 2 + 64;
        tm_part *parts = reallocarray(s->parts, cap, sizeof(*parts));
        if (!parts)
            return -ENOMEM;
        s->parts = parts;
        s->cap = cap;
    }
    s->parts[s->count++] = *part;
    return 0;
}

static int add_packed(search *s, uint32_t row, const char *scheme)
{
    return add_part(s, &(tm_part){.row = row, .kind = TM_PART_PACKED, .scheme = scheme});
}

static int add_trouble(search *s, trouble kind, uint32_t row, uint32_t scale_row)
{
    case_seen *seen = &s->seen[kind];
    if (seen->count++ == 0) {
        seen->row = row;
        seen->scale_row = scale_row;
    }
    bool int8 = s->model->table.rows[row].dtype == TM_I8;
    return add_packed(s, row, kind == NO_SCALE ? unscaled_scheme : int8 ? "int8" : "fp8");
}

/* A scale that is a one-byte float of some range has a second scale in every scheme we know. */
static bool multiplies(const tm_tensor_row *scale)
{
    static const tm_dtype dtypes[] = {TM_F32, TM_F16, TM_BF16, TM_F64, TM_F8_E8M0};
    for (size_t i = 0; i < TM_ARRAY_LEN(dtypes); i++) {
        if (scale->dtype == dtypes[i])
            return true;
    }
    return false;
}

static const char *scaled_scheme(tm_dtype dtype, tm_scale_fit fit)
{
    static const char *const fp8[] = {"fp8-tensor", "fp8-channel", "fp8-block"};
    static const char *const int8[] = {"int8-tensor", "int8-channel", "int8-block"};
    return dtype == TM_I8 ? int8[fit] : fp8[fit];
}

static int add_scaled(search *s, uint32_t row)
{
    const tm_tensor_table *t = &s->model->table;
    uint32_t scale;
    uint64_t block[2];
    if (tm_row_elems(t, &t->rows[row]) == 0)
        return 0;
    if (!tm_quant_scale_row(t, row, &scale))
        return add_trouble(s, NO_SCALE, row, row);
    if (!multiplies(&t->rows[scale]))
        return add_trouble(s, SCALE_DTYPE, row, scale);
    tm_scale_fit fit = tm_quant_fit_scale(t, s->quant, row, scale, block);
    if (fit == TM_FIT_NONE)
        return add_trouble(s, SCALE_SHAPE, row, scale);
    s->scaled++;
    return add_part(s, &(tm_part){
                           .row = row,
                           .kind = TM_PART_SCALED,
                           .scheme = scaled_scheme(t->rows[row].dtype, fit),
                           .scale_row = scale,
                           .block_rows = block[0],
                           .block_cols = block[1],
                       });
}

static int add_row(search *s, uint32_t row)
{
    const tm_tensor_table *t = &s->model->table;
    if (tm_quant_is_scaled_int8(t, s->quant, row))
        return add_scaled(s, row);
    const char *scheme = tm_quant_packed_scheme(t, s->quant, row);
    if (scheme)
        return add_packed(s, row, scheme);
    return tm_quant_is_fp8(t, row) ? add_scaled(s, row) : 0;
}

/* Codes without scales in a model that knows no scales are what somebody cast: values. */
static void forgive_unscaled(search *s)
{
    case_seen *none = &s->seen[NO_SCALE];
    bool quantised =
        s->quant->method || s->scaled || s->seen[SCALE_DTYPE].count || s->seen[SCALE_SHAPE].count;
    if (quantised || none->count == 0)
        return;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->parts[i].scheme != unscaled_scheme)
            s->parts[kept++] = s->parts[i];
    }
    s->count = kept;
    s->seen[PLAIN] = *none;
    *none = (case_seen){0};
}

/* ---- Words ---- */

enum {
    SHAPE_WORDS = 96
};

static const char *shape_words(const tm_tensor_table *t, uint32_t row, char ret[SHAPE_WORDS])
{
    const uint64_t *dims = tm_row_dims(t, &t->rows[row]);
    size_t n = (size_t)snprintf(ret, SHAPE_WORDS, "[");
    for (size_t i = 0; i < t->rows[row].rank && n < SHAPE_WORDS - 32; i++)
        n += (size_t)snprintf(ret + n, SHAPE_WORDS - n, "%s%" PRIu64, i ? ", " : "", dims[i]);
    snprintf(ret + n, SHAPE_WORDS - n, n < SHAPE_WORDS - 32 ? "]" : ", …]");
    return ret;
}

typedef struct case_words {
    char row[TM_WORDS_NAME_MAX], scale[TM_WORDS_NAME_MAX], more[32];
    const char *file, *dtype, *scale_dtype;
} case_words;

static void describe_case(const tm_model *model, const case_seen *seen, case_words *ret)
{
    const tm_tensor_table *t = &model->table;
    const tm_tensor_row *row = &t->rows[seen->row], *scale = &t->rows[seen->scale_row];
    tm_words_name(tm_row_name(t, row), row->name_len, ret->row);
    tm_words_name(tm_row_name(t, scale), scale->name_len, ret->scale);
    ret->more[0] = '\0';
    if (seen->count > 1)
        snprintf(ret->more, sizeof(ret->more), " (and %" PRIu32 " more)", seen->count - 1);
    ret->file = row->file < model->file_count ? model->files[row->file].name : "?";
    ret->dtype = tm_dtype_get((tm_dtype)row->dtype)->name;
    ret->scale_dtype = tm_dtype_get((tm_dtype)scale->dtype)->name;
}

static void warn(tm_model *model, const tm_quant_config *quant, const search *s, trouble kind)
{
    const case_seen *seen = &s->seen[kind];
    char shape[SHAPE_WORDS], scale_shape[SHAPE_WORDS];
    case_words w;
    if (seen->count == 0)
        return;
    describe_case(model, seen, &w);
    switch (kind) {
    case PLAIN:
        tm_diag_add(&model->diag, TM_WARNING,
                    "%s: tensor '%s'%s is %s without scales: shown as stored", w.file, w.row,
                    w.more, w.dtype);
        break;
    case NO_SCALE:
        tm_diag_add(&model->diag, TM_WARNING,
                    "%s: tensor '%s'%s is %s and its scales are missing: its values are not shown",
                    w.file, w.row, w.more, w.dtype);
        break;
    case SCALE_DTYPE:
        tm_diag_add(&model->diag, TM_WARNING,
                    "%s: tensor '%s'%s has scales '%s' of type %s, of no known scheme: its values "
                    "are not shown",
                    w.file, w.row, w.more, w.scale, w.scale_dtype);
        break;
    case SCALE_SHAPE:
        tm_diag_add(&model->diag, TM_WARNING,
                    "%s: tensor '%s'%s has shape %s, which scales '%s' of shape %s do not fit by "
                    "tensor, channel or %s: its values are not shown",
                    w.file, w.row, w.more, shape_words(&model->table, seen->row, shape), w.scale,
                    shape_words(&model->table, seen->scale_row, scale_shape),
                    quant->block_rows ? "the block of config.json"
                                      : "block (config.json names no block size)");
        break;
    case TROUBLE_COUNT:
        break;
    }
}

/* ---- The model ---- */

static int find_parts(search *s, tm_req *req)
{
    enum {
        ROWS_BETWEEN_CHECKS = 4096
    };
    for (uint32_t row = 0; row < s->model->table.count; row++) {
        if (row % ROWS_BETWEEN_CHECKS == 0 && req)
            TM_TRY(tm_req_check(req));
        if (add_row(s, row) < 0)
            return tm_fail(req, ENOMEM, "no memory for the parts of quantised weights");
    }
    return 0;
}

int tm_quant_find(tm_model *model, const tm_config *config, tm_req *req)
{
    assert(model->part_count == 0);
    search s = {.model = model, .quant = &config->quant};
    int rc = find_parts(&s, req);
    if (rc < 0) {
        free(s.parts);
        return rc;
    }
    forgive_unscaled(&s);
    for (int kind = 0; kind < TROUBLE_COUNT; kind++)
        warn(model, &config->quant, &s, (trouble)kind);
    tm_part *trimmed = s.count ? reallocarray(s.parts, s.count, sizeof(*s.parts)) : NULL;
    if (!s.count)
        free(s.parts);
    model->parts = s.count && !trimmed ? s.parts : trimmed;
    model->part_count = s.count;
    return 0;
}

static bool is_part(const void *model, uint32_t row)
{
    return tm_model_part(model, row) != NULL;
}

bool tm_quant_is_side(const tm_model *model, uint32_t row)
{
    return model->part_count && tm_quant_for_served(&model->table, row, is_part, model);
}

uint64_t tm_quant_values(const tm_model *model, const tm_part *part)
{
    const tm_tensor_row *row = &model->table.rows[part->row];
    uint64_t elems = tm_row_elems(&model->table, row), values;
    bool whole = false;
    unsigned bits = part->kind == TM_PART_PACKED ? tm_quant_scheme_bits(part->scheme, &whole) : 0;
    unsigned stored_bits = tm_dtype_get((tm_dtype)row->dtype)->bits;
    if (bits == 0)
        return elems;
    if (tm_mul_overflow(elems, whole ? stored_bits / bits : stored_bits, &values))
        return UINT64_MAX;
    return whole ? values : values / bits;
}

uint64_t tm_quant_parameters(const tm_model *model)
{
    uint64_t sum = 0;
    uint32_t part = 0;
    for (uint32_t row = 0; row < model->table.count; row++) {
        bool is_code = part < model->part_count && model->parts[part].row == row;
        uint64_t n = is_code ? tm_quant_values(model, &model->parts[part])
                             : tm_row_elems(&model->table, &model->table.rows[row]);
        part += is_code;
        if (!tm_quant_is_side(model, row) && tm_add_overflow(sum, n, &sum))
            return UINT64_MAX;
    }
    return sum;
}
