/*
 * Writes an index to PATH, and to stdout what was put into it, for index_expected.py.
 *
 *     tensor NAME DTYPE SCALED BYTES CONTEXT     NAME in hex, after a dot
 *     FIELD VALUE                                integers; doubles as the hex of their bits; none
 *     sum WORDS                                  in hex, highest word first; three of them
 *     hist CODE:COUNT …
 */
#include "tests/unit/formats/index_cases.h"

#include <inttypes.h>

static void print_field(const tm_stats_record *record, size_t field)
{
    tm_value value = tm_stats_field(record, field);
    uint64_t bits;
    memcpy(&bits, &value.real, sizeof(bits));
    printf("%s ", tm_stats_field_name(field));
    if (value.kind == TM_VALUE_NONE)
        printf("none\n");
    else if (value.kind == TM_VALUE_INTEGER)
        printf("%" PRIu64 "\n", value.integer);
    else if (isnan(value.real))
        printf("7ff8000000000000\n");
    else
        printf("%016" PRIx64 "\n", bits);
}

static void print_sum(const tm_exact_sum *sum)
{
    printf("sum ");
    for (size_t i = TM_EXACT_WORDS; i-- > 0;)
        printf("%016" PRIx64, sum->word[i]);
    printf("\n");
}

static void print_case(const index_case *c)
{
    tm_stats stats;
    tm_stats_record record;
    tm_sums sums;
    make_stats(c, &stats, &sums, &record);
    printf("tensor .");
    for (size_t i = 0; i < c->name_len; i++)
        printf("%02x", (uint8_t)c->name[i]);
    printf(" %s %d %" PRIu64 " %" PRIu64 "\n", tm_dtype_get(c->dtype)->name, c->scaled,
           stored_bytes_of(c), c->context);
    for (size_t i = 0; i < TM_STATS_FIELDS; i++)
        print_field(&record, i);
    print_sum(&sums.positive);
    print_sum(&sums.negative);
    print_sum(&sums.squares);
    printf("hist");
    for (size_t code = 0; code < stats.bins; code++)
        if (stats.hist[code])
            printf(" %zu:%" PRIu64, code, stats.hist[code]);
    printf("\n");
    tm_stats_done(&stats);
}

int main(int argc, char **argv)
{
    static const index_case more[] = {
        {INDEX_NAME("coarse bf16"), TM_BF16, 60000, false, 0},
        {INDEX_NAME("coarse u16"), TM_U16, 30000, false, 0},
        {INDEX_NAME("coarse f32"), TM_F32, 20000, false, 0},
    };
    if (argc != 2)
        return 2;
    tm_index_writer *writer = open_writer(argv[1]);
    for (size_t i = 0; i < INDEX_CASES + TM_ARRAY_LEN(more); i++) {
        const index_case *c = i < INDEX_CASES ? &index_cases[i] : &more[i - INDEX_CASES];
        add_case(writer, c);
        print_case(c);
    }
    finish_writer(writer);
    return 0;
}
