/* graph_check: whether the sizes of a graph go together.
 *
 * torch.export cannot write a product of tensors whose sizes do not match; a file written or
 * changed by hand can, and would be believed. Checked are ties, and the operators that carry most
 * of a model's bytes: products, convolutions, embeddings, what is computed element by element and
 * what only views. Left out: every other operator; tensors whose sizes hang on a symbol without a
 * hint. */
#ifndef PL_IMPORT_GRAPH_CHECK_H
#define PL_IMPORT_GRAPH_CHECK_H

#include "graph/graph.h"

/* False: message says which tensors or node, and why. */
bool pl_graph_sizes_match(const pl_graph *graph, char *message, size_t room);

#endif
