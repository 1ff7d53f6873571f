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

const char *pl_status_name(pl_status status) {
    static const struct {
        pl_status status;
        const char *name;
    } names[] = {{PL_OK, "ok"},
                 {PL_USAGE, "usage"},
                 {PL_INPUT, "input"},
                 {PL_MISSING, "missing"},
                 {PL_LIMIT, "limit"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].status == status) return names[i].name;
    return NULL;
}
