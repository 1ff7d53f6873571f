/* hybrid: what hybrid's parts of a model file mean; training (the laboratory's) and estimating agree
 * on it. */
#ifndef PL_ESTIMATE_HYBRID_H
#define PL_ESTIMATE_HYBRID_H

#include "estimate/evidence.h"

/* The parts "low" and "high" answer log2(truth / simulated peak) from pl_evidence_names, the truth
 * being below the one in PL_HYBRID_BELOW of jobs of architectures that were not seen, and above the
 * other in PL_HYBRID_ABOVE of them. Each has in its extra[] one margin per kind, to be taken off or
 * added, times the observation's scale, and how many jobs it was found on; and the same of jobs that
 * are strange (without the scale), which holds where it is the larger. */
#define PL_HYBRID_BELOW           0.02
#define PL_HYBRID_ABOVE           0.012
#define PL_HYBRID_STRANGE_OUTSIDE 0.025 /* on each side: what is left to PL_HYBRID_STRANGE_MOST */
enum {
    PL_HYBRID_MARGIN = 0,               /* extra[PL_HYBRID_MARGIN + kind] */
    PL_HYBRID_JOBS = PL_EVIDENCE_KINDS, /* extra[PL_HYBRID_JOBS + kind] */
    PL_HYBRID_STRANGE_MARGIN = 2 * PL_EVIDENCE_KINDS,
    PL_HYBRID_STRANGE_JOBS,
    PL_HYBRID_LEAST_JOBS = 100 /* with fewer a 2 % tail is not seen: interval.c's rows hold */
};

/* The least that an interval of a trace reaches, as shares of the peak: what a script does besides its
 * steps was not measured with the jobs. Of 39 published scripts with narrower intervals
 * (data/h200/scripts.tsv, 2026-11-16) six lay above them, five by no more than 3.8 % of the peak. */
#define PL_HYBRID_TRACE_ABOVE 0.04
#define PL_HYBRID_TRACE_BELOW 0.02

/* The part PL_HYBRID_FORMS has as its columns the forms of the measured jobs' operators (forms.h); what
 * it answers is of no use. A job is strange where other forms make more than this share of its peak. */
#define PL_HYBRID_FORMS   "forms"
#define PL_HYBRID_STRANGE 0.002
/* The most of the peak that an interval reaches further for what they make: it may be kept once
 * more than is thought, or not at all. Not measured. */
#define PL_HYBRID_STRANGE_MOST 0.5
/* Of cuDNN's recurrent layers in a mode that no measured job has, whose workspaces are their own: log2.
 * The one job of such a kind (nrnn-4-fp32, rnn_relu) lay 0.154 above. */
#define PL_HYBRID_STRANGE_RECURRENT 0.2

#endif
