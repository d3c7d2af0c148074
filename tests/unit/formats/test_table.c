/* Tables that are rendered by the window that is read, by its reader or by a thread that may wait;
 * and tensors.tsv. */
#include "formats/table.h"

#include <stdio.h>

#include "core/text.h"
#include "tests/unit/core/engine.h"
#include "tests/unit/formats/model_builder.h"

static tm_sched *sched;

static int start_threads(void **state)
{
    (void)state;
    return tm_sched_new(&(tm_sched_params){.workers = 2, .io = 2}, &sched);
}

static int stop_threads(void **state)
{
    (void)state;
    tm_sched_free(sched);
    return 0;
}

static void expect_window(tm_blob *blob, const char *whole, uint64_t off, size_t len)
{
    tm_req req;
    tm_req_init(&req, TM_LANE_VISIBLE);
    req.may_block = true;
    char *bytes = malloc(len + 1);
    assert_non_null(bytes);
    bytes[len] = '\x55';
    assert_int_equal(tm_read_wait(sched, blob, off, len, bytes, &req), 0);
    if (memcmp(bytes, whole + off, len) != 0)
        fail_msg("the window of %zu bytes at %llu differs", len, (unsigned long long)off);
    assert_int_equal(bytes[len], '\x55');
    free(bytes);
}

/* Every window of a blob of up to SMALL bytes; of a larger one random windows and those at its
 * ends. */
static void expect_windows(tm_blob *blob, const char *whole, uint64_t size, uint64_t small)
{
    uint64_t seed = size;
    assert_int_equal(blob->size, size);
    expect_window(blob, whole, 0, size);
    expect_window(blob, whole, size, 0);
    if (size <= small) {
        for (uint64_t off = 0; off < size; off++)
            for (size_t len = 1; len <= size - off; len++)
                expect_window(blob, whole, off, len);
        return;
    }
    for (int i = 0; i < 300; i++) {
        uint64_t off = next_random(&seed) % size;
        size_t most = i % 2 ? tm_min_u64(size - off, 100) : size - off;
        expect_window(blob, whole, off, 1 + next_random(&seed) % most);
        expect_window(blob, whole, size - 1 - off % 10, 1 + off % 10);
    }
}

/* ---- Any table ---- */

typedef struct made_rows {
    uint64_t longest;
    atomic_uint unrefs;
    event freed;
} made_rows;

/* Rows whose lengths vary, some longer than any buffer on a stack. */
static size_t made_row_len(const made_rows *made, uint64_t row)
{
    return row % 97 == 13 ? 5000 + row : 1 + row * 7 % made->longest;
}

static size_t made_row(const void *ctx, uint64_t row, char *dst, size_t cap)
{
    size_t len = made_row_len(ctx, row);
    for (size_t i = 0; i < len && i < cap; i++)
        dst[i] = i + 1 < len ? (char)('!' + (row * 31 + i) % 90) : '\n';
    return len;
}

static void unref_made(void *owner)
{
    made_rows *made = owner;
    atomic_fetch_add(&made->unrefs, 1);
    event_set(&made->freed);
}

/* A blob of TABLE, whose rows are rendered by its reader, or by an opener. */
static tm_blob *made_blob(tm_table *table, made_rows *made, bool waits)
{
    tm_blob *blob;
    tm_waiting_table params = {table, sched, 0, made, unref_made};
    int rc = waits ? tm_table_waiting_blob_new(&params, &blob)
                   : tm_table_blob_new(table, made, unref_made, &blob);
    assert_int_equal(rc, 0);
    return blob;
}

/* The text of all rows, to be done. */
static tm_text made_text(const char *header, uint64_t rows, const made_rows *made)
{
    tm_text whole;
    tm_text_init(&whole);
    tm_text_puts(&whole, header);
    for (uint64_t row = 0; row < rows; row++) {
        char text[16384];
        assert_true(made_row_len(made, row) <= sizeof(text));
        tm_text_append(&whole, text, made_row(made, row, text, sizeof(text)));
    }
    assert_int_equal(tm_text_error(&whole), 0);
    return whole;
}

enum {
    SMALL = 200,       /* bytes of which each window is read */
    SMALL_WAITING = 60 /* where two threads meet for each */
};

static void expect_table(const char *header, uint64_t rows, uint64_t longest)
{
    for (int waits = 0; waits < 2; waits++) {
        made_rows made = {.longest = longest, .freed = EVENT_INIT};
        tm_table_params params = {
            .header = header, .rows = rows, .row_text = made_row, .ctx = &made};
        tm_table *table;
        tm_text whole = made_text(header, rows, &made);
        assert_int_equal(tm_table_new(&params, &table), 0);
        assert_int_equal(tm_table_size(table), whole.len);
        tm_blob *blob = made_blob(table, &made, waits);
        tm_table_unref(table);
        expect_windows(blob, whole.bytes ? whole.bytes : "", whole.len,
                       waits ? SMALL_WAITING : SMALL);
        assert_int_equal(made.unrefs, 0);
        tm_blob_unref(blob);
        if (waits) /* the thread that rendered last may be the last to hold it */
            event_wait(&made.freed, "for the owner to be given back");
        assert_int_equal(made.unrefs, 1);
        tm_text_done(&whole);
    }
}

static void any_window_of_any_number_of_rows_equals_that_of_the_whole(void **state)
{
    (void)state;
    static const uint64_t counts[] = {0, 1, 2, 12, 255, 256, 257, 511, 512, 513, 1500};
    for (size_t i = 0; i < TM_ARRAY_LEN(counts); i++) {
        expect_table("a\tb\n", counts[i], 8);
        expect_table("a long header that many windows end in\n", counts[i], 60);
    }
}

static void a_table_without_header_or_rows_is_an_empty_file(void **state)
{
    (void)state;
    expect_table("", 0, 1);
    expect_table("", 3, 1);
    expect_table("only a header\n", 0, 1);
}

/* ---- Tables whose rows may have to wait ---- */

enum {
    STUCK_ROWS = 40,
    STUCK_LEN = 16 /* bytes of a row */
};

/* Rows of which one waits, as for a disk, until the test lets it go on. */
typedef struct stuck_rows {
    uint64_t which;
    event reached, let_go, freed;
    atomic_uint inside, most; /* threads that render a row, now and at most */
    atomic_uint rendered, on_the_asker;
    pthread_t asker;
} stuck_rows;

static size_t stuck_row(const void *ctx, uint64_t row, char *dst, size_t cap)
{
    stuck_rows *s = (stuck_rows *)(uintptr_t)ctx;
    char text[STUCK_LEN + 1];
    if (cap == 0)
        return STUCK_LEN;
    unsigned inside = atomic_fetch_add(&s->inside, 1) + 1;
    if (inside > atomic_load(&s->most))
        atomic_store(&s->most, inside);
    atomic_fetch_add(&s->rendered, 1);
    atomic_fetch_add(&s->on_the_asker, pthread_equal(s->asker, pthread_self()) != 0);
    if (row == s->which) {
        event_set(&s->reached);
        event_wait(&s->let_go, "for the test to let a row go on");
    }
    snprintf(text, sizeof(text), "row %011u\n", (unsigned)row);
    memcpy(dst, text, tm_min_u64(cap, STUCK_LEN));
    atomic_fetch_sub(&s->inside, 1);
    return STUCK_LEN;
}

static void stuck_freed(void *owner)
{
    event_set(&((stuck_rows *)owner)->freed);
}

static void expect_stuck_bytes(ending *e)
{
    ending_wait(e);
    for (size_t i = 0; e->rc == 0 && i < e->read->params.len; i++) {
        char text[STUCK_LEN + 1];
        uint64_t off = e->read->params.off + i;
        snprintf(text, sizeof(text), "row %011u\n", (unsigned)(off / STUCK_LEN));
        assert_int_equal(e->read->bytes[i], text[off % STUCK_LEN]);
    }
    expect_ended(e, 0, "");
}

/* KEY: see tm_waiting_table. */
static tm_blob *stuck_new(stuck_rows *s, uint64_t which, uint64_t key)
{
    tm_table *table;
    tm_blob *blob;
    *s = (stuck_rows){.which = which,
                      .reached = EVENT_INIT,
                      .let_go = EVENT_INIT,
                      .freed = EVENT_INIT,
                      .asker = pthread_self()};
    tm_table_params params = {"", STUCK_ROWS, stuck_row, s};
    assert_int_equal(tm_table_new(&params, &table), 0);
    assert_int_equal(
        tm_table_waiting_blob_new(&(tm_waiting_table){table, sched, key, s, stuck_freed}, &blob),
        0);
    tm_table_unref(table);
    return blob;
}

static void who_asks_renders_no_row_and_does_not_wait(void **state)
{
    (void)state;
    stuck_rows rows;
    ending all;
    tm_blob *blob = stuck_new(&rows, 7, 0);
    ending_go(&all, sched, blob, 0, blob->size);
    event_wait(&rows.reached, "for the row that waits");
    assert_false(ending_came(&all));
    event_set(&rows.let_go);
    expect_stuck_bytes(&all);
    assert_int_equal(rows.on_the_asker, 0);
    assert_int_equal(rows.rendered, STUCK_ROWS);
    tm_blob_unref(blob);
    event_wait(&rows.freed, "for the owner to be given back");
}

static void a_window_renders_no_more_than_its_rows_need(void **state)
{
    (void)state;
    stuck_rows rows;
    ending some;
    tm_blob *blob = stuck_new(&rows, 9, 0);
    ending_go(&some, sched, blob, STUCK_LEN + 1, 2 * STUCK_LEN);
    expect_stuck_bytes(&some); /* rows 1 to 3: not the one that waits */
    assert_true(rows.rendered <= 4);
    tm_blob_unref(blob);
    event_wait(&rows.freed, "for the owner to be given back");
}

/* Its bytes go to a buffer of the read's own, which lives until the row goes on. */
static void a_read_that_is_cancelled_ends_while_its_row_still_waits(void **state)
{
    (void)state;
    stuck_rows rows;
    ending all;
    tm_blob *blob = stuck_new(&rows, 3, 0);
    ending_go(&all, sched, blob, 0, blob->size);
    event_wait(&rows.reached, "for the row that waits");
    tm_read_cancel(all.read, EINTR, "nobody waits");
    expect_ended(&all, -EINTR, "nobody waits");
    tm_blob_unref(blob);
    assert_false(rows.freed.happened);
    event_set(&rows.let_go);
    event_wait(&rows.freed, "for the owner to be given back");
}

/* More readers than openers that may wait for one key: of those that are queued some are taken
 * back without having been rendered. */
static void reads_that_are_cancelled_in_the_queue_are_not_rendered(void **state)
{
    (void)state;
    enum {
        READERS = 40
    };
    stuck_rows rows;
    ending readers[READERS];
    tm_blob *blob = stuck_new(&rows, 0, 77);
    for (int i = 0; i < READERS; i++)
        ending_go(&readers[i], sched, blob, 0, STUCK_LEN);
    event_wait(&rows.reached, "for the row that waits");
    for (int i = 0; i < READERS; i++)
        tm_read_cancel(readers[i].read, EINTR, "nobody waits");
    for (int i = 0; i < READERS; i++)
        expect_ended(&readers[i], -EINTR, "nobody waits");
    tm_blob_unref(blob);
    event_set(&rows.let_go);
    event_wait(&rows.freed, "for the owner to be given back");
    assert_true(rows.rendered < READERS / 2);
}

/* Rows of one table may share what they read: one window at a time is rendered. */
static void readers_at_once_get_their_windows_one_after_the_other(void **state)
{
    (void)state;
    enum {
        READERS = 24
    };
    stuck_rows rows;
    ending readers[READERS];
    uint64_t seed = 3;
    tm_blob *blob = stuck_new(&rows, 5, 0);
    for (int i = 0; i < READERS; i++) {
        uint64_t off = i ? next_random(&seed) % blob->size : 0;
        ending_go(&readers[i], sched, blob, off, i ? blob->size - off : blob->size);
    }
    event_wait(&rows.reached, "for the row that waits");
    event_set(&rows.let_go);
    for (int i = 0; i < READERS; i++)
        expect_stuck_bytes(&readers[i]);
    assert_int_equal(rows.most, 1);
    tm_blob_unref(blob);
    event_wait(&rows.freed, "for the owner to be given back");
}

static void a_table_that_waits_keeps_nobody_from_another(void **state)
{
    (void)state;
    stuck_rows stuck, other;
    ending waits, goes;
    tm_blob *slow = stuck_new(&stuck, 0, 1), *fast = stuck_new(&other, 0, 2);
    event_set(&other.let_go);
    ending_go(&waits, sched, slow, 0, slow->size);
    event_wait(&stuck.reached, "for the row that waits");
    ending_go(&goes, sched, fast, 0, fast->size);
    expect_stuck_bytes(&goes);
    assert_false(ending_came(&waits));
    event_set(&stuck.let_go);
    expect_stuck_bytes(&waits);
    tm_blob_unref(slow);
    tm_blob_unref(fast);
    event_wait(&stuck.freed, "for the owner to be given back");
    event_wait(&other.freed, "for the owner to be given back");
}

/* ---- tensors.tsv ---- */

static void unref_model(void *model)
{
    tm_model_unref(model);
}

/* Takes MODEL. */
static void expect_tensors_tsv(tm_model *model, const char *expected)
{
    tm_table *table;
    tm_blob *blob;
    assert_int_equal(tm_table_of_tensors(model, &table), 0);
    assert_int_equal(tm_table_blob_new(table, model, unref_model, &blob), 0);
    tm_table_unref(table);
    char *whole = calloc(1, blob->size + 1);
    tm_req req;
    tm_req_init(&req, TM_LANE_VISIBLE);
    req.may_block = true;
    assert_non_null(whole);
    assert_int_equal(tm_read_wait(sched, blob, 0, blob->size, whole, &req), 0);
    assert_string_equal(whole, expected);
    expect_windows(blob, expected, strlen(expected), SMALL);
    free(whole);
    tm_blob_unref(blob);
}

static void a_row_says_dtype_shape_sizes_layer_role_and_file(void **state)
{
    (void)state;
    expect_tensors_tsv(
        builder_model("model.embed_tokens.weight BF16 1000,64\n"
                      "model.layers.0.mlp.up_proj.weight F8_E4M3 128,64 1\n"
                      "model.layers.11.input_layernorm.weight F32 64\n"
                      "model.layers.11.mlp.experts.3.w1.weight F4 4,6 1\n"
                      "scalar I64 -\n"
                      "zero F16 0,3\n"
                      "lm_head.weight F64 2,3,4,5 1\n"),
        "name\tdtype\tshape\tparams\tbytes\tlayer\trole\tfile\n"
        "lm_head.weight\tF64\t[2, 3, 4, 5]\t120\t960\t-\thead\tb.safetensors\n"
        "model.embed_tokens.weight\tBF16\t[1000, 64]\t64000\t128000\t-\tembedding\ta.safetensors\n"
        "model.layers.0.mlp.up_proj.weight\tF8_E4M3\t[128, 64]\t8192\t8192\t0\tmlp\t"
        "b.safetensors\n"
        "model.layers.11.input_layernorm.weight\tF32\t[64]\t64\t256\t11\tnorm\ta.safetensors\n"
        "model.layers.11.mlp.experts.3.w1.weight\tF4\t[4, 6]\t24\t12\t11\tmlp\tb.safetensors\n"
        "scalar\tI64\t[]\t1\t8\t-\tother\ta.safetensors\n"
        "zero\tF16\t[0, 3]\t0\t0\t-\tother\ta.safetensors\n");
}

static void add_named(tm_model *model, const char *name, size_t len)
{
    tm_tensor_new tensor = {.name = name, .name_len = len, .dtype = TM_U8, .bytes = 1};
    assert_int_equal(tm_tensor_table_add(&model->table, &tensor, NULL), 0);
}

static void names_of_any_bytes_stay_one_field_of_one_line(void **state)
{
    (void)state;
    tm_model *model = builder_model("");
    static const char *const names[] = {"",    "tab\there", "line\nfeed", "100%",
                                        "a/b", ".",         "..",         "emoji\xf0\x9f\x98\x80"};
    for (size_t i = 0; i < TM_ARRAY_LEN(names); i++)
        add_named(model, names[i], strlen(names[i]));
    add_named(model, "nul\0byte", 8);
    assert_int_equal(tm_tensor_table_seal(&model->table), 0);
    free(model->files[0].name);
    model->files[0].name = strdup("odd\tfile");
    expect_tensors_tsv(model, "name\tdtype\tshape\tparams\tbytes\tlayer\trole\tfile\n"
                              "%\tU8\t[]\t1\t1\t-\tother\todd%09file\n"
                              ".\tU8\t[]\t1\t1\t-\tother\todd%09file\n"
                              "..\tU8\t[]\t1\t1\t-\tother\todd%09file\n"
                              "100%25\tU8\t[]\t1\t1\t-\tother\todd%09file\n"
                              "a/b\tU8\t[]\t1\t1\t-\tother\todd%09file\n"
                              "emoji\xf0\x9f\x98\x80\tU8\t[]\t1\t1\t-\tother\todd%09file\n"
                              "line%0Afeed\tU8\t[]\t1\t1\t-\tother\todd%09file\n"
                              "nul%00byte\tU8\t[]\t1\t1\t-\tother\todd%09file\n"
                              "tab%09here\tU8\t[]\t1\t1\t-\tother\todd%09file\n");
}

static void a_name_longer_than_any_buffer_is_one_row(void **state)
{
    (void)state;
    enum {
        LONG = 50000
    };
    tm_model *model = builder_model("");
    char *name = malloc(LONG);
    tm_text expected;
    assert_non_null(name);
    memset(name, '\n', LONG);
    add_named(model, name, LONG);
    assert_int_equal(tm_tensor_table_seal(&model->table), 0);
    tm_text_init(&expected);
    tm_text_puts(&expected, "name\tdtype\tshape\tparams\tbytes\tlayer\trole\tfile\n");
    for (int i = 0; i < LONG; i++)
        tm_text_puts(&expected, "%0A");
    tm_text_puts(&expected, "\tU8\t[]\t1\t1\t-\tother\ta.safetensors\n");
    assert_int_equal(tm_text_error(&expected), 0);
    expect_tensors_tsv(model, expected.bytes);
    tm_text_done(&expected);
    free(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_window_of_any_number_of_rows_equals_that_of_the_whole),
        cmocka_unit_test(a_table_without_header_or_rows_is_an_empty_file),
        cmocka_unit_test(who_asks_renders_no_row_and_does_not_wait),
        cmocka_unit_test(a_window_renders_no_more_than_its_rows_need),
        cmocka_unit_test(a_read_that_is_cancelled_ends_while_its_row_still_waits),
        cmocka_unit_test(reads_that_are_cancelled_in_the_queue_are_not_rendered),
        cmocka_unit_test(readers_at_once_get_their_windows_one_after_the_other),
        cmocka_unit_test(a_table_that_waits_keeps_nobody_from_another),
        cmocka_unit_test(a_row_says_dtype_shape_sizes_layer_role_and_file),
        cmocka_unit_test(names_of_any_bytes_stay_one_field_of_one_line),
        cmocka_unit_test(a_name_longer_than_any_buffer_is_one_row),
    };
    return cmocka_run_group_tests_name("table", tests, start_threads, stop_threads);
}
