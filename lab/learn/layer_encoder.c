/* layer_encoder: a Transformer's encoder layer, as PyTorch's nn.TransformerEncoderLayer.
 *
 *     n = norm1(x + drop(attention(x)))      y = norm2(n + drop(linear2(drop(f(linear1(n))))))
 *
 * and with the word `pre` (norm_first):
 *
 *     a = x + drop(attention(norm1(x)))      y = a + drop(linear2(drop(f(linear1(norm2(a))))))
 *
 * f is ReLU, with the word `gelu` GELU; the attention's shares are dropped too. */
#include "lab/learn/layer.h"
#include "lab/learn/random.h"

#include <math.h>
#include <string.h>

enum { ATTENTION = 0, NORM1 = 4, LINEAR1 = 6, LINEAR2 = 8, NORM2 = 10 }; /* tensors */
enum { PRE = 1, GELU = 2, CAUSAL = 4 };                                  /* words */

static pl_net_attention attention_of(const pl_layer *layer) {
    size_t heads = (size_t)layer->args[0], key = (size_t)layer->args[3];
    return (pl_net_attention){.heads = heads,
                              .key = key ? key : layer->in.width / heads,
                              .first = ATTENTION,
                              .dropout = (float)layer->args[2],
                              .causal = layer->words & CAUSAL};
}

const char *pl_layer_encoder_shape(pl_layer *layer, size_t columns) {
    (void)columns;
    size_t width = layer->in.width, inner = (size_t)layer->args[1];
    if (layer->args[3] == 0 && width % (size_t)layer->args[0] != 0)
        return "the heads do not divide the width: say how wide a head's keys are";
    pl_net_attention a = attention_of(layer);
    if (a.heads * a.key > PL_WIDTH_MOST) return "its heads side by side are too wide";
    layer->out = layer->in;
    pl_attention_tensors(layer, width, a.heads, a.key);
    double in = 1 / sqrt((double)width), out = 1 / sqrt((double)inner);
    pl_layer_tensor(layer, 1, width, PL_VECTOR, PL_ONE, 0);
    pl_layer_tensor(layer, 1, width, PL_VECTOR, PL_ZERO, 0);
    pl_layer_tensor(layer, width, inner, PL_MATRIX, PL_UNIFORM, in);
    pl_layer_tensor(layer, 1, inner, PL_VECTOR, PL_UNIFORM, in);
    pl_layer_tensor(layer, inner, width, PL_MATRIX, PL_UNIFORM, out);
    pl_layer_tensor(layer, 1, width, PL_VECTOR, PL_UNIFORM, out);
    pl_layer_tensor(layer, 1, width, PL_VECTOR, PL_ONE, 0);
    pl_layer_tensor(layer, 1, width, PL_VECTOR, PL_ZERO, 0);
    return NULL;
}

/* What forward keeps, beside the attention's. */
typedef struct kept_parts {
    float *keys;   /* [3] of the dropouts: behind attention, within, behind the linear layers */
    float *stats1; /* [rows, 2] */
    float *stats2; /* [rows, 2] */
    float *sum1;   /* [rows, width]: x + attention */
    float *n;      /* [rows, width]: what linear1 sees */
    float *other;  /* [rows, width]: what norm2 sees; with `pre` what attention sees */
    float *before; /* [rows, inner]: linear1's */
    float *after;  /* [rows, inner]: f of it, dropped; when predicting the same as before */
    float *attention;
} kept_parts;

static kept_parts carve(const pl_layer *layer, size_t rows, bool training, float *kept) {
    size_t width = layer->in.width, inner = (size_t)layer->args[1];
    kept_parts at = {.keys = kept, .stats1 = kept + 3};
    at.stats2 = at.stats1 + rows * 2;
    at.sum1 = at.stats2 + rows * 2;
    at.n = at.sum1 + rows * width;
    at.other = at.n + rows * width;
    at.before = at.other + rows * width;
    at.after = training ? at.before + rows * inner : at.before;
    at.attention = at.after + rows * inner;
    return at;
}

size_t pl_layer_encoder_kept(const pl_layer *layer, const pl_extent *extent, bool training) {
    pl_net_attention a = attention_of(layer);
    return 3 +
           extent->rows * (4 + 3 * layer->in.width + (training ? 2 : 1) * (size_t)layer->args[1]) +
           pl_attention_kept(&a, extent, training);
}

/* Backward: four of [rows, width], one of [rows, inner], and the attention's. */
size_t pl_layer_encoder_scratch(const pl_layer *layer, const pl_extent *extent, bool training) {
    pl_net_attention a = attention_of(layer);
    size_t own = training ? extent->rows * (4 * layer->in.width + (size_t)layer->args[1]) : 0;
    return own + pl_attention_scratch(&a, extent, training);
}

static pl_activation function_of(const pl_layer *layer) {
    return layer->words & GELU ? PL_GELU : PL_RELU;
}

/* y = drop(x) where training; the key is kept. */
static void drop(const pl_layer *layer, pl_net_pass *pass, float *key, float *x, size_t count) {
    if (!pass->training || layer->args[2] == 0) return;
    uint32_t random = pl_random_u32(&pass->random);
    memcpy(key, &random, sizeof random);
    pass->products.kernels->drop(random, (float)layer->args[2], x, x, count);
}

static void drop_back(const pl_layer *layer, const pl_net_pass *pass, const float *key,
                      const float *dy, float *dx, size_t count) {
    if (layer->args[2] == 0) {
        if (dx != dy) memcpy(dx, dy, count * sizeof *dx);
        return;
    }
    uint32_t random;
    memcpy(&random, key, sizeof random);
    pass->products.kernels->drop(random, (float)layer->args[2], dy, dx, count);
}

/* y = n + drop(linear2(drop(f(linear1(n))))), without "n +". */
static void feed_forward(const pl_layer *layer, pl_net_pass *pass, const kept_parts *at,
                         size_t rows, float *y) {
    size_t inner = (size_t)layer->args[1];
    pl_linear_forward(layer, pass, LINEAR1, rows, at->n, at->before);
    pass->products.kernels->activate(function_of(layer), at->before, at->after, rows * inner);
    drop(layer, pass, at->keys + 1, at->after, rows * inner);
    pl_linear_forward(layer, pass, LINEAR2, rows, at->after, y);
    drop(layer, pass, at->keys + 2, y, rows * layer->in.width);
}

void pl_layer_encoder_forward(const pl_layer *layer, pl_net_pass *pass, const float *x, float *y,
                              float *kept) {
    const pl_kernels *k = pass->products.kernels;
    size_t rows = pass->batch->extent.rows, count = rows * layer->in.width;
    kept_parts at = carve(layer, rows, pass->training, kept);
    pl_net_attention a = attention_of(layer);
    bool pre = layer->words & PRE;
    if (pre) pl_norm_forward(layer, pass, NORM1, rows, x, at.other, at.stats1);
    pl_attention_forward(layer, &a, pass, pre ? at.other : x, at.sum1, at.attention);
    drop(layer, pass, at.keys, at.sum1, count);
    k->add(at.sum1, x, count);
    if (pre) {
        pl_norm_forward(layer, pass, NORM2, rows, at.sum1, at.n, at.stats2);
        feed_forward(layer, pass, &at, rows, y);
        k->add(y, at.sum1, count);
        return;
    }
    pl_norm_forward(layer, pass, NORM1, rows, at.sum1, at.n, at.stats1);
    feed_forward(layer, pass, &at, rows, at.other);
    k->add(at.other, at.n, count);
    pl_norm_forward(layer, pass, NORM2, rows, at.other, y, at.stats2);
}

void pl_layer_encoder_backward(const pl_layer *layer, pl_net_pass *pass, const float *x,
                               const float *y, const float *dy, float *dx, float *kept) {
    (void)y;
    const pl_kernels *k = pass->products.kernels;
    size_t rows = pass->batch->extent.rows, width = layer->in.width, count = rows * width;
    size_t inner = (size_t)layer->args[1];
    kept_parts at = carve(layer, rows, true, kept);
    pl_net_attention a = attention_of(layer);
    bool pre = layer->words & PRE;
    float *ds = pass->scratch;   /* [rows, width]: of the second sum; later of the first */
    float *dn = ds + count;      /* [rows, width]: of what linear1 sees */
    float *d = dn + count;       /* [rows, width]: behind a dropout */
    float *spare = d + count;    /* [rows, width]: dx where no one wants it */
    float *d_in = spare + count; /* [rows, inner] */
    float *rest = d_in + rows * inner;
    if (!dx) dx = spare;

    if (pre)
        memcpy(ds, dy, count * sizeof *ds);
    else
        pl_norm_backward(layer, pass, NORM2, rows, at.other, at.stats2, dy, ds);
    drop_back(layer, pass, at.keys + 2, ds, d, count);
    pl_linear_backward(layer, pass, LINEAR2, rows, at.after, d, d_in, false);
    drop_back(layer, pass, at.keys + 1, d_in, d_in, rows * inner);
    k->activate_back(function_of(layer), at.before, d_in, d_in, rows * inner);
    pl_linear_backward(layer, pass, LINEAR1, rows, at.n, d_in, dn, false);
    if (pre) {
        pl_norm_backward(layer, pass, NORM2, rows, at.sum1, at.stats2, dn, d);
        k->add(ds, d, count);
        drop_back(layer, pass, at.keys, ds, d, count);
        pl_attention_backward(layer, &a, pass, at.other, d, dn, at.attention, rest);
        pl_norm_backward(layer, pass, NORM1, rows, x, at.stats1, dn, dx);
    } else {
        k->add(dn, ds, count);
        pl_norm_backward(layer, pass, NORM1, rows, at.sum1, at.stats1, dn, ds);
        drop_back(layer, pass, at.keys, ds, d, count);
        pl_attention_backward(layer, &a, pass, x, d, dx, at.attention, rest);
    }
    k->add(dx, ds, count);
}
