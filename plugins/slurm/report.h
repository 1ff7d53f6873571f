/* report: what one step of a job took on this node, told to the daemon: that it started, what was predicted of it, the most
 * memory that its processes were seen to hold of a card, and how it ended. A thread of its own looks and tells, so that no task
 * waits for the daemon; what NVML does not say is left out. */
#ifndef PLIMSOLL_SLURM_REPORT_H
#define PLIMSOLL_SLURM_REPORT_H

#include "settings.h"

typedef struct report report;

typedef struct report_job {
    const char *cluster, *request; /* the request as it was handed on */
    uint32_t id;
    bool ends; /* this step's end is the job's */
} report_job;

/* NULL: nothing is told. settings: kept by pointer. */
report *report_open(const settings *s, const report_job *job);
/* A task ended; the largest code counts. */
void report_exit(report *r, int code);
/* Tells the end, within settings' report_ms. */
void report_close(report **r);

#endif
