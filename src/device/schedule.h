/* schedule: a step's records on the host's clock and on the card's: how long the step takes, and
 * how busy the card is meanwhile. */
#ifndef PL_DEVICE_SCHEDULE_H
#define PL_DEVICE_SCHEDULE_H

#include "device/cost.h"
#include "device/host.h"
#include "tape/tape.h"

typedef struct pl_schedule {
    double step_us;            /* from one step to the next */
    double slow_us, fast_us;   /* the same by a slow and by a fast host, where none was told of */
    double device_us, host_us; /* kernels' time; the host's */
    double active, occupied, dram, tensor; /* shares of the step, 0 to 1 */
    double counted;                        /* as FlopCounterMode counts */
    double flops[PL_PHASES], moved, launches;
    double kinds_us[PL_WORK_KINDS]; /* device_us by kind */
    double transfer_us, waits;      /* copies to the card; times the host waits */
    pl_host_rates host;             /* whose step it is */
} pl_schedule;

typedef struct pl_schedule_settings {
    bool tf32;
    /* Of the host (device/host.h): 0 or less: as hosts usually are. Copies are from memory that is
     * not pinned. */
    double host_speed, copy_gbps;
    void (*see)(void *context, const pl_work *call, double device_us, double host_us); /* or NULL */
    void *context;
} pl_schedule_settings;

/* false: out of memory. */
bool pl_schedule_of(pl_schedule *out, const pl_tape *tape, const pl_gpu *gpu,
                    const pl_schedule_settings *settings);

#endif
