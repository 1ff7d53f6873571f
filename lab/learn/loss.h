/* loss: how wrong a prediction is, and which way it should go. */
#ifndef PL_LAB_LOSS_H
#define PL_LAB_LOSS_H

#include "lend.h"

typedef struct pl_learn_loss pl_learn_loss;

/* What a sample's prediction should have been. */
typedef struct pl_truth {
    float target;        /* of a regression */
    int32_t label;       /* its class */
    const float *shares; /* [outputs], of the classes; NULL: all of it is its own class's */
    float weight;        /* the sample's */
} pl_truth;

typedef struct pl_learn_loss_kind {
    const char *name; /* as the option `loss` has it */
    bool classes;     /* of a classifier's logits; else of one number */
    /* A sample's loss; d_out [outputs] (NULL: not wanted) is written. */
    double (*row)(const pl_learn_loss *loss, const float *out, const pl_truth *truth, float *d_out);
} pl_learn_loss_kind;

struct pl_learn_loss {
    const pl_learn_loss_kind *kind;
    size_t outputs;
    float huber; /* where a square becomes a line */
    /* Soft labels: this share of a label's weight is spread over all classes ... */
    float smoothing;
    /* ... and this one lies on the classes beside it (the one, at an end): bins have an order. */
    float ordinal;
    const float *class_weights; /* [outputs], NULL: all 1 */
};

/* name NULL: the standard one, "mse" or "cross-entropy". PL_USAGE where there is none such. */
pl_status pl_loss_find(const pl_learn_loss_kind **out, const char *name, bool classes,
                       pl_error *err);

/* As PyTorch's mean: sum of weight * loss over sum of weight; a sample's weight is its own times
 * its class's. d_out [outputs] is of weight * loss. Returns weight * loss. */
double pl_loss_row(const pl_learn_loss *loss, const float *out, const pl_truth *truth,
                   float *d_out);
/* The weight that pl_loss_row multiplies with. */
float pl_loss_weight(const pl_learn_loss *loss, const pl_truth *truth);

#endif
