/* spec_nn: torch.nn's layers in training: a module, its parameters in the order of its __init__,
 * and the operators its forward runs. Rules: torch/nn/modules and torch/nn/functional.py, 2.11,
 * checked against what torch.export writes of each.
 *
 * Left out: padding modes, arguments that change neither sizes nor operators, and the fast path of
 * TransformerEncoderLayer, which training does not take. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "import/spec_reader.h"

/* "torch.nn.modules.conv.Conv2d": kinds[0 .. 2] for 1 to 3 dimensions. */
#define BY_DIMS(prefix)                                                                            \
    { prefix "1d", prefix "2d", prefix "3d" }

static const char *of_dims(const char *const names[3], int dims) {
    return names[dims >= 1 && dims <= 3 ? dims - 1 : 1];
}

/* ---- linear, convolution ---- */

int32_t pl_nn_linear(pl_builder *b, const char *name, int32_t x, int64_t out, bool bias) {
    int64_t in = pl_built_size(b, x, -1);
    pl_module_enter(b, name, "torch.nn.modules.linear.Linear");
    int32_t w = pl_build_parameter(b, "weight", PL_SIZES(out, in));
    int32_t v = bias ? pl_build_parameter(b, "bias", PL_SIZES(out)) : PL_NONE;
    x = pl_aten_linear(b, x, w, v);
    pl_module_leave(b);
    return x;
}

/* [out, in / groups, kernel...], or [in, out / groups, kernel...] of a transposed one. */
static int32_t window_weight(pl_builder *b, int dims, int64_t first, int64_t second,
                             const pl_nn_window *w) {
    int64_t sizes[5] = {first, second / (w->groups > 0 ? w->groups : 1), w->kernel[0], w->kernel[1],
                        w->kernel[2]};
    return pl_build_parameter(b, "weight", dims + 2, sizes);
}

int32_t pl_nn_conv(pl_builder *b, const char *name, int dims, int32_t x, int64_t out,
                   const pl_nn_window *w) {
    static const char *const types[] = BY_DIMS("torch.nn.modules.conv.Conv");
    int64_t in = pl_built_size(b, x, 1);
    pl_module_enter(b, name, of_dims(types, dims));
    int32_t weight = window_weight(b, dims, out, in, w);
    int32_t bias = w->bias ? pl_build_parameter(b, "bias", PL_SIZES(out)) : PL_NONE;
    x = pl_aten_conv(b, dims, x, weight, bias, w->stride, w->padding, w->dilation, w->groups);
    pl_module_leave(b);
    return x;
}

int32_t pl_nn_conv_transpose(pl_builder *b, const char *name, int dims, int32_t x, int64_t out,
                             const pl_nn_window *w) {
    static const char *const types[] = BY_DIMS("torch.nn.modules.conv.ConvTranspose");
    int64_t in = pl_built_size(b, x, 1);
    pl_module_enter(b, name, of_dims(types, dims));
    int32_t weight = window_weight(b, dims, in, out, w);
    int32_t bias = w->bias ? pl_build_parameter(b, "bias", PL_SIZES(out)) : PL_NONE;
    x = pl_aten_conv_transpose(b, dims, x, weight, bias, w->stride, w->padding, w->output_padding,
                               w->groups, w->dilation);
    pl_module_leave(b);
    return x;
}

/* ---- pooling, resizing ---- */

int32_t pl_nn_max_pool(pl_builder *b, const char *name, int dims, int32_t x,
                       const pl_nn_window *w) {
    static const char *const types[] = BY_DIMS("torch.nn.modules.pooling.MaxPool");
    static const char *const targets[] = {"aten.max_pool1d.default", "aten.max_pool2d.default",
                                          "aten.max_pool3d.default"};
    pl_module_enter(b, name, of_dims(types, dims));
    x = pl_aten_pool(b, of_dims(targets, dims), dims, x, w->kernel, w->stride, w->padding,
                     w->dilation, w->ceil);
    pl_module_leave(b);
    return x;
}

int32_t pl_nn_avg_pool(pl_builder *b, const char *name, int dims, int32_t x,
                       const pl_nn_window *w) {
    static const char *const types[] = BY_DIMS("torch.nn.modules.pooling.AvgPool");
    static const char *const targets[] = {"aten.avg_pool1d.default", "aten.avg_pool2d.default",
                                          "aten.avg_pool3d.default"};
    pl_module_enter(b, name, of_dims(types, dims));
    x = pl_aten_pool(b, of_dims(targets, dims), dims, x, w->kernel, w->stride, w->padding, NULL,
                     w->ceil);
    pl_module_leave(b);
    return x;
}

int32_t pl_nn_adaptive_avg_pool(pl_builder *b, const char *name, int dims, int32_t x,
                                const int64_t *sizes) {
    static const char *const types[] = BY_DIMS("torch.nn.modules.pooling.AdaptiveAvgPool");
    static const char *const targets[] = {"aten.adaptive_avg_pool1d.default",
                                          "aten.adaptive_avg_pool2d.default",
                                          "aten.adaptive_avg_pool3d.default"};
    pl_module_enter(b, name, of_dims(types, dims));
    x = pl_aten_adaptive_pool(b, of_dims(targets, dims), dims, x, sizes);
    pl_module_leave(b);
    return x;
}

int32_t pl_nn_upsample(pl_builder *b, const char *name, int dims, int32_t x, int64_t scale,
                       bool linear) {
    static const char *const nearest[] = {"aten.upsample_nearest1d.vec",
                                          "aten.upsample_nearest2d.vec",
                                          "aten.upsample_nearest3d.vec"};
    static const char *const smooth[] = {"aten.upsample_linear1d.vec",
                                         "aten.upsample_bilinear2d.vec",
                                         "aten.upsample_trilinear3d.vec"};
    int64_t sizes[5] = {0};
    bool fits = true;
    for (int i = 0; i < dims + 2; i++) {
        sizes[i] = pl_built_size(b, x, i);
        if (i >= 2) fits = fits && !__builtin_mul_overflow(sizes[i], scale, &sizes[i]);
    }
    pl_module_enter(b, name, "torch.nn.modules.upsampling.Upsample");
    const char *target = of_dims(linear ? smooth : nearest, dims);
    if (!fits) pl_build_fail(b, PL_INPUT, target, "an image larger than any memory");
    pl_dtype dtype = pl_built(b, x)->dtype;
    pl_call(b, target);
    pl_call_tensor(b, "input", x);
    if (linear) pl_call_bool(b, "align_corners", false);
    x = pl_call_result(b, dtype, dims + 2, sizes);
    pl_module_leave(b);
    return x;
}

int32_t pl_nn_flatten(pl_builder *b, const char *name, int32_t x) {
    pl_module_enter(b, name, "torch.nn.modules.flatten.Flatten");
    x = pl_aten_flatten(b, x, 1, -1);
    pl_module_leave(b);
    return x;
}

/* ---- normalisation, dropout ---- */

int32_t pl_nn_batch_norm(pl_builder *b, const char *name, int32_t x) {
    static const char *const types[] = BY_DIMS("torch.nn.modules.batchnorm.BatchNorm");
    int64_t n = pl_built_size(b, x, 1);
    int dims = pl_built_dims(b, x) - 2;
    pl_module_enter(b, name, of_dims(types, dims > 0 ? dims : 1)); /* [N, C] is BatchNorm1d's too */
    int32_t w = pl_build_parameter(b, "weight", PL_SIZES(n));
    int32_t v = pl_build_parameter(b, "bias", PL_SIZES(n));
    int32_t mean = pl_build_buffer(b, "running_mean", PL_DT_F32, true, PL_SIZES(n));
    int32_t variance = pl_build_buffer(b, "running_var", PL_DT_F32, true, PL_SIZES(n));
    int32_t count = pl_build_buffer(b, "num_batches_tracked", PL_DT_I64, true, 0, NULL);
    pl_aten_scalar(b, "aten.add_.Tensor", count, 1);
    x = pl_aten_batch_norm(b, x, w, v, mean, variance, 0.1, 1e-5);
    pl_module_leave(b);
    return x;
}

int32_t pl_nn_layer_norm(pl_builder *b, const char *name, int32_t x) {
    int64_t n = pl_built_size(b, x, -1);
    pl_module_enter(b, name, "torch.nn.modules.normalization.LayerNorm");
    int32_t w = pl_build_parameter(b, "weight", PL_SIZES(n));
    int32_t v = pl_build_parameter(b, "bias", PL_SIZES(n));
    x = pl_aten_layer_norm(b, x, 1, w, v, 1e-5);
    pl_module_leave(b);
    return x;
}

int32_t pl_nn_rms_norm(pl_builder *b, const char *name, int32_t x) {
    int64_t n = pl_built_size(b, x, -1);
    pl_module_enter(b, name, "torch.nn.modules.normalization.RMSNorm");
    int32_t w = pl_build_parameter(b, "weight", PL_SIZES(n));
    x = pl_aten_rms_norm(b, x, 1, w, NAN);
    pl_module_leave(b);
    return x;
}

int32_t pl_nn_group_norm(pl_builder *b, const char *name, int32_t x, int64_t groups) {
    int64_t n = pl_built_size(b, x, 1);
    pl_module_enter(b, name, "torch.nn.modules.normalization.GroupNorm");
    int32_t w = pl_build_parameter(b, "weight", PL_SIZES(n));
    int32_t v = pl_build_parameter(b, "bias", PL_SIZES(n));
    x = pl_aten_group_norm(b, x, groups, w, v, 1e-5);
    pl_module_leave(b);
    return x;
}

int32_t pl_nn_dropout(pl_builder *b, const char *name, int32_t x, double p) {
    pl_module_enter(b, name, "torch.nn.modules.dropout.Dropout");
    x = pl_aten_dropout(b, x, p);
    pl_module_leave(b);
    return x;
}

int32_t pl_nn_dropout_channels(pl_builder *b, const char *name, int dims, int32_t x, double p) {
    static const char *const types[] = BY_DIMS("torch.nn.modules.dropout.Dropout");
    pl_module_enter(b, name, of_dims(types, dims));
    pl_call(b, "aten.feature_dropout.default");
    pl_call_tensor(b, "input", x);
    pl_call_float(b, "p", p);
    pl_call_bool(b, "train", true);
    x = pl_call_result_like(b, x);
    pl_module_leave(b);
    return x;
}

int32_t pl_nn_embedding(pl_builder *b, const char *name, int32_t x, int64_t rows, int64_t width) {
    pl_module_enter(b, name, "torch.nn.modules.sparse.Embedding");
    int32_t w = pl_build_parameter(b, "weight", PL_SIZES(rows, width));
    x = pl_aten_embedding(b, w, x, -1);
    pl_module_leave(b);
    return x;
}

/* ---- activations ---- */

typedef struct activation {
    const char *type, *target, *in_place; /* in_place NULL: the class has none */
    const char *names[2];                 /* numbers it hands over; NULL: none */
    double numbers[2];
} activation;

#define ACTIVATION "torch.nn.modules.activation."

const char pl_nn_activations[] =
    "relu gelu silu tanh sigmoid leaky_relu elu selu mish softplus prelu "
    "gelu_tanh relu6 hardswish hardsigmoid softmax";

/* In the order of the names. */
static const activation activations[] = {
    {ACTIVATION "ReLU", "aten.relu.default", "aten.relu_.default", {0}, {0}},
    {ACTIVATION "GELU", "aten.gelu.default", NULL, {0}, {0}},
    {ACTIVATION "SiLU", "aten.silu.default", "aten.silu_.default", {0}, {0}},
    {ACTIVATION "Tanh", "aten.tanh.default", NULL, {0}, {0}},
    {ACTIVATION "Sigmoid", "aten.sigmoid.default", NULL, {0}, {0}},
    {ACTIVATION "LeakyReLU", "aten.leaky_relu.default", "aten.leaky_relu_.default", {0}, {0}},
    {ACTIVATION "ELU", "aten.elu.default", "aten.elu_.default", {"alpha", NULL}, {1, 0}},
    {ACTIVATION "SELU", "aten.selu.default", "aten.selu_.default", {0}, {0}},
    {ACTIVATION "Mish", "aten.mish.default", "aten.mish_.default", {0}, {0}},
    {ACTIVATION "Softplus", "aten.softplus.default", NULL, {"beta", "threshold"}, {1, 20}},
    {ACTIVATION "PReLU", "aten.prelu.default", NULL, {0}, {0}},
    {ACTIVATION "GELU", "aten.gelu.default", NULL, {0}, {0}},
    {ACTIVATION "ReLU6",
     "aten.hardtanh.default",
     "aten.hardtanh_.default",
     {"min_val", "max_val"},
     {0, 6}},
    {ACTIVATION "Hardswish", "aten.hardswish.default", "aten.hardswish_.default", {0}, {0}},
    {ACTIVATION "Hardsigmoid", "aten.hardsigmoid.default", "aten.hardsigmoid_.default", {0}, {0}},
    {ACTIVATION "Softmax", "aten.softmax.int", NULL, {0}, {0}},
};
enum { PRELU = 10, GELU_TANH = 11, SOFTMAX = 15 };

/* The operator alone, as TransformerEncoderLayer calls it. */
static int32_t activate(pl_builder *b, int act, bool inplace, int32_t x) {
    const activation *a = &activations[act];
    if (act == SOFTMAX) return pl_aten_softmax(b, x, -1, PL_DT_UNKNOWN);
    int32_t weight = act == PRELU ? pl_build_parameter(b, "weight", PL_SIZES(1)) : PL_NONE;
    pl_call(b, inplace && a->in_place ? a->in_place : a->target);
    pl_call_tensor(b, "self", x);
    if (act == PRELU) pl_call_tensor(b, "weight", weight);
    if (act == GELU_TANH) pl_call_string(b, "approximate", "tanh");
    for (int i = 0; i < 2; i++)
        if (a->names[i]) pl_call_float(b, a->names[i], a->numbers[i]);
    return pl_call_result_like(b, x);
}

int32_t pl_nn_activation(pl_builder *b, const char *name, int act, bool inplace, int32_t x) {
    if (act < 0 || act >= (int)(sizeof activations / sizeof *activations)) return x;
    pl_module_enter(b, name, activations[act].type);
    x = activate(b, act, inplace, x);
    pl_module_leave(b);
    return x;
}

/* ---- recurrence ---- */

enum { MAX_RECURRENT = 256 }; /* layers */

/* weight_ih [gates * hidden, in], weight_hh [gates * hidden, hidden], two biases. */
static void direction(pl_builder *b, int64_t layer, const char *suffix, int64_t gates,
                      int64_t hidden, int64_t in, int32_t *params) {
    long long l = (long long)layer;
    params[0] = pl_build_parameter(b, pl_build_text(b, "weight_ih_l%lld%s", l, suffix),
                                   PL_SIZES(gates, in));
    params[1] = pl_build_parameter(b, pl_build_text(b, "weight_hh_l%lld%s", l, suffix),
                                   PL_SIZES(gates, hidden));
    params[2] =
        pl_build_parameter(b, pl_build_text(b, "bias_ih_l%lld%s", l, suffix), PL_SIZES(gates));
    params[3] =
        pl_build_parameter(b, pl_build_text(b, "bias_hh_l%lld%s", l, suffix), PL_SIZES(gates));
}

/* torch.zeros(sizes, dtype=x.dtype): written so that the type follows x in every precision. */
static int32_t zeros(pl_builder *b, int32_t x, int dims, const int64_t *sizes) {
    pl_dtype dtype = pl_built(b, x)->dtype;
    pl_call(b, "aten.new_zeros.default");
    pl_call_tensor(b, "self", x);
    pl_call_ints(b, "size", dims, sizes);
    return pl_call_result(b, dtype, dims, sizes);
}

int32_t pl_nn_recurrent(pl_builder *b, const char *name, int cell, int32_t x, int64_t hidden,
                        int64_t layers, bool bidirectional, double dropout) {
    static const struct {
        const char *type, *mode;
        int64_t gates;
        int states;
    } cells[] = {{"torch.nn.modules.rnn.LSTM", "lstm", 4, 2},
                 {"torch.nn.modules.rnn.GRU", "gru", 3, 1},
                 {"torch.nn.modules.rnn.RNN", "rnn_tanh", 1, 1}};
    int64_t in = pl_built_size(b, x, -1), batch = pl_built_size(b, x, 0);
    int64_t directions = bidirectional ? 2 : 1;
    int32_t params[MAX_RECURRENT * 8], state[2] = {PL_NONE, PL_NONE};
    int count = 0;
    pl_module_enter(b, name, cells[cell].type);
    if (layers > MAX_RECURRENT)
        pl_build_fail(b, PL_INPUT, name, "%lld recurrent layers; the most is %d", (long long)layers,
                      MAX_RECURRENT);
    for (int64_t l = 0; l < layers && !pl_build_failed(b); l++)
        for (int64_t d = 0; d < directions; d++, count += 4)
            direction(b, l, d ? "_reverse" : "", cells[cell].gates * hidden, hidden,
                      l ? hidden * directions : in, params + count);
    for (int i = 0; i < cells[cell].states; i++)
        state[i] = zeros(b, x, PL_SIZES(layers * directions, batch, hidden));
    if (!pl_build_failed(b))
        x = pl_aten_recurrent(b, cells[cell].mode, x, state, count, params, true, layers, dropout,
                              bidirectional, true, NULL);
    pl_module_leave(b);
    return x;
}

/* ---- attention ---- */

/* [N, L, E] as F.multi_head_attention_forward takes it apart: [L, N, 3E] is copied to [3, L, N, E],
 * whose parts are [N, heads, L, E / heads] by their strides. */
int32_t pl_nn_attention(pl_builder *b, const char *name, int32_t x, int64_t heads, double dropout,
                        bool causal) {
    int64_t n = pl_built_size(b, x, 0), l = pl_built_size(b, x, 1), e = pl_built_size(b, x, 2);
    int64_t head = heads > 0 ? e / heads : 1;
    int32_t part[3];
    pl_module_enter(b, name, "torch.nn.modules.activation.MultiheadAttention");
    int32_t w = pl_build_parameter(b, "in_proj_weight", PL_SIZES(3 * e, e));
    int32_t v = pl_build_parameter(b, "in_proj_bias", PL_SIZES(3 * e));
    int32_t out_w = pl_build_parameter(b, "out_proj.weight", PL_SIZES(e, e));
    int32_t out_v = pl_build_parameter(b, "out_proj.bias", PL_SIZES(e));
    x = pl_aten_transpose(b, x, 1, 0);
    x = pl_aten_linear(b, x, w, v);
    x = pl_aten_view(b, x, PL_SIZES(l, n, 3, e)); /* unflatten */
    x = pl_aten_unsqueeze(b, x, 0);
    x = pl_aten_transpose(b, x, 0, -2);
    x = pl_aten_squeeze(b, x, -2);
    x = pl_aten_contiguous(b, x);
    for (int i = 0; i < 3; i++) part[i] = pl_aten_select(b, x, 0, i);
    for (int i = 0; i < 3; i++) {
        part[i] = pl_aten_view(b, part[i], PL_SIZES(l, n * heads, head));
        part[i] = pl_aten_transpose(b, part[i], 0, 1);
    }
    for (int i = 0; i < 3; i++) part[i] = pl_aten_view(b, part[i], PL_SIZES(n, heads, l, head));
    x = pl_aten_attention(b, part[0], part[1], part[2], PL_NONE, dropout, causal, NAN, false);
    x = pl_aten_permute(b, x, PL_SIZES(2, 0, 1, 3));
    x = pl_aten_contiguous(b, x);
    x = pl_aten_view(b, x, PL_SIZES(n * l, e));
    x = pl_aten_linear(b, x, out_w, out_v);
    x = pl_aten_view(b, x, PL_SIZES(l, n, e));
    x = pl_aten_transpose(b, x, 1, 0);
    pl_module_leave(b);
    return x;
}

static int32_t feed_forward(pl_builder *b, int32_t x, const pl_nn_encoder *e) {
    int64_t width = pl_built_size(b, x, -1);
    x = pl_nn_linear(b, "linear1", x, e->ff, true);
    x = activate(b, e->act, false, x);
    x = pl_nn_dropout(b, "dropout", x, e->dropout);
    x = pl_nn_linear(b, "linear2", x, width, true);
    return pl_nn_dropout(b, "dropout2", x, e->dropout);
}

static int32_t self_attention(pl_builder *b, int32_t x, const pl_nn_encoder *e) {
    x = pl_nn_attention(b, "self_attn", x, e->heads, e->dropout, e->causal);
    return pl_nn_dropout(b, "dropout1", x, e->dropout);
}

int32_t pl_nn_encoder_layer(pl_builder *b, const char *name, int32_t x, const pl_nn_encoder *e) {
    pl_module_enter(b, name, "torch.nn.modules.transformer.TransformerEncoderLayer");
    pl_module_children(b, "self_attn linear1 dropout linear2 norm1 norm2 dropout1 dropout2");
    if (e->norm_first) {
        x = pl_aten_add(b, x, self_attention(b, pl_nn_layer_norm(b, "norm1", x), e));
        x = pl_aten_add(b, x, feed_forward(b, pl_nn_layer_norm(b, "norm2", x), e));
    } else {
        x = pl_nn_layer_norm(b, "norm1", pl_aten_add(b, x, self_attention(b, x, e)));
        x = pl_nn_layer_norm(b, "norm2", pl_aten_add(b, x, feed_forward(b, x, e)));
    }
    pl_module_leave(b);
    return x;
}
