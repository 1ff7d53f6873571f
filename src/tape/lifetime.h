/* lifetime: after which node Python lets go of each value of a graph. */
#ifndef PL_TAPE_LIFETIME_H
#define PL_TAPE_LIFETIME_H

#include "graph/graph.h"

typedef struct pl_lifetimes {
    /* Tensors that die after node i: dying[first_dying[i] .. first_dying[i + 1]). The graph's
     * outputs are held by the caller and stand nowhere. */
    int32_t *first_dying, *dying;
} pl_lifetimes;

/* false: out of memory. What it fills lies in the arena. */
bool pl_lifetimes_find(pl_lifetimes *out, const pl_graph *graph, pl_arena *arena);

#endif
