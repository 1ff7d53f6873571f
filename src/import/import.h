/* import: any model file, told apart by content. */
#ifndef PL_IMPORT_IMPORT_H
#define PL_IMPORT_IMPORT_H

#include "graph/recipe.h"
#include "graph/summary.h"
#include "graph/trace.h"
#include "import/reading.h"

/* What a file turned out to hold: one of these, the others NULL. */
typedef struct pl_imported {
    pl_graph *graph;     /* a forward pass as it was exported */
    pl_recipe *recipe;   /* a description that is built for each batch and sequence */
    pl_trace *trace;     /* training steps as they were recorded */
    pl_summary *summary; /* layers counted, no operators */
} pl_imported;

void pl_imported_close(pl_imported *imported);

/* Both: reading NULL for the usual; on failure *out holds nothing. */
pl_status pl_import_file(pl_imported *out, const char *path, const pl_reading *reading,
                         pl_error *err);
/* bytes are not needed after the call. name: for messages, and the model's name. */
pl_status pl_import_memory(pl_imported *out, const void *bytes, size_t size, const char *name,
                           const pl_reading *reading, pl_error *err);

#endif
