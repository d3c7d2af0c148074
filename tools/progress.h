/* Progress of long work on stderr: a bar on a terminal, else a line now and then. One thread. */
#ifndef TM_TOOLS_PROGRESS_H
#define TM_TOOLS_PROGRESS_H

#include "core/base.h"

typedef struct tm_progress {
    const char *what; /* borrowed */
    bool on_terminal;
    bool shown;          /* something stands on the line */
    uint64_t started_ns; /* 0: not yet */
    uint64_t started_at; /* how much was done then */
    uint64_t told_ns;
} tm_progress;

void tm_progress_init(tm_progress *progress, const char *what);
/* DONE of TOTAL bytes; as often as one likes. */
void tm_progress_tell(tm_progress *progress, uint64_t done, uint64_t total);
/* Clears the bar: other lines may follow. */
void tm_progress_end(tm_progress *progress);

#endif
