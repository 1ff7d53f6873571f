/* hybrid: what hybrid's parts of a model file mean; training (the laboratory's) and estimating agree
 * on it. */
#ifndef PL_ESTIMATE_HYBRID_H
#define PL_ESTIMATE_HYBRID_H

#include "estimate/evidence.h"

/* The parts "low" and "high" answer log2(truth / simulated peak) from pl_evidence_names, the truth
 * being below the one in PL_HYBRID_OUTSIDE of jobs and above the other in as many. Each has in its
 * extra[] one margin per kind, to be taken off or added, and how many jobs it was found on. */
#define PL_HYBRID_OUTSIDE 0.015
enum {
    PL_HYBRID_MARGIN = 0,               /* extra[PL_HYBRID_MARGIN + kind] */
    PL_HYBRID_JOBS = PL_EVIDENCE_KINDS, /* extra[PL_HYBRID_JOBS + kind] */
    PL_HYBRID_LEAST_JOBS = 100 /* with fewer a 2 % tail is not seen: interval.c's rows hold */
};

#endif
