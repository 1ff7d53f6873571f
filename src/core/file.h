/* file: a file's bytes: read (the default), read in pieces, or mapped.
 *
 * What is read is a copy, so that a file that others cut short meanwhile is an error and not a
 * SIGBUS. Pieces are for archives, whose gigabytes of weights are never read. A mapping costs only
 * the pages that are looked at; it is for callers who know that nobody cuts the file short.
 *
 * A pipe that nobody writes to is refused after a second; one that somebody has open for writing is
 * waited for as long as the budget's time goes. Devices and folders are refused. */
#ifndef PL_CORE_FILE_H
#define PL_CORE_FILE_H

#include "core/budget.h"

typedef struct pl_file {
    const void *bytes; /* NULL before it is read or mapped */
    size_t size;       /* of bytes; before, of a plain file */
    const char *path;  /* kept by pointer, for messages */
    pl_budget *budget; /* its time and cancelling hold for pipes; NULL: none. Set behind begin */
    int64_t changed_s, changed_ns;
    int fd;     /* -1: none is open */
    bool plain; /* it has a size and can be read in pieces */
    bool mapped;
} pl_file;

/* The whole of it. limit: bytes that may be taken for it; what is larger is refused. On failure
 * *file is empty. */
pl_status pl_file_open(pl_file *file, const char *path, size_t limit, pl_error *err);
void pl_file_close(pl_file *file); /* takes NULL and an empty one */

/* Closes it and gives its bytes, malloc'ed, to the caller; of a file that was read, not mapped. */
void *pl_file_take(pl_file *file);

/* The same in steps. begin: opened, nothing read; then load or map, or, of a plain file, pieces at
 * offsets within its size. On failure of any but begin *file is still to be closed. */
pl_status pl_file_begin(pl_file *file, const char *path, pl_error *err);
pl_status pl_file_load(pl_file *file, size_t limit, pl_error *err);
pl_status pl_file_map(pl_file *file, pl_error *err); /* a plain file */
pl_status pl_file_piece(const pl_file *file, uint64_t offset, void *to, size_t size, pl_error *err);

/* For tests: milliseconds to wait for a pipe's writer to come, in place of 1,000. Per thread. */
void pl_file_patience(int writer_ms);

#endif
