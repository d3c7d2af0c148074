/* Diagnoses of a model: lines of words, each naming file, tensor and reason. Bounded. */
#ifndef TM_CORE_DIAG_H
#define TM_CORE_DIAG_H

#include "core/base.h"

enum {
    TM_DIAG_LINES_MAX = 1000
};

typedef enum tm_severity {
    TM_WARNING, /* worth knowing; everything works */
    TM_DAMAGE,  /* something cannot be read: the model is damaged */
} tm_severity;

typedef struct tm_diag_line {
    tm_severity severity;
    char *words; /* one line, control bytes escaped, without LF */
} tm_diag_line;

typedef struct tm_diag {
    tm_diag_line *lines;
    size_t count, cap;
    size_t dropped; /* lines past TM_DIAG_LINES_MAX */
    bool damaged;   /* a TM_DAMAGE line was added, also one that was dropped */
} tm_diag;

void tm_diag_init(tm_diag *d);
void tm_diag_done(tm_diag *d);
/* Adds a line; want of memory drops it (counted), since a diagnosis must not fail its reader. */
void tm_diag_add(tm_diag *d, tm_severity severity, const char *fmt, ...) TM_PRINTF(3, 4);

enum {
    TM_WORDS_NAME_MAX = 384
};

/*
 * Makes a name out of a file fit for words and returns RET: control bytes as %XX (a newline is
 * %0A), and of a very long name only its two ends. Invalid UTF-8 stays as it is.
 */
const char *tm_words_name(const char *name, size_t len, char ret[TM_WORDS_NAME_MAX]);

#endif
