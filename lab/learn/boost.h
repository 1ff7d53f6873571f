/* boost: what gradient boosting minimises. A loss, its first and second derivative by the score,
 * and the constant it starts from.
 *
 * Scores are kept [scores, count]: one per sample for a regression and for two classes (the second
 * one's logit), else one per class. */
#ifndef PL_LAB_BOOST_H
#define PL_LAB_BOOST_H

#include "lend.h"

typedef enum pl_boost_kind {
    PL_BOOST_L2,
    PL_BOOST_L1,
    PL_BOOST_HUBER,
    PL_BOOST_QUANTILE,
    PL_BOOST_LOGISTIC, /* two classes */
    PL_BOOST_SOFTMAX,
} pl_boost_kind;

typedef struct pl_boost {
    pl_boost_kind loss;
    double alpha;  /* quantile: the share below; huber: the error from where on it is linear */
    size_t scores; /* per sample */
    const pl_samples *samples;
} pl_boost;

/* name: "l2", "l1", "huber" or "quantile"; for classes "" or NULL. */
pl_status pl_boost_open(pl_boost *boost, const pl_samples *samples, const char *name, double alpha,
                        pl_error *err);
/* The best constant: mean, median, quantile, logarithms of the classes' shares. base: [scores].
 * false: out of memory. */
bool pl_boost_start(const pl_boost *boost, double *base);
/* gradients, hessians: [scores, count]; weights are in both. */
void pl_boost_derive(const pl_boost *boost, const double *scores, float *gradients,
                     float *hessians);
/* The same of one row. scores, gradients, hessians: the row's first, the others `stride` apart. */
void pl_boost_derive_row(const pl_boost *boost, size_t row, const double *scores, float *gradients,
                         float *hessians, size_t stride);
bool pl_boost_unit_hessian(const pl_boost *boost); /* all hessians are 1 */
/* Whether a leaf's number is set anew from its rows' residuals (l1, quantile: their gradients say
 * which side, not how far), and that number. residuals: truth - score, [count], are sorted;
 * weights: theirs, in the residuals' order, or NULL. */
bool pl_boost_renews(const pl_boost *boost);
double pl_boost_renew(const pl_boost *boost, double *residuals, const double *weights,
                      size_t count);
/* Mean loss of samples (which need not be those learnt from). NAN where they have no truth. */
double pl_boost_loss(const pl_boost *boost, const pl_samples *samples, const double *scores);

#endif
