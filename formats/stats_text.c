#include "formats/stats_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/convert.h"

enum {
    NUMBER_MAX = 24 /* the longest float64, and more than any u64 */
};

/* VALUE as text; -1 where it has no number. */
static int number_text(const tm_value *value, char ret[TM_VALUE_TEXT_MAX])
{
    if (value->kind == TM_VALUE_NONE)
        return -1;
    if (value->kind == TM_VALUE_INTEGER)
        return snprintf(ret, TM_VALUE_TEXT_MAX, "%" PRIu64, value->integer);
    return tm_double_text(value->real, ret);
}

/* ---- stats.json ---- */

static void put_head(tm_text *text, const tm_stats_subject *s)
{
    tm_text_puts(text, "{\n  \"tensor\": ");
    tm_text_json_string(text, s->name, s->name_len);
    tm_text_printf(text, ",\n  \"dtype\": \"%s\",\n  \"shape\": [", s->dtype);
    for (size_t i = 0; i < s->rank; i++)
        tm_text_printf(text, "%s%" PRIu64, i ? ", " : "", s->dims[i]);
    tm_text_printf(text, "],\n  \"scaled\": %s", s->scaled ? "true" : "false");
}

/* The key of a field: quantiles, in an object of their own, without their letter. */
static const char *key_of(size_t field)
{
    return tm_stats_field_name(field) + (field >= TM_STATS_PLAIN_FIELDS);
}

static void put_fields(tm_text *text, const tm_stats_subject *s)
{
    char number[TM_VALUE_TEXT_MAX];
    for (size_t i = 0; i < TM_STATS_FIELDS; i++) {
        tm_value value = {.kind = TM_VALUE_NONE};
        if (s->record)
            value = tm_stats_field(s->record, i);
        else if (i == 0)
            value = (tm_value){TM_VALUE_INTEGER, s->elems, 0};
        bool known = number_text(&value, number) >= 0 &&
                     (value.kind == TM_VALUE_INTEGER || isfinite(value.real));
        bool quantile = i >= TM_STATS_PLAIN_FIELDS;
        tm_text_puts(text, i == TM_STATS_PLAIN_FIELDS ? ",\n  \"quantiles\": {\n" : ",\n");
        tm_text_printf(text, "%s\"%s\": %s", quantile ? "    " : "  ", key_of(i),
                       known ? number : "null");
    }
    tm_text_puts(text, "\n  }\n}");
}

uint64_t tm_stats_json_size(const tm_stats_subject *subject)
{
    tm_text text;
    tm_stats_subject s = *subject;
    s.record = NULL;
    tm_text_init(&text);
    put_head(&text, &s);
    uint64_t size = text.len;
    tm_text_done(&text);
    for (size_t i = 0; i < TM_STATS_FIELDS; i++)
        size += strlen(key_of(i)) + strlen(",\n  \"\": ") + NUMBER_MAX +
                (i >= TM_STATS_PLAIN_FIELDS ? 2 : 0);
    return size + strlen("  \"quantiles\": {\n") + strlen("\n  }\n}") + 1;
}

/* What stands in TEXT from BEGIN on becomes SIZE bytes, its last an LF. */
static void fill_up(tm_text *text, uint64_t begin, uint64_t size)
{
    if (tm_text_error(text) < 0)
        return;
    assert(text->len - begin < size);
    tm_text_pad(text, size - 1 - (text->len - begin));
    tm_text_puts(text, "\n");
}

void tm_stats_json(tm_text *text, const tm_stats_subject *subject)
{
    uint64_t begin = text->len;
    put_head(text, subject);
    put_fields(text, subject);
    fill_up(text, begin, tm_stats_json_size(subject));
}

/* ---- stats.json of a layer or module ---- */

static const char *const group_counts[] = {"tensors", "counted", "known"};

static void put_group_head(tm_text *text, const tm_group_subject *s)
{
    tm_text_printf(text, "{\n  \"%s\": ", s->key);
    if (s->name)
        tm_text_json_string(text, s->name, s->name_len);
    else
        tm_text_printf(text, "%" PRId64, s->number);
}

uint64_t tm_group_json_size(const tm_group_subject *s)
{
    tm_text text;
    tm_text_init(&text);
    put_group_head(&text, s);
    uint64_t size = text.len;
    tm_text_done(&text);
    const size_t around = strlen(",\n  \"\": ") + NUMBER_MAX;
    for (size_t i = 0; i < TM_ARRAY_LEN(group_counts); i++)
        size += strlen(group_counts[i]) + around;
    for (size_t i = 0; i < TM_STATS_FIELDS; i++)
        if (tm_stats_group_has(i))
            size += strlen(key_of(i)) + around;
    return size + strlen("\n}") + 1;
}

static void put_group_fields(tm_text *text, const tm_stats_group *group)
{
    char number[TM_VALUE_TEXT_MAX];
    tm_stats_record record;
    tm_stats_group_record(group, &record);
    record.summary.n = group->elems; /* which headers tell */
    for (size_t i = 0; i < TM_STATS_FIELDS; i++) {
        if (!tm_stats_group_has(i))
            continue;
        tm_value value = tm_stats_field(&record, i);
        bool known = (group->known == group->counted || i == TM_STAT_N) &&
                     number_text(&value, number) >= 0 &&
                     (value.kind == TM_VALUE_INTEGER || isfinite(value.real));
        tm_text_printf(text, ",\n  \"%s\": %s", key_of(i), known ? number : "null");
    }
}

void tm_group_json(tm_text *text, const tm_group_subject *s)
{
    uint64_t begin = text->len;
    const uint64_t counts[] = {s->group->tensors, s->group->counted, s->group->known};
    put_group_head(text, s);
    for (size_t i = 0; i < TM_ARRAY_LEN(group_counts); i++)
        tm_text_printf(text, ",\n  \"%s\": %" PRIu64, group_counts[i], counts[i]);
    put_group_fields(text, s->group);
    tm_text_puts(text, "\n}");
    fill_up(text, begin, tm_group_json_size(s));
}

/* ---- stats/KEY ---- */

void tm_stats_value_text(const tm_stats_record *record, size_t field,
                         char ret[TM_STATS_VALUE_BYTES + 1])
{
    char number[TM_VALUE_TEXT_MAX] = "-";
    tm_value value = tm_stats_field(record, field);
    number_text(&value, number);
    snprintf(ret, TM_STATS_VALUE_BYTES + 1, "%*s\n", NUMBER_MAX, number);
}

/* ---- hist.tsv ---- */

static void put_double(tm_text *text, double value)
{
    char number[TM_VALUE_TEXT_MAX];
    tm_double_text(value, number);
    tm_text_printf(text, "%*s\t", NUMBER_MAX, number);
}

void tm_hist_tsv(tm_text *text, const tm_hist_row *rows, size_t count)
{
    tm_text_puts(text, "lo\thi\tcount\n");
    for (uint32_t row = 0; row < TM_STATS_ROWS; row++) {
        tm_stats_row bounds = tm_stats_row_bounds(row);
        bool counted = count && rows->row == row;
        put_double(text, bounds.lo);
        put_double(text, bounds.hi);
        tm_text_printf(text, "%*" PRIu64 "\n", NUMBER_MAX, counted ? rows->count : 0);
        rows += counted;
        count -= counted;
    }
}
