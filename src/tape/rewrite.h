/* rewrite: what eager mode leaves out of an exported graph. */
#ifndef PL_TAPE_REWRITE_H
#define PL_TAPE_REWRITE_H

#include "graph/graph.h"

/* The graph as eager mode would run it: `graph` itself, or a copy in the arena with the same
 * numbers of nodes and tensors, in which nodes that would not run have no arguments and no outputs.
 * NULL: out of memory. */
const pl_graph *pl_rewrite(const pl_graph *graph, pl_arena *arena);

/* Whether a line of transformers' code makes an attention mask. */
bool pl_makes_mask(const char *source);

#endif
