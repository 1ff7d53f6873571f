/* error: what a function returns when it cannot do what it was asked.
 *
 * Every function that can fail returns a pl_status and takes an optional pl_error, filled only on
 * failure. The public half (pl_status, pl_error) stands in plimsoll/plimsoll.h. */
#ifndef PL_CORE_ERROR_H
#define PL_CORE_ERROR_H

#include "core/counts.h"

#if defined(__GNUC__)
#define PL_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define PL_PRINTF(f, a)
#endif

/* Fills *err (may be NULL) and returns code, so that `return pl_fail(err, ...)` reads well. where:
 * the file or the setting, may be NULL; position: byte offset in it, -1 where there is none. */
pl_status pl_fail(pl_error *err, pl_status code, const char *where, int64_t position,
                  const char *format, ...) PL_PRINTF(5, 6);

#endif
