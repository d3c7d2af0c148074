/*
 * A tree of a test's own: files on a fetcher that is a timer, to prove the way of a read without
 * any format. At its root:
 *
 *     slow    16 MiB whose every fetch takes 30 ms; byte I is (I / 4096) % 251
 *     stuck   1 GiB whose fetches never end
 *     sum     25 bytes: a reduction over all of `slow`, computed once, then text
 *     at      25 bytes that are in memory: what must stay prompt
 *     fetches, reductions   how many fetches are under way, how often the sum was computed (live)
 */
#ifndef TM_TESTS_SLOW_TREE_H
#define TM_TESTS_SLOW_TREE_H

#include "core/sched.h"
#include "fs/tree.h"

#define TM_SLOW_BYTES  ((uint64_t)16 << 20)
#define TM_STUCK_BYTES ((uint64_t)1 << 30)

typedef struct tm_slow_tree tm_slow_tree;

TM_MUST_CHECK int tm_slow_tree_new(tm_sched *sched, tm_slow_tree **ret);
void tm_slow_tree_free(tm_slow_tree *tree);
tm_tree *tm_slow_tree_of(tm_slow_tree *tree);

#endif
