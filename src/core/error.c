/* error: see error.h. Messages that are too long are cut, never refused. */
#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>

pl_status pl_fail(pl_error *err, pl_status code, const char *where, int64_t position,
                  const char *format, ...) {
    if (!err) return code;
    err->code = code;
    err->position = position;
    snprintf(err->where, sizeof err->where, "%s", where ? where : "");
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return code;
}
