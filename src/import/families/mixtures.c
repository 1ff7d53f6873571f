/* mixtures: decoders whose feed-forward layers are mixtures of experts, a row each. decoder.c has their
 * layers, latent.c the attention of those that follow DeepSeek, experts.c and routers.c the experts.
 *
 * Rules: transformers 5.22, models/<package>/modeling_<package>.py, which the modular_*.py beside it are
 * the shorter form of.
 *
 * Left out: output_router_logits' extra loss (small); layers that predict further tokens (MTP), which
 * transformers leaves out too. */
#include "import/families/experts.h"
#include "import/families/latent.h"

/* ---- routers ---- */

#define SOFTMAX                                                                                    \
    .type = "TopKRouter", .scores = PL_SCORES_SOFTMAX, .sum = PL_SUM_ASKED, .cast = PL_CAST_LOGITS
#define GROUPED_SIGMOID                                                                            \
    .type = "TopkRouter", .logits = PL_LOGITS_FLOAT, .scores = PL_SCORES_SIGMOID,                  \
    .bias = PL_BIAS_BUFFER, .groups = PL_GROUPS_TOP2, .sum = PL_SUM_ASKED, .least = 1e-20,         \
    .scale = "routed_scaling_factor"

/* ---- mixtures ---- */

static const pl_mixture mixtral = {
    .type = "SparseMoeBlock",
    .children = "gate experts",
    .router = {.type = "TopKRouter", .scores = PL_SCORES_FLOATED, .sum = PL_SUM_ALWAYS}};

static const pl_mixture qwen2 = {.type = "SparseMoeBlock",
                                 .children = "gate experts shared_expert shared_expert_gate",
                                 .inner = "moe_intermediate_size",
                                 .router = {SOFTMAX},
                                 .beside = PL_BESIDE_GATED,
                                 .beside_name = "shared_expert",
                                 .beside_inner = "shared_expert_intermediate_size",
                                 .sparse = PL_SPARSE_STEP};

static const pl_mixture qwen3 = {.type = "SparseMoeBlock",
                                 .children = "experts gate",
                                 .inner = "moe_intermediate_size",
                                 .router = {SOFTMAX},
                                 .sparse = PL_SPARSE_STEP};

#define DEEPSEEK(layers)                                                                           \
    {                                                                                              \
        .type = "MoE", .children = "experts gate shared_experts", .experts = "n_routed_experts",   \
        .inner = "moe_intermediate_size", .router = {GROUPED_SIGMOID}, .beside = PL_BESIDE_AFTER,  \
        .beside_name = "shared_experts", .beside_inner = "moe_intermediate_size",                  \
        .beside_count = "n_shared_experts", .sparse = layers                                       \
    }
static const pl_mixture deepseek_v3 = DEEPSEEK(PL_SPARSE_FIRST);

static const pl_mixture deepseek_v2 = {.type = "Moe",
                                       .children = "experts gate shared_experts",
                                       .experts = "n_routed_experts",
                                       .inner = "moe_intermediate_size",
                                       .router = {.type = "TopkRouter",
                                                  .logits = PL_LOGITS_FLOAT,
                                                  .scores = PL_SCORES_SOFTMAX,
                                                  .groups = PL_GROUPS_MAX,
                                                  .scale = "routed_scaling_factor"},
                                       .beside = PL_BESIDE_AFTER,
                                       .beside_name = "shared_experts",
                                       .beside_inner = "moe_intermediate_size",
                                       .beside_count = "n_shared_experts",
                                       .sparse = PL_SPARSE_FIRST};

static const pl_latent interleaved = {.interleaved = true}, complex_pairs = {.complex = true};

/* ---- families ---- */

#define EVEN             "tokens are taken to be spread evenly over the experts"
#define CAUSAL           PL_DECODER_CAUSAL
#define HEADS            PL_DECODER_HEADS
#define NO_TAGS          (CAUSAL | 1u << PL_TASK_CLASSIFY)
#define ROW(type, which) PL_DECODER_ROW(type, which), .warning = EVEN
#define PLAN(...)        PL_DECODER_PLAN(.mlp = PL_MLP_EXPERTS, __VA_ARGS__)

const pl_hf_family pl_hf_mixtures[] = {
    {ROW("mixtral", HEADS), PLAN(.package = "mixtral", .prefix = "Mixtral", .eps = "rms_norm_eps",
                                 .window = PL_WINDOW_ALL, .mixture = &mixtral)},
    {ROW("qwen2_moe", HEADS),
     PLAN(.package = "qwen2_moe", .prefix = "Qwen2Moe", .eps = "rms_norm_eps", .qkv_bias = "",
          .window = PL_WINDOW_LAST, .mixture = &qwen2)},
    {ROW("qwen3_moe", HEADS),
     PLAN(.package = "qwen3_moe", .prefix = "Qwen3Moe", .eps = "rms_norm_eps", .qk = PL_QK_VIEW,
          .qkv_bias = "attention_bias", .out_bias = "attention_bias", .window = PL_WINDOW_LAST,
          .mixture = &qwen3)},
    {ROW("deepseek_v2", NO_TAGS),
     PLAN(.package = "deepseek_v2", .prefix = "DeepseekV2", .eps = "rms_norm_eps",
          .qkv_bias = "attention_bias", .out_bias = "attention_bias", .latent = &complex_pairs,
          .mixture = &deepseek_v2)},
    {ROW("deepseek_v3", HEADS),
     PLAN(.package = "deepseek_v3", .prefix = "DeepseekV3", .eps = "rms_norm_eps",
          .qkv_bias = "attention_bias", .out_bias = "attention_bias", .latent = &interleaved,
          .mixture = &deepseek_v3)},
    {0},
};
