/* mamba: the selective state space model as transformers runs it in plain PyTorch: a loop over the
 * sequence that makes a few small tensors per step, all of which backward needs.
 *
 * Rules: transformers 5.22, models/mamba/modeling_mamba.py, mamba_selective_scan's last branch:
 * what runs where neither mamba-ssm nor causal-conv1d (nor the kernels package, nor mambapy with
 * use_mambapy) is installed. Their fused kernels keep far less.
 *
 * Where layers and sequence make more than MOST_STEPS steps, neighbours are built as one step over
 * a state as many times as wide: their tensors' bytes add up to the same. */
#include <stdlib.h>

#include "import/hf.h"
#include "import/hf_config.h"

/* Of all layers; of one layer. Joined steps come out within 1 % in allocated bytes, 2.5 % in
 * reserved ones (the sizes of mamba-130m, 480 tokens, fp32 and bfloat16 autocast, with and without
 * checkpointing). */
enum { MOST_STEPS = 1024, MOST_STEPS_A_LAYER = 240 };

typedef struct mamba {
    pl_hf *m;
    pl_builder *b;
    int64_t batch, seq, vocab, hidden, inner, state, rank, kernel, layers;
    int64_t together; /* steps built as one */
    int32_t table;    /* the embedding's weight, of the type of all weights */
    double eps;
    const char *act;
    bool bias, conv_bias, residual_f32;
} mamba;

#define MODULE "transformers.models.mamba.modeling_mamba."

/* x.to(like.dtype): of a job in another precision, whatever like then is. */
static int32_t to_type_of(pl_builder *b, int32_t x, int32_t like) {
    const pl_tensor *t = pl_built(b, x);
    pl_dtype dtype = pl_built(b, like)->dtype;
    pl_call(b, "aten.to.other");
    pl_call_tensor(b, "self", x);
    pl_call_tensor(b, "other", like);
    return pl_call_result(b, dtype, t->dims, t->sizes);
}

static int32_t to_float(pl_builder *b, int32_t x) {
    return pl_aten_to(b, x, PL_DT_F32);
}

/* MambaRMSNorm */
static int32_t norm(mamba *s, const char *name, int32_t x) {
    pl_builder *b = s->b;
    pl_module_enter(b, name, MODULE "MambaRMSNorm");
    int32_t weight = pl_build_parameter(b, "weight", PL_SIZES(s->hidden));
    pl_line(b, "hidden_states = hidden_states.to(torch.float32)");
    int32_t y = to_float(b, x);
    pl_line(b, "variance = hidden_states.pow(2).mean(-1)");
    int32_t v = pl_aten_scalar(b, "aten.pow.Tensor_Scalar", y, 2);
    v = pl_aten_reduce(b, "aten.mean.dim", v, -1, true);
    pl_line(b, "hidden_states = hidden_states * rsqrt(variance + eps)");
    v = pl_aten_unary(b, "aten.rsqrt.default", pl_aten_scalar(b, "aten.add.Tensor", v, s->eps));
    y = pl_aten_mul(b, y, v);
    pl_line(b, "return weight * hidden_states.to(input_dtype)");
    y = pl_aten_mul(b, weight, to_type_of(b, y, x));
    pl_module_leave(b);
    return y;
}

/* A layer's parameters, for code that does not call it. */
static int32_t weight_of(mamba *s, const char *name, const char *type, int dims,
                         const int64_t *sizes, bool bias, int32_t *shift) {
    pl_module_enter(s->b, name, type);
    int32_t weight = pl_build_parameter(s->b, "weight", dims, sizes);
    *shift = bias ? pl_build_parameter(s->b, "bias", PL_SIZES(sizes[0])) : PL_NONE;
    pl_module_leave(s->b);
    return weight;
}

/* Step i of x, whose dimension dim is the sequence and the next one the state: as PyTorch has it
 * one place of the sequence, [.., state]; where several are built as one, [.., several * state]. */
static int32_t step_of(mamba *s, int32_t x, int dim, int64_t i) {
    if (s->together == 1) return pl_aten_select(s->b, x, dim, i);
    x = pl_aten_slice(s->b, x, dim, i * s->together, (i + 1) * s->together);
    return pl_aten_flatten(s->b, x, dim, dim + 1);
}

/* mamba_selective_scan: x, dt, gate [batch, inner, seq], a [inner, state], bs and cs [batch, seq,
 * state], d [inner] to [batch, inner, seq]. */
static int32_t scan(mamba *s, int32_t x, int32_t dt, int32_t a, int32_t bs, int32_t cs, int32_t d,
                    int32_t gate, int32_t dt_bias) {
    pl_builder *b = s->b;
    pl_line(b, "scan_result = mamba_selective_scan()");
    dt_bias = pl_aten_unsqueeze(b, to_type_of(b, dt_bias, dt), 1);
    dt = pl_aten_unary(b, "aten.softplus.default", pl_aten_add(b, dt, dt_bias));
    a = pl_aten_unsqueeze(b, pl_aten_unsqueeze(b, a, 0), 2);
    a = pl_aten_mul(b, a, pl_aten_unsqueeze(b, dt, 3)); /* [batch, inner, seq, state] */
    a = pl_aten_unary(b, "aten.exp.default", a);
    dt = pl_aten_unsqueeze(b, dt, 3);
    bs = to_float(b, pl_aten_unsqueeze(b, bs, 1));
    bs = pl_aten_mul(b, dt, bs);
    int32_t wide = to_float(b, pl_aten_unsqueeze(b, x, 3));
    bs = pl_aten_mul(b, bs, wide); /* as a */
    int64_t count = (s->seq + s->together - 1) / s->together;
    int32_t now = pl_aten_make(b, "aten.zeros.default", pl_built(b, x)->dtype,
                               PL_SIZES(s->batch, s->inner, s->state), 0);
    now = to_type_of(b, now, x);
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
        int32_t state = to_type_of(b, now, x);
        step = pl_aten_unsqueeze(b, step_of(s, cs, 1, i), -1);
        outputs[i] = pl_aten_select(b, pl_aten_matmul(b, state, step), 2, 0);
    }
    int32_t y = pl_aten_stack(b, (int)count, outputs, -1);
    if (s->together > 1) {
        y = pl_aten_repeat(b, y, PL_SIZES(1, 1, s->together));
        y = pl_aten_slice(b, y, 2, 0, s->seq);
    }
    free(outputs);
    d = pl_aten_unsqueeze(b, pl_aten_unsqueeze(b, d, 0), 2);
    y = pl_aten_add(b, y, pl_aten_mul(b, x, d));
    return pl_aten_mul(b, y, pl_aten_unary(b, "aten.silu.default", gate));
}

static int32_t mixer(mamba *s, int32_t x) {
    pl_hf *m = s->m;
    pl_builder *b = s->b;
    int32_t halves[2], parts[3], conv_bias, dt_bias, dtype_of = x;
    pl_module_enter(b, "mixer", MODULE "MambaMixer");
    pl_module_children(b, "A_log D conv1d act in_proj x_proj dt_proj out_proj");
    int32_t a = pl_build_parameter(b, "A_log", PL_SIZES(s->inner, s->state));
    int32_t d = pl_build_parameter(b, "D", PL_SIZES(s->inner));
    int32_t conv = weight_of(s, "conv1d", "torch.nn.modules.conv.Conv1d",
                             PL_SIZES(s->inner, 1, s->kernel), s->conv_bias, &conv_bias);
    pl_line(b, "projected_states = in_proj(hidden_states).transpose(1, 2)");
    x = pl_hf_linear(m, "in_proj", x, 2 * s->inner, s->bias);
    x = pl_aten_transpose(b, x, 1, 2); /* [batch, 2 * inner, seq] */
    pl_line(b, "A = -exp(A_log.float())");
    a = pl_aten_unary(b, "aten.exp.default", to_float(b, a));
    a = pl_aten_unary(b, "aten.neg.default", a);
    pl_line(b, "hidden_states_B_C, gate = projected_states.chunk(2, dim=1)");
    pl_aten_chunk(b, x, 2, 1, halves);
    pl_line(b, "hidden_states_B_C = causal_conv1d_fn()");
    x = to_type_of(b, halves[0], conv);
    x = pl_aten_conv(b, 1, x, conv, conv_bias, (int64_t[]){1}, (int64_t[]){s->kernel - 1},
                     (int64_t[]){1}, s->inner);
    x = pl_aten_slice(b, x, 2, 0, s->seq);
    x = pl_hf_activation(m, "act", s->act, x);
    x = to_type_of(b, x, halves[0]);
    pl_line(b, "hidden_states_B_C = hidden_states_B_C.transpose(1, 2)");
    x = pl_aten_transpose(b, x, 1, 2); /* [batch, seq, inner] */
    pl_line(b, "time_step, B, C = split(x_proj(hidden_states_B_C))");
    int32_t p = pl_hf_linear(m, "x_proj", x, s->rank + 2 * s->state, false);
    pl_aten_split(b, p, 3, (int64_t[]){s->rank, s->state, s->state}, -1, parts);
    int32_t dt = weight_of(s, "dt_proj", "torch.nn.modules.linear.Linear",
                           PL_SIZES(s->inner, s->rank), true, &dt_bias);
    pl_line(b, "time_step = dt_proj.weight @ time_step.transpose(1, 2)");
    dt = pl_aten_matmul(b, dt, pl_aten_transpose(b, parts[0], 1, 2)); /* [batch, inner, seq] */
    pl_line(b, "time_proj_bias = dt_proj.bias.float()");
    dt_bias = to_float(b, dt_bias);
    pl_line(b, "");
    d = to_float(b, d);
    x = pl_aten_transpose(b, x, 1, 2);
    x = scan(s, x, dt, a, parts[1], parts[2], d, halves[1], dt_bias);
    pl_line(b, "contextualized_states = out_proj(scan_output.transpose(1, 2).to(dtype))");
    x = to_type_of(b, pl_aten_transpose(b, x, 1, 2), dtype_of);
    x = pl_hf_linear(m, "out_proj", x, s->hidden, s->bias);
    pl_module_leave(b);
    return x;
}

static int32_t block(mamba *s, int32_t x) {
    pl_builder *b = s->b;
    pl_module_children(b, "norm mixer");
    pl_line(b, "hidden_states = norm(hidden_states.to(weight.dtype))");
    int32_t y = norm(s, "norm", to_type_of(b, x, s->table));
    if (s->residual_f32) {
        pl_line(b, "residual = residual.to(torch.float32)");
        x = to_float(b, x);
    }
    y = mixer(s, y);
    pl_line(b, "hidden_states = residual + hidden_states");
    return pl_aten_add(b, x, y);
}

static bool read_config(mamba *s) {
    pl_hf *m = s->m;
    s->vocab = pl_hf_need(m, "vocab_size");
    s->hidden = pl_hf_need(m, "hidden_size|d_model");
    s->layers = pl_hf_layers(m, "num_hidden_layers|n_layer");
    s->inner = pl_hf_int(m, "intermediate_size|d_inner", pl_hf_int(m, "expand", 2) * s->hidden);
    s->state = pl_hf_int(m, "state_size", 16);
    s->kernel = pl_hf_int(m, "conv_kernel", 4);
    s->rank = (s->hidden + 15) / 16; /* time_step_rank "auto" */
    if (!pl_config_text(m->config, "time_step_rank"))
        s->rank = pl_hf_int(m, "time_step_rank", s->rank);
    s->eps = pl_hf_float(m, "layer_norm_epsilon", 1e-5);
    s->act = pl_hf_string(m, "hidden_act", "silu");
    s->bias = pl_hf_bool(m, "use_bias", false);
    s->conv_bias = pl_hf_bool(m, "use_conv_bias", true);
    s->residual_f32 = pl_hf_bool(m, "residual_in_fp32", true);
    const struct {
        const char *key;
        int64_t value;
    } least[] = {{"intermediate_size|d_inner|expand", s->inner},
                 {"state_size", s->state},
                 {"conv_kernel", s->kernel},
                 {"time_step_rank", s->rank}};
    for (size_t i = 0; i < sizeof least / sizeof *least; i++)
        if (least[i].value < 1) pl_hf_refuse(m, least[i].key, "expected at least 1");
    if (pl_build_failed(s->b)) return false;
    int64_t steps = MOST_STEPS / s->layers;
    if (steps > MOST_STEPS_A_LAYER) steps = MOST_STEPS_A_LAYER;
    if (steps > s->seq) steps = s->seq;
    if (steps < 1) steps = 1;
    s->together = (s->seq + steps - 1) / steps;
    return true;
}

static void build_mamba(pl_hf *m) {
    mamba state = {.m = m, .b = m->b, .batch = m->batch, .seq = m->seq}, *s = &state;
    pl_builder *b = m->b;
    if (!read_config(s)) return;
    bool causal = m->task == PL_TASK_CAUSAL;
    pl_module_enter(b, "", causal ? MODULE "MambaForCausalLM" : MODULE "MambaModel");
    if (causal) pl_module_children(b, "backbone lm_head");
    int32_t ids = pl_hf_input_ids(m);
    if (causal) pl_module_enter(b, "backbone", MODULE "MambaModel");
    pl_module_children(b, "embeddings layers norm_f");
    pl_line(b, "inputs_embeds = embeddings(input_ids)");
    pl_module_enter(b, "embeddings", "torch.nn.modules.sparse.Embedding");
    s->table = pl_build_parameter(b, "weight", PL_SIZES(s->vocab, s->hidden));
    int32_t x = pl_aten_embedding(b, s->table, ids, -1);
    pl_module_leave(b);
    for (int64_t i = 0; i < s->layers && !pl_build_failed(b); i++) {
        pl_module_enter(b, pl_build_text(b, "layers.%lld", (long long)i), MODULE "MambaBlock");
        x = block(s, x);
        pl_module_leave(b);
    }
    x = norm(s, "norm_f", x);
    if (!causal) {
        pl_build_output(b, x);
        pl_module_leave(b);
        return;
    }
    pl_module_leave(b);
    pl_line(b, "logits = lm_head(hidden_states.to(lm_head.weight.dtype)).float()");
    x = to_type_of(b, x, s->table);
    if (pl_hf_bool(m, "tie_word_embeddings", true))
        x = pl_hf_tied_linear(m, "lm_head", x, s->table, s->vocab, false);
    else
        x = pl_hf_linear(m, "lm_head", x, s->vocab, false);
    pl_hf_causal_loss(m, to_float(b, x));
    pl_module_leave(b);
}

const pl_hf_family pl_hf_mamba[] = {
    {.model_type = "mamba",
     .tasks = 1u << PL_TASK_CAUSAL | 1u << PL_TASK_BASE,
     .usual = PL_TASK_CAUSAL,
     .build = build_mamba,
     .version = "5.22",
     .no_attention = 1u << PL_ATTN_SDPA | 1u << PL_ATTN_EAGER | 1u << PL_ATTN_FLASH2,
     .warning = "the sequential path of transformers is simulated, as it runs without the packages "
                "mamba-ssm and causal-conv1d; with their kernels a job needs less"},
    {0},
};
