/*
 * A query: a yes-or-no question to one tensor, as plain data.
 *
 * It compares fields (what headers say of a tensor, and its statistics) with constants or with each
 * other, and joins the answers with and, or, not. Statistics may not have been computed yet, so an
 * answer is yes, no or unknown, after Kleene: an unknown part leaves the whole unknown unless
 * the other parts decide it. Unknown is never no.
 *
 * formats/query_parse.h makes one from text. Constant once built; any thread may ask it.
 */
#ifndef TM_CORE_QUERY_H
#define TM_CORE_QUERY_H

#include "core/stats_record.h"

/* --- fields --- */

typedef enum tm_field {
    TM_FIELD_NAME, /* texts */
    TM_FIELD_DTYPE,
    TM_FIELD_ROLE,
    TM_FIELD_FILE,
    TM_FIELD_RANK, /* numbers that headers and names tell */
    TM_FIELD_ROWS,
    TM_FIELD_COLS,
    TM_FIELD_PARAMS,
    TM_FIELD_BYTES,
    TM_FIELD_LAYER,
    TM_FIELD_EXPERT,
    TM_FIELD_INF_COUNT,  /* statistics: of both signs, which only queries ask for */
    TM_FIELD_STATISTICS, /* and, from here, those of core/stats_record.h: TM_FIELD_STAT(its id) */
    TM_FIELD_COUNT = TM_FIELD_STATISTICS + TM_STATS_FIELDS
} tm_field;

#define TM_FIELD_STAT(ID) ((tm_field)(TM_FIELD_STATISTICS + (int)(ID)))

typedef struct tm_field_info {
    const char *name; /* the title of its column: "nan_count", "q0.99" */
    bool is_text;
    bool is_statistic; /* else it is always known */
} tm_field_info;

/* FIELD must be a valid one. */
tm_field_info tm_field_get(tm_field field);

/* The field that a query calls NAME: "tensor.nan_count", "nan_count", "layer.type". */
bool tm_field_find(const char *name, size_t len, tm_field *ret);

/* --- values --- */

typedef enum tm_query_kind {
    TM_QUERY_UNKNOWN, /* a statistic that was not computed yet */
    TM_QUERY_ABSENT,  /* known not to exist: the layer of a tensor without one */
    TM_QUERY_INTEGER,
    TM_QUERY_REAL, /* NaN is like absent */
    TM_QUERY_TEXT,
} tm_query_kind;

typedef struct tm_query_value {
    tm_query_kind kind;
    bool negative; /* INTEGER: the value is -magnitude */
    union {
        uint64_t magnitude;
        double real;
        struct {
            const char *text; /* borrowed, any bytes */
            size_t len;
        };
    };
} tm_query_value;

static inline tm_query_value tm_query_unknown(void)
{
    return (tm_query_value){.kind = TM_QUERY_UNKNOWN};
}

static inline tm_query_value tm_query_absent(void)
{
    return (tm_query_value){.kind = TM_QUERY_ABSENT};
}

static inline tm_query_value tm_query_integer(uint64_t value)
{
    return (tm_query_value){.kind = TM_QUERY_INTEGER, .magnitude = value};
}

static inline tm_query_value tm_query_real(double value)
{
    return (tm_query_value){.kind = TM_QUERY_REAL, .real = value};
}

static inline tm_query_value tm_query_text(const char *text, size_t len)
{
    return (tm_query_value){.kind = TM_QUERY_TEXT, .text = text, .len = len};
}

/* --- the query --- */

enum {
    TM_QUERY_NODES_MAX = 4096,
};

typedef enum tm_query_op {
    TM_QUERY_OR,
    TM_QUERY_AND,
    TM_QUERY_NOT,
    TM_QUERY_EQ,
    TM_QUERY_NE,
    TM_QUERY_LT,
    TM_QUERY_LE,
    TM_QUERY_GT,
    TM_QUERY_GE,
    TM_QUERY_NONE, /* there is no value: absent or NaN */
} tm_query_op;

typedef struct tm_query_node {
    tm_query_op op;
    uint16_t first;  /* OR, AND, NOT: a node before this one. Others: a place in `fields` */
    uint16_t second; /* OR, AND: a node before this one. Comparisons by field: a place */
    bool by_field;
    tm_query_value constant; /* of other comparisons: a number, or a text, which is a pattern of
                                core/glob.h and compared by EQ and NE alone */
} tm_query_node;

typedef struct tm_query {
    tm_field fields[TM_FIELD_COUNT]; /* those it uses, in order of first use */
    uint16_t field_count;
    uint16_t node_count; /* at least one; the last is the root */
    uint16_t node_cap;
    bool needs_statistics; /* one of its fields is a statistic */
    char *text;            /* room for the constants' texts, behind the nodes */
    tm_query_node nodes[];
} tm_query;

/* An empty query in one allocation, with room for NODES (at most TM_QUERY_NODES_MAX) and TEXT
 * bytes, which are zero. NULL: no memory. */
tm_query *tm_query_new(size_t nodes, size_t text);
void tm_query_free(tm_query *query);
void tm_query_freep(tm_query **query); /* for TM_AUTO */

/* The place of FIELD in `fields`, which is added where it is not there yet. */
uint16_t tm_query_use(tm_query *query, tm_field field);
/* The place of a new node, for which there must be room. */
uint16_t tm_query_add(tm_query *query, const tm_query_node *node);

/* --- answers --- */

typedef enum tm_truth {
    TM_NO,
    TM_UNKNOWN,
    TM_YES,
} tm_truth;

/*
 * The answer for a tensor whose field query->fields[i] has VALUES[i]: a text for those that are
 * texts, else a number; or unknown, or absent. Dtypes and roles as the tables print them.
 *
 * Numbers compare by their exact values. What is absent or NaN equals nothing and has no order: a
 * comparison with it is no, but `!=` is yes. What is unknown makes a comparison unknown.
 */
tm_truth tm_query_ask(const tm_query *query, const tm_query_value *values);

#endif
