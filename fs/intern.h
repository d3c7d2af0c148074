/*
 * Names that are given freely (at/3,4, slice/0:8.npy) and have no room in an inode number: held
 * while somebody uses them, found again under the same number. Any thread.
 */
#ifndef TM_FS_INTERN_H
#define TM_FS_INTERN_H

#include "fs/fs.h"

struct tm_interned {
    uint64_t number;
    uint32_t serial;
    tm_kind kind;
    uint32_t item, sub; /* the tensor, and the expert plus one */
    char *text;         /* the name, without .npy */
    /* The table's own: */
    tm_intern *intern;
    unsigned users;    /* nodes that hold it */
    uint64_t lookups;  /* that the kernel holds */
    tm_interned *next; /* with the same hash, or free */
};

TM_MUST_CHECK int tm_intern_new(tm_intern **ret);
void tm_intern_free(tm_intern *intern);

/* The entry of (NODE's source, KIND, its item and sub, TEXT), made if need be; the caller is a
 * user. NULL for want of memory. */
tm_interned *tm_intern_get(tm_intern *intern, const tm_node *node, tm_kind kind, const char *text);
/* The entry of a number, NULL where nobody holds it any more; the caller is a user. */
tm_interned *tm_intern_find(tm_intern *intern, uint64_t number);
void tm_intern_release(tm_interned *interned);
/* The kernel was told of the entry, or has forgotten COUNT of that. */
void tm_intern_looked_up(tm_interned *interned);
void tm_intern_forget(tm_intern *intern, uint64_t number, uint64_t count);

#endif
