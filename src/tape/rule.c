/* rule: runs a node by its row of the operator table; see operator.h for the language of a row.
 *
 * The types of outputs: graphs are exported without autocast and often in another precision than
 * they are trained in, so types are carried through anew. Where the graph's output had the promoted
 * type of its inputs it follows the inputs of this run; where it had another one (comparisons,
 * explicit casts) it keeps that. */
#include "tape/operator.h"

#include <string.h>

#include "core/checked.h"

bool pl_fn_numbers(pl_eager *e, pl_fn *fn, size_t count) {
    fn->numbers = pl_arena_array(e->step_arena, count, sizeof *fn->numbers);
    if (!fn->numbers) e->failed = true;
    return fn->numbers != NULL;
}

int64_t pl_wrap_dim(int64_t dim, int dims) {
    return dim < 0 ? dim + dims : dim;
}

int pl_dim_arg(const pl_node *node, const char *name, int64_t otherwise, int dims) {
    int64_t dim = pl_wrap_dim(pl_node_int(node, name, otherwise), dims);
    return dim < 0 || dim >= dims ? 0 : (int)dim;
}

pl_value *pl_arg_at(pl_eager *e, const pl_node *node, uint32_t position) {
    if (position >= node->arg_count || node->args[position].kind != PL_ARG_TENSOR) return NULL;
    return e->env[node->args[position].tensor];
}

pl_value *pl_arg_value(pl_eager *e, const pl_node *node, const char *name) {
    int32_t tensor = pl_node_tensor(node, name);
    return tensor < 0 ? NULL : e->env[tensor];
}

const pl_tensor *pl_output_tensor(const pl_eager *e, const pl_node *node, uint32_t i) {
    return i < node->output_count && node->outputs[i] >= 0 ? &e->graph->tensors[node->outputs[i]]
                                                           : NULL;
}

void pl_set_output(pl_eager *e, const pl_node *node, uint32_t i, pl_value *value) {
    if (i >= node->output_count || node->outputs[i] < 0) {
        pl_drop(e, value);
        return;
    }
    pl_value **place = &e->env[node->outputs[i]];
    pl_drop(e, *place);
    *place = value;
    if (value) e->types[node->outputs[i]] = value->dtype;
}

/* torch.promote_types for the types that models use; bf16 with fp16 gives fp32. */
pl_dtype pl_promote(pl_dtype a, pl_dtype b) {
    if (a == b) return a;
    bool fa = pl_dtype_is_float(a), fb = pl_dtype_is_float(b);
    if (fa != fb) return fa ? a : b;
    if (fa && pl_dtype_size(a) == pl_dtype_size(b)) return PL_DT_F32;
    if (a == PL_DT_BOOL) return b;
    if (b == PL_DT_BOOL) return a;
    return pl_dtype_size(a) >= pl_dtype_size(b) ? a : b;
}

/* Type promotion with PyTorch's three ranks: tensors with dimensions, then 0-d ones, then numbers.
 */
typedef struct promoted {
    pl_dtype with_dims, without;
} promoted;

static void promote_in(promoted *p, pl_dtype dtype, int dims) {
    pl_dtype *at = dims > 0 ? &p->with_dims : &p->without;
    *at = *at == PL_DT_UNKNOWN ? dtype : pl_promote(*at, dtype);
}

static pl_dtype promoted_of(promoted p) {
    if (p.with_dims == PL_DT_UNKNOWN) return p.without;
    if (p.without == PL_DT_UNKNOWN) return p.with_dims;
    bool raises = pl_dtype_is_float(p.without) && !pl_dtype_is_float(p.with_dims);
    return raises ? p.without : p.with_dims;
}

pl_dtype pl_output_dtype(pl_eager *e, const pl_node *node, uint32_t i) {
    const pl_tensor *out = pl_output_tensor(e, node, i);
    if (!out) return PL_DT_F32;
    promoted then = {0}, now = {0};
    for (uint32_t k = 0; k < node->arg_count; k++) {
        uint32_t count;
        const int32_t *ids = pl_arg_tensors(&node->args[k], &count);
        for (uint32_t j = 0; j < count; j++) {
            int32_t id = ids[j];
            if (id < 0 || !e->env[id]) continue;
            const pl_tensor *t = &e->graph->tensors[id];
            promote_in(&then, t->dtype, t->dims);
            promote_in(&now, e->env[id]->dtype, t->dims);
        }
    }
    return out->dtype == promoted_of(then) ? promoted_of(now) : out->dtype;
}

/* Rows and columns last: the memory format that channels_last models hand from operator to
 * operator. */
static bool is_channels_last(const pl_value *value) {
    int d = value->dims;
    if ((d != 4 && d != 5) || value->sizes[1] == 1) return false;
    int64_t step = value->sizes[1];
    if (value->strides[1] != 1) return false;
    for (int i = d - 1; i >= 2; i--) {
        if (value->sizes[i] != 1 && value->strides[i] != step) return false;
        step = pl_times(step, value->sizes[i]);
    }
    return true;
}

static void channels_last_strides(int dims, const int64_t *sizes, int64_t *strides) {
    int64_t step = sizes[1];
    strides[1] = 1;
    for (int i = dims - 1; i >= 2; i--) {
        strides[i] = step;
        step = pl_times(step, sizes[i]);
    }
    strides[0] = step;
}

pl_value *pl_new_output(pl_eager *e, const pl_node *node, uint32_t i, pl_dtype dtype,
                        const pl_value *like) {
    const pl_tensor *out = pl_output_tensor(e, node, i);
    if (!out) return pl_new_flat(e, dtype, 0);
    int64_t strides[PL_MAX_DIMS];
    if (like && e->job->channels_last && out->dims == like->dims && is_channels_last(like)) {
        channels_last_strides(out->dims, out->sizes, strides);
        return pl_new(e, dtype, out->dims, out->sizes, strides);
    }
    /* The graph's strides hold where they are dense; a view's strides must not reach into its base.
     */
    pl_value shape = {.sizes = out->sizes, .strides = out->strides, .dims = out->dims};
    return pl_new(e, dtype, out->dims, out->sizes, pl_is_dense(&shape) ? out->strides : NULL);
}

/* What an operator by elements makes of x. In another type than the graph's, copies that its casts
 * make are laid out anew (x.transpose(1, 2).to(float32, contiguous) of float32 is x itself), and
 * what is made of them follows. */
static pl_value *new_like_first(pl_eager *e, const pl_node *node, pl_dtype dtype,
                                const pl_value *x) {
    const pl_tensor *out = pl_output_tensor(e, node, 0);
    if (out && x && e->retyped && pl_same_sizes(x, out->dims, out->sizes) && pl_is_dense(x))
        return pl_new(e, dtype, out->dims, out->sizes, x->strides);
    return pl_new_output(e, node, 0, dtype, x);
}

/* ---- casts ---- */

static void cast_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    out[0] = pl_cast_raw(e, pl_hold(grads[0]), fn->edges[0].dtype);
}

/* cast: the copy, not yet anyone's. */
static pl_value *cast_to(pl_eager *e, pl_value *value, pl_value *cast, pl_dtype dtype) {
    pl_work_copy(e, pl_work_pass(e), value, cast);
    pl_fn *fn = pl_dtype_is_float(dtype)
                    ? pl_fn_new(e, "ToCopyBackward0", cast_backward, 1, &value, 1)
                    : NULL;
    pl_fn_output(fn, cast, 0);
    return cast;
}

pl_value *pl_to(pl_eager *e, pl_value *value, pl_dtype dtype) {
    if (value->dtype == dtype) return pl_hold(value);
    return cast_to(e, value, pl_new_like(e, value, dtype), dtype);
}

pl_value *pl_to_contiguous(pl_eager *e, pl_value *value, pl_dtype dtype) {
    if (value->dtype == dtype) return pl_hold(value);
    return cast_to(e, value, pl_new(e, dtype, value->dims, value->sizes, NULL), dtype);
}

/* autocast_mode.cpp: copies of fp32 parameters that want gradients are made once and kept until the
 * region ends; where no gradients are recorded too, since others use them then (2.11). */
pl_value *pl_autocast_to(pl_eager *e, pl_value *value, pl_dtype dtype) {
    bool eligible = value->dtype == PL_DT_F32 || pl_dtype_is_half((pl_dtype)value->dtype);
    if (!eligible || value->dtype == dtype) return pl_hold(value);
    bool cacheable = dtype != PL_DT_F32 && value->dtype == PL_DT_F32 && value->leaf >= 0 &&
                     !value->fn && value->needs_grad && e->cached;
    if (!cacheable) return pl_to(e, value, dtype);
    pl_leaf *leaf = &e->leaves[value->leaf];
    if (!leaf->cast) {
        bool grad_enabled = e->grad_enabled;
        e->grad_enabled = true;
        leaf->cast = pl_to(e, value, dtype);
        e->grad_enabled = grad_enabled;
        e->cached[e->cached_count++] = value->leaf;
    }
    return pl_hold(leaf->cast);
}

/* ---- the two strings ---- */

enum { MAX_ARGS = 8 };

/* What a string has allocated for itself, oldest first: held[first .. count - 1] live. */
typedef struct scratch {
    pl_value *few[16], **held; /* held: few, or in the step's arena where there are more */
    size_t room;
    int first, count;
} scratch;

static void scratch_add(pl_eager *e, scratch *s, pl_value *value) {
    if (!s->held) {
        s->held = s->few;
        s->room = sizeof s->few / sizeof *s->few;
    }
    pl_value **grown =
        pl_arena_grow(e->step_arena, s->held, &s->room, (size_t)s->count + 1, sizeof *grown);
    if (!grown) {
        e->failed = true;
        pl_drop(e, value);
        return;
    }
    s->held = grown;
    s->held[s->count++] = value;
}

static void scratch_free_oldest(pl_eager *e, scratch *s) {
    if (s->first < s->count) pl_drop(e, s->held[s->first++]);
}

/* Frees the nth newest, 1 being the newest. */
static void scratch_free_newest(pl_eager *e, scratch *s, int nth) {
    int at = s->count - nth;
    if (at < s->first) return;
    pl_drop(e, s->held[at]);
    for (s->count--; at < s->count; at++) s->held[at] = s->held[at + 1];
}

static void scratch_free(pl_eager *e, scratch *s) {
    while (s->count > s->first) pl_drop(e, s->held[--s->count]);
}

/* The part of a backward string for one position, or NULL. */
static const char *part_of(const char *backward, uint32_t position) {
    const char *at = backward;
    for (; at && position > 0; position--) {
        at = strchr(at, '|');
        if (at) at++;
    }
    return at && *at && *at != '|' ? at : NULL;
}

/* A tensor of the argument's sizes, dense. */
static pl_value *like_edge(pl_eager *e, const pl_edge *edge, pl_dtype dtype) {
    pl_value shape = {
        .sizes = (int64_t *)edge->sizes, .strides = (int64_t *)edge->strides, .dims = edge->dims};
    return pl_new(e, dtype, edge->dims, edge->sizes, pl_is_dense(&shape) ? edge->strides : NULL);
}

static bool is_complex(pl_dtype dtype) {
    return dtype == PL_DT_C32 || dtype == PL_DT_C64 || dtype == PL_DT_C128;
}

static pl_value *run_formula(pl_eager *e, const char *formula, const pl_value *grad,
                             const pl_edge *edge, pl_value *passed) {
    scratch s = {0};
    pl_value *result = NULL;
    for (const char *at = formula; *at && *at != '|'; at++) {
        switch (*at) {
        case 'g': result = pl_hold(passed); break;
        case 'n': result = pl_new_like(e, grad, grad->dtype); break;
        case 'N':
            result = like_edge(e, edge, is_complex(edge->dtype) ? edge->dtype : grad->dtype);
            break;
        case 't': scratch_add(e, &s, pl_new_like(e, grad, grad->dtype)); break;
        case 'T': scratch_add(e, &s, like_edge(e, edge, edge->dtype)); break;
        case 'Q': scratch_add(e, &s, like_edge(e, edge, grad->dtype)); break;
        case 'c':
            if (edge->dtype != grad->dtype) scratch_add(e, &s, like_edge(e, edge, grad->dtype));
            break;
        case 'm': scratch_add(e, &s, pl_new_like(e, grad, PL_DT_BOOL)); break;
        case 'M': scratch_add(e, &s, like_edge(e, edge, PL_DT_BOOL)); break;
        case 'i': scratch_add(e, &s, pl_new_like(e, grad, PL_DT_I64)); break;
        case 'I': scratch_add(e, &s, like_edge(e, edge, PL_DT_I64)); break;
        case 's': scratch_add(e, &s, pl_new_flat(e, grad->dtype, -1)); break;
        case 'f': scratch_add(e, &s, pl_new_like(e, grad, PL_DT_F32)); break;
        case 'F': scratch_add(e, &s, like_edge(e, edge, PL_DT_F32)); break;
        case 'v': {
            int64_t strides[PL_MAX_DIMS] = {0};
            result = pl_alias(e, grad, edge->dims, edge->sizes, strides);
            break;
        }
        case '-': scratch_free_oldest(e, &s); break;
        default:
            if (*at >= '1' && *at <= '9') scratch_free_newest(e, &s, *at - '0');
            break;
        }
    }
    scratch_free(e, &s);
    return result;
}

/* The record of one argument's gradient: what its part of the string saved is read. Slots are those
 * that save_parts took. */
static void note_part(pl_eager *e, const pl_fn *fn, int position, const pl_value *grad) {
    pl_work_rest rest = {.kind = (pl_work_kind)fn->work,
                         .pass = PL_PASS_BACKWARD,
                         .read = pl_work_bytes(grad),
                         .like = grad,
                         .strided = !pl_is_dense(grad),
                         .zeroed = fn->zeroes};
    int8_t slots[256];
    int taken = 0;
    memset(slots, -1, sizeof slots);
    for (int i = 0; i < fn->edge_count; i++) {
        const char *part = fn->edges[i].wanted ? part_of(fn->rule, (uint32_t)i) : NULL;
        for (; part && *part && *part != ':' && *part != '|'; part++) {
            int8_t *slot = &slots[(unsigned char)*part];
            if (*slot < 0 && taken < fn->saved_count) *slot = (int8_t)taken++;
            const pl_value *saved = i == position && *slot >= 0 ? fn->saved[*slot] : NULL;
            if (!saved) continue;
            rest.read += pl_work_bytes(saved);
            rest.strided |= pl_work_gathers(saved, grad);
        }
    }
    pl_work_end(e, &rest);
}

/* Gradients are made in the alphabetical order of the arguments' names, as the generated code does.
 */
void pl_rule_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    if (!grads[0]) return;
    const char *backward = fn->rule;
    const pl_node *node = fn->node >= 0 ? &e->graph->nodes[fn->node] : NULL;
    uint8_t order[MAX_ARGS];
    int count = 0;
    for (int i = 0; i < fn->edge_count; i++) {
        int at = count++;
        const char *name = node && (uint32_t)i < node->arg_count ? node->args[i].name : NULL;
        while (at > 0 && name && strcmp(node->args[order[at - 1]].name, name) > 0) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = (uint8_t)i;
    }
    for (int k = 0; k < count; k++) {
        int i = order[k];
        const char *part = fn->edges[i].wanted ? part_of(backward, (uint32_t)i) : NULL;
        const char *formula = part ? strchr(part, ':') : NULL;
        if (!formula) continue;
        out[i] = run_formula(e, formula + 1, grads[0], &fn->edges[i], grads[0]);
        if (e->calls.on && e->calls.tensors && count > 1 && !fn->kernels)
            note_part(e, fn, i, grads[0]);
    }
}

/* ---- in place on a view ---- */

/* CopySlices (torch/csrc/autograd/functions/tensor.cpp): the changed view is as_strided of its
 * base, whose gradient is made whole, copied, and the view's part of the copy cloned and sent
 * through the operator's own formula. fn->edges[0] leads to the base; numbers: dimensions and sizes
 * of the view. */
static void copy_slices_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    const pl_edge *base = &fn->edges[0];
    pl_dtype dtype = (pl_dtype)base->dtype;
    pl_value *whole = grads[0] ? like_edge(e, base, dtype) : NULL;
    pl_drop(e, grads[0]);
    grads[0] = NULL;
    if (whole && grads[1]) {
        pl_drop(e, whole);
        whole = NULL;
    }
    pl_value *result = like_edge(e, base, dtype);
    pl_value *part = pl_new(e, dtype, (int)fn->numbers[0], fn->numbers + 1, NULL);
    pl_edge view = {
        .dims = part->dims, .dtype = part->dtype, .sizes = part->sizes, .strides = part->strides};
    for (int i = fn->edge_count; i-- > 0;) {
        const char *text = fn->edges[i].wanted ? part_of(fn->rule, (uint32_t)i) : NULL;
        const char *formula = text ? strchr(text, ':') : NULL;
        pl_value *made =
            formula ? run_formula(e, formula + 1, part, i ? &fn->edges[i] : &view, part) : NULL;
        if (i > 0) {
            out[i] = made;
            continue;
        }
        pl_drop(e, part);
        pl_drop(e, made);
    }
    pl_drop(e, whole);
    if (base->wanted)
        out[0] = result;
    else
        pl_drop(e, result);
}

void pl_fn_in_place(pl_eager *e, pl_fn *fn, const pl_value *self) {
    pl_value *base = self->base;
    if (!fn || !base) return;
    fn->numbers = pl_arena_array(e->step_arena, self->dims + 1u, sizeof *fn->numbers);
    fn->grads = pl_arena_array(e->step_arena, 2, sizeof *fn->grads);
    if (!fn->numbers || !fn->grads) {
        e->failed = true;
        return;
    }
    fn->numbers[0] = self->dims;
    memcpy(fn->numbers + 1, self->sizes, self->dims * sizeof *fn->numbers);
    pl_fn_cut(fn, 0);
    fn->edges[0] = pl_edge_to(base);
    fn->backward = copy_slices_backward;
    fn->output_count = 2;
    if (base->refs > 0 && base->leaf < 0) pl_fn_output(fn, base, 1);
}

/* Saves what the wanted parts name, each once, in the order of the letters' first use. Whether
 * something that the operator computes was among it. */
static bool save_parts(pl_eager *e, pl_fn *fn, const char *backward, pl_value *const *args,
                       uint32_t arg_count, pl_value *result, pl_value *extra) {
    bool saved[256] = {false}, computed = false;
    for (uint32_t i = 0; i < arg_count; i++) {
        const char *part = fn->edges[i].wanted ? part_of(backward, i) : NULL;
        for (; part && *part && *part != ':' && *part != '|'; part++) {
            unsigned char letter = (unsigned char)*part;
            pl_value *value = letter == 'r'                               ? result
                              : letter == 'x'                             ? extra
                              : letter >= 'a' && letter < 'a' + arg_count ? args[letter - 'a']
                                                                          : NULL;
            if (!value || saved[letter]) continue;
            saved[letter] = true;
            computed |= letter == 'r' || letter == 'x';
            pl_save(e, fn, value);
        }
    }
    return computed;
}

static pl_value *cast_arg(pl_eager *e, pl_value *value, pl_cast_rule how, pl_dtype widest) {
    if (!value || how == PL_CAST_NONE || how == PL_CAST_RESULT) return pl_hold(value);
    pl_dtype to = how == PL_CAST_LOWER   ? (pl_dtype)e->autocast
                  : how == PL_CAST_FLOAT ? PL_DT_F32
                                         : widest;
    return pl_autocast_to(e, value, to);
}

void pl_run_by_rule(pl_eager *e, const pl_node *node, const pl_operator *op) {
    pl_value *args[MAX_ARGS] = {0};
    uint32_t count = node->arg_count < MAX_ARGS ? node->arg_count : MAX_ARGS;
    pl_cast_rule how = e->autocast ? op->autocast : PL_CAST_NONE;
    pl_dtype widest = (pl_dtype)e->autocast;
    for (uint32_t i = 0; i < count; i++) {
        const pl_value *value = pl_arg_at(e, node, i);
        if (value && value->dtype == PL_DT_F32) widest = PL_DT_F32;
    }
    for (uint32_t i = count; i-- > 0;) args[i] = cast_arg(e, pl_arg_at(e, node, i), how, widest);

    bool in_place = pl_operator_in_place(node->target);
    size_t mark = pl_work_mark(e);
    const char *forward = op->forward ? op->forward : "o";
    /* pools and what else returns places: the type of the input, whatever random samples they are
     * given */
    pl_dtype dtype =
        strchr(forward, 'i') && args[0] ? (pl_dtype)args[0]->dtype : pl_output_dtype(e, node, 0);
    if ((how == PL_CAST_FLOAT || how == PL_CAST_RESULT) && pl_dtype_is_half(dtype))
        dtype = PL_DT_F32;
    if (how == PL_CAST_LOWER && dtype == PL_DT_F32) dtype = (pl_dtype)e->autocast;
    pl_value *result = NULL, *extra = NULL;
    scratch s = {0};
    for (const char *at = forward; *at; at++) {
        switch (*at) {
        case '=':
            if (args[0]) result = pl_alias_like(e, args[0]);
            break;
        case 'o':
            result = in_place && args[0] ? pl_alias_like(e, args[0])
                                         : new_like_first(e, node, dtype, args[0]);
            break;
        case 't': scratch_add(e, &s, new_like_first(e, node, dtype, args[0])); break;
        case 'T':
            if (args[0]) scratch_add(e, &s, pl_new_like(e, args[0], args[0]->dtype));
            break;
        case 'c':
            if (args[0] && args[0]->dtype != dtype)
                scratch_add(e, &s, pl_new_like(e, args[0], dtype));
            break;
        case 'b': scratch_add(e, &s, new_like_first(e, node, PL_DT_BOOL, args[0])); break;
        case 's': scratch_add(e, &s, pl_new_flat(e, dtype, -1)); break;
        case 'e': extra = new_like_first(e, node, dtype, args[0]); break;
        case 'i': extra = new_like_first(e, node, PL_DT_I64, args[0]); break;
        case 'm': extra = new_like_first(e, node, PL_DT_BOOL, args[0]); break;
        case '-': scratch_free_oldest(e, &s); break;
        default:
            if (*at >= '1' && *at <= '9') scratch_free_newest(e, &s, *at - '0');
            break;
        }
    }
    if (!result)
        result = new_like_first(e, node, dtype, args[0]);
    else if (result->base)
        result->base = args[0]->base; /* the same tensor, no view of it */
    pl_fn *fn = op->backward && !node->no_grad && pl_dtype_is_float(result->dtype)
                    ? pl_fn_new(e, op->name, pl_rule_backward, (int)count, args, 1)
                    : NULL;
    if (fn) {
        fn->rule = op->backward;
        fn->class = (uint8_t)op->class;
        for (uint32_t i = 0; i < count; i++)
            if (!part_of(op->backward, i)) pl_fn_cut(fn, (int)i);
        if (!save_parts(e, fn, op->backward, args, count, result, extra)) pl_work_saved(e, mark);
        if (in_place && args[0]) pl_fn_in_place(e, fn, args[0]);
        pl_fn_output(fn, result, 0);
    }
    scratch_free(e, &s);
    for (uint32_t i = 0; i < count; i++) pl_drop(e, args[i]);
    pl_set_output(e, node, 0, result);
    for (uint32_t i = 1; i < node->output_count; i++) {
        bool kept = i == 1 && extra && pl_output_tensor(e, node, 1); /* a pool's indices */
        pl_set_output(e, node, i,
                      kept ? pl_hold(extra)
                           : pl_new_output(e, node, i, pl_output_dtype(e, node, i), NULL));
    }
    pl_drop(e, extra);
}

pl_value *pl_pointwise(pl_eager *e, const char *name, const char *backward, pl_value *a,
                       pl_value *b) {
    pl_value *args[2] = {a, b};
    const pl_value *wide = b && (b->dims > a->dims || b->elements > a->elements) ? b : a;
    pl_dtype dtype = b ? pl_promote(a->dtype, b->dtype) : (pl_dtype)a->dtype;
    size_t mark = pl_work_mark(e);
    pl_value *result = pl_new_like(e, wide, dtype);
    pl_work_pointwise(e, PL_PASS_FORWARD, a, b, result);
    pl_fn *fn = pl_fn_new(e, name, pl_rule_backward, 2, args, 1);
    if (fn) {
        fn->rule = backward;
        fn->work = PL_WORK_POINTWISE;
        fn->kernels = 0;
        fn->zeroes = false;
        for (int i = 0; i < 2; i++)
            if (!part_of(backward, (uint32_t)i)) pl_fn_cut(fn, i);
        if (!save_parts(e, fn, backward, args, 2, result, NULL)) pl_work_saved(e, mark);
        pl_fn_output(fn, result, 0);
    }
    return result;
}

/* ---- a node ---- */

/* Whether the kernel of a reduction keeps the innermost dimension of what it reads. */
static bool keeps_innermost(const pl_node *node, const pl_value *in, const pl_value *out) {
    if (in->dims == 0 || out->elements == 1) return false;
    int last = in->dims - 1;
    if (out->dims == in->dims) return out->sizes[last] == in->sizes[last];
    const pl_arg *dim = pl_node_arg(node, "dim");
    uint32_t count = !dim ? 0 : dim->kind == PL_ARG_INTS ? dim->count : dim->kind == PL_ARG_INT;
    for (uint32_t i = 0; i < count; i++)
        if (pl_wrap_dim(dim->kind == PL_ARG_INTS ? dim->ints[i] : dim->i, in->dims) == last)
            return false;
    return count > 0;
}

/* What the node was given and made, for the record of its kernels. A gather reads of its table what
 * it writes, and the indices; what fills reads nothing. */
static pl_work_rest rest_of(pl_eager *e, const pl_node *node, const pl_operator *op) {
    pl_work_rest rest = {.kind = op ? op->work : PL_WORK_POINTWISE,
                         .launches = op ? op->kernels[0] : 0};
    const pl_value *out =
        node->output_count && node->outputs[0] >= 0 ? e->env[node->outputs[0]] : NULL;
    rest.like = out;
    if (out && pl_operator_in_place(node->target)) rest.in_place_bytes = pl_work_bytes(out);
    if (rest.kind == PL_WORK_FILL) return rest;
    bool gathers = rest.kind == PL_WORK_GATHER;
    for (uint32_t i = 0; i < node->arg_count; i++) {
        const pl_arg *arg = &node->args[i];
        uint32_t count;
        const int32_t *ids = pl_arg_tensors(arg, &count);
        for (uint32_t k = 0; k < count; k++) {
            const pl_value *in = ids[k] >= 0 ? e->env[ids[k]] : NULL;
            if (!in || (gathers && pl_dtype_is_float(in->dtype))) continue;
            rest.read += pl_work_bytes(in);
            if (gathers && in->elements > rest.rows) rest.rows = in->elements;
            if (!out) continue;
            if (rest.kind == PL_WORK_COPY && arg->kind == PL_ARG_TENSORS)
                rest.strided |= !pl_is_contiguous(in); /* joins */
            else
                rest.strided |= pl_work_gathers(in, out);
            if (i > 0 || rest.kind != PL_WORK_REDUCE) continue;
            rest.rows = out->elements;
            rest.columns = out->elements ? in->elements / out->elements : 0;
        }
    }
    if (gathers && out) {
        rest.read += (double)pl_value_bytes(out);
        rest.columns = rest.rows ? out->elements / rest.rows : 0;
    }
    const pl_value *first = rest.kind == PL_WORK_REDUCE ? pl_arg_at(e, node, 0) : NULL;
    if (first && out) rest.strided = keeps_innermost(node, first, out);
    return rest;
}

void pl_run_node(pl_eager *e, const pl_node *node, const pl_operator *op) {
    bool grad_enabled = e->grad_enabled;
    if (node->no_grad) e->grad_enabled = false;
    e->what = node->target;
    e->class = op ? (uint8_t)op->class : PL_KERNEL_PLAIN;
    e->work = op ? (uint8_t)op->work : PL_WORK_POINTWISE;
    e->kernels = op ? op->kernels[1] : 0;
    e->zeroes = op && op->zeroes;
    pl_work_begin(e);
    if (op) {
        (op->run ? op->run : pl_run_by_rule)(e, node, op);
    } else {
        pl_run_unknown(e, node, NULL);
    }
    bool said = e->tape->call_count > e->calls.begin;
    if (e->calls.on && (e->calls.tensors || !said)) {
        pl_work_rest rest = {.kind = PL_WORK_VIEW};
        if (e->calls.tensors || pl_operator_in_place(node->target)) rest = rest_of(e, node, op);
        pl_work_end(e, &rest);
    }
    e->class = PL_KERNEL_PLAIN;
    e->grad_enabled = grad_enabled;
}
