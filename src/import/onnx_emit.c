/* onnx_emit: ONNX operators as the operators of PyTorch that they were exported from.
 *
 * A row an operator. Which of several operators of PyTorch an ONNX one came from is told by its
 * operands (Gather of a matrix of weights: an embedding). Nodes whose results are known numbers
 * leave nothing. What has no row is kept under its own name, with the sizes that the file declares:
 * the tape has a safe rule for operators that it does not know.
 *
 * Sources: torch/onnx/_internal/torchscript_exporter/symbolic_opset*.py (PyTorch 2.11). */
#include "import/onnx_plan.h"

#include <math.h>
#include <string.h>

#include "core/checked.h"

typedef struct emitter {
    onnx_build *c;
    const onnx_plan *plan;
    const onnx_node *n;
    int32_t at; /* the node's number */
} emitter;

typedef int32_t emit_one(emitter *e, const char *target);

/* ---- operands ---- */

static int32_t tensor(emitter *e, uint32_t i) {
    return i < e->n->input_count ? pl_onnx_tensor(e->c, e->n->inputs[i]) : PL_NONE;
}

static onnx_slot *in(emitter *e, uint32_t i) {
    return onnx_in(e->c, e->n, i);
}

static onnx_slot *out(emitter *e, uint32_t i) {
    return onnx_out(e->c, e->n, i);
}

/* A number that is no tensor of the model: PyTorch's code has it as a Python number. */
static bool number(emitter *e, uint32_t i, double *value) {
    const onnx_slot *s = in(e, i);
    if (!s || !s->numbers || s->tensor != PL_NONE || pl_onnx_elements(s) != 1) return false;
    *value = s->numbers[0];
    return true;
}

static int32_t result(emitter *e, uint32_t i) {
    onnx_slot *s = out(e, i);
    if (!s) return PL_NONE;
    if (s->dims < 0) {
        pl_build_fail(e->c->b, PL_INPUT, e->c->g->name,
                      "node %.80s (%.40s): the sizes of its result cannot be worked out",
                      e->n->name, e->n->op);
        return PL_NONE;
    }
    return pl_call_result(e->c->b, s->dtype, s->dims, s->sizes);
}

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

/* One tensor in, one out. */
static int32_t one(emitter *e, const char *target) {
    int32_t x = tensor(e, 0);
    const char *place = pl_onnx_in_place(e->c->g, e->at, target);
    if (place) target = place;
    pl_call(e->c->b, target);
    pl_call_tensor(e->c->b, "self", x);
    return result(e, 0);
}

static int32_t same(emitter *e, const char *target) {
    (void)target;
    return tensor(e, 0);
}

/* ---- pointwise ---- */

static int32_t two(emitter *e, const char *target) {
    pl_builder *b = e->c->b;
    double value;
    bool right = number(e, 1, &value);
    double left_value;
    bool left = !right && number(e, 0, &left_value);
    if (left) value = left_value;
    bool power = strncmp(target, "aten.pow", 8) == 0;
    /* 1 - x and 1 / x: rsub and reciprocal */
    if (left && strcmp(target, "aten.sub.Tensor") == 0) target = "aten.rsub.Scalar";
    if (left && strcmp(target, "aten.div.Tensor") == 0) {
        int32_t x = tensor(e, 1);
        if (value == 1.0) return pl_aten_unary(b, "aten.reciprocal.default", x);
        x = pl_aten_unary(b, "aten.reciprocal.default", x);
        return pl_aten_scalar(b, "aten.mul.Tensor", x, value);
    }
    int32_t x = tensor(e, left ? 1 : 0), y = left || right ? PL_NONE : tensor(e, 1);
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
        return result(e, 0);
    }
    pl_call_tensor(b, "self", x);
    const char *name = power ? "exponent" : "other";
    if (!left && !right)
        pl_call_tensor(b, name, y);
    else if (value == floor(value) && fabs(value) < 1e15)
        pl_call_int(b, name, (int64_t)value);
    else
        pl_call_float(b, name, value);
    return result(e, 0);
}

static int32_t gelu(emitter *e, const char *target) {
    (void)target;
    return pl_aten_gelu(e->c->b, tensor(e, 0),
                        strcmp(pl_onnx_string(e->n, "approximate", "none"), "tanh") == 0);
}

static int32_t sloped(emitter *e, const char *target) {
    int32_t x = tensor(e, 0);
    bool leaky = e->n->op[0] == 'L';
    pl_call(e->c->b, target);
    pl_call_tensor(e->c->b, "self", x);
    pl_call_float(e->c->b, leaky ? "negative_slope" : "alpha",
                  pl_onnx_float(e->n, "alpha", leaky ? 0.01 : 1.0));
    return result(e, 0);
}

static int32_t prelu(emitter *e, const char *target) {
    int32_t x = tensor(e, 0), w = tensor(e, 1);
    pl_call(e->c->b, target);
    pl_call_tensor(e->c->b, "self", x);
    pl_call_tensor(e->c->b, "weight", w);
    return result(e, 0);
}

/* Clip: relu6 is a hardtanh; others are clamps. */
static int32_t clip(emitter *e, const char *target) {
    double least = pl_onnx_float(e->n, "min", -INFINITY),
           most = pl_onnx_float(e->n, "max", INFINITY);
    int32_t x = tensor(e, 0);
    (void)target;
    number(e, 1, &least);
    number(e, 2, &most);
    bool bounded = isfinite(least) && isfinite(most);
    const char *place = pl_onnx_in_place(e->c->g, e->at, "aten.hardtanh.default");
    pl_call(e->c->b, !bounded ? "aten.clamp.default" : place ? place : "aten.hardtanh.default");
    pl_call_tensor(e->c->b, "self", x);
    if (isfinite(least)) pl_call_float(e->c->b, bounded ? "min_val" : "min", least);
    if (isfinite(most)) pl_call_float(e->c->b, bounded ? "max_val" : "max", most);
    return result(e, 0);
}

/* Where with a number on one side: masked_fill, or where with a scalar. */
static int32_t where(emitter *e, const char *target) {
    pl_builder *b = e->c->b;
    double x_number, y_number;
    int32_t condition = tensor(e, 0);
    bool x_is = number(e, 1, &x_number), y_is = number(e, 2, &y_number);
    (void)target;
    if (x_is && !y_is) {
        int32_t y = tensor(e, 2);
        pl_call(b, "aten.masked_fill.Scalar");
        pl_call_tensor(b, "self", y);
        pl_call_tensor(b, "mask", condition);
        pl_call_float(b, "value", x_number);
        return result(e, 0);
    }
    int32_t x = tensor(e, 1), y = y_is ? PL_NONE : tensor(e, 2);
    pl_call(b, y_is ? "aten.where.ScalarOther" : "aten.where.self");
    pl_call_tensor(b, "condition", condition);
    pl_call_tensor(b, "self", x);
    if (y_is)
        pl_call_float(b, "other", y_number);
    else
        pl_call_tensor(b, "other", y);
    return result(e, 0);
}

static int32_t cast(emitter *e, const char *target) {
    int32_t x = tensor(e, 0);
    (void)target;
    if (!in(e, 0) || !out(e, 0) || in(e, 0)->dtype == out(e, 0)->dtype) return x;
    return pl_aten_to(e->c->b, x, out(e, 0)->dtype);
}

static int32_t dropout(emitter *e, const char *target) {
    double p = pl_onnx_float(e->n, "ratio", 0.5);
    (void)target;
    number(e, 1, &p);
    return pl_aten_dropout(e->c->b, tensor(e, 0), p);
}

static int32_t softmax(emitter *e, const char *target) {
    int32_t x = tensor(e, 0);
    pl_call(e->c->b, target);
    pl_call_tensor(e->c->b, "self", x);
    pl_call_int(e->c->b, "dim", pl_onnx_int(e->n, "axis", e->c->g->opset >= 13 ? -1 : 1));
    return result(e, 0);
}

/* ---- products ---- */

enum { SPATIAL = 3 };

void pl_onnx_count_batch(onnx_build *c, int32_t at) {
    int32_t count = c->made[at];
    if (count == PL_NONE || pl_built_dims(c->b, count) != 0) return;
    pl_call(c->b, "aten.add_.Tensor");
    pl_call_tensor(c->b, "self", count);
    pl_call_int(c->b, "other", 1);
    pl_call_result(c->b, PL_DT_I64, 0, NULL);
}

static int32_t norm_behind(emitter *e, int32_t x) {
    int32_t first = e->c->made[e->at];
    if (!e->n->folded_norm || first == PL_NONE) return x;
    pl_call(e->c->b, "aten.add_.Tensor");
    pl_call_tensor(e->c->b, "self", first + 4);
    pl_call_int(e->c->b, "other", 1);
    pl_call_result(e->c->b, PL_DT_I64, 0, NULL);
    return pl_aten_batch_norm(e->c->b, x, first, first + 1, first + 2, first + 3, 0.1, 1e-5);
}

/* Pads that differ at the two ends are a constant_pad_nd of their own. */
static int32_t padded(emitter *e, int32_t x, int dims, int64_t *pads) {
    int64_t pairs[SPATIAL * 2];
    bool even = true;
    for (int i = 0; i < dims; i++) even = even && pads[i] == pads[i + dims];
    if (even) return x;
    for (int i = 0; i < dims; i++) {
        pairs[i * 2] = pads[dims - 1 - i];
        pairs[i * 2 + 1] = pads[dims * 2 - 1 - i];
    }
    x = pl_aten_pad(e->c->b, x, dims * 2, pairs);
    memset(pads, 0, (size_t)dims * 2 * sizeof *pads);
    return x;
}

static int32_t convolution(emitter *e, const char *target) {
    const onnx_slot *x = in(e, 0), *w = in(e, 1);
    bool transposed = e->n->op[4] == 'T';
    int dims = x ? x->dims - 2 : 0;
    (void)target;
    if (!x || !w || dims < 1 || dims > SPATIAL || w->dims != x->dims || out(e, 0)->dims < 0)
        return result(e, 0);
    int64_t stride[SPATIAL], dilation[SPATIAL], pads[SPATIAL * 2], more[SPATIAL] = {0};
    pl_onnx_window(e->n, dims, x->sizes + 2, w->sizes + 2, stride, pads, dilation);
    const onnx_attr *extra = pl_onnx_attr(e->n, "output_padding");
    for (int i = 0; extra && extra->count == (uint32_t)dims && i < dims; i++)
        more[i] = extra->ints[i];
    int64_t groups = pl_onnx_int(e->n, "group", 1);
    int32_t input = tensor(e, 0), weight = tensor(e, 1), bias = PL_NONE;
    const onnx_slot *given = in(e, 2);
    /* a bias of zeros that the exporter made is none */
    bool trained = given && (given->tensor != PL_NONE || !given->numbers);
    if (trained && !e->n->folded_norm) bias = tensor(e, 2);
    if (transposed)
        return norm_behind(e, pl_aten_conv_transpose(e->c->b, dims, input, weight, bias, stride,
                                                     pads, more, groups, dilation));
    input = padded(e, input, dims, pads);
    return norm_behind(
        e, pl_aten_conv(e->c->b, dims, input, weight, bias, stride, pads, dilation, groups));
}

static int32_t matmul(emitter *e, const char *target) {
    (void)target;
    int32_t x = tensor(e, 0), y = tensor(e, 1);
    return pl_aten_matmul(e->c->b, x, y);
}

static int32_t gemm(emitter *e, const char *target) {
    pl_builder *b = e->c->b;
    int32_t x = tensor(e, 0), w = tensor(e, 1), bias = tensor(e, 2);
    (void)target;
    if (pl_onnx_int(e->n, "transA", 0)) x = pl_aten_transpose(b, x, 0, 1);
    if (pl_onnx_int(e->n, "transB", 0)) return pl_aten_linear(b, x, w, bias);
    return bias == PL_NONE ? pl_aten_matmul(b, x, w) : pl_aten_addmm(b, bias, x, w);
}

static int32_t einsum(emitter *e, const char *target) {
    int32_t list[8];
    uint32_t count = e->n->input_count < 8 ? e->n->input_count : 8;
    for (uint32_t i = 0; i < count; i++) list[i] = tensor(e, i);
    pl_call(e->c->b, target);
    pl_call_string(e->c->b, "equation", pl_onnx_copy(e->c, pl_onnx_string(e->n, "equation", "")));
    pl_call_tensors(e->c->b, "tensors", (int)count, list);
    return result(e, 0);
}

/* ---- layers ---- */

static int32_t batch_norm(emitter *e, const char *target) {
    int32_t t[5];
    (void)target;
    for (uint32_t i = 0; i < 5; i++) t[i] = tensor(e, i);
    pl_onnx_count_batch(e->c, e->at);
    return pl_aten_batch_norm(e->c->b, t[0], t[1], t[2], t[3], t[4],
                              1 - pl_onnx_float(e->n, "momentum", 0.9),
                              pl_onnx_float(e->n, "epsilon", 1e-5));
}

static int32_t layer_norm(emitter *e, const char *target) {
    const onnx_slot *x = in(e, 0);
    int64_t axis = pl_onnx_int(e->n, "axis", -1);
    int dims = !x || x->dims < 0 ? 1 : (int)(axis < 0 ? -axis : x->dims - axis);
    double eps = pl_onnx_float(e->n, "epsilon", 1e-5);
    int32_t input = tensor(e, 0), weight = tensor(e, 1), bias = tensor(e, 2);
    (void)target;
    if (e->n->op[0] == 'R') return pl_aten_rms_norm(e->c->b, input, dims, weight, eps);
    return pl_aten_layer_norm(e->c->b, input, dims, weight, bias, eps);
}

static int32_t instance_norm(emitter *e, const char *target) {
    int32_t x = tensor(e, 0), weight = tensor(e, 1), bias = tensor(e, 2);
    pl_call(e->c->b, target);
    pl_call_tensor(e->c->b, "input", x);
    pl_call_tensor(e->c->b, "weight", weight);
    pl_call_tensor(e->c->b, "bias", bias);
    pl_call_tensor(e->c->b, "running_mean", PL_NONE);
    pl_call_tensor(e->c->b, "running_var", PL_NONE);
    pl_call_bool(e->c->b, "use_input_stats", true);
    pl_call_float(e->c->b, "momentum", 0.1);
    pl_call_float(e->c->b, "eps", pl_onnx_float(e->n, "epsilon", 1e-5));
    pl_call_bool(e->c->b, "cudnn_enabled", true);
    return result(e, 0);
}

static int32_t group_norm(emitter *e, const char *target) {
    (void)target;
    int32_t x = tensor(e, 0), weight = tensor(e, 1), bias = tensor(e, 2);
    return pl_aten_group_norm(e->c->b, x, pl_onnx_int(e->n, "num_groups", 1), weight, bias,
                              pl_onnx_float(e->n, "epsilon", 1e-5));
}

static int32_t pool(emitter *e, const char *target) {
    static const char *const targets[2][SPATIAL] = {
        {"aten.max_pool1d.default", "aten.max_pool2d.default", "aten.max_pool3d.default"},
        {"aten.avg_pool1d.default", "aten.avg_pool2d.default", "aten.avg_pool3d.default"}};
    const onnx_slot *x = in(e, 0);
    const onnx_attr *kernel = pl_onnx_attr(e->n, "kernel_shape");
    int dims = x ? x->dims - 2 : 0;
    (void)target;
    if (!x || dims < 1 || dims > SPATIAL || !kernel || out(e, 0)->dims < 0) return result(e, 0);
    int64_t stride[SPATIAL], dilation[SPATIAL], pads[SPATIAL * 2];
    pl_onnx_window(e->n, dims, x->sizes + 2, kernel->ints, stride, pads, dilation);
    int32_t input = padded(e, tensor(e, 0), dims, pads);
    return pl_aten_pool(e->c->b, targets[e->n->op[0] == 'A'][dims - 1], dims, input, kernel->ints,
                        stride, pads, dilation, pl_onnx_int(e->n, "ceil_mode", 0) != 0);
}

static int32_t global_pool(emitter *e, const char *target) {
    static const char *const targets[2][SPATIAL] = {
        {"aten.adaptive_max_pool1d.default", "aten.adaptive_max_pool2d.default",
         "aten.adaptive_max_pool3d.default"},
        {"aten.adaptive_avg_pool1d.default", "aten.adaptive_avg_pool2d.default",
         "aten.adaptive_avg_pool3d.default"}};
    static const int64_t ones[SPATIAL] = {1, 1, 1};
    const onnx_slot *x = in(e, 0);
    int dims = x ? x->dims - 2 : 0;
    (void)target;
    if (dims < 1 || dims > SPATIAL) return result(e, 0);
    return pl_aten_adaptive_pool(e->c->b, targets[e->n->op[6] == 'A'][dims - 1], dims, tensor(e, 0),
                                 ones);
}

/* One layer of an nn.LSTM; Y is [seq, ways, batch, hidden] here and [seq, batch, ways * hidden]
 * there. */
static int32_t recurrent(emitter *e, const char *target) {
    pl_builder *b = e->c->b;
    const onnx_slot *y = out(e, 0) && out(e, 0)->dims == 4 ? out(e, 0) : NULL;
    const onnx_slot *x = in(e, 0), *r = in(e, 2);
    int32_t first = e->c->made[e->at], state[2] = {PL_NONE, PL_NONE}, params[8],
            last[2] = {PL_NONE, PL_NONE};
    (void)target;
    const onnx_step *step = &e->plan->steps[e->at];
    if (!x || !r || x->dims != 3 || r->dims != 3 || (first == PL_NONE && !step->list) ||
        pl_onnx_int(e->n, "layout", 0)) {
        pl_build_fail(b, PL_INPUT, e->c->g->name,
                      "node %.80s (%.10s): expected weights in the file and "
                      "the sequence first",
                      e->n->name, e->n->op);
        return PL_NONE;
    }
    bool lstm = e->n->op[0] == 'L', bias = in(e, 3) != NULL;
    int ways = r->sizes[0] == 2 ? 2 : 1, count = ways * (bias ? 4 : 2);
    int64_t sizes[3] = {ways, x->sizes[1], r->sizes[2]};
    int32_t input = tensor(e, 0);
    for (uint32_t k = 0; k < (lstm ? 2 : 1); k++) {
        state[k] = tensor(e, 5 + k);
        if (state[k] == PL_NONE)
            state[k] = pl_aten_make(b, "aten.zeros.default", x->dtype, 3, sizes, 0);
    }
    if (step->list && step->list_count != count) return PL_NONE;
    for (int k = 0; k < count; k++)
        params[k] = step->list ? pl_onnx_tensor(e->c, step->list[k]) : first + k;
    int32_t whole =
        pl_aten_recurrent(b,
                          lstm                 ? "lstm"
                          : e->n->op[0] == 'G' ? "gru"
                                               : "rnn_tanh",
                          input, state, count, params, bias, 1, 0, ways == 2, false, last);
    for (uint32_t k = 0; k < 2; k++)
        if (out(e, 1 + k)) out(e, 1 + k)->tensor = last[k];
    if (!y) return whole;
    int64_t parts[4] = {y->sizes[0], y->sizes[2], ways, y->sizes[3]};
    static const int64_t order[4] = {0, 2, 1, 3};
    return pl_aten_permute(b, pl_aten_view(b, whole, 4, parts), 4, order);
}

/* Attention of opset 23 in its 4-d form is scaled_dot_product_attention. */
static int32_t attention(emitter *e, const char *target) {
    const onnx_slot *q = in(e, 0), *k = in(e, 1);
    if (!q || !k || q->dims != 4 || k->dims != 4) return one(e, target);
    int32_t query = tensor(e, 0), key = tensor(e, 1), value = tensor(e, 2), mask = tensor(e, 3);
    return pl_aten_attention(e->c->b, query, key, value, mask, 0,
                             pl_onnx_int(e->n, "is_causal", 0) != 0,
                             pl_onnx_float(e->n, "scale", NAN), q->sizes[1] != k->sizes[1]);
}

/* ---- reductions ---- */

static int32_t reduce(emitter *e, const char *target) {
    pl_builder *b = e->c->b;
    int64_t axes[PL_MAX_DIMS];
    int count = pl_onnx_list(e->c, e->n, "axes", 1, axes, PL_MAX_DIMS);
    const onnx_slot *x = in(e, 0);
    int32_t input = tensor(e, 0);
    if (count <= 0 && x)
        for (count = 0; count < x->dims; count++) axes[count] = count;
    pl_call(b, target);
    pl_call_tensor(b, "self", input);
    if (strcmp(target, "aten.linalg_vector_norm.default") == 0)
        pl_call_float(b, "ord", e->n->op[7] == '1' ? 1 : 2);
    pl_call_ints(b, "dim", count, axes);
    pl_call_bool(b, "keepdim", pl_onnx_int(e->n, "keepdims", 1) != 0);
    return result(e, 0);
}

static int32_t along(emitter *e, const char *target) {
    int32_t x = tensor(e, 0);
    double axis = (double)pl_onnx_int(e->n, "axis", 0);
    number(e, 1, &axis);
    pl_call(e->c->b, target);
    pl_call_tensor(e->c->b, "self", x);
    pl_call_int(e->c->b, "dim", pl_onnx_integer(axis));
    return result(e, 0);
}

static int32_t top_k(emitter *e, const char *target) {
    int32_t x = tensor(e, 0);
    double k = 1;
    const onnx_slot *s = in(e, 1);
    if (s && s->numbers && pl_onnx_elements(s) == 1) k = s->numbers[0];
    pl_call(e->c->b, target);
    pl_call_tensor(e->c->b, "self", x);
    pl_call_int(e->c->b, "k", pl_onnx_integer(k));
    pl_call_int(e->c->b, "dim", pl_onnx_int(e->n, "axis", -1));
    int32_t values = result(e, 0);
    int32_t places = result(e, 1);
    if (out(e, 1)) out(e, 1)->tensor = places;
    return values;
}

static int32_t loss(emitter *e, const char *target) {
    int32_t x = tensor(e, 0), t = tensor(e, 1);
    int64_t ignored = pl_onnx_int(e->n, "ignore_index", -100);
    if (out(e, 0) && out(e, 0)->dims == 0 && e->n->op[0] == 'S')
        return pl_aten_cross_entropy(e->c->b, x, t, ignored);
    pl_call(e->c->b, target);
    pl_call_tensor(e->c->b, "self", x);
    pl_call_tensor(e->c->b, "target", t);
    pl_call_tensor(e->c->b, "weight", PL_NONE);
    pl_call_int(e->c->b, "reduction", out(e, 0) && out(e, 0)->dims == 0 ? 1 : 0);
    pl_call_int(e->c->b, "ignore_index", ignored);
    return result(e, 0);
}

/* ---- views and copies ---- */

/* Reshape, Flatten, Squeeze, Unsqueeze: the result's sizes say it all. */
static int32_t reshape(emitter *e, const char *target) {
    onnx_slot *s = out(e, 0);
    int32_t x = tensor(e, 0);
    if (!s || s->dims < 0) return result(e, 0);
    return strcmp(target, "aten.view.default") == 0
               ? pl_aten_view(e->c->b, x, s->dims, s->sizes)
               : pl_aten_reshape(e->c->b, x, s->dims, s->sizes);
}

static int32_t transpose(emitter *e, const char *target) {
    const onnx_attr *perm = pl_onnx_attr(e->n, "perm");
    const onnx_slot *x = in(e, 0);
    int64_t order[PL_MAX_DIMS];
    int32_t input = tensor(e, 0);
    (void)target;
    if (!x || x->dims < 0) return result(e, 0);
    for (int i = 0; i < x->dims; i++)
        order[i] = perm && perm->count == (uint32_t)x->dims ? perm->ints[i] : x->dims - 1 - i;
    return pl_aten_permute(e->c->b, input, x->dims, order);
}

static int32_t concat(emitter *e, const char *target) {
    enum { MOST = 1024 };
    int32_t list[MOST];
    int count = 0;
    (void)target;
    for (uint32_t i = 0; i < e->n->input_count && count < MOST; i++) {
        const onnx_slot *s = in(e, i);
        if (s && pl_onnx_elements(s) == 0) continue;
        list[count++] = tensor(e, i);
    }
    if (count == 1) return list[0];
    pl_call(e->c->b, "aten.cat.default");
    pl_call_tensors(e->c->b, "tensors", count, list);
    pl_call_int(e->c->b, "dim", pl_onnx_int(e->n, "axis", 0));
    return result(e, 0);
}

static int32_t split(emitter *e, const char *target) {
    int64_t sizes[256], axis = pl_onnx_int(e->n, "axis", 0);
    const onnx_slot *x = in(e, 0);
    int32_t input = tensor(e, 0);
    if (!x || x->dims < 1 || e->n->output_count > 256) return result(e, 0);
    if (axis < 0) axis += x->dims;
    for (uint32_t i = 0; i < e->n->output_count; i++) {
        const onnx_slot *s = out(e, i);
        sizes[i] = s && axis >= 0 && axis < s->dims ? s->sizes[axis] : 0;
    }
    pl_call(e->c->b, target);
    pl_call_tensor(e->c->b, "self", input);
    pl_call_ints(e->c->b, "split_sizes", (int)e->n->output_count, sizes);
    pl_call_int(e->c->b, "dim", axis);
    pl_call_list(e->c->b);
    int32_t first = PL_NONE;
    for (uint32_t i = 0; i < e->n->output_count; i++) {
        int32_t id = result(e, i);
        if (i == 0) first = id;
        if (out(e, i)) out(e, i)->tensor = id;
    }
    return first;
}

static int32_t split_to_sequence(emitter *e, const char *target) {
    onnx_slot *s = out(e, 0);
    int32_t input = tensor(e, 0);
    if (!s || !s->list) return result(e, 0);
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

static int32_t sequence_at(emitter *e, const char *target) {
    const onnx_slot *s = in(e, 0);
    int64_t at;
    (void)target;
    if (!s || !s->list || s->list_tensor == PL_NONE || pl_onnx_integers(in(e, 1), &at, 1) != 1)
        return result(e, 0);
    if (at < 0) at += s->list_count;
    return at >= 0 && at < s->list_count ? s->list_tensor + (int32_t)at : PL_NONE;
}

static int32_t slice(emitter *e, const char *target) {
    int64_t start[PL_MAX_DIMS], count[PL_MAX_DIMS], step[PL_MAX_DIMS];
    const onnx_slot *x = in(e, 0);
    int32_t at = tensor(e, 0);
    (void)target;
    if (!pl_onnx_slice(e->c, e->n, start, count, step)) return result(e, 0);
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
static int32_t gather(emitter *e, const char *target) {
    pl_builder *b = e->c->b;
    const onnx_slot *x = in(e, 0), *at = in(e, 1);
    int64_t axis = pl_onnx_int(e->n, "axis", 0);
    (void)target;
    if (!x || !at || x->dims < 1 || at->dims < 0) return result(e, 0);
    if (axis < 0) axis += x->dims;
    bool weight = e->n->inputs[0] >= 0 && e->c->g->values[e->n->inputs[0]].initializer;
    int32_t input = tensor(e, 0);
    if (at->dims == 0 && at->numbers)
        return pl_aten_select(b, input, (int)axis, pl_onnx_integer(at->numbers[0]));
    int32_t index = tensor(e, 1);
    if (weight && x->dims == 2 && axis == 0 && pl_dtype_is_float(x->dtype))
        return pl_aten_embedding(b, input, index, -1);
    if (at->dims == 1) return pl_aten_index_select(b, input, (int)axis, index);
    int32_t list[PL_MAX_DIMS];
    for (int i = 0; i < axis && i < PL_MAX_DIMS; i++) list[i] = PL_NONE;
    list[axis] = index;
    pl_call(b, "aten.index.Tensor");
    pl_call_tensor(b, "self", input);
    pl_call_tensors(b, "indices", (int)axis + 1, list);
    return result(e, 0);
}

static int32_t gather_elements(emitter *e, const char *target) {
    int32_t x = tensor(e, 0), index = tensor(e, 1);
    pl_call(e->c->b, target);
    pl_call_tensor(e->c->b, "self", x);
    pl_call_int(e->c->b, "dim", pl_onnx_int(e->n, "axis", 0));
    pl_call_tensor(e->c->b, "index", index);
    return result(e, 0);
}

static int32_t indexed(emitter *e, const char *target) {
    int32_t x = tensor(e, 0), index = tensor(e, 1), values = tensor(e, 2);
    pl_call(e->c->b, target);
    pl_call_tensor(e->c->b, "self", x);
    pl_call_tensors(e->c->b, "indices", 1, &index);
    if (values != PL_NONE) pl_call_tensor(e->c->b, "values", values);
    return result(e, 0);
}

static int32_t scatter(emitter *e, const char *target) {
    int32_t x = tensor(e, 0), index = tensor(e, 1), values = tensor(e, 2);
    pl_call(e->c->b, target);
    pl_call_tensor(e->c->b, "self", x);
    pl_call_int(e->c->b, "dim", pl_onnx_int(e->n, "axis", 0));
    pl_call_tensor(e->c->b, "index", index);
    pl_call_tensor(e->c->b, "src", values);
    return result(e, 0);
}

static int32_t expand(emitter *e, const char *target) {
    onnx_slot *s = out(e, 0);
    int32_t x = tensor(e, 0);
    (void)target;
    if (!s || s->dims < 0) return result(e, 0);
    return pl_aten_expand(e->c->b, x, s->dims, s->sizes);
}

static int32_t tile(emitter *e, const char *target) {
    int64_t times[PL_MAX_DIMS];
    int count = pl_onnx_integers(in(e, 1), times, PL_MAX_DIMS);
    int32_t x = tensor(e, 0);
    (void)target;
    return count < 0 ? result(e, 0) : pl_aten_repeat(e->c->b, x, count, times);
}

static int32_t pad(emitter *e, const char *target) {
    int64_t pads[PL_MAX_DIMS * 2], pairs[PL_MAX_DIMS * 2];
    int count = pl_onnx_list(e->c, e->n, "pads", 1, pads, PL_MAX_DIMS * 2) / 2, used = 0;
    const char *mode = pl_onnx_string(e->n, "mode", "constant");
    int32_t x = tensor(e, 0);
    (void)target;
    for (int i = 0; i < count; i++) {
        pairs[i * 2] = pads[count - 1 - i];
        pairs[i * 2 + 1] = pads[count * 2 - 1 - i];
        if (pairs[i * 2] || pairs[i * 2 + 1]) used = i + 1;
    }
    if (used == 0 && count > 0) return x;
    bool reflect = strcmp(mode, "reflect") == 0, edge = strcmp(mode, "edge") == 0;
    static const char *const targets[3][SPATIAL] = {
        {"aten.reflection_pad1d.default", "aten.reflection_pad2d.default",
         "aten.reflection_pad3d.default"},
        {"aten.replication_pad1d.default", "aten.replication_pad2d.default",
         "aten.replication_pad3d.default"}};
    bool special = (reflect || edge) && used >= 1 && used <= SPATIAL;
    pl_call(e->c->b, special ? targets[edge][used - 1] : "aten.constant_pad_nd.default");
    pl_call_tensor(e->c->b, "self", x);
    pl_call_ints(e->c->b, special ? "padding" : "pad", used * 2, pairs);
    return result(e, 0);
}

static int32_t resize(emitter *e, const char *target) {
    static const char *const targets[3][SPATIAL] = {
        {"aten.upsample_nearest1d.vec", "aten.upsample_nearest2d.vec",
         "aten.upsample_nearest3d.vec"},
        {"aten.upsample_linear1d.vec", "aten.upsample_bilinear2d.vec",
         "aten.upsample_trilinear3d.vec"},
        {"aten.upsample_bicubic2d.vec", "aten.upsample_bicubic2d.vec",
         "aten.upsample_bicubic2d.vec"}};
    const char *mode = pl_onnx_string(e->n, "mode", "nearest");
    const onnx_slot *x = in(e, 0), *s = out(e, 0);
    int dims = x ? x->dims - 2 : 0;
    (void)target;
    if (dims < 1 || dims > SPATIAL || !s || s->dims < 0) return result(e, 0);
    int32_t input = tensor(e, 0);
    int which = strcmp(mode, "linear") == 0 ? 1 : strcmp(mode, "cubic") == 0 ? 2 : 0;
    pl_call(e->c->b, targets[which][dims - 1]);
    pl_call_tensor(e->c->b, "input", input);
    pl_call_ints(e->c->b, "output_size", dims, s->sizes + 2);
    return result(e, 0);
}

static int32_t trilu(emitter *e, const char *target) {
    double k = 0;
    int32_t x = tensor(e, 0);
    (void)target;
    number(e, 1, &k);
    pl_call(e->c->b, pl_onnx_int(e->n, "upper", 1) ? "aten.triu.default" : "aten.tril.default");
    pl_call_tensor(e->c->b, "self", x);
    pl_call_int(e->c->b, "diagonal", pl_onnx_integer(k));
    return result(e, 0);
}

/* Tensors made of nothing. */
static int32_t make(emitter *e, const char *target) {
    const onnx_slot *s = out(e, 0);
    if (!s || s->dims < 0) return result(e, 0);
    pl_call(e->c->b, target);
    if (strncmp(target, "aten.arange", 11) != 0) pl_call_ints(e->c->b, "size", s->dims, s->sizes);
    return result(e, 0);
}

/* Kept under its own name. */
static int32_t unknown(emitter *e, const char *target) {
    enum { MOST = 64 };
    int32_t list[MOST];
    int count = 0;
    (void)target;
    for (uint32_t i = 0; i < e->n->input_count && count < MOST; i++) {
        int32_t id = tensor(e, i);
        if (id != PL_NONE) list[count++] = id;
    }
    const char *name = *e->n->domain
                           ? pl_build_text(e->c->b, "onnx.%.100s.%.100s", e->n->domain, e->n->op)
                           : pl_build_text(e->c->b, "onnx.%.100s.default", e->n->op);
    pl_call(e->c->b, name);
    for (int i = 0; i < count; i++) pl_call_tensor(e->c->b, i == 0 ? "self" : "other", list[i]);
    int32_t first = PL_NONE;
    for (uint32_t i = 0; i < e->n->output_count; i++) {
        int32_t id = out(e, i) ? result(e, i) : PL_NONE;
        if (i == 0) first = id;
        if (out(e, i)) out(e, i)->tensor = id;
    }
    return first;
}

/* ---- the table ---- */

/* Sorted by name: strcmp. */
static const struct row {
    const char *op;
    emit_one *emit;
    const char *target;
} rows[] = {
    {"Abs", one, "aten.abs.default"},
    {"Acos", one, "aten.acos.default"},
    {"Add", two, "aten.add.Tensor"},
    {"And", two, "aten.logical_and.default"},
    {"ArgMax", along, "aten.argmax.default"},
    {"ArgMin", along, "aten.argmin.default"},
    {"Asin", one, "aten.asin.default"},
    {"Atan", one, "aten.atan.default"},
    {"Attention", attention, "onnx.Attention.default"},
    {"AveragePool", pool, ""},
    {"BatchNormalization", batch_norm, ""},
    {"Bernoulli", one, "aten.bernoulli.default"},
    {"BitwiseAnd", two, "aten.bitwise_and.Tensor"},
    {"BitwiseNot", one, "aten.bitwise_not.default"},
    {"BitwiseOr", two, "aten.bitwise_or.Tensor"},
    {"BitwiseXor", two, "aten.bitwise_xor.Tensor"},
    {"Cast", cast, ""},
    {"CastLike", cast, ""},
    {"Ceil", one, "aten.ceil.default"},
    {"Celu", sloped, "aten.celu.default"},
    {"Clip", clip, ""},
    {"Concat", concat, ""},
    {"Constant", make, "aten.full.default"},
    {"ConstantOfShape", make, "aten.full.default"},
    {"Conv", convolution, ""},
    {"ConvTranspose", convolution, ""},
    {"Cos", one, "aten.cos.default"},
    {"CumSum", along, "aten.cumsum.default"},
    {"DepthToSpace", one, "aten.pixel_shuffle.default"},
    {"Div", two, "aten.div.Tensor"},
    {"Dropout", dropout, ""},
    {"Einsum", einsum, "aten.einsum.default"},
    {"Elu", sloped, "aten.elu.default"},
    {"Equal", two, "aten.eq.Tensor"},
    {"Erf", one, "aten.erf.default"},
    {"Exp", one, "aten.exp.default"},
    {"Expand", expand, ""},
    {"Flatten", reshape, "aten.reshape.default"},
    {"Floor", one, "aten.floor.default"},
    {"GRU", recurrent, ""},
    {"Gather", gather, ""},
    {"GatherElements", gather_elements, "aten.gather.default"},
    {"GatherND", indexed, "aten.index.Tensor"},
    {"Gelu", gelu, ""},
    {"Gemm", gemm, ""},
    {"GlobalAveragePool", global_pool, ""},
    {"GlobalMaxPool", global_pool, ""},
    {"Greater", two, "aten.gt.Tensor"},
    {"GreaterOrEqual", two, "aten.ge.Tensor"},
    {"GroupNormalization", group_norm, ""},
    {"HardSigmoid", one, "aten.hardsigmoid.default"},
    {"HardSwish", one, "aten.hardswish.default"},
    {"Identity", same, ""},
    {"InstanceNormalization", instance_norm, "aten.instance_norm.default"},
    {"IsInf", one, "aten.isinf.default"},
    {"IsNaN", one, "aten.isnan.default"},
    {"LSTM", recurrent, ""},
    {"LayerNormalization", layer_norm, ""},
    {"LeakyRelu", sloped, "aten.leaky_relu.default"},
    {"Less", two, "aten.lt.Tensor"},
    {"LessOrEqual", two, "aten.le.Tensor"},
    {"Log", one, "aten.log.default"},
    {"LogSoftmax", softmax, "aten.log_softmax.int"},
    {"MatMul", matmul, ""},
    {"Max", two, "aten.maximum.default"},
    {"MaxPool", pool, ""},
    {"Min", two, "aten.minimum.default"},
    {"Mish", one, "aten.mish.default"},
    {"Mod", two, "aten.remainder.Tensor"},
    {"Mul", two, "aten.mul.Tensor"},
    {"Neg", one, "aten.neg.default"},
    {"NegativeLogLikelihoodLoss", loss, "aten.nll_loss_nd.default"},
    {"Not", one, "aten.logical_not.default"},
    {"Or", two, "aten.logical_or.default"},
    {"PRelu", prelu, "aten.prelu.default"},
    {"Pad", pad, ""},
    {"Pow", two, "aten.pow.Tensor_Tensor"},
    {"RMSNormalization", layer_norm, ""},
    {"RNN", recurrent, ""},
    {"RandomNormal", make, "aten.randn.default"},
    {"RandomNormalLike", one, "aten.randn_like.default"},
    {"RandomUniform", make, "aten.rand.default"},
    {"RandomUniformLike", one, "aten.rand_like.default"},
    {"Range", make, "aten.arange.default"},
    {"Reciprocal", one, "aten.reciprocal.default"},
    {"ReduceL1", reduce, "aten.linalg_vector_norm.default"},
    {"ReduceL2", reduce, "aten.linalg_vector_norm.default"},
    {"ReduceLogSumExp", reduce, "aten.logsumexp.default"},
    {"ReduceMax", reduce, "aten.amax.default"},
    {"ReduceMean", reduce, "aten.mean.dim"},
    {"ReduceMin", reduce, "aten.amin.default"},
    {"ReduceProd", reduce, "aten.prod.dim_int"},
    {"ReduceSum", reduce, "aten.sum.dim_IntList"},
    {"Relu", one, "aten.relu.default"},
    {"Reshape", reshape, "aten.reshape.default"},
    {"Resize", resize, ""},
    {"Round", one, "aten.round.default"},
    {"ScatterElements", scatter, "aten.scatter.src"},
    {"ScatterND", indexed, "aten.index_put.default"},
    {"Selu", one, "aten.selu.default"},
    {"SequenceAt", sequence_at, ""},
    {"Sigmoid", one, "aten.sigmoid.default"},
    {"Sign", one, "aten.sign.default"},
    {"Sin", one, "aten.sin.default"},
    {"Slice", slice, ""},
    {"Softmax", softmax, "aten.softmax.int"},
    {"SoftmaxCrossEntropyLoss", loss, "aten.cross_entropy_loss.default"},
    {"Softplus", one, "aten.softplus.default"},
    {"SpaceToDepth", one, "aten.pixel_unshuffle.default"},
    {"Split", split, "aten.split_with_sizes.default"},
    {"SplitToSequence", split_to_sequence, "aten.split.Tensor"},
    {"Sqrt", one, "aten.sqrt.default"},
    {"Squeeze", reshape, "aten.view.default"},
    {"Sub", two, "aten.sub.Tensor"},
    {"Swish", one, "aten.silu.default"},
    {"Tan", one, "aten.tan.default"},
    {"Tanh", one, "aten.tanh.default"},
    {"Tile", tile, ""},
    {"TopK", top_k, "aten.topk.default"},
    {"Transpose", transpose, ""},
    {"Trilu", trilu, ""},
    {"Unsqueeze", reshape, "aten.view.default"},
    {"Upsample", resize, ""},
    {"Where", where, ""},
    {"Xor", two, "aten.logical_xor.default"},
};

static const struct row *row_of(const onnx_node *n) {
    size_t low = 0, high = sizeof rows / sizeof *rows;
    if (*n->domain && strcmp(n->domain, "ai.onnx") != 0) return NULL;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(n->op, rows[middle].op);
        if (order == 0) return &rows[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* ---- nodes that belong together ---- */

/* The keys as attention takes them: their Transpose, less its turn of the last two dimensions. */
static int32_t turned_key(emitter *e, const onnx_step *s, int32_t key) {
    const onnx_node *n = &e->c->g->nodes[s->turn];
    const onnx_attr *perm = pl_onnx_attr(n, "perm");
    int dims = pl_built_dims(e->c->b, key);
    int64_t order[PL_MAX_DIMS];
    bool straight = true;
    if (!perm || perm->count != (uint32_t)dims || dims < 2) return key;
    memcpy(order, perm->ints, (size_t)dims * sizeof *order);
    order[dims - 1] = perm->ints[dims - 2];
    order[dims - 2] = perm->ints[dims - 1];
    for (int i = 0; i < dims; i++) straight = straight && order[i] == i;
    return straight ? key : pl_aten_permute(e->c->b, key, dims, order);
}

static int32_t emit_step(emitter *e, const onnx_step *s) {
    onnx_build *c = e->c;
    pl_builder *b = c->b;
    int32_t x = pl_onnx_tensor(c, s->a), y = pl_onnx_tensor(c, s->b), z = pl_onnx_tensor(c, s->c),
            w = pl_onnx_tensor(c, s->d);
    switch (s->kind) {
    case ONNX_SAME: return x;
    case ONNX_LINEAR: return pl_aten_linear(b, x, y, z);
    case ONNX_GELU: return pl_aten_gelu(b, x, false);
    case ONNX_GELU_TANH: return pl_aten_gelu(b, x, true);
    case ONNX_SILU: {
        const char *place = pl_onnx_in_place(c->g, e->at, "aten.silu.default");
        return pl_aten_unary(b, place ? place : "aten.silu.default", x);
    }
    case ONNX_RSQRT: return pl_aten_unary(b, "aten.rsqrt.default", x);
    case ONNX_LAYER_NORM: return pl_aten_layer_norm(b, x, 1, y, z, s->second);
    case ONNX_GROUP_NORM: return pl_aten_group_norm(b, x, (int64_t)s->number, y, z, s->second);
    case ONNX_ATTENTION:
        y = turned_key(e, s, y);
        return pl_aten_attention(b, x, y, z, w, s->second, false, s->number > 0 ? s->number : NAN,
                                 false);
    default: return PL_NONE;
    }
}

/* All results are numbers, or nobody wants them. */
static bool is_numbers(emitter *e) {
    for (uint32_t i = 0; i < e->n->output_count; i++) {
        int32_t id = e->n->outputs[i];
        if (id >= 0 && e->c->g->values[id].uses > 0 && !e->c->slots[id].numbers) return false;
    }
    return true;
}

void pl_onnx_emit(onnx_build *c, const onnx_plan *plan, int32_t at) {
    emitter e = {.c = c, .plan = plan, .n = &c->g->nodes[at], .at = at};
    const onnx_step *step = &plan->steps[at];
    if (step->kind == ONNX_INSIDE || is_numbers(&e)) return;
    if (strcmp(e.n->op, "Shape") == 0 || strcmp(e.n->op, "Size") == 0) {
        pl_build_fail(c->b, PL_INPUT, c->g->name,
                      "node %.80s (%.10s): the sizes it asks for are not known", e.n->name,
                      e.n->op);
        return;
    }
    const struct row *row = row_of(e.n);
    pl_onnx_enter(c, e.n);
    int32_t made = step->kind != ONNX_ALONE ? emit_step(&e, step)
                   : row                    ? row->emit(&e, row->target)
                                            : unknown(&e, "");
    onnx_slot *s = onnx_out(c, e.n, 0);
    if (!s || s->list) return;
    s->tensor = made;
    if (made == PL_NONE)
        pl_build_fail(c->b, PL_INPUT, c->g->name,
                      "node %.80s (%.40s): the sizes of its operands are not known", e.n->name,
                      e.n->op);
}
