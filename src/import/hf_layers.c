/* hf_layers: layers, activations, heads' losses and rotary embeddings that families share.
 *
 * Rules: torch.nn (2.11), transformers' activations.py and loss/loss_utils.py (5.22). Rotary
 * embeddings follow 5.17, whose product of frequencies and positions is a matrix product; 5.22
 * multiplies them element by element, and every size is the same. */
#include <math.h>
#include <string.h>

#include "import/hf.h"

/* ---- layers ---- */

#define LINEAR "torch.nn.modules.linear.Linear"

int32_t pl_hf_linear(pl_hf *m, const char *name, int32_t x, int64_t out, bool bias) {
    pl_builder *b = m->b;
    pl_module_enter(b, name, LINEAR);
    int32_t weight = pl_build_parameter(b, "weight", PL_SIZES(out, pl_built_size(b, x, -1)));
    int32_t shift = bias ? pl_build_parameter(b, "bias", PL_SIZES(out)) : PL_NONE;
    int32_t y = pl_aten_linear(b, x, weight, shift);
    pl_module_leave(b);
    return y;
}

int32_t pl_hf_tied_linear(pl_hf *m, const char *name, int32_t x, int32_t weight, int64_t out,
                          bool bias) {
    pl_builder *b = m->b;
    pl_module_enter(b, name, LINEAR);
    int32_t tied = pl_build_tied(b, "weight", weight);
    int32_t shift = bias ? pl_build_parameter(b, "bias", PL_SIZES(out)) : PL_NONE;
    int32_t y = pl_aten_linear(b, x, tied, shift);
    pl_module_leave(b);
    return y;
}

int32_t pl_hf_embedding(pl_hf *m, const char *name, int64_t rows, int64_t width, int32_t indices,
                        int64_t padding_idx) {
    pl_builder *b = m->b;
    pl_module_enter(b, name, "torch.nn.modules.sparse.Embedding");
    int32_t weight = pl_build_parameter(b, "weight", PL_SIZES(rows, width));
    int32_t y = pl_aten_embedding(b, weight, indices, padding_idx);
    pl_module_leave(b);
    return y;
}

int32_t pl_hf_layer_norm(pl_hf *m, const char *name, int32_t x, double eps, bool bias) {
    pl_builder *b = m->b;
    int64_t width = pl_built_size(b, x, -1);
    pl_module_enter(b, name, "torch.nn.modules.normalization.LayerNorm");
    int32_t weight = pl_build_parameter(b, "weight", PL_SIZES(width));
    int32_t shift = bias ? pl_build_parameter(b, "bias", PL_SIZES(width)) : PL_NONE;
    int32_t y = pl_aten_layer_norm(b, x, 1, weight, shift, eps);
    pl_module_leave(b);
    return y;
}

int32_t pl_hf_dropout(pl_hf *m, const char *name, int32_t x, double p) {
    pl_module_enter(m->b, name, "torch.nn.modules.dropout.Dropout");
    int32_t y = pl_aten_dropout(m->b, x, p);
    pl_module_leave(m->b);
    return y;
}

int32_t pl_hf_input_ids(pl_hf *m) {
    return pl_build_input(m->b, "input_ids", PL_DT_I64, PL_SIZES(m->batch, m->seq));
}

/* ---- activations ---- */

#define MUL "aten.mul.Tensor"
#define ADD "aten.add.Tensor"

static int32_t one_operator(pl_builder *b, int32_t x, const char *target) {
    return target ? pl_aten_unary(b, target, x) : x;
}

static int32_t gelu(pl_builder *b, int32_t x, const char *target) {
    (void)target;
    return pl_aten_gelu(b, x, false);
}

static int32_t gelu_tanh(pl_builder *b, int32_t x, const char *target) {
    (void)target;
    return pl_aten_gelu(b, x, true);
}

/* 0.5 x (1 + tanh(c (x + 0.044715 x^3))), an operator each. */
static int32_t gelu_new(pl_builder *b, int32_t x, const char *target) {
    (void)target;
    int32_t half = pl_aten_scalar(b, MUL, x, 0.5);
    int32_t cube = pl_aten_scalar(b, "aten.pow.Tensor_Scalar", x, 3.0);
    int32_t sum = pl_aten_add(b, x, pl_aten_scalar(b, MUL, cube, 0.044715));
    int32_t tanh =
        pl_aten_unary(b, "aten.tanh.default", pl_aten_scalar(b, MUL, sum, 0.7978845608028654));
    return pl_aten_mul(b, half, pl_aten_scalar(b, ADD, tanh, 1.0));
}

/* 0.5 x (1 + tanh(c x (1 + 0.044715 x x))) */
static int32_t gelu_fast(pl_builder *b, int32_t x, const char *target) {
    (void)target;
    int32_t half = pl_aten_scalar(b, MUL, x, 0.5);
    int32_t scaled = pl_aten_scalar(b, MUL, x, 0.7978845608);
    int32_t square = pl_aten_mul(b, pl_aten_scalar(b, MUL, x, 0.044715), x);
    int32_t inner = pl_aten_mul(b, scaled, pl_aten_scalar(b, ADD, square, 1.0));
    int32_t tanh = pl_aten_unary(b, "aten.tanh.default", inner);
    return pl_aten_mul(b, half, pl_aten_scalar(b, ADD, tanh, 1.0));
}

/* 0.5 x (1 + erf(x / sqrt(2))) */
static int32_t gelu_python(pl_builder *b, int32_t x, const char *target) {
    (void)target;
    int32_t half = pl_aten_scalar(b, MUL, x, 0.5);
    int32_t erf =
        pl_aten_unary(b, "aten.erf.default", pl_aten_scalar(b, "aten.div.Tensor", x, 1.4142135623));
    return pl_aten_mul(b, half, pl_aten_scalar(b, ADD, erf, 1.0));
}

static int32_t quick_gelu(pl_builder *b, int32_t x, const char *target) {
    (void)target;
    int32_t gate = pl_aten_unary(b, "aten.sigmoid.default", pl_aten_scalar(b, MUL, x, 1.702));
    return pl_aten_mul(b, x, gate);
}

static int32_t relu_squared(pl_builder *b, int32_t x, const char *target) {
    (void)target;
    pl_line(b, "relu_applied = relu(input)");
    int32_t relu = pl_aten_unary(b, "aten.relu.default", x);
    pl_line(b, "squared = relu_applied ** 2");
    return pl_aten_unary(b, "aten.square.default", relu);
}

static int32_t gelu_clipped(pl_builder *b, int32_t x, const char *target) {
    (void)target;
    int32_t y = pl_aten_gelu(b, x, false);
    pl_call(b, "aten.clip.default");
    pl_call_tensor(b, "self", y);
    pl_call_float(b, "min", -10);
    pl_call_float(b, "max", 10);
    return pl_call_result_like(b, y);
}

/* where(x > 0, a x x + beta x, (expm1(min(x, eps)) - x) c + beta x), a and c learnt: two numbers
 * under softplus. */
static int32_t xielu(pl_builder *b, int32_t x, const char *target) {
    (void)target;
    int32_t p = pl_build_parameter(b, "alpha_p", PL_SIZES(1));
    int32_t n = pl_build_parameter(b, "alpha_n", PL_SIZES(1));
    pl_dtype type = pl_built(b, p)->dtype;
    int32_t beta = pl_build_buffer(b, "beta", type, true, 0, NULL);
    int32_t eps = pl_build_buffer(b, "eps", type, true, 0, NULL);
    pl_line(b, "alpha_p = nn.functional.softplus(self.alpha_p)");
    p = pl_aten_unary(b, "aten.softplus.default", p);
    pl_line(b, "alpha_n = self.beta + nn.functional.softplus(self.alpha_n)");
    n = pl_aten_add(b, beta, pl_aten_unary(b, "aten.softplus.default", n));
    pl_line(b, "return torch.where(");
    int32_t positive = pl_aten_scalar(b, "aten.gt.Scalar", x, 0);
    int32_t above = pl_aten_mul(b, pl_aten_mul(b, p, x), x);
    above = pl_aten_add(b, above, pl_aten_mul(b, beta, x));
    int32_t least = pl_aten_binary(b, "aten.min.other", x, eps);
    int32_t below = pl_aten_unary(b, "aten.expm1.default", least);
    below = pl_aten_mul(b, pl_aten_binary(b, "aten.sub.Tensor", below, x), n);
    below = pl_aten_add(b, below, pl_aten_mul(b, beta, x));
    return pl_aten_where(b, positive, above, below);
}

#define ACTIVATIONS "transformers.activations."
#define TORCH       "torch.nn.modules.activation."

static const struct {
    const char *name, *type;
    int32_t (*make)(pl_builder *b, int32_t x, const char *target);
    const char *target; /* of one_operator */
} activations[] = {
    {"gelu", ACTIVATIONS "GELUActivation", gelu, NULL},
    {"gelu_10", ACTIVATIONS "ClippedGELUActivation", gelu_clipped, NULL},
    {"gelu_accurate", ACTIVATIONS "AccurateGELUActivation", gelu_new, NULL},
    {"gelu_fast", ACTIVATIONS "FastGELUActivation", gelu_fast, NULL},
    {"gelu_new", ACTIVATIONS "NewGELUActivation", gelu_new, NULL},
    {"gelu_python", ACTIVATIONS "GELUActivation", gelu_python, NULL},
    {"gelu_python_tanh", ACTIVATIONS "GELUTanh", gelu_new, NULL},
    {"gelu_pytorch_tanh", ACTIVATIONS "GELUTanh", gelu_tanh, NULL},
    {"hardswish", TORCH "Hardswish", one_operator, "aten.hardswish.default"},
    {"leaky_relu", TORCH "LeakyReLU", one_operator, "aten.leaky_relu.default"},
    {"linear", ACTIVATIONS "LinearActivation", one_operator, NULL},
    {"mish", ACTIVATIONS "MishActivation", one_operator, "aten.mish.default"},
    {"quick_gelu", ACTIVATIONS "QuickGELUActivation", quick_gelu, NULL},
    {"relu", TORCH "ReLU", one_operator, "aten.relu.default"},
    {"relu2", ACTIVATIONS "ReLUSquaredActivation", relu_squared, NULL},
    {"relu6", TORCH "ReLU6", one_operator, "aten.relu6.default"},
    {"sigmoid", TORCH "Sigmoid", one_operator, "aten.sigmoid.default"},
    {"silu", ACTIVATIONS "SiLUActivation", one_operator, "aten.silu.default"},
    {"swish", TORCH "SiLU", one_operator, "aten.silu.default"},
    {"tanh", TORCH "Tanh", one_operator, "aten.tanh.default"},
    {"xielu", ACTIVATIONS "XIELUActivation", xielu, NULL},
};

int32_t pl_hf_activation(pl_hf *m, const char *name, const char *act, int32_t x) {
    for (size_t i = 0; act && i < sizeof activations / sizeof *activations; i++) {
        if (strcmp(activations[i].name, act) != 0) continue;
        pl_module_enter(m->b, name, activations[i].type);
        if (strncmp(activations[i].type, "torch.", 6) != 0) pl_line(m->b, "return act(input)");
        int32_t y = activations[i].make(m->b, x, activations[i].target);
        pl_module_leave(m->b);
        return y;
    }
    static const char *const keys[] = {"hidden_act", "hidden_activation", "activation_function",
                                       "activation", "feed_forward_proj"};
    const char *key = "hidden_act"; /* the one that holds it, for the message */
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (!pl_hf_has(m, keys[i])) continue;
        key = keys[i];
        break;
    }
    pl_hf_refuse(m, key, "no activation called %.40s", act ? act : "");
    return x;
}

/* ---- losses ---- */

#define LOSS_LINE "loss = self.loss_function(logits, labels)"

static int32_t labels_input(pl_hf *m, pl_dtype dtype, int dims, const int64_t *sizes) {
    return pl_build_input(m->b, "labels", dtype, dims, sizes);
}

static void give(pl_hf *m, int32_t loss, int32_t logits) {
    pl_build_output(m->b, loss);
    pl_build_output(m->b, logits);
}

static int32_t flat(pl_builder *b, int32_t x, int64_t classes) {
    return pl_aten_view(b, x, PL_SIZES(-1, classes));
}

void pl_hf_causal_loss(pl_hf *m, int32_t logits) {
    pl_builder *b = m->b;
    int64_t classes = pl_built_size(b, logits, -1);
    int32_t labels = labels_input(m, PL_DT_I64, PL_SIZES(m->batch, m->seq));
    pl_line(b, LOSS_LINE);
    int32_t x = pl_aten_to(b, logits, PL_DT_F32);
    int32_t shifted = pl_aten_pad(b, labels, PL_SIZES(0, 1)); /* with -100 */
    shifted = pl_aten_contiguous(b, pl_aten_slice(b, shifted, 1, 1, INT64_MAX));
    x = flat(b, x, classes);
    shifted = pl_aten_view(b, shifted, PL_SIZES(-1));
    give(m, pl_aten_cross_entropy(b, x, shifted, -100), logits);
}

void pl_hf_token_loss(pl_hf *m, int32_t logits) {
    pl_builder *b = m->b;
    int32_t labels = labels_input(m, PL_DT_I64, PL_SIZES(m->batch, m->seq));
    pl_line(b, LOSS_LINE);
    int32_t x = flat(b, logits, pl_built_size(b, logits, -1));
    labels = pl_aten_view(b, labels, PL_SIZES(-1));
    x = pl_aten_to(b, x, PL_DT_F32);
    give(m, pl_aten_cross_entropy(b, x, labels, -100), logits);
}

/* problem_type: one label is a regression, more are classes; multi_label_classification only where
 * the file says so. */
void pl_hf_classification_loss(pl_hf *m, int32_t logits) {
    pl_builder *b = m->b;
    int64_t classes = pl_built_size(b, logits, -1);
    const char *type = pl_hf_string(m, "problem_type",
                                    classes == 1 ? "regression" : "single_label_classification");
    if (strcmp(type, "single_label_classification") == 0) {
        int32_t labels = labels_input(m, PL_DT_I64, PL_SIZES(m->batch));
        pl_line(b, LOSS_LINE);
        int32_t x = flat(b, logits, classes);
        labels = pl_aten_view(b, labels, PL_SIZES(-1));
        give(m, pl_aten_cross_entropy(b, x, labels, -100), logits);
        return;
    }
    bool one = strcmp(type, "regression") == 0 && classes == 1;
    int64_t sizes[2] = {m->batch, classes};
    int32_t labels = labels_input(m, m->dtype, one ? 1 : 2, sizes), loss;
    pl_line(b, LOSS_LINE);
    if (strcmp(type, "regression") == 0) {
        int32_t x = one ? pl_aten_squeeze(b, logits, -1) : logits;
        loss = pl_aten_mse_loss(b, x, labels);
    } else {
        pl_call(b, "aten.binary_cross_entropy_with_logits.default");
        pl_call_tensor(b, "self", logits);
        pl_call_tensor(b, "target", labels);
        loss = pl_call_result(b, pl_built(b, logits)->dtype, 0, NULL);
    }
    give(m, loss, logits);
}

/* ---- rotary embeddings ---- */

void pl_hf_rotary_of(pl_hf *m, const char *prefix, int64_t dim, int32_t position_ids, pl_dtype like,
                     int32_t *cos, int32_t *sin) {
    pl_builder *b = m->b;
    const char *freq = pl_build_text(b, "%sinv_freq", prefix);
    const char *original = pl_build_text(b, "%soriginal_inv_freq", prefix);
    int32_t buffer = pl_build_buffer(b, freq, PL_DT_F32, false, PL_SIZES(dim / 2));
    pl_build_buffer(b, original, PL_DT_F32, false, PL_SIZES(dim / 2));
    int64_t rows = pl_built_size(b, position_ids, 0);
    bool grad = pl_build_no_grad(b, true);
    pl_autocast region = pl_build_autocast(b, PL_AUTOCAST_OFF);
    pl_line(b, "inv_freq_expanded = inv_freq.float()");
    int32_t f = pl_aten_unsqueeze(b, pl_aten_unsqueeze(b, buffer, 0), 2);
    f = pl_aten_to(b, pl_aten_expand(b, f, PL_SIZES(rows, -1, 1)), PL_DT_F32);
    pl_line(b, "position_ids_expanded = position_ids.float()");
    int32_t p = pl_aten_to(b, pl_aten_unsqueeze(b, position_ids, 1), PL_DT_F32);
    pl_line(b, "freqs = inv_freq_expanded @ position_ids_expanded");
    int32_t freqs = pl_aten_transpose(b, pl_aten_matmul(b, f, p), 1, 2);
    pl_line(b, "emb = torch.cat((freqs, freqs))");
    int32_t emb = pl_aten_cat(b, 2, (int32_t[]){freqs, freqs}, -1);
    pl_line(b, "cos = emb.cos() * attention_scaling");
    int32_t c = pl_aten_scalar(b, MUL, pl_aten_unary(b, "aten.cos.default", emb), 1.0);
    pl_line(b, "sin = emb.sin() * attention_scaling");
    int32_t s = pl_aten_scalar(b, MUL, pl_aten_unary(b, "aten.sin.default", emb), 1.0);
    pl_build_autocast(b, region);
    bool cast = like != PL_DT_UNKNOWN;
    pl_line(b, "return cos.to(dtype=x.dtype), sin.to(dtype=x.dtype)");
    *cos = cast ? pl_aten_to(b, c, like) : c;
    *sin = cast ? pl_aten_to(b, s, like) : s;
    pl_build_no_grad(b, grad);
}

void pl_hf_rotary(pl_hf *m, const char *module, const char *type, int64_t dim, int32_t position_ids,
                  pl_dtype like, int32_t *cos, int32_t *sin) {
    pl_module_enter(m->b, module, type);
    pl_hf_rotary_of(m, "", dim, position_ids, like, cos, sin);
    pl_module_leave(m->b);
}

int32_t pl_hf_rotate(pl_hf *m, int32_t x, int32_t cos, int32_t sin) {
    pl_builder *b = m->b;
    int64_t half = pl_built_size(b, x, -1) / 2;
    int32_t y = pl_aten_mul(b, x, cos);
    int32_t first = pl_aten_slice(b, x, 3, 0, half);
    int32_t second = pl_aten_slice(b, x, 3, half, INT64_MAX);
    second = pl_aten_unary(b, "aten.neg.default", second);
    int32_t turned = pl_aten_cat(b, 2, (int32_t[]){second, first}, -1);
    return pl_aten_add(b, y, pl_aten_mul(b, turned, sin));
}

/* ---- blocks ---- */

int32_t pl_hf_repeat_heads(pl_hf *m, int32_t x, int64_t heads) {
    int64_t kept = pl_built_size(m->b, x, 1), d = pl_built_size(m->b, x, -1);
    if (kept == heads || kept < 1) return x;
    x = pl_aten_unsqueeze(m->b, x, 2);
    x = pl_aten_expand(m->b, x, PL_SIZES(m->batch, kept, heads / kept, m->seq, d));
    return pl_aten_reshape(m->b, x, PL_SIZES(m->batch, heads, m->seq, d));
}

int32_t pl_hf_residual_output(pl_hf *m, int32_t x, int32_t residual, double drop, double eps) {
    pl_line(m->b, "hidden_states = self.dense(hidden_states)");
    x = pl_hf_linear(m, "dense", x, pl_built_size(m->b, residual, -1), true);
    pl_line(m->b, "hidden_states = self.dropout(hidden_states)");
    x = pl_hf_dropout(m, "dropout", x, drop);
    pl_line(m->b, "hidden_states = self.LayerNorm(hidden_states + input_tensor)");
    return pl_hf_layer_norm(m, "LayerNorm", pl_aten_add(m->b, x, residual), eps, true);
}

int32_t pl_hf_last_token(pl_hf *m, int32_t ids, int64_t pad, int32_t logits) {
    pl_builder *b = m->b;
    pl_line(b, "non_pad_mask = (input_ids != pad_token_id).to(torch.int32)");
    int32_t kept = pl_aten_scalar(b, "aten.ne.Scalar", ids, (double)pad);
    kept = pl_aten_to(b, kept, PL_DT_I32);
    pl_line(b, "token_indices = torch.arange(");
    pl_call(b, "aten.arange.default");
    pl_call_int(b, "end", m->seq);
    pl_call_dtype(b, "dtype", PL_DT_I32);
    int32_t at = pl_call_result(b, PL_DT_I32, PL_SIZES(m->seq));
    pl_line(b, "last_non_pad_token = (token_indices * non_pad_mask).argmax(-1)");
    at = pl_aten_mul(b, at, kept);
    pl_call(b, "aten.argmax.default");
    pl_call_tensor(b, "self", at);
    pl_call_int(b, "dim", -1);
    at = pl_call_result(b, PL_DT_I64, PL_SIZES(m->batch));
    pl_line(b, "pooled_logits = logits[torch.arange(batch_size), last_non_pad_token]");
    int32_t rows = pl_aten_arange(b, m->batch);
    return pl_aten_index(b, logits, 2, (int32_t[]){rows, at});
}
