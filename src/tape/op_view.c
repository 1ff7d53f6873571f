/* op_view: operators that look at a storage in another way, and the copies they fall back to.
 *
 * Rules: aten/src/ATen/native/TensorShape.cpp, tools/autograd/derivatives.yaml (2.11). A view costs
 * nothing in either direction, except where a gradient cannot be viewed back (reshape copies it) or
 * covers only a part (slice, select: a zeroed whole is allocated). */
#include "tape/operator.h"

#include <string.h>

#include "core/checked.h"

/* ---- reshape ---- */

/* grad.reshape(the input's sizes): a view where strides allow, else a copy. */
static pl_value *reshape_raw(pl_eager *e, pl_value *value, int dims, const int64_t *sizes) {
    int64_t strides[PL_MAX_DIMS];
    if (pl_view_strides(value, dims, sizes, strides))
        return pl_alias(e, value, dims, sizes, strides);
    pl_value *copy = pl_new(e, value->dtype, dims, sizes, NULL);
    pl_work_copy(e, PL_PASS_BACKWARD, value, copy);
    return copy;
}

static void view_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    const pl_edge *edge = &fn->edges[0];
    out[0] = reshape_raw(e, grads[0], edge->dims, edge->sizes);
}

static pl_value *view_of(pl_eager *e, pl_value *value, int dims, const int64_t *sizes,
                         const int64_t *strides) {
    pl_value *view = pl_alias(e, value, dims, sizes, strides);
    pl_fn_output(pl_fn_new(e, "ViewBackward0", view_backward, 1, &value, 1), view, 0);
    return view;
}

static void pass_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    (void)e;
    (void)fn;
    out[0] = pl_hold(grads[0]);
}

pl_value *pl_clone(pl_eager *e, pl_value *value) {
    pl_value *copy = pl_new(e, value->dtype, value->dims, value->sizes, NULL);
    pl_work_copy(e, pl_work_pass(e), value, copy);
    pl_fn_output(pl_fn_new(e, "CloneBackward0", pass_backward, 1, &value, 1), copy, 0);
    return copy;
}

pl_value *pl_contiguous(pl_eager *e, pl_value *value) {
    return pl_is_contiguous(value) ? pl_hold(value) : pl_clone(e, value);
}

pl_value *pl_reshape(pl_eager *e, pl_value *value, int dims, const int64_t *sizes) {
    int64_t strides[PL_MAX_DIMS];
    if (pl_same_sizes(value, dims, sizes)) return view_of(e, value, dims, sizes, value->strides);
    if (pl_view_strides(value, dims, sizes, strides))
        return view_of(e, value, dims, sizes, strides);
    pl_value *copy = pl_clone(e, value);
    pl_value *view = view_of(e, copy, dims, sizes, NULL);
    pl_drop(e, copy);
    return view;
}

void pl_run_view(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *in = pl_arg_at(e, node, 0);
    const pl_tensor *out = pl_output_tensor(e, node, 0);
    if (!in || !out) return;
    pl_set_output(e, node, 0, pl_reshape(e, in, out->dims, out->sizes));
}

/* ---- permutations ---- */

static void permute_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    const pl_value *g = grads[0];
    int64_t sizes[PL_MAX_DIMS] = {0}, strides[PL_MAX_DIMS] = {0};
    for (int i = 0; i < g->dims; i++) {
        sizes[fn->numbers[i]] = g->sizes[i];
        strides[fn->numbers[i]] = g->strides[i];
    }
    out[0] = pl_alias(e, g, g->dims, sizes, strides);
}

pl_value *pl_permute(pl_eager *e, pl_value *value, const int *order) {
    int64_t sizes[PL_MAX_DIMS], strides[PL_MAX_DIMS];
    for (int i = 0; i < value->dims; i++) {
        sizes[i] = value->sizes[order[i]];
        strides[i] = value->strides[order[i]];
    }
    pl_value *view = pl_alias(e, value, value->dims, sizes, strides);
    pl_fn *fn = pl_fn_new(e, "PermuteBackward0", permute_backward, 1, &value, 1);
    if (fn) {
        if (!pl_fn_numbers(e, fn, value->dims)) return view;
        for (int i = 0; i < value->dims; i++) fn->numbers[i] = order[i];
        pl_fn_output(fn, view, 0);
    }
    return view;
}

pl_value *pl_transpose(pl_eager *e, pl_value *value, int a, int b) {
    int order[PL_MAX_DIMS];
    for (int i = 0; i < value->dims; i++) order[i] = i;
    if (value->dims > 0) {
        order[a] = b;
        order[b] = a;
    }
    return pl_permute(e, value, order);
}

/* transpose, t, permute, movedim, swapaxes: the arguments say which. */
void pl_run_permute(pl_eager *e, const pl_node *node, const pl_operator *op) {
    pl_value *in = pl_arg_at(e, node, 0);
    if (!in) return;
    int order[PL_MAX_DIMS], dims = in->dims;
    for (int i = 0; i < dims; i++) order[i] = i;
    const pl_arg *list = pl_node_arg(node, "dims");
    const pl_arg *from = pl_node_arg(node, "source"), *to = pl_node_arg(node, "destination");
    if (list && list->kind == PL_ARG_INTS && (int)list->count == dims) {
        uint32_t seen = 0;
        for (int i = 0; i < dims; i++) {
            int64_t d = pl_wrap_dim(list->ints[i], dims);
            if (d < 0 || d >= dims || seen >> d & 1) return pl_run_view(e, node, op);
            seen |= 1u << d;
            order[i] = (int)d;
        }
    } else if (from && to) {
        int64_t f[PL_MAX_DIMS], t[PL_MAX_DIMS];
        uint32_t n = from->kind == PL_ARG_INTS ? from->count : 1, taken = 0, placed = 0;
        if (n > PL_MAX_DIMS || (to->kind == PL_ARG_INTS && to->count != n)) return;
        for (int i = 0; i < dims; i++) order[i] = -1;
        for (uint32_t i = 0; i < n; i++) {
            f[i] = pl_wrap_dim(from->kind == PL_ARG_INTS ? from->ints[i] : from->i, dims);
            t[i] = pl_wrap_dim(to->kind == PL_ARG_INTS ? to->ints[i] : to->i, dims);
            if (f[i] < 0 || f[i] >= dims || t[i] < 0 || t[i] >= dims) return;
            order[t[i]] = (int)f[i];
            taken |= 1u << f[i];
            placed |= 1u << t[i];
        }
        for (int i = 0, k = 0; i < dims; i++) {
            if (placed >> i & 1) continue;
            while (k < dims && taken >> k & 1) k++;
            order[i] = k < dims ? k++ : 0;
        }
    } else if (dims >= 2) {
        bool named = pl_node_arg(node, "dim0") != NULL;
        int a = named
                    ? pl_dim_arg(node, "dim0", 0, dims)
                    : pl_dim_arg(node, "axis0", op->forward && *op->forward == 'm' ? -2 : 0, dims);
        int b = named
                    ? pl_dim_arg(node, "dim1", 1, dims)
                    : pl_dim_arg(node, "axis1", op->forward && *op->forward == 'm' ? -1 : 1, dims);
        order[a] = b;
        order[b] = a;
    }
    pl_set_output(e, node, 0, pl_permute(e, in, order));
}

/* ---- expand ---- */

pl_value *pl_expand(pl_eager *e, pl_value *value, int dims, const int64_t *sizes) {
    int64_t strides[PL_MAX_DIMS];
    int leading = dims - value->dims;
    for (int i = 0; i < dims; i++) {
        bool own = i >= leading && value->sizes[i - leading] == sizes[i];
        strides[i] = own ? value->strides[i - leading] : 0;
    }
    pl_value *view = pl_alias(e, value, dims, sizes, strides);
    /* The engine sums the gradient back to the input's sizes. */
    pl_fn_output(pl_fn_new(e, "ExpandBackward0", pass_backward, 1, &value, 1), view, 0);
    return view;
}

void pl_run_expand(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *in = pl_arg_at(e, node, 0);
    const pl_tensor *out = pl_output_tensor(e, node, 0);
    if (in && out && out->dims >= in->dims)
        pl_set_output(e, node, 0, pl_expand(e, in, out->dims, out->sizes));
}

/* ---- parts of a tensor ---- */

/* slice_backward, select_backward and their like: a zeroed whole. */
static void whole_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    const pl_edge *edge = &fn->edges[0];
    out[0] = pl_new(e, grads[0]->dtype, edge->dims, edge->sizes, NULL);
    double part = pl_work_bytes(grads[0]);
    pl_work_fill(e, PL_PASS_BACKWARD, out[0]);
    pl_work_kernels(e, &(pl_work_known){.kind = PL_WORK_COPY,
                                        .pass = PL_PASS_BACKWARD,
                                        .read = part,
                                        .written = part,
                                        .strided = true,
                                        .dtype = (pl_dtype)grads[0]->dtype});
}

static void set_part(pl_eager *e, const pl_node *node, pl_value *in, const int64_t *strides) {
    const pl_tensor *out = pl_output_tensor(e, node, 0);
    pl_value *part = pl_alias(e, in, out->dims, out->sizes, strides);
    pl_fn_output(pl_fn_new(e, "SliceBackward0", whole_backward, 1, &in, 1), part, 0);
    pl_set_output(e, node, 0, part);
}

pl_value *pl_narrow(pl_eager *e, pl_value *value, int dim, int64_t length) {
    int64_t sizes[PL_MAX_DIMS];
    memcpy(sizes, value->sizes, value->dims * sizeof *sizes);
    sizes[dim] = length;
    pl_value *part = pl_alias(e, value, value->dims, sizes, value->strides);
    pl_fn_output(pl_fn_new(e, "SliceBackward0", whole_backward, 1, &value, 1), part, 0);
    return part;
}

void pl_run_slice(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *in = pl_arg_at(e, node, 0);
    const pl_tensor *out = pl_output_tensor(e, node, 0);
    if (!in || !out || out->dims != in->dims) return;
    int64_t strides[PL_MAX_DIMS];
    memcpy(strides, in->strides, (size_t)in->dims * sizeof *strides);
    if (in->dims > 0) {
        int dim = pl_dim_arg(node, "dim", 0, in->dims);
        int64_t step = pl_node_int(node, "step", 1);
        strides[dim] = pl_times(strides[dim], step > 0 ? step : 1);
    }
    if (pl_same_sizes(in, out->dims, out->sizes)) { /* x[:]: backward still allocates a whole */
        set_part(e, node, in, in->strides);
        return;
    }
    set_part(e, node, in, strides);
}

void pl_run_select(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *in = pl_arg_at(e, node, 0);
    const pl_tensor *out = pl_output_tensor(e, node, 0);
    if (!in || !out || out->dims + 1 != in->dims) return;
    int dim = pl_dim_arg(node, "dim", 0, in->dims);
    int64_t strides[PL_MAX_DIMS];
    for (int i = 0; i < out->dims; i++) strides[i] = in->strides[i < dim ? i : i + 1];
    set_part(e, node, in, strides);
}

/* diagonal, unfold, as_strided: strides as the graph has them. */
void pl_run_strided(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *in = pl_arg_at(e, node, 0);
    const pl_tensor *out = pl_output_tensor(e, node, 0);
    if (in && out) set_part(e, node, in, out->strides);
}

/* split, chunk, unbind: one function with many outputs; backward joins their gradients (cat,
 * stack), zeros in place of what did not arrive. */
static void join_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    const pl_edge *edge = &fn->edges[0];
    pl_dtype dtype = PL_DT_F32;
    for (int i = 0; i < fn->output_count; i++)
        if (grads[i]) dtype = (pl_dtype)grads[i]->dtype;
    /* numbers: [0] bytes of one missing part, in elements */
    pl_value **zeros = pl_arena_array(e->step_arena, (size_t)fn->output_count, sizeof *zeros);
    int missing = 0;
    if (!zeros) {
        e->failed = true;
        return;
    }
    for (int i = 0; i < fn->output_count; i++)
        if (!grads[i] && fn->numbers) zeros[missing++] = pl_new_flat(e, dtype, fn->numbers[i]);
    out[0] = pl_new(e, dtype, edge->dims, edge->sizes, NULL);
    while (missing > 0) pl_drop(e, zeros[--missing]);
}

static void split_into(pl_eager *e, const pl_node *node, pl_value *in, int removed) {
    uint32_t count = node->output_count;
    pl_fn *fn = pl_fn_new(e, removed < 0 ? "SplitBackward0" : "UnbindBackward0", join_backward, 1,
                          &in, (int)count);
    if (fn) pl_fn_numbers(e, fn, count);
    for (uint32_t k = 0; k < node->output_count; k++) {
        const pl_tensor *out = pl_output_tensor(e, node, k);
        if (!out) continue;
        int64_t strides[PL_MAX_DIMS];
        for (int i = 0; i < out->dims; i++) {
            int from = removed >= 0 && i >= removed ? i + 1 : i;
            strides[i] = from < in->dims ? in->strides[from] : 1;
        }
        pl_value *part = pl_alias(e, in, out->dims, out->sizes, strides);
        if (fn && fn->numbers) fn->numbers[k] = part->elements;
        pl_fn_output(fn, part, (int)k);
        pl_set_output(e, node, k, part);
    }
}

void pl_run_split(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *in = pl_arg_at(e, node, 0);
    if (in) split_into(e, node, in, -1);
}

void pl_run_unbind(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *in = pl_arg_at(e, node, 0);
    if (in && in->dims > 0) split_into(e, node, in, pl_dim_arg(node, "dim", 0, in->dims));
}

/* ---- the same tensor, or a copy ---- */

/* select_backward of a part of a complex tensor: a zeroed whole. */
static void complex_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    (void)grads;
    const pl_edge *edge = &fn->edges[0];
    out[0] = pl_new(e, (pl_dtype)edge->dtype, edge->dims, edge->sizes, NULL);
}

void pl_run_alias(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *in = pl_arg_at(e, node, 0);
    if (in) pl_set_output(e, node, 0, pl_hold(in));
}

/* real, imag: every other number of a complex tensor; of a real one, itself. */
void pl_run_part_of_complex(pl_eager *e, const pl_node *node, const pl_operator *op) {
    pl_value *in = pl_arg_at(e, node, 0);
    const pl_tensor *out = pl_output_tensor(e, node, 0);
    if (!in || !out) return;
    if (in->dtype == out->dtype || in->dims != out->dims) {
        pl_run_alias(e, node, op);
        return;
    }
    int64_t strides[PL_MAX_DIMS];
    for (int i = 0; i < in->dims; i++) strides[i] = pl_times(2, in->strides[i]);
    pl_value *part = pl_alias(e, in, in->dims, in->sizes, strides);
    part->dtype = (uint8_t)out->dtype;
    pl_fn_output(pl_fn_new(e, "SelectBackward0", complex_backward, 1, &in, 1), part, 0);
    pl_set_output(e, node, 0, part);
}

void pl_run_detach(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *in = pl_arg_at(e, node, 0);
    if (in) pl_set_output(e, node, 0, pl_alias_like(e, in));
}

void pl_run_clone(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *in = pl_arg_at(e, node, 0);
    if (!in) return;
    pl_value *copy = pl_new_output(e, node, 0, (pl_dtype)in->dtype, in);
    pl_fn_output(pl_fn_new(e, "CloneBackward0", pass_backward, 1, &in, 1), copy, 0);
    pl_set_output(e, node, 0, copy);
}

void pl_run_contiguous(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *in = pl_arg_at(e, node, 0);
    if (in) pl_set_output(e, node, 0, pl_contiguous(e, in));
}

/* Which type x.to(...) means in this run. The graph has the type it meant at export; under
 * autocast, or in another precision, x.to(input_dtype) means whatever its module was given now,
 * x.to(other.device) no type at all. Casts that changed the type at export, and lines that name a
 * type, mean what the graph says. */
static bool names_a_type(const char *source) {
    static const char *const names[] = {"float32", "float16",     "float()",
                                        "half()",  "torch.float", "double"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(source, names[i])) return true;
    return false;
}

static pl_dtype module_input_dtype(pl_eager *e, const pl_node *node);
static pl_dtype named_dtype(const pl_eager *e, const pl_node *node);

static bool is_view(const pl_node *node) {
    static pl_run *const views[] = {pl_run_view,   pl_run_permute, pl_run_expand, pl_run_slice,
                                    pl_run_select, pl_run_split,   pl_run_unbind, pl_run_alias};
    const pl_operator *op = pl_operator_find(node->target);
    for (size_t i = 0; op && i < sizeof views / sizeof *views; i++)
        if (op->run == views[i]) return true;
    return false;
}

static bool same_line(const pl_node *a, const pl_node *b) {
    return a->module == b->module && strcmp(a->source, b->source) == 0;
}

/* q_embed.to(q.dtype) at the end of a function of which export shows only the call, "q, k =
 * apply_rotary_pos_emb(...)": the type of what the line was given, by way of first arguments. What
 * the call makes elsewhere (an activation that is no module of its own) lies between its nodes.
 * PL_DT_UNKNOWN: the line did not compute what it casts (x.transpose(1, 2).to(torch.float32) at a
 * function's beginning: a cast to the type that it has would not be written). */
static pl_dtype type_before_line(const pl_eager *e, const pl_node *node) {
    enum { LONGEST = 64, FARTHEST = 4096 };
    const pl_node *nodes = e->graph->nodes, *first = node;
    for (const pl_node *n = node; n > nodes && node - n < FARTHEST && n[-1].module == node->module;
         n--)
        if (same_line(n - 1, node)) first = n - 1;
    int32_t id = node->args[0].tensor;
    bool computed = false;
    for (int steps = 0; steps < LONGEST; steps++) {
        int32_t maker = e->graph->tensors[id].producer;
        const pl_node *made = maker >= 0 ? &nodes[maker] : NULL;
        if (!made || !node->source[0] || (made < first && !same_line(made, node)))
            return computed ? (pl_dtype)e->types[id] : PL_DT_UNKNOWN;
        computed |= !is_view(made);
        if (steps == 0 && strncmp(made->target, "aten.to.", 8) == 0) return PL_DT_UNKNOWN;
        uint32_t count = 0;
        const int32_t *ids = made->arg_count ? pl_arg_tensors(&made->args[0], &count) : NULL;
        if (count == 0 || ids[0] < 0) return PL_DT_UNKNOWN;
        id = ids[0]; /* of several that are joined, the first */
    }
    return PL_DT_UNKNOWN;
}

/* x.to(weight.dtype) before a product: the type of the parameter that it is multiplied with. */
static pl_dtype factor_dtype(const pl_eager *e, const pl_node *node) {
    enum { FARTHEST = 16, LONGEST = 8 };
    const pl_graph *g = e->graph;
    if (e->autocast || node->output_count == 0) return PL_DT_UNKNOWN;
    int32_t mine = node->outputs[0], at = (int32_t)(node - g->nodes);
    for (int32_t i = at + 1; i < g->node_count && i - at < FARTHEST; i++) {
        const pl_node *n = &g->nodes[i];
        if (n->arg_count < 2 || n->args[0].kind != PL_ARG_TENSOR || n->args[0].tensor != mine)
            continue;
        bool product = strncmp(n->target, "aten.linear.", 12) == 0 ||
                       strncmp(n->target, "aten.conv", 9) == 0 ||
                       strncmp(n->target, "aten.matmul.", 12) == 0;
        if (!product || n->args[1].kind != PL_ARG_TENSOR) return PL_DT_UNKNOWN;
        int32_t id = n->args[1].tensor;
        for (int steps = 0; steps < LONGEST && id >= 0 && g->tensors[id].producer >= 0; steps++) {
            const pl_node *made = &g->nodes[g->tensors[id].producer];
            if (!is_view(made) || made->args[0].kind != PL_ARG_TENSOR) return PL_DT_UNKNOWN;
            id = made->args[0].tensor;
        }
        bool parameter = id >= 0 && g->tensors[id].role == PL_ROLE_PARAMETER && e->env[id];
        return parameter ? (pl_dtype)e->env[id]->dtype : PL_DT_UNKNOWN;
    }
    return PL_DT_UNKNOWN;
}

static pl_dtype to_dtype(pl_eager *e, const pl_node *node, const pl_value *in) {
    const pl_tensor *out = pl_output_tensor(e, node, 0);
    if (!out) return (pl_dtype)in->dtype;
    const pl_tensor *was = &e->graph->tensors[node->args[0].tensor];
    bool changed = was->dtype != out->dtype;
    if (!pl_dtype_is_float(out->dtype) || !e->retyped) return out->dtype;
    pl_dtype factor = changed || names_a_type(node->source) ? PL_DT_UNKNOWN : factor_dtype(e, node);
    if (factor) return factor;
    if (!strstr(node->source, ".to(")) {
        pl_dtype before =
            changed || names_a_type(node->source) ? PL_DT_UNKNOWN : type_before_line(e, node);
        return before && pl_dtype_is_float(before) ? before : out->dtype;
    }
    if (strstr(node->source, "dtype)") && !names_a_type(node->source)) {
        pl_dtype named = named_dtype(e, node);
        return named ? named : module_input_dtype(e, node);
    }
    return changed || names_a_type(node->source) ? out->dtype : (pl_dtype)in->dtype;
}

/* The type of the tensor that a module's call was first given: the first argument of its first node
 * that was made outside it. */
static pl_dtype module_input_dtype(pl_eager *e, const pl_node *node) {
    int32_t at = (int32_t)(node - e->graph->nodes);
    int32_t first = at;
    while (first > 0 && e->graph->nodes[first - 1].module == node->module) first--;
    for (int32_t i = first; i <= at; i++) {
        const pl_node *n = &e->graph->nodes[i];
        int32_t id = n->arg_count && n->args[0].kind == PL_ARG_TENSOR ? n->args[0].tensor : -1;
        if (id < 0 || (e->graph->tensors[id].role != PL_ROLE_VALUE &&
                       e->graph->tensors[id].role != PL_ROLE_INPUT))
            continue;
        if (e->graph->tensors[id].producer < first && e->env[id] &&
            pl_dtype_is_float(e->env[id]->dtype))
            return (pl_dtype)e->env[id]->dtype;
    }
    /* A module that was given a tensor for its type alone (rotary embeddings): what the model has
     * at hand is the newest tensor before it. */
    for (int32_t i = first; i-- > 0;)
        for (uint32_t k = 0; k < e->graph->nodes[i].output_count; k++) {
            int32_t id = e->graph->nodes[i].outputs[k];
            if (id >= 0 && e->env[id] && pl_dtype_is_float(e->env[id]->dtype))
                return (pl_dtype)e->env[id]->dtype;
        }
    return PL_DT_UNKNOWN;
}

static bool is_name(char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The code of "embeddings.py:388: return x". */
static const char *code_of(const char *source) {
    const char *end = strstr(source, ": ");
    return end && end > source && end[-1] >= '0' && end[-1] <= '9' ? end + 2 : source;
}

/* x.to(latent.dtype): the type of what a line of the same call, "latent = ..", made last before it.
 * PL_DT_UNKNOWN: no such name, or none that a line gave. */
static pl_dtype named_dtype(const pl_eager *e, const pl_node *node) {
    const char *at = strstr(node->source, ".to("), *name = at ? at + strlen(".to(") : NULL;
    if (name && strncmp(name, "dtype=", 6) == 0) name += 6;
    size_t length = 0;
    while (name && is_name(name[length])) length++;
    if (!name || length == 0 || strncmp(name + length, ".dtype)", 7) != 0) return PL_DT_UNKNOWN;
    for (const pl_node *n = node; n > e->graph->nodes && n[-1].module >= 0; n--) {
        const pl_node *before = n - 1;
        const char *code = code_of(before->source);
        if (before->module != node->module || before->output_count == 0 ||
            strncmp(code, name, length) != 0 || strncmp(code + length, " = ", 3) != 0)
            continue;
        int32_t id = before->outputs[before->output_count - 1];
        pl_dtype dtype = id >= 0 ? (pl_dtype)e->types[id] : PL_DT_UNKNOWN;
        return pl_dtype_is_float(dtype) ? dtype : PL_DT_UNKNOWN;
    }
    return PL_DT_UNKNOWN;
}

static bool inside(const pl_graph *g, int32_t module, int32_t outer) {
    while (module >= 0 && module != outer) module = g->modules[module].parent;
    return module == outer;
}

/* x.to(torch.float32) of a float32 x is x itself, and the export calls x by the cast's name from
 * there on. In another precision it is a wider copy that its module alone sees: when that has
 * returned, the name means x again. (A narrower one, x.to(y.dtype), is what a module returns.) */
static void remember_uncast(pl_eager *e, const pl_node *node, pl_value *in) {
    const pl_graph *g = e->graph;
    int32_t at = (int32_t)(node - g->nodes);
    if (node->module < 0) return;
    bool root = g->modules[node->module].parent < 0;
    while (at + 1 < g->node_count && (root ? same_line(&g->nodes[at + 1], node)
                                           : inside(g, g->nodes[at + 1].module, node->module)))
        at++;
    if (root && (!*node->source || at == (int32_t)(node - g->nodes))) return;
    void *grown = pl_arena_grow(e->tape->arena, e->uncast, &e->uncast_room, e->uncast_count + 1,
                                sizeof *e->uncast);
    if (!grown) {
        e->failed = true;
        return;
    }
    e->uncast = grown;
    e->uncast[e->uncast_count].tensor = node->outputs[0];
    e->uncast[e->uncast_count].at = at;
    e->uncast[e->uncast_count++].value = pl_hold(in);
}

void pl_uncast(pl_eager *e, int32_t i) {
    size_t kept = 0;
    for (size_t k = 0; k < e->uncast_count; k++) {
        if (e->uncast[k].at > i) {
            e->uncast[kept++] = e->uncast[k];
            continue;
        }
        pl_value **place = &e->env[e->uncast[k].tensor], *cast = *place;
        *place = cast ? e->uncast[k].value : NULL;
        pl_drop(e, cast ? cast : e->uncast[k].value);
    }
    e->uncast_count = kept;
}

/* x.type_as(y): y's type before a cast that was none at export, which took y's name. */
static pl_dtype type_of_other(const pl_eager *e, const pl_node *node, const pl_value *other) {
    for (size_t k = 0; node->args[1].kind == PL_ARG_TENSOR && k < e->uncast_count; k++)
        if (e->uncast[k].tensor == node->args[1].tensor) return (pl_dtype)e->uncast[k].value->dtype;
    return (pl_dtype)other->dtype;
}

enum { CONTIGUOUS_FORMAT = 1 }; /* torch/_export/serde/schema.py: MemoryFormat */

/* to, type_as, float, half, _to_copy. */
void pl_run_to(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *in = pl_arg_at(e, node, 0);
    if (!in) return;
    const pl_value *other = pl_arg_at(e, node, 1);
    pl_dtype dtype = other ? type_of_other(e, node, other) : to_dtype(e, node, in);
    if (dtype == PL_DT_UNKNOWN) dtype = (pl_dtype)in->dtype;
    bool copy = pl_node_int(node, "copy", 0) != 0;
    if (in->dtype == dtype && copy) {
        pl_run_clone(e, node, op);
        return;
    }
    bool was_none =
        e->retyped && !other && pl_dtype_size(dtype) > pl_dtype_size((pl_dtype)in->dtype) &&
        node->output_count > 0 && node->outputs[0] >= 0 &&
        e->graph->tensors[node->args[0].tensor].dtype == e->graph->tensors[node->outputs[0]].dtype;
    if (was_none) remember_uncast(e, node, in);
    const pl_arg *format = pl_node_arg(node, "memory_format");
    bool plain = format && (format->kind == PL_ARG_STRING
                                ? strcmp(format->s, "contiguous") == 0
                                : format->kind == PL_ARG_OTHER && format->i == CONTIGUOUS_FORMAT);
    pl_set_output(e, node, 0, plain ? pl_to_contiguous(e, in, dtype) : pl_to(e, in, dtype));
}
