/* optimizer: what torch.optim's step allocates, one row per optimizer. */
#ifndef PL_TAPE_OPTIMIZER_H
#define PL_TAPE_OPTIMIZER_H

#include "tape/eager.h"

typedef struct pl_optimizer {
    const char *name;
    const char *state; /* tensors kept per parameter, letters below */
    const char *step;  /* what a step allocates, letters below */
    const char *work;  /* kernels of a step, below */
    bool at_start;     /* state is made when the optimizer is, else in the first step */
    bool fused;        /* one kernel for all of a step */
    const char *source;
} pl_optimizer;

const pl_optimizer *pl_optimizer_find(const char *name); /* NULL: unknown */

/* torch.optim.X(model.parameters()) */
void pl_optimizer_make(pl_eager *e, const pl_optimizer *optimizer);
/* The kernels of a step over the gradients: `work` as in a row. */
void pl_optimizer_note(pl_eager *e, const char *work);
/* The kernels of optimizer.step() over e's leaves that have gradients. */
void pl_optimizer_calls(pl_eager *e, const pl_optimizer *optimizer);
/* optimizer.step(); first: makes the state */
void pl_optimizer_step(pl_eager *e, const pl_optimizer *optimizer, bool first);

#endif
