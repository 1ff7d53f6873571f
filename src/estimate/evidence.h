/* evidence: a simulation, and what it rests on in numbers: how far off it may be is learnt from
 * them. */
#ifndef PL_ESTIMATE_EVIDENCE_H
#define PL_ESTIMATE_EVIDENCE_H

#include "estimate/simulation.h"
#include "estimate/workspace_forest.h"

/* What an interval is learnt for, each with its own margin. */
typedef enum pl_evidence_kind {
    PL_EVIDENCE_PLAIN,        /* no cuDNN convolutions */
    PL_EVIDENCE_CONVOLUTIONS, /* without cudnn.benchmark */
    PL_EVIDENCE_KINDS,
    PL_EVIDENCE_NOT_COVERED = PL_EVIDENCE_KINDS /* too few were measured: interval.c's rows hold */
} pl_evidence_kind;

enum { PL_EVIDENCE_SIGNALS = 24 };
extern const char *const pl_evidence_names[PL_EVIDENCE_SIGNALS];

typedef struct pl_observation {
    pl_evidence_kind kind;
    float signals[PL_EVIDENCE_SIGNALS];
    bool recurrent; /* cuDNN's recurrent layers */
    double scale;   /* of the margin: how much of the peak hangs on workspaces that are guessed */
    /* What operators make in forms that no measured job has (forms.h), over the peak. Who knows the
     * forms fills it. */
    double strange;
    pl_walk walk; /* of the last step */
} pl_observation;

/* Simulates, the workspaces of convolutions answered by chooser. */
pl_status pl_evidence_observe(pl_report *report, pl_observation *out, const pl_subject *subject,
                              pl_workspace_chooser *chooser, pl_error *err);

#endif
