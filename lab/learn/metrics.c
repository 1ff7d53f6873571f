/* metrics: the figures the papers print. Regressions: as scikit-learn's mean_squared_error,
 * mean_absolute_error, mean_absolute_percentage_error and r2_score; classes: as its
 * precision_recall_fscore_support with zero_division=0. Relative errors leave out samples whose
 * truth is 0: nothing can be a share of it. */
#include "lab/learn/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void pl_sort(double *values, size_t count) {
    qsort(values, count, sizeof *values, compare_doubles);
}

static double ratio(double a, double b) {
    return b == 0 ? NAN : a / b;
}

double pl_quantile(const double *sorted, size_t count, double share) {
    if (count == 0) return NAN;
    double rank = share * (double)(count - 1);
    if (!(rank > 0)) return sorted[0];
    size_t low = (size_t)rank;
    if (low >= count - 1) return sorted[count - 1];
    return sorted[low] + (sorted[low + 1] - sorted[low]) * (rank - (double)low);
}

bool pl_regression_measure(pl_regression_metrics *out, const double *truth, const double *predicted,
                           size_t count) {
    double *relative = malloc((count ? count : 1) * sizeof *relative); /* |error| / |truth| */
    if (!relative) return false;
    double sum = 0, squares = 0, absolute = 0, shares = 0, total = 0;
    size_t dividable = 0, low = 0;
    for (size_t i = 0; i < count; i++) sum += truth[i];
    double n = (double)count, mean = ratio(sum, n);
    for (size_t i = 0; i < count; i++) {
        double error = predicted[i] - truth[i], size = fabs(truth[i]);
        squares += error * error;
        absolute += fabs(error);
        total += (truth[i] - mean) * (truth[i] - mean);
        if (size == 0) continue;
        relative[dividable] = fabs(error) / size;
        shares += relative[dividable++];
        low += -error > 0.05 * size;
    }
    pl_sort(relative, dividable);
    out->mse = ratio(squares, n);
    out->rmse = sqrt(out->mse);
    out->mae = ratio(absolute, n);
    out->mean = ratio(shares, (double)dividable);
    out->mape = 100 * out->mean;
    out->r2 = 1 - ratio(squares, total);
    out->median = pl_quantile(relative, dividable, 0.5);
    out->p90 = pl_quantile(relative, dividable, 0.9);
    out->too_low = ratio((double)low, (double)dividable);
    free(relative);
    return true;
}

void pl_class_confusion(uint64_t *confusion, size_t classes, const int32_t *truth,
                        const int32_t *predicted, size_t count) {
    memset(confusion, 0, classes * classes * sizeof *confusion);
    for (size_t i = 0; i < count; i++) {
        bool inside = truth[i] >= 0 && predicted[i] >= 0 && (size_t)truth[i] < classes &&
                      (size_t)predicted[i] < classes;
        if (inside) confusion[(size_t)truth[i] * classes + (size_t)predicted[i]]++;
    }
}

void pl_class_measure(pl_class_metrics *out, const uint64_t *confusion, size_t classes) {
    double all = 0, right = 0, below = 0;
    double precision = 0, recall = 0, f1 = 0; /* sums weighted by the truths */
    double macro_precision = 0, macro_recall = 0, macro_f1 = 0;
    size_t occurring = 0;
    for (size_t c = 0; c < classes; c++) {
        double truths = 0, predictions = 0, hits = (double)confusion[c * classes + c];
        for (size_t k = 0; k < classes; k++) {
            truths += (double)confusion[c * classes + k];
            predictions += (double)confusion[k * classes + c];
            if (k < c) below += (double)confusion[c * classes + k];
        }
        all += truths;
        right += hits;
        if (truths == 0 && predictions == 0) continue;
        double p = predictions > 0 ? hits / predictions : 0;
        double r = truths > 0 ? hits / truths : 0;
        double f = 2 * hits / (truths + predictions);
        occurring++;
        macro_precision += p;
        macro_recall += r;
        macro_f1 += f;
        precision += p * truths;
        recall += r * truths;
        f1 += f * truths;
    }
    *out = (pl_class_metrics){
        .accuracy = ratio(right, all),
        .precision = ratio(precision, all),
        .recall = ratio(recall, all),
        .f1 = ratio(f1, all),
        .macro_precision = ratio(macro_precision, (double)occurring),
        .macro_recall = ratio(macro_recall, (double)occurring),
        .macro_f1 = ratio(macro_f1, (double)occurring),
        .below = ratio(below, all),
    };
}
