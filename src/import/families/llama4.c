/* llama4: Llama 4's text model: positions as complex numbers, layers without them whose queries are
 * scaled instead, attention within chunks, and experts that all run over all tokens.
 *
 * Rules: transformers 5.22, models/llama4/modeling_llama4.py. Every expert is given every token,
 * times its router's score, which is 0 where the token was not sent there: a batched product of
 * [experts, tokens, width], whatever the router chooses.
 *
 * Left out: pictures. */
#include "import/families/llama4.h"

#include <math.h>

#include "import/families/latent.h"

/* ---- attention ---- */

bool pl_llama4_turns(pl_decoding *d, int64_t layer) {
    int64_t every = pl_hf_int(d->m, "no_rope_layer_interval", 4);
    return pl_hf_list_int(d->m, "no_rope_layers", layer, every < 1 || (layer + 1) % every != 0) !=
           0;
}

/* x [B,S,heads,D], normalised without weights */
static int32_t qk_norm(pl_decoding *d, int32_t x) {
    pl_builder *b = d->m->b;
    pl_module_enter(b, "qk_norm", pl_decoder_type(d, "L2Norm"));
    int32_t y = pl_aten_to(b, x, PL_DT_F32);
    int32_t square = pl_aten_scalar(b, "aten.pow.Tensor_Scalar", y, 2);
    int32_t mean = pl_aten_reduce(b, "aten.mean.dim", square, -1, true);
    mean = pl_aten_scalar(b, "aten.add.Tensor", mean, d->eps);
    y = pl_aten_mul(b, y, pl_aten_unary(b, "aten.rsqrt.default", mean));
    y = pl_aten_type_as(b, y, x);
    pl_module_leave(b);
    return y;
}

/* Queries of layers without positions, times log(1 + floor((place + 1) / floor_scale)) .. */
static int32_t tempered(pl_decoding *d, int32_t q) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    pl_line(b,
            "1: attn_scales = torch.log1p(torch.floor((positions.float() + 1.0) / floor_scale))");
    int32_t x = pl_aten_to(b, pl_aten_arange(b, m->seq), PL_DT_F32);
    x = pl_aten_scalar(b, "aten.add.Tensor", x, 1);
    x = pl_aten_scalar(b, "aten.div.Tensor", x, pl_hf_float(m, "floor_scale", 8192));
    x = pl_aten_unary(b, "aten.log1p.default", pl_aten_unary(b, "aten.floor.default", x));
    x = pl_aten_scalar(b, "aten.mul.Tensor", x, pl_hf_float(m, "attn_scale", 0.1));
    x = pl_aten_scalar(b, "aten.add.Tensor", x, 1);
    pl_line(b, "2: attn_scales = attn_scales.view().expand()");
    x = pl_aten_view(b, x, PL_SIZES(1, m->seq, 1, 1));
    x = pl_aten_expand(b, x, PL_SIZES(m->batch, m->seq, 1, 1));
    pl_line(b, "3: query_states = (query_states * attn_scales).to(query_states.dtype)");
    return pl_aten_type_as(b, pl_aten_mul(b, q, x), q);
}

static int32_t project(pl_decoding *d, const char *name, int32_t x, int64_t heads) {
    pl_hf *m = d->m;
    x = pl_hf_linear(m, name, x, heads * d->head_dim, d->qkv_bias);
    return pl_aten_view(m->b, x, PL_SIZES(m->batch, m->seq, -1, d->head_dim));
}

static int32_t attention(pl_decoding *d, int64_t layer, int32_t x) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    bool turned = pl_llama4_turns(d, layer);
    pl_module_enter(b, "self_attn", d->attention_type);
    pl_module_children(b, "q_proj k_proj v_proj o_proj qk_norm");
    pl_line(b, "1: query_states = self.q_proj(hidden_states).view(hidden_shape)");
    int32_t q = project(d, "q_proj", x, d->heads);
    pl_line(b, "1: key_states = self.k_proj(hidden_states).view(hidden_shape)");
    int32_t k = project(d, "k_proj", x, d->kv_heads);
    pl_line(b, "value_states = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)");
    int32_t v = pl_aten_transpose(b, project(d, "v_proj", x, d->kv_heads), 1, 2);
    if (turned) {
        pl_line(b, "query_states, key_states = apply_rotary_emb(");
        int32_t by = pl_aten_unsqueeze(b, d->cos[0], 2);
        pl_latent_turn_complex(b, &q, &k, by);
    }
    if (turned && pl_hf_bool(m, "use_qk_norm", true)) {
        pl_line(b, "2: query_states = self.qk_norm(query_states)");
        q = qk_norm(d, q);
        pl_line(b, "2: key_states = self.qk_norm(key_states)");
        k = qk_norm(d, k);
    }
    if (!turned && pl_hf_bool(m, "attn_temperature_tuning", true)) q = tempered(d, q);
    pl_line(b, "4: query_states = query_states.transpose(1, 2)");
    q = pl_aten_transpose(b, q, 1, 2);
    pl_line(b, "4: key_states = key_states.transpose(1, 2)");
    k = pl_aten_transpose(b, k, 1, 2);
    int32_t y = pl_decoder_attend(d, q, k, v, pl_decoder_slides(d, layer));
    pl_line(b, "2: attn_output = attn_output.reshape(*input_shape, -1).contiguous()");
    y = pl_aten_reshape(b, y, PL_SIZES(m->batch, m->seq, -1));
    pl_line(b, "3: attn_output = self.o_proj(attn_output)");
    y = pl_hf_linear(m, "o_proj", y, d->width, d->out_bias);
    pl_module_leave(b);
    return y;
}

/* ---- feed-forward ---- */

static int32_t mlp(pl_decoding *d, int32_t x, int64_t inner) {
    pl_hf *m = d->m;
    pl_line(m->b, "down_proj = self.activation_fn(self.gate_proj(x)) * self.up_proj(x)");
    int32_t gate = pl_hf_linear(m, "gate_proj", x, inner, false);
    gate = pl_hf_activation(m, "activation_fn", d->act, gate);
    int32_t y = pl_aten_mul(m->b, gate, pl_hf_linear(m, "up_proj", x, inner, false));
    pl_line(m->b, "return self.down_proj(down_proj)");
    return pl_hf_linear(m, "down_proj", y, d->width, false);
}

/* Scores [tokens, experts], 0 where the token does not go. */
static int32_t route(pl_decoding *d, int32_t x) {
    pl_builder *b = d->m->b;
    int64_t tokens = pl_built_size(b, x, 0);
    pl_module_enter(b, "router", "transformers.models.llama4.modeling_llama4.Llama4Router");
    pl_line(b, "router_logits = super().forward(hidden_states)");
    int32_t weight = pl_build_parameter(b, "weight", PL_SIZES(d->experts, d->width));
    int32_t logits = pl_aten_linear(b, x, weight, PL_NONE);
    pl_dtype type = pl_built(b, logits)->dtype;
    pl_line(b, "router_top_value, router_indices = torch.topk(router_logits, self.top_k, dim=1)");
    pl_call(b, "aten.topk.default");
    pl_call_tensor(b, "self", logits);
    pl_call_int(b, "k", d->chosen);
    pl_call_int(b, "dim", 1);
    int32_t values = pl_call_result(b, type, PL_SIZES(tokens, d->chosen));
    int32_t places = pl_call_result(b, PL_DT_I64, PL_SIZES(tokens, d->chosen));
    pl_line(b, "1: router_scores = torch.full_like(router_logits, -inf).scatter_()");
    pl_call(b, "aten.full_like.default");
    pl_call_tensor(b, "self", logits);
    pl_call_float(b, "fill_value", -INFINITY);
    int32_t scores = pl_call_result_like(b, logits);
    pl_call(b, "aten.scatter_.src");
    pl_call_tensor(b, "self", scores);
    pl_call_int(b, "dim", 1);
    pl_call_tensor(b, "index", places);
    pl_call_tensor(b, "src", values);
    scores = pl_call_result_like(b, scores);
    pl_line(b, "2: router_scores = sigmoid(router_scores.float()).to(router_scores.dtype)");
    int32_t wide = pl_aten_unary(b, "aten.sigmoid.default", pl_aten_to(b, scores, PL_DT_F32));
    scores = pl_aten_type_as(b, wide, scores);
    pl_module_leave(b);
    return scores;
}

/* x [experts tokens, width] to the same */
static int32_t run_experts(pl_decoding *d, int32_t x) {
    pl_builder *b = d->m->b;
    int32_t parts[2];
    pl_module_enter(b, "experts", d->experts_type);
    int32_t gate_up =
        pl_build_parameter(b, "gate_up_proj", PL_SIZES(d->experts, d->width, 2 * d->inner));
    int32_t down = pl_build_parameter(b, "down_proj", PL_SIZES(d->experts, d->inner, d->width));
    pl_line(b, "hidden_states = hidden_states.view(self.gate_up_proj.shape[0], -1, hidden_size)");
    x = pl_aten_view(b, x, PL_SIZES(d->experts, -1, d->width));
    pl_line(b, "gate_up = torch.bmm(hidden_states, self.gate_up_proj)");
    int32_t both = pl_aten_bmm(b, x, gate_up);
    pl_line(b, "gate, up = gate_up.chunk(2, dim=-1)");
    pl_aten_chunk(b, both, 2, -1, parts);
    pl_line(b, "1: next_states = torch.bmm((up * self.act_fn(gate)), self.down_proj)");
    int32_t y = pl_aten_mul(b, parts[1], pl_hf_activation(d->m, "act_fn", d->act, parts[0]));
    y = pl_aten_bmm(b, y, down);
    pl_line(b, "2: next_states = next_states.view(-1, self.hidden_size)");
    y = pl_aten_view(b, y, PL_SIZES(-1, d->width));
    pl_module_leave(b);
    return y;
}

static int32_t mixture(pl_decoding *d, int32_t x) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    pl_module_children(b, "experts router shared_expert");
    pl_line(b, "hidden_states = hidden_states.reshape(-1, self.hidden_dim)");
    x = pl_aten_reshape(b, x, PL_SIZES(-1, d->width));
    pl_line(b, "router_scores, router_logits = self.router(hidden_states)");
    int32_t scores = route(d, x);
    pl_line(b, "1: routed_in = hidden_states.repeat(router_scores.shape[1], 1)");
    int32_t y = pl_aten_repeat(b, x, PL_SIZES(d->experts, 1));
    pl_line(b, "2: routed_in = routed_in * router_scores.transpose(0, 1).reshape(-1, 1)");
    int32_t turned = pl_aten_reshape(b, pl_aten_transpose(b, scores, 0, 1), PL_SIZES(-1, 1));
    y = pl_aten_mul(b, y, turned);
    pl_line(b, "routed_out = self.experts(routed_in)");
    y = run_experts(d, y);
    pl_line(b, "out = self.shared_expert(hidden_states)");
    pl_module_enter(b, "shared_expert", d->mlp_type);
    int32_t out = mlp(d, x, d->inner);
    pl_module_leave(b);
    pl_line(b, "out.add_(routed_out.reshape(router_scores.shape[1], -1, width).sum(dim=0))");
    y = pl_aten_reshape(b, y, PL_SIZES(d->experts, -1, d->width));
    y = pl_aten_reduce(b, "aten.sum.dim_IntList", y, 0, false);
    return pl_aten_binary(b, "aten.add_.Tensor", out, y);
}

/* ---- layers ---- */

static bool has_experts(pl_decoding *d, int64_t layer) {
    pl_hf *m = d->m;
    int64_t count = pl_hf_list(m, "moe_layers");
    for (int64_t i = 0; i < count; i++)
        if (pl_hf_list_int(m, "moe_layers", i, -1) == layer) return true;
    int64_t step = pl_hf_int(m, "interleave_moe_layer_step", 1);
    return count == 0 && (step < 1 || (layer + 1) % step == 0);
}

int32_t pl_llama4_layer(pl_decoding *d, int64_t index, int32_t x) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    bool sparse = has_experts(d, index);
    pl_module_enter(b, pl_build_text(b, "layers.%lld", (long long)index), d->layer_type);
    pl_module_children(b, "self_attn feed_forward input_layernorm post_attention_layernorm");
    pl_line(b, "1: hidden_states = self.input_layernorm(hidden_states)");
    int32_t y = pl_decoder_norm(d, "input_layernorm", x);
    pl_line(b, "attention_states, _ = self.self_attn(");
    y = attention(d, index, y);
    pl_line(b, "2: hidden_states = residual + attention_states");
    x = pl_aten_add(b, x, y);
    pl_line(b, "3: hidden_states = self.post_attention_layernorm(hidden_states)");
    y = pl_decoder_norm(d, "post_attention_layernorm", x);
    pl_line(b, "4: hidden_states = self.feed_forward(hidden_states)");
    pl_module_enter(b, "feed_forward", sparse ? pl_decoder_type(d, "Moe") : d->mlp_type);
    y = sparse ? mixture(d, y) : mlp(d, y, pl_hf_need(m, "intermediate_size_mlp"));
    pl_module_leave(b);
    pl_line(b, "5: hidden_states = residual + hidden_states.view(residual.shape)");
    x = pl_aten_add(b, x, pl_aten_view(b, y, PL_SIZES(m->batch, m->seq, d->width)));
    pl_module_leave(b);
    return x;
}
