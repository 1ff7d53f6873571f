/* layout: strides of a graph whose importer knew sizes alone. */
#ifndef PL_GRAPH_LAYOUT_H
#define PL_GRAPH_LAYOUT_H

#include "graph/graph.h"

/* Writes the strides of every value, from the strides of what it is made of, in the nodes' order;
 * sizes must be numbers. What no rule is known for is contiguous and stays so. */
void pl_graph_lay_out(pl_graph *graph);

#endif
