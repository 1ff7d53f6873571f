/* interval: how far the truth may lie from the simulated peak. */
#ifndef PL_ESTIMATE_INTERVAL_H
#define PL_ESTIMATE_INTERVAL_H

#include <stdbool.h>

/* What an estimate rests on. */
typedef struct pl_evidence {
    bool convolutions; /* cuDNN convolutions: workspaces fitted, not computed */
    bool recurrent;    /* cuDNN recurrent layers: the same */
    bool benchmark;    /* cudnn.benchmark: plans tried at run time */
    bool parallel;     /* DDP or FSDP2 */
    bool calibrated;   /* a card that was measured */
    bool hidden;       /* branches whose operators are not seen, sizes that depend on data */
    bool guessed;      /* a model taken for one of another family, a shape assumed */
    bool resembles;    /* a model that is built as what its keys look like */
    double unseen;     /* parameters that its keys may mean, over those that were built */
    bool bounded;      /* a size that depends on data, taken as large as it can be */
    bool compiled;     /* torch.compile, estimated as the code is written */
    bool quantized;    /* 4-bit weights: measured with one version of bitsandbytes */
    int unknown;       /* operators without a rule */
} pl_evidence;

typedef struct pl_interval {
    double below,
        above; /* shares of the peak: low = peak * (1 - below), high = peak * (1 + above) */
    double coverage;
} pl_interval;

pl_interval pl_interval_of(const pl_evidence *evidence);

#endif
