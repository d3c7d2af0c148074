/*
 * The log: the last lines in memory, for .tmorph/log, and each line to a file or syslog as it
 * comes. Libraries fail with words; the session and the tools log. Any thread.
 */
#ifndef TM_CORE_LOG_H
#define TM_CORE_LOG_H

#include "core/base.h"

typedef enum tm_log_level {
    TM_LOG_ERROR,
    TM_LOG_WARNING,
    TM_LOG_INFO,
} tm_log_level;

typedef struct tm_log tm_log;

enum {
    TM_LOG_LINES = 1024,
    TM_LOG_LINE_MAX = 1024
};

/* TO: NULL for memory alone, "syslog", or the path of a file to append to. */
TM_MUST_CHECK int tm_log_new(const char *to, tm_log **ret);
void tm_log_free(tm_log *log);

/* One line, control bytes shown as '?'. A line equal to the one before is counted, not repeated. */
void tm_log_add(tm_log *log, tm_log_level level, const char *fmt, ...) TM_PRINTF(3, 4);

/* The lines in memory as text, malloc'ed; NULL for want of memory. */
char *tm_log_text(tm_log *log, size_t *ret_len);

#endif
