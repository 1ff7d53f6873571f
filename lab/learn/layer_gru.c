/* layer_gru: gated recurrent units with PyTorch's equations (nn.GRU, both shifts),
 *
 *     r = sigmoid(x Wr + ar + h Ur + br)      n = tanh(x Wn + an + r (h Un + bn))
 *     z = sigmoid(x Wz + az + h Uz + bz)      h' = (1 - z) n + z h
 *
 * forward, reversed (each sample's steps are read from its last one; what comes out stands at the
 * step it was read at), or both side by side: `bigru:6:10` has 6 units forward and 10 reversed.
 * Weights start uniform within 1 / sqrt(units). All steps of a batch are multiplied by W at once; h
 * runs through the samples that are still so long, which are the first ones. */
#include "lab/learn/layer.h"

#include <math.h>
#include <string.h>

enum {
    W,
    A,
    U,
    B,
    EACH
}; /* tensors of a direction: [in, 3 units], [3 units], [units, 3 units], ... */

typedef struct direction {
    size_t first; /* tensor */
    size_t units;
    size_t column; /* of the output, from which its units lie */
    bool reversed;
} direction;

static size_t directions_of(const pl_layer *layer, direction out[2]) {
    size_t units = (size_t)layer->args[0];
    bool both = layer->kind->variant == 1;
    out[0] = (direction){.units = units, .reversed = !both && layer->words & 1};
    if (!both) return 1;
    size_t back = layer->args[1] > 0 ? (size_t)layer->args[1] : units;
    out[1] = (direction){.first = EACH, .units = back, .column = units, .reversed = true};
    return 2;
}

const char *pl_layer_gru_shape(pl_layer *layer, size_t columns) {
    (void)columns;
    direction d[2];
    size_t count = directions_of(layer, d);
    layer->out = layer->in;
    layer->out.width = 0;
    for (size_t i = 0; i < count; i++) {
        size_t units = d[i].units;
        double bound = 1 / sqrt((double)units);
        layer->out.width += units;
        pl_layer_tensor(layer, layer->in.width, 3 * units, PL_MATRIX, PL_UNIFORM, bound);
        pl_layer_tensor(layer, 1, 3 * units, PL_VECTOR, PL_UNIFORM, bound);
        pl_layer_tensor(layer, units, 3 * units, PL_MATRIX, PL_UNIFORM, bound);
        pl_layer_tensor(layer, 1, 3 * units, PL_VECTOR, PL_UNIFORM, bound);
    }
    return NULL;
}

/* The gates of every step, [rows, 4, units] for each direction. */
size_t pl_layer_gru_kept(const pl_layer *layer, const pl_extent *extent, bool training) {
    return training ? extent->rows * 4 * layer->out.width : 0;
}

size_t pl_layer_gru_scratch(const pl_layer *layer, const pl_extent *extent, bool training) {
    direction d[2];
    size_t count = directions_of(layer, d), most = 0;
    for (size_t i = 0; i < count; i++) {
        size_t units = d[i].units, rows = extent->rows;
        /* U's panels; h and its products per sample; x W. Backward: of U^T; dh, dgh; dgx, dgh,
         * h. */
        size_t forward =
            pl_panels_size(units, 3 * units) + extent->count * 4 * units + rows * 3 * units;
        size_t backward =
            pl_panels_size(3 * units, units) + extent->count * 4 * units + rows * 7 * units;
        size_t need = training ? backward : forward;
        if (training && forward > need) need = forward;
        if (need > most) most = need;
    }
    return most;
}

/* The row that sample i reads in its step s. */
static size_t row_at(const pl_batch *batch, const direction *d, size_t i, size_t s) {
    return d->reversed ? batch->begin[i + 1] - 1 - s : batch->begin[i] + s;
}
/* How many samples have a step s. */
static size_t running(const pl_batch *batch, size_t s) {
    size_t low = 0, high = batch->extent.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (batch->begin[middle + 1] - batch->begin[middle] > s)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void forward(const pl_layer *layer, const direction *d, pl_net_pass *pass, const float *x,
                    float *y, float *gates) {
    const pl_kernels *k = pass->products.kernels;
    const pl_batch *batch = pass->batch;
    size_t units = d->units, count = batch->extent.count, width = layer->out.width;
    const float *u = pl_weights_of(layer, pass, d->first + U);
    float *panels = pass->scratch;
    float *h = panels + pl_panels_size(units, 3 * units); /* [count, units] */
    float *gh = h + count * units;                        /* [count, 3 units] */
    float *gx = gh + count * 3 * units;                   /* [rows, 3 units] */
    if (!pass->packed) {
        pl_panels_pack(u, 3 * units, false, units, 3 * units, panels);
        u = panels;
    }
    pl_linear_forward(layer, pass, d->first + W, batch->extent.rows, x, gx);
    memset(h, 0, count * units * sizeof *h);
    for (size_t s = 0; s < batch->extent.longest; s++) {
        size_t live = running(batch, s);
        k->multiply(live, 3 * units, units, h, units, 1, u,
                    pl_weights_of(layer, pass, d->first + B), false, gh, 3 * units);
        for (size_t i = 0; i < live; i++) {
            size_t row = row_at(batch, d, i, s);
            k->gru(gx + row * 3 * units, gh + i * 3 * units, h + i * units, h + i * units,
                   gates ? gates + row * 4 * units : NULL, units);
            memcpy(y + row * width + d->column, h + i * units, units * sizeof *y);
        }
    }
}

static void backward(const pl_layer *layer, const direction *d, pl_net_pass *pass, const float *x,
                     const float *y, const float *dy, float *dx, bool add, const float *gates) {
    const pl_kernels *k = pass->products.kernels;
    const pl_batch *batch = pass->batch;
    size_t units = d->units, three = 3 * units, count = batch->extent.count;
    size_t rows = batch->extent.rows, width = layer->out.width;
    float *panels = pass->scratch;                     /* of U^T, [3 units, units] */
    float *dh = panels + pl_panels_size(three, units); /* [count, units] */
    float *now = dh + count * units;                   /* [count, 3 units]: dgh of this step */
    float *dgx = now + count * three, *dgh = dgx + rows * three; /* [rows, 3 units] */
    float *h = dgh + rows * three; /* [rows, units]: before each step */
    pl_panels_pack(pl_weights_of(layer, pass, d->first + U), three, true, three, units, panels);
    memset(dh, 0, count * units * sizeof *dh);
    for (size_t s = batch->extent.longest; s-- > 0;) {
        size_t live = running(batch, s);
        for (size_t i = 0; i < live; i++) {
            size_t row = row_at(batch, d, i, s);
            float *before = h + row * units;
            if (s == 0)
                memset(before, 0, units * sizeof *before);
            else
                memcpy(before, y + row_at(batch, d, i, s - 1) * width + d->column,
                       units * sizeof *before);
            k->add(dh + i * units, dy + row * width + d->column, units);
            k->gru_back(gates + row * 4 * units, before, dh + i * units, dgx + row * three,
                        now + i * three, units);
            memcpy(dgh + row * three, now + i * three, three * sizeof *dgh);
        }
        k->multiply(live, units, three, now, three, 1, panels, NULL, true, dh, units);
    }
    k->column_sums(pl_gradients_of(layer, pass, d->first + B), dgh, rows, three);
    pl_multiply(&pass->products, units, three, rows, (pl_operand){h, units, true},
                (pl_operand){dgh, three, false}, NULL, true,
                pl_gradients_of(layer, pass, d->first + U), three);
    pl_linear_backward(layer, pass, d->first + W, rows, x, dgx, dx, add);
}

void pl_layer_gru_forward(const pl_layer *layer, pl_net_pass *pass, const float *x, float *y,
                          float *kept) {
    direction d[2];
    size_t count = directions_of(layer, d), rows = pass->batch->extent.rows;
    for (size_t i = 0; i < count; i++)
        forward(layer, &d[i], pass, x, y, pass->training ? kept + rows * 4 * d[i].column : NULL);
}

void pl_layer_gru_backward(const pl_layer *layer, pl_net_pass *pass, const float *x, const float *y,
                           const float *dy, float *dx, float *kept) {
    direction d[2];
    size_t count = directions_of(layer, d), rows = pass->batch->extent.rows;
    for (size_t i = 0; i < count; i++)
        backward(layer, &d[i], pass, x, y, dy, dx, i > 0, kept + rows * 4 * d[i].column);
}
