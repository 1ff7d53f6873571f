/* llama_more: further decoders of Llama's plan, a row each; decoder.c has the blocks.
 *
 * Rules: transformers 5.22, models/<package>/modular_<package>.py and configuration_<package>.py. What a
 * class works out of other keys (which layers slide) is in the rows.
 *
 * Left out: Granite's rotary embeddings of several bases (one is made for all layers, each of the
 * size that a layer needs); the casts that Nemotron's norm makes under autocast. */
#include <math.h>

#include "import/families/decoder.h"

#define CAUSAL PL_DECODER_CAUSAL
#define HEADS  PL_DECODER_HEADS
#define ROW    PL_DECODER_ROW
#define PLAN   PL_DECODER_PLAN

#define MUL "aten.mul.Tensor"

/* ---- attention of their own ---- */

/* Each half of the value heads, for all query heads; the second map's share is taken away. */
static int32_t attend_difference(pl_decoding *d, int64_t layer, int32_t q, int32_t k, int32_t v,
                                 bool sliding) {
    pl_builder *b = d->m->b;
    static const char *const names[] = {"lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"};
    int32_t weights[4], values[2], parts[2], lambda[2];
    for (int i = 0; i < 4; i++) weights[i] = pl_build_parameter(b, names[i], PL_SIZES(d->head_dim));
    pl_line(b, "value_states1, value_states2 = chunk(value_states)");
    pl_aten_chunk(b, v, 2, 1, values);
    for (int i = 0; i < 2; i++) values[i] = pl_aten_repeat(b, values[i], PL_SIZES(1, 2, 1, 1));
    int32_t first = pl_decoder_attend(d, q, k, values[0], sliding);
    int32_t second = pl_decoder_attend(d, q, k, values[1], sliding);
    pl_line(b, "1: attn_output = torch.cat([attn_output1, attn_output2], dim=-1)");
    int32_t both = pl_aten_cat(b, 2, (int32_t[]){first, second}, -1);
    pl_line(b, "attn_output1, attn_output2 = torch.chunk(attn_output, 2, dim=2)");
    pl_aten_chunk(b, both, 2, 2, parts);
    for (int i = 0; i < 2; i++) {
        pl_line(b, i ? "lambda_2 = torch.exp(" : "lambda_1 = torch.exp(");
        int32_t sum = pl_aten_mul(b, weights[2 * i], weights[2 * i + 1]);
        sum = pl_aten_reduce(b, "aten.sum.dim_IntList", pl_aten_to(b, sum, PL_DT_F32), -1, false);
        lambda[i] = pl_aten_type_as(b, pl_aten_unary(b, "aten.exp.default", sum), q);
    }
    double start = 0.8 - 0.6 * exp(-0.3 * (double)layer);
    pl_line(b, "lambda_full = lambda_1 - lambda_2 + self.lambda_init");
    int32_t full = pl_aten_binary(b, "aten.sub.Tensor", lambda[0], lambda[1]);
    full = pl_aten_scalar(b, "aten.add.Tensor", full, start);
    pl_line(b, "2: attn_output = attn_output1 - lambda_full * attn_output2");
    int32_t y = pl_aten_binary(b, "aten.sub.Tensor", parts[0], pl_aten_mul(b, full, parts[1]));
    pl_line(b, "3: attn_output = (1 - self.lambda_init) * self.groupnorm(attn_output)");
    pl_module_enter(b, "groupnorm", "torch.nn.modules.normalization.RMSNorm");
    y = pl_aten_rms_norm(b, y, 1, PL_NONE, d->eps);
    pl_module_leave(b);
    return pl_aten_scalar(b, MUL, y, 1 - start);
}

/* With a mask that is worked out of the values, a number to each key and head of values. */
static int32_t attend_dynamic(pl_decoding *d, int64_t layer, int32_t q, int32_t k, int32_t v,
                              bool sliding) {
    (void)layer;
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int64_t batch = m->batch, seq = m->seq;
    if (seq > pl_hf_int(m, "keep_window_size", 2048))
        pl_hf_refuse(m, "keep_window_size", "longer sequences are not built");
    if (pl_hf_bool(m, "is_moe", false)) pl_hf_refuse(m, "is_moe", "its experts are not built");
    int32_t a = pl_build_parameter(b, "A", PL_SIZES(d->kv_heads));
    pl_line(b, "1: dt_states = self.dt_proj(value_states.transpose(1, 2).reshape())");
    int32_t x = pl_aten_reshape(b, pl_aten_transpose(b, v, 1, 2), PL_SIZES(batch, seq, -1));
    x = pl_hf_linear(m, "dt_proj", x, d->kv_heads, d->qkv_bias);
    pl_line(b, "2: dt_states = torch.exp(self.A * F.softplus(dt_states)).transpose(-1, -2)");
    x = pl_aten_mul(b, a, pl_aten_unary(b, "aten.softplus.default", x));
    x = pl_aten_transpose(b, pl_aten_unary(b, "aten.exp.default", x), -1, -2);
    pl_line(b, "1: attn_mask = self.prepare_dynamic_mask(");
    x = pl_aten_expand(b, pl_aten_unsqueeze(b, x, 2), PL_SIZES(-1, -1, seq, -1));
    int32_t zero = pl_aten_make(b, "aten.full.default", m->dtype, 0, NULL, 0),
            least = pl_aten_make(b, "aten.full.default", m->dtype, 0, NULL, -3e38);
    int32_t mask = pl_aten_where(b, d->mask[sliding], pl_aten_type_as(b, zero, d->embeds),
                                 pl_aten_type_as(b, least, d->embeds));
    x = pl_aten_masked_fill(b, x, pl_aten_scalar(b, "aten.ne.Scalar", mask, 0), -3e38);
    pl_line(b, "2: attn_mask = repeat_kv(attn_mask, self.num_key_value_groups)");
    if (d->kv_heads != d->heads) {
        x = pl_aten_expand(b, pl_aten_unsqueeze(b, x, 2),
                           PL_SIZES(batch, d->kv_heads, d->heads / d->kv_heads, seq, seq));
        x = pl_aten_reshape(b, x, PL_SIZES(batch, d->heads, seq, seq));
    }
    d->mask[sliding] = x;
    return pl_decoder_attend(d, q, k, v, sliding);
}

/* Eager attention, scaled by what a sink of each head leaves of it. */
int32_t pl_decoder_attend_sinks(pl_decoding *d, int64_t layer, int32_t q, int32_t k, int32_t v,
                                bool sliding) {
    (void)layer;
    pl_builder *b = d->m->b;
    int32_t sinks = pl_build_parameter(b, "sinks", PL_SIZES(d->heads));
    pl_line(b, "attn_output, attn_weights = eager_attention_forward(");
    k = pl_hf_repeat_heads(d->m, k, d->heads);
    v = pl_hf_repeat_heads(d->m, v, d->heads);
    int32_t w = pl_aten_matmul(b, q, pl_aten_transpose(b, k, 2, 3));
    w = pl_aten_scalar(b, MUL, w, d->scale);
    if (d->mask[sliding] != PL_NONE) w = pl_aten_add(b, w, d->mask[sliding]);
    pl_call(b, "aten.logsumexp.default");
    pl_call_tensor(b, "self", w);
    pl_call_ints(b, "dim", PL_SIZES(-1));
    int32_t share = pl_call_result(b, pl_built(b, w)->dtype,
                                   PL_SIZES(d->m->batch, d->heads, d->m->seq)); /* [B,H,S] */
    share = pl_aten_binary(b, "aten.sub.Tensor", share, pl_aten_view(b, sinks, PL_SIZES(1, -1, 1)));
    share = pl_aten_unary(b, "aten.sigmoid.default", pl_aten_to(b, share, PL_DT_F32));
    w = pl_aten_type_as(b, pl_aten_softmax(b, w, -1, PL_DT_F32), q);
    w = pl_aten_dropout(b, w, d->attention_dropout);
    int32_t y = pl_aten_matmul(b, w, v);
    y = pl_aten_mul(b, y, pl_aten_type_as(b, pl_aten_unsqueeze(b, share, -1), y));
    return pl_aten_contiguous(b, pl_aten_transpose(b, y, 1, 2));
}

/* ---- rows ---- */

#define BIASES .qkv_bias = "attention_bias", .out_bias = "attention_bias"
#define RMS    .eps = "rms_norm_eps"

const pl_hf_family pl_hf_llama_more[] = {
    {ROW("cohere2", CAUSAL),
     PLAN(.package = "cohere2", .prefix = "Cohere2", .norm = PL_NORM_MEAN, .eps = "layer_norm_eps",
          .wiring = PL_WIRING_PARALLEL, .window = PL_WINDOW_PATTERN, .pattern = 4, .tied = true,
          .no_head_dim = true, .rotary_layers = PL_ROTARY_SLIDING, .logit_scale = true, BIASES)},
    {ROW("glm", HEADS),
     PLAN(.package = "glm", .prefix = "Glm", RMS, .mlp = PL_MLP_FUSED, .qkv_bias = "attention_bias",
          .rotary = PL_ROTARY_TWICE, .rotary_share = 0.5)},
    {ROW("glm4", HEADS), PLAN(.package = "glm4", .prefix = "Glm4", RMS, .mlp = PL_MLP_FUSED,
                              .wiring = PL_WIRING_SANDWICH, .qkv_bias = "attention_bias",
                              .rotary = PL_ROTARY_TWICE, .rotary_share = 0.5,
                              .norms = {NULL, "post_self_attn_layernorm",
                                        "post_attention_layernorm", "post_mlp_layernorm"})},
    {ROW("ernie4_5", CAUSAL),
     PLAN(.package = "ernie4_5", .prefix = "Ernie4_5", RMS, .tied = true, .qkv_bias = "use_bias",
          .out_bias = "use_bias", .mlp_bias = "use_bias", .rotary = PL_ROTARY_TWICE,
          .float_rotary = true, .wide_turn = true)},
    {ROW("exaone4", HEADS),
     PLAN(.package = "exaone4", .prefix = "Exaone4", RMS, .wiring = PL_WIRING_POST,
          .qk = PL_QK_HEADS, .window = PL_WINDOW_PATTERN, .pattern = 4,
          .rotary_layers = PL_ROTARY_SLIDING_4)},
    {ROW("olmo3", CAUSAL | 1u << PL_TASK_CLASSIFY),
     PLAN(.package = "olmo3", .prefix = "Olmo3", .norm = PL_NORM_RMS_FLOAT, RMS,
          .wiring = PL_WIRING_POST, .qk = PL_QK_WHOLE, .window = PL_WINDOW_PATTERN, .pattern = 4,
          .float_rotary = true, .two_rotaries = true, BIASES)},
    {ROW("helium", HEADS),
     PLAN(.package = "helium", .prefix = "Helium", .norm = PL_NORM_RMS_WIDE, RMS,
          .qkv_bias = "attention_bias", .mlp_bias = "mlp_bias", .rotary = PL_ROTARY_TWICE)},
    {ROW("seed_oss", HEADS),
     PLAN(.package = "seed_oss", .prefix = "SeedOss", RMS, .qkv_bias = "attention_bias",
          .out_bias = "attention_out_bias", .mlp_bias = "mlp_bias", .mlp_dropouts = true)},
    {ROW("nemotron", HEADS),
     PLAN(.package = "nemotron", .prefix = "Nemotron", .norm = PL_NORM_LAYER_ONE, .eps = "norm_eps",
          .mlp = PL_MLP_PLAIN, .mlp_bias = "mlp_bias", .rotary_share = 0.5, BIASES)},
    {ROW("arcee", HEADS), PLAN(.package = "arcee", .prefix = "Arcee", RMS, .mlp = PL_MLP_PLAIN,
                               .mlp_bias = "mlp_bias", BIASES)},
    {ROW("apertus", CAUSAL | 1u << PL_TASK_TOKENS),
     PLAN(.package = "apertus", .prefix = "Apertus", RMS, .mlp = PL_MLP_PLAIN, .qk = PL_QK_HEADS,
          .norms = {"attention_layernorm", NULL, "feedforward_layernorm"}, BIASES)},
    {ROW("ministral", HEADS),
     PLAN(.package = "ministral", .prefix = "Ministral", RMS, .window = PL_WINDOW_ALL)},
    {ROW("ministral3", HEADS), PLAN(.package = "ministral3", .prefix = "Ministral3", RMS,
                                    .window = PL_WINDOW_ALL, .query_scale = true)},
    {ROW("hunyuan_v1_dense", CAUSAL | 1u << PL_TASK_CLASSIFY),
     PLAN(.package = "hunyuan_v1_dense", .prefix = "HunYuanDenseV1", RMS, .qk = PL_QK_AFTER,
          .qk_names = {"query_layernorm", "key_layernorm"}, BIASES)},
    {ROW("granite_swa", CAUSAL), .no_attention = 1u << PL_ATTN_SDPA,
     PLAN(.package = "granite_swa", .prefix = "GraniteSWA", RMS, .window = PL_WINDOW_FIRST,
          .pattern = 4, .tied = true, .mlp_bias = "mlp_bias", .multipliers = true,
          .eager_only = true, .rotary_layers = PL_ROTARY_THETA, .attend = pl_decoder_attend_sinks,
          BIASES)},
    {ROW("nanochat", CAUSAL),
     PLAN(.package = "nanochat", .prefix = "NanoChat", .norm = PL_NORM_RMS_BARE, RMS,
          .mlp = PL_MLP_PLAIN, .plain = {"fc1", "activation_fn", "fc2"}, .qk = PL_QK_AFTER,
          .norm_first = true, .caps = true, BIASES)},
    {ROW("vaultgemma", CAUSAL), .no_attention = 1u << PL_ATTN_SDPA,
     PLAN(.package = "vaultgemma", .prefix = "VaultGemma", .norm = PL_NORM_RMS_ONE, RMS,
          .norms = {NULL, NULL, "pre_feedforward_layernorm"}, .window = PL_WINDOW_ALTERNATE,
          .tied = true, .scaled_embedding = true, .caps = true, .eager_only = true, BIASES)},
    {ROW("diffllama", HEADS),
     PLAN(.package = "diffllama", .prefix = "DiffLlama", RMS, .attend = attend_difference, BIASES)},
    {ROW("bitnet", CAUSAL), PLAN(.package = "bitnet", .prefix = "BitNet", RMS,
                                 .inner_norms = {"attn_sub_norm", "ffn_sub_norm"}, BIASES)},
    {ROW("jais2", CAUSAL),
     PLAN(.package = "jais2", .prefix = "Jais2", .norm = PL_NORM_LAYER, .eps = "layer_norm_eps",
          .mlp = PL_MLP_PLAIN, .mlp_bias = "mlp_bias", BIASES)},
    {ROW("cwm", CAUSAL), PLAN(.package = "cwm", .prefix = "Cwm", RMS, .window = PL_WINDOW_FIRST,
                              .pattern = 4, .mlp_bias = "mlp_bias")},
    {ROW("hyperclovax", CAUSAL),
     PLAN(.package = "hyperclovax", .prefix = "HyperCLOVAX", RMS, .wiring = PL_WIRING_SANDWICH,
          .post_norm = "use_post_norm", .mlp_bias = "mlp_bias", .multipliers = true,
          .logits_times = true, BIASES,
          .norms = {NULL, "post_norm1", "post_attention_layernorm", "post_norm2"})},
    {ROW("doge", CAUSAL | 1u << PL_TASK_CLASSIFY),
     PLAN(.package = "doge", .prefix = "Doge", .eps = "rms_norm_eps", .qk = PL_QK_VIEW,
          .qkv_bias = "attention_bias", .out_bias = "attention_bias", .mlp_bias = "mlp_bias",
          .window = PL_WINDOW_ALL, .always_masked = true, .residual_weights = true,
          .attend = attend_dynamic)},
    {0},
};
