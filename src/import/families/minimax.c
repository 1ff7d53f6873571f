/* minimax: MiniMax: lightning attention in every second layer, linear attention in blocks of products,
 * and sums of weighted parts around each.
 *
 * Rules: transformers 5.22, models/minimax/modeling_minimax.py. */
#include <string.h>

#include "import/families/experts.h"

#define MUL "aten.mul.Tensor"

static bool is_linear(pl_decoding *d, int64_t layer) {
    if (layer < pl_hf_list(d->m, "layer_types"))
        return strcmp(pl_hf_list_string(d->m, "layer_types", layer, ""), "linear_attention") == 0;
    return (layer + 1) % 2 == 0;
}

/* q, k, v [B,heads,S,d] to the same, a block after another; state [B,heads,d,d] of what is past. */
static int32_t run_blocks(pl_decoding *d, int32_t q, int32_t k, int32_t v, int64_t block,
                          const int32_t decays[4]) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int64_t count = (m->seq + block - 1) / block;
    int32_t *outputs = pl_build_array(b, count, sizeof *outputs);
    if (!outputs) return PL_NONE;
    pl_line(b, "0: attn_weights_inter = torch.zeros(");
    int32_t state = pl_aten_make(b, "aten.zeros.default", pl_built(b, v)->dtype,
                                 PL_SIZES(m->batch, d->heads, d->head_dim, d->head_dim), 0);
    state = pl_aten_type_as(b, state, v);
    for (int64_t i = 0; i < count && !pl_build_failed(b); i++) {
        int64_t from = i * block, to = from + block < m->seq ? from + block : m->seq, n = to - from;
        long long at = (long long)i + 1;
        pl_line(b, "");
        int32_t qs = pl_aten_slice(b, q, 2, from, to), ks = pl_aten_slice(b, k, 2, from, to),
                vs = pl_aten_slice(b, v, 2, from, to);
        int32_t by_q = pl_aten_slice(b, decays[1], 1, 0, n),
                by_k = pl_aten_slice(b, decays[2], 1, block - n, INT64_MAX),
                within = pl_aten_slice(b, pl_aten_slice(b, decays[3], 2, 0, n), 3, 0, n);
        pl_line(b, pl_build_text(b, "%lld: block_decay = torch.exp(-slope_rate * size)", at));
        int32_t fade = pl_aten_unary(b, "aten.neg.default", decays[0]);
        fade = pl_aten_unary(b, "aten.exp.default", pl_aten_scalar(b, MUL, fade, (double)n));
        pl_line(b, pl_build_text(b, "%lld: attn_weights_intra = torch.matmul(q, k)", at));
        int32_t w = pl_aten_matmul(b, qs, pl_aten_transpose(b, ks, -1, -2));
        pl_line(b, pl_build_text(b, "%lld: attn_output_intra = torch.matmul(", at));
        int32_t own = pl_aten_matmul(b, pl_aten_mul(b, w, within), vs);
        pl_line(b, pl_build_text(b, "%lld: attn_output_inter = torch.matmul(", at));
        int32_t past = pl_aten_matmul(b, pl_aten_mul(b, qs, by_q), state);
        pl_line(b, pl_build_text(b, "%lld: current_attn_output = inter + intra", at));
        outputs[i] = pl_aten_add(b, past, own);
        pl_line(b, pl_build_text(b, "%lld: next_attn_weights_inter = torch.matmul(", at));
        int32_t next = pl_aten_transpose(b, pl_aten_mul(b, ks, by_k), -1, -2);
        next = pl_aten_matmul(b, next, vs);
        pl_line(b, pl_build_text(b, "%lld: attn_weights_inter = attn_weights_inter * decay", at));
        state = pl_aten_add(b, pl_aten_mul(b, state, fade), next);
    }
    pl_line(b, "1: attn_output = torch.cat(attn_output, dim=-2)");
    return pl_aten_cat(b, (int)count, outputs, 2);
}

static int32_t lightning(pl_decoding *d, int32_t x) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int64_t block = pl_hf_need(m, "block_size"), wide = d->heads * d->head_dim;
    int32_t part[3], input = x;
    pl_module_enter(b, "self_attn", pl_decoder_type(d, "LightningAttention"));
    pl_module_children(b, "norm qkv_proj out_proj output_gate");
    const int32_t decays[4] = {
        pl_build_buffer(b, "slope_rate", PL_DT_F32, true, PL_SIZES(d->heads, 1, 1)),
        pl_build_buffer(b, "query_decay", PL_DT_F32, true, PL_SIZES(d->heads, block, 1)),
        pl_build_buffer(b, "key_decay", PL_DT_F32, true, PL_SIZES(d->heads, block, 1)),
        pl_build_buffer(b, "diagonal_decay", PL_DT_F32, true, PL_SIZES(1, d->heads, block, block))};
    pl_line(b, "1: qkv_states = self.act_fn(self.qkv_proj(hidden_states))");
    x = pl_hf_linear(m, "qkv_proj", x, 3 * wide, false);
    x = pl_hf_activation(m, "act_fn", d->act, x);
    pl_line(b, "2: qkv_states = qkv_states.reshape(");
    x = pl_aten_reshape(b, x, PL_SIZES(m->batch, m->seq, d->heads, 3 * d->head_dim));
    pl_line(b, "query_states, key_states, value_states = torch.split(qkv_states)");
    pl_aten_split(b, x, 3, (int64_t[]){d->head_dim, d->head_dim, d->head_dim}, 3, part);
    pl_line(b, "");
    for (int i = 0; i < 3; i++) part[i] = pl_aten_transpose(b, part[i], 1, 2);
    int32_t y = run_blocks(d, part[0], part[1], part[2], block, decays);
    pl_line(b, "2: attn_output = attn_output.transpose(1, 2)");
    y = pl_aten_transpose(b, y, 1, 2);
    pl_line(b, "3: attn_output = attn_output.reshape(batch_size, seq_len, -1)");
    y = pl_aten_reshape(b, y, PL_SIZES(m->batch, m->seq, wide));
    pl_line(b, "4: attn_output = self.norm(attn_output)");
    y = pl_decoder_norm(d, "norm", y);
    pl_line(b, "5: attn_output = F.sigmoid(self.output_gate(hidden_states)) * attn_output");
    int32_t gate = pl_hf_linear(m, "output_gate", input, wide, false);
    y = pl_aten_mul(b, pl_aten_unary(b, "aten.sigmoid.default", gate), y);
    pl_line(b, "6: attn_output = self.out_proj(attn_output)");
    y = pl_hf_linear(m, "out_proj", y, d->width, false);
    pl_module_leave(b);
    return y;
}

/* x alpha + y beta */
static int32_t weighted(pl_builder *b, int32_t x, int32_t y) {
    return pl_aten_add(b, pl_aten_scalar(b, MUL, x, 1), pl_aten_scalar(b, MUL, y, 1));
}

static int32_t layer(pl_decoding *d, int64_t index, int32_t x) {
    pl_builder *b = d->m->b;
    pl_module_enter(b, pl_build_text(b, "layers.%lld", (long long)index), d->layer_type);
    pl_module_children(b, "self_attn input_layernorm post_attention_layernorm mlp");
    pl_line(b, "1: hidden_states = self.input_layernorm(hidden_states)");
    x = pl_decoder_norm(d, "input_layernorm", x);
    pl_line(b, "2: attention = self.self_attn(hidden_states=hidden_states)");
    int32_t y = is_linear(d, index) ? lightning(d, x) : pl_decoder_attention(d, index, x);
    pl_line(b, "3: hidden_states = residual * alpha_factor + hidden_states * beta_factor");
    x = weighted(b, x, y);
    pl_line(b, "4: hidden_states = self.post_attention_layernorm(hidden_states)");
    x = pl_decoder_norm(d, "post_attention_layernorm", x);
    pl_line(b, "5: experts = self.mlp(hidden_states)");
    y = pl_decoder_feed_forward(d, index, x);
    pl_line(b, "6: hidden_states = residual * mlp_alpha_factor + hidden_states * mlp_beta_factor");
    x = weighted(b, x, y);
    pl_module_leave(b);
    return x;
}

static const pl_mixture mixture = {
    .type = "SparseMoeBlock",
    .children = "gate experts",
    .router = {.type = "TopKRouter", .scores = PL_SCORES_FLOATED, .sum = PL_SUM_ALWAYS}};

const pl_hf_family pl_hf_minimax[] = {
    {PL_DECODER_ROW("minimax", PL_DECODER_HEADS),
     .warning = "tokens are taken to be spread evenly over the experts",
     PL_DECODER_PLAN(.package = "minimax", .prefix = "MiniMax", .eps = "rms_norm_eps",
                     .mlp = PL_MLP_EXPERTS, .window = PL_WINDOW_ALL, .mixture = &mixture,
                     .layer = layer)},
    {0},
};
