/* Statistics of a tensor as files: stats.json, hist.tsv and stats/KEY. Their sizes are known before
 * anything is computed: numbers have room for the longest, and spaces fill what is left. */
#ifndef TM_FORMATS_STATS_TEXT_H
#define TM_FORMATS_STATS_TEXT_H

#include "core/stats_group.h"
#include "core/text.h"

/* What stats.json says of a tensor; all borrowed. */
typedef struct tm_stats_subject {
    const char *name; /* NAME_LEN bytes */
    size_t name_len;
    const char *dtype;
    const uint64_t *dims;
    size_t rank;
    uint64_t elems;
    bool scaled;                   /* its values are stored codes with scales */
    const tm_stats_record *record; /* NULL: nothing is known but n */
} tm_stats_subject;

/* RECORD does not count for the size. */
uint64_t tm_stats_json_size(const tm_stats_subject *subject);
/* Appends exactly that many bytes. */
void tm_stats_json(tm_text *text, const tm_stats_subject *subject);

/* stats.json of a layer or a module: as much as merges, null unless all of it is known. */
typedef struct tm_group_subject {
    const char *key;  /* "layer", "module" */
    const char *name; /* NAME_LEN bytes; NULL: NUMBER is the value of KEY */
    size_t name_len;
    int64_t number;
    const tm_stats_group *group; /* NULL where the size is asked for */
} tm_group_subject;
uint64_t tm_group_json_size(const tm_group_subject *subject);
/* Appends exactly that many bytes. */
void tm_group_json(tm_text *text, const tm_group_subject *subject);

enum {
    TM_STATS_VALUE_BYTES = 25, /* of stats/KEY: right-aligned, with an LF */
    TM_HIST_TSV_BYTES = 12 + TM_STATS_ROWS * 75
};
void tm_stats_value_text(const tm_stats_record *record, size_t field,
                         char ret[TM_STATS_VALUE_BYTES + 1]);

/* Appends hist.tsv. */
void tm_hist_tsv(tm_text *text, const tm_hist_row *rows, size_t count);

#endif
