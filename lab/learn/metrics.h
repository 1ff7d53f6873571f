/* metrics: how far predictions lie from the truth. Sums in double, in the order given. */
#ifndef PL_LAB_METRICS_H
#define PL_LAB_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As the papers print them; mape in percent; NAN where there is nothing to divide by. */
typedef struct pl_regression_metrics {
    double mse, rmse, mae, mape, r2;
    double median, p90; /* of |predicted - truth| / truth; quantiles as numpy's "linear" */
    double mean;        /* the same */
    double too_low;     /* share below truth by more than 5 % of it */
    /* mape, median, p90, mean, too_low: over the samples whose truth is not 0. */
} pl_regression_metrics;

/* false: out of memory. */
bool pl_regression_measure(pl_regression_metrics *out, const double *truth, const double *predicted,
                           size_t count);

/* Precision, recall and F1 weighted by the classes' truths (as scikit-learn's "weighted") and plain
 * means over the classes that occur, as a truth or as a prediction ("macro"). A class that is never
 * predicted has precision 0. */
typedef struct pl_class_metrics {
    double accuracy;
    double precision, recall, f1; /* weighted */
    double macro_precision, macro_recall, macro_f1;
    double below; /* share predicted in a class below the truth: below the diagonal, too little */
} pl_class_metrics;

/* confusion: [classes, classes], row the truth, column the prediction; counts. Pairs with a class
 * outside 0 to classes - 1 are left out. */
void pl_class_confusion(uint64_t *confusion, size_t classes, const int32_t *truth,
                        const int32_t *predicted, size_t count);
void pl_class_measure(pl_class_metrics *out, const uint64_t *confusion, size_t classes);

void pl_sort(double *values, size_t count); /* ascending */
/* Of sorted values, interpolated linearly between ranks; NAN of none. */
double pl_quantile(const double *sorted, size_t count, double share);

#endif
