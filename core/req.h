/*
 * A request: what every operation carries on its way down.
 *
 * Its lane says who goes first, its cancel flag that nobody waits any more, and its error holds
 * the first failure in words, written once at the place that knows:
 *
 *     return tm_fail(req, EBADMSG, "%s: header of %" PRIu64 " bytes in a file of …", …);
 *
 * Callers pass the code on with TM_TRY. Any thread may fail or cancel a request; its words are
 * read by the owner once the operation has ended.
 */
#ifndef TM_CORE_REQ_H
#define TM_CORE_REQ_H

#include <stdarg.h>
#include <stdatomic.h>

#include "core/base.h"

/* Highest first. A higher lane overtakes a lower one between pieces of work. */
typedef enum tm_lane {
    TM_LANE_SCALAR,    /* at/ */
    TM_LANE_SELECTION, /* rows/, cols/, slice/, raw */
    TM_LANE_VISIBLE,   /* load/, data.npy, lod/ */
    TM_LANE_PREFETCH,  /* what follows a reader */
    TM_LANE_ANALYSIS,  /* stats.json, hist.tsv, diff/ */
    TM_LANE_QUERY,
    TM_LANE_INDEX, /* background */
    TM_LANE_COUNT
} tm_lane;

/* "scalar", "selection", … */
const char *tm_lane_name(tm_lane lane);

enum {
    TM_WORDS_MAX = 768
};

struct tm_req {
    tm_req *parent; /* NULL: none; its cancel ends this one too */
    tm_lane lane;
    bool may_block;        /* this thread may wait for I/O; else such work answers -EINPROGRESS */
    uint64_t deadline_ns;  /* tm_now_ns() at which it fails with ETIMEDOUT; 0: none */
    atomic_bool cancelled; /* nobody waits for the answer any more */
    atomic_bool failed;    /* whoever sets it writes the words */
    atomic_int error;      /* 0, or the negative errno of the first failure: its words are there */
    char words[TM_WORDS_MAX];
};

void tm_req_init(tm_req *req, tm_lane lane);
/* A part of PARENT that may fail on its own: same lane and deadline. PARENT outlives it. */
void tm_req_init_part(tm_req *req, tm_req *parent);

/* Records the first failure of REQ (may be NULL) and returns -CODE. CODE is a positive errno. When
 * this returns, the words of the first failure are there, whoever wrote them. */
int tm_fail(tm_req *req, int code, const char *fmt, ...) TM_PRINTF(3, 4);
int tm_failv(tm_req *req, int code, const char *fmt, va_list args) TM_PRINTF(3, 0);

/* The words of the first failure, "" where there is none. */
const char *tm_req_words(const tm_req *req);

/* 0, or where nobody waits any more the request's error: -EINTR if it has no other. */
int tm_req_check(tm_req *req);
/* The same where it would now wait: what is at hand is never too late, but -ETIMEDOUT where the
 * deadline has passed. */
int tm_req_check_wait(tm_req *req);

#endif
