/* tensors.tsv: name dtype shape params bytes layer role file. */
#include <inttypes.h>
#include <stdio.h>

#include "formats/line.h"
#include "formats/table.h"

static void put_text(tm_line *l, const char *text)
{
    tm_line_put(l, text, strlen(text));
}

static void put_number(tm_line *l, uint64_t v)
{
    char text[24];
    char *p = text + sizeof(text);
    do {
        *--p = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    tm_line_put(l, p, (size_t)(text + sizeof(text) - p));
}

static void put_shape(tm_line *l, const uint64_t *dims, size_t rank)
{
    put_text(l, "[");
    for (size_t i = 0; i < rank; i++) {
        if (i)
            put_text(l, ", ");
        put_number(l, dims[i]);
    }
    put_text(l, "]");
}

static size_t tensor_text(const void *ctx, uint64_t index, char *dst, size_t cap)
{
    const tm_model *model = ctx;
    const tm_tensor_table *t = &model->table;
    const tm_tensor_row *row = &t->rows[index];
    tm_place place = tm_row_place(t, (uint32_t)index);
    const char *file = model->files[row->file].name;
    tm_line l = {dst, cap, 0};
    tm_line_field(&l, tm_row_name(t, row), row->name_len);
    put_text(&l, "\t");
    put_text(&l, tm_dtype_get(row->dtype)->name);
    put_text(&l, "\t");
    put_shape(&l, tm_row_dims(t, row), row->rank);
    put_text(&l, "\t");
    put_number(&l, tm_row_elems(t, row));
    put_text(&l, "\t");
    put_number(&l, row->bytes);
    put_text(&l, "\t");
    if (place.layer == TM_NO_LAYER)
        put_text(&l, "-");
    else
        put_number(&l, (uint64_t)place.layer);
    put_text(&l, "\t");
    put_text(&l, tm_role_name(place.role));
    put_text(&l, "\t");
    tm_line_field(&l, file, strlen(file));
    put_text(&l, "\n");
    return l.len;
}

int tm_table_of_tensors(const tm_model *model, tm_table **ret)
{
    tm_table_params params = {
        .header = "name\tdtype\tshape\tparams\tbytes\tlayer\trole\tfile\n",
        .rows = model->table.count,
        .row_text = tensor_text,
        .ctx = model,
    };
    return tm_table_new(&params, ret);
}
