/* mixtures: decoders whose feed-forward layers are mixtures of experts, a row each. decoder.c has their
 * layers, latent.c the attention of those that follow DeepSeek, experts.c and routers.c the experts.
 *
 * Rules: transformers 5.22, models/<package>/modeling_<package>.py, which the modular_*.py beside it are
 * the shorter form of.
 *
 * Left out: output_router_logits' extra loss (small); layers that predict further tokens (MTP), which
 * transformers leaves out too. */
#include <string.h>

#include "import/families/experts.h"
#include "import/families/latent.h"
#include "import/families/llama4.h"
#include "import/hf_config.h"

/* ---- routers ---- */

#define SOFTMAX                                                                                    \
    .type = "TopKRouter", .scores = PL_SCORES_SOFTMAX, .sum = PL_SUM_ASKED, .cast = PL_CAST_LOGITS
#define SIGMOID(of)                                                                                \
    .logits = PL_LOGITS_FLOAT, .scores = PL_SCORES_SIGMOID, .bias = of, .least = 1e-20
#define GROUPED_SIGMOID                                                                            \
    SIGMOID(PL_BIAS_BUFFER), .type = "TopkRouter", .groups = PL_GROUPS_TOP2, .sum = PL_SUM_ASKED,  \
                             .scale = "routed_scaling_factor"
#define LATE                                                                                       \
    .type = "TopKRouter", .name = "router", .logits = PL_LOGITS_AFTER, .scores = PL_SCORES_LATE,   \
    .cast = PL_CAST_INPUT

/* ---- mixtures ---- */

#define SPARSE_BLOCK .type = "SparseMoeBlock", .children = "gate experts"
#define OWN_SIZE     .inner = "moe_intermediate_size"

static const pl_mixture mixtral = {
    SPARSE_BLOCK,
    .router = {.type = "TopKRouter", .scores = PL_SCORES_FLOATED, .sum = PL_SUM_ALWAYS}};

static const pl_mixture qwen2 = {SPARSE_BLOCK " shared_expert shared_expert_gate",
                                 OWN_SIZE,
                                 .router = {SOFTMAX},
                                 .beside = PL_BESIDE_GATED,
                                 .beside_name = "shared_expert",
                                 .beside_inner = "shared_expert_intermediate_size",
                                 .sparse = PL_SPARSE_STEP};

static const pl_mixture qwen3 = {.type = "SparseMoeBlock",
                                 .children = "experts gate",
                                 OWN_SIZE,
                                 .router = {SOFTMAX},
                                 .sparse = PL_SPARSE_STEP};

static const pl_mixture olmoe = {SPARSE_BLOCK, .router = {SOFTMAX}};

static const pl_mixture mellum = {.type = "SparseMoeBlock",
                                  .children = "experts gate",
                                  OWN_SIZE,
                                  .router = {SOFTMAX},
                                  .sparse = PL_SPARSE_TYPES};

/* DeepSeek's: experts and, in the end, one layer as wide as the shared experts are together. */
#define DEEPSEEK_SHARED                                                                            \
    .beside = PL_BESIDE_AFTER, .beside_name = "shared_experts",                                    \
    .beside_inner = "moe_intermediate_size", .beside_count = "n_shared_experts"
#define DEEPSEEK                                                                                   \
    .type = "MoE", .children = "experts gate shared_experts", .experts = "n_routed_experts",       \
    OWN_SIZE, .router = {GROUPED_SIGMOID}, DEEPSEEK_SHARED

static const pl_mixture deepseek_v3 = {DEEPSEEK, .sparse = PL_SPARSE_FIRST};
static const pl_mixture deepseek_types = {DEEPSEEK, .sparse = PL_SPARSE_TYPES, .usual_first = 1};
static const pl_mixture deepseek_3_types = {DEEPSEEK, .sparse = PL_SPARSE_TYPES, .usual_first = 3};
static const pl_mixture deepseek_all = {DEEPSEEK};
static const pl_mixture axk1 = {DEEPSEEK, .sparse = PL_SPARSE_TYPES, .usual_first = 1,
                                .after = "post_mlp_layernorm"};

static const pl_mixture deepseek_v2 = {.type = "Moe",
                                       .children = "experts gate shared_experts",
                                       .experts = "n_routed_experts",
                                       OWN_SIZE,
                                       .router = {.type = "TopkRouter",
                                                  .logits = PL_LOGITS_FLOAT,
                                                  .scores = PL_SCORES_SOFTMAX,
                                                  .groups = PL_GROUPS_MAX,
                                                  .scale = "routed_scaling_factor"},
                                       DEEPSEEK_SHARED,
                                       .sparse = PL_SPARSE_FIRST};

static const pl_mixture exaone = {.type = "SparseMoEBlock",
                                  .children = "experts gate shared_experts",
                                  OWN_SIZE,
                                  .router = {GROUPED_SIGMOID},
                                  .beside = PL_BESIDE_AFTER,
                                  .beside_name = "shared_experts",
                                  .beside_inner = "moe_intermediate_size",
                                  .beside_count = "num_shared_experts",
                                  .sparse = PL_SPARSE_TYPES,
                                  .usual_first = 1};

static const pl_mixture granite = {
    .type = "MoE", .name = "block_sparse_moe", .children = "router experts", .router = {LATE}};

static const pl_mixture granite_shared = {.type = "MoE",
                                          .name = "block_sparse_moe",
                                          .children = "router experts",
                                          .router = {LATE},
                                          .beside = PL_BESIDE_LAYER,
                                          .beside_name = "shared_mlp",
                                          .beside_inner = "shared_intermediate_size"};

static const pl_mixture aria = {
    .type = "MoELayer",
    .children = "router experts shared_experts",
    .experts = "moe_num_experts",
    .chosen = "moe_topk",
    .router = {.type = "TopKRouter", .name = "router", .scores = PL_SCORES_LATE},
    .beside = PL_BESIDE_AFTER,
    .beside_name = "shared_experts",
    .beside_inner = "intermediate_size",
    .beside_count = "moe_num_shared_experts"};

static const pl_mixture ernie = {SPARSE_BLOCK " shared_experts",
                                 OWN_SIZE,
                                 .experts = "moe_num_experts|num_experts",
                                 .chosen = "moe_k|num_experts_per_tok",
                                 .router = {.type = "TopKRouter",
                                            .logits = PL_LOGITS_FLOAT,
                                            .scores = PL_SCORES_SOFTMAX,
                                            .bias = PL_BIAS_STATICS,
                                            .sum = PL_SUM_ALWAYS,
                                            .sum_clamped = true,
                                            .sum_copied = true,
                                            .cast = PL_CAST_INPUT,
                                            .no_autocast = true},
                                 .beside = PL_BESIDE_BEFORE,
                                 .beside_name = "shared_experts",
                                 .beside_inner = "moe_intermediate_size",
                                 .beside_count = "moe_num_shared_experts",
                                 .sparse = PL_SPARSE_RANGE};

static const pl_mixture hunyuan = {.type = "Moe",
                                   .children = "gate experts shared_mlp",
                                   .experts = "num_experts",
                                   .chosen = "moe_topk",
                                   .router = {.type = "Gate",
                                              .linear = "wg",
                                              .logits = PL_LOGITS_FLOAT,
                                              .scores = PL_SCORES_SOFTMAX,
                                              .sum = PL_SUM_ALWAYS,
                                              .cast = PL_CAST_LOGITS},
                                   .beside = PL_BESIDE_WHOLE,
                                   .beside_name = "shared_mlp"};

static const pl_mixture minimax_m2 = {SPARSE_BLOCK, .router = {.type = "TopKRouter",
                                                               .scores = PL_SCORES_SIGMOID_FLOAT,
                                                               .bias = PL_BIAS_BLOCK,
                                                               .sum = PL_SUM_ALWAYS}};

static const pl_mixture cohere2 = {
    SPARSE_BLOCK " shared_experts",
    .router = {.type = "TopKRouter", .scores = PL_SCORES_LATE_CHOSEN, .cast = PL_CAST_INPUT},
    .beside = PL_BESIDE_LAST,
    .beside_name = "shared_experts",
    .beside_inner = "intermediate_size",
    .beside_count = "num_shared_experts",
    .halved = "shared_expert_combination_strategy",
    .dense_inner = "prefix_dense_intermediate_size",
    .sparse = PL_SPARSE_TYPES};

static const pl_mixture hy_v3 = {.type = "MoE",
                                 .children = "gate experts shared_experts",
                                 OWN_SIZE,
                                 .router = {.type = "TopKRouter",
                                            SIGMOID(PL_BIAS_BLOCK),
                                            .sum = PL_SUM_ALWAYS,
                                            .sum_copied = true,
                                            .scale = "router_scaling_factor"},
                                 .beside = PL_BESIDE_LAST,
                                 .beside_name = "shared_experts",
                                 .beside_inner = "moe_intermediate_size",
                                 .beside_count = "num_shared_experts",
                                 .wide = "enable_moe_fp32_combine",
                                 .sparse = PL_SPARSE_TYPES,
                                 .usual_first = 1};

static const pl_mixture kolibri = {.type = "SparseMoeBlock",
                                   .children = "experts gate shared_experts",
                                   OWN_SIZE,
                                   .router = {.type = "TopKRouter",
                                              .logits = PL_LOGITS_FLOAT,
                                              .scores = PL_SCORES_LATE_SIGMOID,
                                              .bias = PL_BIAS_BUFFER,
                                              .sum = PL_SUM_ASKED,
                                              .sum_copied = true},
                                   .beside = PL_BESIDE_AFTER,
                                   .beside_name = "shared_experts",
                                   .beside_inner = "shared_expert_intermediate_size"};

static const pl_mixture afmoe = {.type = "SparseMoeBlock",
                                 .children = "router shared_experts experts",
                                 OWN_SIZE,
                                 .router = {.type = "TokenChoiceRouter",
                                            .name = "router",
                                            .linear = "gate",
                                            .logits = PL_LOGITS_AFTER,
                                            .scores = PL_SCORES_SIGMOID,
                                            .bias = PL_BIAS_BLOCK_FROZEN,
                                            .least = 1e-20,
                                            .sum = PL_SUM_ALWAYS,
                                            .sum_copied = true,
                                            .scale = "route_scale"},
                                 .beside = PL_BESIDE_BEFORE,
                                 .beside_name = "shared_experts",
                                 .beside_inner = "moe_intermediate_size",
                                 .beside_count = "num_shared_experts",
                                 .sparse = PL_SPARSE_FIRST,
                                 .first = "num_dense_layers"};

static const pl_mixture laguna = {.type = "SparseMoeBlock",
                                  .children = "experts gate shared_experts",
                                  OWN_SIZE,
                                  .router = {.type = "TopKRouter",
                                             .logits = PL_LOGITS_AFTER,
                                             .scores = PL_SCORES_SIGMOID,
                                             .bias = PL_BIAS_FROZEN,
                                             .sum = PL_SUM_ALWAYS,
                                             .sum_copied = true,
                                             .cast = PL_CAST_INPUT,
                                             .cap = "moe_router_logit_softcapping"},
                                  .beside = PL_BESIDE_BEFORE,
                                  .beside_name = "shared_experts",
                                  .beside_inner = "shared_expert_intermediate_size",
                                  .scale = "moe_routed_scaling_factor",
                                  .sparse = PL_SPARSE_TYPES,
                                  .usual_first = 1};

static const pl_mixture gpt_oss = {.type = "MLP",
                                   .children = "router experts",
                                   .router = {.type = "TopKRouter",
                                              .name = "router",
                                              .scores = PL_SCORES_LATE,
                                              .weight_bias = true},
                                   .plan = {.turned = true, .biased = true, .clamped = true}};

static const pl_mixture llama4 = {.type = "Moe"};

static const pl_latent interleaved = {.interleaved = true}, complex_pairs = {0}, halves = {0},
                       indexed = {.interleaved = true, .indexer = PL_INDEXER_HALVES},
                       indexed_pairs = {.interleaved = true, .indexer = PL_INDEXER_PAIRS};

/* ---- attention of their own ---- */

/* The sinks stand beside the scores as one more column, which is dropped behind the softmax. */
static int32_t attend_joined_sinks(pl_decoding *d, int64_t layer, int32_t q, int32_t k, int32_t v,
                                   bool sliding) {
    (void)layer;
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int32_t sinks = pl_build_parameter(b, "sinks", PL_SIZES(d->heads));
    pl_line(b, "key_states = repeat_kv(key, module.num_key_value_groups)");
    k = pl_hf_repeat_heads(m, k, d->heads);
    pl_line(b, "value_states = repeat_kv(value, module.num_key_value_groups)");
    v = pl_hf_repeat_heads(m, v, d->heads);
    pl_line(b, "1: attn_weights = torch.matmul(query, key_states.transpose(2, 3)) * scaling");
    int32_t w = pl_aten_matmul(b, q, pl_aten_transpose(b, k, 2, 3));
    w = pl_aten_scalar(b, "aten.mul.Tensor", w, d->scale);
    pl_line(b, "2: attn_weights = attn_weights + attention_mask");
    if (d->mask[sliding] != PL_NONE) w = pl_aten_add(b, w, d->mask[sliding]);
    pl_line(b, "sinks = module.sinks.reshape(1, -1, 1, 1).expand()");
    sinks = pl_aten_reshape(b, sinks, PL_SIZES(1, -1, 1, 1));
    sinks = pl_aten_expand(b, sinks, PL_SIZES(m->batch, -1, m->seq, -1));
    pl_line(b, "1: combined_logits = torch.cat([attn_weights, sinks], dim=-1)");
    w = pl_aten_cat(b, 2, (int32_t[]){w, sinks}, -1);
    pl_line(b, "2: combined_logits = combined_logits - combined_logits.max(dim=-1).values");
    pl_dtype type = pl_built(b, w)->dtype;
    pl_call(b, "aten.max.dim");
    pl_call_tensor(b, "self", w);
    pl_call_int(b, "dim", -1);
    pl_call_bool(b, "keepdim", true);
    int32_t most = pl_call_result(b, type, PL_SIZES(m->batch, d->heads, m->seq, 1));
    pl_call_result(b, PL_DT_I64, PL_SIZES(m->batch, d->heads, m->seq, 1));
    w = pl_aten_binary(b, "aten.sub.Tensor", w, most);
    pl_line(b, "probs = F.softmax(combined_logits, dim=-1)");
    w = pl_aten_softmax(b, w, -1, 0);
    pl_line(b, "scores = probs[..., :-1]");
    w = pl_aten_slice(b, w, 3, 0, -1);
    pl_line(b, "3: attn_weights = dropout(scores).to(value_states.dtype)");
    w = pl_aten_type_as(b, pl_aten_dropout(b, w, d->attention_dropout), v);
    pl_line(b, "1: attn_output = torch.matmul(attn_weights, value_states)");
    int32_t y = pl_aten_matmul(b, w, v);
    pl_line(b, "2: attn_output = attn_output.transpose(1, 2).contiguous()");
    return pl_aten_contiguous(b, pl_aten_transpose(b, y, 1, 2));
}

/* What the heads give, times the sigmoid of a projection of the layer's input. */
static int32_t attend_gated(pl_decoding *d, int64_t layer, int32_t q, int32_t k, int32_t v,
                            bool sliding) {
    (void)layer;
    pl_builder *b = d->m->b;
    pl_line(b, "gate_states = self.gate_proj(hidden_states)");
    int32_t gate = pl_hf_linear(d->m, "gate_proj", d->input, d->heads * d->head_dim, false);
    int32_t y = pl_decoder_attend(d, q, k, v, sliding);
    pl_line(b, "1: output = output.view(*input_shape, -1).contiguous()");
    y = pl_aten_view(b, y, PL_SIZES(d->m->batch, d->m->seq, -1));
    pl_line(b, "2: output = output * torch.sigmoid(gate_states)");
    return pl_aten_mul(b, y, pl_aten_unary(b, "aten.sigmoid.default", gate));
}

/* What the heads give, times softplus of a projection of the layer's input: a number to each head,
 * or, where gating is another word, to each of their numbers. */
static int32_t attend_softplus(pl_decoding *d, int64_t layer, int32_t q, int32_t k, int32_t v,
                               bool sliding) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    const char *how = pl_config_text(m->config, "gating"); /* or true */
    bool per_head = !how || strcmp(how, "per-head") == 0;
    for (int64_t i = 0, count = pl_hf_list(m, "num_attention_heads_per_layer"); i < count; i++)
        if (pl_hf_list_int(m, "num_attention_heads_per_layer", i, d->heads) != d->heads) {
            pl_hf_refuse(m, "num_attention_heads_per_layer", "layers of other heads are not built");
            return PL_NONE;
        }
    (void)layer;
    int32_t y = pl_decoder_attend(d, q, k, v, sliding);
    pl_line(b, "1: attn_output = attn_output.reshape(*input_shape, -1).contiguous()");
    y = pl_aten_reshape(b, y, PL_SIZES(m->batch, m->seq, -1));
    pl_line(b, "gate = F.softplus(self.g_proj(hidden_states).float()).to(attn_output.dtype)");
    int64_t wide = per_head ? d->heads : d->heads * d->head_dim;
    int32_t gate = pl_aten_to(b, pl_hf_linear(m, "g_proj", d->input, wide, false), PL_DT_F32);
    gate = pl_aten_type_as(b, pl_aten_unary(b, "aten.softplus.default", gate), y);
    pl_line(b, "2: attn_output = attn_output * gate");
    if (!per_head) return pl_aten_mul(b, y, gate);
    y = pl_aten_view(b, y, PL_SIZES(m->batch, m->seq, -1, d->head_dim));
    y = pl_aten_mul(b, y, pl_aten_unsqueeze(b, gate, -1));
    return pl_aten_view(b, y, PL_SIZES(m->batch, m->seq, -1));
}

/* ---- families ---- */

#define EVEN             "tokens are taken to be spread evenly over the experts"
#define CAUSAL           PL_DECODER_CAUSAL
#define HEADS            PL_DECODER_HEADS
#define NO_TAGS          (CAUSAL | 1u << PL_TASK_CLASSIFY)
#define ROW(type, which) PL_DECODER_ROW(type, which), .warning = EVEN
#define PLAN(...)        PL_DECODER_PLAN(.mlp = PL_MLP_EXPERTS, __VA_ARGS__)
#define RMS              .eps = "rms_norm_eps"
#define BIASES           .qkv_bias = "attention_bias", .out_bias = "attention_bias"
#define ALL_BY(key)      .qkv_bias = key, .out_bias = key, .mlp_bias = key
#define LATENT           .qkv_bias = "attention_bias", .out_bias = "attention_bias", .latent = &interleaved

const pl_hf_family pl_hf_mixtures[] = {
    {ROW("mixtral", HEADS), PLAN(.package = "mixtral", .prefix = "Mixtral", RMS,
                                 .window = PL_WINDOW_ALL, .mixture = &mixtral)},
    {ROW("qwen2_moe", HEADS), PLAN(.package = "qwen2_moe", .prefix = "Qwen2Moe", RMS,
                                   .qkv_bias = "", .window = PL_WINDOW_LAST, .mixture = &qwen2)},
    {ROW("qwen3_moe", HEADS),
     PLAN(.package = "qwen3_moe", .prefix = "Qwen3Moe", RMS, .qk = PL_QK_VIEW, BIASES,
          .window = PL_WINDOW_LAST, .mixture = &qwen3)},
    {ROW("deepseek_v2", NO_TAGS),
     PLAN(.package = "deepseek_v2", .prefix = "DeepseekV2", RMS, BIASES, .latent = &complex_pairs,
          .rotary = PL_ROTARY_COMPLEX, .mlp_bias = "mlp_bias", .mixture = &deepseek_v2)},
    {ROW("deepseek_v3", HEADS),
     PLAN(.package = "deepseek_v3", .prefix = "DeepseekV3", RMS, LATENT, .mixture = &deepseek_v3)},
    {ROW("deepseek_v32", HEADS),
     PLAN(.package = "deepseek_v32", .prefix = "DeepseekV32", RMS, BIASES, .latent = &indexed,
          .always_masked = true, .mixture = &deepseek_3_types)},
    {ROW("glm_moe_dsa", CAUSAL),
     PLAN(.package = "glm_moe_dsa", .prefix = "GlmMoeDsa", RMS, BIASES, .latent = &indexed_pairs,
          .always_masked = true, .mixture = &deepseek_3_types)},
    {ROW("glm4_moe", CAUSAL),
     PLAN(.package = "glm4_moe", .prefix = "Glm4Moe", RMS, .qkv_bias = "attention_bias",
          .qk = PL_QK_VIEW, .qk_key = "use_qk_norm", .rotary_share = 0.5, .mixture = &deepseek_v3)},
    {ROW("glm4_moe_lite", CAUSAL), PLAN(.package = "glm4_moe_lite", .prefix = "Glm4MoeLite", RMS,
                                        LATENT, .mixture = &deepseek_types)},
    {ROW("dots1", CAUSAL),
     PLAN(.package = "dots1", .prefix = "Dots1", RMS, BIASES, .qk = PL_QK_VIEW,
          .window = PL_WINDOW_FROM, .mixture = &deepseek_v3)},
    {ROW("solar_open", CAUSAL),
     PLAN(.package = "solar_open", .prefix = "SolarOpen", RMS, .qkv_bias = "attention_bias",
          .rotary_share = 1, .mixture = &deepseek_all)},
    {ROW("axk1", CAUSAL), PLAN(.package = "axk1", .prefix = "AXK1", RMS, LATENT, .mixture = &axk1)},
    {ROW("exaone_moe", CAUSAL), PLAN(.package = "exaone_moe", .prefix = "ExaoneMoe", RMS,
                                     .qk = PL_QK_HEADS, .window = PL_WINDOW_PATTERN, .pattern = 4,
                                     .rotary_layers = PL_ROTARY_SLIDING_4, .mixture = &exaone)},
    {ROW("olmoe", CAUSAL), PLAN(.package = "olmoe", .prefix = "Olmoe", RMS, BIASES,
                                .qk = PL_QK_WHOLE, .mixture = &olmoe)},
    {ROW("flex_olmo", CAUSAL),
     PLAN(.package = "flex_olmo", .prefix = "FlexOlmo", .norm = PL_NORM_RMS_FLOAT, RMS, BIASES,
          .wiring = PL_WIRING_POST, .qk = PL_QK_WHOLE, .float_rotary = true, .mixture = &olmoe)},
    {ROW("mellum", CAUSAL),
     PLAN(.package = "mellum", .prefix = "Mellum", RMS, BIASES, .qk = PL_QK_VIEW,
          .window = PL_WINDOW_PATTERN, .two_rotaries = true, .mixture = &mellum)},
    {ROW("granitemoe", CAUSAL), PLAN(.package = "granitemoe", .prefix = "GraniteMoe", RMS, BIASES,
                                     .multipliers = true, .mixture = &granite)},
    {ROW("granitemoeshared", CAUSAL),
     PLAN(.package = "granitemoeshared", .prefix = "GraniteMoeShared", RMS, BIASES,
          .multipliers = true, .mixture = &granite_shared)},
    {ROW("granitemoe_swa", CAUSAL), .no_attention = 1u << PL_ATTN_SDPA,
     PLAN(.package = "granitemoe_swa", .prefix = "GraniteMoeSWA", RMS, BIASES,
          .window = PL_WINDOW_FIRST, .pattern = 4, .multipliers = true, .eager_only = true,
          .rotary_layers = PL_ROTARY_THETA, .attend = pl_decoder_attend_sinks,
          .mixture = &granite_shared)},
    {ROW("aria_text", CAUSAL), PLAN(.package = "aria", .prefix = "AriaText", RMS, BIASES,
                                    .mlp_bias = "mlp_bias", .mixture = &aria)},
    {ROW("ernie4_5_moe", CAUSAL),
     PLAN(.package = "ernie4_5_moe", .prefix = "Ernie4_5_Moe", RMS, ALL_BY("use_bias"),
          .head_bias = "use_bias", .rotary = PL_ROTARY_TWICE, .float_rotary = true,
          .wide_turn = true, .mixture = &ernie)},
    {ROW("hunyuan_v1_moe", NO_TAGS),
     PLAN(.package = "hunyuan_v1_moe", .prefix = "HunYuanMoEV1", RMS, BIASES, .qk = PL_QK_AFTER,
          .qk_names = {"query_layernorm", "key_layernorm"}, .mixture = &hunyuan)},
    {ROW("minimax_m2", HEADS), PLAN(.package = "minimax_m2", .prefix = "MiniMaxM2", RMS,
                                    .qk = PL_QK_WHOLE, .rotary_share = 1, .mixture = &minimax_m2)},
    {ROW("cohere2_moe", CAUSAL),
     PLAN(.package = "cohere2_moe", .prefix = "Cohere2Moe", .norm = PL_NORM_MEAN,
          .eps = "layer_norm_eps", .wiring = PL_WIRING_PARALLEL, .window = PL_WINDOW_PATTERN,
          .pattern = 4, .tied = true, .rotary_layers = PL_ROTARY_SLIDING, .logit_scale = true,
          BIASES, .mixture = &cohere2)},
    {ROW("hy_v3", CAUSAL), PLAN(.package = "hy_v3", .prefix = "HYV3", RMS, BIASES,
                                .mlp_bias = "mlp_bias", .qk = PL_QK_HEADS, .mixture = &hy_v3)},
    {ROW("kolibri1", CAUSAL),
     PLAN(.package = "kolibri1", .prefix = "Kolibri1", RMS, .wiring = PL_WIRING_SANDWICH,
          .norms = {NULL, "post_self_attn_layernorm", "post_attention_layernorm",
                    "post_mlp_layernorm"},
          .qk = PL_QK_HEADS, .window = PL_WINDOW_PATTERN, .pattern = 5,
          .rotary_layers = PL_ROTARY_SLIDING_4, .mixture = &kolibri)},
    {ROW("afmoe", CAUSAL),
     PLAN(.package = "afmoe", .prefix = "Afmoe", RMS, BIASES, .wiring = PL_WIRING_SANDWICH,
          .norms = {NULL, NULL, "pre_mlp_layernorm", "post_mlp_layernorm"}, .qk = PL_QK_VIEW,
          .window = PL_WINDOW_PATTERN, .pattern = 4, .rotary_layers = PL_ROTARY_SLIDING,
          .attend = attend_gated, .mixture = &afmoe)},
    {ROW("laguna", CAUSAL),
     PLAN(.package = "laguna", .prefix = "Laguna", RMS, BIASES, .qk = PL_QK_VIEW,
          .window = PL_WINDOW_FIRST, .pattern = 1, .two_rotaries = true, .attend = attend_softplus,
          .mixture = &laguna)},
    {ROW("gpt_oss", HEADS), .no_attention = 1u << PL_ATTN_SDPA,
     PLAN(.package = "gpt_oss", .prefix = "GptOss", .norm = PL_NORM_RMS_FLOAT, RMS, BIASES,
          .window = PL_WINDOW_ALTERNATE, .rotary = PL_ROTARY_HALF, .eager_only = true,
          .attend = attend_joined_sinks, .mixture = &gpt_oss)},
    {PL_DECODER_ROW("llama4_text", CAUSAL),
     PLAN(.package = "llama4", .prefix = "Llama4Text", RMS, BIASES, .window = PL_WINDOW_CHUNKS,
          .rotary = PL_ROTARY_COMPLEX, .layer = pl_llama4_layer, .mixture = &llama4)},
    {PL_DECODER_ROW("minicpm3", NO_TAGS),
     PL_DECODER_PLAN(.package = "minicpm3", .prefix = "MiniCPM3", RMS, BIASES, .latent = &halves,
                     .mlp_bias = "mlp_bias", .tied = true, .scaled_embedding = true,
                     .residual_times = true, .states_over = true)},
    {PL_DECODER_ROW("youtu", CAUSAL),
     PL_DECODER_PLAN(.package = "youtu", .prefix = "Youtu", RMS, LATENT)},
    {0},
};
