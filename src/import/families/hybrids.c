/* hybrids: decoders of Llama's plan some of whose layers have something else in attention's place, a row
 * each; delta.c has linear attention, decoder.c the rest of a layer.
 *
 * Rules: transformers 5.17, models/<package>/modeling_<package>.py, as they run without the packages of
 * fused kernels (flash-linear-attention, causal-conv1d, mamba-ssm), which keep far less. */
#include "import/families/experts.h"
#include "import/families/scan.h"

#define RMS    .eps = "rms_norm_eps"
#define BIASES .qkv_bias = "attention_bias", .out_bias = "attention_bias"
#define CAUSAL PL_DECODER_CAUSAL
#define HEADS  PL_DECODER_HEADS
#define PLAN   PL_DECODER_PLAN
#define SLOW                                                                                       \
    "linear attention is simulated as transformers runs it without flash-linear-attention and "    \
    "causal-conv1d; with their kernels a job needs less"
#define SLOW_EVEN SLOW "; tokens are taken to be spread evenly over the experts"

#define QWEN_EXPERTS                                                                               \
    .type = "SparseMoeBlock", .children = "gate experts shared_expert shared_expert_gate",         \
    .inner = "moe_intermediate_size", .beside = PL_BESIDE_GATED, .beside_name = "shared_expert",   \
    .beside_inner = "shared_expert_intermediate_size"

static const pl_mixture qwen_next = {QWEN_EXPERTS,
                                     .router = {.type = "TopKRouter",
                                                .scores = PL_SCORES_SOFTMAX,
                                                .sum = PL_SUM_ASKED,
                                                .cast = PL_CAST_LOGITS},
                                     .sparse = PL_SPARSE_STEP},
                        qwen_3_5 = {QWEN_EXPERTS, .router = {.type = "TopKRouter",
                                                             .scores = PL_SCORES_SOFTMAX,
                                                             .sum = PL_SUM_ALWAYS,
                                                             .cast = PL_CAST_LOGITS}};

#define QWEN                                                                                       \
    RMS, BIASES, .norm = PL_NORM_RMS_ONE, .qk = PL_QK_VIEW, .rotary_share = 0.25, .query_gate = true

const pl_hf_family pl_hf_hybrids[] = {
    {PL_DECODER_ROW("qwen3_next", HEADS), .warning = SLOW_EVEN,
     PLAN(.package = "qwen3_next", .prefix = "Qwen3Next", QWEN, .mlp = PL_MLP_EXPERTS,
          .mixture = &qwen_next, .mix = pl_delta_mix)},
    {PL_DECODER_ROW("qwen3_5_text", CAUSAL | 1u << PL_TASK_CLASSIFY), .warning = SLOW,
     PLAN(.package = "qwen3_5", .prefix = "Qwen3_5", QWEN, .mix = pl_delta_mix_split)},
    {PL_DECODER_ROW("qwen3_5_moe_text", CAUSAL), .warning = SLOW_EVEN,
     PLAN(.package = "qwen3_5_moe", .prefix = "Qwen3_5Moe", QWEN, .mlp = PL_MLP_EXPERTS,
          .mixture = &qwen_3_5, .mix = pl_delta_mix_split)},
    {PL_DECODER_ROW("olmo_hybrid", CAUSAL), .warning = SLOW,
     PLAN(.package = "olmo_hybrid", .prefix = "OlmoHybrid", .norm = PL_NORM_RMS_FLOAT, RMS, BIASES,
          .wiring = PL_WIRING_POST, .qk = PL_QK_WHOLE, .float_rotary = true, .mixed_pre = true,
          .mix = pl_delta_mix_olmo)},
    {0},
};
