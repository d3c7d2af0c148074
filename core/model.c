#include "core/model.h"

#include <stdio.h>

#include "core/codes.h"

int tm_model_new(tm_model **ret)
{
    tm_model *model = TM_NEW(tm_model);
    if (!model)
        return -ENOMEM;
    atomic_init(&model->refs, 1);
    tm_tensor_table_init(&model->table);
    tm_metadata_init(&model->metadata);
    tm_diag_init(&model->diag);
    tm_structure_init(&model->structure);
    model->format = "safetensors";
    *ret = model;
    return 0;
}

tm_model *tm_model_ref(tm_model *model)
{
    atomic_fetch_add_explicit(&model->refs, 1, memory_order_relaxed);
    return model;
}

static void model_free(tm_model *model)
{
    tm_tensor_table_done(&model->table);
    tm_metadata_done(&model->metadata);
    tm_diag_done(&model->diag);
    tm_structure_done(&model->structure);
    for (uint32_t i = 0; i < model->file_count; i++) {
        tm_blob_unref(model->files[i].blob);
        free(model->files[i].name);
    }
    for (uint32_t i = 0; i < model->unused_count; i++)
        free(model->unused[i]);
    free(model->files);
    free(model->parts);
    free(model->unused);
    free(model->source);
    free(model->architecture);
    free(model);
}

tm_model *tm_model_unref(tm_model *model)
{
    if (model && atomic_fetch_sub_explicit(&model->refs, 1, memory_order_acq_rel) == 1)
        model_free(model);
    return NULL;
}

void tm_model_unrefp(tm_model **model)
{
    tm_model_unref(*model);
}

const tm_part *tm_model_part(const tm_model *model, uint32_t row)
{
    uint32_t lo = 0, hi = model->part_count;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (model->parts[mid].row < row)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < model->part_count && model->parts[lo].row == row ? &model->parts[lo] : NULL;
}

const char *tm_model_show_name(const tm_model *model, uint32_t row, char ret[TM_NAME_SHOWN])
{
    const tm_tensor_row *r = &model->table.rows[row];
    const char *name = tm_row_name(&model->table, r);
    size_t n = tm_min_u64(r->name_len, TM_NAME_SHOWN - 8);
    for (size_t i = 0; i < n; i++)
        ret[i] = (unsigned char)name[i] < 0x20 || name[i] == 0x7f ? '?' : name[i];
    snprintf(ret + n, TM_NAME_SHOWN - n, "%s", r->name_len > n ? "…" : "");
    return ret;
}

static int check_bytes(const tm_model *model, uint32_t row, tm_req *req)
{
    const tm_tensor_row *r = &model->table.rows[row];
    const tm_model_file *file = &model->files[r->file];
    char name[TM_NAME_SHOWN];
    if (!file->blob)
        return tm_fail(req, EBADMSG, "%s: missing, so tensor '%s' cannot be read", file->name,
                       tm_model_show_name(model, row, name));
    if (r->flags & TM_ROW_REFUSED || !tm_range_ok(r->begin, r->bytes, file->blob->size))
        return tm_fail(req, EBADMSG, "%s: damaged, so tensor '%s' cannot be read", file->name,
                       tm_model_show_name(model, row, name));
    return 0;
}

int tm_model_fail(const tm_model *model, uint32_t row, tm_req *req, int code, const char *why)
{
    char name[TM_NAME_SHOWN];
    return tm_fail(req, code, "%s: tensor '%s' %s", model->files[model->table.rows[row].file].name,
                   tm_model_show_name(model, row, name), why);
}

int tm_model_raw(const tm_model *model, uint32_t row, tm_req *req, tm_blob **ret)
{
    const tm_tensor_row *r = &model->table.rows[row];
    TM_TRY(check_bytes(model, row, req));
    if (tm_blob_slice_new(model->files[r->file].blob, r->begin, r->bytes, ret) < 0)
        return tm_fail(req, ENOMEM, "out of memory");
    return 0;
}

int tm_model_check_values(const tm_model *model, uint32_t row, tm_req *req)
{
    const tm_tensor_row *r = &model->table.rows[row];
    const tm_part *part = tm_model_part(model, row);
    char name[TM_NAME_SHOWN];
    TM_TRY(check_bytes(model, row, req));
    if (part && part->kind == TM_PART_PACKED)
        return tm_fail(
            req, EOPNOTSUPP,
            "%s: tensor '%s' holds codes of a %s weight, which cannot be decoded; its stored "
            "bytes are in raw",
            model->files[r->file].name, tm_model_show_name(model, row, name), part->scheme);
    if (tm_dtype_get(r->dtype)->is_opaque)
        return tm_fail(req, EOPNOTSUPP,
                       "%s: tensor '%s' is %s, whose packing no specification fixes; its stored "
                       "bytes are in raw",
                       model->files[r->file].name, tm_model_show_name(model, row, name),
                       tm_dtype_get(r->dtype)->name);
    return part ? check_bytes(model, part->scale_row, req) : 0;
}

bool tm_model_is_counted(const tm_model *model, uint32_t row)
{
    return tm_codes_count(tm_model_values_dtype(model, row)) > 0 &&
           tm_model_check_values(model, row, NULL) == 0;
}

tm_dtype tm_model_values_dtype(const tm_model *model, uint32_t row)
{
    const tm_part *part = tm_model_part(model, row);
    bool scaled = part && part->kind == TM_PART_SCALED;
    return scaled ? TM_F32 : (tm_dtype)model->table.rows[row].dtype;
}

static int stored_tensor(const tm_model *model, uint32_t row, tm_req *req, tm_tensor **ret)
{
    const tm_tensor_row *r = &model->table.rows[row];
    TM_AUTO(tm_blob_unrefp) tm_blob *bytes = NULL;
    TM_TRY(tm_model_raw(model, row, req, &bytes));
    if (tm_tensor_blob_new(bytes, r->dtype, tm_row_dims(&model->table, r), r->rank, ret) < 0)
        return tm_fail(req, ENOMEM, "out of memory");
    return 0;
}

int tm_model_values(const tm_model *model, uint32_t row, tm_req *req, tm_tensor **ret)
{
    TM_TRY(tm_model_check_values(model, row, req));
    const tm_part *part = tm_model_part(model, row);
    TM_AUTO(tm_tensor_unrefp) tm_tensor *codes = NULL;
    TM_AUTO(tm_tensor_unrefp) tm_tensor *scales = NULL;
    TM_TRY(stored_tensor(model, row, req, &codes));
    if (!part) {
        *ret = TM_STEAL(codes);
        return 0;
    }
    TM_TRY(stored_tensor(model, part->scale_row, req, &scales));
    tm_scaling scaling = {codes, scales, part->block_rows, part->block_cols};
    if (tm_tensor_scaled_new(&scaling, ret) < 0)
        return tm_fail(req, ENOMEM, "out of memory");
    return 0;
}

/* The embeddings that an absent lm_head.weight may stand for, most usual first. */
static const char *const tied_targets[] = {
    "model.embed_tokens.weight",
    "embed_tokens.weight",
    "transformer.wte.weight",
    "wte.weight",
    "shared.weight",
    "model.language_model.embed_tokens.weight",
    "language_model.model.embed_tokens.weight",
    "transformer.word_embeddings.weight",
    "model.decoder.embed_tokens.weight",
    "gpt_neox.embed_in.weight",
};

bool tm_model_tied(const tm_model *model, const char **ret_alias, uint32_t *ret_row)
{
    static const char alias[] = "lm_head.weight";
    uint32_t row;
    if (!model->tied || tm_tensor_table_find(&model->table, alias, sizeof(alias) - 1, &row))
        return false;
    for (size_t i = 0; i < TM_ARRAY_LEN(tied_targets); i++) {
        const char *target = tied_targets[i];
        if (tm_tensor_table_find(&model->table, target, strlen(target), ret_row)) {
            *ret_alias = alias;
            return true;
        }
    }
    return false;
}
