/* adam: see adam.h. The loop over the weights is a kernel. Clipping is PyTorch's clip_grad_norm_:
 * the gradient times clip / (length + 1e-6) where that is below 1, before l2 is added. */
#include "lab/learn/adam.h"

#include <math.h>

static const double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;

double pl_adam_squares(const float *gradients, size_t count) {
    double part[4] = {0}; /* four sums in flight */
    size_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (size_t j = 0; j < 4; j++)
            part[j] += (double)gradients[i + j] * (double)gradients[i + j];
    for (; i < count; i++) part[0] += (double)gradients[i] * (double)gradients[i];
    return part[0] + part[1] + part[2] + part[3];
}

pl_adam_step pl_adam_next(pl_adam *adam, double rate, double squares) {
    adam->steps++;
    double scale = adam->clip > 0 ? adam->clip / (sqrt(squares) + 1e-6) : 1;
    return (pl_adam_step){
        .scale = (float)fmin(scale, 1),
        .l2 = (float)adam->l2,
        .shrink = (float)(1 - rate * adam->decay),
        .beta1 = (float)beta1,
        .beta2 = (float)beta2,
        .rate = (float)(rate / (1 - pow(beta1, (double)adam->steps))),
        .root_bias = (float)sqrt(1 - pow(beta2, (double)adam->steps)),
        .epsilon = (float)epsilon,
    };
}

double pl_schedule_rate(const pl_rate_schedule *schedule, double epoch, double step) {
    double rate = schedule->rate;
    if (schedule->drop_epoch > 0 && epoch > schedule->drop_epoch) rate *= schedule->drop_factor;
    if (schedule->cosine && schedule->steps > 0)
        rate *= 0.5 * (1 + cos(3.14159265358979323846 * step / schedule->steps));
    if (step < schedule->warmup) rate *= (step + 1) / schedule->warmup;
    return rate;
}
