/* adam: weights moved against their gradients (Kingma and Ba 2015), as PyTorch's Adam and AdamW:
 * beta 0.9 and 0.999, epsilon 1e-8. */
#ifndef PL_LAB_ADAM_H
#define PL_LAB_ADAM_H

#include "lab/learn/kernel.h"

typedef struct pl_adam {
    double l2;    /* weight_decay of Adam: l2 * weight is added to the gradient */
    double decay; /* weight_decay of AdamW: the weight shrinks by rate * decay */
    double clip;  /* longest that the gradient of all weights may be; 0: any */
    uint64_t steps;
} pl_adam;

/* The sum of squares, in double and in a fixed order. */
double pl_adam_squares(const float *gradients, size_t count);
/* The next step of all weights: rate, and the squares' sum of all gradients. */
pl_adam_step pl_adam_next(pl_adam *adam, double rate, double squares);

/* rate(epoch, step): from 1 and from 0; what follows from the options. */
typedef struct pl_rate_schedule {
    double rate;       /* to begin with */
    double drop_epoch; /* after this one, the rate times drop_factor; 0: never */
    double drop_factor;
    bool cosine;   /* falls to 0 along half a cosine over all steps */
    double warmup; /* steps over which it rises from 0 */
    double steps;  /* of all epochs */
} pl_rate_schedule;

double pl_schedule_rate(const pl_rate_schedule *schedule, double epoch, double step);

#endif
