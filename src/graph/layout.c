/* layout: see layout.h.
 *
 * Views keep their base's strides, rearranged; pointwise operators lay their result out in the
 * order of their first operand's dimensions. That decides whether a later contiguous() or reshape()
 * copies: a query that was transposed and turned by rotary positions is still in its projection's
 * order. Rules: aten/src/ATen/TensorIterator.cpp (reorder_dimensions, allocate_or_resize_outputs),
 * TensorUtils.cpp (computeStride), TensorShape.cpp, TensorConversions.cpp (2.11).
 *
 * Left out: channels_last, which the tape follows itself; reductions, whose results are small. */
#include "graph/layout.h"

#include <stdlib.h>
#include <string.h>

#include "core/checked.h"

typedef enum kind {
    ALIAS,     /* the same strides */
    CAST,      /* the same where the type stays; else a copy in their order */
    COPY,      /* in their order, without holes: clone, empty_like */
    POINTWISE, /* TensorIterator */
    TRANSPOSE,
    PERMUTE,
    UNSQUEEZE,
    SQUEEZE,
    SLICE,
    SELECT,
    PARTS, /* split, chunk: slices of all of it */
    UNBIND,
    EXPAND,
    VIEW, /* or a contiguous copy */
    CONTIGUOUS,
    COLUMNS, /* as the second argument, each matrix in the order of its columns */
} kind;

/* By name, for a binary search. */
static const struct rule {
    const char *name;
    kind kind;
} rules[] = {
    {"__and__", POINTWISE},
    {"__or__", POINTWISE},
    {"abs", POINTWISE},
    {"add", POINTWISE},
    {"add_", ALIAS},
    {"alias", ALIAS},
    {"bitwise_and", POINTWISE},
    {"bitwise_not", POINTWISE},
    {"chunk", PARTS},
    {"clamp", POINTWISE},
    {"clip", POINTWISE},
    {"clone", COPY},
    {"contiguous", CONTIGUOUS},
    {"cos", POINTWISE},
    {"detach", ALIAS},
    {"div", POINTWISE},
    {"div_", ALIAS},
    {"dropout", POINTWISE},
    {"empty_like", COPY},
    {"eq", POINTWISE},
    {"erf", POINTWISE},
    {"exp", POINTWISE},
    {"expand", EXPAND},
    {"flatten", VIEW},
    {"ge", POINTWISE},
    {"gelu", POINTWISE},
    {"gt", POINTWISE},
    {"hardswish", POINTWISE},
    {"le", POINTWISE},
    {"leaky_relu", POINTWISE},
    {"linalg_solve_triangular", COLUMNS},
    {"log", POINTWISE},
    {"logical_and", POINTWISE},
    {"logical_not", POINTWISE},
    {"logical_or", POINTWISE},
    {"lt", POINTWISE},
    {"masked_fill", POINTWISE},
    {"mish", POINTWISE},
    {"mul", POINTWISE},
    {"mul_", ALIAS},
    {"ne", POINTWISE},
    {"neg", POINTWISE},
    {"permute", PERMUTE},
    {"pow", POINTWISE},
    {"reciprocal", POINTWISE},
    {"relu", POINTWISE},
    {"relu6", POINTWISE},
    {"reshape", VIEW},
    {"rsqrt", POINTWISE},
    {"rsub", POINTWISE},
    {"select", SELECT},
    {"sigmoid", POINTWISE},
    {"silu", POINTWISE},
    {"sin", POINTWISE},
    {"slice", SLICE},
    {"softplus", POINTWISE},
    {"split", PARTS},
    {"split_with_sizes", PARTS},
    {"sqrt", POINTWISE},
    {"square", POINTWISE},
    {"squeeze", SQUEEZE},
    {"sub", POINTWISE},
    {"tanh", POINTWISE},
    {"to", CAST},
    {"transpose", TRANSPOSE},
    {"type_as", CAST},
    {"unbind", UNBIND},
    {"unsqueeze", UNSQUEEZE},
    {"view", VIEW},
    {"where", POINTWISE},
    {"zeros_like", COPY},
};

static int compare_rule(const void *key, const void *row) {
    const char *target = key, *name = ((const struct rule *)row)->name;
    size_t length = strcspn(target, ".");
    int order = strncmp(target, name, length);
    return order ? order : name[length] ? -1 : 0;
}

static const struct rule *rule_of(const char *target) {
    if (strncmp(target, "aten.", 5) != 0) return NULL;
    return bsearch(target + 5, rules, sizeof rules / sizeof *rules, sizeof *rules, compare_rule);
}

/* ---- strides ---- */

static void contiguous(pl_tensor *t) {
    int64_t step = 1;
    for (int i = t->dims; i-- > 0;) {
        t->strides[i] = step;
        step = pl_times(step, t->sizes[i] > 1 ? t->sizes[i] : 1);
    }
}

static bool is_contiguous(const pl_tensor *t) {
    int64_t step = 1;
    for (int i = t->dims; i-- > 0;) {
        if (t->sizes[i] == 1) continue;
        if (t->strides[i] != step) return false;
        step = pl_times(step, t->sizes[i]);
    }
    return true;
}

/* Dimensions one behind the other in some order, without holes. */
static bool is_dense(const pl_tensor *t) {
    uint32_t seen = 0;
    int64_t step = 1;
    for (int k = 0; k < t->dims; k++) {
        int next = -1;
        for (int i = 0; i < t->dims; i++)
            if (!(seen >> i & 1) && t->sizes[i] != 1 &&
                (next < 0 || t->strides[i] < t->strides[next]))
                next = i;
        if (next < 0) break;
        if (t->strides[next] != step) return false;
        step = pl_times(step, t->sizes[next]);
        seen |= 1u << next;
    }
    return true;
}

/* Stride of an operand along the result's dimension; 0 where it is broadcast. */
static int64_t stride_along(const pl_tensor *operand, const pl_tensor *out, int dim) {
    int at = dim - (out->dims - operand->dims);
    return at < 0 || operand->sizes[at] == 1 ? 0 : operand->strides[at];
}

/* Whether dimension a lies outside b (1), inside (-1), or nothing says (0). */
static int outer(const pl_tensor *const *operands, int count, const pl_tensor *out, int a, int b) {
    for (int i = 0; i < count; i++) {
        int64_t x = stride_along(operands[i], out, a), y = stride_along(operands[i], out, b);
        if (x == 0 || y == 0) continue;
        if (x != y) return x > y ? 1 : -1;
        if (out->sizes[a] > out->sizes[b]) return 1;
    }
    return 0;
}

/* Dense, in the order of the operands' dimensions. */
static void in_order(const pl_tensor *const *operands, int count, pl_tensor *out) {
    int order[PL_MAX_DIMS]; /* innermost first */
    for (int i = 0; i < out->dims; i++) order[i] = out->dims - 1 - i;
    for (int i = 1; i < out->dims; i++)
        for (int at = i, k = i; k-- > 0;) {
            int said = outer(operands, count, out, order[k], order[at]);
            if (said < 0) break;
            if (said == 0) continue;
            int swap = order[k];
            order[k] = order[at];
            order[at] = swap;
            at = k;
        }
    int64_t step = 1;
    for (int i = 0; i < out->dims; i++) {
        out->strides[order[i]] = step;
        step = pl_times(step, out->sizes[order[i]] > 1 ? out->sizes[order[i]] : 1);
    }
}

void pl_dense_strides(int dims, const int64_t *sizes, const int64_t *strides, int64_t *dense) {
    pl_tensor in = {.dims = (uint8_t)dims,
                    .sizes = (int64_t *)sizes,
                    .strides = (int64_t *)strides},
              out = {.dims = in.dims, .sizes = in.sizes, .strides = dense};
    in_order((const pl_tensor *const[]){&in}, 1, &out);
}

enum { MAX_OPERANDS = 4 };

static void pointwise(const pl_graph *g, const pl_node *n, pl_tensor *out) {
    const pl_tensor *operands[MAX_OPERANDS];
    int count = 0;
    bool plain = true;
    for (uint32_t i = 0; i < n->arg_count && count < MAX_OPERANDS; i++) {
        if (n->args[i].kind != PL_ARG_TENSOR || n->args[i].tensor < 0) continue;
        const pl_tensor *t = &g->tensors[n->args[i].tensor];
        if (t->dims > out->dims) continue;
        operands[count++] = t;
        plain &= is_contiguous(t);
    }
    if (!plain) in_order(operands, count, out);
}

/* As at::detail::computeStride; false: it cannot be a view. */
static bool view(const pl_tensor *t, pl_tensor *out) {
    if (pl_tensor_elements(t) == 0 || t->dims == 0 || is_contiguous(t)) return false;
    int at = out->dims - 1;
    int64_t base = t->strides[t->dims - 1], run = 1, taken = 1;
    for (int i = t->dims - 1; i >= 0; i--) {
        run = pl_times(run, t->sizes[i]);
        if (i > 0 && (t->sizes[i - 1] == 1 || t->strides[i - 1] == pl_times(run, base))) continue;
        for (; at >= 0 && (taken < run || out->sizes[at] == 1); at--) {
            out->strides[at] = pl_times(taken, base);
            taken = pl_times(taken, out->sizes[at]);
        }
        if (taken != run) return false;
        if (i == 0) break;
        base = t->strides[i - 1];
        run = taken = 1;
    }
    return at < 0;
}

static int dim_of(const pl_node *n, const char *name, int dims) {
    int64_t dim = pl_node_int(n, name, 0);
    return (int)(dim < 0 ? dim + dims : dim);
}

static void same(const pl_tensor *t, pl_tensor *out) {
    if (t->dims == out->dims) memcpy(out->strides, t->strides, t->dims * sizeof *t->strides);
}

/* out has t's dimensions less one (or more, at `dim`). */
static void without(const pl_tensor *t, pl_tensor *out, int dim) {
    for (int i = 0; i < out->dims && out->dims == t->dims - 1; i++)
        out->strides[i] = t->strides[i < dim ? i : i + 1];
}

static void with(const pl_tensor *t, pl_tensor *out, int dim) {
    for (int i = 0; i < out->dims && out->dims == t->dims + 1; i++) {
        if (i != dim)
            out->strides[i] = t->strides[i < dim ? i : i - 1];
        else
            out->strides[i] = i < t->dims ? pl_times(t->sizes[i], t->strides[i]) : 1;
    }
}

static void lay_out(const pl_graph *g, const pl_node *n, kind kind, const pl_tensor *t,
                    pl_tensor *out) {
    switch (kind) {
    case ALIAS:
    case PARTS: same(t, out); break;
    case CAST:
    case COPY:
        if (kind == CAST && t->dtype != out->dtype && pl_node_arg(n, "memory_format"))
            break; /* a contiguous copy */
        if ((kind == CAST && t->dtype == out->dtype) || is_dense(t))
            same(t, out);
        else
            in_order(&t, 1, out); /* infer_dense_strides */
        break;
    case POINTWISE: pointwise(g, n, out); break;
    case TRANSPOSE: {
        int a = dim_of(n, "dim0", t->dims), b = dim_of(n, "dim1", t->dims);
        if (a < 0 || b < 0 || a >= t->dims || b >= t->dims) break;
        same(t, out);
        out->strides[a] = t->strides[b];
        out->strides[b] = t->strides[a];
        break;
    }
    case PERMUTE: {
        const pl_arg *dims = pl_node_arg(n, "dims");
        for (uint32_t i = 0; dims && i < dims->count && i < out->dims; i++) {
            int64_t from = dims->ints[i] < 0 ? dims->ints[i] + t->dims : dims->ints[i];
            if (from >= 0 && from < t->dims) out->strides[i] = t->strides[from];
        }
        break;
    }
    case UNSQUEEZE: with(t, out, dim_of(n, "dim", t->dims + 1)); break;
    case SQUEEZE:
        if (out->dims == t->dims)
            same(t, out);
        else
            without(t, out, dim_of(n, "dim", t->dims));
        break;
    case SELECT:
    case UNBIND: without(t, out, dim_of(n, "dim", t->dims)); break;
    case SLICE: {
        int dim = dim_of(n, "dim", t->dims);
        same(t, out);
        if (dim >= 0 && dim < out->dims)
            out->strides[dim] = pl_times(out->strides[dim], pl_node_int(n, "step", 1));
        break;
    }
    case EXPAND:
        for (int i = 0; i < out->dims; i++) {
            int at = i - (out->dims - t->dims);
            out->strides[i] =
                at < 0 || (t->sizes[at] == 1 && out->sizes[i] != 1) ? 0 : t->strides[at];
        }
        break;
    case VIEW:
        if (!view(t, out)) contiguous(out);
        break;
    case COLUMNS:
        if (out->dims < 2) break;
        out->strides[out->dims - 2] = 1;
        out->strides[out->dims - 1] = out->sizes[out->dims - 2];
        break;
    case CONTIGUOUS: break;
    }
}

void pl_graph_lay_out(pl_graph *g) {
    for (int32_t i = 0; i < g->node_count; i++) {
        const pl_node *n = &g->nodes[i];
        const struct rule *rule = rule_of(n->target);
        if (!rule || n->arg_count == 0 || n->args[0].kind != PL_ARG_TENSOR || n->args[0].tensor < 0)
            continue;
        const pl_tensor *t = &g->tensors[n->args[0].tensor];
        for (uint32_t k = 0; k < n->output_count; k++)
            if (n->outputs[k] >= 0) lay_out(g, n, rule->kind, t, &g->tensors[n->outputs[k]]);
    }
}
