/* boost: losses of gradient boosting (Friedman 2001), with LightGBM's conventions where they
 * differ: which constant a loss starts from, softmax's hessian times K / (K - 1), leaves of
 * absolute and quantile loss set to a quantile of their residuals.
 *
 * The pinball loss of quantile alpha is alpha * e for e = truth - score above 0, else
 * (alpha - 1) * e. */
#include "lab/learn/boost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    pl_boost_kind loss;
} names[] = {
    {"l2", PL_BOOST_L2},
    {"l1", PL_BOOST_L1},
    {"huber", PL_BOOST_HUBER},
    {"quantile", PL_BOOST_QUANTILE},
};

pl_status pl_boost_open(pl_boost *b, const pl_samples *samples, const char *name, double alpha,
                        pl_error *err) {
    *b = (pl_boost){.alpha = alpha, .scores = 1, .samples = samples};
    if (samples->class_count) {
        if (name && name[0])
            return pl_fail(err, PL_USAGE, "loss", -1,
                           "'%s' is a loss of numbers, the samples have classes", name);
        b->loss = samples->class_count == 2 ? PL_BOOST_LOGISTIC : PL_BOOST_SOFTMAX;
        if (b->loss == PL_BOOST_SOFTMAX) b->scores = samples->class_count;
        return PL_OK;
    }
    if (!name || !name[0]) name = "l2";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i].name, name) != 0) continue;
        b->loss = names[i].loss;
        if (b->loss == PL_BOOST_L1) b->alpha = 0.5;
        if (b->loss == PL_BOOST_QUANTILE && !(alpha > 0 && alpha < 1))
            return pl_fail(err, PL_USAGE, "alpha", -1, "a quantile lies between 0 and 1");
        return PL_OK;
    }
    return pl_fail(err, PL_USAGE, "loss", -1, "'%s' is not a loss: l2, l1, huber or quantile",
                   name);
}

static double weight_of(const pl_samples *samples, size_t i) {
    return samples->weights ? (double)samples->weights[i] : 1;
}

typedef struct weighted {
    double value, weight;
} weighted;

static int by_value(const void *a, const void *b) {
    const weighted *x = a, *y = b;
    return (x->value > y->value) - (x->value < y->value);
}
static int by_double(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Counted from the top, (1 - share) * count values lie above it, interpolated between ranks: of 20
 * values the 0.95 quantile is the largest, so that small leaves do not fall short. */
static double quantile(const double *sorted, size_t count, double share) {
    double rank = (1 - share) * (double)count;
    size_t above = (size_t)rank;
    if (above < 1) return sorted[count - 1];
    if (above >= count) return sorted[0];
    double upper = sorted[count - above], lower = sorted[count - above - 1];
    return upper - (upper - lower) * (rank - (double)above);
}

/* The first value at which the weights reach the share. */
static double weighted_quantile(const weighted *sorted, size_t count, double share) {
    double all = 0, sum = 0;
    for (size_t i = 0; i < count; i++) all += sorted[i].weight;
    for (size_t i = 0; i < count; i++)
        if ((sum += sorted[i].weight) >= share * all) return sorted[i].value;
    return sorted[count - 1].value;
}

bool pl_boost_renews(const pl_boost *b) {
    return b->loss == PL_BOOST_L1 || b->loss == PL_BOOST_QUANTILE;
}

double pl_boost_renew(const pl_boost *b, double *residuals, const double *weights, size_t count) {
    if (!weights) {
        qsort(residuals, count, sizeof *residuals, by_double);
        return quantile(residuals, count, b->alpha);
    }
    weighted *pairs = calloc(count, sizeof *pairs);
    if (!pairs) return NAN;
    for (size_t i = 0; i < count; i++) pairs[i] = (weighted){residuals[i], weights[i]};
    qsort(pairs, count, sizeof *pairs, by_value);
    double value = weighted_quantile(pairs, count, b->alpha);
    free(pairs);
    return value;
}

static bool start_quantile(const pl_boost *b, double *base) {
    const pl_samples *s = b->samples;
    double *targets = calloc(s->count, sizeof *targets);
    double *weights = s->weights ? calloc(s->count, sizeof *weights) : NULL;
    bool done = targets && (weights || !s->weights);
    for (size_t i = 0; done && i < s->count; i++) {
        targets[i] = (double)s->targets[i];
        if (weights) weights[i] = (double)s->weights[i];
    }
    if (done) base[0] = pl_boost_renew(b, targets, weights, s->count);
    free(targets);
    free(weights);
    return done && isfinite(base[0]);
}

bool pl_boost_start(const pl_boost *b, double *base) {
    const pl_samples *s = b->samples;
    if (pl_boost_renews(b)) return start_quantile(b, base);
    double weight = 0;
    for (size_t k = 0; k < b->scores; k++) base[k] = 0;
    for (size_t i = 0; i < s->count; i++) {
        double w = weight_of(s, i);
        weight += w;
        if (b->loss == PL_BOOST_SOFTMAX)
            base[s->classes[i]] += w;
        else if (b->loss == PL_BOOST_LOGISTIC)
            base[0] += w * (double)s->classes[i];
        else
            base[0] += w * (double)s->targets[i];
    }
    for (size_t k = 0; k < b->scores; k++) {
        base[k] /= weight;
        double share = fmin(fmax(base[k], 1e-7), 1 - 1e-7);
        if (b->loss == PL_BOOST_SOFTMAX) base[k] = log(share);
        if (b->loss == PL_BOOST_LOGISTIC) base[k] = log(share / (1 - share));
    }
    return true;
}

bool pl_boost_unit_hessian(const pl_boost *b) {
    return b->loss <= PL_BOOST_QUANTILE && !b->samples->weights;
}

static void derive_softmax(const pl_boost *b, size_t row, const double *scores, float *gradients,
                           float *hessians, size_t stride) {
    const size_t classes = b->scores;
    const double factor = classes > 1 ? (double)classes / (double)(classes - 1) : 1;
    double most = scores[0], sum = 0, w = weight_of(b->samples, row);
    for (size_t k = 1; k < classes; k++) most = fmax(most, scores[k * stride]);
    for (size_t k = 0; k < classes; k++) {
        float e = expf((float)(scores[k * stride] - most));
        hessians[k * stride] = e;
        sum += (double)e;
    }
    for (size_t k = 0; k < classes; k++) {
        double p = (double)hessians[k * stride] / sum;
        gradients[k * stride] = (float)(w * (p - (b->samples->classes[row] == (int32_t)k)));
        hessians[k * stride] = (float)(w * factor * p * (1 - p));
    }
}

void pl_boost_derive_row(const pl_boost *b, size_t row, const double *scores, float *gradients,
                         float *hessians, size_t stride) {
    const pl_samples *s = b->samples;
    double w = weight_of(s, row), hessian = 1, gradient;
    if (b->loss == PL_BOOST_SOFTMAX) {
        derive_softmax(b, row, scores, gradients, hessians, stride);
        return;
    }
    if (b->loss == PL_BOOST_LOGISTIC) {
        double p = 1 / (1 + exp(-scores[0]));
        gradient = p - (double)s->classes[row];
        hessian = p * (1 - p);
    } else {
        double off = scores[0] - (double)s->targets[row];
        gradient = off;
        if (b->loss == PL_BOOST_HUBER) gradient = fmin(fmax(off, -b->alpha), b->alpha);
        if (b->loss == PL_BOOST_L1) gradient = (off > 0) - (off < 0);
        if (b->loss == PL_BOOST_QUANTILE) gradient = off >= 0 ? 1 - b->alpha : -b->alpha;
    }
    gradients[0] = (float)(w * gradient);
    hessians[0] = (float)(w * hessian);
}

void pl_boost_derive(const pl_boost *b, const double *scores, float *gradients, float *hessians) {
    const size_t n = b->samples->count;
    for (size_t i = 0; i < n; i++)
        pl_boost_derive_row(b, i, scores + i, gradients + i, hessians + i, n);
}

static double loss_of(const pl_boost *b, const pl_samples *s, const double *scores, size_t i) {
    if (b->loss == PL_BOOST_SOFTMAX) {
        double most = scores[i], sum = 0;
        for (size_t k = 1; k < b->scores; k++) most = fmax(most, scores[k * s->count + i]);
        for (size_t k = 0; k < b->scores; k++) sum += exp(scores[k * s->count + i] - most);
        return most + log(sum) - scores[(size_t)s->classes[i] * s->count + i];
    }
    if (b->loss == PL_BOOST_LOGISTIC) {
        double against = s->classes[i] ? -scores[i] : scores[i]; /* log(1 + exp(against)) */
        return fmax(against, 0) + log1p(exp(-fabs(against)));
    }
    double off = (double)s->targets[i] - scores[i], size = fabs(off);
    if (b->loss == PL_BOOST_L1) return size;
    if (b->loss == PL_BOOST_QUANTILE) return off > 0 ? b->alpha * off : (b->alpha - 1) * off;
    if (b->loss == PL_BOOST_HUBER)
        return size <= b->alpha ? off * off / 2 : b->alpha * (size - b->alpha / 2);
    return off * off;
}

double pl_boost_loss(const pl_boost *b, const pl_samples *s, const double *scores) {
    if (!s || s->count == 0 ||
        !(b->loss >= PL_BOOST_LOGISTIC ? (const void *)s->classes : (const void *)s->targets))
        return NAN;
    double sum = 0, weight = 0;
    for (size_t i = 0; i < s->count; i++) {
        double w = weight_of(s, i);
        weight += w;
        sum += w * loss_of(b, s, scores, i);
    }
    return weight > 0 ? sum / weight : NAN;
}
