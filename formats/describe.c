#include "formats/describe.h"

#include <inttypes.h>
#include <stdio.h>

#include "formats/describe_sums.h"

const char *tm_describe_state(const tm_model *model)
{
    return model->diag.damaged ? "damaged" : "ready";
}

/* ---- What a model comes to ---- */

static int by_bytes(const void *pa, const void *pb)
{
    const tm_dtype_sum *a = pa, *b = pb;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return (a->dtype > b->dtype) - (a->dtype < b->dtype);
}

static void add_to(uint64_t *sum, uint64_t n)
{
    if (tm_add_overflow(*sum, n, sum))
        *sum = UINT64_MAX;
}

void tm_describe_sum(const tm_model *model, tm_describe_sums *ret)
{
    uint64_t bytes[TM_DTYPE_COUNT] = {0};
    bool seen[TM_DTYPE_COUNT] = {false};
    *ret = (tm_describe_sums){.parameters = tm_quant_parameters(model)};
    for (uint32_t i = 0; i < model->table.count; i++) {
        const tm_tensor_row *row = &model->table.rows[i];
        add_to(&ret->parameters_stored, tm_row_elems(&model->table, row));
        add_to(&ret->bytes, row->bytes);
        add_to(&bytes[row->dtype], row->bytes);
        seen[row->dtype] = true;
    }
    for (int d = 0; d < TM_DTYPE_COUNT; d++) {
        if (seen[d])
            ret->dtypes[ret->dtype_count++] = (tm_dtype_sum){(tm_dtype)d, bytes[d]};
    }
    qsort(ret->dtypes, ret->dtype_count, sizeof(ret->dtypes[0]), by_bytes);
}

/* ---- JSON ---- */

static void json_str(tm_text *t, const char *s)
{
    if (s)
        tm_text_json_string(t, s, strlen(s));
    else
        tm_text_puts(t, "null");
}

static void json_str_member(tm_text *t, const char *key, const char *value)
{
    tm_text_printf(t, "  \"%s\": ", key);
    json_str(t, value);
    tm_text_puts(t, ",\n");
}

static void json_number_member(tm_text *t, const char *key, uint64_t value)
{
    tm_text_printf(t, "  \"%s\": %" PRIu64 ",\n", key, value);
}

static void dropped_words(const tm_diag *d, char ret[64])
{
    snprintf(ret, 64, "and %zu more lines that were not kept", d->dropped);
}

/* The lines of one severity, joined. */
static void json_damage(tm_text *t, const tm_diag *d)
{
    tm_text joined;
    char words[64];
    tm_text_init(&joined);
    for (size_t i = 0; i < d->count; i++) {
        if (d->lines[i].severity == TM_DAMAGE)
            tm_text_printf(&joined, "%s%s", joined.len ? "\n" : "", d->lines[i].words);
    }
    if (d->damaged && d->dropped) {
        dropped_words(d, words);
        tm_text_printf(&joined, "%s%s", joined.len ? "\n" : "", words);
    }
    if (joined.error && !t->error)
        t->error = joined.error;
    json_str(t, joined.len ? joined.bytes : NULL);
    tm_text_done(&joined);
}

static void json_dtypes(tm_text *t, const tm_describe_sums *sums)
{
    tm_text_puts(t, "  \"dtypes\": {");
    for (size_t i = 0; i < sums->dtype_count; i++)
        tm_text_printf(t, "%s\"%s\": %" PRIu64, i ? ", " : "",
                       tm_dtype_get(sums->dtypes[i].dtype)->name, sums->dtypes[i].bytes);
    tm_text_puts(t, "},\n");
}

static void json_tied(tm_text *t, const tm_model *model)
{
    const char *alias;
    uint32_t target;
    tm_text_puts(t, "  \"tied\": [");
    if (tm_model_tied(model, &alias, &target)) {
        const tm_tensor_row *row = &model->table.rows[target];
        tm_text_puts(t, "[");
        json_str(t, alias);
        tm_text_puts(t, ", ");
        tm_text_json_string(t, tm_row_name(&model->table, row), row->name_len);
        tm_text_puts(t, "]");
    }
    tm_text_puts(t, "],\n");
}

/* The first line of damage that names FILE, as readers begin their lines: "FILE: …" or "FILE:…". */
static const char *damage_of(const tm_diag *d, const char *file)
{
    size_t len = strlen(file);
    for (size_t i = 0; i < d->count; i++) {
        const tm_diag_line *line = &d->lines[i];
        if (line->severity == TM_DAMAGE && strncmp(line->words, file, len) == 0 &&
            line->words[len] == ':')
            return line->words;
    }
    return NULL;
}

static void json_file(tm_text *t, const tm_model *model, const tm_model_file *file)
{
    bool bad = !file->blob || file->damaged;
    const char *words = bad ? damage_of(&model->diag, file->name) : NULL;
    const char *state = !file->blob ? "missing" : file->damaged ? "damaged" : "ready";
    tm_text_puts(t, "    {\"name\": ");
    json_str(t, file->name);
    if (file->blob)
        tm_text_printf(t, ", \"bytes\": %" PRIu64, file->blob->size);
    else
        tm_text_puts(t, ", \"bytes\": null");
    tm_text_printf(t, ", \"state\": \"%s\", \"error\": ", state);
    json_str(t, bad && !words ? state : words);
    tm_text_puts(t, "}");
}

static void json_files(tm_text *t, const tm_model *model)
{
    tm_text_puts(t, "  \"files\": [");
    for (uint32_t i = 0; i < model->file_count; i++) {
        tm_text_puts(t, i ? ",\n" : "\n");
        json_file(t, model, &model->files[i]);
    }
    tm_text_puts(t, model->file_count ? "\n  ],\n" : "],\n");
}

static void json_unused(tm_text *t, const tm_model *model)
{
    tm_text_puts(t, "  \"unused\": [");
    for (uint32_t i = 0; i < model->unused_count; i++) {
        tm_text_puts(t, i ? ", " : "");
        json_str(t, model->unused[i]);
    }
    tm_text_puts(t, "],\n");
}

static void json_warnings(tm_text *t, const tm_diag *d)
{
    size_t n = 0;
    char words[64];
    tm_text_puts(t, "  \"warnings\": [");
    for (size_t i = 0; i < d->count; i++) {
        if (d->lines[i].severity != TM_WARNING)
            continue;
        tm_text_puts(t, n++ ? ",\n    " : "\n    ");
        json_str(t, d->lines[i].words);
    }
    if (d->dropped && !d->damaged) {
        dropped_words(d, words);
        tm_text_puts(t, n++ ? ",\n    " : "\n    ");
        json_str(t, words);
    }
    tm_text_puts(t, n ? "\n  ]\n" : "]\n");
}

void tm_describe_model(tm_text *t, const tm_described *d)
{
    const tm_model *model = d->model;
    tm_describe_sums sums;
    tm_describe_sum(model, &sums);
    tm_text_puts(t, "{\n");
    json_str_member(t, "name", d->name);
    json_str_member(t, "source", model->source);
    json_str_member(t, "format", model->format);
    json_str_member(t, "state", tm_describe_state(model));
    tm_text_puts(t, "  \"error\": ");
    json_damage(t, &model->diag);
    tm_text_puts(t, ",\n");
    json_str_member(t, "architecture", model->architecture);
    json_number_member(t, "layers", model->structure.layer_count);
    json_number_member(t, "experts", (uint64_t)model->structure.experts);
    json_number_member(t, "tensors", model->table.count);
    json_number_member(t, "parameters", sums.parameters);
    json_number_member(t, "parameters_stored", sums.parameters_stored);
    json_number_member(t, "bytes", sums.bytes);
    json_dtypes(t, &sums);
    json_tied(t, model);
    json_str_member(t, "fingerprint", d->fingerprint);
    json_files(t, model);
    json_unused(t, model);
    json_warnings(t, &model->diag);
    tm_text_puts(t, "}\n");
}

void tm_describe_metadata(tm_text *t, const tm_model *model)
{
    const tm_metadata *m = &model->metadata;
    tm_text_puts(t, "{");
    for (size_t i = 0; i < m->count; i++) {
        tm_text_puts(t, i ? ",\n  " : "\n  ");
        tm_text_json_string(t, m->pairs[i].key, m->pairs[i].key_len);
        tm_text_puts(t, ": ");
        tm_text_json_string(t, m->pairs[i].value, m->pairs[i].value_len);
    }
    tm_text_puts(t, m->count ? "\n}\n" : "}\n");
}

void tm_describe_error(tm_text *t, const tm_model *model)
{
    const tm_diag *d = &model->diag;
    char words[64];
    for (size_t i = 0; i < d->count; i++)
        tm_text_printf(t, "%s\n", d->lines[i].words);
    if (d->dropped) {
        dropped_words(d, words);
        tm_text_printf(t, "%s\n", words);
    }
}
