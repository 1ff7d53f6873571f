/* replay_rules: what operators below autograd allocate on a card beside their outputs.
 *
 * The same facts as in the op_*.c files, which hold them for operators above autograd; sources are
 * named there. Checked operator by operator against operator traces (bytes before, after and most
 * inside; 2026-11-15, PyTorch 2.11, H200). Arguments are read by position: tensors among an event's
 * inputs, the rest among its attributes.
 *
 * Left out: what is small (semaphores, scalars) and not in a recorded trace. */
#include "tape/replay.h"

#include <stdlib.h>
#include <string.h>

#include "core/checked.h"

/* ---- arguments ---- */

/* Tensor input or output i as a value without storage; false: None, or not on the card. */
static bool value_of(const pl_replay *r, const int32_t *list, uint32_t count, uint32_t i,
                     pl_value *out) {
    if (i >= count || list[i] < 0) return false;
    const pl_trace_tensor *t = &r->trace->tensors[list[i]];
    *out = (pl_value){.sizes = t->sizes,
                      .strides = t->strides,
                      .dims = t->dims,
                      .dtype = (uint8_t)t->dtype,
                      .leaf = -1,
                      .elements = 1};
    for (int d = 0; d < t->dims; d++) out->elements *= t->sizes[d];
    return true;
}

static bool in(const pl_replay *r, uint32_t i, pl_value *out) {
    return value_of(r, r->event->inputs, r->event->input_count, i, out);
}

static bool out_of(const pl_replay *r, uint32_t i, pl_value *out) {
    return value_of(r, r->event->outputs, r->event->output_count, i, out);
}

static bool has_output(const pl_replay *r, uint32_t i) {
    return i < r->event->output_count && r->event->outputs[i] >= 0;
}

static const pl_arg *attribute(const pl_replay *r, uint32_t i) {
    return i < r->event->attribute_count ? &r->event->attributes[i] : NULL;
}

static int64_t int_at(const pl_replay *r, uint32_t i, int64_t otherwise) {
    const pl_arg *arg = attribute(r, i);
    return arg && (arg->kind == PL_ARG_INT || arg->kind == PL_ARG_BOOL) ? arg->i : otherwise;
}

static double float_at(const pl_replay *r, uint32_t i) {
    const pl_arg *arg = attribute(r, i);
    return !arg                        ? 0
           : arg->kind == PL_ARG_FLOAT ? arg->f
           : arg->kind == PL_ARG_INT   ? (double)arg->i
                                       : 0;
}

/* Element k of a list; a single number stands for all. */
static int64_t nth(const pl_replay *r, uint32_t i, int k, int64_t otherwise) {
    const pl_arg *arg = attribute(r, i);
    if (!arg) return otherwise;
    if (arg->kind == PL_ARG_INT) return arg->i;
    if (arg->kind != PL_ARG_INTS || arg->count == 0) return otherwise;
    return arg->ints[(uint32_t)k < arg->count ? (uint32_t)k : arg->count - 1];
}

/* ---- blocks ---- */

static void births(pl_replay *r) {
    for (uint32_t i = 0; i < r->event->output_count; i++) pl_replay_birth(r, i, -1);
}

static int32_t take(pl_replay *r, int64_t bytes) {
    return pl_block_new(&r->e, bytes);
}

static int32_t workspace(pl_replay *r, int64_t bytes) {
    uint8_t kind = r->e.kind;
    r->e.kind = PL_WORKSPACE;
    int32_t block = pl_block_new(&r->e, bytes);
    r->e.kind = kind;
    return block;
}

static void give(pl_replay *r, int32_t block) {
    pl_block_gone(&r->e, block);
}

/* A copy in another order, for the length of the call. */
static int32_t copy_of(pl_replay *r, const pl_value *v) {
    double bytes = (double)pl_value_bytes(v);
    pl_work_kernels(&r->e, &(pl_work_known){.kind = PL_WORK_COPY,
                                            .pass = pl_work_pass(&r->e),
                                            .read = pl_work_bytes(v),
                                            .written = bytes,
                                            .strided = true,
                                            .dtype = (pl_dtype)v->dtype});
    return take(r, pl_value_bytes(v));
}

/* input.contiguous(): the copy's block, 0 where none is needed. */
static int32_t contiguous(pl_replay *r, uint32_t i) {
    pl_value v;
    return in(r, i, &v) && !pl_is_contiguous(&v) ? copy_of(r, &v) : 0;
}

/* ---- copies alone ---- */

/* The first input made contiguous for the length of the call. */
static void copies_first(pl_replay *r) {
    int32_t copy = contiguous(r, 0);
    births(r);
    give(r, copy);
}

static void copies_first_two(pl_replay *r) {
    int32_t a = contiguous(r, 0), b = contiguous(r, 1);
    births(r);
    give(r, b);
    give(r, a);
}

static void copies_second(pl_replay *r) {
    int32_t copy = contiguous(r, 1);
    births(r);
    give(r, copy);
}

/* Both at the output's size in the output's type, e.g. cumsum of bools. */
static void casts_first(pl_replay *r) {
    pl_value x, y;
    bool casts = in(r, 0, &x) && out_of(r, 0, &y) && x.dtype != y.dtype;
    int32_t cast = casts ? take(r, x.elements * pl_dtype_size(y.dtype)) : 0;
    births(r);
    give(r, cast);
}

/* native_dropout: the mask before the result. */
static void dropout(pl_replay *r) {
    pl_replay_birth(r, 1, -1);
    pl_replay_birth(r, 0, -1);
}

/* ---- products ---- */

/* In backward: of a parameter, or of what it was given. */
static pl_pass gradient_pass(const pl_replay *r, uint32_t output) {
    if (r->event->function < 0) return PL_PASS_FORWARD;
    int32_t storage = r->trace->tensors[r->event->outputs[output]].storage;
    return r->trace->storages[storage].kind == PL_GRADIENTS ? PL_PASS_BACKWARD_WEIGHT
                                                            : PL_PASS_BACKWARD;
}

/* As operand_copy in op_matrix.c. */
static int32_t operand(pl_replay *r, uint32_t i) {
    pl_value m;
    if (!in(r, i, &m) || m.dims < 2 || m.elements == 0) return 0;
    int row = m.dims - 2, column = m.dims - 1;
    bool rows =
        m.strides[column] == 1 && m.strides[row] >= (m.sizes[column] > 1 ? m.sizes[column] : 1);
    bool columns =
        m.strides[row] == 1 && m.strides[column] >= (m.sizes[row] > 1 ? m.sizes[row] : 1);
    return rows || columns ? 0 : copy_of(r, &m);
}

static void product_of(pl_replay *r, uint32_t a, bool lt) {
    births(r);
    int32_t first = operand(r, a), second = operand(r, a + 1);
    pl_value x, y, z;
    if (in(r, a, &x) && in(r, a + 1, &y) && out_of(r, 0, &z) && x.dims >= 2 && x.dims == y.dims)
        pl_work_product(&r->e, gradient_pass(r, 0), &x, &y, &z, lt);
    if (lt)
        pl_blas_lt(&r->e);
    else
        pl_blas(&r->e);
    give(r, second);
    give(r, first);
}

static void product(pl_replay *r) {
    product_of(r, 0, false);
}

static void product_added(pl_replay *r) {
    pl_value bias, a, b;
    bool lt = in(r, 0, &bias) && in(r, 1, &a) && in(r, 2, &b) && bias.dims == 1 && a.dims == 2 &&
              b.dims == 2 && a.sizes[0] > 1 && a.sizes[1] > 1 && b.sizes[1] > 1;
    product_of(r, 1, lt);
}

static void blas_alone(pl_replay *r) {
    births(r);
    pl_blas(&r->e);
}

/* ---- reductions ---- */

static uint32_t reduced_bits(const pl_arg *dims, int count) {
    if (!dims || dims->kind == PL_ARG_NONE || dims->kind == PL_ARG_STRING) return ~0u;
    uint32_t bits = 0, many = dims->kind == PL_ARG_INTS ? dims->count : 1;
    if (!many) return ~0u;
    for (uint32_t i = 0; i < many; i++) {
        int64_t d = pl_wrap_dim(dims->kind == PL_ARG_INTS ? dims->ints[i] : dims->i, count);
        if (d >= 0 && d < count) bits |= 1u << d;
    }
    return bits;
}

/* Dimensions that the output lost or kept as 1, where the attributes are not asked. */
static void reduce_over(pl_replay *r, uint32_t bits) {
    pl_value x, y;
    births(r);
    if (!in(r, 0, &x)) return;
    pl_dtype to = out_of(r, 0, &y) ? (pl_dtype)y.dtype : (pl_dtype)x.dtype;
    bool reads = x.dtype == to || (pl_dtype_is_half((pl_dtype)x.dtype) && to == PL_DT_F32) ||
                 to == PL_DT_BOOL;
    int32_t cast = reads ? 0 : take(r, x.elements * pl_dtype_size(to));
    pl_dtype kept = reads ? (pl_dtype)x.dtype : to;
    if (out_of(r, 0, &y)) pl_work_reduce(&r->e, pl_work_pass(&r->e), &x, bits, &y);
    pl_reduce_scratch(&r->e, &x, bits, kept == PL_DT_F64 || kept == PL_DT_I64 ? 8 : 4);
    give(r, cast);
}

/* sum.dim_IntList(self, dim, keepdim), mean.dim: the dimensions come first. */
static void reduce(pl_replay *r) {
    const pl_arg *first = attribute(r, 0);
    pl_value x;
    bool lists = first && first->kind == PL_ARG_INTS;
    if (in(r, 0, &x)) reduce_over(r, lists ? reduced_bits(first, x.dims) : ~0u);
}

/* linalg_vector_norm(self, ord, dim, ..): they come second. */
static void reduce_second(pl_replay *r) {
    pl_value x;
    if (in(r, 0, &x)) reduce_over(r, reduced_bits(attribute(r, 1), x.dims));
}

/* ---- convolutions ---- */

static bool is_channels_last(const pl_value *v) {
    return v->dims >= 4 && v->sizes[1] != 1 && v->strides[1] == 1 && !pl_is_contiguous(v);
}

/* attributes from `at`: stride, padding, dilation, transposed, output_padding, groups. */
static bool describe(const pl_replay *r, const pl_value *x, const pl_value *weight,
                     const pl_value *y, uint32_t at, pl_conv *conv) {
    int dims = weight->dims - 2;
    if (dims < 1 || dims > 3 || x->dims != weight->dims || y->dims != weight->dims) return false;
    memset(conv, 0, sizeof *conv); /* compared whole */
    conv->dims = dims;
    conv->batch = x->sizes[0];
    conv->in_channels = x->sizes[1];
    conv->out_channels = y->sizes[1];
    conv->groups = int_at(r, at + 5, 1);
    conv->transposed = int_at(r, at + 3, 0) != 0;
    conv->dtype = (pl_dtype)x->dtype;
    conv->tf32 = true;
    conv->channels_last = is_channels_last(x) || is_channels_last(weight);
    conv->benchmark = r->e.job->cudnn_benchmark;
    for (int i = 0; i < dims; i++) {
        conv->in[i] = x->sizes[2 + i];
        conv->out[i] = y->sizes[2 + i];
        conv->kernel[i] = weight->sizes[2 + i];
        conv->stride[i] = nth(r, at, i, 1);
        conv->padding[i] = nth(r, at + 1, i, 0);
        conv->dilation[i] = nth(r, at + 2, i, 1);
    }
    return true;
}

/* An operand in the kernel's memory format: a copy's block, or 0. */
static int32_t in_format(pl_replay *r, uint32_t i, bool channels_last) {
    pl_value v;
    if (!in(r, i, &v)) return 0;
    bool right = channels_last ? is_channels_last(&v) || v.dims < 4 || v.sizes[1] == 1
                               : pl_is_contiguous(&v);
    return right ? 0 : copy_of(r, &v);
}

static void convolution(pl_replay *r) {
    pl_value x, w, y;
    pl_conv conv;
    if (!in(r, 0, &x) || !in(r, 1, &w) || !out_of(r, 0, &y) || !describe(r, &x, &w, &y, 0, &conv))
        return;
    int32_t a = in_format(r, 0, conv.channels_last), b = in_format(r, 1, conv.channels_last);
    births(r);
    pl_work_convolution(&r->e, PL_CONV_FORWARD, &conv, (double)w.elements, &y);
    if (r->event->input_count > 2 && r->event->inputs[2] >= 0) /* the bias, in place */
        pl_work_kernels(&r->e, &(pl_work_known){.read = (double)pl_value_bytes(&y),
                                                .written = (double)pl_value_bytes(&y),
                                                .strided = true,
                                                .dtype = (pl_dtype)y.dtype});
    pl_conv_workspace(&r->e, &conv, PL_CONV_FORWARD);
    give(r, b);
    give(r, a);
}

/* inputs: gradient, input, weight; attributes: bias sizes, then as forward. */
static void convolution_backward(pl_replay *r) {
    pl_value g, x, w;
    pl_conv conv;
    if (!in(r, 0, &g) || !in(r, 1, &x) || !in(r, 2, &w) || !describe(r, &x, &w, &g, 1, &conv))
        return;
    int32_t copies[3];
    for (uint32_t i = 0; i < 3; i++) copies[i] = in_format(r, i, conv.channels_last);
    if (has_output(r, 0)) {
        pl_replay_birth(r, 0, -1);
        pl_work_convolution(&r->e, PL_CONV_BACKWARD_DATA, &conv, (double)w.elements, NULL);
        pl_conv_workspace(&r->e, &conv, PL_CONV_BACKWARD_DATA);
    }
    if (has_output(r, 1)) {
        pl_replay_birth(r, 1, -1);
        pl_work_convolution(&r->e, PL_CONV_BACKWARD_WEIGHT, &conv, (double)w.elements, NULL);
        pl_conv_workspace(&r->e, &conv, PL_CONV_BACKWARD_WEIGHT);
    }
    if (has_output(r, 2)) {
        pl_replay_birth(r, 2, -1);
        pl_value bias;
        if (out_of(r, 2, &bias)) pl_work_reduce(&r->e, PL_PASS_BACKWARD, &g, ~2u, &bias);
        pl_reduce_scratch(&r->e, &g, ~2u, 4);
    }
    for (int i = 3; i-- > 0;) give(r, copies[i]);
}

/* ---- norms ---- */

static void cudnn_batch_norm(pl_replay *r) {
    pl_value x;
    r->e.tape->used_cudnn = true;
    int32_t copy = in(r, 0, &x) && !pl_is_dense(&x) ? take(r, pl_value_bytes(&x)) : 0;
    births(r);
    give(r, copy);
}

/* inputs: input, gradient, .. */
static void cudnn_batch_norm_backward(pl_replay *r) {
    pl_value x, g;
    bool same = true, known = in(r, 0, &x) && in(r, 1, &g) && x.dims == g.dims;
    for (int i = 0; known && i < x.dims; i++)
        same &= x.sizes[i] == 1 || x.strides[i] == g.strides[i];
    int32_t copy = same ? 0 : copy_of(r, &g);
    births(r);
    give(r, copy);
}

static bool channels_fastest(const pl_value *x) {
    return x->dims >= 2 && x->strides[1] == 1 && x->sizes[1] > 1;
}

static void batch_norm(pl_replay *r) {
    pl_value x;
    if (!in(r, 0, &x)) return;
    int32_t copy = pl_is_dense(&x) ? 0 : take(r, pl_value_bytes(&x));
    births(r);
    if (int_at(r, 0, 1) && x.dims >= 2 && x.sizes[1] > 0) pl_norm_stage(&r->e, &x, 4);
    give(r, copy);
}

/* inputs: gradient, input, .. */
static void batch_norm_backward(pl_replay *r) {
    pl_value x;
    if (!in(r, 1, &x) || x.dims < 2 || x.sizes[1] == 0) return;
    if (has_output(r, 0) && !channels_fastest(&x)) {
        births(r);
        return;
    }
    int32_t sum = take(r, 4 * x.sizes[1]), product = take(r, 4 * x.sizes[1]);
    pl_replay_birth(r, 1, -1);
    pl_replay_birth(r, 2, -1);
    pl_norm_stage(&r->e, &x, 2);
    pl_replay_birth(r, 0, -1);
    give(r, product);
    give(r, sum);
}

/* inputs: gradient, input, mean and rstd (layer norm) or rstd (RMS). Many short rows: blocks along
 * the rows leave partial sums. */
static void norm_backward(pl_replay *r, uint32_t rstd) {
    pl_value x, stats;
    int32_t g = contiguous(r, 0), copy = contiguous(r, 1);
    births(r);
    if (in(r, 1, &x) && in(r, rstd, &stats) && stats.elements > 0 &&
        (has_output(r, 1) || has_output(r, 2))) {
        int64_t rows = stats.elements, width = x.elements / rows;
        if (rows > 64 * 1024 && width / 32 < r->e.device->sms / 2) {
            int64_t parts = rows / (rows > 256 * 1024 ? 32 : 16);
            int32_t a = workspace(r, parts * width * 4),
                    b = has_output(r, 2) ? workspace(r, parts * width * 4) : 0;
            give(r, b);
            give(r, a);
        }
    }
    give(r, copy);
    give(r, g);
}

static void layer_norm_backward(pl_replay *r) {
    norm_backward(r, 3);
}

static void rms_norm_backward(pl_replay *r) {
    norm_backward(r, 2);
}

/* A scale and a shift per channel and sample. */
static void group_norm(pl_replay *r) {
    pl_value x;
    births(r);
    if (!in(r, 0, &x) || x.dims < 2 || r->event->input_count < 3) return;
    int64_t bytes = 4 * x.sizes[0] * x.sizes[1];
    bool weights = r->event->inputs[1] >= 0 || r->event->inputs[2] >= 0;
    int32_t a = weights ? take(r, bytes) : 0, b = weights ? take(r, bytes) : 0;
    give(r, b);
    give(r, a);
}

/* inputs: gradient, input, mean, rstd, weight. */
static void group_norm_backward(pl_replay *r) {
    pl_value x, mean, weight;
    int32_t g = contiguous(r, 0);
    births(r);
    if (in(r, 1, &x) && x.dims >= 2 && in(r, 2, &mean)) {
        int64_t bytes = 4 * x.sizes[0] * x.sizes[1], groups = 4 * mean.elements;
        int32_t held[5] = {take(r, bytes), take(r, bytes), take(r, groups), take(r, groups),
                           in(r, 4, &weight) ? take(r, bytes) : 0};
        for (int i = 5; i-- > 0;) give(r, held[i]);
    }
    give(r, g);
}

/* ---- softmax ---- */

/* softmax's kernel is given grad * output. */
static void softmax_backward(pl_replay *r) {
    pl_value g;
    int32_t copy = contiguous(r, 0);
    births(r);
    if (in(r, 0, &g)) give(r, take(r, pl_value_bytes(&g)));
    give(r, copy);
}

/* Rows that are masked whole are looked for: where it is -inf, and whether all of a row is. */
static void safe_softmax(pl_replay *r) {
    pl_value x;
    births(r);
    if (!in(r, 0, &x) || x.dims < 1) return;
    int32_t masked = take(r, x.elements);
    give(r, take(r, x.sizes[x.dims - 1] ? x.elements / x.sizes[x.dims - 1] : 0));
    give(r, masked);
}

/* ---- attention ---- */

static pl_attention_backend backend_of(const char *target) {
    return strstr(target, "cudnn")       ? PL_ATTENTION_CUDNN
           : strstr(target, "efficient") ? PL_ATTENTION_EFFICIENT
                                         : PL_ATTENTION_FLASH;
}

/* q, k, v among the inputs from `at`; dropout and causal among the attributes. */
static bool describe_attention(const pl_replay *r, uint32_t at, uint32_t dropout, uint32_t causal,
                               pl_value *q, pl_value *k, pl_value *v, pl_attention *a) {
    if (!in(r, at, q) || !in(r, at + 1, k) || !in(r, at + 2, v) || q->dims != 4 || k->dims != 4 ||
        v->dims != 4)
        return false;
    *a = (pl_attention){.backend = backend_of(r->trace->graph.nodes[r->event->node].target),
                        .batch = q->sizes[0],
                        .heads = q->sizes[1],
                        .kv_heads = k->sizes[1],
                        .queries = q->sizes[2],
                        .keys = k->sizes[2],
                        .head = q->sizes[3],
                        .value_head = v->sizes[3],
                        .causal = int_at(r, causal, 0) != 0,
                        .dropout = float_at(r, dropout) > 0,
                        .dtype = (pl_dtype)q->dtype};
    return true;
}

/* The memory-efficient kernel keeps its random state on the CPU: outputs 2 and 3 take nothing. */
static void attention(pl_replay *r) {
    pl_value q, k, v, mask;
    pl_attention a;
    const pl_tape_device *d = r->e.device;
    bool flash = strstr(r->trace->graph.nodes[r->event->node].target, "flash") != NULL;
    if (!describe_attention(r, 0, flash ? 0 : 1, flash ? 1 : 2, &q, &k, &v, &a)) return;
    a.mask = !flash && in(r, 3, &mask);
    pl_replay_birth(r, 0, -1);
    pl_replay_birth(r, 1, -1);
    if (a.backend == PL_ATTENTION_EFFICIENT) {
        pl_replay_birth(r, 2, 0);
        pl_replay_birth(r, 3, 0);
        if (pl_dtype_is_half(a.dtype) && a.value_head > 128)
            pl_scratch(&r->e, q.elements / (a.head ? a.head : 1) * a.value_head * 4);
    }
    births(r);
    pl_work_attention(&r->e, PL_PASS_FORWARD, &a);
    if (a.backend == PL_ATTENTION_CUDNN) r->e.tape->used_cudnn = true;
    pl_scratch(&r->e, d->attention(&a, false, d->cc_major, d->cc_minor, NULL));
}

/* inputs: gradient, q, k, v, then the mask (efficient: 4) or the output (4; 5 there). The rule of
 * op_attention.c runs on values; the blocks of its gradients become the outputs'. */
static void attention_backward(pl_replay *r) {
    pl_value g, q, k, v, result;
    pl_attention a;
    const char *target = r->trace->graph.nodes[r->event->node].target;
    bool efficient = strstr(target, "efficient") != NULL;
    if (!in(r, 0, &g) || !describe_attention(r, 1, 0, efficient ? 2 : 1, &q, &k, &v, &a) ||
        !in(r, efficient ? 5 : 4, &result) || result.dims != 4 || g.dims != 4)
        return;
    a.mask_gradient = efficient && has_output(r, 3);
    pl_value *saved[4] = {&q, &k, &v, &result}, *grads[1] = {&g}, *made[4] = {0};
    pl_edge edges[4] = {{0}};
    for (uint32_t i = 0; i < 4; i++) edges[i].wanted = has_output(r, i);
    pl_fn fn = {.edges = edges, .edge_count = 4, .saved = saved, .saved_count = 4, .rule = &a};
    if (!efficient) fn.edge_count = 3;
    pl_sdpa_backward(&r->e, &fn, grads, made);
    for (uint32_t i = 0; i < 4; i++)
        if (made[i]) pl_replay_adopt(r, i, made[i]->storage->block);
}

/* ---- tables ---- */

/* inputs: gradient, indices. Up to 3,072 indices go straight into the zeroed gradient. */
static void embedding_backward(pl_replay *r) {
    pl_value indices, table;
    int32_t copy = contiguous(r, 0), flat = contiguous(r, 1);
    if (in(r, 1, &indices) && out_of(r, 0, &table) && indices.elements > 3072) {
        pl_edge edge = {.dims = table.dims,
                        .dtype = table.dtype,
                        .sizes = table.sizes,
                        .strides = table.strides};
        pl_value *made = pl_sorted_gradient(&r->e, &edge, indices.elements);
        pl_replay_adopt(r, 0, made->storage->block);
    }
    births(r);
    give(r, flat);
    give(r, copy);
}

enum { MOST_INDICES = PL_MAX_DIMS };

/* inputs: self, indices.., values; attribute: accumulate. Under a dispatch mode autograd's own
 * index_put is not in place as it is without one: its output is the zeros it was given. */
static void index_put(pl_replay *r) {
    const pl_trace_event *event = r->event;
    pl_value values[MOST_INDICES], *saved[MOST_INDICES], self;
    uint32_t count = 0;
    for (uint32_t i = 1; i + 1 < event->input_count && count < MOST_INDICES; i++)
        if (in(r, i, &values[count])) {
            saved[count] = &values[count];
            count++;
        }
    bool accumulates = int_at(r, 0, 0) != 0, backward = event->function >= 0;
    if (accumulates && in(r, 0, &self)) {
        pl_edge edge = {.dims = self.dims, .dtype = self.dtype, .sizes = self.sizes};
        pl_value *grads[1] = {&self}, *made[1] = {0};
        pl_fn fn = {.edges = &edge, .edge_count = 1, .saved = saved, .saved_count = (uint8_t)count};
        pl_index_backward(&r->e, &fn, grads, made);
        int32_t block = made[0] && made[0]->storage ? made[0]->storage->block : 0;
        if (backward && has_output(r, 0) && event->inputs[0] >= 0) { /* the zeros are this block */
            int32_t zeros = r->trace->tensors[event->inputs[0]].storage;
            give(r, block);
            block = r->blocks[zeros];
            r->blocks[zeros] = 0;
        }
        pl_replay_adopt(r, 0, block);
    }
    births(r);
}

/* roll over several dimensions is one roll after another. attributes: shifts, dims. */
static void roll(pl_replay *r) {
    pl_value x;
    const pl_arg *shifts = attribute(r, 0);
    uint32_t turns = shifts && shifts->kind == PL_ARG_INTS ? shifts->count : 1;
    int32_t before = 0;
    for (uint32_t i = 1; i < turns && i < PL_MAX_DIMS && in(r, 0, &x); i++) {
        int32_t next = take(r, pl_value_bytes(&x));
        give(r, before);
        before = next;
    }
    births(r);
    give(r, before);
}

/* Places 0, 1, .. along the dimension; the last whole number among the attributes is it. */
static void sort(pl_replay *r) {
    pl_value x;
    int64_t dim = -1;
    births(r);
    for (uint32_t i = 0; i < r->event->attribute_count; i++)
        if (r->event->attributes[i].kind == PL_ARG_INT) dim = r->event->attributes[i].i;
    if (!in(r, 0, &x) || x.dims == 0) return;
    dim = pl_wrap_dim(dim, x.dims);
    if (dim >= 0 && dim < x.dims) pl_scratch(&r->e, 8 * x.sizes[dim]);
}

/* ---- recurrent layers ---- */

/* Inputs of forward: x, the weights, flat buffer, hx, cx, random state. attributes from `at`:
 * stride 0, then mode, hidden, projection, layers, batch_first, dropout, train, bidirectional. */
static bool describe_rnn(const pl_replay *r, pl_rnn *rnn, pl_rnn_memory *memory, bool *copies) {
    pl_value x;
    static const pl_rnn_mode modes[] = {PL_RNN_RELU, PL_RNN_TANH, PL_RNN_LSTM, PL_RNN_GRU};
    int64_t mode = int_at(r, 1, 0);
    const pl_arg *sizes =
        attribute(r, 9); /* of packed sequences: how many there are at each time */
    bool packed = sizes && sizes->kind == PL_ARG_INTS && sizes->count > 0;
    if (!in(r, 0, &x) || x.dims != (packed ? 2 : 3) || mode < 0 || mode > 3) return false;
    bool batch_first = int_at(r, 5, 0) != 0;
    int b = batch_first ? 0 : 1;
    *rnn = (pl_rnn){.mode = modes[mode],
                    .layers = int_at(r, 4, 1),
                    .directions = int_at(r, 8, 0) ? 2 : 1,
                    .batch = packed ? nth(r, 9, 0, 1) : x.sizes[b],
                    .seq = packed ? (int64_t)sizes->count : x.sizes[1 - b],
                    .input = x.sizes[x.dims - 1],
                    .hidden = int_at(r, 2, 1),
                    .projection = int_at(r, 3, 0),
                    .bias = int_at(r, 0, 4) >= 4,
                    .training = int_at(r, 7, 1) != 0,
                    .dropout = float_at(r, 6),
                    .dtype = (pl_dtype)x.dtype};
    *copies = batch_first && rnn->batch > 1 && rnn->seq > 1;
    r->e.tape->used_rnn = r->e.tape->used_cudnn = true;
    return r->e.device->rnn(rnn, r->e.device->cc_major, r->e.device->cc_minor, memory);
}

/* Sizes that the rule does not cover: reported, and the interval is that of an unknown operator. */
static void beyond_rule(pl_replay *r) {
    pl_tape *tape = r->e.tape;
    if (tape->unknown_count) return;
    tape->unknown = pl_arena_array(tape->arena, 1, sizeof *tape->unknown);
    if (tape->unknown)
        tape->unknown[tape->unknown_count++] = r->e.what;
    else
        r->e.failed = true;
}

/* Outputs: y, hy, cy, reserve, flat weights (a new one where they were not flat). */
static void recurrent(pl_replay *r) {
    pl_rnn rnn;
    pl_rnn_memory memory;
    bool copies;
    pl_value x;
    if (!describe_rnn(r, &rnn, &memory, &copies) || !in(r, 0, &x)) return beyond_rule(r);
    int32_t copy = copies ? copy_of(r, &x) : 0;
    for (uint32_t i = 0; i < 3; i++) pl_replay_birth(r, i, -1);
    pl_replay_birth(r, 4, memory.weights * pl_dtype_size(rnn.dtype));
    int32_t space = workspace(r, memory.forward);
    pl_replay_birth(r, 3, memory.reserve);
    pl_work_recurrent(&r->e, PL_PASS_FORWARD, &rnn);
    give(r, space);
    give(r, copy);
}

/* Inputs: x, n weights, flat buffer, hx, cx, output, its gradient, the states', random state,
 * reserve. Outputs: dx, dhx, dcx, then the weights' gradients, views of one buffer where there are
 * biases. As recurrent_backward in op_recurrent.c. */
static void recurrent_backward(pl_replay *r) {
    enum { BESIDE_WEIGHTS = 10 };
    pl_rnn rnn;
    pl_rnn_memory memory;
    bool copies, same = true;
    pl_value x, y, dy, unused;
    if (!describe_rnn(r, &rnn, &memory, &copies) || !in(r, 0, &x) ||
        r->event->input_count < BESIDE_WEIGHTS)
        return beyond_rule(r);
    uint32_t states = r->event->input_count - BESIDE_WEIGHTS + 2, output = states + 2;
    int64_t flat = memory.weights * pl_dtype_size(rnn.dtype);
    int32_t zeros[2] = {0}; /* gradients of states that the loss does not see */
    for (uint32_t i = 0; i < 2; i++)
        if (in(r, states + i, &unused) && r->event->inputs[output + 2 + i] < 0)
            zeros[i] = take(r, pl_value_bytes(&unused));
    int32_t copy = copies ? copy_of(r, &x) : 0, turned = 0;
    if (in(r, output, &y) && in(r, output + 1, &dy) && y.dims == dy.dims) {
        for (int i = 0; i < y.dims; i++) same &= y.sizes[i] == 1 || y.strides[i] == dy.strides[i];
        if (!same) turned = copy_of(r, &dy);
    }
    for (uint32_t i = 0; i < 3; i++) pl_replay_birth(r, i, -1);
    pl_work_recurrent(&r->e, PL_PASS_BACKWARD, &rnn);
    give(r, workspace(r, memory.backward));
    give(r, turned);
    give(r, copy);
    copy = copies ? copy_of(r, &x) : 0;
    int32_t apart = 0;
    if (rnn.bias)
        pl_replay_birth(r, 3, flat);
    else
        apart = take(r, flat);
    int32_t space = workspace(r, memory.backward);
    births(r);
    give(r, space);
    give(r, copy);
    give(r, zeros[1]);
    give(r, zeros[0]);
    give(r, apart);
}

/* ---- the table ---- */

/* By the name between "aten." and the overload; sorted. */
static const struct {
    const char *name;
    pl_replay_rule *rule;
} rules[] = {
    {"_cudnn_rnn", recurrent},
    {"_cudnn_rnn_backward", recurrent_backward},
    {"_fused_rms_norm", copies_first},
    {"_fused_rms_norm_backward", rms_norm_backward},
    {"_log_softmax", copies_first},
    {"_log_softmax_backward_data", copies_first},
    {"_safe_softmax", safe_softmax},
    {"_scaled_dot_product_cudnn_attention", attention},
    {"_scaled_dot_product_cudnn_attention_backward", attention_backward},
    {"_scaled_dot_product_efficient_attention", attention},
    {"_scaled_dot_product_efficient_attention_backward", attention_backward},
    {"_scaled_dot_product_flash_attention", attention},
    {"_scaled_dot_product_flash_attention_backward", attention_backward},
    {"_softmax", copies_first},
    {"_softmax_backward_data", softmax_backward},
    {"addbmm", product_added},
    {"addmm", product_added},
    {"addmv", blas_alone},
    {"all", reduce},
    {"amax", reduce},
    {"amin", reduce},
    {"any", reduce},
    {"avg_pool2d_backward", copies_first},
    {"baddbmm", product_added},
    {"bmm", product},
    {"convolution", convolution},
    {"convolution_backward", convolution_backward},
    {"cudnn_batch_norm", cudnn_batch_norm},
    {"cudnn_batch_norm_backward", cudnn_batch_norm_backward},
    {"cumsum", casts_first},
    {"dot", blas_alone},
    {"embedding", copies_second},
    {"embedding_dense_backward", embedding_backward},
    {"index_put", index_put},
    {"index_put_", index_put},
    {"linalg_vector_norm", reduce_second},
    {"max_pool2d_with_indices_backward", copies_first},
    {"max_pool3d_with_indices_backward", copies_first_two},
    {"mean", reduce},
    {"mm", product},
    {"mv", blas_alone},
    {"native_batch_norm", batch_norm},
    {"native_batch_norm_backward", batch_norm_backward},
    {"native_dropout", dropout},
    {"native_group_norm", group_norm},
    {"native_group_norm_backward", group_norm_backward},
    {"native_layer_norm", copies_first},
    {"native_layer_norm_backward", layer_norm_backward},
    {"prod", reduce},
    {"roll", roll},
    {"sort", sort},
    {"sum", reduce},
    {"upsample_bicubic2d_backward", copies_first},
    {"upsample_bilinear2d_backward", copies_first},
    {"upsample_nearest2d_backward", copies_first},
    {"upsample_trilinear3d_backward", copies_first},
};

typedef struct name {
    const char *bytes;
    size_t length;
} name;

static int compare(const void *key, const void *row) {
    const name *n = key;
    const char *other = ((const char *const *)row)[0];
    int order = strncmp(n->bytes, other, n->length);
    return order ? order : other[n->length] ? -1 : 0;
}

/* torch.cuda.empty_cache(), or an out-of-memory, before which the allocator gives back what it can. */
static void empty_cache(pl_replay *r) {
    pl_cache_emptied(&r->e);
}

pl_replay_rule *pl_replay_rule_of(const char *target) {
    if (strcmp(target, "plimsoll.empty_cache") == 0) return empty_cache;
    if (strncmp(target, "aten.", 5) != 0) return NULL;
    name n = {target + 5, strcspn(target + 5, ".")};
    size_t count = sizeof rules / sizeof *rules, low = 0;
    while (low < count) { /* the rows hold function pointers: no bsearch over void pointers */
        size_t middle = low + (count - low) / 2;
        int order = compare(&n, &rules[middle]);
        if (order == 0) return rules[middle].rule;
        if (order > 0)
            low = middle + 1;
        else
            count = middle;
    }
    return NULL;
}
