/* linear: the linear layers of a graph, by call: where they are, what they are called, which of
 * them fine-tuning adapts and packs. */
#ifndef PL_GRAPH_LINEAR_H
#define PL_GRAPH_LINEAR_H

#include "graph/finetune.h"

/* One call of a linear layer: nn.Linear is one node, Conv1D a view, addmm and a view. */
typedef struct pl_linear_layer {
    const char *path; /* of its module; not ended by 0 */
    size_t length;
    int32_t node, first, last;           /* the product; its first and last node */
    int32_t weight, bias, input, output; /* tensors; bias -1: none */
    int64_t in, out;                     /* features */
    int32_t same; /* the first layer with this weight: itself, or another call's */
    int32_t a, b; /* adapters, in the new graph */
    bool adapted, packed;
} pl_linear_layer;

typedef struct pl_linear_layers {
    const pl_graph *graph;
    pl_linear_layer *of; /* [count], in the order they run */
    int32_t count;
} pl_linear_layers;

/* Whether node i is a linear layer's product; fills *out but for same. */
bool pl_linear_read(const pl_graph *graph, int32_t i, pl_linear_layer *out);
/* All of them. false: out of memory. */
bool pl_linear_find(pl_linear_layers *out, const pl_graph *graph, pl_arena *arena);
/* Marks those that adapters go to (modules as in pl_finetune), and those whose weights are packed;
 * PL_USAGE where there are none of a name, or none at all. */
pl_status pl_linear_adapt(pl_linear_layers *layers, const char *modules, pl_error *err);
pl_status pl_linear_pack(pl_linear_layers *layers, pl_arena *arena, pl_error *err);

#endif
