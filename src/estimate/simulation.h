/* simulation: an estimate by simulating what PyTorch allocates; the road of `sim` and `hybrid`. */
#ifndef PL_ESTIMATE_SIMULATION_H
#define PL_ESTIMATE_SIMULATION_H

#include "device/simulate.h"
#include "estimate/estimator.h"
#include "estimate/interval.h"

/* Looks at a finished simulation before its tape is given back. */
typedef struct pl_witness {
    /* May change what the tape is told of the card, before it is made; NULL: nothing. */
    void (*prepare)(void *context, pl_tape_device *device);
    void (*see)(void *context, const pl_subject *subject, const pl_tape *tape,
                const pl_simulation *simulation, const pl_report *report);
    void *context;
} pl_witness;

/* witness may be NULL. */
pl_status pl_simulation_estimate(pl_report *report, const pl_subject *subject,
                                 const pl_witness *witness, pl_error *err);

/* What the interval of a simulation rests on. */
pl_evidence pl_simulation_evidence(const pl_subject *subject, const pl_tape *tape);

#endif
