/* blocks: the repeated modules of a model, which checkpointing runs again and FSDP2 shards one by
 * one. */
#ifndef PL_TAPE_BLOCKS_H
#define PL_TAPE_BLOCKS_H

#include "graph/graph.h"

typedef struct pl_repeats {
    int32_t *of; /* [module_count] the outermost repeated module it lies in, -1: none */
    int32_t count;
} pl_repeats;

/* false: out of memory. What it fills lies in the arena. */
bool pl_blocks_find(pl_repeats *out, const pl_graph *graph, pl_arena *arena);
/* The block that a node runs in, -1: none. Takes node -1. */
int32_t pl_blocks_at(const pl_repeats *blocks, const pl_graph *graph, int32_t node);

#endif
