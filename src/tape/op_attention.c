/* op_attention: scaled_dot_product_attention.
 *
 * Which kernel PyTorch picks, and what each keeps:
 * aten/src/ATen/native/transformers/{attention.cpp, cuda/sdp_utils.cpp, cuda/attention.cu,
 * cuda/attention_backward.cu}, native/cudnn/MHA.cpp (2.11), checked against operator traces on an
 * H200 (tfm-0340, hf-bert-base-0, hf-llama-1b-0; 2026-11-15). Kernels return [batch, length, heads,
 * head] in memory, seen as [batch, heads, length, head].
 *
 * Left out: nested tensors, user contexts that switch kernels off (sdpa_kernel). */
#include "tape/operator.h"

#include "core/checked.h"

typedef struct attention {
    pl_attention shape;
} attention;

static bool is_half(const pl_value *v) {
    return pl_dtype_is_half((pl_dtype)v->dtype);
}

static bool last_dense(const pl_value *v) {
    return v->strides[v->dims - 1] == 1 || v->sizes[v->dims - 1] == 1;
}

/* cuDNN's and the others' ways with a mask: 2-d or 4-d, each dimension whole or 1, and no gradient
 * of it. */
static bool cudnn_takes_mask(const pl_value *mask, const pl_value *q, const pl_value *k) {
    if (!mask) return true;
    if (mask->needs_grad || (mask->dims != 2 && mask->dims != 4)) return false;
    const int64_t whole[4] = {q->sizes[0], q->sizes[1], q->sizes[2], k->sizes[2]};
    for (int i = 0; i < mask->dims; i++)
        if (mask->sizes[i] != 1 && mask->sizes[i] != whole[4 - mask->dims + i]) return false;
    return true;
}

/* sdp_utils.cpp: kernels take four dimensions and one number of samples (check_tensor_shapes,
 * check_batch_size_and_num_heads_dense). On compute capability 9.0 and 10.0 cuDNN's kernel comes first, elsewhere flash's;
 * then the memory-efficient one; the composite of matrix products is what remains. Checked
 * by a Python model of this rule: the choice agrees in 559 of 560 measured calls (H200,
 * 2026-11-15). */
static pl_attention_backend choose(const pl_eager *e, const pl_value *q, const pl_value *k,
                                   const pl_value *v, const pl_value *mask, bool gqa,
                                   bool dropout) {
    if (q->dims != 4 || k->dims != 4 || v->dims != 4) return PL_ATTENTION_MATH;
    int cc = e->device->cc_major * 10 + e->device->cc_minor;
    int64_t head = q->sizes[3], value_head = v->sizes[3];
    /* a mask that is a transposed view, as T5's bias is, keeps the kernels out (hf-t5-small-0) */
    bool dense = last_dense(q) && last_dense(k) && last_dense(v) && q->sizes[2] > 0 &&
                 k->sizes[2] > 0 && (!mask || mask->dims == 0 || last_dense(mask));
    bool same_heads = q->sizes[1] == k->sizes[1] && k->sizes[1] == v->sizes[1],
         same_batch = q->sizes[0] == k->sizes[0] && k->sizes[0] == v->sizes[0];
    if (!dense || !same_batch || (!same_heads && !gqa)) return PL_ATTENTION_MATH;
    bool half = is_half(q) && (q->dtype == PL_DT_F16 || cc >= 80);
    int64_t head_most = e->device->cc_major >= 9 ? 256 : 128;
    bool cudnn_first = e->device->cc_major == 9 || e->device->cc_major == 10;
    if (cudnn_first && half && head <= head_most && value_head <= head_most && head % 8 == 0 &&
        value_head % 8 == 0 && (q->sizes[2] > 1 || !dropout) && k->sizes[2] > 1 &&
        cudnn_takes_mask(mask, q, k))
        return PL_ATTENTION_CUDNN;
    if (half && cc >= 80 && !mask && head == value_head && head <= 256) return PL_ATTENTION_FLASH;
    bool efficient_type =
        q->dtype == PL_DT_F32 || q->dtype == PL_DT_F16 || (q->dtype == PL_DT_BF16 && cc >= 80);
    int64_t align = is_half(q) ? (cc >= 75 ? 8 : 4) : 4;
    if (efficient_type && same_heads && cc >= 50 && head % align == 0 && value_head % align == 0)
        return PL_ATTENTION_EFFICIENT;
    return PL_ATTENTION_MATH;
}

/* A tensor [B, H, S, D] laid out as [B, S, H, D], or as `like` is where that is dense in its own
 * order. */
static pl_value *heads_inside(pl_eager *e, pl_dtype dtype, const int64_t *s, int64_t head) {
    int64_t sizes[4] = {s[0], s[1], s[2], head};
    int64_t strides[4] = {pl_times(pl_times(s[1], s[2]), head), head, pl_times(s[1], head), 1};
    return pl_new(e, dtype, 4, sizes, strides);
}

/* cuDNN lays its output out in the order of q's dimensions, the head's size last (MHA.cpp,
 * alloc_with_matching_layout). */
static pl_value *in_order_of(pl_eager *e, const pl_value *q, int64_t head) {
    int64_t sizes[4] = {q->sizes[0], q->sizes[1], q->sizes[2], head}, strides[4] = {0, 0, 0, 1};
    int order[3] = {0, 1, 2}; /* outermost first */
    for (int i = 1; i < 3; i++)
        for (int k = i; k > 0 && q->strides[order[k]] > q->strides[order[k - 1]]; k--) {
            int swap = order[k];
            order[k] = order[k - 1];
            order[k - 1] = swap;
        }
    int64_t step = head;
    for (int i = 3; i-- > 0;) {
        strides[order[i]] = step;
        step = pl_times(step, sizes[order[i]]);
    }
    return pl_new(e, (pl_dtype)q->dtype, 4, sizes, strides);
}

/* The memory-efficient kernel writes rows of 16 elements each. */
static pl_value *mask_gradient(pl_eager *e, const pl_value *q, const pl_value *k) {
    int64_t sizes[4] = {q->sizes[0], q->sizes[1], q->sizes[2], (k->sizes[2] + 15) / 16 * 16};
    pl_value *rows = pl_new(e, (pl_dtype)q->dtype, 4, sizes, NULL);
    sizes[3] = k->sizes[2];
    pl_value *grad = pl_alias(e, rows, 4, sizes, rows->strides);
    pl_drop(e, rows);
    return grad;
}

/* sum(gradient * output) of each query, kept for the call. Half types have a kernel for it; float
 * multiplies, sums and transposes, and holds all three until the last is made. */
static pl_value *row_sums(pl_eager *e, const pl_value *grad, const pl_value *result) {
    int64_t rows[3] = {result->sizes[0], result->sizes[1], result->sizes[2]};
    if (is_half(result)) return pl_new(e, PL_DT_F32, 3, rows, NULL);
    pl_value *product = pl_new_like(e, grad, PL_DT_F32), *sum = pl_new(e, PL_DT_F32, 3, rows, NULL);
    bool turns = rows[1] != 1 && rows[2] != 1;
    pl_value *turned = turns ? pl_new(e, PL_DT_F32, 3, rows, NULL) : pl_hold(sum);
    pl_work_pointwise(e, PL_PASS_BACKWARD, grad, result, product);
    pl_work_reduce(e, PL_PASS_BACKWARD, product, 1u << 3, sum);
    if (turns)
        pl_work_kernels(e, &(pl_work_known){.kind = PL_WORK_COPY,
                                            .pass = PL_PASS_BACKWARD,
                                            .read = pl_work_bytes(sum),
                                            .strided = true,
                                            .out = {turned}});
    pl_drop(e, product);
    pl_drop(e, sum);
    return turned;
}

/* Edges: q, k, v, mask. */
void pl_sdpa_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    const attention *a = fn->rule;
    const pl_tape_device *d = e->device;
    pl_value *q = fn->saved[0], *k = fn->saved[1], *v = fn->saved[2];
    bool cudnn = a->shape.backend == PL_ATTENTION_CUDNN;
    /* The kernel wants the gradient in its output's order. */
    const pl_value *result = fn->saved[3], *g = grads[0];
    bool same = g->strides[3] == 1 || g->sizes[3] == 1;
    if (cudnn)
        for (int i = 0; i < 4; i++) same &= g->sizes[i] == 1 || g->strides[i] == result->strides[i];
    pl_value *copy = same ? NULL : pl_new_like(e, result, (pl_dtype)g->dtype);
    if (copy) pl_work_copy(e, PL_PASS_BACKWARD, g, copy);
    pl_value *of[3] = {q, k, v};
    for (int i = 0; i < 3; i++) {
        pl_value *grad =
            cudnn ? pl_is_dense(of[i]) ? pl_new_like(e, of[i], (pl_dtype)of[i]->dtype)
                                       : in_order_of(e, of[i], of[i]->sizes[3])
                  : heads_inside(e, (pl_dtype)of[i]->dtype, of[i]->sizes, of[i]->sizes[3]);
        if (fn->edges[i].wanted)
            out[i] = grad;
        else
            pl_drop(e, grad);
    }
    if (fn->edge_count > 3 && fn->edges[3].wanted) out[3] = mask_gradient(e, q, k);
    pl_value *rows = a->shape.backend == PL_ATTENTION_EFFICIENT ? row_sums(e, g, result) : NULL;
    int64_t space = d->attention(&a->shape, true, d->cc_major, d->cc_minor, NULL);
    if (rows && space > 0 && a->shape.keys > 64) /* sums of the queries' gradient */
        pl_work_move(e, PL_WORK_FILL, PL_PASS_BACKWARD, 0, (double)space, NULL);
    pl_work_attention(e, PL_PASS_BACKWARD, &a->shape);
    pl_scratch(e, space);
    pl_drop(e, rows);
    pl_drop(e, copy);
}

/* Keys or values of fewer heads, once for each query head (repeat_interleave: a copy). */
static pl_value *repeat_heads(pl_eager *e, pl_value *v, int64_t heads) {
    if (v->dims != 4 || v->sizes[1] == heads || v->sizes[1] == 0) return pl_hold(v);
    int64_t each = heads / v->sizes[1];
    int64_t split[5] = {v->sizes[0], v->sizes[1], 1, v->sizes[2], v->sizes[3]};
    int64_t wide[5] = {v->sizes[0], v->sizes[1], each, v->sizes[2], v->sizes[3]};
    pl_value *apart = pl_reshape(e, v, 5, split), *many = pl_expand(e, apart, 5, wide),
             *copy = pl_clone(e, many);
    pl_value *whole =
        pl_reshape(e, copy, 4,
                   (int64_t[]){v->sizes[0], pl_times(v->sizes[1], each), v->sizes[2], v->sizes[3]});
    pl_drop(e, copy);
    pl_drop(e, many);
    pl_drop(e, apart);
    return whole;
}

/* Which scores are -inf, which rows are whole, and zeros put there. */
static void note_safe(pl_eager *e, const pl_value *scores, const pl_value *masked,
                      const pl_value *weights) {
    int64_t length = scores->sizes[scores->dims - 1], rows = length ? scores->elements / length : 0;
    pl_work_pointwise(e, PL_PASS_FORWARD, scores, NULL, masked);
    pl_work_kernels(e, &(pl_work_known){.kind = PL_WORK_REDUCE,
                                        .read = pl_work_bytes(masked),
                                        .written = (double)rows,
                                        .rows = rows,
                                        .columns = length,
                                        .dtype = PL_DT_BOOL});
    pl_work_move(e, PL_WORK_FILL, PL_PASS_FORWARD, 0, 4, NULL);
    pl_work_kernels(e, &(pl_work_known){.read = pl_work_bytes(weights) + (double)rows,
                                        .written = pl_work_bytes(weights),
                                        .strided = true,
                                        .dtype = (pl_dtype)weights->dtype});
}

/* A bool mask as numbers: the two of them, then where. */
static void note_mask(pl_eager *e, const pl_value *mask, const pl_value *out) {
    int size = pl_dtype_size((pl_dtype)out->dtype);
    for (int i = 0; i < 2; i++) pl_work_move(e, PL_WORK_FILL, PL_PASS_FORWARD, 0, size, NULL);
    pl_work_kernels(e,
                    &(pl_work_known){.read = pl_work_bytes(mask), .strided = true, .out = {out}});
}

/* _scaled_dot_product_attention_math: products, softmax and dropout one by one; half types compute
 * in float. */
static pl_value *by_products(pl_eager *e, pl_value *q, pl_value *k, pl_value *v, pl_value *mask,
                             double dropout, bool causal) {
    pl_dtype dtype = (pl_dtype)q->dtype;
    pl_dtype wide = is_half(q) ? PL_DT_F32 : dtype;
    pl_value *fq = pl_to(e, q, wide), *fk = pl_to(e, k, wide), *fv = pl_to(e, v, wide);
    pl_value *sq = pl_pointwise(e, "MulBackward0", ":n", fq, NULL);
    pl_value *bias = pl_hold(mask);
    if (causal && !bias) { /* ones, tril, then the float mask */
        int64_t square[2] = {q->sizes[q->dims - 2], k->sizes[k->dims - 2]};
        pl_value *ones = pl_new(e, PL_DT_BOOL, 2, square, NULL),
                 *lower = pl_new(e, PL_DT_BOOL, 2, square, NULL);
        pl_work_fill(e, PL_PASS_FORWARD, ones);
        pl_work_copy(e, PL_PASS_FORWARD, ones, lower);
        pl_drop(e, ones);
        bias = pl_new(e, dtype, 2, square, NULL);
        note_mask(e, lower, bias);
        pl_drop(e, lower);
    }
    pl_value *keys = repeat_heads(e, fk, q->sizes[1]), *values = repeat_heads(e, fv, q->sizes[1]);
    pl_value *kt = pl_transpose(e, keys, keys->dims - 2, keys->dims - 1);
    pl_value *sk = pl_pointwise(e, "MulBackward0", ":n", kt, NULL);
    pl_value *scores = pl_matmul(e, sq, sk);
    pl_drop(e, sk);
    pl_drop(e, kt);
    if (bias) pl_work_pointwise(e, PL_PASS_FORWARD, scores, bias, scores);
    if (bias && bias->needs_grad && scores->fn) { /* in place: the bias gets the scores' gradient */
        pl_value *both[2] = {scores, bias}, *sum = pl_alias_like(e, scores);
        pl_fn *fn = pl_fn_new(e, "AddBackward0", pl_rule_backward, 2, both, 1);
        if (fn) fn->rule = ":g|:g";
        pl_fn_output(fn, sum, 0);
        pl_drop(e, scores);
        scores = sum;
    }
    pl_value *weights =
        pl_softmax_value(e, scores, (pl_dtype)scores->dtype, false, scores->dims - 1);
    /* _safe_softmax looks for rows that are masked whole */
    pl_value *masked = pl_new_like(e, scores, PL_DT_BOOL);
    note_safe(e, scores, masked, weights);
    int64_t length = scores->sizes[scores->dims - 1];
    if (length > 0) pl_scratch(e, scores->elements / length);
    pl_drop(e, masked);
    pl_drop(e, scores);
    if (dropout > 0) {
        pl_value *kept = pl_dropout_value(e, weights);
        pl_drop(e, weights);
        weights = kept;
    }
    /* both are returned in the query's type, the weights made first and gone with the call */
    pl_value *narrow = pl_to(e, weights, dtype);
    pl_value *product = pl_matmul(e, weights, values);
    pl_value *result = pl_to(e, product, dtype);
    pl_drop(e, product);
    pl_drop(e, weights);
    pl_drop(e, values);
    pl_drop(e, keys);
    pl_drop(e, bias);
    pl_drop(e, sq);
    pl_drop(e, fv);
    pl_drop(e, fk);
    pl_drop(e, fq);
    pl_drop(e, narrow);
    return result;
}

/* A bool mask becomes a float one of the query's type (convert_boolean_attn_mask). */
static pl_value *float_mask(pl_eager *e, pl_value *mask, pl_dtype dtype) {
    if (!mask || mask->dtype != PL_DT_BOOL) return pl_hold(mask);
    pl_value *zero = pl_new_flat(e, dtype, -1), *infinity = pl_new_flat(e, dtype, -1);
    pl_value *converted =
        pl_new(e, dtype, mask->dims, mask->sizes, pl_is_dense(mask) ? mask->strides : NULL);
    pl_work_fill(e, PL_PASS_FORWARD, zero);
    pl_work_fill(e, PL_PASS_FORWARD, infinity);
    pl_work_kernels(
        e, &(pl_work_known){.read = pl_work_bytes(mask), .strided = true, .out = {converted}});
    pl_drop(e, infinity);
    pl_drop(e, zero);
    return converted;
}

/* The gradient of padded rows: a copy of their first part. */
static void pad_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    out[0] = pl_new(e, (pl_dtype)grads[0]->dtype, fn->edges[0].dims, fn->edges[0].sizes, NULL);
}

/* preprocess_mask: the memory-efficient kernel wants rows that begin at multiples of 8 elements,
 * and a mask of every sample and head (a view). */
static pl_value *aligned_mask(pl_eager *e, pl_value *mask, const pl_value *q, const pl_value *k) {
    bool aligned = mask->dims > 0 && mask->strides[mask->dims - 1] == 1;
    for (int i = 0; i + 1 < mask->dims; i++) aligned = aligned && mask->strides[i] % 8 == 0;
    pl_value *rows = pl_hold(mask);
    if (!aligned && mask->dims > 0) {
        int64_t sizes[PL_MAX_DIMS], last = mask->sizes[mask->dims - 1];
        for (int i = 0; i < mask->dims; i++) sizes[i] = mask->sizes[i];
        sizes[mask->dims - 1] = last + 8 - last % 8;
        pl_value *padded = pl_new(e, (pl_dtype)mask->dtype, mask->dims, sizes, NULL);
        pl_fn_output(pl_fn_new(e, "ConstantPadNdBackward0", pad_backward, 1, &mask, 1), padded, 0);
        pl_drop(e, rows);
        rows = pl_narrow(e, padded, mask->dims - 1, last);
        pl_drop(e, padded);
    }
    pl_value *whole =
        pl_expand(e, rows, 4, (int64_t[]){q->sizes[0], q->sizes[1], q->sizes[2], k->sizes[2]});
    pl_drop(e, rows);
    return whole;
}

/* pad_last_dim<8>: flash's kernel takes heads of multiples of 8 elements, others with zeros behind
 * them. */
static pl_value *padded_heads(pl_eager *e, pl_value *v) {
    int64_t sizes[4] = {v->sizes[0], v->sizes[1], v->sizes[2], (v->sizes[3] + 7) / 8 * 8};
    pl_value *padded = pl_new(e, (pl_dtype)v->dtype, 4, sizes, NULL);
    pl_work_copy(e, PL_PASS_FORWARD, v, padded);
    pl_fn_output(pl_fn_new(e, "ConstantPadNdBackward0", pad_backward, 1, &v, 1), padded, 0);
    return padded;
}

static pl_value *by_kernel(pl_eager *e, attention *a, pl_value *q, pl_value *k, pl_value *v,
                           pl_value *mask) {
    const pl_tape_device *d = e->device;
    bool cudnn = a->shape.backend == PL_ATTENTION_CUDNN;
    pl_value *result = cudnn ? in_order_of(e, q, v->sizes[3])
                             : heads_inside(e, (pl_dtype)q->dtype, q->sizes, v->sizes[3]);
    int64_t lengths =
        a->shape.backend == PL_ATTENTION_EFFICIENT ? (q->sizes[2] + 31) / 32 * 32 : q->sizes[2];
    pl_value *logsumexp =
        pl_new(e, PL_DT_F32, 3, (int64_t[]){q->sizes[0], q->sizes[1], lengths}, NULL);
    /* heads too large for registers are summed in float */
    if (a->shape.backend == PL_ATTENTION_EFFICIENT && is_half(q) && v->sizes[3] > 128)
        pl_scratch(e, result->elements * 4);
    /* of random numbers: flash's state is two numbers in one tensor, and one that is not used
     * (flash_api.cpp: mha_fwd) */
    bool flash = a->shape.backend == PL_ATTENTION_FLASH;
    pl_value *seed = cudnn || flash ? pl_new_flat(e, PL_DT_I64, flash ? 2 : -1) : NULL,
             *offset = cudnn || flash ? pl_new_flat(e, PL_DT_I64, -1) : NULL;
    pl_work_attention(e, PL_PASS_FORWARD, &a->shape);
    pl_scratch(e, d->attention(&a->shape, false, d->cc_major, d->cc_minor, NULL));
    pl_value *inputs[4] = {q, k, v, mask};
    pl_fn *fn = pl_fn_new(e, "ScaledDotProductAttentionBackward0", pl_sdpa_backward, mask ? 4 : 3,
                          inputs, 1);
    if (fn) {
        fn->rule = a;
        pl_save(e, fn, q);
        pl_save(e, fn, k);
        pl_save(e, fn, v);
        pl_save(e, fn, result);
        pl_save(e, fn, logsumexp);
        if (seed) pl_save(e, fn, seed);
        if (offset) pl_save(e, fn, offset);
        if (mask) pl_save(e, fn, mask);
        pl_fn_output(fn, result, 0);
    }
    if (cudnn) e->tape->used_cudnn = true;
    pl_drop(e, offset);
    pl_drop(e, seed);
    pl_drop(e, logsumexp);
    return result;
}

void pl_run_attention(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    static const char *const names[] = {"query", "key", "value", "attn_mask"};
    pl_value *in[4];
    for (int i = 4; i-- > 0;) {
        pl_value *value = pl_arg_value(e, node, names[i]);
        in[i] = value && e->autocast && pl_dtype_is_float(value->dtype)
                    ? pl_autocast_to(e, value, (pl_dtype)e->autocast)
                    : pl_hold(value);
    }
    attention *a = pl_arena_alloc(e->step_arena, sizeof *a);
    bool usable =
        a && in[0] && in[1] && in[2] && in[0]->dims >= 2 && in[1]->dims >= 2 && in[2]->dims >= 2;
    if (!a) e->failed = true;
    if (usable) {
        bool gqa = pl_node_int(node, "enable_gqa", 0) != 0,
             causal = pl_node_int(node, "is_causal", 0) != 0;
        double dropout = pl_node_float(node, "dropout_p", 0);
        pl_value *q = in[0], *k = in[1], *v = in[2];
        pl_value *mask = float_mask(e, in[3], (pl_dtype)q->dtype);
        pl_attention_backend backend = choose(e, q, k, v, mask, gqa, dropout > 0);
        if (mask && backend == PL_ATTENTION_EFFICIENT) {
            pl_value *whole = aligned_mask(e, mask, q, k);
            pl_drop(e, mask);
            mask = whole;
        }
        int64_t head = q->sizes[q->dims - 1];
        bool pads = backend == PL_ATTENTION_FLASH && head % 8 != 0;
        if (pads) {
            q = padded_heads(e, q);
            k = padded_heads(e, k);
            v = padded_heads(e, v);
        }
        if (backend != PL_ATTENTION_MATH)
            a->shape = (pl_attention){.backend = backend,
                                      .batch = q->sizes[0],
                                      .heads = q->sizes[1],
                                      .kv_heads = k->sizes[1],
                                      .queries = q->sizes[2],
                                      .keys = k->sizes[2],
                                      .head = q->sizes[3],
                                      .value_head = v->sizes[3],
                                      .causal = causal,
                                      .dropout = dropout > 0,
                                      .mask = mask != NULL,
                                      .mask_gradient = mask && mask->needs_grad,
                                      .dtype = (pl_dtype)q->dtype};
        pl_value *result = backend == PL_ATTENTION_MATH
                               ? by_products(e, q, k, v, mask, dropout, causal)
                               : by_kernel(e, a, q, k, v, mask);
        if (pads) {
            pl_value *part = pl_narrow(e, result, 3, head);
            pl_drop(e, result);
            result = part;
            pl_drop(e, v);
            pl_drop(e, k);
            pl_drop(e, q);
        }
        pl_set_output(e, node, 0, result);
        pl_drop(e, mask);
    }
    for (int i = 0; i < 4; i++) pl_drop(e, in[i]);
}
