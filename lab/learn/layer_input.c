/* layer_input: where a network's numbers come from. The samples' columns as they are, as a sequence
 * of tokens, or appended to what a sequence was pooled to; ids looked up in a table. */
#include "lab/learn/layer.h"

#include <math.h>
#include <string.h>

/* ---- steps, columns: the samples' own numbers ---- */

const char *pl_layer_steps_shape(pl_layer *layer, size_t columns) {
    (void)columns;
    layer->out = layer->in;
    return NULL;
}

void pl_layer_steps_forward(const pl_layer *layer, pl_net_pass *pass, const float *x, float *y,
                            float *kept) {
    (void)kept;
    memcpy(y, x, pl_rows(layer->in, &pass->batch->extent) * layer->in.width * sizeof *y);
}

void pl_layer_steps_backward(const pl_layer *layer, pl_net_pass *pass, const float *x,
                             const float *y, const float *dy, float *dx, float *kept) {
    (void)x, (void)y, (void)kept;
    if (dx) memcpy(dx, dy, pl_rows(layer->in, &pass->batch->extent) * layer->in.width * sizeof *dx);
}

/* ---- tokens: column i of a sample becomes step i, y = x_i a_i + b_i (the feature tokenizer of
 * Gorishniy et al. 2021, "Revisiting deep learning models for tabular data") ---- */

const char *pl_layer_tokens_shape(pl_layer *layer, size_t columns) {
    size_t width = (size_t)layer->args[0];
    if (columns == 0) return "there are no columns";
    if (columns > PL_STEPS_MOST) return "there are too many columns";
    layer->out = (pl_shape){.width = width, .sequence = true, .steps = columns};
    double bound = 1 / sqrt((double)width);
    pl_layer_tensor(layer, columns, width, PL_TABLE, PL_UNIFORM, bound);
    pl_layer_tensor(layer, columns, width, PL_TABLE, PL_UNIFORM, bound);
    return NULL;
}

void pl_layer_tokens_forward(const pl_layer *layer, pl_net_pass *pass, const float *x, float *y,
                             float *kept) {
    (void)kept;
    size_t width = layer->out.width, all = layer->out.steps * width;
    const float *a = pl_weights_of(layer, pass, 0), *b = pl_weights_of(layer, pass, 1);
    for (size_t i = 0; i < pass->batch->extent.count; i++) {
        memcpy(y + i * all, b, all * sizeof *y);
        for (size_t t = 0; t < layer->out.steps; t++)
            pass->products.kernels->add_scaled(y + i * all + t * width, a + t * width,
                                               x[i * layer->in.width + t], width);
    }
}

void pl_layer_tokens_backward(const pl_layer *layer, pl_net_pass *pass, const float *x,
                              const float *y, const float *dy, float *dx, float *kept) {
    (void)y, (void)kept;
    size_t width = layer->out.width, steps = layer->out.steps;
    const float *a = pl_weights_of(layer, pass, 0);
    float *da = pl_gradients_of(layer, pass, 0), *db = pl_gradients_of(layer, pass, 1);
    for (size_t i = 0; i < pass->batch->extent.count; i++) {
        pass->products.kernels->add(db, dy + i * steps * width, steps * width);
        for (size_t t = 0; t < steps; t++) {
            const float *d = dy + (i * steps + t) * width;
            pass->products.kernels->add_scaled(da + t * width, d, x[i * steps + t], width);
            if (!dx) continue;
            float sum = 0;
            for (size_t j = 0; j < width; j++) sum += d[j] * a[t * width + j];
            dx[i * steps + t] = sum;
        }
    }
}

/* ---- append: the sample's columns behind what flows, at every step of a sequence ---- */

const char *pl_layer_append_shape(pl_layer *layer, size_t columns) {
    if (columns == 0) return "there are no columns";
    layer->out = layer->in;
    layer->out.width += columns;
    return NULL;
}

void pl_layer_append_forward(const pl_layer *layer, pl_net_pass *pass, const float *x, float *y,
                             float *kept) {
    (void)kept;
    const pl_batch *batch = pass->batch;
    size_t in = layer->in.width, out = layer->out.width;
    for (size_t i = 0; i < batch->extent.count; i++) {
        size_t from = layer->in.sequence ? batch->begin[i] : i;
        size_t to = layer->in.sequence ? batch->begin[i + 1] : i + 1;
        for (size_t r = from; r < to; r++) {
            memcpy(y + r * out, x + r * in, in * sizeof *y);
            memcpy(y + r * out + in, batch->columns + i * batch->column_count,
                   batch->column_count * sizeof *y);
        }
    }
}

void pl_layer_append_backward(const pl_layer *layer, pl_net_pass *pass, const float *x,
                              const float *y, const float *dy, float *dx, float *kept) {
    (void)x, (void)y, (void)kept;
    size_t in = layer->in.width, out = layer->out.width;
    for (size_t r = 0; dx && r < pl_rows(layer->in, &pass->batch->extent); r++)
        memcpy(dx + r * in, dy + r * out, in * sizeof *dx);
}

/* ---- embedding: channel `channel` is an id from 0 (rounded; the nearest one where there is none
 * such), and its row of a table takes its place, behind the other channels ---- */

const char *pl_layer_embedding_shape(pl_layer *layer, size_t columns) {
    (void)columns;
    if (layer->args[0] >= (double)layer->in.width) return "there is no such channel";
    size_t width = (size_t)layer->args[2];
    layer->out = layer->in;
    layer->out.width = layer->in.width - 1 + width;
    pl_layer_tensor(layer, (size_t)layer->args[1], width, PL_TABLE, PL_NORMAL, 1);
    return NULL;
}

static size_t id_of(const pl_layer *layer, float x) {
    double most = layer->args[1] - 1;
    return x >= 0 ? (size_t)fmin(floor((double)x + 0.5), most) : 0;
}

void pl_layer_embedding_forward(const pl_layer *layer, pl_net_pass *pass, const float *x, float *y,
                                float *kept) {
    (void)kept;
    size_t channel = (size_t)layer->args[0], in = layer->in.width, out = layer->out.width;
    size_t width = out - in + 1;
    const float *table = pl_weights_of(layer, pass, 0);
    for (size_t r = 0; r < pl_rows(layer->in, &pass->batch->extent); r++, x += in, y += out) {
        memcpy(y, x, channel * sizeof *y);
        memcpy(y + channel, x + channel + 1, (in - 1 - channel) * sizeof *y);
        memcpy(y + in - 1, table + id_of(layer, x[channel]) * width, width * sizeof *y);
    }
}

void pl_layer_embedding_backward(const pl_layer *layer, pl_net_pass *pass, const float *x,
                                 const float *y, const float *dy, float *dx, float *kept) {
    (void)y, (void)kept;
    size_t channel = (size_t)layer->args[0], in = layer->in.width, out = layer->out.width;
    size_t width = out - in + 1;
    float *table = pl_gradients_of(layer, pass, 0);
    for (size_t r = 0; r < pl_rows(layer->in, &pass->batch->extent); r++, x += in, dy += out) {
        pass->products.kernels->add(table + id_of(layer, x[channel]) * width, dy + in - 1, width);
        if (!dx) continue;
        memcpy(dx, dy, channel * sizeof *dx);
        dx[channel] = 0;
        memcpy(dx + channel + 1, dy + channel, (in - 1 - channel) * sizeof *dx);
        dx += in;
    }
}
