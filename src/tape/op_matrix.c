/* op_matrix: matrix products, and the composites that are made of them (linear, matmul, einsum).
 *
 * Rules: aten/src/ATen/native/{Linear,LinearAlgebra}.cpp, native/cuda/Blas.cpp, derivatives.yaml
 * and FunctionsManual.cpp (2.11). Gradients are computed in the alphabetical order of the
 * arguments' names: mm makes mat2's before self's, addmm mat1's, mat2's, then the engine sums the
 * bias's. cuBLAS takes one workspace per thread after the first output is allocated; addmm with a
 * bias goes through cublasLt, which takes another. */
#include "tape/operator.h"

#include <string.h>

#include "core/checked.h"

static void keep_workspace(pl_eager *e, int64_t bytes, const char *what) {
    uint8_t kind = e->kind;
    const char *was = e->what;
    e->kind = PL_WORKSPACE;
    e->what = what;
    pl_block_new(e, bytes); /* never freed */
    e->kind = kind;
    e->what = was;
}

void pl_blas(pl_eager *e) {
    bool *taken = e->in_backward ? &e->blas_backward : &e->blas_forward;
    if (*taken) return;
    *taken = true;
    *(e->in_backward ? &e->tape->used_blas_backward : &e->tape->used_blas) = true;
    keep_workspace(e, e->device->cublas_bytes, "cublas workspace");
}

void pl_blas_lt(pl_eager *e) {
    pl_blas(e);
    bool *taken = e->in_backward ? &e->blas_lt_backward : &e->blas_lt;
    if (*taken) return;
    *taken = e->tape->used_blas_lt = true;
    keep_workspace(e, e->device->cublaslt_bytes, "cublasLt workspace");
}

static pl_value *matrix(pl_eager *e, pl_dtype dtype, int64_t rows, int64_t columns) {
    return pl_new(e, dtype, 2, (int64_t[]){rows, columns}, NULL);
}

/* A product's operand must have one dimension of stride 1; what has not is copied
 * (prepare_matrix_for_cublas). Returns the copy, or NULL. */
static pl_value *operand_copy(pl_eager *e, const pl_value *m) {
    int r = m->dims - 2, c = m->dims - 1;
    bool rows = m->strides[c] == 1 && m->strides[r] >= (m->sizes[c] > 1 ? m->sizes[c] : 1);
    bool columns = m->strides[r] == 1 && m->strides[c] >= (m->sizes[r] > 1 ? m->sizes[r] : 1);
    if (rows || columns || m->elements == 0) return NULL;
    pl_value *copy = pl_new(e, (pl_dtype)m->dtype, m->dims, m->sizes, NULL);
    pl_work_copy(e, pl_work_pass(e), m, copy);
    return copy;
}

/* ---- mm, addmm ---- */

/* A product's gradient is one too: grad other^T for its first operand, other^T grad for its second.
 */
static void note_gradient(pl_eager *e, bool first, const pl_value *grad, const pl_value *other,
                          const pl_value *out) {
    int d = other->dims;
    if (d < 2 || d > 3) return;
    int64_t sizes[3] = {other->sizes[0], other->sizes[d - 1], other->sizes[d - 2]},
            strides[3] = {other->strides[0], other->strides[d - 1], other->strides[d - 2]};
    pl_value turned = *other;
    turned.sizes = sizes + 3 - d;
    turned.strides = strides + 3 - d;
    if (first)
        pl_work_product(e, PL_PASS_BACKWARD, grad, &turned, out, false);
    else
        pl_work_product(e, PL_PASS_BACKWARD_WEIGHT, &turned, grad, out, false);
}

/* grad [n, p] of a product of mat1 [n, m] and mat2 [m, p], for one operand; column-major operands
 * get a column-major gradient (mm_mat1_backward, mm_mat2_backward). */
static pl_value *product_grad(pl_eager *e, const pl_edge *edge, pl_value *grad, pl_value *other,
                              bool first) {
    pl_value *g = operand_copy(e, grad), *o = operand_copy(e, other);
    bool column_major = edge->strides[0] == 1 && edge->strides[1] == edge->sizes[0];
    int64_t strides[2] = {column_major ? 1 : edge->sizes[1], column_major ? edge->sizes[0] : 1};
    pl_value *result = pl_new(e, (pl_dtype)grad->dtype, 2, edge->sizes, strides);
    note_gradient(e, first, g ? g : grad, o ? o : other, result);
    pl_blas(e);
    pl_drop(e, o);
    pl_drop(e, g);
    return result;
}

static void mm_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    if (fn->edges[1].wanted)
        out[1] = product_grad(e, &fn->edges[1], grads[0], fn->saved[fn->numbers[0]], false);
    if (fn->edges[0].wanted)
        out[0] = product_grad(e, &fn->edges[0], grads[0], fn->saved[fn->numbers[1]], true);
}

/* Edges: mat1, mat2, bias. */
static void addmm_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    if (fn->edges[0].wanted)
        out[0] = product_grad(e, &fn->edges[0], grads[0], fn->saved[fn->numbers[1]], true);
    if (fn->edges[1].wanted)
        out[1] = product_grad(e, &fn->edges[1], grads[0], fn->saved[fn->numbers[0]], false);
    if (fn->edges[2].wanted) out[2] = pl_hold(grads[0]);
}

/* Saves a for b's gradient and b for a's; numbers: the slots of a and b; mark: of the records
 * before it. */
static void save_product(pl_eager *e, pl_fn *fn, pl_value *a, pl_value *b, size_t mark) {
    if (!fn) return;
    if (!pl_fn_numbers(e, fn, 4)) return;
    if (fn->edges[1].wanted) fn->numbers[0] = pl_save(e, fn, a);
    if (fn->edges[0].wanted) fn->numbers[1] = pl_save(e, fn, b);
    pl_work_saved(e, mark);
}

static pl_value *product(pl_eager *e, pl_value *bias, pl_value *a, pl_value *b) {
    size_t mark = pl_work_mark(e);
    pl_value *result = matrix(e, (pl_dtype)a->dtype, a->sizes[0], b->sizes[1]);
    pl_value *ca = operand_copy(e, a), *cb = operand_copy(e, b);
    pl_work_product(e, pl_work_pass(e), ca ? ca : a, cb ? cb : b, result, bias != NULL);
    bool lt = bias && bias->dims == 1 && a->sizes[0] > 1 && a->sizes[1] > 1 && b->sizes[1] > 1;
    if (lt)
        pl_blas_lt(e);
    else
        pl_blas(e);
    pl_drop(e, cb);
    pl_drop(e, ca);
    pl_value *inputs[3] = {a, b, bias};
    pl_fn *fn = bias ? pl_fn_new(e, "AddmmBackward0", addmm_backward, 3, inputs, 1)
                     : pl_fn_new(e, "MmBackward0", mm_backward, 2, inputs, 1);
    save_product(e, fn, a, b, mark);
    pl_fn_output(fn, result, 0);
    return result;
}

pl_value *pl_mm(pl_eager *e, pl_value *a, pl_value *b) {
    return product(e, NULL, a, b);
}

pl_value *pl_addmm(pl_eager *e, pl_value *bias, pl_value *a, pl_value *b) {
    return product(e, bias, a, b);
}

/* ---- bmm ---- */

/* numbers: the slots of a and b, [2] 1 where the product was scaled: then its gradients are too.
 * baddbmm makes batch1's first, bmm mat2's. */
static void bmm_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    for (int k = 0; k < 2; k++) {
        int i = fn->edge_count > 2 ? k : 1 - k;
        if (!fn->edges[i].wanted) continue;
        pl_value *copy = operand_copy(e, grads[0]),
                 *other = operand_copy(e, fn->saved[fn->numbers[1 - i]]);
        out[i] = pl_new(e, (pl_dtype)grads[0]->dtype, 3, fn->edges[i].sizes, NULL);
        note_gradient(e, i == 0, copy ? copy : grads[0],
                      other ? other : fn->saved[fn->numbers[1 - i]], out[i]);
        pl_blas(e);
        pl_drop(e, other);
        pl_drop(e, copy);
        if (!fn->numbers[2]) continue;
        pl_value *scaled = pl_new_like(e, out[i], (pl_dtype)out[i]->dtype);
        pl_drop(e, out[i]);
        out[i] = scaled;
    }
    if (fn->edge_count > 2 && fn->edges[2].wanted)
        out[2] = fn->numbers[3] ? pl_new_like(e, grads[0], (pl_dtype)grads[0]->dtype)
                                : pl_hold(grads[0]);
}

static pl_value *batched(pl_eager *e, pl_value *bias, pl_value *a, pl_value *b) {
    size_t mark = pl_work_mark(e);
    pl_value *result =
        pl_new(e, (pl_dtype)a->dtype, 3, (int64_t[]){a->sizes[0], a->sizes[1], b->sizes[2]}, NULL);
    pl_value *ca = operand_copy(e, a), *cb = operand_copy(e, b);
    pl_work_product(e, pl_work_pass(e), ca ? ca : a, cb ? cb : b, result, false);
    pl_blas(e);
    pl_drop(e, cb);
    pl_drop(e, ca);
    pl_value *inputs[3] = {a, b, bias};
    pl_fn *fn = pl_fn_new(e, bias ? "BaddbmmBackward0" : "BmmBackward0", bmm_backward, bias ? 3 : 2,
                          inputs, 1);
    save_product(e, fn, a, b, mark);
    pl_fn_output(fn, result, 0);
    return result;
}

pl_value *pl_bmm(pl_eager *e, pl_value *a, pl_value *b) {
    return batched(e, NULL, a, b);
}

/* ---- matmul ---- */

/* matmul's and einsum's last step, _unsafe_view: no view for autograd. */
static pl_value *unsafe_view(pl_eager *e, pl_value *value, int dims, const int64_t *sizes) {
    pl_value *view = pl_reshape(e, value, dims, sizes);
    if (view->fn && view->fn != value->fn) view->fn->name = "UnsafeViewBackward0";
    view->base = NULL;
    return view;
}

/* should_fold: a [.., m] times a matrix is one product of all rows, if the larger side's batch
 * dimensions lie in one run, or the other side wants a gradient. */
static bool should_fold(const pl_value *a, const pl_value *b) {
    const pl_value *big = a->dims >= b->dims ? a : b, *small = a->dims >= b->dims ? b : a;
    if (!(big->dims >= 3 && small->dims <= 2)) return false;
    if (small->needs_grad) return true;
    if (a->dims == 2) return false;
    if (big->elements == 0) return true;
    for (int i = 0; i + 2 < big->dims; i++)
        if (big->strides[i] != pl_times(big->strides[i + 1], big->sizes[i + 1])) return false;
    return true;
}

/* a [.., m] folded to [rows, m] times b [m, p] or [m]. */
static pl_value *fold_product(pl_eager *e, pl_value *a, pl_value *b) {
    int64_t sizes[PL_MAX_DIMS], rows = 1;
    for (int i = 0; i + 1 < a->dims; i++) rows *= sizes[i] = a->sizes[i];
    pl_value *flat = pl_reshape(e, a, 2, (int64_t[]){rows, a->sizes[a->dims - 1]});
    bool vector = b->dims == 1;
    pl_value *column = vector ? pl_reshape(e, b, 2, (int64_t[]){b->sizes[0], 1}) : pl_hold(b);
    pl_value *p = pl_mm(e, flat, column);
    int dims = a->dims - (vector ? 1 : 0);
    if (!vector) sizes[dims - 1] = b->sizes[1];
    pl_value *result = unsafe_view(e, p, dims, sizes);
    pl_drop(e, p);
    pl_drop(e, column);
    pl_drop(e, flat);
    return result;
}

static pl_value *batched_matmul(pl_eager *e, pl_value *a, pl_value *b) {
    int64_t batch[PL_MAX_DIMS], full[PL_MAX_DIMS];
    int da = a->dims - 2, db = b->dims - 2, dims = da > db ? da : db;
    int64_t count = 1;
    for (int i = 0; i < dims; i++) {
        int64_t x = i - (dims - da) >= 0 ? a->sizes[i - (dims - da)] : 1;
        int64_t y = i - (dims - db) >= 0 ? b->sizes[i - (dims - db)] : 1;
        batch[i] = full[i] = x == 1 ? y : x;
        count = pl_times(count, full[i]);
    }
    pl_value *flat[2];
    for (int k = 0; k < 2; k++) {
        pl_value *m = k ? b : a;
        full[dims] = m->sizes[m->dims - 2];
        full[dims + 1] = m->sizes[m->dims - 1];
        pl_value *wide = pl_expand(e, m, dims + 2, full);
        flat[k] = pl_reshape(e, wide, 3, (int64_t[]){count, full[dims], full[dims + 1]});
        pl_drop(e, wide);
    }
    pl_value *p = pl_bmm(e, flat[0], flat[1]);
    batch[dims] = a->sizes[a->dims - 2];
    batch[dims + 1] = b->sizes[b->dims - 1];
    pl_value *result = unsafe_view(e, p, dims + 2, batch);
    pl_drop(e, p);
    pl_drop(e, flat[1]);
    pl_drop(e, flat[0]);
    return result;
}

pl_value *pl_matmul(pl_eager *e, pl_value *a, pl_value *b) {
    if (a->dims == 0 || b->dims == 0 || a->dims + 2 > PL_MAX_DIMS || b->dims + 2 > PL_MAX_DIMS)
        return pl_new_flat(e, (pl_dtype)a->dtype, -1);
    if (a->dims == 2 && b->dims == 2) return pl_mm(e, a, b);
    if (a->dims >= 2 && b->dims <= 2 && (a->dims == 2 || should_fold(a, b)))
        return fold_product(e, a, b);
    if (a->dims <= 2 && b->dims >= 3 && should_fold(a, b)) { /* b^T a^T, transposed back */
        pl_value *bt = pl_transpose(e, b, b->dims - 2, b->dims - 1);
        pl_value *at = a->dims == 2 ? pl_transpose(e, a, 0, 1) : pl_hold(a);
        pl_value *p = fold_product(e, bt, at);
        pl_value *result = a->dims == 2 ? pl_transpose(e, p, p->dims - 2, p->dims - 1) : pl_hold(p);
        pl_drop(e, p);
        pl_drop(e, at);
        pl_drop(e, bt);
        return result;
    }
    /* Vectors become matrices for the product; the extra dimension goes again at the end. */
    pl_value *ma = a->dims == 1 ? pl_reshape(e, a, 2, (int64_t[]){1, a->sizes[0]}) : pl_hold(a);
    pl_value *mb = b->dims == 1 ? pl_reshape(e, b, 2, (int64_t[]){b->sizes[0], 1}) : pl_hold(b);
    pl_value *p = ma->dims == 2 && mb->dims == 2 ? pl_mm(e, ma, mb) : batched_matmul(e, ma, mb);
    if (a->dims == 1 || b->dims == 1) {
        int64_t sizes[PL_MAX_DIMS];
        int dims = 0;
        for (int i = 0; i < p->dims; i++) {
            bool extra = (a->dims == 1 && i == p->dims - 2) || (b->dims == 1 && i == p->dims - 1);
            if (!extra) sizes[dims++] = p->sizes[i];
        }
        pl_value *view = pl_reshape(e, p, dims, sizes);
        pl_drop(e, p);
        p = view;
    }
    pl_drop(e, mb);
    pl_drop(e, ma);
    return p;
}

/* ---- linear ---- */

/* The gradient of a sum goes to both sides. */
static void pass_both(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    (void)e;
    for (int i = 0; i < fn->edge_count; i++)
        if (fn->edges[i].wanted) out[i] = pl_hold(grads[0]);
}

/* Linear.cpp: 2-d with bias, and contiguous 3-d with bias, are one addmm; the rest is matmul, then
 * add_. */
pl_value *pl_linear(pl_eager *e, pl_value *x, pl_value *weight, pl_value *bias) {
    pl_value *wt = weight->dims == 2 ? pl_transpose(e, weight, 0, 1) : pl_hold(weight);
    pl_value *result;
    if (bias && x->dims == 2) {
        result = pl_addmm(e, bias, x, wt);
    } else if (bias && bias->dims == 1 && x->dims >= 3 && weight->dims == 2 &&
               pl_is_contiguous(x)) {
        /* flattened to rows (Linear.cpp; of four dimensions too: tv-swin_b-0, tv-convnext_tiny-0)
         */
        int64_t sizes[PL_MAX_DIMS], rows = 1;
        for (int i = 0; i + 1 < x->dims; i++) rows *= sizes[i] = x->sizes[i];
        sizes[x->dims - 1] = weight->sizes[0];
        pl_drop(e, wt);
        pl_value *flat = pl_reshape(e, x, 2, (int64_t[]){rows, x->sizes[x->dims - 1]});
        wt = pl_transpose(e, weight, 0, 1);
        pl_value *p = pl_addmm(e, bias, flat, wt);
        result = pl_reshape(e, p, x->dims, sizes);
        pl_drop(e, p);
        pl_drop(e, flat);
    } else {
        result = pl_matmul(e, x, wt);
        if (bias) { /* result.add_(bias) */
            pl_value *sum = pl_alias_like(e, result);
            pl_work_pointwise(e, PL_PASS_FORWARD, result, bias, result);
            pl_value *inputs[2] = {result, bias};
            pl_fn_output(pl_fn_new(e, "AddBackward0", pass_both, 2, inputs, 1), sum, 0);
            pl_drop(e, result);
            result = sum;
        }
    }
    pl_drop(e, wt);
    return result;
}

/* ---- rows ---- */

void pl_agree(pl_eager *e, int count, pl_value **values) {
    if (e->autocast || !e->retyped) return;
    pl_dtype wanted = PL_DT_UNKNOWN;
    bool certain = false, differ = false;
    for (int i = 0; i < count; i++) {
        const pl_value *v = values[i];
        if (!v || !pl_dtype_is_float((pl_dtype)v->dtype)) continue;
        differ |= wanted != PL_DT_UNKNOWN && v->dtype != wanted;
        bool better = wanted == PL_DT_UNKNOWN || (!certain && pl_dtype_is_half((pl_dtype)v->dtype));
        if (better || (v->leaf >= 0 && !certain)) wanted = (pl_dtype)v->dtype;
        certain |= v->leaf >= 0;
    }
    for (int i = 0; differ && i < count; i++) {
        if (!values[i] || values[i]->dtype == wanted ||
            !pl_dtype_is_float((pl_dtype)values[i]->dtype))
            continue;
        pl_value *cast = pl_to(e, values[i], wanted);
        pl_drop(e, values[i]);
        values[i] = cast;
    }
}

/* Arguments by name, cast down under autocast; later arguments are cast first, as the compiler of
 * PyTorch's wrappers orders them. */
static void take_args(pl_eager *e, const pl_node *node, int count, const char *const *names,
                      pl_value **values) {
    for (int i = count; i-- > 0;) {
        pl_value *value = pl_arg_value(e, node, names[i]);
        values[i] =
            value && e->autocast ? pl_autocast_to(e, value, (pl_dtype)e->autocast) : pl_hold(value);
    }
    pl_agree(e, count, values);
}

static void drop_all(pl_eager *e, int count, pl_value **values) {
    for (int i = 0; i < count; i++) pl_drop(e, values[i]);
}

void pl_run_linear(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    static const char *const names[] = {"input", "weight", "bias"};
    pl_value *v[3];
    take_args(e, node, 3, names, v);
    if (v[0] && v[1]) pl_set_output(e, node, 0, pl_linear(e, v[0], v[1], v[2]));
    drop_all(e, 3, v);
}

void pl_run_matmul(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *v[2];
    static const char *const names[] = {"self", "other"}, *const tensors[] = {"tensor1", "tensor2"};
    take_args(e, node, 2, pl_node_arg(node, "tensor1") ? tensors : names, v);
    if (v[0] && v[1]) pl_set_output(e, node, 0, pl_matmul(e, v[0], v[1]));
    drop_all(e, 2, v);
}

void pl_run_mm(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    static const char *const names[] = {"self", "mat2"};
    pl_value *v[2];
    take_args(e, node, 2, names, v);
    if (v[0] && v[1] && v[0]->dims == 2 && v[1]->dims == 2)
        pl_set_output(e, node, 0, pl_mm(e, v[0], v[1]));
    drop_all(e, 2, v);
}

void pl_run_bmm(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    static const char *const names[] = {"self", "mat2"};
    pl_value *v[2];
    take_args(e, node, 2, names, v);
    if (v[0] && v[1] && v[0]->dims == 3 && v[1]->dims == 3)
        pl_set_output(e, node, 0, pl_bmm(e, v[0], v[1]));
    drop_all(e, 2, v);
}

void pl_run_addmm(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    static const char *const names[] = {"self", "mat1", "mat2"};
    pl_value *v[3];
    take_args(e, node, 3, names, v);
    if (v[0] && v[1] && v[2] && v[1]->dims == 2 && v[2]->dims == 2)
        pl_set_output(e, node, 0, pl_addmm(e, v[0], v[1], v[2]));
    drop_all(e, 3, v);
}

void pl_run_baddbmm(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    static const char *const names[] = {"self", "batch1", "batch2"};
    pl_value *v[3];
    take_args(e, node, 3, names, v);
    if (v[0] && v[1] && v[2] && v[1]->dims == 3 && v[2]->dims == 3) {
        pl_value *result = batched(e, v[0], v[1], v[2]);
        if (result->fn && result->fn->numbers) {
            result->fn->numbers[2] = pl_node_float(node, "alpha", 1) != 1;
            result->fn->numbers[3] = pl_node_float(node, "beta", 1) != 1;
        }
        pl_set_output(e, node, 0, result);
    }
    drop_all(e, 3, v);
}

/* ---- einsum ---- */

/* Linear.cpp's einsum of two operands: labels are sorted into batch, left only, right only and
 * summed; operands are permuted and reshaped to [batch, left, sum] and [batch, sum, right],
 * multiplied by bmm, and permuted to the output. Operands beyond two are multiplied in one after
 * another. */
typedef struct labels {
    char of[3][PL_MAX_DIMS]; /* left, right, output */
    int count[3];
} labels;

static bool has(const char *set, int count, char c) {
    return memchr(set, c, (size_t)count) != NULL;
}

/* Labels of a pattern side, an ellipsis filled with capitals; false where they do not match the
 * dimensions. */
static bool read_labels(const char *text, const char *end, int dims, char *out, int *count) {
    int n = 0, letters = 0;
    for (const char *c = text; c < end; c++)
        letters += (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
    for (const char *c = text; c < end; c++) {
        if (*c == '.') {
            for (int i = 0; i < dims - letters && n < PL_MAX_DIMS; i++)
                out[n++] = (char)('0' + 10 - (dims - letters) + i);
            c += 2;
        } else if (*c != ' ') {
            if (n == PL_MAX_DIMS || has(out, n, *c)) return false; /* a diagonal */
            out[n++] = *c;
        }
    }
    *count = n;
    return n == dims;
}

/* Permutes value so that `wanted` labels come in that order and reshapes to three dimensions. */
static pl_value *arrange(pl_eager *e, pl_value *value, const char *own, const char *wanted,
                         int count, const int64_t *three) {
    int order[PL_MAX_DIMS];
    for (int i = 0; i < count; i++)
        order[i] = (int)((const char *)memchr(own, wanted[i], (size_t)count) - own);
    pl_value *turned = pl_permute(e, value, order);
    pl_value *flat = pl_reshape(e, turned, 3, three);
    pl_drop(e, turned);
    return flat;
}

/* No label is summed: operands are permuted to the output's order, with ones where they lack a
 * label, and multiplied. */
static pl_value *multiply(pl_eager *e, pl_value *a, pl_value *b, const labels *l) {
    pl_value *wide[2];
    for (int k = 0; k < 2; k++) {
        pl_value *value = k ? b : a;
        int order[PL_MAX_DIMS], n = 0;
        int64_t sizes[PL_MAX_DIMS];
        for (int i = 0; i < l->count[2]; i++) {
            const char *at = memchr(l->of[k], l->of[2][i], (size_t)l->count[k]);
            sizes[i] = at ? value->sizes[at - l->of[k]] : 1;
            if (at) order[n++] = (int)(at - l->of[k]);
        }
        pl_value *turned = pl_permute(e, value, order);
        wide[k] = pl_reshape(e, turned, l->count[2], sizes);
        pl_drop(e, turned);
    }
    int64_t sizes[PL_MAX_DIMS];
    for (int i = 0; i < l->count[2]; i++)
        sizes[i] = wide[0]->sizes[i] == 1 ? wide[1]->sizes[i] : wide[0]->sizes[i];
    pl_value *result =
        pl_new(e, pl_promote((pl_dtype)a->dtype, (pl_dtype)b->dtype), l->count[2], sizes, NULL);
    pl_fn *fn = pl_fn_new(e, "MulBackward0", pl_rule_backward, 2, wide, 1);
    if (fn) {
        fn->rule = "b:n|a:n";
        if (fn->edges[0].wanted) pl_save(e, fn, wide[1]);
        if (fn->edges[1].wanted) pl_save(e, fn, wide[0]);
        pl_fn_output(fn, result, 0);
    }
    pl_drop(e, wide[1]);
    pl_drop(e, wide[0]);
    return result;
}

static pl_value *contract(pl_eager *e, pl_value *a, pl_value *b, const labels *l,
                          const pl_tensor *out) {
    char batch[PL_MAX_DIMS], left[PL_MAX_DIMS], right[PL_MAX_DIMS], sum[PL_MAX_DIMS],
        wanted[2 * PL_MAX_DIMS];
    int nb = 0, nl = 0, nr = 0, ns = 0;
    int64_t eb = 1, el = 1, er = 1, es = 1, sizes[PL_MAX_DIMS];
    for (int i = 0; i < l->count[0]; i++) {
        char c = l->of[0][i];
        bool in_b = has(l->of[1], l->count[1], c), in_out = has(l->of[2], l->count[2], c);
        if (in_b && in_out)
            batch[nb++] = c, eb *= a->sizes[i];
        else if (in_b)
            sum[ns++] = c, es *= a->sizes[i];
        else if (in_out)
            left[nl++] = c, el *= a->sizes[i];
        else
            return NULL;
    }
    for (int i = 0; i < l->count[1]; i++) {
        char c = l->of[1][i];
        if (has(l->of[0], l->count[0], c)) continue;
        if (!has(l->of[2], l->count[2], c)) return NULL;
        right[nr++] = c;
        er *= b->sizes[i];
    }
    if (ns == 0 && nb + nl + nr == l->count[2]) return multiply(e, a, b, l);
    memcpy(wanted, batch, (size_t)nb);
    memcpy(wanted + nb, left, (size_t)nl);
    memcpy(wanted + nb + nl, sum, (size_t)ns);
    pl_value *fa = arrange(e, a, l->of[0], wanted, l->count[0], (int64_t[]){eb, el, es});
    memcpy(wanted + nb, sum, (size_t)ns);
    memcpy(wanted + nb + ns, right, (size_t)nr);
    pl_value *fb = arrange(e, b, l->of[1], wanted, l->count[1], (int64_t[]){eb, es, er});
    pl_value *p = pl_bmm(e, fa, fb);
    memcpy(wanted + nb, left, (size_t)nl);
    memcpy(wanted + nb + nl, right, (size_t)nr);
    int dims = nb + nl + nr, order[PL_MAX_DIMS];
    if (dims != out->dims) {
        pl_drop(e, fb);
        pl_drop(e, fa);
        return p;
    }
    for (int i = 0; i < dims; i++) {
        order[i] = (int)((const char *)memchr(wanted, l->of[2][i], (size_t)dims) - wanted);
        sizes[order[i]] = out->sizes[i];
    }
    pl_value *wide = pl_reshape(e, p, dims, sizes);
    pl_value *result = pl_permute(e, wide, order);
    pl_drop(e, wide);
    pl_drop(e, p);
    pl_drop(e, fb);
    pl_drop(e, fa);
    return result;
}

void pl_run_einsum(pl_eager *e, const pl_node *node, const pl_operator *op) {
    const pl_arg *equation = pl_node_arg(node, "equation"), *tensors = pl_node_arg(node, "tensors");
    const pl_tensor *out = pl_output_tensor(e, node, 0);
    const char *arrow =
        equation && equation->kind == PL_ARG_STRING ? strstr(equation->s, "->") : NULL;
    const char *comma = arrow ? strchr(equation->s, ',') : NULL;
    labels l = {0};
    if (out && comma && comma < arrow && tensors && tensors->kind == PL_ARG_TENSORS &&
        tensors->count == 2 && tensors->list[0] >= 0 && tensors->list[1] >= 0) {
        pl_value *a = e->env[tensors->list[0]], *b = e->env[tensors->list[1]];
        bool read = a && b && read_labels(equation->s, comma, a->dims, l.of[0], &l.count[0]) &&
                    read_labels(comma + 1, arrow, b->dims, l.of[1], &l.count[1]) &&
                    read_labels(arrow + 2, arrow + strlen(arrow), out->dims, l.of[2], &l.count[2]);
        if (read) {
            pl_dtype low = (pl_dtype)e->autocast;
            pl_value *cb = low ? pl_autocast_to(e, b, low) : pl_hold(b);
            pl_value *ca = low ? pl_autocast_to(e, a, low) : pl_hold(a);
            pl_value *result = contract(e, ca, cb, &l, out);
            if (result) pl_set_output(e, node, 0, result);
            pl_drop(e, ca);
            pl_drop(e, cb);
            if (result) return;
        }
    }
    pl_run_many(e, node, op);
}

/* ---- products of groups of rows ---- */

/* [tokens, k] by [groups, k, n], the tokens split among the groups: in bfloat16 on compute
 * capability 9.0 and later one kernel behind one that finds the operands' places; else a product
 * per group, whose ends the host asks for (native/cuda/GroupedBlas.cpp). FlopCounterMode does not
 * know it. */
static void note_groups(pl_eager *e, pl_pass pass, const pl_value *tokens,
                        const pl_value *weights) {
    if (tokens->dims < 1 || weights->dims < 2) return;
    int64_t groups = weights->dims == 3 ? weights->sizes[0] : 1, d = weights->dims,
            k = tokens->sizes[tokens->dims - 1],
            n = weights->sizes[d - 1] == k ? weights->sizes[d - 2] : weights->sizes[d - 1],
            rows = k ? tokens->elements / k : 0, each = groups ? (rows + groups - 1) / groups : 0;
    bool whole = tokens->dtype == PL_DT_BF16 && e->device->cc_major >= 9;
    bool turned = pass == PL_PASS_BACKWARD_WEIGHT;
    pl_work_groups(e, pass, (pl_dtype)tokens->dtype, groups, turned ? k : each,
                   turned                     ? each
                   : pass == PL_PASS_BACKWARD ? n
                                              : k,
                   pass == PL_PASS_BACKWARD ? k : n,
                   whole ? 2 : (int)(groups < 65536 ? groups : 65536));
    if (!whole && !turned) pl_work_waits(e);
}

/* Saved: the weights and the groups' ends where the tokens want a gradient, then the tokens (and the
 * ends, once) where the weights do. */
static void grouped_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    bool on = e->calls.on;
    e->calls.on = false;
    pl_rule_backward(e, fn, grads, out);
    e->calls.on = on;
    if (!on) return;
    int first = fn->edges[0].wanted ? 2 : 0;
    const pl_value *weights = first && fn->saved_count > 0 ? fn->saved[0] : NULL,
                   *tokens =
                       fn->edges[1].wanted && fn->saved_count > first ? fn->saved[first] : NULL;
    if (out[0] && weights) note_groups(e, PL_PASS_BACKWARD, out[0], weights);
    if (out[1] && tokens) note_groups(e, PL_PASS_BACKWARD_WEIGHT, tokens, out[1]);
}

void pl_run_grouped(pl_eager *e, const pl_node *node, const pl_operator *op) {
    bool on = e->calls.on;
    e->calls.on = false;
    pl_run_by_rule(e, node, op);
    e->calls.on = on;
    const pl_value *tokens = pl_arg_at(e, node, 0), *weights = pl_arg_at(e, node, 1);
    pl_value *result = pl_output_tensor(e, node, 0) ? e->env[node->outputs[0]] : NULL;
    if (result && result->fn && result->fn->backward == pl_rule_backward &&
        result->fn->edge_count >= 2)
        result->fn->backward = grouped_backward;
    if (result && tokens && weights) note_groups(e, PL_PASS_FORWARD, tokens, weights);
}

/* ---- triangular systems ---- */

/* Like x, each matrix in the order of its columns. */
static pl_value *in_columns(pl_eager *e, const pl_value *x, pl_dtype dtype) {
    int64_t strides[PL_MAX_DIMS], step = 1;
    for (int k = x->dims; k-- > 0;) {
        int i = k == x->dims - 1 ? k - 1 : k == x->dims - 2 ? k + 1 : k;
        strides[i] = step;
        step = pl_times(step, x->sizes[i] > 1 ? x->sizes[i] : 1);
    }
    return pl_new(e, dtype, x->dims, x->sizes, strides);
}

/* linalg_solve_triangular_backward: gB = solve(A^H, grad), gA = tril(-(gB X^H)). */
static void solve_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    const pl_edge *a = &fn->edges[0];
    pl_value *gb = in_columns(e, grads[0], (pl_dtype)grads[0]->dtype);
    pl_blas(e);
    if (a->wanted) {
        pl_value *product = pl_new(e, (pl_dtype)gb->dtype, a->dims, a->sizes, NULL);
        pl_value *minus = pl_new(e, (pl_dtype)gb->dtype, a->dims, a->sizes, NULL);
        pl_drop(e, product);
        out[0] = pl_new(e, (pl_dtype)gb->dtype, a->dims, a->sizes, NULL);
        pl_drop(e, minus);
    }
    if (fn->edges[1].wanted)
        out[1] = gb;
    else
        pl_drop(e, gb);
}

void pl_run_solve_triangular(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *a = pl_arg_at(e, node, 0), *y = pl_arg_at(e, node, 1);
    if (!a || !y || a->dims < 2 || y->dims < 2) return;
    pl_value *x = in_columns(e, y, (pl_dtype)y->dtype), *inputs[2] = {a, y};
    pl_blas(e);
    pl_fn *fn = pl_fn_new(e, "LinalgSolveTriangularBackward0", solve_backward, 2, inputs, 1);
    if (fn) {
        pl_save(e, fn, a);
        if (fn->edges[0].wanted) pl_save(e, fn, x);
        pl_fn_output(fn, x, 0);
    }
    pl_set_output(e, node, 0, x);
}
