/* mamba: the selective state space model as transformers runs it in plain PyTorch: a loop over the
 * sequence that makes a few small tensors per step, all of which backward needs.
 *
 * Rules: transformers 5.22, models/mamba/modeling_mamba.py, mamba_selective_scan's last branch:
 * what runs where neither mamba-ssm nor causal-conv1d (nor the kernels package, nor mambapy with
 * use_mambapy) is installed. Their fused kernels keep far less.
 *
 * Where layers and sequence make more than MOST_STEPS steps, neighbours are built as one step over
 * a state as many times as wide: their tensors' bytes add up to the same. */
#include "import/families/mamba.h"

#include <stdlib.h>

#include "import/families/scan.h"
#include "import/hf_config.h"

/* Of all layers; of one layer. Joined steps come out within 1 % in allocated bytes, 2.5 % in
 * reserved ones (the sizes of mamba-130m, 480 tokens, fp32 and bfloat16 autocast, with and without
 * checkpointing). */
enum { MOST_STEPS = 1024, MOST_STEPS_A_LAYER = 240 };

typedef struct mixing {
    const pl_mamba_sizes *s;
    pl_hf *m;
    pl_builder *b;
    int64_t together; /* steps built as one */
} mixing;

static int32_t to_float(pl_builder *b, int32_t x) {
    return pl_aten_to(b, x, PL_DT_F32);
}

/* (x in float32) * rsqrt(mean(x^2) + eps) */
static int32_t normalised(pl_builder *b, int32_t x, double eps) {
    pl_line(b, "hidden_states = hidden_states.to(torch.float32)");
    int32_t y = to_float(b, x);
    pl_line(b, "variance = hidden_states.pow(2).mean(-1)");
    int32_t v = pl_aten_scalar(b, "aten.pow.Tensor_Scalar", y, 2);
    v = pl_aten_reduce(b, "aten.mean.dim", v, -1, true);
    pl_line(b, "hidden_states = hidden_states * rsqrt(variance + eps)");
    v = pl_aten_unary(b, "aten.rsqrt.default", pl_aten_scalar(b, "aten.add.Tensor", v, eps));
    return pl_aten_mul(b, y, v);
}

static int32_t norm(pl_builder *b, const char *name, const char *type, int32_t x, double eps,
                    bool weighted) {
    pl_module_enter(b, name, type);
    int32_t weight = PL_NONE, like = x;
    if (weighted)
        weight = pl_build_parameter(b, "weight", PL_SIZES(pl_built_size(b, x, -1)));
    else /* only there for the kernels */
        pl_build_buffer(b, "weight", pl_built(b, x)->dtype, false,
                        PL_SIZES(pl_built_size(b, x, -1)));
    x = normalised(b, x, eps);
    pl_line(b, "return weight * hidden_states.to(input_dtype)");
    x = pl_scan_to_type_of(b, x, like);
    if (weighted) x = pl_aten_mul(b, weight, x);
    pl_module_leave(b);
    return x;
}

/* A layer's parameters, for code that does not call it. */
static int32_t weight_of(mixing *s, const char *name, const char *type, int dims,
                         const int64_t *sizes, bool bias, int32_t *shift) {
    pl_module_enter(s->b, name, type);
    int32_t weight = pl_build_parameter(s->b, "weight", dims, sizes);
    *shift = bias ? pl_build_parameter(s->b, "bias", PL_SIZES(sizes[0])) : PL_NONE;
    pl_module_leave(s->b);
    return weight;
}

/* Step i of x, whose dimension dim is the sequence and the next one the state: as PyTorch has it
 * one place of the sequence, [.., state]; where several are built as one, [.., several * state]. */
static int32_t step_of(mixing *s, int32_t x, int dim, int64_t i) {
    if (s->together == 1) return pl_aten_select(s->b, x, dim, i);
    x = pl_aten_slice(s->b, x, dim, i * s->together, (i + 1) * s->together);
    return pl_aten_flatten(s->b, x, dim, dim + 1);
}

/* mamba_selective_scan: x, dt, gate [batch, inner, seq], a [inner, state], bs and cs [batch, seq,
 * state], d [inner] to [batch, inner, seq]. */
static int32_t scan(mixing *s, int32_t x, int32_t dt, int32_t a, int32_t bs, int32_t cs, int32_t d,
                    int32_t gate, int32_t dt_bias) {
    pl_builder *b = s->b;
    pl_line(b, "scan_result = mamba_selective_scan()");
    dt_bias = pl_aten_unsqueeze(b, pl_scan_to_type_of(b, dt_bias, dt), 1);
    dt = pl_aten_unary(b, "aten.softplus.default", pl_aten_add(b, dt, dt_bias));
    a = pl_aten_unsqueeze(b, pl_aten_unsqueeze(b, a, 0), 2);
    a = pl_aten_mul(b, a, pl_aten_unsqueeze(b, dt, 3)); /* [batch, inner, seq, state] */
    a = pl_aten_unary(b, "aten.exp.default", a);
    dt = pl_aten_unsqueeze(b, dt, 3);
    bs = to_float(b, pl_aten_unsqueeze(b, bs, 1));
    bs = pl_aten_mul(b, dt, bs);
    int32_t wide = to_float(b, pl_aten_unsqueeze(b, x, 3));
    bs = pl_aten_mul(b, bs, wide); /* as a */
    int64_t batch = s->m->batch, seq = s->m->seq, count = (seq + s->together - 1) / s->together;
    int32_t now = pl_aten_make(b, "aten.zeros.default", pl_built(b, x)->dtype,
                               PL_SIZES(batch, pl_built_size(b, a, 1), s->s->state), 0);
    now = pl_scan_to_type_of(b, now, x);
    if (s->together > 1) now = pl_aten_slice(b, now, 2, 0, 1); /* broadcast */
    int32_t *outputs = calloc((size_t)count, sizeof *outputs);
    if (!outputs) {
        pl_build_fail(b, PL_MISSING, "seq", "out of memory");
        return PL_NONE;
    }
    for (int64_t i = 0; i < count && !pl_build_failed(b); i++) {
        int32_t step = step_of(s, a, 2, i);
        if (i > 0 && pl_built_size(b, step, 2) < pl_built_size(b, now, 2)) /* a shorter last one */
            now = pl_aten_slice(b, now, 2, 0, pl_built_size(b, step, 2));
        now = pl_aten_mul(b, step, now);
        step = step_of(s, bs, 2, i);
        now = pl_aten_add(b, now, step);
        int32_t state = pl_scan_to_type_of(b, now, x);
        step = pl_aten_unsqueeze(b, step_of(s, cs, 1, i), -1);
        outputs[i] = pl_aten_select(b, pl_aten_matmul(b, state, step), 2, 0);
    }
    int32_t y = pl_aten_stack(b, (int)count, outputs, -1);
    if (s->together > 1) {
        y = pl_aten_repeat(b, y, PL_SIZES(1, 1, s->together));
        y = pl_aten_slice(b, y, 2, 0, seq);
    }
    free(outputs);
    d = pl_aten_unsqueeze(b, pl_aten_unsqueeze(b, d, 0), 2);
    y = pl_aten_add(b, y, pl_aten_mul(b, x, d));
    return pl_aten_mul(b, y, pl_aten_unary(b, "aten.silu.default", gate));
}

/* How many steps are built as one. */
static int64_t together_of(const pl_hf *m, const pl_mamba_sizes *s) {
    int64_t steps = MOST_STEPS / (s->layers * (s->heads > 0 ? s->heads : 1));
    if (steps > MOST_STEPS_A_LAYER) steps = MOST_STEPS_A_LAYER;
    if (steps > m->seq) steps = m->seq;
    if (steps < 1) steps = 1;
    return (m->seq + steps - 1) / steps;
}

/* x_proj's parts, normalised. */
static void norm_parts(mixing *s, int32_t *parts) {
    static const char *const names[] = {"dt_layernorm", "b_layernorm", "c_layernorm"};
    static const char *const lines[] = {"time_step = self.dt_layernorm(time_step)",
                                        "B = self.b_layernorm(B)", "C = self.c_layernorm(C)"};
    for (int i = 0; i < 3; i++) {
        pl_line(s->b, lines[i]);
        parts[i] = norm(s->b, names[i], s->s->norm_type, parts[i], s->s->eps, !s->s->bare);
    }
}

int32_t pl_mamba_mix(pl_hf *m, const pl_mamba_sizes *sizes, int32_t x) {
    mixing state = {.s = sizes, .m = m, .b = m->b, .together = together_of(m, sizes)}, *s = &state;
    pl_builder *b = m->b;
    int32_t halves[2], parts[3], conv_bias, dt_bias, dtype_of = x;
    int64_t inner = sizes->inner;
    pl_module_enter(b, sizes->name, sizes->type);
    pl_module_children(b, "A_log D conv1d act in_proj x_proj dt_proj out_proj dt_layernorm "
                          "b_layernorm c_layernorm");
    int32_t a = pl_build_parameter(b, "A_log", PL_SIZES(inner, sizes->state));
    int32_t d = pl_build_parameter(b, "D", PL_SIZES(inner));
    int32_t conv = weight_of(s, "conv1d", "torch.nn.modules.conv.Conv1d",
                             PL_SIZES(inner, 1, sizes->kernel), sizes->conv_bias, &conv_bias);
    pl_line(b, "projected_states = in_proj(hidden_states).transpose(1, 2)");
    x = pl_hf_linear(m, "in_proj", x, 2 * inner, sizes->bias);
    x = pl_aten_transpose(b, x, 1, 2); /* [batch, 2 * inner, seq] */
    pl_line(b, "A = -exp(A_log.float())");
    a = pl_aten_unary(b, "aten.exp.default", to_float(b, a));
    a = pl_aten_unary(b, "aten.neg.default", a);
    pl_line(b, "hidden_states_B_C, gate = projected_states.chunk(2, dim=1)");
    pl_aten_chunk(b, x, 2, 1, halves);
    pl_line(b, "hidden_states_B_C = causal_conv1d_fn()");
    x = pl_scan_conv(m, halves[0], conv, conv_bias, sizes->act);
    pl_line(b, "hidden_states_B_C = hidden_states_B_C.transpose(1, 2)");
    x = pl_aten_transpose(b, x, 1, 2); /* [batch, seq, inner] */
    pl_line(b, "time_step, B, C = split(x_proj(hidden_states_B_C))");
    int32_t p = pl_hf_linear(m, "x_proj", x, sizes->rank + 2 * sizes->state, false);
    pl_aten_split(b, p, 3, (int64_t[]){sizes->rank, sizes->state, sizes->state}, -1, parts);
    if (sizes->norm_type) norm_parts(s, parts);
    int32_t dt = weight_of(s, "dt_proj", "torch.nn.modules.linear.Linear",
                           PL_SIZES(inner, sizes->rank), true, &dt_bias);
    pl_line(b, "time_step = dt_proj.weight @ time_step.transpose(1, 2)");
    dt = pl_aten_matmul(b, dt, pl_aten_transpose(b, parts[0], 1, 2)); /* [batch, inner, seq] */
    pl_line(b, "time_proj_bias = dt_proj.bias.float()");
    dt_bias = to_float(b, dt_bias);
    pl_line(b, "");
    d = to_float(b, d);
    x = pl_aten_transpose(b, x, 1, 2);
    x = scan(s, x, dt, a, parts[1], parts[2], d, halves[1], dt_bias);
    pl_line(b, "contextualized_states = out_proj(scan_output.transpose(1, 2).to(dtype))");
    x = pl_scan_to_type_of(b, pl_aten_transpose(b, x, 1, 2), dtype_of);
    x = pl_hf_linear(m, "out_proj", x, sizes->width, sizes->bias);
    pl_module_leave(b);
    return x;
}

bool pl_mamba_fits(pl_hf *m, const pl_mamba_sizes *s, const char *state_key,
                   const char *kernel_key) {
    if (s->inner < 1 || s->rank < 1)
        pl_hf_refuse(m, state_key, "an inner width and a rank of at least 1 are expected");
    if (s->state < 1) pl_hf_refuse(m, state_key, "expected at least 1");
    if (s->kernel < 1) pl_hf_refuse(m, kernel_key, "expected at least 1");
    return !pl_build_failed(m->b);
}

/* ---- the model of these alone ---- */

/* What sets Falcon's apart. */
typedef struct kind {
    const char *package, *prefix;
    bool norms; /* of dt, B and C, without weights */
} kind;

typedef struct mamba {
    pl_hf *m;
    pl_builder *b;
    const kind *kind;
    pl_mamba_sizes mix;
    int64_t vocab;
    int32_t table; /* the embedding's weight, of the type of all weights */
    double eps;
    bool residual_f32;
} mamba;

static const char *type_of(const mamba *s, const char *what) {
    return pl_build_text(s->b, "transformers.models.%s.modeling_%s.%s%s", s->kind->package,
                         s->kind->package, s->kind->prefix, what);
}

static int32_t block(mamba *s, int32_t x) {
    pl_builder *b = s->b;
    pl_module_children(b, "norm mixer");
    pl_line(b, "hidden_states = norm(hidden_states.to(weight.dtype))");
    int32_t y =
        norm(b, "norm", type_of(s, "RMSNorm"), pl_scan_to_type_of(b, x, s->table), s->eps, true);
    if (s->residual_f32) {
        pl_line(b, "residual = residual.to(torch.float32)");
        x = to_float(b, x);
    }
    y = pl_mamba_mix(s->m, &s->mix, y);
    pl_line(b, "hidden_states = residual + hidden_states");
    return pl_aten_add(b, x, y);
}

static bool read_config(mamba *s) {
    pl_hf *m = s->m;
    int64_t hidden = pl_hf_need(m, "hidden_size|d_model");
    s->vocab = pl_hf_need(m, "vocab_size");
    s->eps = pl_hf_float(m, "layer_norm_epsilon", 1e-5);
    s->residual_f32 = pl_hf_bool(m, "residual_in_fp32", true);
    s->mix = (pl_mamba_sizes){
        .name = "mixer",
        .type = type_of(s, "Mixer"),
        .width = hidden,
        .inner = pl_hf_int(m, "intermediate_size|d_inner", pl_hf_int(m, "expand", 2) * hidden),
        .state = pl_hf_int(m, "state_size", 16),
        .rank = (hidden + 15) / 16, /* time_step_rank "auto" */
        .kernel = pl_hf_int(m, "conv_kernel", 4),
        .layers = pl_hf_layers(m, "num_hidden_layers|n_layer"),
        .bias = pl_hf_bool(m, "use_bias", false),
        .conv_bias = pl_hf_bool(m, "use_conv_bias", true),
        .act = pl_hf_string(m, "hidden_act", "silu"),
        .norm_type = s->kind->norms ? type_of(s, "WeightlessRMSNorm") : NULL,
        .bare = true,
        .eps = pl_hf_float(m, "mixer_rms_eps", 1e-6)};
    if (!pl_config_text(m->config, "time_step_rank"))
        s->mix.rank = pl_hf_int(m, "time_step_rank", s->mix.rank);
    return pl_mamba_fits(m, &s->mix, "state_size", "conv_kernel");
}

static void build_mamba(pl_hf *m) {
    mamba state = {.m = m, .b = m->b, .kind = m->family->plan}, *s = &state;
    pl_builder *b = m->b;
    if (!read_config(s)) return;
    bool causal = m->task == PL_TASK_CAUSAL;
    pl_module_enter(b, "", type_of(s, causal ? "ForCausalLM" : "Model"));
    if (causal) pl_module_children(b, "backbone lm_head");
    int32_t ids = pl_hf_input_ids(m);
    if (causal) pl_module_enter(b, "backbone", type_of(s, "Model"));
    pl_module_children(b, "embeddings layers norm_f");
    pl_line(b, "inputs_embeds = embeddings(input_ids)");
    pl_module_enter(b, "embeddings", "torch.nn.modules.sparse.Embedding");
    s->table = pl_build_parameter(b, "weight", PL_SIZES(s->vocab, s->mix.width));
    int32_t x = pl_aten_embedding(b, s->table, ids, -1);
    pl_module_leave(b);
    for (int64_t i = 0; i < s->mix.layers && !pl_build_failed(b); i++) {
        pl_module_enter(b, pl_build_text(b, "layers.%lld", (long long)i), type_of(s, "Block"));
        x = block(s, x);
        pl_module_leave(b);
    }
    x = norm(b, "norm_f", type_of(s, "RMSNorm"), x, s->eps, true);
    if (!causal) {
        pl_build_output(b, x);
        pl_module_leave(b);
        return;
    }
    pl_module_leave(b);
    pl_line(b, "logits = lm_head(hidden_states.to(lm_head.weight.dtype)).float()");
    x = pl_scan_to_type_of(b, x, s->table);
    if (pl_hf_bool(m, "tie_word_embeddings", true))
        x = pl_hf_tied_linear(m, "lm_head", x, s->table, s->vocab, false);
    else
        x = pl_hf_linear(m, "lm_head", x, s->vocab, false);
    pl_hf_causal_loss(m, to_float(b, x));
    pl_module_leave(b);
}

static const kind plain = {"mamba", "Mamba", false}, falcon = {"falcon_mamba", "FalconMamba", true};

#define ROW(type, which)                                                                           \
    {                                                                                              \
        .model_type = type, .tasks = 1u << PL_TASK_CAUSAL | 1u << PL_TASK_BASE,                    \
        .usual = PL_TASK_CAUSAL, .build = build_mamba, .plan = &(which), .version = "5.22",        \
        .no_attention = 1u << PL_ATTN_SDPA | 1u << PL_ATTN_EAGER | 1u << PL_ATTN_FLASH2,           \
        .warning = "the sequential path of transformers is simulated, as it runs without the "     \
                   "packages mamba-ssm and causal-conv1d; with their kernels a job needs less"     \
    }

const pl_hf_family pl_hf_mamba[] = {
    ROW("mamba", plain),
    ROW("falcon_mamba", falcon),
    {0},
};
