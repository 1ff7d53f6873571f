/* op_misc: operators with rules of their own that belong to no larger family: dropout, softmax,
 * joins, fills, copies, clamps.
 *
 * Rules: derivatives.yaml, FunctionsManual.cpp and the kernels under aten/src/ATen/native (2.11),
 * checked against operator traces (2026-11-15, PyTorch 2.11, H200). */
#include "tape/operator.h"
#include "tape/rewrite.h"

#include <string.h>

/* ---- nothing, new tensors ---- */

void pl_run_nothing(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    for (uint32_t i = 0; i < node->output_count; i++) pl_set_output(e, node, i, NULL);
}

/* A number read back: the host waits for the card. */
void pl_run_item(pl_eager *e, const pl_node *node, const pl_operator *op) {
    pl_run_nothing(e, node, op);
    pl_work_host(e, e->what, 0);
    pl_work_waits(e);
}

/* Whether a line makes a tensor of another's type: it says dtype=x.dtype, or calls what does
 * (torchvision's and transformers' noise that drops whole samples, masks that are added to scores;
 * export shows the caller's line). */
static bool takes_type(const char *source) {
    static const char *const calls[] = {"stochastic_depth(", "drop_path("};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strstr(source, calls[i])) return true;
    if (pl_makes_mask(source)) return true;
    const char *line = strstr(source, "dtype="), *of = line ? strstr(line, ".dtype") : NULL;
    return of && of < line + strcspn(line, ",)");
}

/* torch.empty(size, dtype=x.dtype) was exported with x's type of then; in a job whose weights are
 * half it has x's type of now. A type that the line names itself stays. */
static pl_dtype made_dtype(const pl_eager *e, const pl_node *node, pl_dtype exported) {
    if (exported != PL_DT_F32 || !takes_type(node->source)) return exported;
    return e->job->precision == PL_BF16   ? PL_DT_BF16
           : e->job->precision == PL_FP16 ? PL_DT_F16
                                          : exported;
}

/* zeros, arange, full_like and their like: outputs that need no gradient. */
void pl_run_make(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    for (uint32_t i = 0; i < node->output_count; i++) {
        const pl_tensor *out = pl_output_tensor(e, node, i);
        if (!out) continue;
        pl_dtype dtype = out->dtype;
        const pl_value *like = pl_arg_at(e, node, 0);
        bool typed = pl_node_arg(node, "dtype") && pl_node_arg(node, "dtype")->kind == PL_ARG_DTYPE;
        if (like && !typed)
            dtype = pl_output_dtype(e, node, i);
        else if (typed)
            dtype = made_dtype(e, node, dtype);
        pl_set_output(e, node, i, pl_new_output(e, node, i, dtype, NULL));
    }
}

/* Any number of tensor arguments, lists too: each output new, each argument kept, a gradient each,
 * right for stacks of products. What has no row gets one more scratch tensor per gradient
 * (fn->rule).
 */
static void many_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    (void)grads;
    for (int i = 0; i < fn->edge_count; i++)
        if (fn->edges[i].wanted)
            out[i] = pl_new(e, (pl_dtype)fn->edges[i].dtype, fn->edges[i].dims, fn->edges[i].sizes,
                            NULL);
    for (int i = 0; fn->rule && i < fn->edge_count; i++)
        if (out[i]) pl_scratch(e, pl_value_bytes(out[i]));
}

/* The values of all tensor arguments, in order: [*count], NULL: out of memory. */
static pl_value **tensor_args(pl_eager *e, const pl_node *node, int *count) {
    size_t most = 0;
    uint32_t n;
    for (uint32_t i = 0; i < node->arg_count; i++) {
        pl_arg_tensors(&node->args[i], &n);
        most += n;
    }
    *count = 0;
    pl_value **args =
        most < INT32_MAX ? pl_arena_array(e->step_arena, most + 1, sizeof *args) : NULL;
    for (uint32_t i = 0; args && i < node->arg_count; i++) {
        const int32_t *ids = pl_arg_tensors(&node->args[i], &n);
        for (uint32_t k = 0; k < n; k++)
            if (ids[k] >= 0 && e->env[ids[k]]) args[(*count)++] = e->env[ids[k]];
    }
    return args;
}

static void run_many(pl_eager *e, const pl_node *node, bool unknown) {
    int count;
    uint32_t outputs = node->output_count;
    pl_value **args = tensor_args(e, node, &count),
             **results = pl_arena_array(e->step_arena, outputs + 1u, sizeof *results);
    if (!args || !results) {
        e->failed = true;
        return;
    }
    for (uint32_t i = 0; i < outputs; i++)
        if (pl_output_tensor(e, node, i))
            results[i] = pl_new_output(e, node, i, pl_output_dtype(e, node, i), NULL);
    pl_fn *fn =
        count ? pl_fn_new(e, node->target, many_backward, count, args, outputs ? (int)outputs : 1)
              : NULL;
    for (uint32_t i = 0; unknown && i < outputs; i++)
        if (results[i]) pl_scratch(e, pl_value_bytes(results[i]));
    if (fn) {
        fn->rule = unknown ? node : NULL;
        for (int i = 0; i < count; i++) pl_save(e, fn, args[i]);
        for (uint32_t i = 0; i < outputs; i++) {
            if (!results[i]) continue;
            pl_save(e, fn, results[i]);
            pl_fn_output(fn, results[i], (int)i);
        }
    }
    for (uint32_t i = 0; i < outputs; i++)
        if (results[i]) pl_set_output(e, node, i, results[i]);
}

void pl_run_many(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    run_many(e, node, false);
}

/* On the safe side: everything is kept, everything that can have a gradient gets one. */
void pl_run_unknown(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    run_many(e, node, true);
}

/* ---- dropout ---- */

/* native_dropout_backward: one tensor. Saved: the mask. */
static void dropout_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    (void)fn;
    out[0] = pl_new_like(e, grads[0], (pl_dtype)grads[0]->dtype);
}

pl_value *pl_dropout_value(pl_eager *e, pl_value *x) {
    pl_value *mask = pl_new_like(e, x, PL_DT_BOOL);
    pl_value *result = pl_new_like(e, x, (pl_dtype)x->dtype);
    pl_work_kernels(e, &(pl_work_known){.read = pl_work_bytes(x),
                                        .strided = !pl_is_dense(x),
                                        .out = {result, mask}});
    pl_fn *fn = pl_fn_new(e, "NativeDropoutBackward0", dropout_backward, 1, &x, 1);
    if (fn) {
        fn->work = PL_WORK_POINTWISE;
        fn->kernels = 0;
        pl_save(e, fn, mask);
        pl_fn_output(fn, result, 0);
    }
    pl_drop(e, mask);
    return result;
}

/* noise.bernoulli_(1 - p).div_(1 - p) */
static void note_noise(pl_eager *e, const pl_value *noise) {
    pl_work_fill(e, PL_PASS_FORWARD, noise);
    pl_work_pointwise(e, PL_PASS_FORWARD, noise, NULL, noise);
}

void pl_run_dropout(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *x = pl_arg_at(e, node, 0);
    if (!x) return;
    bool off = pl_node_float(node, "p", 0.5) <= 0 || pl_node_int(node, "train", 1) == 0 ||
               x->elements == 0;
    if (off) {
        pl_set_output(e, node, 0, pl_hold(x));
        return;
    }
    if (!pl_operator_in_place(node->target)) {
        pl_set_output(e, node, 0, pl_dropout_value(e, x));
        return;
    }
    /* dropout_: a noise tensor of the input's type, multiplied in place and kept. */
    pl_value *noise = pl_new_like(e, x, (pl_dtype)x->dtype), *result = pl_alias_like(e, x);
    note_noise(e, noise);
    pl_work_pointwise(e, PL_PASS_FORWARD, x, noise, x);
    pl_fn *fn = pl_fn_new(e, "MulBackward0", dropout_backward, 1, &x, 1);
    if (fn) {
        pl_save(e, fn, noise);
        pl_fn_output(fn, result, 0);
    }
    pl_drop(e, noise);
    pl_set_output(e, node, 0, result);
}

/* Dropout2d and stochastic depth: noise per channel [N, C, 1, ..], multiplied in; the alpha form
 * adds another tensor made of the noise (a 't' in the row). Backward of the product. */
void pl_run_feature_dropout(pl_eager *e, const pl_node *node, const pl_operator *op) {
    pl_value *x = pl_arg_at(e, node, 0);
    if (!x) return;
    if (pl_node_float(node, "p", 0.5) <= 0 || pl_node_int(node, "train", 1) == 0 || x->dims < 2) {
        pl_set_output(e, node, 0, pl_hold(x));
        return;
    }
    int64_t sizes[PL_MAX_DIMS];
    for (int i = 0; i < x->dims; i++) sizes[i] = i < 2 ? x->sizes[i] : 1;
    pl_value *noise = pl_new(e, (pl_dtype)x->dtype, x->dims, sizes, NULL);
    pl_value *shift =
        op->forward && strchr(op->forward, 't') ? pl_new_like(e, noise, (pl_dtype)x->dtype) : NULL;
    bool in_place = pl_operator_in_place(node->target);
    pl_value *result = in_place ? pl_alias_like(e, x) : pl_new_like(e, x, (pl_dtype)x->dtype);
    note_noise(e, noise);
    if (shift) pl_work_pointwise(e, PL_PASS_FORWARD, noise, NULL, shift);
    pl_work_pointwise(e, PL_PASS_FORWARD, x, noise, in_place ? x : result);
    if (shift) pl_work_pointwise(e, PL_PASS_FORWARD, result, shift, result);
    pl_fn *fn = pl_fn_new(e, "MulBackward0", dropout_backward, 1, &x, 1);
    if (fn) {
        pl_save(e, fn, noise);
        pl_fn_output(fn, result, 0);
    }
    pl_drop(e, shift);
    pl_drop(e, noise);
    pl_set_output(e, node, 0, result);
}

/* ---- softmax ---- */

static void note_softmax(pl_eager *e, pl_pass pass, double read, int dim, const pl_value *out) {
    int64_t length = out->dims > 0 ? out->sizes[dim] : 1;
    pl_work_kernels(e, &(pl_work_known){.kind = PL_WORK_SOFTMAX,
                                        .pass = pass,
                                        .read = read,
                                        .rows = length ? out->elements / length : 0,
                                        .columns = length,
                                        .strided = dim + 1 < out->dims,
                                        .out = {out}});
}

/* _softmax_backward_data: one tensor, of the input's type. Saved: the result; numbers: [0] 1 for
 * log_softmax, [1] the dimension. */
static void softmax_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    const pl_edge *edge = &fn->edges[0];
    pl_value *g = pl_is_contiguous(grads[0])
                      ? NULL
                      : pl_new(e, (pl_dtype)grads[0]->dtype, edge->dims, edge->sizes, NULL);
    if (g) pl_work_copy(e, PL_PASS_BACKWARD, grads[0], g);
    out[0] = pl_new(e, (pl_dtype)edge->dtype, edge->dims, edge->sizes, NULL);
    /* softmax's kernel is given grad * output, log_softmax's is not */
    if (fn->numbers[0] == 0) {
        pl_value *product = pl_new(e, (pl_dtype)grads[0]->dtype, edge->dims, edge->sizes, NULL);
        pl_work_pointwise(e, PL_PASS_BACKWARD, g ? g : grads[0], fn->saved[0], product);
        pl_drop(e, product);
    }
    note_softmax(e, PL_PASS_BACKWARD, 2 * pl_work_bytes(fn->saved[0]), (int)fn->numbers[1], out[0]);
    pl_drop(e, g);
}

pl_value *pl_softmax_value(pl_eager *e, pl_value *x, pl_dtype dtype, bool log, int dim) {
    /* fp16 to float32 is one kernel; any other change of type is a cast first (nloss-kl_div,
     * nloss-nll_f32) */
    bool fused = x->dtype == dtype || (dtype == PL_DT_F32 && x->dtype == PL_DT_F16);
    pl_value *cast = fused ? pl_hold(x) : pl_to(e, x, dtype);
    pl_value *dense = pl_is_contiguous(cast)
                          ? NULL
                          : pl_new(e, (pl_dtype)cast->dtype, cast->dims, cast->sizes, NULL);
    if (dense) pl_work_copy(e, PL_PASS_FORWARD, cast, dense);
    pl_value *result = pl_new(e, dtype, cast->dims, cast->sizes, NULL);
    note_softmax(e, PL_PASS_FORWARD, pl_work_bytes(cast), dim, result);
    pl_drop(e, dense);
    pl_fn *fn = pl_fn_new(e, log ? "LogSoftmaxBackward0" : "SoftmaxBackward0", softmax_backward, 1,
                          &cast, 1);
    if (fn) {
        if (pl_fn_numbers(e, fn, 2)) {
            fn->numbers[0] = log;
            fn->numbers[1] = dim;
        }
        pl_save(e, fn, result);
        pl_fn_output(fn, result, 0);
    }
    pl_drop(e, cast);
    return result;
}

void pl_run_softmax(pl_eager *e, const pl_node *node, const pl_operator *op) {
    pl_value *x = pl_arg_at(e, node, 0);
    if (!x) return;
    const pl_arg *typed = pl_node_arg(node, "dtype");
    pl_dtype dtype = typed && typed->kind == PL_ARG_DTYPE ? (pl_dtype)typed->i
                     : e->autocast                        ? PL_DT_F32
                                                          : (pl_dtype)x->dtype;
    bool log = strstr(op->name, "log") != NULL;
    pl_set_output(e, node, 0,
                  pl_softmax_value(e, x, dtype, log, pl_dim_arg(node, "dim", -1, x->dims)));
}

/* ---- joins ---- */

/* cat's gradients are narrowed views of the whole, stack's are unbound ones. */
static void cat_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    const pl_value *g = grads[0];
    for (int i = 0; i < fn->edge_count; i++) {
        const pl_edge *edge = &fn->edges[i];
        if (!edge->wanted) continue;
        int64_t strides[PL_MAX_DIMS];
        int stacked = g->dims == edge->dims + 1 ? (int)fn->numbers[0] : -1;
        for (int k = 0; k < edge->dims; k++) {
            int from = stacked >= 0 && k >= stacked ? k + 1 : k;
            strides[k] = from < g->dims ? g->strides[from] : 1;
        }
        out[i] = pl_alias(e, g, edge->dims, edge->sizes, strides);
    }
}

static void join(pl_eager *e, const pl_node *node, bool stack) {
    const pl_arg *list = pl_node_arg(node, "tensors");
    const pl_tensor *out = pl_output_tensor(e, node, 0);
    if (!list || list->kind != PL_ARG_TENSORS || !out) return;
    pl_dtype dtype = pl_output_dtype(e, node, 0);
    uint32_t count = list->count;
    pl_value **parts = pl_arena_array(e->step_arena, count, sizeof *parts);
    if (!parts) {
        e->failed = true;
        return;
    }
    const pl_value *first = NULL;
    for (uint32_t i = 0; i < count; i++) {
        pl_value *part = list->list[i] >= 0 ? e->env[list->list[i]] : NULL;
        if (part && e->autocast && !stack)
            parts[i] = pl_autocast_to(e, part, dtype);
        else
            parts[i] = pl_hold(part);
        if (!first) first = parts[i];
    }
    pl_value *result = pl_new_output(e, node, 0, dtype, first);
    pl_fn *fn =
        pl_fn_new(e, stack ? "StackBackward0" : "CatBackward0", cat_backward, (int)count, parts, 1);
    if (fn) {
        if (pl_fn_numbers(e, fn, 1))
            fn->numbers[0] = pl_wrap_dim(pl_node_int(node, "dim", 0), out->dims);
        pl_fn_output(fn, result, 0);
    }
    for (uint32_t i = 0; i < count; i++) pl_drop(e, parts[i]);
    pl_set_output(e, node, 0, result);
}

void pl_run_cat(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    join(e, node, false);
}

void pl_run_stack(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    join(e, node, true);
}

/* ---- prelu, copy, in place ---- */

/* _prelu_kernel: the weight is viewed to broadcast; backward makes both gradients at the input's
 * size at once, and the weight's is summed. Saved: input, weight. */
static void prelu_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    pl_value *x = pl_new_like(e, grads[0], (pl_dtype)grads[0]->dtype),
             *w = pl_new_like(e, grads[0], (pl_dtype)grads[0]->dtype);
    pl_work_kernels(e,
                    &(pl_work_known){.pass = PL_PASS_BACKWARD,
                                     .read = pl_work_bytes(grads[0]) + pl_work_bytes(fn->saved[0]),
                                     .out = {x, w}});
    if (fn->edges[0].wanted)
        out[0] = x;
    else
        pl_drop(e, x);
    if (fn->edges[1].wanted)
        out[1] = w;
    else
        pl_drop(e, w);
}

void pl_run_prelu(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *x = pl_arg_value(e, node, "self"), *weight = pl_arg_value(e, node, "weight");
    if (!x || !weight) return;
    pl_dtype low = (pl_dtype)e->autocast;
    pl_value *w = low ? pl_autocast_to(e, weight, low) : pl_hold(weight);
    pl_value *cast = low ? pl_autocast_to(e, x, low) : pl_hold(x);
    int64_t sizes[PL_MAX_DIMS];
    for (int i = 0; i < cast->dims; i++) sizes[i] = i == 1 ? w->elements : 1;
    pl_value *wide = cast->dims > 1 ? pl_reshape(e, w, cast->dims, sizes) : pl_hold(w);
    pl_value *result = pl_new_like(e, cast, (pl_dtype)cast->dtype);
    pl_value *inputs[2] = {cast, wide};
    pl_fn *fn = pl_fn_new(e, "PreluKernelBackward0", prelu_backward, 2, inputs, 1);
    if (fn) {
        pl_save(e, fn, cast);
        pl_save(e, fn, wide);
        pl_fn_output(fn, result, 0);
    }
    pl_drop(e, wide);
    pl_drop(e, cast);
    pl_drop(e, w);
    pl_set_output(e, node, 0, result);
}

/* a.copy_(b): a's storage, b's gradient. */
static void copy_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    if (fn->edges[0].wanted) {
        out[0] = pl_new_like(e, grads[0], (pl_dtype)grads[0]->dtype); /* zeros */
        pl_work_fill(e, PL_PASS_BACKWARD, out[0]);
    }
    if (fn->edges[1].wanted) out[1] = pl_hold(grads[0]);
}

void pl_run_copy(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *to = pl_arg_at(e, node, 0), *from = pl_arg_at(e, node, 1);
    if (!to) return;
    pl_value *result = pl_alias_like(e, to);
    result->base = to->base;
    pl_value *inputs[2] = {to, from};
    pl_fn *fn = from ? pl_fn_new(e, "CopyBackwards", copy_backward, 2, inputs, 1) : NULL;
    if (fn)
        fn->rule = ":n|:g"; /* into a view: zeros for what was there, the part's gradient for b */
    pl_fn_in_place(e, fn, to);
    pl_fn_output(fn, result, 0);
    pl_set_output(e, node, 0, result);
}

/* silu_ and its like need their input for the gradient and write over it: autograd keeps a clone.
 */
void pl_run_keep_input(pl_eager *e, const pl_node *node, const pl_operator *op) {
    pl_value *x = pl_arg_at(e, node, 0);
    if (!x) return;
    pl_value *kept =
        e->grad_enabled && x->needs_grad ? pl_new_like(e, x, (pl_dtype)x->dtype) : NULL;
    pl_value *result = pl_alias_like(e, x);
    result->base = x->base;
    if (kept) pl_work_copy(e, PL_PASS_FORWARD, x, kept);
    pl_work_pointwise(e, PL_PASS_FORWARD, x, NULL, x);
    pl_fn *fn = pl_fn_new(e, op->name, pl_rule_backward, 1, &x, 1);
    if (fn) {
        fn->rule = op->backward;
        pl_save(e, fn, kept);
        pl_fn_in_place(e, fn, x);
        pl_fn_output(fn, result, 0);
    }
    pl_drop(e, kept);
    pl_set_output(e, node, 0, result);
}

/* roll over several dimensions is one roll after another: each a copy, the one before it freed. */
static void roll_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    pl_value *last = NULL;
    for (int64_t i = 0; i < fn->numbers[0]; i++) {
        pl_value *next =
            pl_new(e, (pl_dtype)grads[0]->dtype, grads[0]->dims, grads[0]->sizes, NULL);
        pl_drop(e, last);
        last = next;
    }
    out[0] = last;
}

void pl_run_roll(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *x = pl_arg_at(e, node, 0);
    const pl_arg *dims = pl_node_arg(node, "dims");
    if (!x) return;
    int64_t count =
        dims && dims->kind == PL_ARG_INTS && dims->count > 0 && dims->count <= PL_MAX_DIMS
            ? dims->count
            : 1;
    pl_value *last = NULL;
    for (int64_t i = 0; i < count; i++) {
        pl_value *next = pl_new(e, (pl_dtype)x->dtype, x->dims, x->sizes, NULL);
        pl_drop(e, last);
        last = next;
    }
    pl_fn *fn = pl_fn_new(e, "RollBackward0", roll_backward, 1, &x, 1);
    if (fn) {
        if (pl_fn_numbers(e, fn, 1)) fn->numbers[0] = count;
        pl_fn_output(fn, last, 0);
    }
    pl_set_output(e, node, 0, last);
}

/* meshgrid, broadcast_tensors: each output an expanded view of its argument; meshgrid's vectors are
 * stood up first, vector i along dimension i (indexing "ij"; "xy" changes places of the first two).
 */
void pl_run_views(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    int count;
    pl_value **args = tensor_args(e, node, &count);
    if (!args) {
        e->failed = true;
        return;
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        const pl_tensor *out = pl_output_tensor(e, node, i);
        if (!out || (int)i >= count) continue;
        int64_t sizes[PL_MAX_DIMS];
        int leading = out->dims - args[i]->dims;
        if (leading < 0) continue;
        bool grid = strstr(node->target, "meshgrid") != NULL && args[i]->dims <= 1;
        const pl_arg *indexing = pl_node_arg(node, "indexing");
        bool swapped = indexing && indexing->kind == PL_ARG_STRING &&
                       strcmp(indexing->s, "xy") == 0 && i < 2 && out->dims > 1;
        for (int k = 0; k < out->dims; k++)
            sizes[k] = grid || k < leading ? 1 : args[i]->sizes[k - leading];
        if (grid && (int)i < out->dims) sizes[swapped ? 1 - i : i] = args[i]->elements;
        pl_value *stood = grid ? pl_reshape(e, args[i], out->dims, sizes) : pl_hold(args[i]);
        pl_set_output(e, node, i, pl_expand(e, stood, out->dims, out->sizes));
        pl_drop(e, stood);
    }
}

/* clamp_backward: where(inside, grad, 0), the 0 a tensor, inside one comparison per bound. Bounds
 * that are tensors have gradients of their own: by the row. In place the input is cloned. */
void pl_run_clamp(pl_eager *e, const pl_node *node, const pl_operator *op) {
    int bounds = 0;
    for (uint32_t i = 1; i < node->arg_count; i++) {
        if (node->args[i].kind == PL_ARG_TENSOR) return pl_run_by_rule(e, node, op);
        bounds += node->args[i].kind != PL_ARG_NONE;
    }
    pl_operator row = *op;
    row.backward = bounds > 1 ? "a:smmn" : "a:smn";
    if (pl_operator_in_place(node->target))
        pl_run_keep_input(e, node, &row);
    else
        pl_run_by_rule(e, node, &row);
}
