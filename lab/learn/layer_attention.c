/* layer_attention: multi-head self-attention within each sample's sequence (Vaswani et al. 2017),
 * with a key width of its own: 4 heads of 32 channels may stand on an input of 10. The linear
 * layers before and behind it start as those of PyTorch's nn.MultiheadAttention.
 *
 * For a head of a sample with T steps: P [T, T] = softmax(Q K^T / sqrt(key)), O [T, key] = P V. Q,
 * K and V lie side by side in rows of 3 heads * key numbers. When predicting, P is made 64 rows at
 * a time and never whole. */
#include "lab/learn/layer.h"
#include "lab/learn/random.h"

#include <math.h>
#include <string.h>

enum { QUERIES = 64 };
enum { CAUSAL = 1, RESIDUAL = 2 }; /* words; residual: what goes in is added to what comes out */

void pl_attention_tensors(pl_layer *layer, size_t width, size_t heads, size_t key) {
    size_t inner = heads * key;
    double bound = sqrt(6.0 / (double)(width + 3 * inner)); /* Glorot's */
    pl_layer_tensor(layer, width, 3 * inner, PL_MATRIX, PL_UNIFORM, bound);
    pl_layer_tensor(layer, 1, 3 * inner, PL_VECTOR, PL_ZERO, 0);
    pl_layer_tensor(layer, inner, width, PL_MATRIX, PL_UNIFORM, 1 / sqrt((double)inner));
    pl_layer_tensor(layer, 1, width, PL_VECTOR, PL_ZERO, 0);
}

/* What forward keeps: key of the dropout, QKV [rows, 3 inner], O [rows, inner] and, training, every
 * P [heads, T, T] of every sample. */
typedef struct kept_parts {
    float *key, *qkv, *o, *p;
} kept_parts;

static kept_parts carve(const pl_net_attention *a, const pl_extent *extent, float *kept) {
    size_t inner = a->heads * a->key;
    kept_parts parts = {.key = kept, .qkv = kept + 1};
    parts.o = parts.qkv + extent->rows * 3 * inner;
    parts.p = parts.o + extent->rows * inner;
    return parts;
}

size_t pl_attention_kept(const pl_net_attention *a, const pl_extent *extent, bool training) {
    return 1 + extent->rows * 4 * a->heads * a->key + (training ? a->heads * extent->squares : 0);
}

/* Forward: panels of K^T and of V, and some rows of P or, training, all of its dropped ones.
 * Backward: dO [rows, inner], dQKV [rows, 3 inner], dP and the dropped P [T, T] each. */
size_t pl_attention_scratch(const pl_net_attention *a, const pl_extent *extent, bool training) {
    size_t longest = extent->longest, inner = a->heads * a->key;
    size_t forward = pl_panels_size(a->key, longest) + pl_panels_size(longest, a->key) +
                     (training ? longest : QUERIES) * longest;
    size_t backward = training ? extent->rows * 4 * inner + 2 * longest * longest : 0;
    return forward > backward ? forward : backward;
}

/* Of the dropout of one head of one sample. */
static uint32_t head_key(const float *kept, size_t sample, size_t head, size_t heads) {
    uint32_t key;
    memcpy(&key, kept, sizeof key);
    return key + (uint32_t)(sample * heads + head) * 0x85ebca6bu;
}

/* Scores to shares; row r of a causal head sees the steps up to r. */
static void shares(const pl_kernels *k, const pl_net_attention *a, float *p, size_t first,
                   size_t rows, size_t steps, float scale) {
    for (size_t r = 0; r < rows; r++, p += steps) {
        size_t seen = a->causal ? first + r + 1 : steps;
        k->softmax(p, seen, scale);
        memset(p + seen, 0, (steps - seen) * sizeof *p);
    }
}

void pl_attention_forward(const pl_layer *layer, const pl_net_attention *a, pl_net_pass *pass,
                          const float *x, float *y, float *kept) {
    const pl_kernels *k = pass->products.kernels;
    const pl_batch *batch = pass->batch;
    size_t key = a->key, inner = a->heads * key, row = 3 * inner;
    kept_parts at = carve(a, &batch->extent, kept);
    float scale = 1 / sqrtf((float)key);
    bool drop = pass->training && a->dropout > 0;
    uint32_t random = drop ? pl_random_u32(&pass->random) : 0;
    memcpy(at.key, &random, sizeof random);
    pl_linear_forward(layer, pass, a->first, batch->extent.rows, x, at.qkv);

    float *k_panels = pass->scratch;
    float *v_panels = k_panels + pl_panels_size(key, batch->extent.longest);
    float *room = v_panels + pl_panels_size(batch->extent.longest, key); /* P, or P dropped */
    float *p = at.p;
    for (size_t i = 0; i < batch->extent.count; i++) {
        size_t from = batch->begin[i], steps = batch->begin[i + 1] - from;
        size_t rows = pass->training ? steps : QUERIES;
        for (size_t h = 0; h < a->heads && steps; h++) {
            const float *q = at.qkv + from * row + h * key;
            pl_panels_pack(q + inner, row, true, key, steps, k_panels);
            pl_panels_pack(q + 2 * inner, row, false, steps, key, v_panels);
            for (size_t first = 0; first < steps; first += rows) {
                size_t m = steps - first < rows ? steps - first : rows;
                float *here = pass->training ? p : room;
                k->multiply(m, steps, key, q + first * row, row, 1, k_panels, NULL, false, here,
                            steps);
                shares(k, a, here, first, m, steps, scale);
                if (drop) {
                    k->drop(head_key(at.key, i, h, a->heads), a->dropout, here, room, m * steps);
                    here = room;
                }
                k->multiply(m, key, steps, here, steps, 1, v_panels, NULL, false,
                            at.o + (from + first) * inner + h * key, inner);
            }
            p += steps * steps; /* not read when not training */
        }
    }
    pl_linear_forward(layer, pass, a->first + 2, batch->extent.rows, at.o, y);
}

void pl_attention_backward(const pl_layer *layer, const pl_net_attention *a, pl_net_pass *pass,
                           const float *x, const float *dy, float *dx, float *kept,
                           float *scratch) {
    const pl_kernels *k = pass->products.kernels;
    const pl_products *with = &pass->products;
    const pl_batch *batch = pass->batch;
    size_t key = a->key, inner = a->heads * key, row = 3 * inner, rows = batch->extent.rows;
    size_t most = batch->extent.longest * batch->extent.longest;
    kept_parts at = carve(a, &batch->extent, kept);
    float scale = 1 / sqrtf((float)key);
    float *d_o = scratch, *d_qkv = d_o + rows * inner, *dp = d_qkv + rows * row, *room = dp + most;

    pl_linear_backward(layer, pass, a->first + 2, rows, at.o, dy, d_o, false);
    const float *p = at.p;
    for (size_t i = 0; i < batch->extent.count; i++) {
        size_t from = batch->begin[i], steps = batch->begin[i + 1] - from;
        for (size_t h = 0; h < a->heads && steps; h++, p += steps * steps) {
            const float *q = at.qkv + from * row + h * key;
            const float *d = d_o + from * inner + h * key;
            float *dq = d_qkv + from * row + h * key;
            const float *dropped = p;
            uint32_t random = head_key(at.key, i, h, a->heads);
            if (a->dropout > 0) {
                k->drop(random, a->dropout, p, room, steps * steps);
                dropped = room;
            }
            /* dV = P^T dO; dP = dO V^T */
            pl_multiply(with, steps, key, steps, (pl_operand){dropped, steps, true},
                        (pl_operand){d, inner, false}, NULL, false, dq + 2 * inner, row);
            pl_multiply(with, steps, steps, key, (pl_operand){d, inner, false},
                        (pl_operand){q + 2 * inner, row, true}, NULL, false, dp, steps);
            if (a->dropout > 0) k->drop(random, a->dropout, dp, dp, steps * steps);
            for (size_t r = 0; r < steps; r++) /* where P is 0 by causality, dS is too */
                k->softmax_back(p + r * steps, dp + r * steps, dp + r * steps, steps, scale);
            /* dQ = dS K; dK = dS^T Q */
            pl_multiply(with, steps, key, steps, (pl_operand){dp, steps, false},
                        (pl_operand){q + inner, row, false}, NULL, false, dq, row);
            pl_multiply(with, steps, key, steps, (pl_operand){dp, steps, true},
                        (pl_operand){q, row, false}, NULL, false, dq + inner, row);
        }
    }
    pl_linear_backward(layer, pass, a->first, rows, x, d_qkv, dx, false);
}

/* ---- attention: alone, without what an encoder puts around it ---- */

static pl_net_attention attention_of(const pl_layer *layer) {
    size_t heads = (size_t)layer->args[0], key = (size_t)layer->args[1];
    return (pl_net_attention){.heads = heads,
                              .key = key ? key : layer->in.width / heads,
                              .dropout = (float)layer->args[2],
                              .causal = layer->words & CAUSAL};
}

const char *pl_layer_attention_shape(pl_layer *layer, size_t columns) {
    (void)columns;
    if (layer->args[1] == 0 && layer->in.width % (size_t)layer->args[0] != 0)
        return "the heads do not divide the width: say how wide a head's keys are";
    pl_net_attention a = attention_of(layer);
    if (a.heads * a.key > PL_WIDTH_MOST) return "its heads side by side are too wide";
    layer->out = layer->in;
    pl_attention_tensors(layer, layer->in.width, a.heads, a.key);
    return NULL;
}

size_t pl_layer_attention_kept(const pl_layer *layer, const pl_extent *extent, bool training) {
    pl_net_attention a = attention_of(layer);
    return pl_attention_kept(&a, extent, training);
}

size_t pl_layer_attention_scratch(const pl_layer *layer, const pl_extent *extent, bool training) {
    pl_net_attention a = attention_of(layer);
    return pl_attention_scratch(&a, extent, training);
}

void pl_layer_attention_forward(const pl_layer *layer, pl_net_pass *pass, const float *x, float *y,
                                float *kept) {
    pl_net_attention a = attention_of(layer);
    pl_attention_forward(layer, &a, pass, x, y, kept);
    if (layer->words & RESIDUAL)
        pass->products.kernels->add_scaled(y, x, 1, pass->batch->extent.rows * layer->in.width);
}

void pl_layer_attention_backward(const pl_layer *layer, pl_net_pass *pass, const float *x,
                                 const float *y, const float *dy, float *dx, float *kept) {
    (void)y;
    pl_net_attention a = attention_of(layer);
    pl_attention_backward(layer, &a, pass, x, dy, dx, kept, pass->scratch);
    if (dx && layer->words & RESIDUAL)
        pass->products.kernels->add_scaled(dx, dy, 1, pass->batch->extent.rows * layer->in.width);
}
