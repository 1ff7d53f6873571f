/* sized: public structs that grow. A caller's struct begins with its size as the caller was compiled;
 * the library's own may have more members behind. */
#ifndef PL_CORE_SIZED_H
#define PL_CORE_SIZED_H

#include <stddef.h>
#include <string.h>

/* Writes what the library has (own bytes) into a caller's struct of `size` bytes: no more than fits,
 * and zeros where the caller's is larger. Both begin with their size, which is set to the caller's. */
static inline void pl_sized_fill(void *theirs, size_t size, const void *ours, size_t own) {
    memset(theirs, 0, size);
    memcpy(theirs, ours, size < own ? size : own);
    if (size >= sizeof size) memcpy(theirs, &size, sizeof size);
}

/* Whether a caller's struct has at least the members of the first version, up to its last one then.
 * A size that no struct has is one that was never set. */
#define PL_SIZED_OK(theirs, last)                                                                  \
    ((theirs) && (theirs)->size <= PL_SIZED_MOST &&                                                \
     (theirs)->size >= offsetof(__typeof__(*(theirs)), last) + sizeof(theirs)->last)
enum { PL_SIZED_MOST = 1 << 16 };

/* Reads a caller's struct of `size` bytes over the library's defaults: what the caller does not have
 * keeps its default. */
static inline void pl_sized_read(void *ours, size_t own, const void *theirs, size_t size) {
    memcpy(ours, theirs, size < own ? size : own);
    memcpy(ours, &own, sizeof own);
}

#endif
