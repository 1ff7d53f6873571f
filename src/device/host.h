/* host: what the host needs to issue one record of a step: Python, the dispatcher, autograd, the
 * launch. Small jobs are bound by it. */
#ifndef PL_DEVICE_HOST_H
#define PL_DEVICE_HOST_H

#include "tape/work.h"

/* The terms of the host's time: it is the sum of count times price over them. */
typedef enum pl_host_term {
    PL_HOST_FORWARD,          /* an operator */
    PL_HOST_FORWARD_LAUNCH,   /* a kernel of one */
    PL_HOST_MODULE,           /* a module entered */
    PL_HOST_RECURRENT,        /* a layer and direction of one of cuDNN's recurrent networks */
    PL_HOST_RECURRENT_LAUNCH, /* a kernel of one */
    PL_HOST_BACKWARD,         /* an autograd function */
    PL_HOST_BACKWARD_LAUNCH,
    PL_HOST_GRADIENT,       /* a parameter's AccumulateGrad */
    PL_HOST_HOOK,           /* a tensor saved inside a checkpointed block, by Python */
    PL_HOST_FOREACH,        /* an optimizer's foreach operator */
    PL_HOST_FOREACH_TENSOR, /* a parameter in one */
    PL_HOST_FOREACH_LAUNCH,
    PL_HOST_SINGLE_LAUNCH, /* optimizers that go parameter by parameter */
    PL_HOST_TRANSFER,      /* a copy to the card, beside its bytes */
    PL_HOST_STEP,          /* once per step */
    PL_HOST_TERMS
} pl_host_term;

const char *pl_host_term_name(pl_host_term term);

/* How often each term occurs in a record. */
void pl_host_count(const pl_work *call, double counts[PL_HOST_TERMS]);
/* Microseconds on the host that was measured. */
double pl_host_us(const pl_work *call);
double pl_host_step_us(void); /* once per step */
/* A copy of so many bytes from memory that is not pinned, microseconds; INFINITY: none. */
double pl_host_transfer_us(double bytes, double gbps);

/* How fast a host is: in launching, the ground truth's being 1, and in copying a batch. */
typedef struct pl_host_rates {
    double speed, copy_gbps;
} pl_host_rates;

/* Of a host that nobody told of: what it usually has, and the slow and the fast end of what nine in
 * ten have. */
typedef struct pl_host_spread {
    pl_host_rates usual, slow, fast;
} pl_host_spread;

extern const pl_host_spread pl_hosts_measured;

#endif
