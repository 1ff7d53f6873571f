/* import_graph: reading a file that holds a graph, for tests that want the graph. */
#ifndef PL_TESTS_IMPORT_GRAPH_H
#define PL_TESTS_IMPORT_GRAPH_H

#include "import/import.h"

/* PL_INPUT where the file is a model of another kind. */
static inline pl_status only_graph(pl_graph **out, pl_imported *imported, pl_status status) {
    *out = imported->graph;
    if (status != PL_OK || imported->graph) return status;
    pl_imported_close(imported);
    return PL_INPUT;
}

static inline pl_status import_graph_file(pl_graph **out, const char *path,
                                          const pl_reading *reading, pl_error *err) {
    pl_imported imported;
    pl_status status = pl_import_file(&imported, path, reading, err);
    return only_graph(out, &imported, status);
}

static inline pl_status import_graph_memory(pl_graph **out, const void *bytes, size_t size,
                                            const char *name, const pl_reading *reading,
                                            pl_error *err) {
    pl_imported imported;
    pl_status status = pl_import_memory(&imported, bytes, size, name, reading, err);
    return only_graph(out, &imported, status);
}

#endif
