/* host: see host.h.
 *
 * Prices are microseconds on the host of the measured card, fitted to the time that jobs took to be
 * issued (data/h200/utilization.jsonl.xz, host_ms: tools/calibrate/host.py). */
#include "device/host.h"

#include <stddef.h>

static const struct {
    const char *name;
    double us;
} terms[PL_HOST_TERMS] = {
    [PL_HOST_FORWARD] = {"forward", 9.15},
    [PL_HOST_FORWARD_LAUNCH] = {"forward-launch", 15.50},
    [PL_HOST_MODULE] = {"module", 15.97},
    [PL_HOST_RECURRENT] = {"recurrent", 160.93},
    [PL_HOST_RECURRENT_LAUNCH] = {"recurrent-launch", 7.55},
    [PL_HOST_BACKWARD] = {"backward", 13.81},
    [PL_HOST_BACKWARD_LAUNCH] = {"backward-launch", 2.73},
    [PL_HOST_GRADIENT] = {"gradient", 16.18},
    [PL_HOST_HOOK] = {"hook", 31.93},
    [PL_HOST_FOREACH] = {"foreach", 18.63},
    [PL_HOST_FOREACH_TENSOR] = {"foreach-tensor", 1.09},
    [PL_HOST_FOREACH_LAUNCH] = {"foreach-launch", 13.13},
    [PL_HOST_SINGLE_LAUNCH] = {"single-launch", 11.52},
    [PL_HOST_TRANSFER] = {"transfer", 42.35},
    [PL_HOST_STEP] = {"step", 442.13},
};

const char *pl_host_term_name(pl_host_term term) {
    return term < PL_HOST_TERMS ? terms[term].name : NULL;
}

void pl_host_count(const pl_work *call, double counts[PL_HOST_TERMS]) {
    double launches = call->launches;
    counts[PL_HOST_HOOK] += call->hooks;
    if (call->phase == PL_PHASE_OPTIMIZER) {
        bool single = call->kind != PL_WORK_FOREACH;
        if (call->first) counts[PL_HOST_FORWARD] += 1;
        counts[PL_HOST_FOREACH] += !single;
        counts[PL_HOST_FOREACH_TENSOR] += single ? 0 : call->tensors;
        counts[single ? PL_HOST_SINGLE_LAUNCH : PL_HOST_FOREACH_LAUNCH] += launches;
        return;
    }
    if (call->kind == PL_WORK_TRANSFER) {
        counts[PL_HOST_TRANSFER] += 1;
        return;
    }
    if (call->kind == PL_WORK_VIEW && call->tensors) {
        counts[PL_HOST_GRADIENT] += call->tensors;
        return;
    }
    bool backward = call->phase == PL_PHASE_BACKWARD;
    if (call->first) counts[backward ? PL_HOST_BACKWARD : PL_HOST_FORWARD] += 1;
    counts[PL_HOST_MODULE] += call->enters;
    counts[call->kind == PL_WORK_RECURRENT ? PL_HOST_RECURRENT_LAUNCH
           : backward                      ? PL_HOST_BACKWARD_LAUNCH
                                           : PL_HOST_FORWARD_LAUNCH] += launches;
    if (call->kind == PL_WORK_RECURRENT && call->shape) {
        const pl_rnn *rnn = call->shape;
        counts[PL_HOST_RECURRENT] += (double)rnn->layers * (double)rnn->directions;
    }
}

double pl_host_us(const pl_work *call) {
    double counts[PL_HOST_TERMS] = {0}, us = 0;
    pl_host_count(call, counts);
    for (int i = 0; i < PL_HOST_TERMS; i++) us += counts[i] * terms[i].us;
    return us;
}

double pl_host_step_us(void) {
    return terms[PL_HOST_STEP].us;
}

double pl_host_transfer_us(double bytes, double gbps) {
    return bytes / (gbps * 1e3);
}

/* Seven runs on hosts that were lent at different times (data/h200/README.md, 2026-11-16): 0.687,
 * 0.819, 0.845, 0.847, 0.87, 0.965 and the ground truth's 1. Usual is their geometric mean, the ends
 * are where one more host lies with 90 % by Student's distribution of the logarithms. Copies were
 * 6.4 GB/s in four runs, 20 in the ground truth's; the rest are not known. */
const pl_host_spread pl_hosts_measured = {
    .usual = {0.86, 6.4}, .slow = {0.66, 6.4}, .fast = {1.10, 20}};
