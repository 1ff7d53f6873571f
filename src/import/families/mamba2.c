/* mamba2: Mamba 2: a state space whose sequence is run in chunks of products, as transformers has it in plain
 * PyTorch, and the model that is made of it alone.
 *
 * Rules: transformers 5.22, models/mamba2/modeling_mamba2.py, mamba2_chunk_scan and its callers, which
 * other families have word for word: what runs where neither mamba-ssm nor causal-conv1d is installed.
 * All of a scan is float32; the fused kernels keep far less.
 *
 * A function of Python is built as the call of a module without parameters: its names end with it. */
#include <math.h>

#include "import/families/mamba.h"
#include "import/families/scan.h"

#define MUL "aten.mul.Tensor"
#define EXP "aten.exp.default"

bool pl_mamba2_fits(pl_hf *m, const pl_mamba2 *s, const char *heads_key, const char *groups_key) {
    if (s->heads < 1 || s->head_dim < 1 || s->heads * s->head_dim != s->inner)
        pl_hf_refuse(m, heads_key, "%lld heads of %lld do not make the inner width, %lld",
                     (long long)s->heads, (long long)s->head_dim, (long long)s->inner);
    else if (s->groups < 1 || s->heads % s->groups != 0)
        pl_hf_refuse(m, groups_key, "%lld does not divide the number of heads, %lld",
                     (long long)s->groups, (long long)s->heads);
    else if (s->state < 1 || s->kernel < 1 || s->chunk < 1)
        pl_hf_refuse(m, heads_key, "states, convolution and chunks of at least 1 are expected");
    return !pl_build_failed(m->b);
}

static int32_t einsum(pl_builder *b, const char *equation, int32_t x, int32_t y, int dims,
                      const int64_t *sizes) {
    pl_call(b, "aten.einsum.default");
    pl_call_string(b, "equation", equation);
    pl_call_tensors(b, "tensors", 2, (int32_t[]){x, y});
    return pl_call_result(b, PL_DT_F32, dims, sizes);
}

/* Of the heads of a group, one each: always a copy. */
static int32_t repeated(pl_builder *b, int32_t x, int64_t heads) {
    pl_dtype dtype = pl_built(b, x)->dtype;
    int64_t sizes[4];
    for (int i = 0; i < 4; i++) sizes[i] = pl_built_size(b, x, i);
    int64_t times = heads / sizes[2];
    sizes[2] = heads;
    pl_call(b, "aten.repeat_interleave.self_int");
    pl_call_tensor(b, "self", x);
    pl_call_int(b, "repeats", times);
    pl_call_int(b, "dim", 2);
    return pl_call_result(b, dtype, 4, sizes);
}

/* Zeros behind the sequence, dimension 1 of 3 or 4; nothing added is a copy too. */
static int32_t padded(pl_builder *b, int32_t x, int64_t by) {
    if (by == 0) return pl_aten_clone(b, x);
    return pl_built_dims(b, x) == 4 ? pl_aten_pad(b, x, 6, (int64_t[]){0, 0, 0, 0, 0, by})
                                    : pl_aten_pad(b, x, 4, (int64_t[]){0, 0, 0, by});
}

static int32_t chunked(pl_builder *b, int32_t x, int64_t by, int64_t chunk) {
    int64_t batch = pl_built_size(b, x, 0), last = pl_built_size(b, x, -1);
    int64_t heads = pl_built_size(b, x, 2);
    x = padded(b, x, by);
    return pl_built_dims(b, x) == 4 ? pl_aten_reshape(b, x, PL_SIZES(batch, -1, chunk, heads, last))
                                    : pl_aten_reshape(b, x, PL_SIZES(batch, -1, chunk, heads));
}

static int32_t triangle(pl_builder *b, int64_t side, int64_t diagonal) {
    int32_t ones = pl_aten_make(b, "aten.ones.default", PL_DT_BOOL, PL_SIZES(side, side), 1);
    pl_call(b, "aten.tril.default");
    pl_call_tensor(b, "self", ones);
    pl_call_int(b, "diagonal", diagonal);
    return pl_call_result_like(b, ones);
}

static int32_t outside(pl_builder *b, int32_t x, int32_t mask, double value) {
    return pl_aten_masked_fill(b, x, pl_aten_unary(b, "aten.bitwise_not.default", mask), value);
}

/* segment_sum: x [.., n] to [.., n, n] */
static int32_t segment_sum(pl_builder *b, int32_t x) {
    int dims = pl_built_dims(b, x);
    int64_t n = pl_built_size(b, x, -1), sizes[5];
    for (int i = 0; i < dims && i < 4; i++) sizes[i] = pl_built_size(b, x, i);
    sizes[dims < 4 ? dims : 4] = n;
    pl_module_enter(b, "segment_sum", "segment_sum");
    pl_line(b, "1: input_tensor = input_tensor[..., None].expand(*size, chunk_size)");
    x = pl_aten_expand(b, pl_aten_unsqueeze(b, x, -1), dims + 1, sizes);
    pl_line(b, "1: mask = torch.tril(torch.ones(chunk_size, chunk_size), diagonal=-1)");
    int32_t mask = triangle(b, n, -1);
    pl_line(b, "2: input_tensor = input_tensor.masked_fill(~mask, 0)");
    x = outside(b, x, mask, 0);
    pl_line(b, "1: tensor_segsum = torch.cumsum(input_tensor, dim=-2)");
    int32_t sum = pl_aten_cumsum(b, x, -2);
    pl_line(b, "2: mask = torch.tril(torch.ones(chunk_size, chunk_size), diagonal=0)");
    mask = triangle(b, n, 0);
    pl_line(b, "2: tensor_segsum = tensor_segsum.masked_fill(~mask, -torch.inf)");
    sum = outside(b, sum, mask, -INFINITY);
    pl_module_leave(b);
    return sum;
}

/* The states at the chunks' beginnings: what each adds, [B,chunks,heads,head_dim,state], and the
 * decays within, [B,heads,chunks,length], to the same as the first. */
static int32_t pass_on(pl_builder *b, int32_t states, int32_t sum) {
    int64_t batch = pl_built_size(b, states, 0), chunks = pl_built_size(b, states, 1),
            heads = pl_built_size(b, states, 2), dim = pl_built_size(b, states, 3),
            state = pl_built_size(b, states, 4);
    pl_line(b, "previous_states = torch.zeros_like(states[:, :1])");
    int32_t before = pl_aten_slice(b, states, 1, 0, 1);
    pl_call(b, "aten.zeros_like.default");
    pl_call_tensor(b, "self", before);
    before = pl_call_result_like(b, before);
    pl_line(b, "2: states = torch.cat([previous_states, states], dim=1)");
    states = pl_aten_cat(b, 2, (int32_t[]){before, states}, 1);
    pl_line(b, "decay_chunk = torch.exp(segment_sum(F.pad(A_cumsum[:, :, :, -1], (1, 0))))");
    int32_t last = pl_aten_select(b, sum, 3, -1);
    last = segment_sum(b, pl_aten_pad(b, last, 2, (int64_t[]){1, 0}));
    last = pl_aten_transpose(b, pl_aten_unary(b, EXP, last), 1, 3);
    pl_line(b, "new_states = torch.einsum(\"bzch,bzhpn->bchpn\", decay_chunk, states)");
    int32_t y = einsum(b, "bzch,bzhpn->bchpn", last, states,
                       PL_SIZES(batch, chunks + 1, heads, dim, state));
    pl_line(b, "3: states = new_states[:, :-1]");
    return pl_aten_slice(b, y, 1, 0, -1);
}

/* Numbers from 0 on. */
static int32_t limited(pl_builder *b, int32_t x) {
    pl_call(b, "aten.clamp.default");
    pl_call_tensor(b, "self", x);
    pl_call_float(b, "min", 0);
    return pl_call_result_like(b, x);
}

/* mamba2_chunk_scan: x [B,S,heads,head_dim], dt [B,S,heads], a, d and dt_bias [heads], bs and cs
 * [B,S,groups,state] to x's sizes. */
static int32_t scan(pl_hf *m, const pl_mamba2 *s, int32_t x, int32_t dt, int32_t a, int32_t bs,
                    int32_t cs, int32_t d, int32_t dt_bias) {
    pl_builder *b = m->b;
    int64_t chunk = s->chunk, by = (chunk - m->seq % chunk) % chunk, batch = m->batch,
            count = (m->seq + by) / chunk, heads = s->heads, dim = s->head_dim, state = s->state;
    pl_module_enter(b, "mamba2_chunk_scan", "mamba2_chunk_scan");
    pl_line(b, "1: dt = dt + dt_bias.to(dt.dtype)");
    dt = pl_aten_add(b, dt, pl_scan_to_type_of(b, dt_bias, dt));
    pl_line(b, "2: dt = F.softplus(dt)");
    dt = pl_aten_unary(b, "aten.softplus.default", dt);
    pl_line(b, "3: dt = torch.clamp(dt, min=dt_limit[0], max=dt_limit[1])");
    dt = limited(b, dt);
    pl_line(b, "1: hidden_states = hidden_states.float()");
    x = pl_aten_to(b, x, PL_DT_F32);
    pl_line(b, "1: B = B.float().repeat_interleave(num_heads // num_groups, dim=2)");
    bs = repeated(b, pl_aten_to(b, bs, PL_DT_F32), heads);
    pl_line(b, "1: C = C.float().repeat_interleave(num_heads // num_groups, dim=2)");
    cs = repeated(b, pl_aten_to(b, cs, PL_DT_F32), heads);
    pl_line(b, "D_residual = D[..., None] * pad_tensor_by_size(hidden_states, pad_size)");
    int32_t beside = pl_aten_mul(b, pl_aten_unsqueeze(b, d, -1), padded(b, x, by));
    pl_line(b, "2: hidden_states = hidden_states * dt[..., None].float()");
    x = pl_aten_mul(b, x, pl_aten_to(b, pl_aten_unsqueeze(b, dt, -1), PL_DT_F32));
    pl_line(b, "1: A = A.to(hidden_states.dtype) * dt.float()");
    a = pl_aten_mul(b, pl_scan_to_type_of(b, a, x), pl_aten_to(b, dt, PL_DT_F32));
    pl_line(b, "3: hidden_states = reshape_into_chunks(hidden_states, pad_size, chunk_size)");
    x = chunked(b, x, by, chunk);
    pl_line(b, "2: A = reshape_into_chunks(A, pad_size, chunk_size)");
    a = chunked(b, a, by, chunk);
    pl_line(b, "2: B = reshape_into_chunks(B, pad_size, chunk_size)");
    bs = chunked(b, bs, by, chunk);
    pl_line(b, "2: C = reshape_into_chunks(C, pad_size, chunk_size)");
    cs = chunked(b, cs, by, chunk);
    pl_line(b, "3: A = A.permute(0, 3, 1, 2)");
    a = pl_aten_permute(b, a, 4, (int64_t[]){0, 3, 1, 2});
    pl_line(b, "A_cumsum = torch.cumsum(A, dim=-1)");
    int32_t sum = pl_aten_cumsum(b, a, -1);
    pl_line(b, "L = torch.exp(segment_sum(A))");
    int32_t l = pl_aten_unary(b, EXP, segment_sum(b, a));
    pl_line(b, "G = torch.einsum(\"bclhn,bcshn->bclsh\", C, B)");
    int32_t g =
        einsum(b, "bclhn,bcshn->bclsh", cs, bs, PL_SIZES(batch, count, chunk, chunk, heads));
    pl_line(b, "M = G * L.permute(0, 2, 3, 4, 1)");
    int32_t mm = pl_aten_mul(b, g, pl_aten_permute(b, l, 5, (int64_t[]){0, 2, 3, 4, 1}));
    pl_line(b, "Y_diag = torch.einsum(\"bclsh,bcshp->bclhp\", M, hidden_states)");
    int32_t y = einsum(b, "bclsh,bcshp->bclhp", mm, x, PL_SIZES(batch, count, chunk, heads, dim));
    pl_line(b, "decay_states = torch.exp(A_cumsum[:, :, :, -1:] - A_cumsum)");
    int32_t last = pl_aten_slice(b, sum, 3, -1, INT64_MAX);
    last = pl_aten_unary(b, EXP, pl_aten_binary(b, "aten.sub.Tensor", last, sum));
    pl_line(b, "B_decay = B * decay_states.permute(0, -2, -1, 1)[..., None]");
    last = pl_aten_permute(b, last, 4, (int64_t[]){0, 2, 3, 1});
    bs = pl_aten_mul(b, bs, pl_aten_unsqueeze(b, last, -1));
    pl_line(b, "1: states = torch.einsum(\"bclhn,bclhp->bchpn\", B_decay, hidden_states)");
    int32_t states =
        einsum(b, "bclhn,bclhp->bchpn", bs, x, PL_SIZES(batch, count, heads, dim, state));
    states = pass_on(b, states, sum);
    pl_line(b, "state_decay_out = torch.exp(A_cumsum)");
    int32_t out = pl_aten_unary(b, EXP, sum);
    pl_line(b, "C_times_states = torch.einsum(\"bclhn,bchpn->bclhp\", C, states)");
    int32_t past =
        einsum(b, "bclhn,bchpn->bclhp", cs, states, PL_SIZES(batch, count, chunk, heads, dim));
    pl_line(b, "Y_off = C_times_states * state_decay_out.permute(0, 2, 3, 1)[..., None]");
    out = pl_aten_permute(b, out, 4, (int64_t[]){0, 2, 3, 1});
    past = pl_aten_mul(b, past, pl_aten_unsqueeze(b, out, -1));
    pl_line(b, "1: output = (Y_diag + Y_off).contiguous()");
    y = pl_aten_contiguous(b, pl_aten_add(b, y, past));
    pl_line(b, "2: output = output.reshape(batch_size, -1, num_heads, head_dim)");
    y = pl_aten_reshape(b, y, PL_SIZES(batch, -1, heads, dim));
    pl_line(b, "3: output = output + D_residual");
    y = pl_aten_add(b, y, beside);
    pl_line(b, "4: output = output[:, :sequence_length]");
    if (by > 0) y = pl_aten_slice(b, y, 1, 0, m->seq);
    pl_module_leave(b);
    return y;
}

static int32_t silu_float(pl_builder *b, int32_t gate) {
    return pl_aten_unary(b, "aten.silu.default", pl_aten_to(b, gate, PL_DT_F32));
}

static int32_t root_mean_square(pl_builder *b, int32_t x, double eps) {
    pl_line(b, "variance = hidden_states.pow(2).mean(-1, keepdim=True)");
    int32_t v = pl_aten_scalar(b, "aten.pow.Tensor_Scalar", x, 2);
    v = pl_aten_reduce(b, "aten.mean.dim", v, -1, true);
    pl_line(b, "3: hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)");
    v = pl_aten_unary(b, "aten.rsqrt.default", pl_aten_scalar(b, "aten.add.Tensor", v, eps));
    return pl_aten_mul(b, x, v);
}

/* Falcon H1's: x, gate [B,S,inner] */
static int32_t norm_falcon(pl_hf *m, const pl_mamba2 *s, int32_t weight, int32_t x, int32_t gate) {
    pl_builder *b = m->b;
    int32_t like = x;
    pl_line(b, "1: hidden_states = hidden_states * F.silu(gate.to(torch.float32))");
    if (s->norm == PL_MAMBA2_NORM_AFTER) x = pl_aten_mul(b, x, silu_float(b, gate));
    pl_line(b, "2: hidden_states = hidden_states.to(torch.float32)");
    x = pl_aten_to(b, x, PL_DT_F32);
    x = pl_aten_view(b, x, PL_SIZES(m->batch, m->seq, s->groups, s->inner / s->groups));
    x = root_mean_square(b, x, s->eps);
    pl_line(b, "4: hidden_states = self.weight.view(n_groups, -1) * hidden_states");
    x = pl_aten_mul(b, pl_aten_view(b, weight, PL_SIZES(s->groups, s->inner / s->groups)), x);
    x = pl_aten_view(b, x, PL_SIZES(m->batch, m->seq, s->inner));
    pl_line(b, "5: hidden_states = hidden_states * F.silu(gate.to(torch.float32))");
    if (s->norm == PL_MAMBA2_NORM_BEFORE) x = pl_aten_mul(b, x, silu_float(b, gate));
    pl_line(b, "return hidden_states.to(input_dtype)");
    return pl_scan_to_type_of(b, x, like);
}

static int32_t norm_gated(pl_hf *m, const pl_mamba2 *s, int32_t x, int32_t gate) {
    pl_builder *b = m->b;
    int32_t like = x;
    pl_module_enter(b, "norm", s->norm_type);
    int32_t weight = pl_build_parameter(b, "weight", PL_SIZES(s->inner));
    if (s->norm == PL_MAMBA2_NORM_BEFORE || s->norm == PL_MAMBA2_NORM_AFTER) {
        x = norm_falcon(m, s, weight, x, gate);
        pl_module_leave(b);
        return x;
    }
    pl_line(b, "1: hidden_states = hidden_states.to(torch.float32)");
    x = pl_aten_to(b, x, PL_DT_F32);
    pl_line(b, "2: hidden_states = hidden_states * nn.functional.silu(gate.to(torch.float32))");
    x = pl_aten_mul(b, x, silu_float(b, gate));
    if (s->norm == PL_MAMBA2_NORM_GROUPS)
        x = pl_aten_view(b, x, PL_SIZES(m->batch, m->seq, s->groups, s->inner / s->groups));
    x = root_mean_square(b, x, s->eps);
    if (s->norm == PL_MAMBA2_NORM_GROUPS)
        x = pl_aten_view(b, x, PL_SIZES(m->batch, m->seq, s->inner));
    pl_line(b, "return self.weight * hidden_states.to(input_dtype)");
    x = pl_aten_mul(b, weight, pl_scan_to_type_of(b, x, like));
    pl_module_leave(b);
    return x;
}

int32_t pl_mamba2_mix(pl_hf *m, const pl_mamba2 *s, int32_t x) {
    pl_builder *b = m->b;
    int64_t shared = s->groups * s->state, wide = s->inner + 2 * shared;
    int32_t conv_bias, parts[3], own[3], like = x;
    pl_module_enter(b, s->name, s->type);
    pl_module_children(b, "dt_bias A_log D conv1d in_proj norm out_proj");
    int32_t dt_bias = pl_build_parameter(b, "dt_bias", PL_SIZES(s->heads));
    int32_t a = pl_build_parameter(b, "A_log", PL_SIZES(s->heads));
    int32_t d = pl_build_parameter(b, "D", PL_SIZES(s->heads));
    int32_t conv = pl_scan_conv_weight(b, "conv1d", wide, s->kernel, s->conv_bias, &conv_bias);
    pl_line(b, "1: hidden_states = hidden_states * self.ssm_in_multiplier");
    if (s->multiplied) x = pl_aten_scalar(b, MUL, x, 1);
    pl_line(b, "1: projected_states = self.in_proj(hidden_states)");
    int32_t p = pl_hf_linear(m, "in_proj", x, s->inner + wide + s->heads, s->bias);
    if (s->multiplied) {
        int32_t by = pl_build_buffer(b, "mup_vector", m->dtype, false,
                                     PL_SIZES(1, 1, s->inner + wide + s->heads));
        pl_line(b, "2: projected_states = projected_states * self.mup_vector");
        p = pl_aten_mul(b, p, by);
    }
    pl_line(b, "A = -torch.exp(self.A_log.float())");
    a = pl_aten_unary(b, EXP, pl_aten_to(b, a, PL_DT_F32));
    a = pl_aten_unary(b, "aten.neg.default", a);
    pl_line(b, "gate, hidden_states_B_C, dt = projected_states.split(");
    pl_aten_split(b, p, 3, (int64_t[]){s->inner, wide, s->heads}, -1, parts);
    pl_line(b, "1: hidden_states_B_C = hidden_states_B_C.transpose(1, 2)");
    int32_t y = pl_aten_transpose(b, parts[1], 1, 2);
    pl_line(b, "2: hidden_states_B_C = causal_conv1d_fn(");
    y = pl_scan_conv(m, y, conv, conv_bias, s->act);
    pl_line(b, "3: hidden_states_B_C = hidden_states_B_C.transpose(1, 2)");
    y = pl_aten_transpose(b, y, 1, 2);
    pl_line(b, "hidden_states, B, C = torch.split(hidden_states_B_C)");
    pl_aten_split(b, y, 3, (int64_t[]){s->inner, shared, shared}, -1, own);
    pl_line(b, "scan_result = mamba2_chunk_scan(");
    y = pl_aten_view(b, own[0], PL_SIZES(m->batch, m->seq, s->heads, s->head_dim));
    int32_t bs = pl_aten_view(b, own[1], PL_SIZES(m->batch, m->seq, s->groups, s->state));
    int32_t cs = pl_aten_view(b, own[2], PL_SIZES(m->batch, m->seq, s->groups, s->state));
    y = scan(m, s, y, parts[2], a, bs, cs, d, dt_bias);
    pl_line(b, "1: scan_output = scan_result.reshape(batch_size, seq_len, -1)");
    y = pl_aten_reshape(b, y, PL_SIZES(m->batch, m->seq, s->inner));
    pl_line(b, "2: scan_output = self.norm(scan_output, gate)");
    if (s->norm == PL_MAMBA2_NORM_NONE)
        y = pl_aten_mul(b, y, pl_aten_unary(b, "aten.silu.default", parts[0]));
    else
        y = norm_gated(m, s, y, parts[0]);
    pl_line(b, "contextualized_states = self.out_proj(scan_output.to(dtype))");
    y = pl_hf_linear(m, "out_proj", pl_scan_to_type_of(b, y, like), s->width, s->out_bias);
    pl_module_leave(b);
    return y;
}

/* ---- the model of these alone ---- */

#define MODULE "transformers.models.mamba2.modeling_mamba2.Mamba2"

static int32_t norm(pl_hf *m, const char *name, int32_t x, double eps) {
    pl_builder *b = m->b;
    int32_t like = x;
    pl_module_enter(b, name, MODULE "RMSNorm");
    int32_t weight = pl_build_parameter(b, "weight", PL_SIZES(pl_built_size(b, x, -1)));
    pl_line(b, "1: hidden_states = hidden_states.to(torch.float32)");
    x = root_mean_square(b, pl_aten_to(b, x, PL_DT_F32), eps);
    pl_line(b, "return self.weight * hidden_states.to(input_dtype)");
    x = pl_aten_mul(b, weight, pl_scan_to_type_of(b, x, like));
    pl_module_leave(b);
    return x;
}

static int32_t block(pl_hf *m, const pl_mamba2 *s, int32_t table, bool wide, int32_t x) {
    pl_builder *b = m->b;
    pl_module_children(b, "norm mixer");
    pl_line(b, "1: hidden_states = self.norm(hidden_states.to(dtype=self.norm.weight.dtype))");
    int32_t y = norm(m, "norm", pl_scan_to_type_of(b, x, table), s->eps);
    pl_line(b, "2: residual = residual.to(torch.float32)");
    if (wide) x = pl_aten_to(b, x, PL_DT_F32);
    pl_line(b, "2: hidden_states = self.mixer(hidden_states)");
    y = pl_mamba2_mix(m, s, y);
    pl_line(b, "3: hidden_states = residual + hidden_states");
    return pl_aten_add(b, x, y);
}

static void build_mamba2(pl_hf *m) {
    pl_builder *b = m->b;
    int64_t vocab = pl_hf_need(m, "vocab_size"), layers = pl_hf_layers(m, "num_hidden_layers");
    pl_mamba2 s = {.name = "mixer",
                   .type = MODULE "Mixer",
                   .norm_type = "transformers.models.mamba2.modeling_mamba2.MambaRMSNormGated",
                   .width = pl_hf_need(m, "hidden_size|d_model"),
                   .heads = pl_hf_int(m, "num_heads", 128),
                   .head_dim = pl_hf_int(m, "head_dim", 64),
                   .groups = pl_hf_int(m, "n_groups", 8),
                   .state = pl_hf_int(m, "state_size", 128),
                   .kernel = pl_hf_int(m, "conv_kernel", 4),
                   .chunk = pl_hf_int(m, "chunk_size", 256),
                   .bias = pl_hf_bool(m, "use_bias", false),
                   .conv_bias = pl_hf_bool(m, "use_conv_bias", true),
                   .act = pl_hf_string(m, "hidden_act", "silu"),
                   .eps = pl_hf_float(m, "layer_norm_epsilon", 1e-5)};
    s.inner = (int64_t)(pl_hf_float(m, "expand", 2) * (double)s.width);
    s.out_bias = s.bias;
    if (!pl_mamba2_fits(m, &s, "num_heads", "n_groups")) return;
    bool causal = m->task == PL_TASK_CAUSAL, wide = pl_hf_bool(m, "residual_in_fp32", true);
    pl_module_enter(b, "", causal ? MODULE "ForCausalLM" : MODULE "Model");
    if (causal) pl_module_children(b, "backbone lm_head");
    int32_t ids = pl_hf_input_ids(m);
    if (causal) pl_module_enter(b, "backbone", MODULE "Model");
    pl_module_children(b, "embeddings layers norm_f");
    pl_line(b, "inputs_embeds = self.embeddings(input_ids)");
    pl_module_enter(b, "embeddings", "torch.nn.modules.sparse.Embedding");
    int32_t table = pl_build_parameter(b, "weight", PL_SIZES(vocab, s.width));
    int32_t x = pl_aten_embedding(b, table, ids, -1);
    pl_module_leave(b);
    for (int64_t i = 0; i < layers && !pl_build_failed(b); i++) {
        pl_module_enter(b, pl_build_text(b, "layers.%lld", (long long)i), MODULE "Block");
        x = block(m, &s, table, wide, x);
        pl_module_leave(b);
    }
    x = norm(m, "norm_f", x, s.eps);
    if (!causal) {
        pl_build_output(b, x);
        pl_module_leave(b);
        return;
    }
    pl_module_leave(b);
    pl_line(b, "logits = self.lm_head(hidden_states.to(self.lm_head.weight.dtype)).float()");
    x = pl_scan_to_type_of(b, x, table);
    x = pl_hf_bool(m, "tie_word_embeddings", false)
            ? pl_hf_tied_linear(m, "lm_head", x, table, vocab, false)
            : pl_hf_linear(m, "lm_head", x, vocab, false);
    pl_hf_causal_loss(m, pl_aten_to(b, x, PL_DT_F32));
    pl_module_leave(b);
}

const pl_hf_family pl_hf_mamba2[] = {
    {.model_type = "mamba2",
     .tasks = 1u << PL_TASK_CAUSAL | 1u << PL_TASK_BASE,
     .usual = PL_TASK_CAUSAL,
     .build = build_mamba2,
     .version = "5.22",
     .no_attention = 1u << PL_ATTN_SDPA | 1u << PL_ATTN_EAGER | 1u << PL_ATTN_FLASH2,
     .warning = "chunks of products are simulated, as transformers runs them without the packages "
                "mamba-ssm and causal-conv1d; with their kernels a job needs less"},
    {0},
};
