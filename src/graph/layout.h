/* layout: strides of a graph whose importer knew sizes alone. */
#ifndef PL_GRAPH_LAYOUT_H
#define PL_GRAPH_LAYOUT_H

#include "graph/graph.h"

/* Writes the strides of every value, from the strides of what it is made of, in the nodes' order;
 * sizes must be numbers. What no rule is known for is contiguous and stays so. */
void pl_graph_lay_out(pl_graph *graph);

/* Strides of a copy without holes of a tensor that has some or lies twice: its dimensions in the
 * order that they have in memory (at::infer_dense_strides). dense: [dims]. */
void pl_dense_strides(int dims, const int64_t *sizes, const int64_t *strides, int64_t *dense);

#endif
