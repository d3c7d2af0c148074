/* Suggestions: fields that a misspelt one may have meant, by the number of slips between them. */
#include <stdio.h>
#include <strings.h>

#include "formats/query_error.h"

enum {
    NAME_MAX_LEN = 24, /* a longer one is near to nothing; the longest field has 15 */
    NEAR_MAX = 3,      /* suggestions */
};

/* What people call some fields elsewhere. Ends at the first TM_FIELD_NAME: nobody means that. */
static const struct {
    const char *word;
    tm_field fields[NEAR_MAX];
} elsewhere[] = {
    {"shape", {TM_FIELD_RANK, TM_FIELD_ROWS, TM_FIELD_COLS}},
    {"dims", {TM_FIELD_RANK, TM_FIELD_ROWS, TM_FIELD_COLS}},
    {"ndim", {TM_FIELD_RANK}},
    {"columns", {TM_FIELD_COLS}},
    {"size", {TM_FIELD_BYTES, TM_FIELD_PARAMS}},
    {"nbytes", {TM_FIELD_BYTES}},
    {"numel", {TM_FIELD_PARAMS}},
    {"parameters", {TM_FIELD_PARAMS}},
    {"elements", {TM_FIELD_PARAMS, TM_FIELD_STAT(TM_STAT_N)}},
    {"type", {TM_FIELD_DTYPE, TM_FIELD_ROLE}},
    {"shard", {TM_FIELD_FILE}},
    {"nans", {TM_FIELD_STAT(TM_STAT_NAN)}},
    {"infs", {TM_FIELD_INF_COUNT}},
    {"zeros", {TM_FIELD_STAT(TM_STAT_ZERO)}},
    {"variance", {TM_FIELD_STAT(TM_STAT_VAR)}},
    {"average", {TM_FIELD_STAT(TM_STAT_MEAN)}},
    {"norm", {TM_FIELD_STAT(TM_STAT_L2), TM_FIELD_STAT(TM_STAT_L1)}},
    {"median", {TM_FIELD_STAT(TM_STAT_Q0_5)}},
    {"quantile",
     {TM_FIELD_STAT(TM_STAT_Q0_01), TM_FIELD_STAT(TM_STAT_Q0_5), TM_FIELD_STAT(TM_STAT_Q0_99)}},
    {"quantiles",
     {TM_FIELD_STAT(TM_STAT_Q0_01), TM_FIELD_STAT(TM_STAT_Q0_5), TM_FIELD_STAT(TM_STAT_Q0_99)}},
};

static size_t least(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;
    return ab < c ? ab : c;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* Letters lost, added, replaced, or swapped with a neighbour (optimal string alignment). */
static size_t slips(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t rows[3][NAME_MAX_LEN + 1];
    assert(a_len <= NAME_MAX_LEN && b_len <= NAME_MAX_LEN);
    for (size_t k = 0; k <= b_len; k++)
        rows[0][k] = k;
    for (size_t i = 1; i <= a_len; i++) {
        size_t *now = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t k = 1; k <= b_len; k++) {
            bool differ = lower(a[i - 1]) != b[k - 1];
            now[k] = least(now[k - 1] + 1, above[k] + 1, above[k - 1] + differ);
            bool swapped =
                i > 1 && k > 1 && lower(a[i - 1]) == b[k - 2] && lower(a[i - 2]) == b[k - 1];
            if (swapped && two_above[k - 2] + 1 < now[k])
                now[k] = two_above[k - 2] + 1;
        }
    }
    return rows[a_len % 3][b_len];
}

/* The fields with the fewest slips, at most one in three letters; returns their number. */
static size_t nearest(const char *name, size_t len, tm_field ret[NEAR_MAX])
{
    size_t best = len / 3, count = 0;
    for (int i = 0; i < TM_FIELD_COUNT; i++) {
        const char *field = tm_field_get((tm_field)i).name;
        size_t found = slips(name, len, field, strlen(field));
        if (found < best)
            count = 0;
        if (found <= best && count < NEAR_MAX) {
            ret[count++] = (tm_field)i;
            best = found;
        }
    }
    return count;
}

/* The fields that begin with the name, where it has some letters. */
static size_t begun(const char *name, size_t len, tm_field ret[NEAR_MAX])
{
    size_t count = 0;
    for (int i = 0; i < TM_FIELD_COUNT && len >= 3; i++) {
        if (strncasecmp(tm_field_get((tm_field)i).name, name, len) == 0 && count < NEAR_MAX)
            ret[count++] = (tm_field)i;
    }
    return count;
}

static size_t known_elsewhere(const char *name, size_t len, tm_field ret[NEAR_MAX])
{
    for (size_t i = 0; i < TM_ARRAY_LEN(elsewhere); i++) {
        const char *word = elsewhere[i].word;
        if (strlen(word) != len || strncasecmp(word, name, len) != 0)
            continue;
        size_t count = 0;
        while (count < NEAR_MAX && elsewhere[i].fields[count] != TM_FIELD_NAME) {
            ret[count] = elsewhere[i].fields[count];
            count++;
        }
        return count;
    }
    return 0;
}

/* What stands behind "tensor." or another noun; "q0.99" has none. */
static void strip_noun(const char **name, size_t *len)
{
    size_t n = 0;
    while (n < *len && lower((*name)[n]) >= 'a' && lower((*name)[n]) <= 'z')
        n++;
    if (n < *len && (*name)[n] == '.') {
        *name += n + 1;
        *len -= n + 1;
    }
}

void tm_query_near(const char *name, size_t len, char ret[TM_QUERY_WORDS_MAX])
{
    static const char fields[] =
        "; fields are name, dtype, role, file, rank, rows, cols, params, bytes, layer, expert, and "
        "the statistics of stats.json";
    tm_field near[NEAR_MAX];
    strip_noun(&name, &len);
    size_t count = 0;
    if (len <= NAME_MAX_LEN) {
        count = known_elsewhere(name, len, near);
        count = count ? count : nearest(name, len, near);
        count = count ? count : begun(name, len, near);
    }
    snprintf(ret, TM_QUERY_WORDS_MAX, "%s", count == 0 ? fields : "");
    for (size_t i = 0; i < count; i++) {
        static const char *const before[] = {"; there is ", "; there are ", ", "};
        size_t used = strlen(ret);
        snprintf(ret + used, TM_QUERY_WORDS_MAX - used, "%stensor.%s",
                 before[i > 0 ? 2 : count > 1], tm_field_get(near[i]).name);
    }
}
