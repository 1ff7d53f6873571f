/* layer_positions: where in its sequence a step stands, added to it. Learnt, or sines and cosines
 * (Vaswani et al. 2017: wave lengths from 2 pi to 10,000 times that). */
#include "lab/learn/layer.h"

#include <math.h>
#include <string.h>

static size_t numbers(const pl_layer *layer, const pl_net_pass *pass) {
    return pass->batch->extent.rows * layer->in.width;
}

/* ---- positions: [steps, width], learnt; steps behind the last share its row ---- */

const char *pl_layer_positions_shape(pl_layer *layer, size_t columns) {
    (void)columns;
    layer->out = layer->in;
    size_t steps = (size_t)layer->args[0];
    pl_layer_tensor(layer, steps, layer->in.width, PL_TABLE, PL_NORMAL, 0.02);
    return NULL;
}

static size_t place(const pl_layer *layer, size_t step) {
    size_t most = layer->tensors[0].rows - 1;
    return step < most ? step : most;
}

void pl_layer_positions_forward(const pl_layer *layer, pl_net_pass *pass, const float *x, float *y,
                                float *kept) {
    (void)kept;
    size_t width = layer->in.width;
    const float *table = pl_weights_of(layer, pass, 0);
    memcpy(y, x, numbers(layer, pass) * sizeof *y);
    for (size_t i = 0; i < pass->batch->extent.count; i++)
        for (size_t r = pass->batch->begin[i]; r < pass->batch->begin[i + 1]; r++)
            pass->products.kernels->add(
                y + r * width, table + place(layer, r - pass->batch->begin[i]) * width, width);
}

void pl_layer_positions_backward(const pl_layer *layer, pl_net_pass *pass, const float *x,
                                 const float *y, const float *dy, float *dx, float *kept) {
    (void)x, (void)y, (void)kept;
    size_t width = layer->in.width;
    float *table = pl_gradients_of(layer, pass, 0);
    for (size_t i = 0; i < pass->batch->extent.count; i++)
        for (size_t r = pass->batch->begin[i]; r < pass->batch->begin[i + 1]; r++)
            pass->products.kernels->add(table + place(layer, r - pass->batch->begin[i]) * width,
                                        dy + r * width, width);
    if (dx) memcpy(dx, dy, numbers(layer, pass) * sizeof *dx);
}

/* ---- sinusoid: sines at even places, cosines at odd ones ---- */

const char *pl_layer_sinusoid_shape(pl_layer *layer, size_t columns) {
    (void)columns;
    layer->out = layer->in;
    return NULL;
}

void pl_layer_sinusoid_forward(const pl_layer *layer, pl_net_pass *pass, const float *x, float *y,
                               float *kept) {
    (void)kept;
    size_t width = layer->in.width;
    const size_t *begin = pass->batch->begin;
    memcpy(y, x, numbers(layer, pass) * sizeof *y);
    for (size_t j = 0; j < width; j += 2) {
        /* From a step's sine and cosine to the next one's by the sums of angles: in double this
         * stays within 1e-12 over the longest sequence. */
        double angle = exp(-log(10000.0) * (double)j / (double)width);
        double turn_sine = sin(angle), turn_cosine = cos(angle), sine = 0, cosine = 1;
        for (size_t t = 0; t < pass->batch->extent.longest; t++) {
            for (size_t i = 0; i < pass->batch->extent.count; i++) {
                if (begin[i] + t >= begin[i + 1]) break; /* the longest come first */
                float *row = y + (begin[i] + t) * width;
                row[j] += (float)sine;
                if (j + 1 < width) row[j + 1] += (float)cosine;
            }
            double next = sine * turn_cosine + cosine * turn_sine;
            cosine = cosine * turn_cosine - sine * turn_sine;
            sine = next;
        }
    }
}

void pl_layer_sinusoid_backward(const pl_layer *layer, pl_net_pass *pass, const float *x,
                                const float *y, const float *dy, float *dx, float *kept) {
    (void)x, (void)y, (void)kept;
    if (dx) memcpy(dx, dy, numbers(layer, pass) * sizeof *dx);
}
