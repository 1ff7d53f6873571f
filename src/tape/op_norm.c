/* op_norm: batch, layer, group, instance and RMS normalisation.
 *
 * Rules: aten/src/ATen/native/{Normalization,layer_norm,group_norm}.cpp,
 * native/cudnn/BatchNorm.cpp, native/cuda/{Normalization.cuh,layer_norm_kernel.cu} (2.11); the
 * scratch sizes were checked against operator traces (mlp-0002, tv-convnext_tiny-0,
 * hf-wav2vec2-base-0; 2026-11-15, PyTorch 2.11, H200). */
#include "tape/operator.h"

#include "core/checked.h"

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Statistics are kept in float32 where the input is half. */
static pl_dtype statistics_dtype(pl_dtype dtype) {
    return pl_dtype_is_half(dtype) ? PL_DT_F32 : dtype;
}

/* ---- batch norm ---- */

/* Normalization.cuh's flexible_launch_configs: how many blocks share one channel's sum when
 * channels are the fastest dimension; fewer than 8 are not used. */
static int64_t staged_blocks(int64_t reduced, int64_t channels) {
    int64_t bx = smaller(pl_last_power2(channels), 32);
    int64_t by = smaller(pl_last_power2(pl_div_up(reduced, 16)), 512 / bx);
    int64_t grid = smaller(pl_div_up(reduced, by * 16), 128);
    return grid < 8 ? 1 : grid;
}

static bool channels_fastest(const pl_value *x) {
    return x->dims >= 2 && x->strides[1] == 1 && x->sizes[1] > 1;
}

/* Partial sums of `values` numbers per channel, and the blocks' semaphores. */
void pl_norm_stage(pl_eager *e, const pl_value *x, int values) {
    int64_t channels = x->sizes[1], blocks = staged_blocks(x->elements / channels, channels);
    if (!channels_fastest(x) || blocks <= 1) return;
    uint8_t kind = e->kind;
    e->kind = PL_WORKSPACE;
    int32_t staging = pl_block_new(e, values * channels * blocks * 4);
    int32_t semaphores = pl_block_new(e, 4 * pl_div_up(channels, 32));
    /* forward this small fill is priced as one of random numbers, as the constants were fitted */
    pl_pass pass = pl_work_pass(e);
    pl_work_kernels(e, &(pl_work_known){.kind = PL_WORK_FILL,
                                        .class = pass == PL_PASS_FORWARD ? PL_KERNEL_RANDOM : 0,
                                        .pass = pass,
                                        .written = (double)(4 * pl_div_up(channels, 32))});
    pl_block_gone(e, semaphores);
    pl_block_gone(e, staging);
    e->kind = kind;
}

/* The kernels of a normalisation: `rows` groups of `columns` elements. out: what they write. */
static void note_norm(pl_eager *e, pl_pass pass, int launches, double read, int64_t rows,
                      int64_t columns, pl_dtype dtype, const pl_value *const out[6]) {
    pl_work_known known = {.kind = PL_WORK_NORM,
                           .pass = pass,
                           .launches = launches,
                           .read = read,
                           .rows = rows,
                           .columns = columns,
                           .dtype = dtype,
                           .out = {out[0], out[1], out[2], out[3], out[4], out[5]}};
    pl_work_kernels(e, &known);
}

/* A contiguous copy, or NULL where it is so already. */
static pl_value *in_order(pl_eager *e, const pl_value *value) {
    if (pl_is_contiguous(value)) return NULL;
    pl_value *copy = pl_new(e, (pl_dtype)value->dtype, value->dims, value->sizes, NULL);
    pl_work_copy(e, pl_work_pass(e), value, copy);
    return copy;
}

enum { BN_INPUT, BN_WEIGHT, BN_BIAS }; /* edges */

/* One kernel that sums and divides; where channels lie innermost, one that sums and one that
 * divides. */
static void note_batch_norm_backward(pl_eager *e, const pl_value *grad, const pl_value *input,
                                     bool apart, const pl_value *const out[6]) {
    int64_t channels = input->sizes[1];
    double both = pl_work_bytes(grad) + pl_work_bytes(input);
    pl_work_kernels(e, &(pl_work_known){.kind = PL_WORK_NORM,
                                        .pass = PL_PASS_BACKWARD,
                                        .launches = apart ? 2 : 1,
                                        .read = apart ? 2 * both : both,
                                        .rows = channels,
                                        .columns = channels ? input->elements / channels : 0,
                                        .strided = channels_fastest(input),
                                        .dtype = (pl_dtype)input->dtype,
                                        .out = {out[0], out[1], out[2], out[3], out[4]}});
}

/* numbers: [0] 1 for cuDNN. Saved: input, weight, mean, inverse deviation. */
static void batch_norm_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    pl_value *grad = grads[0], *input = fn->saved[0];
    int64_t channels = input->sizes[1];
    const pl_edge *weight = &fn->edges[BN_WEIGHT], *bias = &fn->edges[BN_BIAS];
    pl_value *copy = NULL;
    if (fn->numbers[0]) {
        bool same = true;
        for (int i = 0; i < grad->dims; i++)
            same &= grad->sizes[i] == 1 || grad->strides[i] == input->strides[i];
        if (!same) {
            copy = pl_new_like(e, input, (pl_dtype)grad->dtype);
            pl_work_copy(e, PL_PASS_BACKWARD, grad, copy);
        }
        if (fn->edges[BN_INPUT].wanted || weight->wanted) {
            pl_value *dx = pl_new_like(e, input, (pl_dtype)input->dtype);
            pl_value *dw = pl_new_flat(e, PL_DT_F32, channels),
                     *db = pl_new_flat(e, PL_DT_F32, channels);
            note_batch_norm_backward(e, grad, input, false, (const pl_value *[6]){dx, dw, db});
            if (fn->edges[BN_INPUT].wanted)
                out[BN_INPUT] = dx;
            else
                pl_drop(e, dx);
            if (weight->wanted)
                out[BN_WEIGHT] = dw;
            else
                pl_drop(e, dw);
            if (bias->wanted)
                out[BN_BIAS] = db;
            else
                pl_drop(e, db);
        }
        pl_drop(e, copy);
        return;
    }
    if (fn->edges[BN_INPUT].wanted && !channels_fastest(input)) { /* one kernel sums and divides */
        out[BN_INPUT] = pl_new_like(e, input, (pl_dtype)input->dtype);
        if (weight->wanted) out[BN_WEIGHT] = pl_new_flat(e, (pl_dtype)weight->dtype, channels);
        if (bias->wanted) out[BN_BIAS] = pl_new_flat(e, (pl_dtype)bias->dtype, channels);
        note_batch_norm_backward(e, grad, input, false,
                                 (const pl_value *[6]){out[0], out[1], out[2]});
        return;
    }
    pl_value *sum = pl_new_flat(e, PL_DT_F32, channels),
             *product = pl_new_flat(e, PL_DT_F32, channels);
    if (weight->wanted) out[BN_WEIGHT] = pl_new_flat(e, (pl_dtype)weight->dtype, channels);
    if (bias->wanted) out[BN_BIAS] = pl_new_flat(e, (pl_dtype)bias->dtype, channels);
    pl_norm_stage(e, input, 2);
    if (fn->edges[BN_INPUT].wanted) out[BN_INPUT] = pl_new_like(e, input, (pl_dtype)input->dtype);
    note_batch_norm_backward(e, grad, input, out[BN_INPUT] != NULL,
                             (const pl_value *[6]){out[0], out[1], out[2], sum, product});
    pl_drop(e, product);
    pl_drop(e, sum);
}

/* Normalization.cpp, _select_batch_norm_backend. */
static bool batch_norm_on_cudnn(const pl_value *x, const pl_value *weight, double eps,
                                bool training) {
    return weight && x->dims >= 3 && x->dtype != PL_DT_BF16 && weight->dtype != PL_DT_BF16 &&
           (x->dtype != PL_DT_F16 || weight->dtype == PL_DT_F32) && x->dtype != PL_DT_F64 &&
           x->sizes[0] <= (training ? 880801 : 65535) && eps >= 1e-5 && x->elements <= INT32_MAX;
}

static pl_value *batch_norm(pl_eager *e, pl_value *x, pl_value *weight, pl_value *bias,
                            bool training, double eps) {
    int64_t channels = x->dims > 1 ? x->sizes[1] : 1;
    pl_value *copy = pl_is_dense(x) ? NULL : in_order(e, x);
    pl_value *result = pl_new_like(e, x, (pl_dtype)x->dtype);
    bool cudnn = batch_norm_on_cudnn(x, weight, eps, training);
    pl_value *mean = pl_new_flat(e, PL_DT_F32, training ? channels : 0);
    pl_value *deviation = pl_new_flat(e, PL_DT_F32, training ? channels : 0);
    if (training && !cudnn) pl_norm_stage(e, x, 4);
    if (cudnn) e->tape->used_cudnn = true;
    /* PyTorch's own: statistics, the running ones, then the result; cuDNN's is one kernel, which
     * reads what it cannot keep twice */
    double bytes = pl_work_bytes(x);
    pl_work_kernels(e, &(pl_work_known){.kind = PL_WORK_NORM,
                                        .launches = cudnn || !training ? 1 : 3,
                                        .read = training ? 2 * bytes : bytes,
                                        .rows = channels,
                                        .columns = channels ? x->elements / channels : 0,
                                        .strided = channels_fastest(x),
                                        .dtype = (pl_dtype)x->dtype,
                                        .out = {result, mean, deviation}});
    pl_drop(e, copy);
    pl_value *inputs[3] = {x, weight, bias};
    pl_fn *fn = pl_fn_new(e, cudnn ? "CudnnBatchNormBackward0" : "NativeBatchNormBackward0",
                          batch_norm_backward, 3, inputs, 1);
    if (fn) {
        if (!pl_fn_numbers(e, fn, 1)) return result;
        fn->numbers[0] = cudnn;
        fn->class = cudnn ? PL_KERNEL_BATCH_NORM : PL_KERNEL_BATCH_NORM_NATIVE;
        pl_save(e, fn, x);
        if (weight) pl_save(e, fn, weight);
        pl_save(e, fn, mean);
        pl_save(e, fn, deviation);
        pl_fn_output(fn, result, 0);
    }
    pl_drop(e, deviation);
    pl_drop(e, mean);
    return result;
}

void pl_run_batch_norm(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *x = pl_arg_value(e, node, "input");
    if (!x || x->dims < 2 || x->sizes[1] == 0) return;
    pl_value *result =
        batch_norm(e, x, pl_arg_value(e, node, "weight"), pl_arg_value(e, node, "bias"),
                   pl_node_int(node, "training", 1) != 0, pl_node_float(node, "eps", 1e-5));
    pl_set_output(e, node, 0, result);
}

/* instance_norm is a batch norm of [1, N*C, ...], its weights and running statistics repeated N
 * times; the statistics are then averaged back into the buffers. */
void pl_run_instance_norm(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *x = pl_arg_value(e, node, "input");
    if (!x || x->dims < 3 || x->dims > PL_MAX_DIMS) return;
    int64_t sizes[PL_MAX_DIMS];
    for (int i = 0; i < x->dims; i++) sizes[i] = x->sizes[i];
    sizes[0] = 1;
    sizes[1] = x->sizes[0] * x->sizes[1];
    pl_value *flat = pl_reshape(e, x, x->dims, sizes), *repeated[2] = {0};
    const char *const names[2] = {"weight", "bias"};
    for (int i = 0; i < 2; i++) {
        pl_value *w = pl_arg_value(e, node, names[i]);
        if (!w) continue;
        pl_value *wide = pl_expand(e, w, 2, (int64_t[]){x->sizes[0], x->sizes[1]});
        pl_value *copy = pl_clone(e, wide);
        repeated[i] = pl_reshape(e, copy, 1, &sizes[1]);
        pl_drop(e, copy);
        pl_drop(e, wide);
    }
    pl_value *running[2] = {0};
    for (int i = 0; i < 2; i++)
        if (pl_arg_value(e, node, i ? "running_var" : "running_mean"))
            running[i] = pl_new_flat(e, PL_DT_F32, sizes[1]);
    pl_value *y =
        batch_norm(e, flat, repeated[0], repeated[1], true, pl_node_float(node, "eps", 1e-5));
    for (int i = 0; i < 2; i++) {
        if (!running[i]) continue;
        pl_drop(e, pl_new_flat(e, PL_DT_F32, x->sizes[1]));
        pl_save(e, y->fn, running[i]);
    }
    pl_set_output(e, node, 0, pl_reshape(e, y, x->dims, x->sizes));
    for (int i = 0; i < 2; i++) pl_drop(e, running[i]);
    pl_drop(e, y);
    pl_drop(e, repeated[0]);
    pl_drop(e, repeated[1]);
    pl_drop(e, flat);
}

/* ---- layer norm ---- */

/* Edges: input, weight, bias. Saved: input, mean, rstd, weight. */
static void layer_norm_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    pl_value *grad = grads[0], *input = fn->saved[0];
    int64_t rows = fn->saved[1]->elements, width = rows ? input->elements / rows : 0;
    pl_value *g = in_order(e, grad), *x = in_order(e, input);
    double both = pl_work_bytes(grad) + pl_work_bytes(input);
    if (fn->edges[0].wanted) {
        out[0] = pl_new(e, (pl_dtype)input->dtype, input->dims, input->sizes, NULL);
        note_norm(e, PL_PASS_BACKWARD, 1, both, rows, width, (pl_dtype)input->dtype,
                  (const pl_value *[6]){out[0]});
    }
    for (int i = 1; i < fn->edge_count; i++)
        if (fn->edges[i].wanted)
            out[i] = pl_new(e, (pl_dtype)fn->edges[i].dtype, fn->edges[i].dims, fn->edges[i].sizes,
                            NULL);
    /* Many short rows: blocks along the rows leave partial sums, added up by a sum. */
    bool weights =
        fn->edge_count > 1 && (fn->edges[1].wanted || (fn->edge_count > 2 && fn->edges[2].wanted));
    bool in_parts = weights && rows > 64 * 1024 && width / 32 < e->device->sms / 2;
    if (weights)
        note_norm(e, PL_PASS_BACKWARD_WEIGHT, in_parts ? fn->edge_count : 1, both, rows, width,
                  (pl_dtype)input->dtype,
                  (const pl_value *[6]){out[1], fn->edge_count > 2 ? out[2] : NULL});
    if (in_parts) {
        int64_t parts = rows / (rows > 256 * 1024 ? 32 : 16);
        uint8_t kind = e->kind;
        e->kind = PL_WORKSPACE;
        int32_t a = pl_block_new(e, parts * width * 4),
                b = fn->edge_count > 2 ? pl_block_new(e, parts * width * 4) : 0;
        pl_block_gone(e, b);
        pl_block_gone(e, a);
        e->kind = kind;
    }
    pl_drop(e, x);
    pl_drop(e, g);
}

static void run_layer_norm(pl_eager *e, const pl_node *node, bool rms) {
    pl_value *given = pl_arg_value(e, node, "input");
    const pl_arg *shape = pl_node_arg(node, "normalized_shape");
    if (!given) return;
    pl_value *weight = pl_arg_value(e, node, "weight"), *bias = pl_arg_value(e, node, "bias");
    /* autocast runs layer_norm in float32 and leaves rms_norm alone */
    pl_value *x = e->autocast && !rms ? pl_autocast_to(e, given, PL_DT_F32) : pl_hold(given);
    int64_t width = 1;
    for (int i = 0; shape && shape->kind == PL_ARG_INTS && i < (int)shape->count && i < x->dims;
         i++)
        width *= x->sizes[x->dims - 1 - i];
    int64_t rows = width ? x->elements / width : 0;
    pl_value *contiguous = in_order(e, x);
    pl_value *result = pl_new(e, (pl_dtype)x->dtype, x->dims, x->sizes, NULL);
    pl_value *mean = rms ? NULL : pl_new_flat(e, statistics_dtype((pl_dtype)x->dtype), rows);
    pl_value *rstd = pl_new_flat(e, statistics_dtype((pl_dtype)x->dtype), rows);
    note_norm(e, PL_PASS_FORWARD, 1, pl_work_bytes(x), rows, width, (pl_dtype)x->dtype,
              (const pl_value *[6]){result, rstd, mean});
    pl_drop(e, contiguous);
    pl_value *inputs[3] = {x, weight, bias};
    pl_fn *fn = pl_fn_new(e, rms ? "FusedRmsNormBackward0" : "NativeLayerNormBackward0",
                          layer_norm_backward, rms ? 2 : 3, inputs, 1);
    if (fn) {
        pl_save(e, fn, x);
        pl_save(e, fn, rstd);
        if (mean) pl_save(e, fn, mean);
        if (weight) pl_save(e, fn, weight);
        pl_fn_output(fn, result, 0);
    }
    pl_drop(e, rstd);
    pl_drop(e, mean);
    pl_drop(e, x);
    pl_set_output(e, node, 0, result);
}

void pl_run_layer_norm(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    run_layer_norm(e, node, false);
}

/* rms_norm_composite (layer_norm.cpp, 2.11): in float, one operator after the other. */
static void rms_norm_by_parts(pl_eager *e, const pl_node *node, pl_value *given, pl_value *weight) {
    const pl_arg *shape = pl_node_arg(node, "normalized_shape");
    int last = shape && shape->kind == PL_ARG_INTS ? (int)shape->count : 1;
    pl_dtype dtype = (pl_dtype)given->dtype;
    pl_value *x = pl_to(e, given, pl_dtype_is_half(dtype) ? PL_DT_F32 : dtype);
    pl_value *squared = pl_pointwise(e, "PowBackward0", "a:ttn", x, NULL);
    pl_value *mean = pl_mean_kept(e, squared, x->dims > last ? x->dims - last : 0);
    pl_drop(e, squared);
    pl_value *root = pl_pointwise(e, "RsqrtBackward0", "r:ttn", mean, NULL);
    pl_drop(e, mean);
    pl_value *unit = pl_pointwise(e, "MulBackward0", "b:n|a:n", x, root);
    pl_value *scaled = pl_pointwise(e, "MulBackward0", "b:n|a:n", unit, weight);
    pl_set_output(e, node, 0, pl_to(e, scaled, dtype));
    pl_drop(e, scaled);
    pl_drop(e, unit);
    pl_drop(e, root);
    pl_drop(e, x);
}

/* rms_norm on CUDA: one fused kernel that keeps the input and the inverse root (2.9 and later;
 * layer_norm.cpp). A weight of another type than the input's, as autocast leaves it, has none. */
void pl_run_rms_norm(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *given = pl_arg_value(e, node, "input"), *weight = pl_arg_value(e, node, "weight");
    if (given && weight && given->dtype != weight->dtype)
        rms_norm_by_parts(e, node, given, weight);
    else
        run_layer_norm(e, node, true);
}

/* ---- group norm ---- */

/* Saved: input, mean, rstd, weight. Scratch: two sums per channel and sample, and two per group. */
static void group_norm_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    pl_value *input = fn->saved[0];
    int64_t channels = input->sizes[1], samples = input->sizes[0];
    pl_value *g = in_order(e, grads[0]);
    if (fn->edges[0].wanted) out[0] = pl_new_like(e, input, (pl_dtype)input->dtype);
    for (int i = 1; i < 3; i++)
        if (fn->edges[i].wanted) out[i] = pl_new_flat(e, (pl_dtype)fn->edges[i].dtype, channels);
    pl_value *ds = pl_new_flat(e, PL_DT_F32, samples * channels),
             *db = pl_new_flat(e, PL_DT_F32, samples * channels);
    pl_value *c2 = pl_new_flat(e, PL_DT_F32, fn->saved[1]->elements),
             *c3 = pl_new_flat(e, PL_DT_F32, fn->saved[1]->elements);
    pl_value *c1 = fn->saved_count > 3 ? pl_new_flat(e, PL_DT_F32, samples * channels)
                                       : NULL; /* with a weight */
    /* sums per channel, their shares by group, the input's gradient; the weights' from the sums */
    double both = pl_work_bytes(grads[0]) + pl_work_bytes(input);
    int64_t groups = fn->saved[1]->elements;
    note_norm(e, PL_PASS_BACKWARD, c1 ? 4 : 3, out[0] ? 2 * both : both, groups,
              groups ? input->elements / groups : 0, (pl_dtype)input->dtype,
              (const pl_value *[6]){out[0], ds, db, c1, c2, c3});
    if (out[1] || out[2])
        note_norm(e, PL_PASS_BACKWARD_WEIGHT, 1, pl_work_bytes(ds) * 2, channels, samples,
                  PL_DT_F32, (const pl_value *[6]){out[1], out[2]});
    pl_drop(e, c3);
    pl_drop(e, c2);
    pl_drop(e, c1);
    pl_drop(e, db);
    pl_drop(e, ds);
    pl_drop(e, g);
}

void pl_run_group_norm(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *given = pl_arg_value(e, node, "input");
    if (!given || given->dims < 2) return;
    pl_value *weight = pl_arg_value(e, node, "weight"), *bias = pl_arg_value(e, node, "bias");
    pl_value *cast = e->autocast ? pl_autocast_to(e, given, PL_DT_F32) : pl_hold(given);
    pl_value *x = e->job->channels_last ? pl_hold(cast) : pl_contiguous(e, cast);
    int64_t each = pl_node_int(node, "num_groups", 1),
            groups = pl_times(x->sizes[0], each > 0 ? each : 1);
    pl_value *result = pl_new_like(e, x, (pl_dtype)x->dtype);
    pl_value *mean = pl_new_flat(e, (pl_dtype)x->dtype, groups),
             *rstd = pl_new_flat(e, (pl_dtype)x->dtype, groups);
    bool scaled = weight || bias; /* a scale and a shift per channel and sample */
    pl_value *scale = scaled ? pl_new_flat(e, PL_DT_F32, x->sizes[0] * x->sizes[1]) : NULL,
             *shift = scaled ? pl_new_flat(e, PL_DT_F32, x->sizes[0] * x->sizes[1]) : NULL;
    note_norm(e, PL_PASS_FORWARD, scaled ? 3 : 2, 2 * pl_work_bytes(x), groups,
              groups ? x->elements / groups : 0, (pl_dtype)x->dtype,
              (const pl_value *[6]){result, mean, rstd, scale, shift});
    pl_drop(e, shift);
    pl_drop(e, scale);
    pl_value *inputs[3] = {x, weight, bias};
    pl_fn *fn = pl_fn_new(e, "NativeGroupNormBackward0", group_norm_backward, 3, inputs, 1);
    if (fn) {
        fn->class = PL_KERNEL_GROUP_NORM;
        pl_save(e, fn, x);
        pl_save(e, fn, mean);
        pl_save(e, fn, rstd);
        if (weight) pl_save(e, fn, weight);
        pl_fn_output(fn, result, 0);
    }
    pl_drop(e, rstd);
    pl_drop(e, mean);
    pl_drop(e, x);
    pl_drop(e, cast);
    pl_set_output(e, node, 0, result);
}
