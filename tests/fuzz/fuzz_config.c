/* config.json from any bytes: no crash, and nothing in the result that its header rules out. */
#include "formats/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_quant(const tm_quant_config *quant)
{
    if (!quant->method)
        assert(!quant->format && !quant->checkpoint_format && !quant->bits && !quant->block_rows);
    else
        assert(*quant->method);
    assert(!quant->format || *quant->format);
    assert(quant->bits <= 64);
    assert((quant->block_rows == 0) == (quant->block_cols == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tm_config config;
    tm_diag diag;
    tm_config_init(&config);
    tm_diag_init(&diag);
    int rc = tm_config_parse(data, size, "config.json", &diag, &config);
    assert(rc == 0 || rc == -ENOMEM);
    assert(diag.count <= 1 && !diag.damaged);
    assert(!config.architecture || *config.architecture);
    assert(!config.dtype_known || config.dtype < TM_DTYPE_COUNT);
    check_quant(&config.quant);
    tm_config_done(&config);
    tm_diag_done(&diag);
    return 0;
}
