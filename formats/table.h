/*
 * A table as text, rendered by the window that is read: nothing is kept but where every 256th row
 * begins. The size is exact, since every row was measured when the table was made.
 */
#ifndef TM_FORMATS_TABLE_H
#define TM_FORMATS_TABLE_H

#include "core/blob.h"
#include "core/model.h"
#include "core/stats_record.h"

typedef struct tm_table tm_table;

/* Renders row ROW with its LF to DST, at most CAP bytes of it; returns its whole length. */
typedef size_t tm_row_text_fn(const void *ctx, uint64_t row, char *dst, size_t cap);

typedef struct tm_table_params {
    const char *header; /* the first line, with LF; static */
    uint64_t rows;
    tm_row_text_fn *row_text;
    const void *ctx; /* outlives the table */
} tm_table_params;

/* Measures every row. -ENOMEM. */
TM_MUST_CHECK int tm_table_new(const tm_table_params *params, tm_table **ret);
tm_table *tm_table_ref(tm_table *table);
tm_table *tm_table_unref(tm_table *table);
uint64_t tm_table_size(const tm_table *table);

/* The table as a blob, which keeps TABLE; OWNER_UNREF(OWNER) is called when it goes (what ctx
 * stands in). Takes the caller's reference to OWNER, on failure too. */
TM_MUST_CHECK int tm_table_blob_new(tm_table *table, void *owner, void (*owner_unref)(void *owner),
                                    tm_blob **ret);

/* The same where rendering a row may have to wait: a thread of SCHED that may renders them, one
 * window at a time. KEY: what it may wait for (tm_job.key). */
typedef struct tm_waiting_table {
    tm_table *table;
    tm_sched *sched;
    uint64_t key;
    void *owner;
    void (*owner_unref)(void *owner);
} tm_waiting_table;
TM_MUST_CHECK int tm_table_waiting_blob_new(const tm_waiting_table *params, tm_blob **ret);

/* What is known of the values of tensor ROW; false where that is nothing. */
typedef bool tm_known_stats_fn(void *ctx, uint32_t row, tm_stats_record *ret);

typedef struct tm_stats_table_params {
    const tm_model *model; /* outlives the table, as CTX does */
    tm_known_stats_fn *known;
    void *ctx;
} tm_stats_table_params;

/* stats.tsv: its size does not depend on what is known, its content on what is known when it is
 * read. PARAMS outlives the table. */
TM_MUST_CHECK int tm_table_of_stats(const tm_stats_table_params *params, tm_table **ret);
/* layers.tsv, the same. */
TM_MUST_CHECK int tm_table_of_layers(const tm_stats_table_params *params, tm_table **ret);

/* tensors.tsv of MODEL, which outlives the table. */
TM_MUST_CHECK int tm_table_of_tensors(const tm_model *model, tm_table **ret);

#endif
