/* simulation: an estimate by simulating what PyTorch allocates, for `sim` and `hybrid`. */
#ifndef PL_ESTIMATE_SIMULATION_H
#define PL_ESTIMATE_SIMULATION_H

#include "device/simulate.h"
#include "estimate/estimator.h"
#include "estimate/interval.h"
#include "estimate/usage.h"

/* A job simulated: what it does, and what that takes. */
typedef struct pl_simulated {
    pl_tape *tape;
    pl_simulation figures;
    int64_t overhead; /* bytes outside the allocator */
    int64_t usable;   /* of the card, for this job: both together */
} pl_simulated;

/* device: pl_tape_device_of the subject's card, or with other answers. arena: for the timeline.
 * pl_simulated_close follows, also on failure. */
pl_status pl_simulated_open(pl_simulated *out, const pl_subject *subject,
                            const pl_tape_device *device, pl_arena *arena, pl_error *err);
void pl_simulated_close(pl_simulated *simulated);

/* Fills a report: memory with sim's interval, and the walk of the last step. false: out of memory.
 */
bool pl_simulated_report(pl_report *report, pl_walk *walk, const pl_subject *subject,
                         const pl_simulated *simulated);

/* What the interval of a simulation rests on. */
pl_evidence pl_simulated_evidence(const pl_subject *subject, const pl_tape *tape);

#endif
