/* layer_pool: a sequence made one vector. The pool of an empty sequence is 0. */
#include "lab/learn/layer.h"

#include <string.h>

/* The variants, as layer_kinds.c numbers them. `ends` is a bidirectional layer's last states: the
 * first `forward` (0: half) numbers of the last step, the others of the first one. */
enum { SUM, MEAN, MAX, FIRST, LAST, ENDS };

static size_t split(const pl_layer *layer) { /* numbers taken from the last step */
    switch (layer->kind->variant) {
    case FIRST: return 0;
    case LAST: return layer->in.width;
    default: return layer->args[0] > 0 ? (size_t)layer->args[0] : layer->in.width / 2;
    }
}

const char *pl_layer_pool_shape(pl_layer *layer, size_t columns) {
    (void)columns;
    if (layer->kind->variant == ENDS && layer->args[0] > (double)layer->in.width)
        return "it is wider than what flows";
    layer->out = (pl_shape){.width = layer->in.width};
    return NULL;
}

void pl_layer_pool_forward(const pl_layer *layer, pl_net_pass *pass, const float *x, float *y,
                           float *kept) {
    (void)kept;
    const pl_kernels *k = pass->products.kernels;
    size_t width = layer->in.width, last = split(layer);
    for (size_t i = 0; i < pass->batch->extent.count; i++, y += width) {
        size_t from = pass->batch->begin[i], to = pass->batch->begin[i + 1];
        memset(y, 0, width * sizeof *y);
        if (from == to) continue;
        switch (layer->kind->variant) {
        case SUM:
        case MEAN:
            k->column_sums(y, x + from * width, to - from, width);
            if (layer->kind->variant == MEAN)
                for (size_t j = 0; j < width; j++) y[j] /= (float)(to - from);
            break;
        case MAX:
            memcpy(y, x + from * width, width * sizeof *y);
            for (size_t r = from + 1; r < to; r++) k->maximum(y, x + r * width, width);
            break;
        default:
            memcpy(y, x + (to - 1) * width, last * sizeof *y);
            memcpy(y + last, x + from * width + last, (width - last) * sizeof *y);
            break;
        }
    }
}

/* The largest number's gradient goes to its first step. */
static void max_back(const float *x, const float *y, const float *dy, float *dx, size_t steps,
                     size_t width) {
    for (size_t j = 0; j < width; j++)
        for (size_t r = 0; r < steps; r++)
            if (x[r * width + j] >= y[j]) {
                dx[r * width + j] = dy[j];
                break;
            }
}

void pl_layer_pool_backward(const pl_layer *layer, pl_net_pass *pass, const float *x,
                            const float *y, const float *dy, float *dx, float *kept) {
    (void)kept;
    if (!dx) return;
    const pl_kernels *k = pass->products.kernels;
    size_t width = layer->in.width, last = split(layer);
    memset(dx, 0, pass->batch->extent.rows * width * sizeof *dx);
    for (size_t i = 0; i < pass->batch->extent.count; i++, y += width, dy += width) {
        size_t from = pass->batch->begin[i], to = pass->batch->begin[i + 1];
        if (from == to) continue;
        switch (layer->kind->variant) {
        case SUM:
            for (size_t r = from; r < to; r++) memcpy(dx + r * width, dy, width * sizeof *dx);
            break;
        case MEAN:
            for (size_t r = from; r < to; r++)
                k->add_scaled(dx + r * width, dy, 1.0f / (float)(to - from), width);
            break;
        case MAX: max_back(x + from * width, y, dy, dx + from * width, to - from, width); break;
        default:
            memcpy(dx + (to - 1) * width, dy, last * sizeof *dx);
            memcpy(dx + from * width + last, dy + last, (width - last) * sizeof *dx);
            break;
        }
    }
}

/* ---- flatten: the steps side by side; steps given: the first ones, zeros where there are fewer
 * ----
 */

const char *pl_layer_flatten_shape(pl_layer *layer, size_t columns) {
    (void)columns;
    size_t steps = layer->args[0] > 0 ? (size_t)layer->args[0] : layer->in.steps;
    if (steps == 0) return "the sequences' lengths differ: say how many steps to take";
    if (steps > PL_WIDTH_MOST / layer->in.width) return "the steps side by side are too wide";
    layer->out = (pl_shape){.width = steps * layer->in.width};
    return NULL;
}

static size_t taken(const pl_layer *layer, const pl_net_pass *pass, size_t sample) {
    size_t length = pass->batch->begin[sample + 1] - pass->batch->begin[sample];
    size_t most = layer->out.width / layer->in.width;
    return length < most ? length : most;
}

void pl_layer_flatten_forward(const pl_layer *layer, pl_net_pass *pass, const float *x, float *y,
                              float *kept) {
    (void)kept;
    size_t in = layer->in.width, out = layer->out.width;
    for (size_t i = 0; i < pass->batch->extent.count; i++) {
        size_t got = taken(layer, pass, i) * in;
        memcpy(y + i * out, x + pass->batch->begin[i] * in, got * sizeof *y);
        memset(y + i * out + got, 0, (out - got) * sizeof *y);
    }
}

void pl_layer_flatten_backward(const pl_layer *layer, pl_net_pass *pass, const float *x,
                               const float *y, const float *dy, float *dx, float *kept) {
    (void)x, (void)y, (void)kept;
    if (!dx) return;
    size_t in = layer->in.width, out = layer->out.width;
    memset(dx, 0, pass->batch->extent.rows * in * sizeof *dx);
    for (size_t i = 0; i < pass->batch->extent.count; i++)
        memcpy(dx + pass->batch->begin[i] * in, dy + i * out,
               taken(layer, pass, i) * in * sizeof *dx);
}
