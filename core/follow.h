/*
 * What a reader of a file will probably want next, told from what it has read:
 *
 *     run      bytes that follow each other, upwards or downwards
 *     stride   pieces at equal distances, in either direction: the same columns of each row
 *     steps    tensors at equal distances, in the order of their bytes or of their names: a loader
 *              that goes by name, a tool that looks at one role of each layer
 *
 * Nothing is foretold that the reader has not shown: a run goes on into the next tensor only where
 * it came from the one before, and of a next tensor no more is foretold than the part that was read
 * of the last.
 *
 * Pure. One thread's reads; zeros to begin with; one thread at a time.
 */
#ifndef TM_CORE_FOLLOW_H
#define TM_CORE_FOLLOW_H

#include "core/layout.h"

typedef struct tm_follow {
    bool begun;
    /* The run: bytes [from, to) were read, without a gap to speak of. */
    uint64_t from, to;
    int direction; /* 1, -1; 0: of one read */
    bool is_told;
    uint64_t told; /* how far it was foretold */
    /* Runs that began at equal distances. */
    uint64_t first; /* where the first of them did */
    uint64_t piece; /* bytes of the last whole one */
    int64_t stride;
    unsigned strides, strides_told; /* those behind us; those to come that were foretold */
    /* The tensor that was read last, and equal steps to it. */
    bool in_tensor;
    uint32_t place[TM_LAYOUT_ORDERS];
    tm_span part, habit; /* what was read of it, and of the one before; END UINT64_MAX: all */
    struct {
        int64_t step;
        unsigned equal;
    } steps[TM_LAYOUT_ORDERS];
    unsigned steps_told;
} tm_follow;

enum {
    TM_FORETOLD_MAX = 48
};

/* Pieces of at most a mebibyte that will be wanted, the next ones first. */
typedef struct tm_foretold {
    unsigned count;
    struct {
        uint64_t off;
        size_t len;
    } pieces[TM_FORETOLD_MAX];
} tm_foretold;

/* The reader reads [off, off + len) of a file of SIZE bytes, LEN not 0. LAYOUT: of its tensors,
 * NULL where it has none. What it says was not said before. */
void tm_follow_read(tm_follow *follow, uint64_t size, const tm_layout *layout, uint64_t off,
                    size_t len, tm_foretold *ret);

#endif
