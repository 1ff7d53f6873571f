/* file: a file's bytes, mapped where it can be and read where not (pipes).
 *
 * A mapping costs only the pages that are looked at, so that gigabytes of weights beside the
 * model's JSON are never read. A file must not be cut short by others while it is mapped: the
 * system answers that with SIGBUS. */
#ifndef PL_CORE_FILE_H
#define PL_CORE_FILE_H

#include "core/error.h"

typedef struct pl_file {
    const void *bytes;
    size_t size;
    bool mapped;
} pl_file;

/* limit: bytes that may be read of what cannot be mapped. On failure *file is empty. */
pl_status pl_file_open(pl_file *file, const char *path, size_t limit, pl_error *err);
void pl_file_close(pl_file *file); /* takes NULL and an empty one */

#endif
