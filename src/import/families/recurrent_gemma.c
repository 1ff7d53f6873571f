/* recurrent_gemma: RecurrentGemma (Griffin): Llama's plan with a gated linear recurrence in attention's place
 * in two layers of three, a loop over the sequence.
 *
 * Rules: transformers 5.22, models/recurrent_gemma/modeling_recurrent_gemma.py.
 *
 * Where layers and sequence make more than MOST_STEPS steps, neighbours are built as one step over
 * several places: their tensors' bytes add up to the same. */
#include <string.h>

#include "import/families/scan.h"

#define MUL "aten.mul.Tensor"

enum { MOST_STEPS = 1024, MOST_STEPS_A_LAYER = 240 };

/* block_types, over and over. */
static bool recurs(pl_decoding *d, int64_t layer) {
    int64_t count = pl_hf_list(d->m, "block_types");
    if (count < 1) return layer % 3 != 2;
    const char *type = pl_hf_list_string(d->m, "block_types", layer % count, "");
    return strcmp(type, "attention") != 0;
}

static int32_t exp_of(pl_builder *b, int32_t x) {
    return pl_aten_unary(b, "aten.exp.default", x);
}

/* sigmoid(x by a matrix to each block of columns). x [heads,tokens,block] */
static int32_t gate(pl_decoding *d, const char *name, int32_t x, int64_t block) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int32_t weight = pl_build_parameter(b, pl_build_text(b, "%s_weight", name),
                                        PL_SIZES(d->heads, block, block));
    int32_t bias =
        pl_build_parameter(b, pl_build_text(b, "%s_bias", name), PL_SIZES(d->heads, block));
    pl_line(b, pl_build_text(b, "%s: res = torch.baddbmm(", name));
    int32_t y = pl_aten_baddbmm(b, pl_aten_unsqueeze(b, bias, 1), x, weight, 1, 1);
    pl_line(b, pl_build_text(b, "1: %s = torch.sigmoid(res.transpose(0, 1).reshape())", name));
    y = pl_aten_reshape(b, pl_aten_transpose(b, y, 0, 1),
                        PL_SIZES(m->batch, m->seq, d->heads * block));
    return pl_aten_unary(b, "aten.sigmoid.default", y);
}

/* state = gate * state + x, a step after another. x, decay [B,S,width]; reset [1,S,1] */
static int32_t scan(pl_decoding *d, int32_t x, int32_t decay, int32_t reset) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int64_t steps = MOST_STEPS / d->layers;
    if (steps > MOST_STEPS_A_LAYER) steps = MOST_STEPS_A_LAYER;
    if (steps < 1) steps = 1;
    int64_t together = (m->seq + steps - 1) / steps, width = pl_built_size(b, x, -1);
    pl_module_enter(b, "_rnn_scan", "_rnn_scan");
    pl_line(b, "recurrent_gate = recurrent_gate * ~reset");
    decay = pl_aten_mul(b, decay, pl_aten_unary(b, "aten.bitwise_not.default", reset));
    pl_line(b, "0: recurrent_states = torch.zeros(");
    int32_t state =
        pl_aten_make(b, "aten.zeros.default", PL_DT_F32, PL_SIZES(m->batch, 1, width), 0);
    pl_line(b, "contextualized_states = torch.zeros_like(hidden_states)");
    pl_call(b, "aten.zeros_like.default");
    pl_call_tensor(b, "self", x);
    int32_t out = pl_call_result_like(b, x);
    for (int64_t i = 0; i < m->seq && !pl_build_failed(b); i += together) {
        int64_t to = i + together < m->seq ? i + together : m->seq;
        long long at = (long long)i;
        if (pl_built_size(b, state, 1) > to - i) state = pl_aten_slice(b, state, 1, 0, to - i);
        pl_line(b, pl_build_text(b, "%lld: recurrent_states = gate[:, t] * states", at));
        int32_t by = pl_aten_to(b, pl_aten_slice(b, decay, 1, i, to), PL_DT_F32);
        state = pl_aten_mul(b, by, state);
        pl_line(b, pl_build_text(b, "%lldb: recurrent_states = states + hidden[:, t]", at));
        int32_t more = pl_aten_to(b, pl_aten_slice(b, x, 1, i, to), PL_DT_F32);
        state = pl_aten_add(b, state, more);
        pl_line(b, "");
        int32_t part = pl_scan_to_type_of(b, state, x), place = pl_aten_slice(b, out, 1, i, to);
        pl_call(b, "aten.copy_.default");
        pl_call_tensor(b, "self", place);
        pl_call_tensor(b, "src", part);
        pl_call_result_like(b, place);
    }
    pl_module_leave(b);
    return out;
}

/* x [B,S,width] */
static int32_t unit(pl_decoding *d, int32_t x) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int64_t width = pl_built_size(b, x, -1), block = width / d->heads;
    pl_module_enter(b, "rg_lru", pl_decoder_type(d, "Rglru"));
    int32_t weight = pl_build_parameter(b, "recurrent_param", PL_SIZES(width));
    pl_line(b, "reset = position_ids[:, :, None] == 0");
    int32_t reset =
        pl_aten_scalar(b, "aten.eq.Scalar", pl_aten_unsqueeze(b, d->position_ids, 2), 0);
    pl_line(b, "1: reshape_act = activations.reshape(");
    int32_t y = pl_aten_reshape(b, x, PL_SIZES(m->batch * m->seq, d->heads, block));
    pl_line(b, "2: reshape_act = reshape_act.permute(1, 0, 2)");
    y = pl_aten_permute(b, y, 3, (int64_t[]){1, 0, 2});
    int32_t in = gate(d, "input_gate", y, block), again = gate(d, "recurrent_gate", y, block);
    pl_line(b, "log_recurrent_gate = -8.0 * recurrent_gate * softplus(self.recurrent_param)");
    int32_t soft = pl_aten_unary(b, "aten.softplus.default", weight);
    int32_t log = pl_aten_mul(b, pl_aten_scalar(b, MUL, again, -8), soft);
    pl_line(b, "2: recurrent_gate = torch.exp(log_recurrent_gate)");
    again = exp_of(b, log);
    pl_line(b, "a_square = torch.exp(2 * log_recurrent_gate)");
    int32_t square = exp_of(b, pl_aten_scalar(b, MUL, log, 2));
    pl_line(b, "gated_inputs = activations * input_gate");
    x = pl_aten_mul(b, x, in);
    pl_line(b, "1: multiplier = SqrtBoundDerivative.apply(1 - a_square)");
    pl_call(b, "aten.rsub.Scalar");
    pl_call_tensor(b, "self", square);
    pl_call_float(b, "other", 1);
    y = pl_call_result_like(b, square);
    y = pl_aten_unary(b, "transformers.sqrt_bound_derivative.default", y);
    pl_line(b, "2: multiplier = reset + ~reset * multiplier");
    int32_t rest = pl_aten_unary(b, "aten.bitwise_not.default", reset);
    y = pl_aten_add(b, reset, pl_aten_mul(b, rest, y));
    pl_line(b, "normalized_x = gated_inputs * multiplier.type(activations.dtype)");
    x = pl_aten_mul(b, x, pl_scan_to_type_of(b, y, x));
    pl_line(b, "hidden_states, recurrent_states = self._rnn_scan(");
    x = scan(d, x, again, reset);
    pl_module_leave(b);
    return x;
}

static int32_t recurrent(pl_decoding *d, int32_t x) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int64_t width = pl_hf_int(m, "lru_width", d->width), kernel = pl_hf_int(m, "conv1d_width", 4);
    if (width < 1 || width % d->heads != 0 || kernel < 1) {
        pl_hf_refuse(m, "lru_width", "expected a multiple of num_attention_heads, %lld",
                     (long long)d->heads);
        return x;
    }
    pl_module_enter(b, "temporal_block", pl_decoder_type(d, "RecurrentBlock"));
    pl_module_children(b, "linear_y linear_x linear_out conv_1d rg_lru");
    pl_line(b, "1: y_branch = self.linear_y(input_states)");
    int32_t y = pl_hf_linear(m, "linear_y", x, width, true);
    pl_line(b, "2: y_branch = self.act_fn(y_branch)");
    y = pl_hf_activation(m, "act_fn", d->act, y);
    pl_line(b, "1: x_branch = self.linear_x(input_states)");
    x = pl_hf_linear(m, "linear_x", x, width, true);
    pl_line(b, "2: x_branch = x_branch.transpose(1, 2)");
    x = pl_aten_transpose(b, x, 1, 2);
    pl_line(b, "3: x_branch = self.conv_1d(x_branch)[..., :seq_len]");
    pl_module_enter(b, "conv_1d", "torch.nn.modules.conv.Conv1d");
    int32_t weight = pl_build_parameter(b, "weight", PL_SIZES(width, 1, kernel));
    int32_t bias = pl_build_parameter(b, "bias", PL_SIZES(width));
    x = pl_aten_conv(b, 1, x, weight, bias, (int64_t[]){1}, (int64_t[]){kernel - 1}, (int64_t[]){1},
                     width);
    pl_module_leave(b);
    x = pl_aten_slice(b, x, 2, 0, m->seq);
    pl_line(b, "4: x_branch = self.rg_lru(x_branch.transpose(1, 2), position_ids)");
    x = unit(d, pl_aten_transpose(b, x, 1, 2));
    pl_line(b, "1: hidden_states = x_branch * y_branch");
    x = pl_aten_mul(b, x, y);
    pl_line(b, "2: hidden_states = self.linear_out(hidden_states)");
    x = pl_hf_linear(m, "linear_out", x, d->width, true);
    pl_module_leave(b);
    return x;
}

static int32_t layer(pl_decoding *d, int64_t index, int32_t x) {
    pl_builder *b = d->m->b;
    pl_module_enter(b, pl_build_text(b, "layers.%lld", (long long)index), d->layer_type);
    pl_module_children(b, "temporal_pre_norm temporal_block channel_pre_norm mlp_block");
    pl_line(b, "inputs_normalized = self.temporal_pre_norm(raw_activations)");
    int32_t y = pl_decoder_norm(d, "temporal_pre_norm", x);
    pl_line(b, "1: hidden_states = self.temporal_block(inputs_normalized)");
    if (recurs(d, index)) {
        y = recurrent(d, y);
    } else {
        pl_decoder_make_rotary(d, d->position_ids); /* each layer makes its own */
        y = pl_decoder_attention(d, index, y);
    }
    pl_line(b, "residual = hidden_states + raw_activations");
    x = pl_aten_add(b, y, x);
    pl_line(b, "2: hidden_states = self.channel_pre_norm(residual)");
    y = pl_decoder_norm(d, "channel_pre_norm", x);
    pl_line(b, "3: hidden_states = self.mlp_block(hidden_states)");
    y = pl_decoder_feed_forward(d, index, y);
    pl_line(b, "4: hidden_states = hidden_states + residual");
    x = pl_aten_add(b, y, x);
    pl_module_leave(b);
    return x;
}

static int32_t layers(pl_decoding *d, int32_t x) {
    pl_builder *b = d->m->b;
    int32_t by = pl_build_buffer(b, "normalizer", PL_DT_F32, false, 0, NULL);
    pl_line(b, "hidden_states = hidden_states * self.normalizer.type(hidden_states.dtype)");
    x = pl_aten_mul(b, x, pl_aten_to(b, by, d->m->dtype));
    for (int64_t i = 0; i < d->layers && !pl_build_failed(b); i++) x = layer(d, i, x);
    return x;
}

static int64_t half(pl_hf *m, int64_t inner) {
    (void)m;
    return inner / 2;
}

const pl_hf_family pl_hf_recurrent_gemma[] = {
    {PL_DECODER_ROW("recurrent_gemma", PL_DECODER_CAUSAL),
     PL_DECODER_PLAN(.package = "recurrent_gemma", .prefix = "RecurrentGemma",
                     .norm = PL_NORM_RMS_ONE, .eps = "rms_norm_eps", .window = PL_WINDOW_ALL,
                     .tied = true, .qkv_bias = "attention_bias", .out_bias = "", .mlp_bias = "",
                     .caps = true, .rotary_share = 0.5, .inner_of = half, .layers = layers,
                     .last_norm = "final_norm")},
    {0},
};
