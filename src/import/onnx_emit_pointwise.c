/* onnx_emit_pointwise: operators that work on each element, and softmax.
 *
 * Numbers among the operands are Python numbers to PyTorch; Where, Clip and Pow choose the overload
 * by them. Also here: which activations run in place, which the file does not say.
 *
 * Sources: torch/onnx/_internal/torchscript_exporter/symbolic_opset*.py (PyTorch 2.11). */
#include "import/onnx_emit.h"

#include <math.h>
#include <string.h>

/* ---- in place ---- */

/* Activations that convolutional networks run in place of what is before them (inplace=True), as
 * torchvision's and timm's do: the file does not say whether they did. Assumed behind a
 * convolution, a norm or a sum that nothing else uses; not in transformers, whose activations are
 * never in place. A line of code that says otherwise is believed. */
static const char *const in_place[][2] = {
    {"aten.relu.default", "aten.relu_.default"},
    {"aten.hardtanh.default", "aten.hardtanh_.default"},
    {"aten.relu6.default", "aten.relu6_.default"},
    {"aten.hardswish.default", "aten.hardswish_.default"},
    {"aten.silu.default", "aten.silu_.default"},
    {"aten.leaky_relu.default", "aten.leaky_relu_.default"},
    {"aten.elu.default", "aten.elu_.default"},
};

/* A residual block's end in a file without lines of code: relu(norm + x), which torchvision and
 * timm write as `out += identity`. */
static bool is_shortcut(const onnx_graph *g, int32_t at) {
    const onnx_node *n = &g->nodes[at];
    int32_t x = n->input_count == 2 ? n->inputs[0] : -1, from = x < 0 ? -1 : g->values[x].producer;
    if (n->fx || *n->source || from < 0 || g->values[x].uses != 1) return false;
    const onnx_node *before = &g->nodes[from];
    if (strcmp(before->op, "BatchNormalization") != 0 && !before->folded_norm) return false;
    int32_t y = n->output_count ? n->outputs[0] : -1;
    for (size_t i = (size_t)at + 1; y >= 0 && i < g->node_count && i < (size_t)at + 4; i++)
        if (g->nodes[i].input_count && g->nodes[i].inputs[0] == y)
            return strcmp(g->nodes[i].op, "Relu") == 0;
    return false;
}

const char *pl_onnx_in_place(const onnx_graph *g, int32_t at, const char *target) {
    static const char *const before[] = {"Conv", "ConvTranspose",         "BatchNormalization",
                                         "Add",  "InstanceNormalization", "GroupNormalization"};
    const onnx_node *n = &g->nodes[at];
    int32_t x = n->input_count ? n->inputs[0] : -1, from = x < 0 ? -1 : g->values[x].producer;
    if (strcmp(target, "aten.add.Tensor") == 0)
        return strstr(n->source, " += ") || is_shortcut(g, at) ? "aten.add_.Tensor" : NULL;
    size_t row = 0, rows = sizeof in_place / sizeof *in_place;
    while (row < rows && strcmp(in_place[row][0], target) != 0) row++;
    /* x * sigmoid(x) takes x twice */
    if (row == rows || from < 0 || g->values[x].uses > (strcmp(n->op, "Mul") == 0 ? 2 : 1))
        return NULL;
    bool follows = false;
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        follows |= strcmp(g->nodes[from].op, before[i]) == 0;
    if (strstr(n->source, "inplace=True")) follows = true;
    if (strstr(n->source, "F.") && !strstr(n->source, "inplace=True")) follows = false;
    for (int32_t m = n->module; m >= 0; m = g->modules[m].parent)
        if (strncmp(g->modules[m].type, "transformers.", 13) == 0) follows = false;
    return follows ? in_place[row][1] : NULL;
}

/* ---- one tensor ---- */

/* One tensor in, one out. */
int32_t pl_onnx_emit_one(onnx_emitter *e, const char *target) {
    int32_t x = emit_tensor(e, 0);
    const char *place = pl_onnx_in_place(e->c->g, e->at, target);
    if (place) target = place;
    pl_call(e->c->b, target);
    pl_call_tensor(e->c->b, "self", x);
    return pl_onnx_result(e, 0);
}

int32_t pl_onnx_emit_same(onnx_emitter *e, const char *target) {
    (void)target;
    return emit_tensor(e, 0);
}

/* ---- more operands ---- */

int32_t pl_onnx_emit_two(onnx_emitter *e, const char *target) {
    pl_builder *b = e->c->b;
    double value;
    bool right = pl_onnx_number(e, 1, &value);
    double left_value;
    bool left = !right && pl_onnx_number(e, 0, &left_value);
    if (left) value = left_value;
    bool power = strncmp(target, "aten.pow", 8) == 0;
    /* 1 - x and 1 / x: rsub and reciprocal */
    if (left && strcmp(target, "aten.sub.Tensor") == 0) target = "aten.rsub.Scalar";
    if (left && strcmp(target, "aten.div.Tensor") == 0) {
        int32_t x = emit_tensor(e, 1);
        if (value == 1.0) return pl_aten_unary(b, "aten.reciprocal.default", x);
        x = pl_aten_unary(b, "aten.reciprocal.default", x);
        return pl_aten_scalar(b, "aten.mul.Tensor", x, value);
    }
    int32_t x = emit_tensor(e, left ? 1 : 0), y = left || right ? PL_NONE : emit_tensor(e, 1);
    if (power)
        target = right  ? "aten.pow.Tensor_Scalar"
                 : left ? "aten.pow.Scalar"
                        : "aten.pow.Tensor_Tensor";
    const char *place = left || right ? NULL : pl_onnx_in_place(e->c->g, e->at, target);
    if (place) target = place;
    pl_call(b, target);
    if (power && left) {
        pl_call_float(b, "self", value);
        pl_call_tensor(b, "exponent", x);
        return pl_onnx_result(e, 0);
    }
    pl_call_tensor(b, "self", x);
    const char *name = power ? "exponent" : "other";
    if (!left && !right)
        pl_call_tensor(b, name, y);
    else if (value == floor(value) && fabs(value) < 1e15)
        pl_call_int(b, name, (int64_t)value);
    else
        pl_call_float(b, name, value);
    return pl_onnx_result(e, 0);
}

int32_t pl_onnx_emit_gelu(onnx_emitter *e, const char *target) {
    (void)target;
    return pl_aten_gelu(e->c->b, emit_tensor(e, 0),
                        strcmp(pl_onnx_string(e->n, "approximate", "none"), "tanh") == 0);
}

int32_t pl_onnx_emit_sloped(onnx_emitter *e, const char *target) {
    int32_t x = emit_tensor(e, 0);
    bool leaky = e->n->op[0] == 'L';
    pl_call(e->c->b, target);
    pl_call_tensor(e->c->b, "self", x);
    pl_call_float(e->c->b, leaky ? "negative_slope" : "alpha",
                  pl_onnx_float(e->n, "alpha", leaky ? 0.01 : 1.0));
    return pl_onnx_result(e, 0);
}

int32_t pl_onnx_emit_prelu(onnx_emitter *e, const char *target) {
    int32_t x = emit_tensor(e, 0), w = emit_tensor(e, 1);
    pl_call(e->c->b, target);
    pl_call_tensor(e->c->b, "self", x);
    pl_call_tensor(e->c->b, "weight", w);
    return pl_onnx_result(e, 0);
}

/* Clip: relu6 is a hardtanh; others are clamps. */
int32_t pl_onnx_emit_clip(onnx_emitter *e, const char *target) {
    double least = pl_onnx_float(e->n, "min", -INFINITY),
           most = pl_onnx_float(e->n, "max", INFINITY);
    int32_t x = emit_tensor(e, 0);
    (void)target;
    pl_onnx_number(e, 1, &least);
    pl_onnx_number(e, 2, &most);
    bool bounded = isfinite(least) && isfinite(most);
    const char *place = pl_onnx_in_place(e->c->g, e->at, "aten.hardtanh.default");
    pl_call(e->c->b, !bounded ? "aten.clamp.default" : place ? place : "aten.hardtanh.default");
    pl_call_tensor(e->c->b, "self", x);
    if (isfinite(least)) pl_call_float(e->c->b, bounded ? "min_val" : "min", least);
    if (isfinite(most)) pl_call_float(e->c->b, bounded ? "max_val" : "max", most);
    return pl_onnx_result(e, 0);
}

/* Where with a number on one side: masked_fill, or where with a scalar. */
int32_t pl_onnx_emit_where(onnx_emitter *e, const char *target) {
    pl_builder *b = e->c->b;
    double x_number, y_number;
    int32_t condition = emit_tensor(e, 0);
    bool x_is = pl_onnx_number(e, 1, &x_number), y_is = pl_onnx_number(e, 2, &y_number);
    (void)target;
    if (x_is && !y_is) {
        int32_t y = emit_tensor(e, 2);
        pl_call(b, "aten.masked_fill.Scalar");
        pl_call_tensor(b, "self", y);
        pl_call_tensor(b, "mask", condition);
        pl_call_float(b, "value", x_number);
        return pl_onnx_result(e, 0);
    }
    int32_t x = emit_tensor(e, 1), y = y_is ? PL_NONE : emit_tensor(e, 2);
    pl_call(b, y_is ? "aten.where.ScalarOther" : "aten.where.self");
    pl_call_tensor(b, "condition", condition);
    pl_call_tensor(b, "self", x);
    if (y_is)
        pl_call_float(b, "other", y_number);
    else
        pl_call_tensor(b, "other", y);
    return pl_onnx_result(e, 0);
}

int32_t pl_onnx_emit_cast(onnx_emitter *e, const char *target) {
    int32_t x = emit_tensor(e, 0);
    (void)target;
    if (!emit_in(e, 0) || !emit_out(e, 0) || emit_in(e, 0)->dtype == emit_out(e, 0)->dtype)
        return x;
    return pl_aten_to(e->c->b, x, emit_out(e, 0)->dtype);
}

int32_t pl_onnx_emit_dropout(onnx_emitter *e, const char *target) {
    double p = pl_onnx_float(e->n, "ratio", 0.5);
    (void)target;
    pl_onnx_number(e, 1, &p);
    return pl_aten_dropout(e->c->b, emit_tensor(e, 0), p);
}

int32_t pl_onnx_emit_softmax(onnx_emitter *e, const char *target) {
    int32_t x = emit_tensor(e, 0);
    pl_call(e->c->b, target);
    pl_call_tensor(e->c->b, "self", x);
    pl_call_int(e->c->b, "dim", pl_onnx_int(e->n, "axis", e->c->g->opset >= 13 ? -1 : 1));
    return pl_onnx_result(e, 0);
}
