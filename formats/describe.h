/*
 * Models in words: model.json, metadata.json, error, and what `tmorph info` prints.
 *
 * Rendered from what the model knows when it is open; no tensor is read. Names that are not UTF-8
 * appear in JSON with U+FFFD. Failures stick in the text (core/text.h).
 */
#ifndef TM_FORMATS_DESCRIBE_H
#define TM_FORMATS_DESCRIBE_H

#include "core/model.h"
#include "core/text.h"

/* A model as its user knows it. */
typedef struct tm_described {
    const char *name;
    const tm_model *model;
    const char *fingerprint; /* 64 hex digits; NULL: not known */
} tm_described;

/* "ready" or "damaged". */
const char *tm_describe_state(const tm_model *model);

/* model.json, by the schema of the mount tree, with `warnings` at its end. */
void tm_describe_model(tm_text *t, const tm_described *d);
/* metadata.json: the model's string pairs as one object, in their order. */
void tm_describe_metadata(tm_text *t, const tm_model *model);
/* error: every line of the diagnosis; empty where there is none. */
void tm_describe_error(tm_text *t, const tm_model *model);

/* For people: one model as a card, several as a table; then what is wrong with them. */
void tm_describe_info(tm_text *t, const tm_described *models, size_t count);

#endif
