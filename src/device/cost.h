/* cost: what one record of a step (tape/work.h) takes on a card: time, and how busy it keeps the
 * card meanwhile. */
#ifndef PL_DEVICE_COST_H
#define PL_DEVICE_COST_H

#include <plimsoll/plimsoll.h>
#include "tape/work.h"

typedef struct pl_cost {
    double us;       /* of all its kernels, one after the other */
    double active;   /* multiprocessors with a warp, share of all, while they run */
    double occupied; /* warps, share of those that the card could hold */
    double dram;     /* memory interface in use, share of the time */
    double tensor;   /* tensor cores in use, share */
} pl_cost;

/* tf32: products of float32 may use tensor cores (a tf32 job); convolutions say so themselves. */
void pl_cost_of(pl_cost *out, const pl_work *call, const pl_gpu *gpu, bool tf32);

#endif
