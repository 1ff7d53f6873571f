/* packed: a file read whole into memory, unpacked where it is xz. */
#ifndef PL_LAB_PACKED_H
#define PL_LAB_PACKED_H

#include "lend.h"

/* *bytes is the caller's to free(); NULL on failure. limit: bytes that it may take, packed
 * and unpacked together. Told apart by
 * the first bytes, not by the name. */
pl_status pl_packed_read(char **bytes, size_t *size, const char *path, size_t limit, pl_error *err);

#endif
