/* delta: the gated delta rule, linear attention in chunks of 64 tokens: Qwen 3 Next, Qwen 3.5, OLMo hybrid.
 *
 * Rules: transformers 5.17, models/qwen3_next/modeling_qwen3_next.py, torch_chunk_gated_delta_rule and
 * its callers, which run where flash-linear-attention and causal-conv1d are not installed. All of it
 * is float32; their fused kernels keep far less.
 *
 * A function of Python is built as the call of a module without parameters: its names end with it. */
#include "import/families/scan.h"

enum { CHUNK = 64 };

#define MUL "aten.mul.Tensor"
#define SUB "aten.sub.Tensor"
#define EXP "aten.exp.default"

typedef struct net {
    int64_t key_heads, value_heads, key_dim, value_dim; /* of heads, and of one */
    int64_t keys, values, kernel;                       /* keys, values: of all heads */
} net;

static net read_net(pl_hf *m) {
    net n = {.key_heads = pl_hf_need(m, "linear_num_key_heads"),
             .value_heads = pl_hf_need(m, "linear_num_value_heads"),
             .key_dim = pl_hf_need(m, "linear_key_head_dim"),
             .value_dim = pl_hf_need(m, "linear_value_head_dim"),
             .kernel = pl_hf_int(m, "linear_conv_kernel_dim", 4)};
    if (n.key_heads < 1 || n.value_heads % n.key_heads != 0)
        pl_hf_refuse(m, "linear_num_key_heads", "%lld does not divide linear_num_value_heads, %lld",
                     (long long)n.key_heads, (long long)n.value_heads);
    if (pl_build_failed(m->b)) n.key_heads = n.value_heads = 1;
    n.keys = n.key_heads * n.key_dim;
    n.values = n.value_heads * n.value_dim;
    return n;
}

/* x * rsqrt((x * x).sum(-1) + eps) */
static int32_t unit_length(pl_builder *b, int32_t x) {
    int32_t sum = pl_aten_reduce(b, "aten.sum.dim_IntList", pl_aten_mul(b, x, x), -1, true);
    sum = pl_aten_scalar(b, "aten.add.Tensor", sum, 1e-6);
    return pl_aten_mul(b, x, pl_aten_unary(b, "aten.rsqrt.default", sum));
}

/* Zeros behind the sequence, up to whole chunks: [B,heads,S] or [B,heads,S,d]. Padding by nothing
 * clones. */
static int32_t padded(pl_builder *b, int32_t x, int64_t by) {
    bool wide = pl_built_dims(b, x) == 4;
    if (by == 0) return pl_aten_clone(b, x);
    return wide ? pl_aten_pad(b, x, 4, (int64_t[]){0, 0, 0, by})
                : pl_aten_pad(b, x, 2, (int64_t[]){0, by});
}

static int32_t chunked(pl_builder *b, int32_t x) {
    int64_t batch = pl_built_size(b, x, 0), heads = pl_built_size(b, x, 1);
    if (pl_built_dims(b, x) == 3) return pl_aten_reshape(b, x, PL_SIZES(batch, heads, -1, CHUNK));
    return pl_aten_reshape(b, x, PL_SIZES(batch, heads, -1, CHUNK, pl_built_size(b, x, 3)));
}

static int32_t turned(pl_builder *b, int32_t x) {
    return pl_aten_transpose(b, x, -1, -2);
}

/* Of a unit lower triangular a [.., n, n] and y [.., n, m]. */
static int32_t solve(pl_builder *b, int32_t a, int32_t y) {
    pl_call(b, "aten.linalg_solve_triangular.default");
    pl_call_tensor(b, "self", a);
    pl_call_tensor(b, "B", y);
    pl_call_bool(b, "upper", false);
    pl_call_bool(b, "unitriangular", true);
    return pl_call_result_like(b, y);
}

/* exp(differences of decays within a chunk), 0 above the diagonal: [B,heads,chunks,64,64] */
static int32_t pairwise(pl_builder *b, int32_t decay) {
    pl_line(b, "strictly_upper_mask = torch.ones(chunk_size, chunk_size).triu(1)");
    int32_t ones = pl_aten_make(b, "aten.ones.default", PL_DT_BOOL, PL_SIZES(CHUNK, CHUNK), 1);
    pl_call(b, "aten.triu.default");
    pl_call_tensor(b, "self", ones);
    pl_call_int(b, "diagonal", 1);
    int32_t mask = pl_call_result_like(b, ones);
    pl_line(b, "1: pairwise_decay = cum_decay.unsqueeze(4) - cum_decay.unsqueeze(3)");
    int32_t y =
        pl_aten_binary(b, SUB, pl_aten_unsqueeze(b, decay, 4), pl_aten_unsqueeze(b, decay, 3));
    pl_line(b, "2: pairwise_decay = pairwise_decay.masked_fill(strictly_upper_mask, -inf)");
    y = pl_aten_masked_fill(b, y, mask, -3e38);
    pl_line(b, "3: pairwise_decay = pairwise_decay.exp()");
    return pl_aten_unary(b, EXP, y);
}

/* The states from chunk to chunk: values, keys of the past, queries and keys of each, all
 * [B,heads,chunks,64,..]; inner its own attention; end [B,heads,chunks,1,1]. */
static void run_chunks(pl_builder *b, int32_t out, int32_t values, int32_t past, int32_t q,
                       int32_t k, int32_t inner, int32_t end) {
    int64_t count = pl_built_size(b, q, 2);
    pl_line(b, "0: last_recurrent_state = torch.zeros(recurrent_state_shape)");
    int32_t state = pl_aten_make(b, "aten.zeros.default", PL_DT_F32,
                                 PL_SIZES(pl_built_size(b, q, 0), pl_built_size(b, q, 1),
                                          pl_built_size(b, k, -1), pl_built_size(b, values, -1)),
                                 0);
    for (int64_t i = 0; i < count && !pl_build_failed(b); i++) {
        long long number = (long long)i + 1;
        pl_line(b, pl_build_text(b,
                                 "%lld: v_new = new_values[:, :, i] - k_cumdecay[:, :, i] @ "
                                 "last_recurrent_state",
                                 number));
        int32_t value = pl_aten_select(b, values, 2, i);
        int32_t known = pl_aten_matmul(b, pl_aten_select(b, past, 2, i), state);
        value = pl_aten_binary(b, SUB, value, known);
        pl_line(b, pl_build_text(b,
                                 "%lld: inter_chunk_attn = query[:, :, i] @ "
                                 "last_recurrent_state",
                                 number));
        int32_t y = pl_aten_matmul(b, pl_aten_select(b, q, 2, i), state);
        pl_line(b, "");
        int32_t own = pl_aten_matmul(b, pl_aten_select(b, inner, 2, i), value);
        pl_scan_put(b, out, 2, i, pl_aten_add(b, y, own));
        pl_line(b, pl_build_text(b,
                                 "%lld: last_recurrent_state = last_recurrent_state * "
                                 "chunk_decay[:, :, i] + key[:, :, i] @ v_new",
                                 number));
        state = pl_aten_mul(b, state, pl_aten_select(b, end, 2, i));
        int32_t more = pl_aten_matmul(b, turned(b, pl_aten_select(b, k, 2, i)), value);
        state = pl_aten_add(b, state, more);
    }
}

/* torch_chunk_gated_delta_rule: q, k, v [B,S,heads,d], decay and beta [B,S,heads] to
 * [B,S,heads,value_dim]. */
static int32_t chunk_rule(pl_decoding *d, int32_t q, int32_t k, int32_t v, int32_t decay,
                          int32_t beta) {
    pl_builder *b = d->m->b;
    int64_t seq = d->m->seq, by = (CHUNK - seq % CHUNK) % CHUNK;
    int32_t like = q;
    pl_module_enter(b, "chunk_gated_delta_rule", "torch_chunk_gated_delta_rule");
    pl_line(b, "1: query = x.transpose(1, 2).to(torch.float32)");
    q = pl_scan_float_contiguous(b, pl_aten_transpose(b, q, 1, 2));
    pl_line(b, "1: key = x.transpose(1, 2).to(torch.float32)");
    k = pl_scan_float_contiguous(b, pl_aten_transpose(b, k, 1, 2));
    pl_line(b, "1: value = x.transpose(1, 2).to(torch.float32)");
    v = pl_scan_float_contiguous(b, pl_aten_transpose(b, v, 1, 2));
    pl_line(b, "1: beta = x.transpose(1, 2).to(torch.float32)");
    beta = pl_scan_float_contiguous(b, pl_aten_transpose(b, beta, 1, 2));
    pl_line(b, "1: decay = x.transpose(1, 2).to(torch.float32)");
    decay = pl_scan_float_contiguous(b, pl_aten_transpose(b, decay, 1, 2));
    pl_line(b, "2: query = l2norm(query, dim=-1, eps=1e-6)");
    q = unit_length(b, q);
    pl_line(b, "2: key = l2norm(key, dim=-1, eps=1e-6)");
    k = unit_length(b, k);
    pl_line(b, "3: query = query * scaling");
    q = pl_aten_scalar(b, MUL, q, 0.1);
    pl_line(b, "4: query = F.pad(query, (0, 0, 0, pad_size))");
    q = padded(b, q, by);
    pl_line(b, "4: key = F.pad(key, (0, 0, 0, pad_size))");
    k = padded(b, k, by);
    pl_line(b, "4: value = F.pad(value, (0, 0, 0, pad_size))");
    v = padded(b, v, by);
    pl_line(b, "4: beta = F.pad(beta, (0, pad_size))");
    beta = padded(b, beta, by);
    pl_line(b, "4: decay = F.pad(decay, (0, pad_size))");
    decay = padded(b, decay, by);
    pl_line(b, "1: v_beta = value * beta.unsqueeze(-1)");
    int32_t v_beta = pl_aten_mul(b, v, pl_aten_unsqueeze(b, beta, -1));
    pl_line(b, "1: k_beta = key * beta.unsqueeze(-1)");
    int32_t k_beta = pl_aten_mul(b, k, pl_aten_unsqueeze(b, beta, -1));
    pl_line(b, "5: query = query.reshape(.., chunk_size, ..)");
    q = chunked(b, q);
    pl_line(b, "5: key = key.reshape(.., chunk_size, ..)");
    k = chunked(b, k);
    pl_line(b, "2: k_beta = k_beta.reshape(.., chunk_size, ..)");
    k_beta = chunked(b, k_beta);
    pl_line(b, "2: v_beta = v_beta.reshape(.., chunk_size, ..)");
    v_beta = chunked(b, v_beta);
    pl_line(b, "5: decay = decay.reshape(.., chunk_size)");
    decay = chunked(b, decay);
    pl_line(b, "cum_decay = decay.cumsum(dim=3)");
    int32_t sum = pl_aten_cumsum(b, decay, 3);
    int32_t pair = pairwise(b, sum);
    pl_line(b, "ut_system = (k_beta @ key.transpose(-1, -2)) * pairwise_decay");
    int32_t system = pl_aten_mul(b, pl_aten_matmul(b, k_beta, turned(b, k)), pair);
    pl_line(b, "intra_chunk_attn = (query @ key.transpose(-1, -2)) * pairwise_decay");
    int32_t inner = pl_aten_mul(b, pl_aten_matmul(b, q, turned(b, k)), pair);
    pl_line(b, "decayed_k_beta = k_beta * cum_decay.exp().unsqueeze(-1)");
    int32_t grown = pl_aten_unsqueeze(b, pl_aten_unary(b, EXP, sum), -1);
    int32_t faded = pl_aten_mul(b, k_beta, grown);
    pl_line(b, "new_values = torch.linalg.solve_triangular(ut_system, v_beta)");
    int32_t values = solve(b, system, v_beta);
    pl_line(b, "k_cumdecay = torch.linalg.solve_triangular(ut_system, decayed_k_beta)");
    int32_t past = solve(b, system, faded);
    pl_line(b, "1: core_attn_out = torch.zeros_like(new_values)");
    pl_call(b, "aten.zeros_like.default");
    pl_call_tensor(b, "self", values);
    int32_t out = pl_call_result_like(b, values);
    pl_line(b, "6: query = query * cum_decay.exp().unsqueeze(-1)");
    q = pl_aten_mul(b, q, pl_aten_unsqueeze(b, pl_aten_unary(b, EXP, sum), -1));
    pl_line(b, "6: key = key * (cum_decay[..., -1:] - cum_decay).exp().unsqueeze(-1)");
    int32_t last = pl_aten_slice(b, sum, 3, CHUNK - 1, INT64_MAX);
    last = pl_aten_unary(b, EXP, pl_aten_binary(b, SUB, last, sum));
    k = pl_aten_mul(b, k, pl_aten_unsqueeze(b, last, -1));
    pl_line(b, "chunk_decay = cum_decay[..., -1].exp()[..., None, None]");
    int32_t end = pl_aten_unary(b, EXP, pl_aten_select(b, sum, 3, CHUNK - 1));
    end = pl_aten_unsqueeze(b, pl_aten_unsqueeze(b, end, 3), 4);
    run_chunks(b, out, values, past, q, k, inner, end);
    int64_t batch = d->m->batch, heads = pl_built_size(b, out, 1), width = pl_built_size(b, out, 4);
    pl_line(b, "2: core_attn_out = core_attn_out.reshape(padded_output_shape)");
    out = pl_aten_reshape(b, out, PL_SIZES(batch, heads, -1, width));
    pl_line(b, "3: core_attn_out = core_attn_out[:, :, :sequence_length]");
    out = pl_aten_slice(b, out, 2, 0, seq);
    pl_line(b, "4: core_attn_out = core_attn_out.transpose(1, 2).to(initial_dtype)");
    out = pl_scan_contiguous_as(b, pl_aten_transpose(b, out, 1, 2), like);
    pl_module_leave(b);
    return out;
}

/* The norm of what the heads gave, by a gate: x, gate [tokens,value_dim] */
static int32_t gated_norm(pl_decoding *d, const char *name, int32_t x, int32_t gate, double eps) {
    pl_builder *b = d->m->b;
    pl_module_enter(b, name, pl_decoder_type(d, "RMSNormGated"));
    int32_t weight = pl_build_parameter(b, "weight", PL_SIZES(pl_built_size(b, x, -1)));
    pl_line(b, "1: hidden_states = hidden_states.to(torch.float32)");
    int32_t y = pl_aten_to(b, x, PL_DT_F32);
    pl_line(b, "variance = hidden_states.pow(2).mean(-1, keepdim=True)");
    int32_t v = pl_aten_scalar(b, "aten.pow.Tensor_Scalar", y, 2);
    v = pl_aten_reduce(b, "aten.mean.dim", v, -1, true);
    pl_line(b, "2: hidden_states = hidden_states * torch.rsqrt(variance + eps)");
    v = pl_aten_unary(b, "aten.rsqrt.default", pl_aten_scalar(b, "aten.add.Tensor", v, eps));
    y = pl_aten_mul(b, y, v);
    pl_line(b, "3: hidden_states = self.weight * hidden_states.to(input_dtype)");
    y = pl_aten_mul(b, weight, pl_scan_to_type_of(b, y, x));
    pl_line(b, "4: hidden_states = hidden_states * silu(gate.to(torch.float32))");
    gate = pl_aten_unary(b, "aten.silu.default", pl_aten_to(b, gate, PL_DT_F32));
    y = pl_aten_mul(b, y, gate);
    pl_line(b, "return hidden_states.to(input_dtype)");
    y = pl_scan_to_type_of(b, y, x);
    pl_module_leave(b);
    return y;
}

static int32_t repeated(pl_builder *b, int32_t x, int64_t times) {
    if (times == 1) return x;
    pl_dtype dtype = pl_built(b, x)->dtype;
    int64_t sizes[4];
    for (int i = 0; i < 4; i++) sizes[i] = pl_built_size(b, x, i);
    sizes[2] *= times;
    pl_call(b, "aten.repeat_interleave.self_int");
    pl_call_tensor(b, "self", x);
    pl_call_int(b, "repeats", times);
    pl_call_int(b, "dim", 2);
    return pl_call_result(b, dtype, 4, sizes);
}

/* -exp(A_log.float()) * softplus(a.float() + dt_bias), [B,S,value heads] */
static int32_t decay_of(pl_builder *b, int32_t a_log, int32_t a, int32_t bias) {
    pl_line(b, "g = -self.A_log.float().exp() * F.softplus(a.float() + self.dt_bias)");
    a_log = pl_aten_unary(b, EXP, pl_aten_to(b, a_log, PL_DT_F32));
    a_log = pl_aten_unary(b, "aten.neg.default", a_log);
    a = pl_aten_add(b, pl_aten_to(b, a, PL_DT_F32), bias);
    return pl_aten_mul(b, a_log, pl_aten_unary(b, "aten.softplus.default", a));
}

/* What the three kinds share: mixed [B,channels,S] to heads [B,S,heads,value_dim]. */
static int32_t attend(pl_decoding *d, const net *n, int32_t mixed, int32_t conv, int32_t a_log,
                      int32_t a, int32_t dt_bias, int32_t beta) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int32_t part[3];
    pl_line(b, "3: mixed_qkv = causal_conv1d_fn(");
    mixed = pl_scan_conv(m, mixed, conv, PL_NONE, d->act);
    pl_line(b, "4: mixed_qkv = mixed_qkv.transpose(1, 2)");
    mixed = pl_aten_transpose(b, mixed, 1, 2);
    pl_line(b, "query, key, value = torch.split(");
    pl_aten_split(b, mixed, 3, (int64_t[]){n->keys, n->keys, n->values}, -1, part);
    pl_line(b, "2: query = query.reshape(.., self.head_k_dim)");
    int32_t q = pl_aten_reshape(b, part[0], PL_SIZES(m->batch, m->seq, -1, n->key_dim));
    pl_line(b, "2: key = key.reshape(.., self.head_k_dim)");
    int32_t k = pl_aten_reshape(b, part[1], PL_SIZES(m->batch, m->seq, -1, n->key_dim));
    pl_line(b, "2: value = value.reshape(.., self.head_v_dim)");
    int32_t v = pl_aten_reshape(b, part[2], PL_SIZES(m->batch, m->seq, -1, n->value_dim));
    pl_line(b, "beta = b.sigmoid()");
    beta = pl_aten_unary(b, "aten.sigmoid.default", beta);
    int32_t decay = decay_of(b, a_log, a, dt_bias);
    pl_line(b, "3: query = query.repeat_interleave(");
    q = repeated(b, q, n->value_heads / n->key_heads);
    pl_line(b, "3: key = key.repeat_interleave(");
    k = repeated(b, k, n->value_heads / n->key_heads);
    pl_line(b, "1: core_attn_out = torch_chunk_gated_delta_rule(");
    return chunk_rule(d, q, k, v, decay, beta);
}

/* out_proj(norm(heads, gate)) */
static int32_t project_out(pl_decoding *d, const net *n, int32_t heads, int32_t gate, double eps,
                           const char *norm, const char *out) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    pl_line(b, "2: core_attn_out = core_attn_out.reshape(-1, core_attn_out.shape[-1])");
    heads = pl_aten_reshape(b, heads, PL_SIZES(-1, n->value_dim));
    pl_line(b, "3: z = z.reshape(-1, z.shape[-1])");
    gate = pl_aten_reshape(b, gate, PL_SIZES(-1, n->value_dim));
    pl_line(b, "3: core_attn_out = self.norm(core_attn_out, z)");
    heads = gated_norm(d, norm, heads, gate, eps);
    pl_line(b, "4: core_attn_out = core_attn_out.reshape(batch_size, seq_len, -1)");
    heads = pl_aten_reshape(b, heads, PL_SIZES(m->batch, m->seq, n->values));
    pl_line(b, "output = self.out_proj(core_attn_out)");
    return pl_hf_linear(m, out, heads, d->width, false);
}

/* In one matrix: the parts of a key head and of its value heads side by side. */
int32_t pl_delta_mix(pl_decoding *d, int64_t layer, int32_t x) {
    (void)layer;
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    net n = read_net(m);
    int64_t share = n.value_heads / n.key_heads, batch = m->batch, seq = m->seq;
    int32_t part[4], ba[2], none;
    pl_module_enter(b, "linear_attn", pl_decoder_type(d, "GatedDeltaNet"));
    pl_module_children(b, "dt_bias A_log conv1d in_proj_qkvz in_proj_ba norm out_proj");
    int32_t dt_bias = pl_build_parameter(b, "dt_bias", PL_SIZES(n.value_heads));
    int32_t a_log = pl_build_parameter(b, "A_log", PL_SIZES(n.value_heads));
    int32_t conv = pl_scan_conv_weight(b, "conv1d", 2 * n.keys + n.values, n.kernel, false, &none);
    pl_line(b, "projected_states_qkvz = self.in_proj_qkvz(hidden_states)");
    int32_t qkvz = pl_hf_linear(m, "in_proj_qkvz", x, 2 * n.keys + 2 * n.values, false);
    pl_line(b, "projected_states_ba = self.in_proj_ba(hidden_states)");
    int32_t both = pl_hf_linear(m, "in_proj_ba", x, 2 * n.value_heads, false);
    pl_line(b, "");
    qkvz = pl_aten_view(b, qkvz, PL_SIZES(batch, seq, n.key_heads, -1));
    both = pl_aten_view(b, both, PL_SIZES(batch, seq, n.key_heads, 2 * share));
    int64_t sizes[4] = {n.key_dim, n.key_dim, share * n.value_dim, share * n.value_dim};
    pl_aten_split(b, qkvz, 4, sizes, 3, part);
    pl_aten_split(b, both, 2, (int64_t[]){share, share}, 3, ba);
    pl_line(b, "1: value = value.reshape(batch, seq, -1, self.head_v_dim)");
    int32_t v = pl_aten_reshape(b, part[2], PL_SIZES(batch, seq, -1, n.value_dim));
    pl_line(b, "1: z = z.reshape(batch, seq, -1, self.head_v_dim)");
    int32_t z = pl_aten_reshape(b, part[3], PL_SIZES(batch, seq, -1, n.value_dim));
    pl_line(b, "b = b.reshape(batch, seq, self.num_v_heads)");
    int32_t beta = pl_aten_reshape(b, ba[0], PL_SIZES(batch, seq, n.value_heads));
    pl_line(b, "a = a.reshape(batch, seq, self.num_v_heads)");
    int32_t a = pl_aten_reshape(b, ba[1], PL_SIZES(batch, seq, n.value_heads));
    pl_line(b, "1: query = query.reshape(batch, seq, -1)");
    int32_t q = pl_aten_reshape(b, part[0], PL_SIZES(batch, seq, -1));
    pl_line(b, "1: key = key.reshape(batch, seq, -1)");
    int32_t k = pl_aten_reshape(b, part[1], PL_SIZES(batch, seq, -1));
    pl_line(b, "1b: value = value.reshape(batch, seq, -1)");
    v = pl_aten_reshape(b, v, PL_SIZES(batch, seq, -1));
    pl_line(b, "1: mixed_qkv = torch.cat((query, key, value), dim=-1)");
    int32_t mixed = pl_aten_cat(b, 3, (int32_t[]){q, k, v}, -1);
    pl_line(b, "2: mixed_qkv = mixed_qkv.transpose(1, 2)");
    mixed = pl_aten_transpose(b, mixed, 1, 2);
    int32_t y = attend(d, &n, mixed, conv, a_log, a, dt_bias, beta);
    y = project_out(d, &n, y, z, d->eps, "norm", "out_proj");
    pl_module_leave(b);
    return y;
}

int32_t pl_delta_mix_split(pl_decoding *d, int64_t layer, int32_t x) {
    (void)layer;
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    net n = read_net(m);
    int32_t none;
    pl_module_enter(b, "linear_attn", pl_decoder_type(d, "GatedDeltaNet"));
    pl_module_children(
        b, "dt_bias A_log conv1d norm out_proj in_proj_qkv in_proj_z in_proj_b in_proj_a");
    int32_t dt_bias = pl_build_parameter(b, "dt_bias", PL_SIZES(n.value_heads));
    int32_t a_log = pl_build_parameter(b, "A_log", PL_SIZES(n.value_heads));
    int32_t conv = pl_scan_conv_weight(b, "conv1d", 2 * n.keys + n.values, n.kernel, false, &none);
    pl_line(b, "1: mixed_qkv = self.in_proj_qkv(hidden_states)");
    int32_t mixed = pl_hf_linear(m, "in_proj_qkv", x, 2 * n.keys + n.values, false);
    pl_line(b, "2: mixed_qkv = mixed_qkv.transpose(1, 2)");
    mixed = pl_aten_transpose(b, mixed, 1, 2);
    pl_line(b, "z = self.in_proj_z(hidden_states)");
    int32_t z = pl_hf_linear(m, "in_proj_z", x, n.values, false);
    pl_line(b, "2: z = z.reshape(batch_size, seq_len, -1, self.head_v_dim)");
    z = pl_aten_reshape(b, z, PL_SIZES(m->batch, m->seq, -1, n.value_dim));
    pl_line(b, "b = self.in_proj_b(hidden_states)");
    int32_t beta = pl_hf_linear(m, "in_proj_b", x, n.value_heads, false);
    pl_line(b, "a = self.in_proj_a(hidden_states)");
    int32_t a = pl_hf_linear(m, "in_proj_a", x, n.value_heads, false);
    int32_t y = attend(d, &n, mixed, conv, a_log, a, dt_bias, beta);
    y = project_out(d, &n, y, z, d->eps, "norm", "out_proj");
    pl_module_leave(b);
    return y;
}

int32_t pl_delta_mix_olmo(pl_decoding *d, int64_t layer, int32_t x) {
    (void)layer;
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    net n = read_net(m);
    int32_t none, part[3];
    pl_module_enter(b, "linear_attn", pl_decoder_type(d, "GatedDeltaNet"));
    pl_module_children(
        b, "A_log dt_bias q_proj k_proj v_proj a_proj b_proj g_proj o_proj conv1d o_norm");
    int32_t a_log = pl_build_parameter(b, "A_log", PL_SIZES(n.value_heads));
    int32_t dt_bias = pl_build_parameter(b, "dt_bias", PL_SIZES(n.value_heads));
    int32_t conv = pl_scan_conv_weight(b, "conv1d", 2 * n.keys + n.values, n.kernel, false, &none);
    pl_line(b, "1: mixed_qkv = torch.cat([self.q_proj(x), self.k_proj(x), self.v_proj(x)], -1)");
    int32_t q = pl_hf_linear(m, "q_proj", x, n.keys, false);
    int32_t k = pl_hf_linear(m, "k_proj", x, n.keys, false);
    int32_t v = pl_hf_linear(m, "v_proj", x, n.values, false);
    int32_t mixed = pl_aten_cat(b, 3, (int32_t[]){q, k, v}, -1);
    mixed = pl_aten_transpose(b, mixed, 1, 2);
    pl_line(b, "2: mixed_qkv = causal_conv1d_fn(");
    mixed = pl_scan_conv(m, mixed, conv, PL_NONE, d->act);
    pl_line(b, "3: mixed_qkv = mixed_qkv[:, :, -seq_len:]");
    mixed = pl_aten_slice(b, mixed, 2, 0, INT64_MAX);
    pl_line(b, "1: q, k, v = torch.split(mixed_qkv.transpose(1, 2))");
    mixed = pl_aten_transpose(b, mixed, 1, 2);
    pl_aten_split(b, mixed, 3, (int64_t[]){n.keys, n.keys, n.values}, -1, part);
    pl_line(b, "2: q = q.view(batch_size, seq_len, -1, self.head_k_dim)");
    q = pl_aten_reshape(b, part[0], PL_SIZES(m->batch, m->seq, -1, n.key_dim));
    pl_line(b, "k = k.view(batch_size, seq_len, -1, self.head_k_dim)");
    k = pl_aten_reshape(b, part[1], PL_SIZES(m->batch, m->seq, -1, n.key_dim));
    pl_line(b, "v = v.view(batch_size, seq_len, -1, self.head_v_dim)");
    v = pl_aten_reshape(b, part[2], PL_SIZES(m->batch, m->seq, -1, n.value_dim));
    pl_line(b, "3: q = q.repeat_interleave(expand_ratio, dim=2)");
    q = repeated(b, q, n.value_heads / n.key_heads);
    pl_line(b, "2: k = k.repeat_interleave(expand_ratio, dim=2)");
    k = repeated(b, k, n.value_heads / n.key_heads);
    pl_line(b, "beta = self.b_proj(hidden_states).sigmoid()");
    int32_t beta = pl_hf_linear(m, "b_proj", x, n.value_heads, false);
    beta = pl_aten_unary(b, "aten.sigmoid.default", beta);
    if (pl_hf_bool(m, "linear_allow_neg_eigval", true)) {
        pl_line(b, "2: beta = beta * 2.0");
        beta = pl_aten_scalar(b, MUL, beta, 2);
    }
    pl_line(b, "");
    int32_t a = pl_hf_linear(m, "a_proj", x, n.value_heads, false);
    int32_t decay = decay_of(b, a_log, a, dt_bias);
    pl_line(b, "1: core_attn_out = torch_chunk_gated_delta_rule(");
    int32_t y = chunk_rule(d, q, k, v, decay, beta);
    pl_line(b, "z = self.g_proj(hidden_states)");
    int32_t z = pl_hf_linear(m, "g_proj", x, n.values, false);
    y = project_out(d, &n, y, z, 1e-5, "o_norm", "o_proj");
    pl_module_leave(b);
    return y;
}
