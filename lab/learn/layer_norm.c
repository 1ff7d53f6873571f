/* layer_norm: layer norm (each row by its own mean and variance) and batch norm (each column by the
 * batch's; when predicting, by moving means of these), as PyTorch's nn.LayerNorm and
 * nn.BatchNorm1d: epsilon 1e-5, momentum 0.1, the moving variance unbiased. */
#include "lab/learn/layer.h"

#include <math.h>
#include <string.h>

static const float epsilon = 1e-5f, momentum = 0.1f;

void pl_norm_forward(const pl_layer *layer, const pl_net_pass *pass, size_t tensor, size_t rows,
                     const float *x, float *y, float *stats) {
    size_t width = layer->tensors[tensor].columns;
    const float *gain = pl_weights_of(layer, pass, tensor);
    const float *shift = pl_weights_of(layer, pass, tensor + 1);
    for (size_t r = 0; r < rows; r++)
        pass->products.kernels->normalize(x + r * width, gain, shift, y + r * width, stats + r * 2,
                                          width);
}

void pl_norm_backward(const pl_layer *layer, const pl_net_pass *pass, size_t tensor, size_t rows,
                      const float *x, const float *stats, const float *dy, float *dx) {
    size_t width = layer->tensors[tensor].columns;
    for (size_t r = 0; r < rows; r++)
        pass->products.kernels->normalize_back(x + r * width, stats + r * 2,
                                               pl_weights_of(layer, pass, tensor), dy + r * width,
                                               dx + r * width, pl_gradients_of(layer, pass, tensor),
                                               pl_gradients_of(layer, pass, tensor + 1), width);
}

static void norm_shape(pl_layer *layer) {
    layer->out = layer->in;
    pl_layer_tensor(layer, 1, layer->in.width, PL_VECTOR, PL_ONE, 0);
    pl_layer_tensor(layer, 1, layer->in.width, PL_VECTOR, PL_ZERO, 0);
}

/* ---- layernorm; kept: [rows, 2] ---- */

const char *pl_layer_layernorm_shape(pl_layer *layer, size_t columns) {
    (void)columns;
    norm_shape(layer);
    return NULL;
}

size_t pl_layer_layernorm_kept(const pl_layer *layer, const pl_extent *extent, bool training) {
    (void)training;
    return pl_rows(layer->in, extent) * 2;
}

void pl_layer_layernorm_forward(const pl_layer *layer, pl_net_pass *pass, const float *x, float *y,
                                float *kept) {
    pl_norm_forward(layer, pass, 0, pl_rows(layer->in, &pass->batch->extent), x, y, kept);
}

void pl_layer_layernorm_backward(const pl_layer *layer, pl_net_pass *pass, const float *x,
                                 const float *y, const float *dy, float *dx, float *kept) {
    (void)y;
    size_t rows = pl_rows(layer->in, &pass->batch->extent);
    if (dx) {
        pl_norm_backward(layer, pass, 0, rows, x, kept, dy, dx);
        return;
    }
    /* No one wants dx, which the row's function would write. */
    size_t width = layer->in.width;
    float *dgain = pl_gradients_of(layer, pass, 0), *dshift = pl_gradients_of(layer, pass, 1);
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < width; j++) {
            float d = dy[r * width + j];
            dgain[j] += d * (x[r * width + j] - kept[r * 2]) * kept[r * 2 + 1];
            dshift[j] += d;
        }
}

/* ---- batchnorm; states: moving mean [width], moving variance [width]; kept: the batch's mean and
 * 1 / sqrt(variance + epsilon), [2, width] ---- */

const char *pl_layer_batchnorm_shape(pl_layer *layer, size_t columns) {
    (void)columns;
    norm_shape(layer);
    layer->state_count = 2 * layer->in.width;
    return NULL;
}

size_t pl_layer_batchnorm_kept(const pl_layer *layer, const pl_extent *extent, bool training) {
    (void)extent, (void)training;
    return 2 * layer->in.width;
}

void pl_layer_batchnorm_forward(const pl_layer *layer, pl_net_pass *pass, const float *x, float *y,
                                float *kept) {
    size_t width = layer->in.width, rows = pl_rows(layer->in, &pass->batch->extent);
    const float *gain = pl_weights_of(layer, pass, 0), *shift = pl_weights_of(layer, pass, 1);
    float *mean = kept, *by = kept + width;
    if (pass->training) {
        const pl_kernels *k = pass->products.kernels;
        float n = (float)(rows ? rows : 1);
        memset(mean, 0, width * sizeof *mean);
        k->column_sums(mean, x, rows, width);
        for (size_t j = 0; j < width; j++) {
            mean[j] /= n;
            by[j] = 0;
        }
        for (size_t r = 0; r < rows; r++)
            for (size_t j = 0; j < width; j++) {
                float d = x[r * width + j] - mean[j];
                by[j] += d * d;
            }
        float *state = pass->new_states ? pass->new_states + layer->states : NULL;
        for (size_t j = 0; j < width; j++) {
            float unbiased = by[j] / (rows > 1 ? n - 1 : 1);
            if (state) {
                state[j] += momentum * (mean[j] - state[j]);
                state[width + j] += momentum * (unbiased - state[width + j]);
            }
            by[j] = 1 / sqrtf(by[j] / n + epsilon);
        }
    } else {
        const float *state = pass->states + layer->states;
        for (size_t j = 0; j < width; j++) {
            mean[j] = state[j];
            by[j] = 1 / sqrtf(state[width + j] + epsilon);
        }
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < width; j++)
            y[r * width + j] = (x[r * width + j] - mean[j]) * by[j] * gain[j] + shift[j];
}

/* As a layer norm's row, down a column: dx = gain by (dy - mean(dy) - u mean(dy u)). */
void pl_layer_batchnorm_backward(const pl_layer *layer, pl_net_pass *pass, const float *x,
                                 const float *y, const float *dy, float *dx, float *kept) {
    (void)y;
    size_t width = layer->in.width, rows = pl_rows(layer->in, &pass->batch->extent);
    const float *gain = pl_weights_of(layer, pass, 0), *mean = kept, *by = kept + width;
    float *dgain = pl_gradients_of(layer, pass, 0), *dshift = pl_gradients_of(layer, pass, 1);
    for (size_t j = 0; j < width; j++) {
        float sum = 0, sum_u = 0;
        for (size_t r = 0; r < rows; r++) {
            float d = dy[r * width + j];
            sum += d;
            sum_u += d * (x[r * width + j] - mean[j]) * by[j];
        }
        dgain[j] += sum_u;
        dshift[j] += sum;
        if (!dx) continue;
        float n = (float)(rows ? rows : 1), scale = gain[j] * by[j];
        for (size_t r = 0; r < rows; r++) {
            float u = (x[r * width + j] - mean[j]) * by[j];
            dx[r * width + j] = scale * (dy[r * width + j] - sum / n - u * sum_u / n);
        }
    }
}
