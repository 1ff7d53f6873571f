/* onnx_emit_view: operators that move elements or make them of nothing: views, copies, indexing,
 * padding, resizing, constants of a size.
 *
 * Whether a Reshape is a view or a copy is left to the operator of PyTorch. Which operator a Gather
 * came from follows from its operands (of a matrix of weights: an embedding).
 *
 * Sources: torch/onnx/_internal/torchscript_exporter/symbolic_opset*.py (PyTorch 2.11). */
#include "import/onnx_emit.h"

#include <string.h>

/* Reshape, Flatten, Squeeze, Unsqueeze: the result's sizes say it all. */
int32_t pl_onnx_emit_reshape(onnx_emitter *e, const char *target) {
    onnx_slot *s = emit_out(e, 0);
    int32_t x = emit_tensor(e, 0);
    if (!s || s->dims < 0) return PL_NONE;
    return strcmp(target, "aten.view.default") == 0
               ? pl_aten_view(e->c->b, x, s->dims, s->sizes)
               : pl_aten_reshape(e->c->b, x, s->dims, s->sizes);
}

int32_t pl_onnx_emit_transpose(onnx_emitter *e, const char *target) {
    const onnx_attr *perm = onnx_ints(e->n, "perm");
    const onnx_slot *x = emit_in(e, 0);
    int64_t order[PL_MAX_DIMS];
    int32_t input = emit_tensor(e, 0);
    (void)target;
    if (!x || x->dims < 0) return PL_NONE;
    for (int i = 0; i < x->dims; i++)
        order[i] = perm && perm->count == (uint32_t)x->dims ? perm->ints[i] : x->dims - 1 - i;
    return pl_aten_permute(e->c->b, input, x->dims, order);
}

int32_t pl_onnx_emit_concat(onnx_emitter *e, const char *target) {
    enum { MOST = 1024 };
    int32_t list[MOST];
    int count = 0;
    (void)target;
    for (uint32_t i = 0; i < e->n->input_count && count < MOST; i++) {
        const onnx_slot *s = emit_in(e, i);
        if (s && pl_onnx_elements(s) == 0) continue;
        list[count++] = emit_tensor(e, i);
    }
    if (count == 1) return list[0];
    pl_call(e->c->b, "aten.cat.default");
    pl_call_tensors(e->c->b, "tensors", count, list);
    pl_call_int(e->c->b, "dim", pl_onnx_int(e->n, "axis", 0));
    return pl_onnx_result(e, 0);
}

int32_t pl_onnx_emit_split(onnx_emitter *e, const char *target) {
    int64_t sizes[256], axis = pl_onnx_int(e->n, "axis", 0);
    const onnx_slot *x = emit_in(e, 0);
    int32_t input = emit_tensor(e, 0);
    if (!x || x->dims < 1 || e->n->output_count > 256) return PL_NONE;
    if (axis < 0) axis += x->dims;
    for (uint32_t i = 0; i < e->n->output_count; i++) {
        const onnx_slot *s = emit_out(e, i);
        sizes[i] = s && axis >= 0 && axis < s->dims ? s->sizes[axis] : 0;
    }
    pl_call(e->c->b, target);
    pl_call_tensor(e->c->b, "self", input);
    pl_call_ints(e->c->b, "split_sizes", (int)e->n->output_count, sizes);
    pl_call_int(e->c->b, "dim", axis);
    pl_call_list(e->c->b);
    int32_t first = PL_NONE;
    for (uint32_t i = 0; i < e->n->output_count; i++) {
        int32_t id = pl_onnx_result(e, i);
        if (i == 0) first = id;
        if (emit_out(e, i)) emit_out(e, i)->tensor = id;
    }
    return first;
}

int32_t pl_onnx_emit_split_to_sequence(onnx_emitter *e, const char *target) {
    onnx_slot *s = emit_out(e, 0);
    int32_t input = emit_tensor(e, 0);
    if (!s || !s->list) return PL_NONE;
    pl_call(e->c->b, target);
    pl_call_tensor(e->c->b, "self", input);
    pl_call_int(e->c->b, "dim", pl_onnx_int(e->n, "axis", 0));
    pl_call_list(e->c->b);
    for (int i = 0; i < s->list_count; i++) {
        int32_t id = pl_call_result(e->c->b, s->list[i].dtype, s->list[i].dims, s->list[i].sizes);
        if (i == 0) s->list_tensor = id;
    }
    return PL_NONE;
}

int32_t pl_onnx_emit_sequence_at(onnx_emitter *e, const char *target) {
    const onnx_slot *s = emit_in(e, 0);
    int64_t at;
    (void)target;
    if (!s || !s->list || s->list_tensor == PL_NONE || pl_onnx_integers(emit_in(e, 1), &at, 1) != 1)
        return PL_NONE;
    if (at < 0) at += s->list_count;
    return at >= 0 && at < s->list_count ? s->list_tensor + (int32_t)at : PL_NONE;
}

int32_t pl_onnx_emit_slice(onnx_emitter *e, const char *target) {
    int64_t start[PL_MAX_DIMS], count[PL_MAX_DIMS], step[PL_MAX_DIMS];
    const onnx_slot *x = emit_in(e, 0);
    int32_t at = emit_tensor(e, 0);
    (void)target;
    if (!pl_onnx_slice(e->c, e->n, start, count, step)) return PL_NONE;
    int64_t sizes[PL_MAX_DIMS];
    int dims = x->dims;
    memcpy(sizes, x->sizes, sizeof sizes);
    for (int i = 0; i < dims; i++) {
        if (count[i] == sizes[i] && step[i] == 1) continue;
        if (step[i] < 0) { /* flip */
            int64_t dim = i;
            pl_call(e->c->b, "aten.flip.default");
            pl_call_tensor(e->c->b, "self", at);
            pl_call_ints(e->c->b, "dims", 1, &dim);
            sizes[i] = count[i];
            at = pl_call_result(e->c->b, pl_built(e->c->b, at)->dtype, dims, sizes);
            continue;
        }
        sizes[i] = count[i];
        pl_call(e->c->b, "aten.slice.Tensor");
        pl_call_tensor(e->c->b, "self", at);
        pl_call_int(e->c->b, "dim", i);
        pl_call_int(e->c->b, "start", start[i]);
        pl_call_int(e->c->b, "end", start[i] + count[i] * step[i]);
        pl_call_int(e->c->b, "step", step[i]);
        at = pl_call_result(e->c->b, pl_built(e->c->b, at)->dtype, dims, sizes);
    }
    return at;
}

/* Gather: an embedding of a matrix of weights, a select of one place, else index_select or x[i]. */
int32_t pl_onnx_emit_gather(onnx_emitter *e, const char *target) {
    pl_builder *b = e->c->b;
    const onnx_slot *x = emit_in(e, 0), *at = emit_in(e, 1);
    int64_t axis = pl_onnx_int(e->n, "axis", 0);
    (void)target;
    if (!x || !at || x->dims < 1 || at->dims < 0) return PL_NONE;
    if (axis < 0) axis += x->dims;
    if (axis < 0 || axis >= x->dims) return PL_NONE;
    bool weight = e->n->inputs[0] >= 0 && e->c->g->values[e->n->inputs[0]].initializer;
    int32_t input = emit_tensor(e, 0);
    if (at->dims == 0 && at->numbers)
        return pl_aten_select(b, input, (int)axis, pl_onnx_integer(at->numbers[0]));
    int32_t index = emit_tensor(e, 1);
    if (weight && x->dims == 2 && axis == 0 && pl_dtype_is_float(x->dtype))
        return pl_aten_embedding(b, input, index, -1);
    if (at->dims == 1) return pl_aten_index_select(b, input, (int)axis, index);
    int32_t list[PL_MAX_DIMS];
    for (int i = 0; i < axis && i < PL_MAX_DIMS; i++) list[i] = PL_NONE;
    list[axis] = index;
    pl_call(b, "aten.index.Tensor");
    pl_call_tensor(b, "self", input);
    pl_call_tensors(b, "indices", (int)axis + 1, list);
    return pl_onnx_result(e, 0);
}

int32_t pl_onnx_emit_gather_elements(onnx_emitter *e, const char *target) {
    int32_t x = emit_tensor(e, 0), index = emit_tensor(e, 1);
    pl_call(e->c->b, target);
    pl_call_tensor(e->c->b, "self", x);
    pl_call_int(e->c->b, "dim", pl_onnx_int(e->n, "axis", 0));
    pl_call_tensor(e->c->b, "index", index);
    return pl_onnx_result(e, 0);
}

int32_t pl_onnx_emit_indexed(onnx_emitter *e, const char *target) {
    int32_t x = emit_tensor(e, 0), index = emit_tensor(e, 1), values = emit_tensor(e, 2);
    pl_call(e->c->b, target);
    pl_call_tensor(e->c->b, "self", x);
    pl_call_tensors(e->c->b, "indices", 1, &index);
    if (values != PL_NONE) pl_call_tensor(e->c->b, "values", values);
    return pl_onnx_result(e, 0);
}

int32_t pl_onnx_emit_scatter(onnx_emitter *e, const char *target) {
    int32_t x = emit_tensor(e, 0), index = emit_tensor(e, 1), values = emit_tensor(e, 2);
    pl_call(e->c->b, target);
    pl_call_tensor(e->c->b, "self", x);
    pl_call_int(e->c->b, "dim", pl_onnx_int(e->n, "axis", 0));
    pl_call_tensor(e->c->b, "index", index);
    pl_call_tensor(e->c->b, "src", values);
    return pl_onnx_result(e, 0);
}

int32_t pl_onnx_emit_expand(onnx_emitter *e, const char *target) {
    onnx_slot *s = emit_out(e, 0);
    int32_t x = emit_tensor(e, 0);
    (void)target;
    if (!s || s->dims < 0) return PL_NONE;
    return pl_aten_expand(e->c->b, x, s->dims, s->sizes);
}

int32_t pl_onnx_emit_tile(onnx_emitter *e, const char *target) {
    int64_t times[PL_MAX_DIMS];
    int count = pl_onnx_integers(emit_in(e, 1), times, PL_MAX_DIMS);
    int32_t x = emit_tensor(e, 0);
    (void)target;
    return count < 0 ? PL_NONE : pl_aten_repeat(e->c->b, x, count, times);
}

int32_t pl_onnx_emit_pad(onnx_emitter *e, const char *target) {
    int64_t pads[PL_MAX_DIMS * 2], pairs[PL_MAX_DIMS * 2];
    int count = pl_onnx_list(e->c, e->n, "pads", 1, pads, PL_MAX_DIMS * 2) / 2, used = 0;
    const char *mode = pl_onnx_string(e->n, "mode", "constant");
    int32_t x = emit_tensor(e, 0);
    (void)target;
    for (int i = 0; i < count; i++) {
        pairs[i * 2] = pads[count - 1 - i];
        pairs[i * 2 + 1] = pads[count * 2 - 1 - i];
        if (pairs[i * 2] || pairs[i * 2 + 1]) used = i + 1;
    }
    if (used == 0 && count > 0) return x;
    bool reflect = strcmp(mode, "reflect") == 0, edge = strcmp(mode, "edge") == 0;
    static const char *const targets[3][ONNX_SPATIAL] = {
        {"aten.reflection_pad1d.default", "aten.reflection_pad2d.default",
         "aten.reflection_pad3d.default"},
        {"aten.replication_pad1d.default", "aten.replication_pad2d.default",
         "aten.replication_pad3d.default"}};
    bool special = (reflect || edge) && used >= 1 && used <= ONNX_SPATIAL;
    pl_call(e->c->b, special ? targets[edge][used - 1] : "aten.constant_pad_nd.default");
    pl_call_tensor(e->c->b, "self", x);
    pl_call_ints(e->c->b, special ? "padding" : "pad", used * 2, pairs);
    return pl_onnx_result(e, 0);
}

int32_t pl_onnx_emit_resize(onnx_emitter *e, const char *target) {
    static const char *const targets[3][ONNX_SPATIAL] = {
        {"aten.upsample_nearest1d.vec", "aten.upsample_nearest2d.vec",
         "aten.upsample_nearest3d.vec"},
        {"aten.upsample_linear1d.vec", "aten.upsample_bilinear2d.vec",
         "aten.upsample_trilinear3d.vec"},
        {"aten.upsample_bicubic2d.vec", "aten.upsample_bicubic2d.vec",
         "aten.upsample_bicubic2d.vec"}};
    const char *mode = pl_onnx_string(e->n, "mode", "nearest");
    const onnx_slot *x = emit_in(e, 0), *s = emit_out(e, 0);
    int dims = x ? x->dims - 2 : 0;
    (void)target;
    if (dims < 1 || dims > ONNX_SPATIAL || !s || s->dims < 0) return PL_NONE;
    int32_t input = emit_tensor(e, 0);
    int which = strcmp(mode, "linear") == 0 ? 1 : strcmp(mode, "cubic") == 0 ? 2 : 0;
    pl_call(e->c->b, targets[which][dims - 1]);
    pl_call_tensor(e->c->b, "input", input);
    pl_call_ints(e->c->b, "output_size", dims, s->sizes + 2);
    return pl_onnx_result(e, 0);
}

int32_t pl_onnx_emit_trilu(onnx_emitter *e, const char *target) {
    double k = 0;
    int32_t x = emit_tensor(e, 0);
    (void)target;
    pl_onnx_number(e, 1, &k);
    pl_call(e->c->b, pl_onnx_int(e->n, "upper", 1) ? "aten.triu.default" : "aten.tril.default");
    pl_call_tensor(e->c->b, "self", x);
    pl_call_int(e->c->b, "diagonal", pl_onnx_integer(k));
    return pl_onnx_result(e, 0);
}

enum { MOST_BEHIND = 128 };

/* The value that makes another by this operator, near behind it; floats: through float values
 * only. -1: none. */
static int32_t behind(const onnx_build *c, int32_t value, const char *op, bool floats) {
    int32_t queue[MOST_BEHIND];
    int count = 0;
    if (value >= 0) queue[count++] = value;
    for (int k = 0; k < count; k++) {
        int32_t at = c->g->values[queue[k]].producer;
        if (at < 0 || (floats && !pl_dtype_is_float(c->slots[queue[k]].dtype))) continue;
        const onnx_node *n = &c->g->nodes[at];
        if (strcmp(n->op, op) == 0) return n->input_count ? n->inputs[0] : -1;
        for (uint32_t i = 0; i < n->input_count && count < MOST_BEHIND; i++)
            if (n->inputs[i] >= 0) queue[count++] = n->inputs[i];
    }
    return -1;
}

int32_t pl_onnx_like(const onnx_build *c, int32_t value) {
    int32_t sizes = behind(c, value, "ConstantOfShape", true);
    int32_t like = sizes < 0 ? -1 : behind(c, sizes, "Shape", false);
    const onnx_slot *s = like < 0 ? NULL : &c->slots[like];
    return s && s->dtype == c->slots[value].dtype ? s->tensor : PL_NONE;
}

/* Tensors made of nothing. */
int32_t pl_onnx_emit_make(onnx_emitter *e, const char *target) {
    const onnx_slot *s = emit_out(e, 0);
    if (!s || s->dims < 0) return PL_NONE;
    int32_t like = pl_onnx_like(e->c, e->n->outputs[0]);
    pl_call(e->c->b, like == PL_NONE ? target : "aten.new_full.default");
    if (like != PL_NONE) pl_call_tensor(e->c->b, "self", like);
    if (strncmp(target, "aten.arange", 11) != 0) pl_call_ints(e->c->b, "size", s->dims, s->sizes);
    return pl_onnx_result(e, 0);
}
