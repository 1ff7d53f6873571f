/* op_reduce: sums, means, norms, variances and the pools that are means.
 *
 * Rules: aten/src/ATen/native/{ReduceOps,AdaptiveAveragePooling}.cpp, native/cuda/ReduceOps.cpp,
 * derivatives.yaml and FunctionsManual.cpp (norm_backward, var_backward, std_backward; 2.11),
 * checked against allocator traces (nops-tok-15, nops-tok-17, nops-tok-18; 2026-11-15,
 * PyTorch 2.11, H200). */
#include "tape/operator.h"

#include <math.h>
#include <string.h>

/* Dimensions of the argument that the output lost or kept as 1. */
static uint32_t reduced_dims(const pl_node *node, const pl_value *x) {
    const pl_arg *dim = pl_node_arg(node, "dim");
    if (!dim || dim->kind == PL_ARG_NONE || (dim->kind == PL_ARG_INTS && dim->count == 0))
        return ~0u;
    uint32_t reduced = 0;
    uint32_t count = dim->kind == PL_ARG_INTS ? dim->count : 1;
    for (uint32_t i = 0; i < count; i++) {
        int64_t d = pl_wrap_dim(dim->kind == PL_ARG_INTS ? dim->ints[i] : dim->i, x->dims);
        if (d >= 0 && d < x->dims) reduced |= 1u << d;
    }
    return reduced;
}

static int accumulator(pl_dtype dtype) {
    return dtype == PL_DT_F64 || dtype == PL_DT_I64 ? 8 : 4;
}

/* ---- sums and means ---- */

/* The gradient, unsqueezed at the reduced dimensions and expanded: a view. */
static pl_value *expand_back(pl_eager *e, const pl_edge *edge, const pl_value *g,
                             uint32_t reduced) {
    int64_t strides[PL_MAX_DIMS];
    bool kept = g->dims == edge->dims;
    for (int i = 0, k = 0; i < edge->dims; i++) {
        bool lost = reduced >> i & 1;
        strides[i] = lost || k >= g->dims ? 0 : g->strides[k];
        if (!lost || kept) k++;
    }
    return pl_alias(e, g, edge->dims, edge->sizes, strides);
}

/* numbers: the reduced bits. */
static void sum_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    out[0] = expand_back(e, &fn->edges[0], grads[0], (uint32_t)fn->numbers[0]);
}

/* mean: the expanded gradient divided by the count, a whole tensor. */
static void mean_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    const pl_edge *edge = &fn->edges[0];
    out[0] = pl_new(e, (pl_dtype)grads[0]->dtype, edge->dims, edge->sizes, NULL);
    pl_work_pointwise(e, PL_PASS_BACKWARD, grads[0], NULL, out[0]);
}

/* Notes in fn (may be NULL) over which dimensions it reduced to its result. */
static void note_reduced(pl_eager *e, pl_fn *fn, uint32_t reduced, pl_value *result) {
    if (!fn) return;
    if (pl_fn_numbers(e, fn, 1)) fn->numbers[0] = reduced;
    pl_fn_output(fn, result, 0);
}

static void reduce(pl_eager *e, const pl_node *node, bool mean, uint32_t reduced) {
    pl_value *given = pl_arg_at(e, node, 0);
    if (!given) return;
    pl_value *x = pl_hold(given);
    const pl_arg *typed = pl_node_arg(node, "dtype");
    /* autocast gives sum the type float32 for its result, mean none */
    pl_dtype dtype = typed && typed->kind == PL_ARG_DTYPE ? (pl_dtype)typed->i
                     : !mean && e->autocast && pl_dtype_is_half((pl_dtype)given->dtype)
                         ? PL_DT_F32
                         : pl_output_dtype(e, node, 0);
    pl_value *result = pl_new_output(e, node, 0, dtype, NULL);
    /* the kernel reads halves as floats; anything else is cast before it (counts of bools: int64)
     */
    bool reads = x->dtype == dtype || (pl_dtype_is_half((pl_dtype)x->dtype) && dtype == PL_DT_F32);
    pl_value *cast = reads ? NULL : pl_new_like(e, x, dtype);
    if (cast) pl_work_copy(e, PL_PASS_FORWARD, x, cast);
    pl_work_reduce(e, PL_PASS_FORWARD, cast ? cast : x, reduced, result);
    pl_reduce_scratch(e, cast ? cast : x, reduced, accumulator(reads ? (pl_dtype)x->dtype : dtype));
    pl_drop(e, cast);
    pl_fn *fn = pl_fn_new(e, mean ? "MeanBackward1" : "SumBackward1",
                          mean ? mean_backward : sum_backward, 1, &x, 1);
    note_reduced(e, fn, reduced, result);
    pl_drop(e, x);
    pl_set_output(e, node, 0, result);
}

void pl_run_mean(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    const pl_value *x = pl_arg_at(e, node, 0);
    if (x) reduce(e, node, true, reduced_dims(node, x));
}

void pl_run_sum(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    const pl_value *x = pl_arg_at(e, node, 0);
    if (x) reduce(e, node, false, reduced_dims(node, x));
}

pl_value *pl_sum_value(pl_eager *e, pl_value *x, int dim) {
    int64_t sizes[PL_MAX_DIMS];
    int dims = 0;
    for (int i = 0; i < x->dims; i++)
        if (dim >= 0 && i != dim) sizes[dims++] = x->sizes[i];
    uint32_t reduced = dim < 0 ? ~0u : 1u << dim;
    pl_value *result = pl_new(e, (pl_dtype)x->dtype, dims, sizes, NULL);
    pl_work_reduce(e, PL_PASS_FORWARD, x, reduced, result);
    pl_reduce_scratch(e, x, reduced, accumulator((pl_dtype)x->dtype));
    pl_fn *fn = pl_fn_new(e, "SumBackward1", sum_backward, 1, &x, 1);
    note_reduced(e, fn, reduced, result);
    return result;
}

pl_value *pl_mean_value(pl_eager *e, pl_value *x) {
    pl_value *result = pl_new_flat(e, (pl_dtype)x->dtype, -1);
    pl_work_reduce(e, PL_PASS_FORWARD, x, ~0u, result);
    pl_reduce_scratch(e, x, ~0u, accumulator((pl_dtype)x->dtype));
    pl_fn_output(pl_fn_new(e, "MeanBackward0", mean_backward, 1, &x, 1), result, 0);
    return result;
}

pl_value *pl_mean_kept(pl_eager *e, pl_value *x, int first) {
    int64_t sizes[PL_MAX_DIMS];
    uint32_t reduced = 0;
    for (int i = 0; i < x->dims; i++) {
        sizes[i] = i < first ? x->sizes[i] : 1;
        if (i >= first) reduced |= 1u << i;
    }
    pl_value *result = pl_new(e, (pl_dtype)x->dtype, x->dims, sizes, NULL);
    pl_work_reduce(e, PL_PASS_FORWARD, x, reduced, result);
    pl_reduce_scratch(e, x, reduced, accumulator((pl_dtype)x->dtype));
    pl_fn *fn = pl_fn_new(e, "MeanBackward1", mean_backward, 1, &x, 1);
    note_reduced(e, fn, reduced, result);
    return result;
}

/* adaptive_avg_pool to one cell is a mean over the cells; else a pool whose backward makes one
 * tensor. */
void pl_run_adaptive_pool(pl_eager *e, const pl_node *node, const pl_operator *op) {
    const pl_value *x = pl_arg_at(e, node, 0);
    const pl_tensor *out = pl_output_tensor(e, node, 0);
    if (!x || !out || out->dims != x->dims) return;
    int spatial = strstr(op->name, "3d") ? 3 : strstr(op->name, "2d") ? 2 : 1;
    bool one = true;
    for (int i = 0; i < spatial; i++) one &= out->sizes[out->dims - 1 - i] == 1;
    if (one) {
        uint32_t reduced = 0;
        for (int i = 0; i < spatial; i++) reduced |= 1u << (x->dims - 1 - i);
        reduce(e, node, true, reduced);
        return;
    }
    static const pl_operator pool = {
        .name = "AdaptiveAvgPoolBackward0", .forward = "o", .backward = "a:N"};
    pl_run_by_rule(e, node, &pool);
}

/* ---- norms ---- */

/* norm_backward by p: sgn(x) * g; x / norm * g, zero where the norm is; the largest elements share
 * g; and g / norm^(p-1) * x * |x|^(p-2). */
static const char *norm_formula(double p) {
    if (p == 0) return ":N";
    if (p == 1) return "ar:TN";
    if (p == 2) return "ar:QmN";
    if (isinf(p)) return "ar:TM2iI1TttMN";
    return "ar:TT2ttTmN";
}

void pl_run_norm(pl_eager *e, const pl_node *node, const pl_operator *op) {
    const char *const names[] = {"p", "ord"};
    double p = 2;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) p = pl_node_float(node, names[i], p);
    pl_operator row = *op;
    row.backward = norm_formula(p);
    if (p == 2) e->kernels = 4; /* div, eq, masked_fill_, mul */
    pl_run_by_rule(e, node, &row);
}

pl_value *pl_norm_value(pl_eager *e, pl_value *x, int dim, bool keep, double p) {
    int64_t sizes[PL_MAX_DIMS];
    int dims = 0;
    for (int i = 0; i < x->dims; i++)
        if (i != dim || keep) sizes[dims++] = i == dim ? 1 : x->sizes[i];
    pl_value *result = pl_new(e, (pl_dtype)x->dtype, dims, sizes, NULL);
    pl_work_reduce(e, PL_PASS_FORWARD, x, 1u << dim, result);
    pl_reduce_scratch(e, x, 1u << dim, 4);
    pl_fn *fn = pl_fn_new(e, "LinalgVectorNormBackward0", pl_rule_backward, 1, &x, 1);
    if (fn) {
        fn->rule = norm_formula(p);
        fn->kernels = p == 2 ? 4 : 0;
        pl_save(e, fn, x);
        pl_save(e, fn, result);
        pl_fn_output(fn, result, 0);
    }
    return result;
}

/* ---- variance ---- */

static pl_value *small_like(pl_eager *e, const pl_value *g) {
    return pl_new_like(e, g, (pl_dtype)g->dtype);
}

/* var_backward: 2 / (n - 1) * g * (x - mean(x)). */
static pl_value *var_grad(pl_eager *e, const pl_edge *edge, const pl_value *g) {
    pl_value *mean = small_like(e, g);
    pl_value *centred = pl_new(e, (pl_dtype)edge->dtype, edge->dims, edge->sizes, NULL);
    pl_value *scaled = small_like(e, g);
    pl_value *result = pl_new(e, (pl_dtype)edge->dtype, edge->dims, edge->sizes, NULL);
    pl_drop(e, scaled);
    pl_drop(e, centred);
    pl_drop(e, mean);
    return result;
}

/* Of var_mean and std_mean: both gradients are made, then added. numbers: [0] 1 for std. */
static void var_mean_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    const pl_edge *edge = &fn->edges[0];
    pl_value *by_var = NULL, *by_mean = NULL;
    if (grads[0]) {
        pl_value *g = NULL;
        if (fn->numbers[0]) { /* g / (2 result), zero where the result is */
            pl_value *twice = small_like(e, grads[0]);
            g = small_like(e, grads[0]);
            pl_drop(e, pl_new_like(e, grads[0], PL_DT_BOOL));
            pl_drop(e, twice);
        }
        by_var = var_grad(e, edge, g ? g : grads[0]);
        pl_drop(e, g);
    }
    if (grads[1]) by_mean = pl_new(e, (pl_dtype)grads[1]->dtype, edge->dims, edge->sizes, NULL);
    if (!by_var || !by_mean) {
        out[0] = by_var ? by_var : by_mean;
        return;
    }
    out[0] = pl_new(e, (pl_dtype)edge->dtype, edge->dims, edge->sizes, NULL);
    pl_drop(e, by_var);
    pl_drop(e, by_mean);
}

void pl_run_var_mean(pl_eager *e, const pl_node *node, const pl_operator *op) {
    pl_value *x = pl_arg_at(e, node, 0);
    if (!x || node->output_count < 2) return;
    bool std = strstr(op->name, "std") != NULL;
    pl_value *spread = pl_new_output(e, node, 0, (pl_dtype)x->dtype, NULL);
    pl_value *mean = pl_new_output(e, node, 1, (pl_dtype)x->dtype, NULL);
    pl_fn *fn =
        pl_fn_new(e, std ? "StdMeanBackward0" : "VarMeanBackward0", var_mean_backward, 1, &x, 2);
    if (fn) {
        if (pl_fn_numbers(e, fn, 1)) fn->numbers[0] = std;
        pl_save(e, fn, x);
        if (std) pl_save(e, fn, spread);
        pl_fn_output(fn, spread, 0);
        pl_fn_output(fn, mean, 1);
    }
    pl_set_output(e, node, 0, spread);
    pl_set_output(e, node, 1, mean);
}
