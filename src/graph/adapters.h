/* adapters: a graph written anew with what fine-tuning adds: adapters, packed weights, and hooks on
 * the input embeddings. */
#ifndef PL_GRAPH_ADAPTERS_H
#define PL_GRAPH_ADAPTERS_H

#include "graph/linear.h"

/* layers: of graph, marked; count 0: hooks alone. After a failure the graph is as it was. */
pl_status pl_adapters_add(pl_graph *graph, pl_linear_layers *layers, const pl_finetune *how,
                          pl_error *err);

#endif
