/* summary: the text that torchsummary and torchinfo print. */
#ifndef PL_IMPORT_SUMMARY_H
#define PL_IMPORT_SUMMARY_H

#include "graph/summary.h"
#include "import/reading.h"

/* reading: NULL for the usual. bytes are not needed after the call. On failure *out is NULL. */
pl_status pl_import_summary(pl_summary **out, const char *bytes, size_t size, const char *name,
                            const pl_reading *reading, pl_error *err);

/* Whether a text has their table's heading, which other text may stand before. */
bool pl_summary_is(const char *bytes, size_t size);

#endif
