/* stats.tsv and layers.tsv: what is known of the values, in columns of fixed width, so that a size
 * holds whatever comes to be known. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/real_text.h"
#include "formats/line.h"
#include "formats/table.h"

enum {
    COLUMN = 24
};

/* LEN characters in a column of its own, behind a tab. A table of a quarter of a million tensors
 * has millions of them: printf does no more here than it must. */
static void put_column(tm_line *l, const char *text, size_t len)
{
    char column[COLUMN + 1];
    assert(len <= COLUMN);
    column[0] = '\t';
    memset(column + 1, ' ', COLUMN - len);
    memcpy(column + 1 + COLUMN - len, text, len);
    tm_line_put(l, column, sizeof(column));
}

static void put_unknown(tm_line *l)
{
    put_column(l, "-", 1);
}

static void put_integer(tm_line *l, uint64_t value)
{
    char text[COLUMN];
    size_t at = sizeof(text);
    do
        text[--at] = (char)('0' + value % 10);
    while (value /= 10);
    put_column(l, text + at, sizeof(text) - at);
}

static void put_real(tm_line *l, double value)
{
    char text[TM_REAL_TEXT_MAX];
    if (isnan(value)) /* printf knows a sign of it */
        put_column(l, "nan", 3);
    else
        put_column(l, text, tm_real_text(value, text));
}

/* ---- stats.tsv ---- */

static const tm_stats_field_id columns[] = {
    TM_STAT_N,   TM_STAT_ZERO,     TM_STAT_NAN,       TM_STAT_POS_INF,   TM_STAT_NEG_INF,
    TM_STAT_MIN, TM_STAT_MAX,      TM_STAT_ABSMAX,    TM_STAT_MEAN,      TM_STAT_STD,
    TM_STAT_L2,  TM_STAT_SPARSITY, TM_STAT_ZERO_ROWS, TM_STAT_ZERO_COLS,
};
static const char stats_header[] =
    "name\tn\tzero_count\tnan_count\tpos_inf_count\tneg_inf_count\tmin\tmax\tabsmax\tmean\tstd\t"
    "l2\tsparsity\tzero_rows\tzero_cols\n";

static size_t stats_text(const void *ctx, uint64_t index, char *dst, size_t cap)
{
    const tm_stats_table_params *params = ctx;
    const tm_tensor_table *table = &params->model->table;
    const tm_tensor_row *row = &table->rows[index];
    tm_stats_record record;
    tm_line l = {dst, cap, 0};
    tm_line_field(&l, tm_row_name(table, row), row->name_len);
    if (cap == 0) /* it is measured: all but the name is of one width */
        return l.len + TM_ARRAY_LEN(columns) * (COLUMN + 1) + 1;
    bool known = params->known(params->ctx, (uint32_t)index, &record);
    for (size_t i = 0; i < TM_ARRAY_LEN(columns); i++) {
        tm_value value = {.kind = TM_VALUE_NONE};
        if (known)
            value = tm_stats_field(&record, columns[i]);
        if (value.kind == TM_VALUE_REAL)
            put_real(&l, value.real);
        else if (value.kind == TM_VALUE_INTEGER)
            put_integer(&l, value.integer);
        else
            put_unknown(&l);
    }
    tm_line_put(&l, "\n", 1);
    return l.len;
}

int tm_table_of_stats(const tm_stats_table_params *params, tm_table **ret)
{
    tm_table_params table = {
        .header = stats_header,
        .rows = params->model->table.count,
        .row_text = stats_text,
        .ctx = params,
    };
    return tm_table_new(&table, ret);
}

/* ---- layers.tsv ---- */

/* What is known of a layer; a sum over tensors of which one is unknown is unknown. */
typedef struct layer_sums {
    uint64_t params, bytes, nan;
    double absmax; /* NaN: no finite value */
    bool known;
} layer_sums;

static layer_sums sums_of(const tm_stats_table_params *params, const tm_layer *layer, bool ask)
{
    const tm_model *model = params->model;
    layer_sums sums = {.absmax = NAN, .known = ask};
    for (uint32_t i = 0; i < layer->count; i++) {
        uint32_t row = model->structure.order[layer->first + i];
        const tm_tensor_row *tensor = &model->table.rows[row];
        tm_stats_record record;
        sums.params += tm_row_elems(&model->table, tensor);
        sums.bytes += tensor->bytes;
        sums.known = sums.known && params->known(params->ctx, row, &record);
        if (!sums.known)
            continue;
        sums.nan += record.summary.nan;
        if (!(record.summary.absmax <= sums.absmax))
            sums.absmax = isnan(record.summary.absmax) ? sums.absmax : record.summary.absmax;
    }
    return sums;
}

static size_t layer_text(const void *ctx, uint64_t index, char *dst, size_t cap)
{
    const tm_stats_table_params *params = ctx;
    const tm_layer *layer = &params->model->structure.layers[index];
    layer_sums sums = sums_of(params, layer, cap > 0);
    char head[4 * COLUMN];
    tm_line l = {dst, cap, 0};
    int n = snprintf(head, sizeof(head), "%d\t%u\t%" PRIu64 "\t%" PRIu64, (int)layer->layer,
                     layer->count, sums.params, sums.bytes);
    tm_line_put(&l, head, (size_t)n);
    if (sums.known) {
        put_integer(&l, sums.nan);
        put_real(&l, sums.absmax);
    } else {
        put_unknown(&l);
        put_unknown(&l);
    }
    tm_line_put(&l, "\n", 1);
    return l.len;
}

int tm_table_of_layers(const tm_stats_table_params *params, tm_table **ret)
{
    tm_table_params table = {
        .header = "layer\ttensors\tparams\tbytes\tnan_count\tabsmax\n",
        .rows = params->model->structure.layer_count,
        .row_text = layer_text,
        .ctx = params,
    };
    return tm_table_new(&table, ret);
}
