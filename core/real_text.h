/* Numbers as text, faster than printf: tables have millions of them. */
#ifndef TM_CORE_REAL_TEXT_H
#define TM_CORE_REAL_TEXT_H

#include "core/base.h"

enum {
    TM_REAL_TEXT_MAX = 24 /* bytes, with a NUL */
};

/* What printf makes of VALUE by "%.9g", in the C locale and rounding to nearest; returns its
 * length. */
size_t tm_real_text(double value, char ret[TM_REAL_TEXT_MAX]);

#endif
