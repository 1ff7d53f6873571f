/* graph_json: plimsoll's own form of a graph, for people to see what was understood and for tools
 * to write (docs/formats.md).
 *
 *     {"plimsoll_graph": 1, "name": .., "torch_version": .., "symbols": [..], "modules": [..],
 *      "tensors": [..], "nodes": [..], "inputs": [..], "outputs": [..], "mutations": [..]}
 *
 * Tensors and modules are named by their place in their list. A size is a number, or where it
 * depends on a symbol [its number at export, "expression"]. An argument is [name, kind, value]. */
#ifndef PL_IMPORT_GRAPH_JSON_H
#define PL_IMPORT_GRAPH_JSON_H

#include "core/text.h"
#include "graph/graph.h"
#include "import/reading.h"

/* Appends the graph's text; memory gone shows in text->failed. */
void pl_graph_json_write(pl_text *text, const pl_graph *graph);

/* As the other readers: bytes are not needed after the call; on failure *out is NULL. */
pl_status pl_import_graph_json(pl_graph **out, const char *bytes, size_t size, const char *name,
                               const pl_reading *reading, pl_error *err);

/* "float32" as PyTorch writes types; NULL, and PL_DT_UNKNOWN: no such. */
const char *pl_dtype_name(pl_dtype dtype);
pl_dtype pl_dtype_named(const char *name, size_t length);

#endif
