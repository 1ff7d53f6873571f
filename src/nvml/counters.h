/* counters: a card's performance counters (NVML's GPM, Hopper and later): how busy it was between two
 * samples. */
#ifndef PL_NVML_COUNTERS_H
#define PL_NVML_COUNTERS_H

#include "nvml/api.h"

typedef struct pl_nvml_counters {
    pl_nvml_sample samples[2];    /* the older one is written over */
    bool asked, supported, taken; /* taken: samples[newest] holds one */
    int newest;
    int64_t taken_ns;
    double smact, smocc, drama, tensor; /* percent; NAN: not known */
} pl_nvml_counters;

/* Takes a sample and computes the figures since the one before. Before 100 ms have passed, which is how
 * often the card refreshes them, the figures stay. gpu_instance: PL_UNKNOWN, or of the device. */
void pl_nvml_count(const pl_nvml_api *api, pl_nvml_device device, int gpu_instance, int64_t now_ns,
                   pl_nvml_counters *counters);
/* Forgets the samples taken: what comes next is no figure yet. */
void pl_nvml_counters_forget(pl_nvml_counters *counters);
void pl_nvml_counters_free(const pl_nvml_api *api, pl_nvml_counters *counters);

#endif
