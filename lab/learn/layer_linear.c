/* layer_linear: y = x W + b, the functions that go number by number, and dropout. Starting weights
 * as PyTorch's nn.Linear: uniform within 1 / sqrt(width in). */
#include "lab/learn/layer.h"
#include "lab/learn/random.h"

#include <math.h>
#include <string.h>

void pl_linear_forward(const pl_layer *layer, const pl_net_pass *pass, size_t tensor, size_t rows,
                       const float *x, float *y) {
    const pl_net_tensor *t = &layer->tensors[tensor];
    const float *w = pl_weights_of(layer, pass, tensor),
                *b = pl_weights_of(layer, pass, tensor + 1);
    if (pass->packed)
        pass->products.kernels->multiply(rows, t->columns, t->rows, x, t->rows, 1, w, b, false, y,
                                         t->columns);
    else
        pl_multiply(&pass->products, rows, t->columns, t->rows, (pl_operand){x, t->rows, false},
                    (pl_operand){w, t->columns, false}, b, false, y, t->columns);
}

void pl_linear_backward(const pl_layer *layer, const pl_net_pass *pass, size_t tensor, size_t rows,
                        const float *x, const float *dy, float *dx, bool add) {
    const pl_net_tensor *t = &layer->tensors[tensor];
    pass->products.kernels->column_sums(pl_gradients_of(layer, pass, tensor + 1), dy, rows,
                                        t->columns);
    /* dW [in, out] = x^T [in, rows] dy [rows, out]; dx [rows, in] = dy W^T */
    pl_multiply(&pass->products, t->rows, t->columns, rows, (pl_operand){x, t->rows, true},
                (pl_operand){dy, t->columns, false}, NULL, true,
                pl_gradients_of(layer, pass, tensor), t->columns);
    if (dx)
        pl_multiply(&pass->products, rows, t->rows, t->columns, (pl_operand){dy, t->columns, false},
                    (pl_operand){pl_weights_of(layer, pass, tensor), t->columns, true}, NULL, add,
                    dx, t->rows);
}

const char *pl_layer_linear_shape(pl_layer *layer, size_t columns) {
    (void)columns;
    layer->out = layer->in;
    layer->out.width = (size_t)layer->args[0];
    double bound = 1 / sqrt((double)layer->in.width);
    pl_layer_tensor(layer, layer->in.width, layer->out.width, PL_MATRIX, PL_UNIFORM, bound);
    pl_layer_tensor(layer, 1, layer->out.width, PL_VECTOR, PL_UNIFORM, bound);
    return NULL;
}

void pl_layer_linear_forward(const pl_layer *layer, pl_net_pass *pass, const float *x, float *y,
                             float *kept) {
    (void)kept;
    pl_linear_forward(layer, pass, 0, pl_rows(layer->in, &pass->batch->extent), x, y);
}

void pl_layer_linear_backward(const pl_layer *layer, pl_net_pass *pass, const float *x,
                              const float *y, const float *dy, float *dx, float *kept) {
    (void)y, (void)kept;
    pl_linear_backward(layer, pass, 0, pl_rows(layer->in, &pass->batch->extent), x, dy, dx, false);
}

/* ---- relu and its kin; variant: which ---- */

const char *pl_layer_activation_shape(pl_layer *layer, size_t columns) {
    (void)columns;
    layer->out = layer->in;
    return NULL;
}

static size_t numbers(const pl_layer *layer, const pl_net_pass *pass) {
    return pl_rows(layer->in, &pass->batch->extent) * layer->in.width;
}

void pl_layer_activation_forward(const pl_layer *layer, pl_net_pass *pass, const float *x, float *y,
                                 float *kept) {
    (void)kept;
    pass->products.kernels->activate((pl_activation)layer->kind->variant, x, y,
                                     numbers(layer, pass));
}

void pl_layer_activation_backward(const pl_layer *layer, pl_net_pass *pass, const float *x,
                                  const float *y, const float *dy, float *dx, float *kept) {
    (void)y, (void)kept;
    if (dx)
        pass->products.kernels->activate_back((pl_activation)layer->kind->variant, x, dy, dx,
                                              numbers(layer, pass));
}

/* ---- dropout; kept: its key ---- */

const char *pl_layer_dropout_shape(pl_layer *layer, size_t columns) {
    (void)columns;
    layer->out = layer->in;
    return NULL;
}

size_t pl_layer_dropout_kept(const pl_layer *layer, const pl_extent *extent, bool training) {
    (void)layer, (void)extent, (void)training;
    return 1;
}

void pl_layer_dropout_forward(const pl_layer *layer, pl_net_pass *pass, const float *x, float *y,
                              float *kept) {
    uint32_t key = pl_random_u32(&pass->random);
    memcpy(kept, &key, sizeof key);
    pass->products.kernels->drop(key, (float)layer->args[0], x, y, numbers(layer, pass));
}

void pl_layer_dropout_backward(const pl_layer *layer, pl_net_pass *pass, const float *x,
                               const float *y, const float *dy, float *dx, float *kept) {
    (void)x, (void)y;
    uint32_t key;
    memcpy(&key, kept, sizeof key);
    if (dx) pass->products.kernels->drop(key, (float)layer->args[0], dy, dx, numbers(layer, pass));
}
