/* state_spaces: decoders of Llama's plan that have a state space in attention's place in most layers, or
 * beside it: Bamba, Granite's hybrids, Falcon H1, Nemotron H, Jamba. mamba.c and mamba2.c have the mixers.
 *
 * Rules: transformers 5.22, models/<package>/modeling_<package>.py, as they run without mamba-ssm and
 * causal-conv1d, whose kernels keep far less. */
#include <string.h>

#include "import/families/experts.h"
#include "import/families/mamba.h"
#include "import/hf_config.h"

#define MUL "aten.mul.Tensor"

/* ---- which layers ---- */

/* Of layers_block_type or layer_types: "linear_attention", in older files "mamba". */
static bool listed_as_space(pl_hf *m, int64_t layer) {
    const char *type = pl_hf_list_string(m, "layers_block_type|layer_types", layer, "");
    return strcmp(type, "linear_attention") == 0 || strcmp(type, "mamba") == 0;
}

static bool all_but_indices(pl_decoding *d, int64_t layer) {
    pl_hf *m = d->m;
    for (int64_t i = 0, count = pl_hf_list(m, "attn_layer_indices"); i < count; i++)
        if (pl_hf_list_int(m, "attn_layer_indices", i, -1) == layer) return false;
    return true;
}

static bool all_but_listed(pl_decoding *d, int64_t layer) {
    if (layer >= pl_hf_list(d->m, "layers_block_type|layer_types")) return true;
    return listed_as_space(d->m, layer);
}

static bool all_but_each(pl_decoding *d, int64_t layer) {
    int64_t period = pl_hf_int(d->m, "attn_layer_period", 8);
    return period < 1 || layer % period != pl_hf_int(d->m, "attn_layer_offset", 4);
}

/* ---- mixers ---- */

/* The keys that Bamba, Granite and Falcon H1 share. */
static pl_mamba2 read_mamba2(pl_decoding *d, const char *type) {
    pl_hf *m = d->m;
    pl_mamba2 s = {.name = "mamba",
                   .type = pl_decoder_type(d, type),
                   .norm_type = pl_decoder_type(d, "RMSNormGated"),
                   .width = d->width,
                   .inner = pl_hf_int(m, "mamba_expand", 2) * d->width,
                   .heads = pl_hf_int(m, "mamba_n_heads", 128),
                   .groups = pl_hf_int(m, "mamba_n_groups", 1),
                   .state = pl_hf_int(m, "mamba_d_state", 256),
                   .kernel = pl_hf_int(m, "mamba_d_conv", 4),
                   .chunk = pl_hf_int(m, "mamba_chunk_size", 256),
                   .bias = pl_hf_bool(m, "mamba_proj_bias", false),
                   .conv_bias = pl_hf_bool(m, "mamba_conv_bias", true),
                   .act = d->act,
                   .eps = d->eps};
    s.out_bias = s.bias;
    return s;
}

/* The size of a head, "auto" where they share the inner width. */
static bool settle_heads(pl_decoding *d, pl_mamba2 *s) {
    s->head_dim = s->heads > 0 ? s->inner / s->heads : 0;
    if (!pl_config_text(d->m->config, "mamba_d_head"))
        s->head_dim = pl_hf_int(d->m, "mamba_d_head", s->head_dim);
    return pl_mamba2_fits(d->m, s, "mamba_n_heads", "mamba_n_groups");
}

static int32_t mix_bamba(pl_decoding *d, int64_t layer, int32_t x) {
    (void)layer;
    pl_mamba2 s = read_mamba2(d, "Mixer");
    return settle_heads(d, &s) ? pl_mamba2_mix(d->m, &s, x) : x;
}

static int32_t mix_granite(pl_decoding *d, int64_t layer, int32_t x) {
    (void)layer;
    pl_mamba2 s = read_mamba2(d, "MambaLayer");
    return settle_heads(d, &s) ? pl_mamba2_mix(d->m, &s, x) : x;
}

static int32_t mix_jamba(pl_decoding *d, int64_t layer, int32_t x) {
    (void)layer;
    pl_hf *m = d->m;
    pl_mamba_sizes s = {.name = "mamba",
                        .type = pl_decoder_type(d, "MambaMixer"),
                        .width = d->width,
                        .inner = pl_hf_int(m, "mamba_expand", 2) * d->width,
                        .state = pl_hf_int(m, "mamba_d_state", 16),
                        .rank = (d->width + 15) / 16,
                        .kernel = pl_hf_int(m, "mamba_d_conv", 4),
                        .layers = d->layers,
                        .bias = pl_hf_bool(m, "mamba_proj_bias", false),
                        .conv_bias = pl_hf_bool(m, "mamba_conv_bias", true),
                        .act = d->act,
                        .norm_type = d->norm_type,
                        .eps = d->eps};
    if (!pl_config_text(m->config, "mamba_dt_rank")) s.rank = pl_hf_int(m, "mamba_dt_rank", s.rank);
    return pl_mamba_fits(m, &s, "mamba_d_state", "mamba_d_conv") ? pl_mamba_mix(m, &s, x) : x;
}

/* ---- Falcon H1: both side by side ---- */

static int32_t falcon_feed_forward(pl_decoding *d, int32_t x) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    pl_module_enter(b, "feed_forward", d->mlp_type);
    pl_line(b, "1: y = self.up_proj(x) * self.act_fn(self.gate_proj(x) * self.gate_multiplier)");
    int32_t up = pl_hf_linear(m, "up_proj", x, d->inner, d->mlp_bias);
    int32_t gate = pl_hf_linear(m, "gate_proj", x, d->inner, d->mlp_bias);
    gate = pl_hf_activation(m, "act_fn", d->act, pl_aten_scalar(b, MUL, gate, 1));
    int32_t y = pl_aten_mul(b, up, gate);
    pl_line(b, "2: y = self.down_proj(y) * self.down_multiplier");
    y = pl_aten_scalar(b, MUL, pl_hf_linear(m, "down_proj", y, d->width, d->mlp_bias), 1);
    pl_module_leave(b);
    return y;
}

static int32_t falcon_layer(pl_decoding *d, int64_t index, int32_t x) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    bool normed = pl_hf_bool(m, "mamba_rms_norm", false);
    pl_mamba2 s = read_mamba2(d, "Mixer");
    s.inner = pl_hf_int(m, "mamba_d_ssm", s.inner);
    s.multiplied = true;
    s.out_bias = pl_hf_bool(m, "projectors_bias", false);
    s.norm = !normed                                         ? PL_MAMBA2_NORM_NONE
             : pl_hf_bool(m, "mamba_norm_before_gate", true) ? PL_MAMBA2_NORM_BEFORE
                                                             : PL_MAMBA2_NORM_AFTER;
    if (!settle_heads(d, &s)) return x;
    pl_module_enter(b, pl_build_text(b, "layers.%lld", (long long)index), d->layer_type);
    pl_module_children(b, "feed_forward mamba self_attn input_layernorm pre_ff_layernorm");
    pl_line(b, "1: hidden_states = self.input_layernorm(hidden_states)");
    int32_t y = pl_decoder_norm(d, "input_layernorm", x);
    pl_line(b, "1: mamba_hidden_states = self.mamba(hidden_states=hidden_states)");
    int32_t space = pl_mamba2_mix(m, &s, y);
    pl_line(b, "2: mamba_hidden_states = mamba_hidden_states * self.ssm_out_multiplier");
    space = pl_aten_scalar(b, MUL, space, 1);
    pl_line(b, "1: attention_hidden_states = self.self_attn(");
    int32_t z = pl_decoder_attention(d, index, pl_aten_scalar(b, MUL, y, 1));
    pl_line(b, "2: attention_hidden_states = attention_hidden_states * self.attn_out_multiplier");
    z = pl_aten_scalar(b, MUL, z, 1);
    pl_line(b, "2: hidden_states = mamba_hidden_states + attention_hidden_states");
    y = pl_aten_add(b, space, z);
    pl_line(b, "3: hidden_states = residual + hidden_states");
    x = pl_aten_add(b, x, y);
    pl_line(b, "4: hidden_states = self.pre_ff_layernorm(hidden_states)");
    y = pl_decoder_norm(d, "pre_ff_layernorm", x);
    pl_line(b, "5: hidden_states = self.feed_forward(hidden_states)");
    y = falcon_feed_forward(d, y);
    pl_line(b, "6: hidden_states = residual + hidden_states");
    x = pl_aten_add(b, x, y);
    pl_module_leave(b);
    return x;
}

/* ---- Nemotron H: layers of one thing each ---- */

typedef enum thing { THING_SPACE, THING_ATTENTION, THING_EXPERTS, THING_MLP } thing;

/* By the list, by the letters of older files, or four kinds in turn. */
static thing thing_of(pl_decoding *d, int64_t index) {
    pl_hf *m = d->m;
    const char *letters = pl_hf_string(m, "hybrid_override_pattern", "");
    if (index < pl_hf_list(m, "layers_block_type|layer_types")) {
        const char *type = pl_hf_list_string(m, "layers_block_type|layer_types", index, "");
        if (listed_as_space(m, index)) return THING_SPACE;
        if (strcmp(type, "moe") == 0) return THING_EXPERTS;
        return strcmp(type, "mlp") == 0 ? THING_MLP : THING_ATTENTION;
    }
    if ((int64_t)strlen(letters) > index)
        return letters[index] == 'M'   ? THING_SPACE
               : letters[index] == '*' ? THING_ATTENTION
               : letters[index] == 'E' ? THING_EXPERTS
                                       : THING_MLP;
    static const thing usual[] = {THING_SPACE, THING_EXPERTS, THING_ATTENTION, THING_MLP};
    return usual[index % 4];
}

static int32_t nemotron_space(pl_decoding *d, int32_t x) {
    pl_hf *m = d->m;
    pl_mamba2 s = {.name = "mixer",
                   .type = pl_decoder_type(d, "Mamba2Mixer"),
                   .norm_type = pl_decoder_type(d, "RMSNormGated"),
                   .width = d->width,
                   .heads = pl_hf_int(m, "mamba_num_heads", 128),
                   .head_dim = pl_hf_int(m, "mamba_head_dim", 64),
                   .groups = pl_hf_int(m, "n_groups|mamba_n_groups", 8),
                   .state = pl_hf_int(m, "ssm_state_size", 128),
                   .kernel = pl_hf_int(m, "conv_kernel|mamba_d_conv", 4),
                   .chunk = pl_hf_int(m, "chunk_size|mamba_chunk_size", 128),
                   .bias = pl_hf_bool(m, "use_bias", false),
                   .conv_bias = pl_hf_bool(m, "use_conv_bias|mamba_conv_bias", true),
                   .act = pl_hf_string(m, "mamba_hidden_act", "silu"),
                   .eps = d->eps,
                   .norm = PL_MAMBA2_NORM_GROUPS};
    if (s.heads < 1 << 20 && s.head_dim < 1 << 20) s.inner = s.heads * s.head_dim;
    s.out_bias = s.bias;
    if (!pl_mamba2_fits(m, &s, "mamba_num_heads", "n_groups|mamba_n_groups")) return x;
    return pl_mamba2_mix(m, &s, x);
}

/* Experts without a gate, in a narrower width where moe_latent_size says so. */
static int32_t nemotron_experts(pl_decoding *d, int32_t x) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int64_t narrow = pl_hf_int(m, "moe_latent_size", 0), width = d->width;
    pl_module_enter(b, "mixer", pl_decoder_type(d, "MoE"));
    pl_module_children(b, "experts gate shared_experts fc1_latent_proj fc2_latent_proj");
    pl_line(b, "1: hidden_states = hidden_states.view(-1, hidden_states.shape[-1])");
    int32_t y = pl_aten_view(b, x, PL_SIZES(-1, width));
    pl_routing to = pl_decoder_route(d, y);
    if (narrow > 0) {
        pl_line(b, "2: hidden_states = self.fc1_latent_proj(hidden_states)");
        y = pl_hf_linear(m, "fc1_latent_proj", y, narrow, d->mlp_bias);
        d->width = narrow;
    }
    pl_line(b, "3: hidden_states = self.experts(hidden_states, topk_indices, topk_weights)");
    y = pl_decoder_run_experts(d, y, to);
    d->width = width;
    pl_line(b, "4: hidden_states = self.fc2_latent_proj(hidden_states)");
    if (narrow > 0) y = pl_hf_linear(m, "fc2_latent_proj", y, width, d->mlp_bias);
    pl_line(b, "5: hidden_states = hidden_states.view(*orig_shape)");
    y = pl_aten_view(b, y, PL_SIZES(m->batch, m->seq, width));
    pl_line(b, "6: hidden_states = hidden_states + self.shared_experts(residuals)");
    pl_module_enter(b, "shared_experts", d->mlp_type);
    int32_t z =
        pl_decoder_plain(d, x, pl_hf_int(m, "moe_shared_expert_intermediate_size", d->dense_inner));
    pl_module_leave(b);
    y = pl_aten_add(b, y, z);
    pl_module_leave(b);
    return y;
}

static int32_t nemotron_layer(pl_decoding *d, int64_t index, int32_t x) {
    pl_builder *b = d->m->b;
    int32_t y;
    d->act = pl_hf_string(d->m, "mlp_hidden_act", "relu2");
    pl_module_enter(b, pl_build_text(b, "layers.%lld", (long long)index),
                    pl_decoder_type(d, "Block"));
    pl_module_children(b, "norm mixer");
    pl_line(b, "1: hidden_states = self.norm(hidden_states.to(dtype=self.norm.weight.dtype))");
    int32_t normed = pl_decoder_norm(d, "norm", x);
    pl_line(b, "2: hidden_states = self.mixer(hidden_states)");
    switch (thing_of(d, index)) {
    case THING_SPACE: y = nemotron_space(d, normed); break;
    case THING_ATTENTION: y = pl_decoder_attention(d, index, normed); break;
    case THING_EXPERTS: y = nemotron_experts(d, normed); break;
    default:
        pl_module_enter(b, "mixer", d->mlp_type);
        y = pl_decoder_plain(d, normed, d->dense_inner);
        pl_module_leave(b);
    }
    pl_line(b, "3: hidden_states = residual + hidden_states");
    x = pl_aten_add(b, x, y);
    pl_module_leave(b);
    return x;
}

/* ---- families ---- */

#define RMS    .eps = "rms_norm_eps"
#define BIASES .qkv_bias = "attention_bias", .out_bias = "attention_bias"
#define CAUSAL PL_DECODER_CAUSAL
#define PLAN   PL_DECODER_PLAN
#define SLOW                                                                                       \
    "state spaces are simulated as transformers runs them without the packages mamba-ssm and "     \
    "causal-conv1d; with their kernels a job needs less"
#define SLOW_EVEN SLOW "; tokens are taken to be spread evenly over the experts"

static const pl_mixture granite = {.type = "MoE",
                                   .name = "block_sparse_moe",
                                   .children = "router experts",
                                   .router = {.type = "TopKRouter",
                                              .name = "router",
                                              .logits = PL_LOGITS_AFTER,
                                              .scores = PL_SCORES_LATE,
                                              .cast = PL_CAST_INPUT},
                                   .beside = PL_BESIDE_LAYER,
                                   .beside_name = "shared_mlp",
                                   .beside_inner = "shared_intermediate_size"},
                        jamba = {.type = "SparseMoeBlock",
                                 .name = "feed_forward",
                                 .children = "router experts",
                                 .router = {.type = "TopKRouter",
                                            .name = "router",
                                            .scores = PL_SCORES_SOFTMAX,
                                            .cast = PL_CAST_INPUT},
                                 .sparse = PL_SPARSE_PERIOD},
                        nemotron = {.type = "MoE",
                                    .experts = "n_routed_experts|num_local_experts",
                                    .inner = "moe_intermediate_size",
                                    .router = {.type = "TopkRouter",
                                               .logits = PL_LOGITS_FLOAT,
                                               .scores = PL_SCORES_SIGMOID,
                                               .bias = PL_BIAS_BUFFER,
                                               .groups = PL_GROUPS_TOP2,
                                               .sum = PL_SUM_ASKED,
                                               .least = 1e-20,
                                               .scale = "routed_scaling_factor"},
                                    .plan = {.plain = true}};

const pl_hf_family pl_hf_state_spaces[] = {
    {PL_DECODER_ROW("bamba", CAUSAL), .warning = SLOW,
     PLAN(.package = "bamba", .prefix = "Bamba", RMS, BIASES, .mlp_bias = "mlp_bias",
          .rotary_share = 0.5, .mix = mix_bamba, .mixes = all_but_indices,
          .norms = {NULL, NULL, "pre_ff_layernorm"}, .last_norm = "final_layernorm")},
    {PL_DECODER_ROW("granitemoehybrid", CAUSAL), .warning = SLOW_EVEN,
     PLAN(.package = "granitemoehybrid", .prefix = "GraniteMoeHybrid", RMS, BIASES,
          .multipliers = true, .rotary_layers = PL_ROTARY_ASKED, .mlp = PL_MLP_EXPERTS,
          .mixture = &granite, .mix = mix_granite, .mixes = all_but_listed)},
    {PL_DECODER_ROW("jamba", CAUSAL | 1u << PL_TASK_CLASSIFY), .warning = SLOW_EVEN,
     PLAN(.package = "jamba", .prefix = "Jamba", RMS, .rotary_layers = PL_ROTARY_NONE,
          .mlp = PL_MLP_EXPERTS, .mixture = &jamba, .mix = mix_jamba, .mixes = all_but_each,
          .norms = {NULL, NULL, "pre_ff_layernorm"}, .last_norm = "final_layernorm")},
    {PL_DECODER_ROW("falcon_h1", CAUSAL), .warning = SLOW,
     PLAN(.package = "falcon_h1", .prefix = "FalconH1", RMS, BIASES, .mlp_bias = "mlp_bias",
          .multipliers = true, .logits_times = true, .key_times = true, .layer = falcon_layer,
          .last_norm = "final_layernorm")},
    {PL_DECODER_ROW("nemotron_h", CAUSAL), .warning = SLOW_EVEN,
     PLAN(.package = "nemotron_h", .prefix = "NemotronH", .norm = PL_NORM_RMS_WIDE,
          .eps = "layer_norm_epsilon", .mlp_bias = "mlp_bias", .listed = true,
          .rotary_layers = PL_ROTARY_NONE, .mlp = PL_MLP_EXPERTS, .mixture = &nemotron,
          .layer = nemotron_layer, .last_norm = "norm_f")},
    {0},
};
