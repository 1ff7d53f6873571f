/* trace: what python/plimsoll/capture.py writes, docs/formats.md ("A captured trace"). */
#ifndef PL_IMPORT_TRACE_H
#define PL_IMPORT_TRACE_H

#include "graph/trace.h"
#include "import/reading.h"

/* bytes: JSON text that begins with "plimsoll_trace"; not needed after the call. name: for messages
 * and, where the trace has none, the model's name. reading: NULL for the usual. On failure *out is
 * NULL. */
pl_status pl_import_trace(pl_trace **out, const void *bytes, size_t size, const char *name,
                          const pl_reading *reading, pl_error *err);

#endif
