/* parallel: one rank of a data-parallel (DDP) or sharded (FSDP2) job. */
#ifndef PL_TAPE_PARALLEL_H
#define PL_TAPE_PARALLEL_H

#include "tape/train.h"

/* Sets train->parallel where the job asks for it; false: out of memory. */
bool pl_parallel_prepare(pl_train *train);
/* Around the nodes of forward, and after a backward pass. */
void pl_parallel_before(pl_train *train, int32_t node);
void pl_parallel_after(pl_train *train, int32_t node);
void pl_parallel_after_backward(pl_train *train);

#endif
