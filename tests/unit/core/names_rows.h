/* A row says what a tensor name says; its layer is what stands after one of the given stacks. */
#ifndef TM_TESTS_UNIT_CORE_NAMES_ROWS_H
#define TM_TESTS_UNIT_CORE_NAMES_ROWS_H

#include "core/names.h"

#include <stdarg.h>
#include <stdio.h>
#include <setjmp.h>
#include <cmocka.h>

enum {
    OTHER = TM_ROLE_OTHER,
    EMBED = TM_ROLE_EMBEDDING,
    ATTN = TM_ROLE_ATTENTION,
    MLP = TM_ROLE_MLP,
    ROUTER = TM_ROLE_ROUTER,
    NORM = TM_ROLE_NORM,
    HEAD = TM_ROLE_HEAD,
    NONE = TM_NO_EXPERT,
    FUSED = TM_FUSED_EXPERTS,
};

struct row {
    const char *name;
    int role;
};

static inline tm_place place(const char *name, size_t rank)
{
    return tm_place_of(name, strlen(name), rank);
}

/* The row's layer is the number after the one of STACKS that its name begins with; no other names
 * have one. */
static inline void check_row(const char *const *stacks, const struct row *row)
{
    tm_place got = place(row->name, 2);
    size_t stack_len = 0, leaf_off = 0;
    long layer = TM_NO_LAYER;
    for (; *stacks; stacks++) {
        size_t len = strlen(*stacks);
        char *end;
        if (strncmp(row->name, *stacks, len) != 0 || row->name[len] != '.')
            continue;
        layer = strtol(row->name + len + 1, &end, 10);
        assert_int_equal(*end, '.');
        stack_len = len;
        leaf_off = (size_t)(end + 1 - row->name);
    }
    if (got.layer != layer || got.stack_len != stack_len || got.leaf_off != leaf_off ||
        got.expert != NONE || got.role != (tm_role)row->role)
        fail_msg("%s: layer %d of '%.*s', expert %d, '%s', %s", row->name, got.layer,
                 (int)got.stack_len, row->name, got.expert, row->name + got.leaf_off,
                 tm_role_name(got.role));
}

#define CHECK(rows, ...)                                                                           \
    do {                                                                                           \
        static const char *const stacks_[] = {__VA_ARGS__, NULL};                                  \
        (void)state;                                                                               \
        for (size_t i_ = 0; i_ < TM_ARRAY_LEN(rows); i_++)                                         \
            check_row(stacks_, &(rows)[i_]);                                                       \
    } while (0)

#endif
