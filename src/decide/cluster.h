/* cluster: cards and what runs on them. */
#ifndef PL_DECIDE_CLUSTER_H
#define PL_DECIDE_CLUSTER_H

#include "decide/spread.h"

typedef struct pl_card {
    char *name;
    const pl_gpu *gpu;
    int64_t reserve_bytes; /* to be kept free */
    pl_sharing sharing;
    pl_demand *jobs;
    size_t count, room;
    /* what its jobs take together, and the time they lose: made when first asked for, of what is there */
    pl_spread *spread;
    bool current;
} pl_card;

struct pl_cluster {
    pl_card *cards;
    size_t count, room;
    pl_gpu **gpus; /* cards' kinds, one of each */
    size_t gpu_count, gpu_room;
    const pl_catalogue *own;
};

int64_t pl_card_usable(const pl_card *card);
/* Errors of jobs of one name are one: adds jobs (count of them) to s. */
void pl_spread_jobs(pl_spread *s, const pl_demand *jobs, size_t count);

#endif
