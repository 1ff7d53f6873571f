/* processes: which processes run on a card, from NVML's three lists of them, with what each keeps busy. */
#ifndef PL_NVML_PROCESSES_H
#define PL_NVML_PROCESSES_H

#include "nvml/api.h"

typedef struct pl_nvml_process {
    int64_t pid;
    int64_t memory_bytes;               /* PL_UNKNOWN */
    int gpu_instance, compute_instance; /* PL_UNKNOWN: none */
    pl_live_use use;
    bool mps;
    double sm_util, memory_util; /* NAN */
    int samples;                 /* that the two are of */
} pl_nvml_process;

/* Rows that grow; kept from one read to the next. */
typedef struct pl_nvml_processes {
    pl_nvml_process *rows;
    size_t count, room;
    unsigned char *buffer; /* what NVML writes into */
    size_t buffer_size;
} pl_nvml_processes;

/* Fills *out with what runs on the device. A list that the driver has not is skipped; the code is that
 * of the list of what computes, or the first of another that says that the card is lost. */
pl_nvml_return pl_nvml_list_processes(const pl_nvml_api *api, pl_nvml_device device,
                                      pl_nvml_processes *out);
/* Their shares of the time since *seen_us, which moves on. */
void pl_nvml_rate_processes(const pl_nvml_api *api, pl_nvml_device device,
                            unsigned long long *seen_us, pl_nvml_processes *out);
void pl_nvml_processes_free(pl_nvml_processes *processes);

#endif
