/* lfm2: LFM 2: decoders of Llama's plan with a short convolution in attention's place in most layers.
 *
 * Rules: transformers 5.22, models/lfm2 and models/lfm2_moe, as they run without causal-conv1d. */
#include <string.h>

#include "import/families/experts.h"
#include "import/families/scan.h"

/* layer_types, else all but full_attn_idxs; without either all layers have attention. */
static bool convolved(pl_decoding *d, int64_t layer) {
    pl_hf *m = d->m;
    if (layer < pl_hf_list(m, "layer_types"))
        return strcmp(pl_hf_list_string(m, "layer_types", layer, ""), "full_attention") != 0;
    int64_t count = pl_hf_list(m, "full_attn_idxs");
    for (int64_t i = 0; i < count; i++)
        if (pl_hf_list_int(m, "full_attn_idxs", i, -1) == layer) return false;
    return count > 0;
}

/* out_proj(C * conv(B * x)), all three of one projection. */
static int32_t convolve(pl_decoding *d, int64_t layer, int32_t x) {
    (void)layer;
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    bool bias = pl_hf_bool(m, "conv_bias", false);
    int64_t kernel = pl_hf_need(m, "conv_L_cache");
    int32_t parts[3], shift;
    pl_module_enter(b, "conv", pl_decoder_type(d, "ShortConv"));
    pl_module_children(b, "conv in_proj out_proj");
    int32_t weight = pl_scan_conv_weight(b, "conv", d->width, kernel, bias, &shift);
    pl_line(b, "BCx = self.in_proj(hidden_states).transpose(-1, -2)");
    x = pl_aten_transpose(b, pl_hf_linear(m, "in_proj", x, 3 * d->width, bias), -1, -2);
    pl_line(b, "B, C, x = BCx.chunk(3, dim=-2)");
    pl_aten_chunk(b, x, 3, 1, parts);
    pl_line(b, "1: hidden_states = B * x");
    x = pl_aten_mul(b, parts[0], parts[2]);
    pl_line(b, "2: hidden_states = causal_conv1d_fn(");
    x = pl_scan_conv(m, x, weight, shift, NULL);
    pl_line(b, "1: y = C * hidden_states");
    x = pl_aten_mul(b, parts[1], x);
    pl_line(b, "2: y = y.transpose(-1, -2).contiguous()");
    x = pl_aten_contiguous(b, pl_aten_transpose(b, x, -1, -2));
    pl_line(b, "3: y = self.out_proj(y)");
    x = pl_hf_linear(m, "out_proj", x, d->width, bias);
    pl_module_leave(b);
    return x;
}

/* Two thirds, times a factor, up to a multiple; unless block_auto_adjust_ff_dim is off. */
static int64_t adjusted(pl_hf *m, int64_t inner) {
    inner = pl_hf_int(m, "block_ff_dim", inner);
    if (!pl_hf_bool(m, "block_auto_adjust_ff_dim", true)) return inner;
    int64_t of = pl_hf_int(m, "block_multiple_of", 256);
    inner = (int64_t)(pl_hf_float(m, "block_ffn_dim_multiplier", 1) * (double)(2 * inner / 3));
    return of > 0 ? (inner + of - 1) / of * of : inner;
}

static const pl_mixture mixture = {.type = "SparseMoeBlock",
                                   .name = "feed_forward",
                                   .children = "experts gate",
                                   .inner = "moe_intermediate_size",
                                   .router = {.type = "TopKRouter",
                                              .scores = PL_SCORES_SIGMOID,
                                              .bias = PL_BIAS_BLOCK,
                                              .sum = PL_SUM_ASKED,
                                              .least = 1e-6,
                                              .sum_copied = true,
                                              .scale = "routed_scaling_factor"},
                                   .sparse = PL_SPARSE_FIRST,
                                   .first = "num_dense_layers",
                                   .usual_first = 2};

#define LFM2                                                                                       \
    .eps = "norm_eps", .qk = PL_QK_VIEW, .qk_names = {"q_layernorm", "k_layernorm"}, .tied = true, \
    .norms = {"operator_norm", NULL, "ffn_norm"}, .last_norm = "embedding_norm", .mix = convolve,  \
    .mixes = convolved
#define SLOW "short convolutions are simulated as they run without the package causal-conv1d"

const pl_hf_family pl_hf_lfm2[] = {
    {PL_DECODER_ROW("lfm2", PL_DECODER_CAUSAL), .warning = SLOW,
     PL_DECODER_PLAN(.package = "lfm2", .prefix = "Lfm2", LFM2, .inner_of = adjusted)},
    {PL_DECODER_ROW("lfm2_moe", PL_DECODER_CAUSAL),
     .warning = SLOW "; tokens are taken to be spread evenly over the experts",
     PL_DECODER_PLAN(.package = "lfm2_moe", .prefix = "Lfm2Moe", LFM2, .mlp = PL_MLP_EXPERTS,
                     .mixture = &mixture)},
    {0},
};
