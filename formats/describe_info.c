/* Models for people: the card and the table of `tmorph info`. */
#include <inttypes.h>
#include <stdio.h>

#include "core/units.h"
#include "formats/describe.h"
#include "formats/describe_sums.h"

/* ---- Cells ---- */

/* 7.6B, 270M, 512: three digits or so, and a letter for each thousandfold. */
static void put_count(tm_text *t, uint64_t n)
{
    static const char units[] = " KMBTQ";
    double x = (double)n;
    size_t u = 0;
    /* 999.5 would print as 1000 */
    for (; x >= 999.5 && u + 2 < sizeof(units); u++)
        x /= 1000;
    if (u == 0)
        tm_text_printf(t, "%" PRIu64, n);
    else
        tm_text_printf(t, "%.*f%c", x < 99.95 ? 1 : 0, x, units[u]);
}

static void put_bytes(tm_text *t, uint64_t n)
{
    char text[TM_SIZE_TEXT_MAX];
    tm_text_puts(t, tm_size_text(n, text));
}

/* Words of somebody else's making, in one line, whatever bytes they hold. */
static void put_words(tm_text *t, const char *words)
{
    if (!words || !*words)
        words = "-";
    for (const char *p = words; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c < 0x20 || c == 0x7f)
            tm_text_printf(t, "%%%02X", c);
        else
            tm_text_append(t, p, 1);
    }
}

static void put_number(tm_text *t, uint64_t n)
{
    if (n)
        tm_text_printf(t, "%" PRIu64, n);
    else
        tm_text_puts(t, "-");
}

/* ---- What is shown of a model ---- */

typedef struct shown {
    const tm_described *described;
    const tm_model *model;
    tm_describe_sums sums;
} shown;

static void put_name(tm_text *t, const shown *s)
{
    put_words(t, s->described->name);
}

static void put_source(tm_text *t, const shown *s)
{
    put_words(t, s->model->source);
}

static void put_format(tm_text *t, const shown *s)
{
    put_words(t, s->model->format);
}

static void put_format_files(tm_text *t, const shown *s)
{
    put_format(t, s);
    if (s->model->file_count != 1)
        tm_text_printf(t, ", %" PRIu32 " files", s->model->file_count);
}

static void put_architecture(tm_text *t, const shown *s)
{
    put_words(t, s->model->architecture);
}

static void put_tensors(tm_text *t, const shown *s)
{
    tm_text_printf(t, "%" PRIu32, s->model->table.count);
}

static void put_parameters(tm_text *t, const shown *s)
{
    put_count(t, s->sums.parameters);
}

static void put_size(tm_text *t, const shown *s)
{
    put_bytes(t, s->sums.bytes);
}

static void put_dtypes(tm_text *t, const shown *s)
{
    for (size_t i = 0; i < s->sums.dtype_count; i++)
        tm_text_printf(t, "%s%s", i ? " " : "", tm_dtype_get(s->sums.dtypes[i].dtype)->name);
    if (s->sums.dtype_count == 0)
        tm_text_puts(t, "-");
}

static void put_dtype_bytes(tm_text *t, const shown *s)
{
    for (size_t i = 0; i < s->sums.dtype_count; i++) {
        tm_text_printf(t, "%s%s ", i ? ", " : "", tm_dtype_get(s->sums.dtypes[i].dtype)->name);
        put_bytes(t, s->sums.dtypes[i].bytes);
    }
    if (s->sums.dtype_count == 0)
        tm_text_puts(t, "-");
}

static void put_layers(tm_text *t, const shown *s)
{
    put_number(t, s->model->structure.layer_count);
}

static void put_experts(tm_text *t, const shown *s)
{
    put_number(t, (uint64_t)s->model->structure.experts);
}

static void put_state(tm_text *t, const shown *s)
{
    tm_text_puts(t, tm_describe_state(s->model));
}

static void put_tied(tm_text *t, const shown *s)
{
    const char *alias;
    uint32_t target;
    char name[TM_WORDS_NAME_MAX];
    if (!tm_model_tied(s->model, &alias, &target)) {
        tm_text_puts(t, "-");
        return;
    }
    const tm_tensor_row *row = &s->model->table.rows[target];
    tm_text_printf(t, "%s = %s", alias,
                   tm_words_name(tm_row_name(&s->model->table, row), row->name_len, name));
}

/* How many tensors are codes of which scheme: "fp8-block: 448 (values shown)". */
static void put_schemes(tm_text *t, const shown *s)
{
    enum {
        SCHEMES_SHOWN = 8
    };
    struct {
        const tm_part *part;
        uint32_t count;
    } schemes[SCHEMES_SHOWN];
    size_t n = 0, k;
    for (uint32_t i = 0; i < s->model->part_count; i++) {
        const tm_part *part = &s->model->parts[i];
        for (k = 0; k < n && schemes[k].part->scheme != part->scheme; k++)
            continue;
        if (k == SCHEMES_SHOWN)
            continue;
        if (k == n) {
            schemes[n].part = part;
            schemes[n++].count = 0;
        }
        schemes[k].count++;
    }
    for (k = 0; k < n; k++)
        tm_text_printf(t, "%s%s %" PRIu32 "%s", k ? ", " : "", schemes[k].part->scheme,
                       schemes[k].count,
                       schemes[k].part->kind == TM_PART_PACKED ? " (stored bytes only)" : "");
    if (n == 0)
        tm_text_puts(t, "-");
}

typedef struct field {
    const char *card, *column; /* NULL: not there */
    void (*put)(tm_text *t, const shown *s);
    bool right; /* aligned, in the table */
} field;

static const field fields[] = {
    {"name", "NAME", put_name, false},
    {"source", NULL, put_source, false},
    {"format", NULL, put_format_files, false},
    {NULL, "FORMAT", put_format, false},
    {"architecture", "ARCHITECTURE", put_architecture, false},
    {"tensors", "TENSORS", put_tensors, true},
    {"parameters", "PARAMETERS", put_parameters, true},
    {"bytes", "BYTES", put_size, true},
    {"dtypes", NULL, put_dtype_bytes, false},
    {NULL, "DTYPES", put_dtypes, false},
    {"quantised", NULL, put_schemes, false},
    {"layers", "LAYERS", put_layers, true},
    {"experts", "EXPERTS", put_experts, true},
    {"tied", NULL, put_tied, false},
    {"state", "STATE", put_state, false},
};
enum {
    FIELDS = TM_ARRAY_LEN(fields),
    GAP = 2
};

/* Columns that text takes on a terminal, about: one a UTF-8 sequence. */
static size_t width_of(const char *s, size_t len)
{
    size_t width = 0;
    for (size_t i = 0; i < len; i++)
        width += ((unsigned char)s[i] & 0xc0) != 0x80;
    return width;
}

/* What is wrong with a model; each line begins with NAME where there is one. */
static void put_lines(tm_text *t, const shown *s, const char *name)
{
    const tm_diag *d = &s->model->diag;
    for (size_t i = 0; i < d->count + (d->dropped > 0); i++) {
        if (name) {
            put_words(t, name);
            tm_text_puts(t, ": ");
        }
        if (i < d->count)
            tm_text_printf(t, "%s: %s\n", d->lines[i].severity == TM_DAMAGE ? "damage" : "warning",
                           d->lines[i].words);
        else
            tm_text_printf(t, "and %zu more lines that were not kept\n", d->dropped);
    }
}

static void put_card(tm_text *t, const shown *s)
{
    size_t width = 0;
    for (size_t f = 0; f < FIELDS; f++) {
        if (fields[f].card)
            width = tm_max_u64(width, strlen(fields[f].card));
    }
    for (size_t f = 0; f < FIELDS; f++) {
        if (!fields[f].card)
            continue;
        tm_text_puts(t, fields[f].card);
        tm_text_pad(t, width - strlen(fields[f].card) + GAP);
        fields[f].put(t, s);
        tm_text_puts(t, "\n");
    }
}

/* ---- Table ---- */

/* The text of a cell of row R; row 0 is the header. */
static void put_cell(tm_text *t, const shown *models, size_t r, const field *f)
{
    if (r == 0)
        tm_text_puts(t, f->column);
    else
        f->put(t, &models[r - 1]);
}

static size_t column_width(const shown *models, size_t count, const field *f, tm_text *cell)
{
    size_t width = 0;
    for (size_t r = 0; r <= count; r++) {
        tm_text_clear(cell);
        put_cell(cell, models, r, f);
        width = tm_max_u64(width, width_of(cell->bytes, cell->len));
    }
    return width;
}

static void put_row(tm_text *t, const shown *models, size_t r, const size_t widths[FIELDS],
                    tm_text *cell)
{
    size_t owed = 0; /* spaces, which no line ends in */
    for (size_t f = 0; f < FIELDS; f++) {
        if (!fields[f].column)
            continue;
        tm_text_clear(cell);
        put_cell(cell, models, r, &fields[f]);
        size_t width = width_of(cell->bytes, cell->len);
        size_t slack = widths[f] > width ? widths[f] - width : 0;
        tm_text_pad(t, owed + (fields[f].right ? slack : 0));
        tm_text_append(t, cell->bytes, cell->len);
        owed = GAP + (fields[f].right ? 0 : slack);
    }
    tm_text_puts(t, "\n");
}

static void put_table(tm_text *t, const shown *models, size_t count)
{
    size_t widths[FIELDS] = {0};
    TM_AUTO(tm_text_done) tm_text cell = {0};
    for (size_t f = 0; f < FIELDS; f++) {
        if (fields[f].column)
            widths[f] = column_width(models, count, &fields[f], &cell);
    }
    for (size_t r = 0; r <= count; r++)
        put_row(t, models, r, widths, &cell);
    if (cell.error && !t->error)
        t->error = cell.error;
}

void tm_describe_info(tm_text *t, const tm_described *models, size_t count)
{
    TM_AUTO_FREE shown *all = tm_new_array(count, sizeof(*all));
    if (!all) {
        t->error = t->error ? t->error : -ENOMEM;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        all[i].described = &models[i];
        all[i].model = models[i].model;
        tm_describe_sum(models[i].model, &all[i].sums);
    }
    if (count == 1)
        put_card(t, &all[0]);
    else
        put_table(t, all, count);
    for (size_t i = 0; i < count; i++)
        put_lines(t, &all[i], count == 1 ? NULL : models[i].name);
}
