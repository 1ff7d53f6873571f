/* train: the state of one simulated training run, shared by train.c and parallel.c. */
#ifndef PL_TAPE_TRAIN_H
#define PL_TAPE_TRAIN_H

#include "tape/eager.h"
#include "tape/operator.h"
#include "tape/optimizer.h"

typedef struct pl_parallel pl_parallel;

typedef struct pl_train {
    pl_eager e; /* first: eager's callbacks find the run behind it */
    const pl_training *job;
    const pl_optimizer *optimizer;
    pl_arena *step_arenas[2];         /* steps alternate: a step drops the gradients of the one before it */
    const pl_operator **operators;    /* [node_count] */
    int32_t *last_use;                /* [tensor_count] node, -1: held by the caller */
    int32_t *first_dying, *dying;     /* tensors that die after node i: dying[first_dying[i] .. first_dying[i + 1]) */
    int32_t *module_first, *module_last; /* [module_count] nodes */
    int32_t *block_of;                /* [module_count] outermost repeated block it lies in, -1: none */
    int32_t block_count;
    pl_loss loss;
    uint8_t autocast; /* pl_dtype, 0: off */
    bool trains;
    pl_value *target;
    bool scaler_made;
    int32_t found_inf;
    pl_parallel *parallel; /* NULL: alone */
} pl_train;

/* The loss a job means: auto is the model's own where its first output is a scalar, else cross-entropy. */
pl_loss pl_train_loss(const pl_graph *graph, pl_loss asked);
/* Fills block_of; false: out of memory. */
bool pl_train_find_blocks(pl_train *train);
/* x.to(memory_format=torch.channels_last): takes the reference, returns another. */
pl_value *pl_to_channels_last(pl_eager *e, pl_value *value);

#endif
