/* op_composite: operators that a graph has as one node and PyTorch runs as several, or whose
 * kernels allocate in a way of their own: distances, bilinear layers, padding, columns of an image,
 * grids, real transforms.
 *
 * Rules:
 * aten/src/ATen/native/{Linear,Distance,PadNd,AffineGridGenerator,SpectralOps,WeightNorm}.cpp,
 * native/cuda/{Im2Col,Col2Im,GridSampler}.cu, FunctionsManual.cpp (2.11), checked against allocator
 * traces (nops-tok-27 to 32, nops-img-2 to 5; 2026-11-15, PyTorch 2.11, H200). */
#include "tape/operator.h"

#include <string.h>

#include "core/checked.h"

static pl_value *like_edge(pl_eager *e, const pl_edge *edge, pl_dtype dtype) {
    return pl_new(e, dtype, edge->dims, edge->sizes, NULL);
}

/* ---- bilinear ---- */

/* _trilinear of three operands walks over the outputs: each is a product of two operands, whose
 * product with the third is added to the zeroed whole. Blocks of one turn: first and second
 * product, in elements. */
static void turns(pl_eager *e, pl_dtype dtype, int64_t count, int64_t first, int64_t second) {
    for (int64_t i = 0; i < count && !e->failed; i++) {
        pl_value *a = pl_new_flat(e, dtype, first);
        pl_blas(e);
        pl_value *b = pl_new_flat(e, dtype, second);
        pl_drop(e, a);
        pl_drop(e, b);
    }
}

enum { BI_LEFT, BI_WEIGHT, BI_RIGHT };

/* left [M, A], weight [O, A, B], right [M, B]. The left's gradient goes by way of the whole [M, A,
 * B]. */
static void bilinear_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    pl_dtype dtype = (pl_dtype)grads[0]->dtype;
    const pl_value *left = fn->saved[BI_LEFT], *weight = fn->saved[BI_WEIGHT];
    int64_t m = left->sizes[0], o = weight->sizes[0], a = weight->sizes[1], b = weight->sizes[2];
    if (fn->edges[BI_LEFT].wanted) {
        out[BI_LEFT] = like_edge(e, &fn->edges[BI_LEFT], dtype);
        turns(e, dtype, o, m * a * b, m * a);
    }
    if (fn->edges[BI_WEIGHT].wanted) {
        out[BI_WEIGHT] = like_edge(e, &fn->edges[BI_WEIGHT], dtype);
        turns(e, dtype, o, m * a, a * b);
    }
    if (fn->edges[BI_RIGHT].wanted) {
        out[BI_RIGHT] = like_edge(e, &fn->edges[BI_RIGHT], dtype);
        turns(e, dtype, o, m * b, m * b);
    }
}

void pl_run_bilinear(pl_eager *e, const pl_node *node, const pl_operator *op) {
    pl_value *given[3] = {pl_arg_value(e, node, "input1"), pl_arg_value(e, node, "weight"),
                          pl_arg_value(e, node, "input2")};
    const pl_tensor *out = pl_output_tensor(e, node, 0);
    if (!given[0] || !given[1] || !given[2] || !out || given[1]->dims != 3 || given[0]->dims < 1 ||
        given[2]->dims < 1)
        return pl_run_many(e, node, op);
    int64_t o = given[1]->sizes[0], a = given[1]->sizes[1], b = given[1]->sizes[2];
    if (a == 0 || b == 0 || o == 0) return pl_run_many(e, node, op);
    int64_t m = given[0]->elements / a;
    pl_value *flat[3] = {pl_reshape(e, given[0], 2, (int64_t[]){m, a}), pl_hold(given[1]),
                         pl_reshape(e, given[2], 2, (int64_t[]){m, b})};
    pl_dtype dtype = (pl_dtype)flat[0]->dtype;
    pl_value *product = pl_new(e, dtype, 2, (int64_t[]){m, o}, NULL);
    turns(e, dtype, o, m * b, m);
    pl_fn *fn = pl_fn_new(e, "TrilinearBackward0", bilinear_backward, 3, flat, 1);
    if (fn) {
        for (int i = 0; i < 3; i++) pl_save(e, fn, flat[i]);
        pl_fn_output(fn, product, 0);
    }
    pl_value *wide = pl_reshape(e, product, out->dims, out->sizes),
             *bias = pl_arg_value(e, node, "bias");
    pl_set_output(e, node, 0,
                  bias ? pl_pointwise(e, "AddBackward0", ":g|:g", wide, bias) : pl_hold(wide));
    pl_drop(e, wide);
    pl_drop(e, product);
    for (int i = 0; i < 3; i++) pl_drop(e, flat[i]);
}

/* ---- distances ---- */

/* _euclidean_dist_backward: ratio = grad / distance, zero where that is; each side x * sum(ratio) -
 * ratio @ other. */
static void euclidean_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    pl_dtype dtype = (pl_dtype)grads[0]->dtype;
    pl_value *ratio = pl_new_like(e, grads[0], dtype);
    pl_drop(e, pl_new_like(e, grads[0], PL_DT_BOOL));
    pl_value *held[6] = {0};
    for (int i = 0; i < 2; i++) {
        const pl_edge *edge = &fn->edges[i];
        if (!edge->wanted) continue;
        held[3 * i] = like_edge(e, edge, dtype);
        pl_blas(e);
        held[3 * i + 1] = pl_new_flat(
            e, dtype,
            edge->sizes[edge->dims - 1] ? fn->saved[i]->elements / edge->sizes[edge->dims - 1] : 0);
        held[3 * i + 2] = like_edge(e, edge, dtype);
        out[i] = like_edge(e, edge, dtype);
    }
    for (int i = 6; i-- > 0;) pl_drop(e, held[i]);
    pl_drop(e, ratio);
}

/* More than 25 rows and p = 2: one product of the operands, each joined with squared lengths and
 * ones. */
static pl_value *euclidean(pl_eager *e, const pl_node *node, pl_value *a, pl_value *b) {
    pl_dtype dtype = (pl_dtype)a->dtype;
    pl_value *x[2] = {a, b}, *norm[2], *ones[2], *joined[2];
    int64_t sizes[2][PL_MAX_DIMS];
    for (int i = 0; i < 2; i++) {
        memcpy(sizes[i], x[i]->sizes, x[i]->dims * sizeof *sizes[i]);
        int64_t rows =
            x[i]->sizes[x[i]->dims - 1] ? x[i]->elements / x[i]->sizes[x[i]->dims - 1] : 0;
        pl_value *square = pl_new_like(e, x[i], dtype);
        norm[i] = pl_new_flat(e, dtype, rows);
        pl_drop(e, square);
        ones[i] = pl_new_flat(e, dtype, rows);
        sizes[i][x[i]->dims - 1] += 2;
    }
    pl_value *scaled = pl_new_like(e, a, dtype);
    joined[0] = pl_new(e, dtype, a->dims, sizes[0], NULL);
    pl_drop(e, ones[0]);
    pl_drop(e, norm[0]);
    pl_drop(e, scaled);
    joined[1] = pl_new(e, dtype, b->dims, sizes[1], NULL);
    pl_drop(e, norm[1]);
    pl_drop(e, ones[1]);
    pl_value *result = pl_new_output(e, node, 0, dtype, NULL);
    pl_blas(e);
    pl_drop(e, joined[1]);
    pl_drop(e, joined[0]);
    return result;
}

void pl_run_cdist(pl_eager *e, const pl_node *node, const pl_operator *op) {
    pl_value *a = pl_arg_value(e, node, "x1"), *b = pl_arg_value(e, node, "x2");
    int64_t mode = pl_node_int(node, "compute_mode", 0); /* 1: always a product, 2: never */
    bool large = a && b && a->dims >= 2 && b->dims >= 2 &&
                 (a->sizes[a->dims - 2] > 25 || b->sizes[b->dims - 2] > 25);
    if (!large || mode == 2 || pl_node_float(node, "p", 2) != 2) return pl_run_by_rule(e, node, op);
    pl_value *x[2] = {e->autocast ? pl_autocast_to(e, a, PL_DT_F32) : pl_hold(a),
                      e->autocast ? pl_autocast_to(e, b, PL_DT_F32) : pl_hold(b)};
    pl_value *result = euclidean(e, node, x[0], x[1]);
    pl_fn *fn = pl_fn_new(e, "EuclideanDistBackward0", euclidean_backward, 2, x, 1);
    if (fn) {
        pl_save(e, fn, x[0]);
        pl_save(e, fn, x[1]);
        pl_save(e, fn, result);
        pl_fn_output(fn, result, 0);
    }
    pl_drop(e, x[1]);
    pl_drop(e, x[0]);
    pl_set_output(e, node, 0, result);
}

/* The widest of two under autocast, each a reference. */
static void promote_two(pl_eager *e, pl_value *const *given, pl_value **cast) {
    pl_dtype widest = (pl_dtype)given[0]->dtype == (pl_dtype)given[1]->dtype
                          ? (pl_dtype)given[0]->dtype
                          : pl_promote((pl_dtype)given[0]->dtype, (pl_dtype)given[1]->dtype);
    for (int i = 0; i < 2; i++)
        cast[i] = e->autocast ? pl_autocast_to(e, given[i], widest) : pl_hold(given[i]);
}

/* x1 / |x1| times x2 / |x2|, summed; the lengths are cloned before they are held above eps. */
void pl_run_cosine(pl_eager *e, const pl_node *node, const pl_operator *op) {
    pl_value *given[2] = {pl_arg_value(e, node, "x1"), pl_arg_value(e, node, "x2")};
    if (!given[0] || !given[1] || given[0]->dims == 0 ||
        !pl_same_sizes(given[1], given[0]->dims, given[0]->sizes))
        return pl_run_many(e, node, op);
    pl_value *x[2], *length[2], *unit[2];
    promote_two(e, given, x);
    int dim = pl_dim_arg(node, "dim", 1, x[0]->dims);
    for (int i = 0; i < 2; i++) {
        pl_value *norm = pl_norm_value(e, x[i], dim, true, 2);
        length[i] = pl_clone(e, norm);
        pl_drop(e, norm);
    }
    pl_value *eps = pl_new_flat(e, (pl_dtype)x[0]->dtype, -1);
    for (int i = 0; i < 2; i++) {
        unit[i] = pl_pointwise(e, "DivBackward0", "b:n|ab:tttn", x[i], length[i]);
        pl_drop(e, length[i]);
    }
    pl_value *product = pl_pointwise(e, "MulBackward0", "b:n|a:n", unit[0], unit[1]);
    pl_value *result = pl_sum_value(e, product, dim);
    pl_drop(e, product);
    pl_drop(e, eps);
    for (int i = 0; i < 2; i++) {
        pl_drop(e, unit[i]);
        pl_drop(e, x[i]);
    }
    pl_set_output(e, node, 0, result);
}

/* The norm over the last dimension of x1 - x2 + eps. */
void pl_run_pairwise(pl_eager *e, const pl_node *node, const pl_operator *op) {
    pl_value *a = pl_arg_value(e, node, "x1"), *b = pl_arg_value(e, node, "x2");
    if (!a || !b || a->dims == 0 || a->dims < b->dims) return pl_run_many(e, node, op);
    pl_value *difference = pl_pointwise(e, "SubBackward0", ":g|:n", a, b);
    pl_value *moved = pl_pointwise(e, "AddBackward0", ":g", difference, NULL);
    pl_set_output(e, node, 0,
                  pl_norm_value(e, moved, moved->dims - 1, pl_node_int(node, "keepdim", 0) != 0,
                                pl_node_float(node, "p", 2)));
    pl_drop(e, moved);
    pl_drop(e, difference);
}

/* ---- difference along a dimension ---- */

static void part_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    out[0] = like_edge(e, &fn->edges[0], (pl_dtype)grads[0]->dtype);
}

static pl_value *part_of_dim(pl_eager *e, pl_value *x, int dim) {
    int64_t sizes[PL_MAX_DIMS];
    memcpy(sizes, x->sizes, x->dims * sizeof *sizes);
    if (sizes[dim] > 0) sizes[dim]--;
    pl_value *part = pl_alias(e, x, x->dims, sizes, x->strides);
    pl_fn_output(pl_fn_new(e, "SliceBackward0", part_backward, 1, &x, 1), part, 0);
    return part;
}

/* diff: prepend and append are joined first, then all but the first less all but the last. */
void pl_run_diff(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *x = pl_arg_at(e, node, 0), *more = pl_arg_value(e, node, "prepend");
    const pl_tensor *out = pl_output_tensor(e, node, 0);
    if (!x || !out || x->dims == 0) return;
    pl_value *joined =
        more ? pl_new_flat(e, (pl_dtype)x->dtype, x->elements + more->elements) : NULL;
    if (!pl_dtype_is_float(x->dtype) || more || pl_node_int(node, "n", 1) != 1) {
        static const pl_operator difference = {
            .name = "SubBackward0", .forward = "o", .backward = ":TN"};
        pl_run_by_rule(e, node, &difference);
    } else {
        int dim = pl_dim_arg(node, "dim", -1, x->dims);
        pl_value *later = part_of_dim(e, x, dim), *earlier = part_of_dim(e, x, dim);
        pl_set_output(e, node, 0, pl_pointwise(e, "SubBackward0", ":g|:n", later, earlier));
        pl_drop(e, earlier);
        pl_drop(e, later);
    }
    pl_drop(e, joined);
}

/* ---- padding ---- */

/* _pad_circular copies the input into the middle of a new tensor, then each border from the other
 * side, in place on slices of it. Backward goes border by border: a copy of the whole gradient, a
 * clone of the border's part, the border's gradient spread over a zeroed whole and added. numbers:
 * [0] borders, [1..] elements of each. */
static void circular_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    pl_dtype dtype = (pl_dtype)grads[0]->dtype;
    pl_value *whole = grads[0];
    grads[0] = NULL;
    int64_t count = whole->elements;
    for (int64_t i = fn->numbers[0]; i >= 1; i--) {
        pl_value *copy = pl_new_flat(e, dtype, count);
        pl_value *part = pl_new_flat(e, dtype, fn->numbers[i]),
                 *zeroed = pl_new_flat(e, dtype, fn->numbers[i]);
        pl_drop(e, zeroed);
        pl_drop(e, whole);
        pl_value *spread = pl_new_flat(e, dtype, count);
        pl_drop(e, part);
        pl_drop(e, spread); /* added to the copy in place */
        whole = copy;
    }
    pl_value *copy = pl_new_flat(e, dtype, count), *middle = like_edge(e, &fn->edges[0], dtype);
    pl_drop(e, copy);
    pl_drop(e, whole);
    out[0] = like_edge(e, &fn->edges[0], dtype);
    pl_drop(e, middle);
}

static void pad_circular(pl_eager *e, const pl_node *node, pl_value *x) {
    const pl_arg *pad = pl_node_arg(node, "pad");
    pl_value *result = pl_new_output(e, node, 0, (pl_dtype)x->dtype, NULL);
    pl_fn *fn = pl_fn_new(e, "PadCircularBackward", circular_backward, 1, &x, 1);
    if (fn) {
        uint32_t count =
            pad && pad->kind == PL_ARG_INTS && pad->count <= 2 * PL_MAX_DIMS ? pad->count : 0;
        if (pl_fn_numbers(e, fn, count + 1u)) {
            fn->numbers[0] = 0;
            for (uint32_t i = 0; i < count; i++) { /* last dimension first */
                int dim = result->dims - 1 - (int)(i / 2);
                if (pad->ints[i] <= 0 || dim < 0 || result->sizes[dim] == 0) continue;
                fn->numbers[++fn->numbers[0]] =
                    pl_times(result->elements / result->sizes[dim], pad->ints[i]);
            }
        }
        pl_fn_output(fn, result, 0);
    }
    pl_set_output(e, node, 0, result);
}

/* constant_pad_nd's gradient is the gradient padded by the negative: a copy of the argument's size.
 * Padding by nothing still copies (tv-swin_b-0, 2026-11-15). Reflections and replications keep
 * their input. */
void pl_run_pad(pl_eager *e, const pl_node *node, const pl_operator *op) {
    static const pl_operator constant = {.name = "ConstantPadNdBackward0",
                                         .forward = "o",
                                         .backward = ":N"},
                             mirrored = {.name = "ReflectionPadBackward0",
                                         .forward = "o",
                                         .backward = "a:N"};
    const pl_arg *mode = pl_node_arg(node, "mode");
    pl_value *x = pl_arg_at(e, node, 0);
    bool circular = strstr(op->name, "circular") ||
                    (mode && mode->kind == PL_ARG_STRING && strcmp(mode->s, "circular") == 0);
    if (circular && x) return pad_circular(e, node, x);
    bool named = mode && mode->kind == PL_ARG_STRING && strcmp(mode->s, "constant") != 0;
    if (!named) e->zeroes = true; /* both ways: filled, then the part copied in */
    pl_run_by_rule(e, node, named ? &mirrored : &constant);
    const pl_value *made = !named && pl_output_tensor(e, node, 0) ? e->env[node->outputs[0]] : NULL;
    if (made) pl_work_move(e, PL_WORK_FILL, PL_PASS_FORWARD, 0, (double)pl_value_bytes(made), NULL);
}

/* ---- columns of an image ---- */

/* im2col and col2im make their output like the input, then resize it: where it grows there are two
 * for a moment, where it shrinks the block keeps the input's size. */
static pl_value *resized(pl_eager *e, pl_dtype dtype, int64_t from, int dims,
                         const int64_t *sizes) {
    pl_value *first = pl_new_flat(e, dtype, from);
    int64_t elements = 1;
    for (int i = 0; i < dims; i++) elements = pl_times(elements, sizes[i]);
    pl_value *result = elements > from ? pl_new(e, dtype, dims, sizes, NULL)
                                       : pl_alias(e, first, dims, sizes, NULL);
    pl_drop(e, first);
    return result;
}

static void columns_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    const pl_edge *edge = &fn->edges[0];
    double bytes = pl_work_bytes(grads[0]);
    if (!pl_is_contiguous(grads[0]))
        pl_work_move(e, PL_WORK_COPY, PL_PASS_BACKWARD, bytes, bytes, NULL);
    out[0] = resized(e, (pl_dtype)grads[0]->dtype, grads[0]->elements, edge->dims, edge->sizes);
}

void pl_run_columns(pl_eager *e, const pl_node *node, const pl_operator *op) {
    pl_value *x = pl_arg_at(e, node, 0);
    const pl_tensor *out = pl_output_tensor(e, node, 0);
    if (!x || !out) return;
    pl_value *result = resized(e, (pl_dtype)x->dtype, x->elements, out->dims, out->sizes);
    if (strcmp(op->name, "im2col") == 0) /* one sample after another */
        pl_work_kernels(e, &(pl_work_known){.kind = PL_WORK_COPY,
                                            .launches = x->dims == 4 && x->sizes[0] < 1000000
                                                            ? (int)x->sizes[0]
                                                            : 1,
                                            .read = pl_work_bytes(x),
                                            .out = {result}});
    pl_fn_output(pl_fn_new(e, "Im2ColBackward0", columns_backward, 1, &x, 1), result, 0);
    pl_set_output(e, node, 0, result);
}

/* ---- grids ---- */

/* Both gradients are made, the grid's also where nobody wants it. Edges: input, grid. */
static void grid_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    pl_dtype dtype = (pl_dtype)grads[0]->dtype;
    if (fn->edges[0].wanted) out[0] = like_edge(e, &fn->edges[0], dtype);
    pl_value *grid = pl_new_like(e, fn->saved[1], dtype);
    if (fn->edges[1].wanted)
        out[1] = grid;
    else
        pl_drop(e, grid);
}

void pl_run_grid_sample(pl_eager *e, const pl_node *node, const pl_operator *op) {
    pl_value *given[2] = {pl_arg_value(e, node, "input"), pl_arg_value(e, node, "grid")}, *x[2];
    if (!given[0] || !given[1]) return pl_run_many(e, node, op);
    promote_two(e, given, x);
    pl_value *result = pl_new_output(e, node, 0, (pl_dtype)x[0]->dtype, x[0]);
    pl_fn *fn = pl_fn_new(e, "GridSampler2DBackward0", grid_backward, 2, x, 1);
    if (fn) {
        pl_save(e, fn, x[0]);
        pl_save(e, fn, x[1]);
        pl_fn_output(fn, result, 0);
    }
    pl_drop(e, x[1]);
    pl_drop(e, x[0]);
    pl_set_output(e, node, 0, result);
}

/* The base grid [N, H, W, 3] (or [N, D, H, W, 4]) times theta; coordinates are made a dimension at
 * a time. */
void pl_run_affine_grid(pl_eager *e, const pl_node *node, const pl_operator *op) {
    pl_value *theta = pl_arg_at(e, node, 0);
    const pl_tensor *out = pl_output_tensor(e, node, 0);
    if (!theta || !out || out->dims < 4 || out->sizes[out->dims - 1] == 0)
        return pl_run_many(e, node, op);
    int spatial = out->dims - 2;
    pl_value *base =
        pl_new_flat(e, (pl_dtype)theta->dtype, pl_tensor_elements(out) / spatial * (spatial + 1));
    for (int i = 0; i < spatial; i++) {
        pl_value *held[3];
        for (int k = 0; k < 3; k++)
            held[k] = pl_new_flat(e, (pl_dtype)theta->dtype, out->sizes[spatial - i]);
        for (int k = 0; k < 3; k++) pl_drop(e, held[k]);
    }
    pl_value *result = pl_new_output(e, node, 0, (pl_dtype)theta->dtype, NULL);
    pl_blas(e);
    pl_fn *fn = pl_fn_new(e, "AffineGridGeneratorBackward0", pl_rule_backward, 1, &theta, 1);
    if (fn) {
        fn->rule = "a:N";
        pl_save(e, fn, base);
        pl_fn_output(fn, result, 0);
    }
    pl_drop(e, base);
    pl_set_output(e, node, 0, result);
}

/* ---- real transforms ---- */

/* fft_r2c_backward: the gradient filled up to all frequencies, transformed; its real part is a view
 * of it. */
static void rfft_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    (void)grads;
    const pl_edge *edge = &fn->edges[0];
    pl_value *filled = like_edge(e, edge, PL_DT_C64), *whole = like_edge(e, edge, PL_DT_C64);
    int64_t strides[PL_MAX_DIMS], step = 2;
    for (int i = edge->dims; i-- > 0; step *= edge->sizes[i]) strides[i] = step;
    out[0] = pl_alias(e, whole, edge->dims, edge->sizes, strides);
    out[0]->dtype = edge->dtype;
    pl_drop(e, whole);
    pl_drop(e, filled);
}

void pl_run_rfft(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *given = pl_arg_at(e, node, 0);
    if (!given) return;
    pl_value *x = e->autocast ? pl_autocast_to(e, given, PL_DT_F32) : pl_hold(given);
    pl_value *result = pl_new_output(e, node, 0, PL_DT_C64, NULL);
    pl_fn *fn = pl_fn_new(e, "FftR2CBackward0", rfft_backward, 1, &x, 1);
    pl_fn_output(fn, result, 0);
    if (fn) pl_save(e, fn, x);
    pl_drop(e, x);
    pl_set_output(e, node, 0, result);
}

/* ---- weight norm ---- */

/* Both gradients in one kernel. Edges: v, g. Saved: v, g, norms. */
static void weight_norm_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    for (int i = 0; i < 2; i++) {
        pl_value *made = pl_new_like(e, fn->saved[i], (pl_dtype)grads[0]->dtype);
        if (fn->edges[i].wanted)
            out[i] = made;
        else
            pl_drop(e, made);
    }
}

void pl_run_weight_norm(pl_eager *e, const pl_node *node, const pl_operator *op) {
    pl_value *x[2] = {pl_arg_value(e, node, "v"), pl_arg_value(e, node, "g")};
    if (!x[0] || !x[1]) return pl_run_many(e, node, op);
    pl_value *result = pl_new_output(e, node, 0, (pl_dtype)x[0]->dtype, NULL);
    pl_dtype wide = pl_dtype_is_half((pl_dtype)x[1]->dtype) ? PL_DT_F32 : (pl_dtype)x[1]->dtype;
    pl_value *norms = pl_new_like(e, x[1], wide);
    pl_fn *fn = pl_fn_new(e, "WeightNormInterfaceBackward0", weight_norm_backward, 2, x, 1);
    if (fn) {
        pl_save(e, fn, x[0]);
        pl_save(e, fn, x[1]);
        pl_save(e, fn, norms);
        pl_fn_output(fn, result, 0);
    }
    pl_set_output(e, node, 0, result);
    if (node->output_count > 1)
        pl_set_output(e, node, 1, norms);
    else
        pl_drop(e, norms);
}
