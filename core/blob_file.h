/*
 * A local file as a blob. What the page cache holds is copied on the thread that asks
 * (RWF_NOWAIT); for the rest a thread of the scheduler's I/O pool waits. A read that meets a
 * changed file is ESTALE, one that meets the file's end EIO: never fewer bytes, never others.
 */
#ifndef TM_CORE_BLOB_FILE_H
#define TM_CORE_BLOB_FILE_H

#include "core/blob.h"
#include "core/file.h"

/* Keeps references to FILE; SCHED must outlive the blob. */
TM_MUST_CHECK int tm_blob_file_new(tm_sched *sched, tm_file *file, tm_blob **ret);

#endif
