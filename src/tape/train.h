/* train: the state of one simulated training run, shared by train.c, place.c and parallel.c. */
#ifndef PL_TAPE_TRAIN_H
#define PL_TAPE_TRAIN_H

#include "tape/blocks.h"
#include "tape/eager.h"
#include "tape/lifetime.h"
#include "tape/operator.h"
#include "tape/optimizer.h"

typedef struct pl_ranks pl_ranks;

typedef struct pl_trainer {
    pl_eager e; /* first: eager's callbacks find the run behind it */
    const pl_job *job;
    int steps;
    const pl_optimizer *optimizer;
    pl_arena *step_arenas[2]; /* steps alternate: a step drops the gradients of the one before it */
    const pl_operator **operators; /* [node_count] */
    pl_lifetimes lifetimes;
    pl_repeats blocks;
    pl_loss loss;
    int32_t *held_by; /* [tensor_count]: frame that holds the value, as `frames` counts; 0: none */
    int32_t frames;   /* checkpointed calls so far */
    uint8_t autocast; /* pl_dtype, 0: off */
    bool trains;
    pl_value *target;
    bool scaler_made;
    int32_t found_inf;
    pl_ranks *parallel; /* NULL: alone */
} pl_trainer;

#endif
