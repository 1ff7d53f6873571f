/* loss: see loss.h. Square, absolute and Huber's loss of a number (Huber as PyTorch's HuberLoss:
 * the square is halved), cross-entropy of logits with soft labels. */
#include "lab/learn/loss.h"

#include <math.h>
#include <string.h>

static double square(const pl_learn_loss *loss, const float *out, const pl_truth *truth,
                     float *d_out) {
    (void)loss;
    float d = out[0] - truth->target;
    if (d_out) d_out[0] = 2 * d;
    return (double)d * (double)d;
}

static double absolute(const pl_learn_loss *loss, const float *out, const pl_truth *truth,
                       float *d_out) {
    (void)loss;
    float d = out[0] - truth->target;
    if (d_out) d_out[0] = d > 0 ? 1.0f : d < 0 ? -1.0f : 0.0f;
    return fabs((double)d);
}

static double huber(const pl_learn_loss *loss, const float *out, const pl_truth *truth,
                    float *d_out) {
    float d = out[0] - truth->target, from = loss->huber;
    if (fabsf(d) <= from) {
        if (d_out) d_out[0] = d;
        return 0.5 * (double)d * (double)d;
    }
    if (d_out) d_out[0] = d > 0 ? from : -from;
    return (double)from * (fabs((double)d) - 0.5 * (double)from);
}

/* How much of the sample is class c's. */
static double share(const pl_learn_loss *loss, const pl_truth *truth, size_t c) {
    size_t at = (size_t)truth->label, count = loss->outputs;
    double all = (double)loss->smoothing / (double)count;
    double beside = count > 1 ? (double)loss->ordinal : 0;
    double left = 1 - (double)loss->smoothing;
    if (truth->shares) return all + left * (double)truth->shares[c];
    if (c == at) return all + left * (1 - beside);
    if (c + 1 == at || c == at + 1) {
        bool end = at == 0 || at + 1 == count;
        return all + left * beside * (end ? 1 : 0.5);
    }
    return all;
}

static double cross_entropy(const pl_learn_loss *loss, const float *out, const pl_truth *truth,
                            float *d_out) {
    double most = -INFINITY, sum = 0, total = 0;
    for (size_t c = 0; c < loss->outputs; c++) most = fmax(most, (double)out[c]);
    for (size_t c = 0; c < loss->outputs; c++) sum += exp((double)out[c] - most);
    double log_sum = most + log(sum);
    for (size_t c = 0; c < loss->outputs; c++) {
        double want = share(loss, truth, c), log_p = (double)out[c] - log_sum;
        if (want > 0) total -= want * log_p;
        if (d_out) d_out[c] = (float)(exp(log_p) - want);
    }
    return total;
}

static const pl_learn_loss_kind kinds[] = {
    {"mse", false, square},
    {"mae", false, absolute},
    {"huber", false, huber},
    {"cross-entropy", true, cross_entropy},
};

pl_status pl_loss_find(const pl_learn_loss_kind **out, const char *name, bool classes,
                       pl_error *err) {
    *out = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].classes == classes && (!name || strcmp(kinds[i].name, name) == 0)) {
            *out = &kinds[i];
            return PL_OK;
        }
    return pl_fail(err, PL_USAGE, "loss", -1, "there is no loss '%s' for %s", name,
                   classes ? "classes (cross-entropy)" : "numbers (mse, mae, huber)");
}

float pl_loss_weight(const pl_learn_loss *loss, const pl_truth *truth) {
    return loss->class_weights ? truth->weight * loss->class_weights[truth->label] : truth->weight;
}

double pl_loss_row(const pl_learn_loss *loss, const float *out, const pl_truth *truth,
                   float *d_out) {
    double value = loss->kind->row(loss, out, truth, d_out);
    float w = pl_loss_weight(loss, truth);
    if (d_out)
        for (size_t c = 0; c < loss->outputs; c++) d_out[c] *= w;
    return value * (double)w;
}
