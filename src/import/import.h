/* import: any model file, told apart by content. */
#ifndef PL_IMPORT_IMPORT_H
#define PL_IMPORT_IMPORT_H

#include "graph/graph.h"

/* Both: settings NULL for defaults; on failure *out is NULL. */
pl_status pl_import_file(pl_graph **out, const char *path, const pl_model_settings *settings,
                         pl_error *err);
/* bytes are not needed after the call. name: for messages, and the graph's name. */
pl_status pl_import_memory(pl_graph **out, const void *bytes, size_t size, const char *name,
                           const pl_model_settings *settings, pl_error *err);

#endif
