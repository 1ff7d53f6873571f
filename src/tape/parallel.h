/* parallel: one rank of a data-parallel (DDP) or sharded (FSDP2) job. */
#ifndef PL_TAPE_PARALLEL_H
#define PL_TAPE_PARALLEL_H

#include "tape/train.h"

/* Sets train->parallel where the job asks for it; false: out of memory. The calls below need it
 * set. */
bool pl_parallel_prepare(pl_trainer *train);
/* Whether the model is placed off the card, and comes there in shards when it is wrapped. */
bool pl_parallel_loads_shards(const pl_trainer *train);
/* The model, placed, is wrapped. */
void pl_parallel_wrap(pl_trainer *train);
void pl_parallel_before_step(pl_trainer *train, int step);
void pl_parallel_zero_grad(pl_trainer *train);
/* Before each node of forward, and when the model returns. */
void pl_parallel_before(pl_trainer *train, int32_t node);
void pl_parallel_forward_done(pl_trainer *train);
/* Before each function of backward, and at its end. */
void pl_parallel_backward(pl_eager *e, const pl_fn *fn);
void pl_parallel_backward_done(pl_trainer *train);

#endif
